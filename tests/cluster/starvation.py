#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do large jobs start as early as with stock Slurm when small ones come behind them?

Two clusters with real slurmds do the same list at once, one with stock Slurm, one with all three
proofs on. Jobs of all nodes wait for some that run up to their limit; a stream of small ones comes
behind, of which some end before the large job can start and the others would delay it. Held: when
each large job starts, and when the last job ends.
"""

import contextlib
import os
import random
import sys
import threading
import time

from slurmcluster import Cluster
from slurmcluster.conf import write_config
from slurmcluster.measure import seconds_of
from slurmcluster.pair import boot
from slurmcluster.phalanx import phalanx_json
from slurmcluster.suite import Cases, Suite, command_line, run

NODES = """\
NodeName=n[1-8] CPUs=4 RealMemory=4000 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
EXTRA = ("SchedulerParameters=bf_interval=1,bf_resolution=60,bf_continue,batch_sched_delay=1,"
         "sched_interval=2",)
CONFIG = """\
mode = "enforce"
[link]
deadline_us = 20000
proofs = "all"
"""
SEEDS = (1, 2)
LARGE = 3
SLACK_S = 8         # two clusters on one machine: what starts and ends of sleeps differ by
case = Cases()


def job_list(seed):
    """(seconds, name, options, sleep) of each job, by time."""
    rng = random.Random(seed)
    jobs = [(0.0, "fill", ["-N2", "--exclusive", f"--time={limit}"], 60 * limit - 8)
            for limit in (1, 1, 2)]
    for turn in range(LARGE):
        at = 2.0 + 25 * turn
        jobs.append((at, f"large{turn}", ["-N8", "--ntasks-per-node=4", "--time=1"], 6))
        for number in range(12):
            options = [f"-N{rng.choice([1, 1, 2])}", f"--ntasks-per-node={rng.choice([1, 2, 4])}",
                       f"--time={rng.choice([1, 1, 2, 3])}"]
            options += rng.choice([[], [], ["--gres=gpu:1"], ["--mem=1000"]])
            sleep = rng.choice([3, 5, 8, 20])
            jobs.append((at + 0.4 + 0.4 * number, f"small{turn}-{number}", options, sleep))
    return sorted(jobs)


class Side(threading.Thread):
    """One cluster that does a list."""

    def __init__(self, cluster, seed):
        super().__init__(daemon=True)
        self.cluster, self.seed, self.starts, self.error, self.end = cluster, seed, {}, None, 0.0

    def run(self):
        try:
            self.work()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def work(self):
        """Submits on time, waits for the last end; starts by name, from the first submission."""
        names, begin, wall = {}, time.monotonic(), time.time()
        for at, name, options, sleep in job_list(self.seed):
            time.sleep(max(0.0, begin + at - time.monotonic()))
            names[self.cluster.submit("-J", name, *options, wrap=f"sleep {sleep}")] = name
        limit = time.monotonic() + 600
        while time.monotonic() < limit:
            records = {int(r["JobId"]): r for r in self.cluster.jobs()}
            mine = {job: records[job] for job in names}
            if all(r["JobState"] == "COMPLETED" for r in mine.values()):
                break
            time.sleep(1)
        else:
            raise AssertionError(f"not all completed: {[r['JobState'] for r in mine.values()]}")
        self.starts = {names[job]: seconds_of(r["StartTime"]) - wall for job, r in mine.items()}
        self.end = max(seconds_of(r["EndTime"]) for r in mine.values()) - wall


class Starvation(Suite):
    """The two clusters."""

    def __init__(self, clusters, args):
        super().__init__(clusters[1])
        self.clusters, self.args = clusters, args


def compare(suite, seed):
    """One list on both."""
    sides = [Side(cluster, seed) for cluster in suite.clusters]
    for side in sides:
        side.start()
    for side in sides:
        side.join()
        suite.expect(side.error is None, f"seed {seed}: {side.error}")
    stock, ours = sides
    large = [name for name in stock.starts if name.startswith("large")]
    late = [ours.starts[name] - stock.starts[name] for name in large]
    suite.summary = (f"large start after {[round(stock.starts[n]) for n in large]} s with stock, "
                     f"{[round(ours.starts[n]) for n in large]} s with proofs; last end "
                     f"{stock.end:.0f}, {ours.end:.0f} s")
    suite.expect(max(late) <= SLACK_S, f"seed {seed}: large jobs later by {late}")
    suite.expect(ours.end <= stock.end + SLACK_S, f"seed {seed}: ends {stock.end}, {ours.end}")


@case
def first(suite):
    """Large jobs start no later than with stock"""
    compare(suite, SEEDS[0])


@case
def second(suite):
    """Another list"""
    compare(suite, SEEDS[1])
    proofs = phalanx_json(suite.cluster, "status")["proofs"]
    suite.expect(proofs["will_run"]["accepted"] > 20, f"hardly any proof: {proofs}")
    suite.expect(not any(kind["refuted"] for kind in proofs.values()), f"refuted: {proofs}")


@contextlib.contextmanager
def setting(root, args):
    """Both clusters."""
    clusters = []
    for name in ("stock", "phalanx"):
        place = os.path.join(root, name)
        config = write_config(place, CONFIG) if name == "phalanx" else None
        clusters.append(Cluster(place, stock=name == "stock", nodes=NODES, extra=EXTRA,
                                config=config))
    boot(clusters)
    try:
        yield Starvation(clusters, args)
    finally:
        for cluster in clusters:
            cluster.down()


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
