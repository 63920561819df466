# SPDX-License-Identifier: GPL-3.0-or-later
"""Transparency cases: GRES that no job uses up (`no_consume`), where proofs are allowed.

No partition here is shared: with OverSubscribe=YES:2 anywhere Phalanx proves nothing, so that jobs
that a proof holds back were not seen.
"""

from transparency_bench import SLEEP
from transparency_cases import case


def on_each(t, *options):
    """A small job on each node but the last, and one that fills that for three minutes."""
    labels = [f"on{index}" for index in range(len(t.nodes))]
    for label, node in zip(labels[:-1], t.nodes):
        t.sbatch(label, "-w", node, "-n1", "-t600", *options, run=SLEEP)
    t.sbatch(labels[-1], "-w", t.nodes[-1], "-n8", "-t3", *options, run=SLEEP)
    t.wait(labels[-1], "RUNNING", limit=20)
    return labels


@case("proved", kind="unspent")
def unspent_idle(t):
    """A request for more than a node has is refused, one for less runs, of each kind and type"""
    t.refused("more", "-n1", "--gres=vram:98G")
    for label, gres in (("plain", "fs:1"), ("size", "vram:97G"), ("type", "band:lustre:4G"),
                        ("any", "band:1G"), ("both", "gpu:2,vram:20G")):
        t.sbatch(label, "-N2", "-n2", f"--gres={gres}")
        t.ended(label)


@case("proved", kind="unspent")
def unspent_busy(t):
    """Whoever has it already, the next job of several nodes starts at once"""
    labels = on_each(t, "--gres=fs:1,vram:90G")
    t.sbatch("wide", f"-N{len(t.nodes) - 1}", "--ntasks-per-node=2", "--gres=fs:1,vram:97G",
             run=SLEEP)
    t.wait("wide", "RUNNING", limit=15)
    t.forget("wide", *labels)


@case("proved", kind="unspent")
def unspent_packed(t):
    """GPUs chosen by such a GRES are packed as without it, so that a wide job starts"""
    labels = [f"one{index}" for index in range(6)]
    for label in labels:
        t.sbatch(label, "-n1", "--gres=gpu:1,vram:20G", run=SLEEP)
        t.wait(label, "RUNNING", limit=15)
    t.sbatch("wide", "-N2", "-n2", "--gres=gpu:4", run=SLEEP)
    t.wait("wide", "RUNNING", limit=15)
    t.forget("wide", *labels)


@case("proved", kind="unspent", slow=True)
def unspent_backfill(t):
    """Behind a job that waits for all nodes a small one is backfilled now, not when another ends"""
    labels = on_each(t, "--gres=fs:1")
    t.sbatch("head", f"-N{len(t.nodes)}", "--exclusive", "-t600")
    t.wait("head", "PENDING", reason="Resources")
    t.sbatch("late", "-n1", "-N1", "--gres=fs:1", "-t1", run=SLEEP)
    t.wait("late", "RUNNING", limit=20)
    t.forget("late", "head", *labels)
