#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published comparisons on real traces; prints BENCHMARKS.md's tables.

Usage: traces.py PHALANX TRACES [--shuffles N] [--no-million]

TRACES holds swf/*.swf[.gz|.zst] and gpu_clusters/alibaba-openb-2023/*.csv.
Each SWF log runs on the machine that its header names. Also a generated log of
a million jobs on 10,000 nodes, for the time that it takes.
"""
import argparse
import json
import math
import os
import random
import subprocess
import tempfile

SEEDS = range(42, 52)
LEARNED = '[order]\nby = "learned"\n'
EASY, RESEARCH, SLURM, PHALANX = "easy", "research", "slurm", "phalanx"
PLACING = ["stock", "best-fit", "dot-product", "k8s-balanced", "fgd", PHALANX]


def simulate(program, *arguments, policies):
    options = [option for policy in policies for option in ("--policy", policy)]
    run = subprocess.run([program, "simulate", "--json", *arguments, *options],
                         capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(run.stderr.strip())
    return {line["policy"]: line for line in map(json.loads, run.stdout.splitlines())}


def batch(program, directory, config):
    policies = [EASY, "easy++", RESEARCH, SLURM, PHALANX]
    print("| log | jobs | " + " | ".join(policies) + " | longest wait: research over easy "
          "| phalanx over slurm |")
    print("|---" * (len(policies) + 4) + "|")
    ratios = []
    for name in sorted(os.listdir(directory)):
        found = simulate(program, "--jobs", os.path.join(directory, name), "--config", config,
                         policies=policies)
        slowdown = {policy: line["bounded_slowdown_mean"] for policy, line in found.items()}
        wait = {policy: line["wait_max_s"] for policy, line in found.items()}
        pairs = ((RESEARCH, EASY), (PHALANX, SLURM))
        ratios.append([slowdown[policy] / slowdown[base] for policy, base in pairs])
        longer = [f"{wait[policy] / wait[base]:.2f}" if wait[base] else "-"
                  for policy, base in pairs]
        cells = [name.split(".swf")[0], found[EASY]["jobs"],
                 *(f"{slowdown[p]:.2f}" for p in policies), *longer]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    means = [math.exp(sum(map(math.log, column)) / len(ratios)) for column in zip(*ratios)]
    print(f"\nGeometric mean of research over easy: {means[0]:.3f}, of phalanx over slurm: "
          f"{means[1]:.3f}\n")


def pods(program, directory, shuffles):
    seeds = SEEDS[:shuffles]
    print(f"| policy | window | GPUs allocated [%], mean of {len(seeds)} | unusable [%] "
          "| us per pod | most overtaken |")
    print("|---|---|---|---|---|---|")
    cases = [(policy, 1) for policy in PLACING] + [(PHALANX, 256), (PHALANX, 1024)]
    for policy, window in cases:
        lines = [simulate(program, "--jobs", f"{directory}/openb_pod_list_default.csv",
                          "--nodes", f"{directory}/openb_node_list_gpu_node.csv",
                          "--arrivals", "openb", "--seed", str(seed), "--window", str(window),
                          policies=[policy])[policy] for seed in seeds]

        def mean(key, lines=lines):
            return sum(line[key] for line in lines) / len(lines)

        each = mean("wall_s") / mean("decisions") * 1e6
        overtaken = max(line["overtaken_max"] for line in lines)
        print(f"| {policy} | {window} | {mean('gpu_allocated_pct'):.2f} "
              f"| {mean('gpu_fragmented_pct'):.2f} | {each:.0f} | {overtaken} |", flush=True)
    print()


def million_jobs(path, load):
    draw = random.Random(1)
    jobs = []
    for _ in range(1_000_000):
        run = int(draw.lognormvariate(7, 1.7)) + 1
        limit = min(int(run * draw.choice([1, 1.2, 2, 5, 10, 40])) + 60, 5 * 86400)
        jobs.append((int(2 ** draw.uniform(0, 14)), min(run, limit), limit,
                     draw.randrange(500), draw.randrange(8)))
    span = sum(size * run for size, run, *_ in jobs) / 640_000 / load
    submits = sorted(int(draw.uniform(0, span)) for _ in jobs)
    with open(path, "w", encoding="ascii") as log:
        for number, (submit, job) in enumerate(zip(submits, jobs)):
            size, run, limit, user, program = job
            log.write(f"{number} {submit} -1 {run} {size} -1 -1 {size} {limit} -1 1 {user} 1 "
                      f"{program} 1 1 -1 -1\n")


def million(program):
    print("| a million jobs, 10,000 nodes of 64 CPUs | policy | time [s] |")
    print("|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        log = os.path.join(directory, "million.swf")
        for load in (0.9, 1.5):
            million_jobs(log, load)
            found = simulate(program, "--jobs", log, "--nodes", "10000x(cpu=64)", "--threads", "1",
                             policies=[EASY, RESEARCH])
            for policy, line in found.items():
                print(f"| load {load:.0%} | {policy} | {line['wall_s']:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phalanx")
    parser.add_argument("traces")
    parser.add_argument("--shuffles", type=int, default=len(SEEDS))
    parser.add_argument("--no-million", action="store_true")
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write(LEARNED)
        config.flush()
        batch(options.phalanx, os.path.join(options.traces, "swf"), config.name)
    openb = os.path.join(options.traces, "gpu_clusters", "alibaba-openb-2023")
    pods(options.phalanx, openb, options.shuffles)
    if not options.no_million:
        million(options.phalanx)


if __name__ == "__main__":
    main()
