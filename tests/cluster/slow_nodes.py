#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of unequal speed on one machine: processes of a node together get a share of one CPU.

A process enters by `enter`; from then on it is stopped and continued (SIGSTOP, SIGCONT) so that
its CPU time stays at the node's share of the wall-clock time. Programs that cannot import this
create DIR/NODE/PID, which is removed when they are held. `slow_nodes` starts this program as a
process of its own, before everything else on the machine where it may: nothing holds it up.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

TICK_S = 0.01


def enter(directory, node):
    """Makes the calling process one of the node's, and returns when it is."""
    path = os.path.join(directory, node, str(os.getpid()))
    with open(path, "w", encoding="utf-8"):
        pass
    while os.path.exists(path):
        time.sleep(TICK_S)


def real_time(priority):
    """Puts the calling process before the rest of this machine, where it may; whether it may."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))
    except PermissionError:
        return False
    return True


class Process:
    """One held process. Its number may become another's, the descriptor does not."""

    def __init__(self, pid):
        # The clock of a process's CPU time (clock_getcpuclockid(3)).
        self.clock, self.file = (~pid << 3) | 2, os.pidfd_open(pid)
        self.base = time.clock_gettime(self.clock)
        self.ended = select.poll()
        self.ended.register(self.file, select.POLLIN)

    def used(self):
        """CPU seconds since it entered; None when it has ended."""
        with contextlib.suppress(OSError):
            used = time.clock_gettime(self.clock) - self.base
            if not self.ended.poll(0):
                return used
        os.close(self.file)
        return None

    def signal(self, number):
        """Sends a signal."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.file, number)


class Node:
    """Processes that share one part of a CPU."""

    def __init__(self, directory, share):
        self.directory, self.share = directory, share
        self.processes, self.base, self.before = {}, time.monotonic(), 0.0

    def look(self):
        """Stops or continues them."""
        self._admit()
        for process in list(self.processes):
            now = process.used()
            if now is None:
                self.before += self.processes.pop(process)
            else:
                self.processes[process] = now
        used = self.before + sum(self.processes.values())
        now = time.monotonic()
        allowed = (now - self.base) * self.share
        self.signal(signal.SIGSTOP if used > allowed else signal.SIGCONT)
        # Time without work is not saved up.
        if allowed - used > 2 * TICK_S:
            self.base, self.before = now, self.before - used

    def signal(self, number):
        """The same to each."""
        for process in self.processes:
            process.signal(number)

    def _admit(self):
        for name in os.listdir(self.directory):
            with contextlib.suppress(OSError):      # has ended already
                self.processes[Process(int(name))] = 0.0
            os.unlink(os.path.join(self.directory, name))


@contextlib.contextmanager
def slow_nodes(directory, shares):
    """Nodes by name with their shares of one CPU; `directory` is for `enter`."""
    for name in shares:
        os.makedirs(os.path.join(directory, name))
        os.chmod(os.path.join(directory, name), 0o777)      # collectors run as nobody
    given = [f"{name}={share}" for name, share in shares.items()]
    with subprocess.Popen([sys.executable, os.path.realpath(__file__), directory, *given]) as it:
        try:
            yield
        finally:
            it.terminate()


def main():
    """DIR NODE=SHARE...: until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    directory, *given = sys.argv[1:]
    pairs = [pair.split("=") for pair in given]
    nodes = [Node(os.path.join(directory, name), float(share)) for name, share in pairs]
    real_time(2)
    try:
        while True:
            for node in nodes:
                node.look()
            time.sleep(TICK_S)
    finally:
        for node in nodes:
            node.signal(signal.SIGCONT)


if __name__ == "__main__":
    main()
