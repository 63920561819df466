# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of a benchmark on a machine that others use as well: CPUs of their own, and what the
rounds can tell."""

import contextlib
import math
import os
import threading


def interval(ratios):
    """The least and the most of an interval that holds the median 95 times in 100, by order; None:
    too few rounds for one."""
    count, sure = len(ratios), 0
    while sum(math.comb(count, i) for i in range(sure + 1)) <= 0.025 * 2**count:
        sure += 1
    ordered = sorted(ratios)
    return (ordered[sure - 1], ordered[count - sure]) if sure else None


def _pin(stop, cpu):
    """Keeps each slurmctld on one CPU until `stop`; which harness started it is all one."""
    while not stop.wait(0.2):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm", encoding="ascii") as file:
                    if not file.read().startswith("slurmctld"):
                        continue
                for task in os.listdir(f"/proc/{pid}/task"):
                    os.sched_setaffinity(int(task), {cpu})
            except (OSError, ValueError):
                continue    # it ended meanwhile, or is another user's


@contextlib.contextmanager
def slurmctld_apart():
    """Within it slurmctld has the first CPU, and all that is started here the rest; where there is
    but one CPU nothing changes."""
    all_cpus, stop = sorted(os.sched_getaffinity(0)), threading.Event()
    first, *rest = all_cpus
    thread = threading.Thread(target=_pin, args=(stop, first), daemon=True)
    if rest:
        os.sched_setaffinity(0, rest)
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if rest:
            thread.join()
            os.sched_setaffinity(0, all_cpus)
