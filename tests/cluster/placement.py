#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a job really where `phalanx explain` says, and does the configuration act?

On a heterogeneous cluster of 16 nodes with the overlay: about 80 varied jobs,
of which each one's nodes by `scontrol show job` must be those of `phalanx
explain`; the shares in `phalanx status` must add up; a reload with a changed
weight must change the generation and the next decision; a bad file must be
refused with line and column; each partition must follow its mode.
"""

import contextlib
import json
import os
import re
import sys
import time

from slurmcluster import Cluster, ClusterError
from slurmcluster.clock import CLOCK
from slurmcluster.conf import write_config
from slurmcluster.nodes import expand_hostlist
from slurmcluster.phalanx import fresh_plan, phalanx, phalanx_json, read_status
from slurmcluster.shipped import shipped_config
from slurmcluster.suite import Cases, Suite, command_line, run

EXIT_NEGATIVE, EXIT_UNREACHABLE = 1, 4     # of the phalanx command line
SETTLE_S = 10.0            # until a fact known to the plugin shows in the daemon's answers
PLACED_MIN = 70            # jobs that the list below must lead to
case = Cases()

# (sbatch options, seconds): several kinds of jobs, several times each.
JOBS = [
    (("-n1",), 2), (("-n1", "--mem=3000"), 1), (("-n2", "-c2"), 2), (("-N1", "-n6"), 2),
    (("-N2", "-n4"), 2), (("-N3", "-n3"), 1), (("-N2-4", "-n4"), 1), (("-n10",), 1),
    (("-p", "gpu", "-n1", "--gres=gpu:1"), 2), (("-p", "gpu", "-n2", "--gres=gpu:a100:2"), 2),
    (("-p", "gpu", "-N2", "--gres=gpu:1"), 1), (("-p", "gpu", "-n1", "--gpus=v100:1"), 1),
    (("-p", "bigmem", "-n1", "--mem=30000"), 2), (("-n2", "--mem-per-cpu=6000"), 1),
    (("-N1", "--exclusive"), 1), (("-N1", "-C", "amd", "-n3"), 1), (("-x", "cpu[1-3]", "-n2"), 1),
    (("-w", "cpu4", "-n1"), 1), (("-n1", "--array=0-5"), 1), (("-N2", "-n2", "--array=0-2"), 1),
]
ROUNDS = 3


class Placed(Suite):
    """What Phalanx says of the cluster's jobs, and its configuration."""

    soon_s = SETTLE_S

    def explain(self, job_id):
        """`phalanx explain JOB --json` once it knows where the job was placed."""
        end = CLOCK.now() + SETTLE_S
        while True:
            report = phalanx_json(self.cluster, "explain", str(job_id))
            if report.get("placed") or CLOCK.now() > end:
                return report
            time.sleep(0.2)

    def pending(self, job_id):
        """What explain says of a waiting job; empty while the daemon does not know it yet."""
        done = phalanx(self.cluster, "explain", str(job_id), "--json", check=False)
        return (json.loads(done.stdout).get("pending") if done.returncode == 0 else None) or {}

    def one_job(self, *options):
        """Runs one job to its end; returns (its record, its explanation)."""
        job = self.cluster.submit(*(options or ("-n1",)))
        record = self.cluster.wait_jobs([job], timeout=60)[0]
        # Where nothing is recorded (mode off), the daemon learns of a job from its next poll.
        self.until(lambda: self.explain(job)["mode"], f"job {job} is known")
        return record, self.explain(job)

    def decided(self, *options):
        """The decision behind a job that was placed by Phalanx; tries a few jobs."""
        for _ in range(5):
            _, report = self.one_job(*options)
            placed = report.get("placed") or {}
            if placed.get("by_phalanx") and placed.get("decision"):
                return placed["decision"]
        raise ClusterError("none of five jobs was placed by Phalanx with a decision on record")

    def toml(self, text, *replacements):
        """Writes the daemon's configuration with some pieces replaced by regular expression."""
        for pattern, new in replacements:
            text, count = re.subn(pattern, new, text, count=1, flags=re.MULTILINE)
            if count != 1:
                raise ClusterError(f"phalanx.toml has nothing like {pattern!r}")
        with open(self.cluster.paths.phalanx_toml, "w", encoding="utf-8") as file:
            file.write(text)

    def read_toml(self):
        """The daemon's configuration as it is on disk."""
        with open(self.cluster.paths.phalanx_toml, encoding="utf-8") as file:
            return file.read()

    def reload(self):
        """`phalanx daemon reload --json`, which must succeed; returns the report."""
        report = phalanx_json(self.cluster, "daemon", "reload")
        if not report["ok"]:
            raise ClusterError(f"phalanx daemon reload: {report['error']}")
        return report


def nodes_of(text):
    """A hostlist as a sorted list; empty for (null) and nothing."""
    return sorted(expand_hostlist(text)) if text and text != "(null)" else []


@case
def explained_nodes(suite):
    """Every job is on the nodes that `phalanx explain` names, with the scores behind it"""
    # What starts before the plugin is there, nobody saw.
    suite.until(lambda: phalanx_json(suite.cluster, "status")["plugin"]["synced"],
                "the plugin is connected")
    jobs = [suite.cluster.submit(*options, "-t5", wrap=f"exec sleep {seconds}")
            for _ in range(ROUNDS) for options, seconds in JOBS]
    records = suite.cluster.wait_jobs(jobs, timeout=150)
    suite.expect(len(records) >= PLACED_MIN, f"only {len(records)} job records")
    ours = 0
    for record in records:
        job, nodes = record["JobId"], nodes_of(record.get("NodeList"))
        suite.expect(record["JobState"] == "COMPLETED",
                     f"job {job} is {record['JobState']}: {record.get('Reason')}, exit code "
                     f"{record.get('ExitCode')}, on {record.get('NodeList')}")
        placed = suite.explain(job).get("placed")
        if not suite.expect(placed, f"job {job}: explain has no placement"):
            continue
        suite.expect(nodes_of(placed["nodes"]) == nodes,
                     f"job {job}: on {nodes}, explain says {placed['nodes']}")
        if placed["by_phalanx"]:
            ours += 1
            explained_decision(suite, job, nodes, placed.get("decision"))
        else:
            suite.expect(placed.get("reason"), f"job {job}: not by Phalanx, and no reason why")
    suite.expect(ours >= len(records) // 3, f"only {ours} of {len(records)} placed by Phalanx")
    print(f"    {ours} of {len(records)} jobs placed by Phalanx")


def explained_decision(suite, job, nodes, decision):
    """The decision behind a placed job names its nodes and how they scored."""
    if not suite.expect(decision, f"job {job}: placed by Phalanx without a decision"):
        return
    suite.expect(nodes_of(decision["nodes"]) == nodes,
                 f"job {job}: on {nodes}, decided {decision['nodes']}")
    suite.expect(sorted(scored["node"] for scored in decision["chosen"]) == nodes,
                 f"job {job}: the scores are not of its nodes")
    suite.expect(len(decision["weights"]) == len(decision["dimensions"]) > 0,
                 f"job {job}: weights do not match dimensions")
    suite.expect(len(nodes) <= decision["candidates"],
                 f"job {job}: {len(nodes)} nodes of {decision['candidates']} candidates")
    runner_up = decision.get("runner_up")
    suite.expect(not runner_up or runner_up["node"] not in nodes,
                 f"job {job}: the runner-up was chosen")


@case
def score_terms(suite):
    """In mode best the terms of each chosen node's score are named and add up to it"""
    for options in (("-n1",), ("-p", "gpu", "-n1", "--gres=gpu:1"), ("-N2", "-n6")):
        decision, words = suite.decided(*options), " ".join(options)
        suite.expect(decision["method_mode"] == "best", f"method_mode {decision['method_mode']}")
        for scored in decision["chosen"]:
            terms = scored["terms"]
            suite.expect(terms and abs(sum(terms.values()) - scored["score"]) < 1e-6,
                         f"{words}: {scored['node']}: terms {terms} for score {scored['score']}")
        # A method's set may have no other node to compare with.
        preferred = (decision.get("preference") or {}).get("candidate_set") is not None
        suite.expect(decision.get("runner_up") or preferred, f"{words}: no runner-up")


@case
def shares_add_up(suite):
    """asked = narrowed + fallen back, for both modes, and agree with the plugin's counters"""
    suite.one_job()
    suite.until(lambda: shares_of(suite)["run_now"][0], "run_now: asked = narrowed + fallen_back")
    suite.until(lambda: shares_of(suite)["will_run"][0], "will_run: asked = narrowed + fallen_back")
    raw = read_status(suite.cluster)["raw"]
    for mode in ("run_now", "will_run"):
        shares = raw[mode]
        suite.expect(shares["answered"] >= shares["narrowed"],
                     f"{mode}: {shares['narrowed']} narrowed of {shares['answered']} answered")
        suite.expect(all(reason and count > 0 for reason, count in shares["fallen_back"].items()),
                     f"{mode}: odd reasons {shares['fallen_back']}")
    suite.expect(raw["run_now"]["narrowed"] > 0, "run_now: nothing was narrowed")
    plugin = raw["plugin"]
    suite.until(lambda: plugin_agrees(suite), "plugin.asks = what the daemon was asked")
    suite.expect(plugin["calls"]["run_now"] + plugin["calls"]["will_run"] >= plugin["asks"],
                 "plugin: more asks than calls")
    print(f"    run_now {raw['run_now']}")
    print(f"    will_run {raw['will_run']}")


def shares_of(suite):
    """{mode: (adds up, shares)} of the present status."""
    raw, result = read_status(suite.cluster)["raw"], {}
    for mode in ("run_now", "will_run"):
        shares = raw[mode]
        total = shares["narrowed"] + sum(shares["fallen_back"].values())
        result[mode] = (shares["asked"] == total, shares)
    return result


def plugin_agrees(suite):
    """True if the plugin's own count of asks and of narrowed calls is the daemon's."""
    status = read_status(suite.cluster)
    plugin = status["raw"]["plugin"]
    asked = status["asked"] + status["raw"]["proofs"]["test_only"]["asked"]
    return plugin["asks"] == asked and plugin["narrowed"] == status["narrowed"]


@case
def reload_changes_decision(suite):
    """A reload with a changed weight changes the generation and the next decision"""
    text = suite.read_toml()
    suite.toml(text + "\n[balance]\ninitial_weights = { cpu = 1.0, mem = 1.0 }\n")
    first = suite.reload()
    before = suite.decided("-N1", "-n3", "--mem=1000")
    suite.toml(text + "\n[balance]\ninitial_weights = { cpu = 1.0, mem = 9.0 }\n")
    second = suite.reload()
    after = suite.decided("-N1", "-n3", "--mem=1000")
    suite.expect(second["generation"] == first["generation"] + 1,
                 f"generation {first['generation']} -> {second['generation']}")
    suite.expect("balance.initial_weights" in " ".join(second["changed"]),
                 f"changed is {second['changed']}")
    suite.expect(before["generation"] == first["generation"] and
                 after["generation"] == second["generation"],
                 f"decisions of generations {before['generation']} and {after['generation']}")
    weight = [dict(zip(one["dimensions"], one["weights"])) for one in (before, after)]
    suite.expect(abs(weight[0]["cpu"] - weight[0]["mem"]) < 1e-6,
                 f"equal weights became {weight[0]}")
    suite.expect(abs(weight[1]["mem"] / max(weight[1]["cpu"], 1e-9) - 9.0) < 1e-3,
                 f"weights 1 to 9 became {weight[1]}")
    terms = [[(scored["dispersion_after"], scored["score"]) for scored in one["chosen"]]
             for one in (before, after)]
    suite.expect(terms[0] != terms[1], "the scores are the same under other weights")
    suite.toml(text)
    suite.reload()


@case
def bad_file_refused(suite):
    """A bad file is refused with line and column, the configuration in force stays"""
    text, before = suite.read_toml(), read_status(suite.cluster)["raw"]["config"]
    bad = {
        "misspelled key": ('\n[balance]\ntreshold = 0.4\n', "threshold"),
        "wrong type": ('\n[balance]\nthreshold = "high"\n', ""),
        "out of range": ("\n[balance]\nthreshold = 7.5\n", ""),
        "no TOML": ("\n[balance\n", ""),
    }
    for what, (addition, hint) in bad.items():
        suite.toml(text + addition)
        line = text.count("\n") + 3 - (what == "no TOML")
        done = phalanx(suite.cluster, "daemon", "reload", check=False)
        said = done.stdout + done.stderr
        suite.expect(done.returncode == EXIT_NEGATIVE, f"{what}: reload exits {done.returncode}")
        suite.expect(re.search(rf"phalanx\.toml:{line}:\d+", said),
                     f"{what}: no {line}:COLUMN in {said.strip()!r}")
        suite.expect(hint in said, f"{what}: no suggestion {hint!r} in {said.strip()!r}")
        now = read_status(suite.cluster)["raw"]["config"]
        suite.expect(now["generation"] == before["generation"] and now["last_error"],
                     f"{what}: generation {before['generation']} -> {now['generation']}, "
                     f"last_error {now['last_error']!r}")
        done = phalanx(suite.cluster, "config", "check", suite.cluster.paths.phalanx_toml,
                       check=False)
        suite.expect(done.returncode == EXIT_NEGATIVE, f"{what}: daemon check exits "
                                                       f"{done.returncode}")
    suite.expect(suite.decided()["generation"] == before["generation"],
                 "a decision of another generation after refused files")
    suite.toml(text)
    suite.reload()
    suite.expect(not read_status(suite.cluster)["raw"]["config"]["last_error"],
                 "last_error stays after a good reload")


@case
def partition_modes(suite):
    """Partitions and accounts off, shadow and enforce: who decides, and what is recorded"""
    text, since = suite.read_toml(), phalanx_json(suite.cluster, "report", "shadow")
    suite.toml(text + '\n[partition.gpu]\nmode = "shadow"\n[partition.bigmem]\nmode = "off"\n'
               '[account]\nphysics = "enforce"\nexempt = "shadow"\n')
    suite.reload()
    config = read_status(suite.cluster)["raw"]["config"]
    for key, wanted in (("partition_modes", {"gpu": "shadow", "bigmem": "off"}),
                        ("account_modes", {"physics": "enforce", "exempt": "shadow"})):
        suite.expect(config[key] == wanted, f"{key} are {config[key]}")
    before = read_status(suite.cluster)
    for words, mode, ours in (("-p gpu", "shadow", False), ("-p bigmem", "off", False),
                              ("-p main", "enforce", True), ("-p gpu -A physics", "enforce", True),
                              ("-p main -A exempt", "shadow", False)):
        reports = [suite.one_job(*words.split(), "-N1", "-n2")[1] for _ in range(3)]
        found = {report["mode"] for report in reports}
        suite.expect(found == {mode}, f"{words}: explain says mode {found}")
        by_us = [report["placed"]["by_phalanx"] for report in reports if report.get("placed")]
        suite.expect(len(by_us) == 3 and (any(by_us) if ours else not any(by_us)),
                     f"{words}: placed by Phalanx: {by_us}")
        reasons = {report["placed"].get("reason") for report in reports if report.get("placed")}
        # In mode off nothing is recorded, so that explain may know no more than that.
        suite.expect(ours or reasons <= {mode, "not asked"}, f"{words}: reasons {reasons}")
    after = read_status(suite.cluster)
    for reason in ("shadow", "off"):
        grown = after["fallen_back"].get(reason, 0) - before["fallen_back"].get(reason, 0)
        suite.expect(grown >= 3, f"status: fallen_back.{reason} grew by {grown}")
    suite.until(lambda: phalanx_json(suite.cluster, "report", "shadow")["starts"]
                >= since["starts"] + 3, "phalanx report shadow counts three starts more")
    shadow = phalanx_json(suite.cluster, "report", "shadow")
    suite.expect(0 <= shadow["agreed"] <= shadow["starts"] and
                 shadow["agreement"] is not None and
                 abs(shadow["agreement"] - shadow["agreed"] / shadow["starts"]) < 1e-9,
                 f"shadow: agreed {shadow['agreed']} of {shadow['starts']}, "
                 f"agreement {shadow['agreement']}")
    print(f"    shadow: {shadow['agreed']} of {shadow['starts']} the same")
    suite.toml(text)
    suite.reload()


@case
def pending_explained(suite):
    """A waiting job: the filters and the nodes left add up, and the blocker is named"""
    holder = suite.cluster.submit("-p", "gpu", "-N4", "-C", "a100", "--gres=gpu:a100:4", "-t5",
                                  wrap="exec sleep 600")
    suite.cluster.wait_jobs([holder], states={"RUNNING"})
    job = suite.cluster.submit("-p", "gpu", "-C", "a100", "--gres=gpu:a100:2", "-n1", "-t5")
    try:
        suite.cluster.wait_jobs([job], states={"PENDING"})
        suite.until(lambda: suite.pending(job), "explain shows the waiting job")
        suite.until(lambda: suite.pending(job).get("fits_now") == 0, "no node fits")
        pending = suite.pending(job)
        removed = sum(one["removed"] for one in pending["filters"])
        suite.expect(removed + pending["eligible"] == pending["nodes_total"] == 16,
                     f"{removed} removed + {pending['eligible']} eligible "
                     f"!= {pending['nodes_total']} nodes")
        suite.expect(pending["eligible"] == 4, f"{pending['eligible']} eligible, expected 4")
        names = [one["dimension"] for one in pending["blockers"]]
        suite.expect(any("gpu" in name for name in names), f"blockers are {names}")
        suite.expect(pending["summary"], "no summary")
    finally:
        suite.cluster.run("scancel", job, holder)
    suite.cluster.wait_jobs([job, holder], timeout=30)


@case
def whole_nodes_for_pending(suite):
    """A job of one GPU leaves a whole node to a pending job that needs whole nodes"""
    a100 = ("-p", "gpu", "-C", "a100", "-n1")
    text = suite.read_toml()
    landed = {}
    for mode in ("seed", "best"):
        # Three of four GPUs of one node, few of its CPUs: even usage alone, which is all that the
        # published form knows, goes elsewhere.
        suite.toml(text + f'\n[balance]\nmode = "{mode}"\nthreshold = 0.0\n')
        suite.reload()
        broken = suite.cluster.submit(*a100, "--gres=gpu:a100:3", "-t5", wrap="exec sleep 600")
        suite.cluster.wait_jobs([broken], states={"RUNNING"})
        first = nodes_of(suite.cluster.job(broken)["NodeList"])
        held = [suite.cluster.submit(*a100, "--gres=gpu:a100:4", "-t5", wrap="exec sleep 600")
                for _ in range(2)]
        suite.cluster.wait_jobs(held, states={"RUNNING"})
        waits = suite.cluster.submit("-p", "gpu", "-C", "a100", "-N2", "--gres=gpu:a100:4", "-t5")
        jobs = [broken, *held, waits]
        try:
            suite.until(lambda: suite.pending(waits), "explain shows the waiting job")
            fresh_plan(suite.cluster)   # it tells the mix of the queue
            # On a busy machine an answer may be late: stock decides then, and shows nothing. Mode
            # seed goes round, and comes to that node in its turn.
            for _ in range(5):
                one = suite.cluster.submit(*a100, "--gres=gpu:a100:1", "-t1", wrap="sleep 2")
                jobs.append(one)
                record = suite.cluster.wait_jobs([one], timeout=60)[0]
                landed[mode] = nodes_of(record["NodeList"]) == first
                if suite.explain(one)["placed"]["by_phalanx"] and (
                        mode == "best" or not landed[mode]):
                    break
        finally:
            suite.cluster.run("scancel", *jobs, check=False)
        suite.cluster.wait_jobs(jobs, timeout=30)
    suite.toml(text)
    suite.reload()
    suite.expect(landed.get("best"), "with the term: a whole node was broken")
    suite.expect(not landed.get("seed"), "without the term: the same node, which shows nothing")


@case
def polls_go_round(suite):
    """In mode seed equal jobs go to one node after the other, each behind the last"""
    text, jobs = suite.read_toml(), []
    suite.toml(text + '\n[balance]\nmode = "seed"\nthreshold = 1.0\n')
    suite.reload()
    nodes = [f"cpu{number}" for number in range(1, 5)]
    try:
        # Half of the CPUs and little memory in use: each job evens out any of the four.
        jobs += [suite.cluster.submit("-w", node, "-n4", "--mem=500", "-t5",
                                      wrap="exec sleep 600") for node in nodes]
        suite.cluster.wait_jobs(jobs, states={"RUNNING"}, timeout=30)
        landed = []
        for _ in range(5):
            job = suite.cluster.submit("-n1", "--mem=4000", "-t5", "-x",
                                       "cpu[5-6],mem[1-4],gpu[1-4],fat[1-2]",
                                       wrap="exec sleep 600")
            jobs.append(job)
            record, = suite.cluster.wait_jobs([job], states={"RUNNING"}, timeout=30)
            landed += nodes_of(record["NodeList"])
    finally:
        suite.cluster.run("scancel", *jobs, check=False)
    suite.cluster.wait_jobs(jobs, timeout=30)
    suite.toml(text)
    suite.reload()
    first = nodes.index(landed[0])
    suite.expect(landed == [nodes[(first + turn) % 4] for turn in range(5)], f"on {landed}")


@case
def live_comparison(suite):
    """Half of the jobs by Slurm alone: both arms appear, and Slurm's has nothing of Phalanx"""
    text, cluster = suite.read_toml(), suite.cluster
    suite.toml(text + "\n[compare]\nshare = 0.5\n")
    suite.reload()
    config = read_status(cluster)["raw"]["config"]
    suite.expect(config["compare"] and config["compare"][0] == 0.5, f"status: {config}")
    # All of one arm: once in 32,768 times.
    jobs = [cluster.submit("-N1", "-n2") for _ in range(16)]
    array = cluster.submit("-n1", "--array=0-3")
    cluster.wait_jobs([*jobs, array], timeout=120)

    def runs():
        every = phalanx_json(cluster, "history", "runs", "--since", "1h")["runs"]
        return {run["job"]: run for run in every if run["arm"]}
    names = [str(job) for job in jobs] + [f"{array}_{task}" for task in range(4)]
    suite.until(lambda: set(names) <= set(runs()), lambda: "each run is recorded with its arm, not "
                f"{sorted(set(names) - set(runs()))}")
    found = runs()
    suite.expect({found[name]["arm"] for name in names} == {"slurm 0.5", "phalanx 0.5"},
                 f"arms: {found}")
    suite.expect(len({found[name]["arm"] for name in names[16:]}) == 1, "an array in two arms")

    for job in jobs:
        run, report = found[str(job)], suite.explain(job)
        mode = report["mode"]
        slurms, alone = run["arm"] == "slurm 0.5", "treated by Slurm alone: live comparison"
        said = " ".join(phalanx(cluster, "explain", str(job)).stdout.split())
        suite.expect(slurms == (alone in mode) and slurms == (alone in said),
                     f"job {job}, {run['arm']}: explain says {mode}: {said}")
        suite.expect(not slurms or not report["asks"] and not report["placed"]["by_phalanx"]
                     and run["placed_by"] == "stock", f"job {job} of Slurm's arm: {report}")
    suite.expect(any(found[str(job)]["placed_by"] != "stock" for job in jobs),
                 "Phalanx placed no job of its arm")
    compared = phalanx_json(cluster, "report", "compare")
    suite.expect(compared["slurm"]["runs"] + compared["phalanx"]["runs"] >= len(names)
                 and compared["share"] == 0.5, f"report compare: {compared}")
    print(phalanx(cluster, "report", "compare").stdout)
    held = [cluster.submit("-H", "-n1") for _ in range(12)]

    def arms():
        suite.until(lambda: all(suite.pending(job) for job in held), "the held jobs are known")
        return [phalanx_json(cluster, "explain", str(job))["mode"] for job in held]
    before = arms()
    cluster.stop_phalanxd()
    cluster.start_phalanxd()
    suite.until(lambda: read_status(cluster)["raw"]["plugin"]["synced"], "it is connected again")
    suite.expect(arms() == before and len(set(before)) == 2, f"a restart draws anew: {before}")
    cluster.run("scancel", *map(str, held))
    suite.toml(text)
    suite.reload()
    config = read_status(cluster)["raw"]["config"]
    suite.expect(not config["compare"], "it goes on without [compare]")


@case
def exit_codes(suite):
    """Exit codes: an unknown job, and a daemon that is not there; jobs run all the same"""
    done = phalanx(suite.cluster, "explain", "99999999", check=False)
    suite.expect(done.returncode == EXIT_NEGATIVE, f"explain of an unknown job exits "
                                                   f"{done.returncode}")
    suite.cluster.stop_phalanxd()
    done = phalanx(suite.cluster, "status", check=False)
    suite.expect(done.returncode == EXIT_UNREACHABLE, f"status without daemon exits "
                                                      f"{done.returncode}")
    job = suite.cluster.submit("-n1")
    suite.expect(suite.cluster.wait_jobs([job], timeout=30)[0]["JobState"] == "COMPLETED",
                 "a job without the daemon does not complete")
    suite.cluster.start_phalanxd()
    suite.until(lambda: read_status(suite.cluster)["raw"]["plugin"]["synced"], "plugin synced")


case(shipped_config)


@contextlib.contextmanager
def setting(root, _args):
    """One cluster. What is placed is looked at, not how soon."""
    place = os.path.join(root, "c")
    with Cluster(place, config=write_config(place)) as cluster:
        yield Placed(cluster)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
