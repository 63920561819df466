#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installs, uses, upgrades and purges the Debian packages on a fresh system with jobs running.

    packages.py --tree build/trees/bookworm --debs build/deb/22.05.8

The tree is copied, and everything happens inside the copy with process,
network, mount and host name spaces of its own: Slurm's own init scripts start
Slurm at its usual paths and ports, no systemd, no network. Needs root.
"""

import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
EXIT_FAILED, EXIT_USAGE = 1, 2
SPACES = ("--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child")


def lint(debs):
    """lintian must find no error and no warning."""
    subprocess.run(["lintian", "--fail-on", "error,warning", "--allow-root", *debs], check=True)
    print("ok   lintian finds no error and no warning", flush=True)


def run_inside(tree, debs):
    """Copies tree and packages, then lets inside.py work in name spaces of its own."""
    with tempfile.TemporaryDirectory(prefix="phx-pkg-") as directory:
        copy = os.path.join(directory, "tree")
        subprocess.run(["cp", "-a", "--reflink=auto", tree, copy], check=True)
        os.mkdir(os.path.join(copy, "debs"))
        for deb in debs:
            shutil.copy(deb, os.path.join(copy, "debs"))
        # The shell is the init of the new space: it waits for what daemons leave behind.
        init = ["sh", "-c", '"$@" & wait $!', "init"]
        return subprocess.run(["unshare", *SPACES, *init, sys.executable, "-B",
                               os.path.join(HERE, "inside.py"), copy], check=False).returncode


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", required=True, help="fresh system, made by tests/packaging/tree")
    parser.add_argument("--debs", required=True, help="directory of the packages")
    parser.add_argument("--no-lint", action="store_true", help="skip lintian")
    args = parser.parse_args()
    debs = sorted(glob.glob(os.path.join(args.debs, "*.deb")))
    if not debs or not os.path.isdir(args.tree):
        parser.error(f"no packages in {args.debs}, or no tree at {args.tree}")
    if os.getuid() != 0:
        parser.error("needs root: it makes name spaces and changes root")
    if not args.no_lint:
        lint(debs)
    sys.exit(EXIT_FAILED if run_inside(args.tree, debs) else 0)


if __name__ == "__main__":
    main()
