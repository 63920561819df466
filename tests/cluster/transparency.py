#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does Slurm with the overlay do what stock Slurm does?

Boots two clusters side by side, stock Slurm and Slurm with the overlay and
phalanxd in mode enforce, and runs every case on both at once: a case submits
jobs, waits for conditions, disturbs, and notes final states, exit codes,
messages and amounts (nodes, CPUs, memory, GRES), never which nodes were chosen.
The notes of both sides must be equal, and the second side may take at most
3 times as long as stock plus 20 s, so a job that is held back fails its case.
Slurm itself has races (a cancel against a deadline, say): tests/run lets a case
that differs run once more, alone, and keeps that it had to.

With --stock both sides are stock Slurm: the suite's own check, which must
always find every case the same.
"""

import os
import sys
import threading
import time

import transparency_accounting  # noqa: F401
import transparency_control  # noqa: F401
import transparency_flow  # noqa: F401
import transparency_gres  # noqa: F401
import transparency_layout  # noqa: F401
import transparency_select  # noqa: F401
import transparency_shapes  # noqa: F401
import transparency_sharing  # noqa: F401
import transparency_state  # noqa: F401
import transparency_topology  # noqa: F401
from slurmcluster import Cluster, ClusterError
from slurmcluster.conf import write_config
from slurmcluster.pair import boot
from slurmcluster.phalanx import read_status
from slurmcluster.release import Release
from slurmcluster.suite import Report, SuiteError, check, command_line, directory, text_of
from transparency_bench import Case, Pair, Side
from transparency_cases import CASES, fragment, variants

CASES_MIN = 170             # fewer registered cases mean that a module was lost


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--stock", action="store_true", help="compare stock with stock")
    parser.add_argument("--verbose", action="store_true", help="print the notes of every case")
    parser.add_argument("--variant", action="append", metavar="NAME", choices=list(variants()),
                        help="only the cases of this configuration of Slurm; repeatable")
    parser.add_argument("--config", metavar="TOML", help="phalanx.toml of the second side")


class Results(Report):
    """Prints both sides' times of each case."""

    def __init__(self, args):
        super().__init__(args)
        self.verbose = args.verbose

    def pair(self, case, outcomes, lines):
        """One case: no lines if both sides were the same."""
        times = "   ".join(f"{name} {outcome[2]:.1f} s" for name, outcome in outcomes.items())
        notes = next(iter(outcomes.values()))[0] if self.verbose else ()
        self.add(case.name, lines, max(outcome[2] for outcome in outcomes.values()),
                 "\n".join([times, *(f"    {key}: {value}" for key, value in notes)]))


def run_side(one, side, room, pair, second, out):
    """Runs a case on one side; puts (notes, problem, seconds) into `out`."""
    context, problem = None, ""
    try:
        context = Case(side, room, one.run.__name__, pair, second)
        one.run(context)
        context.finish()
    except Exception as error:  # pylint: disable=broad-except
        problem = text_of(error)
    seconds = pair.elapsed()
    if not second:
        pair.first_s = seconds
    limit = pair.limit_s()
    if second and limit is not None and seconds > limit and not problem:
        problem = f"held back: took {seconds:.0f} s, stock {pair.first_s:.0f} s"
    try:
        if context:
            context.clean()
    except (SuiteError, ClusterError) as error:
        problem = problem or str(error)
    out[side.name] = (context.notes if context else [], problem, seconds)


def run_pair(one, sides, room, results):
    """Runs a case on both sides at once and compares."""
    out = run_once(one, sides, room)
    lines = differences(sides, [out[side.name] for side in sides])
    results.pair(one, {side.name: out[side.name] for side in sides}, lines)


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
    results.add(f"daemon-was-asked ({name})", lines, 0.0)


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
        # Single cases that run again may be of those in which nobody is asked.
        if not args.stock and not args.again:
            check_asked(clusters[1], results, variant.name)
    finally:
        for side in sides:
            side.close()
        if not args.keep:
            for cluster in clusters:
                cluster.down()


def chosen_variants(args):
    """The variants that were asked for and that this release of Slurm can have."""
    return [variant for name, variant in variants().items()
            if name in (args.variant or variants()) and Release().number >= variant.since]


def main():
    """Runs the suite, one variant after the other; returns the exit status."""
    # The runner is told of the cases of these variants alone.
    args = command_line(__doc__, CASES, options, lambda args, one: one.where in {
        variant.name for variant in chosen_variants(args)})
    results = Results(args)
    with directory(args) as root:
        try:
            check(len(CASES) >= CASES_MIN,
                  f"{len(CASES)} cases registered, at least {CASES_MIN} expected")
            for variant in chosen_variants(args):
                mine = [one for one in args.cases if one.where == variant.name]
                if mine:
                    run_variant(variant, mine, args, root, results)
        except Exception as error:  # pylint: disable=broad-except
            results.add("setting", [text_of(error)], 0.0)
        status = results.close()
        args.failed = status != 0
    return status


if __name__ == "__main__":
    sys.exit(main())
