# SPDX-License-Identifier: GPL-3.0-or-later
"""The places inside a cluster's directory and inside the repository."""

import os
import shutil

from .errors import UsageError

MARK_FILE = ".phalanx-cluster"
SOCKET_PATH_MAX = 107            # bytes of sockaddr_un.sun_path without the final 0
STEP_SUFFIX = "_4294967295.4294967295"   # slurmstepd's socket: NODE_JOB.STEP
PARTS = ("bin", "etc", "run", "log", "state", "spool", "var", "dev", "overlay", "mysql")


def repository():
    """The root of the source tree this file is in."""
    return os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


def search_path():
    """PATH without the wrappers of a cluster whose environment this process was given."""
    path = os.environ.get("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return os.pathsep.join(
        part for part in path.split(os.pathsep)
        if not os.path.exists(os.path.join(os.path.dirname(part.rstrip("/")), MARK_FILE)))


class Paths:
    """Names only; nothing is touched before `reset`.

    release  None: only the names below the directory are wanted
    """

    def __init__(self, directory, release=None):
        self.root, self.release = os.path.abspath(directory), release
        for part in PARTS:
            setattr(self, part, os.path.join(self.root, part))
        self.state_file = os.path.join(self.run, "cluster.json")
        self.slurm_conf = os.path.join(self.etc, "slurm.conf")
        self.phalanx_toml = os.path.join(self.etc, "phalanx.toml")
        self.plugin_socket = os.path.join(self.run, "plugin.sock")
        self.control_socket = os.path.join(self.run, "control.sock")
        self.overlay_file = os.path.join(self.overlay, "select_cons_tres.so")

    @property
    def apart(self):
        """True if the cluster's programs are not the installed ones, but wrappers in `bin`."""
        return bool(self.release and self.release.apart)

    @property
    def bin_dir(self):
        """Directory of phalanxd and phalanx."""
        if self.apart:
            return self.bin
        default = os.path.join(repository(), "target", "release")
        return os.path.abspath(os.environ.get("PHALANX_BIN_DIR") or default)

    @property
    def overlay_source(self):
        """Directory of the built overlay."""
        if self.apart:
            return self.release.build
        default = self.release.build if self.release else ""
        return os.path.abspath(os.environ.get("PHALANX_OVERLAY_DIR") or default)

    def check_lengths(self, node_names):
        """Raises UsageError if a socket's path would not fit, or the path has odd characters."""
        if any(c.isspace() or c in "#,:\"'\\%" for c in self.root):
            raise UsageError(f"--dir {self.root!r}: no spaces or any of # , : % \" ' \\ please, "
                             "slurm.conf cannot quote them")
        longest = max((len(name) for name in node_names), default=0)
        step = len(self.spool) + 2 + 2 * longest + len(STEP_SUFFIX)
        length = max(step, len(self.control_socket), len(self.plugin_socket))
        if length > SOCKET_PATH_MAX:
            raise UsageError(f"--dir {self.root}: {length - SOCKET_PATH_MAX} characters too long "
                             "for the Unix sockets below it")

    def reset(self):
        """Removes what a former cluster left and makes the empty parts."""
        for part in PARTS:
            shutil.rmtree(getattr(self, part), ignore_errors=True)
        for part in PARTS:
            os.makedirs(getattr(self, part), mode=0o755)
        with open(os.path.join(self.root, MARK_FILE), "w", encoding="ascii") as file:
            file.write("The cluster harness may remove everything in this directory.\n")
