# SPDX-License-Identifier: GPL-3.0-or-later
"""The same list of jobs, freely scheduled on stock Slurm and on Phalanx: what the switches saw.

Which nodes were idle at each start is read off slurmctld's log, whose lines are in the order of
its decisions. Backfill leaves nodes out that an earlier job is to have, so that `by choice` is an
upper bound; topology_steps compares exactly.
"""

import os
import random
import re
import time

from slurmcluster import ClusterError
from slurmcluster.clock import CLOCK
from slurmcluster.nodes import expand_hostlist
from slurmcluster.phalanx import read_status

EXTRA = ["SlurmctldDebug=debug2"]
EVENT = re.compile(
    r"\] (?:sched: Allocate JobId=(?P<main>\d+) NodeList=(?P<nodes>\S+)"
    r"|sched/backfill: _start_job: Started JobId=(?P<fill>\d+) in \S+ on (?P<others>\S+)"
    r"|_job_complete: JobId=(?P<done>\d+) done"
    r"|debug2: node_did_resp (?P<answered>\S+))")
JOB_S = (0.2, 3.0)
END_S = 300


def job_list(seed, count, segments=False, tasks=0):
    """sbatch options and seconds of `count` jobs of 1 to 10 nodes; `tasks` of a node: by -n."""
    rng, jobs = random.Random(seed), []
    for _ in range(count):
        nodes = rng.randint(1, 10)
        options = [f"-n{nodes * tasks}" if tasks else f"-N{nodes}", "--exclusive", "-t1"]
        if segments and nodes > 2 and nodes % 2 == 0 and rng.random() < 0.5:
            options.append("--segment=2")
        jobs.append((options, round(rng.uniform(*JOB_S), 2)))
    return jobs


def stream(cluster, jobs):
    """Runs the list to its end; returns the seconds from the first submission to the last end."""
    begin = time.monotonic()
    ids = [cluster.submit(*options, wrap=f"exec sleep {seconds}") for options, seconds in jobs]
    end = CLOCK.now() + END_S
    while cluster.run("squeue", "-h", "-o", "%i").stdout.strip():
        if CLOCK.now() > end:
            raise ClusterError(f"jobs are left after {END_S} s")
        time.sleep(0.1)
    return ids, time.monotonic() - begin


def starts(log, nodes):
    """(job id, its nodes, nodes idle before) of every start in a log of slurmctld."""
    busy, found, ended = {}, [], set()
    with open(log, encoding="utf-8", errors="replace") as file:
        for match in filter(None, map(EVENT.search, file)):
            if match["done"]:
                ended.add(match["done"])
            elif match["answered"]:
                if busy.get(match["answered"]) in ended:
                    del busy[match["answered"]]
            else:
                job = match["main"] or match["fill"]
                mine = expand_hostlist(match["nodes"] or match["others"])
                # A node that answered in this moment may be logged just after the start.
                found.append((int(job), mine, (nodes - set(busy)) | set(mine)))
                busy |= dict.fromkeys(mine, job)
    return found


def measure(cluster, topology, jobs):
    """One side's numbers of a list."""
    before = read_status(cluster) if not cluster.stock else None
    ids, makespan = stream(cluster, jobs)
    log = os.path.join(cluster.paths.log, "slurmctld.log")
    nodes = {node.name for node in cluster.fragment.nodes}
    wide = [start for start in starts(log, nodes) if start[0] in set(ids) and len(start[1]) > 1]
    used = [topology.used(mine) for _, mine, _ in wide]
    ideal = [topology.ideal(len(mine)) for _, mine, _ in wide]
    least = [topology.fewest(idle, len(mine)) or here
             for (_, mine, idle), here in zip(wide, used)]
    result = {"jobs": len(wide), "leaves": mean(used),
              "extra": mean(a - b for a, b in zip(used, ideal)),
              "by choice": mean(a - b for a, b in zip(used, least)),
              "fewest %": 100 * mean(a == b for a, b in zip(used, least)),
              "makespan s": makespan}
    if before:
        after = read_status(cluster)
        result["narrowed"] = after["narrowed"] - before["narrowed"]
        result["refused"] = refused(after) - refused(before)
    return result


def refused(status):
    """Narrowed sets that slurmctld did not take."""
    return status["fallen_back"].get("narrow_failed", 0)


def mean(values):
    """The mean; 0 of nothing."""
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def table(rows):
    """Lines of (setting, seed, side, numbers)."""
    keys = ["jobs", "leaves", "extra", "by choice", "fewest %", "makespan s", "narrowed", "refused"]
    lines = ["| topology | seed | side | " + " | ".join(keys) + " |",
             "|---|---|---|" + "---|" * len(keys)]
    for name, seed, side, numbers in rows:
        cells = (numbers.get(key, "-") for key in keys)
        shown = (f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells)
        lines.append(f"| {name} | {seed} | {side} | " + " | ".join(shown) + " |")
    return lines
