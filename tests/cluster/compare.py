#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The live comparison on a real cluster: a list of short jobs, half of them left to Slurm alone.

Four users fill eight nodes with single jobs, jobs of two nodes and arrays, far faster than they
end, so that most wait. `phalanx report compare` is held against what scontrol, sprio and the
history say. Then nothing of Phalanx acts on either arm, with another share, and it must not claim
a difference.
"""

import contextlib
import json
import math
import random
import re
import sys

from slurmcluster import Cluster
from slurmcluster.conf import PROMPT, SCHEDULER, write_config
from slurmcluster.measure import seconds_of
from slurmcluster.phalanx import phalanx, phalanx_json, reload
from slurmcluster.suite import Cases, Suite, check, command_line, run

NODES = """NodeName=n[1-8] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=4000
PartitionName=main Nodes=n[1-8] Default=YES MaxTime=INFINITE State=UP
PartitionName=side Nodes=n[5-8] MaxTime=INFINITE State=UP
"""
# Among equal priorities the newest would be tried as it comes.
EXTRA = [f"SchedulerParameters={SCHEDULER},defer".replace("sched_interval=2", "sched_interval=1"),
         "PriorityWeightPartition=1000", "SelectTypeParameters=CR_Core", "DefMemPerCPU=0"]
USERS = ("bin", "daemon", "nobody", "sys")
TASKS = 3           # of each array
DEVIATIONS = 4      # of chance, beyond which arms are not as they were drawn
LONG = 600          # jobs, of the list for which the order has to act
FAR = 1.8           # half intervals of 95 %, of four figures at once
END_S = 400
case = Cases()


def config(share, mode):
    """The daemon's configuration."""
    text = PROMPT.replace('mode = "enforce"', f'mode = "{mode}"')
    return f'{text}[order]\nby = "learned"\nshort_s = 604800\n[compare]\nshare = {share}\n'


class Compare(Suite):
    """The cluster, and how long a list is."""

    def __init__(self, cluster, count):
        super().__init__(cluster)
        self.count = count

    def moved(self):
        """The waiting jobs whose place the daemon has changed."""
        lines = self.cluster.run("sprio", "-h", "-o", "%i %S").stdout.splitlines()
        return {job for job, site in map(str.split, lines) if site != "0"}

    def work_off(self, seed):
        """Works a list off; returns its runs by job id as submitted, and the jobs moved."""
        rng, ids, moved = random.Random(seed), set(), set()
        for number in range(self.count):
            lasts, kind = rng.randint(1, 4), rng.random()
            size = ["-N2", "-n2"] if kind < 0.2 else ["-n1"]
            size += [f"--array=1-{TASKS}"] if kind > 0.95 else []
            ids.add(str(self.cluster.submit(
                f"--uid={rng.choice(USERS)}", "-D/", f"-t{lasts}", "-p",
                rng.choice(["main", "main", "side"]), *size, wrap=f"exec sleep {lasts}")))
            if number % 20 == 19:
                moved.update(self.moved())

        def ended():
            moved.update(self.moved())
            return not self.cluster.run("squeue", "-h").stdout
        self.until(ended, "all ended", END_S, 1)
        records = [one for one in self.cluster.jobs()
                   if one.get("ArrayJobId", one["JobId"]) in ids]
        bad = [one["JobId"] for one in records if one["JobState"] != "COMPLETED"]
        check(not bad, f"did not complete: {bad[:9]}")

        def recorded():
            runs = phalanx_json(self.cluster, "history", "runs", "--limit", "5000")["runs"]
            runs = {one["job"]: one for one in runs if one["job"].split("_")[0] in ids}
            return len(runs) == len(records) and runs
        return self.until(recorded, f"{len(records)} runs recorded"), records, moved

    def arms(self, share, runs, records):
        """The report's arms are as drawn, alike, and what scontrol says of them."""
        found = phalanx_json(self.cluster, "report", "compare")
        ours, stock = found["phalanx"], found["slurm"]
        drawn = ours["drawn"] + stock["drawn"]
        self.expect((drawn, found["share"]) == (self.count, share), f"{drawn} of {share}")
        expected, chance = share * drawn, math.sqrt(drawn * share * (1 - share))
        self.expect(abs(ours["drawn"] - expected) <= DEVIATIONS * chance,
                    f"{ours['drawn']} jobs instead of {expected:.0f}")
        self.expect(ours["users"] == stock["users"] == len(USERS), "users of the arms")
        for name in ours["mix"] | stock["mix"]:
            parts = [(arm["mix"].get(name, 0.0), arm["drawn"]) for arm in (ours, stock)]
            part = sum(each * jobs for each, jobs in parts) / drawn
            chance = math.sqrt(part * (1 - part) * sum(1 / jobs for _, jobs in parts))
            apart = abs(parts[0][0] - parts[1][0])
            self.expect(apart <= DEVIATIONS * chance, f"{name}: {parts}, by chance {chance:.3f}")
        for arm in ("slurm", "phalanx"):
            jobs = {name for name, one in runs.items() if one["arm"] == f"{arm} {share}"}
            of_arm = [one for one in records if job_name(one) in jobs]
            waits = [seconds_of(one["StartTime"]) - seconds_of(one["EligibleTime"])
                     for one in of_arm]
            wait, told = sum(waits) / len(waits), found["figures"][0][arm]
            self.expect(len(of_arm) == found[arm]["runs"], f"{len(of_arm)} runs: {found[arm]}")
            self.expect(abs(wait - told) < 0.01, f"{arm}: {wait} s by scontrol, {told} s told")
        self.summary = (f"{stock['drawn']} and {ours['drawn']} jobs, mean wait "
                        + " and ".join(f"{found['figures'][0][arm]:.1f}"
                                       for arm in ("slurm", "phalanx")) + " s")
        return found

    def verdict(self, found):
        """The report's sentence, which must be of what its figures are; each has an interval."""
        text = phalanx(self.cluster, "report", "compare").stdout
        told = " ".join(text.split("\n\n")[0].split())
        differing = [one["name"] for one in found["figures"]
                     if abs(one["phalanx"] - one["slurm"]) > one["chance"]]
        for one in found["figures"]:
            row = rf"(?m)^{one['name']} .*[+-][\d.]+.* [+-][\d.]+.* to [+-][\d.]+"
            self.expect(re.search(row, text), f"no interval: {one}\n{text}")
            is_named = f"{one['name'].lower()} is" in told
            self.expect((one["name"] in differing) == is_named, f"{one}: {told}")
        self.expect(len(found["figures"]) == 4, text)
        self.expect(told.startswith("With Phalanx, " if differing else "No difference"), told)
        self.expect("not as they were drawn" not in told, told)
        print(f"    {told}", flush=True)


def job_name(record):
    """A job as the history names it."""
    task = record.get("ArrayTaskId")
    return record["JobId"] if task is None else f"{record['ArrayJobId']}_{task}"


@case
def half(suite):
    """One half is Slurm's alone; sizes, mix and waits of the arms, and a verdict with intervals"""
    runs, records, moved = suite.work_off(1)
    found = suite.arms(0.5, runs, records)
    suite.verdict(found)
    placed = {arm: {one["placed_by"] for one in runs.values() if one["arm"] == f"{arm} 0.5"}
              for arm in ("slurm", "phalanx")}
    suite.expect(placed["slurm"] == {"stock"} and placed["phalanx"] - {"stock"}, f"{placed}")
    stock = {name for name, one in runs.items() if one["arm"] == "slurm 0.5"}
    of_stock = {name.split("_")[0] for name in stock}
    # A short list may be over before waits are long enough for the order to act.
    suite.expect(moved or suite.count < LONG, "the order moved nobody")
    suite.expect(not moved & of_stock, f"Slurm's jobs moved: {sorted(moved & of_stock)[:9]}")
    mode = phalanx_json(suite.cluster, "explain", max(stock, key=lambda job: runs[job]["job_id"]))
    suite.expect("Slurm alone" in mode["mode"], f"{mode['mode']}")
    waits = [one["start_s"] - one["submit_s"] for one in runs.values()]
    suite.expect(sum(wait > 2 for wait in waits) > len(waits) / 2, "most did not wait")


@case
def blind(suite):
    """While it runs, users learn nothing of a job's arm"""
    job = suite.cluster.submit("--uid=nobody", "-D/", "-n1", "-t1", wrap="exec sleep 30")
    user = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "phalanx")

    def explained():
        done = suite.cluster.run(*user, "explain", job, "--json", check=False)
        own = {} if done.returncode else json.loads(done.stdout)
        return own.get("state") == "RUNNING" and own
    own = suite.until(explained, "the job")
    shown = {key for key, value in own.items() if value} - {"placed"}
    suite.expect(not own.get("placed") and not shown & {"mode", "asks", "decision"}, f"{own}")
    for words in (("history", "runs"), ("report", "compare"), ("report",)):
        done = suite.cluster.run(*user, *words, check=False)
        suite.expect(done.returncode, f"{words}: {done.stdout[:200]}")
    suite.cluster.run("scancel", job)
    suite.until(lambda: not suite.cluster.run("squeue", "-h").stdout, "its end", 30)


@case(needs=["half"])
def same(suite):
    """With nothing of ours on either arm, and another share, no difference is claimed"""
    with open(suite.cluster.paths.phalanx_toml, encoding="utf-8") as file:
        text = file.read()
    with open(suite.cluster.paths.phalanx_toml, "w", encoding="utf-8") as file:
        file.write(text.replace("share = 0.5", "share = 0.7")
                   .replace('mode = "enforce"', 'mode = "shadow"'))
    reload(suite.cluster)
    runs, records, moved = suite.work_off(2)
    found = suite.arms(0.7, runs, records)
    suite.verdict(found)
    # One draw of twenty is beyond the interval of 95 %; this far beyond is one of 100,000.
    far = [one for one in found["figures"]
           if abs(one["phalanx"] - one["slurm"]) > FAR * one["chance"]]
    suite.expect(not far, f"arms of the same scheduler that differ: {far}")
    placed = {one["placed_by"] for one in runs.values()}
    suite.expect(placed == {"stock"} and not moved, f"{placed}, moved: {sorted(moved)[:9]}")


@contextlib.contextmanager
def setting(root, args):
    """One cluster."""
    place = f"{root}/c"
    with Cluster(place, nodes=NODES, extra=EXTRA,
                 config=write_config(place, config(0.5, "enforce"))) as cluster:
        yield Compare(cluster, args.jobs)


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--jobs", type=int, default=LONG,
                        help="length of each list, arrays as one (default 600)")


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, options), setting))
