#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does stock Slurm take the nodes that the planner's model of it names?

Clusters of 16 and of 64 CLOUD nodes, by Weight or below leaf switches, part of them with GPUs. In
mode shadow random jobs of one node and of several start one by one on nodes that are partly in
use, while the daemon records; the replay holds the model against what slurmctld took. GPUs are
asked for by node: of others, as by --gpus, slurmctld gives none on a node that never registered.
"""

import contextlib
import os
import random
import sys

from grammar_sides import Room, settled
from slurmcluster.conf import PATIENT, write_config
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.suite import Cases, Suite, command_line, run

SAME_MIN = 0.98
SINGLE_SHARE = 2 / 3
CORES = 16              # of a node, in two sockets
MEMORY_MB = 64_000
EXTRA = ["SchedulerParameters=bf_interval=3600,batch_sched_delay=0,sched_min_interval=0",
         "SuspendTimeout=1", "SuspendTime=10000000"]     # nodes that boot keep their Weight
TREE = ["TopologyPlugin=topology/tree"]
KINDS = (               # share of the nodes, Weight, threads of a core, GPUs
    (0.45, 10, 1, 0), (0.20, 10, 2, 0), (0.10, 30, 1, 0), (0.25, 50, 1, 4))
AT_ONCE = 8             # jobs before a pass of slurmctld's scheduler, which comes each second
case = Cases()


def node_lines(nodes, rng):
    """Nodes of the kinds, in stretches that are mixed, so that runs of neighbours are short."""
    stretches = []
    for kind in KINDS:
        left = round(kind[0] * nodes)
        while left > 0:
            size = min(left, rng.randint(1, max(2, nodes // 8)))
            stretches.append((size, kind))
            left -= size
    rng.shuffle(stretches)
    lines, first = [], 1
    for size, (_, weight, threads, gpus) in stretches:
        gres = f" Gres=gpu:a100:{gpus}" if gpus else ""
        lines.append(f"NodeName=n[{first}-{first + size - 1}] CPUs={CORES * threads} Sockets=2 "
                     f"CoresPerSocket={CORES // 2} ThreadsPerCore={threads} "
                     f"RealMemory={MEMORY_MB} Weight={weight} State=CLOUD{gres}")
        first += size
    count = first - 1
    lines.append(f"PartitionName=main Nodes=n[1-{count}] Default=YES MaxTime=INFINITE State=UP")
    return "\n".join(lines) + "\n", count


def switch_lines(count, rng):
    """Leaf switches of unequal size below two switches and a root."""
    leaves, first = [], 1
    while first <= count:
        size = min(rng.randint(2, max(3, count // 5)), count - first + 1)
        leaves.append(f"Nodes=n[{first}-{first + size - 1}]")
        first += size
    half = len(leaves) // 2
    lines = [f"SwitchName=l{at} {nodes}" for at, nodes in enumerate(leaves)]
    lines += [f"SwitchName=a Switches=l[0-{half - 1}]",
              f"SwitchName=b Switches=l[{half}-{len(leaves) - 1}]", "SwitchName=r Switches=a,b"]
    return "\n".join(lines) + "\n"


def one_node(rng):
    """Options of a job of one node."""
    cpus, gpus = rng.choice((1, 1, 2, 3, 4, 6, 8, 12, 16)), rng.choice((1, 1, 2, 4))
    return list(rng.choice((
        ("-n1", f"-c{cpus}"), ("-n1", f"-c{cpus}"), ("-N1", f"-n{cpus}"),
        ("-N1", f"--ntasks-per-node={rng.choice((1, 2, 4))}", f"-c{rng.choice((1, 2, 4))}"),
        ("-n1", f"-c{cpus}", f"--gres=gpu:{gpus}"), ("-N1", f"-n{gpus}", f"--gres=gpu:{gpus}"),
        ("-N1", "--exclusive"))))


def several_nodes(rng, most):
    """Options of a job of several nodes."""
    nodes, each = rng.randint(2, most), rng.choice((1, 2, 4))
    cpus = rng.choice((1, 2, 4))
    return list(rng.choice((
        (f"-N{nodes}", f"--ntasks-per-node={each}", f"-c{cpus}"),
        (f"-N{nodes}", f"-n{nodes * each}", f"-c{cpus}"),
        (f"-N{nodes}", "--exclusive"), (f"-N{nodes}", f"-c{rng.choice((1, 4, 8))}"),
        (f"-n{nodes * CORES}", f"-c{rng.choice((1, 1, 2))}"),
        (f"-N2-{nodes + 1}", f"-n{nodes * each * 2}"),
        (f"-N{min(nodes, 3)}", f"--ntasks-per-node={each}", f"--gres=gpu:{rng.choice((1, 2))}"))))


def with_memory(rng, words):
    """The options, most with memory."""
    if rng.random() < 0.4 or "--exclusive" in words:
        return words
    return [*words, f"--mem={rng.choice((1, 4, 8, 16, 30))}G"]


class Choice(Suite):
    """The cluster, and the jobs that run on it."""

    def __init__(self, cluster, nodes, tree, args):
        super().__init__(cluster)
        self.nodes, self.tree, self.args, self.running = nodes, tree, args, []

    def wake(self):
        """Powers the nodes up: of those that are off stock knows no Weight."""
        self.cluster.run("scontrol", "update", f"nodename=n[1-{self.nodes}]", "state=POWER_UP")
        self.until(lambda: all(settled(node["State"], False) for node in self.cluster.nodes()),
                   "all nodes are on")

    def cancel(self, *jobs):
        """Ends these jobs, and waits until they are gone."""
        self.cluster.run("scancel", *map(str, jobs))
        self.until(lambda: not self.cluster.run(
            "squeue", "-h", "-o", "%i", "-j", ",".join(map(str, jobs)), check=False
            ).stdout.strip(), f"end of {jobs}", every=0.05)

    def place(self, requests):
        """The numbers of the requests that started; what did not start ends."""
        sent = [self.cluster.submit(*options, "-t60") for options in requests]
        states = self.until(lambda: self.tried(sent), "a pass of the scheduler", every=0.05)
        late = [job for job in sent if states[job] == "PD"]
        if late:
            self.cancel(*late)
        self.running += [job for job in sent if job not in late]
        return {at for at, job in enumerate(sent) if job not in late}

    def tried(self, sent):
        """{job: state}, once slurmctld has looked at all of these; a reason says that it has."""
        lines = self.cluster.run("squeue", "-h", "-o", "%i %t %r", "-j",
                                 ",".join(map(str, sent))).stdout.splitlines()
        rows = [line.split(None, 2) for line in lines]
        if any(state == "PD" and reason == "None" for _, state, reason in rows):
            return None
        return {int(job): state for job, state, _ in rows}

    def load(self, rng, jobs):
        """Starts so many jobs of one node or of several; some end now and then."""
        most = 4 if self.nodes < 32 else 8
        left = {True: round(jobs * SINGLE_SHARE), False: jobs - round(jobs * SINGLE_SHARE)}
        while sum(left.values()) > 0:
            kinds = [rng.random() * sum(left.values()) < left[True]
                     for _ in range(min(AT_ONCE, sum(left.values())))]
            started = self.place([with_memory(rng, one_node(rng) if single
                                              else several_nodes(rng, most)) for single in kinds])
            for at in started:
                left[kinds[at]] = max(0, left[kinds[at]] - 1)
            share = 0.4 if len(started) < len(kinds) else 0.1
            ends = [job for job in self.running if rng.random() < share]
            if ends:
                self.cancel(*ends)
            self.running = [job for job in self.running if job not in ends]


def agrees(suite):
    """Records the jobs of a list, and holds the model against them."""
    phalanx(suite.cluster, "record", "start", "--for", "60min")
    suite.load(random.Random(f"jobs {suite.args.seed} {suite.nodes} {suite.tree}"), suite.args.jobs)
    phalanx(suite.cluster, "record", "stop")
    folder = os.path.join(suite.cluster.paths.var, "recordings")
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    stock = phalanx_json(suite.cluster, "record", "replay", *files)["stock"]
    same = sum(a for a, _ in stock["kinds"].values())
    others = sum(b for _, b in stock["kinds"].values())
    suite.summary = f"{same} of {same + others} starts as modelled"
    text = f"{suite.summary}, unknown {stock['unknown']}"
    for name, (a, b) in sorted(stock["kinds"].items()):
        text += f"\n  {name}: {a} of {a + b}"
    for first in stock["first"]:
        text += f"\n  job {first[0]}, {first[1]}: modelled {first[2]}, taken {first[3]}"
    suite.expect(same + others >= 0.9 * suite.args.jobs and not stock["unknown"]
                 and same >= SAME_MIN * (same + others), text)


@case(where="weights-16")
def weights_16(suite):
    """Stock takes the modelled nodes: 16 nodes by Weight"""
    agrees(suite)


@case(where="tree-16")
def tree_16(suite):
    """Stock takes the modelled nodes: 16 nodes below leaf switches"""
    agrees(suite)


@case(where="weights-64")
def weights_64(suite):
    """Stock takes the modelled nodes: 64 nodes by Weight"""
    agrees(suite)


@case(where="tree-64")
def tree_64(suite):
    """Stock takes the modelled nodes: 64 nodes below leaf switches"""
    agrees(suite)


def setting(nodes, tree):
    """A cluster of so many nodes, by Weight or by leaf switches."""
    @contextlib.contextmanager
    def make(root, args):
        rng = random.Random(f"nodes {args.seed} {nodes} {tree}")
        lines, count = node_lines(nodes, rng)
        place = os.path.join(root, "c")
        with Room(place, nodes=lines, extra=[*EXTRA, *(TREE if tree else [])],
                  files={"topology.conf": switch_lines(count, rng)} if tree else {},
                  config=write_config(place, PATIENT.replace("enforce", "shadow"))) as cluster:
            suite = Choice(cluster, count, tree, args)
            suite.wake()
            yield suite
    return make


def options(parser):
    """The options of this suite."""
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=150, help="starts in each case")


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, options),
                 {f"{name}-{nodes}": setting(nodes, name == "tree")
                  for name in ("weights", "tree") for nodes in (16, 64)}))
