# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Slurm a cluster runs: the installed one, or one of another release from a tree.

A tree (see tests/cluster/slurm-tree) is laid over /usr for each process of the cluster
alone. Wrapper scripts in the cluster's `bin` directory do that, first in its PATH, so that
a suite calls `squeue` or `slurmctld` as ever.
"""

import functools
import glob
import os
import re
import shutil
import subprocess

from .errors import ClusterError, UsageError
from .paths import repository, search_path

VERSIONS = {"22.05": "22.05.8", "24.11": "24.11.5"}
DEFAULT = "22.05"
VARIABLE = "PHALANX_TEST_SLURM"   # the release where the caller names none
TREE_COMMAND = os.path.join(repository(), "tests", "cluster", "slurm-tree")
TREE_TIMEOUT_S = 600
OURS = ("phalanx", "phalanxd")
THEIRS = ("sacct sacctmgr salloc sattach sbatch sbcast scancel scontrol scrontab sdiag sinfo sprio "
          "squeue sreport srun sshare sstat strigger slurmctld slurmd slurmdbd slurmstepd").split()


class Release:
    """One release of Slurm; `tree` is None if it is the installed one.

    name  `22.05` or `24.11`; None: what PHALANX_TEST_SLURM says, else 22.05
    """

    def __init__(self, name=None):
        self.name = name or os.environ.get(VARIABLE) or DEFAULT
        if self.name not in VERSIONS:
            raise UsageError(f"--slurm {self.name}: expected {' or '.join(VERSIONS)}")
        self.version = VERSIONS[self.name]
        here = installed()
        native = here == self.version if here else self.name == DEFAULT
        build = os.path.join(repository(), "build")
        self.tree = None if native else os.path.join(build, f"tree-{self.version}")
        self.build = os.path.join(build, f"slurm-{self.version}")

    @property
    def number(self):
        """(major, minor), to compare releases."""
        return tuple(int(part) for part in self.name.split("."))

    def programs(self, names):
        """Those of the programs that this release lacks."""
        if self.tree is None:
            return [name for name in names if not shutil.which(name)]
        return [name for name in names if not self._in_tree(name)]

    def plugin_dir(self):
        """Where Slurm's own plugins are. Raises ClusterError if they are not."""
        root = self.tree or ""
        found = glob.glob(f"{root}/usr/lib/*/slurm-wlm/select_cons_tres.so")
        if not found:
            raise ClusterError("Slurm's select_cons_tres.so is not installed "
                               "(package slurm-wlm-basic-plugins)")
        return os.path.dirname(found[0]).removeprefix(root)

    def ensure_tree(self):
        """Makes the tree if it is not there. Raises ClusterError with the reason if that fails."""
        if self.tree is None or os.path.exists(os.path.join(self.tree, "usr", ".slurm-version")):
            return
        try:
            done = subprocess.run([TREE_COMMAND, "make", self.tree, self.version], text=True,
                                  capture_output=True, check=False, timeout=TREE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise ClusterError(f"no tree of Slurm {self.version} within "
                               f"{TREE_TIMEOUT_S} s") from None
        if done.returncode:
            raise ClusterError(done.stderr.strip() or f"no tree of Slurm {self.version}")

    def enters(self):
        """Raises ClusterError with the reason if no command runs in the tree."""
        if self.tree is None:
            return
        done = subprocess.run([TREE_COMMAND, "run", self.tree, "slurmctld", "-V"], text=True,
                              capture_output=True, check=False, timeout=30)
        if done.returncode or self.version not in done.stdout:
            raise ClusterError(f"Slurm {self.version} cannot be entered; that takes root, or a "
                               f"kernel that gives users namespaces: {done.stderr.strip()}")

    def write_wrappers(self, directory, stock):
        """Scripts that run Slurm's programs, and unless `stock` ours, in the tree."""
        if self.tree is None:
            return
        programs = {name: self._in_tree(name) for name in THEIRS if self._in_tree(name)}
        if not stock:
            programs |= {name: os.path.join(self.build, "bin", name) for name in OURS}
        for name, program in programs.items():
            path = os.path.join(directory, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nexec "{TREE_COMMAND}" run "{self.tree}" "{program}" "$@"\n')
            os.chmod(path, 0o755)

    def _in_tree(self, name):
        """The path that a program has once in the tree, or None."""
        for path in (f"/usr/bin/{name}", f"/usr/sbin/{name}"):
            if os.access(self.tree + path, os.X_OK):
                return path
        return None


@functools.cache
def installed():
    """The version of the installed slurmctld, or None."""
    program = shutil.which("slurmctld", path=search_path() + ":/usr/sbin:/sbin")
    if not program:
        return None
    done = subprocess.run([program, "-V"], capture_output=True, text=True, check=False, timeout=30)
    match = re.search(r"\d+\.\d+\.\d+", done.stdout)
    return match.group() if match else None
