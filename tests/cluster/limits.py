#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How near Phalanx is to the fastest that a choice of nodes can make an unmodified slurmctld.

Each round has the demo's rows of a large machine on three clusters in turn: stock Slurm, Phalanx
as shipped after its first comparisons, and a plugin that names nodes at once and asks nobody
(plugin/tests/limit.c; `make -C plugin limit`). A figure is the median of the rounds, with the
least and the most; the share is the limit's time over Phalanx', in the median of the rounds.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile

from demo_rows import Backfill, Large, Starts
from slurmcluster import Cluster, ClusterError
from slurmcluster.conf import CLOUD_MAX
from slurmcluster.release import Release
from slurmcluster.suite import text_of

SIDES = ("stock", "phalanx", "limit")
ROUNDS_MAX = 100


def limit_cluster(row, directory):
    """A cluster whose plugin asks nobody."""
    built = os.environ.get("PHALANX_OVERLAY_DIR", f"build/slurm-{Release().version}")
    overlay = os.path.join(built, "limit")
    cluster = Cluster(directory, overlay=os.path.abspath(overlay), daemon=False, **row.cluster)
    row.asks_daemon = False
    return cluster


def measured(make, side, root, args, at):
    """The numbers of one row on one side: {key: number}."""
    row = make(args.seed, os.path.join(root, f"{side}-{at}"))
    row.nodes = args.nodes
    cluster = limit_cluster(row, os.path.join(row.root, "limit")) if side == "limit" \
        else row.make(side, side == "stock")
    with cluster:
        if side == "phalanx":
            row.prepare(cluster)
        return row.work(cluster)


def table(found, args):
    """The rounds as text lines."""
    lines = [f"{args.nodes:,} nodes, {args.rounds} rounds",
             f"{'':34}" + "".join(f"{side:>24}" for side in SIDES) + f"{'share of limit':>24}"]
    for row in (Starts, Backfill):
        for measure in row.measures:
            values = [[one[side][measure.key] for one in found] for side in SIDES]
            shares = [ours / limit if measure.more else limit / ours
                      for _, ours, limit in zip(*values)]
            cells = [f"{statistics.median(side):,.{measure.digits}f} "
                     f"({min(side):,.{measure.digits}f}-{max(side):,.{measure.digits}f})"
                     for side in values]
            cells.append(f"{statistics.median(shares):.0%} ({min(shares):.0%}-{max(shares):.0%})")
            lines.append(f"{measure.title + (', ' + measure.unit if measure.unit else ''):34}"
                         + "".join(f"{cell:>24}" for cell in cells))
    return lines


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=Large.nodes, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="write the numbers here as well")
    args = parser.parse_args()
    if not 160 <= args.nodes <= CLOUD_MAX:
        parser.error(f"--nodes: expected 160 to {CLOUD_MAX}")
    if not 1 <= args.rounds <= ROUNDS_MAX:
        parser.error(f"--rounds: expected 1 to {ROUNDS_MAX}")
    return args


def main():
    """Measures, prints; returns the exit code."""
    args, found = arguments(), []
    with tempfile.TemporaryDirectory(prefix="phalanx-limits-") as root:
        for at in range(args.rounds):
            numbers = {side: {} for side in SIDES}
            for make in (Starts, Backfill):
                # In turn, and each round from another side on.
                for side in SIDES[at % 3:] + SIDES[:at % 3]:
                    try:
                        numbers[side] |= measured(make, side, root, args, at)
                    except ClusterError as error:
                        print(f"{make.name}, {side}: {text_of(error)}", file=sys.stderr)
                        return 1
                    print(f"round {at + 1}: {make.name}, {side}: {numbers[side]}", flush=True)
            found.append(numbers)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"nodes": args.nodes, "rounds": found}, file, indent=1)
    print("\n".join(table(found, args)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
