#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The track record: every fault ever found, as a table.

    tests/faults.py [--check]

Prints tests/faults.tsv as Markdown: what was wrong, who found it (an audit, a campaign, a suite, a
property test, a review, a trial as a user, others' bug reports), the commit with which the code
came, the one that mended it, the test that shows it and the command that runs it. --check says
whether commits and tests are there; exit code 1 where one is not.
"""

import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.path.join(TOP, "tests", "faults.tsv")
HEAD = ("", "fault", "found by", "code since", "mended in", "test", "command")
HOW = """# Faults found so far

A row is shown again at the commit before the one that mended it: take a tree of the mending
commit, put product code back and run the row's command, which fails then:

    git worktree add /tmp/fault MENDED && cd /tmp/fault
    git checkout MENDED^ -- src plugin packaging    # what of these it touched; no tests
"""
WHERE = ("src", "ffi", "plugin", "tests", "packaging")


def rows():
    """The cells of each row. Raises ValueError on one that has too few or many."""
    with open(TABLE, encoding="utf-8") as file:
        found = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    for cells in found:
        if len(cells) != len(HEAD) or not all(cells):
            raise ValueError(f"{TABLE}: {cells}: {len(HEAD)} cells expected, none empty")
    return found


def commits():
    """The short names of all commits; empty where there is no history."""
    done = subprocess.run(["git", "-C", TOP, "log", "--format=%H", "HEAD"], capture_output=True,
                          text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else []


def texts():
    """All text in which a test may be defined, and the names of its files."""
    listed = subprocess.run(["git", "-C", TOP, "ls-files", *WHERE], capture_output=True, text=True,
                            check=False).stdout.splitlines()
    found = []
    for path in listed:
        if path.endswith((".rs", ".c", ".py", "Makefile")):
            with open(os.path.join(TOP, path), encoding="utf-8", errors="replace") as file:
                found.append((os.path.splitext(os.path.basename(path))[0], path, file.read()))
    return found


def is_test(name, known):
    """Whether a function, a case of a suite, a file or a folder has this name."""
    suite, _, case = name.rpartition(" ")
    for stem, path, text in known:
        if suite and stem != suite:
            continue
        if not suite and (stem == case or f"/{case}/" in path or path.endswith(f"/{case}")):
            return True
        if re.search(rf"(?:def|fn|void|static void) {case}\(|^{case}:", text, re.MULTILINE):
            return True
    return False


def faults(table):
    """What is wrong with the table, a line each."""
    history, known, names = commits(), texts(), set()
    for name, _, _, since, mended, test, command in table:
        if name in names:
            yield f"{name} is there twice"
        names.add(name)
        for commit in (since, mended):
            if re.fullmatch(r"[0-9a-f]{7,}", commit):
                if len(history) > 1000 and not any(one.startswith(commit) for one in history):
                    yield f"{name}: no commit {commit}"
            elif commit not in ("-", "open"):
                yield f"{name}: {commit} is no commit"
        if mended != "open" and "-" in (since, test, command):
            yield f"{name}: mended in {mended} without a test, its command or the code's commit"
        if test != "-" and not is_test(test, known):
            yield f"{name}: no test {test}"


def main():
    """Prints or checks the table; the exit status."""
    table = rows()
    if "--check" in sys.argv[1:]:
        found = list(faults(table))
        print(*found, f"faults: {len(table)} rows, {len(found)} wrong", sep="\n")
        return 1 if found else 0
    print(HOW)
    for cells in (HEAD, ["---"] * len(HEAD), *table):
        print("|", " | ".join(cell.replace("|", "\\|") for cell in cells), "|")
    return 0


if __name__ == "__main__":
    sys.exit(main())
