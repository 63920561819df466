#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""SchedMD's own test suite judges the overlay: each test on stock Slurm and on Phalanx.

    SLURM_TESTSUITE=DIR tests/judge/judge.py [--only TEST...] [--minutes N] [--dir DIR]

DIR is a git repository of Slurm, whose tag of the release under test is taken, or the source of
that release; nothing of it enters this repository. Both halves of the suite run, pytest (which
writes its own configurations and starts its own clusters) and Expect, beside each other on both
sides, each in a private root (private-root, inside.py); the one difference is a line PluginDir and
phalanxd. A test that passes with stock and not with Phalanx runs twice more on both: one that
passes three times with stock, and not even twice with Phalanx, is worse. Worse tests are named on
the last line; the exit status is 1 where there are any, or nothing was judged.
PHALANX_TEST_SLURM says which Slurm, PHALANX_BIN_DIR and PHALANX_OVERLAY_DIR what is under test.
"""

import argparse
import collections
import fnmatch
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib

import order
from slurmcluster.errors import ClusterError
from slurmcluster.paths import repository
from slurmcluster.release import Release

HERE = os.path.dirname(os.path.abspath(__file__))
VARIABLE = "SLURM_TESTSUITE"
SIDES = ("stock", "phalanx")
PLUGINS = "usr/lib/x86_64-linux-gnu/slurm-wlm"
DEBS = ("sudo", "expect")
# Versions that the suites of both releases accept.
PIP = ("pytest==7.4.4", "py==1.11.0", "pytest-timeout==2.3.1", "requests==2.32.3",
       "jsondiff==2.2.1", "pyyaml==6.0.2", "pexpect==4.9.0")
RUNS = 3                        # of a test that differs
NICE = 5
PASSED, SKIPPED = "passed", "skipped"
COLUMNS = "unit\ttest\tstock\tphalanx\twhy with Phalanx\n"


class Root:
    """One side: a private root whose program answers units."""

    def __init__(self, name, args, places):
        self.name, self.answers, self.ended = name, [], None
        self.state = state = os.path.join(args.dir, name)
        out = os.path.join(state, "out")
        fresh(os.path.join(state, "upper"))
        fresh(os.path.join(state, "work"))
        fresh(out)
        if args.release.tree:
            subprocess.run(["cp", "-a", f"{args.release.tree}/usr", f"{state}/upper/"], check=True)
            # Plugins of the installed release do not show through.
            os.setxattr(f"{state}/upper/{PLUGINS}", "trusted.overlay.opaque", b"y")
        self.log = open(os.path.join(args.dir, f"{name}.log"), "w", encoding="utf-8")
        words = [os.path.join(HERE, "private-root"), state,
                 *(f"{source}=/judge/{place}" for place, source in places.items()),
                 f"{out}+=/judge/out", "--", "nice", "-n", str(NICE), "/usr/bin/python3",
                 "/judge/code/inside.py", f"--limit={args.limit}",
                 *(["--phalanx"] if name == "phalanx" else [])]
        # Its own session: an interrupt of this program is its alone, and it ends the roots.
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True, start_new_session=True)
        self.lock = threading.Lock()

    def answer(self):
        """The next line that the program inside writes."""
        line = self.process.stdout.readline()
        if not line:
            raise ClusterError(f"the root of {self.name} ended: see {self.log.name}")
        return json.loads(line)

    def run(self, unit):
        """Runs a unit; keeps and returns what it answers."""
        self.process.stdin.write(unit + "\n")
        self.process.stdin.flush()
        answer = self.answer()
        self.answers.append(answer)
        return answer

    def work(self, units, end, told):
        """Runs units until the time is over; a failure of the judge itself is kept."""
        try:
            for unit in units:
                if time.monotonic() > end:
                    break
                told(self.name, self.run(unit))
        except (ClusterError, OSError, ValueError) as error:
            self.ended = error

    def close(self):
        """Ends the root and all in it."""
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        for name in ("upper", "work"):
            shutil.rmtree(os.path.join(self.state, name), ignore_errors=True)

    def verdicts(self):
        """{(unit, test): [verdict of each run]}; a test that a run has lost is `missing`."""
        found, counts = {}, {}
        for answer in self.answers:
            unit = answer["unit"]
            counts[unit] = counts.get(unit, 0) + 1
            for test, (verdict, _, _) in answer["tests"].items():
                had = found.setdefault((unit, test), [])
                had += ["missing"] * (counts[unit] - 1 - len(had)) + [verdict]
        return {(unit, test): had + ["missing"] * (counts[unit] - len(had))
                for (unit, test), had in found.items()}

    def reason(self, unit, test):
        """Why a test last failed."""
        return next((entry[2] for answer in reversed(self.answers) if answer["unit"] == unit
                     for name, entry in answer["tests"].items()
                     if name == test and entry[0] != PASSED), "")

    def total(self, key):
        """The sum of a number of all answers."""
        return sum(answer.get(key, 0) for answer in self.answers)


def fresh(path):
    """An empty directory."""
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)


def keep(source, path):
    """A second name of a file, or a copy of it."""
    try:
        os.link(source, path)
    except OSError:
        shutil.copy2(source, path)


def compared(stock, phalanx):
    """{(unit, test): (verdicts with stock, with Phalanx)} of what both sides have run."""
    runs = collections.Counter(answer["unit"] for answer in phalanx.answers)
    ours, theirs = phalanx.verdicts(), stock.verdicts()
    return {key: (had, ours.get(key, ["missing"] * runs[key[0]])) for key, had in theirs.items()
            if runs[key[0]]}


def differs(stock, phalanx):
    """Whether a test passed with stock and not, or not always, with Phalanx."""
    return set(stock) == {PASSED} and set(phalanx) != {PASSED}


def is_worse(stock, phalanx):
    """Whether that is so after all runs: one failure of three is chance, two are not."""
    return differs(stock, phalanx) and len(phalanx) >= RUNS and phalanx.count(PASSED) <= 1


def verdict(args, stock, phalanx):
    """Writes the report; returns (the line, the exit status)."""
    pairs = compared(stock, phalanx)
    judged = {key: pair for key, pair in pairs.items() if pair[0][0] != SKIPPED}
    both = [key for key, pair in judged.items() if PASSED in pair[0] and PASSED in pair[1]]
    with_stock = [key for key, pair in judged.items() if PASSED in pair[0]]
    worse = [key for key, pair in judged.items() if is_worse(*pair)]
    unsteady = [key for key, pair in judged.items() if differs(*pair) and key not in worse]
    with open(os.path.join(args.dir, "report.tsv"), "w", encoding="utf-8") as file:
        file.write(COLUMNS)
        for (unit, test), (had, ours) in sorted(pairs.items()):
            why = phalanx.reason(unit, test)
            file.write("\t".join((unit, test, ",".join(had), ",".join(ours),
                                  " ".join(why.split()))) + "\n")
    asked, placed = phalanx.total("asked"), phalanx.total("placed")

    def named(keys):
        return ": " + ", ".join(f"{unit.split(' ', 1)[1]} {test}" for unit, test in keys) \
            if keys else ""
    line = (f"judge of Slurm {args.release.version}: {len(worse)} tests pass with stock and not "
            f"with Phalanx{named(worse)}; {len(both)} passed on both, {len(with_stock)} with "
            f"stock, of {len(judged)} judged; {len(unsteady)} once not with Phalanx"
            f"{named(unsteady)}; asked {asked} times, placed {placed}")
    lost = [f"NOT WHOLE: {side.ended}" for side in (stock, phalanx) if side.ended] or \
        ([] if placed else ["NOTHING JUDGED: Phalanx placed no job"])
    return "; ".join([line, *lost]), int(bool(worse or lost) or not both)


def prepared(args):
    """What is fetched once: Debian's packages and Python's."""
    # Other versions are another directory: one in use stays as it is.
    debs, lib = (os.path.join(args.cache, f"{name}-{zlib.crc32(' '.join(what).encode()):08x}")
                 for name, what in (("debs", DEBS), ("lib", PIP)))
    if not os.path.exists(debs):
        fresh(f"{debs}.new/partial")
        # Those that the machine has are in the root already.
        subprocess.run(["apt-get", "-q", "-y", "--no-install-recommends", "--download-only",
                        "-o", f"Dir::Cache::archives={debs}.new", "install", *DEBS],
                       check=True, stdout=subprocess.DEVNULL)
        os.rename(f"{debs}.new", debs)
    if not os.path.exists(lib):
        shutil.rmtree(f"{lib}.new", ignore_errors=True)
        subprocess.run(["/usr/bin/python3", "-m", "pip", "install", "-q",
                        "--root-user-action=ignore", "--target",
                        f"{lib}.new", *PIP], check=True)
        os.rename(f"{lib}.new", lib)
    return debs, lib


def suite_of(args):
    """The directory with `testsuite`, of a tree or taken from a repository. Raises ClusterError."""
    tag = f"slurm-{args.release.version.replace('.', '-')}-1"
    archive = subprocess.run(["git", "-C", args.suite, "archive", tag, "testsuite", "src"],
                             capture_output=True, check=False)
    if archive.returncode == 0:
        into = os.path.join(args.dir, "suite")
        fresh(into)
        subprocess.run(["tar", "-x", "-C", into], input=archive.stdout, check=True)
        return into
    if os.path.isdir(os.path.join(args.suite, "testsuite", "expect")):
        return args.suite
    raise ClusterError(f"{VARIABLE}={args.suite}: no testsuite there, and no repository with the "
                       f"tag {tag}: {archive.stderr.decode().strip()}")


def places(args):
    """{name below /judge in the roots: directory here}."""
    release = args.release
    bin_dir = os.path.join(release.build, "bin") if release.apart else os.path.abspath(
        os.environ.get("PHALANX_BIN_DIR") or os.path.join(repository(), "target", "release"))
    overlay = release.build if release.apart else os.path.abspath(
        os.environ.get("PHALANX_OVERLAY_DIR") or release.build)
    # A build beside it puts new files in the place of these, and changes nothing under test.
    copies = {name: os.path.join(args.dir, name) for name in ("bin", "overlay")}
    for name, source, files in (("bin", bin_dir, ("phalanxd", "phalanx")),
                                ("overlay", overlay, ("select_cons_tres.so",))):
        fresh(copies[name])
        for file in files:
            if not os.path.exists(os.path.join(source, file)):
                raise ClusterError(f"no {source}/{file}: {release.how_to_build()}")
            keep(os.path.join(source, file), os.path.join(copies[name], file))
    debs, lib = prepared(args)
    suite = suite_of(args)
    # What the overlay was built with: some tests compile programs against a configured source.
    headers = os.path.join(repository(), "build", f"slurm-src-{release.version}")
    return copies | {"debs": debs, "lib": lib, "code": HERE, "suite": suite,
                     "build": headers if os.path.isdir(headers) else suite}


def chosen(args, suite):
    """The units to run, in order. Raises ClusterError for a pattern without one."""
    units = order.ordered(suite)
    if not args.only:
        return units
    for pattern in args.only:
        if not fnmatch.filter(units, f"*{pattern}*"):
            raise ClusterError(f"--only {pattern}: no such test")
    return [unit for unit in units
            if any(fnmatch.fnmatch(unit, f"*{pattern}*") for pattern in args.only)]


def told(name, answer):
    """One line about a unit."""
    counts = {}
    for entry in answer["tests"].values():
        counts[entry[0]] = counts.get(entry[0], 0) + 1
    print(f"{time.strftime('%H:%M:%S')} {name:<7} {answer['seconds']:5.1f} s  {answer['unit']}: "
          + (", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "none")
          + (f", phalanxd ended {answer['ended']} times" if answer.get("ended") else ""),
          flush=True)


def side_by_side(roots, units, end):
    """Runs units on both sides at once."""
    threads = [threading.Thread(target=root.work, args=(units, end, told)) for root in roots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def judge(args):
    """Runs all; returns (the line, the exit status)."""
    shared = places(args)
    units = chosen(args, shared["suite"])
    roots = [Root(name, args, shared) for name in SIDES]
    try:
        for root in roots:
            root.answer()
        side_by_side(roots, units, time.monotonic() + 60 * args.minutes)
        for _ in range(RUNS - 1):
            pairs = compared(*roots)
            again = [unit for unit in units
                     if any(key[0] == unit and differs(*pair) for key, pair in pairs.items())]
            if again and not any(root.ended for root in roots):
                print(f"again: {', '.join(again)}", flush=True)
                side_by_side(roots, again, float("inf"))
    finally:
        for root in roots:
            root.close()
    return verdict(args, *roots)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default=os.environ.get(VARIABLE), help=f"instead of {VARIABLE}")
    parser.add_argument("--only", action="append", metavar="TEST",
                        help="units whose names hold this; may hold * and ?")
    parser.add_argument("--minutes", type=float, default=90.0,
                        help="after so many no further unit begins (default 90)")
    parser.add_argument("--limit", type=int, default=120,
                        help="seconds that a test may take (default 120)")
    parser.add_argument("--dir", help="of roots, logs and report (default build/judge/VERSION)")
    parser.add_argument("--list", action="store_true", help="list the units and exit")
    args = parser.parse_args()
    if not args.suite:
        parser.error(f"{VARIABLE} is not set: a git repository of Slurm, or a source tree")
    args.release = Release()
    args.cache = os.path.join(repository(), "build", "judge")
    args.dir = os.path.abspath(args.dir or os.path.join(args.cache, args.release.version))
    os.makedirs(args.dir, exist_ok=True)
    return args


def main():
    """Exits with 1 where a test is worse with Phalanx, or nothing was judged."""
    args = arguments()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        if args.list:
            print(*chosen(args, suite_of(args)), sep="\n")
            return
        line, status = judge(args)
    except (ClusterError, subprocess.CalledProcessError) as error:
        sys.exit(f"judge: {error}")
    print(line)
    sys.exit(status)


if __name__ == "__main__":
    main()
