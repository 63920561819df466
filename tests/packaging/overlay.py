#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `phalanx-overlay build` does for a Slurm under a prefix

The overlay must be built from the source that is given, pass its harness and lie beside Slurm's
plugins; whatever is wrong, the message must say what was expected, and what is there must stay.
Needs root for a name space of processes: other suites run slurmctlds of their own.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys

import sites
from rebuild import release_in
from slurmcluster.suite import Cases, Suite, check, command_line, run

SCRIPT = os.path.join(sites.TOP, "packaging", "phalanx-overlay")
case = Cases()


class Site(Suite):
    """A Slurm under a prefix and its source."""

    def __init__(self, directory, version):
        super().__init__()
        self.directory, self.version = directory, version
        self.prefix = sites.prefix(f"{directory}/opt/slurm", version)
        self.tree = sites.source_tree(directory, version)
        self.source = sites.archive(self.tree)
        self.overlay = f"{self.prefix}/lib/phalanx/slurm/select_cons_tres.so"

    def build(self, *words, before=":", fails=False):
        """Runs it where no other slurmctld is seen; returns what it says."""
        done = subprocess.run(
            ["unshare", "--mount-proc", "--pid", "--fork", "--kill-child", "sh", "-c",
             f'{before}; "$@"', "sh", SCRIPT, "build", *words],
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False, timeout=400, env=os.environ | {"TMPDIR": self.directory})
        check(bool(done.returncode) == fails, f"exit {done.returncode}: {done.stdout[-3000:]}")
        return done.stdout

    def refused(self, *words, **more):
        """The same where it has to fail, and the overlay that is there to stay."""
        before = os.stat(self.overlay)
        said = self.build(*words, fails=True, **more)
        check(os.stat(self.overlay) == before, "the overlay was changed")
        left = [name for name in os.listdir(self.directory)
                if re.fullmatch(r"phalanx-overlay\.\w{6}", name)]
        check(not left, f"left: {left}")
        return said


@case
def running(site):
    """The one that runs: built, harness passed, beside its plugins, the line for slurm.conf"""
    said = site.build("--source", site.source, before=f"{site.prefix}/sbin/slurmctld & sleep 1")
    check("harness passed" in said, said)
    check(release_in(site.overlay, site.version), "of another release")
    check(f"PluginDir={site.prefix}/lib/phalanx/slurm:{site.prefix}/lib/slurm\n" in said, said)


@case(needs=["running"])
def again(site):
    """From an unpacked tree for a slurmctld that is named; the one loaded keeps its file"""
    before = os.stat(site.overlay).st_ino
    said = site.build("--source", site.tree, "--slurmctld", f"{site.prefix}/sbin/slurmctld",
                      "--no-check")
    check("harness" not in said and os.stat(site.overlay).st_ino != before, said)


@case(needs=["running"])
def several(site):
    """Two that run are named"""
    other = sites.prefix(f"{site.directory}/opt/other", site.version)
    said = site.refused("--source", site.source, before=(
        f"{site.prefix}/sbin/slurmctld & {other}/sbin/slurmctld & sleep 1"))
    check(site.prefix in said and other in said and "--slurmctld" in said, said)


@case(needs=["running"])
def another_release(site):
    """The source of another release: both are named"""
    other = f"{site.directory}/other"
    shutil.copytree(site.tree, other)
    with open(f"{other}/META", encoding="ascii") as file:
        meta = file.read()
    with open(f"{other}/META", "w", encoding="ascii") as file:
        file.write(meta.replace(site.version, "25.05.1"))
    said = site.refused("--source", other, "--slurmctld", f"{site.prefix}/sbin/slurmctld")
    check("is the source of Slurm 25.05.1, not of " + site.version in said, said)


@case(needs=["running"])
def no_source(site):
    """What is no source of Slurm, or not there"""
    program = ("--slurmctld", f"{site.prefix}/sbin/slurmctld")
    said = site.refused("--source", f"{site.directory}/none", *program)
    check(f"{site.directory}/none does not exist" in said, said)
    said = site.refused("--source", os.path.join(sites.TOP, "docs"), *program)
    check("docs is no source of Slurm: it has no META" in said, said)
    said = site.refused("--source", os.path.join(sites.TOP, "README.md"), *program)
    check("README.md does not unpack" in said, said)


@case(needs=["running"])
def does_not_configure(site):
    """A source whose configure fails: its words, and a log that is there afterwards"""
    broken = f"{site.directory}/broken"
    shutil.copytree(site.tree, broken)
    with open(f"{broken}/configure", "w", encoding="ascii") as file:
        file.write("#!/bin/sh\necho 'configure: error: no acceptable compiler'\nexit 1\n")
    said = site.refused("--source", broken, "--slurmctld", f"{site.prefix}/sbin/slurmctld")
    check("configure: error: no acceptable compiler" in said, said)
    log = re.search(r"see (\S+log)", said)
    check(log and os.path.exists(log.group(1)), f"no log: {said}")


@case(needs=["running"])
def other_programs(site):
    """A slurmctld without plugins beside it, and one that tells no version"""
    lonely = f"{site.directory}/lonely/sbin/slurmctld"
    os.makedirs(os.path.dirname(lonely))
    shutil.copy(f"{site.prefix}/sbin/slurmctld", lonely)
    said = site.refused("--source", site.source, "--slurmctld", lonely)
    check("no select_cons_tres.so" in said and f"{site.directory}/lonely" in said, said)
    said = site.refused("--source", site.source, "--slurmctld", "/bin/true")
    check("/bin/true does not tell its version" in said, said)


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--slurm", default="22.05.8", metavar="VERSION",
                        help="whose headers are used: the installed one")


@contextlib.contextmanager
def setting(directory, args):
    """Files below a temporary directory."""
    yield Site(directory, args.slurm)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, options), setting))
