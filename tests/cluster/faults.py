#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever happens to phalanxd, its socket, its disk or the overlay: every job completes.

One cluster of 16 nodes with the overlay in mode enforce; one fault after the
other, each under a stream of at least 300 short jobs (arrays, several nodes,
GPUs, whole nodes). Every job must end as COMPLETED, exactly once; squeue is
asked all the time and must answer within a second, and three times what `scontrol
ping` takes meanwhile (except while this suite itself has slurmctld stopped);
afterwards the logs and `phalanx status` must say what happened, and the daemon must
be in use again. What Slurm wrote meanwhile is judged (tests/judge_history.py).
"""

import contextlib
import os
import signal
import sys
import tempfile
import time

from faults_fake import EJECTED, GARBAGE, FakeDaemon
from faults_stream import Probe, Stream
from faults_tools import (filled_disk, log_since, log_size, maps_overlay, site,
                          wrong_version_copy)
from judged import Keeper, judge, receipts
from slurmcluster import Cluster, ClusterError
from slurmcluster.conf import write_config
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.suite import Case, Cases, Suite, command_line, run as run_suite

SQUEUE_LIMIT_S = 1.0
JOBS_MIN = 300
KEEP_S = 5.0               # between two questions for all jobs
STOPPED_S = 30.0           # how long the daemon is stopped with SIGSTOP
LATE_S = STOPPED_S + 5.0    # so late may phalanxd hear of a start
FOR_GOOD = "until slurm.conf says otherwise"
fault = Cases()


class Run(Suite):
    """The cluster, and of the fault in hand its stream, its probe and what the logs said since."""

    stream = probe = before = None
    logs = {}

    def __init__(self, cluster, keeper):
        super().__init__(cluster)
        self.keeper, self.submitted, self.told = keeper, {}, []

    @contextlib.contextmanager
    def around(self, case):
        """A stream and a probe for each fault; what they must have seen in the end."""
        self.stream, began = Stream(self.cluster, case.name), time.time()
        self.logs = {which: log_size(self.cluster, which) for which in ("slurmctld", "phalanxd")}
        with Probe(self.cluster) as self.probe:
            self.until(self.in_use, "plugin connected and synced before the fault")
            self.before = self.status()
            try:
                yield
                self.stream.finish()
            finally:
                self.stream.let_go()
                self.probe.end()
                self.judge()
        self.judge_history(case)
        wrong, verdict = receipts(self.keeper, f"{int(time.time() - began) + 1}s", LATE_S)
        self.problems += wrong
        self.summary += "; " + verdict.splitlines()[-1].partition(";")[0] if verdict else ""

    def judge_history(self, case):
        """Slurm's own history until now; what was told after a former fault is not told again."""
        self.submitted[case.name] = self.stream.submitted
        wrong, verdict = judge([self.keeper], [self.submitted])
        new = [line for line in wrong if line not in self.told]
        self.told += new
        self.expect(not new, "\n".join(new))
        self.summary += f"; {verdict.splitlines()[-1].partition(';')[0] if verdict else 'unjudged'}"

    def judge(self):
        """Enough jobs came, and squeue was answered in time."""
        jobs, probe = self.stream.submitted, self.probe
        self.expect(jobs >= JOBS_MIN, f"only {jobs} jobs were submitted, at least {JOBS_MIN} "
                                      "expected")
        self.summary = (f"{jobs} jobs, squeue at most {probe.longest_s * 1000:.0f} ms of "
                        f"{probe.calls} (ping {probe.noise_s * 1000:.0f} ms)")
        self.expect(probe.longest_s <= SQUEUE_LIMIT_S + 3 * probe.noise_s and not probe.failures,
                    f"{probe.failures} of {probe.calls} calls of squeue failed; {self.summary}")

    def status(self):
        """`phalanx status --json`; an empty dictionary while the daemon is away."""
        try:
            return phalanx_json(self.cluster, "status")
        except ClusterError:
            return {}

    def logged(self, which, text):
        """The log of `slurmctld` or `phalanxd` must have said this since the fault began."""
        self.expect(text in log_since(self.cluster, which, self.logs[which]),
                    f"log of {which} does not say {text!r}")

    def in_use(self):
        """True if the plugin is connected and synced, and its breaker closed or about to be."""
        plugin = self.status().get("plugin", {})
        return bool(plugin.get("connected") and plugin.get("synced"))

    def narrowed(self):
        """RUN_NOW calls placed on a narrowed set since the daemon's start."""
        return self.status().get("run_now", {}).get("narrowed", 0)

    def recovered(self):
        """After a fault: connected, synced, and jobs are placed as decided again."""
        self.until(self.in_use, "plugin connected and synced")
        seen = self.narrowed()

        def placed():
            self.stream.one()
            return self.narrowed() > seen
        self.until(placed, "a job placed on decided nodes")

    def recover(self):
        """Puts a cluster in order after a failed fault, so that the next one has a fair start."""
        cluster = self.cluster
        cluster.run("scancel", "-u", "root", check=False)
        if cluster.alive("phalanxd"):
            cluster.signal_phalanxd(signal.SIGCONT)
        else:
            cluster.start_phalanxd()
        if not os.path.isfile(cluster.paths.overlay_file) or not maps_overlay(cluster):
            cluster.install_overlay()
            cluster.restart_slurmctld()
        cluster.wait_idle(30)

    def restart_slurmctld(self):
        """Restarts slurmctld; squeue is not measured while it is stopped."""
        with self.probe.paused():
            self.cluster.restart_slurmctld()

    def counted(self, *path, at_least=1):
        """A counter of the status, which must be at least so large."""
        value = self.status()
        for key in path:
            value = value.get(key, {}) if isinstance(value, dict) else {}
        self.expect(isinstance(value, int) and value >= at_least,
                    f"status: {'.'.join(path)} is {value}, expected at least {at_least}")


@fault
def no_fault(run):
    """Nothing happens: the stream itself, and squeue, are fine"""
    run.stream.waves(4)
    run.stream.finish()
    run.counted("run_now", "narrowed", at_least=20)


@fault
def daemon_killed(run):
    """phalanxd killed with SIGKILL, and started again while jobs come"""
    run.stream.waves(2)
    run.cluster.signal_phalanxd(signal.SIGKILL)
    run.stream.waves(1)
    run.stream.progress(20)
    run.cluster.start_phalanxd()
    run.stream.waves(1)
    run.stream.finish()
    run.logged("slurmctld", "phalanx: connection lost")
    run.logged("slurmctld", "phalanx: connected")
    run.recovered()
    run.counted("plugin", "connects", at_least=run.before["plugin"]["connects"] + 1)


@fault
def daemon_stopped(run):
    """phalanxd stopped with SIGSTOP for 30 s, then continued"""
    run.stream.waves(1)
    run.cluster.signal_phalanxd(signal.SIGSTOP)
    try:
        end = time.monotonic() + STOPPED_S
        while time.monotonic() < end:
            run.stream.waves(1)
            run.stream.progress(60, limit=max(1.0, end - time.monotonic()))
            time.sleep(2.0)
    finally:
        run.cluster.signal_phalanxd(signal.SIGCONT)
    run.stream.waves(1)
    run.stream.finish()
    run.logged("slurmctld", "phalanx: breaker opened")
    run.recovered()
    run.counted("plugin", "breaker_opens", at_least=run.before["plugin"]["breaker_opens"] + 1)
    timeouts = run.before["plugin"]["reasons"].get("timeout", 0)
    run.counted("plugin", "reasons", "timeout", at_least=timeouts + 1)


@fault
def socket_deleted(run):
    """The plugin's socket file is deleted: the connection lives, the file comes back"""
    path = run.cluster.paths.plugin_socket
    run.stream.waves(2)
    os.unlink(path)
    run.stream.waves(2)
    run.stream.finish()
    run.until(lambda: os.path.exists(path), f"{path} made anew")
    run.logged("phalanxd", "socket was gone")
    run.recovered()


@fault
def socket_deleted_daemon_down(run):
    """Socket deleted and the daemon killed: nobody listens until it is started again"""
    run.stream.waves(1)
    run.cluster.signal_phalanxd(signal.SIGKILL)
    os.unlink(run.cluster.paths.plugin_socket)
    run.stream.waves(3)
    run.stream.finish()
    run.cluster.start_phalanxd()
    run.logged("slurmctld", "phalanx: connection lost")
    run.recovered()


@fault
def disk_full(run):
    """The history's disk is full: decisions go on, records are dropped and counted"""
    run.cluster.stop_phalanxd()
    with filled_disk(run.cluster.paths.var) as disk:
        run.cluster.start_phalanxd()
        run.until(run.in_use, "plugin connected and synced")
        run.stream.waves(1)
        disk.fill()
        run.stream.waves(3)
        run.stream.finish()
        run.until(lambda: run.status().get("history", {}).get("errors", 0) > 0,
                  "status: history.errors counts")
        run.expect(bool(run.status()["history"]["last_error"]), "status: no history.last_error")
        run.logged("phalanxd", "history")
        run.recovered()
        written = run.status()["history"]["written"]
        disk.free()

        def writes():
            run.stream.one()
            return run.status()["history"]["written"] > written
        run.until(writes, "history written again once there is room", limit=90.0)
        run.stream.finish()
        run.cluster.stop_phalanxd()
    run.cluster.start_phalanxd()
    run.recovered()


@fault
def slurmctld_restarted(run):
    """slurmctld restarted with running jobs: they go on, the mirror is sent anew"""
    run.stream.before_restart()
    before = run.cluster.process("slurmctld").pid
    run.restart_slurmctld()
    run.stream.after_restart(3)
    run.stream.finish()
    run.recovered()
    run.logged("slurmctld", "phalanx: synced")
    run.expect(run.status()["plugin"]["pid"] not in (0, before),
               "status: plugin.pid is the old one")


@fault
def overlay_removed(run):
    """The overlay deleted and slurmctld restarted with running jobs: stock goes on"""
    run.stream.before_restart()
    run.cluster.remove_overlay()
    run.restart_slurmctld()
    run.expect(not maps_overlay(run.cluster), "slurmctld still has the overlay mapped")
    run.stream.after_restart(1)
    run.expect(not run.status()["plugin"]["connected"], "status: plugin still connected")
    run.stream.before_restart()
    run.cluster.install_overlay()
    run.restart_slurmctld()
    run.stream.after_restart(1)
    run.stream.finish()
    run.expect(maps_overlay(run.cluster), "slurmctld does not have the overlay mapped")
    run.logged("phalanxd", "plugin disconnected")
    run.recovered()


@fault
def overlay_wrong_version(run):
    """An overlay built for another Slurm: it is refused, stock goes on"""
    run.stream.before_restart()
    with tempfile.TemporaryDirectory() as directory:
        wrong_version_copy(run.cluster.paths.overlay_file, directory)
        run.cluster.install_overlay(directory)
    run.restart_slurmctld()
    run.stream.after_restart(3)
    run.stream.finish()
    run.logged("slurmctld", "Incompatible Slurm plugin")
    run.expect(not maps_overlay(run.cluster), "slurmctld has the wrong overlay mapped")
    run.expect(not run.status()["plugin"]["connected"], "status: plugin connected")
    run.cluster.install_overlay()
    run.restart_slurmctld()
    run.recovered()


def garbage(kind):
    """The fault of a daemon that answers every ask with one kind of garbage."""
    def replaced(run):
        run.cluster.stop_phalanxd()
        with FakeDaemon(run.cluster.paths.plugin_socket, kind) as fake:
            run.stream.waves(4)
            run.stream.finish()
            run.until(lambda: fake.asks > 0, "an ask at the false daemon", limit=5.0)
            run.problems += fake.problems()
        run.cluster.start_phalanxd()
        run.recovered()
        run.logged("slurmctld", "phalanx: connect")
        for counter in kind.counters:
            before = run.before["plugin"]
            after = run.status()["plugin"]
            grown = sum(after["reasons"].get(name, 0) - before["reasons"].get(name, 0)
                        for name in counter.split("|") if name != "late_answers")
            if "late_answers" in counter:
                grown += after["late_answers"] - before["late_answers"]
            run.expect(grown > 0, f"status: no {counter} was counted")
    return Case(f"garbage-{kind.name}", f"A false daemon on the socket: {kind.title}", replaced)


for one_kind in GARBAGE:
    fault.add(garbage(one_kind))


@fault
def ejected(run):
    """A false daemon is wrong until it is ejected: stock decides until slurm.conf says otherwise"""
    wrong = next(kind for kind in GARBAGE if kind.name == "foreign")
    run.cluster.stop_phalanxd()
    with run.probe.paused():
        site(run.cluster, "phalanx_eject=1", "phalanx_enable=1")
    with FakeDaemon(run.cluster.paths.plugin_socket, wrong) as fake:
        # Fifty answers count; asks are as many as their time in a minute allows.
        for at in range(6):
            if at < 2 or fake.breaker != EJECTED:
                run.stream.waves(2)
        run.stream.finish()
        run.until(lambda: fake.breaker == EJECTED, "the plugin tells the false daemon: "
                  f"{fake.asks} asks")
        asks, hellos = fake.asks, fake.hellos
        run.stream.one()
        run.stream.finish()
        run.expect(fake.asks == asks, "asked after it was ejected")
        run.until(lambda: fake.hellos >= hellos, "a WELCOME that asks to be readmitted")
        run.problems += fake.problems()
    log = log_since(run.cluster, "slurmctld", run.logs["slurmctld"])
    said = log.count(FOR_GOOD)
    run.expect(said == 1, f"log of slurmctld: {said} lines of an ejection, expected 1")
    run.cluster.start_phalanxd()
    run.until(lambda: run.status().get("plugin", {}).get("breaker") == "ejected",
              "a true daemon is told that the plugin is ejected")
    run.counted("plugin", "ejections")
    run.expect(not run.in_use(), "status: synced although ejected")
    with open(os.path.join(run.cluster.paths.state, "phalanx_breaker"), encoding="utf-8") as dump:
        head = dump.readline()
    run.expect(FOR_GOOD in head, f"phalanx_breaker begins {head[:200]!r}")
    run.expect("phalanx_enable=N" in phalanx(run.cluster, "daemon", "enable").stdout,
               "`phalanx daemon enable` does not say what to do")
    with run.probe.paused():
        site(run.cluster, "phalanx_enable=2")
    run.recovered()


@contextlib.contextmanager
def setting(root, _args):
    """One cluster of 16 nodes."""
    place = os.path.join(root, "cluster")
    config = write_config(place, 'mode = "enforce"\n[source]\npoll_ms = 500\n')
    with Cluster(place, config=config, extra=[
            "MinJobAge=30", "JobCompType=jobcomp/filetxt",
            f"JobCompLoc={os.path.join(root, 'jobcomp.log')}",
            "SchedulerParameters=bf_interval=2,bf_continue,sched_interval=2,batch_sched_delay=1,"
            "default_queue_depth=500,bf_max_job_test=500"]) as cluster, \
            Keeper(cluster, KEEP_S) as keeper:
        yield Run(cluster, keeper)


if __name__ == "__main__":
    sys.exit(run_suite(command_line(__doc__, fault), setting))
