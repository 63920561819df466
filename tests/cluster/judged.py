# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm says of its jobs is kept while a suite runs, and judged after it.

The judge is tests/judge_history.py, which shares no code with the suites: it gets files.
"""

import json
import os
import re
import subprocess
import sys
import threading
import time

from slurmcluster import ClusterError
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.suite import until

JUDGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                     "judge_history.py")
EXPLAINED = 20      # jobs of which phalanxd is asked in the end
RECEIPTS = os.path.join(os.path.dirname(JUDGE), "receipts.py")
JOB = re.compile(r"JobId=(\d+) .*JobState=(\w+)")


class Keeper:
    """Asks slurmctld for its jobs again and again; each is kept once waiting and once begun."""

    def __init__(self, cluster, every_s):
        self.cluster, self.every_s, self.path = cluster, every_s, cluster.paths.root + ".jobs"
        self._kept, self._stop = set(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="keeper", daemon=True)
        with open(self.path, "w", encoding="utf-8"):
            pass    # a former one's is not this one's

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _work(self):
        while not self._stop.wait(self.every_s):
            self.ask()

    def ask(self, whole=False):
        """Keeps what is new, or the whole; the ids of all jobs that slurmctld has."""
        try:
            done = self.cluster.run("scontrol", "-o", "-d", "show", "job", check=False)
        except ClusterError:
            return []
        known, lines = [], [f"# {time.time():.0f}"]
        for line in done.stdout.splitlines() if done.returncode == 0 else ():
            match = JOB.match(line)
            if match:
                job, begun = int(match.group(1)), match.group(2) != "PENDING"
                known.append(job)
                if whole or (job, begun) not in self._kept:
                    lines.append(line)
                    self._kept.add((job, begun))
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return known


def judge(keepers, submitted, *options):
    """(what is wrong, the judge's verdict) of one cluster, or of one and stock beside it.

    `submitted`: {name: tasks} of each, which must all have ended well.
    """
    words, keeper = [], keepers[0]
    for each, names, prefix in zip(keepers, submitted, ("", "beside-")):
        known = each.ask(whole=True)
        words += [f"--{prefix or 'conf'}".removesuffix("-"), each.cluster.paths.slurm_conf,
                  f"--{prefix}jobs", each.path]
        if names:
            path = each.cluster.paths.root + ".submitted"
            with open(path, "w", encoding="utf-8") as file:
                json.dump(names, file)
            words += [f"--{prefix}submitted", path]
        if not prefix:
            words += ["--explained", explained(each.cluster, known[-EXPLAINED:])]
    words += ["--history", os.path.join(keeper.cluster.paths.var, "history.sqlite"), *options]
    done = subprocess.run([sys.executable, JUDGE, *words], capture_output=True, text=True,
                          check=False)
    with open(keeper.cluster.paths.root + ".judged", "w", encoding="utf-8") as file:
        file.write(done.stdout + done.stderr)
    wrong = [line for line in done.stdout.splitlines() if "BROKEN" in line or line[:1] == " "]
    if done.returncode > 1 or not done.stdout:
        wrong = [f"the judge ended with {done.returncode}: {done.stderr.strip()}"]
    return wrong if done.returncode else [], done.stdout


def receipts(keeper, since, slack_s):
    """(what is wrong, the verdict) of phalanxd's receipts since a time, by tests/receipts.py, which
    shares no code either. Call it after the judge, which has all jobs kept.

    `slack_s`: how late phalanxd may have heard of a start.
    """
    cluster, words = keeper.cluster, []
    until(lambda: phalanx(cluster, "status", check=False).returncode == 0, "phalanxd answers", 20.0)
    said = {"receipts": ("report", "audit", "--since", since),
            "runs": ("history", "runs", "--since", since, "--limit", "100000")}
    for name, command in said.items():
        path = f"{cluster.paths.root}.{name}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(phalanx(cluster, *command, "--json", timeout=120).stdout)
        words += [f"--{name}", path]
    with open(cluster.paths.slurm_conf, encoding="utf-8") as file:
        text = file.read()
    bound = re.search(r"phalanx_hold_max=(\d+)", text)
    words += ["--hold-max", bound.group(1)] if bound else []
    completions = re.search(r"(?m)^JobCompLoc=(\S+)", text)
    done = subprocess.run([sys.executable, RECEIPTS, *words, "--slack", str(slack_s),
                           "--lost", str(phalanx_json(cluster, "status")["history"]["dropped"]),
                           keeper.path, *(completions.groups() if completions else ()),
                           os.path.join(cluster.paths.log, "slurmctld.log")],
                          capture_output=True, text=True, check=False)
    wrong = f"the receipts are wrong ({done.returncode}):\n{done.stdout}{done.stderr}"
    return [wrong] if done.returncode else [], done.stdout


def explained(cluster, jobs):
    """A file of what phalanxd says of some jobs."""
    path = cluster.paths.root + ".explained"
    with open(path, "w", encoding="utf-8") as file:
        for job in jobs:
            done = phalanx(cluster, "explain", str(job), "--json", check=False)
            if done.returncode == 0:
                file.write(json.dumps(json.loads(done.stdout)) + "\n")
    return path
