#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Are proofs right? Every one is held against Slurm's own answer in full.

A cluster of CLOUD nodes, full of jobs with many limits, and a queue of CPU and GPU jobs,
gangs, arrays, `--time-min` and reservations, over which backfill goes again and again while
limits change, jobs end and are suspended. With `--bench N` the other question: how long a
backfill cycle of equal depth and a submission take on N nodes, without and with proofs.
"""

import contextlib
import os
import random
import re
import sys
import tempfile
import time
from statistics import median

from slurmcluster import Cluster
from slurmcluster.conf import PATIENT, write_config
from slurmcluster.measure import seconds_of
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.suite import Cases, Suite, command_line, run

NODES = 96
BACKFILL = ("SchedulerParameters=bf_interval={interval},bf_max_job_test=2000,bf_window=20160,"
            "bf_continue,max_sched_time=99,default_queue_depth=100000,batch_sched_delay=1,"
            "sched_interval=60,bf_max_time=280,bf_yield_interval=250000000")
EXTRA = ("MessageTimeout=200", BACKFILL.format(interval=2) + ",phalanx_compare=1")
KINDS = ("test_only", "will_run")
CYCLE = re.compile(r"Last cycle: +(\d+)")
DEPTH = re.compile(r"Last depth cycle: +(\d+)")
case = Cases()


def config(proofs="all"):
    """The daemon's configuration."""
    return PATIENT.replace("[link]\n", f'[link]\nproofs = "{proofs}"\n')


def waiting(rng):
    """Options of one job that waits."""
    gpus, nodes = rng.choice([0, 0, 1, 2, 4]), rng.choice([1, 1, 2, 3, 8, 20])
    words = [f"-N{nodes}", f"--ntasks-per-node={rng.choice([1, 2, 4])}",
             f"--cpus-per-task={rng.choice([1, 4, 16])}", f"--mem={rng.choice([1, 16, 60])}G",
             f"--time={rng.choice([5, 30, 60, 600])}"]
    if gpus:
        words.append(f"--gres=gpu:{gpus}")
    words += rng.choice([[], [], [], ["--array=1-3"], ["--time-min=2"], ["--exclusive"],
                         ["--mem-per-cpu=500M"], ["--contiguous"]])
    return [w for w in words if not (w.startswith("--mem=") and "--mem-per-cpu=500M" in words)]


class Proofs(Suite):
    """A full cluster and its queue."""

    soon_s = 240.0
    rng = random.Random(11)

    def proofs(self):
        """Counts by kind."""
        return phalanx_json(self.cluster, "status")["proofs"]

    def fill(self, count=60):
        """Jobs that take the nodes, with many limits."""
        for _ in range(count):
            nodes, minutes = self.rng.choice([1, 2, 3, 5]), self.rng.randint(2, 300)
            self.cluster.submit(f"-N{nodes}", "--ntasks-per-node=1", f"--time={minutes}",
                                f"--cpus-per-task={self.rng.choice([16, 32, 64])}", "--mem=60G",
                                f"--gres=gpu:{self.rng.choice([1, 2, 4])}")

    def verified(self, more):
        """Waits for so many verified proofs of planned starts; none may be wrong."""
        goal = self.proofs()["will_run"]["accepted"] + more
        self.until(lambda: self.proofs()["will_run"]["accepted"] >= goal
                   or any(self.proofs()[kind]["refuted"] for kind in KINDS), f"{more} proofs")
        counts = self.proofs()
        self.summary = ", ".join(f"{kind}: {counts[kind]['accepted']} compared, "
                                 f"{counts[kind]['rejected']} rejected" for kind in KINDS)
        self.expect(not any(counts[kind]["refuted"] for kind in KINDS),
                    f"refuted: {counts}\n{self.said()}")

    def said(self):
        """What the daemon said of it."""
        path = os.path.join(self.cluster.paths.log, "phalanxd.out")
        with open(path, encoding="utf-8", errors="replace") as file:
            return "".join(line for line in file if "refuted" in line)


@case
def queue(suite):
    """A mixed queue on a full cluster"""
    suite.fill()
    for _ in range(40):
        suite.cluster.submit(*waiting(suite.rng))
    suite.verified(500)
    counts = suite.proofs()["test_only"]
    suite.expect(counts["accepted"] > 50, f"submissions: {counts}")


@case(needs=["queue"])
def changes(suite):
    """Limits change, jobs end and are suspended, nodes are reserved"""
    running = [int(r["JobId"]) for r in suite.cluster.jobs() if r["JobState"] != "PENDING"]
    suite.expect(len(running) > 20, f"only {len(running)} jobs run")
    suite.cluster.run("scontrol", "create", "reservation", "Users=root", "StartTime=now+20minutes",
                      "Duration=60", "NodeCnt=20", "Flags=IGNORE_JOBS", "ReservationName=r1")
    for turn in range(8):
        for job in suite.rng.sample(running, 4):
            suite.cluster.run("scontrol", "update", f"JobId={job}",
                              f"TimeLimit={suite.rng.randint(3, 400)}", check=False)
        suite.cluster.run("scancel", str(suite.rng.choice(running)), check=False)
        suite.cluster.submit(*waiting(suite.rng))
        if turn == 4:
            suite.cluster.run("scontrol", "suspend", str(suite.rng.choice(running)), check=False)
        suite.verified(200)


@contextlib.contextmanager
def setting(root, _args):
    """One cluster, with every proof verified."""
    place = os.path.join(root, "c")
    with Cluster(place, cloud=NODES, extra=EXTRA, config=write_config(place, config())) as cluster:
        yield Proofs(cluster)


# ---- figures

def backfill_ms(cluster):
    """Time and depth of the last backfill cycle."""
    text = cluster.run("sdiag").stdout
    part = text[text.index("Backfilling stats"):]
    return int(CYCLE.search(part)[1]) / 1e3, int(DEPTH.search(part)[1])


def planned(cluster, zero):
    """Planned start of each waiting job by id, in seconds from `zero`."""
    lines = cluster.run("squeue", "-h", "-t", "PD", "-o", "%A %S").stdout.splitlines()
    starts = {job: seconds_of(start) for job, start in (line.split() for line in lines)}
    return {job: start - zero for job, start in starts.items() if start}


def measure(cluster, args):
    """Median of cycles of equal depth, time of a submission, planned starts."""
    rng = random.Random(5)
    for _ in range(args.running):
        size = max(1, args.bench // args.running)
        cluster.submit(f"-N{size}", "--ntasks-per-node=1", "--gres=gpu:4",
                       f"--time={rng.randint(60, 3000)}")
    for _ in range(args.waiting):
        cluster.submit(f"-N{rng.choice([1, 2, 4, 8])}", "--gres=gpu:2", "--time=60",
                       "--ntasks-per-node=1")
    cycles = []
    while len(cycles) < args.cycles:
        found = backfill_ms(cluster)
        if found[1] >= args.waiting and (not cycles or found != cycles[-1]):
            cycles.append(found)
        time.sleep(1)
    zero = min(seconds_of(r["StartTime"]) for r in cluster.jobs() if r["JobState"] != "PENDING")
    starts = planned(cluster, zero)
    submits, starts_only = [], []
    for _ in range(20):
        begin = time.monotonic()
        cluster.submit("-N2", "--gres=gpu:2", "--time=60", "--ntasks-per-node=1")
        submits.append(time.monotonic() - begin)
        begin = time.monotonic()
        cluster.run("sbatch", "--version")
        starts_only.append(time.monotonic() - begin)
    return median(ms for ms, _ in cycles), 1e3 * (median(submits) - median(starts_only)), starts


def bench(args, root):
    """Stock, the overlay without proofs, with proofs: in turn on the same queue."""
    rows = {}
    for name in ("stock", "no proofs", "proofs"):
        place = os.path.join(root, name.replace(" ", "-"))
        extra = ("MessageTimeout=600", BACKFILL.format(interval=args.interval))
        text = write_config(place, config("planning" if name == "proofs" else "none"))
        with Cluster(place, stock=name == "stock", cloud=args.bench, extra=extra,
                     config=None if name == "stock" else text) as cluster:
            rows[name] = measure(cluster, args)
            print(f"{name:10} backfill cycle {rows[name][0]:10.1f} ms, sbatch beyond process "
                  f"start {rows[name][1]:6.1f} ms", flush=True)
            if name == "proofs":
                print(phalanx(cluster, "status").stdout)
    for at, what in enumerate(("backfill cycle", "sbatch")):
        print(f"{what}: stock / proofs = {rows['stock'][at] / rows['proofs'][at]:.1f}")
    stock, ours = rows["stock"][2], rows["proofs"][2]
    later = sorted(ours[job] - stock[job] for job in stock.keys() & ours.keys())
    print(f"planned starts of {len(later)} jobs (stock {len(stock)}, proofs {len(ours)}): from "
          f"{-later[0]:.0f} s earlier to {later[-1]:.0f} s later than stock's, mean "
          f"{sum(later) / len(later):+.1f} s")


def options(parser):
    """What the suite has beside the usual options."""
    parser.add_argument("--bench", type=int, metavar="NODES", help="measure on so many nodes")
    parser.add_argument("--running", type=int, default=50, help="jobs that fill them")
    parser.add_argument("--waiting", type=int, default=100, help="jobs that wait")
    parser.add_argument("--cycles", type=int, default=3, help="backfill cycles")
    parser.add_argument("--interval", type=int, default=5, help="bf_interval")


def main():
    """The suite, or the figures."""
    args = command_line(__doc__, case, options)
    if not args.bench:
        return run(args, setting)
    with tempfile.TemporaryDirectory(prefix="phalanx-proofs-") as root:
        bench(args, root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
