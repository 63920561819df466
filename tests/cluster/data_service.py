#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data service of a real daemon, from outside: who may do what, and what data do.

A cluster of four nodes with one agent each, phalanxd listening on TCP as well. Requests without,
with a wrong, a foreign or a used credential, malformed and oversized ones must be refused with
the right status and change nothing; a program of five lines, registered by the command line, must
run on every node within two periods and steer the next split; 1,000 registrations must block
nothing and outlive the daemon; what the API does must be what its OpenAPI document says. What bad
programs and killed agents do is for agents.py.
"""

import contextlib
import hashlib
import http.client
import json
import os
import re
import subprocess
import sys
import time

from slurmcluster import Cluster
from slurmcluster.http import UnixConnection
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.ports import free_port
from slurmcluster.suite import Cases, Suite, command_line, run

NOBODY = 65534
NODES = ["n1", "n2", "n3", "n4"]
FRAGMENT = """\
NodeName=n[1-4] CPUs=4 RealMemory=4000
PartitionName=all Nodes=ALL Default=YES
"""
case = Cases()


def credential(method, path, body=b"", user=None, ttl=0, realm=None):
    """A MUNGE credential for one request, of this or another user; good for `ttl` seconds, and
    with `realm` at the daemon of that realm only."""
    head = "phalanx/1" if realm is None else f"phalanx/2\n{realm}"
    payload = f"{head}\n{method}\n{path}\n{hashlib.sha256(body).hexdigest()}\n"
    who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    done = subprocess.run(["munge", f"--ttl={ttl}"], input=payload.encode(), capture_output=True,
                          check=True, **who)
    return done.stdout.decode().strip()


class Service(Suite):
    """The cluster, its listener, and ways to ask it."""

    soon_s = 15.0

    def __init__(self, cluster, port, commands):
        super().__init__(cluster)
        self.port, self.commands = port, commands

    def send(self, connection, method, path, body=None, headers=None):
        """One request; returns (status, headers, JSON or text)."""
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, answer.headers, json.loads(text)
        except ValueError:
            return answer.status, answer.headers, text.decode("utf-8", "replace")

    def local(self, method, path, body=None, headers=None):
        """Over the control socket."""
        return self.send(UnixConnection(self.cluster.paths.control_socket), method, path, body,
                         headers)

    def remote(self, method, path, body=None, sign=True, user=None, headers=None):
        """Over TCP, with a credential unless told otherwise."""
        raw = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        headers = dict(headers or {})
        if sign:
            headers["Authorization"] = "Munge " + credential(method, path, raw or b"", user)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        return self.send(connection, method, path, raw, headers)

    def status_is(self, expected, answer, what):
        """Notes a problem unless the answer has this status and, if an error, says why."""
        status, _, body = answer
        good = self.expect(status == expected, f"{what}: {status}, expected {expected}: {body}")
        if good and status >= 400:
            said = isinstance(body, dict) and body.get("error")
            self.expect(said, f"{what}: no reason in {body!r}")
        return good

    def names(self):
        """Names of everything registered."""
        return [c["name"] for c in self.local("GET", "/v1/collectors")[2]["collectors"]]

    def collector(self, name):
        """One registration's report."""
        return self.local("GET", f"/v1/collectors/{name}")[2]

    def script(self, name, text):
        """Writes a program into the configured directory; returns its path."""
        path = os.path.join(self.commands, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def add(self, name, cmd, *options):
        """`phalanx collector add`"""
        return phalanx(self.cluster, "collector", "add", name, "--cmd", cmd, *options)

    def remove(self, *names):
        """`phalanx collector remove` for each."""
        for name in names:
            phalanx(self.cluster, "collector", "remove", name)

    def start_agent(self, node):
        """Starts the agent of a node on the TCP listener."""
        self.cluster.spawn(f"agent:{node}", [
            os.path.join(self.cluster.paths.bin_dir, "phalanx"), "collector", "agent",
            "--node", node, "--master", f"http://127.0.0.1:{self.port}",
            "--command-dir", self.commands])

    def fresh(self, name):
        """Nodes with a usable value, by node."""
        rows = self.local("GET", f"/v1/data/{name}")[2].get("values", [])
        return {row["node"]: row["value"] for row in rows if not row["stale"]}

    def parts(self):
        """What a split takes for each node, by node."""
        report = self.local("GET", "/v1/use/share.capability?nodes=n%5B1-4%5D")[2]
        return {value["node"]: value for value in report["values"]}


@case
def strangers_are_refused(suite):
    """No, wrong, foreign, mismatching, used and expired credentials: 401 or 403, nothing done."""
    cmd = suite.script("ok", "#!/bin/sh\necho 1\n")
    new = {"name": "x", "cmd": cmd}
    post = ("POST", "/v1/collectors")
    before = suite.names()
    old, made = credential(*post, json.dumps(new).encode(), ttl=1), time.monotonic()
    refused = suite.remote(*post, new, sign=False)
    suite.status_is(401, refused, "no credential")
    challenge = re.fullmatch(r'Munge realm="(\w{32})"', refused[1].get("WWW-Authenticate", ""))
    suite.expect(challenge is not None, f"401 without scheme and realm: {refused[1]}")
    realm = challenge[1] if challenge else ""
    suite.expect(realm in suite.remote("GET", "/healthz", sign=False)[1]["WWW-Authenticate"],
                 "healthz has another realm")
    for header in ("Munge", "Munge x", "Munge MUNGE:AAAA:", "Basic cm9vdDo=", "Bearer x",
                   "Basic " + credential(*post, json.dumps(new).encode()),
                   "Munge " + credential("GET", "/v1/collectors"),
                   "Munge " + credential("POST", "/v1/data", json.dumps(new).encode()),
                   "Munge " + credential(*post, b"{}"),
                   # Heard on its way to another controller.
                   "Munge " + credential(*post, json.dumps(new).encode(), realm=realm[::-1]),
                   "Munge " + credential("GET", "/v1/data", realm=realm),
                   "Munge " + credential("POST", "/v1/collectors?x=1", json.dumps(new).encode())):
        answer = suite.remote(*post, new, sign=False, headers={"Authorization": header})
        suite.status_is(401, answer, header[:30])
    # A credential names a user, not a host.
    hello = ("POST", "/v1/agents/@master/sync", {"generation": 1, "wait_ms": 0})
    suite.status_is(400, suite.remote(*hello), "@master from elsewhere")
    suite.status_is(200, suite.local(*hello), "@master from here")
    for path in ("/v1/status", "/v1/data", "/v1/collectors", "/", "/nonexistent"):
        suite.status_is(401, suite.remote("GET", path, sign=False), f"GET {path} without")
    suite.status_is(200, suite.remote("GET", "/openapi.json", sign=False), "openapi without")
    suite.expect(suite.remote("GET", "/metrics", sign=False)[0] == 200, "metrics without")
    suite.expect(suite.remote("GET", "/healthz", sign=False)[0] == 200, "healthz without")
    suite.status_is(403, suite.remote(*post, new, user=NOBODY), "nobody registers")
    suite.status_is(200, suite.remote("GET", "/v1/collectors", user=NOBODY), "nobody reads")
    for method, path, body in (("PATCH", "/v1/collectors/x", {"enabled": False}),
                               ("DELETE", "/v1/collectors/x", None),
                               ("POST", "/v1/collectors/x/start", None),
                               ("POST", "/v1/data", {"values": []}),
                               ("PUT", "/v1/data/x/n1", {"value": 1}),
                               ("POST", "/v1/agents/n1/sync", {}),
                               ("PUT", "/v1/use/share.capability", {"name": "x"}),
                               ("POST", "/v1/reload", None)):
        suite.status_is(403, suite.remote(method, path, body, user=NOBODY), f"nobody {path}")
    used = {"Authorization": "Munge " + credential("GET", "/v1/data")}
    suite.status_is(200, suite.remote("GET", "/v1/data", sign=False, headers=used), "first use")
    named = {"Authorization": "Munge " + credential("GET", "/v1/data", realm=realm)}
    suite.status_is(200, suite.remote("GET", "/v1/data", sign=False, headers=named), "realm")
    again = suite.remote("GET", "/v1/data", sign=False, headers=used)
    suite.status_is(401, again, "second use")
    suite.expect("used before" in str(again[2]), f"replay: {again[2]}")
    # munged counts whole seconds.
    time.sleep(max(0.0, made + 2.1 - time.monotonic()))
    late = suite.remote(*post, new, sign=False, headers={"Authorization": "Munge " + old})
    suite.status_is(401, late, "expired")
    suite.expect("expired" in str(late[2]), f"expired: {late[2]}")
    suite.expect(suite.names() == before, "something was registered")
    # On the control socket the peer's user counts, whatever it says of itself.
    script = ("import http.client,socket,sys;c=http.client.HTTPConnection('x');"
              "c.sock=socket.socket(socket.AF_UNIX);c.sock.connect(sys.argv[1]);"
              "c.request('DELETE','/v1/collectors/x');print(c.getresponse().status)")
    done = subprocess.run(["/usr/bin/python3", "-c", script, suite.cluster.paths.control_socket],
                          capture_output=True, text=True, check=False, user=NOBODY, group=NOBODY,
                          extra_groups=[], cwd="/")
    suite.expect(done.stdout.strip() in ("403", ""), f"nobody on the socket: {done.stdout}")


@case
def wrong_requests_are_refused(suite):
    """Malformed, oversized and impossible requests: 400, 404, 405, 409, 413, 415."""
    cmd = suite.script("ok", "#!/bin/sh\necho 1\n")
    outside = "/bin/sh"
    open_to_all = suite.script("open", "#!/bin/sh\necho 1\n")
    os.chmod(open_to_all, 0o777)
    link = os.path.join(suite.commands, "link")
    if not os.path.islink(link):
        os.symlink("/bin/sh", link)
    for send in (suite.local, suite.remote):
        for status, method, path, body in (
                (400, "POST", "/v1/collectors", b"{"), (400, "POST", "/v1/collectors", b""),
                (400, "POST", "/v1/collectors", {"name": "x", "cmd": cmd, "extra": 1}),
                (400, "POST", "/v1/collectors", {"name": "x"}),
                (400, "POST", "/v1/collectors", {"name": "x", "cmd": outside}),
                (400, "POST", "/v1/collectors", {"name": "x", "cmd": link}),
                (400, "POST", "/v1/collectors", {"name": "x", "cmd": open_to_all}),
                (400, "POST", "/v1/collectors", {"name": "x", "cmd": suite.commands + "/../ok"}),
                (400, "POST", "/v1/collectors", {"name": "../x", "cmd": cmd}),
                (400, "POST", "/v1/collectors", {"name": "x", "cmd": cmd, "every_ms": -1}),
                (400, "POST", "/v1/collectors", {"name": "x", "cmd": cmd, "nodes": "n[1-"}),
                (404, "GET", "/v1/collectors/nothing", None),
                (404, "GET", "/v1/data/nothing", None),
                (404, "PATCH", "/v1/collectors/nothing", {}), (404, "GET", "/v1/nothing", None),
                (404, "DELETE", "/v1/collectors/nothing", None),
                (405, "DELETE", "/v1/data", None), (405, "PUT", "/v1/status", b""),
                (400, "GET", "/v1/data/x?nodes=n%5B1-", None), (400, "GET", "/v1/data/x?y=1", None),
                (400, "GET", "/v1/data/%ff", None), (400, "PUT", "/v1/data/x/n1", {"value": None}),
                (400, "PUT", "/v1/data/x/n1", b'{"value": NaN}'),
                (400, "PUT", "/v1/data/x/n1", b'{"value": 1e999}'),
                (400, "PUT", "/v1/data/x/n1", {"value": "y" * 70_000}),
                (400, "PUT", "/v1/data/x/n%20", {"value": 1}),
                (400, "POST", "/v1/agents/@other/sync", {}),
                (400, "POST", "/v1/agents/n1/sync", b"\xff\xfe"),
                (404, "PUT", "/v1/use/nothing", {"name": "x"}),
                (400, "PUT", "/v1/use/share.capability", {"name": "nothing"}),
                (413, "POST", "/v1/collectors", b" " * (1 << 20)),
                (413, "POST", "/v1/data", b" " * (9 << 20))):
            suite.status_is(status, send(method, path, body), f"{method} {path} {str(body)[:40]}")
        answer = send("POST", "/v1/collectors", b"{}", headers={"Content-Type": "text/plain"})
        suite.status_is(415, answer, "text/plain")
    suite.expect(suite.names() == [], f"something was registered: {suite.names()}")
    half = {"values": [{"name": "z", "node": "n1", "value": 1}, {"name": "z", "node": "n1",
                                                                 "value": None}]}
    stored = suite.local("POST", "/v1/data", half)[2]
    suite.expect(stored["stored"] == 1 and [r["index"] for r in stored["refused"]] == [1],
                 f"batch: {stored}")


@case
def a_shell_script_steers_the_next_split(suite):
    """Five lines of shell, registered by the command line, run everywhere within two periods."""
    for node in NODES:
        suite.start_agent(node)
    suite.cluster.start_agent("@master", "--command-dir", suite.commands)
    agents = lambda: [a for a in suite.local("GET", "/v1/agents")[2]["agents"]  # noqa: E731
                      if a["connected"] and a["node"] in NODES]
    suite.until(lambda: len(agents()) == len(NODES), "four agents")
    cmd = suite.script("rank", "#!/bin/sh\n# the number in the node's name, as a measure\n"
                       "node=$PHALANX_NODE\nnumber=${node#n}\necho \"$number\"\n")
    suite.expect(all(v["value"] == 4.0 for v in suite.parts().values()), "before: not the CPUs")
    begin = time.monotonic()
    suite.add("rank", cmd, "--every", "2s")
    suite.until(lambda: len(suite.fresh("rank")) == len(NODES), "a value of every node", 4.0)
    print(f"    on {len(NODES)} nodes after {time.monotonic() - begin:.2f} s of a 2 s period")
    phalanx(suite.cluster, "collector", "use", "share.capability", "rank")
    parts = suite.parts()
    suite.expect({n: v["value"] for n, v in parts.items()} == {"n1": 1, "n2": 2, "n3": 3, "n4": 4},
                 f"parts follow the datum: {parts}")
    shown = phalanx_json(suite.cluster, "status")["collect"]
    suite.expect(shown["registrations"] == 1 and shown["agents"] >= 4, f"status: {shown}")
    suite.expect(shown["uses"][0]["name"] == "rank", f"status: {shown['uses']}")
    text = phalanx(suite.cluster, "collector", "list").stdout
    suite.expect("rank" in text and "running" in text, text)


@case(needs=["a_shell_script_steers_the_next_split"])
def a_processor_reads_and_the_master_runs(suite):
    """A processor on the nodes and one on the master read what collectors gave."""
    read = ("#!/usr/bin/env python3\nimport json, sys\nrows = json.load(sys.stdin)['inputs']"
            "['rank']\nprint(sum(row['value'] for row in rows) * 10)\n")
    cmd = suite.script("tenfold", read)
    suite.add("tenfold", cmd, "--kind", "processor", "--inputs", "rank", "--every", "1s")
    spread = read.replace("print(sum(row['value'] for row in rows) * 10)",
                          "for row in rows: print(row['node'], row['value'] * 100)")
    suite.add("hundredfold", suite.script("hundredfold", spread), "--kind", "processor",
              "--inputs", "rank", "--every", "1s", "--nodes", "@master", "--output", "nodes")
    suite.until(lambda: suite.fresh("tenfold") == {f"n{i}": 10.0 * i for i in range(1, 5)},
                "ten times the rank of each node")
    suite.until(lambda: suite.fresh("hundredfold") == {f"n{i}": 100.0 * i for i in range(1, 5)},
                "a hundred times the rank of each node, from the master")
    suite.add("once", suite.script("once", "#!/bin/sh\necho 1\n"), "--every", "1s",
              "--replicas", "2")
    suite.until(lambda: len(suite.fresh("once")) == 2, "two replicas")
    suite.remove("tenfold", "hundredfold", "once")


@case(needs=["a_shell_script_steers_the_next_split"])
def a_thousand_registrations_and_a_restart(suite):
    """1,000 registrations are taken, listed and outlive kill -9; switching off goes by reload."""
    cmd = suite.script("ok", "#!/bin/sh\necho 1\n")
    connection = UnixConnection(suite.cluster.paths.control_socket)
    begin = time.monotonic()
    for i in range(1000):
        body = json.dumps({"name": f"d{i}", "cmd": cmd, "nodes": "n9", "every_ms": 60000}).encode()
        connection.request("POST", "/v1/collectors", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        if not suite.expect(answer.status == 201, f"d{i}: {answer.status}"):
            break
    connection.close()
    print(f"    1,000 registrations in {time.monotonic() - begin:.1f} s")
    suite.expect(len(suite.names()) == 1001, f"{len(suite.names())} registrations")
    suite.until(lambda: len(suite.fresh("rank")) == 4, "the agents go on")
    suite.cluster.stop_phalanxd(kill=True)
    suite.cluster.start_phalanxd()
    suite.expect(len(suite.names()) == 1001, f"{len(suite.names())} after kill -9")
    suite.until(lambda: len(suite.fresh("rank")) == 4, "the agents come back", 20.0)
    uses = suite.local("GET", "/v1/use")[2]["uses"]
    suite.expect(uses[0]["name"] == "rank", "the choice is gone")
    for i in range(1000):
        suite.local("DELETE", f"/v1/collectors/d{i}")
    with open(suite.cluster.paths.phalanx_toml, "a", encoding="utf-8") as file:
        file.write(f'\n[collector.of_file]\ncmd = "{cmd}"\nevery_ms = 1000\n')
    phalanx(suite.cluster, "daemon", "reload")
    suite.until(lambda: len(suite.fresh("of_file")) == 4, "the file's registration runs")
    suite.status_is(409, suite.local("DELETE", "/v1/collectors/of_file"), "remove the file's")
    phalanx(suite.cluster, "collector", "use", "share.capability", "--reset")
    suite.until(lambda: suite.parts()["n1"]["value"] == 4.0, "back to the configuration", 5.0)
    past = suite.local("GET", "/v1/data/rank/n1/history")[2]["points"]
    suite.expect(past and past[-1]["value"] == 1, f"history: {past[:3]}")


@case
def the_document_is_true(suite):
    """Requests made from the OpenAPI document never meet a 500 or an answer it does not list."""
    program = os.environ.get("PHALANX_SCHEMATHESIS")
    if not program:
        print("    not run: PHALANX_SCHEMATHESIS is not set (make test sets it)")
        return
    here = os.path.dirname(os.path.realpath(__file__))
    env = dict(os.environ, SCHEMATHESIS_HOOKS="munge_auth", PYTHONDONTWRITEBYTECODE="1",
               PYTHONPATH=os.path.join(os.path.dirname(here), "openapi"))
    done = subprocess.run(
        [program, "run", f"http://127.0.0.1:{suite.port}/openapi.json", "--seed", "1",
         "--phases", "examples,fuzzing", "--max-examples", "12", "--generation-database", "none",
         "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,"
         "response_schema_conformance", "--suppress-health-check", "all",
         "--request-timeout", "20", "--no-color"],
        cwd=suite.commands, env=env, capture_output=True, text=True, timeout=400, check=False)
    suite.expect(done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:])
    suite.expect(suite.local("GET", "/v1/status")[0] == 200, "the daemon does not answer")


@contextlib.contextmanager
def setting(root, _args):
    """One cluster of four nodes with a listener on TCP."""
    port, config = free_port(), os.path.join(root, "data.toml")
    commands = os.path.join(root, "commands")
    os.makedirs(commands)
    with open(config, "w", encoding="utf-8") as file:
        file.write(f'mode = "enforce"\n[source]\npoll_ms = 500\n[control]\n'
                   f'listen = "127.0.0.1:{port}"\n[collect]\n'
                   f'command_dirs = ["{commands}"]\n')
    with Cluster(os.path.join(root, "cluster"), config=config, nodes=FRAGMENT) as cluster:
        yield Service(cluster, port, commands)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
