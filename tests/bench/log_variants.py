#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does `phalanx` keep its promises on logs that it was not made for? Prints a table.

Usage: log_variants.py PHALANX SWF...     (logs may be .zst, with the zstd program)

Twenty variants of each log: halves, quarters, a part of the jobs left out, arrivals spread
or squeezed, arrivals moved by up to half an hour. `easy itself` is EASY on the variant with all
arrivals moved by less than a minute, over EASY on the variant: what the longest wait owes to
luck.
"""
import json
import math
import os
import random
import subprocess
import sys
import tempfile

SUBMIT = 1


def lines_of(path):
    if path.endswith(".zst"):
        text = subprocess.run(["zstd", "-dqc", path], check=True, capture_output=True).stdout
    else:
        with open(path, "rb") as file:
            text = file.read()
    lines = text.decode("ascii", "replace").splitlines()
    head = [line for line in lines if line.startswith(";")]
    return head, [line.split() for line in lines if line.strip() and not line.startswith(";")]


def moved(jobs, by):
    """All arrivals changed by a function of the seconds."""
    out = [job[:SUBMIT] + [str(int(by(int(job[SUBMIT]))))] + job[SUBMIT + 1:] for job in jobs]
    return sorted(out, key=lambda job: int(job[SUBMIT]))


def jittered(jobs, seed, span_s):
    draw = random.Random(seed)
    return moved(jobs, lambda at: at + draw.random() * span_s)


def variants(jobs):
    count, first = len(jobs), int(jobs[0][SUBMIT])
    for parts in (2, 4):
        for part in range(parts):
            yield jobs[count * part // parts:count * (part + 1) // parts]
    for seed, share in enumerate((0.1, 0.1, 0.15, 0.15, 0.3)):
        draw = random.Random(seed)
        yield [job for job in jobs if draw.random() >= share]
    for factor in (0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.3):
        yield moved(jobs, lambda at, factor=factor: first + (at - first) * factor)
    for seed in (7, 8):
        yield jittered(jobs, seed, 1800)


def simulate(program, head, jobs, policies):
    with tempfile.NamedTemporaryFile("w", suffix=".swf", encoding="ascii") as file:
        file.write("\n".join(head + [" ".join(job) for job in jobs]) + "\n")
        file.flush()
        options = [option for policy in policies for option in ("--policy", policy)]
        run = subprocess.run([program, "simulate", "--json", "--jobs", file.name, *options],
                             capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def ratio(new, old, key):
    return new[key] / old[key] if old[key] else 1.0 if not new[key] else math.inf


def main():
    program, *paths = sys.argv[1:]
    print("| log | variants | slowdown over easy | not below easy | longest wait beyond 1.1 "
          "| worst | easy itself beyond 1.1 | worst |")
    print("|---|---|---|---|---|---|---|---|")
    for path in paths:
        head, jobs = lines_of(path)
        slowdowns, waits, luck = [], [], []
        for variant in variants(jobs):
            easy, research = simulate(program, head, variant, ["easy", "research"])
            again, = simulate(program, head, jittered(variant, 1, 60), ["easy"])
            slowdowns.append(ratio(research, easy, "bounded_slowdown_mean"))
            waits.append(ratio(research, easy, "wait_max_s"))
            luck.append(ratio(again, easy, "wait_max_s"))
        mean = math.exp(sum(map(math.log, slowdowns)) / len(slowdowns))
        worse = sum(each > 1 for each in slowdowns)
        beyond, lucky = (sum(each > 1.1 for each in list_) for list_ in (waits, luck))
        print(f"| {os.path.basename(path).split('.swf')[0]} | {len(waits)} | {mean:.3f} | {worse} "
              f"| {beyond} | {max(waits):.2f} | {lucky} | {max(luck):.2f} |", flush=True)


if __name__ == "__main__":
    main()
