#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""`phalanx doctor` on a real cluster: things are broken one by one, and it names each.

One cluster of two nodes with the overlay. Every case breaks one thing, wants
the finding of the right check and level (and the line to change), repairs it,
and wants a healthy host again.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile

from faults_tools import log_since, log_size, maps_overlay, wrong_version_copy
from slurmcluster import Cluster, ClusterError, procs
from slurmcluster.paths import repository
from slurmcluster.phalanx import phalanx_json
from slurmcluster.suite import Cases, Suite, check, command_line, run

NODES = """\
NodeName=n[1-2] CPUs=4 RealMemory=4000
PartitionName=main Nodes=ALL Default=YES State=UP
"""
case = Cases()
CODES = {"ok": 0, "note": 0, "warning": 1, "error": 2}


class Doctor(Suite):
    """The cluster and what the doctor says of it."""

    first = ""   # comes before everything in PATH

    def report(self):
        """(exit code, the report)."""
        env = self.cluster.env
        env["PATH"] = self.first + env["PATH"]
        # Without --config: the daemon says which file it reads.
        done = self.cluster.run("phalanx", "doctor", "--json", check=False, env=env)
        try:
            return done.returncode, json.loads(done.stdout)
        except ValueError:
            raise ClusterError(f"doctor: {done.returncode}: {done.stdout}{done.stderr}") from None

    def finds(self, level, name, *words):
        """Wants a finding of a check that holds these words; returns it."""
        def found():
            code, report = self.report()
            return next((f for f in report["findings"] if f["check"] == name
                         and f["level"] == level and code >= CODES[level]
                         and all(word in json.dumps(f) for word in words)), None)

        finding = self.until(found, f"{level} of {name} with {words}", 10.0, every=0.2)
        print(f"    {level} {name}: {finding['what']}", flush=True)
        return finding

    def healthy(self):
        """Wants neither error nor warning."""
        self.until(lambda: self.report()[0] == 0, "neither error nor warning", 20.0, every=0.2)

    def why(self):
        """What the doctor finds just now."""
        bad = [f for f in self.report()[1]["findings"] if f["level"] in ("error", "warning")]
        return json.dumps(bad, indent=1)

    @contextlib.contextmanager
    def around(self, case):
        """What a case has broken is repaired in the end."""
        yield
        self.healthy()

    @contextlib.contextmanager
    def conf(self, change):
        """slurm.conf with another text meanwhile."""
        path = self.cluster.paths.slurm_conf
        with open(path, encoding="utf-8") as file:
            before = file.read()
        try:
            write(path, change(before))
            yield
        finally:
            write(path, before)


def write(path, text):
    """Writes a file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


@case
def nothing_broken(_doctor):
    """A healthy cluster has neither error nor warning."""


@case
def directory_missing(doctor):
    """An entry of PluginDir that does not exist: Slurm's own programs cannot even start."""
    directory = doctor.cluster.paths.overlay
    os.rename(directory, directory + ".away")
    try:
        found = doctor.finds("error", "plugin-dir-exists", directory, "phalanx-common")
        check("slurm.conf:" in found["place"], f"no line in {found}")
    finally:
        os.rename(directory + ".away", directory)


@case
def wrong_order(doctor):
    """Slurm's own directory first."""
    ours, stock = doctor.cluster.paths.overlay, doctor.cluster.release.plugin_dir()
    with doctor.conf(lambda text: text.replace(f"{ours}:{stock}", f"{stock}:{ours}")):
        doctor.finds("error", "plugin-dir-order", f"PluginDir={ours}:{stock}", "slurm.conf:")
        doctor.finds("warning", "plugin-dir-in-force")


@case
def other_micro_version(doctor):
    """Slurm was upgraded under it: stock schedules, and the doctor says what to install."""
    cluster = doctor.cluster
    with tempfile.TemporaryDirectory() as directory:
        wrong_version_copy(cluster.paths.overlay_file, directory)
        cluster.install_overlay(directory)
        cluster.restart_slurmctld()
        job = cluster.submit("-n1", wrap="true")
        cluster.wait_jobs([job])
        doctor.finds("error", "overlay-version", cluster.release.version,
                      "apt install phalanx-slurm-plugin-")
        cluster.install_overlay()
    doctor.finds("error", "overlay-loaded", "restart slurmctld")
    cluster.restart_slurmctld()


@contextlib.contextmanager
def overlays_of(doctor, *versions):
    """Directories of this tree's overlay built with other versions of the protocol."""
    make = ["make", "-s", "-C", os.path.join(repository(), "plugin"),
            f"SLURM_VERSION={doctor.cluster.release.version}"]
    if os.environ.get("SLURM_SOURCE"):
        make.append(f"SLURM_SOURCE={os.environ['SLURM_SOURCE']}")
    with tempfile.TemporaryDirectory() as root:
        built = [os.path.join(root, str(version)) for version in versions]
        makes = [subprocess.Popen([*make, f"OUT={out}", f"CPPFLAGS=-DPHX_VERSION={version}u",
                                   "CFLAGS=-O0", "-j2", f"{out}/select_cons_tres.so"],
                                  stdout=subprocess.DEVNULL) for version, out in
                 zip(versions, built)]
        doctor.until(lambda: all(one.poll() is not None for one in makes),
                     "the overlays are compiled", 120)
        check(not any(one.returncode for one in makes), "the overlay does not compile")
        yield built


@case
def other_protocol(doctor):
    """Overlays of the previous and the next protocol: stock places, the doctor says what to do."""
    cluster = doctor.cluster
    with open(os.path.join(repository(), "ffi", "include", "phalanx_wire.h"),
              encoding="utf-8") as file:
        own = int(re.search(r"define PHX_VERSION (\d+)u", file.read()).group(1))
    with overlays_of(doctor, own - 1, own + 1) as built:
        for version, directory in zip((own - 1, own + 1), built):
            seen = log_size(cluster, "slurmctld")
            cluster.install_overlay(directory)
            cluster.restart_slurmctld()
            check(maps_overlay(cluster), "slurmctld does not have the overlay mapped")
            doctor.finds("error", "plugin", f"speaks version {version} of the protocol",
                         f"this phalanxd version {own}:", "restart phalanxd slurmctld")
            jobs = [cluster.submit("-n1", "--array=1-4", wrap="true"),
                    cluster.submit("-N2", "-n2", wrap="true")]
            ended = [record["JobState"] for record in cluster.wait_jobs(jobs)]
            check(set(ended) == {"COMPLETED"}, f"jobs ended {ended}")
            plugin = phalanx_json(cluster, "status")["plugin"]
            check(not plugin["connected"], f"version {version} is connected: {plugin}")
            said = log_since(cluster, "slurmctld", seen).count("does not take this overlay")
            check(said == 1, f"log of slurmctld: {said} lines of an overlay not taken, expected 1")
    cluster.install_overlay()
    cluster.restart_slurmctld()


@case
def overlay_gone(doctor):
    """The file was removed while slurmctld has it loaded."""
    cluster = doctor.cluster
    os.rename(cluster.paths.overlay_file, cluster.paths.overlay_file + ".away")
    try:
        doctor.finds("error", "overlay", "apt install phalanx-slurm-plugin-")
    finally:
        os.rename(cluster.paths.overlay_file + ".away", cluster.paths.overlay_file)


@case
def overlay_replaced(doctor):
    """A new build is there, the old one runs."""
    doctor.cluster.install_overlay()
    doctor.finds("warning", "overlay-loaded", "restart slurmctld")
    doctor.cluster.restart_slurmctld()


@case
def overlay_writable(doctor):
    """Anybody could change what runs in slurmctld."""
    path = doctor.cluster.paths.overlay_file
    os.chmod(path, 0o666)
    try:
        doctor.finds("error", "overlay-rights", path)
    finally:
        os.chmod(path, 0o644)


@case
def daemon_down(doctor):
    """No daemon."""
    doctor.cluster.stop_phalanxd()
    doctor.finds("error", "daemon", "phalanxd")
    doctor.cluster.start_phalanxd()


@case
def slurmctld_down(doctor):
    """No slurmctld."""
    doctor.cluster.stop_slurmctld()
    doctor.finds("error", "slurmctld", "does not answer")
    doctor.cluster.start_slurmctld()


@case
def socket_elsewhere(doctor):
    """slurmctld and the daemon do not mean the same socket."""
    cluster, toml = doctor.cluster, doctor.cluster.paths.phalanx_toml
    with open(toml, encoding="utf-8") as file:
        before = file.read()
    write(toml, before.replace(cluster.paths.plugin_socket, cluster.paths.plugin_socket + "2"))
    try:
        doctor.finds("error", "socket-path", cluster.paths.plugin_socket)
    finally:
        write(toml, before)


@case
def toml_wrong(doctor):
    """A key that does not exist."""
    toml = doctor.cluster.paths.phalanx_toml
    with open(toml, encoding="utf-8") as file:
        before = file.read()
    write(toml, "moed = \"off\"\n" + before)
    try:
        doctor.finds("error", "config", "moed")
        write(toml, before + "\n[partition.nope]\nmode = \"off\"\n")
        doctor.finds("warning", "config-partition", "nope", "main")
    finally:
        write(toml, before)


@case
def data_service(doctor):
    """A node that Slurm does not have, nodes without an agent, an agent under a wrong name."""
    cluster, toml = doctor.cluster, doctor.cluster.paths.phalanx_toml
    with open(toml, encoding="utf-8") as file:
        before = file.read()
    control = f"unix:{cluster.paths.control_socket}"
    write(toml, before + '\n[collector.load]\ncmd = "builtin:load1"\nevery_ms = 500\n'
                         'nodes = "n[1-3]"\n')
    try:
        cluster.run("phalanx", "daemon", "reload")
        doctor.finds("warning", "collector-nodes", "n3", "[collector.load] nodes")
        doctor.finds("warning", "agent", "2 of 2 nodes: n1, n2", "phalanx-agent")
        cluster.start_agent("n1", "--master", control)
        cluster.start_agent("node2", "--master", control)
        doctor.finds("warning", "agent-node", "node2", "--node")
        doctor.finds("warning", "agent", "1 of 2 nodes: n2", "phalanx-agent")
    finally:
        write(toml, before)
        for name in ("n1", "node2"):
            cluster.stop_agent(name)
        cluster.run("phalanx", "daemon", "reload")


@case
def file_to_come(doctor):
    """A file is judged by what it says, whatever slurmctld works with: nodes as sinfo has them."""
    cluster = doctor.cluster
    with open(cluster.paths.slurm_conf, encoding="utf-8") as file:
        text = file.read().replace("select/cons_tres", "select/linear")
    with tempfile.TemporaryDirectory() as directory:
        write(os.path.join(directory, "to-come.conf"), text)
        done = cluster.run("phalanx", "doctor", "--json", "--slurm-conf", "to-come.conf",
                           "--config", cluster.paths.phalanx_toml, check=False, cwd=directory)
    found = {one["check"]: one for one in json.loads(done.stdout)["findings"]}
    wrong = {name for name, one in found.items() if one["level"] in ("error", "warning")}
    check(wrong == {"select-type"}, f"wrong: {[found[name] for name in wrong]}")
    place = found["select-type"]["place"]
    check(place.startswith("to-come.conf:"), f"place: {place}")
    shown = cluster.run("sinfo", "-h", "-o", "%R (%D)").stdout.split("\n")[:-1]
    read = found["slurm-conf"]["what"]
    check(read == f"to-come.conf: 2 nodes; partitions: {', '.join(shown)}", f"{read}: {shown}")


@case
def refused_by_slurm(doctor):
    """Files with which slurmctld does not start are errors here, and name what is wrong."""
    cluster = doctor.cluster
    with open(cluster.paths.slurm_conf, encoding="utf-8") as file:
        text = file.read()
    node = next(line for line in text.splitlines() if line.startswith("NodeName=n1"))
    partition = next(line for line in text.splitlines() if line.startswith("PartitionName="))
    for changed, word in ((text.replace(node, f"{node} RealMemroy=1"), "RealMemroy"),
                          (f"{text}\nSchedularParameters=x\n", "SchedularParameters"),
                          (f"{text}\nSelectTypeParameters=CR_Cores_Memory\n", "CR_Cores_Memory"),
                          (text.replace(partition, f"{partition} OverSubscribe=MAYBE"), "MAYBE"),
                          (f"{text}\n{node}\n", "named twice"),
                          (f"{text}\n{partition}\n", "named twice"),
                          (text.replace(node, f"{node} NodeAddr=h[1-3]"), "NodeAddr has 3"),
                          (text.replace(partition, f"{partition} TRESBillingWeights=GRES/x=2"),
                           "GRES/x"),
                          (f"{text}\nJobSubmitPlugins=lua\n", "JobSubmitPlugins"),
                          (f"{text}\nTopologyPlugin=topology/tree\n", "linkspeed"),
                          (f"{text}\nStateSaveLocation=/nowhere/a/b\n", "/nowhere/a")):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "slurm.conf")
            # A slurmctld ends the one of its pid file before it reads nodes.
            state = "" if "/nowhere" in changed else f"StateSaveLocation={directory}\n"
            write(path, f"{changed}\nSlurmctldPidFile={directory}/pid\n{state}")
            write(os.path.join(directory, "topology.conf"), "SwitchName=s Nodes=n1 LinkSpeed=x\n")
            started = cluster.run("timeout", "10", "slurmctld", "-D", "-i", "-f", path, check=False)
            said = started.stdout + started.stderr
            check("fatal" in said, f"{word}: slurmctld starts: {said}")
            done = cluster.run("phalanx", "doctor", "--json", "--slurm-conf", path,
                               "--config", cluster.paths.phalanx_toml, check=False)
        errors = [one["what"] for one in json.loads(done.stdout)["findings"]
                  if one["level"] == "error"]
        check(any(word in what for what in errors), f"{word}: {errors}")


@case
def no_bf_continue(doctor):
    """SchedulerParameters without bf_continue, in force."""
    with doctor.conf(lambda text: text.replace("bf_continue,", "")):
        doctor.cluster.run("scontrol", "reconfigure")
        doctor.finds("warning", "bf-continue", "bf_continue", "slurm.conf:")
    doctor.cluster.run("scontrol", "reconfigure")


@contextlib.contextmanager
def in_its_place(doctor, program, script):
    """A shell script that stands for a program meanwhile."""
    with tempfile.TemporaryDirectory() as directory:
        fake = os.path.join(directory, program)
        write(fake, f"#!/bin/sh\n{script}\n")
        os.chmod(fake, 0o755)
        doctor.first = directory + os.pathsep
        try:
            yield
        finally:
            doctor.first = ""


@case
def munge_broken(doctor):
    """The munge program does not reach a munged."""
    with in_its_place(doctor, "munge", "echo 'munge: Error: Failed to access socket' >&2; exit 6"):
        doctor.finds("error", "munge", "Failed to access")


@case
def clock_wrong(doctor):
    """slurmctld's clock a minute ahead, as scontrol would say."""
    with in_its_place(doctor, "scontrol", "echo \"Configuration data as of "
                      "$(date -d '+1 minute' '+%Y-%m-%dT%H:%M:%S')\""):
        doctor.finds("warning", "clock", "against this host")


SYSTEMCTL = """\
case $1 in
show) printf 'MainPID=%s\\nRestart=always\\n' "$(cat {pid})" ;;
restart) kill "$(cat {pid})"; while kill -0 "$(cat {pid})"; do sleep 0.1; done; {start} ;;
start) {start} ;;
esac 2> /dev/null
"""


def drill(doctor, start, *words):
    """`phalanx drill` where a systemctl, or its option --start, starts phalanxd by such a line;
    phalanxd is new after it."""
    cluster = doctor.cluster
    pid = cluster.paths.phalanx_toml + ".pid"
    write(pid, str(cluster.process("phalanxd").pid))
    start, *words = (line.format(program=os.path.join(cluster.paths.bin_dir, "phalanxd"), pid=pid,
                                 toml=cluster.paths.phalanx_toml) for line in (start, *words))
    script = SYSTEMCTL.format(pid=pid, start=start)
    try:
        with in_its_place(doctor, "systemctl", script):
            env = {**cluster.env, "PATH": doctor.first + cluster.env["PATH"]}
            done = cluster.run("phalanx", "drill", *words, check=False, env=env, timeout=180)
    finally:
        with open(pid, encoding="utf-8") as file:
            # It has the socket for as long as it takes to end.
            procs.stop([procs.identify("phalanxd", int(file.read()))], 0)
        cluster.stop_phalanxd(kill=True)
        cluster.start_phalanxd()
    print(done.stdout, done.stderr, flush=True)
    return done


@case
def drills(doctor):
    """Failures of README in mode shadow: each holds; one does not where no daemon comes back."""
    cluster, toml = doctor.cluster, doctor.cluster.paths.phalanx_toml
    doctor.healthy()
    refused = cluster.run("phalanx", "drill", check=False)
    check(refused.returncode == 1 and "mode is enforce" in refused.stderr, f"{refused}")
    with open(toml, encoding="utf-8") as file:
        before = file.read()
    write(toml, before.replace('mode = "enforce"', 'mode = "shadow"'))
    try:
        cluster.run("phalanx", "daemon", "reload")
        doctor.healthy()
        begins = "setsid {program} --config {toml} > /dev/null & echo $! > {pid}"
        done = drill(doctor, begins, "--json")
        report = json.loads(done.stdout)
        names = [row["done"] for row in report["rows"]]
        check(done.returncode == 0 and report["held"] and len(report["not_tried"]) == 9
              and names == ["nothing", "hangs, 10x 90 ms", "killed", "restarted"], f"{report}")
        quiet, hung, *_ = report["rows"]
        check(quiet["asks"] > 0 and hung["in_vain"] > 0 and hung["in_vain_ms"] > 0, f"{report}")
        doctor.healthy()
        # As in a container: systemd starts nothing.
        report = json.loads(drill(doctor, "true", "--json", "--start", begins).stdout)
        check(report["held"] and [row["done"] for row in report["rows"]] == names, f"{report}")
        doctor.healthy()
        done = drill(doctor, "true")
        check(done.returncode == 1 and done.stdout.startswith("NOT HELD: 1 of 2 failures")
              and "killed: NOT HELD: not as before within 30 s." in done.stdout
              and max(map(len, done.stdout.splitlines())) <= 80, "it holds without a daemon")
    finally:
        write(toml, before)
        cluster.run("phalanx", "daemon", "reload")


@contextlib.contextmanager
def setting(root, _args):
    """One cluster of two nodes."""
    with Cluster(os.path.join(root, "c"), nodes=NODES) as cluster:
        yield Doctor(cluster)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
