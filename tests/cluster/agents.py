#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collectors on every node of a real cluster: registered by command line, steering `share`.

On a cluster of 6 nodes with one `phalanx collector agent` each, over TCP with MUNGE: a five-line
shell collector is on every node within two periods and decides the next `phalanx-share`; programs
that hang, flood, fork or print no number hold nothing up and are seen; an agent or phalanxd that
is killed leaves stale values that fall back, and comes back; the page, /metrics and /healthz are
served, and /metrics is what Prometheus' own parser takes.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

from slurmcluster import Cluster
from slurmcluster.clock import CLOCK
from slurmcluster.http import UnixConnection
from slurmcluster.ports import free_port
from slurmcluster.suite import Cases, Suite, SuiteError, check, command_line, run

NODES = ["n1", "n2", "n3", "n4", "n5", "n6"]
FRAGMENT = """\
NodeName=n[1-6] CPUs=2 RealMemory=2000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""
SPEED = """\
#!/bin/sh
case $PHALANX_NODE in
  n1) echo 8 ;; n2) echo 6 ;; n3) echo 3 ;;
  *) echo 5 ;;
esac
"""
EVERY_S = 2.0
# What one run, one request and a busy machine may add to two periods.
SLACK_S = 2.0
# Sleeps of this run of the suite, to tell them from those of others.
NAP = 100000 + os.getpid()
BAD = {
    "hangs": (f"trap '' TERM INT; sleep {NAP} & setsid sleep {NAP} & sleep {NAP}", "no end within"),
    "floods": ("head -c 10000000 /dev/zero", "more than 65536 bytes"),
    "binary": ("printf '\\377\\376'", "not UTF-8"),
    "not_a_number": ("echo nan", "not a finite number"),
    "infinite": ("echo 1e999", "not a finite number"),
    "fails": ("echo broken >&2; exit 3", "exit status 3"),
    "forks": (f"f() {{ [ $1 -gt 4 ] && exec sleep {NAP}; f $(($1+1)) & f $(($1+1)) & wait; }}; f 0",
              "no end within"),
    "silent": ("true", "not a number"),
}
FIRST = "a_new_collector_runs_everywhere_within_two_periods"      # adds the collector `speed`
case = Cases()


class Agents(Suite):
    """The cluster with its agents, and ways to ask it."""

    def __init__(self, cluster, root, port):
        super().__init__(cluster)
        self.port, self.commands, self.work = port, commands_of(root), os.path.join(root, "w")
        self.host = "127.0.0.1"
        os.makedirs(self.work)
        self.agent_options = ["--master", f"http://127.0.0.1:{port}", "--command-dir",
                              self.commands]

    def script(self, name, text):
        """A program in the directory of commands."""
        path = os.path.join(self.commands, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def phalanx(self, *argv):
        """Output of a command; it must succeed within 10 s."""
        program = os.path.join(self.cluster.paths.bin_dir, "phalanx")
        return self.cluster.run(program, *argv, timeout=10).stdout

    def share(self, *argv):
        """Output of phalanx-share; it must succeed within 10 s."""
        program = os.path.join(self.cluster.paths.bin_dir, "phalanx-share")
        return self.cluster.run(program, *argv, timeout=10).stdout

    def configure(self, more, text=None):
        """Reloads with more in the configuration (or that text instead); returns the old one."""
        with open(self.cluster.paths.phalanx_toml, encoding="utf-8") as file:
            old = file.read()
        with open(self.cluster.paths.phalanx_toml, "w", encoding="utf-8") as file:
            file.write((old if text is None else text) + more)
        self.phalanx("daemon", "reload")
        return old

    def get(self, path):
        """(headers, body) over TCP."""
        url = f"http://{self.host}:{self.port}{path}"
        with urllib.request.urlopen(url, timeout=10) as reply:
            return reply.headers, reply.read()

    def json(self, path):
        """A JSON body over TCP."""
        return json.loads(self.get(path)[1])

    def memory_mib(self, role):
        """Resident memory of a process."""
        pid = self.cluster.process(role).pid
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            line = next(line for line in file if line.startswith("VmRSS:"))
        return int(line.split()[1]) // 1024

    def start_agent(self, name):
        """The node's agent, as its unit would start it."""
        self.cluster.start_agent(name, *self.agent_options)

    def why(self):
        """The last lines of the logs."""
        return self.cluster.why()

    def fresh(self, name):
        """Nodes with a fresh value."""
        try:
            rows = self.json(f"/v1/data/{name}")["values"]
        except urllib.error.URLError:   # not there, or phalanxd does not listen again yet
            return set()
        return {row["node"] for row in rows if not row["stale"]}

    def gone(self):
        """Nodes whose agents are not connected."""
        return [a["node"] for a in self.json("/v1/agents")["agents"] if not a["connected"]]

    def shares(self, *argv):
        """Lines of each of n1 to n4 by `phalanx-share`."""
        path = os.path.join(self.work, "items")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"image {i}\n" for i in range(440))
        text = self.share("--input", path, "--nodes", "n[1-4]", "--unit", "lines", "--json", *argv)
        answer = json.loads(text)
        return [part["lines"] for part in answer["nodes"]], [p["from"] for p in answer["nodes"]]

    def ran_on(self, *options):
        """Node list of a job that starts now."""
        job = self.cluster.submit("-t1", *options, wrap="true")
        return self.cluster.wait_jobs([job], timeout=30)[0]["NodeList"]

    def places(self, expected, *options):
        """Waits until jobs go there, for as long as a run, a plan and a little more may take."""
        found = []
        self.until(lambda: found.append(self.ran_on(*options)) or found[-1] == expected,
                   f"jobs on {expected}",
                   2 * EVERY_S + 2 * SLACK_S)
        return found

    def terms(self, method):
        """What a method reports of its last plan."""
        plan = json.loads(self.phalanx("plan", "--json"))
        return next(m["terms"] for m in plan["methods"] if m["method"] == method)


def equal(found, expected, what):
    """Raises SuiteError unless equal."""
    check(found == expected, f"{what}: expected {expected!r}, found {found!r}")


@case
def a_new_collector_runs_everywhere_within_two_periods(suite):
    """And steers the next share; switching what share uses needs no restart."""
    path = suite.script("speed", SPEED)
    equal(suite.shares()[0], [110] * 4, "equal CPUs before")
    started = time.monotonic()
    suite.phalanx("collector", "add", "speed", "--cmd", path, "--every", f"{EVERY_S:g}s")
    suite.until(lambda: suite.fresh("speed") == set(NODES), "speed on every node",
                2 * EVERY_S + SLACK_S)
    print(f"    on {len(NODES)} nodes after {time.monotonic() - started:.1f} s, "
          f"period {EVERY_S:g} s (waited {suite.waited_s:.1f} s)")
    wanted = [160, 120, 60, 100]
    equal(suite.shares("--capability", "speed"), (wanted, ["data"] * 4), "by speed")
    equal(suite.shares()[0], [110] * 4, "not switched yet")
    suite.phalanx("collector", "use", "share.capability", "speed")
    equal(suite.shares()[0], wanted, "switched")
    suite.script("speed", "#!/bin/sh\necho 1\n")
    suite.until(lambda: suite.shares()[0] == [110] * 4, "the changed program",
                2 * EVERY_S + SLACK_S)
    suite.script("speed", SPEED)
    suite.until(lambda: suite.shares()[0] == wanted, "the old program", 2 * EVERY_S + SLACK_S)


@case
def it_stops_on_some_nodes_and_by_the_calendar(suite):
    """Values grow stale where it does not run, and come again where it does."""
    path = suite.script("one", "#!/bin/sh\necho 1\n")
    suite.phalanx("collector", "add", "timed", "--cmd", path, "--every", "500ms")
    suite.until(lambda: suite.fresh("timed") == set(NODES), "everywhere")
    suite.phalanx("collector", "stop", "timed", "--nodes", "n[1-4]")
    suite.until(lambda: suite.fresh("timed") == {"n5", "n6"}, "stopped on four nodes")
    shown = suite.phalanx("collector", "list", "timed")
    suite.expect("n[1-4]" in shown, f"list does not say where it is stopped: {shown}")
    suite.phalanx("collector", "start", "timed", "--nodes", "n1")
    suite.until(lambda: suite.fresh("timed") == {"n1", "n5", "n6"}, "again on one")
    suite.phalanx("collector", "update", "timed", "--start", "2199-01-01 00:00")
    suite.until(lambda: not suite.fresh("timed"), "before its time nowhere")
    equal(suite.json("/v1/collectors/timed")["state"], "stopped", "state before its time")
    suite.phalanx("collector", "update", "timed", "--start", "*:*")
    suite.phalanx("collector", "start", "timed")
    suite.until(lambda: suite.fresh("timed") == set(NODES), "in its time everywhere")
    suite.phalanx("collector", "remove", "timed")


READ = """\
awk -F '\\t' -v task=$SLURM_PROCID '$1 == task' {out}/map.tsv |
while IFS="$(printf '\\t')" read -r _ node file offset length _; do
    [ "$node" = "$SLURMD_NODENAME" ] || exit 1
    tail -c +$((offset + 1)) "$file" | head -c "$length"
done > {out}/read.$SLURM_PROCID
"""


@case(needs=[FIRST])
def a_job_reads_its_parts_by_the_map(suite):
    """The block map of phalanx-share as each task of a job there reads it: nothing is lost."""
    path, out = os.path.join(suite.work, "lines"), os.path.join(suite.work, "out")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"record {i} {'x' * (i % 31)}\n" for i in range(3000))
    suite.share("--input", path, "--nodes", "n[1-4]", "--out", out)
    suite.cluster.run("srun", "-w", "n[1-4]", "-N4", "--ntasks-per-node=1", "sh", "-c",
                      READ.format(out=out), cwd="/")
    parts = []
    for task in range(4):
        with open(os.path.join(out, f"read.{task}"), "rb") as file:
            parts.append(file.read())
        with open(os.path.join(out, f"n{task + 1}"), "rb") as file:
            equal(parts[-1] == file.read(), True, f"what task {task} read is its part")
    with open(path, "rb") as file:
        equal(b"".join(parts) == file.read(), True, "the parts together are the file")
    shares = [len(part) / sum(map(len, parts)) for part in parts]
    assert all(abs(a - b / 22) < 0.01 for a, b in zip(shares, (8, 6, 3, 5))), shares


GANG = ("-N2", "--ntasks-per-node=2")
ONE = ("-N1", "-n1")


@case(needs=[FIRST])
def it_steers_gangs_and_balance(suite):
    """From the next plan on; switched by command line, back when it is stale."""
    suite.phalanx("collector", "use", "gang.speed", "speed")
    found = suite.places("n[1-2]", *GANG)
    print(f"    a gang by speed: {found}")
    suite.until(lambda: suite.terms("gang").get("nodes_measured") == 6, "its report", 5)
    fast = "#!/bin/sh\ncase $PHALANX_NODE in n3|n5) echo 9 ;; *) echo 1 ;; esac\n"
    suite.script("speed", fast)
    print(f"    after the values changed: {suite.places('n[3,5]', *GANG)}")
    assert re.search(r"gang.speed +speed +history +choice +6 +0", suite.phalanx("collector", "use"))
    assert re.search(r"n3 +9 +speed", suite.phalanx("collector", "use", "gang.speed"))
    suite.phalanx("collector", "use", "gang.speed", "--reset")
    suite.until(lambda: "nodes_measured" not in suite.terms("gang"), "the old way", 5)
    suite.phalanx("collector", "use", "balance.capability", "speed")
    text = suite.configure("[gang]\nmode = \"off\"\n")
    suite.places("n3", "--exclude=n5", *ONE)
    suite.script("speed", "#!/bin/sh\n[ $PHALANX_NODE = n6 ] && echo 5 || echo 1\n")
    suite.places("n6", *ONE)
    suite.phalanx("collector", "stop", "speed")
    uses = lambda: {u["key"]: u["fresh"] for u in suite.json("/v1/use")["uses"]}  # noqa: E731
    suite.until(lambda: uses()["balance.capability"] == 0, "its values to be stale",
                3 * EVERY_S + SLACK_S)
    suite.until(lambda: suite.ran_on(*ONE) != "n6", "the fallback", 5)
    suite.phalanx("collector", "start", "speed")
    suite.places("n6", *ONE)
    suite.configure("", text)
    suite.phalanx("collector", "use", "balance.capability", "--reset")
    refused = suite.cluster.run(os.path.join(suite.cluster.paths.bin_dir, "phalanx"), "collector",
                                "use", "share.capability", "history", check=False)
    equal(refused.returncode != 0, True, "share knows no history")
    suite.script("speed", SPEED)
    wanted = [160, 120, 60, 100]
    suite.until(lambda: suite.shares()[0] == wanted, "the old program", 2 * EVERY_S + SLACK_S)


@case(needs=[FIRST])
def it_tells_the_power_of_nodes(suite):
    """What busy nodes draw, for bags of tasks: by a datum, then by nothing again."""
    def sources():
        report = json.loads(suite.phalanx("report", "energy", "--json"))
        return {node["from"] for node in report["nodes"]}
    equal(sources(), {None}, "before")
    suite.phalanx("collector", "use", "bag.power_w", "speed")
    job = suite.cluster.submit("-t1", "-N6", "--ntasks-per-node=2", wrap="sleep 30")
    suite.until(lambda: sources() == {"metric"}, "the power of busy nodes", 15)
    suite.cluster.run("scancel", job)
    suite.phalanx("collector", "use", "bag.power_w", "--reset")
    suite.until(lambda: sources() == {None}, "nothing again", 5)
    suite.cluster.wait_jobs([job], timeout=30)


@case(needs=[FIRST])
def the_methods_are_processors(suite):
    """cpu_free_ratio into capability_cpu_load on the nodes, a processor of lines on the master."""
    suite.phalanx("collector", "add", "cpu_free_ratio", "--cmd", "builtin:cpu_free_ratio",
                  "--every", "1s")
    suite.phalanx("collector", "add", "capability_cpu_load", "--kind", "processor", "--cmd",
                  "builtin:capability_cpu_load", "--arg", "0.5", "--inputs", "cpu_free_ratio",
                  "--every", "1s")
    twice = suite.script("twice", """\
#!/usr/bin/python3
import json, sys
for row in json.load(sys.stdin)["inputs"]["speed"]:
    print(row["node"], 2 * row["value"])
""")
    suite.phalanx("collector", "add", "twice", "--kind", "processor", "--cmd", twice, "--inputs",
                  "speed", "--nodes", "@master", "--output", "nodes", "--every", "1s")
    suite.until(lambda: suite.fresh("capability_cpu_load") == set(NODES), "method B", 20)
    values = suite.json("/v1/data/capability_cpu_load")["values"]
    assert all(0 <= row["value"] <= 1 for row in values), values
    suite.until(lambda: suite.fresh("twice") == set(NODES), "on the master", 20)
    equal([row["value"] for row in suite.json("/v1/data/twice")["values"]],
          [16, 12, 6, 10, 10, 10], "twice the speed")
    equal(len(suite.shares("--method", "B")[0]), 4, "share by method B")


@case(needs=[FIRST])
def bad_programs_hold_nothing_up(suite):
    """Each is seen as what it is; jobs start, the good collector goes on."""
    for name, (text, _) in BAD.items():
        path = suite.script(name, f"#!/bin/sh\n{text}\n")
        suite.phalanx("collector", "add", name, "--cmd", path, "--every", "2s", "--timeout", "1s")

    def errors():
        reports = suite.json("/v1/collectors")["collectors"]
        return {report["name"]: report["last_error"] or "" for report in reports}

    def all_seen():
        found = errors()
        return all(why in found.get(name, "") for name, (_, why) in BAD.items())
    try:
        suite.until(all_seen, "all errors", 25)
    except SuiteError:
        raise SuiteError(f"errors: {errors()}") from None
    equal(suite.fresh("speed"), set(NODES), "the good one")
    started = time.monotonic()
    suite.phalanx("status")
    done = suite.cluster.run("srun", "-N2", "true", timeout=30, cwd="/")
    equal(done.returncode, 0, "a job")
    print(f"    status and a job of two nodes in {time.monotonic() - started:.1f} s")
    assert "broken" in suite.get("/v1/collectors/fails")[1].decode(), "its standard error is kept"
    for name in BAD:
        suite.phalanx("collector", "remove", name)
    suite.until(lambda: not strays(suite), "their processes to end", 10)
    equal(suite.fresh("speed"), set(NODES), "the good one")


def strays(suite):
    """Processes of the bad programs and of slow: shells that may still fork, and sleeps."""
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    return [line for line in lines if line == f"sleep {NAP}" or f" {suite.commands}/" in line
            and line.rsplit("/", 1)[1] in BAD]


@case(needs=[FIRST])
def a_killed_agent_falls_back_and_returns(suite):
    """Its programs end with it; stale values are scaled from the configuration."""
    slow = suite.script("slow", f"#!/bin/sh\nexec sleep {NAP}\n")
    suite.phalanx("collector", "add", "slow", "--cmd", slow, "--every", "1s", "--timeout", "60s",
                  "--nodes", "n2")
    suite.until(lambda: strays(suite), "slow to run", 10)
    suite.cluster.stop_agent("n2", kill=True)
    suite.until(lambda: not strays(suite), "its program to end", 5)
    suite.until(lambda: suite.shares()[1][1] == "scaled", "n2 to be stale", 3 * EVERY_S + 5)
    counts, _ = suite.shares()
    print(f"    stale after {suite.waited_s:.1f} s; shares then {counts}")
    # n2 counts as the median of the others' speed for the same CPUs: of 8, 3, 5, (5, 5).
    equal(sum(counts), 440, "nothing lost")
    assert counts[1] not in (0, 120), counts
    suite.until(lambda: suite.gone() == ["n2"], "n2 to be seen as gone", 30)
    suite.start_agent("n2")
    suite.phalanx("collector", "remove", "slow")
    suite.until(lambda: suite.shares() == ([160, 120, 60, 100], ["data"] * 4), "n2 to be fresh",
                2 * EVERY_S + SLACK_S)


@case(needs=[FIRST])
def phalanxd_restarts_under_the_agents(suite):
    """Registrations and what share uses stay; agents come back by themselves."""
    suite.cluster.stop_phalanxd(kill=True)
    time.sleep(2)
    suite.cluster.start_phalanxd()
    suite.until(lambda: suite.fresh("speed") == set(NODES), "all to be fresh", 15 + EVERY_S)
    print(f"    fresh on all nodes {suite.waited_s:.1f} s after the start")
    equal(suite.shares()[0], [160, 120, 60, 100], "as before")
    suite.cluster.signal_phalanxd(signal.SIGSTOP)
    time.sleep(3)
    suite.cluster.signal_phalanxd(signal.SIGCONT)
    suite.until(lambda: suite.fresh("speed") == set(NODES), "all to be fresh", 15 + EVERY_S)


DAY_S = 86400


@case(needs=[FIRST])
def a_clock_that_jumps_changes_nothing(suite):
    """phalanxd's wall clock a day ahead, then behind, an agent's always wrong: ages stay right."""
    shim, clock = os.path.join(suite.work, "clock.so"), os.path.join(suite.work, "clock")
    source = os.path.join(os.path.dirname(__file__), "..", "agent", "clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", shim, source], check=True)
    wrong = os.path.join(suite.work, "clock_of_n1")
    for path, seconds in ((clock, 0), (wrong, 7 * DAY_S)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(seconds))
    cluster = suite.cluster
    program = lambda name: os.path.join(cluster.paths.bin_dir, name)  # noqa: E731
    cluster.stop_phalanxd()
    cluster.spawn("phalanxd", [program("phalanxd"), "--config", cluster.paths.phalanx_toml],
                  {"LD_PRELOAD": shim, "CLOCK_FILE": clock})
    cluster.stop_agent("n1")
    cluster.spawn("agent:n1", [program("phalanx"), "collector", "agent", "--node", "n1",
                                *suite.agent_options],
                  {"LD_PRELOAD": shim, "CLOCK_FILE": wrong})

    def rows():
        try:
            return suite.json("/v1/data/speed")["values"]
        except OSError:
            return []
    began = time.monotonic()  # values of before are kept, and not stale at first
    suite.until(lambda: [r["age_ms"] / 1000 < time.monotonic() - began for r in rows()]
                == [True] * 6, "the agents", 15 + EVERY_S)
    suite.until(lambda: rows()[0]["time_ms"] / 1000 - time.time() > 6 * DAY_S, "n1 a week ahead",
                2 * EVERY_S + SLACK_S)
    limit_ms = 1000 * (2 * EVERY_S + SLACK_S)
    points = lambda: len(suite.json("/v1/data/speed/n2/history")["points"])  # noqa: E731
    for ahead, jumps in ((DAY_S, 1), (-DAY_S, 2)):
        before, lost = points(), CLOCK.lost()
        with open(clock, "w", encoding="utf-8") as file:
            file.write(str(ahead))
        end = time.monotonic() + 2 * EVERY_S
        while time.monotonic() < end:
            found = [(r["node"], r["stale"], r["age_ms"]) for r in rows()]
            late_ms = limit_ms + 1000 * (CLOCK.lost() - lost)
            check(len(found) == 6 and not any(stale or age > late_ms
                                              for _, stale, age in found), f"{found}")
            time.sleep(0.2)
        off = rows()[1]["received_ms"] / 1000 - time.time()
        equal(abs(off - ahead) < 60, True, f"the jump itself, {off:.0f} s")
        status = json.loads(suite.phalanx("status", "--json"))
        equal(status["collect"]["clock_jumps"], jumps, "jumps seen")
        equal(points() >= before, True, "past values kept")
    equal(suite.shares(), ([160, 120, 60, 100], ["data"] * 4), "shares")
    cluster.stop_phalanxd()
    cluster.start_phalanxd()
    cluster.stop_agent("n1")
    suite.start_agent("n1")
    suite.until(lambda: suite.fresh("speed") == set(NODES), "all to be fresh", 15 + EVERY_S)


@case(needs=[FIRST])
def a_thousand_registrations_are_nothing_special(suite):
    """On one node; all of them run there, and the others do not notice."""
    connection = UnixConnection(suite.cluster.paths.control_socket)
    started = time.monotonic()
    for i in range(1000):
        body = {"name": f"many_{i}", "cmd": "builtin:load1", "every_ms": 10000, "nodes": "n1"}
        equal(connection.ask("POST", "/v1/collectors", body), 201, "registration")
    took = time.monotonic() - started

    def fresh():
        names = suite.json("/v1/data")["names"]
        return sum(name["fresh"] for name in names if name["name"].startswith("many_"))
    suite.until(lambda: fresh() == 1000, "all to have run on n1", 30)
    asked = time.monotonic()
    listed = suite.phalanx("collector", "list")
    print(f"    registered in {took:.1f} s, all ran {suite.waited_s:.1f} s later, "
          f"listed in {time.monotonic() - asked:.2f} s; memory of the agent of n1 "
          f"{suite.memory_mib('agent:n1')} MiB, of n3 {suite.memory_mib('agent:n3')} MiB, "
          f"of phalanxd {suite.memory_mib('phalanxd')} MiB")
    assert "many_999" in listed, listed[:500]
    equal(suite.fresh("speed"), set(NODES), "the good one")
    for i in range(1000):
        equal(connection.ask("DELETE", f"/v1/collectors/many_{i}"), 200, "removal")
    equal(suite.shares()[0], [160, 120, 60, 100], "as before")


@case(needs=[FIRST])
def metrics_are_openmetrics(suite):
    """By Prometheus' parser; what rules and dashboard name is there."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
    # Of waits there is nothing before the first start, and that is seen over the link alone.
    suite.until(lambda: suite.json("/v1/status")["plugin"]["synced"], "the plugin")
    suite.cluster.submit(wrap="true")
    suite.until(lambda: b"phalanx_wait_seconds_bucket" in suite.get("/metrics")[1], "a wait", 30)
    headers, body = suite.get("/metrics")
    equal(headers["Content-Type"],
          "application/openmetrics-text; version=1.0.0; charset=utf-8", "content type")
    families = list(text_string_to_metric_families(body.decode()))
    samples = {sample.name for family in families for sample in family.samples}
    assert all(family.documentation for family in families)
    values = {(s.name, tuple(sorted(s.labels.items()))): s.value
              for family in families for s in family.samples}
    equal(values["phalanx_agents", (("state", "connected"),)] >= 6, True, "agents")
    equal(values["phalanx_data_nodes", (("name", "speed"), ("state", "fresh"))], 6.0, "fresh nodes")
    buckets = [v for (name, _), v in values.items() if name == "phalanx_answer_seconds_bucket"]
    equal(buckets, sorted(buckets), "cumulative buckets")
    optional = {"phalanx_plan_gap_ratio", "phalanx_fallbacks_total"}
    known = samples | {family.name for family in families}
    for name in ("phalanx.rules.yml", "phalanx-dashboard.json"):
        path = os.path.join(os.path.dirname(__file__), "..", "..", "config", "monitoring", name)
        with open(path, encoding="utf-8") as file:
            named = set(re.findall(r"\bphalanx_\w+", file.read()))
        equal(named - known - optional, set(), f"metrics named in {name}")
    print(f"    {len(families)} families, {len(values)} samples")
    equal(suite.get("/healthz")[1], b"ok\n", "health")


@case
def the_page_is_served(suite):
    """The same files as in the source, closed to other origins."""
    source = os.path.join(os.path.dirname(__file__), "..", "..", "src", "service", "api",
                          "page")
    for path, name in (("/", "index.html"), ("/page.js", "page.js"),
                       ("/history.js", "history.js"), ("/page.css", "page.css")):
        headers, body = suite.get(path)
        with open(os.path.join(source, name), "rb") as file:
            equal(body, file.read(), path)
        assert "default-src 'none'" in headers["Content-Security-Policy"], path
    heat = suite.json("/v1/heat")
    equal(heat["names"], NODES, "nodes of the map")
    equal([d["name"] for d in heat["dimensions"]][:2], ["cpu", "mem"], "dimensions")


def commands_of(root):
    """The directory of collectors that the daemon allows."""
    return os.path.join(root, "c")


@contextlib.contextmanager
def another_network(name):
    """(its process, this host's address there, the host's end of the line) of a network of its own;
    a machine on which there can be none fails the case."""
    here, there = f"{name}a", f"{name}b"
    with subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) as holder:
        try:
            within = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
            until_own = CLOCK.now() + 10
            while os.readlink(f"/proc/{holder.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
                check(CLOCK.now() < until_own, "no network of its own")
                time.sleep(0.05)
            for words in (f"ip link add {here} type veth peer name {there} netns {holder.pid}",
                          f"ip address add 169.254.77.1/30 dev {here}", f"ip link set {here} up"):
                subprocess.run(words.split(), check=True)
            for words in (f"ip address add 169.254.77.2/30 dev {there}", f"ip link set {there} up"):
                subprocess.run([*within, *words.split()], check=True)
            yield within, "169.254.77.1", here
        finally:
            holder.kill()


@case(needs=[FIRST])
def an_agent_of_another_network_comes_and_goes(suite):
    """A node behind another network hands in by TCP; a line that is cut costs its values alone."""
    cluster = suite.cluster
    with open(cluster.paths.phalanx_toml, encoding="utf-8") as file:
        text = file.read()
    with another_network(f"phx{os.getpid()}") as (within, address, line):
        suite.host = address
        suite.configure("", text.replace("127.0.0.1", address))
        cluster.stop_phalanxd()
        cluster.start_phalanxd()
        where = suite.script("where", f"#!/bin/sh\ngrep -c '{line[:-1]}b:' /proc/net/dev\n")
        suite.phalanx("collector", "add", "where", "--cmd", where, "--every", "1s",
                      "--nodes", "n1")
        cluster.stop_agent("n1")
        cluster.spawn("agent:n1", [*within, os.path.join(cluster.paths.bin_dir, "phalanx"),
                                   "collector", "agent", "--node", "n1", "--master",
                                   f"http://{address}:{suite.port}", *suite.agent_options[2:]])
        suite.until(lambda: suite.fresh("where") == {"n1"}, "n1 to hand in", 15 + EVERY_S)
        told = json.loads(suite.phalanx("--json", "collector", "data", "where"))["values"]
        equal([row["value"] for row in told], [1.0], "measured in its network")
        subprocess.run(["ip", "link", "set", line, "down"], check=True)
        suite.until(lambda: suite.fresh("where") == set(), "n1 to be stale", 30)
        suite.phalanx("status")
        subprocess.run(["ip", "link", "set", line, "up"], check=True)
        suite.until(lambda: suite.fresh("where") == {"n1"}, "n1 to come back", 60)
        print(f"    fresh {suite.waited_s:.1f} s after the line is whole")
        cluster.stop_agent("n1")
        suite.phalanx("collector", "remove", "where")
        suite.host = "127.0.0.1"
        suite.configure("", text)
        cluster.stop_phalanxd()
    cluster.start_phalanxd()
    suite.start_agent("n1")
    suite.until(lambda: suite.fresh("speed") == set(NODES), "all to be fresh", 30 + EVERY_S)


@contextlib.contextmanager
def setting(root, _args):
    """One cluster of six nodes, each with its agent."""
    port, config = free_port(), os.path.join(root, "in.toml")
    os.makedirs(commands_of(root))
    with open(config, "w", encoding="utf-8") as file:
        file.write(f'[control]\nlisten = "127.0.0.1:{port}"\npublic_read = "all"\n'
                   f'[collect]\ncommand_dirs = ["{commands_of(root)}"]\n')
    with Cluster(os.path.join(root, "s"), nodes=FRAGMENT, config=config) as cluster:
        suite = Agents(cluster, root, port)
        for name in NODES:
            suite.start_agent(name)
        cluster.start_agent("@master", "--command-dir", suite.commands)
        yield suite


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
