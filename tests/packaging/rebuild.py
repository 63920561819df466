#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What phalanx-slurm-plugin-source does when Slurm changes: rebuild.py VERSION

Runs packaging/rebuild-overlay with its files below a temporary directory and
Slurm's headers as `make plugin` has fetched them: it must build an overlay for
the slurmctld installed, build nothing twice, leave alone what others put
there, end with 0 whatever happens, and take its own file away.
"""

import glob
import os
import shutil
import struct
import subprocess
import sys
import tempfile

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
SCRIPT = os.path.join(TOP, "packaging", "rebuild-overlay")


def ok(condition, text, more=""):
    """Prints what holds, ends with what does not."""
    if not condition:
        sys.exit(f"FAIL {text}: {more}")
    print(f"ok   {text}", flush=True)


class Root:
    """The directory that stands for /."""

    def __init__(self, directory, version):
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
        ok(done.returncode == 0, f"rebuild-overlay {' '.join(words)} ends with 0", done.stderr)
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


def main():
    """Builds, rebuilds, removes, and fails well."""
    version = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="phx-rebuild-") as directory:
        root = Root(directory, version)
        said = root.rebuild()
        ok(root.stamp() and release_in(root.overlay, version) and "restart slurmctld" in said,
           f"an overlay for {version} is built", said)
        first = root.stamp()
        ok(root.rebuild() == "" and root.stamp() == first, "nothing is built twice")
        root.rebuild("--force")
        ok(root.stamp() != first, "--force builds anew, as a new file")
        os.unlink(root.headers)
        os.makedirs(root.headers)
        with open(os.path.join(root.headers, ".phalanx-headers"), "w", encoding="ascii"):
            pass
        before = root.stamp()
        shutil.rmtree(os.path.join(root.build, f"slurm-{version}"))
        said = root.rebuild("--force")
        ok("the build failed" in said and root.stamp() == before,
           "a build that fails says so and leaves what is there", said)
        root.rebuild("--remove")
        ok(root.stamp() is None, "--remove takes its own file away")
        with open(root.overlay, "wb") as file:
            file.write(b"another's")
        said = root.rebuild()
        root.rebuild("--remove")
        ok("by hand" in said and root.stamp(), "another's file stays", said)


if __name__ == "__main__":
    main()
