#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What phalanx-slurm-plugin-source does when Slurm changes

Runs packaging/rebuild-overlay with its files below a temporary directory and
Slurm's headers as `make plugin` has fetched them: it must build an overlay for
the slurmctld installed, build nothing twice, leave alone what others put
there, end with 0 whatever happens, and take its own file away.
"""

import contextlib
import glob
import os
import shutil
import struct
import subprocess
import sys

from slurmcluster.suite import Cases, Suite, check, command_line, run

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
SCRIPT = os.path.join(TOP, "packaging", "rebuild-overlay")


case = Cases()


class Root(Suite):
    """The directory that stands for /."""

    def __init__(self, directory, version):
        super().__init__()
        self.version = version
        self.directory = directory
        triplet = subprocess.run(["dpkg-architecture", "-qDEB_HOST_MULTIARCH"], check=True,
                                 capture_output=True, text=True).stdout.strip()
        self.overlay = os.path.join(directory, "usr/lib", triplet, "phalanx/slurm",
                                    "select_cons_tres.so")
        source = os.path.join(directory, "usr/src/phalanx-slurm-plugin")
        for part in ("plugin", "ffi/include"):
            os.makedirs(os.path.join(source, part))
            for name in glob.glob(os.path.join(TOP, part, "*")):
                if os.path.isfile(name):
                    shutil.copy(name, os.path.join(source, part))
        with open(os.path.join(source, "VERSION"), "w", encoding="ascii") as file:
            file.write("1\n")
        self.build = os.path.join(directory, "var/cache/phalanx-slurm-plugin-source/build")
        os.makedirs(self.build)
        self.headers = os.path.join(self.build, f"slurm-src-{version}")
        os.symlink(os.path.join(TOP, "build", f"slurm-src-{version}"), self.headers)

    def rebuild(self, *words):
        """Runs the script, which must never fail; returns what it says."""
        done = subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False,
                              env=os.environ | {"PHALANX_REBUILD_ROOT": self.directory})
        check(done.returncode == 0,
              f"rebuild-overlay {' '.join(words)} ends with {done.returncode}: {done.stderr}")
        return done.stdout

    def stamp(self):
        """Identity of the overlay's file."""
        try:
            meta = os.stat(self.overlay)
        except FileNotFoundError:
            return None
        return meta.st_ino, meta.st_mtime_ns


def release_in(path, version):
    """True if the file has the version's number, as plugin_version."""
    numbers = [int(part) for part in version.split(".")]
    with open(path, "rb") as file:
        return struct.pack("<I", numbers[0] << 16 | numbers[1] << 8 | numbers[2]) in file.read()


@case
def built(root):
    """An overlay for the installed slurmctld is built"""
    said = root.rebuild()
    check(root.stamp() and release_in(root.overlay, root.version) and "restart slurmctld" in said,
          said)


@case(needs=["built"])
def once(root):
    """Nothing is built twice; --force builds anew, as a new file"""
    first = root.stamp()
    check(root.rebuild() == "" and root.stamp() == first, "built twice")
    root.rebuild("--force")
    check(root.stamp() != first, "--force: the same file")


@case(needs=["built"])
def fails_well(root):
    """A build that fails says so and leaves what is there"""
    os.unlink(root.headers)
    os.makedirs(root.headers)
    with open(os.path.join(root.headers, ".phalanx-headers"), "w", encoding="ascii"):
        pass
    before = root.stamp()
    shutil.rmtree(os.path.join(root.build, f"slurm-{root.version}"))
    said = root.rebuild("--force")
    check("the build failed" in said and root.stamp() == before, said)


@case(needs=["fails_well"])
def removed(root):
    """--remove takes its own file away and leaves another's"""
    root.rebuild("--remove")
    check(root.stamp() is None, "its own file is still there")
    with open(root.overlay, "wb") as file:
        file.write(b"another's")
    said = root.rebuild()
    root.rebuild("--remove")
    check("by hand" in said and root.stamp(), said)


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--slurm", default="22.05.8", metavar="VERSION",
                        help="whose headers are used")


@contextlib.contextmanager
def setting(directory, args):
    """Files below a temporary directory."""
    yield Root(directory, args.slurm)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, options), setting))
