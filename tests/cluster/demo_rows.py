# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of the demo: what is measured on stock Slurm and on Phalanx, and what to look at then.

A row is a pair of clusters that do the same work. `measures` says what is compared; `work` does
it on one cluster and returns the numbers. Phalanx runs with config/phalanx.toml as it is shipped,
in mode enforce; `settings` is what a row needs besides, which the table names.
"""

import os
import pwd
import random
import re
import time
import tomllib
from dataclasses import dataclass

import bags
import bench_10k
import gangs
import topology_model
import topology_stream
from slurmcluster import Cluster
from slurmcluster.conf import write_config
from slurmcluster.measure import job_values
from slurmcluster.shipped import shipped
from slurmcluster.suite import until
from slurmcluster.workload import PRIORITIES, SITE, last_week, mixed

SIDES = {"stock": "stock Slurm", "phalanx": "Phalanx"}
PACE = 0.6      # of the mixed list's run times, so that the demo takes a minute and a half
TAUGHT_WAITING, TAUGHT_CYCLES = 300, 5  # until few decisions are compared with stock's


@dataclass(frozen=True)
class Measure:
    """A number that is compared: its name, unit, digits, and whether more of it is better.

    spread   how far two runs of stock Slurm on the same list are apart (`--null`), as a share of
             the number: less than that is no gain and no loss
    headline whether the table has it; the others are in JSON and on the page
    """

    key: str
    title: str
    unit: str
    digits: int
    more: bool
    spread: float
    headline: bool = True


class Row:
    """One row; a subclass says what its clusters are and what they do."""

    name = title = why = ""
    explain = ()        # a phalanx command that shows what made the difference
    alone = False       # measured without anything beside it, one side after the other
    measures = ()
    cluster = {}        # arguments of both clusters
    settings = ""       # of Phalanx, beside the shipped configuration

    def __init__(self, seed, root):
        self.seed, self.root = seed, os.path.join(root, self.name)

    @property
    def needs(self):
        """Its settings in words; "" for none."""
        return ", ".join(f"{table}.{key}" + (f' = "{value}"' if isinstance(value, str) else "")
                         for table, keys in tomllib.loads(self.settings).items()
                         for key, value in keys.items())

    def make(self, side, stock, mode="enforce"):
        """A cluster that has not been started."""
        place = os.path.join(self.root, side)
        config = None if stock else write_config(place, shipped(mode, self.settings))
        return Cluster(place, stock=stock, config=config, **self.cluster)

    def prepare(self, cluster):
        """What Phalanx is told before the clock runs."""

    def work(self, cluster):
        """Does the row's work on one cluster; returns {key: number}."""
        raise NotImplementedError

    def explained(self, cluster):
        """What the command that explains says, after the work."""
        program = os.path.join(cluster.paths.bin_dir, "phalanx")
        done = cluster.run(program, *self.explain, check=False, timeout=30)
        return (done.stdout + done.stderr).rstrip()


class Waits(Row):
    """A mixed queue of a site."""

    name, title = "waits", "60 mixed jobs on 16 nodes of four kinds"
    why = "jobs fill nodes so that those that wait find room, by Weight as with Slurm"
    explain = ("report",)
    measures = (Measure("wait_mean_s", "mean wait", "s", 1, False, 0.06),
                Measure("wait_max_s", "longest wait", "s", 0, False, 0.17, False),
                Measure("makespan_s", "makespan", "s", 0, False, 0.17, False))
    cluster = {"nodes": SITE, "extra": PRIORITIES}

    def work(self, cluster):
        """Submits on time and waits for the last end."""
        ids, begin = [], time.monotonic()
        for job in mixed(self.seed, pace=PACE):
            time.sleep(max(0.0, begin + job.at_s - time.monotonic()))
            ids.append(cluster.submit("-J", job.name, "--time=2", *job.options,
                                      wrap=f"sleep {job.sleep_s}"))
        return job_values(wait_all(cluster, ids))


class Order(Waits):
    """The same queue, ordered by what Phalanx has learned of its programs' runtimes."""

    name, title = "order", "the same jobs, short programs first"
    why = "runtimes are learned from last week's accounting; nobody waits long for it"
    explain = ("history", "speeds")
    settings = '[order]\nby = "learned"\n'

    def prepare(self, cluster):
        """Imports what Slurm's accounting knows of last week, as an administrator would."""
        path = os.path.join(self.root, "last-week.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(last_week(self.seed, pwd.getpwuid(os.getuid()).pw_name, PACE))
        program = os.path.join(cluster.paths.bin_dir, "phalanx")
        cluster.run(program, "history", "import", path, timeout=60)


class Speeds(Row):
    """Multi-node jobs on nodes of unequal speed, from no knowledge."""

    name, title = "speeds", "MPI jobs (-n), each kind fast on other nodes of equal Weight"
    why = "which nodes are fast for which jobs is learned from the first ones that end"
    explain = ("history", "speeds")
    measures = (Measure("turnaround_s", "mean turnaround", "s", 1, False, 0.12),
                Measure("run_s", "mean run time", "s", 1, False, 0.10, False))
    cluster = {"nodes": gangs.NODES, "extra": gangs.EXTRA}
    jobs = 72

    def work(self, cluster):
        """Submits on time and waits for the last end."""
        records = gangs.run_list(cluster, gangs.work_list(self.jobs, self.seed),
                                 lambda nodes: (f"-n{8 * nodes}",))
        completion, _, ran = gangs.totals(records)
        return {"turnaround_s": completion / self.jobs, "run_s": ran / self.jobs}


class Leaves(Row):
    """Multi-node jobs under leaf switches."""

    name, title = "leaves", "MPI jobs (-n) under four leaf switches"
    why = "jobs of few nodes stay off whole leaves, so that large ones find them"
    explain = ("nodes", "--topology")
    measures = (Measure("extra", "switches a job beyond the fewest", "", 2, False, 0.25),
                Measure("makespan s", "makespan", "s", 0, False, 0.08, False))
    conf = topology_model.tree((8, 8, 8, 8))
    cluster = {"nodes": "NodeName=n[1-32] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=8000\n"
                        "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
               "extra": ["TopologyPlugin=topology/tree", *topology_stream.EXTRA],
               "files": {"topology.conf": conf}}
    jobs = 100

    def work(self, cluster):
        """Runs the list to its end."""
        topology = topology_model.Topology.of_conf(self.conf)
        return topology_stream.measure(cluster, topology,
                                       topology_stream.job_list(self.seed, self.jobs, tasks=4))


class Profit(Row):
    """Job arrays on nodes of different speed and power."""

    name, title = "profit", "five job arrays on fast, middle and thrifty nodes"
    why = "tasks go where they earn most an hour after the price of their energy"
    explain = ("report", "energy")
    measures = (Measure("profit_per_hour", "profit an hour", "", 0, True, 0.12),
                Measure("energy_j", "energy", "J", 0, False, 0.05, False),
                Measure("makespan_s", "makespan", "s", 0, False, 0.05, False))
    cluster = {"nodes": bags.conf(2), "extra": bags.EXTRA}
    settings = bags.SETTINGS

    def prepare(self, cluster):
        """A few tasks of every array on every kind of node."""
        bags.learn(cluster)
        until(lambda: bags.knows(cluster), "history energy has all times")

    def work(self, cluster):
        """Submits all arrays and waits for their last tasks."""
        return bags.earn(cluster, bags.TASKS, False)[0]


class Large(Row):
    """A machine on which slurmctld's own time counts: a quarter of its nodes has GPUs."""

    alone = True
    nodes = 4_000
    extra = ()
    asks_daemon = True  # where there is a plugin

    @property
    def cluster(self):
        """A partition of all nodes, in which Weight keeps CPU jobs off those with GPUs."""
        gpus = self.nodes // 4
        cpus = f"cpu[1-{self.nodes - gpus}]"
        return {"cloud": gpus, "extra": (
            *self.extra, f"NodeName={cpus} CPUs=64 Sockets=2 CoresPerSocket=32 RealMemory=256000 "
            "Weight=10 State=CLOUD", f"PartitionName=cpu Nodes={cpus} MaxTime=INFINITE State=UP",
            "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP")}


class Starts(Large):
    """How fast slurmctld starts what fits."""

    name, why = "starts", "the daemon names the nodes, so that slurmctld need not look at all"
    explain = ("status",)
    measures = (Measure("starts_per_s", "jobs started a second", "", 0, True, 0.45),)
    extra = bench_10k.EXTRA

    @property
    def title(self):
        """What starts, and where."""
        return f"GPU and MPI jobs on {self.nodes:,} free nodes"

    def prepare(self, cluster):
        """What stock compares at first."""
        bench_10k.teach(cluster, self.nodes, "main")

    def work(self, cluster):
        """Lets a list start at once."""
        if self.asks_daemon and not cluster.stock:
            bench_10k.wait_ready(cluster)
        rng, count = random.Random(self.seed), min(150, self.nodes // 8)
        options = [gpu if number % 2 else
                   (f"-n{rng.choice([16, 64, 128, 256])}", "--mem-per-cpu=2G", "--time=60")
                   for number, gpu in enumerate(bench_10k.job_options(self.seed, count))]
        return bench_10k.run_list(cluster, options, partition="main")


class Backfill(Large):
    """How long slurmctld takes to plan what does not fit."""

    name = "backfill"
    why = "the daemon proves when each can start at the earliest; Slurm looks at few nodes then"
    explain = ("status",)
    measures = (Measure("backfill_ms", "one backfill cycle", "ms", 0, False, 0.35),
                Measure("sbatch_ms", "a submission beyond process start", "ms", 1, False, 0.3))
    extra = ("MessageTimeout=200", "SchedulerParameters=bf_interval=2,bf_continue,bf_window=10080,"
             "bf_resolution=60,bf_max_time=300,sched_interval=60,batch_sched_delay=1")
    running, waiting = 40, 60

    @property
    def title(self):
        """What waits, and for what."""
        return f"GPU and MPI jobs that wait for {self.nodes:,} busy nodes"

    def prepare(self, cluster):
        """What stock compares at first, of each kind of job and of question."""
        bench_10k.wait_ready(cluster)
        self.queue(cluster, TAUGHT_WAITING)
        self.backfill_ms(cluster, TAUGHT_WAITING, TAUGHT_CYCLES)
        bench_10k.begin_anew(cluster)

    def work(self, cluster):
        """Fills the machine and queues more."""
        if self.asks_daemon and not cluster.stock:
            bench_10k.wait_ready(cluster)
        self.queue(cluster, self.waiting)
        return {"backfill_ms": self.backfill_ms(cluster, self.waiting),
                "sbatch_ms": sbatch_ms(cluster)}

    def queue(self, cluster, waiting):
        """Fills the machine, and lets so many jobs wait."""
        rng, size = random.Random(self.seed), self.nodes // self.running
        for number in range(self.running):
            # Those with GPUs first: by Weight the others then fill what is left.
            kind = (f"-N{size}", "--ntasks-per-node=1", "--gres=gpu:4", "--exclusive") \
                if number < self.running // 4 else (f"-n{64 * size}",)
            cluster.submit(*kind, f"--time={rng.randint(60, 3000)}")
        for number in range(waiting):
            size = rng.choice([1, 2, 4, 8])
            kind = (f"-N{size}", "--gres=gpu:2", "--ntasks-per-node=1") if number % 2 else \
                (f"-n{64 * size}",)
            cluster.submit(*kind, "--time=60")

    def backfill_ms(self, cluster, waiting, count=2):
        """The shortest of some cycles that looked at all that waits."""
        cycles = {}

        def enough():
            text = cluster.run("sdiag").stdout
            text = text[text.index("Backfilling stats"):]
            depth = int(re.search(r"Last depth cycle: (\d+)", text)[1])
            took_us = int(re.search(r"Last cycle: (\d+)", text)[1])
            # Amid a cycle the time is 0 and the depth that of the jobs so far.
            if depth >= waiting and took_us:
                cycles[re.search(r"Last cycle when: (.+)", text)[1]] = took_us / 1e3
            return len(cycles) >= count

        limit = (60 + 15 * count) * max(1, self.nodes / Large.nodes)
        until(enough, f"{count} backfill cycles", limit, every=0.5)
        return min(cycles.values())


def sbatch_ms(cluster):
    """The median time of a submission less that of a program that asks nobody."""
    def median(work, count=9):
        times = []
        for _ in range(count):
            begin = time.monotonic()
            work()
            times.append(time.monotonic() - begin)
        return sorted(times)[count // 2] * 1e3

    submitted = median(lambda: cluster.submit("-N2", "--gres=gpu:2", "--time=60",
                                              "--ntasks-per-node=1"))
    return submitted - median(lambda: cluster.run("sbatch", "--version"))


def wait_all(cluster, ids, limit=420):
    """Waits until jobs and arrays have ended; returns their records."""
    wanted = ",".join(map(str, ids))

    def ended():
        left = cluster.run("squeue", "-h", "-j", wanted, "-o", "%A", check=False)
        return left.returncode == 0 and not left.stdout.strip()

    until(ended, "the end of the list", limit, every=1.0)
    mine = set(map(str, ids))
    return [record for record in cluster.jobs()
            if record.get("ArrayJobId", record["JobId"]) in mine]


ROWS = {row.name: row for row in (Waits, Order, Speeds, Leaves, Profit, Starts, Backfill)}

