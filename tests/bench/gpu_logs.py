#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public logs of GPU jobs on simulated nodes with GPUs; prints the tables of BENCHMARKS.md.

    tests/bench/gpu_logs.py DIR [--phalanx PROGRAM] [--only WORD]
    tests/bench/gpu_logs.py DIR --convert WORD > log.sacct

DIR holds gpu_jobs/microsoft-philly*.csv.zst (columns timestamp, duration, num_gpus, gpu_time,
cluster) and slurm_jobs/mit-supercloud*.csv.zst (slurmdbd's job table); needs the zstd program.

Philly names neither nodes nor limits. A job takes as few nodes as hold its GPUs, has 8 CPUs a
GPU, and asks for the least of LIMITS that is twice its runtime. The first 18 days have two jobs a
day and are left out; the 12 days after them are taken. Columns: Slurm; Phalanx as shipped, whose
order of starts is off; the difference in percent with its standard error; and Slurm with all GPUs
in one node. Figures are means over FACTORS of the times between arrivals: who waits for whom is
chance, and one pace shows nothing.
"""

import argparse
import bisect
import csv
import datetime
import glob
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile

HOUR, DAY = 3600, 86400
LIMITS = [HOUR, 4 * HOUR, 12 * HOUR, *(days * DAY for days in (1, 2, 4, 7, 14, 30, 60, 120))]
COLUMNS = "JobID|User|JobName|State|Submit|Start|End|NNodes|NCPUS|ReqTRES|TimelimitRaw"
PHILLY = datetime.datetime(2017, 9, 22, tzinfo=datetime.timezone.utc)
PHILLY_JOBS = 8700
NO_LIMIT = 2**32 - 1                    # slurmdbd's
FACTORS = [percent / 100 for percent in range(94, 107)]
ORDER_OFF = '[order]\nby = "off"\n'
SLURM, PHALANX, ONE_NODE = "slurm", "phalanx", "one node"


class Job(dict):
    """A job of a log: user, submit, start, end, nodes, cpus, gpus, memory_mb, limit_min."""

    def line(self, number):
        """The job as a line of sacct."""
        tres = f"cpu={self['cpus']},node={self['nodes']}"
        tres += f",mem={self['memory_mb']}M" if self["memory_mb"] else ""
        tres += f",gres/gpu={self['gpus']}" if self["gpus"] else ""
        return "|".join(map(str, (
            number, self["user"], "job", "COMPLETED", self["submit"], self["start"], self["end"],
            self["nodes"], self["cpus"], tres, self["limit_min"])))


def philly(lines, per_node=8):
    """Jobs of Microsoft's log on nodes of so many GPUs."""
    for row in csv.DictReader(lines):
        at = datetime.datetime.fromisoformat(row["timestamp"]).replace(tzinfo=PHILLY.tzinfo)
        if at < PHILLY:
            continue
        submit = int(at.timestamp())
        run, gpus = max(1, round(float(row["duration"]))), int(row["num_gpus"])
        limit = LIMITS[min(len(LIMITS) - 1, bisect.bisect_left(LIMITS, 2 * run))]
        yield Job(user=row["cluster"], submit=submit, start=submit, end=submit + run,
                  nodes=-(-gpus // per_node), cpus=8 * gpus, gpus=gpus, memory_mb=0,
                  limit_min=limit // 60)


def supercloud(lines):
    """Jobs of the MIT Supercloud that ran: TRES 1 are CPUs, 2 MiB, 4 nodes, 1002 GPUs."""
    for row in csv.DictReader(lines):
        tres = dict(pair.split("=") for pair in row["tres_req"].split(",") if "=" in pair)
        start, end, limit = (int(float(row[name])) for name in
                             ("time_start", "time_end", "timelimit"))
        if start and end > start and "1" in tres:
            yield Job(user=row["id_user"], submit=int(float(row["time_eligible"])), start=start,
                      end=end, nodes=int(tres.get("4", 1)), cpus=int(tres["1"]),
                      gpus=int(tres.get("1002", 0)), memory_mb=int(tres.get("2", 0)),
                      limit_min="UNLIMITED" if limit == NO_LIMIT else limit)


def squeezed(jobs, factor):
    """The jobs with the times between arrivals multiplied by a factor."""
    jobs = sorted(jobs, key=lambda job: job["submit"])
    for job in jobs:
        by = int((job["submit"] - jobs[0]["submit"]) * (factor - 1))
        yield Job(job, **{name: job[name] + by for name in ("submit", "start", "end")})


def sacct(jobs):
    """The text of sacct."""
    return "\n".join([COLUMNS, *(job.line(at) for at, job in enumerate(jobs, 1))]) + "\n"


def log(directory, pattern):
    """The lines of a log."""
    paths = glob.glob(os.path.join(directory, pattern))
    if len(paths) != 1:
        sys.exit(f"{directory}: expected one file {pattern}, found {len(paths)}")
    done = subprocess.run(["zstd", "-dqc", paths[0]], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().splitlines()


def run(program, jobs, nodes, policy, config=""):
    """Figures of a policy, and the waits of its jobs by number."""
    with tempfile.TemporaryDirectory() as root:
        text, toml = os.path.join(root, "log.sacct"), os.path.join(root, "config.toml")
        for path, content in ((text, sacct(jobs)), (toml, config)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
        options = ("--config", toml) if config else ()
        done = subprocess.run(
            [program, "simulate", "--json", "--jobs", text, "--nodes", nodes, "--policy", policy,
             "--out", root, *options], stdout=subprocess.PIPE, text=True, check=True)
        with open(os.path.join(root, "jobs.csv"), encoding="utf-8") as file:
            waits = {int(row["job"]): int(row["wait_s"]) for row in csv.DictReader(file)}
        return json.loads(done.stdout), waits


def percentile(values, percent):
    """The value at a share of the sorted ones, nearest rank."""
    values = sorted(values)
    return values[max(0, -(-len(values) * percent // 100) - 1)]


def busy(jobs, waits):
    """GPUs in use between the first and the last arrival, on average."""
    first, last = jobs[0]["submit"], jobs[-1]["submit"]
    work = 0
    for number, wait in waits.items():
        job = jobs[number - 1]
        start = job["submit"] + wait
        work += job["gpus"] * max(0, min(last, start + job["end"] - job["start"]) - start)
    return work / max(1, last - first)


def figures(jobs, found, waits, gpus, kinds):
    """Figures of a run by name; waits of each kind in minutes: mean, median, 95th percentile."""
    hours = gpus * found["makespan_s"] / HOUR / 100
    out = {"GPUs in use, %": [100 * busy(jobs, waits) / gpus],
           "GPU hours idle beside work": [found["card"]["idle_pct"].get("gpu", 0) * hours],
           "GPU hours without CPU or memory": [found["stranded"].get("gpu", 0) * hours],
           "mean wait, min": [found["wait_mean_s"] / 60]}
    for kind, is_of in kinds.items():
        own = [wait / 60 for at, wait in waits.items() if is_of(jobs[at - 1]["gpus"])]
        out[f"{len(own)} jobs of {kind}"] = [sum(own) / len(own), *(
            percentile(own, percent) for percent in (50, 95))]
    return out


def fits(job, count, node):
    """Whether so many nodes of these CPUs, MiB and GPUs can hold a job."""
    share = (-(-job[key] // job["nodes"]) for key in ("cpus", "memory_mb", "gpus"))
    return job["nodes"] <= count and all(own <= most for own, most in zip(share, node))


def case(program, jobs, count, node, kinds):
    """{figure: {policy: [numbers of each factor]}}."""
    cpus, memory, gpus = node
    nodes, one = (f"{many}x(cpu={cpus * size},mem={memory * size}M,gpu={gpus * size})"
                  for many, size in ((count, 1), (1, count)))
    out, jobs = {}, [job for job in jobs if fits(job, count, node)]
    for factor in FACTORS:
        own = list(squeezed(jobs, factor))
        whole = [Job(job, nodes=1) for job in own]
        for name, text, on, policy, config in (
                (SLURM, own, nodes, "slurm", ""), (PHALANX, own, nodes, "phalanx", ORDER_OFF),
                (ONE_NODE, whole, one, "slurm", "")):
            found, waits = run(program, text, on, policy, config)
            for key, numbers in figures(own, found, waits, gpus * count, kinds).items():
                out.setdefault(key, {}).setdefault(name, []).append(numbers)
    return out


def change(old, new):
    """The mean change of paired numbers in percent of the old mean, and its standard error."""
    mean = statistics.fmean(old)
    if not mean or len(old) < 2:
        return "-"
    apart = [100 * (after - before) / mean for before, after in zip(old, new)]
    error = statistics.stdev(apart) / len(apart) ** 0.5
    return f"{statistics.fmean(apart):+.1f} ({error:.1f})"


def table(name, found):
    """Lines of a case: means of each figure, and what Phalanx changes."""
    yield f"| {name} | {SLURM} | {PHALANX} | change, % | {ONE_NODE} |"
    yield "|---|---|---|---|---|"
    for key, by in found.items():
        columns = {policy: list(zip(*numbers)) for policy, numbers in by.items()}
        cells = {policy: ", ".join(f"{statistics.fmean(each):,.0f}" for each in own)
                 for policy, own in columns.items()}
        changes = ", ".join(map(change, columns[SLURM], columns[PHALANX]))
        yield f"| {key} | {cells[SLURM]} | {cells[PHALANX]} | {changes} | {cells[ONE_NODE]} |"


def cases(directory):
    """Name, jobs, number of nodes, CPUs, MiB and GPUs of each, and kinds of jobs of each case."""
    kinds = {"8 GPUs or more": lambda gpus: gpus >= 8, "2 to 7": lambda gpus: 1 < gpus < 8,
             "one": lambda gpus: gpus == 1}
    lines = log(directory, "gpu_jobs/microsoft-philly*.csv.zst")
    for count, gpus in ((72, 8), (144, 4)):
        jobs = itertools.islice(philly(lines, gpus), PHILLY_JOBS)
        yield f"Philly, {count} x {gpus}", jobs, count, (8 * gpus, 0, gpus), kinds
    kinds = {"GPUs": lambda gpus: gpus > 0, "CPUs": lambda gpus: gpus == 0}
    lines = log(directory, "slurm_jobs/mit-supercloud*.csv.zst")
    yield "Supercloud, 16 x 2", supercloud(lines), 16, (40, 384_000, 2), kinds


def main():
    """Prints a log as sacct, or the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("directory")
    parser.add_argument("--phalanx", default="target/release/phalanx")
    parser.add_argument("--only", default="", metavar="WORD", help="cases with this in the name")
    parser.add_argument("--convert", metavar="WORD", help="print the first such case's text")
    args = parser.parse_args()
    for name, jobs, count, node, kinds in cases(args.directory):
        jobs = list(jobs)
        if args.convert is not None and args.convert.lower() in name.lower():
            sys.stdout.write(sacct(squeezed(jobs, 1)))
            return
        if args.convert is None and args.only.lower() in name.lower():
            print(*table(name, case(args.phalanx, jobs, count, node, kinds)), sep="\n", flush=True)


if __name__ == "__main__":
    main()
