#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the daemon learn how fast jobs run where, keep it, and take in accounting?

On a cluster with slurmdbd, jobs of one class take three times longer on one kind
of nodes. `phalanx history speeds` must show that; it must survive a restart and
`kill -9`; failed, cancelled, suspended and requeued runs must be recorded without
teaching nonsense; and sacct's accounting, imported into an empty history, must
teach the same, each run once.
"""

import contextlib
import gzip
import json
import os
import sys
import time

from slurmcluster import Cluster, ClusterError
from slurmcluster.conf import PROMPT, write_config
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.suite import Cases, Suite, command_line, run

SLOW_S, FAST_S = 6, 2      # sacct counts whole seconds
RATIO = (2.0, 3.6)         # of their times: starting a job takes its time on either
SCRIPT = f"""#!/bin/sh
case $SLURMD_NODENAME in cpu*) sleep {SLOW_S} ;; *) sleep {FAST_S} ;; esac
"""


case = Cases()


class Learning(Suite):
    """What the daemon has learned."""

    soon_s = 10.0

    def speeds(self):
        """{job class: its report}; {} before anything is learned."""
        report = phalanx_json(self.cluster, "history", "speeds")
        return {c["class"]: c for c in report["classes"]}

    def runs(self):
        """All runs by job, as users write it."""
        found = {}
        for each in phalanx_json(self.cluster, "history", "runs", "--limit", "10000")["runs"]:
            found.setdefault(each["job"], []).append(each)
        return found

    def ratio(self):
        """Time of the class `train` on slow nodes by that on fast ones; None if not known."""
        for name, report in self.speeds().items():
            seconds = {row["name"].split("/")[0]: row["seconds"] for row in report["node_classes"]}
            if "/train/" in name and {"amd+cpu", "a100+intel"} <= set(seconds):
                return seconds["amd+cpu"] / seconds["a100+intel"]
        return None

    def expect_ratio(self, when):
        """The learned ratio must be there and near the true one."""
        ratio = self.until(self.ratio, f"speeds of both kinds {when}")
        self.expect(RATIO[0] <= ratio <= RATIO[1], f"ratio {when}: {ratio:.2f}")

    def work(self):
        """Jobs of several kinds; returns the ids of all."""
        submit = self.cluster.submit
        jobs = [submit("-n1", "-J", f"train_{i}", "-C", kind, script=SCRIPT)
                for i in range(4) for kind in ("cpu", "a100")]
        jobs.append(submit("-N2", "-n2", "--array=0-2", "--comment=x;class=gang;work=10",
                           wrap="sleep 1"))
        self.failed = submit("-n1", "-J", "broken", wrap="sleep 1; exit 3")
        self.stopped = submit("-n1", "-J", "stopped", wrap="sleep 60")
        self.suspended = submit("-N1", "--exclusive", "-J", "slept", wrap="sleep 3")
        self.requeued = submit("-n1", "-J", "again", "--requeue", wrap="sleep 60")
        self.cluster.wait_jobs([self.suspended, self.stopped, self.requeued], states={"RUNNING"})
        self.cluster.run("scontrol", "suspend", str(self.suspended))
        time.sleep(2.5)
        self.cluster.run("scontrol", "resume", str(self.suspended))
        self.cluster.run("scancel", str(self.stopped))
        self.cluster.run("scontrol", "requeue", str(self.requeued))
        return jobs + [self.failed, self.stopped, self.suspended]

    def imported(self, *words):
        """Summary of an import, by default of the cluster's own accounting."""
        words = words or ("--sacct", "--since", "1h")
        done = phalanx(self.cluster, "history", "import", *words, "--json", check=False)
        if done.returncode:
            raise ClusterError(f"history import {words}: {done.stderr.strip()}")
        return json.loads(done.stdout)


@case
def learned(suite):
    """Ended jobs are recorded and teach what they should."""
    suite.cluster.wait_jobs(suite.work())
    suite.expect_ratio("after the first jobs")
    ended = {str(job) for job in (suite.requeued, suite.failed, suite.stopped, suite.suspended)}
    suite.until(lambda: ended <= suite.runs().keys(), "all runs that ended are recorded")
    suite.cluster.run("scancel", str(suite.requeued))
    runs, speeds = suite.runs(), suite.speeds()
    state = {job: runs.get(str(job), [{}])[0].get("state")
             for job in (suite.failed, suite.stopped, suite.suspended)}
    suite.expect(list(state.values()) == ["FAILED", "CANCELLED", "COMPLETED"], f"{state}")
    suite.expect(runs[str(suite.failed)][0]["exit_code"] == 3, "exit code of the failed job")
    again = [run["state"] for run in runs[str(suite.requeued)]]
    suite.expect(again and "COMPLETED" not in again, f"the requeued run ended {again}")
    slept = runs[str(suite.suspended)][0]
    total = slept["end_s"] - slept["start_s"]
    suite.expect(slept["elapsed_ms"] / 1000 <= total - 1.5,
                 f"{slept['elapsed_ms']} ms of {total} s although suspended for 2.5 s")
    for name in ("broken", "stopped", "again"):
        suite.expect(not any(f"/{name}/" in c for c in speeds), f"{name} taught a speed")
    gangs = [report for name, report in speeds.items() if "/=gang/n2" in name]
    suite.expect(len(gangs) == 1 and gangs[0]["unit"] == "work/s" and gangs[0]["runs"] == 3,
                 f"declared class with work: {gangs}")
    placed = [run["placed_by"] for each in runs.values() for run in each]
    suite.expect("balance" in placed, f"placed by {sorted(set(placed))}")


@case(needs=["learned"])
def kept(suite):
    """What was learned survives an orderly stop and kill -9, and counts once."""
    def taught():
        return sum(report["runs"] for report in suite.speeds().values())

    # 8 jobs of one class and 3 of another: the last may be recorded after the first ratio. Whether
    # the job that was suspended teaches as well depends on when that was seen.
    def settled():
        before = taught()
        time.sleep(3)
        return before == taught() >= 11

    suite.until(settled, "the speeds of all runs", 30)
    for kill in (False, True):
        before = {c: r["runs"] for c, r in suite.speeds().items()}
        suite.cluster.stop_phalanxd(kill=kill)
        suite.cluster.start_phalanxd()
        suite.expect_ratio("after kill -9" if kill else "after a restart")
        time.sleep(1.5)        # the ended jobs that slurmctld still knows are seen again
        after = {c: r["runs"] for c, r in suite.speeds().items()}
        suite.expect(before == after, f"runs before {before}, after {after}")


@case(needs=["learned"])
def accounting(suite):
    """sacct's accounting teaches the same, into a full history and an empty one."""
    cluster = suite.cluster
    ended = sum(len(each) for each in suite.runs().values())
    suite.until(lambda: suite.imported()["known"] >= ended - 1, "slurmdbd knows all runs", 30)
    first = suite.imported()
    suite.expect(first["new"] == 0, f"runs of this cluster are known: {first}")
    text = cluster.run("sacct", "-a", "-D", "-P", "-S", "now-1hour", "--format=ALL").stdout
    file = os.path.join(os.path.dirname(cluster.paths.phalanx_toml), "all.txt.gz")
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.write(text)
    cluster.stop_phalanxd()
    path = os.path.join(cluster.paths.var, "history.sqlite")
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(path + suffix):
            os.remove(path + suffix)
    without = phalanx(cluster, "history", "import", file, check=False)
    suite.expect(without.returncode == 4 and "is phalanxd running" in without.stderr,
                 f"without phalanxd: {without.stderr}")
    cluster.start_phalanxd()
    done = suite.imported(file)
    suite.expect(done["new"] >= ended - 1 and done["bad_lines"] == 0, f"{ended} runs: {done}")
    suite.expect_ratio("after an import into an empty history")
    again = suite.imported(file)
    suite.expect(again["new"] == 0, f"once more: {again}")
    suite.expect_ratio("after importing twice")
    wrong = phalanx(cluster, "history", "import", "/dev/null", check=False)
    suite.expect(wrong.returncode == 2 and "empty" in wrong.stderr, f"empty: {wrong.stderr}")


@contextlib.contextmanager
def setting(root, _args):
    """One cluster with accounting."""
    place = os.path.join(root, "c")
    with Cluster(place, config=write_config(place, PROMPT), slurmdbd=True) as cluster:
        yield Learning(cluster)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
