#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How full can any policy fill openb's GPUs under a bound on overtaking? Needs scipy.

Let i be the first arrival that asks for 810 thousandths of a GPU and is never placed. All
before it were placed, at most K pods that came after it were placed while it waited, and once
it fitted nowhere no whole GPU was left, so that only smaller parts came after. For each i a
linear programme packs as well as it can what that leaves (patterns of parts in a GPU; whole
GPUs; no CPUs, no memory, no nodes); the best i bounds the share of GPUs allocated. --parts also
places all other parts that came before i, which need CPUs: an estimate, no longer a bound.
"""

import argparse
import collections
import csv
import random

import numpy as np
from scipy.optimize import linprog

WIDE, WHOLE, SMALLEST = 810, 1000, 110
STEP = 100


def arrivals(pods, total, target, seed):
    """The inflation protocol: (GPUs, thousandths of each) in order."""
    rng, order = random.Random(seed), list(pods)
    rng.shuffle(order)
    asked = sum(gpus * milli for gpus, milli in order)
    while asked < target * total:
        order.append(rng.choice(pods))
        asked += order[-1][0] * order[-1][1]
    return order


def patterns(sizes, left, chosen):
    """Every way to fill a GPU with parts: how often each size."""
    if len(chosen) == len(sizes):
        yield chosen
        return
    for count in range(left // sizes[len(chosen)], -1, -1):
        yield from patterns(sizes, left - count * sizes[len(chosen)], chosen + [count])


def bound(order, first, args, sizes, table):
    """Percent of the GPUs if `first` is the first wide pod that is never placed."""
    seen = min(len(order), first + args.overtakes + args.window)
    whole = sorted((g * m for g, m in order[first:seen] if m == WHOLE), reverse=True)
    whole = sum(g * m for g, m in order[:first] if m == WHOLE) + sum(whole[:args.overtakes])
    comes = collections.Counter(m for g, m in order if g == 1 and m < WHOLE)
    placed = collections.Counter(m for g, m in order[:first] if g == 1 and m < WHOLE)
    fill = table @ np.array(sizes)
    rows, limits = [], []
    for column, size in enumerate(sizes):
        rows.append(np.append(table[:, column], 0))
        limits.append(comes[size])
        if size == WIDE or args.parts:
            rows.append(np.append(-table[:, column], 0))
            limits.append(-placed[size])
    rows += [np.ones(len(table) + 1), np.append(np.zeros(len(table)), 1)]
    limits += [args.gpus, whole / WHOLE]
    found = linprog(-np.append(fill, WHOLE), A_ub=np.array(rows, float), b_ub=limits,
                    method="highs")
    if found.status:
        return 0.0
    tiny = sum(size * count for size, count in comes.items() if size < SMALLEST)
    return 100 * (-found.fun + tiny) / (args.gpus * WHOLE)


def main():
    """One line for each shuffle, and the mean."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("pods", help="openb pod list")
    parser.add_argument("--gpus", type=int, default=6212)
    parser.add_argument("--window", type=int, default=1)
    parser.add_argument("--overtakes", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--parts", action="store_true")
    args = parser.parse_args()
    with open(args.pods, encoding="utf-8") as file:
        pods = [(int(p["num_gpu"]), int(p["gpu_milli"] or 0)) for p in csv.DictReader(file)]
    sizes = sorted({m for g, m in pods if g == 1 and SMALLEST <= m < WHOLE}, reverse=True)
    table = np.array(list(patterns(sizes, WHOLE, [])))
    means = []
    for seed in range(args.seeds):
        order = arrivals(pods, args.gpus * WHOLE, 1.3, seed)
        firsts = range(4000, 9000, STEP)
        means.append(max(bound(order, first, args, sizes, table) for first in firsts))
        print(f"shuffle {seed}: at most {means[-1]:.2f} %")
    print(f"mean {sum(means) / len(means):.2f} %")


if __name__ == "__main__":
    main()
