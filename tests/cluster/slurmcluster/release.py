# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Slurm a cluster runs: the installed one, another release from a tree, or a site's own.

A tree (see tests/cluster/slurm-tree) is laid over /usr for each process of the cluster
alone; a site's own is under a prefix, as `make install` has put it there. Wrapper scripts in
the cluster's `bin` directory enter the one and name the other, first in its PATH, so that a
suite calls `squeue` or `slurmctld` as ever.
"""

import functools
import glob
import os
import re
import shutil
import subprocess

from .errors import ClusterError, UsageError
from .paths import repository, search_path

VERSIONS = {"22.05": "22.05.8", "24.11": "24.11.5", "26.05": "26.05.5"}
DEFAULT = "22.05"
VARIABLE = "PHALANX_TEST_SLURM"   # the release where the caller names none
ROOT_VARIABLE = "PHALANX_TEST_SLURM_ROOT"   # the same for a prefix; it comes first
TREE_COMMAND = os.path.join(repository(), "tests", "cluster", "slurm-tree")
TREE_TIMEOUT_S = 600
ROOT_PLUGINS = ("lib/slurm", "lib64/slurm", "lib/*/slurm", "lib/*/slurm-wlm")
OURS = ("phalanx", "phalanxd", "phalanx-gate", "phalanx-share")
THEIRS = ("sacct sacctmgr salloc sattach sbatch sbcast scancel scontrol scrontab sdiag sinfo sprio "
          "squeue sreport srun sshare sstat strigger slurmctld slurmd slurmdbd slurmstepd").split()


class Release:
    """One Slurm; it has a `tree` or a `root` unless it is the installed one.

    name  `22.05`, `24.11` or `26.05`; None: what PHALANX_TEST_SLURM says, else 22.05
    root  prefix of a Slurm, whose release counts then; None: PHALANX_TEST_SLURM_ROOT, if no
          name is given
    """

    def __init__(self, name=None, root=None):
        root = root or (None if name else os.environ.get(ROOT_VARIABLE))
        build = os.path.join(repository(), "build")
        self.root = os.path.abspath(root) if root else None
        self.tree = None
        if self.root:
            self.version = version_of(self._place("slurmctld"))
            if not self.version:
                raise UsageError(f"{root}: no Slurm there, as bin/slurmctld or sbin/slurmctld "
                                 "does not run")
            self.name = self.version.rpartition(".")[0]
        else:
            self.name = name or os.environ.get(VARIABLE) or DEFAULT
            if self.name not in VERSIONS:
                raise UsageError(f"--slurm {self.name}: expected {', '.join(VERSIONS)}, "
                                 "or a Slurm's prefix as --slurm-root")
            self.version = VERSIONS[self.name]
            here = installed()
            native = here == self.version if here else self.name == DEFAULT
            if not native:
                self.tree = os.path.join(build, f"tree-{self.version}")
        self.build = os.path.join(build, f"slurm-{self.version}")

    @property
    def apart(self):
        """Whether it is another one than the installed, and its programs have wrappers."""
        return bool(self.tree or self.root)

    @property
    def number(self):
        """(major, minor), to compare releases."""
        return tuple(int(part) for part in self.name.split("."))

    def how_to_build(self):
        """The command that builds the overlay for it."""
        if not self.apart:
            return "`make plugin`, or set PHALANX_OVERLAY_DIR"
        if self.root:
            return f"`make slurm-root SLURM_ROOT={self.root} SLURM_SOURCE=...`"
        return f"`make slurm-{self.name}`" + (
            " SLURM_SOURCE=..." if self.number >= (26, 5) else "")

    def programs(self, names):
        """Those of the programs that this release lacks."""
        if not self.apart:
            return [name for name in names if not shutil.which(name)]
        machine = shutil.which if self.root else lambda _name: None
        return [name for name in names
                if not (self._place(name) if name in THEIRS or self.tree else machine(name))]

    def plugin_dir(self):
        """Where Slurm's own plugins are. Raises ClusterError if they are not."""
        tree, file = self.tree or "", "select_cons_tres.so"
        patterns = ([f"{self.root}/{place}/{file}" for place in ROOT_PLUGINS] if self.root
                    else [f"{tree}/usr/lib/*/slurm-wlm/{file}"])
        found = [path for pattern in patterns for path in sorted(glob.glob(pattern))]
        if not found:
            raise ClusterError(f"no {file} below {self.root}" if self.root else
                               "Slurm's select_cons_tres.so is not installed "
                               "(package slurm-wlm-basic-plugins)")
        return os.path.dirname(found[0]).removeprefix(tree)

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
        """Scripts that run Slurm's programs, and unless `stock` ours, with this Slurm."""
        if not self.apart:
            return
        programs = {name: self._place(name) for name in THEIRS if self._place(name)}
        if not stock:
            programs |= {name: os.path.join(self.build, "bin", name) for name in OURS}
        for name, program in programs.items():
            path = os.path.join(directory, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\n{self._command(program)} "$@"\n')
            os.chmod(path, 0o755)

    def _command(self, program):
        """The line of a wrapper."""
        if self.tree:
            return f'exec "{TREE_COMMAND}" run "{self.tree}" "{program}"'
        if os.path.basename(program) not in OURS:
            return f'exec "{program}"'
        # They were linked against the name of its libslurm only.
        libraries = os.path.dirname(self.plugin_dir())
        return f'LD_LIBRARY_PATH="{libraries}" exec "{program}"'

    def _place(self, name):
        """The path that a program has, once in the tree, or None."""
        for base in ((f"{self.root}/bin", f"{self.root}/sbin") if self.root
                     else ("/usr/bin", "/usr/sbin")):
            if os.access(f"{self.tree or ''}{base}/{name}", os.X_OK):
                return f"{base}/{name}"
        return None


def version_of(program):
    """The version that a slurmctld tells, or None."""
    if not program:
        return None
    try:
        done = subprocess.run([program, "-V"], capture_output=True, text=True, check=False,
                              timeout=30)
    except OSError:
        return None
    match = re.search(r"\d+\.\d+\.\d+", done.stdout)
    return match.group() if match else None


@functools.cache
def installed():
    """The version of the installed slurmctld, or None."""
    return version_of(shutil.which("slurmctld", path=search_path() + ":/usr/sbin:/sbin"))
