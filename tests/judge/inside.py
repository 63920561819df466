#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""One side of the judge, in its private root: runs the units that its standard input names.

A unit is `pytest MODULE` or `expect PROGRAM`, one a line; each answer is one line of JSON:
{"unit": ..., "tests": {name: [verdict, seconds, why]}, "asked": ..., "placed": ...}, where asked
and placed are the daemon's. Verdicts: passed, failed, skipped, late (ended by its time limit).
"""

import argparse
import contextlib
import filecmp
import glob
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

import settings

PLUGINS = "/usr/lib/x86_64-linux-gnu/slurm-wlm"
OVERLAY = "/judge/overlay"
ETC, LOGS, OUT = "/etc/slurm", "/var/log/slurm", "/judge/out"
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
    "PYTHONPATH": "/judge/lib", "PYTHONDONTWRITEBYTECODE": "1",
    "SLURM_TESTSUITE_CONF": "/etc/testsuite.conf"}
EXPECT = "/tmp/expect/testsuite/expect"
SOCKET, PHALANX_LOG = "/run/phalanx/control.sock", "/run/judge/phalanxd.log"
DUMP = "/run/judge/accounting.sql"
KEPT = ("munged", "mariadbd", "phalanxd")   # daemons that outlive a unit
PASSED, FAILED, SKIPPED, LATE = "passed", "failed", "skipped", "late"
WORST = (SKIPPED, PASSED, FAILED, LATE)
RC_SKIPPED, RC_LATE = 255, 124
# What a program of Expect says that runs for SlurmUser alone.
PRIVILEGED = re.compile(r"SlurmUser|super ?user|[Aa]dministrator|[Nn]ot authorized", re.I)
START_S, GRACE_S = 20.0, 20
MODULE_LIMITS = 5               # a module may take so many limits of one test
WHY_COLUMNS = 300


def run(*words, user="root", check=True, timeout=60, **more):
    """Runs a program as a user; raises where it fails."""
    who = pwd.getpwnam(user)
    return subprocess.run(words, user=who.pw_uid, group=who.pw_gid, extra_groups=[], check=check,
                          env=ENVIRONMENT | {"HOME": who.pw_dir, "USER": user, "LOGNAME": user},
                          text=True, errors="replace", timeout=timeout,
                          **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                             "stderr": subprocess.PIPE, "cwd": "/tmp"} | more)


def daemon(*words, user="root"):
    """Runs a program that goes into the background."""
    run(*words, user=user, stdout=subprocess.DEVNULL, stderr=sys.stderr)


def start_slurmdbd():
    """Starts slurmdbd and waits for its answer."""
    daemon("slurmdbd", user="slurm")
    wait(lambda: run("sacctmgr", "-n", "show", "cluster", user="slurm",
                     check=False).returncode == 0, "slurmdbd")


def write(path, text, owner="root", mode=0o644):
    """Writes a file of an owner."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    shutil.chown(path, owner)
    os.chmod(path, mode)


def fresh(path, owner, mode=0o755):
    """An empty directory of an owner."""
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    shutil.chown(path, owner)
    os.chmod(path, mode)


def wait(condition, what, seconds=START_S):
    """Waits for a condition; raises TimeoutError."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.1)


class Side:
    """A private root with what the suite needs in it."""

    def __init__(self, phalanx, limit_s):
        self.phalanx, self.limit_s = phalanx, limit_s
        self.large = False      # the cluster of the Expect programs runs
        self.keeper = None      # what starts phalanxd, and what this has counted so far
        self.counted, self.units = {}, []

    def prepare(self):
        """Packages, users, and daemons that last."""
        debs = glob.glob("/judge/debs/*.deb")
        run("dpkg", "-i", "--no-triggers", "--force-confold", "--force-depends",
            "--force-unsafe-io", *debs, timeout=300)
        if subprocess.run(["id", "atf"], capture_output=True, check=False).returncode:
            run("useradd", "-m", "-s", "/bin/bash", "atf")
        write("/etc/sudoers.d/judge", settings.SUDOERS, mode=0o440)
        write("/etc/profile.d/judge.sh", settings.PROFILE)
        write("/etc/hosts", "127.0.0.1 localhost judge\n")
        write("/etc/testsuite.conf", settings.SUITE)
        # The suite finds daemons by /proc/PID/exe: no links, please.
        for program in ("slurmctld", "slurmd", "slurmstepd", "slurmdbd"):
            path = f"/usr/sbin/{program}"
            if os.path.islink(path):
                real = os.path.realpath(path)
                os.unlink(path)
                shutil.copy2(real, path)
        # And Slurm's private library where a prefix would have it.
        os.symlink(PLUGINS, "/usr/lib/slurm")
        for path, owner in (("/run/slurm", "slurm"), ("/run/phalanx", "slurm"), (ETC, "slurm"),
                            ("/run/judge", "root"), ("/run/mysqld", "mysql"), (LOGS, "slurm"),
                            ("/run/sudo", "root"), ("/run/user", "root"),
                            ("/var/lib/slurm", "slurm"), ("/var/spool/slurmd", "root")):
            fresh(path, owner)
        for path in ("/run/munge", "/var/log/munge", "/var/lib/munge", "/etc/munge"):
            fresh(path, "munge")
        with open("/etc/munge/munge.key", "wb") as file:
            file.write(os.urandom(128))
        shutil.chown("/etc/munge/munge.key", "munge")
        os.chmod("/etc/munge/munge.key", 0o400)
        daemon("munged", user="munge")
        shutil.copytree("/judge/suite/testsuite/expect", EXPECT)
        write(f"{EXPECT}/globals.local", settings.GLOBALS)
        shutil.copy("/etc/testsuite.conf", os.path.dirname(EXPECT))
        run("chown", "-R", "atf:", "/tmp/expect")
        run("chmod", "-R", "a+rwX", "/tmp/expect")
        self.database()

    def database(self):
        """MariaDB, and a database that knows cluster and users."""
        fresh("/run/judge/mysql", "mysql")
        run("mariadb-install-db", "--no-defaults", "--datadir=/run/judge/mysql", "--user=mysql",
            "--skip-test-db", timeout=300)
        subprocess.Popen(["mariadbd", "--no-defaults", "--datadir=/run/judge/mysql",
                          "--user=mysql", "--socket=/run/mysqld/mysqld.sock", "--skip-networking",
                          "--skip-log-bin", "--skip-grant-tables", "--tmpdir=/run/judge/mysql",
                          "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900",
                          "--innodb-flush-log-at-trx-commit=2"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
        wait(lambda: run("mysql", "-e", "select 1", check=False).returncode == 0, "mariadbd")
        self.configure(settings.LARGE)
        start_slurmdbd()
        for words in ("cluster judge", "account test Cluster=judge",
                      "user atf,slurm,root Account=test DefaultAccount=test AdminLevel=Admin"):
            run("sacctmgr", "-i", "add", *words.split(), user="slurm")
        self.end()
        with open(DUMP, "w", encoding="utf-8") as file:
            run("mysqldump", "slurm_acct_db", stdout=file)

    def configure(self, text, gres=None):
        """Slurm's configuration as a unit finds it, and nothing of another's state."""
        for path in glob.glob(f"{ETC}/*"):
            os.unlink(path)
        if self.phalanx:
            text = f"PluginDir={OVERLAY}:{PLUGINS}\n" + text
        write(f"{ETC}/slurm.conf", text, "slurm")
        write(f"{ETC}/slurmdbd.conf", settings.SLURMDBD, "slurm", 0o600)
        if gres:
            write(f"{ETC}/gres.conf", gres, "slurm")
        for path in (LOGS, "/var/lib/slurm", "/var/lib/slurm/state"):
            fresh(path, "slurm")
        for path in glob.glob("/var/spool/slurmd/*") + glob.glob("/tmp/pytest-of-*"):
            shutil.rmtree(path, ignore_errors=True)

    def end(self):
        """Ends what a unit has left running, and puts the database back if it was used."""
        used = os.path.exists(f"{LOGS}/slurmdbd.log")
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.others():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            with contextlib.suppress(TimeoutError):
                wait(lambda: not self.others(), "the end", 2.0)
        self.large = False
        if used and os.path.exists(DUMP):
            run("mysql", "-e", "drop database if exists slurm_acct_db; "
                               "create database slurm_acct_db")
            with open(DUMP, encoding="utf-8") as file:
                run("mysql", "slurm_acct_db", stdin=file, timeout=120)

    def others(self):
        """Processes beside this one, the first, and the daemons that last."""
        found = []
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            with contextlib.suppress(OSError), \
                    open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                name, state = re.match(r"\d+ \((.*)\) (\S)", file.read()).groups()
                keeper = self.keeper and self.keeper.pid
                if pid not in (1, os.getpid(), keeper) and name not in KEPT and state not in "ZX":
                    found.append(pid)
        return found

    def start_phalanx(self):
        """Starts phalanxd anew, and whenever it ends, as systemd would."""
        if self.keeper:
            self.keeper.kill()
            run("pkill", "-KILL", "-x", "phalanxd", check=False)
            self.keeper.wait()
        for path in ("/var/lib/phalanx", "/run/phalanx"):
            fresh(path, "slurm")
        write("/etc/phalanx.toml", settings.PHALANX)
        with open(PHALANX_LOG, "w", encoding="utf-8") as log:
            who = pwd.getpwnam("slurm")
            self.keeper = subprocess.Popen(
                ["/bin/sh", "-c", "while :; do /judge/bin/phalanxd --config /etc/phalanx.toml;"
                 " echo \"phalanxd ended with $?\"; sleep 1; done"], stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, user=who.pw_uid, group=who.pw_gid, extra_groups=[],
                env=ENVIRONMENT, start_new_session=True)
        self.counted = {}
        wait(lambda: os.path.exists(SOCKET), "phalanxd", 60.0)

    def counts(self):
        """Asked and placed since the last call, and how often phalanxd has ended."""
        if not self.phalanx:
            return {}
        with open(PHALANX_LOG, encoding="utf-8", errors="replace") as file:
            now = {"asked": 0, "placed": 0, "ended": file.read().count("phalanxd ended with")}
        try:
            status = json.loads(run("/judge/bin/phalanx", "status", "--json", check=False).stdout)
            for share in (status["run_now"], status["will_run"]):
                now["asked"] += share["asked"]
                now["placed"] += share["narrowed"]
        except ValueError:
            now |= {key: self.counted.get(key, 0) for key in ("asked", "placed")}
        before, self.counted = self.counted, now
        # One that has ended counts from nothing.
        return {key: value - before.get(key, 0) if value >= before.get(key, 0) else value
                for key, value in now.items()}

    def unit(self, unit):
        """Runs a unit; returns the answer."""
        kind, name = unit.split(" ", 1)
        begin = time.monotonic()
        keep = f"{OUT}/{re.sub(r'[^A-Za-z0-9.=-]+', '_', name)}"
        fresh(keep, "atf", 0o777)
        if unit in self.units or not self.units:
            # A second run begins with a cluster of its own, and a daemon that has learned nothing.
            self.end()
            if self.phalanx:
                self.start_phalanx()
        self.units.append(unit)
        try:
            tests = self.pytest(name, keep) if kind == "pytest" else self.expect(name, keep)
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", "") or ""
            tests = {name: [FAILED, 0.0, f"the judge's own: {error} {said}"[:WHY_COLUMNS]]}
            self.large = False
        counts = self.counts()
        whole = all(verdict in (PASSED, SKIPPED) for verdict, _, _ in tests.values())
        if kind == "pytest" or not whole:
            with contextlib.suppress(shutil.Error, OSError):
                shutil.copytree(LOGS, f"{keep}/log", dirs_exist_ok=True)
                if self.phalanx:
                    shutil.copy(PHALANX_LOG, f"{keep}/log")
        if kind == "pytest" or not self.healthy():
            self.end()
        return {"unit": unit, "tests": tests, "seconds": round(time.monotonic() - begin, 1),
                **counts}

    def pytest(self, module, keep):
        """Runs a module of pytest on clusters that it makes."""
        self.end()
        self.configure(settings.SMALL)
        words = ["/usr/bin/python3", "-m", "pytest", "-v", "--auto-config", "--tb=short",
                 "-p", "no:cacheprovider", f"--timeout={self.limit_s}",
                 f"--junitxml={keep}/junit.xml", f"tests/{module}"]
        limit = self.limit_s * MODULE_LIMITS
        with open(f"{keep}/output.txt", "w", encoding="utf-8") as output:
            run("timeout", "-s", "INT", "-k", str(GRACE_S), str(limit), *words, user="atf",
                check=False, timeout=limit + 2 * GRACE_S, cwd="/judge/suite/testsuite/python",
                stdout=output, stderr=subprocess.STDOUT)
        return outcomes(f"{keep}/junit.xml")

    def expect(self, program, keep):
        """Runs a program of Expect on the large cluster."""
        for user in ("atf", "slurm"):
            if not self.large:
                self.start_large()
            begin = time.monotonic()
            path = f"{keep}/output.txt"
            with open(path, "w", encoding="utf-8") as output:
                done = run("timeout", "-k", "5", str(self.limit_s), f"./{program}", user=user,
                           check=False, timeout=self.limit_s + GRACE_S, cwd=EXPECT,
                           stdout=output, stderr=subprocess.STDOUT)
            with open(path, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
            verdict = {0: PASSED, RC_SKIPPED: SKIPPED, RC_LATE: LATE}.get(done.returncode, FAILED)
            said = [line for line in lines if re.search(r"Error|Fatal|SKIPPED|FAILURE", line)]
            why = "" if verdict == PASSED else " | ".join(said[:2])[:WHY_COLUMNS]
            found = {program: [verdict, round(time.monotonic() - begin, 1), why]}
            if verdict != SKIPPED or not PRIVILEGED.search("\n".join(lines)):
                break
        return found

    def start_large(self):
        """Starts the cluster of the Expect programs."""
        self.end()
        self.configure(settings.LARGE, settings.LARGE_GRES)
        start_slurmdbd()
        daemon("slurmctld", "-c", "-i", user="slurm")
        for node in settings.NODES:
            daemon("slurmd", "-N", node)
        wait(self.idle, "idle nodes", 60.0)
        shutil.copy(f"{ETC}/slurm.conf", "/run/judge/slurm.conf")
        self.large = True

    def idle(self):
        """Whether every node is idle and no job is left."""
        done = run("sinfo", "-h", "-p", "main", "-o", "%D %T", check=False, timeout=15)
        return done.stdout.split() == [str(len(settings.NODES)), "idle"]

    def healthy(self):
        """Whether the large cluster is as the next program expects it."""
        try:
            run("scancel", "-u", "atf", check=False)
            run("scancel", "-u", "slurm", check=False)
            wait(self.idle, "idle nodes", 15.0)
            left = run("scontrol", "-o", "show", "reservation", check=False).stdout
            return "ReservationName=" not in left and \
                filecmp.cmp(f"{ETC}/slurm.conf", "/run/judge/slurm.conf", shallow=False)
        except (OSError, subprocess.SubprocessError):
            return False


def outcomes(path):
    """{test: [verdict, seconds, why]} of a file in JUnit's format; empty where there is none."""
    found = {}
    try:
        tree = xml.etree.ElementTree.parse(path)
    except (OSError, xml.etree.ElementTree.ParseError):
        return found
    for entry in tree.iter("testcase"):
        verdict, why = PASSED, ""
        for child in entry:
            text = f"{child.get('message') or ''} {child.text or ''}"
            if child.tag in ("failure", "error"):
                verdict = LATE if "Timeout >" in text else FAILED
            elif child.tag == "skipped":
                verdict = SKIPPED
            if child.tag in ("failure", "error", "skipped"):
                why = " ".join(text.split())[:WHY_COLUMNS]
        name = entry.get("name") or entry.get("classname")
        old = found.get(name, [SKIPPED, 0.0, ""])
        # An error while a test is taken down is an entry of its own.
        worst = max((old, [verdict, 0.0, why]), key=lambda each: WORST.index(each[0]))
        found[name] = [worst[0], round(old[1] + float(entry.get("time") or 0), 1), worst[2]]
    return found


def main():
    """Prepares the root and answers to units until there are no more."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--phalanx", action="store_true", help="with the overlay and phalanxd")
    parser.add_argument("--limit", type=int, required=True, help="seconds that a test may take")
    args = parser.parse_args()
    os.umask(0o022)
    side = Side(args.phalanx, args.limit)
    try:
        side.prepare()
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error}\n{error.stdout}\n{error.stderr}")
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(side.unit(line.strip())), flush=True)


if __name__ == "__main__":
    main()
