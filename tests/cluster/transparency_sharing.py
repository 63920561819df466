# SPDX-License-Identifier: GPL-3.0-or-later
"""Transparency cases: partitions that share, spread or limit nodes, and preemption."""

from transparency_bench import SLEEP
from transparency_cases import case
from transparency_layout import hold, waits


def spread(t, *labels):
    """On how many nodes jobs are together."""
    return len({host for record in t.records(*labels) for host in t.hosts(record)})


@case("layout", kind="flat")
def partition_exclusive(t):
    """OverSubscribe=EXCLUSIVE gives every job whole nodes"""
    hold(t, "small", "--array=0-2", "-n1", part="_excl")
    t.note("nodes", spread(t, "small"))
    t.sbatch("last", "-n1", "-t1", part="_excl")
    t.ended("last")
    waits(t, "pair", "-N2", part="_excl")
    t.forget("small")


@case("packed", kind="plain")
def partition_force(t):
    """OverSubscribe=FORCE:2 puts two jobs on a CPU, and not three"""
    hold(t, "first", "-N4", "-n16", "--mem-per-cpu=100", part="_force")
    hold(t, "second", "-N4", "-n16", "--mem-per-cpu=100", part="_force")
    waits(t, "third", "-n1", "--mem-per-cpu=100", part="_force")
    t.forget("first", "second")
    t.ended("third")


@case("packed", kind="plain")
def partition_force_mixed(t):
    """With FORCE:2 idle CPUs are taken before CPUs are shared"""
    hold(t, "two", "-N2", "-n8", "--mem-per-cpu=100", part="_force")
    hold(t, "rest", "-N2", "-n8", "--mem-per-cpu=100", part="_force")
    t.note("nodes", spread(t, "two", "rest"))
    t.sbatch("over", "-N3", "-n12", "--mem-per-cpu=100", "-t1", part="_force")
    t.ended("over")
    t.forget("two", "rest")


@case("layout", kind="flat")
def partition_user(t):
    """ExclusiveUser=YES keeps other users off the nodes of a job"""
    hold(t, "root", "-N3", "-n3", part="_user")
    t.sbatch("same", "-N3", "-n3", "-t1", part="_user")
    t.ended("same")
    t.sbatch("other", "--uid=nobody", "-N1", "-n1", "-t1", "-D", "/tmp", part="_user")
    t.ended("other")
    t.sbatch("others", "--uid=nobody", "-N2", "-n2", "-D", "/tmp", part="_user")
    t.never_started("others", 2)
    t.forget("root")


@case("layout", kind="flat")
def partition_lln(t):
    """LLN=YES puts each job on the least loaded node"""
    for number in range(1, 5):
        hold(t, f"one{number}", "-n1", part="_lln")
    t.note("nodes", spread(t, "one1", "one2", "one3", "one4"))
    hold(t, "two", "-N2", "-n2", part="_lln")
    t.forget("one1", "one2", "one3", "one4", "two")


@case("layout", kind="flat")
def partition_max_cpus(t):
    """MaxCPUsPerNode=2 counts the CPUs of the partition's own jobs only"""
    # 24.11 holds the first job that a partition with such a limit ever gets until others end.
    t.sbatch("first", "-n1", "-t1", part="_max")
    t.ended("first")
    hold(t, "others", "-N4", "-n4")
    hold(t, "six", "-n6", part="_max")
    t.note("nodes", spread(t, "six"))
    t.sbatch("two", "-n2", "-t1", part="_max")
    t.ended("two")
    waits(t, "three", "-n3", part="_max")
    t.forget("others", "six")


@case("layout", kind="flat")
def partition_max_cpus_wide(t):
    """More CPUs on a node than MaxCPUsPerNode, and whole nodes"""
    t.sbatch("pair", "-N2", "-n4", part="_max")
    t.ended("pair")
    t.refused("wide", "-N1", "-n3", part="_max")
    t.refused("whole", "-N1", "--exclusive", part="_max")


@case("layout", kind="flat")
def spread_job_busy(t):
    """--spread-job uses as many nodes as there are tasks, beside busy ones"""
    hold(t, "busy", "-N2", "-n2", "-c2")
    t.sbatch("four", "-n4", "--spread-job", "-t1")
    t.ended("four")
    hold(t, "three", "-n3", "--spread-job", "-N2-4")
    t.note("nodes", spread(t, "three"))
    t.forget("busy", "three")


@case("layout", kind="flat")
def node_count_lists(t):
    """-N with a list of sizes takes the largest that is free (from 23.02 on)"""
    t.sbatch("list", "-N2,4", "-n4")
    t.sbatch("step", "-N2-4:2", "-n4")
    t.ended()
    hold(t, "busy", "-N1", "-n4")
    t.sbatch("less", "-N2,4", "-t1")
    t.sbatch("range", "-N1-3", "-n3", "-t1")
    t.ended("range")
    t.forget("busy")


@case("layout", kind="flat")
def exclusive_user_wide(t):
    """--exclusive=user over several nodes; the same user's other jobs go beside it"""
    hold(t, "mine", "-N2", "-n4", "--exclusive=user")
    t.sbatch("beside", "-N4", "-n8", "--exclusive=user", "-t1")
    t.ended("beside")
    t.sbatch("other", "--uid=nobody", "-N2", "-n2", "-t1", "-D", "/tmp")
    t.ended("other")
    waits(t, "whole", "-N3", "--exclusive")
    t.forget("mine")


@case("layout", kind="flat")
def contiguous_gap(t):
    """--contiguous beside a busy node: two neighbours, and not around the gap"""
    hold(t, "gap", "-w", t.nodes[2], "--exclusive")
    t.sbatch("pair", "-N2", "--contiguous", "--exclusive", "-t1")
    t.ended("pair")
    t.note("pair on", t.hosts(t.record("pair")))
    waits(t, "three", "-N3", "--contiguous")
    t.forget("gap")


@case("layout", kind="flat")
def contiguous_range(t):
    """--contiguous with a range of nodes and with tasks"""
    t.sbatch("range", "-N2-3", "--contiguous")
    t.ended("range")
    t.sbatch("tasks", "-n7", "--contiguous")
    t.ended()
    hold(t, "gap", "-w", t.nodes[1], "--exclusive")
    t.sbatch("after", "-N2-4", "--contiguous", "-t1")
    t.ended("after")
    t.note("after on", t.hosts(t.record("after")))
    t.forget("gap")


@case("layout", kind="flat")
def preempt_fitting(t):
    """A job of a higher tier preempts no job while idle nodes can have it"""
    hold(t, "low", "-N2", "-n8", part="_low")
    t.sbatch("high", "-N2", "-n8", "-t1", part="_high")
    t.ended("high")
    t.note("low", [r["JobState"] for r in t.records("low")])
    t.forget("low")


@case("layout", kind="flat")
def preempt_some(t):
    """Where one node is missing, one job is preempted, not two"""
    hold(t, "low", "--array=0-2", "-N1", "-n4", part="_cancel")
    t.sbatch("high", "-N2", "-n8", "-t1", part="_high")
    t.ended("high")
    t.note("left", sum(r["JobState"] == "RUNNING" for r in t.records("low")))
    t.forget("low")


@case("packed", kind="plain")
def pack_nodes(t):
    """CR_Pack_Nodes: how many CPUs of each node a job gets"""
    for label, options in (("five", ("-N2", "-n5")), ("three", ("-N3", "-n6")),
                           ("range", ("-N1-4", "-n5"))):
        hold(t, label, *options)
        words = t.run("scontrol", "-d", "show", "job", t.job_id(label), check=True).stdout.split()
        t.note(f"{label} has", sorted(word for word in words if word.startswith("CPU_IDs=")))
        t.forget(label)


@case("packed", kind="plain")
def pack_serial_at_end(t):
    """pack_serial_at_end keeps one-CPU jobs off the nodes that wide jobs begin with"""
    hold(t, "serial", "-n1")
    t.note("serial on", t.hosts(t.record("serial")))
    hold(t, "second", "-n1")
    t.note("second on", t.hosts(t.record("second")))
    hold(t, "wide", "-N3", "--exclusive")
    t.forget("serial", "second", "wide")


@case("packed", kind="plain")
def pack_serial_busy(t):
    """The same beside a job that already runs on the first node"""
    hold(t, "first", "-w", t.nodes[0], "-n1")
    hold(t, "serial", "-n1")
    t.note("serial on", t.hosts(t.record("serial")))
    t.forget("first", "serial")
