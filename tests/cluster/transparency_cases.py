# SPDX-License-Identifier: GPL-3.0-or-later
"""The register of transparency cases and the rooms they run in."""

import os
from dataclasses import dataclass, field

from slurmcluster.suite import Case, Cases, dashed, title_of


@dataclass(frozen=True)
class Room:
    """A few nodes with partitions of their own; one case at a time uses it."""

    name: str
    kind: str
    nodes: tuple


@dataclass(frozen=True)
class RoomCase(Case):
    """One case: beside what each has the kind of room it needs; `where` names its variant."""

    kind: str = "flat"
    solo: bool = False      # nothing else may run on the cluster meanwhile
    slow: bool = False      # takes long, so it is started first


@dataclass
class Variant:
    """One way to configure Slurm; each is one boot of either side."""

    name: str
    rooms: list
    extra: list = field(default_factory=list)
    files: dict = field(default_factory=dict)
    partitions: dict = field(default_factory=dict)   # beside PARTITIONS
    alone: bool = False     # instead of them: one partition a room, not shared
    slurmdbd: bool = False
    since: tuple = (22, 5)  # the first release that can have it


CASES = Cases()


def case(variant="base", **more):
    """Registers a function of one transparency_bench.Case."""
    def register(function):
        CASES.add(RoomCase(dashed(function.__name__), title_of(function), function,
                           where=variant, **more))
        return function
    return register


# NodeName keys of each kind of room; {room} is its name. Node names are ROOMn1, ROOMn2 ...
# Inside a kind every node has the same number of CPUs, so that what a job gets
# does not depend on which nodes it gets, while memory, features and weights differ.
KINDS = {
    "flat": (4, (
        "NodeName={room}n[1-2] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=8000 "
        "Weight=10 Feature=a,x",
        "NodeName={room}n[3-4] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=16000 "
        "Weight=20 Feature=b,x",
    )),
    "gpu": (4, (
        "NodeName={room}n[1-4] CPUs=8 Sockets=2 CoresPerSocket=4 RealMemory=32000 "
        "Weight=30 Feature=g,x Gres=gpu:a100:2,gpu:v100:2,nic:4",
    )),
    "smt": (3, (
        "NodeName={room}n[1-3] CPUs=8 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2 "
        "RealMemory=8000 Weight=5 Feature=s,x",
    )),
    "plain": (4, (
        "NodeName={room}n[1-4] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=8000",
    )),
    # What a whole GPU is shared as; GPUs of no type.
    "shard": (3, (
        "NodeName={room}n[1-3] CPUs=8 Sockets=2 CoresPerSocket=4 RealMemory=32000 "
        "Gres=gpu:2,shard:8",
    )),
    "mps": (3, (
        "NodeName={room}n[1-3] CPUs=8 Sockets=2 CoresPerSocket=4 RealMemory=32000 "
        "Gres=gpu:2,mps:200",
    )),
    # GRES that jobs do not use up, beside GPUs.
    "unspent": (4, (
        "NodeName={room}n[1-4] CPUs=8 Sockets=1 CoresPerSocket=8 RealMemory=8000 "
        "Gres=gpu:4,fs:no_consume:1,vram:no_consume:97G,band:lustre:no_consume:4G",
    )),
    # The first two are powered down, and nothing ever boots them. At this address nobody answers
    # at once: where a name has to be looked up in vain, messages to other nodes wait as well.
    "cloud": (4, (
        "NodeName={room}n[1-2] NodeAddr=127.0.0.1 Port=9 CPUs=4 Sockets=1 CoresPerSocket=4 "
        "RealMemory=8000 State=CLOUD",
        "NodeName={room}n[3-4] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=8000",
    )),
}

# Partitions of every room: a suffix of its name and the keys that make it special.
PARTITIONS = {
    "": "PreemptMode=OFF",
    "_share": "PreemptMode=OFF OverSubscribe=YES:2",
    "_cap": "PreemptMode=OFF MaxNodes=2 MaxTime=5 DefaultTime=2",
    "_low": "PreemptMode=REQUEUE",
    "_cancel": "PreemptMode=CANCEL",
    "_high": "PreemptMode=OFF PriorityTier=10",
}

# Only where the gang scheduler runs: it now and then suspends a job of any partition
# for a moment, so that the other cases would not be the same twice even on stock.
GANG_PARTITIONS = {"_susp": "PreemptMode=SUSPEND OverSubscribe=FORCE:1"}

# Partitions that share, spread or limit nodes.
SHARING = {
    "_excl": "PreemptMode=OFF OverSubscribe=EXCLUSIVE",
    "_force": "PreemptMode=OFF OverSubscribe=FORCE:2",
    "_user": "PreemptMode=OFF ExclusiveUser=YES",
    "_lln": "PreemptMode=OFF LLN=YES",
    "_max": "PreemptMode=OFF MaxCPUsPerNode=2",
}

SCHEDULER = ("SchedulerParameters=bf_interval=1,bf_continue,bf_window=1440,"
             "bf_yield_interval=1000000,sched_interval=1,batch_sched_delay=1,"
             "permit_job_expansion,bf_min_age_reserve=0,bf_resolution=1")


def make_rooms(**counts):
    """Rooms of each kind, e.g. make_rooms(flat=5, gpu=2)."""
    rooms = []
    for kind, count in counts.items():
        for number in range(1, count + 1):
            name = f"{kind}{number}"
            size = KINDS[kind][0]
            rooms.append(Room(name, kind, tuple(f"{name}n{i}" for i in range(1, size + 1))))
    return rooms


def fragment(variant):
    """NodeName and PartitionName lines of all rooms of a variant."""
    lines = []
    for room in variant.rooms:
        lines += [line.format(room=room.name) for line in KINDS[room.kind][1]]
    for room in variant.rooms:
        usual = {"": ""} if variant.alone else PARTITIONS
        for suffix, keys in (usual | variant.partitions).items():
            lines.append(f"PartitionName={room.name}{suffix} Nodes={','.join(room.nodes)} "
                         f"MaxTime=INFINITE DefaultTime=30 State=UP {keys}")
    return "\n".join(dict_keys_once(line) for line in lines) + "\n"


def dict_keys_once(line):
    """A slurm.conf line in which the last of several equal keys is the one kept."""
    keys = dict(token.split("=", 1) for token in line.split())
    return " ".join(f"{key}={value}" for key, value in keys.items())


def topology(rooms):
    """topology.conf: two leaf switches per room, one switch above all."""
    lines, leaves = [], []
    for room in rooms:
        half = len(room.nodes) // 2
        for index, nodes in enumerate((room.nodes[:half], room.nodes[half:])):
            leaves.append(f"{room.name}leaf{index}")
            lines.append(f"SwitchName={leaves[-1]} Nodes={','.join(nodes)}")
    return "\n".join([*lines, f"SwitchName=top Switches={','.join(leaves)}"]) + "\n"


def block_topology(rooms):
    """topology.conf: two base blocks of two nodes per room."""
    halves = [nodes for room in rooms for nodes in (room.nodes[:2], room.nodes[2:])]
    lines = [f"BlockName=b{number} Nodes={','.join(nodes)}" for number, nodes in enumerate(halves)]
    return "\n".join([*lines, "BlockSizes=2,4"]) + "\n"


def variants():
    """Every variant by name."""
    base = make_rooms(flat=6, gpu=2, smt=1)
    accounting, tree, block = make_rooms(flat=5), make_rooms(plain=4), make_rooms(plain=3)
    preempting = ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"]
    return {
        "base": Variant("base", base, [
            SCHEDULER,
            "PreemptType=preempt/partition_prio",
            "PreemptMode=REQUEUE",
            "Licenses=alpha:4,beta:1,gamma:2,delta:2",
            "AllowSpecResourcesUsage=1",
            "PriorityWeightPartition=10000",
        ]),
        "gang": Variant("gang", make_rooms(flat=2), [
            SCHEDULER,
            "PreemptType=preempt/partition_prio",
            "PreemptMode=SUSPEND,GANG",
            "SchedulerTimeSlice=5",
            "PriorityWeightPartition=10000",
        ], partitions=GANG_PARTITIONS),
        "layout": Variant("layout", make_rooms(smt=4, gpu=2, flat=4, shard=1, mps=1), [
            SCHEDULER, *preempting, "AllowSpecResourcesUsage=1",
        ], partitions=SHARING),
        "packed": Variant("packed", make_rooms(plain=3), [
            f"{SCHEDULER},pack_serial_at_end",
            "SelectTypeParameters=CR_Core_Memory,CR_Pack_Nodes",
        ], partitions=SHARING),
        "tree": Variant("tree", tree, [
            SCHEDULER, *preempting, "TopologyPlugin=topology/tree",
        ], {"topology.conf": topology(tree)}, SHARING),
        "block": Variant("block", block, [
            SCHEDULER, *preempting, "TopologyPlugin=topology/block",
        ], {"topology.conf": block_topology(block)}, since=(24, 11)),
        "proved": Variant("proved", make_rooms(unspent=2), [SCHEDULER], alone=True),
        "state": Variant("state", make_rooms(plain=4, cloud=3), [
            SCHEDULER,
            f"Epilog={os.path.join(os.path.dirname(os.path.abspath(__file__)), 'epilog')}",
            "PrivateData=cloud",
            "RebootProgram=/bin/true",
            "ResumeProgram=/bin/true",
            "ResumeTimeout=3000",
            "SuspendProgram=/bin/true",
            "SuspendTime=36000",
            "SuspendTimeout=1",
        ]),
        "accounting": Variant("accounting", accounting, [
            SCHEDULER,
            "PreemptType=preempt/qos",
            "PreemptMode=REQUEUE",
            "TopologyPlugin=topology/tree",
            "AccountingStorageEnforce=associations,limits,qos",
            "PriorityWeightPartition=10000",
        ], {"topology.conf": topology(accounting)}, slurmdbd=True),
    }
