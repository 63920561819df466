#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds the crates that Phalanx is built from to deny.toml.

    tests/dependencies.py [--file deny.toml]

Goal: licences of the list `licenses.allow` only, or of the crate's own list in
`licenses.exceptions`; sources of `sources.allow-registry` only; no crate of
`bans.deny`; Cargo.lock is up to date. The file is the one that cargo-deny
reads; that program takes minutes to build, these three rules do not.

Method: `cargo metadata --locked`, and licence expressions read as SPDX writes
them (AND, OR, WITH, parentheses; a slash is an OR).
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


class Expression:
    """A licence expression, read from left to right."""

    def __init__(self, text, allowed):
        self.words = re.findall(r"[()]|[^\s()]+", text.replace("/", " OR "))
        self.allowed = allowed

    def is_allowed(self):
        """Whether some choice of licences is allowed; ValueError where it cannot be read."""
        value = self.either()
        if self.words:
            raise ValueError(f"expected the end, found {self.words[0]!r}")
        return value

    def either(self):
        """Terms between OR."""
        value = self.both()
        while self.words[:1] == ["OR"]:
            self.words.pop(0)
            value = self.both() or value
        return value

    def both(self):
        """Factors between AND."""
        value = self.one()
        while self.words[:1] == ["AND"]:
            self.words.pop(0)
            value = self.one() and value
        return value

    def one(self):
        """A licence, or an expression in parentheses."""
        if not self.words:
            raise ValueError("expected a licence, found the end")
        word = self.words.pop(0)
        if word == "(":
            value = self.either()
            if self.words[:1] != [")"]:
                raise ValueError("expected )")
            self.words.pop(0)
            return value
        if self.words[:1] == ["WITH"]:
            word = f"{word} WITH {self.words[1] if len(self.words) > 1 else ''}"
            del self.words[:2]
        return word in self.allowed


def faults(packages, rules):
    """What each package has against it."""
    licences = rules.get("licenses", {})
    allowed = set(licences.get("allow", []))
    exceptions = {e.get("crate", e.get("name")): set(e["allow"])
                  for e in licences.get("exceptions", [])}
    registries = set(rules.get("sources", {}).get("allow-registry", []))
    banned = {ban if isinstance(ban, str) else ban.get("crate", ban.get("name"))
              for ban in rules.get("bans", {}).get("deny", [])}
    for package in packages:
        name, source = package["name"], package["source"]
        if name in banned:
            yield name, "is in bans.deny"
        if source is None:          # a member of this workspace
            continue
        if source.removeprefix("registry+") not in registries:
            yield name, f"comes from {source}; expected one of {sorted(registries)}"
        text = package["license"] or ""
        try:
            if not Expression(text, allowed | exceptions.get(name, set())).is_allowed():
                yield name, f"licence {text!r} is not in licenses.allow"
        except ValueError as error:
            yield name, f"licence {text!r}: {error}"


def main():
    """Prints the faults; exit code 1 where there are any."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--file", default=os.path.join(ROOT, "deny.toml"))
    path = parser.parse_args().file
    with open(path, "rb") as file:
        rules = tomllib.load(file)
    done = subprocess.run([os.environ.get("CARGO", "cargo"), "metadata", "--format-version=1",
                           "--locked"], cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit("dependencies: cargo metadata failed (above)")
    packages = json.loads(done.stdout)["packages"]
    found = sorted(set(faults(packages, rules)))
    for name, what in found:
        print(f"{name}: {what}")
    print(f"dependencies: {len(packages)} crates, {len(found)} faults of {path}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
