#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of judge_history on small histories: each rule is seen to find what breaks it."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys

from slurmcluster.suite import Cases, Suite, check, command_line, run

HERE = os.path.dirname(os.path.abspath(__file__))
CONF = """\
SlurmctldLogFile={root}/log
JobCompLoc={root}/completions
SelectTypeParameters=CR_Core_Memory
TopologyPlugin=topology/tree
NodeName=DEFAULT CPUs=4 RealMemory=8000 Feature=x
NodeName=n[1-4] Weight=10
NodeName=n[5-6] Weight=20
NodeName=g[1-2] Weight=50 Gres=gpu:a100:2 Feature=y
PartitionName=main Nodes=ALL Default=YES
"""
TOPOLOGY = "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\nSwitchName=s3 Nodes=n[5-6]\n" \
           "SwitchName=s4 Nodes=g[1-2]\nSwitchName=top Switches=s[1-4]\n"
TABLES = """\
CREATE TABLE decisions (decision, nodes, verdict, outcome_ms, outcome_reason);
CREATE TABLE placements (seq INTEGER PRIMARY KEY, job_id, nodes, decision);
CREATE TABLE runs (job_id, nodes, placed_by, source);
"""
case = Cases()


class Told(Suite):
    """What Slurm and phalanxd wrote, to be spoilt and judged."""

    def __init__(self, root):
        super().__init__()
        self.root, self.lines, self.ends, self.answers, self.options = root, [], [], [], []
        self.rows, self.explained = [], []

    @contextlib.contextmanager
    def around(self, case):
        """Each case begins with an idle cluster."""
        self.__init__(self.root)    # pylint: disable=unnecessary-dunder-call
        self.log(0, "slurmctld version 22.05.8 started on cluster c")
        yield

    # --- what is written

    def log(self, at, text):
        """A line of slurmctld."""
        self.lines.append((at, f"[{stamp(at)}.000] {text}"))

    def job(self, job, nodes, begin, end=None, cpus=1, submit=None, name=None, **more):
        """A job from its submission to its end; `more`: TRES, and `how` it is named in the log."""
        how, name = more.pop("how", str(job)), name or f"j{job}"
        submit = begin - 1 if submit is None else submit
        if how == str(job):
            self.log(submit, f"_slurm_rpc_submit_batch_job: JobId={job} InitPrio=1 usec=500")
        self.log(begin, f"sched: Allocate JobId={how} NodeList={nodes} #CPUs={cpus} Partition=main")
        if end is not None:
            self.log(end, f"_job_complete: JobId={how} done")
            self.completed(job, nodes, begin, end, cpus, submit, name, **more)

    def completed(self, job, nodes, begin, end, cpus, submit, name, mem=500, count=None):
        """What jobcomp/filetxt writes of it."""
        self.ends.append(
            f"JobId={job} Name={name} JobState=COMPLETED Partition=main StartTime={stamp(begin)} "
            f"EndTime={stamp(end)} NodeList={nodes} NodeCnt={count or how_many(nodes)} "
            f"Tres=cpu={cpus},mem={mem}M,node=1 SubmitTime={stamp(submit)}")

    def answer(self, job, nodes, state, begin, *detail, **more):
        """What `scontrol -o -d show job` said of a job."""
        words = " ".join(f"{key}={value}" for key, value in more.items())
        self.answers.append(f"JobId={job} JobState={state} StartTime={stamp(begin)} Partition=main "
                            f"NodeList={nodes} {words} {' '.join(detail)}")

    def decided(self, job, nodes, decided, placed_by="balance"):
        """What phalanxd keeps of a start."""
        self.rows += [("INSERT INTO decisions VALUES (?, ?, 'narrow', 1, NULL)", (job, decided)),
                      ("INSERT INTO placements VALUES (NULL, ?, ?, ?)", (job, nodes, job)),
                      ("INSERT INTO runs VALUES (?, ?, ?, 'live')", (job, nodes, placed_by))]

    # --- and judged

    def write(self, name, text):
        """One file; its path."""
        path = os.path.join(self.root, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def judged(self, conf=CONF):
        """({rule: its line}, exit status) of the program."""
        self.write("log", "\n".join(line for _, line in sorted(self.lines, key=lambda x: x[0])))
        self.write("completions", "\n".join(self.ends) + "\n")
        self.write("topology.conf", TOPOLOGY)
        words = ["--conf", self.write("slurm.conf", conf.format(root=self.root))]
        if self.answers:
            words += ["--jobs", self.write("jobs", "# 1\n" + "\n".join(self.answers) + "\n")]
        database = os.path.join(self.root, "history.sqlite")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(database)
        with contextlib.closing(sqlite3.connect(database)) as opened:
            opened.executescript(TABLES)
            for sql, values in self.rows:
                opened.execute(sql, values)
            opened.commit()
        words += ["--history", database]
        if self.explained:
            words += ["--explained", self.write("explained", "\n".join(self.explained))]
        done = subprocess.run([sys.executable, os.path.join(HERE, "judge_history.py"), *words,
                               *self.options], capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        return {line.split()[0]: line for line in lines if line[:1].strip()}, done

    def breaks(self, rule, *words, count=1):
        """This rule is broken, so often, and no other; the words are said."""
        lines, done = self.judged()
        said = done.stdout + done.stderr
        self.expect(done.returncode == 1, f"exit {done.returncode}: {said}")
        broken = [name for name, line in lines.items() if "BROKEN" in line and name != "judged:"]
        self.expect(broken == [rule], f"broken {broken}, not {rule}: {said}")
        self.expect(f" {count} of " in lines.get(rule, ""), f"not {count} times: {said}")
        for word in words:
            self.expect(word in said, f"{word!r} is not said: {said}")

    def fine(self, *words):
        """No rule is broken; these lines are there."""
        _, done = self.judged()
        self.expect(done.returncode == 0, f"exit {done.returncode}: {done.stdout}{done.stderr}")
        for word in words:
            self.expect(word in " ".join(done.stdout.split()), f"{word!r}: {done.stdout}")


def stamp(at):
    """The time at that second."""
    return f"2026-11-27T04:{at // 60:02}:{at % 60:02}"


def how_many(nodes):
    """The nodes of a list in which at most one range is."""
    if "[" not in nodes:
        return len(nodes.split(","))
    first, last = nodes.split("[")[1].rstrip("]").split("-")
    return int(last) - int(first) + 1


@case
def nothing_wrong(told):
    """A history in which all is well: every rule has something to judge"""
    told.job(1, "n1", 10, 20, cpus=4)
    told.job(2, "n1", 20, 30, cpus=4)       # in the second of the first one's end, after it
    told.job(3, "n[3-4]", 12, 40, cpus=8)
    told.job(4, "n2", 14, 20, how="4+0(4)")
    told.job(5, "n2", 14, 20, how="4+1(5)")
    told.answer(3, "n[3-4]", "RUNNING", 12, "Nodes=n[3-4] CPU_IDs=0-3 Mem=500 GRES=")
    told.decided(3, "n[3-4]", "n[3-4]")
    told.decided(1, "n1", "n2", "stock")
    told.explained.append(json.dumps({"job_id": 3, "placed": {
        "by_phalanx": True, "nodes": "n[3-4]", "decision": {"nodes": "n3,n4"}}}))
    told.fine("twice ok 0 of 5", "whole ok 0 of 5", "up ok 0 of 5", "lost ok 0 of 5", "waits ok 0",
              "decided ok 0 of 3", "weights ok 0 of 5", "leaves ok 0 of 1", "judged: ok")


@case
def cpus_twice(told):
    """More CPUs of a node than it has"""
    told.job(1, "n1", 10, 20, cpus=3)
    told.job(2, "n1", 15, 25, cpus=2)
    told.breaks("twice", "n1: 5 of 4 cpu used by jobs 1,2")


@case
def memory_twice(told):
    """More memory of a node than it has"""
    told.job(1, "n1", 10, 20, mem=5000)
    told.job(2, "n1", 15, 25, mem=5000)
    told.breaks("twice", "10000 of 8000 mem")


@case
def gres_twice(told):
    """More GPUs than a node has, and one of them by two jobs"""
    for job in (1, 2):
        told.job(job, "g1", 8 + job, 20)
        told.answer(job, "g1", "RUNNING", 8 + job,
                    f"Nodes=g1 CPU_IDs={job} Mem=500 GRES=gpu:a100:1(IDX:0)")
    told.breaks("twice", "('gpu', '0')")
    told.answers[1] = told.answers[1].replace("a100:1(IDX:0)", "a100:2(IDX:0-1)")
    told.breaks("twice", "3 of 2 gres/gpu", count=2)


@case
def cores_twice(told):
    """One core by two jobs, although their number would do"""
    for job in (1, 2):
        told.job(job, "n1", 8 + job, 20, cpus=2)
        told.answer(job, "n1", "RUNNING", 8 + job, f"Nodes=n1 CPU_IDs={job}-{job + 1} Mem=5 GRES=")
    told.breaks("twice", "['2'] (ids) of jobs 1 and 2")


@case
def several_nodes_twice(told):
    """Two jobs of several nodes, of which nobody said how much of each they have"""
    told.job(1, "n[1-2]", 10, 20, cpus=5)
    told.job(2, "n[1-2]", 15, 25, cpus=4)
    told.breaks("twice", "n1,n2: 9 of 8 cpu")


@case
def while_it_runs(told):
    """A job that begins anew while it runs; after a restart of slurmctld it may"""
    told.job(1, "n1", 10)
    told.log(15, "sched: Allocate JobId=1 NodeList=n2 #CPUs=1 Partition=main")
    told.log(20, "_job_complete: JobId=1 done")
    told.breaks("twice", "job 1 begins on n2 while it runs")
    told.log(13, "slurmctld version 22.05.8 started on cluster c")
    told.fine()


@case
def part_of_a_gang(told):
    """A job that begins on fewer nodes than it asked for, or ends on others"""
    told.job(1, "n[1-2]", 10, 20, cpus=2)
    told.lines = [(at, line.replace("NodeList=n[1-2]", "NodeList=n1")) for at, line in told.lines]
    told.breaks("whole", "job 1 begins on n1, ends on n[1-2]")
    told.ends.clear()
    told.answer(1, "(null)", "PENDING", 30, NumNodes="2-2")
    told.answers.append(told.answers[0].replace("PENDING", "COMPLETED"))
    told.breaks("whole", "job 1 begins on 1 of 2 nodes")


@case
def part_of_a_het_job(told):
    """Components that do not begin together, or of which one is missing"""
    told.job(1, "n1", 10, 60, how="1+0(1)")
    told.job(2, "n2", 40, 60, how="1+1(2)")
    told.breaks("whole", "het job 1: components [] missing, begins 30.0 s apart")
    told.lines = [(at, line) for at, line in told.lines if "1+0(1)" not in line]
    told.breaks("whole", "components [0] missing")


@case
def on_a_node_that_is_down(told):
    """A start on a node that Slurm took out, until it is back"""
    told.log(5, "update_node: node n1 state set to DOWN")
    told.job(1, "n1", 10, 20)
    told.breaks("up", "job 1 begins on n1, which is down")
    told.log(8, "update_node: node n1 state set to IDLE")
    told.fine()


@case
def a_lost_job(told):
    """A job without an end; one that ends twice; too few of a name"""
    told.job(1, "n1", 10, 20)
    told.log(12, "_slurm_rpc_submit_batch_job: JobId=2 InitPrio=1 usec=500")
    told.breaks("lost", "job 2 has no end and is not there")
    told.answer(2, "(null)", "PENDING", 0, NumNodes=1, Reason="Dependency")
    told.fine()
    told.ends.append(told.ends[0])
    told.breaks("lost", "job 1 of 2026-11-27T04:00:10 ended 2 times")
    told.ends.pop()
    told.options += ["--submitted", told.write("submitted", '{"j1": 3}')]
    told.breaks("lost", "j1: 1 of 3 COMPLETED")


@case
def lost_while_it_ran(told):
    """A job that began, is not in Slurm in the end, and of which no end was told"""
    told.job(1, "n1", 10)
    told.job(2, "n2", 10, 20)
    told.answer(2, "n2", "COMPLETED", 10)
    told.breaks("lost", "job 1 began, has no end and is not there")


@case
def long_waits(told):
    """A job that waits while its node lies idle: it begins late, or not at all"""
    told.job(1, "n1", 10, 20)
    told.job(2, "n1", 200, 210, submit=15)
    told.breaks("waits", "job 2 waited 180 s while n1 lay idle")
    told.options += ["--wait", "181"]
    told.fine("waits ok 0 of 2, longest 180 s")
    told.options.clear()
    told.job(3, "n2", 110, 190, submit=109)
    told.lines = [each for each in told.lines if "JobId=2 " not in each[1]]
    told.ends.pop(1)
    told.log(20, "_slurm_rpc_submit_batch_job: JobId=4 InitPrio=1 usec=500")
    told.answer(4, "(null)", "PENDING", 300, NumNodes="8-8", TRES="cpu=4,mem=500M",
                Reason="Resources", SubmitTime=stamp(20))
    told.fine()     # n2 is completing: it holds the job for no time yet
    told.log(230, "error: something else")
    told.fine("longest 40 s")
    told.log(290, "error: something else")
    told.breaks("waits", "job 4 waited 100 s while nodes lay idle")


@case
def beside_stock(told):
    """What breaks a rule as often in stock Slurm's history is none of ours"""
    told.job(1, "n1", 10, 20, cpus=3)
    told.job(2, "n1", 15, 25, cpus=2)
    told.judged()
    told.options = ["--beside", told.write("stock.conf", CONF.format(root=told.root))]
    told.fine("twice ok 1 of 2, stock 1 of 2")
    log = told.write("stock.log", "")
    told.options = ["--beside", told.write("stock.conf", CONF.format(root=told.root).replace(
        f"{told.root}/log", log))]
    told.breaks("twice")


@case
def false_claims(told):
    """Nodes that are said to be as decided, and are not the job's, or were not decided"""
    told.job(1, "n1", 10, 20)
    told.decided(1, "n1", "n1")
    told.fine("decided ok 0 of 2")
    told.rows[2] = (told.rows[2][0], (1, "n2", "balance"))
    told.breaks("decided", "runs: job 1 on n2, Slurm began it on n1")
    told.rows.clear()
    told.decided(1, "n1", "n2")
    told.breaks("decided", "runs: job 1 on n1, decided was n2")
    told.rows.clear()
    told.explained.append(json.dumps({"job_id": 1, "placed": {
        "by_phalanx": True, "nodes": "n1", "decision": {"nodes": "n2"}}}))
    told.breaks("decided", "explain: job 1 on n1, decided was n2")


@case
def heavier_nodes(told):
    """Starts on a heavier node beside an idle lighter one that holds them are counted"""
    told.job(1, "n5", 10, 20)
    told.job(2, "g1", 12, 20)           # other features, and what it asked for is not known
    told.fine("weights ok 1 of 2", "job 1 begins on n5 (weight 20), idle: n1 (10)")
    told.options += ["--require", "weights"]
    told.breaks("weights")
    told.answer(2, "g1", "RUNNING", 12, "Nodes=g1 CPU_IDs=0 Mem=500 GRES=", Features="(null)")
    told.breaks("weights", "job 2 begins on g1", count=2)
    told.answers[0] = told.answers[0].replace("GRES=", "GRES=gpu:a100:1(IDX:0)")
    told.breaks("weights")              # no lighter node has a GPU
    told.answers[0] += " ReqNodeList=g1"
    told.answer(1, "n5", "RUNNING", 10, "Nodes=n5 CPU_IDs=0 Mem=500 GRES=", ReqNodeList="n5")
    told.fine("weights nothing to judge 0 of 0")


@case
def lighter_ones_in_use(told):
    """None is counted where the lighter ones are in use, or have just been given back"""
    told.options += ["--require", "weights"]
    for job in range(1, 5):
        told.job(job, f"n{job}", 10, 20 + 20 * (job // 4), cpus=1)
    told.job(5, "n5", 21, 30)
    told.fine("weights ok 0 of 5")
    told.job(6, "n5", 31, 50)
    told.breaks("weights", "idle: n1")


@case
def more_leaves(told):
    """Leaves beyond the fewest that idle nodes allow are counted"""
    told.job(1, "n2,n3", 10, 20, cpus=2)
    told.fine("leaves ok 1 of 1", "job 1 has 2 leaves, 1 would have held it")
    told.options += ["--require", "leaves"]
    told.breaks("leaves")
    told.job(2, "n1", 5, 30, cpus=4)
    told.job(3, "n4", 5, 30, cpus=4)
    told.job(4, "n[5-6]", 5, 30, cpus=8)
    told.fine("leaves ok 0 of 2")


@case
def what_cannot_be_read(told):
    """A file that is missing, or is none, is told, with exit 2"""
    told.judged()
    for words in (["--jobs", f"{told.root}/none"], ["--explained", f"{told.root}/log"],
                  ["--beside", f"{told.root}/none"]):
        told.options = words
        _, done = told.judged()
        check(done.returncode == 2 and "judge_history: " in done.stderr,
              f"{words}: exit {done.returncode} {done.stderr}")


@contextlib.contextmanager
def setting(root, _args):
    """A directory for the files."""
    yield Told(root)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
