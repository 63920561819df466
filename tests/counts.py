#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts instructions and allocations of the work on the way of a job's start, and of each format.

    tests/counts.py [--write] [--only NAME...]

An ask, an event, a proof, a plan and a poll of the daemon, each parser, and an ask within the
plugin run on fixed inputs under callgrind; a count, the median of a piece's turns, is the same on a
loaded machine. Allocations of a piece of one turn include its preparation, else the first is left
out. A count that is more than 3 % above tests/counts.tsv is a failure, exit code 1: do less, or
--write the new counts and say in the commit what they are for. Counts belong to compilers and a
Slurm, which the table names; with others they are shown and not judged. Needs valgrind, and what
make debug builds.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from statistics import median_low

import stages

TABLE = os.path.join(stages.TOP, "tests", "counts.tsv")
WHERE = dict(stages.programs()) | os.environ
BENCH = os.path.join(WHERE["PHALANX_BIN_DIR"], "phalanx-bench")
HARNESS = os.path.join(WHERE["PHALANX_OVERLAY_DIR"], "count")
TOLERANCE = 0.03
LIMIT_S = 600
ALLOCATORS = {"malloc", "calloc", "realloc"}


class Failed(Exception):
    """A count could not be made; the text says why."""


def output(*argv):
    """What a program prints. Raises Failed."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except OSError as error:
        raise Failed(f"{argv[0]}: {error}") from None
    if done.returncode:
        raise Failed(f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr[-400:]}")
    return done.stdout


def compilers():
    """The compilers and the Slurm whose code is counted, in a line. What is compiled by increments
    has up to a tenth more instructions."""
    rust, c = output("rustc", "--version").split()[1], output("gcc", "-dumpfullversion").strip()
    slurm = os.path.basename(os.path.dirname(HARNESS))
    parts = " by increments" if stages.by_increments(os.path.dirname(BENCH)) else ""
    return f"rustc {rust}{parts}, gcc {c}, {slurm}, {os.uname().machine}"


def pieces():
    """{name: (function that is called before, function that is counted, argv)}"""
    found = {name: ("phalanx_bench::counts::ready", "phalanx_bench::counts::measured",
                    (BENCH, "counts", name))
             for name in output(BENCH, "counts").split()}
    for mode in ("run", "will"):
        for nodes in ("1000", "10000"):
            found[f"plugin_{mode}_{nodes}"] = (
                "ready", "select_p_job_test",
                (os.path.join(HARNESS, "harness"), os.path.join(HARNESS, "overlay.so"), HARNESS,
                 mode, nodes))
    return found


def count(before, function, argv):
    """(instructions, allocations) of a turn within a function, each after another's end. Raises
    Failed."""
    with tempfile.TemporaryDirectory() as scratch:
        # Of two options with one pattern callgrind takes one.
        output("valgrind", "--tool=callgrind", "-q", f"--callgrind-out-file={scratch}/out",
               "--collect-atstart=no", f"--toggle-collect={function[:-1]}*",
               f"--dump-after={function}*", f"--dump-after={before}*", *argv)
        turns = []
        for name in sorted(os.listdir(scratch), key=lambda name: int(name.partition(".")[2] or 0)):
            with open(os.path.join(scratch, name), encoding="utf-8", errors="replace") as file:
                text = file.read()
            after = re.search(r"^desc: Trigger: --dump-after=(.*)", text, re.MULTILINE)
            if after and after[1].startswith(before):
                turns.append((0, 0))
            elif turns and after and after[1].startswith(function):
                turns[-1] = tuple(map(sum, zip(turns[-1], read(text.splitlines()))))
    if not turns or not turns[0][0]:
        raise Failed(f"{' '.join(argv)}: nothing was counted: has {function} another name?")
    # The first turn's allocations have those of the preparation. Who polls for an answer counts
    # by the clock: the median has the turns that slept.
    instructions, allocations = zip(*turns)
    return median_low(instructions), median_low(allocations[1:] or allocations)


def read(lines):
    """(instructions, allocations) of a profile."""
    names, called, instructions, allocations = {}, "", 0, 0
    for line in lines:
        if match := re.match(r"c?fn=\((\d+)\)(?: (.*))?$", line):
            number, name = match.groups()
            names.setdefault(number, name)
            called = names[number]
        elif line.startswith("calls=") and called in ALLOCATORS:
            allocations += int(line[6:].split()[0])
        elif line.startswith(("summary:", "totals:")):
            instructions = max(instructions, int(line.split()[1]))
    return instructions, allocations


def table():
    """(compilers, {name: (instructions, allocations)}) of the file."""
    with open(TABLE, encoding="utf-8") as file:
        head, *lines = file.read().splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return head.removeprefix("# "), {name: (int(a), int(b)) for name, a, b in rows}


def write(by, counts):
    """Writes the file."""
    with open(TABLE, "w", encoding="utf-8") as file:
        file.write(f"# {by}\n# piece\tinstructions\tallocations (tests/counts.py --write)\n")
        file.writelines(f"{name}\t{a}\t{b}\n" for name, (a, b) in counts.items())


def more(now, before):
    """By how much a number has grown, as a part."""
    return now / before - 1 if before else float(now > 0)


def judge(name, now, before):
    """Whether a piece does no more than before; says what it does."""
    grown = [more(*pair) for pair in zip(now, before)]
    passed = max(grown) <= TOLERANCE
    print(f"{'ok' if passed else 'FAIL':4} {name:20} {now[0]:>13,} instructions ({grown[0]:+.1%}), "
          f"{now[1]:,} allocations ({grown[1]:+.1%})", flush=True)
    return passed


def main():
    """Counts; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write what is counted as the table")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    args = parser.parse_args()
    output("make", "-s", "-C", os.path.join(stages.TOP, "plugin"), "count", f"T={HARNESS}",
           f"SLURM_VERSION={os.path.basename(os.path.dirname(HARNESS)).removeprefix('slurm-')}")
    by = compilers()
    head, known = table() if os.path.exists(TABLE) else (by, {})
    judged, failed = head == by and not args.write, 0
    if not judged and not args.write:
        print(f"counts: {TABLE} is of {head}, here is {by}: not judged")
    for name, how in pieces().items():
        if args.only and name not in args.only:
            continue
        now = count(*how)
        failed += not judge(name, now, known.get(name, (0, 0) if judged else now)) and judged
        if args.write:
            known[name] = now
    if args.write:
        write(by, known)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(f"counts: {failure}")
