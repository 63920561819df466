# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes by identity (pid and start time), so that only our own are ended.

A pid alone may be reused after its process has gone; with the start time it names
one process for as long as the machine is up. slurmstepd and job processes are
not our children: they are found by what slurmd puts into their environment.
"""

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import asdict, dataclass

MARKER = "PHALANX_CLUSTER_ID"
KILL_ROUNDS_MAX = 10


@dataclass(frozen=True)
class Process:
    """One process: role (`slurmctld`, `slurmd:n1`), pid, start time in clock ticks."""

    role: str
    pid: int
    start: int

    def alive(self):
        """True while the process runs; a zombie is dead (and reaped if it is our child).

        A zombie with threads is not dead yet: they keep its sockets open.
        """
        state, _, start = stat_of(self.pid)
        if state in (None, "X") or start != self.start:
            return False
        if state == "Z":
            self.exit_status()
            return len(tasks_of(self.pid)) > 1
        return True

    def exit_status(self):
        """Exit code or -signal of an ended child of ours, else None."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return None
        return os.waitstatus_to_exitcode(status) if pid else None

    def signal(self, number):
        """Sends a signal; False if the process is gone."""
        if not self.alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def to_json(self):
        """The record kept in the cluster's state file."""
        return asdict(self)


def stat_of(pid):
    """(state, parent pid, start time in ticks) of a pid; (None, 0, 0) if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None, 0, 0
    return fields[0], int(fields[1]), int(fields[19])


def tasks_of(pid):
    """The thread ids of a process."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def identify(role, pid):
    """The identity of a running pid."""
    return Process(role, pid, stat_of(pid)[2])


def spawn(role, argv, env, log_path):
    """Starts a daemon in its own session with output appended to `log_path`.

    Returns its Process. Raises OSError if the program cannot be started.
    """
    with open(log_path, "ab") as log:
        child = subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True, cwd="/")
    # The Popen object is dropped on purpose: waiting is done by pid and start time.
    child.returncode = 0
    return identify(role, child.pid)


def favour(pids, nice):
    """Gives processes another nice value, on a machine that others use as well.

    With autogroups a nice value counts only within one session, so theirs changes too.
    """
    for pid in pids:
        with contextlib.suppress(OSError), \
                open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as file:
            file.write(str(nice))
        for thread in os.listdir(f"/proc/{pid}/task"):
            # What a daemon has put into the background stays there.
            if os.getpriority(os.PRIO_PROCESS, int(thread)) <= 0:
                os.setpriority(os.PRIO_PROCESS, int(thread), nice)


def stop(processes, grace_s):
    """Ends processes: SIGTERM (and SIGCONT for stopped ones), then SIGKILL. All are dead after."""
    for process in processes:
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)
    left = _wait(processes, grace_s)
    for process in left:
        process.signal(signal.SIGKILL)
    return _wait(left, 5.0)


def _wait(processes, seconds):
    end = time.monotonic() + seconds
    left = [process for process in processes if process.alive()]
    while left and time.monotonic() < end:
        time.sleep(0.02)
        left = [process for process in left if process.alive()]
    return left


def _environ(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return set(file.read().split(b"\0"))
    except OSError:
        return set()


def belonging(cluster_id, slurm_conf):
    """Every process of a cluster: started with its marker, or a job's, or below one of these.

    Job processes carry SLURM_CONF of the cluster and SLURMD_NODENAME, which only a
    slurmd sets; a shell that merely uses the cluster has the first and not the second.
    """
    marker = f"{MARKER}={cluster_id}".encode()
    conf = f"SLURM_CONF={slurm_conf}".encode()
    parents, roots = {}, set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        pid = int(entry)
        state, parent, _ = stat_of(pid)
        if state in (None, "Z", "X"):
            continue
        parents[pid] = parent
        env = _environ(pid)
        in_job = conf in env and any(v.startswith(b"SLURMD_NODENAME=") for v in env)
        if marker in env or in_job:
            roots.add(pid)
    found = {pid for pid in parents if _below(pid, parents, roots)}
    return [identify("job", pid) for pid in sorted(found - _self_and_ancestors(parents))]


def _below(pid, parents, roots):
    seen = set()
    while pid in parents and pid not in seen:
        if pid in roots:
            return True
        seen.add(pid)
        pid = parents[pid]
    return False


def _self_and_ancestors(parents):
    pid, chain = os.getpid(), set()
    while pid and pid not in chain:
        chain.add(pid)
        pid = parents.get(pid, 0)
    return chain


def sweep(cluster_id, slurm_conf):
    """Kills what belongs to a cluster until nothing does; returns the survivors (none)."""
    for _ in range(KILL_ROUNDS_MAX):
        found = belonging(cluster_id, slurm_conf)
        if not found:
            return []
        for process in found:
            process.signal(signal.SIGKILL)
        _wait(found, 2.0)
    return belonging(cluster_id, slurm_conf)
