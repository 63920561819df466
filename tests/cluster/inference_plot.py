# SPDX-License-Identifier: GPL-3.0-or-later
"""Completion time of each node and method of inference.py as SVG."""


def plot(rows, path, names, count):
    """Writes it; `rows` are those of inference.py, of `count` images."""
    width, height, left, base = 720, 356, 56, 280
    most = max(max(row["seconds"]) for row in rows)
    tick = next(t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1e9) if most / t <= 6)
    top = most * 1.1
    y = lambda value: base - value / top * (base - 50)
    shade = ["#08519c", "#3182bd", "#9ecae1", "#6baed6"]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif" font-size="12">', f'<rect width="{width}" height="{height}" '
           'fill="#fff"/>', f'<text x="{left}" y="22" font-size="14">Completion time by node, '
           f'{count} images on nodes of unequal speed</text>']
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
                       f'height="{base - y(seconds):.1f}" fill="{shade[n]}"><title>{names[n]}: '
                       f'{row["items"][n]} images, {seconds:.2f} s</title></rect>')
        line = y(row["completion"] / (1 + row["above_ideal"]))
        out.append(f'<line x1="{x0 - 4:.1f}" x2="{x0 + 4 * bar:.1f}" y1="{line:.1f}" '
                   f'y2="{line:.1f}" stroke="#b3261e" stroke-width="2" stroke-dasharray="5 3"/>')
        out.append(f'<text x="{x0:.1f}" y="{base + 20}" font-weight="bold">{row["method"]}: '
                   f'{row["completion"]:.1f} s</text><text x="{x0:.1f}" y="{base + 37}">'
                   f'{row["above_ideal"]:+.1%} of the ideal split</text>')
    out.append(f'<text x="{left}" y="{height - 12}" fill="#b3261e">dashed: ideal split of that '
               f'run; bars from left: {names[0]} to {names[-1]}</text></svg>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")
