#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each write, sync, open, rename and removal of phalanxd's files fails once, in turn.

    tests/failures/daemon.py [--every K] [--seed N]

Goal: phalanxd starts and goes on whichever call fails, with the error on record where something
was refused; what it said it had stored is there after a restart without failures; its files are
whole. `--every K`: only each Kth call, from one that the seed picks.

Method: the real program with tests/failures/nth.c preloaded, and a slurmctld that hangs up. First
the start on no files is repeated, then that on files which exist, then rounds of work with one
running daemon: a job's end that the plugin tells of, runs imported, a collector registered, values
stored, a recording begun and ended. Each end is counted as written or as dropped.
One call fails at a time, with ENOSPC, EIO and EMFILE in turn.
"""

import argparse
import contextlib
import errno
import http.client
import json
import mmap
import os
import pwd
import random
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.path.join(os.environ.get("PHALANX_BIN_DIR", os.path.join(TOP, "target", "debug")),
                       "phalanxd")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE)
PACKETS = os.path.join(TOP, "tests", "fuzz", "seeds", "wire_parse")
NO_NAMES = 14695981039346656037     # FNV-1a 64 of nothing
CONTROL = struct.Struct("qqqq104s")
WAIT_S = 60

SLURM = """ClusterName=failures
SlurmctldHost=localhost
SlurmUser={user}
SlurmctldPort={port}
AuthType=auth/munge
SelectType=select/cons_tres
NodeName=n[1-2] CPUs=4
PartitionName=main Nodes=ALL Default=YES
"""
CONFIG = """mode = "shadow"
[link]
socket = "{dir}/plugin.sock"
[control]
socket = "{dir}/control.sock"
[history]
path = "{dir}/state/history.sqlite"
"""


class Control(http.client.HTTPConnection):
    """HTTP over the control socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=WAIT_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(WAIT_S)
        self.sock.connect(self.path)


def until(what, done, complain=sys.exit):
    """Waits for a state; ends the program where it does not come."""
    end = time.monotonic() + WAIT_S
    while not done():
        if time.monotonic() > end:
            complain(f"failures: {what}: not within {WAIT_S} s")
        time.sleep(0.01)


class Plugin:
    """An overlay of a cluster without nodes, whose jobs only end."""

    def __init__(self, path):
        self.seq, self.ends = 0, 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)
        self.send("HELLO")
        self.send("SYNC_BEGIN", 32, NO_NAMES)
        self.send("SYNC_END")

    def send(self, name, at=None, value=0):
        """A seed of the fuzz targets as the next packet, with another number at a place."""
        with open(os.path.join(PACKETS, name), "rb") as file:
            packet = bytearray(file.read())
        self.seq += 1
        struct.pack_into("<Q", packet, 16, self.seq)
        if at is not None:
            struct.pack_into("<Q", packet, at, value)
        self.socket.send(packet)

    def end(self):
        """Tells of the end of a job."""
        self.ends += 1
        self.send("JOB_END", 24, self.ends)


class Daemon:
    """phalanxd with its files in a directory, and what it promised to keep."""

    def __init__(self, directory, port, shim):
        self.dir, self.process, self.log, self.plugin = directory, None, None, None
        self.state = os.path.join(directory, "state")
        self.socket = os.path.join(directory, "control.sock")
        self.runs, self.values, self.collectors, self.number = set(), {}, set(), 0
        for name, text in (("slurm.conf", SLURM), ("phalanx.toml", CONFIG)):
            with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                user = pwd.getpwuid(os.geteuid()).pw_name
                file.write(text.format(dir=directory, port=port, user=user))
        path = os.path.join(directory, "control")
        with open(path, "wb") as file:
            file.write(bytes(CONTROL.size))
        with open(path, "r+b") as file:
            self.shared = mmap.mmap(file.fileno(), CONTROL.size)
        self.env = dict(os.environ, SLURM_CONF=os.path.join(directory, "slurm.conf"),
                        LD_PRELOAD=shim, FAIL_FILE=path, FAIL_DIR=self.state)

    def fail(self, nth, error=errno.EIO):
        """Lets the nth call from now on fail; 0: none."""
        CONTROL.pack_into(self.shared, 0, nth, 0, 0, error, b"")

    def counts(self):
        """Calls seen, failed, and which."""
        _, seen, failed, _, what = CONTROL.unpack_from(self.shared)
        return seen, failed, what.rstrip(b"\0").decode()

    def start(self):
        """Starts it and waits until it answers."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.socket)
        self.log = open(os.path.join(self.dir, "log"), "w+b")
        self.process = subprocess.Popen(
            [PROGRAM, "--config", os.path.join(self.dir, "phalanx.toml")], env=self.env,
            stdout=self.log, stderr=self.log)
        until("phalanxd listens", lambda: self.alive() and os.path.exists(self.socket))
        until("phalanxd answers", lambda: self.alive() and self.answers())
        self.plugin = Plugin(os.path.join(self.dir, "plugin.sock"))

    def answers(self):
        """Whether the control socket serves."""
        try:
            return self.ask("GET", "/v1/status")[0] == 200
        except OSError:
            return False

    def alive(self):
        """True; ends the program where it is not."""
        if self.process.poll() is not None:
            self.complain(f"phalanxd ended with {self.process.returncode}")
        return True

    def text(self):
        """What it logged."""
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def complain(self, what):
        """Ends the program with what is known."""
        seen, failed, call = self.counts()
        text = [line for line in self.text().splitlines() if "slurm_msg_sendto" not in line]
        print("\n".join(text[-40:]), file=sys.stderr)
        sys.exit(f"failures: {what}; {seen} calls, {failed} failed ({call})")

    def ask(self, method, path, body=None):
        """Status and answer."""
        connection = Control(self.socket)
        with contextlib.closing(connection):
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def stop(self):
        """Ends it as systemd does."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.complain("phalanxd does not end")
        if code or "panicked" in self.text():
            self.complain(f"phalanxd ended with {code}")
        self.log.close()

    def work(self, strict=False):
        """One round. What is accepted is promised; what is refused has to say why, and where
        nothing fails (`strict`) nothing may be refused."""
        self.plugin.end()
        self.number += 1
        number = self.number
        start = int(time.time()) - 100_000 + number
        run = {"job_id": number, "start_s": start, "end_s": start + 60}
        status, answer = self.ask("POST", "/v1/history/import", [run])
        if status == 200:
            self.runs.add(number)
        elif strict or status != 503 or not answer["error"]:
            self.complain(f"import: {status} {answer}")
        name = f"c{number}"
        status, answer = self.ask("POST", "/v1/collectors",
                                  {"name": name, "cmd": "builtin:loadavg", "every_ms": 3_600_000})
        if status == 201:
            self.collectors.add(name)
        elif strict or status != 503 or not answer["error"]:
            self.complain(f"collector: {status} {answer}")
        status, answer = self.ask("POST", "/v1/data", {"values": [
            {"name": "x", "node": f"n{number}", "value": float(number)}]})
        if status != 200 or answer["stored"] != 1:
            self.complain(f"value: {status} {answer}")
        self.values[f"n{number}"] = float(number)
        status, _ = self.ask("POST", "/v1/record", {"action": "start", "seconds": 60})
        if status == 200:
            self.ask("POST", "/v1/record", {"action": "stop"})

    def settle(self):
        """Waits until everything works and everything is written."""
        status = {}

        def done():
            self.alive()
            nonlocal status
            status = self.ask("GET", "/v1/status")[1]
            history = status["history"]
            if history["last_error"] and self.plugin.ends < 1000:
                self.plugin.end()   # it recovers with the next that is written
            return (history["last_error"] is None and status["collect"]["last_error"] is None
                    and history["written"] + history["dropped"] == self.plugin.ends
                    and bool(history["errors"]) >= bool(history["dropped"])
                    and not status["recording"]["active"])
        until("phalanxd recovers", done, lambda what: self.complain(
            f"{what}: {status['history']} {status['collect']} {status['recording']}"))

    def check(self):
        """After its end: what was promised is in its files."""
        with sqlite3.connect(os.path.join(self.state, "history.sqlite")) as database:
            whole = database.execute("PRAGMA integrity_check").fetchone()[0]
            runs = {job for job, in database.execute("SELECT job_id FROM runs")}
        if whole != "ok" or not self.runs <= runs:
            self.complain(f"history: {whole}, lost runs {sorted(self.runs - runs)}")
        with sqlite3.connect(os.path.join(self.state, "collect.sqlite")) as database:
            whole = database.execute("PRAGMA integrity_check").fetchone()[0]
            names = {name for name, in database.execute("SELECT data_name FROM t_DP")}
            values = dict(database.execute("SELECT node_name, data_value FROM t_Data"))
        lost = {node for node, value in self.values.items() if values.get(node) != value}
        if whole != "ok" or lost or not self.collectors <= names:
            self.complain(f"collect: {whole}, lost {sorted(lost)} "
                          f"{sorted(self.collectors - names)}")


def hang_up():
    """A slurmctld that hangs up at once; its port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    def serve():
        while True:
            listener.accept()[0].close()
    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def starts(daemon, picks, fresh):
    """Fails one call of each start, the next ones too for the first work; RET starts."""
    count = 0
    for nth in picks:
        if fresh:
            shutil.rmtree(daemon.state, ignore_errors=True)
            daemon.runs, daemon.values, daemon.collectors = set(), {}, set()
        daemon.fail(nth, ERRORS[nth % len(ERRORS)])
        daemon.start()
        failed = daemon.counts()[1]
        daemon.fail(0)
        daemon.settle()
        daemon.work(strict=True)
        daemon.settle()
        daemon.stop()
        daemon.check()
        count += 1
        if not failed:
            break
    return count


def rounds(daemon, picks):
    """Fails one call of each round of a running daemon; RET rounds."""
    daemon.fail(0)
    daemon.start()
    count = 0
    for nth in picks:
        daemon.fail(nth, ERRORS[nth % len(ERRORS)])
        daemon.work()
        # What is written later, by its threads.
        until("the round's calls", lambda: daemon.counts()[1] or idle(daemon))
        failed = daemon.counts()[1]
        daemon.fail(0)
        daemon.settle()
        daemon.work(strict=True)
        daemon.settle()
        count += 1
        if not failed:
            break
    daemon.stop()
    daemon.check()
    daemon.start()
    daemon.settle()
    daemon.stop()
    daemon.check()
    return count


def idle(daemon):
    """Whether no call came for a second: its threads write within that."""
    before = daemon.counts()[0]
    time.sleep(1)
    return daemon.counts()[0] == before


def main():
    """Runs all and prints what was done."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    first = 1 + random.Random(args.seed).randrange(args.every)
    picks = range(first, 100_000, args.every)
    with tempfile.TemporaryDirectory(prefix="phx-failures-") as directory:
        shim = os.path.join(directory, "nth.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", shim,
                        os.path.join(HERE, "nth.c"), "-ldl"], check=True)
        daemon = Daemon(directory, hang_up(), shim)
        begin = time.monotonic()
        try:
            done = [starts(daemon, picks, True), starts(daemon, picks, False),
                    rounds(daemon, picks)]
        finally:
            if daemon.process and daemon.process.poll() is None:
                daemon.process.kill()
        print(f"failures: seed {args.seed}, each {args.every}th call: {done[0]} starts on no "
              f"files, {done[1]} on files, {done[2]} rounds of work, "
              f"{time.monotonic() - begin:.0f} s: ok")


if __name__ == "__main__":
    main()
