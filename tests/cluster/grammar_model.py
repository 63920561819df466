# SPDX-License-Identifier: GPL-3.0-or-later
"""The model of "the same outcome": what Phalanx must keep of what stock Slurm says to a request.

Where both sides start a job, which nodes it gets may differ, by these rules: the same number of
nodes, none heavier by Weight, none asleep while stock has awake ones, no more leaf switches, no
higher common switch, and on nodes of the same kinds the same CPUs, memory and GRES. Fewer nodes are
better, but not where one is heavier than stock's heaviest, or where they are on more leaves.
"""

import re
import time
from dataclasses import dataclass, replace

from grammar_requests import ENDING
from grammar_sides import failed, plain
from slurmcluster.nodes import expand_hostlist

TESTED = re.compile(r"Job \d+ to start at (\S+) using (\d+) processors on nodes (\S+)"
                    r" in partition (\S+)")
CODE, WAITS = re.compile(r"=CODE \d+"), re.compile(r"=CODE \d+ waits")
STARTED = 1             # JOB_RUNNING
# What --test-only says where stock finds no nodes, though there may be some.
NOT_NOW = "allocation failure: Requested node configuration is not available"
LATER_S = 8             # than with stock; both states were made within this
# Whether it is a fault: else a difference in favour of the job, which is counted.
HARMS = {"refused", "fails", "accepted", "error", "waits", "later", "reason", "more-nodes",
         "spread", "heavier", "asleep", "leaves", "switch", "apart", "amounts", "partition",
         "taken"}
# On a cluster that had other requests before, and not on a fresh one: it has to be one that failed.
HARMS |= {f"stale-{kind}" for kind in HARMS}


@dataclass(frozen=True)
class Outcome:
    """What one side said.

    verdict  `refused`, `waits`, `starts`, `fails`: chosen nodes and then found no cores on them
    start    seconds of the clock, of --test-only
    """

    verdict: str
    text: str
    nodes: tuple = ()
    amounts: str = ""
    partition: str = ""
    start: float = 0.0

    def __str__(self):
        where = f" on {','.join(self.nodes)} ({self.amounts}) in {self.partition}" \
            if self.nodes else ""
        at = time.strftime(" at %H:%M:%S", time.localtime(self.start)) if self.start else ""
        return f"{self.verdict}{at}{where}" if self.nodes else f"{self.verdict}: {self.text}"


def outcome(answer):
    """The Outcome of an answer."""
    status, text = answer
    tested = TESTED.search(text)
    if tested:
        when, cpus, nodes, partition = tested.groups()
        start = time.mktime(time.strptime(when, "%Y-%m-%dT%H:%M:%S"))
        return Outcome("starts", "", names(nodes), f"cpu={cpus}", partition, start)
    for line in text.splitlines():
        if line.startswith("=JOB") and "|" in line:
            _, state, nodes, tres, partition = line.split("|")
            if int(state) & 0xff == STARTED and not WAITS.search(text):
                return Outcome("starts", "", names(nodes), tres, partition)
            if failed(text):
                return Outcome("fails", "", partition=partition)
            # Not the reason in its record: the scheduler may have looked at it meanwhile.
            return Outcome("waits", CODE.search(text)[0], partition=partition)
    return Outcome("refused", f"{status} {plain(text).strip()}")


def names(text):
    """Nodes in the order of their numbers."""
    return tuple(sorted(expand_hostlist(text), key=lambda node: int(node[1:])))


def runs(nodes):
    """How many runs of neighbours these nodes are."""
    numbers = [int(node[1:]) for node in nodes]
    return sum(number - 1 not in numbers for number in numbers)


def compare(config, state, words, stock, ours):
    """What differs between two outcomes: the name of a kind, or nothing."""
    if stock.verdict != ours.verdict:
        if ours.verdict == "starts":
            return "accepted" if stock.verdict == "refused" and NOT_NOW not in stock.text \
                else "sooner"
        # Stock's --test-only takes such a job at times, by what it was asked before, also beside
        # a second stock that was asked the same; a job is never started so.
        if stock.start and len(stock.nodes) > config.nodes_max(stock.partition):
            return "beyond-limit"
        return "accepted" if stock.verdict == "refused" else ours.verdict
    if stock.verdict == "refused":
        return "error" if stock.text != ours.text else ""
    if stock.verdict != "starts":
        return "reason" if stock.text != ours.text else ""
    if ours.start > stock.start + LATER_S:
        return "later"
    if ours.start < stock.start - LATER_S:
        return "earlier"
    kind = of_nodes(config, state, words, stock, ours)
    return f"foreseen-{kind}" if kind and not_now(state, stock) else kind


def truer(config, state, words, stock, ours, real):
    """Whether our answer to --test-only is what stock does with the job, which stock's is not."""
    if not (real.verdict == ours.verdict == stock.verdict == "starts"):
        return False
    real = replace(real, start=stock.start, amounts=ours.amounts)
    return of_nodes(config, state, words, real, ours) not in HARMS


def not_now(state, stock):
    """Whether stock's --test-only names nodes that a job that starts now would not get.

    They are in use until a later start, or end a job: once it starts, the job gets others.
    """
    ending = {node for node, mark in state.marks if mark == ENDING}
    return stock.start > time.time() + LATER_S or bool(stock.start and ending & set(stock.nodes))


def of_nodes(config, state, words, stock, ours):
    """The same for two starts at the same time."""
    if stock.partition != ours.partition:
        wanted = [word[2:].split(",") for word in words if word.startswith("-p")][-1:] or [[]]
        order = [wanted[0].index(one.partition) for one in (stock, ours)]
        return "sooner" if order[1] < order[0] else "partition"
    avoided = (set(stock.nodes) - set(ours.nodes)) & parted(state)
    if avoided and any("gpu" in word for word in words):
        return "whole-gpus"
    if len(ours.nodes) > len(stock.nodes):
        return "more-nodes"
    if len(ours.nodes) < len(stock.nodes):
        return "spread" if "--spread-job" in words else fewer(config, stock, ours)
    asleep = {node for node, mark in state.marks if mark == "POWER_DOWN_FORCE"}
    cost = [(len(asleep & set(one.nodes)), sum(config.kind(node).weight for node in one.nodes))
            for one in (stock, ours)]
    if cost[1] != cost[0]:
        return ("asleep" if cost[1][0] > cost[0][0] else "awake") if cost[1][0] != cost[0][0] \
            else "heavier" if cost[1][1] > cost[0][1] else "lighter"
    if "--exclusive" in words and "--oversubscribe" not in words and not ours.start and \
            taken(state) & set(ours.nodes) and not taken(state) & set(stock.nodes):
        return "taken"
    topology = config.topology()
    # Under TopoOptional the switches are nothing to jobs that do not ask for them.
    if topology and (config.switches != "optional" or
                     any(word.startswith("--switches") for word in words)):
        used, theirs = topology.used(ours.nodes), topology.used(stock.nodes)
        if used != theirs:
            return "leaves" if used > theirs else "fewer-leaves"
        if topology.common(ours.nodes) < topology.common(stock.nodes):
            return "switch"
    if "--contiguous" in words and runs(ours.nodes) > runs(stock.nodes):
        return "apart"
    kinds = [sorted(map(config.kind, one.nodes), key=repr) for one in (stock, ours)]
    if kinds[0] != kinds[1]:
        return "other-kinds"
    if stock.amounts == ours.amounts:
        return ""
    # Of whole sockets, or of cores of several threads, stock may give more than the job asks for,
    # beside reserved cores less, with the memory of so many CPUs.
    reserved = {node for _, nodes, how in state.kept if "CoreCnt" in " ".join(how)
                for node in expand_hostlist(nodes)} & (set(stock.nodes) ^ set(ours.nodes))
    theirs, count = (int(re.search(r"\bcpu=(\d+)", one.amounts)[1]) for one in (stock, ours))
    by_cpus = (reserved or count != theirs) and not any(word.startswith("--mem") for word in words)
    left_out = ("cpu=", "billing=") + ("mem=",) * bool(by_cpus)
    rest, others = ([item for item in one.amounts.split(",") if not item.startswith(left_out)]
                    for one in (stock, ours))
    asked = {word[:2]: word[2:] for word in words if word.startswith(("-n", "-c"))}
    lacks = theirs < int(asked.get("-n", 0)) * int(asked.get("-c", 0)) <= count
    return "other-cpus" if rest == others and (count <= theirs or lacks) else "amounts"


def fewer(config, stock, ours):
    """The same for two starts of which ours has fewer nodes."""
    heaviest = [max(config.kind(node).weight for node in one.nodes) for one in (stock, ours)]
    topology = config.topology()
    if heaviest[1] > heaviest[0]:
        return "heavier"
    if topology and topology.used(ours.nodes) > topology.used(stock.nodes):
        return "leaves"
    return "fewer-nodes"


def parted(state):
    """Nodes that have parts of GPUs in use: stock gives the same GPUs whole as well."""
    return {word[2:] for job in state.jobs if any("shard" in word or "mps" in word for word in job)
            for word in job if word.startswith("-w")}


def taken(state):
    """The nodes that the jobs of a state are on."""
    return {word[2:] for job in state.jobs for word in job if word.startswith("-w")}
