#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the images of packaging/containers by buildah, on a small Debian system as the base

    containers.py --tree build/trees/bookworm --programs target/debug

The base is the tree with a C compiler and libslurm from Debian's archive. The context is a copy of
what the images take from the repository. Needs root and Debian's archive, no registry.
"""

import contextlib
import os
import shutil
import subprocess
import sys

import sites
from rebuild import release_in
from slurmcluster.suite import Cases, Suite, check, command_line, run

OVERLAY = "usr/lib/x86_64-linux-gnu/phalanx/slurm/select_cons_tres.so"
case = Cases()


class Images(Suite):
    """A store of images, a context, and the base."""

    def __init__(self, directory, args):
        super().__init__()
        self.directory, self.args = directory, args
        self.context = f"{directory}/context"
        for part in ("plugin", "ffi/include", "packaging/containers"):
            shutil.copytree(os.path.join(sites.TOP, part), f"{self.context}/{part}")
        for name in ("packaging/phalanx-overlay", "config/phalanx.toml"):
            os.makedirs(os.path.dirname(f"{self.context}/{name}"), exist_ok=True)
            shutil.copy(os.path.join(sites.TOP, name), f"{self.context}/{name}")
        os.mkdir(f"{self.context}/programs")
        for name in ("phalanx", "phalanxd", "phalanx-gate"):
            shutil.copy(os.path.join(args.programs, name), f"{self.context}/programs")
        tree = sites.source_tree(self.context, args.slurm)
        sites.archive(tree)
        shutil.rmtree(tree)
        base = self.buildah("from", "scratch").split()[-1]
        self.buildah("copy", "--quiet", base, args.tree, "/")
        self.inside(base, "apt-get -q update && apt-get -q -y --no-install-recommends install "
                          "gcc libc6-dev make bzip2 libslurm-dev")
        self.buildah("commit", base, "base")

    def buildah(self, *words, fails=False):
        """Runs buildah with a store of its own; returns what it says."""
        done = subprocess.run(
            ["buildah", "--root", f"{self.directory}/store", "--runroot", f"{self.directory}/run",
             *words], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False, timeout=500)
        check(bool(done.returncode) == fails,
              f"buildah {' '.join(words)}: exit {done.returncode}: {done.stdout[-3000:]}")
        return done.stdout

    def inside(self, container, command, fails=False):
        """Runs a shell command in a container."""
        return self.buildah("run", "--isolation", "chroot", container, "--", "sh", "-c", command,
                            fails=fails)

    def build(self, name, *arguments, fails=False):
        """Builds one of the images on the base."""
        words = [word for one in arguments for word in ("--build-arg", one)]
        return self.buildah("build", "--isolation", "chroot", *words, "-t", name, "-f",
                            f"{self.context}/packaging/containers/Containerfile.{name}",
                            self.context, fails=fails)


@case
def slurmctld(images):
    """slurmctld with the overlay: built for it, harness passed, one file more"""
    source = f"SLURM_SOURCE=slurm-{images.args.slurm}.tar.bz2"
    said = images.build("slurmctld", "SLURMCTLD=localhost/base", source)
    check("harness passed" in said, said)
    made = images.buildah("from", "localhost/slurmctld").split()[-1]
    root = images.buildah("mount", made).strip()
    check(release_in(f"{root}/{OVERLAY}", images.args.slurm), "of another release")
    check(not os.path.exists(f"{root}/slurm") and not os.path.exists(f"{root}/src"),
          "the source is in the image")
    check(images.args.slurm in images.inside(made, "slurmctld -V"), "slurmctld -V")


@case
def phalanxd(images):
    """phalanxd: runs as SlurmUser, its directories are there, and its configuration is valid"""
    images.build("phalanxd", "SLURM=localhost/base", "PROGRAMS=programs")
    made = images.buildah("from", "localhost/phalanxd").split()[-1]
    said = images.inside(made, "id -un && phalanxd --version && phalanx daemon check && "
                               "touch /run/phalanx/x /var/lib/phalanx/x && stat -c %a "
                               "/var/lib/phalanx")
    check(said.startswith("slurm\n") and said.rstrip().endswith("750"), said)
    check(f"headers of {images.args.slurm}" in said, said)


@case
def another_libslurm(images):
    """An image without the libslurm of the programs is refused as it is built"""
    base = images.buildah("from", "localhost/base").split()[-1]
    images.inside(base, "rm /usr/lib/*/libslurm.so*")
    images.buildah("commit", base, "without")
    said = images.build("phalanxd", "SLURM=localhost/without", "PROGRAMS=programs", fails=True)
    check("libslurm" in said, said)


def options(parser):
    """What this suite has beside the usual."""
    needed = "--list" not in sys.argv
    parser.add_argument("--tree", required=needed, help="system made by tests/packaging/tree")
    parser.add_argument("--programs", required=needed, help="directory of phalanxd and phalanx")
    parser.add_argument("--slurm", default="22.05.8", metavar="VERSION",
                        help="of the tree; its headers are in build/")


@contextlib.contextmanager
def setting(directory, args):
    """The store goes with its mounts."""
    images = None
    try:
        images = Images(directory, args)
        yield images
    finally:
        if images:
            images.buildah("umount", "--all")
            images.buildah("rm", "--all")


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, options), setting))
