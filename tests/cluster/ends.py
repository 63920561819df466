#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do predicted ends decide? Jobs that ask for an hour and run for seconds.

After a few jobs of each kind ended, the daemon knows how long such jobs run. With
`order.by = "learned"` the short ones start first although they came last; without, they
start as they came. And while a job of three nodes waits for one that is predicted to end in
a moment, a job that runs longer goes to the node that the gang does not wait for, so that
the gang starts in time; without predictions it takes one of the gang's nodes.
"""

import contextlib
import json
import os
import sys
import time

from slurmcluster import Cluster
from slurmcluster.conf import PROMPT, write_config
from slurmcluster.jobs import seconds
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.shipped import shipped_config
from slurmcluster.suite import Cases, Suite, command_line, run

# Of idle nodes the last is taken last.
NODES = ("NodeName=n[1-4] CPUs=2 Sockets=1 CoresPerSocket=2 RealMemory=4000\n"
         "PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP\n")
EXTRA = ["PriorityType=priority/multifactor", "PriorityWeightAge=0",
         "SchedulerParameters=bf_interval=3,bf_resolution=1,sched_min_interval=100000,"
         "batch_sched_delay=0,bf_continue"]
CONFIG = PROMPT + """\
[order]
by = "learned"
[learn]
runtimes_decide = true
"""
RUNS = {"short": 1, "mid": 6, "long": 12}       # seconds that jobs of each name run
case = Cases()


class Ends(Suite):
    """Jobs of each kind, and what is said of them."""

    soon_s = 20.0

    def submit(self, name, *options, run_s=None):
        """A job of a kind, with a limit of an hour unless it says otherwise."""
        options = options or ("-n1",)
        limit = () if any(o.startswith("-t") for o in options) else ("-t60",)
        return self.cluster.submit("-J", name, *limit, *options,
                                   wrap=f"exec sleep {run_s or RUNS[name]}")

    def running(self, *jobs):
        """Waits until these jobs run."""
        self.until(lambda: all(self.cluster.job(job)["JobState"] == "RUNNING" for job in jobs),
                   f"start of {jobs}")

    def configure(self, old, new):
        """Changes the configuration in force."""
        path = self.cluster.paths.phalanx_toml
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.expect(old in text, f"no {old!r} in {path}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))
        phalanx(self.cluster, "daemon", "reload")

    def explained(self, job, what="expected"):
        """What is said of a job's runtime, or else; empty before the daemon knows the job."""
        done = phalanx(self.cluster, "explain", str(job), "--json", check=False)
        return json.loads(done.stdout).get(what) or {} if done.returncode == 0 else {}

    def emptied(self):
        """Waits until no job is left."""
        self.until(lambda: not self.cluster.run("squeue", "-h").stdout.strip(), "an empty queue")


@case
def learn(suite):
    """A few jobs of each kind"""
    jobs = [suite.submit(name) for name in RUNS for _ in range(3)]
    suite.cluster.wait_jobs(jobs, timeout=60)


@case(needs=["learn"])
def order(suite):
    """Short jobs first, by prediction"""
    begun = {}
    for learned in (True, False):
        if not learned:
            suite.configure('by = "learned"', 'by = "plan"')
        # All CPUs are taken; the one that is given up can run one job after the other.
        held = [suite.submit("blocker", "-N3", "--exclusive", "-x", "n4", run_s=100),
                *[suite.submit("blocker", "-n1", "-w", "n4", run_s=100) for _ in range(2)]]
        suite.running(*held)
        jobs = [suite.submit(name) for name in ("long", "mid", "short")]
        if learned:
            said = suite.until(lambda: suite.explained(jobs[2]), "a prediction")
            suite.expect(said["runtime_s"] < 60 and said["runs"] >= 2 and said["limit_s"] == 3600
                         and "the order of starts" in said["used_for"], f"explain: {said}")
            text = phalanx(suite.cluster, "explain", "--verbose", str(jobs[2])).stdout
            suite.expect("decides the order of starts" in text, text)
            suite.until(lambda: phalanx_json(suite.cluster, "status")["order"]["active"], "deltas")
            queue = ("squeue", "-h", "-t", "PD", "-S", "-p,i", "-o", "%i")
            suite.until(lambda: suite.cluster.run(*queue).stdout.split()[:1] == [str(jobs[2])],
                        "the shortest is first")
        suite.cluster.run("scancel", str(held[2]))
        first = suite.until(lambda: [j for j in jobs if suite.cluster.job(j)["JobState"]
                                     in ("RUNNING", "COMPLETED")], "a start")
        begun[learned] = ["long", "mid", "short"][jobs.index(first[0])]
        suite.cluster.run("scancel", *map(str, [*jobs, *held]))
        suite.emptied()
    suite.expect(begun == {True: "short", False: "long"}, f"started first: {begun}")


def gang_waits(suite, decide):
    """Lets a gang wait while a job comes that outlasts its start; returns the gang's wait, and
    where the other job ran, by what.
    """
    jobs = [suite.submit("mid", "-n1", "-w", "n3") for _ in range(2)]
    suite.running(*jobs)
    gang = suite.submit("gang", "-N3", "--exclusive", "-x", "n4", run_s=1)
    if decide:
        suite.until(lambda: any(
            m["method"] == "backfill_window" and m["terms"].get("gang") == gang
            for m in phalanx_json(suite.cluster, "plan")["methods"]),
            "the gang's nodes are spared")
    outlasting = suite.submit("long", "-n1", "-t10")
    suite.running(outlasting)
    node = suite.cluster.job(outlasting)["NodeList"]
    placed = suite.until(
        lambda: phalanx_json(suite.cluster, "explain", str(outlasting)).get("placed"),
        "explain knows where it ran")
    suite.running(gang)
    record = suite.cluster.job(gang)
    suite.cluster.run("scancel", *map(str, [*jobs, outlasting]))
    suite.emptied()
    by = ((placed.get("decision") or {}).get("preference") or {}).get("method")
    return seconds(record, "StartTime") - seconds(record, "SubmitTime"), node, by


@case(needs=["learn"])
def gang(suite):
    """A gang is not delayed by a job that outlasts its predicted start"""
    # Slurm may start the job before a plan has seen it: then it is no job of this case.
    for _ in range(4):
        planned, node, by = gang_waits(suite, True)
        if by == "backfill_window":
            break
    suite.expect((node, by) == ("n4", "backfill_window"),
                 f"the job that outlasts the gang's start is on {node}, by {by}")
    suite.configure("runtimes_decide = true", "runtimes_decide = false")
    waited = gang_waits(suite, False)[0]
    print(f"    the gang waited {planned:.0f} s, without predictions {waited:.0f} s")
    suite.expect(planned + 3 < waited, f"the gang waited {planned} and {waited} s")


@case(needs=["learn"])
def forecast(suite):
    """The start of a waiting job is forecast"""
    held = suite.submit("long", "-N4", "--exclusive")
    suite.running(held)
    waiting = suite.submit("short")

    def by_runs():
        """The forecast, once it is by what such jobs took: the first may be by limits of hours."""
        found = suite.explained(waiting, "pending").get("start_ms")
        return found and found[0] < (time.time() + 600) * 1000 and found

    middle_ms, end_ms = suite.until(by_runs, "a forecast by what such jobs took")
    suite.expect("nine in ten by" in phalanx(suite.cluster, "explain", str(waiting)).stdout,
                 "explain says so")
    planned = [job["start_ms"] for job in phalanx_json(suite.cluster, "plan")["jobs"]
               if job["job_id"] == waiting]
    suite.expect(planned and planned[0][0] <= planned[0][1], f"plan: {planned}")
    suite.running(waiting)
    began_ms = seconds(suite.cluster.job(waiting), "StartTime") * 1000
    suite.expect(abs(began_ms - middle_ms) < 10_000 and began_ms <= end_ms,
                 f"{began_ms}: {middle_ms}, {end_ms}")
    suite.emptied()


case(shipped_config)


@contextlib.contextmanager
def setting(root, _args):
    """One cluster of four nodes."""
    place = os.path.join(root, "c")
    config = write_config(place, CONFIG)
    with Cluster(place, nodes=NODES, extra=EXTRA, config=config) as cluster:
        yield Ends(cluster)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
