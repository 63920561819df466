#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Phalanx beside a Slurm that has no overlay: all that only reads, compared with what Slurm says.

So it is with a release of Slurm whose own headers nobody has given: Slurm places jobs by itself,
and the daemon reads its tables through libslurm. A full cluster of 16 nodes with jobs of all
kinds: what the daemon knows of jobs and nodes must be what scontrol and sprio say; history,
accounting, collectors, recording, simulation and the look ahead must work; the doctor must say
that the overlay is missing, and what builds it.
"""

import contextlib
import html
import json
import os
import re
import struct
import sys

from slurmcluster import Cluster
from slurmcluster.conf import PROMPT, write_config
from slurmcluster.dbd import ACCOUNT, sacctmgr
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.suite import Cases, Suite, check, command_line, run

TOML = PROMPT + """\
[order]
by = "learned"
short_s = 604800
"""
case = Cases()


class Beside(Suite):
    """The cluster and the jobs on it."""

    def __init__(self, cluster):
        super().__init__(cluster)
        self.ids = {}   # by what the job is for

    def explain(self, job):
        """What the daemon says of a job; None while it does not know it."""
        done = phalanx(self.cluster, "explain", str(job), "--json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def status(self):
        """The daemon's status."""
        return phalanx_json(self.cluster, "status")

    def records(self):
        """{job as users write it: its record}."""
        found = {}
        for record in self.cluster.jobs():
            name = record["JobId"]
            if "ArrayTaskId" in record:
                name = f"{record['ArrayJobId']}_{record['ArrayTaskId']}"
            elif "HetJobOffset" in record:
                name = f"{record['HetJobId']}+{record['HetJobOffset']}"
            found[name] = record
        return found


@case(where="full")
def jobs_run(suite):
    """Slurm runs jobs of all kinds by itself: arrays, het jobs, GPUs, whole nodes, steps"""
    submit, out = suite.cluster.submit, os.path.join(suite.cluster.paths.root, "steps")
    steps = submit("-N2", "-n2", wrap=f"srun -l hostname > {out}")
    ended = [steps, submit("-n1", "--array=0-3", wrap="true"), submit("-n1", wrap="exit 3")]
    suite.cluster.wait_jobs(ended)
    with open(out, encoding="utf-8") as file:
        check(len(file.readlines()) == 2, "a step of two tasks has not run on both nodes")
    suite.ids = {
        "array": submit("-n2", "--mem=900", "--array=1-3", wrap="sleep 600"),
        "het": submit("-n1", "--mem=100", ":", "-n3", "--mem=300", wrap="sleep 600"),
        "gpu": submit("-pgpu", "-N4", "-n4", "--gres=gpu:4", "-t60", wrap="sleep 600"),
        "whole": submit("-N1", "-Ccpu", "--exclusive", wrap="sleep 600"),
    }
    suite.cluster.wait_jobs(suite.ids.values(), states={"RUNNING"})
    # No node with so many GPUs is left, so that these wait.
    suite.ids["long"] = submit("-pgpu", "-N1", "--gres=gpu:3", "-t90", wrap="sleep 600")
    suite.ids["short"] = submit("-pgpu", "-N1", "--gres=gpu:3", "-t10", wrap="sleep 600")
    suite.ids["held"] = submit("--hold", "-n1")
    suite.ids["ended"] = ended


@case(needs=["jobs_run"], where="full")
def jobs_agree(suite):
    """State, partition, user, reason and size of every job are Slurm's"""
    def states(record):
        return record["JobState"], record["Partition"]

    def agree():
        return all((told := suite.explain(name)) and
                   (told["state"], told["partition"]) == states(record)
                   for name, record in records.items())
    records = suite.records()
    suite.until(agree, f"all of {len(records)} jobs are as in {records.keys()}", 15)
    waiting = {name: record for name, record in records.items()
               if record["JobState"] == "PENDING"}
    running = [name for name, record in records.items() if record["JobState"] == "RUNNING"]
    for name, record in waiting.items():
        told = suite.explain(name)["pending"]
        # A job may wait for another reason since.
        reasons = record["Reason"], suite.cluster.job(name)["Reason"]
        suite.expect(told["slurm_reason"] in reasons, f"{name}: {told} for {reasons}")
    ask = suite.explain(f"{suite.ids['array']}_2")["request"]
    suite.expect("2 in all" in ask["cpu"] and "900 MiB per node" in ask["mem"], f"array: {ask}")
    ask = suite.explain(f"{suite.ids['het']}+1")["request"]
    suite.expect("3 in all" in ask["cpu"] and "300 MiB per node" in ask["mem"], f"het: {ask}")
    ask = suite.explain(suite.ids["gpu"])["request"]
    suite.expect("4 per node" in ask.get("gres/gpu", ""), f"gpu: {ask}")
    told = suite.status()["slurm"]
    counts = told["jobs_pending"], told["jobs_running"]
    suite.expect(counts == (len(waiting), len(running)),
                 f"{counts} pending and running, {len(waiting)} and {len(running)} in Slurm")
    suite.summary = f"{len(records)} jobs"


@case(needs=["jobs_run"], where="full")
def nodes_agree(suite):
    """CPUs, memory and GPUs in use on every node are Slurm's"""
    def amounts(record):
        used = re.search(r"gpu:\S*?(\d+)(?:\(|,|$)", record.get("GresUsed", ""))
        return {"cpu": int(record["CPUAlloc"]), "mem": int(record["AllocMem"]),
                **({"gres/gpu": int(used.group(1))} if used else {})}

    def difference():
        detail = suite.cluster.scontrol_records("node", "-d")
        slurm = {record["NodeName"]: amounts(record) for record in detail}
        report = phalanx_json(suite.cluster, "nodes")
        names = [each["name"] for each in report["dimensions"]]
        ours = {node["name"]: dict(zip(names, node["used"])) for node in report["nodes"]}
        suite.summary = f"{len(slurm)} nodes"
        return {name: (told, ours.get(name)) for name, told in slurm.items()
                if not told.items() <= (ours.get(name) or {}).items()}
    suite.until(lambda: not difference(), f"the same in {difference()}", 10)
    busy = sum(record["CPUAlloc"] != "0" for record in suite.cluster.nodes())
    check(busy >= 6, f"{busy} nodes are busy")


@case(needs=["jobs_run"], where="full")
def order_is_read(suite):
    """The queue is read in Slurm's order; without the overlay no priority is touched"""
    ids = suite.ids["long"], suite.ids["short"]
    suite.until(lambda: all((suite.explain(job) or {}).get("pending") for job in ids), "both wait")
    places = [suite.explain(job)["pending"]["queue_position"] for job in ids]
    suite.expect(places == sorted(places), f"places in the queue: {places}")
    order = {job["job_id"]: job for job in phalanx_json(suite.cluster, "plan")["jobs"]}
    for job in ids:
        suite.expect(job in order and not order[job]["delta"], f"plan of {job}: {order.get(job)}")
        factor = suite.cluster.run("sprio", "-h", "-j", str(job), "-o", "%S").stdout.split()
        suite.expect(factor == ["0"], f"site factor of {job}: {factor}")


def ledger_of(entries):
    """The overlay's ledger, as plugin/ledger.c writes it, of {job: (site factor, that of ours)}."""
    zero, body, offset = 1 << 31, b"", 0xcbf29ce484222325
    for job, (base, ours) in sorted(entries.items()):
        body += struct.pack("16I", job, 0, zero + base, 0, 1, 0, 0, 0, 1, zero + ours, *[0] * 6)
    for byte in body:
        offset = (offset ^ byte) * 0x100000001b3 % (1 << 64)
    return struct.pack("8sQ2I", b"PHLXODR2", offset, len(entries), 64) + body


@case(needs=["jobs_run"], where="full")
def restores(suite):
    """What a lost overlay left in priorities is found by the doctor and taken away"""
    cluster, (long, short) = suite.cluster, (suite.ids["long"], suite.ids["short"])
    path = os.path.join(cluster.paths.state, "phalanx_order")
    with open(path, "wb") as file:
        file.write(ledger_of({long: (0, 600), short: (7, 500)}))
    for job in (long, short):
        cluster.run("scontrol", "update", f"JobId={job}", "SiteFactor=500")
    suite.expect("order-ledger" in phalanx(cluster, "doctor", check=False).stdout, "not found")
    told = phalanx_json(cluster, "daemon", "restore")
    factors = [cluster.run("sprio", "-h", "-j", str(job), "-o", "%S").stdout.strip()
               for job in (long, short)]
    suite.expect(factors == ["500", "7"] and not told["left"], f"{factors}: {told}")
    cluster.run("scontrol", "update", f"JobId={long}", "SiteFactor=0")
    os.utime(path, (0, 0))
    suite.expect(phalanx_json(cluster, "daemon", "restore")["ledger_removed"], "the ledger stays")


@case(needs=["jobs_run"], where="full")
def history(suite):
    """Runs that have ended are recorded, each once"""
    wanted = suite.ids["ended"]
    steps, tasks, failed = str(wanted[0]), [f"{wanted[1]}_{i}" for i in range(4)], str(wanted[2])

    def runs():
        return phalanx_json(suite.cluster, "history", "runs", "--limit", "1000")["runs"]
    suite.until(lambda: {steps, *tasks, failed} <= {each["job"] for each in runs()}, "recorded")
    names = [each["job"] for each in runs()]
    suite.expect(len(names) == len(set(names)), f"runs twice: {names}")
    state = {each["job"]: (each["state"], each["exit_code"]) for each in runs()}
    suite.expect(state[failed] == ("FAILED", 3) and state[steps] == ("COMPLETED", 0), f"{state}")


@case(where="full")
def collectors(suite):
    """Collectors run on nodes and their values arrive"""
    for node in ("cpu1", "gpu1"):
        suite.cluster.start_agent(node, "--master", f"unix:{suite.cluster.paths.control_socket}")
    phalanx(suite.cluster, "collector", "add", "load", "--cmd", "builtin:load1",
            "--every", "500ms", "--nodes", "cpu1,gpu1")

    def fresh():
        rows = phalanx_json(suite.cluster, "collector", "data", "load")["values"]
        return {row["node"] for row in rows if not row["stale"]} == {"cpu1", "gpu1"}
    suite.until(fresh, "a value of each of the two")


@case(needs=["jobs_run"], where="full")
def looks_ahead(suite):
    """plan --config simulates the live queue: the jobs that wait start"""
    told = phalanx_json(suite.cluster, "plan", "--config", suite.cluster.paths.phalanx_toml)
    suite.expect(told["today"]["starts"] >= 2 and told["pending"] >= 2, f"{told}")
    suite.expect(told["today"] == told["then"], "the same configuration, other figures")


@case(needs=["jobs_run"], where="full")
def simulates(suite):
    """A recording of the live queue is simulated and replayed"""
    phalanx(suite.cluster, "record", "start", "--for", "10min")
    more = [suite.cluster.submit("-n1", "-t1", wrap="true") for _ in range(5)]
    suite.cluster.wait_jobs(more)
    suite.until(lambda: suite.explain(more[-1]) is None
                or suite.explain(more[-1])["state"] == "COMPLETED", "seen by the daemon")
    ended = phalanx_json(suite.cluster, "record", "stop")
    suite.expect(ended["gaps"] == 0 and not ended["last_error"], f"{ended}")
    folder = os.path.join(suite.cluster.paths.var, "recordings")
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    words = [word for file in files for word in ("--jobs", file)]
    done = phalanx(suite.cluster, "simulate", "--policy", "stock", "--policy", "phalanx", *words)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    suite.expect([row["policy"] for row in rows] == ["stock", "phalanx"], f"{rows}")
    suite.expect(all(row["jobs"] >= len(more) for row in rows), f"{rows}")
    replay = phalanx_json(suite.cluster, "record", "replay", *files)
    suite.expect(replay["differing"] == 0 and not replay["broken"], f"{replay}")


@case(where="full")
def doctor(suite):
    """The doctor names the missing overlay, the command that builds it, and both releases"""
    version = suite.cluster.release.version
    done = phalanx(suite.cluster, "doctor", "--json", "--config",
                   suite.cluster.paths.phalanx_toml, check=False)
    found = {each["check"]: each for each in json.loads(done.stdout)["findings"]}
    missing = found.get("overlay", {})
    suite.expect(missing.get("level") == "error" and version in missing["what"], f"{found}")
    suite.expect("phalanx-overlay build --source" in missing.get("fix", ""), f"{missing}")
    suite.expect(version in found["libslurm"]["what"] and found["libslurm"]["level"] == "ok",
                 f"{found.get('libslurm')}")
    wrong = {name for name, each in found.items() if each["level"] in ("error", "warning")}
    suite.expect(wrong == {"overlay", "plugin"}, f"{[found[name] for name in wrong]}")
    daemon = os.path.join(suite.cluster.paths.bin_dir, "phalanxd")
    said = suite.cluster.run(daemon, "--version").stdout
    suite.expect(f"built for Slurm {suite.cluster.release.name} " in said, said)


@case(where="full")
def comes_and_goes(suite):
    """slurmctld and the daemon are restarted, and the daemon reads on"""
    suite.cluster.restart_slurmctld()
    suite.cluster.stop_phalanxd()
    suite.cluster.start_phalanxd()
    suite.until(lambda: suite.status()["slurm"]["reachable"], "slurmctld is read again")
    told = suite.status()
    suite.expect(not told["plugin"]["connected"], "a plugin is connected, of which there is none")
    suite.expect(told["slurm"]["version"] == suite.cluster.release.version, f"{told['slurm']}")


@case(where="accounting")
def accounting(suite):
    """slurmdbd's accounting is read by sacct and imported, each run once"""
    jobs = [suite.cluster.submit("-n1", wrap="sleep 1") for _ in range(3)]
    suite.cluster.wait_jobs(jobs)

    def imported():
        words = ("history", "import", "--sacct", "--since", "1h", "--json")
        return json.loads(phalanx(suite.cluster, *words).stdout)
    suite.until(lambda: (told := imported())["known"] + told["new"] >= len(jobs), "accounted")
    suite.expect(imported()["new"] == 0, "imported twice")


# Kinds of jobs that never start: options of sbatch, and what is said of each.
NEVER = {
    "licensed": (("-Lmatlab:3",), "it asks for 3 licences matlab, there are 2"),
    "long": (("-pshort", "-t2:00:00"), "its time limit is 02:00:00, MaxTime of short 00:30:00"),
    "wide": (("-pshort", "-N3"), "it asks for 3 nodes, MaxNodes of short is 2"),
    "narrow": (("-ppair", "-N1-1"), "it asks for 1 node, MinNodes of pair is 2"),
    "slow": (("--qos=small", "-t30"), "it asks for more than one job may have (QOSMaxWall"),
    "large": (("--qos=small", "-n5"), "it asks for more than one job may have (QOSMaxCpuPerJob"),
    "orphan": (("-d", "afterok:FAILED"), "a job that it depends on did not end as"),
    "odd": (("-Crare",), "no nodes have what --constraint asks for"),
    "least": (("--qos=big",), "it asks for less than a job has to (QOSMinCpu"),
}
ONDEMAND = os.path.join(os.path.dirname(__file__), "..", "..", "config", "ondemand")
APP = "import passenger_wsgi; print(b''.join(passenger_wsgi.application({}, print)).decode())"


@case(where="accounting")
def never_starts(suite):
    """Of each kind of job that can never start it is said so, why, and on the app's page too"""
    cluster = suite.cluster
    failed = cluster.submit(wrap="false")
    # Each is held until what it asks for is gone.
    jobs = {"licensed": cluster.submit("-H", *NEVER["licensed"][0])}
    suite.until(lambda: suite.explain(jobs["licensed"]), "the daemon has read the licences")
    with open(cluster.paths.slurm_conf, encoding="utf-8") as file:
        text = file.read()
    with open(cluster.paths.slurm_conf, "w", encoding="utf-8") as file:
        file.write(text.replace("matlab:3", "matlab:2"))
    cluster.run("scontrol", "reconfigure")
    suite.until(lambda: "Total=2" in cluster.run("scontrol", "show", "licenses").stdout, "two")
    cluster.run("scontrol", "create", "partition=short", "nodes=cpu[1-4]", "maxtime=30",
                "maxnodes=2")
    cluster.run("scontrol", "create", "partition=pair", "nodes=cpu[1-4]", "minnodes=2")
    cluster.run("scontrol", "update", "nodename=cpu1", "availablefeatures=rare",
                "activefeatures=rare")
    sacctmgr(cluster, "add", "qos", "small", "MaxWall=10", "MaxTRESPerJob=cpu=4")
    sacctmgr(cluster, "add", "qos", "big", "MinTRESPerJob=cpu=4")
    sacctmgr(cluster, "add", "qos", "tight", "GrpTRES=cpu=2")
    sacctmgr(cluster, "modify", "account", ACCOUNT, "set", "qos+=small,big,tight")
    cluster.wait_jobs([failed])
    for name, (words, _) in list(NEVER.items())[1:]:
        words = [word.replace("FAILED", str(failed)) for word in words]
        jobs[name] = cluster.submit("-H", *words)
    tight = cluster.submit("--qos=tight", "-n3")
    cluster.run("scontrol", "update", "nodename=cpu1", "availablefeatures=cpu",
                "activefeatures=cpu")
    for job in jobs.values():
        cluster.run("scontrol", "release", job)

    def wrong():
        told = {name: (suite.explain(job) or {}).get("pending") or {}
                for name, job in jobs.items()}
        return {name: pending for name, pending in told.items()
                if pending.get("waits_for") != "never" or pending.get("start_ms")
                or not pending["summary"].startswith(
                    f"as submitted it never starts: {NEVER[name][1]}")}
    suite.until(lambda: not wrong(), f"the sentences: {wrong()}", 30)
    said = suite.explain(tight)["pending"]
    suite.expect("if the job exceeds that alone, it never starts" in said["summary"], f"{said}")
    page = cluster.run(sys.executable, "-B", "-c", APP, cwd=ONDEMAND).stdout
    suite.expect(page.startswith("200 OK "), page)
    for name, job in {**jobs, "tight": tight}.items():
        summary = html.escape(suite.explain(job)["pending"]["summary"])
        suite.expect(f"<td>{job}<td>" in page and summary in page, f"{name}: {summary} in {page}")
    suite.summary = f"{len(NEVER)} kinds"


@case(where="full")
def maintenance_ahead(suite):
    """A job that would run into a reservation is told no start before its end"""
    cluster = suite.cluster
    cluster.run("scontrol", "create", "reservation", "ReservationName=maint", "Nodes=ALL",
                "StartTime=now+2hours", "Duration=60", "Flags=MAINT", "Users=root")
    jobs = [cluster.submit(*words, wrap="exec sleep 600")
            for words in (("-n1", "-t1-0"), ("-n1", "-t60"), ("-N16", "--exclusive", "-t5"))]
    job, first, second = jobs
    try:
        suite.until(lambda: cluster.job(first)["JobState"] == "RUNNING", "the short one starts")
        waiting = lambda one: (suite.explain(one) or {}).get("pending") or {}
        suite.until(lambda: waiting(second).get("start_ms"), "a forecast of one that waits for it")
        pending = waiting(job)
        said = pending["summary"].startswith("reservation maint takes nodes that it needs at ")
        suite.expect(said and pending["waits_for"] == "time", f"{pending}")
        suite.expect(pending.get("start_ms") is None, f"a start is told: {pending}")
    finally:
        cluster.run("scancel", *jobs)
        cluster.run("scontrol", "delete", "ReservationName=maint")


@contextlib.contextmanager
def one_cluster(root, _args, slurmdbd=False):
    """A cluster without the overlay."""
    where = os.path.join(root, "c")
    with Cluster(where, overlay=False, config=write_config(where, TOML),
                 extra=["Licenses=matlab:3"], slurmdbd=slurmdbd) as cluster:
        yield Beside(cluster)


SETTINGS = {"full": one_cluster,
            "accounting": lambda root, args: one_cluster(root, args, slurmdbd=True)}

if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), SETTINGS))
