#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How good are plans of gangs on lists that the method was not made for? Prints a table.

Usage: gang_lists.py PHALANX small|large|listed|alike|halves|own [FIRST [COUNT]]

Seeds FIRST, FIRST + 1, ... `small`: 8 to 64 nodes of one to four classes, 24 to 192 gangs; gap of
a plan after 100 ms to the better of it and one after 5 s. `large`: 1,000 nodes, 5,000 tasks,
certified gap after 1 s. `listed`: the same in partitions as clusters have them, every edge written
out, 40 to 190 MB. `alike`: the same on equal nodes, of which tasks take about half. `halves`: tasks
that take a large part of a small node in several kinds at once, 200 or 1,000 nodes, equal or of two
classes. `own`: 1,000 nodes, 5,000 tasks of gangs that have 10 to 300 nodes of their own and are
worth something else on each. Deadlines are wall clock and include reading the list: idle machine.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import time

KINDS = ["cpu", "mem", "gpu", "bw"]
CLASSES = [(64, 256, 4, 10), (128, 512, 8, 25), (32, 128, 0, 10), (96, 384, 2, 40)]
SHORT_MS, LONG_MS, LARGE_MS = 100, 5_000, 1_000


def problem(rng, servers, jobs):
    return {"kinds": KINDS, "cost": [0.001, 0.0001, 0.01, 0.0], "slot": rng.randint(1, 2000),
            "g": rng.choice(["none", "source"]), "bonus_scale": 0.01,
            "servers": [{"name": f"n{at}", "capacity": list(row)}
                        for at, row in enumerate(servers)],
            "jobs": [{"id": f"j{at}", "tasks": tasks} for at, tasks in enumerate(jobs)]}


def edges(rng, servers, request, allowed, mean):
    """Edges to the allowed nodes that can hold the request."""
    return [{"server": f"n{at}", "mean": mean(at), "count": rng.randint(1, 50)} for at in allowed
            if all(need <= has for need, has in zip(request, servers[at]))]


def small(seed):
    """Values by gang, by class of nodes, or by node among half of them."""
    rng = random.Random(seed)
    size, classes = rng.choice([8, 12, 16, 24, 32, 48, 64]), rng.sample(CLASSES, rng.randint(1, 4))
    servers = [rng.choice(classes) for _ in range(size)]
    values, jobs = rng.choice(["gang", "class", "node"]), []
    for _ in range(rng.randint(24, 192)):
        request = [rng.choice([1, 2, 4, 8, 16, 32]), rng.choice([2, 4, 8, 16, 32, 64]),
                   rng.choice([0, 0, 1, 2]), rng.randint(0, 4)]
        base, speed = rng.uniform(0.1, 1), {row: rng.uniform(0.5, 1) for row in CLASSES}
        allowed = rng.sample(range(size), size // 2) if values == "node" else range(size)

        def mean(at):
            by_class = 1 if values == "gang" else speed[servers[at]]
            return base * by_class * (rng.uniform(0.8, 1.2) if values == "node" else 1)

        found = edges(rng, servers, request, allowed, mean)
        if found:
            task = {"request": request, "edges": found}
            jobs.append([task] * rng.choice([1, 2, 2, 4, 4, 8]))
    return problem(rng, servers, jobs)


def large(seed):
    """In turn: any node; 20 nodes of its own for each gang, each task; one of six partitions."""
    rng = random.Random(seed)
    kind = ["any", "gang", "task", "partition"][seed % 4]
    servers = [rng.choice(CLASSES) for _ in range(1000)]
    parts = [rng.sample(range(1000), 60) for _ in range(6)] if kind == "partition" else []
    jobs, tasks = [], 0
    while tasks < 5000:
        request = [rng.choice([4, 8, 16, 32]), rng.choice([8, 16, 32, 64, 128]),
                   rng.choice([0, 0, 0, 1, 2]), rng.randint(0, 8)]
        base, speed = rng.uniform(0.1, 1), {row: rng.uniform(0.5, 1) for row in CLASSES}

        def own():
            if kind == "any":
                return {"edges": [], "any": {"mean": base, "count": 5}}
            if kind == "partition":
                return {"edges": edges(rng, servers, request, rng.choice(parts),
                                       lambda at: base * speed[servers[at]])}
            return {"edges": edges(rng, servers, request, rng.sample(range(1000), 20),
                                   lambda _: rng.uniform(0.1, 1))}

        first, count = own(), rng.choice([1, 2, 4, 4, 8, 8, 16])
        each = [own() if kind == "task" else first for _ in range(count)]
        jobs.append([{"request": request, **which} for which in each])
        tasks += count
    return kind, problem(rng, servers, jobs)


def listed(seed):
    """In turn: partitions that overlap; one for each class, and one of all; runs of nodes."""
    rng = random.Random(seed)
    kind = ["overlap", "class", "run"][seed % 3]
    servers = [rng.choice(CLASSES) for _ in range(1000)]
    if kind == "overlap":
        parts = [rng.sample(range(1000), rng.randint(150, 500)) for _ in range(rng.randint(4, 8))]
    elif kind == "class":
        parts = [[at for at in range(1000) if servers[at] == row] for row in CLASSES]
        parts += [list(range(1000))] * 2
    else:
        cuts = [0, *sorted(rng.sample(range(50, 950), 5)), 1000]
        parts = [list(range(low, high)) for low, high in zip(cuts, cuts[1:])]
        for part in parts:
            row = rng.choice(CLASSES)
            for at in part:
                servers[at] = row
        parts.append(list(range(1000)))
    jobs, tasks = [], 0
    while tasks < 5000:
        request = [rng.choice([2, 4, 8, 16, 32]), rng.choice([4, 8, 16, 32, 64, 128]),
                   rng.choice([0, 0, 0, 1, 2]), rng.randint(0, 8)]
        base, speed = rng.uniform(0.1, 1), {row: rng.uniform(0.5, 1) for row in CLASSES}
        found = edges(rng, servers, request, rng.choice(parts),
                      lambda at: base * speed[servers[at]])
        if found:
            jobs.append([{"request": request, "edges": found}] * rng.choice([1, 2, 4, 4, 8, 8, 16]))
            tasks += len(jobs[-1])
    return kind, problem(rng, servers, jobs)


def alike(seed):
    """In turn: cores of a task as parts of a node's, from less than a third to more than half."""
    rng = random.Random(seed)
    low, high = [(0.4, 0.6), (0.3, 0.5), (0.35, 0.65), (0.45, 0.7), (0.28, 0.6),
                 (0.25, 0.45)][seed % 6]
    servers, jobs, tasks = [CLASSES[0]] * 1000, [], 0
    while tasks < 5000:
        cores, memory = CLASSES[0][:2]
        request = [rng.randint(int(cores * low), int(cores * high)),
                   rng.randint(16, int(memory * high)), rng.choice([0, 0, 1, 2]), rng.randint(0, 4)]
        task = {"request": request, "edges": [], "any": {"mean": rng.uniform(0.1, 1), "count": 5}}
        jobs.append([task] * rng.choice([1, 2, 4, 4, 8, 8, 16]))
        tasks += len(jobs[-1])
    return f"{low}-{high}", problem(rng, servers, jobs)


def halves(seed):
    """In turn: cores and memory of a task in parts of a small node's, from a fifth to all of it."""
    rng = random.Random(seed)
    low, high = [(0.25, 1.0), (0.25, 0.65), (0.2, 0.5)][seed % 3]
    size, small = rng.choice([200, 1000]), CLASSES[2]
    servers = [small if rng.random() < 0.7 or seed % 2 else CLASSES[0] for _ in range(size)]
    jobs, tasks = [], 0
    while tasks < 5 * size:
        request = [rng.randint(int(most * low), int(most * high)) for most in small[:2]]
        task = {"request": [*request, 0, rng.randint(0, 4)], "edges": [],
                "any": {"mean": rng.uniform(0.1, 1), "count": 5}}
        jobs.append([task] * rng.choice([1, 2, 4, 4, 8, 8, 16]))
        tasks += len(jobs[-1])
    return f"{low}-{high}", problem(rng, servers, jobs)


def own(seed):
    """In turn: nodes of some shapes, all different, all equal; 10, 30, 100 and 300 by gang."""
    rng = random.Random(seed)
    degree = [10, 30, 100, 300][seed // 3 % 4]
    kind, pick = ["shapes", "random", "equal"][seed % 3], rng.choice
    capacity = {"shapes": lambda: (pick([16, 32, 64]), pick([64, 128, 256]), pick([0, 2, 4]), 40),
                "random": lambda: tuple(rng.randint(8, 32) for _ in KINDS),
                "equal": lambda: (32, 128, 4, 40)}[kind]
    servers, jobs, tasks = [capacity() for _ in range(1000)], [], 0

    def asked():
        if kind == "random":
            return [rng.randint(1, 8) for _ in KINDS]
        cores = 12 if kind == "shapes" else 16
        return [rng.randint(1, cores), rng.randint(2, 4 * cores), pick([0, 0, 0, 1]),
                rng.randint(0, 8)]

    while tasks < 5000:
        alike, mean, gang = rng.random() < 0.7, rng.uniform(0.2, 1), []
        for _ in range(rng.randint(1, 9)):
            if not (gang and alike):
                request = asked()
                found = edges(rng, servers, request, rng.sample(range(1000), degree),
                              lambda _: mean * rng.uniform(0.6, 1.4))
            gang.append({"request": request, "edges": found})
        if all(task["edges"] for task in gang):
            jobs.append(gang)
            tasks += len(gang)
    return f"{kind}-{degree}", problem(rng, servers, jobs)


LISTS = {"small": lambda seed: ("", small(seed)), "large": large, "listed": listed,
         "alike": alike, "halves": halves, "own": own}


def solve(phalanx, path, deadline_ms):
    begin = time.monotonic()
    run = [phalanx, "solve", "gang", path, "--deadline-ms", str(deadline_ms)]
    out = subprocess.run(run, check=True, capture_output=True).stdout
    return json.loads(out), time.monotonic() - begin


def main(phalanx, which, first=1, count=36):
    gaps = []
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "list.json")
        for seed in range(int(first), int(first) + int(count)):
            kind, listed = LISTS[which](seed)
            with open(path, "w", encoding="ascii") as file:
                json.dump(listed, file)
            answer, took_s = solve(phalanx, path, SHORT_MS if which == "small" else LARGE_MS)
            gap = answer["gap"]
            if which == "small":
                known = max(answer["index"], solve(phalanx, path, LONG_MS)[0]["index"])
                gap = (known - answer["index"]) / abs(known)
            gaps.append(100 * gap)
            print(f"{seed:4} {kind:11} {len(listed['servers']):5} nodes "
                  f"{len(listed['jobs']):5} gangs"
                  f"  gap {gaps[-1]:6.3f} %  {took_s:.2f} s", flush=True)
    print(f"{len(gaps)} lists: mean {sum(gaps) / len(gaps):.3f} %, worst {max(gaps):.3f} %")


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[2] not in LISTS:
        sys.exit(__doc__)
    main(*sys.argv[1:])
