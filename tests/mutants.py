#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Breaks a promise on purpose, one at a time, and sees its test fail.

    tests/mutants.py [--check] [--only NAME]... [--area AREA] [--dir DIR]

Goal: a test that passes with its promise broken is found before the fault is.

Method: tests/mutants.tsv has a row for each mutant: what is broken, the file, the text to replace
and the one put there, each within one file exactly once, and the test that must fail then. In a
work tree of the last commit (build/mutants) each is put in, its test run, and taken out again; the
same test must pass without it. --check says only whether every text is where the table has it, with
the files as they lie here. Exit code 1 where a mutant survived, or could not be tried.
"""

import argparse
import fnmatch
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import stages

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.path.join(TOP, "tests", "mutants.tsv")
LEAST = 60              # rows of the table
LIMIT_S = {"cargo": 1800, "make": 600}
CARGO = os.environ.get("CARGO", "cargo")
# The first word of a test, and its command; what follows is added.
TESTS = {
    "unit": "make -s -C plugin check-unit",
    "harness": "make -s -C plugin check-host",
    "failures": "make -s -C plugin failures FAILURES=1000 SAN='-O1 -g'",
    "cli": f"{CARGO} test -q -p phalanx-cli --lib",
    "client": f"{CARGO} test -q -p phalanx-client --lib",
    "ffi": f"{CARGO} test -q -p phalanx-ffi --lib",
    "messages": f"{CARGO} test -q -p phalanx-messages --lib",
    "planner": f"{CARGO} test -q -p phalanx-planner --lib",
    "mirror": f"{CARGO} test -q -p phalanx-mirror --lib",
    "gate": f"{CARGO} test -q -p phalanx-gate",
    "hdfs": f"{CARGO} test -q -p phalanx-hdfs --lib",
    "methods": f"{CARGO} test -q -p phalanx-methods --lib",
    "methods-it": f"{CARGO} test -q -p phalanx-methods --test it",
    "service": f"{CARGO} test -q -p phalanx-service --lib",
    "daemon": f"{CARGO} test -q -p phalanx-service --test it",
    "tcp": f"{CARGO} build -q --workspace --bins && "
           f"{stages.PYTHON} tests/cluster/data_service.py --only strangers-are-refused",
    "trust": f"{CARGO} build -q --workspace --bins && "
             f"{stages.PYTHON} tests/cluster/trust.py --only",
}
# Said by compilers: then no test was run.
UNCOMPILED = re.compile(r"could not compile|^\S+\.[ch]:\d+:\d+: (?:fatal )?error:", re.MULTILINE)
WORDS = {"killed": 0, "survived": 1, "does not apply": 1, "does not compile": 1, "no baseline": 1}


@dataclass(frozen=True)
class Mutant:
    """One row of the table."""

    name: str
    area: str
    file: str
    old: str
    new: str
    test: str
    title: str

    @property
    def command(self):
        """The test that has to fail."""
        first, _, rest = self.test.partition(" ")
        return f"{TESTS[first]} {rest}".strip()

    def applied(self, text):
        """The text with the mutant; None where its place is not there, or not the only one."""
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None


def table(path=TABLE):
    """The mutants. Raises ValueError on a row that is none."""
    found, names = [], set()
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#") or not line.strip():
                continue
            cells = line.rstrip("\n").split("\t")
            if len(cells) != 7:
                raise ValueError(f"{path}:{number}: {len(cells)} cells, expected 7")
            cells[3:5] = [cell.replace("\\n", "\n").replace("\\t", "\t") for cell in cells[3:5]]
            mutant = Mutant(*cells)
            if mutant.name in names or mutant.old == mutant.new or not mutant.old or \
                    mutant.test.split(" ")[0] not in TESTS:
                raise ValueError(f"{path}:{number}: {mutant.name}: named twice, changes nothing, "
                                 "or has no known test")
            names.add(mutant.name)
            found.append(mutant)
    return found


def misplaced(mutants, top=TOP):
    """What does not apply to the files below `top`, a line each."""
    for mutant in mutants:
        try:
            with open(os.path.join(top, mutant.file), encoding="utf-8") as file:
                count = file.read().count(mutant.old)
        except OSError as error:
            yield f"{mutant.name}: {error}"
            continue
        if count != 1:
            yield f"{mutant.name}: {mutant.file} has its text {count} times: {mutant.old!r}"


def run(command, where):
    """(exit status, output, seconds) of a test; status 124: it did not end."""
    begin = time.monotonic()
    target = os.path.join(TOP, "build", "mutants-target")
    env = os.environ | {"CARGO_TARGET_DIR": target, "FUZZ_SECONDS": "1",
                        "PYTHONPATH": "tests/cluster:tests/hdfs",
                        "PHALANX_BIN_DIR": os.path.join(target, "debug"),
                        "PHALANX_OVERLAY_DIR": os.path.join(TOP, "build",
                                                            f"slurm-{stages.slurm()}")}
    limit = LIMIT_S["make" if command.startswith("make") else "cargo"]
    # A session of its own: what the shell began ends with it, else its output is waited for.
    with subprocess.Popen(command, shell=True, cwd=where, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace",
                          start_new_session=True) as done:
        try:
            said, _ = done.communicate(timeout=limit)
            return done.returncode, said, time.monotonic() - begin
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)
            said, _ = done.communicate()
            return 124, said, time.monotonic() - begin


def tree(where):
    """A work tree of the last commit, clean, with Slurm's headers from here."""
    if not os.path.exists(os.path.join(where, ".git")):
        subprocess.run(["git", "-C", TOP, "worktree", "prune"], check=True)
        subprocess.run(["git", "-C", TOP, "worktree", "add", "-q", "--detach", where, "HEAD"],
                       check=True)
    head = subprocess.run(["git", "-C", TOP, "rev-parse", "HEAD"], stdout=subprocess.PIPE,
                          text=True, check=True).stdout.strip()
    subprocess.run(["git", "-C", where, "checkout", "-q", "--force", "--detach", head], check=True)
    build = os.path.join(TOP, "build")
    os.makedirs(os.path.join(where, "build"), exist_ok=True)
    for name in os.listdir(build):
        link = os.path.join(where, "build", name)
        if name.startswith("slurm-src-") and not os.path.lexists(link):
            os.symlink(os.path.join(build, name), link)


def tried(mutant, where, baselines):
    """(outcome, seconds, what the test said)."""
    if mutant.command not in baselines:
        status, said, _ = run(mutant.command, where)
        baselines[mutant.command] = "" if status == 0 else said
    if baselines[mutant.command]:
        return "no baseline", 0.0, baselines[mutant.command]
    path = os.path.join(where, mutant.file)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    broken = mutant.applied(text)
    if broken is None:
        return "does not apply", 0.0, ""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(broken)
        status, said, took = run(mutant.command, where)
    finally:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    outcome = "survived" if status == 0 else \
        "does not compile" if UNCOMPILED.search(said) else "killed"
    return outcome, took, said


def telling(said):
    """The line of a test's output that says what failed."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    marked = [line for line in lines if re.search(r"panicked|FAILED|\.[ch]:\d+:|^FAIL|error", line)]
    return (marked or lines or [""])[0][:100]


def campaign(mutants, where):
    """Tries all; prints a row for each and the sum; the exit status."""
    tree(where)
    baselines, counts = {}, {}
    for mutant in mutants:
        outcome, took, said = tried(mutant, where, baselines)
        counts[outcome] = counts.get(outcome, 0) + 1
        print(f"{outcome:<16} {took:6.1f} s  {mutant.area:<8} {mutant.name:<26} {mutant.title}",
              flush=True)
        if outcome != "killed":
            print(f"{'':<27}{mutant.file}: {mutant.command}", flush=True)
        if outcome not in ("survived", "does not apply"):
            print(f"{'':<27}{telling(said)}", flush=True)
    print(f"mutants: {', '.join(f'{count} {word}' for word, count in counts.items())}")
    return 1 if any(WORDS[outcome] for outcome in counts) else 0


def main():
    """Checks the table or tries it; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only whether each applies here")
    parser.add_argument("--list", action="store_true", help="print the rows")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="these mutants (may hold * and ?); repeatable")
    parser.add_argument("--area", action="append", default=[], help="those of an area; repeatable")
    parser.add_argument("--dir", default=os.path.join(TOP, "build", "mutants"),
                        help="the work tree in which they are tried")
    args = parser.parse_args()
    try:
        mutants = table()
    except (OSError, ValueError) as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2
    total = len(mutants)
    mutants = [mutant for mutant in mutants
               if (not args.area or mutant.area in args.area) and
               (not args.only or any(fnmatch.fnmatch(mutant.name, one) for one in args.only))]
    if args.list:
        for mutant in mutants:
            print(f"{mutant.name:<26} {mutant.area:<8} {mutant.file:<40} {mutant.title}")
        return 0
    if not args.check:
        return campaign(mutants, args.dir)
    faults = list(misplaced(mutants))
    faults += [f"only {total} mutants, at least {LEAST} expected"] if total < LEAST else []
    print(*faults, f"mutants: {total}, {len(faults)} faults", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
