#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Are multi-node jobs on no more switches or blocks than with stock Slurm?

Two clusters in step, stock Slurm and Phalanx: before each job both have the same nodes idle
(topology_steps), so that each choice is compared with stock's own and with the fewest leaves
that those nodes allow. With --bench N a list of N jobs runs freely on both instead, and a table
says what came of it (topology_stream).
"""

import contextlib
import os
import sys

import topology_stream
from slurmcluster import Cluster
from slurmcluster.conf import write_config
from slurmcluster.pair import boot
from slurmcluster.release import Release
from slurmcluster.shipped import shipped_config
from slurmcluster.suite import Cases, command_line, directory, run
from topology_model import Topology, blocks, tree
from topology_steps import NODE_CPUS, Steps, allocate, backfill_only, backfilled

SEED = 1
ASKED_SHARE = 0.5       # of the starts that Phalanx must have decided, else equality says nothing
NODE = f"CPUs={NODE_CPUS} Sockets=1 CoresPerSocket={NODE_CPUS} RealMemory=8000"
PARTITION = "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
PLAIN = f"NodeName=n[1-32] {NODE}\n{PARTITION}\n"
# Lighter nodes first, whatever the switches: half a leaf is light.
WEIGHTS = "".join(f"NodeName=n[{first}-{first + 3}] {NODE} Weight={10 + 10 * (first // 4 % 2)}\n"
                  for first in range(1, 33, 4)) + PARTITION + "\n"
SCHEDULER = ("SchedulerParameters=bf_interval=1,bf_continue,bf_window=1440,bf_resolution=1,"
             "bf_yield_interval=1000000,sched_interval=1,batch_sched_delay=1,bf_min_age_reserve=0")
CHANGED_S = 20.0
case = Cases()


class Setting:
    """Both clusters with one topology.conf."""

    def __init__(self, conf, nodes=PLAIN, plugin="tree", since=(22, 5)):
        self.topology, self.conf, self.nodes = Topology.of_conf(conf), conf, nodes
        self.plugin, self.since = plugin, since

    @contextlib.contextmanager
    def __call__(self, root, _args, extra=()):
        config = write_config(os.path.join(root, "ours"))
        clusters = [Cluster(os.path.join(root, name), stock=name == "stock", nodes=self.nodes,
                            extra=[SCHEDULER, f"TopologyPlugin=topology/{self.plugin}", *extra],
                            files={"topology.conf": self.conf},
                            config=None if name == "stock" else config)
                    for name in ("stock", "ours")]
        boot(clusters)
        try:
            yield Steps(*clusters, self.topology)
        finally:
            for cluster in clusters:
                cluster.down()


SETTINGS = {
    "tree": Setting(tree((8, 8, 8, 8))),
    "pods": Setting(tree((4, 4, 4, 4), (4, 4, 4, 4))),
    "forest": Setting(tree((11, 6, 1), (8, 3), (2, 1), root=False)),
    "weights": Setting(tree((8, 8, 8, 8)), WEIGHTS),
    "block": Setting(blocks(4, 8, "4,8"), plugin="block", since=(24, 11)),
    "blocks": Setting(blocks(4, 8, "4,8,16"), plugin="block", since=(24, 11)),
}


def sizes(rng, most=10):
    """Mostly a fixed number of nodes, now and then a range, one node, or --switches."""
    count, kind = rng.randint(2, most), rng.random()
    if kind < 0.1:
        return 1, (), NODE_CPUS
    if kind < 0.2:
        return count, (f"-N{count}-{count + 3}",), NODE_CPUS
    if kind < 0.3 and count <= 8:
        return count, ("--switches=1",), NODE_CPUS
    return count, (), NODE_CPUS


def shared(rng):
    """Jobs of one to four CPUs on each of their nodes."""
    return rng.randint(1, 10), (), rng.randint(1, NODE_CPUS)


def segments(rng):
    """A number of nodes, half of them in segments of two or four."""
    count = rng.randint(1, 12)
    options = [size for size in (2, 4) if count % size == 0 and count > size]
    if options and rng.random() < 0.6:
        return count, (f"--segment={rng.choice(options)}",), NODE_CPUS
    return count, (), NODE_CPUS


def compare(suite, steps, least=True):
    """Holds each step against stock's and, with `least`, against the fewest leaves there are."""
    topology, wide, extra = suite.topology, 0, {"stock": 0, "ours": 0}
    for step in steps:
        stock, ours = step.got["stock"], step.got["ours"]
        if not suite.expect(bool(stock) == bool(ours), f"started on one side only: {step}") or \
                not stock:
            continue
        suite.expect(len(stock) == len(ours), f"another number of nodes: {step}")
        if len(stock) < 2:
            continue
        wide += 1
        fewest = topology.fewest(step.idle, len(ours))
        for side, nodes in step.got.items():
            extra[side] += topology.used(nodes) - (fewest or topology.used(nodes))
        used, theirs = topology.used(ours), topology.used(stock)
        suite.expect(used <= theirs and (not least or used == fewest),
                     f"{used} leaves, stock {theirs}, possible {fewest}: {step}")
        suite.expect(used > theirs or topology.common(ours) >= topology.common(stock),
                     f"a higher common switch than stock's: {step}")
    suite.summary = (f"{wide} jobs of several nodes, leaves too many: {extra['ours']}, "
                     f"stock {extra['stock']}")


def walk(suite, starts, choose, least=True, **more):
    """A walk of this many starts on both sides, compared; the daemon must have been followed."""
    before = suite.narrowed()
    steps = list(suite.walk(SEED, starts, choose, **more))
    compare(suite, steps, least)
    started = sum(bool(step.got["ours"]) for step in steps)
    narrowed, refused = suite.narrowed_since(before, ASKED_SHARE * started)
    suite.expect(narrowed >= ASKED_SHARE * started, f"Phalanx chose {narrowed} of {started} jobs")
    suite.expect(not refused, f"slurmctld refused {refused} of the sets that Phalanx chose")
    suite.summary += f"; {narrowed} choices by Phalanx for {started} jobs"


@case(where="tree")
def leaves(suite):
    """Two levels: every job is on the fewest leaves that the idle nodes allow"""
    walk(suite, 40, sizes)


@case(where="tree")
def leaves_shared(suite):
    """The same on nodes that several jobs share"""
    walk(suite, 40, shared)


@case(where="tree")
def leaves_backfilled(suite):
    """The same where backfill starts the jobs"""
    backfill_only(suite)
    walk(suite, 6, lambda rng: (rng.randint(2, 9), (), NODE_CPUS), begin=backfilled)


@case(where="tree")
def switches_honoured(suite):
    """--switches=1@60 waits for one leaf, --switches=1@3 takes two after its wait"""
    for leaf in suite.topology.leaves:
        suite.start(5, "-w", ",".join(leaf.nodes[:5]))
    long, short = (suite.both(lambda cluster, wait=wait: cluster.submit(
        "-N4", "--exclusive", f"--switches=1@{wait}", "-t10", wrap="exec sleep 600"))
        for wait in ("60", "0:03"))
    found = suite.until(lambda: started(suite, short), "--switches=1@3 started", limit=25)
    suite.expect(suite.waited_s >= 2.0, f"--switches=1@3 started after {suite.waited_s:.1f} s")
    for side, nodes in found.items():
        suite.expect(suite.topology.used(nodes) == 2, f"{side}: --switches=1@3 is on {nodes}")
    states = suite.both(lambda cluster: cluster.run("squeue", "-h", "-o", "%i %T").stdout)
    for side, text in states.items():
        suite.expect(f"{long[side]} PENDING" in text, f"{side}: --switches=1@60: {text}")
    suite.end(0)
    found = suite.until(lambda: started(suite, long), "--switches=1@60 started", limit=15)
    for side, nodes in found.items():
        suite.expect(suite.topology.used(nodes) == 1, f"{side}: --switches=1@60 is on {nodes}")


def started(suite, jobs):
    """{side: nodes} of a job that runs on both sides, else nothing."""
    found = suite.both(lambda cluster: cluster.run("squeue", "-h", "-t", "R", "-o", "%i %N").stdout)
    nodes = {side: dict(line.split() for line in text.splitlines()).get(str(jobs[side]))
             for side, text in found.items()}
    return {side: suite.names(text) for side, text in nodes.items()} if all(nodes.values()) else {}


@case(where="tree")
def changed_file(suite):
    """After a reconfigure with another topology.conf the leaves are the new ones"""
    conf = tree((4,) * 8)
    for cluster in suite.sides.values():
        with open(os.path.join(cluster.paths.etc, "topology.conf"), "w", encoding="utf-8") as file:
            file.write(conf)
        cluster.run("scontrol", "reconfigure")
    suite.until(lambda: all(text.count("Level=0") == 8 for text in suite.both(
        lambda cluster: cluster.run("scontrol", "show", "topology", check=False).stdout).values()),
        "slurmctld has the new topology", limit=CHANGED_S)
    # The overlay syncs again with slurmctld's next call.
    suite.until(lambda: asked_again(suite), "Phalanx decides again", limit=CHANGED_S)
    suite.topology = Topology.of_conf(conf)
    walk(suite, 12, sizes)


def asked_again(suite):
    """One job on our side; whether Phalanx placed it."""
    before = suite.narrowed()
    job, _ = allocate(suite.cluster, "-N1")
    if job:
        suite.cluster.run("scancel", job)
        suite.settle()
    return suite.narrowed_since(before)[0] > 0


@case(where="pods")
def three_levels(suite):
    """Three levels: never more leaves and never a higher common switch than stock's choice"""
    walk(suite, 40, lambda rng: sizes(rng, 14), least=False)


@case(where="forest")
def no_root(suite):
    """Leaves of 11 to 1 nodes, three trees without a common root"""
    walk(suite, 30, sizes, least=False)


@case(where="weights")
def lighter_first(suite):
    """Weight comes before switches, as with stock, and switches count among equal nodes"""
    def weight(nodes):
        return sum(10 + 10 * ((int(node[1:]) - 1) // 4 % 2) for node in nodes)
    before = suite.narrowed()
    steps = list(suite.walk(SEED, 30, lambda rng: (rng.randint(2, 10), (), NODE_CPUS)))
    for step in steps:
        stock, ours = weight(step.got["stock"]), weight(step.got["ours"])
        suite.expect(stock == ours, f"weights add up to {ours}, stock {stock}: {step}")
    compare(suite, steps, least=False)
    suite.expect(suite.narrowed_since(before)[0] > 0, "Phalanx chose nothing")


@case(where="block")
def base_blocks(suite):
    """topology/block: every set that Phalanx chooses is taken, with and without --segment"""
    walk(suite, 40, segments, least=False)


@case(where="blocks")
def three_block_sizes(suite):
    """topology/block with three sizes of aggregated blocks"""
    walk(suite, 40, segments, least=False)


@case(where="block")
def closed_blocks(suite):
    """topology/block: no job is offered nodes of a block that --exclusive=topo has closed"""
    suite.until(lambda: asked_again(suite), "Phalanx decides", limit=CHANGED_S)
    before = suite.narrowed()
    jobs = suite.both(lambda cluster: allocate(cluster, "-N1", "--exclusive=topo"))
    closed = {node for _, nodes in jobs.values() for node in nodes}
    suite.expect(len(closed) == 1, f"--exclusive=topo is on {jobs}")
    closed = set(suite.topology.leaf_of[closed.pop()].nodes)
    others = [allocate(suite.cluster, "-N2", "--exclusive") for _ in range(10)]
    for job, nodes in others:
        suite.expect(nodes and not closed & set(nodes), f"job {job} is on {nodes}")
    narrowed, refused = suite.narrowed_since(before, len(others))
    suite.expect(narrowed >= len(others), f"Phalanx chose {narrowed} of {len(others)} jobs")
    suite.expect(not refused, f"slurmctld refused {refused} of the sets that Phalanx chose")


case(where="tree")(shipped_config)


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--bench", type=int, metavar="N", help="a table of N freely scheduled jobs")
    parser.add_argument("--seeds", default="1,2,3", help="of --bench, comma-separated")


def bench(args):
    """The table of --bench; returns the exit status."""
    rows = []
    with directory(args) as root:
        for name in dict.fromkeys(one.where for one in args.cases):
            setting = SETTINGS[name]
            for seed in args.seeds.split(","):
                jobs = topology_stream.job_list(int(seed), args.bench, setting.plugin == "block")
                with setting(os.path.join(root, f"{name}-{seed}"), args,
                             topology_stream.EXTRA) as suite:
                    found = suite.both(lambda cluster, jobs=jobs, topology=setting.topology:
                                       topology_stream.measure(cluster, topology, jobs))
                rows += [(name, seed, side, numbers) for side, numbers in found.items()]
    print(f"Slurm {Release().version}, {args.bench} jobs of 1 to 10 of 32 nodes", "",
          *topology_stream.table(rows), sep="\n")
    return 0


def main():
    """Runs the cases that this release of Slurm can have."""
    args = command_line(__doc__, case, options)
    args.cases = [one for one in args.cases if Release().number >= SETTINGS[one.where].since]
    return bench(args) if args.bench else run(args, SETTINGS)


if __name__ == "__main__":
    sys.exit(main())
