# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of the demo as one HTML page that needs nothing else."""

from html import escape

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #6a737d; --line: #d0d7de;
        --stock: #9aa4ae; --ours: #0b6bcb; --paper: #fff; --good: #1a7f37; --bad: #b35900; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --faint: #8b949e; --line: #30363d; --stock: #6e7681; --ours: #4aa3ff;
          --paper: #0d1117; --good: #3fb950; --bad: #d29922; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 54rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .2rem; }
p { margin: .2rem 0; } .faint { color: var(--faint); }
.measure { margin: .8rem 0; } .measure b { font-weight: 600; }
.bar { display: grid; grid-template-columns: 6.5rem 1fr 8rem; align-items: center; gap: .6rem; }
.bar span:last-child { text-align: right; font-variant-numeric: tabular-nums; }
.track { height: .8rem; border-radius: .2rem; }
.stock { background: var(--stock); } .phalanx { background: var(--ours); }
.gain { color: var(--good); } .loss { color: var(--bad); }
pre { overflow-x: auto; border: 1px solid var(--line); padding: .6rem; font-size: .8rem; }
"""
NAMES = {"stock": "stock Slurm", "phalanx": "Phalanx"}


def page(result):
    """The whole page."""
    runs = "one run" if result["repeat"] == 1 else f"means of {result['repeat']} runs"
    null = " Both sides were stock Slurm." if result["null"] else ""
    rows = "".join(map(section, result["rows"]))
    return (f"<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Phalanx: what it "
            f"gains here</title><style>{STYLE}</style><h1>What Phalanx gains on this machine</h1>"
            f"<p class=\"faint\">Slurm {escape(result['slurm'])}, seed {result['seed']}, {runs}: "
            f"the same work on real clusters of stock Slurm and of Phalanx.{null} A gain is a "
            f"difference larger than that of two runs of stock Slurm. As shipped: "
            f"<code>config/phalanx.toml</code> in mode enforce; <code>slurm.conf</code>, its "
            f"Weights included, is the same on both sides.</p>{rows}</html>\n")


def configuration(row):
    """With which configuration of Phalanx a row was measured, as a few words."""
    return f"needs {row['needs']}" if row["needs"] else "as shipped"


def section(row):
    """A row with its measures and what the explaining command said."""
    more = (f"<details><summary><code>{escape(row['explain'])}</code></summary>"
            f"<pre>{escape(row['explained'])}</pre></details>" if row["explained"] else "")
    return (f"<section><h2>{escape(row['title'])}</h2><p>{escape(row['why'])}; "
            f"Phalanx: {escape(configuration(row))}</p>"
            f"{''.join(map(measure, row['measures']))}{more}</section>")


def measure(one):
    """Two bars."""
    most = max(one["stock"], one["phalanx"]) or 1.0
    bars = "".join(
        f"<div class=\"bar\"><span>{NAMES[side]}</span><div class=\"track {side}\" "
        f"style=\"width:{max(0.4, 100 * one[side] / most):.1f}%\"></div>"
        f"<span>{one[side]:,.{one['digits']}f} {escape(one['unit'])}</span></div>"
        for side in NAMES)
    return (f"<div class=\"measure\"><b>{escape(one['title'])}</b> "
            f"<span class=\"{one['verdict'].replace('no gain', 'faint')}\">{one['change']:+.0%}, "
            f"{one['verdict']}</span> <span class=\"faint\">(spread of stock Slurm "
            f"{one['spread']:.0%})</span>{bars}</div>")
