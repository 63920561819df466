# SPDX-License-Identifier: GPL-3.0-or-later
"""Transparency cases: nodes that are there, but not ready: ending a job, powered down, reserved.

Slurm puts such nodes behind all others, so these cases note of which class the nodes are.
"""

import os

from transparency_bench import SLEEP
from transparency_cases import case

RESERVED = "ReservationName={name} Users=root StartTime=now Duration=60 Nodes={nodes} Flags={flags}"


def classes(t, label, behind, name):
    """How many nodes of a job are of the class `name`, which the numbers in `behind` are of."""
    hosts = t.hosts(t.record(label))
    late = sum(host in behind for host in hosts)
    return f"{len(hosts) - late} ready, {late} {name}"


def runs_on(t, label, behind, name, limit=12):
    """Waits until a job has nodes and notes the classes of its nodes; then ends it."""
    t.wait(label, "RUNNING", "CONFIGURING", limit=limit)
    t.note(f"{label} on", classes(t, label, behind, name))
    t.forget(label)


def queue_head(t, number):
    """A job on one node, and one that waits for all: what comes now only backfill can start."""
    t.sbatch("holder", "-w", t.nodes[number - 1], "--exclusive", "-t600", run=SLEEP)
    t.wait("holder", "RUNNING")
    t.sbatch("head", f"-N{len(t.nodes)}", "--exclusive", "-t600")
    t.wait("head", "PENDING", reason="Resources")


def no_head(t):
    """Ends what `queue_head` began."""
    t.forget("head", "holder")


def ending(t, number):
    """Makes a node COMPLETING, which it stays until the file that is returned is removed."""
    node = t.nodes[number - 1]
    path = os.path.join(t.cluster.paths.etc, f"slow-{node}")
    t.undo("rm", "-f", path)
    t.sbatch("short", "-w", node, "--exclusive", run=SLEEP)
    t.wait("short", "RUNNING")
    with open(path, "w", encoding="utf-8"):
        pass
    t.run("scancel", "-n", t.job_name("short"))
    t.until("short", lambda records: all(r["JobState"] == "COMPLETING" or
                                         r["JobState"].startswith("CANCELLED") for r in records),
            "COMPLETING")
    return path


def backfilled(t, behind, name):
    """Notes where the job `late` starts, which must not be `behind`, and soon."""
    if t.cluster.stock and not t.since(23, 11):
        # Up to 23.02 stock itself may choose such a node, and then waits for it.
        count = next(int(r["NumNodes"].partition("-")[0]) for r in t.records("late"))
        t.note("late on", f"{count} ready, 0 {name}")
        t.forget("late")
    else:
        runs_on(t, "late", behind, name)


@case("state", kind="plain")
def state_completing(t):
    """A job does not wait for a node whose epilog is slow while others are idle"""
    path = ending(t, 1)
    t.sbatch("three", "-N3", "--exclusive", run=SLEEP)
    runs_on(t, "three", {1}, "completing")
    t.sbatch("four", "-N4", "--exclusive")
    t.never_started("four", 2)
    os.unlink(path)
    t.ended("four")


@case("state", kind="plain", slow=True)
def state_completing_backfill(t):
    """Backfill starts a job on another node than one whose epilog is slow (bug 16741)"""
    path = ending(t, 1)
    queue_head(t, 4)
    t.sbatch("late", "-N1", "--exclusive", "-t1", run=SLEEP)
    backfilled(t, {1}, "completing")
    os.unlink(path)
    no_head(t)


@case("state", kind="plain", slow=True)
def state_completing_pair(t):
    """The same for two of three nodes, one of them ending its job"""
    path = ending(t, 2)
    queue_head(t, 4)
    t.sbatch("late", "-N2", "--exclusive", "-t1", run=SLEEP)
    backfilled(t, {2}, "completing")
    os.unlink(path)
    no_head(t)


@case("state", kind="plain")
def state_reboot_requested(t):
    """A busy node that is to be rebooted once it is idle"""
    t.sbatch("busy", "-w", t.nodes[0], "-n1", "-t600", run=SLEEP)
    t.wait("busy", "RUNNING")
    t.scontrol("reboot", t.nodes[0])
    t.undo("scontrol", "cancel_reboot", t.nodes[0])
    for label, options in (("one", ("-n1",)), ("three", ("-N3", "-n3")), ("more", ("-N3", "-n9"))):
        # It is as good as the others here, so that either may be chosen.
        t.sbatch(label, *options)
        t.ended(label)
    t.sbatch("four", "-N4", "-n4", "-t2")
    t.never_started("four", 2)
    t.scontrol("cancel_reboot", t.nodes[0])
    t.ended("four")
    t.forget("busy")


@case("state", kind="plain")
def state_reboot_asap(t):
    """A busy node that is to be rebooted as soon as possible gets no other job"""
    t.sbatch("busy", "-w", t.nodes[0], "-n1", "-t600", run=SLEEP)
    t.wait("busy", "RUNNING")
    t.scontrol("reboot", "ASAP", "nextstate=RESUME", t.nodes[0])
    t.undo("scontrol", "cancel_reboot", t.nodes[0])
    t.sbatch("three", "-N3", "-n3", run=SLEEP)
    runs_on(t, "three", {1}, "to be rebooted")
    t.sbatch("four", "-N4", "-n4", "-t2")
    t.never_started("four", 2)
    t.scontrol("cancel_reboot", t.nodes[0])
    # Up to 23.02 the node goes on draining.
    t.run("scontrol", "update", f"NodeName={t.nodes[0]}", "State=RESUME")
    t.ended("four")
    t.forget("busy")


@case("state", kind="plain", slow=True)
def state_reboot_backfill(t):
    """Backfill beside a node that is to be rebooted"""
    t.sbatch("busy", "-w", t.nodes[0], "-n1", "-t600", run=SLEEP)
    t.wait("busy", "RUNNING")
    t.scontrol("reboot", t.nodes[0])
    t.undo("scontrol", "cancel_reboot", t.nodes[0])
    queue_head(t, 4)
    t.sbatch("late", "-N1", "-n2", "-t1", run=SLEEP)
    backfilled(t, {1}, "to be rebooted")
    t.scontrol("cancel_reboot", t.nodes[0])
    no_head(t)
    t.forget("busy")


@case("state", kind="plain")
def state_draining(t):
    """A node that drains with a job on it gets no other"""
    t.sbatch("busy", "-w", t.nodes[1], "-n1", "-t600", run=SLEEP)
    t.wait("busy", "RUNNING")
    t.scontrol("update", f"NodeName={t.nodes[1]}", "State=DRAIN", "Reason=test")
    t.undo("scontrol", "update", f"NodeName={t.nodes[1]}", "State=RESUME")
    t.sbatch("three", "-N3", "-n3", run=SLEEP)
    runs_on(t, "three", {2}, "draining")
    t.sbatch("four", "-N4", "-n4", "-t2")
    t.never_started("four", 2)
    t.scontrol("update", f"NodeName={t.nodes[1]}", "State=RESUME")
    t.ended("four")
    t.forget("busy")


@case("state", kind="plain")
def state_flex(t):
    """A FLEX reservation's own nodes come before nodes outside of it"""
    name = f"{t.room.name}flex"
    t.scontrol("create", "reservation", *RESERVED.format(
        name=name, nodes=f"{t.nodes[2]},{t.nodes[3]}", flags="FLEX").split())
    t.undo("scontrol", "delete", f"ReservationName={name}")
    for label, count in (("one", 1), ("two", 2), ("three", 3)):
        t.sbatch(label, f"-N{count}", "--exclusive", f"--reservation={name}", run=SLEEP)
        runs_on(t, label, {1, 2}, "outside")
    t.sbatch("without", "-N2", "--exclusive", run=SLEEP)
    runs_on(t, "without", {3, 4}, "reserved")


@case("state", kind="plain")
def state_reserved(t):
    """Without FLEX a job of a reservation stays inside, others outside"""
    name = f"{t.room.name}resv"
    t.scontrol("create", "reservation", *RESERVED.format(
        name=name, nodes=f"{t.nodes[1]},{t.nodes[3]}", flags="IGNORE_JOBS").split())
    t.undo("scontrol", "delete", f"ReservationName={name}")
    t.sbatch("inside", "-N2", "--exclusive", f"--reservation={name}", run=SLEEP)
    runs_on(t, "inside", {1, 3}, "outside")
    t.sbatch("outside", "-N2", "--exclusive", run=SLEEP)
    runs_on(t, "outside", {2, 4}, "reserved")
    t.sbatch("three", "-N3", "--exclusive")
    t.never_started("three", 2)
    t.forget("three")


def never_boots(t):
    """Powers the nodes down again that a wrong choice would have begun to boot."""
    for node in t.nodes[:2]:
        # slurmctld takes a node that is powered down by its name, which nobody resolves: every
        # message beside it would wait for ten seconds.
        t.scontrol("update", f"NodeName={node}", "NodeAddr=127.0.0.1")
        t.undo("scontrol", "update", f"NodeName={node}", "State=POWER_DOWN_FORCE")


@case("state", kind="cloud")
def state_powered_down(t):
    """A job boots no node while idle ones of the same weight can have it"""
    never_boots(t)
    # A node that still ends the job before is no idle one.
    for label, options in (("one", ("-N1", "--exclusive")), ("two", ("-N2", "--exclusive")),
                           ("small", ("-n1",)), ("tasks", ("-n6",)), ("range", ("-N1-2", "-n4"))):
        t.sbatch(label, *options, run=SLEEP)
        runs_on(t, label, {1, 2}, "powered down")
        t.idle()


@case("state", kind="cloud")
def state_powered_down_part(t):
    """Where idle nodes do not suffice, only as many are booted as are missing"""
    never_boots(t)
    t.sbatch("three", "-N3", "--exclusive", run=SLEEP)
    runs_on(t, "three", {1, 2}, "powered down")


@case("state", kind="cloud", slow=True)
def state_powered_down_backfill(t):
    """Backfill boots no node while an idle one can have the job"""
    never_boots(t)
    queue_head(t, 4)
    t.sbatch("late", "-N1", "--exclusive", "-t1", run=SLEEP)
    backfilled(t, {1, 2}, "powered down")
    no_head(t)


@case("state", kind="cloud")
def state_powering_up(t):
    """A node that boots already, beside idle ones and beside one that is powered down"""
    never_boots(t)
    t.scontrol("update", f"NodeName={t.nodes[0]}", "State=POWER_UP")
    # From 24.05 on a node that boots already is as good as an idle one.
    behind = {2} if t.since(24, 5) else {1, 2}
    for count in (1, 2, 3):
        t.sbatch(f"job{count}", f"-N{count}", "--exclusive", run=SLEEP)
        runs_on(t, f"job{count}", behind, "powered down")
