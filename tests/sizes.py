# SPDX-License-Identifier: GPL-3.0-or-later
"""The one counter of the repository's sizes: by feature (tests/features.tsv), and by what else has
a budget (tests/budgets.toml).

Product are the lines, blank and comment too, of .rs, .c and .h files below src, ffi and plugin
without tests: without files, modules and items under #[cfg(test)], build scripts, and the folders
tests, examples and benches. The crates in APART are no product: they are counted alone.

A row of features.tsv names its files and keys by how they begin; where several rows name one, the
longest beginning has it.
"""

import math
import os
import re
import subprocess
import tomllib
import typing

FEATURES, BUDGETS = os.path.join("tests", "features.tsv"), os.path.join("tests", "budgets.toml")
APART = ("src/bench", "tests/fuzz")
PRODUCT = re.compile(r"^(?:src|ffi|plugin)/.*\.(?:rs|c|h)$")
NOT_PRODUCT = re.compile(r"/(?:tests|examples|benches)/|/tests\.rs$|_tests\.rs$"
                         r"|^(?:src/[^/]+|ffi(?:/slurm)?)/build\.rs$")
TEST = re.compile(r"^( *)#\[cfg\(test\)\]$")
MODULE = re.compile(r"^ *(?:pub(?:\([\w:]+\))? )?mod (\w+);$")
# A section's name, a key of the section before, a key of no section.
KEY = re.compile(r'^    \w+ in "(\w+)" {$|^        (\w+): .*\s+=> (?:reload|restart)\('
                 r'|Key::new\("([^"]+)"', re.MULTILINE)
DOCUMENTS = re.compile(r"^(?:README|ARCHITECTURE|BENCHMARKS|CHANGELOG)\.md$|^docs/[^/]+\.md$")
AIR = 0.03          # a budget's room for changes beyond the size at which it was set
FALLEN = 0.06       # a size that is smaller than its budget by more than this lowers it
# A line of a commit that lets a row of features.tsv grow: the user who asked for it.
ASKED = re.compile(r"^Asked by: \S", re.MULTILINE)


def lines_of(root, path):
    """The lines of a file."""
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read().splitlines()


def without_tests(lines):
    """(lines that are no test, names of modules in files of their own that are)."""
    kept, modules, at = [], [], 0
    while at < len(lines):
        found = TEST.match(lines[at])
        if not found:
            kept.append(lines[at])
            at += 1
            continue
        while lines[at].lstrip().startswith("#["):
            at += 1
        module = MODULE.match(lines[at])
        modules += [module.group(1)] if module else []
        # By rustfmt's rules an item ends where its last brace is as far to the right as it began.
        ends = re.compile(rf"^{found.group(1)}(?:\}}|\)|\]|\S.*[;,}}]$)")
        while at < len(lines) and not ends.match(lines[at]):
            at += 1
        at += 1
    return kept, modules


def product_lines(root, paths):
    """{path: its lines without tests} of all that may be product, the crates in APART too."""
    kept, tests = {}, set()
    for path in paths:
        apart = path.startswith(APART) and path.endswith(".rs")
        if NOT_PRODUCT.search(path) and not path.startswith("tests/") or \
                not (PRODUCT.match(path) or apart):
            continue
        lines = lines_of(root, path)
        kept[path] = len(lines)
        if path.endswith(".rs"):
            rest, modules = without_tests(lines)
            kept[path] = len(rest)
            folder, name = os.path.split(path.removesuffix(".rs"))
            inside = folder if name in ("mod", "lib", "main") else os.path.join(folder, name)
            tests |= {os.path.join(inside, module) for module in modules}
    return {path: number for path, number in kept.items()
            if not any(path == f"{test}.rs" or path.startswith(f"{test}/") for test in tests)}


class Feature(typing.NamedTuple):
    """A row of features.tsv: its budget of lines, who uses it, who asked, its keys and files."""

    name: str
    lines: int
    who: str
    asked: str
    keys: tuple
    files: tuple


def parsed(text):
    """(rows, faults) of the text of features.tsv."""
    rows, wrong = [], []
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split("\t")
        if line.startswith("#") or not line:
            continue
        if len(cells) != len(Feature._fields) or not cells[1].isdigit() or not all(cells):
            wrong.append(f"{FEATURES}:{number}: expected {', '.join(Feature._fields)}, with tabs")
            continue
        keys, files = (tuple(cell.split()) if cell != "-" else () for cell in cells[4:])
        rows.append(Feature(cells[0], int(cells[1]), *cells[2:4], keys, files))
    return rows, wrong


def features(root):
    """The rows of features.tsv, and what is wrong with its lines."""
    with open(os.path.join(root, FEATURES), encoding="utf-8") as file:
        return parsed(file.read())


def owner(name, beginnings):
    """The row with the longest beginning of a name; None where none has one."""
    found = [beginning for beginning in beginnings if name.startswith(beginning)]
    return beginnings[max(found, key=len)] if found else None


def keys_of(root, paths):
    """All keys of the configuration."""
    keys, section = [], ""
    for path in (path for path in paths if path.startswith("src/config/")):
        for name, key, whole in KEY.findall("\n".join(lines_of(root, path))):
            section = name or section
            if not name:
                keys.append(whole or f"{section}.{key}")
    return keys


def divided(root, paths):
    """({row: lines}, {row: keys}, faults): each file and each key of the product by its row."""
    rows, wrong = features(root)
    product = {path: number for path, number in product_lines(root, paths).items()
               if not path.startswith(APART)}
    found = []
    for what, names, field in (("file", product, 5), ("key", keys_of(root, paths), 4)):
        beginnings, count = {}, {row.name: 0 for row in rows}
        for row in rows:
            for beginning in row[field]:
                if beginning in beginnings:
                    wrong.append(f"{FEATURES}: two rows have {beginning}: "
                                 f"{beginnings[beginning]} and {row.name}")
                beginnings[beginning] = row.name
        used = set()
        for name in names:
            row = owner(name, beginnings)
            if row is None:
                wrong.append(f"{name}: in no row of {FEATURES}: add how this {what} begins to one")
                continue
            count[row] += product[name] if what == "file" else 1
            used.add(max((each for each in beginnings if name.startswith(each)), key=len))
        wrong += [f"{FEATURES}: {beginnings[each]} has {each}, which no {what} begins with"
                  for each in beginnings if each not in used]
        found.append(count)
    names = [row.name for row in rows]
    wrong += [f"{FEATURES}: {name} stands there twice" for name in set(names)
              if names.count(name) > 1]
    return *found, wrong


def count(root, path, pattern):
    """Lines of a file that match."""
    return sum(bool(re.match(pattern, line)) for line in lines_of(root, path))


def find(paths, end):
    """The path with this end."""
    return next(path for path in paths if path.endswith(end))


def present(root, paths):
    """The paths that are files now."""
    return [path for path in paths if os.path.isfile(os.path.join(root, path))]


def others(root, paths):
    """{name: size} of what has a budget besides the features."""
    words = sum(len(line.split()) for path in paths if DOCUMENTS.match(path)
                for line in lines_of(root, path))
    return {"keys": len(keys_of(root, paths)),
            "commands": count(root, find(paths, "cli/commands/mod.rs"),
                              r"    [A-Z]\w+\(\w+::Args\),"),
            "document_words": words}


def budgets(root):
    """The budgets of `others`."""
    with open(os.path.join(root, BUDGETS), "rb") as file:
        return tomllib.load(file)["others"]


def compared(root, paths):
    """[(name, size or None, budget or None)] of all that has a budget, features first."""
    lines, _, _ = divided(root, paths)
    rows = [(row.name, lines[row.name], row.lines) for row in features(root)[0]]
    allowed, found = budgets(root), others(root, paths)
    return rows + [(name, found.get(name), allowed.get(name)) for name in found | allowed]


def faults(root, paths):
    """What is in no row or in two, above its budget, or has none."""
    paths = present(root, paths)
    yield from divided(root, paths)[2]
    for name, size, budget in compared(root, paths):
        if size is None or budget is None:
            yield f"{BUDGETS}: {name}: its size is {size}, its budget {budget}: one is missing"
        elif size > budget:
            yield f"{name}: {size}, its budget is {budget}; budgets only fall (CONTRIBUTING.md)"


def fallen(root, paths):
    """What has fallen so far that its budget has to."""
    return [(name, size, budget) for name, size, budget in compared(root, present(root, paths))
            if size is not None and budget is not None and size < (1 - FALLEN) * budget]


def show(root, paths):
    """Prints the tables: features, what else has a budget, and what is apart."""
    paths = present(root, paths)
    lines, keys, _ = divided(root, paths)
    rows = features(root)[0]
    print(f"{'feature':<44} {'lines':>7} {'budget':>7} {'keys':>5}  who  asked by")
    for row in rows:
        print(f"{row.name:<44} {lines[row.name]:>7} {row.lines:>7} {keys[row.name] or '-':>5}  "
              f"{row.who:<4} {row.asked}")
    print(f"{'all features':<44} {sum(lines.values()):>7} {sum(row.lines for row in rows):>7} "
          f"{sum(keys.values()):>5}\n")
    for name, size, budget in compared(root, paths)[len(rows):]:
        print(f"{name:<44} {size:>7} {budget:>7}")
    of = product_lines(root, paths)
    places = ("src/", "ffi/", "plugin/", *APART)
    for place in places:
        inside = sum(number for path, number in of.items() if path.startswith(place)
                     and (place in APART or not path.startswith(APART)))
        print(f"{'lines below ' + place:<44} {inside:>7}")


def write(root, name, change):
    """Writes a file with its text changed."""
    path = os.path.join(root, name)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(change(text))


def store(root, paths, names=None):
    """Writes budgets by the sizes that are there: of these names, of all where there are none."""
    paths = present(root, paths)
    found = {name: size for name, size, _ in compared(root, paths)
             if size is not None and (names is None or name in names)}

    def row(line):
        name, _, rest = line.partition("\t")
        if line.startswith("#") or name not in found:
            return line
        lines = math.ceil((1 + AIR) * found[name])
        return "\t".join((name, str(lines), rest.partition("\t")[2]))

    write(root, FEATURES, lambda text: "".join(f"{row(line)}\n" for line in text.splitlines()))
    write(root, BUDGETS, lambda text: re.sub(
        r"^(\w+) = \d+$", lambda at: f"{at[1]} = {found[at[1]]}" if at[1] in found else at[0],
        text, flags=re.MULTILINE))


def lower(root, paths):
    """Writes the budgets of what has fallen."""
    low = fallen(root, paths)
    for name, size, budget in low:
        print(f"{name}: {size}, its budget was {budget}")
    store(root, paths, {name for name, _, _ in low})


def raises(root):
    """Commits that let a row grow, or add one, end none, and do not say which user asked."""
    def text(commit):
        done = subprocess.run(["git", "-C", root, "show", f"{commit}:{FEATURES}"], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return done.stdout if done.returncode == 0 else None

    log = subprocess.run(["git", "-C", root, "log", "--no-merges", "--format=%h%x00%B%x01", "--",
                          FEATURES], check=False, stdout=subprocess.PIPE, text=True).stdout
    for entry in log.split("\x01")[:-1]:
        commit, _, body = entry.strip().partition("\x00")
        before, after = text(f"{commit}~"), text(commit)
        if before is None or after is None or ASKED.search(body):
            continue
        old, new = ({row.name: row.lines for row in parsed(each)[0]} for each in (before, after))
        grown = [name for name, lines in new.items() if lines > old.get(name, 0)]
        if grown and old.keys() <= new.keys():
            yield (f"commit {commit}: {FEATURES}: {', '.join(grown)} grew, no row ended, and no "
                   "line `Asked by: WHO` says which user asked")
