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
import re
import shutil
import subprocess
import sys
import tempfile

import inside
import standins
from slurmcluster.suite import (Cases, Report, Suite, check, command_line, directory,
                                run_case, text_of)

HERE = os.path.dirname(os.path.realpath(__file__))
SPACES = ("--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child")
case = Cases()


class Packages(Suite):
    """The packages, as files."""

    def __init__(self, debs, tree):
        super().__init__()
        self.debs, self.tree = debs, os.path.abspath(tree)

    def slurm(self):
        """The release of Slurm that the plugin's package is for."""
        names = [os.path.basename(deb) for deb in self.debs]
        return next(one[1] for name in names
                    if (one := re.match(r"phalanx-slurm-plugin-([\d.]+)_", name)))


@case
def lintian(suite):
    """lintian finds no error and no warning"""
    done = subprocess.run(["lintian", "--fail-on", "error,warning", "--allow-root", *suite.debs],
                          capture_output=True, text=True, check=False)
    check(done.returncode == 0, done.stdout + done.stderr)


@case
def documented_files(suite):
    """What documents name below /usr/share/phalanx is in a package, if not of rpms alone"""
    shipped = ""
    for deb in suite.debs:
        shipped += subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True,
                                  check=True).stdout
    for path in glob.glob(f"{HERE}/../../docs/*.md"):
        with open(path, encoding="utf-8") as file:
            for name in re.findall(r"/usr/share/phalanx/[\w/.-]*\w", file.read()):
                ours = re.search(rf"\.{name}/?$", shipped, re.M) or "sysusers" in name
                check(ours, f"{os.path.basename(path)} names {name}, which no package has")


def status_beside(tree, version=None):
    """What dpkg knows in the tree, with SchedMD's packages of a version instead of Debian's."""
    with open(os.path.join(tree, "var/lib/dpkg/status"), encoding="utf-8") as file:
        known = [one for one in file.read().split("\n\n") if one.strip()]
    if version is None:
        return "\n\n".join(known) + "\n\n"
    known = [one for one in known if not re.match(r"Package: (lib)?slurm", one)]
    for name, (_parts, conflicts, needs) in standins.STAND_INS.items():
        known.append(f"Package: {name}\nStatus: install ok installed\nPriority: optional\n"
                     f"Section: admin\nMaintainer: nobody <nobody@example.org>\n"
                     f"Architecture: amd64\nVersion: {version}\n"
                     f"Depends: {needs.format(version=version)}\nConflicts: {conflicts}"
                     f"{', libslurm38, libslurm42' if name == 'slurm-smd' else ''}\n"
                     "Description: stand-in")
    return "\n\n".join(known) + "\n\n"


def simulated(suite, known, *words):
    """What `apt-get install` of all packages would do to a system with this status of dpkg."""
    with tempfile.TemporaryDirectory() as scratch:
        status = os.path.join(scratch, "status")
        with open(status, "w", encoding="utf-8") as file:
            file.write(known)
        state = os.path.join(suite.tree, "var/lib/apt")
        done = subprocess.run(
            ["apt-get", "-s", "-o", f"Dir::State={state}", "-o", f"Dir::State::status={status}",
             "-o", f"Dir::Etc={suite.tree}/etc/apt", "-o", f"Dir::Cache={scratch}",
             "-o", "Debug::NoLocking=1", *words, "install", *map(os.path.abspath, suite.debs)],
            capture_output=True, text=True, check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8"})
    check(done.returncode == 0, f"apt-get: {done.stdout}{done.stderr}")
    return done.stdout


@case
def no_slurm_exchanged(suite):
    """Beside any Slurm, apt removes nothing for our packages and brings no slurmctld"""
    for version in (None, "22.05.8-1", "24.11.5-1", "25.05.9-1", "25.11.8-1", "26.05.4-1"):
        known = status_beside(suite.tree, version)
        for words in (("--no-install-recommends",), ("--install-recommends",)):
            said = simulated(suite, known, *words)
            where = f"beside {version or 'Slurm of Debian'}, {words}: {said}"
            check(f"Inst phalanx-slurm-plugin-{suite.slurm()} " in said, where)
            check("Remv" not in said and "REMOVED" not in said, where)
            # Of Debian's own Slurm the library alone may be missing.
            ours = r"phalanx" if version else r"phalanx|libslurm\d+$"
            brought = re.findall(r"^Inst (\S*slurm\S*)", said, re.M)
            check(not [name for name in brought if not re.match(ours, name)], where)


@case
def fit_is_asked(suite):
    """The packages ask the host which slurmctld it has, and refuse another in a sentence"""
    for package, refuses in (("phalanx-slurm-plugin-", ("25.11.8", "22.05.99")),
                             ("phalanx_", ("25.11.8",))):
        deb = next(deb for deb in suite.debs if os.path.basename(deb).startswith(package)
                   and "source" not in deb)
        for here in (*refuses, suite.slurm(), None):
            with tempfile.TemporaryDirectory() as scratch:
                subprocess.run(["dpkg-deb", "-e", deb, f"{scratch}/control"], check=True)
                if here:
                    with open(f"{scratch}/slurmctld", "w", encoding="ascii") as file:
                        file.write(f"#!/bin/sh\necho slurm {here}\n")
                    os.chmod(file.name, 0o755)
                done = subprocess.run(["sh", f"{scratch}/control/preinst", "install"],
                                      capture_output=True, text=True, check=False,
                                      env={"PATH": f"{scratch}:/usr/bin:/bin"})
            if here in refuses:
                said = done.stderr.splitlines()
                check(done.returncode == 1 and len(said) == 1 and here in said[0]
                      and f"SLURM_VERSION={here}" in said[0], f"{package}: {here}: {said}")
            else:
                check(done.returncode == 0 and not done.stderr, f"{here}: {done.stderr}")


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
        status = run_cases(args, here, lambda: contextlib.nullcontext(Packages(debs, args.tree)))
    return (there and run_inside(args, debs, there)) or status


if __name__ == "__main__":
    sys.exit(main())
