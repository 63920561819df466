# SPDX-License-Identifier: GPL-3.0-or-later
"""What suites have in common: noting problems, or raising the first one, and where they run."""

import shutil
import tempfile
import time
import traceback

from .errors import ClusterError


class SuiteError(Exception):
    """A promise that was not kept."""


def check(condition, text):
    """Raises SuiteError with `text` unless the condition holds."""
    if not condition:
        raise SuiteError(text)


class Problems:
    """A cluster, and the problems of the check that runs on it."""

    def __init__(self, cluster):
        self.cluster, self.problems = cluster, []

    def expect(self, condition, text):
        """Notes a problem unless the condition holds; whether it does."""
        if not condition:
            self.problems.append(text)
        return bool(condition)

    def run_cases(self, name, cases):
        """Runs methods one after the other, tells what went wrong; returns the exit status."""
        begin = time.monotonic()
        for case in cases:
            try:
                case()
            except (ClusterError, KeyError, TypeError) as error:
                self.problems.append(f"{case.__name__}: {error!r}")
            print(f"    {case.__doc__}", flush=True)
        spent = time.monotonic() - begin
        print(f"{'FAIL' if self.problems else 'ok  '} {name} ({spent:.0f} s)")
        for problem in self.problems:
            print(f"       {problem}", flush=True)
        return 1 if self.problems else 0


def run_in_directory(name, work, keep):
    """Calls `work(directory)`, which raises what went wrong; returns the exit status.

    The directory stays if something went wrong, or if it is to be kept.
    """
    directory = tempfile.mkdtemp(prefix=f"phalanx-{name}-")
    start = time.monotonic()
    try:
        work(directory)
    except (SuiteError, ClusterError):
        traceback.print_exc()
        print(f"{name}: FAILED; logs in {directory}", flush=True)
        return 1
    if not keep:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"{name}: ok, {time.monotonic() - start:.0f} s", flush=True)
    return 0
