# SPDX-License-Identifier: GPL-3.0-or-later
"""Switches and blocks as topology.conf has them, and how good a set of nodes is under them."""

from dataclasses import dataclass

from slurmcluster.nodes import expand_hostlist


@dataclass(frozen=True)
class Leaf:
    """A switch of level 0, or a base block; `above` are its switches from the root down."""

    name: str
    above: tuple
    nodes: tuple


class Topology:
    """The leaves of a cluster in the order of topology.conf."""

    def __init__(self, leaves):
        self.leaves = leaves
        self.leaf_of = {node: leaf for leaf in leaves for node in leaf.nodes}

    @classmethod
    def of_conf(cls, text):
        """Reads topology.conf of topology/tree or topology/block."""
        lines = [dict(word.split("=", 1) for word in line.split())
                 for line in text.splitlines() if "Name=" in line]
        parent = {child: line["SwitchName"] for line in lines if "Switches" in line
                  for child in expand_hostlist(line["Switches"])}

        def above(name):
            return (*above(parent[name]), parent[name]) if name in parent else ()

        return cls([Leaf(name, above(name), tuple(expand_hostlist(line["Nodes"])))
                    for line in lines if "Nodes" in line
                    for name in [line.get("SwitchName") or line["BlockName"]]])

    def used(self, nodes):
        """How many leaves a set of nodes is on; nodes on none count as one leaf each."""
        return len({self.leaf_of[node].name if node in self.leaf_of else node for node in nodes})

    def common(self, nodes):
        """How deep the lowest switch above all of a set is; -1 if there is none."""
        paths = {(*leaf.above, leaf.name) for leaf in map(self.leaf_of.get, nodes) if leaf}
        depth = 0
        while paths and len({path[:depth + 1] for path in paths}) == 1 and \
                depth < min(map(len, paths)):
            depth += 1
        return depth - 1

    def free(self, idle, root=None):
        """Idle nodes per leaf, most first; below one root, if it is named."""
        return sorted((len(set(leaf.nodes) & idle) for leaf in self.leaves
                       if root in (None, root_of(leaf))), reverse=True)

    def fewest(self, idle, count):
        """The fewest leaves below one root that `count` of the idle nodes can be on, or None."""
        found = [fewest_of(self.free(idle, root), count) for root in map(root_of, self.leaves)]
        return min((number for number in found if number), default=None)

    def ideal(self, count):
        """The fewest leaves of the empty cluster."""
        return fewest_of(self.free(set(self.leaf_of)), count)


def root_of(leaf):
    """The name of the switch above all of a leaf's; its own where it has none."""
    return leaf.above[0] if leaf.above else leaf.name


def fewest_of(free, count):
    """How many of these numbers, largest first, add up to `count`; None if all do not."""
    for number, nodes in enumerate(free, 1):
        count -= nodes
        if count <= 0:
            return number
    return None


def tree(*pods, root=True):
    """topology.conf of switches: leaf sizes per pod; a single pod has no switch of its own."""
    lines, first, tops = [], 1, []
    for pod, sizes in enumerate(pods, 1):
        names = []
        for size in sizes:
            names.append(f"p{pod}leaf{len(names) + 1}")
            lines.append(f"SwitchName={names[-1]} Nodes=n[{first}-{first + size - 1}]")
            first += size
        if len(pods) == 1:
            tops = names
        else:
            tops.append(f"pod{pod}")
            lines.append(f"SwitchName={tops[-1]} Switches={','.join(names)}")
    if root:
        lines.append(f"SwitchName=top Switches={','.join(tops)}")
    return "\n".join(lines) + "\n"


def blocks(size, count, sizes):
    """topology.conf of `count` blocks of `size` nodes."""
    lines = [f"BlockName=b{number + 1} Nodes=n[{size * number + 1}-{size * (number + 1)}]"
             for number in range(count)]
    return "\n".join([*lines, f"BlockSizes={sizes}"]) + "\n"
