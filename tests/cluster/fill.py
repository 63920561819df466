#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test that other schedulers publish: 4,000 jobs of one GPU on 500 free nodes of eight.

Nodes without slurmd (State=CLOUD) in a real slurmctld. The jobs are tasks of an array, each a job
record of its own; they wait in a partition that is DOWN, and the clock runs from the command that
opens it to the last `sched: Allocate` line. Then a gang is submitted that no state of the nodes
can run: how long sbatch waits for the answer. Stock Slurm first, then Phalanx as shipped.
"""

import argparse
import os
import re
import sys
import tempfile
import time
from datetime import datetime

from bench_10k import EXTRA, wait_ready
from slurmcluster import Cluster, ClusterError
from slurmcluster.conf import write_config

LIMIT_S = 600
TRIES = 9          # submissions of the gang; the median counts
ALLOCATE = re.compile(r"^\[([^\]]+)\] sched: Allocate JobId=(\S+)", re.MULTILINE)


def fill(cluster, args):
    """Seconds until all jobs have started, and how many nodes each GPU count was found on."""
    cluster.run("scontrol", "update", "PartitionName=gpu", "State=DOWN")
    job = cluster.submit(f"--array=0-{args.nodes * args.gpus - 1}", "-n1", "--gres=gpu:1",
                         "-c1", "--mem=1G", "--time=60")
    cluster.run("scontrol", "update", f"JobId={job}_[1-{args.nodes * args.gpus - 1}]", "Nice=10",
                timeout=LIMIT_S)
    log, begin = os.path.join(cluster.paths.log, "slurmctld.log"), time.time()
    cluster.run("scontrol", "update", "PartitionName=gpu", "State=UP")
    while True:
        with open(log, encoding="utf-8", errors="replace") as file:
            found = ALLOCATE.findall(file.read())
        if len({name for _, name in found}) == args.nodes * args.gpus:
            return max(datetime.fromisoformat(when).timestamp() for when, _ in found) - begin
        if time.time() > begin + LIMIT_S or not cluster.alive("slurmctld"):
            raise ClusterError(f"{len(found)} jobs started in {LIMIT_S} s{cluster.why()}")
        time.sleep(0.25)


def refusal_ms(cluster, args):
    """The median time of a submission that can never run, and what sbatch says."""
    times = []
    for _ in range(TRIES):
        begin = time.monotonic()
        answer = cluster.run("sbatch", f"-N{args.nodes // 2}", f"--gres=gpu:{args.gpus + 1}",
                             "--wrap=exit", check=False)
        times.append(time.monotonic() - begin)
        if not answer.returncode:
            raise ClusterError("sbatch took a gang that can never run")
    return sorted(times)[TRIES // 2] * 1e3, answer.stderr.strip().splitlines()[-1]


def phase(root, name, args):
    """One cluster."""
    place, nodes = os.path.join(root, name), f"gpu[1-{args.nodes}]"
    extra = (*EXTRA, f"NodeName={nodes} CPUs=64 Sockets=2 CoresPerSocket=32 RealMemory=512000 "
             f"Gres=gpu:{args.gpus} State=CLOUD",
             f"PartitionName=gpu Nodes={nodes} Default=YES MaxTime=INFINITE State=UP")
    with Cluster(place, stock=name == "stock", cloud=1, extra=extra, config=None if name == "stock"
                 else write_config(place, 'mode = "enforce"\n')) as cluster:
        if name != "stock":
            wait_ready(cluster)
        (milliseconds, words), seconds = refusal_ms(cluster, args), fill(cluster, args)
        print(f"{name:8} {seconds:7.2f} s for {args.nodes * args.gpus} jobs, "
              f"{args.nodes * args.gpus / seconds:6.0f} a second; a gang that can never run: "
              f"{milliseconds:.1f} ms, {words!r}", flush=True)
        return seconds


def main():
    """Both sides."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--gpus", type=int, default=8, help="of a node")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="phalanx-fill-") as root:
        stock, ours = (phase(root, name, args) for name in ("stock", "phalanx"))
    print(f"Phalanx is {stock / ours:.1f} times as fast")
    return 0


if __name__ == "__main__":
    sys.exit(main())
