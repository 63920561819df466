#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leaf switches and blocks: Slurm's own choice beside Phalanx', simulated; prints a table.

    tests/bench/topology_sim.py --data DIR [--phalanx PROGRAM] [--jobs N] [--only WORD]
                                [--keep FILE]

DIR holds swf/, topology/ (models of topograph) and slurm_conf/ub-hpc. Logs and topologies are
real; models are put side by side below one more switch, as many as make the cluster. A node has
as many CPUs as make the log's machine. `stock` is Slurm's rule for the topology, `balance` chooses
nodes in the same order of starts, `phalanx` orders the starts too. --keep: the JSON lines.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

POLICIES = ("stock", "balance", "research")
# Log, its machine's processors, topology, copies of it, kind.
CASES = (
    ("ANL-Intrepid-2009-1", 163840, "topograph-model-large", 107, "tree"),
    ("ANL-Intrepid-2009-1", 163840, "topograph-model-nvl72", 142, "block"),
    ("CEA-Curie-2011-2.1-cln.part1", 93312, "topograph-model-nvl72", 139, "tree"),
    ("CEA-Curie-2011-2.1-cln.part1", 93312, "ub-hpc", 1, "tree"),
    ("SDSC-SP2-1998.first4961", 128, "topograph-model-large", 1, "tree"),
    ("NASA-iPSC-1993-3.1-cln", 128, "topograph-model-nvl72", 2, "block"),
    ("lublin_256.SYNTHETIC", 256, "topograph-model-large", 3, "tree"),
)


def expand(text):
    """Names of a hostlist with at most one bracket each."""
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        name, _, inside = part.strip().partition("[")
        if not inside:
            yield name
        for piece in filter(None, inside.rstrip("]").split(",")):
            low, _, high = piece.partition("-")
            for number in range(int(low), int(high or low) + 1):
                yield f"{name}{number:0{len(low)}}"


class Model:
    """Switches, and nodes of the leaves, of one model of topograph."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"#.*", "", file.read())
        switches, _, blocks = text.partition("blocks:")
        self.above = {}
        for name, inside in re.findall(r"^  ([\w-]+):\n((?:    .*\n)+)", switches, re.MULTILINE):
            below = re.findall(r"^    - ([\w-]+)", inside, re.MULTILINE)
            if below:
                self.above[name] = below
        self.leaves = {}
        for part in blocks.split("- switch:")[1:]:
            nodes = part.split("nodes:")[1].split("annotations:")[0].replace('"', "")
            names = [name for word in re.findall(r"[\w-]*(?:\[[^\]]+\])?", nodes) if word
                     for name in expand(word.strip("- "))]
            self.leaves[part.split()[0]] = [name for name in names if name]

    def lines(self, copies, kind):
        """Lines of topology.conf with so many of them side by side."""
        roots = []
        for copy in range(copies):
            for leaf, nodes in self.leaves.items():
                names = ",".join(f"c{copy}-{node}" for node in nodes)
                word = "Block" if kind == "block" else "Switch"
                yield f"{word}Name=c{copy}-{leaf} Nodes={names}"
            if kind == "tree":
                for name, below in self.above.items():
                    yield f"SwitchName=c{copy}-{name} Switches=" \
                        + ",".join(f"c{copy}-{child}" for child in below)
                children = {child for below in self.above.values() for child in below}
                roots += [f"c{copy}-{name}" for name in self.above if name not in children]
        if kind == "block":
            size = min(map(len, self.leaves.values()))
            yield f"BlockSizes={size},{2 * size},{4 * size}"
        elif len(roots) > 1:
            yield "SwitchName=all Switches=" + ",".join(roots)

    def nodes(self, copies):
        """Number of nodes."""
        return copies * sum(map(len, self.leaves.values()))


def topology(data, name, copies, kind, directory):
    """(file, nodes) of a case."""
    if name == "ub-hpc":
        path = os.path.join(data, "slurm_conf", name, "topology.conf")
        # What the program names in its error: the nodes of the file.
        return path, None
    model = Model(os.path.join(data, "topology", name + ".yaml"))
    path = os.path.join(directory, f"{name}.{copies}.{kind}.conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(model.lines(copies, kind)) + "\n")
    return path, model.nodes(copies)


def log_of(data, name, count, directory):
    """The first jobs of a log, uncompressed."""
    source = next(os.path.join(data, "swf", file) for file in sorted(os.listdir(f"{data}/swf"))
                  if file.startswith(name))
    reader = ["zstd", "-dc", source] if source.endswith(".zst") else ["cat", source]
    text = subprocess.run(reader, stdout=subprocess.PIPE, check=True).stdout.decode("latin-1")
    lines = text.splitlines()
    jobs = [line for line in lines if line.strip() and not line.startswith(";")][:count]
    path = os.path.join(directory, name + ".swf")
    with open(path, "w", encoding="latin-1") as file:
        file.write("\n".join(jobs) + "\n")
    return path


def simulate(program, log, conf, nodes, processors):
    """Figures by policy; the number of nodes comes from an error where it is not known."""
    if nodes is None:
        asked = run(program, log, conf, "1x(cpu=1)")
        nodes = int(re.search(r"expected the (\d+) nodes", asked.stderr)[1])
    cpus = max(1, -(-processors // nodes))
    done = run(program, log, conf, f"{nodes}x(cpu={cpus})")
    if done.returncode:
        sys.exit(done.stderr.strip())
    found = {line["policy"]: line for line in map(json.loads, done.stdout.splitlines())}
    return nodes, cpus, found


def run(program, log, conf, nodes):
    """One call of the program."""
    policies = [word for policy in POLICIES for word in ("--policy", policy)]
    return subprocess.run([program, "simulate", "--json", "--jobs", log, "--topology", conf,
                           "--nodes", nodes, *policies], capture_output=True, text=True,
                          check=False)


def row(name, figures):
    """One line of the table."""
    leaves = figures["topology"]

    def number(value, digits):
        return "-" if value is None else f"{value:.{digits}f}"
    return " | ".join([
        f"| {name}", figures["policy"], number(leaves["extra_choice_mean"], 3),
        number(leaves["extra_frag_mean"], 3), number(leaves["fewest_leaves_pct"], 1),
        f"{number(leaves['whole_leaf_in_one_pct'], 1)} of {leaves['whole_leaf_jobs']}",
        number(leaves["whole_leaves_mean"], 1), number(leaves["largest_in_leaf_mean"], 1),
        number(leaves["largest_at_once_mean"], 0), str(leaves["refused_jobs"]),
        number(figures["wait_mean_s"], 0),
        number(leaves["half_leaf_wait_mean_s"], 0)]) + " |"


def main():
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--phalanx", default="target/release/phalanx-bench")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep")
    args = parser.parse_args()
    print("| log, nodes | policy | extra leaves: choice | fragmentation | on fewest [%] "
          "| whole-leaf jobs in one [%] | whole leaves idle | largest in a leaf | at once "
          "| refused | wait [s] | of half a leaf and more [s] |")
    print("|---" * 12 + "|")
    with tempfile.TemporaryDirectory() as directory:
        for log, processors, name, copies, kind in CASES:
            if args.only not in f"{log} {name} {kind}":
                continue
            jobs = log_of(args.data, log, args.jobs, directory)
            conf, nodes = topology(args.data, name, copies, kind, directory)
            nodes, cpus, found = simulate(args.phalanx, jobs, conf, nodes, processors)
            title = f"{log.split('-')[1] if '-' in log else log}, {nodes} x {cpus}, {name} {kind}"
            for policy in POLICIES:
                print(row(title, found[policy]), flush=True)
                if args.keep:
                    with open(args.keep, "a", encoding="utf-8") as file:
                        print(json.dumps({"case": title} | found[policy]), file=file)


if __name__ == "__main__":
    main()
