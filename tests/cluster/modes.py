#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every form of every method plans on a real slurmctld, and its nodes are those that jobs get.

A row of FORMS is a case: what the configuration says, the jobs that wait behind one that wants all
nodes, and the method and the mode that `phalanx plan` must name. Once that one is gone, the history
must say that the jobs went where the method wanted them.
"""

import contextlib
import json
import os
import sys

from slurmcluster import Cluster
from slurmcluster.conf import PROMPT, write_config
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.suite import Cases, Suite, command_line, run

NODES = """\
NodeName=x[1-4] CPUs=2 RealMemory=1000 Feature=x
NodeName=y[1-4] CPUs=2 RealMemory=1000 Feature=y
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
EXTRA = ["SchedulerParameters=bf_interval=1,sched_min_interval=200000,batch_sched_delay=0"]
WATTS = '[bag]\nhold = "plan"\nwatts = { x = 100.0, y = 300.0 }\n'
GANGS = [("-N2", "--ntasks-per-node=2", "-Jpair")] * 3
ARRAY = [("-n1", "--array=1-6", "-Jbag")]
DATA = [("-N2", "-n4", "-Jread", "--comment=data-input=set")] * 2
BY_NAME = '[learn]\nestimator = "document"\nnode_class_by = ["name"]\n'
# Name of the case, configuration, jobs, method and mode of the plan.
FORMS = [
    ("gang-ga", "", GANGS, "gang", "ga"),
    ("gang-seed", '[gang]\nmode = "seed"\n', GANGS, "gang", "seed"),
    ("gang-document", BY_NAME, GANGS, "gang", "ga"),
    ("gang-seed-document", '[gang]\nmode = "seed"\n' + BY_NAME, GANGS, "gang", "seed"),
    ("bag-best", WATTS, ARRAY, "bag", "best"),
    ("bag-seed", WATTS.replace("[bag]", '[bag]\nmode = "seed"'), ARRAY, "bag", "seed"),
    *((f"data-{mode}", f'mode = "{mode}"\n', DATA, "data_jobs", mode.split("-", maxsplit=1)[0])
      for mode in ("best", "seed", "seed-early", "seed-late")),
]
HOLDERS = [f"y{i}" for i in (2, 3, 4)]
case = Cases()


class Modes(Suite):
    """The cluster."""

    soon_s = 20.0

    def configure(self, text):
        """Puts a configuration in force."""
        place = self.cluster.paths.phalanx_toml
        locations = os.path.join(os.path.dirname(place), "list.json")
        with open(locations, "w", encoding="utf-8") as file:
            json.dump({"set": [{"bytes": 1 << 24, "hosts": [host]} for host in HOLDERS]}, file)
        data = text if text.startswith("mode") else ""
        with open(place, encoding="utf-8") as file:
            kept = file.read().split("# --- form\n")[0]
        with open(place, "w", encoding="utf-8") as file:
            file.write(f"{kept}# --- form\n[data_jobs]\nlocations = \"{locations}\"\n{data}"
                       + ("" if data else text))
        report = phalanx_json(self.cluster, "daemon", "reload")
        self.expect(not report.get("error"), f"reload: {report}")

    def plans(self, method, mode):
        """The report of a plan of this method; None until there is one with jobs."""
        found = [m for m in phalanx_json(self.cluster, "plan")["methods"] if m["method"] == method]
        return found[0] if found and found[0]["jobs"] and found[0]["mode"] == mode else None

    def is_planned(self, job, method):
        """Whether a waiting job has this method's nodes."""
        done = phalanx(self.cluster, "explain", str(job), "--json", check=False)
        # A job that no poll has shown yet is unknown.
        pending = json.loads(done.stdout).get("pending") or {} if done.returncode == 0 else {}
        return (pending.get("preference") or {}).get("method") == method

    def placed_by(self, ids, count):
        """The methods whose nodes these jobs got, once all runs are recorded."""
        runs = phalanx_json(self.cluster, "history", "runs", "--limit", "200")["runs"]
        found = [run["placed_by"] for run in runs if int(run["job"].split("_")[0]) in ids]
        return found if len(found) == count else None


def plays(suite, text, jobs, method, mode):
    """One form: jobs wait, are planned by it, and get its nodes."""
    suite.configure(text)
    submit = suite.cluster.submit
    runs = submit("-N2", "--exclusive", "-Jruns", "-t10", wrap="exec sleep 600")
    suite.cluster.wait_jobs([runs], states={"RUNNING"})
    # Waits for all nodes: what comes behind it has room, and does not start.
    head = submit("-N8", "--exclusive", "-Jhead", "-t1")
    ids = [submit(*options, "-t60", wrap="sleep 1") for options in jobs]
    try:
        plan = suite.until(lambda: suite.plans(method, mode), f"a plan of {method} by {mode}")
        suite.expect(not plan.get("error"), f"{plan}")
        for job in ids:
            suite.until(lambda at=job: suite.is_planned(at, method), f"{method} plans {job}")
        suite.cluster.run("scancel", str(head))
        suite.cluster.wait_jobs(ids)
    finally:
        suite.cluster.run("scancel", *map(str, [head, runs, *ids]))
    count = 6 if jobs is ARRAY else len(jobs)
    by = suite.until(lambda: suite.placed_by(ids, count), "all runs are recorded")
    # The source's form may plan two jobs for the same nodes, one after the other.
    suite.expect(2 * by.count(method) >= count, f"placed by {by}")
    suite.summary = f"{by.count(method)} of {count} by {method}"


def form(name, text, jobs, method, mode):
    """The case of a row."""
    def one(suite):
        plays(suite, text, jobs, method, mode)
    one.__name__, one.__doc__ = name.replace("-", "_"), f"{method}, {name}: its nodes are taken"
    return one


# Times of the array on both classes, without which no bag is planned.
@case
def learn(suite):
    """Jobs of each kind are learned on both classes"""
    ids = [suite.cluster.submit(*options, "-C", kind, wrap="sleep 1")
           for options in (GANGS[0], ("-n1", "--array=1-2", "-Jbag")) for kind in "xy"]
    suite.cluster.wait_jobs(ids)


for row in FORMS:
    case(needs=["learn"])(form(*row))


@case(needs=["gang_seed_document"])
def by_name(suite):
    """By name and without shrinking each node is a class, with the plain mean of its runs"""
    suite.configure(BY_NAME)

    def classes():
        found = [c for c in phalanx_json(suite.cluster, "history", "speeds")["classes"]
                 if "/pair/" in c["class"]]
        names = {row["name"] for c in found for row in c["node_classes"]}
        return names and names <= {f"{kind}{i}" for kind in "xy" for i in range(1, 5)}
    suite.until(classes, "classes named as the nodes")


@contextlib.contextmanager
def setting(root, _args):
    """The cluster."""
    place = os.path.join(root, "c")
    with Cluster(place, nodes=NODES, extra=EXTRA, config=write_config(place, PROMPT)) as cluster:
        yield Modes(cluster)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
