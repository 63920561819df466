#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds the sources to what a reader can take in at one sitting.

    tests/tidy.py [--root DIR] [--sizes | --lower | --set]

Goal: files of at most 700 lines, functions of at most 70, lines of at most 100
columns, cited files that exist, licence headers, rows of the threat model whose
tests exist, doc comments that stand alone, sizes within their budgets, and commits
that say what changed and why. Rust's functions are left to clippy (too_many_lines).
--sizes prints the features (tests/features.tsv) and other sizes (tests/budgets.toml)
beside their budgets, --lower writes the budgets of what has fallen, --set all.

Method: reads what git tracks. Every fault is one line, `file:line: what`.
"""

import argparse
import ast
import os
import re
import subprocess
import sys

import sizes

LINES_MAX = 700
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100
SUBJECT_COLUMNS_MAX = 72
# The commits after these are held to the rules of subjects, and have a body.
SUBJECTS_FROM, BODIES_FROM = "ba6beb5", "6cb359f"
CODE = (".rs", ".c", ".h", ".py", ".sh", ".js", ".java", ".css")
WIDE = (*CODE, ".md")
TAB_COLUMNS = 8

# Paths of the repository; those that begin like Slurm's own sources are Slurm's.
CITED = re.compile(r"(?<![\w./@$-])((?:src(?!/(?:common|interfaces|slurmctld|plugins)/)|docs|tests"
                   r"|plugin|ffi|config|packaging)/"
                   r"[\w./-]+\.(?:rs|md|py|c|h|toml|svg|json|sh|java|js))\b")
# A citation of the document that lies in docs/.
METHODS = re.compile(r"(?<!docs/)(?<![\w/])methods\.md")
SUBJECT = re.compile(r"^(?:Merge |Revert \"|[a-z0-9][\w/.,+ -]*: \S)")
# A count before a plural in a text of the commands.
PLURAL = re.compile(r"\{[a-z_.]*\} ((?:new )?(?:jobs|nodes|files|blocks|bytes|splits|names|records"
                    r"|runs|classes|events|starts|states|lines|partitions|times|errors))\b")
# A doc comment that begins so needs the line above it; folders that are free of that.
LEANS = re.compile(r"(?:Of|Those|These|The same|Its?|They|Their|So|By|What|Who|Where|Whose|Which"
                   r"|That|As|Up to here)\b")
STAND_ALONE = ("ffi/", "plugin/", "src/", "tests/")
DOC = re.compile(r"\s*(//[/!])(?: |$)(.*)")
C_COMMENT = re.compile(r"(?:/\*+|//) *(.*)")
# A file that a walk names, in full or by the end of its path. Not those of the walk's own example,
# hello, nor Slurm's.
WALKS = os.path.join("docs", "developing.md")
NAMED = re.compile(r"`((?!hello|src/interfaces/|slurm\.h)[\w./-]+"
                   r"\.(?:rs|c|h|py|sh|toml|json|md|lua|css|js))`")
SHORT = re.compile(r"`([\w./-]+\.rs)`")
SPDX = "SPDX-License-Identifier: GPL-"


def git(root, *words):
    """The lines that git prints, or None where it fails."""
    done = subprocess.run(["git", "-C", root, *words], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else None


def is_script(path):
    """Whether a file without a known ending is a script."""
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def lengths(path, lines):
    """Faults of length and width."""
    code = path.endswith(CODE) or "." not in os.path.basename(path)
    if code and len(lines) > LINES_MAX:
        yield 1, f"{len(lines)} lines; at most {LINES_MAX}"
    for number, line in enumerate(lines, 1):
        columns = len(line.expandtabs(TAB_COLUMNS))
        if columns > COLUMNS_MAX:
            yield number, f"{columns} columns; at most {COLUMNS_MAX}"


def python_functions(text):
    """Faults of length of Python's functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = node.end_lineno - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield node.lineno, f"{node.name}: {length} lines; at most {FUNCTION_LINES_MAX}"


def c_functions(lines):
    """Faults of length of C's functions: a brace in the first column begins and ends one."""
    begin = None
    for number, line in enumerate(lines, 1):
        if line.startswith("{"):
            begin = number
        elif line.startswith("}") and begin is not None:
            if number - begin + 1 > FUNCTION_LINES_MAX:
                yield begin, f"function of {number - begin + 1} lines; at most {FUNCTION_LINES_MAX}"
            begin = None


def citations(root, path, lines):
    """Faults of files that are named and do not exist."""
    here = os.path.dirname(os.path.join(root, path))
    for number, line in enumerate(lines, 1):
        for name in CITED.findall(line):
            places = (root, here, os.path.dirname(here))
            if not any(os.path.exists(os.path.join(place, name)) for place in places):
                yield number, f"names {name}, which does not exist"
        if METHODS.search(line) and not path.startswith("docs/"):
            yield number, "cites the document of methods without docs/ before its name"


def plurals(lines):
    """Counts before a plural, which reads wrong where the count is one: many() writes both."""
    for number, line in enumerate(lines, 1):
        if "#[cfg(test)]" in line:
            return
        found = PLURAL.search(line)
        if found and not line.lstrip().startswith("//"):
            yield number, f'"{found.group()}" is wrong of one: many(number, thing)'


def doc_comments(path, lines):
    """Faults of doc comments that need the line above; of the plugin's comments at a line's begin.

    Only the first line of each comment is looked at.
    """
    rust, before = path.endswith(".rs"), ""
    for number, line in enumerate(lines, 1):
        found = DOC.match(line) if rust else C_COMMENT.match(line)
        kind, text = (found.group(1), found.group(2)) if found and rust else \
            ("//" if line.startswith("//") else "", found.group(1)) if found else ("", "")
        if found and (kind == "" or kind != before) and LEANS.match(text):
            yield number, f"a comment that does not stand alone: {text[:40]}"
        before = kind


def walks(root, paths):
    """Faults of the files that the walks of docs/developing.md name."""
    path = os.path.join(root, WALKS)
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        sections = re.split(r"^(?=##)", file.read(), flags=re.MULTILINE)
    for section in sections:
        names = NAMED.findall(section)
        # Short names are looked up in the crates and folders of the full ones.
        folders = {"/".join(name.split("/")[:2]) for name in re.findall(r"`([\w.-]+/[\w./-]+)`",
                                                                       section)}
        near = [each for each in paths if any(each.startswith(f"{folder}/")
                                              for folder in folders)]
        for name in names:
            full = name in paths or name in section_links(section)
            if not full and not any(each.endswith(f"/{name}") for each in near):
                yield f"{WALKS}: {section.splitlines()[0]} names {name}, which is not there"


def short_names(root, paths):
    """Faults of the Rust files that documents name by the end of their paths."""
    for path in (each for each in paths if each.endswith(".md")):
        for number, line in enumerate(sizes.lines_of(root, path), 1):
            for name in SHORT.findall(line):
                if not any(f"/{each}".endswith(f"/{name}") for each in paths):
                    yield f"{path}:{number}: names {name}, which is not there"


def section_links(section):
    """The targets of a section's links, which `citations` and readers follow."""
    return re.findall(r"\]\(([^)#]+)\)", section)


def of_file(root, path):
    """All faults of one file."""
    full = os.path.join(root, path)
    try:
        with open(full, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError:
        return []
    lines = text.splitlines()
    known = path.endswith(WIDE) or ("." not in os.path.basename(path) and is_script(full))
    if not known:
        return []
    found = list(lengths(path, lines)) + list(citations(root, path, lines))
    if path.endswith(".rs") and path.startswith("src/cli/") and "test" not in path:
        found += plurals(lines)
    if path.endswith(".py"):
        found += python_functions(text)
    if path.endswith((".c", ".h")):
        found += c_functions(lines)
    if path.endswith((".rs", ".c", ".h")) and path.startswith(STAND_ALONE) and \
            not path.startswith("plugin/tests/"):
        found += doc_comments(path, lines)
    if not path.endswith(".md") and not any(SPDX in line for line in lines[:5]):
        found.append((1, f"no line {SPDX}... among the first five"))
    return found


def test_names(root, paths):
    """Test functions of Rust and C; Rust's modules that have some; cases of suites."""
    functions, modules, cases = set(), set(), set()
    for path in paths:
        name = os.path.splitext(os.path.basename(path))[0]
        wanted = path.endswith((".rs", ".py")) or path.startswith("plugin/tests/")
        if not wanted or not os.path.isfile(os.path.join(root, path)):
            continue
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            text = file.read()
        if path.endswith(".rs"):
            found = re.findall(r"#\[test\](?:\s*#\[[^\n]*\])*\s*fn (\w+)", text)
            functions.update(found)
            if found:
                modules.add("::".join([*path.split("/")[:-1], name]))
        elif path.startswith("plugin/tests/"):
            functions.update(re.findall(r"void (test_\w+)\(", text))
        elif path.startswith("tests/"):
            cases.update(f"{name} {case}" for case in
                         re.findall(r"@(?:case|fault)[^\n]*\n(?:@[^\n]*\n)*def (\w+)", text))
    return functions, modules, cases


def threats(root, paths):
    """Faults of the rows of docs/security.md: each names its tests, which exist."""
    path = os.path.join(root, "docs", "security.md")
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        model = file.read().partition("\n## Who could do what")[2].partition("\n## ")[0]
    functions, modules, cases = test_names(root, paths)

    def exists(name):
        if "/" in name:
            return os.path.exists(os.path.join(root, name))
        if "::" in name:
            return any(module.endswith(f"::{name}") for module in modules)
        if " " in name:
            return name in cases or name.replace("-", "_") in cases
        return name in functions

    rows = [" ".join(row.split()) for row in re.split(r"^- |\n\n", model, flags=re.MULTILINE)[1:]]
    for row in rows:
        if not row.startswith(("Reading shows", "The daemon changes")) and " could " in row:
            groups = re.findall(r"\((`[^()]*`)\)", row)
            names = [name for group in groups for name in re.findall(r"`([^`]*)`", group)]
            for name in [name for name in names if not exists(name)]:
                yield f"docs/security.md: `{row[:50]}...` names {name}, which is no test"
            if not names:
                yield f"docs/security.md: `{row[:50]}...` names no test"


def subjects(root):
    """Faults of the subjects of commits."""
    shown = git(root, "log", "--format=%h %s", f"{SUBJECTS_FROM}..HEAD")
    if shown is None:
        print(f"tidy: this clone does not have {SUBJECTS_FROM}: subjects are not looked at")
        return
    for line in shown:
        commit, _, subject = line.partition(" ")
        if len(subject) > SUBJECT_COLUMNS_MAX and not subject.startswith("Merge "):
            yield f"commit {commit}: subject of {len(subject)} columns; at most 72: {subject}"
        if not SUBJECT.match(subject) or re.match(r"(?i)wip\b", subject):
            yield f"commit {commit}: expected `area: what it does`, found: {subject}"


def bodies(root):
    """Faults of commits without a body; merges need none."""
    shown = git(root, "log", "--no-merges", "--format=%h%x00%s%x00%b%x01", f"{BODIES_FROM}..HEAD")
    if shown is None:
        print(f"tidy: this clone does not have {BODIES_FROM}: bodies are not looked at")
        return
    for entry in "\n".join(shown).split("\x01")[:-1]:
        commit, subject, body = entry.strip().split("\x00")
        if not body.strip() and not subject.startswith("Revert \""):
            yield f"commit {commit}: no body (problem, reason, how it was tested): {subject}"


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--root", default=os.path.join(os.path.dirname(__file__), ".."))
    parser.add_argument("--sizes", action="store_true", help="print sizes and budgets and exit")
    parser.add_argument("--lower", action="store_true",
                        help="write the budgets of what has fallen and exit")
    parser.add_argument("--set", action="store_true",
                        help="write all budgets anew, 3 %% above the sizes, and exit")
    return parser.parse_args()


def main():
    """Prints the faults; exit code 1 where there are any."""
    args = arguments()
    root = os.path.abspath(args.root)
    paths = git(root, "ls-files")
    if not paths:
        sys.exit(f"tidy: {root} is no git checkout with files")
    if args.sizes or args.lower or args.set:
        (sizes.show if args.sizes else sizes.lower if args.lower else sizes.store)(root, paths)
        return
    faults = []
    for path in paths:
        if os.path.isfile(os.path.join(root, path)):
            faults += [f"{path}:{line}: {what}" for line, what in of_file(root, path)]
    faults += [*threats(root, paths), *walks(root, paths), *short_names(root, paths),
               *subjects(root), *bodies(root)]
    if os.path.exists(os.path.join(root, sizes.BUDGETS)):
        faults += [*sizes.faults(root, paths), *sizes.raises(root)]
        for name, size, budget in sizes.fallen(root, paths):
            print(f"tidy: {name} has {size}, its budget is {budget}: lower it "
                  "(tests/tidy.py --lower)")
    for fault in faults:
        print(fault)
    print(f"tidy: {len(paths)} files, {len(faults)} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
