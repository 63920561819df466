# SPDX-License-Identifier: GPL-3.0-or-later
"""Free TCP ports below the kernel's ephemeral range, and a register of who has which.

A free port must stay ours between the moment it is chosen and the moment when
the daemon binds it, also when two clusters start at once. So every cluster
writes its ports into a register under a lock; entries of clusters that are no
more are dropped.
"""

import contextlib
import fcntl
import json
import os
import socket
import tempfile
import uuid

from .errors import ClusterError
from .procs import Process, identify

RUN = "PHALANX_TEST_RUN"    # which run of tests/run a cluster belongs to
PORT_LOW = 10_000
EPHEMERAL_DEFAULT = 32_768


def ephemeral_low():
    """The first port that the kernel may hand out to any connection."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return EPHEMERAL_DEFAULT


def register_dir():
    """The register's directory, one per user."""
    path = os.path.join(tempfile.gettempdir(), f"phalanx-clusters-{os.getuid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.stat(path).st_uid != os.getuid():
        raise ClusterError(f"{path} belongs to another user")
    return path


@contextlib.contextmanager
def locked():
    """Holds the machine-wide lock of the register."""
    with open(os.path.join(register_dir(), "lock"), "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _entries():
    """(path, entry) of every cluster that still lives; removes the others."""
    found = []
    for name in os.listdir(register_dir()):
        if not name.endswith(".json"):
            continue
        path = os.path.join(register_dir(), name)
        try:
            with open(path, encoding="utf-8") as file:
                entry = json.load(file)
            owner = Process(**entry["owner"])
        except (OSError, ValueError, KeyError, TypeError):
            entry, owner = None, None
        if owner and (owner.alive() or _daemons_alive(entry["state"])):
            found.append(entry)
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)
    return found


def _daemons_alive(state_path):
    try:
        with open(state_path, encoding="utf-8") as file:
            return any(Process(**p).alive() for p in json.load(file)["processes"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def take(count, cluster_id, state_path):
    """Reserves `count` free ports for a cluster; they need not be consecutive.

    Raises ClusterError when the range below the ephemeral ports has too few.
    """
    with locked():
        taken = {port for entry in _entries() for port in entry["ports"]}
        ports = []
        for port in range(PORT_LOW, ephemeral_low()):
            if len(ports) == count:
                break
            if port not in taken and _is_free(port):
                ports.append(port)
        if len(ports) < count:
            raise ClusterError(f"{count} free TCP ports needed between {PORT_LOW} and "
                               f"{ephemeral_low() - 1}, found {len(ports)}")
        entry = {"ports": ports, "state": state_path, "run": os.environ.get(RUN),
                 "owner": identify("owner", os.getpid()).to_json()}
        path = os.path.join(register_dir(), f"{cluster_id}.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(entry, file)
    return ports


def release(cluster_id):
    """Gives a cluster's ports back."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(register_dir(), f"{cluster_id}.json"))


def states_of(run):
    """The state files of the clusters that a run of tests/run has left running."""
    with locked():
        return [entry["state"] for entry in _entries()
                if entry.get("run") == run and entry["state"]]


def _is_free(port):
    """True if nobody listens on the port on any address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # A port in TIME_WAIT can be bound by Slurm, which sets the same option.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


def free_ports(count):
    """Ports for other programs than Slurm's, reserved until this process ends."""
    return take(count, f"other-{uuid.uuid4().hex}", "")


def free_port():
    """One such port."""
    return free_ports(1)[0]
