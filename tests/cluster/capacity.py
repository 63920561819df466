#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What counts as capacity, and limits of a partition that only Slurm knows.

Nodes that are not there yet, down or drained are in no total; a partition with MaxCPUsPerNode and
a queue opens no breaker.
"""

import contextlib
import json
import os
import sys
import time

from slurmcluster import Cluster
from slurmcluster.clock import CLOCK
from slurmcluster.conf import write_config
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.suite import Cases, Suite, command_line, run

NODES = """\
NodeName=n[1-4] CPUs=8 Sockets=1 CoresPerSocket=8 RealMemory=32000
NodeName=f[1-4] CPUs=64 Sockets=1 CoresPerSocket=64 RealMemory=64000 State=FUTURE
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=capped Nodes=n[1-4] MaxCPUsPerNode=2 MaxTime=INFINITE State=UP
"""
EXTRA = ("SchedulerParameters=bf_interval=2,sched_interval=2,bf_continue,batch_sched_delay=1",)
QUEUE_S, QUEUED = 40.0, 300
case = Cases()


class Capacity(Suite):
    """What the daemon says of the nodes."""

    def total(self):
        """CPUs that count, those in use, utilisation, and nodes that take no jobs."""
        done = phalanx(self.cluster, "nodes", "--json", check=False)
        if done.returncode:
            return None     # nothing is read yet
        report = json.loads(done.stdout)
        cpus = next(row for row in report["dimensions"] if row["name"] == "cpu")
        out = sorted(node["name"] for node in report["nodes"] if node.get("out"))
        return cpus["total"], cpus["used"], out


@case
def future_and_down(suite):
    """Neither FUTURE nodes nor down and drained ones are in a total; they come back when resumed"""
    suite.until(lambda: suite.total() == (32, 0, []), "four nodes of eight CPUs count")
    jobs = [suite.cluster.submit("-w", f"n{at}", "-n8", wrap="exec sleep 600") for at in (1, 3)]
    suite.cluster.wait_jobs(jobs, states={"RUNNING"})
    suite.cluster.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test")
    suite.cluster.run("scontrol", "update", "NodeName=n[3-4]", "State=DRAIN", "Reason=test")
    suite.until(lambda: suite.total() == (8, 8, ["n2", "n3", "n4"]), "one node counts")
    text = phalanx(suite.cluster, "nodes").stdout
    suite.expect("1 node and 3 that take no jobs" in " ".join(text.split()), text[:400])
    suite.cluster.run("scontrol", "update", "NodeName=n[2-4]", "State=RESUME")
    suite.until(lambda: suite.total() == (32, 16, []), "all count again")
    suite.cluster.run("scancel", *map(str, jobs))
    suite.cluster.wait_jobs(jobs, timeout=30)


@case
def capped_queue(suite):
    """MaxCPUsPerNode and a full queue: Slurm keeps to it, and the breaker stays closed"""
    until = CLOCK.now() + QUEUE_S
    jobs = []
    while CLOCK.now() < until:
        if len(jobs) >= QUEUED:
            time.sleep(0.2)
            continue
        jobs.append(suite.cluster.submit("-p", "capped", "-n1", "-t1", "--mem=10",
                                         wrap="exec sleep 5"))
    status = phalanx_json(suite.cluster, "status")
    plugin = status["plugin"]
    suite.expect((plugin["breaker"], plugin["breaker_opens"]) == ("closed", 0),
                 f"breaker {plugin['breaker']}, opened {plugin['breaker_opens']} times")
    left = status["run_now"]["options"] if "run_now" in status else {}
    suite.summary = f"{len(jobs)} jobs, left to Slurm: {left}"
    suite.cluster.run("scancel", "-p", "capped")
    suite.cluster.wait_jobs(jobs, timeout=60)


@contextlib.contextmanager
def setting(root, _args):
    """One cluster."""
    place = os.path.join(root, "c")
    with Cluster(place, nodes=NODES, extra=EXTRA, config=write_config(place)) as cluster:
        yield Capacity(cluster)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
