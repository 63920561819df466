#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data jobs on nodes of four speeds, with a real HDFS: do all tasks end together?

Eight nodes, two of each speed 1, 2, 4 and 8: a task works off its bytes at the rate of its node,
slower what it reads from another one. The input lies on n5 to n8, not evenly. Checked: with speeds
learned from runs on single nodes, and with those of a datum of the data service, the last task of
one job ends within 5 % of the ideal completion, bytes / sum of the rates, and every byte is read
once; in equal parts it takes far longer; `explain` tells the speeds. The times are those that the
tasks take by themselves, without the start of the job. With --bench a table of modes best and
seed beside round robin and weighted round robin is printed instead.
"""

import contextlib
import os
import sys

from data_suite import Data, extra, files
from minihdfs import MiniHdfs
from slurmcluster import Cluster
from slurmcluster.conf import PROMPT, write_config
from slurmcluster.paths import Paths
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.ports import free_ports
from slurmcluster.release import Release
from slurmcluster.suite import Cases, command_line, directory, run

SPEEDS = (1, 2, 4, 8)
NAMES = [f"n{i}" for i in range(1, 9)]
SPEED = {name: SPEEDS[i % 4] for i, name in enumerate(NAMES)}
RATE = 96 << 10                       # bytes per second at speed 1
NETWORK = 40                          # MB/s between nodes; with --bench a tenth of it
BLOCK = 256 << 10
HOLDERS = NAMES[4:]
# Blocks of the inputs on each of them: the slowest holds most.
HELD = {"/data/in": (20, 10, 9, 6), "/data/less": (4, 2, 2, 1)}
LEARN_S = 4                           # a run that teaches
NODES = "".join(f"NodeName=n[{i + 1},{i + 5}] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=8000 "
                f"Feature=v{speed}\n" for i, speed in enumerate(SPEEDS)) + """\
PartitionName=main Nodes=n[1-8] Default=YES MaxTime=INFINITE State=UP
PartitionName=stock Nodes=n[1-8] MaxTime=INFINITE State=UP
"""
CONFIG = PROMPT + """\
[control]
listen = "127.0.0.1:{port}"
[partition.stock]
mode = "off"
[hdfs]
conf_dirs = ["{conf}"]
[collect]
command_dirs = ["{commands}"]
[data_jobs]
hold_budget_s = 3600
transfer_mb_per_s = {network}
mode = "best"
"""
case = Cases()


def ends(rows):
    """Seconds of the task on each node, from its begin to its last byte."""
    last = {}
    for row in rows:
        last[row["node"]] = max(last.get(row["node"], 0.0), row["at"])
    return last


def measured(suite, what, *options, declared="/data/in", **how):
    """Runs the job on four nodes; (time of the last task by the ideal one, what explain says)."""
    size = {f"{declared}/f{i}": held * BLOCK for i, held in enumerate(HELD[declared])}
    record, rows, explained = suite.run(declared, "-J", "sort", "-N4", "-n4", *options, size=size,
                                        tasks=4, **how)
    took, ideal = max(ends(rows).values()), sum(size.values()) / (RATE * sum(SPEEDS))
    print(f"    {what:24} {took:6.2f} s, {100 * (took / ideal - 1):+6.1f} % over the ideal "
          f"{ideal:.2f} s, {100 * suite.share(rows):5.1f} % local on {record['NodeList']}, "
          f"{len(rows)} splits", flush=True)
    return took / ideal, explained


def near_ideal(suite, what, *options):
    """The last task ends within 5 % of the ideal; `explain` tells by what. Of all nodes the job
    would take the four faster ones."""
    ratio, explained = measured(suite, what, "-x", "n[1-4]", *options)
    suite.expect(ratio <= 1.05, f"{what}: {ratio:.3f} of the ideal")
    told = explained["input"].get("node_speeds", "")
    suite.expect(told.startswith("n8 1.00, n7 0.") and "n5 0.1" in told, f"{what}: told {told!r}")


@case
def equal_parts(suite):
    """Nothing is known of the nodes: each task gets as much"""
    ratio, explained = measured(suite, "equal parts", declared="/data/less")
    suite.expect(ratio > 2, f"equal parts take {ratio:.2f} of the ideal")
    suite.expect(not explained["input"].get("node_speeds"), f"{explained['input']}")


def teach(suite):
    """Runs of the program on single nodes, about equally long, until they are learned."""
    jobs = []
    for _ in range(2):
        for name, speed in zip(NAMES, SPEEDS):
            job, _ = suite.submit(f"/cal/{speed};locality=off", "-J", "sort", "-N1", "-n1", "-w",
                                  name, command="TASK")
            jobs.append(job)
    suite.cluster.wait_jobs(jobs, timeout=90)

    def known():
        """All runs are learned."""
        classes = phalanx_json(suite.cluster, "history", "speeds")["classes"]
        rows = [row for each in classes for row in each["node_classes"] if "/sort/" in
                each["class"]]
        return sum(row["runs"] for row in rows) >= len(jobs)

    suite.until(known, "the runs are learned")


@case(needs=["equal_parts"])
def by_history(suite):
    """Runs of the program on one node of each speed teach how much each gets"""
    teach(suite)
    near_ideal(suite, "by history")


@case(needs=["equal_parts"])
def by_a_datum(suite):
    """A datum of the data service says it, for a program that never ran"""
    path = os.path.join(suite.commands, "rank")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + "".join(f"echo {n} {10 * s}\n" for n, s in SPEED.items()))
    os.chmod(path, 0o755)
    phalanx(suite.cluster, "collector", "add", "rank", "--cmd", path, "--nodes", "@master",
            "--output", "nodes", "--every", "1s")
    phalanx(suite.cluster, "collector", "use", "data_jobs.capability", "rank")
    suite.until(lambda: len(phalanx_json(suite.cluster, "collector", "data", "rank")["values"])
                == len(NAMES), "the datum of all nodes", 20)
    near_ideal(suite, "by a datum", "-J", "fresh")
    phalanx(suite.cluster, "collector", "use", "data_jobs.capability", "none")
    ratio, _ = measured(suite, "switched off", "-J", "fresh", declared="/data/less")
    suite.expect(ratio > 2, f"with none: {ratio:.2f} of the ideal")
    phalanx(suite.cluster, "collector", "use", "data_jobs.capability", "--reset")


@case(needs=["by_history"])
def by_the_seed(suite):
    """Mode seed: the published weights choose the nodes, at each of the three moments"""
    for mode in ("seed-early", "seed", "seed-late"):
        with suite.settings('mode = "best"', f'mode = "{mode}"'):
            near_ideal(suite, mode)
            plan = phalanx_json(suite.cluster, "plan")
            modes = [m["mode"] for m in plan["methods"] if m["method"] == "data_jobs"]
            suite.expect(set(modes) <= {"seed", ""}, f"plan by {modes}")


def bench(root):
    """The table; the number of problems."""
    with setting(root, None, NETWORK / 10) as suite:
        measured(suite, "best, speeds not known")
        teach(suite)
        with suite.settings('mode = "best"', 'mode = "seed"'):
            measured(suite, "seed")
        measured(suite, "best")
        nodes = ",".join(NAMES[:4])
        measured(suite, "best on the holders only", "-x", nodes)
        measured(suite, "round robin", stock=True)
        suite.task_options += ["--weighted", nodes]
        measured(suite, "weighted", stock=True)
        for problem in suite.problems:
            print(problem)
        return len(suite.problems)


@contextlib.contextmanager
def setting(root, _args, network=NETWORK):
    """HDFS and the cluster."""
    hdfs = MiniHdfs(os.path.join(root, "hdfs"), HOLDERS, block_size=BLOCK)
    with contextlib.closing(hdfs):
        hdfs.start()
        for path, helds in HELD.items():
            for i, (node, held) in enumerate(zip(HOLDERS, helds)):
                hdfs.tool(f"create {path}/f{i} {held * BLOCK} {BLOCK} 1 {hdfs.datanode(node)}")
        for speed in SPEEDS:
            hdfs.tool(f"create /cal/{speed} {speed * RATE * LEARN_S} {BLOCK} 1")
        port, down = free_ports(2)
        masters = f"http://127.0.0.1:{down},http://127.0.0.1:{port}"
        place, commands = os.path.join(root, "c"), os.path.join(root, "commands")
        paths = Paths(place, Release())
        os.makedirs(commands)
        text = CONFIG.format(port=port, conf=hdfs.conf, commands=commands, network=network)
        with Cluster(place, nodes=NODES, config=write_config(place, text), files=files(paths),
                     extra=extra(root, paths.bin_dir, masters)) as cluster:
            suite = Data(cluster, hdfs, root)
            suite.masters, suite.commands = masters, commands
            cluster.start_agent("@master", "--command-dir", commands)
            rates = ",".join(f"{name}={RATE * speed}" for name, speed in SPEED.items())
            suite.task_options = ["--rates", rates, "--network", str(network * 2 ** 20)]
            yield suite


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--bench", action="store_true",
                        help="a table of modes best and seed beside round robin and weighted")


def main():
    """Runs the cases, or prints the table; returns the exit status."""
    args = command_line(__doc__, case, options)
    if not args.bench:
        return run(args, setting)
    with directory(args) as root:
        return 1 if bench(root) else 0


if __name__ == "__main__":
    sys.exit(main())
