#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site of some hundred nodes gains, and what that costs: stock Slurm, shadow, enforce.

The rows starts and backfill of the demo, with the configuration that is shipped, one cluster after
the other. The costs are those of the queue that stands then, with a backfill cycle every 2 s.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
import time

import bench_10k
from demo_rows import Backfill, Large, Starts
from slurmcluster import ClusterError, procs
from slurmcluster.conf import CLOUD_MAX

MODES = ("stock", "shadow", "enforce")
STAND_S = 60        # the queue is watched for so long
SETTLE_S = 6        # then the history has written what it was told
JOBS = 10_000       # of the day whose history is told
CYCLES = 86_400 // 30   # of backfill then, by Slurm's default bf_interval
LINES = (("jobs started a second", "starts_per_s", 0),
         ("one backfill cycle, ms", "backfill_ms", 1),
         ("one cycle of the main scheduler, ms", "main_ms", 2),
         ("`sbatch` beyond process start, ms", "sbatch_ms", 1),
         ("slurmctld: % of a core", "slurmctld_pct", 1), ("MB", "slurmctld_mb", 0),
         ("phalanxd: % of a core", "phalanxd_pct", 1), ("MB", "phalanxd_mb", 0),
         (f"history, MB a day: of {JOBS:,} jobs", "jobs_mb", 1),
         (f"of {Backfill.waiting} that wait, {CYCLES:,} cycles", "queue_mb", 1))


def history_bytes(cluster):
    """Bytes that the history's records take in their file."""
    time.sleep(SETTLE_S)
    path = os.path.join(cluster.paths.var, "history.sqlite")
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as history:
        return history.execute("SELECT sum(pgsize - unused) FROM dbstat").fetchone()[0]


def resident_mb(pid):
    """Memory of a process."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(r"VmRSS:\s*(\d+)", file.read())[1]) / 1024


def told(cluster, section, key):
    """A number of a section of sdiag."""
    part = cluster.run("sdiag").stdout.split(section)[1]
    return int(re.search(rf"{key}: +(\d+)", part)[1])


def stand(cluster):
    """What the daemons use while the queue stands."""
    daemons = {process.role: process.pid for process in cluster.running()}
    cycles = told(cluster, "Backfilling stats", "Total cycles")
    written = 0 if cluster.stock else history_bytes(cluster)
    ticks = {role: bench_10k.cpu_ticks(pid) for role, pid in daemons.items()}
    begin = time.monotonic()
    time.sleep(STAND_S)
    seconds = time.monotonic() - begin
    numbers = {"main_ms": told(cluster, "Main schedule statistics", "Mean cycle") / 1e3}
    for role, pid in daemons.items():
        used = (bench_10k.cpu_ticks(pid) - ticks[role]) / bench_10k.TICKS_PER_S
        numbers[f"{role}_pct"], numbers[f"{role}_mb"] = 100 * used / seconds, resident_mb(pid)
    if not cluster.stock:
        written = history_bytes(cluster) - written
        cycles = told(cluster, "Backfilling stats", "Total cycles") - cycles
        numbers["queue_mb"] = written / max(1, cycles) * CYCLES / 1e6
    return numbers


def started(cluster, row):
    """The list of starts, and what the history keeps of a job that started and ended."""
    before = 0 if cluster.stock else history_bytes(cluster)
    numbers = row.work(cluster)
    if not cluster.stock:
        cluster.run("scancel", "--user", str(os.getuid()))
        cluster.wait_jobs(timeout=60)
        numbers["jobs_mb"] = (history_bytes(cluster) - before) / numbers["jobs"] * JOBS / 1e6
    return numbers


def measure(mode, args, root):
    """The numbers of one mode."""
    numbers = {}
    for kind in (Starts, Backfill):
        row = kind(args.seed, os.path.join(root, mode))
        with row.make(mode, mode == "stock", mode) as cluster:
            procs.favour([process.pid for process in cluster.running()], args.nice)
            numbers |= started(cluster, row) if kind is Starts else \
                row.work(cluster) | stand(cluster)
    return numbers


def table(found, args):
    """Lines of Markdown."""
    lines = [f"{args.nodes} nodes, a quarter with GPUs, seed {args.seed}, nice {args.nice}:", "",
             f"| | {' | '.join(found)} |", "|---|" + "---|" * len(found)]
    for title, key, digits in LINES:
        cells = (numbers.get(key) for numbers in found.values())
        shown = ("-" if cell is None else f"{cell:,.{digits}f}" for cell in cells)
        lines.append(f"| {title} | {' | '.join(shown)} |")
    others = ", ".join(f"{numbers['others_pct']:.0f}" for numbers in found.values())
    return [*lines, "", f"CPU of others during the starts, %: {others} of {os.cpu_count()} CPUs"]


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modes", default=",".join(MODES), help="comma-separated")
    parser.add_argument("--nice", type=int, default=0, metavar="N",
                        help="nice value of the daemons, on a machine that others use as well")
    args = parser.parse_args()
    args.modes = args.modes.split(",")
    if not set(args.modes) <= set(MODES) or not 160 <= args.nodes <= CLOUD_MAX:
        parser.error(f"--modes: of {', '.join(MODES)}; --nodes: 160 to {CLOUD_MAX}")
    return args


def main():
    """Measures one mode after the other, prints the table."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    args, found = arguments(), {}
    Large.nodes = args.nodes
    root = tempfile.mkdtemp(prefix="phalanx-site-")
    try:
        for mode in args.modes:
            found[mode] = measure(mode, args, root)
            print(f"{mode}: done", flush=True)
    except (ClusterError, OSError) as error:
        print(f"bench_site: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print("", *table(found, args), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
