#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the daemon learn how fast jobs run where, keep it, and take in accounting?

On a cluster with slurmdbd, jobs of one class take three times longer on one kind
of nodes. `phalanx history speeds` must show that; it must survive a restart and
`kill -9`; failed, cancelled, suspended and requeued runs must be recorded without
teaching nonsense; and sacct's accounting, imported into an empty history, must
teach the same, each run once.
"""

import gzip
import json
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

from placement import Suite  # noqa: E402
from slurmcluster import Cluster, ClusterError, UsageError  # noqa: E402
from slurmcluster.conf import PROMPT, write_config  # noqa: E402
from transparency_status import phalanx, phalanx_json  # noqa: E402

SLOW_S, FAST_S = 6, 2      # sacct counts whole seconds
RATIO = (2.0, 3.6)         # of their times: starting a job takes its time on either
SCRIPT = f"""#!/bin/sh
case $SLURMD_NODENAME in cpu*) sleep {SLOW_S} ;; *) sleep {FAST_S} ;; esac
"""


class Learning(Suite):
    """The checks, one after the other on one cluster."""

    def speeds(self):
        """{job class: its report}; {} before anything is learned."""
        report = phalanx_json(self.cluster, "history", "speeds")
        return {c["class"]: c for c in report["classes"]}

    def runs(self):
        """All runs by job, as users write it."""
        found = {}
        for run in phalanx_json(self.cluster, "history", "runs", "--limit", "10000")["runs"]:
            found.setdefault(run["job"], []).append(run)
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
        if self.wait(lambda: self.ratio() is not None, f"speeds of both kinds {when}"):
            ratio = self.ratio()
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

    def learned(self):
        """Ended jobs are recorded and teach what they should."""
        self.cluster.wait_jobs(self.work())
        self.expect_ratio("after the first jobs")
        ended = {str(job) for job in (self.requeued, self.failed, self.stopped, self.suspended)}
        self.wait(lambda: ended <= self.runs().keys(), "all runs that ended are recorded")
        self.cluster.run("scancel", str(self.requeued))
        runs, speeds = self.runs(), self.speeds()
        state = {job: runs.get(str(job), [{}])[0].get("state")
                 for job in (self.failed, self.stopped, self.suspended)}
        self.expect(list(state.values()) == ["FAILED", "CANCELLED", "COMPLETED"], f"{state}")
        self.expect(runs[str(self.failed)][0]["exit_code"] == 3, "exit code of the failed job")
        again = [run["state"] for run in runs[str(self.requeued)]]
        self.expect(again and "COMPLETED" not in again, f"the requeued run ended {again}")
        slept = runs[str(self.suspended)][0]
        total = slept["end_s"] - slept["start_s"]
        self.expect(slept["elapsed_ms"] / 1000 <= total - 1.5,
                    f"{slept['elapsed_ms']} ms of {total} s although suspended for 2.5 s")
        for name in ("broken", "stopped", "again"):
            self.expect(not any(f"/{name}/" in c for c in speeds), f"{name} taught a speed")
        gangs = [report for name, report in speeds.items() if "/=gang/n2" in name]
        self.expect(len(gangs) == 1 and gangs[0]["unit"] == "work/s" and gangs[0]["runs"] == 3,
                    f"declared class with work: {gangs}")
        placed = [run["placed_by"] for each in runs.values() for run in each]
        self.expect("balance" in placed, f"placed by {sorted(set(placed))}")

    def kept(self):
        """What was learned survives an orderly stop and kill -9, and counts once."""
        for kill in (False, True):
            before = {c: r["runs"] for c, r in self.speeds().items()}
            self.cluster.stop_phalanxd(kill=kill)
            self.cluster.start_phalanxd()
            self.expect_ratio("after kill -9" if kill else "after a restart")
            time.sleep(1.5)        # the ended jobs that slurmctld still knows are seen again
            after = {c: r["runs"] for c, r in self.speeds().items()}
            self.expect(before == after, f"runs before {before}, after {after}")

    def accounting(self):
        """sacct's accounting teaches the same, through the daemon and into the file."""
        cluster = self.cluster
        ended = sum(len(each) for each in self.runs().values())
        self.wait(lambda: self.imported()["known"] >= ended - 1, "slurmdbd knows all runs", 30)
        first = self.imported()
        self.expect(first["new"] == 0, f"runs of this cluster are known: {first}")
        text = cluster.run("sacct", "-a", "-D", "-P", "-S", "now-1hour", "--format=ALL").stdout
        file = os.path.join(os.path.dirname(cluster.paths.phalanx_toml), "all.txt.gz")
        with gzip.open(file, "wt", encoding="utf-8") as out:
            out.write(text)
        cluster.stop_phalanxd()
        path = os.path.join(cluster.paths.var, "history.sqlite")
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(path + suffix):
                os.remove(path + suffix)
        done = self.imported(file, "--config", cluster.paths.phalanx_toml)
        self.expect(done["into"].endswith("history.sqlite"), f"into the file: {done}")
        self.expect(done["new"] >= ended - 1 and done["bad_lines"] == 0, f"{ended} runs: {done}")
        cluster.start_phalanxd()
        self.expect_ratio("after an import into an empty history")
        again = self.imported(file)
        self.expect(again["into"] == "phalanxd" and again["new"] == 0, f"once more: {again}")
        self.expect_ratio("after importing twice")
        wrong = phalanx(cluster, "history", "import", "/dev/null", check=False)
        self.expect(wrong.returncode == 2 and "empty" in wrong.stderr, f"empty: {wrong.stderr}")

    def imported(self, *words):
        """Summary of an import, by default of the cluster's own accounting."""
        words = words or ("--sacct", "--since", "1h")
        done = phalanx(self.cluster, "history", "import", *words, "--json", check=False)
        if done.returncode:
            raise ClusterError(f"history import {words}: {done.stderr.strip()}")
        return json.loads(done.stdout)


def main():
    """Runs the checks in their order; 0 if all passed, else 1."""
    root, failed = tempfile.mkdtemp(prefix="phx-learn-"), 0
    try:
        directory = os.path.join(root, "cluster")
        config = write_config(directory, PROMPT)
        with Cluster(directory, config=config, slurmdbd=True) as cluster:
            suite = Learning(cluster)
            for check in (suite.learned, suite.kept, suite.accounting):
                started, suite.problems = time.monotonic(), []
                check()
                result = "FAILED" if suite.problems else "ok"
                print(f"{check.__name__:<12} {result:<7} {time.monotonic() - started:.1f} s",
                      flush=True)
                for problem in suite.problems:
                    print(f"    {problem}", flush=True)
                failed += bool(suite.problems)
    except (UsageError, ClusterError) as error:
        print(f"learn.py: {error}", file=sys.stderr)
        failed += 1
    if failed:
        print(f"files are in {root}")
        return 1
    shutil.rmtree(root, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
