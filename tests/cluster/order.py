#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of starts on a real cluster: deltas in `sprio`, and none that stays.

One cluster of 4 nodes with slurmdbd, kept full by one job, so that the others wait. The daemon
orders by predicted runtime, half the time limit; what it may and may not do is read from `sprio`
and `scontrol show job`. Then the daemon, and slurmctld itself, are killed, stopped and restarted.
"""

import contextlib
import datetime
import os
import signal
import sys
import time

from slurmcluster import Cluster
from slurmcluster.conf import write_config
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.suite import (Cases, Suite, SuiteError, check, command_line, directory, run)

GONE_S = 10.0       # after a loss of the daemon no delta is left for longer
BENCH_DELTAS = 4000  # of the jobs of --bench
case = Cases()
NODES = """NodeName=n[1-4] CPUs=2 RealMemory=4000
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP
PartitionName=shadowed Nodes=n[1-4] MaxTime=INFINITE State=UP
PartitionName=top Nodes=n[1-4] MaxTime=INFINITE State=UP PriorityTier=9
"""
EXTRA = ["PriorityWeightQOS=1000", "PriorityWeightAge=0", "PriorityWeightFairshare=0"]
TOML = """mode = "enforce"
[order]
by = "learned"
short_s = 604800
max_delta_percent = 1000
[source]
poll_ms = 300
[partition.shadowed]
mode = "shadow"
"""


class Order(Suite):
    """The cluster, what its queue looks like, and the three jobs that wait there."""

    def __init__(self, cluster):
        super().__init__(cluster)
        self.blocker = cluster.submit("-N4", "--exclusive", "-t600", wrap="exec sleep 600")
        self.until(lambda: cluster.job(self.blocker)["JobState"] == "RUNNING", "nodes taken")
        self.long = self.mid = self.short = None

    @property
    def wished(self):
        """The jobs in the order in which they shall start."""
        return [self.short, self.mid, self.long]

    def submit(self, minutes, *options):
        """A waiting job of so many minutes' limit; returns its id."""
        return self.cluster.submit(f"-t{minutes}", "-N4", "--exclusive", *options, wrap="sleep 1")

    def sprio(self):
        """{job id: (priority, site)} of the pending jobs, as `sprio` prints them."""
        text = self.cluster.run("sprio", "-h", "-o", "%i %Y %S").stdout
        rows = [line.split() for line in text.splitlines() if line.strip()]
        return {int(job): (int(priority), int(site)) for job, priority, site in rows}

    def sites(self):
        """{job id: site factor} of the pending jobs, those with 0 left out."""
        return {job: site for job, (_, site) in self.sprio().items() if site}

    def queue(self):
        """Pending jobs in the order in which slurmctld sorts them within a tier."""
        text = self.cluster.run("squeue", "-h", "-t", "PD", "-o", "%i %Q").stdout
        rows = [line.split() for line in text.splitlines()]
        rows = [(int(job.split("_")[0]), int(priority)) for job, priority in rows]
        return [job for job, _ in sorted(rows, key=lambda row: (-row[1], row[0]))]

    def priority(self, job):
        """A pending job's priority in slurmctld."""
        return int(self.cluster.job(job)["Priority"])

    def until(self, condition, what, limit=None, every=0.1):
        """Waits; what is missed is told with the present `sprio`."""
        try:
            return super().until(condition, what, limit, every)
        except SuiteError as error:
            raise SuiteError(f"{error}; sprio: {self.sprio()}") from None

    def gone(self, why, own=None):
        """No delta is left within 10 s, only what administrators set themselves."""
        self.until(lambda: self.sites() == (own or {}), f"none left after {why}", GONE_S)
        print(f"    {why}: the last delta was gone after {self.waited_s:.1f} s", flush=True)

    def explain(self, job):
        """The place of a waiting job, as `phalanx explain` has it."""
        return phalanx_json(self.cluster, "explain", str(job))["order"] or {}

    def update(self, job, *words):
        """scontrol update of one job."""
        self.cluster.run("scontrol", "update", f"JobId={job}", *words)

    def config(self, text=None):
        """The configuration of the daemon; writes another one."""
        with open(self.cluster.paths.phalanx_toml, "w" if text else "r", encoding="utf-8") as file:
            return file.write(text) if text else file.read()

    def reload(self, text):
        """Puts another configuration in force."""
        self.config(text)
        phalanx(self.cluster, "daemon", "reload")

    def cancel(self, *jobs):
        """Cancels waiting jobs and waits until they are gone."""
        self.cluster.run("scancel", *jobs)
        self.until(lambda: not set(jobs) & set(self.queue()), "cancelled")

    def saved(self):
        """Waits until slurmctld has saved its jobs as they are now; it does at most 5 s late."""
        path = os.path.join(self.cluster.paths.state, "job_state")
        # A change of a job makes it save them; the first save may have begun before it.
        for word in ("once", "twice"):
            since = time.time()
            self.update(self.long, f"Comment={word}")
            self.until(lambda since=since: os.path.getmtime(path) > since, "the jobs are saved")

    def raised(self):
        """Site factors of an administrator, one with a delta on top; returns {job: its own}."""
        own = {self.mid: 11, self.short: 11}
        for job, site in own.items():
            self.update(job, f"SiteFactor={site}")
        self.until(lambda: self.sites().get(self.short, 0) > 11
                   and self.sites().get(self.mid) == 11,
                   "a delta on top of an administrator's site factor")
        return own

    def without_overlay(self):
        """slurmctld and the daemon crash; slurmctld starts again without the overlay."""
        self.cluster.stop_slurmctld(kill=True)
        self.cluster.stop_phalanxd(kill=True)
        self.cluster.remove_overlay()
        self.cluster.start_slurmctld()

    def reload_overlay(self):
        """Everything is as it was in the beginning."""
        self.cluster.stop_slurmctld()
        self.cluster.install_overlay()
        self.cluster.start_slurmctld()
        self.cluster.start_phalanxd()
        self.until(lambda: self.queue()[0] == self.short, "in order again with the overlay")

    def stays(self, condition, text, seconds=2.0):
        """What must not happen does not happen for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            check(condition(), f"{text}; sprio: {self.sprio()}")
            time.sleep(0.2)


@case
def in_order(s):
    """the wished sequence stands in sprio, explain, plan and status"""
    long, mid, short = (s.submit(minutes) for minutes in (60, 30, 10))
    s.long, s.mid, s.short = long, mid, short
    s.until(lambda: s.queue()[:3] == s.wished, "shortest first")
    sites = s.sites()
    check(set(sites) == {short, mid} and min(sites.values()) > 0, f"two deltas, got {sites}")
    # What the plugin tells is up to a second old.
    s.until(lambda: s.explain(short)["delta_now"] == sites[short], "explain tells the delta")
    check(s.explain(short)["passes"] == 2, f"explain of {short}: {s.explain(short)}")
    check(s.explain(long)["due_s"] > time.time(), f"explain of {long}: {s.explain(long)}")
    status = phalanx_json(s.cluster, "status")["order"]
    check(status["passable_s"] > 3600, f"status: {status}")
    check(status["state"] == "active" and status["active"] == 2, f"status: {status}")
    planned = {job["job_id"]: job for job in phalanx_json(s.cluster, "plan")["jobs"]}
    check(planned[short]["delta"] == sites[short], f"plan: {planned}")


def prices(text, now, then):
    """A configuration with `order.by = "price"`: a price of this hour, and one of the others."""
    hour = datetime.datetime.now().hour
    begin, end = (hour - 1) % 24, (hour + 2) % 24
    return (text.replace('"learned"', '"price"')
            + f"\n[energy]\nprice = {{ {begin}-{end} = {now}, {end}-{begin} = {then} }}\n")


@case(needs=["in_order"])
def by_price(s):
    """jobs that take much energy start first at a cheap hour and last at a dear one"""
    large = s.submit(240)
    before = s.config()
    s.reload(prices(before, 0.1, 1.0))
    s.until(lambda: s.queue()[:4] == [large, s.long, s.mid, s.short], "cheap: the largest first")
    s.reload(prices(before, 1.0, 0.1))
    s.until(lambda: s.queue()[:4] == [s.short, s.mid, s.long, large], "dear: the smallest first")
    s.reload(before)
    s.cancel(large)
    s.until(lambda: s.queue()[:3] == s.wished, "shortest first again")


@case(needs=["in_order"])
def guard(s):
    """who has waited for his share of the longest fair wait is passed by none"""
    before = s.config()
    s.reload(before.replace("[order]", "[order]\nfair_share_percent = 0"))
    s.until(lambda: s.queue()[:3] == [s.long, s.mid, s.short] and not s.sites(),
            "Slurm's own order, without a delta")
    told = s.explain(s.short)
    check(told["stop_job"] == s.mid and "fair_share_percent" in told["stop"], f"explain: {told}")
    s.reload(before)
    s.until(lambda: s.queue()[:3] == s.wished, "shortest first again")


@case(needs=["in_order"])
def administrators(s):
    """site factors, holds, priorities, top and nice keep their meaning"""
    long, mid, short = s.long, s.mid, s.short
    delta = s.sites()[short]
    s.update(short, "SiteFactor=70")
    s.until(lambda: s.sites().get(short, 0) >= 70, "the site factor is kept")
    s.until(lambda: s.queue()[0] == short, "and the order too")
    s.update(short, "SiteFactor=0")
    s.until(lambda: s.sites().get(short) == delta, "0 again, with the same delta")
    s.cluster.run("scontrol", "hold", short)
    s.until(lambda: s.sites().get(short, 0) == 0, "a held job has no delta")
    s.stays(lambda: s.cluster.job(short)["Priority"] == "0", "a held job stays held")
    s.cluster.run("scontrol", "release", short)
    s.until(lambda: s.queue()[:3] == s.wished, "released: in order again")
    s.update(long, "Priority=3")
    s.until(lambda: s.explain(short).get("stop_job") == long, "explain names whom it may not pass")
    s.stays(lambda: s.priority(long) == 3, "a priority set by hand stays")
    s.update(long, "Priority=900")
    s.until(lambda: s.queue()[0] == long, "set by hand: passed no more")
    s.stays(lambda: s.queue()[0] == long and not s.sites().get(long), "nor touched")
    s.cluster.run("scontrol", "release", long)
    s.until(lambda: s.queue()[:3] == s.wished, "in order again")
    s.cluster.run("scontrol", "top", long)
    s.until(lambda: s.queue()[0] == long, "a job put to the top is passed no more")
    s.stays(lambda: s.queue()[0] == long and not s.sites().get(long), "nor touched")
    for job in (long, mid, short):
        s.update(job, "Nice=0")
    s.until(lambda: s.queue()[:3] == s.wished, "in order again")
    nice = s.submit(5, "--nice=40")
    s.stays(lambda: s.queue()[-1] == nice, "a job with a nice value passes nobody")
    s.update(nice, "Nice=0")
    s.until(lambda: s.queue()[0] == nice, "without it the shortest is first")
    s.cancel(nice)


@case(needs=["in_order"])
def never_passed(s):
    """QOS, shadow mode and PriorityTier are not crossed"""
    high = s.submit(90, "--qos=high")
    s.until(lambda: high in s.sprio(), "seen")
    s.stays(lambda: s.queue()[0] == high and not s.sites().get(high),
            "a job of a high QOS is never passed")
    short_high = s.submit(1, "--qos=high")
    s.until(lambda: s.queue()[:2] == [short_high, high], "but by one of the same QOS")
    s.cancel(high, short_high)
    shadowed = s.submit(99, "-pshadowed", "--qos=high")
    quick = s.submit(1, "-pshadowed")
    s.stays(lambda: not s.sites().get(quick) and not s.sites().get(shadowed),
            "shadow mode: no deltas")
    s.cancel(shadowed, quick)
    top = [s.submit(minutes, "-ptop") for minutes in (50, 40)]
    s.until(lambda: s.sites().get(top[1]), "each tier has an order of its own")
    check(not s.sites().get(top[0]), "only in its tier")
    s.cancel(*top)
    s.until(lambda: s.queue()[:3] == s.wished, "as before")


@case(needs=["in_order"])
def arrays(s):
    """an array record has a delta; its split tasks have none"""
    array = s.submit(2, "--array=0-3")
    s.until(lambda: s.queue()[0] == array, "the array is first")
    s.cluster.run("scontrol", "hold", f"{array}_2")
    records = {r.get("ArrayTaskId"): r for r in s.cluster.scontrol_records("job", str(array))}
    task = int(records["2"]["JobId"])
    s.until(lambda: s.sites().get(task, 0) == 0, "a task split off by a hold has none")
    s.cluster.run("scancel", array)
    s.until(lambda: s.queue()[:3] == s.wished, "as before")


@case(needs=["in_order"])
def daemon_lost(s):
    """kill -9, kill -STOP and a regular end of the daemon"""
    long, mid, short = s.long, s.mid, s.short
    for name, lose, back in (
            ("kill -9", lambda: s.cluster.signal_phalanxd(signal.SIGKILL),
             s.cluster.start_phalanxd),
            ("kill -STOP", lambda: s.cluster.signal_phalanxd(signal.SIGSTOP),
             lambda: s.cluster.signal_phalanxd(signal.SIGCONT)),
            ("a regular end", s.cluster.stop_phalanxd, s.cluster.start_phalanxd)):
        lose()
        s.gone(name)
        check(s.queue()[:3] == [long, mid, short], f"{name}: Slurm's own order, {s.queue()}")
        back()
        s.until(lambda: s.queue()[:3] == s.wished, f"in order again after {name}")


@case(needs=["in_order"])
def slurmctld_lost(s):
    """a crash, a restart, a reconfigure and a removal of the overlay leave nothing behind"""
    short, own = s.short, s.raised()
    s.saved()
    s.cluster.stop_slurmctld(kill=True)
    s.cluster.stop_phalanxd(kill=True)
    s.cluster.start_slurmctld()
    s.gone("a crash of slurmctld", own)
    s.cluster.start_phalanxd()
    s.until(lambda: s.queue()[0] == short, "in order again after the crash")
    s.cluster.run("scontrol", "reconfigure")
    s.until(lambda: s.queue()[0] == short, "in order again after a reconfigure")
    s.saved()
    # In order, and without the overlay: the saved state must be clean.
    s.cluster.stop_slurmctld()
    s.cluster.stop_phalanxd()
    s.cluster.remove_overlay()
    s.cluster.start_slurmctld()
    check(s.sites() == own, f"the saved state has deltas: {s.sites()}")
    s.reload_overlay()


@case(needs=["in_order"])
def switched_off(s):
    """switched off by a reload, the order of starts leaves nothing in the saved state"""
    own, before = s.raised(), s.config()
    s.reload(before.replace('"learned"', '"off"'))
    s.gone("a reload", own)
    s.saved()
    s.without_overlay()
    check(s.sites() == own, f"the saved state has deltas: {s.sites()}")
    s.config(before)
    s.reload_overlay()


@case(needs=["in_order"])
def overlay_lost(s):
    """a crash, and no overlay any more: `phalanx daemon restore` takes the deltas away"""
    own, array = s.raised(), s.submit(2, "--array=0-3%2")
    s.until(lambda: s.sites().get(array), "a delta of an array")
    refused = phalanx(s.cluster, "daemon", "restore", check=False)
    check(refused.returncode == 1 and "has the plugin loaded" in refused.stderr, f"{refused}")
    s.saved()
    s.without_overlay()
    left = s.sites()
    check(left[s.short] > own[s.short] and left[array], f"the saved state has no delta: {left}")
    said = phalanx(s.cluster, "doctor", check=False).stdout
    check("phalanx daemon restore" in said, f"doctor does not find the ledger: {said}")
    phalanx(s.cluster, "daemon", "restore", "--dry-run")
    check(s.sites() == left, f"a dry run changes nothing: {s.sites()}")
    s.update(s.short, f"SiteFactor={left[s.short] + 1}")
    phalanx(s.cluster, "daemon", "restore")
    check(s.sites() == {**own, s.short: left[s.short] + 1},
          f"what is not Phalanx's stays: {s.sites()}, before {left}")
    s.update(s.short, f"SiteFactor={left[s.short]}")
    s.cluster.run("scontrol", "hold", s.short)
    unseen = phalanx(s.cluster, "daemon", "restore", check=False)
    check(unseen.returncode == 1 and "not seen" in unseen.stdout, f"a held job: {unseen}")
    s.cluster.run("scontrol", "release", s.short)
    s.until(lambda: s.short in s.sprio(), "eligible again")
    phalanx(s.cluster, "daemon", "restore")
    check(s.sites() == own, f"restored: {s.sites()}, before {left}")
    ledger = os.path.join(s.cluster.paths.state, "phalanx_order")
    phalanx(s.cluster, "daemon", "restore")
    check(os.path.exists(ledger), "the ledger stays until all is saved")
    os.utime(ledger, (0, 0))
    phalanx(s.cluster, "daemon", "restore")
    check(not os.path.exists(ledger), "the ledger is gone")
    s.cancel(array)
    s.reload_overlay()


@case(needs=["in_order"])
def starts(s):
    """the jobs start in the wished order, keep nothing, and have receipts of their deltas"""
    long, mid, short = s.long, s.mid, s.short
    # A receipt has what the plugin told, up to a second before; site factors of earlier cases stay.
    delta = s.until(lambda: s.explain(short)["delta_now"], "explain tells a delta")
    sites = s.sites()
    check(0 < delta <= sites[short], f"{delta} of {sites}")
    s.cluster.run("scancel", s.blocker)
    done = s.cluster.wait_jobs([long, mid, short], timeout=60)
    began = {int(job["JobId"]): job["StartTime"] for job in done}
    check(began[short] < began[mid] < began[long], f"started at {began}")

    def receipts():
        lines = phalanx_json(s.cluster, "report", "audit", "--since", "5min")["receipts"]
        found = {line["job_id"]: line["delta"] for line in lines if line["kind"] == "moved"}
        return short in found and found
    moved = s.until(receipts, "the receipt of the job that starts first")
    check(moved[short] == delta and set(moved) <= {short, mid, long},
          f"the receipts are {moved}, explain told {delta}")


@contextlib.contextmanager
def setting(root, _args):
    """One cluster with accounting, whose nodes are taken."""
    place = os.path.join(root, "c")
    with Cluster(place, nodes=NODES, config=write_config(place, TOML), extra=EXTRA,
                 slurmdbd=True) as cluster:
        yield Order(cluster)


def bench(root, count):
    """How long slurmctld's job lock is held for deltas on so many waiting jobs; nothing fails."""
    place = os.path.join(root, "c")
    config = write_config(place, TOML)
    with Cluster(place, nodes=NODES, config=config, extra=EXTRA) as cluster:
        suite = Order(cluster)
        # Neighbours in the wrong order: one passes the other, and all in front rise to stay there.
        script = (f"for i in $(seq 0 {count - 1}); do m=$i; "
                  f"[ $i -ge {BENCH_DELTAS} ] || m=$((i ^ 1)); sbatch -Q -o /dev/null -N4 "
                  "--exclusive -t $((m + 1)) --wrap true > /dev/null; done")
        cluster.run("sh", "-c", script, timeout=1800)
        suite.until(lambda: phalanx_json(cluster, "status")["order"]["pending"] >= count,
                    "all waiting", 120)
        suite.until(lambda: len(suite.sites()) >= min(count, BENCH_DELTAS) // 2, "deltas", 120)
        time.sleep(10)
        before = phalanx_json(cluster, "status")["order"]
        start = time.monotonic()
        cluster.signal_phalanxd(signal.SIGKILL)
        suite.until(lambda: not suite.sites(), "removed", 60)
        took = time.monotonic() - start
        cluster.start_phalanxd()
        suite.until(lambda: phalanx_json(cluster, "status")["order"]["active"] > 0, "again", 60)
        time.sleep(5)
        status = phalanx_json(cluster, "status")["order"]
        print(f"pending {before['pending']}, deltas {before['active']}, written "
              f"{status['written']}, removed {status['removed']} ({took:.1f} s after kill -9)")
        print(f"write lock held {status['lock_holds']} times, mean "
              f"{status['lock_mean_ns'] / 1000:.0f} us, longest "
              f"{status['lock_max_ns'] / 1000:.0f} us")


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--bench", type=int, metavar="JOBS",
                        help="measure lock times with so many waiting jobs instead")


def main():
    """Runs the cases, or measures; returns the exit status."""
    args = command_line(__doc__, case, options)
    if not args.bench:
        return run(args, setting)
    with directory(args) as root:
        bench(root, args.bench)
    return 0


if __name__ == "__main__":
    sys.exit(main())
