# SPDX-License-Identifier: GPL-3.0-or-later
"""The stream of jobs of a fault, and the probe that asks squeue all the time."""

import contextlib
import fcntl
import os
import re
import subprocess
import threading
import time

from slurmcluster.clock import CLOCK
from slurmcluster.procs import tasks_of
from slurmcluster.suite import SuiteError

FINISH_S = 90.0            # until the jobs of one fault must all have ended
PROBE_S = 0.3              # between two calls of squeue
PROBE_TIMEOUT_S = 20.0
FAVOURED = -10             # nice value of slurmctld, phalanxd and the probe

# One wave: (array tasks, sbatch options, command). "N" tasks of an array are N jobs.
WAVE = (
    (40, ("-n1",), "exec sleep 0.$((SLURM_ARRAY_TASK_ID % 10))"),
    (14, ("-N2", "-n2"), "exec sleep 0.5"),
    (14, ("-n1", "--gres=gpu:1", "-p", "gpu"), "exec sleep 0.$((SLURM_ARRAY_TASK_ID % 8))"),
    (4, ("-N1", "-n4", "--mem=20000"), "exec sleep 1"),
    (3, ("-N1", "--exclusive"), "true"),
    (1, ("-N3", "-n6"), "exec sleep 2"),
    (1, ("-N2", "--gres=gpu:2", "-p", "gpu"), "exec sleep 1"),
    (1, ("-n9",), "exec sleep 1"),
)

# What runs while slurmctld is restarted: all of these fit at once, wherever the last ones go.
RUNNERS = (
    (8, ("-n1", "--gres=gpu:1", "-p", "gpu")),
    (3, ("-N2", "-n2", "--gres=gpu:1", "-p", "gpu")),
    (3, ("-N2", "-n4")),
    (2, ("-N1", "-n4", "--mem=20000")),
    (40, ("-n1",)),
)
RUNNERS_S = 1              # that they go on when they are let go


class FaultError(SuiteError):
    """The stream did not get through: jobs lost, held or not COMPLETED."""


class Stream:
    """Jobs of one fault; their ends are read from Slurm's own completion log."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.submitted, self._offset, self._states = 0, 0, {}
        self._hold, self._held = os.path.join(cluster.paths.root, f"{name}.hold"), None
        self._path = os.path.join(os.path.dirname(cluster.paths.root), "jobcomp.log")
        with contextlib.suppress(FileNotFoundError):
            self._offset = os.path.getsize(self._path)

    def waves(self, count):
        """Submits `count` waves of mixed jobs."""
        for _ in range(count):
            for tasks, options, command in WAVE:
                self._sbatch(tasks, options, command)

    def before_restart(self):
        """Waves that end, then jobs of all kinds that run until `after_restart`.

        None starts or ends just then, because Slurm 22.05.8 itself, without any overlay, gets
        that wrong now and then: GPUs of a job that is COMPLETING when slurmctld ends are not
        given back, and a slurmd that registers anew deletes the script of a job just started.
        """
        self.waves(1)
        self.finish()
        self._held = open(self._hold, "w", encoding="utf-8")
        fcntl.flock(self._held, fcntl.LOCK_EX)
        for tasks, options in RUNNERS:
            self._sbatch(tasks, options,
                         f"flock -s {self._hold} true; exec sleep {RUNNERS_S}")
        self.running(sum(tasks for tasks, _ in RUNNERS))

    def after_restart(self, waves):
        """Waits until the nodes have registered again, lets go what runs, and submits waves."""
        self.registered()
        self.let_go()
        self.waves(waves)

    def registered(self):
        """Waits until every node has: only then slurmctld knows when its slurmd began."""
        end = CLOCK.now() + FINISH_S
        while CLOCK.now() < end:
            nodes = self.cluster.run("scontrol", "-o", "show", "nodes").stdout.splitlines()
            waiting = [line.split()[0] for line in nodes if "SlurmdStartTime=None" in line]
            if nodes and not waiting:
                return
            time.sleep(0.1)
        raise FaultError(f"not registered after a restart of slurmctld: {', '.join(waiting)}")

    def let_go(self):
        """What `before_restart` left running may end; also after a failure."""
        if self._held:
            self._held.close()
            self._held = None

    def one(self):
        """Submits one small job and waits until it has ended."""
        self._sbatch(1, ("-n1",), "true")
        self.finish()

    def _sbatch(self, tasks, options, command):
        array = [f"--array=0-{tasks - 1}"] if tasks > 1 else []
        done = self.cluster.run("sbatch", "-J", self.name, "-o", "/dev/null", "-t2", *array,
                                *options, "--wrap", command, check=False, timeout=60)
        if done.returncode:
            raise FaultError(f"sbatch {' '.join(options)}: {done.stderr.strip()}")
        self.submitted += tasks

    def ended(self):
        """{job id: state} of this stream's jobs that have ended."""
        with contextlib.suppress(FileNotFoundError), open(self._path, encoding="utf-8") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith("\n"):
                    break
                self._offset += len(line.encode())
                match = re.match(r"JobId=(\d+) .*?Name=(\S+) JobState=(\S+)", line)
                if match and match.group(2) == self.name:
                    if match.group(1) in self._states:
                        raise FaultError(f"job {match.group(1)} ended twice")
                    self._states[match.group(1)] = match.group(3)
        return self._states

    def progress(self, count, limit=FINISH_S):
        """Waits until `count` more jobs have ended, or for `limit` seconds, or all have."""
        end, goal = CLOCK.now() + limit, min(len(self.ended()) + count, self.submitted)
        while len(self.ended()) < goal and CLOCK.now() < end:
            time.sleep(0.2)

    def running(self, count):
        """Waits until so many jobs of the stream run at once (or there are no more)."""
        end = CLOCK.now() + FINISH_S
        while CLOCK.now() < end and len(self.ended()) < self.submitted:
            listed = self.cluster.run("squeue", "-h", "-t", "R", "-n", self.name, "-o", "%i")
            if len(listed.stdout.split()) >= count:
                return
            time.sleep(0.1)
        raise FaultError(f"never were {count} jobs running at once; {self._left()}")

    def _left(self):
        """What squeue and sinfo say of what is left, in a line."""
        asked = (("squeue", "-h", "-n", self.name, "-o", "%T %i %r"),
                 ("sinfo", "-h", "-o", "%N %T"))
        lines = [line for command in asked
                 for line in self.cluster.run(*command, check=False).stdout.splitlines()]
        running = sum(line.startswith("RUNNING") for line in lines)
        lines = [line for line in lines if not line.startswith("RUNNING")]
        return f"{running} running; {'; '.join(lines[:12])}"

    def finish(self):
        """Waits until every job has ended; all must be COMPLETED.

        Raises FaultError naming those that are not, with Slurm's reason.
        """
        end = CLOCK.now() + FINISH_S
        while len(self.ended()) < self.submitted:
            if CLOCK.now() > end:
                raise FaultError(f"{self.submitted - len(self.ended())} of {self.submitted} "
                                 f"jobs not ended after {FINISH_S:.0f} s: {self._left()}")
            time.sleep(0.2)
        bad = {job: state for job, state in self.ended().items() if state != "COMPLETED"}
        if bad:
            raise FaultError(f"{len(bad)} jobs not COMPLETED: {dict(list(bad.items())[:8])}")
        if len(self.ended()) > self.submitted:
            raise FaultError(f"{len(self.ended())} jobs ended, {self.submitted} were submitted")


def favour(task):
    """Lets a thread (and those that it begins) go before the jobs on this machine.

    A controller's host runs no jobs; here it runs all of them, and squeue must not be
    measured as slow because hundreds of job scripts start on the same few cores.
    """
    with contextlib.suppress(OSError):
        if os.getpriority(os.PRIO_PROCESS, task) > FAVOURED:
            os.setpriority(os.PRIO_PROCESS, task, FAVOURED)


class Probe:
    """Calls squeue over and over on a thread of its own and keeps the longest time.

    `noise_s` is the longest time of `scontrol ping` meanwhile: a program, munge and slurmctld as
    for squeue, but none of the locks that slurmctld holds while it selects nodes. It is what any
    answer takes on this machine just now, however long the overlay thinks.
    """

    def __init__(self, cluster):
        self.cluster, self.longest_s, self.calls, self.failures = cluster, 0.0, 0, 0
        self.noise_s = 0.0
        self._stop, self._paused = threading.Event(), 0
        self._thread = threading.Thread(target=self._work, name="probe", daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """Asks no more; what was seen stays."""
        self._stop.set()
        self._thread.join()

    @contextlib.contextmanager
    def paused(self):
        """While slurmctld is stopped on purpose, calls do not count."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused += 1

    def _work(self):
        favour(threading.get_native_id())
        while not self._stop.wait(PROBE_S):
            phase = self._paused
            if phase % 2:
                continue
            for role in ("slurmctld", "phalanxd"):
                for task in tasks_of(self.cluster.process(role).pid):
                    favour(task)
            noise_s, _ = self._call("scontrol", "ping")
            seconds, code = self._call("squeue", "-h", "-o", "%i")
            if self._paused != phase:
                continue  # begun before a stop of slurmctld: says nothing
            self.calls += 1
            self.failures += code != 0
            self.longest_s = max(self.longest_s, seconds)
            self.noise_s = max(self.noise_s, noise_s)

    def _call(self, *command):
        """(seconds of CLOCK, exit code) of one command; -1 if it did not end."""
        begin = CLOCK.now()
        try:
            code = subprocess.run(command, env=self.cluster.env, check=False,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL,
                                  timeout=PROBE_TIMEOUT_S).returncode
        except subprocess.TimeoutExpired:
            code = -1
        return CLOCK.now() - begin, code
