#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of tidy and of its counter on small trees: each rule is seen to find what breaks it."""

import contextlib
import io
import os
import subprocess
import sys

import sizes
import tidy
from slurmcluster.suite import Cases, Suite, check, command_line, run

case = Cases()
RUST = """\
// SPDX-License-Identifier: GPL-3.0-or-later
//! Counts.
#[cfg(test)]
mod proofs;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
use std::{
    fs,
};

/// Returns one.
fn one() -> u32 {
    1
}

#[cfg(test)]
mod tests {
    fn two() {
        two();
    }
}
fn last() {}
"""
BUDGETS = "[others]\nkeys = 2\ncommands = 1\ndocument_words = 3\n"
KEYS = 'const A: Key = Key::new("a", X);\n    B in "b" {\n        c: u8 = 1 => reload(X),\n    }\n'
COMMANDS = "commands! {\n    Status(status::Args),\n}\n"


class Tree(Suite):
    """A directory with files."""

    def __init__(self, root):
        super().__init__()
        self.root = root

    def write(self, path, text):
        """Writes one file."""
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def paths(self):
        """All files."""
        return [os.path.relpath(os.path.join(folder, name), self.root)
                for folder, _, names in os.walk(self.root) for name in names]

    def git(self, *words):
        """Runs git."""
        subprocess.run(["git", "-C", self.root, "-c", "user.name=x", "-c", "user.email=x@y",
                        *words], check=True, stdout=subprocess.DEVNULL)


HEAD = "# name, lines, who, asked, keys, files\n"


def product(tree):
    """A tree with product, tests and documents."""
    core, plugin = os.path.join("src", "core"), "plugin"
    for path, text in ((f"{core}/lib.rs", RUST), ("src/config/keys.rs", KEYS),
                       ("src/config/lib.rs", ""),
                       (f"{core}/proofs.rs", "a\n" * 50), (f"{core}/proofs/x.rs", "a\n" * 50),
                       (f"{core}/build.rs", "a\n"), (f"{core}/wire/build.rs", "a\n"),
                       ("src/bench/main.rs", "a\n" * 9),
                       (f"{core}/tests/it.rs", "a\n"), (f"{core}/examples/e.rs", "a\n"),
                       ("tests/fuzz/lib.rs", "a\n" * 7), ("src/cli/commands/mod.rs", COMMANDS),
                       ("README.md", "one two\nthree\n"), ("four/README.md", "four\n"),
                       (f"{plugin}/a.c", "a\n" * 30), (f"{plugin}/tests/b.c", "a\n"),
                       ("tests/budgets.toml", BUDGETS)):
        tree.write(path, text)


def rows(tree, *lines):
    """Writes features.tsv."""
    tree.write("tests/features.tsv", HEAD + "".join("\t".join(row) + "\n" for row in lines))


CORE = ("core", "20", "A", "request", "a", "src/config/ src/core/ src/cli/")
PLUGIN = ("plugin", "31", "-", "request", "b", "plugin/")


@case
def sizes_are_counted(tree):
    """Tests in the file, in files of their own and in folders are no product; the rest is"""
    product(tree)
    rows(tree, CORE, PLUGIN)
    lines, keys, wrong = sizes.divided(tree.root, tree.paths())
    check(lines == {"core": 17, "plugin": 30} and keys == {"core": 1, "plugin": 1}, f"{lines}")
    check(not wrong, f"{wrong}")
    check(sizes.others(tree.root, tree.paths()) ==
          {"keys": 2, "commands": 1, "document_words": 3}, "others")
    found = sizes.product_lines(tree.root, tree.paths())
    check((found["src/bench/main.rs"], found["tests/fuzz/lib.rs"]) == (9, 7), f"{found}")
    check(not list(sizes.faults(tree.root, tree.paths())), "within all budgets")
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        sizes.show(tree.root, tree.paths())
    check("core                                              17      20     1" in shown.getvalue(),
          shown.getvalue())


@case(needs=["sizes_are_counted"])
def every_file_is_in_one_row(tree):
    """The longest beginning has a file; what none has, two have, or none begins with is found"""
    def found(*lines):
        rows(tree, *lines)
        return sizes.divided(tree.root, tree.paths())[2]

    keys = ("keys", "9", "A", "none", "-", "src/config/keys")
    rows(tree, CORE, PLUGIN, keys)
    lines, _, wrong = sizes.divided(tree.root, tree.paths())
    check(lines == {"core": 13, "plugin": 30, "keys": 4} and not wrong, f"{lines} {wrong}")
    wrong = "\n".join(found(CORE, (*PLUGIN[:4], "-", "plugin/b")))
    for text in ("a.c: in no row", "b.c: in no row", "plugin has plugin/b, which no file"):
        check(text in wrong, f"{text}: {wrong}")
    wrong = "\n".join(found(CORE, PLUGIN, (*keys[:5], "plugin/")))
    check("two rows have plugin/: plugin and keys" in wrong, wrong)
    wrong = "\n".join(found(CORE, PLUGIN, PLUGIN[:3]))
    check("features.tsv:4: expected name, lines" in wrong, wrong)
    wrong = "\n".join(found(CORE, PLUGIN, ("core", "1", "A", "none", "-", "src/core/lib")))
    check("core stands there twice" in wrong, wrong)


@case(needs=["sizes_are_counted"])
def budgets_only_fall(tree):
    """Above a budget is a fault, far below it is told and can be written; names must match"""
    rows(tree, (CORE[0], "15", *CORE[2:]), (PLUGIN[0], "40", *PLUGIN[2:]))
    tree.write("tests/budgets.toml", "[others]\nkeys = 1\ncommands = 1\ngone = 1\n")
    found = "\n".join(sizes.faults(tree.root, tree.paths()))
    for text in ("core: 17, its budget is 15", "keys: 2, its budget is 1", "gone: its size is None",
                 "document_words: its size is 3"):
        check(text in found, f"{text}: {found}")
    check(len(found.splitlines()) == 4, found)

    def written(change):
        with contextlib.redirect_stdout(None):
            change(tree.root, tree.paths())
        with open(os.path.join(tree.root, "tests/features.tsv"), encoding="utf-8") as file:
            return {row.name: row.lines for row in sizes.parsed(file.read())[0]}

    check(written(sizes.lower) == {"core": 15, "plugin": 31}, "lowered, with air")
    check(written(sizes.store) == {"core": 18, "plugin": 31}, "set, with air")
    check(sizes.budgets(tree.root) == {"keys": 2, "commands": 1, "gone": 1}, "others, without")


@case
def counts_before_a_plural(tree):
    """A number before a plural in a text of the commands; not in comments, nor in tests"""
    text = ('f("{} jobs", n)\n// {} jobs\nf("{of.nodes} nodes; {}", n)\nf("{} wait", n)\n'
            '#[cfg(test)]\nf("{} jobs")\n')
    found = [number for number, _ in tidy.plurals(text.splitlines())]
    check(found == [1, 3], f"{found}")
    path = os.path.join("src", "cli", "a.rs")
    tree.write(path, text)
    found = [what for _, what in tidy.of_file(tree.root, path) if "is wrong of one" in what]
    check(len(found) == 2, f"{found}")


@case
def a_row_grows_for_a_user(tree):
    """A row that grows in a commit needs one that ends, or who asked"""
    tree = Tree(os.path.join(tree.root, "grown"))
    tree.write(".gitignore", "")
    tree.git("init", "-q")

    def commit(message, **lines):
        rows(tree, *((name, str(size), "A", "none", "-", "src/") for name, size in lines.items()))
        tree.git("add", ".")
        tree.git("commit", "-q", "-m", message)
        return list(sizes.raises(tree.root))

    check(not commit("first", a=10, b=10), "the first commit has it from nothing")
    check(not commit("fallen", a=9, b=10), "a row fell")
    check(not commit("ended", a=20), "another ended")
    check(not commit("asked\n\nAsked by: site X", a=30, c=1), "a user asked")
    found = commit("grown", a=31, c=1)
    check(len(found) == 1 and ": a grew, no row ended" in found[0], f"{found}")
    check(len(commit("new", a=31, c=1, d=1)) == 2, "a new row is one that grew")


@case
def doc_comments_stand_alone(_tree):
    """First lines that lean on the line above are found, others and words like them are not"""
    lines = ["//! It is.", "//! So.", "", "/// Of these.", "/// By name.", "struct A;",
             "    /// The same.", "/// Software.", "/// Itself.", "// So a plain one.",
             "/// Whether.", "", "/// Their sum."]
    found = [number for number, _ in tidy.doc_comments("a.rs", lines)]
    check(found == [1, 4, 7, 13], f"Rust: {found}")
    lines = ["/* Which it is. */", "int a;", "/* The name. */", "// As it was", "// So",
             "\t/* So */"]
    found = [number for number, _ in tidy.doc_comments("a.c", lines)]
    check(found == [1, 4], f"C: {found}")


@case
def walks_name_files(tree):
    """Short names are looked up near the full ones of the same section"""
    tree.write("docs/developing.md", "# A\n\n## Walk\n`src/core/lib.rs`, `api/routes.rs`,"
               " `api/no.rs`, `hello.rs`\n\n## Another\n`api/routes.rs`\n")
    paths = [os.path.join("src", "core", name) for name in ("lib.rs", "api/routes.rs")]
    found = [line.rpartition(" names ")[2] for line in tidy.walks(tree.root, paths)]
    check(found == [f"api/{name}.rs, which is not there" for name in ("no", "routes")],
          f"{found}")


@case
def documents_name_files(tree):
    """By the end of a path, but not by other parts of it"""
    tree.write("a.md", "`gang/ga.rs`, `code/gang/ga.rs`, `gang/no.rs`\n`methods/ga.rs`, `a.rs`\n")
    found = list(tidy.short_names(tree.root, ["a.md", "code/gang/ga.rs"]))
    names = [(1, "gang/no.rs"), (2, "methods/ga.rs"), (2, "a.rs")]
    check(found == [f"a.md:{line}: names {name}, which is not there" for line, name in names],
          f"{found}")


@case
def commits_have_bodies(tree):
    """A commit without a body is found, a merge is not"""
    tree.git("init", "-q")
    for words in (["first"], ["a: b", "why"], ["a: bare"]):
        tree.git("commit", "-q", "--allow-empty",
                 *[word for text in words for word in ("-m", text)])
    begin = tidy.git(tree.root, "rev-list", "--max-parents=0", "HEAD")[0]
    before, tidy.BODIES_FROM = tidy.BODIES_FROM, begin
    try:
        found = list(tidy.bodies(tree.root))
    finally:
        tidy.BODIES_FROM = before
    check(len(found) == 1 and found[0].endswith(": a: bare"), f"{found}")


@contextlib.contextmanager
def setting(root, _args):
    """An empty directory."""
    yield Tree(root)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
