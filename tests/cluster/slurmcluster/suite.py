# SPDX-License-Identifier: GPL-3.0-or-later
"""The front end of every suite: cases are chosen by name, run in order and reported one by one.

    case = Cases()

    @case
    def jobs_start(suite):
        \"""What must hold\"""
        suite.expect(..., "what is wrong if it does not")

    if __name__ == "__main__":
        sys.exit(run(command_line(__doc__, case), setting))

`setting(directory, args)` is a context manager that gives the Suite on which the cases run.

Where the variable PHALANX_TEST_RESULTS names a file, the outcome of each case is appended to it:
lines of JSON, one with `cases`, those that were chosen, and one with `case`, `passed` and `why`
for each that has ended. tests/run reads it and lets the cases that have not passed run again.
"""

import argparse
import contextlib
import fnmatch
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import unittest
from dataclasses import dataclass

from .clock import Deadline
from .errors import ClusterError

EXIT_FAILED = 1
SOON_S = 30.0       # the usual bound of a wait, also on a busy machine
PROBLEMS_MAX = 30   # lines shown of one case
RESULTS = "PHALANX_TEST_RESULTS"
TRACEBACK = "Traceback (most recent call last):"    # its last line says what failed


class SuiteError(Exception):
    """A promise that was not kept."""


def check(condition, text):
    """Raises SuiteError with `text` unless the condition holds."""
    if not condition:
        raise SuiteError(text)


def until(condition, what, limit=SOON_S, every=0.1):
    """Waits until `condition()` is true and returns its value.

    Raises SuiteError, naming what was waited for (a text, or what returns one then), if that takes
    more than `limit` seconds of a machine that has time for it (slurmcluster.clock).
    """
    deadline = Deadline(limit)
    while True:
        found = condition()
        if found:
            return found
        if deadline.over():
            raise SuiteError(f"not within {limit:.1f} s: {what() if callable(what) else what}")
        time.sleep(every)


@dataclass(frozen=True)
class Case:
    """One case of a suite.

    needs  names of cases that must have passed before
    where  the setting on which it runs, in a suite that has several
    """

    name: str
    title: str
    run: object
    needs: tuple = ()
    where: str = ""


class Cases(dict):
    """The cases of a suite by name, in the order in which they run."""

    def __call__(self, function=None, *, needs=(), where=""):
        """Registers a function of one Suite under its name with - for _."""
        if function is None:
            return lambda function: self(function, needs=needs, where=where)
        self.add(Case(dashed(function.__name__), title_of(function), function, tuple(needs), where))
        return function

    def add(self, case):
        """Adds one case; raises ValueError if its name is taken."""
        if case.name in self:
            raise ValueError(f"two cases are named {case.name}")
        self[case.name] = case

    def unittests(self, *classes):
        """Adds the tests of unittest.TestCase classes as CLASS.TEST."""
        for each in classes:
            for name in sorted(name for name in dir(each) if name.startswith("test_")):
                title = title_of(getattr(each, name)) or name.removeprefix("test_")
                self.add(Case(f"{each.__name__}.{dashed(name.removeprefix('test_'))}",
                              title.replace("_", " "), unittest_run(each, name)))


def unittest_run(of_class, name):
    """A case's function that runs one unittest and raises what it raises."""
    def run_it(_suite):
        result = unittest.TestResult()
        of_class(name).run(result)
        for _, text in result.failures + result.errors:
            raise SuiteError(text)
        for _, why in result.skipped:
            raise SuiteError(f"skipped: {why}")
    return run_it


def dashed(name):
    """A function's name as a case has it."""
    return name.replace("_", "-")


def title_of(function):
    """The first line of a function's documentation."""
    return (function.__doc__ or "").strip().partition("\n")[0]


class Suite:
    """What the cases run on: a cluster, and the problems of the case in hand."""

    soon_s = SOON_S     # the usual bound of a wait

    def __init__(self, cluster=None):
        self.cluster, self.problems = cluster, []
        self.waited_s = 0.0     # how long the last `until` took
        self.summary = ""       # what the line of a case says beside its title

    def expect(self, condition, text):
        """Notes a problem unless the condition holds; whether it does."""
        if not condition:
            self.problems.append(text)
        return bool(condition)

    def until(self, condition, what, limit=None, every=0.1):
        """Waits for a condition and returns its value; raises SuiteError if it stays false."""
        begin = time.monotonic()
        try:
            return until(condition, what, limit or self.soon_s, every)
        finally:
            self.waited_s = time.monotonic() - begin

    @contextlib.contextmanager
    def around(self, case):     # pylint: disable=unused-argument
        """What happens before and after each case."""
        yield

    def recover(self):
        """Puts things in order after a case that failed."""

    def why(self):
        """What else a failed case should tell."""
        return ""


class Results:
    """The outcomes in the file that the environment names, if it names one."""

    def __init__(self, cases):
        path = os.environ.get(RESULTS)
        # Opened at once: a suite may change its root directory.
        # pylint: disable-next=consider-using-with
        self.file = open(path, "a", encoding="utf-8") if path else None
        self.write(cases=[one.name for one in cases])

    def write(self, **fields):
        """One line."""
        if self.file:
            self.file.write(json.dumps(fields) + "\n")
            self.file.flush()


class Report:
    """Tells each case as it ends and counts; several threads may use one."""

    def __init__(self, args):
        self.name, self.results, self.begin = args.name, args.results, time.monotonic()
        self.passed, self.failed, self.lock = [], [], threading.Lock()

    def add(self, name, problems, seconds, text=""):
        """One case that has ended; without problems it passed."""
        with self.lock:
            (self.failed if problems else self.passed).append(name)
            print(f"{'FAIL' if problems else 'ok  '} {name:<34} {seconds:6.1f} s  {text}")
            lines = [line for problem in problems for line in problem.splitlines()]
            first = problems[0].splitlines() if problems else [""]
            why = first[-1 if first[:1] == [TRACEBACK] else 0] if first else ""
            self.results.write(case=name, passed=not problems, why=why)
            for line in lines[:PROBLEMS_MAX]:
                print(f"       {line}")
            if len(lines) > PROBLEMS_MAX:
                print(f"       and {len(lines) - PROBLEMS_MAX} more lines")
            sys.stdout.flush()

    def close(self):
        """Prints the sum; returns the exit status."""
        failed = f" ({', '.join(self.failed)})" if self.failed else ""
        print(f"{self.name}: {len(self.passed)} passed, {len(self.failed)} failed{failed}, "
              f"{time.monotonic() - self.begin:.0f} s", flush=True)
        return EXIT_FAILED if self.failed or not self.passed else 0


def command_line(doc, cases, more=None, keep=None):
    """The options of a suite: those that all have, and what `more(parser)` adds.

    `keep(args, case)` says whether a chosen case is of those that the options let run.

    Returns them with `cases`: the chosen ones and those that they need, in order. Ends the
    program after --list, and with 2 on a bad command line.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    parser = argparse.ArgumentParser(description=doc.strip().splitlines()[0], allow_abbrev=False)
    parser.add_argument("--only", action="append", default=[], metavar="CASE",
                        help="run these cases (may hold * and ?); repeatable")
    parser.add_argument("--skip", action="append", default=[], metavar="CASE",
                        help="leave these out; repeatable")
    parser.add_argument("--again", action="append", default=[], metavar="CASE",
                        help="run only this case, which has failed, whatever --only and --skip "
                        "say; repeatable")
    parser.add_argument("--list", action="store_true", help="list the cases and exit")
    parser.add_argument("--keep", action="store_true", help="leave the files behind")
    parser.add_argument("--dir", metavar="DIR", help="where the files live and stay (default: new)")
    if more:
        more(parser)
    args = parser.parse_args()
    args.name = parser.prog.removesuffix(".py")
    try:
        args.cases = chosen(cases, args.again or args.only, [] if args.again else args.skip)
    except SuiteError as error:
        parser.error(str(error))
    if args.list:
        for one in args.cases:
            print(f"{one.name:<34} {one.title}")
        sys.exit(0)
    if keep:
        args.cases = [one for one in args.cases if keep(args, one)]
    args.results = Results(args.cases)
    return args


def chosen(cases, only, skip):
    """The cases that match, with those that they need. Raises SuiteError for a name without one."""
    names = set()
    for pattern in only or ["*"]:
        names |= matching(cases, pattern)
    for pattern in skip:
        names -= matching(cases, pattern)
    check(names, "no case is left")
    left = list(names)
    while left:
        needs = {dashed(need) for need in cases[left.pop()].needs} - names
        names |= needs
        left += needs
    return [one for name, one in cases.items() if name in names]


def matching(cases, pattern):
    """The names that a pattern means. Raises SuiteError if there is none."""
    found = set(fnmatch.filter(cases, dashed(pattern)))
    check(found, f"no case {pattern!r}; there are: {', '.join(cases)}")
    return found


@contextlib.contextmanager
def directory(args):
    """The suite's directory; it stays if it was named, is to be kept, or `args.failed` is set."""
    root = args.dir or tempfile.mkdtemp(prefix=f"phx-{args.name[:9]}-")
    os.makedirs(root, exist_ok=True)
    os.chmod(root, 0o755)   # jobs and programs of other users work below it
    args.failed = False
    try:
        yield root
    finally:
        if args.failed or args.keep or args.dir:
            print(f"files are in {root}", flush=True)
        else:
            shutil.rmtree(root, ignore_errors=True)


def run(args, setting):
    """Runs the chosen cases; returns the exit status.

    `setting` is a dictionary by name where the cases name their settings.
    """
    report = Report(args)
    with directory(args) as root:
        for where, cases in itertools.groupby(args.cases, lambda one: one.where):
            make = setting[where] if where else setting
            try:
                with make(os.path.join(root, where) if where else root, args) as suite:
                    for one in cases:
                        run_case(suite, one, report)
            except Exception as error:  # pylint: disable=broad-except
                report.add("setting", [text_of(error)], 0.0)
        status = report.close()
        args.failed = status != 0
    return status


def run_case(suite, case, report):
    """Runs one case, whatever it raises, and reports it."""
    begin, suite.problems, suite.summary = time.monotonic(), [], ""
    missing = [need for need in map(dashed, case.needs) if need not in report.passed]
    try:
        check(not missing, f"not run, because it needs {', '.join(missing)}")
        with suite.around(case):
            case.run(suite)
    except Exception as error:  # pylint: disable=broad-except
        suite.problems.append(text_of(error))
    if suite.problems and not missing:
        after_failure(suite)
    text = f"{case.title}; {suite.summary}" if suite.summary else case.title
    report.add(case.name, suite.problems, time.monotonic() - begin, text)


def after_failure(suite):
    """Notes what else there is to tell, and puts things in order."""
    try:
        suite.problems += [text for text in [suite.why()] if text]
        suite.recover()
    except Exception as error:  # pylint: disable=broad-except
        suite.problems.append(f"after the failure: {text_of(error)}")


def text_of(error):
    """What an exception says; with its place unless it is a promise or a cluster that failed."""
    if isinstance(error, (SuiteError, ClusterError)):
        return str(error)
    return "".join(traceback.format_exception(error)).strip()
