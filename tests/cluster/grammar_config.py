# SPDX-License-Identifier: GPL-3.0-or-later
"""The grammar of clusters: kinds of nodes, partitions, switches, and what slurmctld counts.

A cluster has 4 to 12 nodes. Half of the clusters have nodes of State=CLOUD, which need no slurmd:
slurmctld gives them to jobs at once and waits for them to boot. The others have a slurmd a node,
some with an Epilog that keeps nodes completing. Some have slurmdbd and QOS.
"""

from dataclasses import dataclass, replace

from slurmcluster.release import Release
from topology_model import Topology, tree

SELECTS = {"CR_Core_Memory": 12, "CR_CPU_Memory": 4, "CR_Core": 2, "CR_CPU": 2,
           "CR_Socket_Memory": 1, "CR_Socket": 1, "CR_Core_Memory,CR_ONE_TASK_PER_CORE": 1,
           "CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK": 1, "CR_Core_Memory,CR_Pack_Nodes": 1,
           "CR_Core_Memory,CR_LLN": 1}
SWITCHES = {"": 10, "tree": 5, "optional": 2, "pods": 3, "dragonfly": 1}
LIMITS = {"": 8, "MaxNodes=2": 2, "MaxCPUsPerNode=2": 2, "MinNodes=2": 1, "LLN=YES": 1,
          "MaxMemPerCPU=1000": 1, "DefMemPerNode=1500": 1, "ExclusiveUser=YES": 1}
if Release().number >= (23, 2):
    LIMITS |= {"MaxCPUsPerSocket=1": 1, "MaxCPUsPerSocket=2": 1}
SHARES = {"": 10, "OverSubscribe=EXCLUSIVE": 3, "OverSubscribe=YES:2": 2,
          "OverSubscribe=FORCE:2": 1}
GRES = {"": 6, "gpu:2": 2, "gpu:4": 2, "gpu:a:2": 2, "gpu:b:1": 1, "gpu:a:1,gpu:b:2": 1,
        "tmpd:10": 1}
SHARED = {"gpu:2,shard:8": 2, "gpu:a:1,gpu:b:1,shard:4": 1, "gpu:2,mps:200": 1}
SHARED_SHARE = 0.2      # of kinds of nodes with slurmd, which tell what shares what
QOS = {"tight": "MaxTRESPerJob=cpu=4,node=2", "group": "GrpTRES=cpu=6", "least": "MinTRES=cpu=3",
       "strict": "MaxTRESPerNode=cpu=2 Flags=DenyOnLimit"}
QOS_SHARE = 0.12
EPILOG_SHARE = 0.3      # of clusters with slurmd
SCHEDULER = "batch_sched_delay=0,bf_interval=600,sched_interval=600"
CLOUD_SHARE = 0.5
SPEC = "AllowSpecResourcesUsage=YES"
SETTINGS = ("MinJobAge=2", "ReturnToService=0", "SlurmctldDebug=error", "SlurmdDebug=error")
POWER = ("SuspendTimeout=1", "SuspendTime=10000000")


@dataclass(frozen=True)
class Kind:
    """Nodes that are equal."""

    sockets: int
    cores: int          # of a socket
    threads: int        # of a core
    memory: int
    weight: int
    features: tuple
    gres: tuple
    threads_count: bool = True      # whether CPUs are the threads, not the cores

    @property
    def cpus(self):
        """CPUs of a node."""
        return self.sockets * self.cores * (self.threads if self.threads_count else 1)

    def line(self, names, cloud):
        """The line of slurm.conf."""
        words = [f"NodeName={names} CPUs={self.cpus} Sockets={self.sockets} "
                 f"CoresPerSocket={self.cores} ThreadsPerCore={self.threads} "
                 f"RealMemory={self.memory} Weight={self.weight}"]
        words += ["State=CLOUD"] if cloud else []
        words += [f"Feature={','.join(self.features)}"] if self.features else []
        words += [f"Gres={','.join(self.gres)}"] if self.gres else []
        return " ".join(words)


@dataclass(frozen=True)
class Part:
    """A partition of a range of nodes."""

    name: str
    first: int
    last: int
    words: tuple = ()


@dataclass(frozen=True)
class Config:
    """A cluster; `kinds` has the kind of each node in order."""

    kinds: tuple
    parts: tuple
    select: str = "CR_Core_Memory"
    switches: str = ""
    cloud: bool = True
    extra: tuple = ()
    qos: bool = False
    epilog: bool = False

    @property
    def names(self):
        """The nodes in order."""
        return tuple(f"n{number}" for number in range(1, len(self.kinds) + 1))

    def kind(self, node):
        """The kind of a node."""
        return self.kinds[int(node[1:]) - 1]

    def nodes_max(self, partition):
        """The most nodes of a job in a partition."""
        limits = [int(word[9:]) for part in self.parts if part.name == partition
                  for word in part.words if word.startswith("MaxNodes=")]
        return min(limits, default=len(self.kinds))

    def nodes_text(self):
        """Lines of nodes and partitions."""
        lines, first = [], 0
        for index, kind in enumerate(self.kinds):
            if self.kinds[index + 1:index + 2] != (kind,):
                lines.append(kind.line(f"n[{first + 1}-{index + 1}]", self.cloud))
                first = index + 1
        for part in self.parts:
            default = "YES" if part is self.parts[0] else "NO"
            lines.append(f"PartitionName={part.name} Nodes=n[{part.first}-{part.last}] "
                         f"Default={default} MaxTime=INFINITE State=UP {' '.join(part.words)}")
        return "\n".join(line.rstrip() for line in lines) + "\n"

    def switch_conf(self):
        """The text of topology.conf, or nothing."""
        sizes, left = [], len(self.kinds)
        while left:
            sizes.append(min(left, 2 + len(sizes) % 2))
            left -= sizes[-1]
        if not self.switches:
            return ""
        if self.switches == "pods" and len(sizes) > 2:
            return tree(tuple(sizes[:len(sizes) // 2]), tuple(sizes[len(sizes) // 2:]))
        return tree(tuple(sizes))

    def topology(self):
        """The switches, or None on a flat cluster."""
        return Topology.of_conf(self.switch_conf()) if self.switches else None

    def settings(self):
        """Lines of slurm.conf besides nodes and partitions."""
        lines = [f"SelectTypeParameters={self.select}", *SETTINGS, *(POWER if self.cloud else ())]
        if self.switches:
            lines.append("TopologyPlugin=topology/tree")
        if self.switches in ("optional", "dragonfly"):
            lines.append("TopologyParam=" + {"optional": "TopoOptional",
                                             "dragonfly": "Dragonfly"}[self.switches])
        given = {line.split("=")[0] for line in self.extra}
        if "SchedulerParameters" not in given:
            lines.append(f"SchedulerParameters={SCHEDULER}")
        return [*lines, *self.extra]

    def told(self):
        """What a report shows of its slurm.conf and topology.conf."""
        hidden = (*SETTINGS, *POWER, f"SchedulerParameters={SCHEDULER}")
        lines = [self.nodes_text(), *(line for line in self.settings() if line not in hidden),
                 self.switch_conf()]
        return "\n".join(line.rstrip() for line in lines if line)

    def traits(self):
        """What a table of differences says of it."""
        words = [self.select.replace("CR_", ""), self.switches or "flat"]
        words += [name for name in ("cloud", "qos", "epilog") if getattr(self, name)]
        words += ["threads"] if any(kind.threads > 1 for kind in self.kinds) else []
        return " ".join(words)

    def simpler(self):
        """Clusters with one thing less, for shrinking."""
        for change in ({"switches": ""}, {"qos": False}, {"epilog": False}):
            if replace(self, **change) != self:
                yield replace(self, **change)
        if self.select != "CR_Core_Memory":
            yield replace(self, select="CR_Core_Memory")
        for index in range(len(self.extra)):
            yield replace(self, extra=without(self.extra, index))
        for index, part in enumerate(self.parts):
            if index:
                yield replace(self, parts=without(self.parts, index))
            if part.words:
                yield replace(self, parts=(*self.parts[:index], replace(part, words=()),
                                           *self.parts[index + 1:]))
        for change in ({"weight": 1}, {"features": ()}, {"gres": ()}, {"memory": 8000},
                       {"threads": 1}):
            kinds = tuple(replace(kind, **change) for kind in self.kinds)
            if kinds != self.kinds:
                yield replace(self, kinds=kinds)
        if len(set(self.kinds)) > 1:
            yield replace(self, kinds=self.kinds[:1] * len(self.kinds))


def without(items, index):
    """A tuple without one of its items."""
    return (*items[:index], *items[index + 1:])


def pick(rng, weighted):
    """One key, as often as its number says."""
    return rng.choices(list(weighted), list(weighted.values()))[0]


def make_kind(rng, fs, weighty, cloud):
    """A kind of nodes."""
    threads = rng.choice((1, 1, 1, 2))
    shared = not cloud and rng.random() < SHARED_SHARE
    gres = [text for text in pick(rng, SHARED if shared else GRES).split(",") if text]
    gres += ["fs:no_consume:4"] if fs else []
    return Kind(sockets=rng.choice((1, 1, 2)), cores=rng.choice((2, 4, 4)), threads=threads,
                memory=rng.choice((4000, 8000, 16000)),
                weight=rng.choice((1, 1, 10, 20, 50)) if weighty else 1,
                features=tuple(name for name in "abcd" if rng.random() < 0.4), gres=tuple(gres),
                threads_count=threads == 1 or rng.random() < 0.8)


def make_part(rng, name, last):
    """A partition beside the default one."""
    first = rng.randint(1, last - 1)
    words = (pick(rng, LIMITS), pick(rng, SHARES))
    return Part(name, first, rng.randint(first + 1, last), tuple(word for word in words if word))


def make_config(rng):
    """A cluster of the grammar."""
    count, fs, weighty = rng.randint(4, 12), rng.random() < 0.15, rng.random() < 0.6
    cloud, qos = rng.random() < CLOUD_SHARE, rng.random() < QOS_SHARE
    distinct = [make_kind(rng, fs, weighty, cloud) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
    if rng.random() < 0.3:
        kinds = tuple(rng.choice(distinct) for _ in range(count))
    else:
        kinds = tuple(sorted((rng.choice(distinct) for _ in range(count)), key=distinct.index))
    main = tuple(word for word in (pick(rng, LIMITS), pick(rng, SHARES))
                 if word and rng.random() < 0.4)
    parts = [Part("main", 1, count, main)]
    parts += [make_part(rng, name, count) for name in ("p", "q") if rng.random() < 0.5]
    extra = [line for line, share in (("Licenses=lic:4,tool:1", 0.5),
                                      ("EnforcePartLimits=ALL", 0.2),
                                      ("EnforcePartLimits=ANY", 0.2),
                                      ("DefMemPerCPU=", 0.1), (SPEC, 0.1))
             if rng.random() < share]
    if sum(line.startswith("Enforce") for line in extra) > 1:
        extra = [line for line in extra if line != "EnforcePartLimits=ANY"]
    return Config(kinds, tuple(parts), pick(rng, SELECTS), pick(rng, SWITCHES), cloud,
                  tuple(extra), qos, not cloud and rng.random() < EPILOG_SHARE)
