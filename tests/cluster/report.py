#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an administrator sees: report, top, completion, and a real Prometheus.

On a cluster with slurmdbd jobs run under Phalanx. `phalanx report` must say what happened and
nothing that is not known; the documented line of sacct must give the simulated part and the page;
a real Prometheus (Debian's package, unpacked into the suite's directory) must scrape the daemon,
find every alert rule well and every expression of the dashboard about metrics that there are.
"""

import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request

from slurmcluster import Cluster
from slurmcluster.conf import PROMPT, write_config
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.ports import free_port
from slurmcluster.suite import Cases, Suite, command_line, run

JOBS = 12
BEGIN_S = 25         # longer than any of these jobs waits for nodes
MONITORING = os.path.join(os.path.dirname(__file__), "..", "..", "config", "monitoring")
# Metrics that a small quiet cluster has not: nothing has fallen back, nothing is proven.
RARE = {"phalanx_plan_gap_ratio", "phalanx_fallbacks_total", "phalanx_collector_failing_nodes",
        "phalanx_data_nodes", "phalanx_data_oldest_age_seconds", "phalanx_use_nodes",
        "phalanx_breaker_breaches_total", "phalanx_agents", "phalanx_agent_values_dropped_total"}
case = Cases()


class Report(Suite):
    """The cluster, its listener and its jobs."""

    def __init__(self, cluster, root, port):
        super().__init__(cluster)
        self.root, self.port = root, port

    def shell(self, line):
        """Runs a line as the documents have it, with this cluster's programs."""
        path = f"{self.cluster.paths.bin_dir}:{os.environ['PATH']}"
        done = self.cluster.run("bash", "-o", "pipefail", "-c", f"export PATH='{path}'; {line}",
                                check=False, timeout=60)
        self.expect(done.returncode == 0, f"{line}: {done.returncode}\n{done.stderr}")
        return done.stdout


@case
def nothing_is_made_up(suite):
    """Before any job: what is not known is said so, and is no zero."""
    text = phalanx(suite.cluster, "report", "--since", "1h").stdout
    for words in ("Jobs that ended  unknown", "Waits            unknown",
                  "Energy           unknown", "Leaf switches    unknown"):
        suite.expect(words in text, f"{words!r} is missing:\n{text}")
    found = phalanx_json(suite.cluster, "report", "--since", "1h")["activity"]
    suite.expect(found["leaves"] is None and found["runs"] == {}, json.dumps(found))


@case
def what_happened(suite):
    """After some jobs: starts, waits and use, with the sentence first."""
    jobs = [suite.cluster.submit("-n1", "-c2", "-t1", wrap="sleep 1") for _ in range(JOBS)]
    suite.cluster.wait_jobs(jobs, 90)

    def known():
        found = phalanx_json(suite.cluster, "report", "--since", "1h")["activity"]
        ended = sum(row["runs"] for row in found["runs"].values())
        return found if ended >= JOBS and found["use_of"] else None
    found = suite.until(known, "runs and samples to be recorded", 30)
    suite.expect(found["answers"]["placed"] > 0, json.dumps(found["answers"]))
    waits = [row["wait_mean_s"] for row in found["runs"].values()]
    suite.expect(all(wait is not None and 0 <= wait < 90 for wait in waits), str(waits))
    text = phalanx(suite.cluster, "report", "--since", "1h").stdout
    suite.expect(text.startswith("Phalanx chose the nodes of "), text)
    suite.expect(all(len(line) <= 100 for line in text.splitlines()), text)


@case(needs=["what-happened"])
def last_month(suite):
    """The documented lines: sacct into the report with its page, and into simulate."""
    def listed():
        rows = suite.shell("sacct -a -X -P -n -S now-30days -E now -o JobID,State").split()
        return sum(row.endswith("COMPLETED") for row in rows) >= JOBS
    suite.until(listed, "slurmdbd to know the jobs", 30)
    page = os.path.join(suite.root, "report.html")
    text = suite.shell("sacct -a -X -P -S now-30days -E now -o ALL | "
                       f"phalanx report --sacct - --html {page}")
    verdicts = ("Install: ", "No difference: ", "Do not install: ")
    suite.expect(f"{JOBS} jobs of standard" in text and any(of in text for of in verdicts), text)
    with open(page, encoding="utf-8") as file:
        html = file.read()
    suite.expect(html.count("<svg") >= 3 and "<script" not in html, html[:500])
    conf = suite.cluster.paths.slurm_conf
    said = suite.shell(f"sacct -a -X -P -S now-30days -E now -o ALL > {suite.root}/month.txt; "
                       f"PHALANX_SOCKET=/nowhere phalanx report --sacct {suite.root}/month.txt "
                       f"--slurm-conf {conf} --json")
    found = json.loads(said)
    suite.expect(found["activity"] is None and found["simulated"]["slurm"]["jobs"] == JOBS, said)
    lines = suite.shell("sacct -a -X -P -S now-30days -E now -o ALL | phalanx simulate --jobs - "
                        "--format sacct --nodes '4x(cpu=8,mem=16G)'").splitlines()
    suite.expect([json.loads(line)["jobs"] for line in lines] == [JOBS] * len(lines), str(lines))
    suite.expect(len(lines) >= 2, "policies side by side")


class Prometheus:
    """A Prometheus that scrapes the cluster's daemon with the rules of the repository."""

    def __init__(self, root, daemon_port):
        self.root, self.port = root, free_port()
        self.programs = self.unpacked()
        rules = os.path.join(MONITORING, "phalanx.rules.yml")
        with open(os.path.join(root, "prometheus.yml"), "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                       "rule_files": [os.path.abspath(rules)],
                       "scrape_configs": [{"job_name": "phalanx", "static_configs": [
                           {"targets": [f"127.0.0.1:{daemon_port}"]}]}]}, file)

    def unpacked(self):
        """Directory of prometheus and promtool: the machine's, else of Debian's package."""
        there = shutil.which("prometheus")
        if there and shutil.which("promtool"):
            return os.path.dirname(there)
        place = os.path.join(self.root, "package")
        os.makedirs(place)
        subprocess.run(["apt-get", "download", "prometheus"], cwd=place, check=True,
                       capture_output=True)
        package, = glob.glob(os.path.join(place, "*.deb"))
        subprocess.run(["dpkg", "-x", package, place], check=True)
        return os.path.join(place, "usr", "bin")

    def promtool(self, *words, stdin=None):
        """Runs promtool; returns CompletedProcess."""
        return subprocess.run([os.path.join(self.programs, "promtool"), *words], input=stdin,
                              capture_output=True, text=True, check=False)

    def __enter__(self):
        with open(os.path.join(self.root, "prometheus.log"), "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [os.path.join(self.programs, "prometheus"),
                 f"--config.file={self.root}/prometheus.yml",
                 f"--storage.tsdb.path={self.root}/tsdb",
                 f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)

    def ask(self, path, **query):
        """The data of an answer of its API; None while it does not answer."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                return json.load(reply)["data"]
        except OSError:
            return None


def expressions():
    """Every expression of the dashboard, as Grafana would send it."""
    with open(os.path.join(MONITORING, "phalanx-dashboard.json"), encoding="utf-8") as file:
        dashboard = json.load(file)
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)), "panels of one id"
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, f"{panel['title']} is beyond the grid"
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
    return [text.replace("$__rate_interval", "5m").replace("$__interval", "1m") for text in found]


@case(needs=["what-happened"])
def waits_count_from_eligibility(suite):
    """A job that asks for a later begin, and its dependant, waited for neither."""
    before = phalanx_json(suite.cluster, "report", "--since", "1h")["activity"]
    first = suite.cluster.submit("-n1", "-t1", f"--begin=now+{BEGIN_S}", wrap="sleep 1")
    second = suite.cluster.submit("-n1", "-t1", f"--dependency=afterany:{first}", wrap="true")
    suite.cluster.wait_jobs([first, second], 90)
    ended = lambda of: sum(row["runs"] for row in of["runs"].values())  # noqa: E731

    def known():
        found = phalanx_json(suite.cluster, "report", "--since", "1h")["activity"]
        return found if ended(found) >= ended(before) + 2 else None
    found = suite.until(known, "the runs to be recorded", 30)
    for row in found["runs"].values():
        suite.expect(row["wait_max_s"] < BEGIN_S and row["waits_from_submit"] == 0, str(row))


@case(needs=["what-happened"])
def a_real_prometheus(suite):
    """It scrapes, its parser takes rules and expressions, and they are about what there is."""
    place = os.path.join(suite.root, "prometheus")
    os.makedirs(place)
    server = Prometheus(place, suite.port)
    rules = server.promtool("check", "rules", os.path.join(MONITORING, "phalanx.rules.yml"))
    suite.expect(rules.returncode == 0 and "SUCCESS" in rules.stdout, rules.stderr + rules.stdout)
    written = os.path.join(os.path.dirname(suite.cluster.paths.control_socket), "metrics.prom")

    def counted():
        with open(written, encoding="utf-8") as file:
            text = file.read()
        return text if 'phalanx_wait_seconds_bucket{partition="' in text else None
    text = suite.until(counted, "the file of metrics to count waits", 40)
    # 3: what it would rather have, such as another name; 1: what it cannot read.
    read = server.promtool("check", "metrics", stdin=text)
    suite.expect(read.returncode in (0, 3), read.stderr + read.stdout)
    with server:
        def scraped():
            data = server.ask("targets", state="active")
            return data and [t["health"] for t in data["activeTargets"]] == ["up"]
        suite.until(scraped, "the first scrape", 60)
        target = server.ask("targets", state="active")["activeTargets"][0]
        suite.expect(target["lastError"] == "", target["lastError"])

        def judged():
            data = server.ask("rules")
            rows = [row for group in data["groups"] for row in group["rules"]]
            return rows if all(row["health"] != "unknown" for row in rows) else None
        rows = suite.until(judged, "the rules to be judged", 60)
        for row in rows:
            suite.expect(row["health"] == "ok", f"{row['name']}: {row.get('lastError')}")
        firing = [row["name"] for row in rows if row["state"] == "firing"]
        suite.expect(not firing, f"alerts on a healthy cluster: {firing}")
        names = set(server.ask("label/__name__/values"))
        texts = expressions() + [row["query"] for row in rows]
        for text in texts:
            data = server.ask("query", query=text)
            suite.expect(data is not None, f"Prometheus refuses {text}")
            for name in set(re.findall(r"\bphalanx_\w+", text)) - names - RARE:
                # A label has the name of its state set's metric.
                suite.expect(f'{name}=' in text, f"there is no {name}: {text}")
        print(f"    {len(names)} metrics, {len(rows)} rules, {len(expressions())} expressions")


@contextlib.contextmanager
def setting(root, _args):
    """One cluster with accounting whose daemon listens for everybody."""
    port, place = free_port(), os.path.join(root, "c")
    listen = f'[control]\nlisten = "127.0.0.1:{port}"\npublic_read = "all"\n'
    with Cluster(place, config=write_config(place, PROMPT + listen), slurmdbd=True) as cluster:
        yield Report(cluster, root, port)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
