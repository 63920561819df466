#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that name cores, sockets and threads: are they decided, and does Slurm agree?

On nodes of two sockets with two threads a core, some of which give threads to jobs and some
cores, jobs with each option run side by side. Where a job starts, Phalanx must have decided it
(95 % of all), and of the nodes that it answered Slurm must have refused few (2 %).
"""

import contextlib
import json
import os
import random
import sys

from slurmcluster import Cluster
from slurmcluster.conf import PATIENT, write_config
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.suite import Cases, Suite, command_line, run

NODES = """\
NodeName=s[1-6] CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=32000
NodeName=k[1-2] CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=32000 \
CoreSpecCount=1
NodeName=c[1-2] CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=32000
NodeName=g[1-2] CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=32000 \
Weight=9 Gres=gpu:a100:2
PartitionName=main Nodes=s[1-6],k[1-2],c[1-2],g[1-2] Default=YES MaxTime=INFINITE State=UP
PartitionName=whole Nodes=s[1-6] OverSubscribe=EXCLUSIVE MaxTime=INFINITE State=UP
"""
EXTRA = ("AllowSpecResourcesUsage=YES",)
OPTIONS = {
    "none": ("-n3",),
    "none, -N2": ("-N2", "-n6"),
    "none, 24 tasks": ("-n24",),
    "hint=nomultithread": ("-n3", "--hint=nomultithread"),
    "hint=multithread": ("-n3", "--hint=multithread"),
    "hint=compute_bound": ("-n2", "--hint=compute_bound"),
    "hint=memory_bound": ("-n2", "--hint=memory_bound"),
    "threads-per-core=1": ("-n5", "--threads-per-core=1"),
    "threads-per-core=2": ("-n4", "--threads-per-core=2"),
    "ntasks-per-core=1": ("-n3", "--ntasks-per-core=1"),
    "ntasks-per-core=1, -c3": ("-n2", "-c3", "--ntasks-per-core=1"),
    "ntasks-per-core=2": ("-n4", "--ntasks-per-core=2"),
    "ntasks-per-socket": ("-N1", "-n2", "--ntasks-per-socket=1"),
    "sockets-per-node": ("-N1", "-n2", "--sockets-per-node=2"),
    "cores-per-socket": ("-N1", "-n2", "--cores-per-socket=3"),
    "core-spec": ("-N1", "-n2", "--core-spec=1"),
    "thread-spec": ("-N1", "-n2", "--thread-spec=1"),
    "mem-per-cpu": ("-n3", "--mem-per-cpu=1500"),
    "mem-per-cpu, one thread": ("-n3", "--mem-per-cpu=1500", "--threads-per-core=1"),
    "ntasks-per-node": ("-N2", "--ntasks-per-node=3"),
    "mincpus": ("-n1", "--mincpus=5"),
    "overcommit": ("-N1", "-n4", "-O"),
    "exclusive": ("-N1", "--exclusive"),
    "exclusive, 24 tasks": ("-n24", "--exclusive"),
    "OverSubscribe=EXCLUSIVE": ("-n2", "-p", "whole"),
    "exclusive=user": ("-n2", "--exclusive=user"),
    "gres typed": ("-n1", "--gres=gpu:a100:1"),
    "gpus-per-task": ("-n2", "--gpus-per-task=1", "-c2"),
}
ROUNDS = 4
AT_ONCE = 12   # jobs in the queue
ANSWERED_MIN, REFUSED_MAX = 0.95, 0.02
# Why a job that started may rightly not be decided.
FINE = ("no_choice",)
case = Cases()


class Layout(Suite):
    """What became of jobs by the option that they have."""

    def placed(self, job):
        """How the job's start was decided, by `phalanx explain`."""
        return phalanx_json(self.cluster, "explain", str(job)).get("placed")

    def pending(self, job):
        """What explain says of a waiting job; nothing while the daemon does not know it yet."""
        done = phalanx(self.cluster, "explain", str(job), "--json", check=False)
        return json.loads(done.stdout).get("pending") if done.returncode == 0 else None

    def outcome(self, job):
        """`ours`, or why Slurm placed the job."""
        placed = self.until(lambda: self.placed(job), f"explain knows where job {job} ran")
        return "ours" if placed["by_phalanx"] else placed.get("reason") or "not known"


def counts(cluster):
    """Answers with nodes, and those that Slurm refused."""
    status = phalanx_json(cluster, "status")
    modes = (status["run_now"], status["will_run"])
    refused = sum(mode["fallen_back"].get("narrow_failed", 0) for mode in modes)
    return sum(mode["answered"] for mode in modes), refused, status["refused"]


def table(outcomes, refused):
    """Prints what became of each option's jobs."""
    print(f"    {'option':<26} jobs  ours  left to Slurm")
    for option, found in outcomes.items():
        left = sorted(set(found) - {"ours"})
        words = ", ".join(f"{reason} {found.count(reason)}" for reason in left)
        print(f"    {option:<26} {len(found):>4} {found.count('ours'):>5}  {words}")
    for row in refused:
        print(f"    answers with {row['option']}: {row['answered']}, {row['refused']} refused")


@case
def options_are_decided(suite):
    """Jobs with each option are placed as decided, and Slurm seldom refuses"""
    jobs = [(name, options) for name, options in OPTIONS.items()] * ROUNDS
    random.Random(4).shuffle(jobs)
    sent = []
    for name, options in jobs:
        # On a full cluster the last free cores decide, not the options.
        suite.until(lambda: len(suite.cluster.run("squeue", "-h").stdout.splitlines()) < AT_ONCE,
                    "fewer jobs in the queue")
        sent.append((name, suite.cluster.submit(*options, "-t5", wrap="exec sleep 2")))
    records = suite.cluster.wait_jobs([job for _, job in sent], timeout=300)
    for record in records:
        suite.expect(record["JobState"] == "COMPLETED",
                     f"job {record['JobId']} is {record['JobState']}")
    outcomes = {name: [] for name in OPTIONS}
    for name, job in sent:
        outcomes[name].append(suite.outcome(job))
    answered, refused, by_option = counts(suite.cluster)
    table(outcomes, by_option)
    found = [outcome for each in outcomes.values() for outcome in each if outcome not in FINE]
    ours = found.count("ours")
    suite.summary = (f"{ours} of {len(found)} placed as decided, "
                     f"{refused} of {answered} answers refused")
    suite.expect(ours >= ANSWERED_MIN * len(found), suite.summary)
    suite.expect(refused <= REFUSED_MAX * answered, suite.summary)


@case
def wholly_used(suite):
    """Every core of a node is given, to jobs of one thread a core and of two"""
    one = suite.cluster.submit("-w", "s1", "-n5", "--threads-per-core=1", "-t5",
                               wrap="exec sleep 600")
    suite.cluster.wait_jobs([one], states={"RUNNING"})
    # Three cores of s1 are left, so that five threads fit and seven do not.
    spread = "s[2-6],k[1-2],c[1-2],g[1-2]"
    fits = suite.cluster.submit("-N1", "-n5", "-x", spread, "-t5", wrap="exec sleep 600")
    suite.cluster.wait_jobs([fits], states={"RUNNING"})
    waits = suite.cluster.submit("-N1", "-n1", "-x", spread, "-t5", wrap="exec sleep 600")
    try:
        pending = suite.until(lambda: suite.pending(waits), "explain shows the waiting job")
        suite.expect(pending["fits_now"] == 0, f"{pending['fits_now']} nodes have room")
        blockers = [row["dimension"] for row in pending["blockers"]]
        suite.expect(blockers == ["cpu"], f"blockers are {blockers}")
    finally:
        suite.cluster.run("scancel", one, fits, waits)
    suite.cluster.wait_jobs([one, fits, waits], timeout=30)


@contextlib.contextmanager
def setting(root, _args):
    """One cluster."""
    place = os.path.join(root, "c")
    config = write_config(place, PATIENT)
    with Cluster(place, nodes=NODES, extra=EXTRA, config=config) as cluster:
        yield Layout(cluster)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
