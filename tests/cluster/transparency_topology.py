# SPDX-License-Identifier: GPL-3.0-or-later
"""Transparency cases under topology/tree and topology/block: two leaves of two nodes per room."""

from transparency_bench import SLEEP
from transparency_cases import case
from transparency_layout import hold, waits
from transparency_sharing import spread


def leaves(t, label):
    """How many of the room's two leaves a job is on."""
    return len({(host - 1) // 2 for host in t.hosts(t.record(label))})


def on_leaves(t, label, *options, part=""):
    """Runs a job and notes on how many leaves it is."""
    hold(t, label, *options, part=part)
    t.note(f"{label} leaves", leaves(t, label))
    t.forget(label)


@case("tree", kind="plain")
def tree_pair(t):
    """A job of two nodes is on one leaf, also where a node of the other is busy"""
    on_leaves(t, "pair", "-N2", "--exclusive")
    hold(t, "busy", "-w", t.nodes[0], "--exclusive")
    on_leaves(t, "beside", "-N2", "--exclusive")
    on_leaves(t, "shared", "-N2", "-n2")
    t.forget("busy")


@case("tree", kind="plain")
def tree_tasks(t):
    """-n without -N, and ranges of nodes, under a tree

    On idle leaves only: where a node is busy, stock 22.05 takes leaves by their number of nodes
    without a look at CPUs, so more leaves and nodes than needed.
    """
    on_leaves(t, "six", "-n6")
    on_leaves(t, "range", "-N1-2", "-n6")


@case("tree", kind="plain")
def tree_switches_range(t):
    """--switches=1 with a range of nodes takes what one leaf has"""
    hold(t, "busy", "-w", t.nodes[3], "--exclusive")
    on_leaves(t, "two", "-N2", "--switches=1", "--exclusive")
    t.sbatch("three", "-N3", "--switches=1", "--exclusive", "-t1")
    t.never_started("three", 2)
    t.forget("three")
    on_leaves(t, "range", "-N2-3", "--switches=2", "--exclusive")
    t.forget("busy")


@case("tree", kind="plain")
def tree_switches_backfill(t):
    """--switches=1 of a job that only backfill can start"""
    hold(t, "busy", "-w", t.nodes[0], "--exclusive")
    waits(t, "head", "-N4", "--exclusive", "-t600")
    t.sbatch("pair", "-N2", "--switches=1", "--exclusive", "-t1", run=SLEEP)
    t.wait("pair", "RUNNING", limit=20)
    t.note("pair on", t.hosts(t.record("pair")))
    t.forget("head", "pair", "busy")


@case("tree", kind="plain")
def tree_contiguous(t):
    """--contiguous under a tree looks at neighbours, not at leaves"""
    hold(t, "busy", "-w", t.nodes[0], "--exclusive")
    hold(t, "three", "-N3", "--contiguous", "--exclusive")
    t.note("three on", t.hosts(t.record("three")))
    t.forget("three")
    waits(t, "four", "-N4", "--contiguous")
    t.forget("busy")


@case("tree", kind="plain")
def tree_nodelist(t):
    """-w of one node: the other comes from its leaf"""
    hold(t, "pair", "-N2", "-w", t.nodes[2], "--exclusive")
    t.note("pair on", t.hosts(t.record("pair")))
    t.forget("pair")
    hold(t, "out", "-N2", "-x", t.nodes[1], "--exclusive")
    t.note("out on", t.hosts(t.record("out")))
    t.forget("out")


@case("tree", kind="plain")
def tree_het(t):
    """Components of a het job under a tree"""
    t.sbatch("both", "-N2", "-n4", ":", "-N1", "-n4")
    t.ended("both")
    t.sbatch("pairs", "-N2", "--exclusive", ":", "-N2", "--exclusive")
    t.ended("pairs")


@case("tree", kind="plain")
def tree_preempt(t):
    """Preemption under a tree: as many jobs as with stock"""
    hold(t, "low", "--array=0-3", "-N1", "-n4", part="_cancel")
    t.sbatch("high", "-N2", "-n8", "-t1", part="_high")
    t.ended("high")
    t.note("left", sum(r["JobState"] == "RUNNING" for r in t.records("low")))
    t.forget("low")


@case("tree", kind="plain")
def tree_exclusive_user(t):
    """--exclusive=user and OverSubscribe=EXCLUSIVE keep to one leaf"""
    on_leaves(t, "user", "-N2", "-n2", "--exclusive=user")
    on_leaves(t, "whole", "-N2", "-n2", part="_excl")


@case("tree", kind="plain")
def tree_spread(t):
    """--spread-job, LLN and a reservation under a tree"""
    hold(t, "spread", "-n4", "--spread-job")
    t.note("spread nodes", spread(t, "spread"))
    t.forget("spread")
    for number in (1, 2):
        hold(t, f"one{number}", "-n1", part="_lln")
    t.note("lln nodes", spread(t, "one1", "one2"))
    t.forget("one1", "one2")


@case("block", kind="plain")
def block_pair(t):
    """Two nodes in one base block, three and four in both"""
    on_leaves(t, "pair", "-N2", "--exclusive")
    on_leaves(t, "three", "-N3", "--exclusive")
    hold(t, "busy", "-w", t.nodes[0], "--exclusive")
    on_leaves(t, "beside", "-N2", "--exclusive")
    t.sbatch("four", "-N4", "--exclusive")
    t.never_started("four", 2)
    t.forget("busy")


@case("block", kind="plain")
def block_segments(t):
    """--segment of one and two nodes, and one that does not divide"""
    on_leaves(t, "ones", "-N4", "--segment=1", "--exclusive")
    on_leaves(t, "pairs", "-N4", "--segment=2", "--exclusive")
    t.refused("odd", "-N3", "--segment=2")
    hold(t, "busy", "-w", t.nodes[0], "--exclusive")
    on_leaves(t, "pair", "-N2", "--segment=2", "--exclusive")
    t.sbatch("wait", "-N4", "--segment=2", "--exclusive")
    t.never_started("wait", 2)
    t.forget("busy")


@case("block", kind="plain")
def block_range(t):
    """Ranges and tasks under topology/block"""
    t.sbatch("range", "-N2-4", "-n4")
    t.ended("range")
    t.sbatch("tasks", "-n10")
    t.ended("tasks")
    hold(t, "busy", "-N1", "-n3")
    t.sbatch("more", "-N2-3", "-n2", "-t1")
    t.ended("more")
    t.forget("busy")


@case("block", kind="plain")
def block_exclusive_topo(t):
    """--exclusive=topo keeps other such jobs out of its blocks"""
    hold(t, "first", "-N1", "-n1", "--exclusive=topo")
    t.sbatch("second", "-N2", "-n2", "--exclusive=topo", "-t1")
    t.ended("second")
    t.sbatch("third", "-N3", "-n3", "--exclusive=topo")
    t.never_started("third", 2)
    t.forget("first")


@case("block", kind="plain")
def block_switches(t):
    """--switches counts for nothing under topology/block"""
    hold(t, "busy", "-w", t.nodes[0], "--exclusive")
    t.sbatch("three", "-N3", "--switches=1", "-t1", "--exclusive")
    t.ended("three")
    t.forget("busy")
