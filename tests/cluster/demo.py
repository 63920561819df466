#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Phalanx gains on this machine: the same work on stock Slurm and on Phalanx, side by side.

Every row of the table is measured here and now on two real clusters; what the rows are is in
demo_rows. Those of a large machine come last and alone.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time

import demo_page
from demo_rows import ROWS, SIDES, Large
from slurmcluster import ClusterError
from slurmcluster.conf import CLOUD_MAX
from slurmcluster.pair import boot
from slurmcluster.release import Release
from slurmcluster.suite import text_of

PLAIN_LINE_S = 10.0      # between two progress lines when the output is no terminal
LOOK_S = 2.0             # between two looks at the queues
REPEAT_MAX = 100
WIDTH = 96
VERDICTS = {1: "gain", 0: "no gain", -1: "loss"}


class Side(threading.Thread):
    """One cluster of a row, in a thread of its own."""

    def __init__(self, row, side, cluster):
        super().__init__(name=f"{row.name}-{side}", daemon=True)
        self.row, self.side, self.cluster = row, side, cluster
        self.numbers, self.error, self.begun, self.ended = {}, None, None, None
        self.queue = ""

    def run(self):
        self.begun = time.monotonic()
        try:
            self.numbers = self.row.work(self.cluster)
        except Exception as error:  # pylint: disable=broad-except
            self.error = f"{self.row.name}, {SIDES[self.side]}: {text_of(error)}"
        finally:
            self.ended = time.monotonic()

    def look(self):
        """Takes note of how many jobs wait and run."""
        with contextlib.suppress(ClusterError):
            states = self.cluster.run("squeue", "-h", "-r", "-o", "%t", check=False).stdout.split()
            self.queue = f"{states.count('PD'):4} waiting {states.count('R'):3} running"

    def line(self):
        """One line of progress."""
        seconds = (self.ended or time.monotonic()) - (self.begun or time.monotonic())
        state = self.error and "failed" or self.ended and "done" or self.queue
        return f"  {self.row.name:8} {SIDES[self.side]:12} {seconds:4.0f} s  {state}"


def watch(sides):
    """Shows a line per cluster until all have ended."""
    terminal, next_look, next_plain, drawn = sys.stdout.isatty(), 0.0, 0.0, False
    while True:
        alive = [side for side in sides if side.is_alive()]
        now = time.monotonic()
        if now >= next_look:
            for side in alive:
                if not side.row.alone:      # nobody asks a slurmctld whose time is taken
                    side.look()
            next_look = now + LOOK_S
        if terminal:
            print(f"\033[{len(sides)}A" if drawn else "", end="")
            for side in sides:
                print("\033[2K" + side.line()[:WIDTH])
            drawn = True
        elif now >= next_plain or not alive:
            for side in sides:
                print(side.line(), flush=True)
            next_plain = now + PLAIN_LINE_S
        if not alive:
            return
        time.sleep(0.25)


def measured(rows, null):
    """Boots the clusters of rows, lets them work, ends them; {row: {side: numbers}}, texts."""
    clusters = {(row.name, side): row.make(side, null or side == "stock")
                for row in rows for side in SIDES}
    print(f"booting {len(clusters)} clusters: {', '.join(row.name for row in rows)}", flush=True)
    boot(list(clusters.values()))
    try:
        for row in rows:
            if not null:
                row.prepare(clusters[row.name, "phalanx"])
        sides = [Side(row, side, clusters[row.name, side]) for row in rows for side in SIDES]
        for batch in [sides] if len(rows) > 1 or not rows[0].alone else [[one] for one in sides]:
            for side in batch:
                side.start()
            watch(batch)
            if len(batch) == 1 and batch[0] is not sides[-1]:  # its jobs wait: it would plan on
                batch[0].cluster.down(quick=True)
        errors = [side.error for side in sides if side.error]
        if errors:
            raise ClusterError("; ".join(errors))
        texts = {} if null else {row.name: row.explained(clusters[row.name, "phalanx"])
                                 for row in rows}
        found = {row.name: {} for row in rows}
        for side in sides:
            found[side.row.name][side.side] = side.numbers
        return found, texts
    finally:
        for cluster in clusters.values():
            cluster.down(quick=True)


def compare(measure, runs):
    """What came of a measure in all runs: means, difference, range, verdict."""
    values = {side: [run[side].get(measure.key) for run in runs] for side in SIDES}
    if any(value is None for found in values.values() for value in found):
        return None
    stock, ours = (sum(found) / len(found) for found in values.values())
    change = (ours - stock) / stock if stock else 0.0
    better = change if measure.more else -change
    verdict = 0 if abs(change) <= measure.spread else 1 if better > 0 else -1
    return {"key": measure.key, "title": measure.title, "unit": measure.unit,
            "digits": measure.digits, "headline": measure.headline, "stock": stock,
            "phalanx": ours, "change": change, "spread": measure.spread, "runs": values,
            "verdict": VERDICTS[verdict]}


def result_of(args, rows, runs, texts):
    """Everything that was found, as JSON."""
    found = []
    for row in rows:
        measures = [compare(measure, [run[row.name] for run in runs]) for measure in row.measures]
        found.append({"name": row.name, "title": row.title, "why": row.why,
                      "needs": row.needs,
                      "explain": " ".join(("phalanx", *row.explain)),
                      "measures": [one for one in measures if one],
                      "explained": texts.get(row.name, "")})
    return {"seed": args.seed, "repeat": args.repeat, "null": args.null, "rows": found,
            "slurm": Release().version}


def number(value, one):
    """A number with its unit."""
    return f"{value:,.{one['digits']}f}{' ' + one['unit'] if one['unit'] else ''}"


def difference(one):
    """How many times, or how many per cent."""
    if not one["stock"] or not one["phalanx"]:
        return "-"
    times = max(one["phalanx"] / one["stock"], one["stock"] / one["phalanx"])
    return f"x {times:.1f}" if times >= 3 else f"{one['change']:+.0%}"


def table(result):
    """The scoreboard as text lines."""
    lines = [f"{'':50}{'stock Slurm':>13}{'Phalanx':>12}{'':>9}"]
    for row in result["rows"]:
        lines.append(row["title"])
        for one in row["measures"]:
            if one["headline"]:
                lines.append(f"  {one['title']:48}{number(one['stock'], one):>13}"
                             f"{number(one['phalanx'], one):>12}{difference(one):>9}  "
                             f"{one['verdict']}")
        lines += [f"    {row['why']}", f"    {row['explain']}; {demo_page.configuration(row)}"]
    lines += ["gain: better by more than two runs of stock Slurm differ on the same list",
              "shipped: config/phalanx.toml in mode enforce; slurm.conf is the same on both sides"]
    return lines


def markdown(results):
    """README's table: numbers of the first result, in brackets the gains of the others."""
    lines = ["| The same work on both | stock Slurm | Phalanx | gain |", "|---|---|---|---|"]
    for row in results[0]["rows"]:
        needs = f", with `{row['needs']}`" if row["needs"] else ""
        for one in filter(lambda measure: measure["headline"], row["measures"]):
            gains = [difference(same) + {"gain": "", "no gain": " none", "loss": " loss"}
                     [same["verdict"]] for result in results for other in result["rows"]
                     for same in other["measures"] if other["name"] == row["name"]
                     and same["key"] == one["key"]]
            lines.append(f"| {row['title']}{needs}: {one['title']} | {number(one['stock'], one)} "
                         f"| {number(one['phalanx'], one)} | {gains[0]}"
                         + (f" ({', '.join(gains[1:])}) |" if gains[1:] else " |"))
    return lines


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of the job lists (default 1)")
    parser.add_argument("--only", nargs="+", choices=list(ROWS), metavar="ROW",
                        help=f"these rows: {', '.join(ROWS)}")
    parser.add_argument("--nodes", type=int, default=Large.nodes, metavar="N",
                        help="of the rows starts and backfill (default %(default)s)")
    parser.add_argument("--repeat", type=int, default=1, metavar="N",
                        help="measure N times and show the means (default 1)")
    parser.add_argument("--null", action="store_true",
                        help="stock Slurm on both sides: how far two runs are apart")
    parser.add_argument("--dir", help="where the clusters live (default: a temporary directory)")
    parser.add_argument("--json", metavar="FILE", help="write the numbers here as well")
    parser.add_argument("--table", metavar="FILE", nargs="+",
                        help="measure nothing, print README's table of what --json wrote")
    parser.add_argument("--page", metavar="FILE", help="write a page of the result, which opens "
                                                       "without network")
    args = parser.parse_args()
    if not 1 <= args.repeat <= REPEAT_MAX:
        parser.error(f"--repeat: expected 1 to {REPEAT_MAX}")
    if not 160 <= args.nodes <= CLOUD_MAX:
        parser.error(f"--nodes: expected 160 to {CLOUD_MAX}")
    return args


def work(args, root):
    """Measures what is asked for, as often as is asked for."""
    rows = [ROWS[name](args.seed, root) for name in args.only or ROWS]
    Large.nodes = args.nodes
    together, runs, texts = [row for row in rows if not row.alone], [], {}
    for at in range(args.repeat):
        run = {}
        for some in filter(None, [together, *([row] for row in rows if row.alone)]):
            for row in some:
                row.root = os.path.join(root, str(at), row.name)
                os.makedirs(row.root)
            found, said = measured(some, args.null)
            run |= found
            texts |= said
        runs.append(run)
    return result_of(args, rows, runs, texts)


def main():
    """Boots, measures, compares; ends everything whatever happens."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    args = arguments()
    if args.table:
        results = []
        for path in args.table:
            with open(path, encoding="utf-8") as file:
                results.append(json.load(file))
        print(*markdown(results), sep="\n")
        return 0
    root = args.dir or tempfile.mkdtemp(prefix="phalanx-demo-")
    try:
        result = work(args, root)
        print("", *table(result), sep="\n")
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
        if args.page:
            os.makedirs(os.path.dirname(os.path.abspath(args.page)), exist_ok=True)
            with open(args.page, "w", encoding="utf-8") as file:
                file.write(demo_page.page(result))
            print(f"\nThe same with all numbers: {args.page}")
        return 0
    except (ClusterError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        if not args.dir:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
