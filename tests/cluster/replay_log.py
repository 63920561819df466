#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stretch of a real log on a real slurmctld: stock Slurm, tuned and with Phalanx, and simulated.

The log is scaled in time (replay_list.py), and so are Slurm's passes: backfill every second in
steps of a second, the main pass every second. `defer` is set, because a slurmctld at this pace
computes no ages (PriorityCalcPeriod is a minute at least), and without ages every job that comes
would be tried before those that wait. Tuned, as `phalanx advise` has it, backfill reserves for one
job of a partition; Phalanx has this slurm.conf and the overlay. Nodes of one CPU each stand for the
slots. Phalanx is told of the jobs before the stretch, as `history import` does it, and orders by
learned runtimes.
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
SIDES = ("slurm", "tuned", "phalanx")
SCHEDULER = ("SchedulerParameters=bf_interval=1,bf_continue,bf_resolution=1,bf_window=1440,"
             "bf_yield_interval=1000000,sched_interval=1,batch_sched_delay=0,defer")
TUNED = ",bf_job_part_count_reserve=1"
EXTRA = ["PriorityType=priority/multifactor", "PriorityWeightAge=0",
         "SelectTypeParameters=CR_Core", "DefMemPerCPU=0"]
ORDER = """\
mode = "enforce"
[source]
poll_ms = 200
[order]
by = "learned"
"""
WEEK_S = 7 * 86400
LATE_S = 600
AIMS = {"slowdown": 0.80, "wait_max": 1.15, "off": 0.20}


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
             "the run time (median); simulated (off)",
             f"    {'':24}" + "".join(f"{side:>24}" for side in SIDES)]
    for key in real["slurm"]:
        line = f"    {key:24}"
        for side in SIDES:
            is_, told = real[side][key], foretold[side][key]
            line += f"{is_:9.2f} {told:7.2f} ({told / is_ - 1 if is_ else 0.0:+4.0%})"
        lines.append(line)
    return "\n".join(lines)


class ReplayLog(Suite):
    """The clusters, at the same time."""

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
        config = write_config(where, text) if side == "phalanx" else None
        scheduler = SCHEDULER + ("" if side == "slurm" else TUNED)
        cluster = Cluster(where, stock=not config, config=config, nodes=nodes(self.args.slots),
                          extra=[scheduler, *EXTRA])
        # The guard of the order begins with nothing, as the simulator's does.
        cluster.fair_wait_s = 0
        with cluster:
            files = ["--slurm-conf", cluster.paths.slurm_conf]
            files += ["--config", cluster.paths.phalanx_toml] if config else []
            program = os.path.join(cluster.paths.bin_dir, "phalanx")
            told = simulate("phalanx" if config else "slurm", program, self.replay,
                            self.args.slots, files, os.path.join(self.root, f"simulated-{side}"),
                            self.args.turnaround)
            times = work_off(cluster, self.replay, self.root)
            if config:
                self.order = phalanx_json(cluster, "status")["order"]
            if self.args.report:
                with open(f"{self.args.report}-{side}.json", "w", encoding="utf-8") as file:
                    json.dump({"jobs": [asdict(job) for job in self.replay.jobs],
                               "real": times, "simulated": told}, file)
            return tuple(replay_list.card(self.replay.jobs, *one) for one in (times, told))

    def results(self):
        """({side: real}, {side: simulated})."""
        found = {side: future.result() for side, future in self.ended.items()}
        return ({side: one[0] for side, one in found.items()},
                {side: one[1] for side, one in found.items()})


case = Cases()


@case()
def replay(suite):
    """A stretch of a log on Slurm, tuned and with Phalanx, and simulated"""
    real, foretold = suite.results()
    print(table(suite.replay, real, foretold), flush=True)
    print(f"    order of starts: {suite.order}", flush=True)
    suite.expect(suite.order["written"] > 0, "the order of starts has moved no job")
    wait, slowdown = (real["phalanx"][key] / max(real["slurm"][key], 1e-9)
                      for key in ("wait_max_s", "bounded_slowdown_mean"))
    suite.summary = f"slowdown x {slowdown:.2f}, longest wait x {wait:.2f}"
    if suite.args.check:
        suite.expect(slowdown <= AIMS["slowdown"], f"slowdown {slowdown:.2f} of stock's")
        suite.expect(wait <= AIMS["wait_max"], f"longest wait {wait:.2f} of stock's")
        for side in SIDES:
            for key in ("bounded_slowdown_mean", "wait_mean_s"):
                off = foretold[side][key] / max(real[side][key], 1e-9) - 1
                suite.expect(abs(off) <= AIMS["off"], f"{side}: {key} simulated {off:+.0%}")


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--log", default=KTH, help="SWF log (default: KTH SP2)")
    parser.add_argument("--jobs", type=int, default=400, help="length of the list (default 400)")
    parser.add_argument("--slots", type=int, default=64, help="nodes of one CPU (default 64)")
    parser.add_argument("--span", type=float, default=260.0, metavar="S",
                        help="seconds in which they are submitted (default 260)")
    parser.add_argument("--segment", type=int, default=0, help="which busy stretch (default 0)")
    # A second's program ranks as 3.2 s: urgency counts runtimes as 10 s at least.
    parser.add_argument("--short", type=int, default=4, metavar="S",
                        help="[order] short_s (default 4: programs of 1.6 s on average)")
    parser.add_argument("--turnaround", type=int, default=0, metavar="S",
                        help="of the simulation (default 0)")
    parser.add_argument("--report", metavar="STEM",
                        help="submissions and starts of all jobs into STEM-SIDE.json")
    parser.add_argument("--check", action="store_true", help="fail where an aim is missed")


@contextlib.contextmanager
def setting(root, args):
    """The clusters."""
    suite = ReplayLog(root, args)
    try:
        yield suite
    finally:
        suite.close()


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, options), setting))
