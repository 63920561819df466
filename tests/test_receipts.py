#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of receipts.py: sound receipts pass, and each rule is seen to find what breaks it."""

import contextlib
import copy
import json
import os
import subprocess
import sys
import time

from slurmcluster.suite import Cases, Suite, command_line, run

HERE = os.path.dirname(os.path.abspath(__file__))
BEGIN = 1_790_000_000
SACCT = """JobID|JobIDRaw|UID|Submit|Eligible|Start|End|NodeList
7|7|1000|{0}|{0}|{0}|{60}|n[1-2]
8|8|1000|{0}|{5}|{30}|{60}|n3
50_1|51|1000|{0}|{0}|{40}|{60}|n4
9|9|1000|{0}|{0}|{10}|{60}|n5
"""
case = Cases()


def line(kind, job, job_id, at_s, **more):
    """One change."""
    return {"kind": kind, "job": job, "job_id": job_id, "time_ms": (BEGIN + at_s) * 1000 + 300,
            "user_id": 1000, "partition": "main", "nodes": "", "node_count": 0, "held_ms": 0,
            "delta": 0} | more


LINES = [line("placed", "7", 7, 0, nodes="n[1-2]", node_count=2),
         line("held", "8", 8, 10, held_ms=19_000), line("moved", "8", 8, 30, delta=40),
         line("placed", "50_1", 51, 40, nodes="n4", node_count=1)]
ROW = {"user_id": 1000, "partition": "main", "starts": 4, "placed": 2, "held": 1, "moved": 1,
       "held_ms": 19_000, "held_max_ms": 19_000}
RUNS = [{"job": job, "job_id": job_id, "source": "live", "start_s": BEGIN + at_s, "placed_by": by}
        for job, job_id, at_s, by in (("7", 7, 0, "balance"), ("8", 8, 30, "stock"),
                                      ("50_1", 51, 40, "bag"), ("9", 9, 10, ""))]


class Told(Suite):
    """Receipts, to be spoilt and checked."""

    def __init__(self, root):
        super().__init__()
        self.root, self.options = root, []
        self.report = copy.deepcopy({"since_ms": 0, "rows": [ROW], "receipts": LINES,
                                     "left_out": 0})

    @contextlib.contextmanager
    def around(self, case):
        """Each case begins with sound receipts."""
        self.__init__(self.root)    # pylint: disable=unnecessary-dunder-call
        yield

    def check(self, *broken):
        """Exactly these rules are broken."""
        def at(seconds):
            return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(BEGIN + seconds))
        texts = {"receipts": json.dumps(self.report), "runs": json.dumps({"runs": RUNS}),
                 "sacct": SACCT.format(*map(at, range(61)))}
        for name, text in texts.items():
            with open(os.path.join(self.root, name), "w", encoding="utf-8") as file:
                file.write(text)
        path = {name: os.path.join(self.root, name) for name in texts}
        done = subprocess.run(
            [sys.executable, os.path.join(HERE, "receipts.py"), "--receipts", path["receipts"],
             "--runs", path["runs"], *self.options, path["sacct"]],
            capture_output=True, text=True, check=False)
        found = {row.split()[0] for row in done.stdout.splitlines()[:-1] if " BROKEN " in row}
        self.expect(found == set(broken) and done.returncode == bool(broken),
                    f"{done.returncode}, expected {broken}:\n{done.stdout}{done.stderr}")


@case
def sound(told):
    """Receipts of what was pass, also where the history says that a line was lost"""
    told.check()
    told.options = ["--lost", "1"]
    del told.report["receipts"][0]
    told.report["rows"][0]["placed"] = 1
    told.check()


@case
def dropped(told):
    """A line is missing: by its run, by the sum of which it is a part"""
    del told.report["receipts"][3]
    told.check("named", "sums")
    told.report["rows"][0]["placed"] = 1
    told.check("named")


@case
def wrong_seconds(told):
    """Holds longer than Slurm let the job wait, longer than may be, or before it was eligible"""
    held, row = told.report["receipts"][1], told.report["rows"][0]
    for seconds, at_s, rules in ((26, 10, ["held"]), (19, 1, ["held"]), (19, 10, [])):
        held["time_ms"] = (BEGIN + at_s) * 1000
        held["held_ms"] = row["held_ms"] = row["held_max_ms"] = 1000 * seconds
        told.check(*rules)
    told.options = ["--hold-max", "10"]
    told.check("held")


@case
def wrong_facts(told):
    """Other nodes, another time, another user, a move of nothing, a line too many"""
    for at, key, value, rules in ((0, "nodes", "n[1-3]", ["nodes"]), (2, "delta", 0, ["moved"]),
                                  (0, "time_ms", LINES[0]["time_ms"] + 9000, ["nodes", "named"]),
                                  (3, "user_id", 7, ["whose", "sums"])):
        kept, told.report["receipts"][at][key] = told.report["receipts"][at][key], value
        told.check(*rules)
        told.report["receipts"][at][key] = kept
    told.report["receipts"].append(line("placed", "8", 8, 30, nodes="n3", node_count=1))
    told.report["rows"][0]["placed"] = 3
    told.check("named")


@contextlib.contextmanager
def setting(root, _args):
    """A directory for the files."""
    yield Told(root)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
