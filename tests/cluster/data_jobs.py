#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data-parallel jobs with a real HDFS: do they run where their blocks are, and read every byte?

A cluster of 12 nodes, and an HDFS whose DataNodes have the nodes' names. Jobs declare their
input in the comment. Each task tells which ranges it was given; it asks the NameNode itself
which DataNodes hold them and reads the data, so that shares of local bytes are measured by the
tasks. Checked: jobs land on the nodes that hold their blocks and read at least 95 % locally, twice
what the same job reads on stock Slurm; every byte is read exactly once whatever the tasks; a
DataNode that died, wrong declarations, files that are not there and a NameNode that is dead or
silent hold no job up, and both `explain` and the job's comment tell. With --demo a word count
beside stock is printed instead.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

from data_suite import (BIG, BLOCK, COUNT, HOLDERS, HUGE, LOCAL_MIN, PATIENT, STRANGER,
                        file_system, started)
from slurmcluster import ClusterError
from slurmcluster.clock import CLOCK
from slurmcluster.jobs import seconds
from slurmcluster.nodes import expand_hostlist
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.shipped import shipped_config
from slurmcluster.suite import Cases, command_line, directory, run

case = Cases()
# Longest wait for the answer of a NameNode that is lost.
LOST_WAIT_S = 4


@case
def lands_on_holders(suite):
    """16 blocks on each of 4 of 12 nodes: the job runs there, at least twice stock's share"""
    size = {f"/data/even/f{i}": 16 * BLOCK for i in range(4)}
    record, share, stock = suite.near("64 blocks on 4 nodes", "/data/even", "-N4", "-n8",
                                      size=size, tasks=8)
    suite.expect(sorted(expand_hostlist(record["NodeList"])) == sorted(HOLDERS),
                 f"on {record['NodeList']}, blocks on {HOLDERS}")
    suite.expect(share >= 2 * stock, f"{share} against stock's {stock}")
    # The number of nodes left open.
    suite.near("nodes left open", "/data/even", "-n8", "--mem-per-cpu=10", size=size, tasks=8)


@case
def scattered(suite):
    """Blocks anywhere, replication 1 and 3, skewed"""
    suite.near("96 blocks on 12 nodes, replication 1", "/data/wide", "-N12", "-n24",
               size={"/data/wide": 96 * BLOCK}, tasks=24)
    suite.near("72 blocks, replication 3", "/data/three", "-N8", "-n16",
               size={"/data/three": 72 * BLOCK}, tasks=16)
    sizes = {f"/data/skew/f{i}": n * BLOCK for i, n in enumerate((40, 10, 6, 4))}
    suite.near("skewed, 4 files", "/data/skew", "-N4", "-n4", size=sizes, tasks=4)


@case
def any_tasks(suite):
    """Every byte once: few tasks, many, part of the nodes, splits by number and size, an array"""
    size = {"/data/one": 64 * BLOCK}
    suite.run("/data/one", "-N1", "-n1", command="TASK", size=size, tasks=1)
    suite.run("/data/one", "-N3", "-n7", size=size, tasks=7)
    suite.run("/data/one;split=5", "-N4", "-n8", size=size, tasks=8)
    suite.run("/data/one;split=100K;locality=off", "-N2", "-n2", size=size, tasks=2)
    suite.run("/data/one", "-N4", "-n8", command="srun -N2 -n3 TASK", size=size, tasks=3)
    suite.run("/data/one", "-N4", "-n8", command="srun -n8 -m cyclic TASK", size=size, tasks=8)
    job, out = suite.submit("/data/one", "-N1", "-n1", "--array=1-7:2", command="TASK")
    suite.cluster.wait_jobs([job], timeout=60)
    suite.covers(suite.rows(out), size, "array")
    # Each element reads a sixth: the first four what n5 holds, then n8, then n9 and n11.
    sizes = {f"/data/skew/f{i}": n * BLOCK for i, n in enumerate((40, 10, 6, 4))}
    job, out = suite.submit("/data/skew", "-N1", "-n1", "--array=0-5", command="TASK; sleep 1")
    suite.cluster.wait_jobs([job], timeout=60)
    rows = suite.rows(out)
    suite.covers(rows, sizes, "skewed array")
    share = suite.share(rows)
    print(f"    array of 6 over 40 + 10 + 6 + 4 blocks: {100 * share:.1f} % local, 93.3 % can be",
          flush=True)
    suite.expect(share >= 0.9, f"skewed array: {share} local")


@case
def environment_is_set(suite):
    """Tasks have the names of Hadoop Streaming; `splits` prints and runs; the map is private"""
    out = os.path.join(suite.root, "env")
    os.makedirs(out)
    wrap = (f"export PHALANX={suite.program} PHALANX_JOBS_DIR={suite.root}/jobs; "
            f"srun sh -c 'env > {out}/env-$SLURM_PROCID; "
            f"$PHALANX data splits --dir $PHALANX_JOBS_DIR > {out}/all;"
            f"$PHALANX data splits --dir $PHALANX_JOBS_DIR --task $SLURM_PROCID "
            f"> {out}/rows-$SLURM_PROCID;"
            f"$PHALANX data splits --dir $PHALANX_JOBS_DIR -- sh -c "
            f"\"echo \\$mapreduce_map_input_start\" > {out}/run-$SLURM_PROCID; "
            f"stat -c %a:%u $PHALANX_BLOCK_MAP > {out}/mode'")
    job = suite.cluster.submit("-t1", "-N4", "-n4", "--comment=hdfs-input=/data/one;split=4",
                               wrap=wrap)
    suite.cluster.wait_jobs([job], timeout=60)
    for task in range(4):
        lines = open(f"{out}/env-{task}", encoding="utf-8").read().splitlines()
        env = dict(line.split("=", 1) for line in lines if "=" in line)
        rows = [line.split("\t") for line in open(f"{out}/rows-{task}", encoding="utf-8")]
        count = env.get("PHALANX_SPLIT_COUNT")
        if not suite.expect(count == str(len(rows)) and rows, f"task {task}: {count}, {rows} of "
                            + open(f"{out}/all", encoding="utf-8").read()):
            continue
        given = [env.get(f"mapreduce_map_input_{n}") for n in ("file", "start", "length")]
        suite.expect(given == rows[0][2:5], f"task {task}: {given}, {rows[0]}")
        ran = open(f"{out}/run-{task}", encoding="utf-8").read().split()
        suite.expect(ran == [row[3] for row in rows], f"task {task}: ran {ran}")
    mode = open(f"{out}/mode", encoding="utf-8").read().strip()
    suite.expect(mode == f"400:{os.getuid()}", f"plan file {mode}")


@case
def told_to_users(suite):
    """Wrong declarations, missing files: the job runs, comment and explain say what is wrong"""
    for declared, says in (("/data/none", "no such file"), ("/data/one;split=x", "expected block"),
                           ("hdfs://elsewhere:8020/x", "not among the NameNodes")):
        job = suite.cluster.submit("-t1", "-n1", f"--comment=mine;hdfs-input={declared}",
                                   wrap="sleep 3")
        record = suite.cluster.wait_jobs([job], timeout=40)[0]
        suite.expect(record["JobState"] == "COMPLETED", f"{declared}: {record['JobState']}")
        record = suite.cluster.job(job)
        suite.expect(says in record.get("Comment", "") and "mine" in record.get("Comment", ""),
                     f"{declared}: comment {record.get('Comment')}")
        note = phalanx_json(suite.cluster, "explain", str(job))["input"] or {}
        suite.expect(says in (note.get("error") or ""), f"{declared}: explain {note}")
    # Half of it lies on a host that is no node of Slurm.
    size = {"/data/away/f0": BLOCK, "/data/away/f1": BLOCK}
    record, rows, explained = suite.run("/data/away", "-N1", "-n1", command="TASK; sleep 2",
                                        size=size, tasks=1)
    suite.expect(record["NodeList"] == "n9" and suite.share(rows) == 0.5,
                 f"half unmapped: on {record['NodeList']}, {suite.share(rows)} local")
    suite.expect(explained["input"]["unmapped"] == [STRANGER], f"{explained['input']}")
    comment = suite.cluster.job(int(record["JobId"])).get("Comment", "")
    suite.expect(f"no Slurm nodes: {STRANGER}" in comment, f"unmapped: comment {comment}")
    checked = phalanx(suite.cluster, "data", "check", "--conf-dir", str(suite.hdfs.conf),
                      check=False)
    suite.expect(checked.returncode == 1 and "1 UNMAPPED" in checked.stdout, f"check: {checked}")


@case
def other_ways(suite):
    """#HDFS in the script, HDFS_INPUT, --hdfs-input: lifted into AdminComment by job_submit.lua"""
    script = "#!/bin/sh\n#SBATCH -t1\n#HDFS input=/data/one;split=8\nsleep 1\n"
    jobs = {suite.cluster.submit("-N4", script=script): "/data/one;split=8",
            suite.cluster.submit("-N4", "-t1", "--export=ALL,HDFS_INPUT=/data/one",
                                 wrap="sleep 1"): "/data/one",
            suite.cluster.submit("-N4", "-t1", "--hdfs-input=/data/one;recursive",
                                 wrap="sleep 1"): "/data/one;recursive"}
    for record in suite.cluster.wait_jobs(list(jobs), timeout=60):
        declared = jobs[int(record["JobId"])]
        suite.expect(record.get("AdminComment") == f"hdfs-input={declared}",
                     f"{declared}: {record.get('AdminComment')}")
        suite.expect(sorted(expand_hostlist(record["NodeList"])) == sorted(HOLDERS),
                     f"{declared}: on {record['NodeList']}")
    try:
        suite.cluster.submit("-N1", "-t1", "--hdfs-input=/data/one;split=x", wrap="true")
        suite.expect(False, "a wrong declaration was taken")
    except ClusterError as error:
        suite.expect("expected split=block" in str(error), f"refused without a word: {error}")


@case
def many_at_once(suite):
    """Jobs beyond the room on their nodes: all run, planned together"""
    jobs = [suite.submit("/data/one", "-N2", "-n8", command="srun TASK; sleep 1")[0]
            for _ in range(8)]
    suite.until(lambda: "data_jobs" in {method["method"] for method in phalanx_json(
        suite.cluster, "plan")["methods"]}, "a plan that names data_jobs")
    records = suite.cluster.wait_jobs(jobs, timeout=90)
    suite.expect(all(r["JobState"] == "COMPLETED" for r in records), "not all completed")


@case
def learning(suite):
    """Runs of one class on 1, 2, 4 and 8 CPUs, at 0.25 MB/s a core and less the more there are"""
    suite.learning = []
    for cpus, nodes in ((1, 1), (2, 1), (4, 1), (8, 2)):
        # 4 MiB, and Amdahl's form with beta 0.25.
        seconds = 16 * (1 + 0.25 * (cpus - 1)) / cpus
        suite.learning.append(suite.cluster.submit(
            "-t1", "-J", "learnt", f"-N{nodes}", f"-n{cpus}", "-x", ",".join(HOLDERS),
            "--comment=hdfs-input=/data/one;locality=off", wrap=f"sleep {seconds}"))


@case
def from_other_hosts(suite):
    """Over TCP with MUNGE: own maps only; what is down, silent or refuses holds nothing up"""
    job = suite.cluster.submit("-t1", "-N2", "-n4", "--comment=hdfs-input=/data/one",
                               wrap="sleep 8")
    suite.cluster.wait_jobs([job], states=("RUNNING",))
    away = f"{suite.root}/none"
    ask = ["data", "splits", "--job", str(job), "--dir", away]

    def run(masters, *argv, **how):
        begun = CLOCK.now()
        env = {"PATH": os.environ["PATH"], "PHALANX_MASTER": masters}
        done = subprocess.run([suite.program, *argv], env=env, capture_output=True, text=True,
                              timeout=30, check=False, **how)
        return done, CLOCK.now() - begun

    done, _ = run(suite.masters, *ask)
    suite.expect(len(done.stdout.splitlines()) == 64, f"own map: {done.stderr}{done.stdout[-300:]}")
    done, _ = run("", *ask, "--master", suite.masters.split(",")[1])
    suite.expect(len(done.stdout.splitlines()) == 64, f"--master: {done.stderr}")
    if os.getuid() == 0:
        done, _ = run(suite.masters, *ask, user="nobody", cwd="/")
        suite.expect(done.returncode == 1 and not done.stdout
                     and "is for its user" in done.stderr, f"of another user: {done}")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        mute = f"http://127.0.0.1:{silent.getsockname()[1]}"
        down = suite.masters.split(",")[0]
        for masters, says in ((down, "refused"), (mute, "no answer"), ("http://:1", "http"),
                              ("head:6820", "expected http://HOST")):
            done, took = run(masters, *ask, "--install")
            suite.expect(done.returncode == 0 and took < 9 and says in done.stderr
                         and not os.path.exists(away), f"{masters}: {took:.1f} s, {done}")
    with_it = suite.cluster.submit("-t1", "-N1", wrap="true")
    record = suite.cluster.wait_jobs([job, with_it], timeout=60)[0]
    suite.expect(record["JobState"] == "COMPLETED", f"{record['JobState']}")


@case(needs=["learning"])
def learned(suite):
    """What those runs teach is in the next plan: speed, form and its parameter, expected time"""
    suite.cluster.wait_jobs(suite.learning, timeout=60)
    end = CLOCK.now() + 15
    runs, note = 0, {}
    while runs < 4 and CLOCK.now() < end:
        job = suite.cluster.submit("-t1", "-J", "learnt_2", "-N1", "-n4", "--comment="
                                   "hdfs-input=/data/one", wrap="sleep 60")
        suite.cluster.wait_jobs([job], states=("RUNNING",), timeout=30)
        note = phalanx_json(suite.cluster, "explain", str(job))["input"] or {}
        told = phalanx(suite.cluster, "explain", "--verbose", str(job)).stdout
        # One that was stopped teaches nothing.
        suite.cluster.run("scancel", str(job))
        runs = note.get("speed_runs", 0)
        time.sleep(0.5)
    form, value = (note.get("attenuation", "") + " beta=0").split(" beta=")[:2]
    speed, beta = note.get("speed_mb_per_s", 0), float(value.split()[0])
    took = ((note.get("end_ms") or 0) - (note.get("start_ms") or 0)) / 1000
    print(f"    {speed:.3f} MB/s a core, {note.get('attenuation')}, {runs} runs, "
          f"4 CPUs expected to take {took:.1f} s", flush=True)
    suite.expect(runs == 4 and form == "amdahl", f"{note}")
    suite.expect(0.2 < speed < 0.3 and 0.15 < beta < 0.4, f"{speed} {beta}")
    suite.expect(5 < took < 10, f"4 CPUs: expected {took} s, should be about 7")
    suite.expect("amdahl beta=" in told, f"explain: {told}")


@case
def required(suite):
    """locality=require waits for the nodes of its input, but not for ever, nor where none are"""
    def block(seconds):
        job = suite.cluster.submit("-t1", "-p", "stock", "-N4", "--exclusive", "-w",
                                   ",".join(HOLDERS), wrap=f"sleep {seconds}")
        suite.cluster.wait_jobs([job], states=("RUNNING",))
        return job

    block(8)
    job, out = suite.submit("/data/one;locality=require", "-N4", "-n8")
    near, _ = suite.submit("/data/one;locality=prefer", "-N4", "-n8")
    suite.cluster.wait_jobs([near], timeout=20)
    waits = suite.cluster.job(job)
    suite.expect(waits["JobState"] == "PENDING", f"did not wait: {waits['JobState']}")
    told = phalanx(suite.cluster, "explain", "--verbose", str(job)).stdout
    suite.expect("waits at most 600 s" in told and "Planned local" in told,
                 f"explain of the waiting: {told}")
    record = suite.cluster.wait_jobs([job], timeout=60)[0]
    suite.expect(record["JobState"] == "COMPLETED"
                 and sorted(expand_hostlist(record["NodeList"])) == sorted(HOLDERS),
                 f"after the wait: {record['JobState']} on {record['NodeList']}")
    rows = suite.rows(out)
    suite.expect(rows and suite.share(rows) == 1.0, f"local after the wait: {suite.share(rows)}")
    with suite.settings("[data_jobs]", "[planner]\nhold_max_s = 2\n[data_jobs]"):
        blocker = block(30)
        job, _ = suite.submit("/data/one;locality=require", "-N4", "-n8", command="true")
        # Its only block lies on a host that is no node.
        none, _ = suite.submit("/data/away/f1;locality=require", "-N1", "-n1", command="true")
        records = suite.cluster.wait_jobs([job, none], timeout=20)
        suite.cluster.run("scancel", str(blocker))
    suite.expect(all(r["JobState"] == "COMPLETED" for r in records)
                 and not set(HOLDERS) & set(expand_hostlist(records[0]["NodeList"])),
                 f"after planner.hold_max_s: {[(r['JobState'], r['NodeList']) for r in records]}")
    suite.cluster.wait_jobs([blocker], timeout=20)


@case
def hundred_thousand_blocks(suite):
    """One file of 100,000 blocks, 3 replicas: placed, mapped, readable; limits named when over"""
    suite.hdfs.tool("claim /huge 3 " + suite.hdfs.datanode(*BIG))
    out = f"{suite.root}/huge"
    splits = f"{suite.program} data splits --dir {suite.root}/jobs"
    begun = time.monotonic()
    job = suite.cluster.submit("-t2", f"-N{len(BIG)}", f"-n{2 * len(BIG)}",
                               "--comment=hdfs-input=/huge", wrap=(
                                   f"{splits} > {out}; srun sh -c '{splits} --mine | wc -l > "
                                   f"{out}-$SLURM_PROCID'"))
    record = suite.cluster.wait_jobs([job], timeout=90)[0]
    took = time.monotonic() - begun
    note = phalanx_json(suite.cluster, "explain", str(job))["input"] or {}
    print(f"    ended after {took:.1f} s on {record['NodeList']}, "
          f"{100 * (note.get('local_share') or 0):.2f} % local", flush=True)
    suite.expect(record["JobState"] == "COMPLETED" and note.get("blocks") == HUGE, f"{note}")
    suite.expect(sorted(expand_hostlist(record["NodeList"])) == sorted(BIG), record["NodeList"])
    suite.expect((note.get("local_share") or 0) >= LOCAL_MIN, f"local: {note.get('local_share')}")
    with open(out, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    ends = 0
    for row in rows:
        suite.expect(int(row[3]) == ends, f"at {ends}: {row}") if int(row[3]) != ends else None
        ends = int(row[3]) + int(row[4])
    suite.expect(len(rows) == HUGE and ends == HUGE * 1024, f"{len(rows)} rows, {ends} bytes")
    counts = [int(open(f"{out}-{task}", encoding="utf-8").read()) for task in range(2 * len(BIG))]
    suite.expect(sum(counts) == HUGE and max(counts) - min(counts) < 0.02 * HUGE, f"{counts}")
    with open(os.path.join(suite.cluster.paths.log, "phalanxd.out"), encoding="utf-8") as file:
        log = file.read()
    for says in (f"job {job}: input /huge: 1 files, {HUGE} blocks",
                 f"job {job}: block map of {HUGE} splits"):
        suite.expect(says in log, f"the log has no {says!r}")
    with suite.settings("job_ms = 50000", "job_ms = 100"):
        job = suite.cluster.submit("-t1", "-N1", "--comment=hdfs-input=/huge;split=7",
                                   wrap="sleep 2")
        record = suite.cluster.wait_jobs([job], timeout=60)[0]
        note = phalanx_json(suite.cluster, "explain", str(job))["input"] or {}
    suite.expect(record["JobState"] == "COMPLETED" and "(hdfs.job_ms)" in (note.get("error") or ""),
                 f"over the limit: {record['JobState']}, {note}")


@case
def datanode_dies(suite):
    """A DataNode stops: what only it held is told, what others hold too is read there"""
    suite.hdfs.kill("n8")
    # It first counts as dead, then its replicas are taken from the NameNode's tables.
    suite.hdfs.wait(lambda: (suite.hdfs.bean("nn1", "FSNamesystem") or {}).get("MissingBlocks"),
                    "missing blocks")
    size = {"/data/three": 72 * BLOCK}
    _, rows, explained = suite.run("/data/three;split=block;locality=prefer", "-N10", "-n10",
                                   size=size, tasks=10)
    suite.expect(suite.share(rows) >= LOCAL_MIN, f"replication 3: {suite.share(rows)}")
    record, rows, explained = suite.run("/data/three", "-N8", "-n16", size=size, tasks=16)
    print(f"    8 of 11 nodes: {100 * suite.share(rows):.1f} % local on {record['NodeList']}, "
          f"planned {explained['input'].get('nodes')}", flush=True)
    suite.expect(suite.share(rows) >= LOCAL_MIN, f"8 of 11 nodes: {suite.share(rows)}")
    job = suite.cluster.submit("-t1", "-N4", "--comment=hdfs-input=/data/one;recursive",
                               wrap="sleep 4")
    record = suite.cluster.wait_jobs([job], timeout=60)[0]
    suite.expect(record["JobState"] == "COMPLETED", f"replication 1: {record['JobState']}")
    note = phalanx_json(suite.cluster, "explain", str(job))["input"] or {}
    suite.expect(note.get("unreadable", 0) > 0, f"explain tells of no unreadable block: {note}")
    suite.expect("cannot be read" in suite.cluster.job(job).get("Comment", ""), "comment")


@case
def namenode_dies(suite):
    """A silent NameNode, then a dead one: jobs start within `wait_ms` + 2 s, and are told"""
    with suite.settings("wait_ms = 60000", f"wait_ms = {LOST_WAIT_S}000"):
        namenode_lost(suite)


@case
def gate_dies(suite):
    """A gate that is gone, hangs or lies costs the input: the job starts, and is told"""
    cluster = suite.cluster
    place = os.path.join(cluster.paths.run, "gate.sock")

    def without(at, says):
        job = cluster.submit("-t1", "-N1", f"--comment=hdfs-input=/data/one/{at}", wrap="sleep 2")
        record = cluster.wait_jobs([job], timeout=60)[0]
        waited = seconds(record, "StartTime") - seconds(record, "SubmitTime")
        suite.expect(record["JobState"] == "COMPLETED" and waited <= LOST_WAIT_S + 3,
                     f"{at}: {record['JobState']}, waited {waited} s")
        note = phalanx_json(cluster, "explain", str(job))["input"] or {}
        suite.expect(says in (note.get("error") or ""), f"{at}: explain says {note}")

    with suite.settings("wait_ms = 60000", f"wait_ms = {LOST_WAIT_S}000"):
        cluster.stop_gate(kill=True)
        suite.until(lambda: phalanx_json(cluster, "status")["gate"] == 0, "no gate")
        without("gone", "is the service phalanx-gate running?")
        with contextlib.ExitStack() as open_until_then:
            # One of them is asked to listen.
            liars = [open_until_then.enter_context(socket.socket(socket.AF_UNIX)) for _ in "12"]
            for liar in liars:
                liar.connect(place)
            suite.until(lambda: phalanx_json(cluster, "status")["gate"] == 1, "a gate")
            for liar in liars:
                liar.sendall(b"\xff\xff\xff\xff" * 1000)
            suite.until(lambda: phalanx_json(cluster, "status")["gate"] == 0, "it is sent away")
            if os.getuid() == 0:
                stranger = subprocess.run(
                    ["python3", "-c", "import socket, sys; s = socket.socket(socket.AF_UNIX); "
                     f"s.connect('{place}'); s.settimeout(5); sys.exit(len(s.recv(1)))"],
                    user="nobody", cwd="/", check=False)
                suite.expect(stranger.returncode == 0, "nobody is not sent away")
        cluster.start_gate()
        suite.until(lambda: phalanx_json(cluster, "status")["gate"] == 3, "the gate")
        cluster.process("phalanx-gate").signal(signal.SIGSTOP)
        with suite.settings(PATIENT, "job_ms = 2000"):
            without("hangs", "phalanx-gate: no answer in time")
        cluster.process("phalanx-gate").signal(signal.SIGCONT)
        without("back", "no such file")


case(shipped_config)


def namenode_lost(suite):
    """What jobs meet that wait for it, six at a time: by Slurm's stamps, which are of seconds."""
    nn = suite.hdfs.processes["nn1"]
    for number, says in ((signal.SIGSTOP, "no answer"), (signal.SIGKILL, "refused")):
        nn.send_signal(number)
        lost = CLOCK.lost()
        jobs = [suite.cluster.submit("-t1", "-N2", f"--comment=hdfs-input=/data/{number}/{at}",
                                     wrap="hostname") for at in range(6)]
        records = suite.cluster.wait_jobs(jobs, timeout=60)
        waits = [seconds(r, "StartTime") - seconds(r, "SubmitTime") for r in records]
        lost = CLOCK.lost() - lost
        print(f"    {number.name}: waited {waits} s, of which the machine lost {lost:.1f}",
              flush=True)
        states = {record["JobState"] for record in records}
        suite.expect(states == {"COMPLETED"}, f"{number.name}: {states}")
        suite.expect(max(waits) <= LOST_WAIT_S + 3 + lost, f"{number.name}: waited {waits} s")
        job = jobs[-1]
        suite.until(lambda job=job: (phalanx_json(suite.cluster, "explain", str(job))["input"]
                                     or {}).get("error"),
                    f"{number.name}: explain says what is wrong ({says})", 15)


def demo(root):
    """A word count over blocks, on stock Slurm and on Phalanx; the number of problems."""
    with started(root, file_system(root)) as suite:
        print(f"Word count of a file of 64 blocks on 4 of {COUNT} nodes, 8 tasks on 4 nodes")
        size = {"/data/one": 64 * BLOCK}
        for name, stock in (("stock", True), ("phalanx", False)):
            record, rows, _ = suite.run("/data/one", "-N4", "-n8", stock=stock, size=size,
                                        tasks=8, words=True)
            local = sum(row["length"] for row in rows if row["local"])
            remote = sum(row["length"] for row in rows) - local
            words = sum(row["words"] for row in rows)
            print(f"{name:8} on {record['NodeList']:12} {words} words, {local:9} bytes read "
                  f"locally, {remote:9} from other nodes")
        for problem in suite.problems:
            print(problem)
        return len(suite.problems)


@contextlib.contextmanager
def setting(root, _args):
    """HDFS with a huge file, and the cluster."""
    begun = time.monotonic()
    hdfs = file_system(root, namenode_mb=384, image={"huge": (HUGE, 1024, 3)})
    with started(root, hdfs) as suite:
        print(f"    HDFS of {COUNT} DataNodes, its files and the cluster after "
              f"{time.monotonic() - begun:.0f} s", flush=True)
        yield suite


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--demo", action="store_true", help="a word count beside stock")


def main():
    """Runs the cases, or shows the word count; returns the exit status."""
    args = command_line(__doc__, case, options)
    if not args.demo:
        return run(args, setting)
    with directory(args) as root:
        return 1 if demo(root) else 0


if __name__ == "__main__":
    sys.exit(main())
