#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the weight of GPUs does in balance: docs/tuning.svg, from `phalanx simulate`.

    tuning_pictures.py PHALANX OUT.svg [--seeds N]

One job list a seed, of three kinds of jobs, on nodes of three kinds, is simulated
with policy `balance` for a few values of the knob, all else at its default.
Each point is the mean wait of one kind of job; the dashed line is stock's first
fit.
"""

import argparse
import csv
import datetime
import os
import random
import statistics
import subprocess
import tempfile

NODES = "6x(cpu=64,mem=256G)+3x(cpu=64,mem=512G)+3x(cpu=64,mem=256G,gpu=8)"
JOBS = 1200
BEGIN = datetime.datetime(2026, 1, 5)
MEAN_GAP_S = 78.0
HEADER = ["JobID", "User", "Partition", "Submit", "Start", "End", "State", "Timelimit", "ReqTRES",
          "AllocTRES", "NNodes", "NCPUS", "NodeList"]
LINES = [("gpu", "#b3452c", "jobs with GPUs"), ("cpu", "#2f6f9f", "jobs of a few CPUs"),
         ("whole", "#3f7d3a", "jobs of whole nodes")]
# Key below [balance], its values, and what is written at the axis.
KNOBS = [
    ('initial_weights."gres/gpu"', [0, 1, 2, 4, 8]),
]
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 210, 46, 34, 24


def job(draw):
    """(kind, CPUs a node, GiB a node, GPUs a node, nodes, seconds) of one job."""
    seconds = int(min(draw.lognormvariate(7.4, 1.0), 20000)) + 60
    roll = draw.random()
    if roll < 0.2:
        gpus = draw.choice([1, 1, 2, 4, 8])
        return "gpu", gpus * draw.choice([2, 4, 6]), gpus * draw.choice([8, 16]), gpus, 1, seconds
    if roll < 0.92:
        cpus = draw.choice([2, 4, 8, 16, 32])
        return "cpu", cpus, max(1, int(cpus * draw.choice([1, 3, 8]))), 0, 1, seconds
    return "whole", 64, 200, 0, draw.choice([1, 2]), seconds


def write_jobs(path, seed):
    """A list as `sacct --parsable2` prints it; returns the kind of each job."""
    draw = random.Random(seed)
    kinds, now = {}, BEGIN
    with open(path, "w", encoding="ascii") as file:
        print("|".join(HEADER), file=file)
        for number in range(1, JOBS + 1):
            now += datetime.timedelta(seconds=int(draw.expovariate(1 / MEAN_GAP_S)))
            kind, cpus, gib, gpus, nodes, seconds = job(draw)
            kinds[str(number)] = kind
            tres = f"cpu={cpus * nodes},mem={gib * nodes}G,node={nodes}"
            tres += f",gres/gpu={gpus * nodes}" if gpus else ""
            end = now + datetime.timedelta(seconds=seconds)
            limit = seconds * draw.choice([1, 2, 4]) // 60 + 1
            print("|".join([str(number), f"u{number % 17}", "main", now.isoformat(),
                            now.isoformat(), end.isoformat(), "COMPLETED",
                            f"{limit // 60:02}:{limit % 60:02}:00",
                            tres, tres, str(nodes), str(cpus * nodes), "n1"]), file=file)
    return kinds


def waits(program, directory, seed, policy, setting):
    """Wait of every job in minutes, by kind, on the list of one seed."""
    jobs, config = os.path.join(directory, "jobs.sacct"), os.path.join(directory, "phalanx.toml")
    kinds = write_jobs(jobs, seed)
    with open(config, "w", encoding="ascii") as file:
        print(setting, file=file)
    done = subprocess.run([program, "simulate", "--config", config, "--jobs", jobs,
                           "--nodes", NODES, "--policy", policy, "--out", directory, "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{policy} {setting!r}: {done.stderr.strip()}")
    found = {kind: [] for kind, _, _ in LINES}
    with open(os.path.join(directory, "jobs.csv"), encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found[kinds[row["job"]]].append(float(row["wait_s"]) / 60)
    return found


def mean(program, directory, seeds, policy, setting=""):
    """Mean wait in minutes by kind of job, over all jobs of all seeds."""
    found = [waits(program, directory, seed, policy, setting) for seed in range(1, seeds + 1)]
    return {kind: statistics.fmean(sum((one[kind] for one in found), [])) for kind, _, _ in LINES}


def setting_of(value):
    """phalanx.toml with this weight of GPUs."""
    weights = f'{{ cpu = 1.0, mem = 1.0, "gres/gpu" = {float(value)} }}'
    return f"[balance]\ninitial_weights = {weights}\n"


def panel(key, values, found, stock, highest):
    """One diagram as SVG, its upper left corner at 0, 0."""
    def x(index):
        return LEFT + index * (WIDTH - LEFT - 12) / (len(values) - 1)

    def y(minutes):
        return HEIGHT - GAP - minutes / highest * (HEIGHT - GAP - TOP)

    out = [f'<text x="{LEFT}" y="18" class="title">balance.{key}</text>']
    for tick in range(5):
        minutes = highest * tick / 4
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - 12}" y1="{y(minutes):.1f}" '
                   f'y2="{y(minutes):.1f}" class="grid"/>'
                   f'<text x="{LEFT - 6}" y="{y(minutes) + 4:.1f}" '
                   f'text-anchor="end">{minutes:.0f}</text>')
    for index, value in enumerate(values):
        out.append(f'<text x="{x(index):.1f}" y="{HEIGHT - 6}" '
                   f'text-anchor="middle">{value:g}</text>')
    for kind, colour, _ in LINES:
        points = " ".join(f"{x(i):.1f},{y(one[kind]):.1f}" for i, one in enumerate(found))
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - 12}" y1="{y(stock[kind]):.1f}" '
                   f'y2="{y(stock[kind]):.1f}" stroke="{colour}" class="stock"/>'
                   f'<polyline points="{points}" stroke="{colour}" class="line"/>')
        out += [f'<circle cx="{x(i):.1f}" cy="{y(one[kind]):.1f}" r="3" fill="{colour}"/>'
                for i, one in enumerate(found)]
    return "\n".join(out)


def legend():
    """What the colours mean, in a panel of its own."""
    out = [f'<text x="{LEFT}" y="18" class="title">mean wait, minutes</text>']
    for row, (_, colour, text) in enumerate(LINES):
        top = 46 + 22 * row
        out.append(f'<line x1="{LEFT}" x2="{LEFT + 30}" y1="{top}" y2="{top}" stroke="{colour}" '
                   f'class="line"/><text x="{LEFT + 38}" y="{top + 4}">{text}</text>')
    out.append(f'<line x1="{LEFT}" x2="{LEFT + 30}" y1="112" y2="112" stroke="#555" class="stock"/>'
               f'<text x="{LEFT + 38}" y="116">stock: first node that fits</text>')
    return "\n".join(out)


def picture(panels):
    """All panels in a row."""
    parts = [f'<g transform="translate({WIDTH * at},0)">\n{panel}\n</g>'
             for at, panel in enumerate(panels)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" '
            f'viewBox="0 0 {len(panels) * WIDTH} {HEIGHT + 10}" '
            'font-family="sans-serif" font-size="11" fill="#333">\n<style>.title{font-size:13px;'
            'font-weight:bold}.grid{stroke:#ddd}.line{fill:none;stroke-width:2}'
            '.stock{stroke-dasharray:4 4;stroke-width:1.2}</style>\n'
            '<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n")


def main():
    """Simulates, prints a table, writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("phalanx")
    parser.add_argument("out")
    parser.add_argument("--seeds", type=int, default=8)
    args = parser.parse_args()
    print("| setting | wait of GPU jobs [min] | CPU jobs | whole-node jobs |")
    print("|---" * 4 + "|")
    with tempfile.TemporaryDirectory() as directory:
        def show(label, one):
            cells = " | ".join(f"{value:.2f}" for value in one.values())
            print(f"| {label} | {cells} |", flush=True)
            return one

        stock = show("stock", mean(args.phalanx, directory, args.seeds, "stock"))
        results = []
        for key, values in KNOBS:
            results.append([show(f"{key} = {value}",
                                 mean(args.phalanx, directory, args.seeds, "balance",
                                      setting_of(value)))
                            for value in values])
    top = max(max(one[name] for name, _, _ in LINES) for one in [stock, *sum(results, [])])
    highest = next(step for step in (4, 8, 12, 20, 40, 60, 80, 120, 200, 400, 800, 2000, 10**6)
                   if step >= top)
    panels = [panel(key, values, found, stock, highest)
              for (key, values), found in zip(KNOBS, results)]
    with open(args.out, "w", encoding="utf-8") as file:
        file.write(picture([*panels, legend()]))


if __name__ == "__main__":
    main()
