#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mixed lists on 1,000 nodes, with every proof held against Slurm's own answer in full.

Four kinds of CLOUD nodes, partitions that overlap and one of a higher tier, QOS that preempt,
licences, reservations of nodes and of cores; CPU and GPU jobs, gangs, arrays, het jobs,
`--time-min`, `--exclusive`, counted features. Limits change, jobs end, are suspended and requeued
and nodes drain while backfill goes over the queue. One cluster a seed; ends at the first proof
that Slurm refutes, and says it.
"""

import argparse
import os
import random
import sys
import tempfile
import time

from proofs import BACKFILL, KINDS, config
from slurmcluster import Cluster, ClusterError
from slurmcluster.conf import write_config
from slurmcluster.phalanx import phalanx_json

# An address that answers at once, that there is nobody: else each end of a job waits for names.
AT = "NodeAddr=127.0.0.1 Port=9 State=CLOUD"
NODES = f"""\
NodeName=c[1-560] CPUs=64 Sockets=2 CoresPerSocket=32 RealMemory=256000 Weight=1 Feature=amd {AT}
NodeName=h[1-120] CPUs=64 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 RealMemory=512000 \
Weight=5 Feature=intel,big {AT}
NodeName=a[1-200] CPUs=64 Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:a100:4 \
Weight=20 Feature=amd,nvlink {AT}
NodeName=v[1-120] CPUs=32 Sockets=2 CoresPerSocket=16 RealMemory=192000 Gres=gpu:v100:8 \
Weight=10 Feature=intel {AT}
PartitionName=cpu Nodes=c[1-560],h[1-120] Default=YES MaxTime=INFINITE State=UP
PartitionName=gpu Nodes=a[1-200],v[1-120] MaxTime=INFINITE State=UP
PartitionName=all Nodes=c[1-560],h[1-120],a[1-200],v[1-120] MaxTime=INFINITE State=UP
PartitionName=top Nodes=c[1-560],h[1-120],a[1-200],v[1-120] MaxTime=INFINITE State=UP \
PriorityTier=5
PartitionName=whole Nodes=c[400-560] MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE
"""
EXTRA = ("MessageTimeout=200", "PreemptType=preempt/qos", "PreemptMode=REQUEUE",
         "AccountingStorageEnforce=associations,qos", "Licenses=matlab:40", "OverTimeLimit=1",
         BACKFILL.format(interval=1))


def place(rng):
    """Partition, QOS and node kind of a job."""
    words = [f"--partition={rng.choice(['cpu', 'gpu', 'all', 'all', 'top', 'whole', 'cpu,all'])}"]
    words += rng.choice([[], [], [], [], ["--qos=high"], ["--constraint=amd"],
                         ["--constraint=intel"], ["--constraint=amd|intel"],
                         ["--constraint=[amd*2&intel*1]", "-N3"], ["--constraint=[amd|intel]"]])
    return words


def size(rng, running):
    """Nodes, tasks, CPUs, memory, GRES."""
    nodes = rng.choice([2, 5, 8, 16, 40] if running else [1, 1, 2, 3, 8, 20, 60])
    words = [f"-N{nodes}"]
    words += rng.choice([[f"--ntasks-per-node={rng.choice([1, 2, 4, 16])}"],
                         [f"-n{nodes * rng.choice([1, 3, 7]) + rng.choice([0, 1])}"],
                         [f"-n{nodes * 3 + 1}", "--ntasks-per-node=4"]])
    words += [f"--cpus-per-task={rng.choice([1, 2, 4, 16])}"]
    words += rng.choice([[f"--mem={rng.choice([1, 16, 60, 180])}G"], ["--mem-per-cpu=900M"], []])
    words += rng.choice([[], [], [f"--gres=gpu:{rng.choice([1, 2, 4, 8])}"],
                         [f"--gres=gpu:a100:{rng.choice([1, 4])}"], [f"--gpus={2 * nodes}"],
                         ["--gpus-per-task=1"]])
    return words


def rest(rng):
    """Limit and whatever else jobs say."""
    words = [f"--time={rng.choice([3, 5, 30, 60, 61, 600, 2000])}"]
    return words + rng.choice([[], [], [], [], ["--array=1-4"], ["--time-min=2"], ["--exclusive"],
                               ["--contiguous"], ["--licenses=matlab:8"], ["--hint=nomultithread"],
                               ["--ntasks-per-socket=2"], ["--exclusive=user"], ["-N2-6"],
                               ["--switches=1@1:00"], ["--overcommit"], ["--core-spec=2"],
                               ["--begin=now+2minutes"], ["--cores-per-socket=16"]])


class Mixed:
    """One cluster and its list."""

    def __init__(self, cluster, seed):
        self.cluster, self.rng = cluster, random.Random(seed)
        self.refused = 0

    def submit(self, running=False):
        """One job; what cannot be is refused by Slurm, and counted."""
        rng = self.rng
        words = place(rng) + size(rng, running) + rest(rng)
        if running and rng.random() < 0.6:  # whole nodes, so that the others wait
            words = [f"--partition={rng.choice(['cpu', 'gpu', 'all', 'top'])}", "--exclusive",
                     f"-N{rng.choice([8, 16, 40])}", f"--time={rng.randint(2, 900)}"]
        if not running and rng.random() < 0.06:
            words += [":", "-N1", f"--cpus-per-task={rng.choice([2, 8])}", "--partition=cpu"]
        try:
            self.cluster.submit(*words, "--requeue")
        except ClusterError:
            self.refused += 1

    def reserve(self, number):
        """A reservation of nodes, or of cores."""
        start = self.rng.choice(["now+10minutes", "now+1hour", "now+8hours"])
        what = self.rng.choice([["NodeCnt=60"], ["NodeCnt=10", "CoreCnt=16"], ["Nodes=a[1-40]"]])
        flags = self.rng.choice(["IGNORE_JOBS", "IGNORE_JOBS,MAINT"])
        self.cluster.run("scontrol", "create", "reservation", "Users=root", f"StartTime={start}",
                         f"Duration={self.rng.choice([30, 300])}", *what, f"Flags={flags}",
                         f"ReservationName=r{number}", check=False)

    def disturb(self):
        """Something that an administrator or a user does."""
        rng = self.rng
        running = self.cluster.run("squeue", "-h", "-t", "R,CF", "-o", "%A").stdout.split()
        if not running:
            return
        for job in rng.sample(running, min(4, len(running))):
            self.cluster.run("scontrol", "update", f"JobId={job}",
                             f"TimeLimit={rng.choice([1, 3, 10, 100, 1000])}", check=False)
        job = rng.choice(running)
        words = rng.choice([["scancel", job], ["scontrol", "requeue", job],
                            ["scontrol", "suspend", job], ["scancel", job]])
        self.cluster.run(*words, check=False)
        if words[1] == "suspend":
            self.cluster.run("scontrol", "resume", job, check=False)
        node = f"{rng.choice('ca')}{rng.randint(1, 200)}"
        state = rng.choice([["State=DRAIN", "Reason=test"], ["State=RESUME"]])
        self.cluster.run("scontrol", "update", f"NodeName={node}", *state, check=False)

    def counts(self):
        """Counts of the proofs by kind."""
        return phalanx_json(self.cluster, "status")["proofs"]

    def go(self, seconds):
        """The list for so long, or until a proof is refuted."""
        end = time.monotonic() + seconds
        for _ in range(300):
            self.submit(running=True)
        for number in range(4):
            self.reserve(number)
        while time.monotonic() < end:
            for _ in range(6):
                self.submit()
            self.disturb()
            if any(kind["refuted"] for kind in self.counts().values()):
                break
        return self.counts()


def said(cluster):
    """What the daemon said of refuted proofs."""
    path = os.path.join(cluster.paths.log, "phalanxd.out")
    with open(path, encoding="utf-8", errors="replace") as file:
        return "".join(line for line in file if "refuted" in line)


def one(root, seed, seconds):
    """One seed; counts by kind, and what was said."""
    place_of = os.path.join(root, str(seed))
    with Cluster(place_of, nodes=NODES, extra=EXTRA, slurmdbd=True,
                 config=write_config(place_of, config())) as cluster:
        list_of = Mixed(cluster, seed)
        counts = list_of.go(seconds)
        short = {kind: (c["verified"], c["rejected"], c["refuted"]) for kind, c in counts.items()}
        jobs = cluster.run("squeue", "-h", "-t", "R,CF", "-o", "%A").stdout.split()
        print(f"seed {seed}: verified, rejected, refuted: {short}; {len(jobs)} jobs run, "
              f"{list_of.refused} submissions refused", flush=True)
        return counts, said(cluster)


def options():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each")
    return parser.parse_args()


def main():
    """All seeds."""
    args = options()
    total = dict.fromkeys((*KINDS, "no_fit"), 0)
    with tempfile.TemporaryDirectory(prefix="phalanx-mixed-") as root:
        for seed in range(args.seed, args.seed + args.seeds):
            counts, why = one(root, seed, args.seconds)
            for kind in total:
                total[kind] += counts[kind]["verified"]
            if why:
                print(why)
                return 1
    print(f"verified: {total}")
    return 0 if sum(total.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
