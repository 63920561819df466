#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of tidy and of its counter on small trees: each rule is seen to find what breaks it."""

import contextlib
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
MANIFEST = '[workspace]\nmembers = ["src/core", "tests/fuzz"]\n'
KEYS = 'pub const KEYS: &[Key] = &[\n    key("a", X),\n    fixed("b", X),\n];\n'
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


@case
def sizes_are_counted(tree):
    """Tests in the file, in files of their own and in folders are no product; the rest is"""
    core, plugin = os.path.join("src", "core"), "plugin"
    for path, text in (("Cargo.toml", MANIFEST), (f"{core}/lib.rs", RUST),
                       (f"{core}/keys.rs", KEYS), (f"{core}/proofs.rs", "a\n" * 50),
                       (f"{core}/proofs/x.rs", "a\n" * 50),
                       (f"{core}/tests/it.rs", "a\n"), (f"{core}/examples/e.rs", "a\n"),
                       ("tests/fuzz/lib.rs", "a\n" * 7), ("src/cli/commands/mod.rs", COMMANDS),
                       ("README.md", "one two\nthree\n"), ("four/README.md", "four\n"),
                       (f"{plugin}/a.c", "a\n" * 3), (f"{plugin}/tests/b.c", "a\n")):
        tree.write(path, text)
    found = sizes.sizes(tree.root, tree.paths())
    check(found["rust_lines"] == {"src": 13, "src/core": 13}, f"{found}")
    check(found["others"] == {"keys": 2, "commands": 1, "document_words": 3, "plugin_lines": 3},
          f"{found}")
    check(found["apart"] == {"tests/fuzz": 7}, f"{found}")


@case(needs=["sizes_are_counted"])
def budgets_only_fall(tree):
    """Above a budget is a fault, far below it is told and can be written; names must match"""
    tree.write("tests/budgets.toml", '[rust_lines]\nsrc = 12\n"src/core" = 20\ngone = 1\n\n'
               "[others]\nkeys = 2\ncommands = 1\nplugin_lines = 3\n")
    found = "\n".join(sizes.faults(tree.root, tree.paths()))
    for text in ("src: 13, its budget is 12", "gone is no longer", "document_words has no budget"):
        check(text in found, f"{text}: {found}")
    check(len(found.splitlines()) == 3, found)
    with contextlib.redirect_stdout(None):
        sizes.lower(tree.root, tree.paths())
    check(sizes.budgets(tree.root)["rust_lines"] == {"src": 12, "src/core": 13, "gone": 1},
          f"{sizes.budgets(tree.root)}")


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
