#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever happens to phalanxd, its socket, its disk or the overlay: every job completes.

One cluster of 16 nodes with the overlay in mode enforce; one fault after the
other, each under a stream of at least 300 short jobs (arrays, several nodes,
GPUs, whole nodes). Every job must end as COMPLETED, exactly once; squeue is
asked all the time and must answer within a second, and three times what `scontrol
ping` takes meanwhile (except while this suite itself has slurmctld stopped);
afterwards the logs and `phalanx status` must say what happened, and the daemon must
be in use again.
"""

import argparse
import fnmatch
import os
import signal
import shutil
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

from faults_fake import GARBAGE, FakeDaemon  # noqa: E402
from faults_stream import FaultError, Probe, Stream  # noqa: E402
from faults_tools import (filled_disk, log_since, log_size, maps_overlay,  # noqa: E402
                          wrong_version_copy)
from slurmcluster import Cluster, ClusterError, UsageError  # noqa: E402
from transparency_status import phalanx_json  # noqa: E402

EXIT_FAILED, EXIT_USAGE = 1, 2
SQUEUE_LIMIT_S = 1.0
JOBS_MIN = 300
STOPPED_S = 30.0           # how long the daemon is stopped with SIGSTOP
RECOVER_S = 30.0           # until the daemon must be in use again after a fault
FAULTS = {}


def fault(function):
    """Registers a fault under its function's name with - for _."""
    FAULTS[function.__name__.replace("_", "-")] = function
    return function


class Run:
    """One fault on the cluster: its stream, its probe, and what the logs said since."""

    def __init__(self, cluster, name, probe):
        self.cluster, self.name, self.probe = cluster, name, probe
        self.stream = Stream(cluster, name)
        self.logs = {which: log_size(cluster, which) for which in ("slurmctld", "phalanxd")}
        self.problems = []
        self.wait(self.in_use, "plugin connected and synced before the fault")
        self.before = self.status()

    def status(self):
        """`phalanx status --json`; an empty dictionary while the daemon is away."""
        try:
            return phalanx_json(self.cluster, "status")
        except ClusterError:
            return {}

    def check(self, condition, text):
        """Notes a problem unless the condition holds."""
        if not condition:
            self.problems.append(text)

    def logged(self, which, text):
        """The log of `slurmctld` or `phalanxd` must have said this since the fault began."""
        self.check(text in log_since(self.cluster, which, self.logs[which]),
                   f"log of {which} does not say {text!r}")

    def wait(self, condition, what, limit=RECOVER_S):
        """Waits for something that must come true; notes a problem if it does not."""
        end = time.monotonic() + limit
        while not condition():
            if time.monotonic() > end:
                self.check(False, f"not within {limit:.0f} s: {what}")
                return
            time.sleep(0.2)

    def in_use(self):
        """True if the plugin is connected and synced, and its breaker closed or about to be."""
        plugin = self.status().get("plugin", {})
        return bool(plugin.get("connected") and plugin.get("synced"))

    def narrowed(self):
        """RUN_NOW calls placed on a narrowed set since the daemon's start."""
        return self.status().get("run_now", {}).get("narrowed", 0)

    def recovered(self):
        """After a fault: connected, synced, and jobs are placed as decided again."""
        self.wait(self.in_use, "plugin connected and synced")
        seen = self.narrowed()

        def placed():
            self.stream.one()
            return self.narrowed() > seen
        self.wait(placed, "a job placed on decided nodes")

    def restart_slurmctld(self):
        """Restarts slurmctld; squeue is not measured while it is stopped."""
        with self.probe.paused():
            self.cluster.restart_slurmctld()

    def counted(self, *path, at_least=1):
        """A counter of the status, which must be at least so large."""
        value = self.status()
        for key in path:
            value = value.get(key, {}) if isinstance(value, dict) else {}
        self.check(isinstance(value, int) and value >= at_least,
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
    run.wait(lambda: os.path.exists(path), f"{path} made anew")
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
        run.wait(run.in_use, "plugin connected and synced")
        run.stream.waves(1)
        disk.fill()
        run.stream.waves(3)
        run.stream.finish()
        run.wait(lambda: run.status().get("history", {}).get("errors", 0) > 0,
                 "status: history.errors counts")
        run.check(bool(run.status()["history"]["last_error"]), "status: no history.last_error")
        run.logged("phalanxd", "history")
        run.recovered()
        written = run.status()["history"]["written"]
        disk.free()

        def writes():
            run.stream.one()
            return run.status()["history"]["written"] > written
        run.wait(writes, "history written again once there is room", limit=90.0)
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
    run.check(run.status()["plugin"]["pid"] not in (0, before), "status: plugin.pid is the old one")


@fault
def overlay_removed(run):
    """The overlay deleted and slurmctld restarted with running jobs: stock goes on"""
    run.stream.before_restart()
    run.cluster.remove_overlay()
    run.restart_slurmctld()
    run.check(not maps_overlay(run.cluster), "slurmctld still has the overlay mapped")
    run.stream.after_restart(1)
    run.check(not run.status()["plugin"]["connected"], "status: plugin still connected")
    run.stream.before_restart()
    run.cluster.install_overlay()
    run.restart_slurmctld()
    run.stream.after_restart(1)
    run.stream.finish()
    run.check(maps_overlay(run.cluster), "slurmctld does not have the overlay mapped")
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
    run.check(not maps_overlay(run.cluster), "slurmctld has the wrong overlay mapped")
    run.check(not run.status()["plugin"]["connected"], "status: plugin connected")
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
            run.wait(lambda: fake.asks > 0, "an ask at the false daemon", limit=5.0)
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
            run.check(grown > 0, f"status: no {counter} was counted")
    replaced.__doc__ = f"A false daemon on the socket: {kind.title}"
    replaced.__name__ = f"garbage_{kind.name}"
    return fault(replaced)


for one_kind in GARBAGE:
    garbage(one_kind)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="faults.py", allow_abbrev=False,
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="only the faults of this name (may hold * and ?); repeatable")
    parser.add_argument("--list", action="store_true", help="list the faults and exit")
    parser.add_argument("--keep", action="store_true", help="leave cluster and files behind")
    parser.add_argument("--dir", metavar="DIR", help="where the cluster lives (default: new)")
    return parser.parse_args()


def run_fault(cluster, name, function):
    """Runs one fault; returns (lines of problems, summary)."""
    begin = time.monotonic()
    with Probe(cluster) as probe:
        run = None
        try:
            run = Run(cluster, name, probe)
            function(run)
            run.stream.finish()
        except (FaultError, ClusterError) as error:
            problem = str(error)
        except Exception:  # a broken fault must not end the suite
            problem = traceback.format_exc()
        else:
            problem = ""
    problems = (run.problems if run else []) + problem.splitlines()
    jobs = run.stream.submitted if run else 0
    if jobs < JOBS_MIN:
        problems.append(f"only {jobs} jobs were submitted, at least {JOBS_MIN} expected")
    if probe.longest_s > SQUEUE_LIMIT_S + 3 * probe.noise_s or probe.failures:
        problems.append(f"squeue took up to {probe.longest_s:.2f} s (ping {probe.noise_s:.2f} s), "
                        f"{probe.failures} of {probe.calls} calls failed")
    return problems, (f"{jobs} jobs, squeue at most {probe.longest_s * 1000:.0f} ms of "
                      f"{probe.calls} (ping {probe.noise_s * 1000:.0f} ms), "
                      f"{time.monotonic() - begin:.0f} s")


def run_all(cluster, names):
    """Runs the faults one after the other; returns the names of the failed ones."""
    failed = []
    for name in names:
        problems, summary = run_fault(cluster, name, FAULTS[name])
        print(f"{name:<28} {'FAILED' if problems else 'ok':<7} {summary}", flush=True)
        for problem in problems:
            print(f"    {problem}", flush=True)
        if problems:
            failed.append(name)
            recover(cluster)
    return failed


def recover(cluster):
    """Puts a cluster in order after a failed fault, so that the next one has a fair start."""
    try:
        cluster.run("scancel", "-u", "root", check=False)
        if cluster.alive("phalanxd"):
            cluster.signal_phalanxd(signal.SIGCONT)
        else:
            cluster.start_phalanxd()
        if not os.path.isfile(cluster.paths.overlay_file) or not maps_overlay(cluster):
            cluster.install_overlay()
            cluster.restart_slurmctld()
        cluster.wait_idle(30)
    except ClusterError as error:
        print(f"    clean-up: {error}", flush=True)


def main():
    """Runs the suite; 0 if every fault was survived, 1 if not, 2 on a bad command line."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    args = arguments()
    if args.list:
        for name, function in FAULTS.items():
            print(f"{name:<28} {function.__doc__.splitlines()[0]}")
        return 0
    names = [name for name in FAULTS
             if not args.only or any(fnmatch.fnmatch(name, p) for p in args.only)]
    if not names:
        print("faults.py: --only matches no fault (see --list)", file=sys.stderr)
        return EXIT_USAGE
    root, failed, begin = args.dir or tempfile.mkdtemp(prefix="phx-ft-"), [], time.monotonic()
    cluster = Cluster(os.path.join(root, "cluster"), extra=[
        "MinJobAge=30", "JobCompType=jobcomp/filetxt",
        f"JobCompLoc={os.path.join(root, 'jobcomp.log')}",
        "SchedulerParameters=bf_interval=2,bf_continue,sched_interval=2,batch_sched_delay=1,"
        "default_queue_depth=500,bf_max_job_test=500"])
    try:
        with cluster:
            failed = run_all(cluster, names)
            if args.keep:
                print(f"the cluster is in {root}; press Enter to end it")
                sys.stdin.readline()
    except (UsageError, ClusterError) as error:
        print(f"faults.py: {error}", file=sys.stderr)
        failed = failed or ["cluster"]
    if failed or args.keep or args.dir:
        print(f"files are in {root}")
    else:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{time.monotonic() - begin:.0f} s")
    print(f"{len(names) - len(failed)} passed, {len(failed)} failed")
    return EXIT_FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(main())
