#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The experiment of docs/methods.md, 3 (d), on this machine.

Four "nodes" are processes that really get different shares of a CPU: a controller stops and
continues each so that its CPU time stays at its share of the wall-clock time. 400 like pieces
of work (a fixed multiplication of matrices) lie on the nodes unevenly. `phalanx solve share`
splits them by method A (configuration: all equal), B (CPU load, formula 1, measured just before)
and C (history: items per second in the runs before); then every node works off its part.

Printed and plotted: completion time of each node, imbalance (longest / mean), and the time over
that of the ideal split, which is items / (sum of the speeds that the nodes had in that very run).
A run in which nodes take pieces one by one as they finish is the reference that no fixed split
can beat by much. `--check` fails unless C is within 5 % of the ideal split.
"""

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import threading
import time

NAMES = ["node1", "node2", "node3", "node4"]
SHARES = [0.24, 0.18, 0.09, 0.15]       # of one CPU; the relation 8, 6, 3, 5 of docs/methods.md
START = [0.40, 0.30, 0.20, 0.10]        # of the items, where their data lie
CPU_REQUIRED = 0.20                     # formula 1
NEWEST = 0.5                            # weight of the newest run in the history
TICK_S = 0.01
N = 80                                  # rows of the matrices
REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def item():
    """One piece of work: a fixed multiplication of two matrices."""
    a = [[(i * j) % 7 for j in range(N)] for i in range(N)]
    b = list(zip(*[[(i + j) % 5 for j in range(N)] for i in range(N)]))
    return sum(sum(x * y for x, y in zip(row, column)) for row in a for column in b)


def cpu_clock(pid):
    """The clock of a process's CPU time (clock_getcpuclockid(3))."""
    return (~pid << 3) | 2


class Node:
    """One slowed process; commands go through a pipe: a number of items, or None to end."""

    def __init__(self, share, queue):
        self.share, self.stopping = share, threading.Event()
        self.pipe, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=_work, args=(other, queue), daemon=True)
        self.process.start()
        self.thread = threading.Thread(target=self._hold_back, daemon=True)
        self.thread.start()

    def _hold_back(self):
        """Keeps CPU time / wall-clock time at the share."""
        clock = cpu_clock(self.process.pid)
        base_cpu, base = time.clock_gettime(clock), time.monotonic()
        while not self.stopping.wait(TICK_S):
            used = time.clock_gettime(clock) - base_cpu
            allowed = (time.monotonic() - base) * self.share
            number = signal.SIGSTOP if used > allowed else signal.SIGCONT
            os.kill(self.process.pid, number)
            # Time without work is not saved up.
            if allowed - used > 2 * TICK_S:
                base_cpu, base = time.clock_gettime(clock), time.monotonic()

    def end(self):
        """Ends the process."""
        self.stopping.set()
        self.thread.join()
        os.kill(self.process.pid, signal.SIGCONT)
        self.pipe.send(None)
        self.process.join(5)


def _work(pipe, queue):
    if os.sched_getscheduler(0) == os.SCHED_RR:
        os.sched_setparam(0, os.sched_param(1))
    while (order := pipe.recv()) is not None:
        if order == "spin":
            cpu, wall = time.process_time(), time.monotonic()
            while time.monotonic() - wall < 1.0:
                item()
            pipe.send((time.process_time() - cpu) / (time.monotonic() - wall))
            continue
        done, started = 0, time.monotonic()
        while done < order if order >= 0 else queue.get() is not None:
            item()
            done += 1
        pipe.send((done, time.monotonic() - started))


def all_at_once(nodes, orders):
    """What every node answers to its order."""
    for node, order in zip(nodes, orders):
        node.pipe.send(order)
    return [node.pipe.recv() for node in nodes]


def split(binary, capability, count):
    """Items of each node by `phalanx solve share`."""
    items, bounds = [], [round(count * sum(START[:i + 1])) for i in range(4)]
    for i in range(count):
        home = next(n for n in range(4) if i < bounds[n])
        items.append({"id": f"img{i:04}", "replicas": [NAMES[home], NAMES[(home + 1) % 4]]})
    problem = {"nodes": NAMES, "capability": capability, "items": items}
    done = subprocess.run([binary, "solve", "share", "-"], input=json.dumps(problem), text=True,
                          capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{binary} solve share: {done.stderr.strip()}")
    answer = json.loads(done.stdout)
    counts = [len(answer["partition"].get(name, [])) for name in NAMES]
    assert counts == answer["target"] and sum(counts) == count, answer
    return counts, answer["remote_items"]


def history(speeds):
    """Method C: exponentially weighted mean, oldest first."""
    mean = speeds[0]
    for speed in speeds[1:]:
        mean += NEWEST * (speed - mean)
    return mean


def report(name, counts, results, remote):
    """One run's numbers; a node without items has no speed."""
    times = [seconds if done else 0.0 for done, seconds in results]
    speeds = [done / seconds if done else 0.0 for done, seconds in results]
    ideal = sum(counts) / sum(speeds)
    row = {"method": name, "items": counts, "seconds": times, "completion": max(times),
           "imbalance": max(times) / statistics.mean(times), "speeds": speeds,
           "over_ideal": max(times) / ideal - 1, "remote": remote}
    print(f"{name:8} items {counts!s:22} seconds {' '.join(f'{t:6.2f}' for t in times)}  "
          f"completion {max(times):6.2f} s  imbalance {row['imbalance']:.3f}  "
          f"over the ideal split {100 * row['over_ideal']:+5.1f} %  remote {remote}", flush=True)
    return row


def plot(rows, path, count):
    """Completion time of each node and method as SVG."""
    width, height, left, base = 720, 356, 56, 280
    most = max(max(row["seconds"]) for row in rows)
    tick = next(t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1e9) if most / t <= 6)
    top = most * 1.1
    y = lambda value: base - value / top * (base - 50)
    shade = ["#08519c", "#3182bd", "#9ecae1", "#6baed6"]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif" font-size="12">', f'<rect width="{width}" height="{height}" '
           'fill="#fff"/>', f'<text x="{left}" y="22" font-size="14">Completion time by node, '
           f'{count} items on four unequal nodes</text>']
    for k in range(int(top / tick) + 1):
        value = tick * k
        out.append(f'<line x1="{left}" x2="{width - 10}" y1="{y(value):.1f}" y2="{y(value):.1f}" '
                   f'stroke="#ddd"/><text x="{left - 6}" y="{y(value) + 4:.1f}" '
                   f'text-anchor="end">{value:g} s</text>')
    step = (width - left - 20) / len(rows)
    for i, row in enumerate(rows):
        x0 = left + 10 + i * step
        bar = (step - 40) / 4
        for n, seconds in enumerate(row["seconds"]):
            x = x0 + n * bar
            out.append(f'<rect x="{x:.1f}" y="{y(seconds):.1f}" width="{bar - 3:.1f}" '
                       f'height="{base - y(seconds):.1f}" fill="{shade[n]}"><title>{NAMES[n]}: '
                       f'{row["items"][n]} items, {seconds:.2f} s</title></rect>')
        line = y(row["completion"] / (1 + row["over_ideal"]))
        out.append(f'<line x1="{x0 - 4:.1f}" x2="{x0 + 4 * bar:.1f}" y1="{line:.1f}" '
                   f'y2="{line:.1f}" stroke="#b3261e" stroke-width="2" stroke-dasharray="5 3"/>')
        out.append(f'<text x="{x0:.1f}" y="{base + 20}" font-weight="bold">{row["method"]}: '
                   f'{row["completion"]:.1f} s</text><text x="{x0:.1f}" y="{base + 37}">'
                   f'imbalance {row["imbalance"]:.2f}</text>')
    out.append(f'<text x="{left}" y="{height - 12}" fill="#b3261e">dashed: ideal split of that '
               'run; bars from left: node1 to node4</text></svg>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


def main():
    """Runs A, B, C and the reference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=400)
    parser.add_argument("--svg", default=os.path.join(REPO, "build", "share-experiment.svg"))
    parser.add_argument("--json", help="write all numbers there")
    parser.add_argument("--plot", metavar="JSON", help="only plot what --json wrote")
    parser.add_argument("--check", action="store_true", help="fail if C misses its aim")
    parser.add_argument("--binary", default=os.path.join(REPO, "target", "release", "phalanx"))
    arguments = parser.parse_args()
    if arguments.plot:
        with open(arguments.plot, encoding="utf-8") as file:
            plot(json.load(file), arguments.svg, arguments.items)
        return
    try:
        # Before everything else on this machine, and the nodes right behind: they are to be slowed
        # as told, not by others.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(2))
    except PermissionError:
        print("not root: other load of this machine disturbs the nodes")
    queue = multiprocessing.Queue()
    nodes = [Node(share, queue) for share in SHARES]
    count, past, rows = arguments.items, [[] for _ in NAMES], []
    try:
        print(f"shares of a CPU {SHARES}, items at the start "
              f"{[round(count * x) for x in START]}, load {os.getloadavg()[0]:.1f}", flush=True)
        for name in ("A", "B", "C"):
            if name == "A":
                capability = [1.0] * 4
            elif name == "B":
                free = all_at_once(nodes, ["spin"] * 4)
                capability = [min(1.0, x / CPU_REQUIRED) for x in free]
                print(f"         free CPU measured {[round(x, 2) for x in free]}")
            else:
                capability = [history(speeds) for speeds in past]
            counts, remote = split(arguments.binary, capability, count)
            rows.append(report(name, counts, all_at_once(nodes, counts), remote))
            for speeds, speed in zip(past, rows[-1]["speeds"]):
                speeds.append(speed)
        for i in [*range(count), *[None] * 4]:
            queue.put(i)
        results = all_at_once(nodes, [-1] * 4)
        rows.append(report("on demand", [done for done, _ in results], results, "-"))
    finally:
        for node in nodes:
            node.end()
    os.makedirs(os.path.dirname(arguments.svg), exist_ok=True)
    plot(rows, arguments.svg, count)
    print(f"plotted into {arguments.svg}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    if arguments.check and rows[2]["over_ideal"] > 0.05:
        sys.exit(f"C is {100 * rows[2]['over_ideal']:.1f} % over the ideal split, expected 5 %")


if __name__ == "__main__":
    main()
