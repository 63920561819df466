#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gate that lies in every message, in place of phalanx-gate at phalanxd's sockets.

Jobs that declare no input go where they go without a gate, as soon; root is answered meanwhile, and
phalanxd takes no more memory than its bound of inputs.
"""

import contextlib
import json
import os
import random
import re
import socket
import struct
import sys
import threading
import time

from faults_tools import log_since, log_size
from slurmcluster.clock import CLOCK
from slurmcluster.phalanx import phalanx_json
from slurmcluster.suite import Cases, command_line, run
from trust import RSS_MAX_MB, options, setting, silent_name_node

MIB = 1 << 20
HUGE = (1 << 64) - 1
INPUTS_MB = 512  # what phalanxd keeps of inputs
FRAMES = 300     # of an answer that has no end, at most: phalanxd should close long before
case = Cases()


def frame(message):
    """One message as the socket carries it."""
    text = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack("<I", len(text)) + text


def hosts(names):
    """A part that names hosts."""
    return frame({"hosts": [{"host": name, "ip": "10.0.0.1", "port": 1, "rack": "/r"}
                            for name in names]})


def file(length=1 << 40, path="/x"):
    """A part that begins a file."""
    return frame({"file": {"path": path, "length": length, "modified_ms": HUGE, "open": False,
                           "blocks": []}})


def blocks(count, node, length=1 << 20, first=0):
    """A part of so many blocks, each on one host, or on none."""
    replica = {"datanode": node, "bytes": length, "storage": "disk", "cached": True,
               "leaving": False}
    return frame({"blocks": [{"offset": at * length, "length": length, "corrupt": False,
                              "replicas": [replica] if node is not None else []}
                             for at in range(first, first + count)]})


END = frame({"end": ["w" * 1000] * 1000})
# What an answer is made of; a callable makes its next part again and again, by their number.
LIES = {
    "all-on-one": [hosts(["n1"]), file(1000 * MIB), blocks(1000, 0), END],
    "nowhere": [hosts(["n1"]), file(1000 * MIB), blocks(1000, 4_000_000_000), END],
    "twice": [hosts(["n1"]), file(2 * MIB), blocks(1, 0), blocks(1, 0), END],
    "strangers": [hosts([f"h{i}" for i in range(1000)]), file(MIB), blocks(1, 999), END],
    "names": [hosts(["n1\n\x1b[2J", "n" * 4000]), END],
    "sizes": [hosts(["n2"]), file(HUGE, "/" + "p" * 20_000), blocks(4, 0, HUGE // 3), END],
    "no-file": [blocks(8000, 0), END],
    "no-end": [hosts(["n1"]), file(), lambda at: blocks(8000, None, 1, 8000 * at)],
    "many-hosts": [lambda _: hosts([f"{random.random()}" for _ in range(1000)])],
    "many-files": [lambda _: file(1)],
    "refusal": [frame({"refused": "\x1b[31m" + "r" * 3 * MIB})],
    "text": [frame(b"{" * MIB)],
    "too-long": [struct.pack("<I", 0xffffffff) + b"x" * MIB],
    "half": [END[:7]],
    "silence": [],
    "listens": [frame({"Ok": None})],
}
# Words of the reason for which an answer is not believed. What has no end takes too long to be told
# on a busy machine.
REFUSED = {"nowhere": "a block that is not of its file", "twice": "a block that is not of its file",
           "names": "a name of a host", "sizes": "a path that is too long",
           "no-file": "blocks of no file", "many-files": "a file without its end",
           "text": "key must be a string", "too-long": "a message of 4294967295 bytes"}


class LyingGate:
    """Connections that answer each question with the next lie. `told`: inputs by its name;
    `knocked`: what was said to clients that there are not."""

    def __init__(self, questions, door):
        self.questions, self.door = questions, door
        self.told, self.knocked = {}, set()
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.names = iter(list(LIES) * 1000)
        self.threads = [threading.Thread(target=self.run, args=(one,), daemon=True)
                        for one in [self.answer] * 5 + [self.knock]]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(10)

    def run(self, work):
        """Does it over and over, whatever phalanxd closes."""
        while not self.stop.is_set():
            with contextlib.suppress(OSError, struct.error):
                work()
            time.sleep(0.02)

    def answer(self):
        """One connection: a question, a lie, to the end of either."""
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(5)
            stream.connect(self.questions)
            while not self.stop.is_set():
                length = struct.unpack("<I", stream.recv(4, socket.MSG_WAITALL))[0]
                asked = json.loads(stream.recv(length, socket.MSG_WAITALL))
                with self.lock:
                    name = next(self.names)
                    self.told.setdefault(name, []).append(
                        asked.get("lookup", {}).get("input"))
                for part in LIES[name]:
                    for at in range(FRAMES if callable(part) else 1):
                        stream.sendall(part(at) if callable(part) else part)
                if name == "silence":
                    time.sleep(1)

    def knock(self):
        """Clients that there are not, from addresses that are not theirs."""
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(5)
            stream.connect(self.door)
            stream.sendall(random.randbytes(16) + b"POST /v1/reload HTTP/1.1\r\nHost: x\r\n"
                           b"Authorization: Munge MUNGE:" + b"A" * 4000 + b":\r\n\r\n")
            self.knocked.add(stream.recv(1000)[:12])

    def believed(self, log):
        """Lies that were told and, by phalanxd's log, not refused for what they are."""
        said = re.findall(r"input (\S+): (.*)", log)
        return [name for name, why in REFUSED.items() if not any(
            why in reason for of, reason in said if of in self.told.get(name, ()))]


def places(suite):
    """Where jobs go that come one after the other, when they started, and how soon the daemon
    answered root, each in seconds."""
    cluster, jobs, answers = suite.cluster, [], []
    for at in range(12):
        jobs.append(cluster.submit("-N1", f"-n{1 + 5 * (at % 4)}", "-t1", f"--mem={100 * (1 + at)}",
                                   wrap="exec sleep 60"))
        begin = time.monotonic()
        phalanx_json(cluster, "status")
        answers.append(time.monotonic() - begin)
        suite.until(lambda: cluster.job(jobs[-1])["JobState"] == "RUNNING", "a start", 20, 0.1)
    nodes = [cluster.job(job)["NodeList"] for job in jobs]
    cluster.run("scancel", *jobs)
    cluster.wait_jobs(jobs)
    return nodes, max(answers)


@case
def other_jobs(suite):
    """No other job is placed elsewhere, and phalanxd takes no more memory"""
    cluster = suite.cluster
    cluster.stop_gate()
    seen, lost = log_size(cluster, "phalanxd"), CLOCK.lost()
    # Those who declare inputs want whole nodes, and so wait.
    on_all = cluster.submit("-N4", "-n4", "-t9", "--mem=10", wrap="exec sleep 500")
    try:
        with silent_name_node(cluster, 5) as port:
            expected, quiet_s = places(suite)
            with LyingGate(os.path.join(cluster.paths.run, "gate.sock"),
                           os.path.join(cluster.paths.run, "door.sock")) as liar:
                others = [cluster.submit(
                    "-N4", "--exclusive", "-t1", "--nice=10000", "--uid=nobody", "-D/",
                    f"--comment=hdfs-input=hdfs://127.0.0.1:{port}/x{at}", wrap="exit 0")
                    for at in range(60)]
                found, late_s = places(suite)
                suite.until(lambda: len(liar.told) == len(LIES), "each lie was told", 60)
                suite.until(lambda: not liar.believed(log_since(cluster, "phalanxd", seen)),
                            lambda: "refused for what they are: " + ", ".join(
                                liar.believed(log_since(cluster, "phalanxd", seen))), 60)
                memory = suite.memory_mb()
                cluster.run("scancel", *others)
    finally:
        cluster.run("scancel", on_all)
        cluster.start_gate()
    suite.summary = (f"{sum(map(len, liar.told.values()))} lies, {memory:.0f} MB, status in "
                     f"{late_s:.2f} s at most, {quiet_s:.2f} s without")
    suite.expect(found == expected, f"{found} instead of {expected}")
    suite.expect(late_s < 1 + quiet_s + CLOCK.lost() - lost, f"root waited {late_s:.1f} s")
    suite.expect(liar.knocked <= {b"HTTP/1.1 401", b""}, f"strangers: {liar.knocked}")
    suite.expect(memory <= INPUTS_MB + RSS_MAX_MB, f"{memory:.0f} MB")
    cluster.wait_jobs([*others, on_all])


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, options), setting))
