# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounting for a cluster: MariaDB on a Unix socket, slurmdbd on loopback, some users.

MariaDB lets in only the user who started it (unix_socket authentication) and has no
TCP port, so two clusters and the machine's own database do not meet.
"""

import os
import pwd
import subprocess
import time

from .clock import Deadline
from .errors import ClusterError

ACCOUNT = "research"
QOS = {"low": "Priority=10", "high": "Priority=1000 Preempt=low,normal"}
EXTRA_USERS = ("nobody",)    # beside the one who runs the cluster, where they exist
START_S = 30


def _socket(cluster):
    return os.path.join(cluster.paths.run, "mariadb.sock")


def _user():
    return pwd.getpwuid(os.getuid()).pw_name


def settings(cluster, gres_types):
    """The slurm.conf lines that turn accounting on."""
    tres = ["gres/" + name for name in gres_types.split(",") if name]
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "localhost",
        "AccountingStoragePort": cluster.ports["slurmdbd"],
        "AccountingStorageEnforce": "associations,limits,qos",
        "AccountingStorageTRES": ",".join(tres),
    }


def start(cluster, name):
    """Starts both daemons, registers the cluster, adds an account, users and QOS.

    Raises ClusterError with the reason. slurmctld must be started afterwards: it refuses
    to run on a database that does not know its cluster.
    """
    _create_database(cluster)
    _start_mariadb(cluster)
    _start_slurmdbd(cluster)
    sacctmgr(cluster, "add", "cluster", name)
    for qos, limits in QOS.items():
        sacctmgr(cluster, "add", "qos", qos, *limits.split())
    sacctmgr(cluster, "add", "account", ACCOUNT, "Description=tests", "Organization=tests")
    sacctmgr(cluster, "modify", "account", ACCOUNT, "set", "qos=normal," + ",".join(QOS))
    for user in {_user(), *EXTRA_USERS}:
        try:
            pwd.getpwnam(user)
        except KeyError:
            continue
        sacctmgr(cluster, "add", "user", user, f"Account={ACCOUNT}")
        sacctmgr(cluster, "modify", "user", user, "set", f"DefaultAccount={ACCOUNT}")


def sacctmgr(cluster, *words):
    """sacctmgr without questions. Raises ClusterError unless it did something or had nothing to."""
    done = cluster.run("sacctmgr", "-i", *words, check=False, timeout=60)
    text = (done.stdout + done.stderr).strip()
    if done.returncode and "Nothing" not in text:
        raise ClusterError(f"sacctmgr {' '.join(words)}: {text}")
    return text


def _create_database(cluster):
    argv = ["mariadb-install-db", "--no-defaults", f"--datadir={cluster.paths.mysql}",
            f"--tmpdir={cluster.paths.mysql}",  # temporary tables of two clusters would clash
            f"--user={_user()}", "--auth-root-authentication-method=socket",
            f"--auth-root-socket-user={_user()}", "--skip-test-db"]
    done = cluster.run(*argv, check=False, timeout=120, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, capture_output=False)
    if done.returncode:
        raise ClusterError(f"mariadb-install-db: {done.stdout.strip()[-800:]}")


def _start_mariadb(cluster):
    process = cluster.spawn("mariadbd", [
        "mariadbd", "--no-defaults", f"--datadir={cluster.paths.mysql}", f"--user={_user()}",
        f"--socket={_socket(cluster)}", "--skip-networking", "--skip-log-bin",
        f"--tmpdir={cluster.paths.mysql}",
        f"--pid-file={os.path.join(cluster.paths.run, 'mariadb.pid')}",
        "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900",
        "--innodb-flush-log-at-trx-commit=2"])
    _wait(cluster, process, "mariadbd",
          ["mariadb", "--no-defaults", f"--socket={_socket(cluster)}", "-e", "select 1"])


def _start_slurmdbd(cluster):
    paths = cluster.paths
    path = os.path.join(paths.etc, "slurmdbd.conf")
    lines = {
        "DbdHost": "localhost", "DbdAddr": "127.0.0.1", "DbdPort": cluster.ports["slurmdbd"],
        "CommunicationParameters": "NoInAddrAny" if cluster.on_loopback else None,
        "AuthType": "auth/munge", "SlurmUser": _user(), "DebugLevel": "info",
        "LogFile": os.path.join(paths.log, "slurmdbd.log"),
        "PidFile": os.path.join(paths.run, "slurmdbd.pid"),
        "StorageType": "accounting_storage/mysql", "StorageHost": "localhost",
        "StorageUser": _user(), "StorageLoc": "slurm_acct_db",
    }
    # slurmdbd refuses a file that others can read.
    with open(path, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        file.write("".join(f"{key}={value}\n" for key, value in lines.items() if value))
    process = cluster.spawn("slurmdbd", ["slurmdbd", "-D"],
                            {"MYSQL_UNIX_PORT": _socket(cluster)})
    _wait(cluster, process, "slurmdbd", ["sacctmgr", "-n", "show", "cluster"])


def _wait(cluster, process, role, probe):
    """Waits until a command that asks the daemon succeeds."""
    deadline = Deadline(START_S)
    while cluster.run(*probe, check=False, timeout=30).returncode:
        if not process.alive():
            raise ClusterError(f"{role} ended during start")
        if deadline.over():
            raise ClusterError(f"{role} does not answer within {START_S} s")
        time.sleep(0.1)
