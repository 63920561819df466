#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stretch of a real log on a real slurmctld: stock Slurm beside Phalanx, and both simulated.

The log is scaled in time (replay_list.py), and so are Slurm's passes: backfill every second in
steps of a second, the main pass every second. `defer` is set, because a slurmctld at this pace
computes no ages (PriorityCalcPeriod is a minute at least), and without ages every job that comes
would be tried before those that wait. Both clusters have the same slurm.conf but for the overlay;
nodes of one CPU each stand for the slots. Phalanx is told of the jobs before the stretch, as
`history import` does it, and orders by learned runtimes.
"""

import contextlib
import csv
import functools
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import replay_list
from slurmcluster import Cluster, ClusterError
from slurmcluster.conf import write_config
from slurmcluster.jobs import seconds
from slurmcluster.phalanx import phalanx_json
from slurmcluster.suite import Case, Cases, Suite, check, command_line, run

KTH = os.path.join(os.path.dirname(__file__), "../data/KTH-SP2-1996-2.swf.zst")
SIDES = {"slurm": True, "phalanx": False}   # policy and whether it is stock
EXTRA = ["SchedulerParameters=bf_interval=1,bf_continue,bf_resolution=1,bf_window=1440,"
         "bf_yield_interval=1000000,sched_interval=1,batch_sched_delay=0,defer",
         "PriorityType=priority/multifactor", "PriorityWeightAge=0",
         "SelectTypeParameters=CR_Core", "DefMemPerCPU=0"]
ORDER = """\
mode = "enforce"
[source]
poll_ms = 200
[order]
by = "learned"
"""
KEYS = ("bounded_slowdown_mean", "wait_mean_s", "wait_p95_s", "wait_max_s")
WEEK_S = 7 * 86400
LATE_S = 600
AIMS = {"slowdown": 0.80, "wait_max": 1.15, "off": 0.10}


def nodes(slots):
    """As many nodes of one CPU."""
    return (f"NodeName=s[1-{slots}] CPUs=1 Sockets=1 CoresPerSocket=1 RealMemory=1000\n"
            "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n")


def last_week(replay):
    """The jobs before the stretch, as `sacct --parsable2` says them."""
    lines = ["JobID|User|JobName|State|Submit|Start|End|NodeList|NCPUS|ReqTRES|TimelimitRaw"]
    at_s = time.time() - WEEK_S
    for number, job in enumerate(replay.before):
        begin, end = (time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))
                      for at in (at_s, at_s + job.run_s))
        lines.append(f"{5_000_000 + number}|{job.user}|{job.name}|COMPLETED|{begin}|{begin}|{end}|"
                     f"s[1-{job.size}]|{job.size}|billing={job.size},cpu={job.size},"
                     f"node={job.size}|{job.limit_s // 60}")
        at_s += job.run_s + 5
    return "\n".join(lines) + "\n"


def work_off(cluster, replay, where):
    """Submits on time and waits for all; submissions and starts in the list's order."""
    if not cluster.stock:
        path = os.path.join(where, "before.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(last_week(replay))
        program = os.path.join(cluster.paths.bin_dir, "phalanx")
        cluster.run(program, "history", "import", path, timeout=120)
    begin, ids = time.monotonic(), []
    for job in replay.jobs:
        time.sleep(max(0.0, job.at_s - (time.monotonic() - begin)))
        ids.append(cluster.submit("-J", job.name, f"--uid={job.user}", "-D", "/",
                                  f"-N{job.size}", "--ntasks-per-node=1",
                                  f"--time={job.limit_s // 60}", wrap=f"exec sleep {job.run_s}"))
    records = {int(r["JobId"]): r for r in cluster.wait_jobs(ids, timeout=LATE_S)}
    mine = [records[job] for job in ids]
    bad = [record["JobId"] for record in mine if record["JobState"] != "COMPLETED"]
    check(not bad, f"jobs {bad[:9]} did not complete")
    return [[seconds(record, key) for record in mine]
            for key in ("SubmitTime", "StartTime")]


def simulate(policy, program, replay, slots, files, where, turnaround):
    """Submissions and starts of the same list, simulated."""
    os.makedirs(where, exist_ok=True)
    path, begin_s = os.path.join(where, "list.swf"), 100_000_000
    with open(path, "w", encoding="ascii") as file:
        file.write(replay_list.as_swf(replay, begin_s))
    done = subprocess.run([program, "simulate", "--jobs", path, "--nodes", f"{slots}x(cpu=1)",
                           "--policy", policy, "--out", where, "--json",
                           "--turnaround", str(turnaround), *files],
                          capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise ClusterError(f"simulate: {done.stderr.strip()}")
    with open(os.path.join(where, "jobs.csv"), encoding="utf-8") as file:
        starts = {int(row["job"]): int(row["start_s"]) for row in csv.DictReader(file)}
    submits = [begin_s + round(job.at_s) for job in replay.jobs]
    return [submits, [starts[number] for number in range(1, len(replay.jobs) + 1)]]


def table(replay, real, foretold):
    """Lines for people."""
    first = replay.jobs[-1].at_s
    lines = [f"    {len(replay.jobs)} jobs in {first:.0f} s, {replay.load:.0%} of the machine; "
             f"1 s stands for {1 / replay.scale:.0f} s; limits are {replay.generosity:.0f} times "
             "the run time (median)",
             f"    {'':24} {'stock':>9} {'Phalanx':>9} {'ratio':>6}   simulated (off)"]
    for key in KEYS:
        stock, ours = (real[side][key] for side in SIDES)
        off = [foretold[side][key] / real[side][key] - 1 if real[side][key] else 0.0
               for side in SIDES]
        told = [foretold[side][key] for side in SIDES]
        lines.append(f"    {key:24} {stock:9.2f} {ours:9.2f} {ours / max(stock, 1e-9):6.2f}   "
                     f"{told[0]:.2f} ({off[0]:+.0%}), {told[1]:.2f} ({off[1]:+.0%})")
    return "\n".join(lines)


class ReplayLog(Suite):
    """Both clusters, at the same time."""

    def __init__(self, root, args):
        super().__init__()
        self.root, self.args = root, args
        self.order = None
        self.replay = replay_list.make(args.log, args.jobs, args.slots, args.span, args.segment)
        pool = ThreadPoolExecutor(len(SIDES))
        self.ended = {side: pool.submit(self.one, side) for side in SIDES}
        self.close = functools.partial(pool.shutdown, cancel_futures=True)

    def one(self, side):
        """One side, real and simulated."""
        where = os.path.join(self.root, side)
        text = ORDER + f"short_s = {self.args.short}\n"
        config = None if SIDES[side] else write_config(where, text)
        with Cluster(where, stock=SIDES[side], config=config, nodes=nodes(self.args.slots),
                     extra=EXTRA) as cluster:
            files = ["--slurm-conf", cluster.paths.slurm_conf]
            files += ["--config", cluster.paths.phalanx_toml] if config else []
            program = os.path.join(cluster.paths.bin_dir, "phalanx")
            told = simulate(side, program, self.replay, self.args.slots, files,
                            os.path.join(self.root, f"simulated-{side}"), self.args.turnaround)
            times = work_off(cluster, self.replay, self.root)
            if config:
                self.order = phalanx_json(cluster, "status")["order"]
            if self.args.report:
                with open(f"{self.args.report}-{side}.json", "w", encoding="utf-8") as file:
                    json.dump({"jobs": [asdict(job) for job in self.replay.jobs],
                               "real": times, "simulated": told}, file)
            return tuple(replay_list.figures(self.replay.jobs, *one) for one in (times, told))

    def results(self):
        """({side: real}, {side: simulated})."""
        found = {side: future.result() for side, future in self.ended.items()}
        return ({side: one[0] for side, one in found.items()},
                {side: one[1] for side, one in found.items()})


case = Cases()


@case()
def replay(suite):
    """A stretch of a log on stock Slurm and on Phalanx, and simulated"""
    real, foretold = suite.results()
    print(table(suite.replay, real, foretold), flush=True)
    print(f"    order of starts: {suite.order}", flush=True)
    wait, slowdown = (real["phalanx"][key] / max(real["slurm"][key], 1e-9)
                      for key in ("wait_max_s", "bounded_slowdown_mean"))
    suite.summary = f"slowdown x {slowdown:.2f}, longest wait x {wait:.2f}"
    if suite.args.check:
        suite.expect(slowdown <= AIMS["slowdown"], f"slowdown {slowdown:.2f} of stock's")
        suite.expect(wait <= AIMS["wait_max"], f"longest wait {wait:.2f} of stock's")
        for side in SIDES:
            key = "bounded_slowdown_mean"
            off = foretold[side][key] / real[side][key] - 1
            suite.expect(abs(off) <= AIMS["off"], f"{side}: simulated {off:+.0%}")


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--log", default=KTH, help="SWF log (default: KTH SP2)")
    parser.add_argument("--jobs", type=int, default=400, help="length of the list (default 400)")
    parser.add_argument("--slots", type=int, default=64, help="nodes of one CPU (default 64)")
    parser.add_argument("--span", type=float, default=260.0, metavar="S",
                        help="seconds in which they are submitted (default 260)")
    parser.add_argument("--segment", type=int, default=0, help="which busy stretch (default 0)")
    parser.add_argument("--short", type=int, default=1, metavar="S",
                        help="[order] short_s (default 1, which stands for 19 to 25 minutes)")
    parser.add_argument("--turnaround", type=int, default=0, metavar="S",
                        help="of the simulation (default 0)")
    parser.add_argument("--report", metavar="STEM",
                        help="submissions and starts of all jobs into STEM-slurm.json and "
                             "STEM-phalanx.json")
    parser.add_argument("--check", action="store_true", help="fail where an aim is missed")


@contextlib.contextmanager
def setting(root, args):
    """Both clusters."""
    suite = ReplayLog(root, args)
    try:
        yield suite
    finally:
        suite.close()


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, options), setting))
