# SPDX-License-Identifier: GPL-3.0-or-later
"""The page's files with invented answers of the daemon, for a cluster of any size."""

import http.server
import json
import os
import random
import re
import threading
import time

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "src", "service", "api",
                        "page")
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
EVIL = '<img src=x onerror="document.title=`owned`">'


def policy():
    """The Content-Security-Policy of src/service/api/page.rs."""
    with open(PAGE + ".rs", encoding="utf-8") as file:
        text = re.search(r'const POLICY: &str = "(.*?)";', file.read(), re.DOTALL)[1]
    return re.sub(r"\\\n\s*", "", text)


class Answers:
    """Bodies by path; a body may be changed by a test, None is a 404."""

    def __init__(self, nodes, seed=1):
        self.random = random.Random(seed)
        self.down = False
        self.bodies = {"v1/status": self.status(nodes), "v1/heat": self.heat(nodes),
                       "v1/plan": self.plan(), "v1/collectors": self.collectors(nodes),
                       "v1/agents": self.agents(nodes), "v1/data": self.data(nodes),
                       "v1/report": self.report()}

    def status(self, nodes):
        """A healthy daemon."""
        quantiles = {"count": 9000, "mean": 30000, "p50": 27000, "p99": 190000, "max": 900000}
        return {
            "version": "0.1.0", "uptime_s": 86400,
            "config": {"mode": "enforce", "last_error": None},
            "slurm": {"cluster": "tundra", "version": "22.05.8", "reachable": True,
                      "nodes": nodes, "jobs_pending": 620, "jobs_running": 4100},
            "plugin": {"connected": True, "synced": True, "breaker": "closed", "asks": 9000,
                       "ask_ns": quantiles},
            "run_now": {"asked": 8000, "answered": 7600, "narrowed": 7480,
                        "fallen_back": {"topology": 310, "stock-refused": 120, "late": 90}},
            "will_run": {"asked": 1000, "answered": 900, "narrowed": 890,
                         "fallen_back": {"topology": 110}},
            "link": {"answer_ns": quantiles}, "history": {"last_error": None},
            "collect": {"uses": [
                {"key": "share.capability", "name": "cpu_free_ratio", "fallback": "configuration",
                 "origin": "config", "fresh": nodes, "stale": 0},
                {"key": "gang.speed", "name": "rapl_w", "fallback": "history",
                 "origin": "api", "fresh": nodes // 2, "stale": nodes - nodes // 2},
                {"key": "balance.capability", "name": "none", "fallback": "configuration",
                 "origin": "config", "fresh": 0, "stale": 0}]}}

    def report(self):
        """Half a day of queue; leaves and energy known, data jobs not."""
        end = int(time.time() * 1000)
        share = {"used": 0.62, "stranded": 0.031}
        points = [{"time_ms": end - (48 - i) * 900_000, "pending": 400 + 9 * i * (48 - i) / 10,
                   "running": 4000 + 5 * i, "use_of": {"cpu": share}} for i in range(49)]
        return {"cluster": "tundra", "mode": "enforce", "since_ms": end - 86_400_000,
                "until_ms": end, "first_ms": points[0]["time_ms"], "starts": {"enforce": 7480},
                "answers": {"asked": 8000, "with_nodes": 7600, "placed": 7480, "mean_us": 31.5},
                "runs": {"balance": {"runs": 7000, "waits": 7000, "wait_mean_s": 300.0,
                                     "measured": 5000, "joules": 3.6e9},
                         "stock": {"runs": 100, "waits": 0, "wait_mean_s": None, "measured": 0,
                                   "joules": None}},
                "leaves": {"starts": 410, "mean": 1.31, "fewest_mean": 1.28, "on_fewest": 398},
                "locality": None, "days": [], "points": points,
                "use_of": {"cpu": share, "gres/gpu": share},
                "shadow": {"starts": 0, "agreed": 0, "differing": []}}

    def heat(self, nodes):
        """Some GPU nodes, some down, use in neighbourhoods."""
        percent, state, jobs = [[], [], []], [], []
        level = [50.0, 40.0, 30.0]
        gpus = nodes * 2 // 5
        for i in range(nodes):
            level = [min(115, max(-15, x + self.random.gauss(0, 12))) for x in level]
            use = [int(min(100, max(0, x))) for x in level]
            dead = self.random.random() < 0.02
            percent[0].append(0 if dead else use[0])
            percent[1].append(0 if dead else use[1])
            percent[2].append(None if i >= gpus else 0 if dead else use[2] // 25 * 25)
            state.append(0 if dead else 1 if use[0] == 0 else 2)
            jobs.append(0 if dead else use[0] // 20)
        names = [f"gpu{i + 1:05}" if i < gpus else f"cpu{i - gpus + 1:05}" for i in range(nodes)]
        dimensions = [
            {"name": "cpu", "unit": "count", "total": 64.0 * nodes, "used": 35.0 * nodes,
             "stranded": 0.0},
            {"name": "mem", "unit": "MiB", "total": 262144.0 * nodes, "used": 111111.0 * nodes,
             "stranded": 9999.5 * nodes},
            {"name": "gres/gpu", "unit": "count", "total": 4.0 * gpus, "used": 2.5 * gpus,
             "stranded": 0.1 * gpus}]
        return {"dimensions": dimensions, "states": ["DOWN", "IDLE", "MIXED"], "names": names,
                "state": state, "jobs": jobs, "percent": percent}

    def on_leaves(self, sizes, topology="tree"):
        """Puts the first nodes on leaves of these sizes; the rest is on none."""
        heat = self.bodies["v1/heat"]
        leaf = [at for at, size in enumerate(sizes) for _ in range(size)]
        heat["leaves"] = [f"leaf{at + 1:03}" for at in range(len(sizes))]
        heat["leaf"] = (leaf + [None] * len(heat["names"]))[:len(heat["names"])]
        heat["topology"] = topology
        return self

    def plan(self):
        """Some start, most wait."""
        jobs = []
        for i in range(320):
            starts = i < 12
            method = ["balance", "gang", "bag"][i % 3]
            jobs.append({"job_id": 41000 + i, "method": method,
                         "nodes": f"gpu[{i * 4 + 1:05}-{i * 4 + 4:05}]" if starts else "",
                         "reason": None if starts else "2 of 8 nodes have room: gres/gpu is short"})
        return {"epoch": 9, "time_ms": int(time.time() * 1000), "took_ms": 41, "jobs": jobs,
                "not_planned": 300, "methods": [
                    {"method": "gang", "mode": "best", "jobs": 107, "starts": 4, "gap": 0.021,
                     "took_ms": 18, "error": None},
                    {"method": "bag", "mode": "best", "jobs": 106, "starts": 0, "gap": None,
                     "took_ms": 2, "error": EVIL}]}

    def collectors(self, nodes):
        """All states, and a name and an error that try to be markup."""
        def one(name, state, fresh, error=None, kind="collector", every=30000):
            return {"name": name, "kind": kind, "cmd": "builtin:" + name, "every_ms": every,
                    "state": state, "last_error": error,
                    "instances": {"assigned": nodes, "fresh": fresh, "stale": nodes - fresh,
                                  "failing": 0}}
        return {"generation": 3, "collectors": [
            one("cpu_free_ratio", "running", nodes), one("mem_free_mib", "running", nodes),
            one("rapl_w", "failing", nodes // 2, "n1: /sys/class/powercap: no package with RAPL"),
            one("capability_history", "running", nodes, kind="processor", every=60000),
            one("disk_health", "waiting", 0, EVIL), one("old", "stopped", 0)]}

    def data(self, nodes):
        """Ages of two names."""
        return {"names": [{"name": name, "nodes": nodes, "fresh": nodes, "stale": 0,
                           "oldest_age_ms": 31000, "newest_age_ms": 12}
                          for name in ("cpu_free_ratio", "capability_history")]}

    def agents(self, nodes):
        """All but three."""
        return {"agents": [{"node": f"n{i}", "connected": i > 2} for i in range(nodes)]}

    def explain(self, job):
        """Why it waits."""
        return {"job_id": job, "label": str(job), "state": "PENDING", "partition": "gpu",
                "mode": "enforce", "request": {"cpu": "8 per node", "gres/gpu": "4 per node"},
                "placed": None, "asks": [], "pending": {
                    "summary": f"waits for GPUs {EVIL}", "nodes_needed": 8, "eligible": 400,
                    "fits_now": 2, "filters": [{"filter": "features", "removed": 600,
                                                "asked": "a100"}],
                    "blockers": [{"dimension": "gres/gpu", "nodes_lacking": 398,
                                  "least_missing": 2.0}]}}

    def of(self, path):
        """(status, content type, body) of a path."""
        if self.down and path.startswith("v1/"):
            return 503, "application/json", json.dumps({"error": "switched off"}).encode()
        explain = re.fullmatch(r"v1/explain/(\d+)", path)
        body = self.explain(int(explain[1])) if explain else self.bodies.get(path)
        if body is not None:
            return 200, "application/json", json.dumps(body).encode()
        name = "index.html" if path == "" else path
        kind = KINDS.get(os.path.splitext(name)[1])
        if kind and "/" not in name and os.path.exists(os.path.join(PAGE, name)):
            with open(os.path.join(PAGE, name), "rb") as file:
                return 200, kind + "; charset=utf-8", file.read()
        return 404, "application/json", json.dumps({"error": "no such resource"}).encode()


class Stub:
    """Serves answers on a free port of loopback; a context manager."""

    def __init__(self, answers):
        headers = {"Content-Security-Policy": policy()}
        self.requests = requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            """One request."""

            def do_GET(self):
                """Answers it."""
                requests.append(self.path)
                status, kind, body = answers.of(self.path.lstrip("/").split("?")[0])
                self.send_response(status)
                for name, value in (headers | {"Content-Type": kind}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                """Nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
