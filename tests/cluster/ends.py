#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do predicted ends decide? Jobs that ask for an hour and run for seconds.

After a few jobs of each kind ended, the daemon knows how long such jobs run. With
`order.by = "learned"` the short ones start first although they came last; without, they
start as they came. And while a job of three nodes waits for one that is predicted to end in
a moment, a job that runs longer goes to the node that the gang does not wait for, so that
the gang starts in time; without predictions it takes one of the gang's nodes.
"""

import json
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

from gangs import Suite, seconds  # noqa: E402
from slurmcluster import Cluster, ClusterError  # noqa: E402
from slurmcluster.conf import PROMPT, write_config  # noqa: E402
from transparency_status import phalanx, phalanx_json  # noqa: E402

# Slurm takes the last node last.
NODES = ("NodeName=n[1-3] CPUs=2 Sockets=1 CoresPerSocket=2 RealMemory=4000 Weight=1\n"
         "NodeName=n4 CPUs=2 Sockets=1 CoresPerSocket=2 RealMemory=4000 Weight=50\n"
         "PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP\n")
EXTRA = ["PriorityType=priority/multifactor", "PriorityWeightAge=0",
         "SchedulerParameters=bf_interval=1,bf_resolution=1,sched_min_interval=100000,"
         "batch_sched_delay=0,bf_continue"]
CONFIG = PROMPT + """\
[order]
enabled = true
by = "learned"
[learn]
runtimes_decide = true
"""
RUNS = {"short": 1, "mid": 6, "long": 12}       # seconds that jobs of each name run


class Ends(Suite):
    """The cases, on one cluster."""

    def submit(self, name, *options, run_s=None):
        """A job of a kind, with a limit of an hour unless it says otherwise."""
        options = options or ("-n1",)
        limit = () if any(o.startswith("-t") for o in options) else ("-t60",)
        return self.cluster.submit("-J", name, *limit, *options,
                                   wrap=f"exec sleep {run_s or RUNS[name]}")

    def until(self, what, test, timeout=20):
        """Waits for something; raises if it does not come."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            found = test()
            if found:
                return found
            time.sleep(0.2)
        raise ClusterError(f"{what}: not within {timeout} s")

    def running(self, *jobs):
        """Waits until these jobs run."""
        self.until(f"start of {jobs}", lambda: all(
            self.cluster.job(job)["JobState"] == "RUNNING" for job in jobs))

    def configure(self, old, new):
        """Changes the configuration in force."""
        path = self.cluster.paths.phalanx_toml
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.expect(old in text, f"no {old!r} in {path}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))
        phalanx(self.cluster, "reload")

    def learn(self):
        """A few jobs of each kind"""
        jobs = [self.submit(name) for name in RUNS for _ in range(3)]
        self.cluster.wait_jobs(jobs, timeout=60)

    def explained(self, job):
        """What is said of a job's runtime; empty before the daemon knows the job."""
        done = phalanx(self.cluster, "explain", str(job), "--json", check=False)
        return json.loads(done.stdout).get("expected") or {} if done.returncode == 0 else {}

    def order(self):
        """Short jobs first, by prediction"""
        begun = {}
        for learned in (True, False):
            if not learned:
                self.configure('by = "learned"', 'by = "plan"')
            # All CPUs are taken; the one that is given up can run one job after the other.
            held = [self.submit("blocker", "-N3", "--exclusive", "-x", "n4", run_s=100),
                    *[self.submit("blocker", "-n1", "-w", "n4", run_s=100) for _ in range(2)]]
            self.running(*held)
            jobs = [self.submit(name) for name in ("long", "mid", "short")]
            if learned:
                said = self.until("a prediction", lambda: self.explained(jobs[2]))
                self.expect(said["runtime_s"] < 60 and said["runs"] >= 2 and said["limit_s"] == 3600
                            and "the order of starts" in said["used_for"], f"explain: {said}")
                text = phalanx(self.cluster, "explain", str(jobs[2])).stdout
                self.expect("decides the order of starts" in text, text)
                self.until("deltas", lambda: phalanx_json(self.cluster, "status")["order"]["active"])
            time.sleep(1)
            self.cluster.run("scancel", str(held[2]))
            first = self.until("a start", lambda: [
                j for j in jobs if self.cluster.job(j)["JobState"] in ("RUNNING", "COMPLETED")])
            begun[learned] = ["long", "mid", "short"][jobs.index(first[0])]
            self.cluster.run("scancel", *map(str, [*jobs, *held]))
            self.until("an empty queue", lambda: not self.cluster.run("squeue", "-h").stdout.strip())
        self.expect(begun == {True: "short", False: "long"}, f"started first: {begun}")

    def gang(self):
        """A gang is not delayed by a job that outlasts its predicted start"""
        waited = {}
        for decide in (True, False):
            if not decide:
                self.configure("runtimes_decide = true", "runtimes_decide = false")
            jobs = [self.submit("mid", "-n1", "-w", "n3"), self.submit("mid", "-n1", "-w", "n3"),
                    self.submit("long", "-n1", "-w", "n4")]
            self.running(*jobs)
            gang = self.submit("gang", "-N3", "--exclusive", "-x", "n4", run_s=1)
            if decide:
                self.until("the gang's nodes are spared", lambda: any(
                    m["method"] == "spare" and m["terms"].get("gang") == gang
                    for m in phalanx_json(self.cluster, "plan")["methods"]))
                shown = phalanx_json(self.cluster, "explain", str(gang))["pending"]
                self.expect(shown.get("expected_start_ms"), f"explain {gang}: {shown}")
            outlasting = self.submit("long", "-n1", "-t10")
            self.running(outlasting)
            if decide:
                node = self.cluster.job(outlasting)["NodeList"]
                self.expect(node == "n4", f"the job that outlasts the gang's start is on {node}")
            self.running(gang)
            record = self.cluster.job(gang)
            waited[decide] = seconds(record, "StartTime") - seconds(record, "SubmitTime")
            self.cluster.run("scancel", *map(str, [*jobs, outlasting]))
            self.until("an empty queue", lambda: not self.cluster.run("squeue", "-h").stdout.strip())
        print(f"    the gang waited {waited[True]:.0f} s, without predictions {waited[False]:.0f} s")
        self.expect(waited[True] + 3 < waited[False], f"the gang waited {waited}")


def main():
    """The suite; 0 if all is well."""
    root = tempfile.mkdtemp(prefix="phx-ends-")
    try:
        directory = os.path.join(root, "c")
        config = write_config(directory, CONFIG)
        with Cluster(directory, nodes=NODES, extra=EXTRA, config=config) as cluster:
            suite = Ends(cluster)
            return suite.run_cases("ends", (suite.learn, suite.order, suite.gang))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
