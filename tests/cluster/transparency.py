#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does Slurm with the overlay do what stock Slurm does?

Boots two clusters side by side, stock Slurm and Slurm with the overlay and
phalanxd in mode enforce, and runs every case on both at once: a case submits
jobs, waits for conditions, disturbs, and notes final states, exit codes,
messages and amounts (nodes, CPUs, memory, GRES), never which nodes were chosen.
The notes of both sides must be equal, and the second side may take at most
3 times as long as stock plus 20 s, so a job that is held back fails its case.
Slurm itself has races (a cancel against a deadline, say), so a case that differs
is run once more, and fails if it differs again; both times are printed.

With --stock both sides are stock Slurm: the suite's own check, which must
always find every case the same.
"""

import argparse
import fnmatch
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback

import transparency_accounting  # noqa: F401
import transparency_control  # noqa: F401
import transparency_flow  # noqa: F401
import transparency_select  # noqa: F401
import transparency_shapes  # noqa: F401
from slurmcluster import Cluster, ClusterError, UsageError
from slurmcluster.conf import write_config
from transparency_bench import Case, CaseError, Pair, Side
from transparency_cases import CASES, fragment, variants
from slurmcluster.phalanx import read_status

EXIT_DIFFERS, EXIT_USAGE = 1, 2
CASES_MIN = 45             # fewer registered cases mean that a module was lost


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="transparency.py", allow_abbrev=False,
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="run the cases of this name (may hold * and ?); repeatable")
    parser.add_argument("--list", action="store_true", help="list the cases and exit")
    parser.add_argument("--stock", action="store_true", help="compare stock with stock")
    parser.add_argument("--verbose", action="store_true", help="print the notes of every case")
    parser.add_argument("--keep", action="store_true", help="leave clusters and files behind")
    parser.add_argument("--dir", metavar="DIR", help="where the clusters live (default: new)")
    parser.add_argument("--config", metavar="TOML", help="phalanx.toml of the second side")
    return parser.parse_args()


class Results:
    """Prints each case as it ends, and counts."""

    def __init__(self, verbose=False):
        self._lock, self.verbose = threading.Lock(), verbose
        self.passed, self.failed = 0, []

    def add(self, name, seconds, lines, notes=()):
        """One case: no lines if both sides were the same."""
        with self._lock:
            for key, value in notes if self.verbose else ():
                print(f"  {name} {key}: {value}")
            if not lines:
                self.passed += 1
                print(f"{name:<26} same      {seconds[0]:5.1f} s {seconds[1]:5.1f} s", flush=True)
                return
            self.failed.append(name)
            print(f"{name:<26} DIFFERS   {seconds[0]:5.1f} s {seconds[1]:5.1f} s", flush=True)
            for line in lines:
                print(f"    {line}", flush=True)

    def repeat(self, name, lines):
        """A case that differed and is run again."""
        with self._lock:
            print(f"{name:<26} differs, once more", flush=True)
            for line in lines:
                print(f"    {line}", flush=True)


def selected(patterns):
    """The registered cases that match, in order. Raises UsageError for a name without one."""
    for pattern in patterns:
        if not fnmatch.filter(CASES, pattern):
            raise UsageError(f"--only {pattern}: no such case (see --list)")
    return [one for name, one in CASES.items()
            if not patterns or any(fnmatch.fnmatch(name, p) for p in patterns)]


def run_side(one, side, room, pair, second, out):
    """Runs a case on one side; puts (notes, problem, seconds) into `out`."""
    context, problem = None, ""
    try:
        context = Case(side, room, one.name, pair, second)
        one.function(context)
        context.finish()
    except (CaseError, ClusterError) as error:
        problem = str(error)
    except Exception:  # a broken case must not end the suite
        problem = traceback.format_exc()
    seconds = pair.elapsed()
    if not second:
        pair.first_s = seconds
    limit = pair.limit_s()
    if second and limit is not None and seconds > limit and not problem:
        problem = f"held back: took {seconds:.0f} s, stock {pair.first_s:.0f} s"
    try:
        if context:
            context.clean()
    except (CaseError, ClusterError) as error:
        problem = problem or str(error)
    out[side.name] = (context.notes if context else [], problem, seconds)


def run_pair(one, sides, room, results):
    """Runs a case on both sides at once and compares; a second time if they differ."""
    for again in (False, True):
        out = run_once(one, sides, room)
        lines = differences(sides, [out[side.name] for side in sides])
        seconds, notes = [out[side.name][2] for side in sides], out[sides[0].name][0]
        if not lines or again:
            results.add(one.name, seconds, lines, notes)
            return
        results.repeat(one.name, lines)


def run_once(one, sides, room):
    """What both sides noted: (notes, problem, seconds) by the side's name."""
    pair, out = Pair(), {}
    threads = [threading.Thread(target=run_side, args=(one, side, room, pair, bool(index), out))
               for index, side in enumerate(sides)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return out


def differences(sides, outcomes):
    """Lines that say where two outcomes differ, or what went wrong; empty if the same."""
    lines = []
    for side, (_, problem, _) in zip(sides, outcomes):
        lines += [f"{side.name}: {line}" for line in problem.splitlines()]
    first, second = outcomes[0][0], outcomes[1][0]
    for index in range(max(len(first), len(second))):
        pair = [notes[index] if index < len(notes) else ("(nothing)", "")
                for notes in (first, second)]
        if pair[0] != pair[1]:
            for side, (key, value) in zip(sides, pair):
                lines.append(f"{side.name:<8} {key}: {value}")
    return lines


def run_rooms(cases, rooms, sides, results):
    """Runs cases, each in a free room of its kind, as many at once as there are rooms."""
    left, lock = sorted(cases, key=lambda one: not one.slow), threading.Lock()

    def work(room):
        while True:
            with lock:
                mine = next((one for one in left if one.kind == room.kind), None)
                if mine is None:
                    return
                left.remove(mine)
            run_pair(mine, sides, room, results)

    threads = [threading.Thread(target=work, args=(room,)) for room in rooms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def boot(clusters):
    """Starts clusters at once; raises the first error after ending those that came up."""
    errors = []

    def up(cluster):
        try:
            cluster.up(timeout=120)
        except Exception as error:  # whatever it is, nothing may be left running
            errors.append(error)

    threads = [threading.Thread(target=up, args=(cluster,)) for cluster in clusters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        for cluster in clusters:
            cluster.down(quick=True)
        raise errors[0] if isinstance(errors[0], (ClusterError, UsageError)) else \
            ClusterError(f"{type(errors[0]).__name__}: {errors[0]}")


def check_asked(cluster, results, name):
    """The daemon must have been asked and followed, else equality says nothing."""
    try:
        status = read_status(cluster)
        lines = [f"{key} is {status[key]}, expected more than 0"
                 for key in ("asked", "answered", "narrowed") if status[key] <= 0]
        others = ", ".join(f"{reason} {count}" for reason, count in
                           sorted(status["fallen_back"].items(), key=lambda item: -item[1]))
        print(f"{name}: asked {status['asked']}, answered {status['answered']}, "
              f"narrowed {status['narrowed']}; others: {others}", flush=True)
    except (ClusterError, KeyError) as error:
        lines = [f"phalanx status: {error}"]
    results.add(f"{name}: daemon was asked", [0.0, 0.0], lines)


def run_variant(variant, cases, args, root, results):
    """Boots both sides of a variant, runs its cases, ends both sides."""
    nodes = fragment(variant)
    names = ["stock", "stock2" if args.stock else "overlay"]
    config = args.config or write_config(os.path.join(root, f"{variant.name}-overlay"))
    clusters = [Cluster(os.path.join(root, f"{variant.name}-{name}"), stock=name != "overlay",
                        nodes=nodes, extra=variant.extra, files=variant.files,
                        slurmdbd=variant.slurmdbd,
                        config=config if name == "overlay" else None)
                for name in names]
    begin = time.monotonic()
    boot(clusters)
    print(f"{variant.name}: two clusters of {sum(len(r.nodes) for r in variant.rooms)} nodes "
          f"after {time.monotonic() - begin:.1f} s", flush=True)
    sides = [Side(name, cluster) for name, cluster in zip(names, clusters)]
    try:
        run_rooms([one for one in cases if not one.solo], variant.rooms, sides, results)
        for one in cases:
            if one.solo:
                room = next(room for room in variant.rooms if room.kind == one.kind)
                run_pair(one, sides, room, results)
        if not args.stock:
            check_asked(clusters[1], results, variant.name)
    finally:
        for side in sides:
            side.close()
        if not args.keep:
            for cluster in clusters:
                cluster.down()


def main():
    """Runs the suite; 0 if every case was the same, 1 if not, 2 on a bad command line."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    args = arguments()
    if args.list:
        for one in CASES.values():
            print(f"{one.name:<26} {one.variant:<11} {one.title}")
        return 0
    begin, results = time.monotonic(), Results(args.verbose)
    try:
        if len(CASES) < CASES_MIN:
            raise UsageError(f"{len(CASES)} cases registered, at least {CASES_MIN} expected")
        cases = selected(args.only)
        root = args.dir or tempfile.mkdtemp(prefix="phx-tr-")
        os.makedirs(root, exist_ok=True)
        os.chmod(root, 0o755)  # jobs of other users write below it
        for variant in variants().values():
            mine = [one for one in cases if one.variant == variant.name]
            if mine:
                run_variant(variant, mine, args, root, results)
    except UsageError as error:
        print(f"transparency.py: {error}", file=sys.stderr)
        return EXIT_USAGE
    except ClusterError as error:
        print(f"transparency.py: {error}", file=sys.stderr)
        results.failed.append("cluster")
    if not args.keep and not args.dir and not results.failed:
        shutil.rmtree(root, ignore_errors=True)
    elif results.failed or args.keep:
        print(f"files are in {root}")
    if results.failed:
        print(f"failed: {', '.join(results.failed)}")
    print(f"{time.monotonic() - begin:.0f} s")
    print(f"{results.passed} passed, {len(results.failed)} failed")
    return EXIT_DIFFERS if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
