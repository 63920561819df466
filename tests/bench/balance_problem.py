#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a `phalanx solve balance` problem to standard output.

Usage: balance_problem.py KIND [NODES] [JOBS] [SEED]

KIND is one of the workloads of KINDS below (`--list` prints them): how nodes, their usage and the
requests are drawn. All have four dimensions.
"""
import json
import random
import sys

DIMS = ["cpu", "mem", "gpu", "disk"]
CLASSES = [(64, 512000, 8, 2000), (128, 256000, 0, 1000), (96, 1024000, 4, 4000)]


def few(r):
    total = r.choice(CLASSES)
    return total, [0] * 4


def varied(r, fill):
    total = [r.uniform(50, 150) * scale for scale in (1, 1000, 0.1, 10)]
    return total, [t * r.random() * fill for t in total]


def alike(r, fill):
    total = (64, 512000, 8, 2000)
    return total, [int(t * r.random() * fill) for t in total]


def even(r, part):
    """Usage nearly the same in all dimensions: few placements improve it."""
    total = [r.uniform(1 - part, 1) * scale for scale in (128, 512000, 8, 4000)]
    fill = r.uniform(0.1, 0.6)
    return total, [t * fill * r.uniform(0.98, 1.02) for t in total]


SHAPES = [(4, 16000, 0, 10), (8, 8000, 1, 20), (1, 64000, 0, 5), (16, 64000, 2, 100),
          (2, 2000, 0, 0)]


def shape(r):
    return list(r.choice(SHAPES))


def continuous(r, part=0.25):
    return [r.uniform(0, part) * t for t in (64, 512000, 8, 2000)]


def gang(r):
    return shape(r), r.choice([1, 1, 2, 4, 16])


# KIND: (node, request, what else the problem says)
KINDS = {
    "few-low": (few, shape, {"threshold": 9}),
    "few-high": (few, shape, {"threshold": 0}),
    "few": (few, shape, {}),
    "varied-low": (lambda r: varied(r, 0.7), continuous, {"threshold": 9}),
    "varied-high": (lambda r: varied(r, 0.7), continuous, {"threshold": 0}),
    "varied-idle-low": (lambda r: varied(r, 0), continuous, {"threshold": 9}),
    "varied-idle-high": (lambda r: varied(r, 0), continuous, {"threshold": 0}),
    "alike-low": (lambda r: alike(r, 0.7), continuous, {"threshold": 9}),
    "alike-high": (lambda r: alike(r, 0.7), continuous, {"threshold": 0}),
    "even-low": (lambda r: even(r, 0), lambda r: continuous(r, 0.1), {"threshold": 9}),
    "even-varied-low": (lambda r: even(r, 0.7), lambda r: continuous(r, 0.1), {"threshold": 9}),
    "hold": (lambda r: alike(r, 0.7), continuous, {"threshold": 9, "no_improvement": "hold"}),
    "full": (lambda r: alike(r, 1.0), lambda r: continuous(r, 0.9), {}),
    "full-varied": (lambda r: varied(r, 1.0), lambda r: continuous(r, 0.9), {}),
    "one-lacks": (lambda r: ((64, 512000, 8, 2000), [0, 0, r.choice([7, 8]), 0]), shape, {}),
    "gang": (few, gang, {}),
}


def main():
    kind = sys.argv[1]
    if kind == "--list":
        print(*KINDS)
        return
    defaults = ["10000", "20000", "1"]
    nodes, jobs, seed = map(int, sys.argv[2:] + defaults[len(sys.argv) - 2:])
    node, request, more = KINDS[kind]
    r = random.Random(seed)
    problem = {"dimensions": DIMS, **more, "nodes": [], "jobs": []}
    for i in range(nodes):
        total, used = node(r)
        problem["nodes"].append({"name": f"n{i:05}", "total": list(total), "used": list(used)})
    for i in range(jobs):
        asked = request(r)
        job = {"id": str(i), "request": asked}
        if isinstance(asked, tuple):
            job = {"id": str(i), "request": asked[0], "nodes": asked[1]}
        problem["jobs"].append(job)
    json.dump(problem, sys.stdout)
    print()


main()
