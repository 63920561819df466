# SPDX-License-Identifier: GPL-3.0-or-later
"""The one counter of the repository's sizes, and their budgets (tests/budgets.toml).

Product Rust without tests is every line, blank and comment too, of the .rs files of a crate except
files and modules under #[cfg(test)], items under #[cfg(test)], and the folders tests, examples and
benches. The crates in APART are no product: they are counted and have no budget.
"""

import os
import re
import tomllib

BUDGETS = os.path.join("tests", "budgets.toml")
APART = ("src/bench", "tests/fuzz")
NOT_PRODUCT = re.compile(r"/(?:tests|examples|benches)/|/tests\.rs$|_tests\.rs$|/build\.rs$")
TEST = re.compile(r"^( *)#\[cfg\(test\)\]$")
MODULE = re.compile(r"^ *(?:pub(?:\([\w:]+\))? )?mod (\w+);$")
DOCUMENTS = re.compile(r"^(?:README|ARCHITECTURE|BENCHMARKS|CHANGELOG)\.md$|^docs/[^/]+\.md$")
FALLEN = 0.02       # a size that is smaller than its budget by more than this lowers it


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


def product_rust(root, crate, paths):
    """Lines of a crate without tests."""
    kept, tests = {}, set()
    for path in paths:
        if path.startswith(f"{crate}/") and path.endswith(".rs") and not NOT_PRODUCT.search(path):
            kept[path], modules = without_tests(lines_of(root, path))
            folder, name = os.path.split(path.removesuffix(".rs"))
            inside = folder if name in ("mod", "lib", "main") else os.path.join(folder, name)
            tests |= {os.path.join(inside, module) for module in modules}
    return sum(len(lines) for path, lines in kept.items()
               if not any(path == f"{test}.rs" or path.startswith(f"{test}/") for test in tests))


def count(root, path, pattern):
    """Lines of a file that match."""
    return sum(bool(re.match(pattern, line)) for line in lines_of(root, path))


def find(paths, end):
    """The path with this end."""
    return next(path for path in paths if path.endswith(end))


def sizes(root, paths):
    """{table: {name: size}} of what git tracks; `apart` has no budgets."""
    paths = [path for path in paths if os.path.isfile(os.path.join(root, path))]
    with open(os.path.join(root, "Cargo.toml"), "rb") as file:
        members = tomllib.load(file)["workspace"]["members"]
    lines = {crate: product_rust(root, crate, paths) for crate in members}
    product = {crate: number for crate, number in lines.items() if crate not in APART}
    words = sum(len(line.split()) for path in paths if DOCUMENTS.match(path)
                for line in lines_of(root, path))
    plugin = sum(len(lines_of(root, path)) for path in paths
                 if re.match(r"plugin/[^/]+\.[ch]$", path))
    return {
        "rust_lines": {"src": sum(number for crate, number in product.items()
                                  if crate.startswith("src/"))} | product,
        "others": {"keys": count(root, find(paths, "/keys.rs"), r"    (?:key|fixed)\("),
                   "commands": count(root, find(paths, "cli/commands/mod.rs"),
                                     r"    [A-Z]\w+\(\w+::Args\),"),
                   "document_words": words, "plugin_lines": plugin},
        "apart": {crate: number for crate, number in lines.items() if crate in APART},
    }


def budgets(root):
    """The budgets, as `sizes` has them."""
    with open(os.path.join(root, BUDGETS), "rb") as file:
        return tomllib.load(file)


def compared(root, paths):
    """[(table, name, size, budget or None)]; a budget of what is gone has size None."""
    allowed, found = budgets(root), sizes(root, paths)
    rows = []
    for table, entries in found.items():
        given = allowed.get(table, {})
        rows += [(table, name, size, given.get(name)) for name, size in entries.items()]
        rows += [(table, name, None, given[name]) for name in given if name not in entries]
    return rows


def faults(root, paths):
    """What is above its budget, or has none."""
    for table, name, size, budget in compared(root, paths):
        if size is None:
            yield f"{BUDGETS}: {table}.{name} is no longer there: take its line out"
        elif budget is None and table != "apart":
            yield f"{BUDGETS}: {table}.{name} has no budget; it is {size}"
        elif budget is not None and size > budget:
            yield f"{table}.{name}: {size}, its budget is {budget} ({BUDGETS}); budgets only fall"


def fallen(root, paths):
    """What has fallen so far that its budget has to."""
    for table, name, size, budget in compared(root, paths):
        if size is not None and budget is not None and size < (1 - FALLEN) * budget:
            yield table, name, size, budget


def show(root, paths):
    """Prints the table."""
    print(f"{'':<32} {'size':>8} {'budget':>8}")
    for table, name, size, budget in compared(root, paths):
        size, budget = ("-" if value is None else value for value in (size, budget))
        print(f"{table + ' ' + name:<32} {size:>8} {budget:>8}")


def lower(root, paths):
    """Writes the sizes of what has fallen as its budgets."""
    path = os.path.join(root, BUDGETS)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for table, name, size, budget in fallen(root, paths):
        head, mark, tail = text.partition(f"[{table}]\n")
        line = re.compile(rf'^("?{re.escape(name)}"? = ){budget}$', re.MULTILINE)
        text = head + mark + line.sub(rf"\g<1>{size}", tail, count=1)
        print(f"{table}.{name}: {budget} -> {size}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
