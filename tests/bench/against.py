#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This checkout beside another commit on one machine, in turn, with stock Slurm beside each.

Builds both alike, the other in a worktree under build/against, which stays for the next time.
Each round runs each side's own benchmarks with its own programs: starts and asks (bench_10k.py),
then, where the commit has these rows, backfill and sbatch (demo.py). slurmctld has the first CPU,
all others have the rest. A figure is the median of the rounds, with the least and the most; `x` is
over stock, the median of each run's own ratio. Last come the second side's gain over the first, as
the median of the rounds' ratios, and an interval that holds it 95 times in 100, by order: where 1
lies inside, the rounds cannot tell.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/cluster"))
from rounds import interval, slurmctld_apart  # noqa: E402 pylint: disable=wrong-import-position
from slurmcluster.release import Release  # noqa: E402 pylint: disable=wrong-import-position
# Title, unit, key of a run, whether more is better.
MEASURES = (("starts", "a second", "starts", True), ("ask, median", "us", "ask_p50", False),
            ("ask, 99th percentile", "us", "ask_p99", False),
            ("backfill cycle", "ms", "backfill_ms", False), ("sbatch", "ms", "sbatch_ms", False))


def run(where, *words, **variables):
    """Runs a command of a side; raises CalledProcessError with what it printed."""
    subprocess.run(words, cwd=where, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                   text=True, env=os.environ | variables)


def build(where, profile):
    """Builds a side's plugin and programs; returns the variables of its benchmarks."""
    print(f"building {where}, profile {profile}", flush=True)
    run(where, "make", "plugin")
    target = os.path.join(where, "target")
    run(where, "cargo", "build", "--workspace", "--bins", "--profile", profile,
        CARGO_TARGET_DIR=target)
    return {"PYTHONPATH": os.path.join(where, "tests/cluster"),
            "PHALANX_OVERLAY_DIR": os.path.join(where, f"build/slurm-{Release().version}"),
            "PHALANX_BIN_DIR": os.path.join(target, profile)}


def measure(where, variables, args):
    """One round of a side: {key: (stock, phalanx)}; stock is None where it has none."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="phalanx-against-") as directory:
        file = os.path.join(directory, "found.json")
        run(where, sys.executable, "tests/cluster/bench_10k.py", "--phases", "stock,enforce",
            "--nodes", str(args.nodes), "--jobs", str(args.jobs), "--seed", str(args.seed),
            "--json", file, **variables)
        with open(file, encoding="utf-8") as text:
            phases = json.load(text)["phases"]
        stock, ours = phases["stock"], phases["enforce"]
        found["starts"] = stock["starts_per_s"], ours["starts_per_s"]
        for share in "p50", "p99":
            found[f"ask_{share}"] = None, ours[f"ask_{share}_us"]
        if args.backfill:
            run(where, sys.executable, "tests/cluster/demo.py", "--only", "backfill", "--nodes",
                str(args.nodes), "--json", file, **variables)
            with open(file, encoding="utf-8") as text:
                for one in json.load(text)["rows"][0]["measures"]:
                    found[one["key"]] = one["stock"], one["phalanx"]
    return found


def table(names, runs):
    """The lines of the table of {side: [round]}."""
    lines = [f"{'median (least to most)':32}" + "".join(f"{name:>32}" for name in names)]
    for title, unit, key, more in MEASURES:
        sides = [[one[key] for one in runs[name] if key in one] for name in names]
        if not all(sides):
            continue
        cells, middle = [], []
        for side in sides:
            values = [ours for _, ours in side]
            middle.append(statistics.median(values))
            over = [ours / stock if more else stock / ours for stock, ours in side if stock]
            cells.append(f"{middle[-1]:.0f} ({min(values):.0f} to {max(values):.0f})"
                         + (f", x {statistics.median(over):.1f}" if over else ""))
        ratios = [own[1] / other[1] if more else other[1] / own[1]
                  for other, own in zip(*sides)]
        bounds = interval(ratios)
        told = f" ({bounds[0]:.2f} to {bounds[1]:.2f})" if bounds else " (too few rounds)"
        unsure = ", cannot tell" if bounds and bounds[0] <= 1 <= bounds[1] else ""
        lines.append(f"{title + ', ' + unit:32}" + "".join(f"{cell:>32}" for cell in cells)
                     + f"{statistics.median(ratios):9.2f}{told}{unsure}")
    return lines


def main():
    """Builds both sides, measures them in turn, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="what this checkout is held against")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", default="release", help="of cargo (default %(default)s)")
    args = parser.parse_args()
    show = ["git", "-C", ROOT, "rev-parse", "--short=10", f"{args.commit}^{{commit}}"]
    commit = subprocess.run(show, check=True, capture_output=True, text=True).stdout.strip()
    other = os.path.join(ROOT, "build", "against", commit)
    runs = {commit: [], "this checkout": []}
    try:
        if not os.path.isdir(other):
            run(ROOT, "git", "worktree", "prune")
            run(ROOT, "git", "worktree", "add", "--detach", other, commit)
        with open(os.path.join(other, "tests/cluster/demo.py"), encoding="utf-8") as text:
            args.backfill = '"--nodes"' in text.read()
        sides = [(name, where, build(where, args.profile))
                 for name, where in zip(runs, (other, ROOT))]
        with slurmctld_apart():
            for number in range(args.rounds):
                # In turn and the other way round: a machine that gets slower favours none.
                for name, where, variables in sides[::-1] if number % 2 else sides:
                    runs[name].append(measure(where, variables, args))
                    print(f"round {number + 1}, {name}: {runs[name][-1]}", flush=True)
    except subprocess.CalledProcessError as error:
        print(f"against: {' '.join(error.cmd)}: exit {error.returncode}\n{error.stdout[-3000:]}",
              file=sys.stderr)
        return 1
    print(*table(list(runs), runs), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
