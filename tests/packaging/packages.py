#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installs, uses, upgrades and purges the Debian packages on a fresh system with jobs running.

    packages.py --tree build/trees/bookworm --debs build/deb/22.05.8

The tree is copied, and everything happens inside the copy with process,
network, mount and host name spaces of its own: Slurm's own init scripts start
Slurm at its usual paths and ports, no systemd, no network. Needs root.
"""

import contextlib
import glob
import os
import shutil
import subprocess
import sys

import inside
from slurmcluster.suite import (Cases, Report, Suite, check, command_line, directory,
                                run_case, text_of)

HERE = os.path.dirname(os.path.realpath(__file__))
SPACES = ("--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child")
case = Cases()


class Packages(Suite):
    """The packages, as files."""

    def __init__(self, debs):
        super().__init__()
        self.debs = debs


@case
def lintian(suite):
    """lintian finds no error and no warning"""
    done = subprocess.run(["lintian", "--fail-on", "error,warning", "--allow-root", *suite.debs],
                          capture_output=True, text=True, check=False)
    check(done.returncode == 0, done.stdout + done.stderr)


OUTSIDE = frozenset(case)
for one_inside in inside.case.values():
    case.add(one_inside)


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--tree", help="fresh system, made by tests/packaging/tree")
    parser.add_argument("--debs", default="", help="directory of the packages")
    parser.add_argument("--smd", action="store_true",
                        help="beside stand-ins of SchedMD's packages instead of Debian's")
    parser.add_argument("--inside", metavar="DIR", help="go on in this copy of the tree")


def run_inside(args, debs, cases):
    """Copies tree and packages, then lets itself go on in name spaces of their own."""
    with directory(args) as root:
        copy = os.path.join(root, "tree")
        subprocess.run(["cp", "-a", "--reflink=auto", args.tree, copy], check=True)
        os.mkdir(os.path.join(copy, "debs"))
        for deb in debs:
            shutil.copy(deb, os.path.join(copy, "debs"))
        # The shell is the init of the new space: it waits for what daemons leave behind.
        init = ["sh", "-c", '"$@" & wait $!', "init"]
        only = [word for one in cases for word in ("--only", one.name)]
        return subprocess.run(["unshare", *SPACES, *init, sys.executable, "-B",
                               os.path.abspath(__file__), "--inside", copy,
                               *(["--smd"] if args.smd else []), *only],
                              check=False).returncode


def run_cases(args, cases, setting):
    """Runs cases on a setting that needs no directory; returns the exit status."""
    report = Report(args)
    try:
        with setting() as suite:
            for one in cases:
                run_case(suite, one, report)
    except Exception as error:  # pylint: disable=broad-except
        report.add("setting", [text_of(error)], 0.0)
    return report.close()


def main():
    """Runs the cases, those on a system in name spaces of their own; returns the exit status."""
    args = command_line(__doc__, case, options)
    if args.inside:
        return run_cases(args, args.cases, lambda: inside.setting(args.inside, args.smd))
    debs = sorted(glob.glob(os.path.join(args.debs, "*.deb")))
    if not debs or not os.path.isdir(args.tree or ""):
        sys.exit(f"packages.py: no packages in {args.debs!r}, or no tree at {args.tree!r}")
    if os.getuid() != 0:
        sys.exit("packages.py: needs root: it makes name spaces and changes root")
    here = [one for one in args.cases if one.name in OUTSIDE]
    there = [one for one in args.cases if one.name not in OUTSIDE]
    status = 0
    if here:
        status = run_cases(args, here, lambda: contextlib.nullcontext(Packages(debs)))
    return (there and run_inside(args, debs, there)) or status


if __name__ == "__main__":
    sys.exit(main())
