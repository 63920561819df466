#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of docs/methods.md drawn anew: is each mean within the figure's error bar?

    figures.py [--program PHALANX_BENCH] [--docs DIR] [FIGURE...]

The bars of a picture in docs/ (mean and deviation at a tick of the axis across, by panel and
colour) are read from the drawing, and so are those of a drawing of fewer slots or runs. A picture
without bars is compared to the byte, but for a panel of times. Nothing is written below docs/.
"""

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Arguments of phalanx-bench before the picture's name, and by how many deviations a mean may be
# off: one run of five may by two.
FIGURES = {
    "balance-example": (("balance-example",), 0),
    "gang-policies": (("gang-policies", "100", "5"), 1),
    "gang-regret": (("gang-regret", "300", "5"), 1),
    "data-turns": (("bisect-turns", "1"), 2),
    "bag-experiments": (("bag-experiments", "--svg"), 0),
}
TEXT = re.compile(r"<text x='([\d.]+)' y='([\d.]+)' text-anchor='(\w+)'[^>]*>(-?[\d.]+)</text>")
BAR = re.compile(r"<path d='M([\d.]+) (-?[\d.]+)h6m-3 0V(-?[\d.]+)m-3 0h6' stroke='([^']*)'")
TIMES = re.compile(r">[^<]*milliseconds.*?(?=<text[^>]*>Figure|$)", re.DOTALL)
PIXEL = 0.15            # by which a coordinate is rounded, and a little


def heights(ticks):
    """The value at a height of a panel, from two of its ticks; logarithmic ones are powers of 10"""
    (low, first), (high, second) = ticks[:2]
    is_log = first > 0 and round(second / first, 6) == 10
    first, second = (math.log(v) if is_log else v for v in (first, second))

    def value(y):
        at = first + (second - first) * (y - low) / (high - low)
        return math.exp(at) if is_log else at
    return value


def bars(picture):
    """(least, mean, most) of each bar, by panel, colour and tick."""
    texts = [(float(x), float(y), anchor, float(value))
             for x, y, anchor, value in TEXT.findall(picture)]
    sides = sorted({x for x, _, anchor, _ in texts if anchor == "end"})
    found = {}
    for x, upper, lower, colour in BAR.findall(picture):
        x, upper, lower = float(x) + 3, float(upper), float(lower)
        side = max(left for left in sides if left < x)
        value = heights([(y - 4, v) for at, y, anchor, v in texts
                         if anchor == "end" and at == side])
        tick = min((abs(at - x), v) for at, _, anchor, v in texts if anchor == "middle")[1]
        found[sides.index(side), colour, tick] = (
            value(lower + PIXEL), value((upper + lower) / 2), value(upper - PIXEL))
    return found


def outside(theirs, ours, deviations):
    """What of our bars is outside of theirs."""
    both = sorted(theirs.keys() & ours.keys())
    if not both:
        yield "no bar is in both"
    for key in both:
        (least, middle, most), (low, mean, high) = theirs[key], ours[key]
        least, most = (middle + deviations * (end - middle) for end in (least, most))
        # Of means that are exact a pixel is all that there is.
        if not (least <= mean <= most or low <= least <= most <= high):
            panel, colour, tick = key
            yield (f"panel {panel + 1}, {colour} at {tick:g}: {mean:.4g}, "
                   f"where the figure has {least:.4g} to {most:.4g}")


def faults(program, docs, figure):
    """What of one figure does not hold."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "new.svg")
        words, deviations = FIGURES[figure]
        done = subprocess.run([program, *words, path], text=True, check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if done.returncode != 0:
            return [done.stderr.strip() or "the program failed"]
        with open(path, encoding="utf-8") as new:
            ours = new.read()
    with open(os.path.join(docs, f"{figure}.svg"), encoding="utf-8") as old:
        theirs = old.read()
    if not BAR.search(theirs):
        return [] if TIMES.sub("", ours) == TIMES.sub("", theirs) else ["it is another picture"]
    return list(outside(bars(theirs), bars(ours), deviations))


def main():
    """Compares the figures and says what is outside."""
    parser = argparse.ArgumentParser(description="Compare figures with those of docs/.")
    directory = os.environ.get("PHALANX_BIN_DIR", f"{TOP}/target/debug")
    parser.add_argument("--program", default=os.path.join(directory, "phalanx-bench"))
    parser.add_argument("--docs", default=os.path.join(TOP, "docs"))
    parser.add_argument("figures", nargs="*", default=list(FIGURES), metavar="FIGURE")
    args = parser.parse_args()
    bad = [f"{figure}: {fault}" for figure in args.figures
           for fault in faults(args.program, args.docs, figure)]
    for line in bad:
        print(line)
    print(f"{len(args.figures)} figures drawn anew, {len(bad)} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
