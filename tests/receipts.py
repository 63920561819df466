#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks Phalanx's receipts against what Slurm itself wrote of the same jobs.

    phalanx report audit --since 30d --json > receipts.json
    phalanx history runs --since 30d --limit 100000 --json > runs.json
    sacct -a -X -P -D -S now-30days -E now -o ALL > month.sacct
    tests/receipts.py --receipts receipts.json --runs runs.json month.sacct

Accounting is text of sacct -P, of jobcomp/filetxt, of `scontrol -o show job`, or slurmctld's log.
The program shares no code with Phalanx. One line a rule; exit 1 where one is broken, 2 where a file
cannot be read.

    nodes    a job began, at the time that a line `placed` names, on exactly its nodes
    held     holds of a wait are within the time that Slurm lets it wait, and --hold-max
    moved    a line `moved` is of a job that began then, with a change of not 0
    sums     the sums by user and partition are those of the lines
    named    each run that the history says Phalanx placed has its line `placed`, and no other has
    whose    the user of a line is the job's
"""

import argparse
import collections
import json
import re
import sys
import time

RULES = ("nodes", "held", "moved", "sums", "named", "whose")
SHOWN = 5               # findings of a rule
LINE = re.compile(r'(\S+?)=("[^"]*"|\S*)')
LOG = re.compile(r"\[(\d{4}-\S+?)(?:\.\d+)?\] .*(?:sched: Allocate|Started|_allocate_resources) "
                 r"JobId=(\d+)(?:_(\d+))?(?:\+\d+)?(?:\((\d+)\))? (?:NodeList=|in \S+ on )(\S+)")
KEYS = {"jobidraw": "id", "jobid": "job", "start": "start", "starttime": "start",
        "eligible": "eligible", "eligibletime": "eligible", "submit": "submit",
        "submittime": "submit", "nodelist": "nodes", "uid": "user", "userid": "user",
        "arrayjobid": "array", "arraytaskid": "task"}


def hosts(text):
    """The set of names of a host list."""
    names = set()
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
        if not match:
            names.add(part)
            continue
        head, ranges, rest = match.groups()
        for each in ranges.split(","):
            first, _, last = each.partition("-")
            for number in range(int(first), int(last or first) + 1):
                names |= hosts(f"{head}{str(number).zfill(len(first))}{rest}")
    return names - {"", "(null)", "None", "None assigned"}


def moment(text):
    """Unix seconds of 2026-11-27T04:27:48; None where it is none."""
    try:
        return time.mktime(time.strptime((text or "")[:19], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def rows(path):
    """Records of a text, each {our name of a field: its text}."""
    head = None
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            line = line.rstrip("\n")
            if line.startswith("["):
                yield from map(of_log, LOG.finditer(line))
                continue
            if line.startswith("#") or not line:
                continue
            if head is None and "|" in line and "jobid" in line.lower():
                head = [word.lower() for word in line.split("|")]
                continue
            found = zip(head, line.split("|")) if head else \
                ((key.lower(), value.strip('"')) for key, value in LINE.findall(line))
            yield {KEYS[key]: value for key, value in found if key in KEYS}


def of_log(match):
    """The record of a start in slurmctld's log."""
    start, job, task, own, nodes = match.groups()
    return {"start": start, "id": own or job, "job": f"{job}_{task}" if task else job,
            "nodes": nodes}


class Run:
    """What Slurm wrote of one time of a job."""

    def __init__(self, row):
        self.nodes = hosts(row.get("nodes", ""))
        # Of one that waits it is a forecast.
        self.start = moment(row.get("start")) if self.nodes else None
        self.eligible, self.submit = moment(row.get("eligible")), moment(row.get("submit"))
        match = re.search(r"\((\d+)\)", row.get("user", "")) or re.match(r"(\d+)$",
                                                                         row.get("user", ""))
        self.user = int(match.group(1)) if match else None

    @property
    def waits_from(self):
        """Since when it could have started."""
        return max(filter(None, (self.eligible, self.submit)), default=None)


class Book:
    """The accounting: runs by job id and by array and task."""

    def __init__(self, paths):
        self.runs = collections.defaultdict(list)
        for path in paths:
            for row in rows(path):
                self._take(row)

    def _take(self, row):
        names = {row.get("id") or row.get("job", "")}
        match = re.fullmatch(r"\d+_\d+", row.get("job", ""))
        if match:
            names.add(match.group())
        elif row.get("array", "0") != "0" and row.get("task", "").isdigit():
            names.add(f"{row['array']}_{row['task']}")
        run = Run(row)
        for name in names - {""}:
            self.runs[name].append(run)

    def of(self, line):
        """All that is known of a line's job."""
        return self.runs.get(line["job"], []) or self.runs.get(str(line["job_id"]), [])


class Check:
    """What is wrong, by rule."""

    def __init__(self, book, slack_s, hold_max_s):
        self.book, self.slack_s, self.hold_max_s = book, slack_s, hold_max_s
        self.found, self.judged, self.unknown = collections.defaultdict(list), \
            collections.Counter(), 0

    def tell(self, rule, text):
        """Notes what breaks a rule."""
        self.found[rule].append(text)

    def began(self, line):
        """Slurm's runs of a line's job that began about its time."""
        return [run for run in self.book.of(line)
                if run.start and abs(run.start - line["time_ms"] / 1000) <= self.slack_s]

    def line(self, line):
        """One line against the accounting; a job of which Slurm kept nothing is counted."""
        known = self.book.of(line)
        if not known:
            self.unknown += 1
            return
        self.judged["whose"] += 1
        users = {run.user for run in known} - {None}
        if users and line["user_id"] not in users:
            self.tell("whose", f"job {line['job']}: user {line['user_id']}, Slurm has {users}")
        getattr(self, {"placed": "placed", "moved": "moved"}.get(line["kind"], "held"))(line)

    def placed(self, line):
        """Rule nodes."""
        self.judged["nodes"] += 1
        runs = self.began(line)
        if not any(run.nodes == hosts(line["nodes"]) for run in runs):
            was = [(run.start, sorted(run.nodes)) for run in self.book.of(line)]
            self.tell("nodes", f"job {line['job']} on {line['nodes']} at "
                               f"{line['time_ms'] // 1000}, Slurm has {was}")
        if len(hosts(line["nodes"])) != line["node_count"]:
            self.tell("nodes", f"job {line['job']}: {line['node_count']} nodes, "
                               f"{line['nodes']}")

    def moved(self, line):
        """Rule moved."""
        self.judged["moved"] += 1
        if not line["delta"] or not self.began(line):
            self.tell("moved", f"job {line['job']}: delta {line['delta']} at "
                               f"{line['time_ms'] // 1000}")

    def held(self, line):
        """Rule held: the wait is that of the first run that began after the first hold."""
        self.judged["held"] += 1
        first_s, held_s = line["time_ms"] / 1000, line["held_ms"] / 1000
        if self.hold_max_s is not None and held_s > self.hold_max_s + self.slack_s:
            self.tell("held", f"job {line['job']}: {held_s:.0f} s, more than may be")
        later = [run for run in self.book.of(line)
                 if run.start and run.start >= first_s - self.slack_s]
        if not later:
            return      # it waits still, or never began
        run = min(later, key=lambda run: (run.start, run.waits_from is None))
        waits_from = run.waits_from if run.waits_from is not None else first_s
        if waits_from > run.start:      # of a later run: a requeue moves it
            waits_from = first_s
        if held_s > run.start - min(waits_from, first_s) + self.slack_s or \
                first_s < waits_from - self.slack_s or \
                first_s + held_s > run.start + self.slack_s:
            self.tell("held", f"job {line['job']}: {held_s:.1f} s from {first_s:.0f} on, Slurm let "
                              f"it wait from {waits_from:.0f} to {run.start:.0f}")

    def sums(self, report):
        """Rule sums."""
        of_lines = collections.defaultdict(collections.Counter)
        for line in report["receipts"]:
            of = of_lines[line["user_id"], line["partition"]]
            of[line["kind"]] += 1
            of["held_ms"] += line["held_ms"]
            of["held_max_ms"] = max(of["held_max_ms"], line["held_ms"])
        for row in report["rows"] if not report["left_out"] else ():
            of = of_lines.pop((row["user_id"], row["partition"]), {})
            for name in ("placed", "held", "moved", "held_ms", "held_max_ms"):
                self.judged["sums"] += 1
                if row[name] != of.get(name, 0):
                    self.tell("sums", f"user {row['user_id']}: {row[name]} {name}, the lines have "
                                      f"{of.get(name, 0)}")
            if row["starts"] < max(row["placed"], row["moved"]):
                self.tell("sums", f"user {row['user_id']}: {row['starts']} starts, fewer than "
                                  "changed ones")
        for user, _ in of_lines if not report["left_out"] else ():
            self.tell("sums", f"lines of user {user} without a sum")

    def named(self, report, runs, lost):
        """Rule named; so many lines may lack as the history says that it lost."""
        lines = collections.defaultdict(list)
        for line in report["receipts"] if not report["left_out"] else ():
            if line["kind"] == "placed":
                lines[line["job"]].append(line["time_ms"] / 1000)
                lines[str(line["job_id"])].append(line["time_ms"] / 1000)
        for run in runs if not report["left_out"] else ():
            if run["source"] != "live" or run["start_s"] * 1000 < report["since_ms"] or \
                    not run["placed_by"]:
                continue
            self.judged["named"] += 1
            times = lines[run["job"]] + lines[str(run["job_id"])]
            has = any(abs(at - run["start_s"]) <= self.slack_s for at in times)
            if has != (run["placed_by"] != "stock"):
                lost -= not has
                if has or lost < 0:
                    self.tell("named", f"job {run['job']} of {run['start_s']} was placed by "
                                       f"{run['placed_by']}, it has {'a' if has else 'no'} line")

    def verdict(self):
        """Prints one line a rule; whether all are kept."""
        for rule in RULES:
            found = self.found[rule]
            print(f"{rule:<6} {'BROKEN' if found else 'ok':<7} {len(found)} of "
                  f"{self.judged[rule]}")
            for text in found[:SHOWN]:
                print(f"  {text}")
        print(f"receipts: {'BROKEN' if any(self.found.values()) else 'ok'}, "
              f"{self.judged['whose']} lines; {self.unknown} of jobs that the accounting lacks")
        return not any(self.found.values())


def load(path):
    """What a file of JSON holds."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    """Reads the files; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--receipts", required=True, help="phalanx report audit --json")
    parser.add_argument("--runs", help="phalanx history runs --json")
    parser.add_argument("--lost", type=int, default=0, help="records that the history lost")
    parser.add_argument("--hold-max", type=float, help="seconds, phalanx_hold_max of slurm.conf")
    parser.add_argument("--slack", type=float, default=2.0, help="seconds between two clocks")
    parser.add_argument("accounting", nargs="+", help="text of Slurm's")
    args = parser.parse_args()
    try:
        report, book = load(args.receipts), Book(args.accounting)
        runs = load(args.runs)["runs"] if args.runs else []
    except (OSError, ValueError, KeyError) as error:
        print(f"receipts: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    check = Check(book, args.slack, args.hold_max)
    for line in report["receipts"]:
        check.line(line)
    check.sums(report)
    check.named(report, runs, args.lost)
    return 0 if check.verdict() else 1


if __name__ == "__main__":
    sys.exit(main())
