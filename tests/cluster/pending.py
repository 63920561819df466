#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Phalanx costs slurmctld with 100,000 waiting jobs on 10,000 nodes.

CLOUD nodes, 50 jobs that take all of them, and a queue (--queue): arrays whose tasks were split
off, so that each is a job record of its own; one array; jobs of 2,000 different requests. Then
slurmctld and phalanxd go on by themselves for a while: main scheduling passes, backfill, polls, the
order's report. Shown: time for which slurmctld's locks were held for Phalanx, as a share of the
time; asks; memory. Stock first, for the scheduler's own.
"""

import argparse
import os
import re
import sys
import tempfile
import time

from bench_10k import minus, plugin_counters, quantile_us
from slurmcluster import Cluster
from slurmcluster.conf import write_config
from slurmcluster.phalanx import phalanx, phalanx_json

ARRAY = 10000       # tasks of one array
SHAPES = 2000       # different requests
EXTRA = ("MaxArraySize=200000", "MessageTimeout=600",
         "SchedulerParameters=bf_interval=30,bf_max_job_test=200,"
         "bf_continue,bf_max_time=60,default_queue_depth=500,batch_sched_delay=3,sched_interval=60")
CONFIG = 'mode = "enforce"\n[order]\nby = "{by}"\nshort_s = 604800\n'
POLLS = ("REQUEST_JOB_INFO", "REQUEST_JOB_INFO_SINGLE", "REQUEST_NODE_INFO",
         "REQUEST_PARTITION_INFO", "REQUEST_RESERVATION_INFO", "REQUEST_LICENSE_INFO")
RPC = re.compile(r"(REQUEST_\w+) .*?count:(\d+) .*?total_time:(\d+)")
CYCLES = re.compile(r"Total cycles: +(\d+)\s+(?:Mean cycle: +(\d+))?")


def submit(cluster, args):
    """The jobs that run, then those that wait: arrays, each split into its tasks by one change."""
    for _ in range(50):
        cluster.submit(f"-N{args.nodes // 50}", "--exclusive", "--gres=gpu:4", "--time=2000")
    if args.queue == "array":
        cluster.submit(f"--array=1-{args.jobs}", "-N1", "--gres=gpu:1", "--time=60")
        return
    left, gpus = args.jobs, (1, 2, 4)
    size = ARRAY if args.queue == "single" else max(1, args.jobs // SHAPES)
    while left > 0:
        count, shape = min(size, left), left // size
        nodes, mem = (1, 0) if args.queue == "single" else (1 + shape % 8, 1 + shape // 8)
        job = cluster.submit(f"--array=0-{count}", f"-N{nodes}", f"--gres=gpu:{gpus[left % 3]}",
                             *([f"--mem={mem}M"] if mem else []),
                             f"--time={60 + left % 1000}", f"--job-name=job{left % 97}")
        cluster.run("scontrol", "update", f"JobId={job}_[1-{count}]", "Nice=10", timeout=600)
        left -= count


def polls(cluster):
    """Calls that read slurmctld's tables, and microseconds that they took."""
    found = {name: (int(n), int(us)) for name, n, us in RPC.findall(cluster.run("sdiag").stdout)}
    kept = [found[name] for name in POLLS if name in found]
    return sum(n for n, _ in kept), sum(us for _, us in kept)


def cycles(cluster):
    """What sdiag says of main passes and backfill: cycles and mean time of each in us."""
    text = cluster.run("sdiag").stdout
    found = CYCLES.findall(text)
    return [(int(n), int(mean or 0)) for n, mean in found]


def held(order):
    """Times and nanoseconds for which the overlay's thread held the job lock, and the longest."""
    written, looked = order["lock_holds"], order["read_holds"]
    ns = written * order["lock_mean_ns"] + looked * order["read_mean_ns"]
    return written + looked, ns, max(order["lock_max_ns"], order["read_max_ns"])


def resident_mb(cluster, role, which="VmRSS"):
    """Memory of a daemon; VmHWM: the most that it had."""
    pid = next(p.pid for p in cluster.running() if p.role == role)
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(which + r":\s*(\d+)", file.read())[1]) / 1024


def watch(cluster, args):
    """Lets it run, and prints what it cost."""
    first, calls, began = phalanx_json(cluster, "status"), polls(cluster), time.monotonic()
    counters = plugin_counters(cluster)
    time.sleep(args.seconds)
    seconds = time.monotonic() - began
    last, calls_now = phalanx_json(cluster, "status"), polls(cluster)
    asks = minus(plugin_counters(cluster)["ask"], counters["ask"])
    holds, ns, _ = (now - then for now, then in zip(held(last["order"]), held(first["order"])))
    longest = held(last["order"])[2]
    count, us = calls_now[0] - calls[0], calls_now[1] - calls[1]
    print(f"order's thread: {holds} holds, {ns / 1e6:.1f} ms, {ns / 1e7 / seconds:.3f} % of the "
          f"time, longest {longest / 1e6:.2f} ms (since the plugin was loaded)")
    print(f"polls and reads: {count} calls, {us / 1e3:.1f} ms, {us / 1e4 / seconds:.3f} %, mean "
          f"{us / 1e3 / max(count, 1):.1f} ms")
    print(f"asks: {sum(asks.values())}, p50 {quantile_us(asks, 0.5)} us, "
          f"p99 {quantile_us(asks, 0.99)} us")
    print(f"pending in the order's report: {last['order']['pending']}, with a delta "
          f"{last['order']['active']}")
    print(f"memory: phalanxd {resident_mb(cluster, 'phalanxd'):.0f} MB, at "
          f"most {resident_mb(cluster, 'phalanxd', 'VmHWM'):.0f}, slurmctld "
          f"{resident_mb(cluster, 'slurmctld'):.0f} MB")


def phase(root, name, args):
    """One cluster."""
    stock, place = name == "stock", os.path.join(root, name)
    config = None if stock else write_config(place, CONFIG.format(by=args.by))
    with Cluster(place, stock=stock, cloud=args.nodes, extra=EXTRA, config=config) as cluster:
        begin = time.monotonic()
        submit(cluster, args)
        waiting = len(cluster.run("squeue", "-h", "-r", "-t", "PD", "-o", "%A").stdout.split())
        print(f"{name}: {waiting} jobs wait after {time.monotonic() - begin:.0f} s", flush=True)
        cluster.run("sdiag", "--reset")
        if stock:
            time.sleep(args.seconds)
        else:
            watch(cluster, args)
            print(phalanx(cluster, "status").stdout)
        print(f"{name}: sdiag's cycles and mean us, main and backfill: {cycles(cluster)}; "
              f"slurmctld {resident_mb(cluster, 'slurmctld'):.0f} MB", flush=True)


def options():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10000)
    parser.add_argument("--jobs", type=int, default=100000, help="that wait")
    parser.add_argument("--seconds", type=float, default=120.0, help="for which it is watched")
    parser.add_argument("--queue", choices=("single", "array", "shapes"), default="single")
    parser.add_argument("--by", choices=("learned", "off"), default="learned", help="order.by")
    parser.add_argument("--phases", default="stock,phalanx", help="comma-separated")
    return parser.parse_args()


def main():
    """Both."""
    args = options()
    with tempfile.TemporaryDirectory(prefix="phalanx-pending-") as root:
        for name in args.phases.split(","):
            phase(root, name, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
