# SPDX-License-Identifier: GPL-3.0-or-later
"""Transparency cases that need slurmdbd or a topology: QOS, limits, --switches."""

from transparency_bench import SLEEP, shell
from transparency_cases import case


def sacctmgr(t, *words):
    """sacctmgr that must succeed."""
    return t.run("sacctmgr", "-i", *words, check=True)


def new_qos(t, *settings):
    """A QOS of this case, usable by root and deleted at the end; returns its name."""
    name = f"{t.name}_{len(t._undo)}".lower()
    sacctmgr(t, "add", "qos", name, *(["set", *settings] if settings else []))
    t.undo("sacctmgr", "-i", "delete", "qos", name)
    sacctmgr(t, "modify", "user", "root", "set", f"qos+={name}")
    return name


@case(variant="accounting")
def qos_preempt(t):
    """A QOS preempts another: its job is requeued and runs later"""
    low = new_qos(t, "priority=10")
    high = new_qos(t, "priority=100", f"preempt={low}")
    t.sbatch("low", f"--qos={low}", "-N4", "-n16", script=shell(
        "test ${SLURM_RESTART_COUNT:-0} -gt 0 && exit 0", "exec sleep 600"))
    t.wait("low", "RUNNING")
    t.sbatch("high", f"--qos={high}", "-N2", "-n8", run="exec sleep 1")
    t.ended("high")
    t.until("low", lambda found: found[0]["Restarts"] == "1" and
            found[0]["JobState"] == "PENDING", "requeued")
    t.settle()
    t.update(f"JobId={t.job_id('low')}", "StartTime=now")
    t.wait("low", "COMPLETED")
    t.sbatch("equal", f"--qos={low}", "-N1")


@case(variant="accounting")
def qos_max_jobs(t):
    """MaxJobsPerUser of a QOS: jobs beyond it wait with its reason"""
    qos = new_qos(t, "MaxJobsPerUser=2")
    for label in ("one", "two"):
        t.block(label, f"--qos={qos}", "-n1")
    t.sbatch("three", f"--qos={qos}", "-n1")
    t.wait("three", "PENDING", reason="QOSMaxJobsPerUserLimit")
    t.sbatch("free", "-n1")
    t.ended("free")
    t.cancel("one")
    t.ended("three")
    t.cancel("two")


@case(variant="accounting")
def qos_max_submit(t):
    """MaxSubmitJobsPerUser and DenyOnLimit refuse at submission"""
    qos = new_qos(t, "MaxSubmitJobsPerUser=1")
    t.block("one", f"--qos={qos}", "-n1")
    t.refused("two", f"--qos={qos}", "-n1")
    t.cancel("one")
    strict = new_qos(t, "Flags=DenyOnLimit", "MaxTRESPerJob=cpu=4")
    t.refused("wide", f"--qos={strict}", "-n5")
    t.sbatch("fits", f"--qos={strict}", "-n4")


@case(variant="accounting")
def qos_group_tres(t):
    """GrpTRES of a QOS in CPUs and nodes"""
    cpus = new_qos(t, "GrpTRES=cpu=6")
    t.block("four", f"--qos={cpus}", "-n4")
    t.sbatch("three", f"--qos={cpus}", "-n3")
    t.wait("three", "PENDING", reason="QOSGrpCpuLimit")
    t.sbatch("two", f"--qos={cpus}", "-n2")
    t.ended("two")
    t.cancel("four")
    t.ended("three")
    nodes = new_qos(t, "GrpTRES=node=2")
    t.block("pair", f"--qos={nodes}", "-N2", "-n2")
    t.sbatch("third", f"--qos={nodes}", "-N1", "--exclusive")
    t.wait("third", "PENDING", reason="QOSGrpNodeLimit")
    t.cancel("pair")


@case(variant="accounting")
def qos_max_wall(t):
    """MaxWall and MaxTRESPerJob of a QOS hold a job, an update lets it go"""
    qos = new_qos(t, "MaxWall=5", "MaxTRESPerJob=node=2")
    t.sbatch("long", f"--qos={qos}", "-t10")
    t.wait("long", "PENDING", reason="QOSMaxWallDurationPerJobLimit")
    t.sbatch("wide", f"--qos={qos}", "-t3", "-N3")
    t.wait("wide", "PENDING", reason="QOSMaxNodePerJobLimit")
    t.sbatch("fits", f"--qos={qos}", "-t3", "-N1-2", "-c4")
    t.ended("fits")
    t.update(f"JobId={t.job_id('long')}", "TimeLimit=4")
    t.ended("long")
    t.cancel("wide")


@case(variant="accounting")
def account_limits(t):
    """GrpJobs of an account; an unknown account is refused"""
    name = f"{t.name}_{t.part}".lower()
    sacctmgr(t, "add", "account", name, "set", "GrpJobs=1")
    t.undo("sacctmgr", "-i", "delete", "account", name)
    sacctmgr(t, "add", "user", "root", f"account={name}")
    t.undo("sacctmgr", "-i", "delete", "user", "root", f"account={name}")
    t.block("one", "-A", name, "-n1")
    t.sbatch("two", "-A", name, "-n1")
    t.wait("two", "PENDING", reason="AssocGrpJobsLimit")
    t.cancel("one")
    t.ended("two")
    t.refused("unknown", "-A", "nosuchaccount")


@case(variant="accounting")
def switches_one(t):
    """--switches=1: both nodes under one leaf, waiting for a leaf to be free"""
    t.sbatch("pair", "-N2", "--switches=1", run="exec sleep 1")
    t.ended("pair")
    hosts = t.hosts(t.record("pair"))
    t.note("one leaf", hosts in ([1, 2], [3, 4]))
    t.block("left", "-w", t.nodes[0], "-n4")
    t.block("right", "-w", t.nodes[2], "-n4")
    # Of one weight only: the tree topology takes the lightest node first, then its leaf.
    t.sbatch("waits", "-N2", "-n8", "-C", "b", "--switches=1")
    t.never_started("waits", 3)
    t.sbatch("any", "-N2", "-n8", "-t1", "--switches=2")
    t.ended("any")
    t.cancel("right")
    t.ended("waits")
    t.note("waits on", t.hosts(t.record("waits")))
    t.cancel("left")


@case(variant="accounting")
def switches_timeout(t):
    """--switches=1@TIME gives up waiting for one leaf"""
    t.block("left", "-w", t.nodes[0], "-n4")
    t.block("right", "-w", t.nodes[2], "-n4")
    t.sbatch("pair", "-N2", "-n8", "--switches=1@0:04", run="exec sleep 1")
    t.ended("pair")
    t.note("pair on", t.hosts(t.record("pair")))
    t.cancel("left", "right")
    t.sbatch("three", "-N3", "--switches=1@0:02")
    t.ended("three")


@case(variant="accounting")
def topology_spread(t):
    """Jobs of three and four nodes across leaves; a range stays within one"""
    t.sbatch("three", "-N3", "-n3")
    t.sbatch("four", "-N4", "-n16")
    t.ended()
    t.sbatch("tasks", "-n10")
    t.sbatch("array", "--array=0-7", "-N2", "-n2")


@case(variant="accounting")
def gres_none(t):
    """No GRES on these nodes: requests are refused, --gres=none is accepted"""
    t.refused("gpu", "--gres=gpu:1")
    t.refused("qos", "--qos=nosuch")
    t.sbatch("none", "--gres=none", "-N2")
    t.sbatch("jobs", "--array=0-9%3", "-N1", "-n2", run=SLEEP)
    t.until("jobs", lambda found: sum(r["JobState"] == "RUNNING" for r in found) == 3,
            "three running")
    t.cancel("jobs")
