#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs on a real cluster: do they find the nodes where their type is fastest?

Two classes of nodes; jobs of three types of which two really run longer on one
class or the other (the job script looks where it is). The daemon starts without
knowledge. Checked: once it has learned, gangs land on the class where their type is
fastest whenever both classes had room; a restart of the daemon keeps what was
learned; `plan` and `explain` say why; het jobs (1 server, 4 workers) and `-N8` jobs
start complete or not at all under contention. With --bench the numbers of a longer
list, against stock Slurm on the same list, are printed instead.
"""

import contextlib
import json
import os
import random
import sys
import time

from slurmcluster import Cluster
from slurmcluster.clock import CLOCK
from slurmcluster.conf import PROMPT, write_config
from slurmcluster.jobs import seconds
from slurmcluster.nodes import expand_hostlist
from slurmcluster.phalanx import fresh_plan, phalanx, phalanx_json, reload
from slurmcluster.shipped import shipped_config
from slurmcluster.suite import Cases, Suite, SuiteError, command_line, directory, run

NODES = """\
NodeName=x[1-8] CPUs=8 Sockets=1 CoresPerSocket=8 RealMemory=16000 Feature=x
NodeName=y[1-8] CPUs=8 Sockets=1 CoresPerSocket=8 RealMemory=16000 Feature=y
PartitionName=main Nodes=x[1-8],y[1-8] Default=YES MaxTime=INFINITE State=UP
"""
EXTRA = ["SchedulerParameters=bf_interval=1,bf_resolution=1,sched_min_interval=200000,"
         "phalanx_trade=3,batch_sched_delay=0,bf_yield_interval=100000"]
# Type, nodes, seconds on class x and on class y.
TYPES = (("alpha", 2, 1, 4), ("beta", 3, 4, 1), ("gamma", 2, 2, 2))
GAP_S = 0.9              # mean time between two submissions: room on both classes most times
FASTEST = {"alpha": "x", "beta": "y"}
SHARE_MIN = 0.9
LEARN, WHOLE = 36, 8      # jobs and gangs of the cases
# The fast class x has one node on each leaf.
LEAVES = """\
NodeName=x[1-2],y[1-4] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=8000
PartitionName=main Nodes=x[1-2],y[1-4] Default=YES MaxTime=INFINITE State=UP
"""
SWITCHES = "SwitchName=s1 Nodes=x1,y[1-2]\nSwitchName=s2 Nodes=x2,y[3-4]\n" \
    "SwitchName=top Switches=s[1-2]\n"
# The heavy nodes g are the faster ones.
WEIGHTS = """\
NodeName=x[1-4] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=8000 Weight=1
NodeName=g[1-2] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=8000 Weight=100
PartitionName=main Nodes=x[1-4],g[1-2] Default=YES MaxTime=INFINITE State=UP
"""
OPEN, OPEN_GAP_S = 24, 1.2       # jobs with -n16 and without -N
case = Cases()


def script(name, on_x, on_y):
    """A job that works longer on one class; a gang is as slow as its slowest node."""
    slow, fast = ("y", on_x) if on_x < on_y else ("x", on_y)
    long = max(on_x, on_y)
    return (f'case "$SLURM_JOB_NODELIST" in *{slow}*) sleep {long};; *) sleep {fast};; esac')


def work_list(count, seed):
    """(seconds after the start, name, nodes, script) of each job."""
    rng, at, jobs = random.Random(seed), 0.0, []
    for number in range(count):
        name, nodes, on_x, on_y = TYPES[number % len(TYPES)]
        jobs.append((at, f"{name}_{number}", nodes, script(name, on_x, on_y)))
        at += rng.expovariate(1 / GAP_S)
    return jobs


def run_list(cluster, jobs, ask=lambda nodes: (f"-N{nodes}", "--ntasks-per-node=8")):
    """Submits on time, waits for all; returns their records in order."""
    start, ids = time.monotonic(), []
    for at, name, nodes, text in jobs:
        time.sleep(max(0.0, at - (time.monotonic() - start)))
        ids.append(cluster.submit("-J", name, *ask(nodes), "-t2", wrap=text))
    records = {int(r["JobId"]): r for r in cluster.wait_jobs(ids, timeout=240)}
    return [records[job] for job in ids]


def classes_of(record):
    """{"x"}, {"y"} or both: where the job ran."""
    return {name[0] for name in expand_hostlist(record["NodeList"])}


def had_choice(record, others):
    """Whether either class alone had room for the job when it started.

    Times are whole seconds: a node counts as free only if nobody had it in the second of the
    start or the one before.
    """
    start, busy = seconds(record, "StartTime"), set()
    for other in others:
        if other is not record and seconds(other, "StartTime") <= start \
                and seconds(other, "EndTime") >= start - 1:
            busy |= set(expand_hostlist(other["NodeList"]))
    free = {kind: sum(f"{kind}{n}" not in busy for n in range(1, 9)) for kind in "xy"}
    return min(free.values()) >= int(record["NumNodes"].split("-")[0])


def fastest(record):
    """The class on which the job's type is fastest; None if both are alike."""
    return FASTEST.get(record["JobName"].split("_")[0])


def landed(records):
    """(jobs with a choice whose type has a fastest class, of these on that class)."""
    chosen = [r for r in records if fastest(r) and had_choice(r, records)]
    return len(chosen), sum(classes_of(record) == {fastest(record)} for record in chosen)


def astray(records):
    """Jobs that had a choice and ran elsewhere."""
    return [r for r in records if fastest(r) and had_choice(r, records)
            and classes_of(r) != {fastest(r)}]


def totals(records):
    """Sum of completion times, makespan and sum of run times, seconds."""
    first = min(seconds(r, "SubmitTime") for r in records)
    completion = sum(seconds(r, "EndTime") - seconds(r, "SubmitTime") for r in records)
    makespan = max(seconds(r, "EndTime") for r in records) - first
    ran = sum(seconds(r, "EndTime") - seconds(r, "StartTime") for r in records)
    return completion, makespan, ran


class Gangs(Suite):
    """Lists of jobs whose types differ in where they are fastest."""

    def learned(self, count, seed):
        """Runs a list; returns its records."""
        records = run_list(self.cluster, work_list(count, seed))
        for record in records:
            self.expect(record["JobState"] == "COMPLETED",
                        f"job {record['JobId']} is {record['JobState']}")
        return records

    def note(self, job):
        """What explain notes of a waiting gang; None while the daemon does not know it yet."""
        done = phalanx(self.cluster, "explain", job, "--json", check=False)
        report = json.loads(done.stdout) if done.returncode == 0 else {}
        return (report.get("pending") or {}).get("note")

    def fast_share(self, records, what):
        """Checks where the jobs landed."""
        chosen, right = landed(records)
        for record in astray(records):
            report = phalanx_json(self.cluster, "explain", record["JobId"])
            asks = [(ask["mode"], ask["reason"], ask.get("preference"))
                    for ask in report["asks"][:2]]
            print(f"    {record['JobName']} on {record['NodeList']}: {json.dumps(asks)[:600]}")
        print(f"    {what}: {right} of {chosen} jobs with a choice on their fastest class")
        self.expect(chosen >= len(records) // 6, f"{what}: only {chosen} jobs had a choice")
        self.expect(right >= SHARE_MIN * chosen,
                    f"{what}: only {right} of {chosen} on their fastest class")


def restart(suite):
    """The daemon dies and comes back."""
    suite.cluster.stop_phalanxd(kill=True)
    suite.cluster.start_phalanxd()
    suite.until(lambda: phalanx_json(suite.cluster, "status")["plugin"]["synced"], "synced anew")
    fresh_plan(suite.cluster)


@case(where="types")
def gangs_learn(suite):
    """From no knowledge to the fastest nodes, and over a restart"""
    suite.learned(LEARN, 1)
    suite.fast_share(suite.learned(max(24, LEARN // 3), 2), "after learning")
    restart(suite)
    suite.fast_share(suite.learned(24, 3), "after a restart")


def mixed_without_need(records):
    """Jobs on both classes though one class alone had two idle nodes for them."""
    return [r for r in records if len(classes_of(r)) > 1 and had_choice(r, records)]


@case(where="types")
def open_jobs(suite):
    """-n16 without -N: two nodes of one class, and the fast one once it is known"""
    text, ids = script("mpi", 1, 3), []
    for _ in range(OPEN):
        ids.append(suite.cluster.submit("-J", "mpi", "-n16", "-t2", wrap=text))
        time.sleep(OPEN_GAP_S)
    records = suite.cluster.wait_jobs(ids, timeout=120)
    for record in records:
        nodes = expand_hostlist(record["NodeList"])
        suite.expect(len(nodes) == 2, f"job {record['JobId']} on {sorted(nodes)}")
    astray = [r["NodeList"] for r in mixed_without_need(records)]
    suite.expect(not astray, f"on both classes without need: {astray}")
    late = records[-OPEN // 3:]
    fast = sum(classes_of(record) == {"x"} for record in late)
    print(f"    {fast} of the last {len(late)} on the fast class")
    suite.expect(fast >= SHARE_MIN * len(late), f"only {fast} of {len(late)} on the fast class")
    classes = {row["class"] for row in phalanx_json(
        suite.cluster, "history", "speeds")["classes"]}
    suite.expect(any("/mpi/n2:c16" in name for name in classes), f"classes {sorted(classes)}")


def het(suite):
    """Submits 1 server and 4 workers."""
    argv = part = ["-N1", "-n8", "-t1"]
    for _ in range(4):
        argv = [*argv, ":", *part]
    return suite.cluster.submit(*argv, wrap="sleep 1")


def check_terms(suite, note, planned, what):
    """The terms of each task add up to those of the gang; a waiting one has them by class."""
    rows = note["task_terms"]
    tasks = sum(row["tasks"] for row in rows)
    suite.expect(rows and tasks == (note["tasks"] if planned else 0), f"{what}: {note}")
    for row in rows:
        index = row["value"] - row["cost"] + row["bonus"]
        suite.expect(abs(index - row["index"]) < 1e-9, f"{what}: {row}")
    for term in ("value", "cost", "bonus", "index"):
        total = sum(row[term] * row["tasks"] for row in rows)
        if planned:
            suite.expect(abs(total - note[term]) < 1e-9, f"{what}, {term}: {total}, {note}")
        else:
            suite.expect(note[term] is None, f"{what}, {term}: {note}")


def explain_het(suite, blocker, job):
    """A het job is explained while it waits, and once it runs, with all its components."""
    for planned in (False, True):
        if planned:
            suite.cluster.run("scancel", blocker)
            suite.cluster.wait_jobs([job], timeout=60)
        for component in (f"{job}+0", f"{job}+3"):
            report = phalanx_json(suite.cluster, "explain", component)
            chosen = planned and (report["placed"].get("decision") or {}).get("preference")
            note = (chosen or report.get("pending") or {}).get("note")
            if suite.expect(note, f"{component}, planned {planned}: no note in {report}"):
                check_terms(suite, note, planned, component)
                parts = {row["component"] for row in note["task_terms"]}
                suite.expect(parts == set(range(5)), f"{component}: components {parts}")


@case(needs=["gangs_learn"], where="types")
def gangs_explained(suite):
    """explain names method, learned speeds and terms; plan names objective and gap"""
    # Behind a job on all nodes: planned before they start.
    blocker = suite.cluster.submit("-N16", "--ntasks-per-node=8", "-t5", wrap="exec sleep 600")
    suite.cluster.wait_jobs([blocker], states={"RUNNING"})
    waiting = het(suite)
    suite.until(lambda: all(suite.note(part) for part in (f"{waiting}+0", f"{waiting}+3")),
                "a waiting gang is explained")
    explain_het(suite, blocker, waiting)
    suite.cluster.submit("-N16", "--ntasks-per-node=8", "-t1", wrap="sleep 3")
    records = run_list(suite.cluster, [(0.0, *job[1:]) for job in work_list(2, 4)])
    late = []
    for record in records:
        report = phalanx_json(suite.cluster, "explain", record["JobId"])
        chosen = (report["placed"].get("decision") or {}).get("preference")
        if not chosen:
            late.append(record["JobId"])
        else:
            note = chosen["note"]
            suite.expect(chosen["method"] == "gang" and note["kind"] == "gang", f"{chosen}")
            suite.expect(len(note["speeds"]) == 2, f"speeds {note['speeds']}")
            if chosen["candidate_set"] == "planned":
                check_terms(suite, note, True, record["JobId"])
    # On a busy machine an answer comes late, and Slurm has chosen.
    suite.expect(2 * len(late) <= len(records), f"no preference in the decisions of {late}")
    plan = phalanx_json(suite.cluster, "plan")
    methods = {m["method"]: m for m in plan["methods"]}
    suite.expect("gang" in methods, f"plan names {sorted(methods)}")


def starts_whole(suite, submit, count, nodes, what):
    """Submits `count` gangs at once beside small jobs; watches that none starts in part."""
    fillers = [suite.cluster.submit("-n8", "-N1", "-t1", wrap="sleep 2") for _ in range(count)]
    gangs = [submit() for _ in range(count)]
    wanted, end = {str(gang) for gang in gangs}, CLOCK.now() + 60 + 6 * count
    partial = set()
    while True:
        parts = {}
        for record in suite.cluster.jobs():
            leader = record.get("HetJobId", record["JobId"])
            if leader in wanted:
                parts.setdefault(leader, []).append(record)
        states = {leader: {r["JobState"] == "PENDING" for r in found}
                  for leader, found in parts.items()}
        partial |= {leader for leader, pending in states.items() if len(pending) > 1}
        done = all(r["JobState"] == "COMPLETED" for found in parts.values() for r in found)
        if done and len(parts) == count:
            break
        if CLOCK.now() > end:
            suite.expect(False, f"{what}: not all ended in time")
            return
        time.sleep(0.3)
    whole = 0
    for found in parts.values():
        starts = [seconds(r, "StartTime") for r in found]
        used = [name for r in found for name in expand_hostlist(r["NodeList"])]
        whole += max(starts) - min(starts) <= 1 and len(set(used)) == len(used) == nodes
    print(f"    {what}: {whole} of {count} started whole on {nodes} nodes")
    suite.expect(whole == count, f"{what}: only {whole} of {count} whole")
    suite.expect(not partial, f"{what}: seen in part: {sorted(partial)}")
    suite.cluster.wait_jobs(fillers, timeout=60)


@case(where="types")
def gangs_start_whole(suite, count=WHOLE):
    """Het jobs and -N8 jobs start complete or not at all under contention"""
    starts_whole(suite, lambda: het(suite), count, 5, "1 server + 4 workers")
    starts_whole(suite, lambda: suite.cluster.submit("-N8", "--ntasks-per-node=8", "-t1",
                                                     wrap="sleep 1"), count, 8, "-N8")
    status = phalanx_json(suite.cluster, "status")
    suite.expect(status["plugin"]["synced"], "the mirror is lost")


def pair(suite, *options, wrap="sleep 1"):
    """Submits a job of two whole nodes, always of one type."""
    return suite.cluster.submit("-N2", "--exclusive", "-J", "pair", "-t2", *options, wrap=wrap)


def six_runs(suite):
    """Waits until what six jobs took is known."""
    def known():
        classes = phalanx_json(suite.cluster, "history", "speeds")["classes"]
        return any(sum(of["runs"] for of in row["node_classes"]) >= 6 for row in classes)
    suite.until(known, "speeds of both classes")


def planned_pair(suite, wrap="sleep 1"):
    """The record of a job of two nodes that started after a plan had named nodes for it: one that
    Slurm starts at once says nothing of the method."""
    for _ in range(10):
        record, = suite.cluster.wait_jobs([pair(suite, wrap=wrap)], timeout=60)
        asks = phalanx_json(suite.cluster, "explain", record["JobId"])["asks"]
        if any(ask.get("preference") for ask in asks):
            return record
    raise SuiteError("ten jobs started before a plan named nodes for them")


def switches_of(suite, text):
    """Nodes of a job of two nodes on the idle cluster, and how many leaves these are."""
    nodes = set(expand_hostlist(planned_pair(suite, text)["NodeList"]))
    return nodes, len({int(node[1:]) > (1 if node[0] == "x" else 2) for node in nodes})


@case(where="leaves")
def leaf_cost(suite):
    """Faster nodes on two leaves are left alone, and taken with topology.leaf_cost"""
    text = script("pair", 1, 4)
    runs = [pair(suite, "-w", nodes, wrap=text)
            for nodes in 2 * ("x1,x2", "y1,y2", "y3,y4")]
    suite.cluster.wait_jobs(runs, timeout=60)
    six_runs(suite)
    nodes, leaves = switches_of(suite, text)
    suite.expect(leaves == 1, f"by default on {sorted(nodes)}, {leaves} leaves")
    with open(suite.cluster.paths.phalanx_toml, "a", encoding="utf-8") as file:
        file.write("[topology]\nleaf_cost = 0.3\n")
    reload(suite.cluster)
    nodes, leaves = switches_of(suite, text)
    suite.expect(nodes == {"x1", "x2"}, f"with leaf_cost 0.3 on {sorted(nodes)}")


@case(where="weights")
def weight_first(suite):
    """Faster nodes of a higher Weight are left alone, and taken with balance.weight_cost"""
    text = script("pair", 4, 1)
    runs = [pair(suite, "-w", nodes, wrap=text) for nodes in 2 * ("g1,g2", "x1,x2", "x3,x4")]
    suite.cluster.wait_jobs(runs, timeout=60)
    six_runs(suite)
    # Both find lighter nodes.
    jobs = [pair(suite, wrap="sleep 3") for _ in range(2)]
    for record in suite.cluster.wait_jobs(jobs, timeout=60):
        suite.expect(classes_of(record) == {"x"}, f"by default on {record['NodeList']}")
    with open(suite.cluster.paths.phalanx_toml, "a", encoding="utf-8") as file:
        file.write("[balance]\nweight_cost = 0.3\n")
    reload(suite.cluster)
    record = planned_pair(suite)
    suite.expect(classes_of(record) == {"g"}, f"with weight_cost 0.3 on {record['NodeList']}")


HOLD_S = 8       # planner.hold_max_s of the case below
ADMISSION = f"""[planner]
hold_max_s = {HOLD_S}
[gang]
admission = "enforce"
cost = {{ cpu = 100.0 }}
"""


def waited(record):
    """Seconds that a job waited."""
    return seconds(record, "StartTime") - seconds(record, "SubmitTime")


@case(needs=["leaf_cost"], where="leaves")
def admission_waits(suite):
    """A gang worth less than its cost waits within limits, and explain says so; advice does not"""
    free, = suite.cluster.wait_jobs([pair(suite)], timeout=60)
    path = suite.cluster.paths.phalanx_toml
    with open(path, encoding="utf-8") as file:
        before = file.read()
    with open(path, "a", encoding="utf-8") as file:
        file.write(ADMISSION)
    phalanx(suite.cluster, "daemon", "reload")
    job = pair(suite)

    def explained():
        done = phalanx(suite.cluster, "explain", str(job), "--json", check=False)
        report = json.loads(done.stdout) if done.returncode == 0 else {}
        pending = report.get("pending") or {}
        note = (pending.get("preference") or {}).get("note") or {}
        return note.get("below_cost", 0.0) > 0.0
    suite.until(explained, "explain says that the gang is worth less than its cost")
    text = phalanx(suite.cluster, "explain", "--verbose", str(job)).stdout
    suite.expect("less than its cost" in text, f"explain says {text!r}")
    # Others start meanwhile: the nodes are free, and only this gang waits.
    single = suite.cluster.submit("-N1", "-n1", "-t1", wrap="sleep 0")
    suite.cluster.wait_jobs([single], timeout=60)
    held, = suite.cluster.wait_jobs([job], timeout=120)
    suite.expect(waited(held) >= HOLD_S - 1 and waited(held) > waited(free),
                 f"waited {waited(held)} s, and {waited(free)} s where nothing is enforced")
    receipts = phalanx_json(suite.cluster, "report", "audit", str(job))["receipts"]
    told = [line["held_ms"] / 1000 for line in receipts if line["kind"] == "held"]
    suite.expect(len(told) == 1 and HOLD_S - 2 <= told[0] <= waited(held) + 1,
                 f"waited {waited(held)} s, the receipts are {receipts}")
    said = phalanx(suite.cluster, "explain", str(job)).stdout
    suite.expect("Phalanx held it for" in said, f"explain says {said!r}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + ADMISSION.replace("enforce", "advise"))
    lost = CLOCK.lost()
    reload(suite.cluster)
    advised, = suite.cluster.wait_jobs([pair(suite)], timeout=60)
    late = CLOCK.lost() - lost
    suite.expect(waited(advised) < HOLD_S - 1 + late, f"advice held it for {waited(advised)} s")


case(where="types")(shipped_config)


@contextlib.contextmanager
def setting(root, _args, stock=False):
    """One cluster of both classes."""
    place = os.path.join(root, "c")
    config = None if stock else write_config(place, PROMPT)
    with Cluster(place, nodes=NODES, extra=EXTRA, stock=stock, config=config) as cluster:
        yield Gangs(cluster)


@contextlib.contextmanager
def on_leaves(root, _args):
    """Two leaf switches below one."""
    place = os.path.join(root, "c")
    extra = [*EXTRA, "TopologyPlugin=topology/tree"]
    with Cluster(place, nodes=LEAVES, extra=extra, files={"topology.conf": SWITCHES},
                 config=write_config(place, PROMPT)) as cluster:
        yield Gangs(cluster)


@contextlib.contextmanager
def by_weight(root, _args):
    """Light nodes and faster heavy ones."""
    place = os.path.join(root, "c")
    with Cluster(place, nodes=WEIGHTS, extra=EXTRA, config=write_config(place, PROMPT)) as cluster:
        yield Gangs(cluster)


def bench(root, count, whole):
    """The same list on stock and on Phalanx, and many gangs under contention.

    Returns what was not as it must be.
    """
    results, problems = {}, []
    for name, stock in (("stock", True), ("phalanx", False)):
        with setting(os.path.join(root, name), None, stock) as suite:
            records = run_list(suite.cluster, work_list(count, 1))
            tail = run_list(suite.cluster, work_list(count // 2, 2))
            chosen, right = landed(tail)
            completion, makespan, ran = totals(records)
            late = totals(tail)
            results[name] = {
                "jobs": count, "sum_completion_s": completion, "makespan_s": makespan,
                "sum_run_s": ran, "then_jobs": len(tail), "then_sum_completion_s": late[0],
                "then_sum_run_s": late[2], "then_choice": chosen, "then_fastest": right,
            }
            if not stock:
                suite.fast_share(tail, "after learning")
                restart(suite)
                suite.fast_share(suite.learned(max(24, count // 4), 3), "after a restart")
                if whole:
                    gangs_start_whole(suite, whole)
                problems += suite.problems
        print(json.dumps({name: results[name]}), flush=True)
    for key in ("sum_completion_s", "then_sum_completion_s"):
        stock, ours = results["stock"][key], results["phalanx"][key]
        print(f"{key}: {stock:.0f} -> {ours:.0f} s ({100 * (ours - stock) / stock:+.1f} %)")
    for problem in problems:
        print(f"FAIL {problem}", flush=True)
    return problems


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--bench", type=int, metavar="JOBS", help="measure a list of so many jobs")
    parser.add_argument("--whole", type=int, default=100, help="gangs of each kind in --bench")


def main():
    """Runs the cases, or measures; returns the exit status."""
    args = command_line(__doc__, case, options)
    if not args.bench:
        return run(args, {"types": setting, "leaves": on_leaves, "weights": by_weight})
    with directory(args) as root:
        return 1 if bench(root, args.bench, args.whole) else 0


if __name__ == "__main__":
    sys.exit(main())
