#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site of some hundred nodes gains, and what that costs: stock Slurm, off, shadow, enforce.

The rows starts and backfill of the demo, with the configuration that is shipped, one cluster after
the other, and each round from another one on. The costs are those of the queue that stands then,
with a backfill cycle every 2 s. slurmctld has the first CPU, all others have the rest.
"""

import argparse
import contextlib
import glob
import os
import random
import re
import shutil
import signal
import sqlite3
import statistics
import sys
import tempfile
import time

import bench_10k
from demo_rows import Backfill, Large, Starts
from rounds import interval, slurmctld_apart
from slurmcluster import ClusterError, procs
from slurmcluster.conf import CLOUD_MAX

MODES = ("stock", "off", "shadow", "enforce")
SETTLE_S = 6        # then the history has written what it was told
JOBS = 10_000       # of the day whose history is told
CYCLES = 86_400 // 30   # of backfill then, by Slurm's default bf_interval
LINES = (("jobs started a second", "starts_per_s", 0),
         ("CPU time of a start, us", "start_us", 0),
         ("one backfill cycle, ms", "backfill_ms", 0), ("of its thread", "backfill_cpu_ms", 1),
         ("one cycle of the main scheduler, ms", "main_ms", 2),
         ("`sbatch` beyond process start, ms", "sbatch_ms", 1),
         ("slurmctld: % of a core", "slurmctld_pct", 1), ("MB", "slurmctld_mb", 0),
         ("phalanxd: % of a core", "phalanxd_pct", 1), ("MB", "phalanxd_mb", 0),
         (f"history, MB a day: of {JOBS:,} jobs", "jobs_mb", 1),
         (f"of {Backfill.waiting} that wait, {CYCLES:,} cycles", "queue_mb", 1))


class SmallStarts(Starts):
    """Jobs as sites have most of: few CPUs, a GPU or two."""

    def work(self, cluster):
        """Lets a list start at once; returns the CPU time of slurmctld's thread too."""
        if not cluster.stock:
            bench_10k.wait_ready(cluster)
        rng = random.Random(self.seed)
        options = [("-N1", f"--gres=gpu:{rng.choice([1, 1, 2])}", "--ntasks-per-node=1",
                    "--cpus-per-task=2", "--mem=4G", "--time=60") if number % 4 == 0 else
                   (f"-n{rng.choice([1, 4, 8, 64])}", "--mem-per-cpu=1G", "--time=60")
                   for number in range(self.nodes * 3 // 4)]
        before = {}
        numbers = bench_10k.run_list(cluster, options, partition="main",
                                     prepare=lambda: before.update(thread_ms(cluster)))
        used = thread_ms(cluster)
        return numbers | {"start_us": 1e3 / len(options) * sum(
            used.get(name, 0) - before.get(name, 0) for name in ("sched_agent", "sched"))}


def thread_ms(cluster):
    """{name: ms of CPU} of slurmctld's threads, which others' load changes less than a clock."""
    used = {}
    pid = next(process.pid for process in cluster.running() if process.role == "slurmctld")
    for task in glob.glob(f"/proc/{pid}/task/*"):
        with contextlib.suppress(OSError), open(f"{task}/comm", encoding="utf-8") as name, \
                open(f"{task}/schedstat", encoding="utf-8") as times:
            used[name.read().strip()] = int(times.read().split()[0]) / 1e6
    return used


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


def stand(cluster, wait_s):
    """What the daemons use while the queue stands for so long."""
    daemons = {process.role: process.pid for process in cluster.running()}
    first = told(cluster, "Backfilling stats", "Total cycles")
    threads = thread_ms(cluster)
    written = 0 if cluster.stock else history_bytes(cluster)
    ticks = {role: bench_10k.cpu_ticks(pid) for role, pid in daemons.items()}
    begin = time.monotonic()
    lasted = []
    while time.monotonic() < begin + wait_s:
        time.sleep(2.5)
        lasted.append(told(cluster, "Backfilling stats", "Last cycle") / 1e3)
    seconds = time.monotonic() - begin
    used = thread_ms(cluster)["bckfl"] - threads["bckfl"]
    cycles = told(cluster, "Backfilling stats", "Total cycles") - first
    numbers = {"backfill_ms": statistics.median(lasted), "backfill_cpu_ms": used / cycles,
               "main_ms": told(cluster, "Main schedule statistics", "Mean cycle") / 1e3}
    for role, pid in daemons.items():
        used = (bench_10k.cpu_ticks(pid) - ticks[role]) / bench_10k.TICKS_PER_S
        numbers[f"{role}_pct"], numbers[f"{role}_mb"] = 100 * used / seconds, resident_mb(pid)
    if not cluster.stock:
        written = history_bytes(cluster) - written
        numbers["queue_mb"] = written / max(1, cycles) * CYCLES / 1e6
    return numbers


def started(cluster, row, args):
    """The medians of some lists of starts, each on a slurmctld without jobs, and what the history
    keeps of a job that started and ended."""
    found = []
    for number in range(args.lists):
        if number:
            bench_10k.begin_anew(cluster)
        procs.favour([process.pid for process in cluster.running()], args.nice)
        before = 0 if cluster.stock else history_bytes(cluster)
        found.append(row.work(cluster))
        cluster.run("scancel", "--user", str(os.getuid()))
        cluster.wait_jobs(timeout=60)
        if not cluster.stock:
            written = history_bytes(cluster) - before
            found[-1]["jobs_mb"] = written / found[-1]["jobs"] * JOBS / 1e6
        row.seed += 1
    return {key: statistics.median(one[key] for one in found) for key in found[0]}


def measure(mode, args, root):
    """The numbers of one mode."""
    numbers = {}
    for kind in (SmallStarts, Backfill):
        row = kind(args.seed, os.path.join(root, mode))
        with row.make(mode, mode == "stock", mode) as cluster:
            if kind is SmallStarts and mode == "enforce":
                row.prepare(cluster)
            if kind is SmallStarts:
                numbers |= started(cluster, row, args)
                continue
            procs.favour([process.pid for process in cluster.running()], args.nice)
            numbers |= row.work(cluster) | stand(cluster, args.stand)
    return numbers


def table(rounds, args):
    """Lines of Markdown: medians, and of what is not stock the quotients with stock's, which ran
    just before."""
    lines = [f"{args.nodes} nodes, a quarter with GPUs, seeds from {args.seed}, nice {args.nice}, "
             f"medians of {len(rounds)} rounds (quotient with the round's stock: median, and an "
             "interval that holds it 95 times in 100; of too few rounds the least and the most):",
             "", f"| | {' | '.join(args.modes)} |", "|---|" + "---|" * len(args.modes)]
    for title, key, digits in LINES:
        cells = []
        for mode in args.modes:
            found = [numbers[mode].get(key) for numbers in rounds]
            cells.append("-" if None in found else f"{statistics.median(found):,.{digits}f}")
            base = [numbers.get("stock", {}).get(key) for numbers in rounds]
            if mode != "stock" and None not in found and None not in base and all(base):
                of = sorted(mine / stock for mine, stock in zip(found, base))
                least, most = interval(of) or (of[0], of[-1])
                cells[-1] += f" ({statistics.median(of):.2f}: {least:.2f} to {most:.2f})"
        lines.append(f"| {title} | {' | '.join(cells)} |")
    others = [numbers[mode]["others_pct"] for numbers in rounds for mode in args.modes]
    return [*lines, "", f"CPU of others during the starts: {min(others):.0f} to {max(others):.0f} "
            f"% of {os.cpu_count()} CPUs"]


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="all modes in turn, so often")
    parser.add_argument("--modes", default=",".join(MODES), help="comma-separated")
    parser.add_argument("--lists", type=int, default=3, help="lists of starts in each round")
    parser.add_argument("--stand", type=int, default=40, metavar="S",
                        help="seconds for which the queue stands (default %(default)s)")
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
    args, rounds = arguments(), []
    Large.nodes = args.nodes
    root = tempfile.mkdtemp(prefix="phalanx-site-")
    try:
        with slurmctld_apart():
            for number in range(args.rounds):
                first = number % len(args.modes)
                rounds.append({mode: measure(mode, args, os.path.join(root, str(number)))
                               for mode in args.modes[first:] + args.modes[:first]})
                args.seed += args.lists
                print(f"round {number + 1} of {args.rounds}: {rounds[-1]}", flush=True)
    except (ClusterError, OSError) as error:
        print(f"bench_site: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(root, ignore_errors=True)
    args.seed -= args.rounds * args.lists
    print("", *table(rounds, args), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
