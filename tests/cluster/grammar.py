#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does every request that the grammar of sbatch has come out as with stock Slurm?

Clusters, what they are busy with, and requests are made from a seed. Stock Slurm and Phalanx are
put into the same state before each request, which is a fresh allocation with sbatch's options and
ends at once, so that each outcome is compared with stock's own (grammar_model). A difference is
shrunk to the fewest options and the smallest state and printed with its slurm.conf.
"""

import contextlib
import os
import subprocess
import sys
from collections import defaultdict

from grammar_config import Config, Kind, Part
from grammar_model import HARMS
from grammar_walk import Tally, Walk, shrink_config
from slurmcluster.conf import PATIENT
from slurmcluster.release import Release
from slurmcluster.suite import Cases, Suite, command_line, run

HERE = os.path.dirname(os.path.abspath(__file__))
SHOWN_MAX = 40          # differences that are printed whole
PASSED_MAX = 5          # that were there once, not again
SABOTAGE_REQUESTS = 30
HEEDLESS = "[balance]\nweight_cost = 0.0\n"
case = Cases()


class Grammar(Suite):
    """The library that lets commands stay, and the options."""

    def __init__(self, root, args):
        super().__init__()
        self.root, self.args = root, args
        self.library = os.path.join(root, "served.so")
        tree = Release().tree
        subprocess.run([os.environ.get("CC", "gcc"), "-std=gnu11", "-O1", "-shared", "-fPIC", "-o",
                        self.library, os.path.join(HERE, "served.c"), "-ldl",
                        *([f"-I{tree}/usr/include"] if tree else [])], check=True)

    def walk(self, requests, name, lanes=1, **pair):
        """The Tally of so many requests."""
        tally = Tally()
        Walk(os.path.join(self.root, name), self.library, self.args.seed, tally,
             **pair).run(requests, lanes)
        for text in tally.lost:
            self.expect(False, f"not finished: {text}")
        return tally


def told(tally):
    """One line of a Tally."""
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in tally.verdicts.most_common())
    kinds = ", ".join(f"{kind} {count}" for kind, count in tally.counted.most_common())
    unsteady = sum(tally.unsteady.values())
    return (f"{tally.requests} requests on {tally.clusters} clusters, {tally.asks} asks, "
            f"{tally.requests / max(tally.seconds, 0.001):.1f} a second; stock: {verdicts}; "
            f"differences: {kinds or 'none'}" + (f"; unsteady {unsteady}" if unsteady else ""))


@case
def stock_beside_stock(suite):
    """Stock beside stock: no difference at all"""
    tally = suite.walk(SABOTAGE_REQUESTS * 4, "stock", second="stock2")
    for one in tally.found:
        suite.expect(False, f"{one.kind}: {one}")
    suite.summary = told(tally)


def seen(suite, kind, **sabotage):
    """Whether a side that does worse on purpose is found out."""
    light, heavy = (Kind(1, 4, 1, 8000, weight, ("a",), ()) for weight in (1, 50))
    config = Config((light,) * 4 + (heavy,) * 4, (Part("main", 1, 8),))
    tally = suite.walk(SABOTAGE_REQUESTS, kind, config=config, **sabotage)
    found = [one for one in tally.found if one.kind == kind and one.shrunk]
    suite.expect(found, f"no difference {kind}: {told(tally)}")
    if found:
        least = min(found, key=lambda one: len(one.words))
        suite.summary = f"{told(tally)}; sbatch {' '.join(least.words)}"


@case
def heavier_seen(suite):
    """A daemon that does not heed Weight is found out"""
    seen(suite, "heavier", toml=PATIENT + HEEDLESS)


@case
def more_nodes_seen(suite):
    """A side that spreads every job is found out"""
    seen(suite, "more-nodes", second="stock2", more=("--spread-job",))


@case
def waits_seen(suite):
    """A side that starts no job at once is found out"""
    seen(suite, "waits", second="stock2", extra=("SchedulerParameters=defer",))


@case
def requests(suite):
    """Phalanx beside stock: each request comes out as with stock, or better"""
    tally = suite.walk(suite.args.requests, "ours", suite.args.lanes)
    groups = defaultdict(list)
    for one in sorted(tally.found, key=lambda one: not one.shrunk):
        groups[one.kind, one.heads if one.shrunk else "(not shrunk)"].append(one)
    rows = sorted(groups.items(), key=lambda item: (item[0][0] not in HARMS, -len(item[1])))
    shown = 0
    for (kind, heads), found in rows:
        faults = kind in HARMS and found
        print(f"{'FAULT' if faults else 'other':<6} {kind:<13} {len(found):>5}  {heads}")
        if faults and shown < SHOWN_MAX:
            shown += 1
            one = shrink_config(faults[0], suite.root, suite.library) if suite.args.plain \
                else faults[0]
            print(f"{kind} ({len(faults)} times): {one}")
            suite.expect(False, f"{kind} ({len(faults)} times): sbatch {' '.join(one.words)}")
    print(f"unsteady: {dict(tally.unsteady)}; uneven {len(tally.uneven)}", *tally.uneven[:5],
          *(f"once {one.kind}: {one}" for one in tally.passed[:PASSED_MAX]), sep="\n")
    suite.expect(tally.narrowed > tally.requests // 20,
                 f"Phalanx chose only {tally.narrowed} of {tally.requests}")
    suite.summary = f"{told(tally)}; asked {tally.asked}, narrowed {tally.narrowed}"


@contextlib.contextmanager
def setting(root, args):
    """The suite."""
    yield Grammar(root, args)


def more(parser):
    """Options of its own."""
    parser.add_argument("--requests", type=int, default=1000, help="to both sides (default: 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=1, help="clusters at once (default: 1)")
    parser.add_argument("--plain", action="store_true",
                        help="shrink the clusters of differences as well")


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, more), setting))
