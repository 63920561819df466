#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers: the overlay is inert on the standby and follows a take-over.

Both slurmctld run on this machine, each with a host name and /etc/hosts of its
own (name spaces; needs root), an address of its own on loopback, and a
phalanxd of its own, as on two hosts that share StateSaveLocation. A hundred
jobs are queued and running when `scontrol takeover` is called; none may be
lost or run twice, and the new controller must place by its daemon within 10 s.
Then the first one comes back and takes over again.
"""

import collections
import contextlib
import os
import sys

from slurmcluster import Cluster, ClusterError, UsageError
from slurmcluster import conf
from slurmcluster.clock import CLOCK
from slurmcluster.phalanx import phalanx_json
from slurmcluster.suite import Cases, Suite, check, command_line, run

HOSTS = {"ctla": "127.0.0.2", "ctlb": "127.0.0.3"}
NODES = """\
NodeName=n[1-8] CPUs=4 RealMemory=8000
PartitionName=main Nodes=ALL Default=YES State=UP
"""
JOBS = 100
JOB_S = 4
TAKEOVER_S = 10.0
# What runs before slurmctld, as root of the new name spaces.
# The directory of the pid file is each one's own: a slurmctld ends the one that its pid file names.
ENTER = ('hostname "$1" && mount --bind "$2" /etc/hosts && mount --bind "$3" "$4" && shift 4 && '
         'exec "$@"')


class Pair(Cluster):
    """A cluster with two controllers, each with its own overlay socket and daemon."""

    def _write_files(self):
        super()._write_files()
        path = self.paths.slurm_conf
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        lines = [line for line in lines if not line.startswith(("SlurmctldHost=",
                                                                "CommunicationParameters=",
                                                                "SlurmctldPidFile="))]
        lines[1:1] = [f"SlurmctldHost={name}({address})" for name, address in HOSTS.items()]
        lines += ["CommunicationParameters=NoCtldInAddrAny",
                  f"SlurmctldPidFile={self.paths.var}/pid/slurmctld.pid"]
        write(path, "\n".join(lines) + "\n")
        with open("/etc/hosts", encoding="utf-8") as file:
            own = file.read()
        write(self.hosts, own + "".join(f"{ip} {name}\n" for name, ip in HOSTS.items()))
        for name in HOSTS:
            os.makedirs(os.path.join(self.paths.var, name), exist_ok=True)
            os.makedirs(os.path.join(self.paths.var, "pid"), exist_ok=True)
            text = conf.PATIENT
            for section, key, value in (("link", "socket", self.socket(name, "plugin")),
                                        ("control", "socket", self.socket(name, "control")),
                                        ("history", "path", os.path.join(self.paths.var, name,
                                                                         "history.sqlite"))):
                text = conf.set_toml_string(text, section, key, value)
            write(self.toml(name), text)

    @property
    def hosts(self):
        """/etc/hosts of both controllers."""
        return os.path.join(self.paths.etc, "hosts")

    def toml(self, name):
        """The daemon's configuration on a controller."""
        return os.path.join(self.paths.etc, f"phalanx-{name}.toml")

    def socket(self, name, which):
        """A socket on a controller."""
        return os.path.join(self.paths.run, f"{name}-{which}.sock")

    def start_slurmctld(self, timeout=30, clean=False):
        """The primary; the standby follows when it answers."""
        self.start_controller("ctla")
        self._wait_for(lambda: "is UP" in self.ping("ctla"), timeout, "slurmctld:ctla", "answer")
        self.start_controller("ctlb")

    def start_controller(self, name):
        """One slurmctld on its own host."""
        self.spawn(f"slurmctld:{name}",
                   ["unshare", "--uts", "--mount", "sh", "-c", ENTER, "sh", name, self.hosts,
                    os.path.join(self.paths.var, name), os.path.join(self.paths.var, "pid"),
                    "slurmctld", "-D", "-f", self.paths.slurm_conf,
                    "-L", os.path.join(self.paths.log, f"slurmctld-{name}.log")],
                   {"PHALANX_PLUGIN_SOCKET": self.socket(name, "plugin")})

    def alive(self, role):
        """`slurmctld` is whichever controller runs."""
        if role == "slurmctld":
            return any(super(Pair, self).alive(f"slurmctld:{name}") for name in HOSTS)
        return super().alive(role)

    def start_phalanxd(self, timeout=20):
        """A daemon on each controller."""
        for name in HOSTS:
            program = os.path.join(self.paths.bin_dir, "phalanxd")
            self.spawn(f"phalanxd:{name}", [program, "--config", self.toml(name)])

    def ping(self, name):
        """The line of `scontrol ping` about a controller."""
        out = self.run("scontrol", "ping", check=False).stdout
        return next((line for line in out.splitlines() if name in line), "")

    def status(self, name):
        """`phalanx status` of a controller's daemon; empty without an answer."""
        try:
            return phalanx_json(self, "--socket", self.socket(name, "control"), "status")
        except ClusterError:
            return {}

    def connected(self, name):
        """True if the overlay of a controller is connected and its state complete."""
        plugin = self.status(name).get("plugin", {})
        return bool(plugin.get("connected") and plugin.get("synced"))

    def narrowed(self, name):
        """Starts on the nodes that a daemon decided."""
        return self.status(name).get("run_now", {}).get("narrowed", 0)


def write(path, text):
    """Writes a file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


case = Cases()


class TakeOver(Suite):
    """The pair of controllers and its jobs."""

    def __init__(self, cluster, root):
        super().__init__(cluster)
        self.out, self.ids = os.path.join(root, "ran"), set()

    def states(self):
        """Number of job records by state."""
        return collections.Counter(record["JobState"] for record in self.cluster.jobs())

    def submit(self):
        """The jobs, released together: each leaves one line when it has run."""
        script = f'#!/bin/sh\nsleep {JOB_S}\necho "$SLURM_JOB_ID" >> {self.out}\n'
        self.ids = {self.cluster.submit("--hold", "-n1", f"-c{1 + index % 2}", "--mem=500",
                                        script=script) for index in range(JOBS)}
        self.cluster.run("scontrol", "release", ",".join(map(str, sorted(self.ids))))

    def why(self):
        """What both controllers and their daemons have to say."""
        text = f"jobs {dict(self.states())}{self.cluster.why()}"
        for name in HOSTS:
            status = self.cluster.status(name)
            text += f"\n--- {name}: run_now {status.get('run_now')} {status.get('plugin')}\n"
            with open(os.path.join(self.cluster.paths.log, f"slurmctld-{name}.log"),
                      encoding="utf-8") as file:
                text += "".join(file.readlines()[-25:])
        return text


@case
def take_over(suite):
    """`scontrol takeover` under load: no job is missing, the new controller places by its daemon"""
    cluster = suite.cluster
    suite.submit()
    check(cluster.connected("ctla") and not cluster.status("ctlb")["plugin"]["connected"],
          "the overlay is connected on the primary and inert on the standby")
    suite.until(lambda: suite.states()["RUNNING"] >= 16, "jobs run")
    before = suite.states()
    check(before["PENDING"] >= 20 and sum(before.values()) == JOBS, f"before: {dict(before)}")
    begin = CLOCK.now()
    cluster.run("scontrol", "takeover", "1")
    called = CLOCK.now() - begin
    suite.until(lambda: cluster.connected("ctlb"), "overlay of the new controller connected")
    linked = CLOCK.now() - begin
    suite.until(lambda: cluster.narrowed("ctlb") > 0, "placement by the new controller's daemon")
    placed = CLOCK.now() - begin
    suite.summary = (f"returned after {called:.1f} s, overlay connected after {linked:.1f} s, "
                     f"first start placed after {placed:.1f} s")
    check(placed <= TAKEOVER_S, f"placed by the daemon after {placed:.1f} s")
    now = {int(record["JobId"]) for record in cluster.jobs()}
    check(suite.ids <= now, f"missing: {sorted(suite.ids - now)}")


@case(needs=["take_over"])
def all_jobs_complete(suite):
    """Every job completed, once"""
    records = suite.cluster.wait_jobs(suite.ids, timeout=180)
    bad = [(r["JobId"], r["JobState"], r["Restarts"]) for r in records
           if r["JobState"] != "COMPLETED" or r["Restarts"] != "0"]
    with open(suite.out, encoding="utf-8") as file:
        lines = collections.Counter(int(line) for line in file)
    check(not bad, f"not completed, or started again: {bad}")
    check(set(lines) == suite.ids and max(lines.values()) == 1, f"{lines.most_common(3)}")


@case(needs=["all_jobs_complete"])
def come_back(suite):
    """The first controller starts again, takes over by itself and places by its daemon"""
    cluster = suite.cluster
    cluster.start_controller("ctla")
    suite.until(lambda: cluster.connected("ctla"), "overlay of the first controller connected",
                60.0)
    suite.summary = f"back after {suite.waited_s:.1f} s"
    suite.until(lambda: not cluster.status("ctlb")["plugin"]["connected"],
                "the standby is inert again")
    before = cluster.narrowed("ctla")
    job = cluster.submit("-n1", wrap="true")
    cluster.wait_jobs([job])
    check(cluster.narrowed("ctla") > before, "not placed by the daemon")


@contextlib.contextmanager
def setting(root, _args):
    """The pair, both up."""
    if os.getuid() != 0:
        raise UsageError("needs root for the name spaces of the two controllers")
    with Pair(os.path.join(root, "c"), nodes=NODES) as cluster:
        suite = TakeOver(cluster, root)
        suite.until(lambda: cluster.connected("ctla"), "overlay connected")
        suite.until(lambda: "is UP" in cluster.ping("ctlb"), "the standby answers")
        yield suite


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
