#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""5,000 agents on one phalanxd: its CPU time and memory, and how quick a batch read is.

On a real slurmctld with as many CLOUD nodes. Each agent is a connection of its own over TCP to
loopback, with a MUNGE credential in each request as `phalanx collector agent` makes it, and does
what that does: one request a period, held by the daemon until the next run is due, which hands
over one value. Beside them one reader takes the latest values of all nodes again and again. Prints
what phalanxd needed without agents, with them, and the latencies of the reads.
"""

import argparse
import asyncio
import contextlib
import ctypes
import ctypes.util
import hashlib
import json
import multiprocessing
import os
import random
import resource
import socket
import tempfile
import time

from slurmcluster import Cluster, procs

NAME = "cpu_free_ratio"
READ_EVERY_S = 0.2


class Munge:
    """libmunge's munge_encode()."""

    def __init__(self):
        self.library = ctypes.CDLL(ctypes.util.find_library("munge") or "libmunge.so.2")
        self.free = ctypes.CDLL(None).free

    def encode(self, payload):
        """A credential as text. Raises OSError if munged refuses."""
        text = ctypes.c_void_p()
        code = self.library.munge_encode(ctypes.byref(text), None, payload, len(payload))
        if code:
            raise OSError(f"munge_encode: error {code}")
        credential = ctypes.string_at(text)
        self.free(text)
        return credential


class Agent:
    """One agent: its connection and its period."""

    counts = {"syncs": 0, "values": 0, "errors": 0, "assigned": 0}

    def __init__(self, node, port, munge, every):
        self.node, self.port, self.munge, self.every = node, port, munge, every
        self.reader = self.writer = None
        self.generation, self.random = 0, random.Random(node)

    async def run(self, start_within):
        """Until cancelled."""
        await asyncio.sleep(self.random.random() * start_within)
        due = time.monotonic() + self.random.random() * self.every / 2
        values = []
        while True:
            now = time.monotonic()
            if self.generation and now >= due:
                values = [{"name": NAME, "value": round(self.random.random(), 4),
                           "time_ms": int(time.time() * 1000), "age_ms": 3}]
                due = now + self.every * self.random.uniform(0.95, 1.05)
            wait_ms = int(max(0.2, due - now) * 1000) if self.generation else 0
            request = {"generation": self.generation, "wait_ms": min(wait_ms, 30000),
                       "version": "load", "dropped": 0, "values": values, "runs": []}
            try:
                reply = await self.ask(request)
            except (OSError, asyncio.IncompleteReadError, ValueError) as error:
                self.counts["errors"] += 1
                self.counts["last"] = repr(error)
                self.writer = None
                await asyncio.sleep(self.random.uniform(0.5, 5))
                continue
            self.counts["syncs"] += 1
            self.counts["values"] += len(values)
            values = []
            if reply["assignments"] is not None:
                self.counts["assigned"] += 1
            self.generation = reply["generation"]

    async def ask(self, request):
        """One request on the connection."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        body, path = json.dumps(request).encode(), f"/v1/agents/{self.node}/sync"
        digest = hashlib.sha256(body).hexdigest()
        text = f"phalanx/1\nPOST\n{path}\n{digest}\n".encode()
        head = (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nAuthorization: Munge ").encode()
        self.writer.write(head + self.munge.encode(text) + b"\r\n\r\n" + body)
        status, reply = await read_reply(self.reader)
        if status != 200:
            raise ValueError(f"{status}: {reply[:200]!r}")
        return json.loads(reply)


async def read_reply(reader):
    """(status, body) of one HTTP/1.1 answer with a length."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    length = next(int(line.split(":")[1]) for line in lines
                  if line.lower().startswith("content-length:"))
    return int(lines[0].split()[1]), await reader.readexactly(length)


def read_all(path, seconds, pipe):
    """Takes the latest values of all nodes again and again over the control socket: a process of
    its own, so that what the 5,000 agents keep this one busy with is not counted."""
    latencies, rows, end = [], [], time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(path)
        while time.monotonic() < end:
            started = time.perf_counter()
            stream.sendall(f"GET /v1/data/{NAME} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            data = b""
            while b"\r\n\r\n" not in data:
                data += stream.recv(1 << 20)
            head, _, body = data.partition(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            chunks, missing = [body], length - len(body)
            while missing > 0:
                chunks.append(stream.recv(missing))
                missing -= len(chunks[-1])
            latencies.append(time.perf_counter() - started)
            rows.append(len(json.loads(b"".join(chunks))["values"]))
            time.sleep(READ_EVERY_S)
    pipe.send((latencies, rows))


def cpu_s(pid):
    """CPU seconds of a process so far."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid):
    """(resident, its highest) of a process, MiB."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        fields = dict(line.split(":", 1) for line in file)
    return tuple(int(fields[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM"))


async def measure(pid, seconds):
    """Share of one CPU that a process takes over some time."""
    before, started = cpu_s(pid), time.monotonic()
    await asyncio.sleep(seconds)
    return (cpu_s(pid) - before) / (time.monotonic() - started)


def quantile(values, q):
    """A quantile; 0 without values."""
    values = sorted(values)
    return values[min(int(q * len(values)), len(values) - 1)] if values else 0.0


async def load(arguments, cluster, port):
    """All phases; returns the numbers."""
    pid = cluster.process("phalanxd").pid
    result = {"nodes": arguments.nodes, "period_s": arguments.every,
              "idle_cpu": await measure(pid, 15), "idle_rss_mib": memory_mib(pid)[0]}
    munge = Munge()
    agents = [Agent(f"cloud{i + 1}", port, munge, arguments.every) for i in range(arguments.nodes)]
    tasks = [asyncio.create_task(agent.run(arguments.every / 2)) for agent in agents]
    await asyncio.sleep(2.5 * arguments.every)
    before = dict(Agent.counts)
    result["agents_cpu"] = await measure(pid, arguments.seconds)
    result["syncs_per_s"] = (Agent.counts["syncs"] - before["syncs"]) / arguments.seconds
    pipe, other = multiprocessing.Pipe()
    reader = multiprocessing.Process(
        target=read_all, args=(cluster.paths.control_socket, arguments.seconds, other))
    reader.start()
    result["with_reads_cpu"] = await measure(pid, arguments.seconds)
    while not pipe.poll():
        await asyncio.sleep(0.1)
    latencies, rows = pipe.recv()
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
    result["rss_mib"], result["highest_rss_mib"] = memory_mib(pid)
    result |= {"reads": len(latencies), "rows_min": min(rows, default=0)}
    result |= {f"read_p{int(100 * q)}_ms": 1000 * quantile(latencies, q)
               for q in (0.5, 0.99, 1.0)}
    result |= {"counts": Agent.counts, "load": os.getloadavg()[0]}
    return result


def main():
    """Brings the cluster up, loads it, prints the numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--every", type=float, default=30.0, help="period, seconds")
    parser.add_argument("--seconds", type=float, default=60.0, help="each measurement")
    parser.add_argument("--nice", type=int, default=0, metavar="N",
                        help="nice value of all of it, on a machine that others use as well")
    arguments = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="phx-load-") as directory:
        config = os.path.join(directory, "in.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f'[control]\nlisten = "127.0.0.1:{port}"\n[collector.{NAME}]\n'
                       f'cmd = "builtin:{NAME}"\nevery_ms = {int(1000 * arguments.every)}\n')
        with Cluster(os.path.join(directory, "s"), cloud=arguments.nodes, config=config) as cluster:
            if arguments.nice:
                procs.favour([os.getpid(), *(p.pid for p in cluster.running())], arguments.nice)
            result = asyncio.run(load(arguments, cluster, port))
            tail = cluster.run("phalanx", "status", check=False).stdout
    print(json.dumps(result, indent=1))
    if arguments.seconds < 10:
        print(tail)


if __name__ == "__main__":
    main()
