#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs that name a dataset: do they run on nodes that hold it?

A cluster of 12 nodes, and a list of the site, as that of an object store would be. Checked: at
least 90 % of the jobs' nodes hold the data, and far more than on stock Slurm; what moves, or is
written wrongly into the list, is followed and told; a dataset that nobody has or whose nodes are
full holds no job up; names that users invent do no harm.
"""

import contextlib
import json
import os
import sys
import urllib.request

from slurmcluster import Cluster
from slurmcluster.conf import PROMPT
from slurmcluster.nodes import expand_hostlist
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.ports import free_port
from slurmcluster.shipped import shipped_config
from slurmcluster.suite import Cases, Suite, command_line, run

COUNT = 12
NAMES = [f"n{i}" for i in range(1, COUNT + 1)]
NODES = f"""\
NodeName=n[1-{COUNT}] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=8000
PartitionName=main Nodes=n[1-{COUNT}] Default=YES MaxTime=INFINITE State=UP
PartitionName=stock Nodes=n[1-{COUNT}] MaxTime=INFINITE State=UP
"""
CONFIG = PROMPT + """\
[control]
listen = "127.0.0.1:{port}"
public_read = "all"
[partition.stock]
mode = "off"
# All jobs here are of one user, who waits far more than the default allows.
[data_jobs]
hold_budget_s = 3600
locations = "{list}"
"""
# Six datasets on two nodes each, and two of other numbers.
SETS = {f"set{i}": [f"n{2 * i + 1}", f"n{2 * i + 2}"] for i in range(6)}
LISTED = {**SETS, "bucket/images": ["n4", "n7", "n10"], "bucket/text": ["n12"]}
SHARE_MIN = 0.9
EXTRA = ["SchedulerParameters=bf_interval=1,bf_resolution=1,sched_min_interval=200000,"
         "batch_sched_delay=0,bf_yield_interval=100000"]
case = Cases()


class Datasets(Suite):
    """The cluster and its list of datasets."""

    soon_s = 20.0

    def __init__(self, cluster, root, port):
        super().__init__(cluster)
        self.port = port
        self.list = os.path.join(root, "list.json")

    def write_list(self, text):
        """The list of the site, whole at every moment."""
        with open(f"{self.list}.new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(f"{self.list}.new", self.list)

    def datasets(self):
        """What the daemon knows."""
        return phalanx_json(self.cluster, "status")["datasets"]

    def submit(self, name, *options, seconds=2, stock=False):
        """A job that names a dataset."""
        part = ["-p", "stock"] if stock else [f"--comment=data-input={name}"]
        return self.cluster.submit("-t2", *part, *options, wrap=f"sleep {seconds}")

    def explained(self, job):
        """What is told of its input; nothing while phalanxd does not know the job yet."""
        done = phalanx(self.cluster, "explain", str(job), "--json", check=False)
        return done.returncode == 0 and json.loads(done.stdout)["input"] or {}

    def nodes_of(self, jobs, timeout=90):
        """Nodes of each of these jobs, which must complete."""
        records = {int(r["JobId"]): r for r in self.cluster.wait_jobs(jobs, timeout=timeout)}
        for job in jobs:
            state = records[job]["JobState"]
            self.expect(state == "COMPLETED", f"job {job}: {state}")
        return [expand_hostlist(records[job]["NodeList"]) for job in jobs]

    def metric(self, name):
        """A sample of /metrics by its name with labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        return next((float(line.rsplit(" ", 1)[1]) for line in lines
                     if line.rsplit(" ", 1)[0] == name), None)

    def share(self, what, holders, rounds, stock):
        """Part of the nodes of jobs that hold the dataset; some of the jobs have two nodes."""
        held = total = 0
        for at in range(rounds):
            jobs = [(self.submit(name, f"-N{1 + (at + i) % 2}", "-n2", stock=stock, seconds=1), on)
                    for i, (name, on) in enumerate(sorted(holders.items())) if len(on) > 1]
            for nodes, (_, on) in zip(self.nodes_of([job for job, _ in jobs]), jobs):
                total += len(nodes)
                held += len(set(nodes) & set(on))
        print(f"    {what}, {'stock' if stock else 'phalanx'}: {held} of {total} nodes of jobs "
              f"hold the data, {100 * held / total:.0f} %", flush=True)
        return held / total


@case
def near_the_list(suite):
    """Datasets of a list: 90 % of the jobs' nodes hold theirs"""
    listed = {name: on for name, on in LISTED.items() if len(on) > 1}
    share = suite.share("list", listed, 4, stock=False)
    stock = suite.share("list", listed, 4, stock=True)
    suite.expect(share >= SHARE_MIN, f"{share:.2f} of the nodes hold the data")
    suite.expect(share >= 2 * stock, f"{share:.2f} beside stock's {stock:.2f}")
    known, jobs = suite.datasets(), 4 * len(listed)
    suite.expect(known["hits"] >= SHARE_MIN * jobs and known["hits"] + known["misses"] == jobs,
                 f"of {jobs} jobs: {known}")


@case
def followed(suite):
    """What moves from one node to another: the next jobs go there, and it is told"""
    suite.write_list(list_of({**LISTED, "moving": ["n3"]}))
    suite.until(lambda: suite.datasets()["listed"] == len(LISTED) + 1, "the new dataset")
    first = suite.submit("moving", "-N1", seconds=4)
    suite.nodes_of([first])
    suite.write_list(list_of({**LISTED, "moving": ["n9"], "other": ["n1"]}))
    suite.until(lambda: suite.datasets()["listed"] == len(LISTED) + 2, "the new place")
    second = suite.submit("moving", "-N1")
    nodes = suite.nodes_of([first, second])
    suite.expect(nodes == [["n3"], ["n9"]], f"on {nodes}")
    told = phalanx(suite.cluster, "explain", "--verbose", str(second)).stdout
    suite.expect("each node of the job held it" in told
                 and suite.explained(second)["holders"] == "n9", f"explain: {told}")
    suite.write_list(list_of(LISTED))
    suite.until(lambda: suite.datasets()["listed"] == len(LISTED), "the first list")
    third = suite.submit("moving", "-N1", seconds=4)
    suite.until(lambda: "no list names it" in suite.cluster.job(third).get("Comment", ""),
                "the comment")
    suite.nodes_of([third])
    error = suite.explained(third).get("error") or ""
    suite.expect("no list names it" in error, f"explain: {error}")
    suite.expect(suite.metric("phalanx_datasets") == len(LISTED), "metrics")


@case
def nowhere(suite):
    """A dataset that nobody has, one whose nodes are full, and a full queue: nothing waits"""
    missing = suite.submit("nobody-has-it", "-N1", seconds=1)
    suite.nodes_of([missing], timeout=18)
    suite.until(lambda: suite.explained(missing).get("missed"), "its miss")
    full = suite.cluster.submit("-t2", "-p", "stock", "-N2", "--exclusive", "-w", "n3,n4",
                                wrap="sleep 20")
    suite.cluster.wait_jobs([full], states=("RUNNING",))
    before = suite.datasets()["misses"]
    elsewhere = suite.submit("set1", "-N1", seconds=1)
    nodes = suite.nodes_of([elsewhere], timeout=18)
    suite.expect(not set(nodes[0]) & {"n3", "n4"}, f"on {nodes[0]}")
    suite.until(lambda: suite.datasets()["misses"] == before + 1, "the miss")
    suite.expect(suite.explained(elsewhere).get("missed") == nodes[0][0],
                 f"explain: {suite.explained(elsewhere)}")
    suite.expect("no list names it" in (suite.explained(missing).get("error") or ""), "explain")
    waits = suite.submit("set1;locality=require", "-N1", seconds=1)
    suite.until(lambda: suite.cluster.job(waits)["JobState"] == "PENDING"
                and suite.explained(waits).get("nodes"), "a job that waits for its nodes")
    suite.cluster.run("scancel", str(full))
    nodes = suite.nodes_of([waits])
    suite.expect(set(nodes[0]) <= {"n3", "n4"}, f"required: on {nodes[0]}")


@case(needs=["near-the-list"])
def list_is_wrong(suite):
    """A wrong list: told with its line, the former one counts; a good one is taken at once"""
    suite.write_list('{\n"bucket/text": [{"bytes": 1, "host": ["n1"]}]\n}\n')
    error = suite.until(lambda: suite.datasets()["list_error"], "the error")
    suite.expect("list.json:2: unknown field `host`, expected `bytes` or `hosts`" in error, error)
    suite.expect("list.json:2" in phalanx(suite.cluster, "status").stdout, "status says nothing")
    suite.expect(suite.metric("phalanx_dataset_list_failed") == 1, "metrics")
    nodes = suite.nodes_of([suite.submit("bucket/text", "-N1", seconds=1)])
    suite.expect(nodes == [["n12"]], f"under the former list: on {nodes}")
    suite.write_list('{"bucket/text": [{"bytes": 1000, "hosts": ["n6", "elsewhere"]}]}')
    suite.until(lambda: suite.datasets()["list_error"] is None, "the new list")
    job = suite.submit("bucket/text", "-N1", seconds=1)
    nodes = suite.nodes_of([job])
    suite.expect(nodes == [["n6"]], f"under the new list: on {nodes}")
    suite.expect(suite.explained(job).get("unmapped") == ["elsewhere"], "hosts that are no nodes")
    suite.write_list(list_of(LISTED))
    suite.until(lambda: suite.datasets()["listed"] == len(LISTED), "the first list")


@case
def strange_names(suite):
    """Whatever a user calls a dataset: it runs, nothing else happens"""
    names = ["../../etc/passwd", "$(touch /tmp/x)", "`id`", "a%00b", "%0Aset0", "%", "x" * 300,
             "'; DROP TABLE jobs", "é%F0%9F%98%80", "http://127.0.0.1:1/", "-rf", "set0," * 200,
             "%2525%3B", "\u202e", "set0%09set1"]
    jobs = [suite.submit(name, "-N1", seconds=0) for name in names]
    suite.nodes_of(jobs)
    for name, job in zip(names, jobs):
        told = suite.explained(job).get("error")
        suite.expect(told, f"{name[:40]}: nothing is told")
        text = phalanx(suite.cluster, "explain", "--verbose", str(job)).stdout
        suite.expect("\0" not in text and len(text) < 20_000, f"{name[:40]}: {text[:300]}")
        comment = suite.cluster.job(job).get("Comment", "")
        suite.expect(f"data-input={name}"[:40] in comment, f"{name[:40]}: {comment[:80]}")
    nodes = suite.nodes_of([suite.submit("set2", "-N1", seconds=1)])
    suite.expect(set(nodes[0]) <= {"n5", "n6"}, f"afterwards: on {nodes}")


case(shipped_config)


def list_of(datasets):
    """The text of a list: eight parts each."""
    parts = {name: [{"bytes": 1 << 20, "hosts": on}] * 8 for name, on in datasets.items()}
    return json.dumps(parts, indent=1)


@contextlib.contextmanager
def setting(root, _args):
    """The cluster and its list."""
    os.chmod(root, 0o755)
    port, config = free_port(), os.path.join(root, "in.toml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(CONFIG.format(port=port, list=f"{root}/list.json"))
    with Cluster(os.path.join(root, "s"), nodes=NODES, config=config, extra=EXTRA) as cluster:
        suite = Datasets(cluster, root, port)
        suite.write_list(list_of(LISTED))
        suite.until(lambda: suite.datasets()["listed"] == len(LISTED), "the datasets", 30)
        yield suite


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
