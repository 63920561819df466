# SPDX-License-Identifier: GPL-3.0-or-later
"""Two clusters, stock and Phalanx, in step: before each job both have the same nodes idle.

Whether a choice is worse than stock's can be said only where both chose from the same nodes.
So each step starts or ends one job on both sides, and where they chose different nodes one of
the two jobs is started again on the other's nodes.
"""

import contextlib
import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from slurmcluster import ClusterError
from slurmcluster.clock import CLOCK
from slurmcluster.nodes import expand_hostlist
from slurmcluster.phalanx import read_status
from slurmcluster.suite import Suite, SuiteError

NODE_CPUS = 4
BUSY_SHARE = 0.8        # of the nodes, about which starts and ends balance
GRANTED = re.compile(r"Granted job allocation (\d+)")
IDLE_S = 30.0
REPORTS_S = 10.0
BACKFILL_S = 6.0        # that a job which backfill could start is given


@dataclass
class Step:
    """What one job got on both sides, of the same idle nodes; [] if it was not started."""

    count: int
    options: tuple
    idle: frozenset
    got: dict = field(default_factory=dict)

    def __str__(self):
        free = ",".join(sorted(self.idle, key=number))
        return f"-N{self.count} {' '.join(self.options)}: {self.got} of {free}"


class Steps(Suite):
    """Both clusters, and what runs on them."""

    def __init__(self, stock, ours, topology):
        super().__init__(ours)
        self.sides = {"stock": stock, "ours": ours}
        self.topology = topology
        self.nodes = frozenset(node.name for node in ours.fragment.nodes)
        self.running = []       # [({side: job id}, nodes, CPUs of each)]
        self.keep = "stock"     # whose nodes both get where they chose different ones
        self.pool = ThreadPoolExecutor(2)

    def both(self, work):
        """{side: work(cluster)}, at once."""
        found = {name: self.pool.submit(work, cluster) for name, cluster in self.sides.items()}
        return {name: future.result() for name, future in found.items()}

    @contextlib.contextmanager
    def around(self, case):
        yield
        self.end_all()

    def recover(self):
        self.end_all()

    def names(self, text):      # pylint: disable=no-self-use
        """The nodes of a hostlist in order."""
        return sorted(expand_hostlist(text), key=number)

    def end_all(self):
        """Ends all jobs of both sides."""
        self.both(lambda cluster: cluster.run("scancel", "-u", "root", check=False))
        self.running = []
        self.settle()

    def settle(self):
        """Waits until no job is ending."""
        def wait(cluster):
            end = CLOCK.now() + IDLE_S
            while cluster.run("squeue", "-h", "-t", "CG", "-o", "%i").stdout.strip():
                if CLOCK.now() > end:
                    raise ClusterError("a job does not end completing")
                time.sleep(0.05)
        self.both(wait)

    @property
    def used(self):
        """The CPUs that jobs have, by node, the same on both sides."""
        used = dict.fromkeys(self.nodes, 0)
        for _, nodes, cpus in self.running:
            for node in nodes:
                used[node] += cpus
        return used

    def start(self, count, *options, cpus=NODE_CPUS, begin=None):
        """Starts one job on both sides; returns the Step. Both then run on the same nodes.

        cpus  that it has of each node; all of them: the whole node
        """
        options = ("--exclusive" if cpus == NODE_CPUS else f"--ntasks-per-node={cpus}", *options)
        fitting = {node for node, used in self.used.items() if used + cpus <= NODE_CPUS}
        step = Step(count, options, frozenset(fitting))
        begun = self.both(lambda cluster: (begin or allocate)(cluster, f"-N{count}", *options))
        step.got = {name: nodes for name, (_, nodes) in begun.items()}
        jobs = {name: job for name, (job, _) in begun.items()}
        if all(step.got.values()):
            if step.got["stock"] != step.got["ours"]:
                self.align(step, jobs, begin or allocate)
            self.running.append((jobs, step.got[self.keep], cpus))
        else:
            for name, job in jobs.items():
                if job:
                    self.sides[name].run("scancel", job)
            self.settle()
        return step

    def align(self, step, jobs, begin):
        """Moves the job of the other side to the nodes of the side that is kept."""
        other = "ours" if self.keep == "stock" else "stock"
        cluster, nodes = self.sides[other], step.got[self.keep]
        cluster.run("scancel", jobs[other])
        self.settle()
        # Not by -w, which topology/block does not take together with --segment.
        job, got = begin(cluster, f"-N{step.count}", *step.options,
                         *without(step.idle - set(nodes)))
        if got != nodes:
            raise ClusterError(f"{other}: {got} where only {nodes} were left")
        jobs[other] = job

    def end(self, index):
        """Ends one of the running jobs on both sides."""
        jobs, _, _ = self.running.pop(index)
        for name, cluster in self.sides.items():
            cluster.run("scancel", jobs[name])
        self.settle()

    def walk(self, seed, starts, choose, **more):
        """A seeded walk of starts and ends; yields each Step.

        choose  of a random number generator: nodes, options and CPUs per node of the next job
        """
        rng = random.Random(seed)
        while starts:
            busy = sum(self.used.values()) / (NODE_CPUS * len(self.nodes))
            if self.running and rng.random() < busy / (2 * BUSY_SHARE):
                self.end(rng.randrange(len(self.running)))
                continue
            count, options, cpus = choose(rng)
            if count > sum(used + cpus <= NODE_CPUS for used in self.used.values()):
                if self.running:
                    self.end(rng.randrange(len(self.running)))
                continue
            self.keep = rng.choice(("stock", "ours"))
            starts -= 1
            yield self.start(count, *options, cpus=cpus, **more)

    def narrowed(self):
        """How often the daemon's answer was followed, and how often slurmctld refused it."""
        status = read_status(self.cluster)
        return status["narrowed"], status["fallen_back"].get("narrow_failed", 0)

    def narrowed_since(self, before, wanted=1):
        """The same since then. The counters come with the plugin's next report: it is waited for
        until the answers followed are as many as wanted, or REPORTS_S."""
        def counted():
            return tuple(now - then for now, then in zip(self.narrowed(), before))

        with contextlib.suppress(SuiteError):
            self.until(lambda: counted()[0] >= wanted, "the plugin's report", REPORTS_S)
        return counted()


def without(nodes):
    """The options that keep a job off these nodes."""
    return ("-x", ",".join(sorted(nodes, key=number))) if nodes else ()


def allocate(cluster, *options):
    """An allocation at once, or none: (job id, nodes)."""
    done = cluster.run("salloc", "--no-shell", "-I", "-t", "60", *options,
                       check=False)
    granted = GRANTED.search(done.stderr + done.stdout)
    if not granted:
        return None, []
    return granted[1], nodes_of(cluster, granted[1])


def backfill_only(suite):
    """From here on a job that wants all nodes is first in the queue, and cannot start."""
    suite.start(1, "-t600")
    suite.both(lambda cluster: cluster.submit(f"-N{len(suite.nodes)}", "--exclusive", "-t600",
                                              wrap="exec sleep 600"))


def backfilled(cluster, *options):
    """A job below one that waits for all nodes, so that only backfill starts it."""
    job = cluster.submit("-t10", *options, wrap="exec sleep 600")
    end = CLOCK.now() + BACKFILL_S
    while CLOCK.now() < end:
        state = cluster.run("squeue", "-h", "-j", job, "-o", "%T").stdout.strip()
        if state == "RUNNING":
            return str(job), nodes_of(cluster, job)
        time.sleep(0.1)
    cluster.run("scancel", job)
    return None, []


def nodes_of(cluster, job):
    """The nodes of a running job in order."""
    listed = cluster.run("squeue", "-h", "-j", job, "-o", "%N").stdout.strip()
    return sorted(expand_hostlist(listed), key=number)


def number(node):
    """The number in a node's name."""
    return int(node.strip("n"))
