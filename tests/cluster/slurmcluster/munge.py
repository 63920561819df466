# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's munged: started when it is not there, never stopped.

Other clusters and the system itself share it, so ending it is nobody's business here.
"""

import os
import pwd
import shutil
import subprocess
import time

from . import ports
from .errors import ClusterError

KEY = "/etc/munge/munge.key"
RUN_DIRS = ("/run/munge", "/var/log/munge", "/var/lib/munge")
KEY_BYTES = 128


def answers():
    """True if munged encodes and decodes a credential."""
    try:
        coded = subprocess.run(["munge", "-n"], capture_output=True, timeout=10, check=False)
        if coded.returncode:
            return False
        return subprocess.run(["unmunge"], input=coded.stdout, capture_output=True,
                              timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def ensure():
    """Starts munged unless it answers. Raises ClusterError with the reason if that fails."""
    with ports.locked():
        if answers():
            return
        if not shutil.which("munged"):
            raise ClusterError("munged is not installed (package munge)")
        if os.getuid() != 0:
            raise ClusterError("munged does not run and only root can start it")
        try:
            user = pwd.getpwnam("munge")
        except KeyError:
            raise ClusterError("there is no user munge (package munge)") from None
        _prepare(user)
        started = subprocess.run(["munged"], capture_output=True, text=True, check=False,
                                 user=user.pw_uid, group=user.pw_gid, extra_groups=[],
                                 stdin=subprocess.DEVNULL, cwd="/")
        if started.returncode:
            raise ClusterError(f"munged failed: {started.stderr.strip()}")
        for _ in range(50):
            if answers():
                return
            time.sleep(0.1)
        raise ClusterError("munged was started and does not answer within 5 s")


def _prepare(user):
    for path in (os.path.dirname(KEY), *RUN_DIRS):
        if not os.path.isdir(path):
            # Clients must reach the socket; the key's directory stays closed.
            os.makedirs(path, mode=0o755 if path.startswith("/run") else 0o700)
        os.chown(path, user.pw_uid, user.pw_gid)
    if not os.path.exists(KEY):
        fd = os.open(KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        with os.fdopen(fd, "wb") as file:
            file.write(os.urandom(KEY_BYTES))
        os.chown(KEY, user.pw_uid, user.pw_gid)
