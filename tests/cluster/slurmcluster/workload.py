# SPDX-License-Identifier: GPL-3.0-or-later
"""A site of 16 nodes and a mixed list of jobs for it, the same for the same seed."""

import math
import random
import re
import time
from dataclasses import dataclass

from .nodes import parse_fragment

# Four kinds of nodes; Weight keeps jobs without GPUs off the nodes with GPUs, and MaxCPUsPerNode
# lets a few of their CPUs be used. Every node says that it mounts `fs`, which no job uses up.
SITE = """\
NodeName=DEFAULT Sockets=1 CoresPerSocket=8 CPUs=8
NodeName=cpu[1-6] RealMemory=16000 Weight=10 Feature=cpu,amd Gres=fs:no_consume:1
NodeName=mem[1-4] RealMemory=64000 Weight=20 Feature=bigmem,amd Gres=fs:no_consume:1
NodeName=gpu[1-4] RealMemory=32000 Weight=50 Feature=a100,intel Gres=gpu:a100:4,fs:no_consume:1
NodeName=fat[1-2] CPUs=16 Sockets=2 RealMemory=64000 Weight=80 Feature=v100,fat,intel \
Gres=gpu:v100:2,fs:no_consume:1
PartitionName=DEFAULT MaxTime=INFINITE State=UP
PartitionName=main Nodes=cpu[1-6],mem[1-4],gpu[1-4],fat[1-2] Default=YES
PartitionName=gpu Nodes=gpu[1-4],fat[1-2]
PartitionName=bigmem Nodes=mem[1-4],fat[1-2]
PartitionName=spare Nodes=gpu[1-4],fat[1-2] MaxCPUsPerNode=4
"""
# Priorities as sites have them. QOS and fair share need slurmdbd and MariaDB, which the demo does
# not install: the suites order and grammar have QOS.
PRIORITIES = ("PriorityType=priority/multifactor", "PriorityWeightAge=1000",
              "PriorityWeightJobSize=1000")
NODE_CPUS = 8

MEAN_GAP_S = 0.3    # between two submissions
SLEEP_S = (5, 30)   # typical seconds of the quickest and the longest program
SPREAD = 0.1        # a run takes so much more or less than its program typically does
PROGRAMS = "abc"    # of each kind of job
WEEK_S = 7 * 86400
WEEK_LISTS = 40     # lists that were worked through a week ago


@dataclass(frozen=True)
class Job:
    """One submission: kind, program, second of submission, sbatch options, run time, tasks."""

    kind: str
    name: str
    at_s: float
    options: tuple
    sleep_s: int
    tasks: int = 1


def _single(rng):
    cpus = rng.choice([1, 2, 3, 4, 6, 8])
    return ["-n1", f"-c{cpus}", f"--mem={cpus * rng.choice([500, 1000, 1800])}M"]


def _mpi(rng):
    return [f"-n{rng.choice([8, 12, 16, 16, 24])}",
            f"--mem-per-cpu={rng.choice([500, 1000, 1500])}M"]


def _multi_node(rng):
    return [f"-N{rng.choice([2, 2, 3, 4])}", f"--ntasks-per-node={rng.choice([2, 4, 6])}",
            f"--mem={rng.choice([2, 4, 6])}G"]


def _array(rng):
    return [f"--array=1-{rng.choice([6, 8, 10])}", "-n1", f"-c{rng.choice([2, 3, 4])}",
            f"--mem={rng.choice([1, 2, 4])}G", *rng.choice([[], [], ["--gres=fs:1"]])]


def _spare(rng):
    return ["-pspare", "-n1", f"-c{rng.choice([2, 4])}", f"--mem={rng.choice([1, 2])}G"]


def _gpu(rng):
    gpus = rng.choice([1, 2, 2, 3, 4, 4])
    kind = "a100:" if gpus > 2 else rng.choice(["", "", "a100:", "v100:"])
    return ["-pgpu", "-N1", "-n1", f"-c{gpus * rng.choice([1, 2])}", f"--gres=gpu:{kind}{gpus}",
            f"--mem={gpus * rng.choice([2, 4])}G"]


def _gpu_gang(rng):
    return ["-pgpu", "-N2", "--ntasks-per-node=2", f"--gres=gpu:{rng.choice([2, 2, 4])}",
            "--mem=8G"]


def _memory(rng):
    gigabytes = rng.choice([15, 24, 31, 48, 60])
    return [*(["-pbigmem"] if gigabytes > 31 else []), "-n1", f"-c{rng.choice([1, 2])}",
            f"--mem={gigabytes}G"]


def _exclusive(rng):
    return ["--exclusive", f"-N{rng.choice([1, 1, 2])}", "--mem=4G"]


# Kind, how many of 60, how to draw one.
MIX = (("single", 11, _single), ("mpi", 8, _mpi), ("multi-node", 5, _multi_node),
       ("array", 7, _array), ("spare", 3, _spare), ("gpu", 13, _gpu), ("gpu gang", 3, _gpu_gang),
       ("memory", 7, _memory), ("exclusive", 3, _exclusive))


def mixed(seed, mix=MIX, pace=1.0):
    """The list in order of submission; run times are multiplied by `pace`."""
    rng = random.Random(seed)
    drawn = [(kind, draw(rng), rng.choice(PROGRAMS)) for kind, count, draw in mix
             for _ in range(count)]
    rng.shuffle(drawn)
    jobs, at = [], 0.0
    for kind, options, program in drawn:
        tasks = int(options[0].split("-")[-1]) if kind == "array" else 1
        name = f"{kind.replace(' ', '-')}-{program}"
        sleep = round(pace * typical_s(name) * rng.uniform(1 - SPREAD, 1 + SPREAD))
        jobs.append(Job(kind, name, at, tuple(options), sleep, tasks))
        at += rng.expovariate(1 / MEAN_GAP_S)
    return jobs


def typical_s(name):
    """Seconds that a program typically runs, the same in every list."""
    return random.Random(name).randint(*SLEEP_S)


def last_week(seed, user, pace=1.0):
    """What `sacct --parsable2` says of such lists of a week ago."""
    nodes, rng = parse_fragment(SITE).nodes, random.Random(seed)
    lines = ["JobID|User|JobName|State|Start|End|NodeList|ReqTRES"]
    job_id, now = 900_000, time.time() - WEEK_S
    for week_seed in range(seed + 1000, seed + 1000 + WEEK_LISTS):
        for job in mixed(week_seed, pace=pace):
            start, job_id = now + job.at_s, job_id + 1
            begun, ended = (time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))
                            for at in (start, start + job.sleep_s))
            ran_on, tres = _ran(nodes, job.options, rng)
            lines.append(f"{job_id}|{user}|{job.name}|COMPLETED|{begun}|{ended}|{ran_on}|{tres}")
    return "\n".join(lines) + "\n"


def _ran(nodes, options, rng):
    """(nodes, requested TRES) of a job with these options: neighbours that can hold it."""
    asked = dict(re.match(r"(--[^=]+|-.)=?(.*)", text).groups() for text in options)
    tasks = int(asked.get("-n", 1))
    count = int(asked.get("-N", math.ceil(tasks / NODE_CPUS)))
    cpus = int(asked.get("-c", asked.get("--ntasks-per-node", math.ceil(tasks / count))))
    memory_mb = cpus * int(asked["--mem-per-cpu"][:-1]) if "--mem-per-cpu" in asked else \
        int(asked["--mem"][:-1]) * {"M": 1, "G": 1024}[asked["--mem"][-1]]
    total = max(tasks, count * cpus)
    tres = f"billing={total},cpu={total},mem={count * memory_mb}M,node={asked.get('-N', 1)}"
    kind, gpus = None, 0
    if asked.get("--gres", "").startswith("gpu"):
        _, *typed, gpus = asked["--gres"].split(":")
        kind, gpus = (typed or [None])[0], int(gpus)
        tres += f",gres/gpu={count * gpus}" + (f",gres/gpu:{kind}={count * gpus}" if kind else "")
    fit = [node.name for node in nodes
           if int(node.get("CPUs")) >= cpus and int(node.get("RealMemory")) >= memory_mb
           and (not gpus or any(name == "gpu" and kind in (None, of) and n >= gpus
                                for name, of, n in node.gres()))]
    first = rng.randrange(len(fit) - count + 1)
    return ",".join(fit[first:first + count]), tres
