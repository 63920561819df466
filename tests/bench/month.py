#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A month of accounting of an invented site, and its slurm.conf.

    tests/bench/month.py --jobs 20000 --load 0.95 DIR

writes DIR/month.sacct and DIR/slurm.conf: 336 nodes of 64 CPUs in partition cpu, 64 with 4 GPUs
in partition gpu, 120 users, a fifth of the jobs in arrays. The jobs start as they came, as if the
site had room for all: simulate the month for waits that can be, and --starts JOBS.csv, the
jobs.csv of such a simulation, writes the month as that site's accounting would have it.
"""

import argparse
import csv
import datetime
import os
import random

CPU_NODES, GPU_NODES = 336, 64
CONF = f"""ClusterName=invented
SlurmctldHost=head
SchedulerParameters=bf_continue
PriorityType=priority/multifactor
PriorityWeightAge=1000
NodeName=c[001-{CPU_NODES}] CPUs=64 RealMemory=256000
NodeName=g[01-{GPU_NODES}] CPUs=64 RealMemory=512000 Gres=gpu:a100:4 Weight=10
PartitionName=cpu Nodes=c[001-{CPU_NODES}] Default=YES MaxTime=7-0
PartitionName=gpu Nodes=g[01-{GPU_NODES}] MaxTime=7-0
"""
COLUMNS = ("JobID|JobIDRaw|Cluster|User|Account|JobName|Partition|QOS|Submit|Eligible|Start|End|"
           "Elapsed|State|NNodes|NCPUS|ReqTRES|AllocTRES|Timelimit|Priority|Constraints")


def clock(seconds):
    """Seconds as Slurm's D-HH:MM:SS."""
    days, rest = divmod(int(seconds), 86400)
    return f"{days}-{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def shapes(rng):
    """(partition, nodes, CPUs, GPUs, memory in GiB, seconds) of one program of a user."""
    seconds = min(6 * 86400, max(60, rng.lognormvariate(8.6, 1.5)))
    if rng.random() < 0.3:
        gpus = rng.choice([1, 1, 1, 2, 4, 4, 8])
        return "gpu", max(1, gpus // 4), gpus * 8, gpus, gpus * 60, seconds
    nodes = rng.choice([1] * 12 + [2, 2, 4, 4, 8, 16])
    cpus = 64 * nodes if nodes > 1 else rng.choice([1, 2, 4, 8, 8, 16, 32, 64])
    return "cpu", nodes, cpus, 0, cpus * rng.choice([1, 2, 3]), seconds


def month(jobs, load, seed):
    """Jobs as dicts, by submission."""
    rng = random.Random(seed)
    programs = [(f"u{rng.randrange(120):03}", *shapes(rng)) for _ in range(400)]
    made = []
    while len(made) < jobs:
        user, partition, nodes, cpus, gpus, memory, seconds = rng.choice(programs)
        limit = min(7 * 86400, 3600 * -(-int(seconds * rng.choice([1.2, 2, 4])) // 3600))
        for task in range(1 if rng.random() < 0.95 else rng.randrange(2, 9)):
            run = max(30, min(limit, int(seconds * rng.lognormvariate(0, 0.4))))
            made.append({"user": user, "partition": partition, "nodes": nodes, "cpus": cpus,
                         "gpus": gpus, "memory": memory, "limit": limit, "run": run,
                         "first": task == 0})
    made = made[:jobs]
    held = {"cpu": (64 * CPU_NODES, "cpus"), "gpu": (4 * GPU_NODES, "gpus")}
    work = {name: sum(job["run"] * job[key] for job in made if job["partition"] == name) / total
            for name, (total, key) in held.items()}
    # Both partitions are as full: jobs of the emptier one run longer.
    for job in made:
        job["run"] = int(job["run"] * max(work.values()) / work[job["partition"]])
        job["limit"] = max(job["limit"], 3600 * -(-job["run"] // 3600))
    span = int(max(work.values()) / load)
    firsts = sorted(rng.random() * span for job in made if job["first"])
    at, index = 0.0, 0
    for job in made:
        if job["first"]:
            at, index = firsts[index], index + 1
        job["submit"] = int(at)
    return made


def row(job_id, job, begin, start):
    """The line of a job that started then."""
    local = [(begin + datetime.timedelta(seconds=s)).strftime("%Y-%m-%dT%H:%M:%S")
             for s in (job["submit"], start, start + job["run"])]
    tres = f"billing={job['cpus']},cpu={job['cpus']},mem={job['memory']}G,node={job['nodes']}"
    tres += f",gres/gpu={job['gpus']}" if job["gpus"] else ""
    return "|".join(str(field) for field in (
        job_id, job_id, "invented", job["user"], "acc", f"{job['user']}-{job['cpus']}",
        job["partition"], "normal", local[0], local[0], local[1], local[2], clock(job["run"]),
        "COMPLETED", job["nodes"], job["cpus"], tres, tres, clock(job["limit"]), 1, ""))


def main():
    """Writes the files."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=20000)
    parser.add_argument("--load", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--starts", help="jobs.csv of a simulation: its policy slurm")
    parser.add_argument("directory")
    args = parser.parse_args()
    made = month(args.jobs, args.load, args.seed)
    begin = datetime.datetime(2026, 10, 1)
    starts = {}
    if args.starts:
        with open(args.starts, encoding="utf-8") as file:
            rows = [line for line in csv.DictReader(file) if line["policy"] == "slurm"]
            first = min(int(line["submit_s"]) for line in rows)
            starts = {int(line["job"]): int(line["start_s"]) - first for line in rows}
    os.makedirs(args.directory, exist_ok=True)
    first = min(job["submit"] for job in made)
    with open(os.path.join(args.directory, "month.sacct"), "w", encoding="utf-8") as file:
        print(COLUMNS, file=file)
        for job_id, job in enumerate(made, 1):
            start = starts.get(job_id, job["submit"] - first) + first
            print(row(job_id, job, begin, start), file=file)
    with open(os.path.join(args.directory, "slurm.conf"), "w", encoding="utf-8") as file:
        file.write(CONF)


if __name__ == "__main__":
    main()
