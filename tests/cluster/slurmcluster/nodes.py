# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a fragment of NodeName and PartitionName lines (slurm.conf syntax).

Each node gets its own line and port later, so hostlists are expanded here and
the values of `NodeName=DEFAULT` lines are merged into the nodes that follow.
"""

import re
from dataclasses import dataclass, field

from .errors import UsageError

NODES_MAX = 2048          # slurmd processes on one machine
HOSTLIST_MAX = 100_000    # names one hostlist may stand for

# The keys that only the harness can know; a fragment's own values are dropped.
PLACED_BY_HARNESS = {"nodeaddr", "nodehostname", "port"}

DEFAULT_FRAGMENT = """\
NodeName=cpu[1-6] CPUs=8 Sockets=1 CoresPerSocket=8 RealMemory=16000 \
Weight=10 Feature=cpu,amd
NodeName=mem[1-4] CPUs=8 Sockets=1 CoresPerSocket=8 RealMemory=64000 \
Weight=20 Feature=bigmem,amd
NodeName=gpu[1-4] CPUs=8 Sockets=1 CoresPerSocket=8 RealMemory=32000 \
Weight=50 Feature=a100,intel Gres=gpu:a100:4
NodeName=fat[1-2] CPUs=16 Sockets=2 CoresPerSocket=8 RealMemory=64000 \
Weight=80 Feature=v100,fat,intel Gres=gpu:v100:2
PartitionName=main Nodes=cpu[1-6],mem[1-4],gpu[1-4],fat[1-2] Default=YES \
MaxTime=INFINITE State=UP
PartitionName=gpu Nodes=gpu[1-4],fat[1-2] MaxTime=INFINITE State=UP
PartitionName=bigmem Nodes=mem[1-4] MaxTime=INFINITE State=UP
"""


@dataclass
class Node:
    """One node: its name, its slurm.conf keys, and its port once one is chosen."""

    name: str
    keys: dict
    port: int = 0

    @property
    def has_slurmd(self):
        """CLOUD and FUTURE nodes exist only in slurmctld's tables."""
        return self.get("State", "UNKNOWN").upper() not in ("CLOUD", "FUTURE")

    def get(self, key, default=None):
        """The value of a key, whatever its case."""
        for known, value in self.keys.items():
            if known.lower() == key.lower():
                return value
        return default

    def gres(self):
        """List of (name, type or None, count) of the node's Gres."""
        return parse_gres(self.get("Gres", ""), f"node {self.name}")


@dataclass
class Fragment:
    """The parsed file: nodes in order, partition lines as they were."""

    nodes: list = field(default_factory=list)
    partitions: list = field(default_factory=list)

    def gres_names(self):
        """Every GRES name of any node, sorted."""
        return sorted({gres[0] for node in self.nodes for gres in node.gres()})


def expand_hostlist(text, where="hostlist"):
    """`a[1-3,07],b` -> [a1, a2, a3, a07, b]; zero padding is kept."""
    names = []
    for part in split_outside_brackets(text):
        names.extend(_expand_one(part, where))
        if len(names) > HOSTLIST_MAX:
            raise UsageError(f"{where}: {text!r} stands for more than {HOSTLIST_MAX} nodes")
    return names


def split_outside_brackets(text):
    """Splits at the commas that are not inside brackets."""
    return [part for part in re.split(r",(?![^\[]*\])", text) if part]


def _expand_one(part, where):
    match = re.fullmatch(r"([^\[\]]*)\[([^\[\]]*)\](.*)", part)
    if not match:
        if "[" in part or "]" in part or not part:
            raise UsageError(f"{where}: {part!r} is not a hostlist such as n[1-8]")
        return [part]
    head, ranges, tail = match.groups()
    tails = _expand_one(tail, where) if tail else [""]
    names = []
    for item in ranges.split(","):
        bounds = re.fullmatch(r"(\d+)(?:-(\d+))?", item)
        if not bounds:
            raise UsageError(f"{where}: {item!r} in {part!r} is not a number or a range")
        low, high = bounds.group(1), bounds.group(2) or bounds.group(1)
        if int(high) < int(low) or int(high) - int(low) > HOSTLIST_MAX:
            raise UsageError(f"{where}: bad range {item!r} in {part!r}")
        for number in range(int(low), int(high) + 1):
            names.extend(f"{head}{number:0{len(low)}d}{rest}" for rest in tails)
    return names


def parse_gres(text, where):
    """`gpu:a100:4,shard:8` -> [("gpu", "a100", 4), ("shard", None, 8)]."""
    found = []
    if text.lower() in ("", "(null)", "none"):
        return found
    for item in re.split(r",(?![^(]*\))", text):
        plain = re.sub(r"\(.*\)$", "", item)
        fields = [part for part in plain.split(":") if part != "no_consume"]
        count = 1
        if len(fields) > 1 and re.fullmatch(r"\d+[kKmMgG]?", fields[-1]):
            count = _count(fields.pop())
        if not fields[0] or len(fields) > 2:
            raise UsageError(f"{where}: Gres {item!r} is not NAME[:TYPE][:COUNT]")
        found.append((fields[0], fields[1] if len(fields) == 2 else None, count))
    return found


def _count(text):
    factor = {"k": 1024, "m": 1024**2, "g": 1024**3}.get(text[-1].lower())
    return int(text[:-1]) * factor if factor else int(text)


def parse_fragment(text, where="default nodes"):
    """Parses a fragment; errors name `where` and the line.

    Raises UsageError on anything that is not a NodeName or a PartitionName line.
    """
    fragment, defaults = Fragment(), {}
    for number, line in _logical_lines(text):
        place = f"{where}:{number}"
        keys = _keys(line, place)
        kind = next(iter(keys)).lower()
        if kind == "partitionname":
            fragment.partitions.append(line)
        elif kind == "nodename":
            name = keys.pop(next(iter(keys)))
            keys = {k: v for k, v in keys.items() if k.lower() not in PLACED_BY_HARNESS}
            if name == "DEFAULT":
                defaults = _merged(defaults, keys)
                continue
            merged = _merged(defaults, keys)
            for host in expand_hostlist(name, place):
                fragment.nodes.append(Node(host, merged))
                parse_gres(fragment.nodes[-1].get("Gres", ""), place)
        else:
            raise UsageError(f"{place}: expected a NodeName or PartitionName line, "
                             f"found {line.split()[0]!r} (other lines go to --extra)")
    _check(fragment, where)
    if not fragment.partitions:
        fragment.partitions.append(
            "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
    return fragment


def _check(fragment, where):
    if not fragment.nodes:
        raise UsageError(f"{where}: no NodeName line")
    seen = set()
    for node in fragment.nodes:
        if node.name in seen:
            raise UsageError(f"{where}: node {node.name} is defined twice")
        seen.add(node.name)
    daemons = sum(node.has_slurmd for node in fragment.nodes)
    if daemons > NODES_MAX:
        raise UsageError(f"{where}: {daemons} nodes with a slurmd, at most {NODES_MAX}")


def _merged(base, keys):
    """`keys` over `base`, comparing key names without case."""
    given = {key.lower() for key in keys}
    return {k: v for k, v in base.items() if k.lower() not in given} | keys


def _logical_lines(text):
    """(number, line) without comments, blank lines and continuations."""
    pending, start = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].rstrip()
        start = start if pending else number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        line = (pending + line).strip()
        pending = ""
        if line:
            yield start, line
    if pending.strip():
        yield start, pending.strip()


def _keys(line, place):
    """`A=1 B="x y"` -> {"A": "1", "B": '"x y"'} in order."""
    tokens = re.findall(r'(?:[^\s"]|"[^"]*")+', line)
    keys = {}
    for token in tokens:
        key, equals, value = token.partition("=")
        if not equals or not key:
            raise UsageError(f"{place}: expected KEY=VALUE, found {token!r}")
        keys[key] = value
    return keys
