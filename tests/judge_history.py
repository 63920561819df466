#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges a cluster's history after the fact, from what Slurm itself wrote.

    tests/judge_history.py --conf slurm.conf [--jobs FILE] [--history history.sqlite] ...

It reads slurm.conf, the log of slurmctld and the completions that it names, answers of `scontrol
-o -d show job` that were kept meanwhile, and for claims what phalanxd keeps; it shares no code with
Phalanx or its suites. One line a rule; exit 1 where one is broken, 2 where a file cannot be read.

    twice    no CPU, memory or GRES of a node is used by two jobs at one time
    whole    a job begins on all of its nodes, a het job with all of its components
    up       no job begins on a node that is down or drained
    lost     each submitted job ends once, or is still there
    waits    none waits longer than --wait while the nodes that it gets lie idle
    decided  nodes that are said to be as Phalanx decided are decided and the job's
    weights  starts on a node while a lighter one that holds it lies idle (counted)
    leaves   leaf switches beyond the fewest that idle nodes had allowed (counted)

--beside names slurm.conf of a stock cluster with the same jobs: each rule may then be broken as
often as there, and --wait is added to the longest wait there. Counted ones are only told, but for
those that --require names. Usage follows the order of the log's lines and no clock.
"""

import argparse
import collections
import functools
import json
import os
import re
import sqlite3
import sys
import time

RULES = ("twice", "whole", "up", "lost", "waits", "decided", "weights", "leaves")
COUNTED = ("weights", "leaves")
SETTLED_S = 3.0         # a node that was given back may still be completing
SHOWN = 5               # findings of a rule
LINE = re.compile(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?\] (.*)")
JOB = re.compile(r"JobId=(\d+)(?:_(\d+|\*|\[[^\]]*\]))?(?:\+(\d+))?(?:\((\d+)\))?")
ALLOCATE = re.compile(r"sched: Allocate (JobId=\S+) NodeList=(\S+) #CPUs=(\d+) Partition=(\S+)")
STARTED = re.compile(r"Started (JobId=\S+) in (\S+) on (\S+)")
INTERACTIVE = re.compile(r"_slurm_rpc_allocate_resources (JobId=\S+) NodeList=(\S+)")
SUBMITTED = re.compile(r"_slurm_rpc_submit_batch(?:_het)?_job: (JobId=\d+)")
SUSPENDED = re.compile(r"_slurm_rpc_suspend\(suspend\) for (\d+)")
RESIZED = re.compile(r"(?:set (?:node count|nodes) to \S+ for|moving all resources to) "
                     r"(JobId=\S+)")
NODE_SET = re.compile(r"(?:update_node: node|drain_nodes: node) (\S+) state set to (\S+)")
NODE_BAD = re.compile(r"[Nn]odes? (\S+) (?:not responding, setting DOWN|.*setting (?:DOWN|DRAIN))")
NODE_GOOD = re.compile(r"[Nn]ode (\S+) (?:now responding|returned to service)")
# Whatever else may end a run: from there on nothing is held against it.
BROKEN_OFF = re.compile(r"kill|requeu|preempt|exhausted|missing|cancel|terminat|fail", re.I)
DETAIL = re.compile(r"Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)")
WHERE = "where"         # of a record of scontrol: what it says of single nodes
KEPT = {"jobstate", "starttime", "submittime", "eligibletime", "nodelist", "nodecnt", "tres",
        "name", "numnodes", "features", "reqnodelist", "excnodelist", "dependency", "priority",
        "reason", "partition"}


def hosts(text):
    """The names of a host list, in order."""
    names = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
        if not match:
            names.append(part)
            continue
        head, ranges, rest = match.groups()
        for each in numbers(ranges):
            names += hosts(f"{head}{each}{rest}") if "[" in rest else [f"{head}{each}{rest}"]
    return [name for name in names if name not in ("", "(null)", "None")]


def numbers(ranges):
    """The numbers of `0-3,007`, as texts of their width."""
    for each in ranges.split(","):
        first, _, last = each.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            for number in range(int(first), int(last or first) + 1):
                yield str(number).zfill(len(first))


@functools.lru_cache(4096)
def moment(text):
    """Unix seconds of 2026-11-27T04:27:48; None where it is none."""
    try:
        return time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def megabytes(text):
    """Memory of a TRES or a key: 500M, 1.5G, 2000."""
    match = re.fullmatch(r"([\d.]+)([KMGT]?)n?c?", text)
    scale = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 ** 2}
    return float(match.group(1)) * scale[match.group(2)] if match else 0


def amounts(text):
    """{kind: amount} of `cpu=2,mem=1000M,node=1,gres/gpu=2`; memory in MB."""
    found = {}
    for part in text.split(","):
        kind, equals, value = part.partition("=")
        if equals:
            found[kind] = megabytes(value)
    return found


def gres(text):
    """{name: count} of `gpu:a100:4(S:0),nic:2`."""
    found = collections.Counter()
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        words = part.removeprefix("gres:").replace("=", ":").split(":")
        if words[0] and words[0] not in ("(null)", "none", "N/A"):
            found[words[0]] += int(words[-1]) if words[-1].isdigit() and len(words) > 1 else 1
    return found


def keys(line):
    """{key: value} of a line of KEY=VALUE words, keys in small letters."""
    return {key.lower(): value.strip('"')
            for key, value in re.findall(r'(\S+?)=("[^"]*"|\S*)', line)}


def kept(found):
    """The words of a job that rules need."""
    return {key: sys.intern(value) for key, value in found.items() if key in KEPT}


class Conf:
    """The part of slurm.conf, and of topology.conf beside it, that rules need."""

    def __init__(self, path):
        self.nodes, self.parts, self.settings, self.leaves = {}, {}, {}, {}
        lines, defaults = self._lines(path), {"nodename": {}, "partitionname": {}}
        for line in lines:
            found = keys(line)
            kind = next((key for key in defaults if key in found), None)
            if not kind:
                self.settings |= {key: line.split("=", 1)[1] for key in list(found)[:1]}
                continue
            name = found.pop(kind)
            if name.upper() == "DEFAULT":
                defaults[kind] |= found
            elif kind == "nodename":
                self.nodes |= {each: Node(each, defaults[kind] | found) for each in hosts(name)}
            else:
                self.parts[name] = defaults[kind] | found
        for name, part in self.parts.items():
            of_all = part.get("nodes", "").upper() == "ALL"
            part["names"] = set(self.nodes if of_all else hosts(part.get("nodes", "")))
        if "tree" in self.settings.get("topologyplugin", "") or \
                "block" in self.settings.get("topologyplugin", ""):
            for line in self._lines(os.path.join(os.path.dirname(path), "topology.conf")):
                found = keys(line)
                leaf = found.get("switchname") or found.get("blockname")
                self.leaves |= {each: leaf for each in hosts(found.get("nodes", ""))}

    @staticmethod
    def _lines(path):
        with open(path, encoding="utf-8") as file:
            text = file.read().replace("\\\n", " ")
        lines = (line.split("#", 1)[0] if not line.startswith("SchedulerP") else line
                 for line in text.splitlines())
        return [line.strip() for line in lines if "=" in line]

    def shared(self, part):
        """Whether a partition lets several jobs have the same CPUs."""
        value = self.parts.get(part, {}).get("oversubscribe", "NO").upper()
        return value.startswith(("FORCE", "YES")) and not value.endswith(":1")

    @property
    def hold_s(self):
        """The longest hold that slurm.conf allows; 0 where it says nothing."""
        match = re.search(r"phalanx_hold_max=(\d+)", self.settings.get("schedulerparameters", ""))
        return int(match.group(1)) if match else 0


class Node:
    """A node as slurm.conf has it."""

    def __init__(self, name, found):
        cores = [int(found.get(key, 1)) for key in ("boards", "sockets", "corespersocket",
                                                    "threadspercore")]
        self.name, self.weight = name, int(found.get("weight", 1))
        self.room = {"cpu": int(found.get("cpus", 0)) or cores[0] * cores[1] * cores[2] * cores[3],
                     "mem": int(found.get("realmemory", 1))}
        self.room |= {f"gres/{kind}": count for kind, count in gres(found.get("gres", "")).items()}
        features = found.get("feature") or found.get("features") or ""
        self.features = set(filter(None, features.split(",")))
        self.idle_since, self.down = 0.0, False


class Run:
    """A job's time on its nodes."""

    def __init__(self, job, nodes, part, at):
        self.job, self.nodes, self.part, self.at = job, nodes, part, at
        self.total, self.exact, self.before_restart = {}, {}, False
        self.array, self.task, self.idle_s = 0, "", 0.0

    def least(self, name, kind, nodes):
        """The amount that it surely has of a node."""
        if name in self.exact:
            return self.exact[name].get(kind, 0)
        total = self.total.get(kind, len(self.nodes) if kind == "cpu" else 0)
        others = sum(nodes[each].room.get(kind, 0) for each in self.nodes if each != name)
        return max(1 if kind == "cpu" else 0, total - others)


class Papers:
    """What was kept of jobs: completions, and answers of scontrol."""

    def __init__(self, completions, jobs):
        self.ends, self.seen, self.last = {}, {}, {}
        for line in read(completions):
            found = keys(line)
            if "jobid" in found and "jobstate" in found:
                self.ends.setdefault(int(found["jobid"]), []).append(kept(found))
        for line in read(jobs):
            if line.startswith("# "):
                self.last = {}
                continue
            found = keys(line)
            if found.get("jobid", "").isdigit():
                job, found = int(found["jobid"]), kept(found)
                found[WHERE] = DETAIL.findall(line)
                self.seen.setdefault(job, []).append(found)
                self.last[job] = found

    def fill(self, run):
        """Gives a run its amounts, in all and by node."""
        near = [each for each in self.ends.get(run.job, []) + self.seen.get(run.job, [])
                if set(hosts(each.get("nodelist", ""))) == set(run.nodes)
                and abs((moment(each.get("starttime", "")) or 0) - run.at) < 30]
        for each in near:
            run.total = amounts(each.get("tres", "")) | run.total
            for names, cpus, mem, kinds in each.get(WHERE, ()):
                used = set(numbers(cpus))
                exact = {"cpu": len(used), "mem": int(mem), "ids": used}
                exact |= {f"gres/{kind}": count for kind, count in gres(kinds).items()}
                for kind, at in re.findall(r"(\w+)[^,(]*\(IDX:([\d,-]+)\)", kinds):
                    exact.setdefault("indices", set()).update((kind, i) for i in numbers(at))
                run.exact |= {name: exact for name in hosts(names)}

    def asked(self, job):
        """What a job asked for, where it was seen; nothing otherwise."""
        return self.seen.get(job, [{}])[0]


def read(path):
    """The lines of a file; none without a name. Raises OSError."""
    if not path:
        return []
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


class History:
    """One cluster's, walked through line by line; `found` has what breaks a rule."""

    def __init__(self, conf, papers, log):
        self.conf, self.papers, self.lines = conf, papers, log
        self.found = {rule: [] for rule in RULES}
        self.judged = collections.Counter()
        self.running, self.starts, self.known = {}, {}, {}
        self.over, self.resized = set(), set()
        self.restarts, self.now, self.longest_s, self.hets = 0, 0.0, 0.0, {}
        self.on = {name: {} for name in conf.nodes}
        self.memory = "MEMORY" in conf.settings.get("selecttypeparameters", "MEMORY").upper()

    def walk(self):
        """Reads the log."""
        for line in self.lines:
            match = LINE.match(line)
            if match:
                at = moment(match.group(1))
                self.now = at + float(match.group(2) or 0)
                self._line(match.group(3))
        self._end()

    def tell(self, rule, text):
        """Notes what breaks a rule."""
        self.found[rule].append(f"{time.strftime('%H:%M:%S', time.localtime(self.now))} {text}")

    def _line(self, text):
        for pattern, places in ((ALLOCATE, (1, 2, 4, 3)), (STARTED, (1, 3, 2, None)),
                                (INTERACTIVE, (1, 2, None, None))):
            match = pattern.search(text)
            if match:
                job, nodes, part, cpus = (match.group(at) if at else "" for at in places)
                if hosts(nodes):
                    self._start(JOB.match(job), hosts(nodes), part, cpus)
                return
        match = SUBMITTED.search(text)
        if match:
            self.known[number_of(JOB.match(match.group(1)))] = self.now
        elif text.startswith("slurmctld version "):
            self._restart()
        elif "_job_complete: " in text and text.endswith(" done"):
            job = number_of(JOB.search(text))
            self.over.add(job)
            self._leave(job)
        elif NODE_SET.search(text) or NODE_BAD.search(text) or NODE_GOOD.search(text):
            self._node(text)
        elif SUSPENDED.search(text):
            self._leave(int(SUSPENDED.search(text).group(1)))
        elif RESIZED.search(text):
            job = number_of(JOB.match(RESIZED.search(text).group(1)))
            self.resized.add(job)
            self._leave(job)
        elif JOB.search(text) and BROKEN_OFF.search(text):
            self._broken_off(JOB.search(text))

    def _restart(self):
        """Slurm has forgotten what it had not saved: such a job may begin again."""
        self.restarts += 1
        for run in self.running.values():
            run.before_restart = True
        for node in self.conf.nodes.values():
            node.idle_since, node.down = self.now, False

    def _node(self, text):
        match, state = NODE_SET.search(text), "DOWN"
        if match:
            state = match.group(2).upper()
        for name in hosts((match or NODE_BAD.search(text) or NODE_GOOD.search(text)).group(1)):
            if name in self.conf.nodes:
                bad = state.startswith(("DOWN", "DRAIN", "FAIL"))
                self.conf.nodes[name].down = bad and not NODE_GOOD.search(text)
                self.conf.nodes[name].idle_since = self.now

    def _broken_off(self, match):
        """A run that may have ended; of an array all tasks that are meant."""
        own, task = number_of(match), match.group(2)
        meant = set(numbers(task.strip("[]"))) if task else None
        for job, run in list(self.running.items()):
            if job == own or not match.group(4) and run.array == own and (
                    not meant or run.task in meant):
                self.over.add(job)
                self._leave(job)
        self.over.add(own)

    def _leave(self, job):
        run = self.running.pop(job, None)
        for name in run.nodes if run else ():
            self.on[name].pop(job, None)
            self.conf.nodes[name].idle_since = self.now

    # --- a start, and what it must not do

    def _start(self, match, nodes, part, cpus):
        job = number_of(match)
        strange = [name for name in nodes if name not in self.conf.nodes]
        if strange:
            return self.tell("up", f"job {job} begins on {','.join(strange)}, not in slurm.conf")
        old = self.running.get(job)
        if old:
            if not old.before_restart:
                self.tell("twice", f"job {job} begins on {','.join(nodes)} while it runs")
            self._leave(job)
        run = Run(job, nodes, part, self.now)
        if match.group(2):
            run.array, run.task = int(match.group(1)), match.group(2)
        if cpus:
            run.total["cpu"] = int(cpus)
        self.papers.fill(run)
        self.judged["starts"] += 1
        self.known.setdefault(job, self.now)
        if match.group(3) is not None:
            parts = self.hets.setdefault((int(match.group(1)), self.restarts), {})
            parts[int(match.group(3))] = run
        self.starts.setdefault(job, []).append(run)
        self._choice(run)
        for name in nodes:
            if self.conf.nodes[name].down:
                self.tell("up", f"job {job} begins on {name}, which is down or drained")
        self.running[job] = run
        for name in nodes:
            self.on[name][job] = run
        self._twice(run)
        self._whole(run)
        return None

    def _twice(self, run):
        if self.conf.shared(run.part):
            self.judged["shared"] += 1
            return
        kinds = ["cpu"] + ["mem"] * self.memory
        for name in run.nodes:
            node, others = self.conf.nodes[name], list(self.on[name].values())
            for kind in kinds + [kind for kind in node.room if kind.startswith("gres/")]:
                used = sum(each.least(name, kind, self.conf.nodes) for each in others)
                if used > node.room[kind] + 0.5:
                    self.tell("twice", f"{name}: {used:g} of {node.room[kind]:g} {kind} used by "
                                       f"jobs {ids(others)}")
            for kind in ("ids", "indices"):
                mine = run.exact.get(name, {}).get(kind, set())
                for each in others:
                    both = mine & each.exact.get(name, {}).get(kind, set())
                    if each is not run and both:
                        self.tell("twice", f"{name}: {sorted(both)[:4]} ({kind}) of jobs "
                                           f"{each.job} and {run.job}")
        inside = {each.job: each for name in run.nodes for each in self.on[name].values()
                  if set(each.nodes) <= set(run.nodes)}.values()
        for kind in kinds:
            used = sum(each.total.get(kind, 0) for each in inside)
            room = sum(self.conf.nodes[name].room[kind] for name in run.nodes)
            if len(run.nodes) > 1 and used > room + 0.5:
                self.tell("twice", f"{','.join(run.nodes)}: {used:g} of {room:g} {kind} used by "
                                   f"jobs {ids(inside)}")

    def _whole(self, run):
        # A count that stands alone, or begins a range, is slurmctld's guess for tasks.
        fixed = re.match(r"(\d+)-\1$", self.papers.asked(run.job).get("numnodes", ""))
        waited = self.papers.asked(run.job).get("jobstate") == "PENDING"
        if waited and fixed and len(run.nodes) < int(fixed[1]):
            self.tell("whole", f"job {run.job} begins on {len(run.nodes)} of {fixed[1]} nodes")
        for end in self.papers.ends.get(run.job, []):
            began = moment(end.get("starttime", ""))
            if began is None or abs(began - run.at) > 2:
                continue
            listed = hosts(end.get("nodelist", ""))
            if set(listed) != set(run.nodes) or int(end.get("nodecnt", 0)) != len(run.nodes):
                self.tell("whole", f"job {run.job} begins on {','.join(run.nodes)}, ends on "
                                   f"{end.get('nodelist')}")

    # --- the choice of nodes

    def idle(self, name, settled=SETTLED_S):
        """Whether a node lies idle, and surely has done with its last job."""
        node = self.conf.nodes[name]
        return not self.on[name] and not node.down and self.now - node.idle_since >= settled

    def _choice(self, run):
        wait = self.now - max([self.conf.nodes[name].idle_since for name in run.nodes]
                              + [self._eligible(run.job)])
        if all(not self.on[name] for name in run.nodes):
            self.judged["waits"] += 1
            self.longest_s = max(self.longest_s, wait)
            run.idle_s = wait
        part = self.conf.parts.get(run.part)
        asked = self.papers.asked(run.job)
        named = any(asked.get(key, "(null)") != "(null)" for key in ("reqnodelist", "excnodelist"))
        if not part or named:
            return
        idle = [name for name in part["names"] if name not in run.nodes and self.idle(name)]
        self._lighter(run, idle, asked)
        if self.conf.leaves and len(run.nodes) > 1 and all(self.idle(n, 0) for n in run.nodes):
            self._fewest(run, [n for n in idle if self._holds(run, run.nodes[0], n, asked)])

    def _eligible(self, job):
        """When a job could have started at first."""
        times = [moment(each.get(key, "")) for each in self.papers.ends.get(job, [])[-1:]
                 + self.papers.seen.get(job, [])[-1:] for key in ("submittime", "eligibletime")]
        return max([self.known.get(job, 0)] + [at for at in times if at])

    def _holds(self, run, name, other, asked):
        """Whether another node would have held what the run has of one."""
        mine, its = self.conf.nodes[name], self.conf.nodes[other]
        free = asked and asked.get("features", "(null)") == "(null)"
        if not free and not mine.features <= its.features:
            return False
        for kind, room in mine.room.items():
            need = run.least(name, kind, self.conf.nodes) if name in run.exact or \
                len(run.nodes) == 1 and (kind in run.total or not kind.startswith("gres/")
                                         and free) else room
            if its.room.get(kind, 0) < need:
                return False
        return True

    def _lighter(self, run, idle, asked):
        self.judged["weights"] += 1
        for name in run.nodes:
            weight = self.conf.nodes[name].weight
            better = [each for each in idle if self.conf.nodes[each].weight < weight
                      and self._holds(run, name, each, asked)]
            if better:
                self.tell("weights", f"job {run.job} begins on {name} (weight {weight}), idle: "
                                     f"{min(better)} ({self.conf.nodes[min(better)].weight})")
                return

    def _fewest(self, run, idle):
        self.judged["leaves"] += 1
        room = collections.Counter(self.conf.leaves.get(name) for name in [*run.nodes, *idle])
        left, fewest = len(run.nodes), 0
        for _, count in room.most_common():
            if left > 0:
                left, fewest = left - count, fewest + 1
        used = len({self.conf.leaves.get(name) for name in run.nodes})
        for _ in range(used - fewest):
            self.tell("leaves", f"job {run.job} has {used} leaves, {fewest} would have held it")

    # --- at the end

    def _end(self):
        for job in self.known:
            ends = self.papers.ends.get(job, [])
            there = self.papers.last.get(job, {}).get("jobstate")
            if not ends and job not in self.over and job not in self.running and not there:
                self.tell("lost", f"job {job} has no end and is not there")
            elif self.papers.last and not ends and not there and job in self.running:
                self.tell("lost", f"job {job} began, has no end and is not there")
            times = collections.Counter((end.get("submittime"), end.get("starttime"))
                                        for end in ends)
            for (_, began), count in times.items():
                if count > 1:
                    self.tell("lost", f"job {job} of {began} ended {count} times")
        for (het, _), parts in self.hets.items():
            missing = sorted(set(range(max(parts) + 1)) - set(parts))
            apart = max(run.at for run in parts.values()) - min(run.at for run in parts.values())
            if missing or apart > 2:
                self.tell("whole", f"het job {het}: components {missing} missing, begins "
                                   f"{apart:.1f} s apart")
        self.judged["jobs"] = len(self.known)
        for job, asked in self.papers.last.items():
            self._still_waits(job, asked)

    def _still_waits(self, job, asked):
        """The wait of a job that is pending in the end, if idle nodes hold it whatever it is."""
        least = re.match(r"\d+", asked.get("numnodes", ""))
        if asked.get("jobstate") != "PENDING" or not least or asked.get("priority") == "0" or \
                asked.get("reason") not in ("None", "Resources", "Priority") or \
                any(asked.get(key, "(null)") != "(null)"
                    for key in ("features", "reqnodelist", "excnodelist", "dependency")):
            return
        part = self.conf.parts.get(asked.get("partition"), {"names": ()})
        need = amounts(asked.get("tres", ""))
        count = max(1, int(least.group()))
        fit = sorted((self.conf.nodes[name].idle_since for name in part["names"]
                      if self.idle(name) and all(self.conf.nodes[name].room.get(kind, 0) >= amount
                                                 for kind, amount in need.items()
                                                 if kind in ("cpu", "mem") or "gres" in kind)))
        if len(fit) >= count:
            run = Run(job, [], "", self.now)
            run.idle_s = self.now - max(fit[count - 1], self._eligible(job))
            self.longest_s = max(self.longest_s, run.idle_s)
            self.starts.setdefault(job, []).append(run)

    def waited(self, longest_s):
        """Notes the waits that are longer."""
        for runs in self.starts.values():
            for run in runs:
                if run.idle_s > longest_s:
                    self.found["waits"].append(f"job {run.job} waited {run.idle_s:.0f} s while "
                                               f"{','.join(run.nodes) or 'nodes'} lay idle")


def number_of(match):
    """The id of a job, or of a task, from its name in the log."""
    return int(match.group(4) or match.group(1))


def ids(runs):
    """The ids of some runs."""
    return ",".join(str(run.job) for run in sorted(runs, key=lambda run: run.job))


def claims(history, database, explained):
    """Holds what phalanxd says of its decisions against Slurm's starts."""
    def real(job, nodes):
        return any(set(hosts(nodes)) == set(run.nodes) for run in history.starts.get(job, []))

    def claim(job, nodes, decided, where):
        if not hosts(nodes) or job in history.resized:
            return
        history.judged["claims"] += 1
        if decided is not None and set(hosts(nodes)) != set(hosts(decided)):
            history.tell("decided", f"{where}: job {job} on {nodes}, decided was {decided}")
        elif not real(job, nodes):
            began = "; ".join(",".join(run.nodes) for run in history.starts.get(job, []))
            history.tell("decided", f"{where}: job {job} on {nodes}, Slurm began it on "
                                    f"{began or 'none'}")
    if database:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as opened:
            for job, nodes, decided in opened.execute(
                    "SELECT p.job_id, p.nodes, d.nodes FROM placements p JOIN decisions d "
                    "ON d.decision = p.decision WHERE d.outcome_ms IS NOT NULL "
                    "AND d.outcome_reason IS NULL AND d.verdict = 'narrow'"):
                if set(hosts(nodes)) == set(hosts(decided)):    # else no claim is made
                    claim(job, nodes, decided, "placements")
            for job, nodes, decided in opened.execute(
                    "SELECT r.job_id, r.nodes, (SELECT d.nodes FROM placements p JOIN decisions d "
                    "ON d.decision = p.decision WHERE p.job_id = r.job_id AND p.nodes = r.nodes "
                    "ORDER BY p.seq DESC LIMIT 1) FROM runs r "
                    "WHERE r.source = 'live' AND r.placed_by NOT IN ('', 'stock')"):
                claim(job, nodes, decided, "runs")
    for line in read(explained):
        placed = (told := json.loads(line)).get("placed") or {}
        if placed.get("by_phalanx"):
            claim(told.get("job_id"), placed.get("nodes", ""),
                  (placed.get("decision") or {}).get("nodes", ""), "explain")


def history_of(conf, jobs, log, completions):
    """One cluster's, walked through."""
    conf = Conf(conf)
    history = History(conf, Papers(completions or conf.settings.get("jobcomploc"), jobs),
                      read(log or conf.settings["slurmctldlogfile"]))
    history.walk()
    return history


def expected(history, path):
    """Holds {name: tasks} of a file against the completions, where each must have ended well."""
    states = {}
    for ends in history.papers.ends.values():
        for end in ends:
            states.setdefault(end.get("name"), []).append(end["jobstate"])
    for name, tasks in (json.loads("".join(read(path))) if path else {}).items():
        good = states.get(name, []).count("COMPLETED")
        if good != tasks:
            history.tell("lost", f"{name}: {good} of {tasks} COMPLETED, {states.get(name, [])[:8]}")


def options():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0],
                                     epilog=__doc__[__doc__.index("It reads"):],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conf", required=True, help="slurm.conf of the cluster")
    parser.add_argument("--log", help="log of slurmctld, instead of the one that slurm.conf names")
    parser.add_argument("--completions", help="of jobcomp/filetxt, the same")
    parser.add_argument("--jobs", help="answers of `scontrol -o -d show job`, before each a line "
                        "that begins with #; the last one is the end")
    parser.add_argument("--submitted", help="JSON, {name: tasks}: so many must be COMPLETED")
    parser.add_argument("--history", help="phalanxd's history.sqlite")
    parser.add_argument("--explained", help="lines of `phalanx explain --json`")
    parser.add_argument("--beside", help="slurm.conf of a stock cluster with the same jobs")
    parser.add_argument("--beside-jobs", help="its --jobs")
    parser.add_argument("--beside-submitted", help="its --submitted")
    parser.add_argument("--wait", type=float, help="seconds; default: 60, and phalanx_hold_max")
    parser.add_argument("--require", action="append", default=[], choices=COUNTED)
    return parser.parse_args()


def verdict(history, beside, require):
    """Prints a line a rule, and what breaks it; whether none is broken."""
    of = {"twice": "starts", "whole": "starts", "up": "starts", "lost": "jobs", "decided": "claims"}
    fine = True
    for rule in RULES:
        judged, found = history.judged[of.get(rule, rule)], history.found[rule]
        allowed = len(beside.found[rule]) if beside else 0
        bad = len(found) > allowed and (rule not in COUNTED or rule in require)
        fine = fine and not bad
        word = "BROKEN" if bad else "ok" if judged else "nothing to judge"
        stock = f", stock {len(beside.found[rule])} of {beside.judged[of.get(rule, rule)]}" \
            if beside else ""
        if rule == "waits":
            stock = f", longest {history.longest_s:.0f} s" + \
                (f" (stock {beside.longest_s:.0f} s)" if beside else "")
        print(f"{rule:<8} {word:<7} {len(found)} of {judged}{stock}")
        for text in found[:SHOWN] if bad or rule in COUNTED and found else ():
            print(f"         {text}")
    print(f"judged: {'ok' if fine else 'BROKEN'}; {history.restarts} starts of slurmctld, "
          f"{history.judged['shared']} runs in shared partitions not held against `twice`")
    return fine


def main():
    """Judges; returns the exit status."""
    args = options()
    try:
        history = history_of(args.conf, args.jobs, args.log, args.completions)
        expected(history, args.submitted)
        claims(history, args.history, args.explained)
        beside = args.beside and history_of(args.beside, args.beside_jobs, None, None)
        if beside:
            expected(beside, args.beside_submitted)
    except (OSError, KeyError, ValueError, sqlite3.Error) as error:
        print(f"judge_history: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    wait = (60 + history.conf.hold_s if args.wait is None else args.wait)
    history.waited(wait + (beside.longest_s if beside else 0))
    return 0 if verdict(history, beside, args.require) else 1


if __name__ == "__main__":
    sys.exit(main())
