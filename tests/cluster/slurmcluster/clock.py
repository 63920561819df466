# SPDX-License-Identifier: GPL-3.0-or-later
"""The clock of all deadlines: it goes slower while the machine has no time for the tests.

Two things take time away from a suite. Other processes want the processors: with n of them ready
to run on k processors a second is worth k/n of one. And the machine stands still: a sleep that
lasts longer than it was asked to is worth what was asked. A thread measures both all the time.
On an idle machine the clock goes as the wall clock does.
"""

import os
import threading
import time

TICK_S = 0.05
SLOWEST = 5.0       # the most that a busy machine can stretch a second


class Clock:
    """Seconds that the machine had time for the tests, since the first look at the clock."""

    def __init__(self, runnable=None):
        self._runnable = runnable or runnable_now
        self._lock, self._thread = threading.Lock(), None
        self._now = self._wall = 0.0

    def now(self):
        """The time; its begin has no meaning."""
        return self._read()[0]

    def lost(self):
        """Seconds of the wall clock that did not count since the first look."""
        now, wall = self._read()
        return wall - now

    def _read(self):
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
            return self._now, self._wall

    def tick(self, elapsed_s, runnable):
        """Counts one tick that took so long, while so many processes were ready to run."""
        slowness = min(max(runnable / (os.cpu_count() or 1), 1.0), SLOWEST)
        with self._lock:
            # A tick that is late by less than itself is no stand-still.
            self._now += (elapsed_s if elapsed_s < 2 * TICK_S else TICK_S) / slowness
            self._wall += elapsed_s

    def _work(self):
        last = time.monotonic()
        while True:
            time.sleep(max(0.0, last + TICK_S - time.monotonic()))
            now = time.monotonic()
            self.tick(now - last, self._runnable())
            last = now


def runnable_now():
    """How many threads are ready to run on this machine, this one not counted."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[3].partition("/")[0]) - 1
    except (OSError, ValueError, IndexError):
        return 0


CLOCK = Clock()


class Deadline:
    """A time limit in seconds of CLOCK."""

    def __init__(self, limit_s):
        self.limit_s, self._end = limit_s, CLOCK.now() + limit_s

    def over(self):
        """Whether the time is up."""
        return CLOCK.now() >= self._end
