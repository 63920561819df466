#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does `phalanx simulate` foretell what a real cluster does?

One list of short jobs is worked through by 16 real nodes, under stock Slurm and under Phalanx,
and simulated from nothing but what was known beforehand: when each job was submitted, what it
asked for and how long it sleeps. Makespan and order of starts are held against each other.
"""

import contextlib
import csv
import functools
import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from slurmcluster import Cluster, ClusterError
from slurmcluster.jobs import seconds
from slurmcluster.suite import Case, Cases, Suite, check, command_line, run

# The default nodes of the harness, as --nodes takes them.
SPEC = ("6x(cpu=8,mem=16000,weight=10)+4x(cpu=8,mem=64000,weight=20)"
        "+4x(cpu=8,mem=32000,gpu=4,weight=50)+2x(cpu=16,mem=64000,gpu=2,weight=80)")
POLICIES = ("slurm", "phalanx")
TURNAROUND_S = "1"          # epilog, and a pass of the scheduler each second
SLEEP_S = (3, 18)
MAKESPAN_OFF_MAX = 0.10     # of the real makespan
MAKESPAN_OFF_S = 6.0        # or so much, where a list lasts for some 40 s only
RANKS_MIN = 0.90            # Spearman's correlation of starts
RUN_LIMIT_S = 600


def work_list(count, gap_s, seed):
    """(seconds after the start, sbatch options, seconds it sleeps) of each job."""
    rng, at, jobs = random.Random(seed), 0.0, []
    for _ in range(count):
        kind = rng.random()
        if kind < 0.6:
            cpus = rng.choice([1, 2, 2, 4, 6, 8])
            options = ["-N1", "-n1", f"-c{cpus}", f"--mem={cpus * rng.choice([500, 1000, 1800])}M"]
        elif kind < 0.8:
            gpus = rng.choice([1, 1, 2, 4])
            options = ["-N1", "-n1", f"-c{gpus}", f"--gres=gpu:{gpus}", f"--mem={gpus}G"]
        else:
            options = [f"-N{rng.choice([2, 2, 3, 4])}",
                       f"--ntasks-per-node={rng.choice([2, 4, 8])}", "--mem=3G"]
        jobs.append((at, options, rng.randint(*SLEEP_S)))
        at += rng.expovariate(1 / gap_s)
    return jobs


def run_list(cluster, jobs):
    """Submits on time, waits for all; returns their records in order."""
    start, ids = time.monotonic(), []
    for at, options, sleep_s in jobs:
        time.sleep(max(0.0, at - (time.monotonic() - start)))
        ids.append(cluster.submit("-J", f"s{sleep_s}", "--time=2", *options,
                                  wrap=f"sleep {sleep_s}"))
    records = {int(r["JobId"]): r for r in cluster.wait_jobs(ids, timeout=RUN_LIMIT_S)}
    return [records[job] for job in ids]


def as_sacct(records, jobs):
    """The list as sacct would print it, but with the seconds that each job sleeps."""
    lines = ["JobID|User|JobName|State|Submit|Start|ElapsedRaw|TimelimitRaw|NodeList|ReqTRES"]
    for record, (_, _, sleep_s) in zip(records, jobs):
        lines.append("|".join([
            record["JobId"], record["UserId"].split("(")[0], record["JobName"], "COMPLETED",
            record["SubmitTime"], record["SubmitTime"], str(sleep_s), "2", record["NodeList"],
            record["TRES"]]))
    return "\n".join(lines) + "\n"


def simulate(cluster, policy, text, where, options):
    """{job id: simulated start} and the makespan."""
    path = os.path.join(where, "jobs.sacct")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    program = os.path.join(cluster.paths.bin_dir, "phalanx")
    words = ["--slurm-conf", cluster.paths.slurm_conf]
    if policy == "phalanx":
        words += ["--config", cluster.paths.phalanx_toml]
    done = subprocess.run([program, "simulate", "--jobs", path, "--format", "sacct", "--nodes",
                           SPEC, "--policy", policy, "--turnaround", TURNAROUND_S, "--json",
                           "--out", where, *words, *options],
                          capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise ClusterError(f"simulate: {done.stderr.strip()}")
    figures = json.loads(done.stdout)
    with open(os.path.join(where, "jobs.csv"), encoding="utf-8") as file:
        starts = {int(row["job"]): int(row["start_s"]) for row in csv.DictReader(file)}
    return starts, figures["makespan_s"]


def ranks(values):
    """The rank of each value; equal ones share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    result, at = [0.0] * len(values), 0
    while at < len(order):
        end = at
        while end < len(order) and values[order[end]] == values[order[at]]:
            end += 1
        for position in order[at:end]:
            result[position] = (at + end - 1) / 2
        at = end
    return result


def spearman(left, right):
    """Correlation of the ranks."""
    a, b = ranks(left), ranks(right)
    mean = (len(a) - 1) / 2
    product = sum((x - mean) * (y - mean) for x, y in zip(a, b))
    return product / (sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b)) ** 0.5


def compare(policy, cluster, jobs, records, where, options):
    """A line of the table, and whether it is within the bounds."""
    starts, simulated_s = simulate(cluster, policy, as_sacct(records, jobs), where, options)
    real = [seconds(record, "StartTime") for record in records]
    real_s = max(seconds(r, "EndTime") for r in records) - \
        min(seconds(r, "SubmitTime") for r in records)
    foretold = [starts[int(record["JobId"])] for record in records]
    alike = spearman(real, foretold)
    off = (simulated_s - real_s) / real_s
    waits = [sum(s - seconds(r, "SubmitTime") for s, r in zip(times, records)) / len(records)
             for times in (real, foretold)]
    print(f"{policy:8} makespan {real_s:4.0f} s, simulated {simulated_s:4.0f} s ({off:+.1%}); "
          f"mean wait {waits[0]:.1f} s, simulated {waits[1]:.1f} s; order of starts {alike:.3f}",
          flush=True)
    near = abs(off) <= MAKESPAN_OFF_MAX or abs(simulated_s - real_s) <= MAKESPAN_OFF_S
    return near and alike >= RANKS_MIN


class Reality(Suite):
    """The lists under way, each on a cluster of its own."""

    def __init__(self, root, args):
        super().__init__()
        self.root, self.args = root, args
        pool = ThreadPoolExecutor(len(POLICIES) if args.together else 1)
        self.ended = {one.name: pool.submit(self.work_through, one.name) for one in args.cases}
        self.close = functools.partial(pool.shutdown, cancel_futures=True)

    def work_through(self, policy):
        """One cluster works the list off; whether it did what was foretold."""
        args = self.args
        jobs = work_list(args.jobs, args.gap, args.seed)
        with Cluster(os.path.join(self.root, policy), stock=policy == "slurm") as cluster:
            records = run_list(cluster, jobs)
            where = os.path.join(self.root, f"simulated-{policy}")
            os.makedirs(where, exist_ok=True)
            with open(os.path.join(where, "records.json"), "w", encoding="utf-8") as file:
                json.dump(records, file)
            return compare(policy, cluster, jobs, records, where, args.options)


def foretold(policy, suite):
    """What the cluster did was simulated beforehand."""
    check(suite.ended[policy].result(), "not as foretold")


case = Cases()
for one_policy in POLICIES:
    case.add(Case(one_policy, f"Makespan and order of starts under {one_policy} are foretold",
                  functools.partial(foretold, one_policy)))


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--jobs", type=int, default=60, help="length of the list (default 60)")
    parser.add_argument("--gap", type=float, default=0.25, metavar="S",
                        help="mean time between two submissions (default 0.25)")
    parser.add_argument("--seed", type=int, default=1, help="of the list (default 1)")
    parser.add_argument("--together", action="store_true", help="both clusters at the same time")
    parser.add_argument("options", nargs="*", help="further options of `phalanx simulate`")


@contextlib.contextmanager
def setting(root, args):
    """Both clusters, one after the other unless told otherwise."""
    suite = Reality(root, args)
    try:
        yield suite
    finally:
        suite.close()


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, options), setting))
