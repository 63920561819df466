#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user without rights can do to the daemon and to placement: nothing.

Requests come from processes of `nobody`, as any local user could send them. With PHALANX_BIN_DIR of
an older build the same cases show what was possible there.
"""

import contextlib
import glob
import json
import multiprocessing
import os
import pwd
import socket
import subprocess
import sys
import threading
import time

from faults_tools import log_since, log_size, site
from slurmcluster import Cluster, traced
from slurmcluster.clock import CLOCK, Deadline
from slurmcluster.conf import set_toml_raw, write_config
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.suite import Cases, Suite, check, command_line, run

NODES = ("NodeName=n[1-4] CPUs=48 Sockets=1 CoresPerSocket=48 RealMemory=64000\n"
         "PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP\n")
EXTRA = ["SchedulerParameters=bf_interval=1,sched_interval=1,bf_continue,default_queue_depth=300"]
CONFIG = 'mode = "enforce"\n'
OWN_UID = 64_911     # of phalanxd, in one case; has no name and no rights in Slurm
NOBODY = pwd.getpwnam("nobody").pw_uid
BODY_BYTES = 60_000_000
BODIES = 12
RSS_MAX_MB = 250
RUNNING, PENDING = 120, 2000
REACHED = multiprocessing.get_context("fork").Value("i", 0)
COMPARISONS = 6     # of mirror and poll; a difference counts from the fifth on
READ_S = 12
LATE_SHARE_MAX = 0.01
case = Cases()


class Trust(Suite):
    """A cluster, and what others do to it."""

    port = 0    # where phalanxd listens
    # Of the case `flood`: its length, imported names, and by how much two short measurements may
    # differ by themselves.
    flood_s, flood_names, flood_noise = 4.0, 3_000, 0.3

    @property
    def control(self):
        """The control socket."""
        return os.path.join(self.cluster.paths.run, "control.sock")

    def memory_mb(self):
        """Memory of the daemon."""
        pid = self.cluster.process("phalanxd").pid
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            line = next(line for line in file if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    @contextlib.contextmanager
    def nobody(self, count, work, *args):
        """So many processes of `nobody` do `work(control, *args)` meanwhile."""
        context = multiprocessing.get_context("fork")
        workers = [context.Process(target=as_nobody, args=(work, self.control, *args), daemon=True)
                   for _ in range(count)]
        before = REACHED.value
        for worker in workers:
            worker.start()
        try:
            yield workers
        finally:
            ended = [worker for worker in workers if not worker.is_alive()]
            for worker in workers:
                worker.terminate()
                worker.join()
        self.expect(not ended, f"{len(ended)} processes of nobody ended before the case did")
        self.expect(REACHED.value - before >= count,
                    f"{count} processes of nobody reached their socket "
                    f"{REACHED.value - before} times")


def as_nobody(work, *args):
    """Gives every right up, and works on, whatever the daemon refuses."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    while True:
        with contextlib.suppress(OSError):
            work(*args)
        time.sleep(0.05)


def reached():
    """A process of `nobody` has the socket that it wanted."""
    with REACHED.get_lock():
        REACHED.value += 1


def connected(path):
    """A connection to the control socket."""
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(20)
    stream.connect(path)
    reached()
    return stream


def send_body(path):
    """One import of runs that is not allowed, which does not end."""
    with connected(path) as stream:
        stream.sendall(b"POST /v1/history/import HTTP/1.1\r\nHost: x\r\n"
                       b"Content-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" % (BODY_BYTES + 1))
        piece = b"0" * 1_000_000
        for _ in range(BODY_BYTES // len(piece)):
            stream.sendall(piece)
        time.sleep(20)


def read_state(path):
    """Reads /v1/state again and again."""
    while True:
        with connected(path) as stream:
            stream.sendall(b"GET /v1/state HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            while stream.recv(1 << 20):
                pass


def hold_answer(path):
    """Asks, and reads no answer."""
    with connected(path) as stream:
        while True:
            stream.sendall(b"GET /v1/state HTTP/1.1\r\nHost: x\r\n\r\n")
            time.sleep(0.05)


def stay(path):
    """Connects and says nothing."""
    streams = []
    with contextlib.suppress(OSError):
        for _ in range(400):
            streams.append(connected(path))
    time.sleep(60)


@case
def bodies(suite):
    """Bodies of users without rights take no memory"""
    before = suite.memory_mb()
    most = before
    with suite.nobody(BODIES, send_body):
        end = time.monotonic() + 6
        while time.monotonic() < end:
            most = max(most, suite.memory_mb())
            time.sleep(0.05)
    suite.summary = f"{before:.0f} MB before, at most {most:.0f} MB"
    suite.expect(most <= before + BODY_BYTES / 2e6, f"the daemon took {most:.0f} MB")


@case
def connections(suite):
    """Silent connections of one user leave room for others"""
    with suite.nobody(3, stay):
        time.sleep(1.5)
        pid = suite.cluster.process("phalanxd").pid
        files = len(os.listdir(f"/proc/{pid}/fd"))
        suite.summary = f"{files} open files"
        suite.expect(files < 200, f"the daemon has {files} open files")
        phalanx_json(suite.cluster, "status")


def stay_over_tcp(_path, port):
    """Fills 24 addresses with silent connections, again and again."""
    streams = []
    for at in range(24 * 100):
        stream = socket.socket()
        stream.settimeout(5)
        with contextlib.suppress(OSError):
            stream.bind((f"127.0.7.{at % 24 + 1}", 0))
            stream.connect(("127.0.0.1", port))
            streams.append(stream)
        if at == 0:
            reached()
    time.sleep(1)


@case
def strangers(suite):
    """Silent connections over TCP keep neither root nor its agents out"""
    url = f"http://127.0.0.1:{suite.port}"
    pid = suite.cluster.process("phalanxd").pid
    slowest, lost = 0.0, CLOCK.lost()
    with suite.nobody(1, stay_over_tcp, suite.port):
        suite.until(lambda: len(os.listdir(f"/proc/{pid}/fd")) > 1000, "connections")
        for _ in range(10):
            begin = time.monotonic()
            phalanx_json(suite.cluster, "status")
            slowest = max(slowest, time.monotonic() - begin)
            phalanx_json(suite.cluster, "--master", url, "status")
        files = len(os.listdir(f"/proc/{pid}/fd"))
    suite.summary = f"root's slowest answer {slowest:.2f} s, {files} open files"
    suite.expect(slowest < 1 + CLOCK.lost() - lost, suite.summary)
    suite.expect(files < 24 * 64 + 200, suite.summary)
    suite.until(lambda: len(os.listdir(f"/proc/{pid}/fd")) < 200, "they are gone", limit=15)


@case
def too_many(suite):
    """The command line says why a connection was refused"""
    program = os.path.join(suite.cluster.paths.bin_dir, "phalanx")
    said = []
    def refused():
        call = subprocess.run([program, "status"], env=suite.cluster.env, text=True, user=NOBODY,
                              group=NOBODY, capture_output=True, check=False)
        said.append(f"exit code {call.returncode}, {call.stderr or call.stdout[:200]}")
        return "too many connections" in call.stderr

    with suite.nobody(1, stay):
        suite.until(refused, lambda: f"too many connections; call {len(said)}: {said[-1]}")


@case
def holds(suite):
    """Where there is no HDFS nobody waits for an input"""
    jobs = [suite.cluster.submit("-n1", "-t1", "--mem=10", "--comment=x hdfs-input=/a",
                                 wrap="exit 0") for _ in range(5)]
    suite.cluster.wait_jobs(jobs)
    suite.until(lambda: phalanx_json(suite.cluster, "status")["plugin"]["asks"] >= len(jobs),
                "the plugin's counters")
    reasons = phalanx_json(suite.cluster, "status")["plugin"]["reasons"]
    suite.expect("held" not in reasons, f"calls that were not placed: {reasons}")


def letters(number):
    """A number as letters: digits do not tell names apart."""
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


class Flood(threading.Thread):
    """Jobs of nobody, each of its own name and input, submitted without a pause."""

    def __init__(self, cluster, input_of):
        super().__init__(name="flood", daemon=True)
        self.cluster, self.input_of, self.jobs = cluster, input_of, 0
        self._stop_it = threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._stop_it.set()
        self.join()
        self.cluster.run("scancel", "-u", "nobody", check=False)

    def run(self):
        while not self._stop_it.wait(0.1):
            self.jobs += 1
            self.cluster.submit("-n1", "-t1", "--uid=nobody", "-D", "/", "--mem=10",
                                "-J", f"flood{letters(self.jobs)}",
                                f"--comment={self.input_of(self.jobs)}", wrap="exit 0")


def import_names(suite, count):
    """So many runs of nobody, each of a name of its own."""
    lines = ["JobID|User|JobName|State|Start|End|NodeList|ReqTRES"]
    now = time.time() - 7200
    for at in range(count):
        begun, ended = (time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now + each))
                        for each in (at % 3600, at % 3600 + 5))
        lines.append(f"{900_000 + at}|nobody|random{letters(at)}|COMPLETED|{begun}|{ended}|n1|"
                     "billing=1,cpu=1,mem=100M,node=1")
    path = os.path.join(suite.cluster.paths.var, "runs.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    phalanx(suite.cluster, "history", "import", path, timeout=120)


@contextlib.contextmanager
def silent_name_node(cluster, budget_s):
    """A NameNode that takes connections and says nothing; its port."""
    with open(cluster.paths.phalanx_toml, encoding="utf-8") as file:
        kept = file.read()
    conf_dir = os.path.join(cluster.paths.root, "hadoop")
    os.makedirs(conf_dir)
    with socket.create_server(("127.0.0.1", 0), backlog=200) as server:
        port = server.getsockname()[1]
        with open(os.path.join(conf_dir, "core-site.xml"), "w", encoding="utf-8") as file:
            file.write("<configuration><property><name>fs.defaultFS</name>"
                       f"<value>hdfs://127.0.0.1:{port}</value></property></configuration>")
        text = set_toml_raw(kept, "hdfs", "conf_dirs", f'["{conf_dir}"]')
        use_toml(cluster, set_toml_raw(text, "data_jobs", "hold_budget_s", budget_s))
        try:
            yield port
        finally:
            use_toml(cluster, kept)


def use_toml(cluster, text):
    """The daemon goes by another configuration."""
    with open(cluster.paths.phalanx_toml, "w", encoding="utf-8") as file:
        file.write(text)
    phalanx(cluster, "daemon", "reload")


def starts_a_second(suite, seconds):
    """How many of root's jobs start and end one after the other, and the first of them."""
    begin, count = time.monotonic(), 0
    while time.monotonic() < begin + seconds:
        suite.cluster.run("srun", "-n1", "-t1", "--mem=10", "-J", "known", "true")
        count += 1
    return count / (time.monotonic() - begin)


@case
def flood(suite):
    """Inputs that nobody answers for, and many names, change nothing for another user"""
    cluster, length_s = suite.cluster, suite.flood_s
    first = cluster.submit("-n1", "-t1", "--mem=10", "-J", "known", wrap="sleep 1")
    cluster.wait_jobs([first])

    def known():
        rows = phalanx_json(cluster, "history", "speeds")["classes"]
        return sum(row["runs"] for row in rows if "/known/" in row["class"])
    taught = suite.until(known, "what root's job taught")
    import_names(suite, suite.flood_names)
    rates = {False: [], True: []}
    with silent_name_node(cluster, max(1, round(length_s / 20))) as port:
        asked = 0
        for declared in (False, True, True, False):
            def input_of(number, declared=declared):
                return f"hdfs-input=hdfs://127.0.0.1:{port}/x{number}" if declared else f"x{number}"
            with Flood(cluster, input_of) as others:
                rates[declared].append(starts_a_second(suite, length_s / 2))
            asked += declared * others.jobs
        slow = phalanx_json(cluster, "explain", str(first))
    without, with_inputs = (sum(each) / 2 for each in (rates[False], rates[True]))
    spread = abs(rates[False][0] - rates[False][1]) / without
    suite.summary = (f"root's jobs: {without:.2f} a second beside jobs without inputs, "
                     f"{with_inputs:.2f} beside {asked} with inputs ({rates})")
    suite.expect(with_inputs >= (0.9 - spread - suite.flood_noise) * without, suite.summary)
    suite.expect(slow["asks"] and slow["placed"], f"explain of root's job: {slow}")
    suite.expect(known() >= taught, f"{known()} runs of root's class, {taught} before")


def give_to(user, places):
    """The daemon's directories, and what is in them, belong to a user."""
    for place in places:
        for folder, _, names in os.walk(place):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                os.lchown(path, user, user)


@case
def own_user(suite):
    """A user of its own, without rights in Slurm and under the unit's filter, places jobs"""
    # Before the case `queue`, whose jobs spend what slurm.conf allows a minute's asks to take.
    cluster = suite.cluster
    def status():
        return phalanx_json(cluster, "status")

    kept = (cluster.paths.run, cluster.paths.var)
    cluster.stop_phalanxd()
    give_to(OWN_UID, kept)
    seen = log_size(cluster, "slurmctld")
    # Any call beyond the unit's filter ends it.
    filtered = os.path.join(os.path.dirname(os.path.abspath(__file__)), "filtered.py")
    cluster.start_phalanxd(before=["setpriv", f"--reuid={OWN_UID}", f"--regid={OWN_UID}",
                                   "--clear-groups", sys.executable, filtered])
    suite.until(lambda: "is served by a foreign user, not used" in
                log_since(cluster, "slurmctld", seen), "the overlay refuses it")
    suite.expect(not status()["plugin"]["connected"], "connected to a user that nobody named")
    site(cluster, f"phalanx_uid={OWN_UID}")
    suite.until(lambda: status()["plugin"]["synced"], "connected to the user that slurm.conf names")
    before = status()["run_now"]["narrowed"]

    # On a busy machine an answer comes late, and Slurm places that job.
    def placed():
        cluster.wait_jobs([cluster.submit("-n1", "-t1", "--mem=10", wrap="exit 0")])
        return status()["run_now"]["narrowed"] >= before + 3
    suite.until(placed, lambda: f"three jobs placed: {status()['run_now']}", 60)
    suite.until(lambda: phalanx_json(cluster, "history", "runs")["runs"], "runs in the database")
    phalanx(cluster, "daemon", "reload")
    phalanx_json(cluster, "--master", f"http://127.0.0.1:{suite.port}", "status")
    cluster.stop_phalanxd()
    give_to(0, kept)
    site(cluster)
    cluster.start_phalanxd()
    suite.until(lambda: status()["plugin"]["synced"], "the mirror")


@case
def queue(suite):
    """Many jobs run and wait"""
    submit = suite.cluster.submit
    submit("-a", f"0-{RUNNING - 1}", "-n1", "-t60", "--mem=100", wrap="exec sleep 600")
    suite.until(lambda: phalanx_json(suite.cluster, "status")["slurm"]["jobs_running"] == RUNNING,
                "all run", limit=60, every=0.5)
    for at in range(20):
        submit("-a", f"0-{PENDING // 20 - 1}", f"-n{29 + at}", "-N1", "--exclusive", "-t60",
               "--mem=60000", wrap="exec sleep 1")


@case(needs=["queue"])
def readers(suite):
    """Readers of the whole state delay no answer"""
    def counts():
        plugin = phalanx_json(suite.cluster, "status")["plugin"]
        return plugin["asks"], plugin["reasons"].get("timeout", 0), plugin["breaker_opens"]

    def stream(length_s):
        """Asks, late ones and openings of the breaker while jobs come."""
        before = counts()
        deadline = Deadline(length_s)
        while not deadline.over():
            suite.cluster.submit("-n1", "-t1", "--mem=10", wrap="exit 0")
        time.sleep(1.5)
        return [new - old for old, new in zip(before, counts())]

    quiet = stream(READ_S / 2)
    with suite.nobody(2, read_state), suite.nobody(2, hold_answer):
        time.sleep(1)
        began, lost = time.monotonic(), CLOCK.lost()
        asks, late, opens = stream(READ_S)
        had = 1 - (CLOCK.lost() - lost) / (time.monotonic() - began)
        memory = suite.memory_mb()
    quiet = [sum(both) for both in zip(quiet, stream(READ_S / 2))]
    suite.summary = (f"{asks} asks, {late} late, breaker opened {opens} times, {memory:.0f} MB; "
                     f"without readers {quiet[0]}, {quiet[1]}, {quiet[2]}")
    suite.expect(asks > 50, f"only {asks} asks")
    # A busy machine makes some answers late by itself, in bursts, the more the less of it there is.
    allowed = LATE_SHARE_MAX / max(had, 0.1) + 2 * quiet[1] / max(1, quiet[0])
    suite.expect(late <= allowed * asks, f"{late} of {asks} asks were late")
    suite.expect(opens <= 2 + 2 * quiet[2], f"the breaker opened {opens} times")
    suite.expect(memory <= RSS_MAX_MB, f"the daemon took {memory:.0f} MB")


def take_port(_path, port, ready):
    """Listens at the daemon's port."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        reached()
        ready.set()
        listener.accept()
        time.sleep(60)


def whole_request(stream):
    """Reads a request with its body; whether there was one."""
    size = 0
    for line in stream:
        if line == b"\r\n":
            stream.read(size)
            return True
        if line.lower().startswith(b"content-length:"):
            size = int(line.split(b":")[1])
    return False


def be_the_service(_path, port, ready):
    """Answers an agent as phalanxd would, with an order to run something as root."""
    task = {"name": "secret", "kind": "collector", "cmd": "/bin/cat", "args": ["/etc/shadow"],
            "every_ms": 100, "timeout_ms": 1000, "run_as": "root", "type": "text"}
    body = json.dumps({"generation": 7, "assignments": [task], "refused": []}).encode()
    with socket.create_server(("127.0.0.1", port)) as listener:
        reached()
        ready.set()
        while True:
            stream, _ = listener.accept()
            stream.settimeout(5)
            with stream, stream.makefile("rb") as request, contextlib.suppress(OSError):
                # Whole requests: a client gives up on an answer that comes before it has asked.
                while whole_request(request):
                    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                   b"Content-Length: %d\r\n\r\n" % len(body) + body)


def listening(pid):
    """The sockets over TCP at which a process listens, of both families."""
    held = {os.readlink(fd) for fd in glob.glob(f"/proc/{pid}/fd/*") if os.path.islink(fd)}
    rows = []
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as file:
            rows += [line.split() for line in file.readlines()[1:]]
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in held]


@case
def listener(suite):
    """Who takes the TCP port stops nothing; the gate listens, and phalanxd at none"""
    cluster, ready = suite.cluster, multiprocessing.Event()

    def said():
        return phalanx_json(cluster, "status")["control"]["listen_error"] or ""
    cluster.stop_phalanxd()
    with suite.nobody(1, take_port, suite.port, ready):
        check(ready.wait(10), "the port is not taken")
        cluster.start_phalanxd()
        suite.until(lambda: phalanx_json(cluster, "status")["plugin"]["synced"], "the mirror")
        suite.until(lambda: "in use" in said(), "the status to say it")
    suite.until(lambda: not said(), "listening")
    url = f"http://127.0.0.1:{suite.port}"
    suite.expect("version" in phalanx_json(cluster, "--master", url, "status"), "no answer")
    ours = listening(cluster.process("phalanxd").pid)
    suite.expect(not ours and listening(cluster.process("phalanx-gate").pid), f"phalanxd: {ours}")
    cluster.stop_gate(kill=True)
    suite.until(lambda: "phalanx-gate" in said(), "the status to miss the gate")
    cluster.start_gate()
    suite.until(lambda: not said(), "listening again")
    suite.expect("version" in phalanx_json(cluster, "--master", url, "status"), "no answer")


@case
def few_doors(suite):
    """phalanxd starts no program and speaks to slurmctld alone, also for what others do for it"""
    cluster, commands = suite.cluster, commands_of(suite.cluster.paths.root)
    rank = os.path.join(commands, "rank")
    with open(rank, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nfor i in 1 2 3 4; do echo n$i $i; done\n")
    os.chmod(rank, 0o755)
    trace = os.path.join(cluster.paths.log, "phalanxd.trace")
    cluster.stop_phalanxd()
    cluster.start_phalanxd(before=traced.words(trace))
    phalanx(cluster, "collector", "add", "rank", "--cmd", rank, "--nodes", "@master",
            "--output", "nodes", "--every", "1s")
    cluster.start_agent("@master", "--command-dir", commands)
    suite.until(lambda: len(phalanx_json(cluster, "collector", "data", "rank")["values"]) == 4,
                "values of the program beside phalanxd", 20)
    jobs = [cluster.submit("-N4", "-t1", "--exclusive", "--comment=hdfs-input=/a locality=nowhere",
                           wrap="sleep 60") for _ in range(2)]
    suite.until(lambda: "phalanx: " in cluster.job(jobs[1])["Comment"], "the comment of a job")
    cluster.run("scancel", *jobs)
    cluster.stop_agent("@master")
    cluster.stop_phalanxd()
    found = traced.faults(trace, cluster.ports["slurmctld"])
    suite.expect(not found, f"phalanxd: {found[:5]}")
    cluster.start_phalanxd()


@case
def impostor(suite):
    """Root's agent and prolog believe nobody but phalanxd"""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ready = multiprocessing.Event()
    program = os.path.join(suite.cluster.paths.bin_dir, "phalanx")
    master = ["--master", f"http://127.0.0.1:{port}"]
    with suite.nobody(1, be_the_service, port, ready):
        check(ready.wait(10), "nobody listens")
        said = first_words([program, *master, "collector", "agent", "--node", "n1"],
                           suite.cluster.env,
                           "no proof")
        prolog = suite.cluster.run(program, *master, "data", "splits", "--install", "--job", "7",
                                   "--dir",
                                   os.path.join(suite.cluster.paths.run, "jobs"), check=False)
    for stderr in (said, prolog.stderr):
        suite.expect("no proof" in stderr and "generation 7" not in stderr, stderr)


def first_words(argv, env, wanted, limit=30):
    """What a program that goes on says on stderr, up to the line with these words."""
    said = ""
    with subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True) as child:
        alarm = threading.Timer(limit, child.kill)
        alarm.start()
        for line in child.stderr:
            said += line
            if wanted in line:
                break
        alarm.cancel()
        child.kill()
    return said


def try_socket(path, kind, found, says=b""):
    """What `nobody` meets at a socket: 1 no permission, 2 closed at once, 3 stays or answers."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    with socket.socket(socket.AF_UNIX, kind) as stream:
        stream.settimeout(3)
        try:
            stream.connect(path)
            stream.sendall(says)
            found.value = 3 if stream.recv(1) else 2
        except PermissionError:
            found.value = 1
        except ConnectionError:
            found.value = 2
        except TimeoutError:
            found.value = 3


@case
def plugin_socket(suite):
    """The plugin's socket is for link.allowed_uids"""
    cluster, context = suite.cluster, multiprocessing.get_context("fork")
    with open(cluster.paths.phalanx_toml, encoding="utf-8") as file:
        kept = file.read()
    for allowed, expected in ([], (1,)), ([NOBODY + 7], (2,)), ([NOBODY], (2, 3)):
        cluster.stop_phalanxd()
        seen = log_size(cluster, "phalanxd")
        with open(cluster.paths.phalanx_toml, "w", encoding="utf-8") as file:
            file.write(set_toml_raw(kept, "link", "allowed_uids", allowed))
        cluster.start_phalanxd()
        suite.until(lambda: os.path.exists(cluster.paths.plugin_socket), "the plugin's socket")
        found, path = context.Value("i", 0), cluster.paths.plugin_socket
        worker = context.Process(target=try_socket,
                                 args=(path, socket.SOCK_SEQPACKET, found))
        worker.start()
        worker.join(20)
        suite.expect(found.value in expected,
                     f"allowed_uids = {allowed}: {found.value}, expected {expected}")
        # Who may connect still gives way to slurmctld.
        taken = f"user id {NOBODY}\n" in log_since(cluster, "phalanxd", seen)
        suite.expect(taken == (NOBODY in allowed), f"allowed_uids = {allowed}: taken {taken}")
        # One that may connect and says nothing beside the plugin is refused for that.
        unknown = "may not connect" in log_since(cluster, "phalanxd", seen)
        suite.expect(unknown == (expected == (2,)), f"allowed_uids = {allowed}: {unknown}")
        refused = phalanx_json(cluster, "status")["link"]["refused"]
        suite.expect(refused >= unknown, f"allowed_uids = {allowed}: {refused} refused")
    cluster.stop_phalanxd()
    with open(cluster.paths.phalanx_toml, "w", encoding="utf-8") as file:
        file.write(kept)
    cluster.start_phalanxd()
    suite.until(lambda: phalanx_json(cluster, "status")["plugin"]["synced"], "the mirror")


@case
def gate_sockets(suite):
    """What phalanx-gate may say nobody else may"""
    context = multiprocessing.get_context("fork")
    # It would take the place of whoever else is let in.
    suite.cluster.stop_gate()
    for name, says in (("gate.sock", b""),
                       ("door.sock", bytes(16) + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")):
        found, path = context.Value("i", 0), os.path.join(suite.cluster.paths.run, name)
        worker = context.Process(target=try_socket, args=(path, socket.SOCK_STREAM, found, says))
        worker.start()
        worker.join(20)
        suite.expect(found.value == 2, f"{name}: {found.value}, expected 2")
    suite.cluster.start_gate()


@case(needs=["queue"])
def mirror(suite):
    """The mirror is what slurmctld says"""
    def link():
        return phalanx_json(suite.cluster, "status")["link"]

    before = link()["comparisons"]
    suite.until(lambda: link()["comparisons"] >= before + COMPARISONS, "comparisons")
    after = link()
    suite.expect(after["differing_nodes"] == 0 and after["resyncs_asked"] == 0, f"{after}")


def commands_of(place):
    """The directory of programs that phalanxd may have run."""
    return os.path.join(place, "commands")


@contextlib.contextmanager
def setting(root, args):
    """One cluster."""
    check(os.getuid() == 0, "this suite becomes `nobody`: run it as root")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    place = os.path.join(root, "c")
    config = write_config(place, CONFIG + f'[control]\nlisten = "127.0.0.1:{port}"\n'
                          f'[collect]\ncommand_dirs = ["{commands_of(place)}"]\n')
    with Cluster(place, nodes=NODES, extra=EXTRA, config=config) as cluster:
        os.makedirs(commands_of(place))
        suite = Trust(cluster)
        suite.port = port
        if args.flood:
            suite.flood_s, suite.flood_names, suite.flood_noise = args.flood, 100_000, 0.0
        yield suite


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--flood", type=float, metavar="SECONDS",
                        help="the case `flood` in full: so long a stream, 100,000 names")


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, options), setting))
