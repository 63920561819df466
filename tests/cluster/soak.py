#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A long stream of short jobs with churn: do memory, files or answer times grow?

Two clusters take the same jobs, with the overlay and stock, at `--rate` jobs a second each. Most
jobs are of `nobody`, under names never used twice; some of root, who has taught a class before;
arrays, pairs of nodes, cancelled arrays, reloads of the daemon, reconfigures, and restarts of
both daemons in the first tenth, so that what follows is one long piece. Of its second half the
slopes are told: memory and open files of phalanxd and of slurmctld beside stock's, files in the
state directory, p99 of the asks. Before the stream 30,000 runs of as many random names
are imported, more than the table of speeds holds. In the end what Slurm wrote is judged, beside
what stock wrote (tests/judge_history.py).
"""

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time

from judged import Keeper, judge, receipts
from slurmcluster import Cluster, ClusterError
from slurmcluster.conf import PATIENT, write_config
from slurmcluster.pair import boot
from slurmcluster.phalanx import phalanx, phalanx_json

NODES = """NodeName=n[1-4] CPUs=48 Sockets=1 CoresPerSocket=48 RealMemory=64000
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP
"""
EXTRA = ["MinJobAge=20", "SchedulerParameters=bf_interval=5,sched_interval=2,bf_continue,"
                         "batch_sched_delay=1,default_queue_depth=500,max_rpc_cnt=0"]
QUEUE_MAX = 400         # where the machine does not keep up, fewer jobs come
NAMES = 30_000          # imported random names; the table of speeds holds 20,000
RECEIPTS_SINCE, LATE_S = "10min", 5.0    # fewer lines than a report has at most
SAMPLE_S, CHURN_S, KEEP_S = 5.0, 30.0, 8.0
# What may grow in the second half, and still be called level: of a debug build on a busy machine.
LEVEL_MB, LEVEL_FILES = 12.0, 4
TEACHER = "teacher"


class Side(threading.Thread):
    """One cluster's stream; both have the same seed, and so the same jobs in the same order."""

    def __init__(self, cluster, args, end):
        super().__init__(name="stock" if cluster.stock else "phalanx", daemon=True)
        self.cluster, self.args, self.end = cluster, args, end
        self.rng = random.Random(args.seed)
        self.submitted, self.left_out, self.cancelled, self.errors = 0, 0, 0, []
        self.paused = threading.Lock()

    def run(self):
        due = time.monotonic()
        while time.monotonic() < self.end and len(self.errors) < 20:
            with self.paused:
                try:
                    self.second()
                except ClusterError as error:
                    self.errors.append(str(error))
            due += 1.0
            time.sleep(max(0.0, due - time.monotonic()))

    def second(self):
        """The jobs of one second."""
        rate, rng = self.args.rate, self.rng
        names = [f"{rng.getrandbits(60):x}x{''.join(rng.choices('abcdefgh', k=8))}"
                 for _ in range(4)]
        cancels = rng.random() < 0.2
        if len(self.cluster.run("squeue", "-h", "-r", "-o", "%i").stdout.split()) > QUEUE_MAX:
            self.left_out += rate
            return
        part = max(1, (rate - 2) // 3)
        self._submit(part, "-J", TEACHER, wrap="exec sleep 0.2")
        self._submit(part, "-J", names[0], "--uid=nobody", wrap="exit 0")
        self._submit(1, "-J", names[1], "--uid=nobody", "-N2", "-n2", wrap="exit 0")
        self._submit(1, "-J", names[2], "--uid=nobody", "--mem=2000", wrap="exec sleep 1")
        job = self._submit(max(1, rate - 2 - 2 * part), "-J", names[3], "--uid=nobody",
                           wrap="exec sleep 5" if cancels else "exit 0")
        if cancels:
            self.cluster.run("scancel", job, check=False)
            self.cancelled += 1

    def _submit(self, tasks, *options, wrap):
        array = [f"--array=1-{tasks}"] if tasks > 1 else []
        self.submitted += tasks
        return self.cluster.submit("-n1", "-t1", "-D", "/", *array, *options, wrap=wrap)


def process_of(cluster, role):
    """(MB resident, open files, threads) of a daemon; None while it is away."""
    pid = cluster.process(role).pid
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            rows = dict(line.split(":", 1) for line in file)
        return (int(rows["VmRSS"].split()[0]) / 1024, len(os.listdir(f"/proc/{pid}/fd")),
                int(rows["Threads"]))
    except (OSError, KeyError):
        return None


def sample(ours, stock, at):
    """One row of the report."""
    row = {"at_s": round(at, 1)}
    for name, cluster, role in (("phalanxd", ours, "phalanxd"), ("slurmctld", ours, "slurmctld"),
                                ("stock", stock, "slurmctld")):
        found = process_of(cluster, role)
        if found:
            row[f"{name}_mb"], row[f"{name}_fds"], row[f"{name}_threads"] = found
    row["state_files"] = len(os.listdir(ours.paths.state))
    row["stock_state_files"] = len(os.listdir(stock.paths.state))
    row["var_mb"] = sum(entry.stat().st_size for entry in os.scandir(ours.paths.var)
                        if entry.is_file()) / 2**20
    row["overlay_files"] = len([name for name in os.listdir(ours.paths.state)
                                if name.startswith("phalanx")])
    with contextlib.suppress(ClusterError):
        status = phalanx_json(ours, "status")
        row["asks"], row["late"] = status["plugin"]["asks"], status["plugin"]["late_answers"]
        row["narrowed"] = status["plugin"]["narrowed"]
        row["buckets"] = status["plugin"]["ask_ns"]["buckets"]
        row["dropped"] = status["history"]["dropped"]
    return row


def churn(ours, stock, sides, number):
    """What administrators do: a reload, a reconfigure on both sides, in turn."""
    if number % 2:
        phalanx(ours, "daemon", "reload")
        return
    for cluster, side in zip((ours, stock), sides):
        with side.paused:
            cluster.run("scontrol", "reconfigure", check=False)


def restart(ours, stock, sides):
    """Both slurmctld in order, the daemon by SIGKILL; no job is lost by either."""
    ours.signal_phalanxd(signal.SIGKILL)
    time.sleep(2)
    ours.start_phalanxd()
    for cluster, side in zip((ours, stock), sides):
        with side.paused:
            cluster.restart_slurmctld()


def p99(first, last):
    """The 99th percentile of the asks between two samples, in microseconds."""
    before = dict(map(tuple, first.get("buckets", [])))
    if sum(before.values()) > sum(count for _, count in last.get("buckets", [])):
        before = {}     # slurmctld was restarted between them
    counts = [(edge, count - before.get(edge, 0)) for edge, count in last.get("buckets", [])]
    total, seen = sum(count for _, count in counts), 0
    for edge, count in sorted(counts):
        seen += count
        if total and seen >= 0.99 * total:
            return edge / 1000
    return 0.0


def slope(rows, key):
    """(growth over the rows by least squares, growth in an hour)."""
    points = [(row["at_s"], row[key]) for row in rows if key in row]
    if len(points) < 3:
        return 0.0, 0.0
    mean_x, mean_y = (sum(column) / len(points) for column in zip(*points))
    square = sum((x - mean_x) ** 2 for x, _ in points) or 1.0
    per_s = sum((x - mean_x) * (y - mean_y) for x, y in points) / square
    return per_s * (points[-1][0] - points[0][0]), per_s * 3600


def teach(ours, count):
    """Root's class from real runs, then so many random names of nobody by an import."""
    jobs = [ours.submit("-n1", "-J", TEACHER, "--array=1-10", wrap="sleep 1")]
    ours.wait_jobs(jobs)
    if not count:
        return
    lines = ["JobID|User|JobName|State|Start|End|NodeList|ReqTRES"]
    now = time.time() - 7200
    for at in range(count):
        begun, ended = (time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now + each))
                        for each in (at % 3600, at % 3600 + 5))
        letters = "".join("abcdefghij"[int(digit)] for digit in str(at))
        lines.append(f"{900_000 + at}|nobody|random{letters}|COMPLETED|{begun}|{ended}|n1|"
                     "billing=1,cpu=1,mem=100M,node=1")
    path = os.path.join(os.path.dirname(ours.paths.root), "runs.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    phalanx(ours, "history", "import", path, timeout=300)


def taught(ours):
    """(classes in the table, runs of root's class)."""
    done = phalanx(ours, "history", "speeds", "--json", timeout=300)   # tens of megabytes
    classes = json.loads(done.stdout)["classes"]
    return len(classes), sum(c["runs"] for c in classes if f"/{TEACHER}/" in c["class"])


def report(rows, sides, before, after):
    """Prints the slopes of the second half; the problems."""
    half = rows[len(rows) // 2:]
    growth = {}
    print(f"second half, {half[0]['at_s']:.0f} s to {half[-1]['at_s']:.0f} s:")
    for key in ("phalanxd_mb", "slurmctld_mb", "stock_mb", "phalanxd_fds", "slurmctld_fds",
                "stock_fds", "phalanxd_threads", "slurmctld_threads", "stock_threads",
                "state_files", "stock_state_files", "overlay_files", "var_mb"):
        growth[key], hourly = slope(half, key)
        values = [row[key] for row in half if key in row]
        if values:
            print(f"  {key:<18} {min(values):8.1f} to {max(values):8.1f}, "
                  f"{growth[key]:+7.2f} in it, {hourly:+8.2f} an hour")
    quarter = len(rows) // 4
    quarters = [p99(rows[quarter * i], rows[quarter * (i + 1) - 1]) for i in range(4)]
    print(f"  p99 of the asks by quarter [us]: {', '.join(f'{each:.0f}' for each in quarters)}; "
          f"late {half[-1].get('late')} of {half[-1].get('asks')}, narrowed "
          f"{half[-1].get('narrowed')}; records dropped {half[-1].get('dropped')}")
    for side in sides:
        print(f"  {side.name}: {side.submitted} jobs submitted, {side.cancelled} arrays cancelled, "
              f"{side.left_out} left out as the queue was long, {len(side.errors)} errors "
              f"{side.errors[:3]}")
    print(f"  classes in the table of speeds, runs of {TEACHER!r}: {before} before the names, "
          f"{after} in the end")
    problems = [f"{key} grew by {growth[key] - less:.1f}" for key, less, most in (
        ("phalanxd_mb", 0.0, LEVEL_MB), ("slurmctld_mb", max(0.0, growth["stock_mb"]), LEVEL_MB),
        ("phalanxd_fds", 0.0, LEVEL_FILES), ("slurmctld_fds", 0.0, LEVEL_FILES),
        ("overlay_files", 0.0, LEVEL_FILES), ("phalanxd_threads", 0.0, LEVEL_FILES))
        if growth[key] - less > most]
    if after[1] < before[1] or after[0] > 20_000:
        problems.append(f"root's class or the bound of the table was lost: {before}, {after}")
    if any(side.errors for side in sides):
        problems.append("commands failed")
    return problems


def soak(ours, stock, args):
    """The stream, its samples and churn; the problems."""
    teach(ours, 0)
    before = taught(ours)
    teach(ours, NAMES)
    begin = time.monotonic()
    end = begin + 60 * args.minutes
    sides = [Side(cluster, args, end) for cluster in (ours, stock)]
    for side in sides:
        side.start()
    rows, churned, restarted = [], 0, 0
    while time.monotonic() < end:
        at = time.monotonic() - begin
        rows.append(sample(ours, stock, at))
        if restarted < args.restarts and \
                at > (restarted + 1) * 6 * args.minutes / (args.restarts + 1):
            restart(ours, stock, sides)
            restarted += 1
        elif at > (churned + 1) * CHURN_S:
            churn(ours, stock, sides, churned)
            churned += 1
        if args.report:
            with open(args.report, "w", encoding="utf-8") as file:
                json.dump(rows, file)
        time.sleep(SAMPLE_S)
    for side in sides:
        side.join()
    return report(rows, sides, before, taught(ours))


def options():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120.0, help="of the stream")
    parser.add_argument("--rate", type=int, default=20, help="jobs a second on each cluster")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--restarts", type=int, default=3, help="of both daemons, at the start")
    parser.add_argument("--report", help="file of all samples, JSON")
    return parser.parse_args()


def main():
    """Both clusters, the stream, the report."""
    args = options()
    with tempfile.TemporaryDirectory(prefix="phx-soak-") as root:
        os.chmod(root, 0o755)
        place = os.path.join(root, "c")
        extras = [[*EXTRA, "JobCompType=jobcomp/filetxt", f"JobCompLoc={root}/{name}.jobcomp"]
                  for name in "cs"]
        clusters = [Cluster(place, nodes=NODES, extra=extras[0],
                            config=write_config(place, PATIENT)),
                    Cluster(os.path.join(root, "s"), nodes=NODES, extra=extras[1], stock=True)]
        boot(clusters)
        try:
            with contextlib.ExitStack() as stack:
                keepers = [stack.enter_context(Keeper(each, KEEP_S)) for each in clusters]
                problems = soak(*clusters, args)
                broken, verdict = judge(keepers, ({}, {}))
                wrong, receipt = receipts(keepers[0], RECEIPTS_SINCE, LATE_S)
            print(verdict + receipt, end="")
            problems += broken[:1] + wrong
        finally:
            for cluster in clusters:
                cluster.down()
    print(f"seed {args.seed}, {args.minutes:.1f} min at {args.rate} jobs a second: "
          f"{'; '.join(problems) or 'level'}")
    return 1 if problems else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
