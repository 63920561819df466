#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of power on a real cluster: is the draw ever above the cap, and does all run in the end?

Four nodes of two kinds, their powers declared. What they draw is modelled here anew, from what
`squeue` says twice a second: idle power, and the rest by the share of CPUs in use. With Phalanx
the draw may be above a limit by at most one job's power, and that for at most 10 s; stock Slurm,
beside it under the same jobs, is far above it for long. All jobs end, and `phalanx report energy`
says what `scontrol` says of their times.
"""

import contextlib
import json
import os
import re
import sys
import threading
import time

from slurmcluster import Cluster
from slurmcluster.clock import CLOCK
from slurmcluster.conf import PROMPT, write_config
from slurmcluster.jobs import seconds
from slurmcluster.nodes import expand_hostlist
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.shipped import shipped_config
from slurmcluster.suite import Cases, Suite, command_line, run

CPUS = 4                                        # of each node
IDLE = {"fast": 100.0, "eco": 40.0}
BUSY = {"fast": 500.0, "eco": 200.0}
NODES_OF = {"": ("fast1", "fast2", "eco1", "eco2"), "hot": ("fast1", "fast2")}
CAPS = {"": 800.0, "hot": 600.0}                # watts, by partition
JOB_W = 2 * (BUSY["fast"] - IDLE["fast"]) / CPUS        # most that one job here adds
LONGEST_S = 10.0            # for which the draw may be above a limit by one job
EVERY_S = 0.5
NODES = "".join(f"NodeName={kind}[1-2] CPUs={CPUS} Sockets=1 CoresPerSocket={CPUS} "
                f"RealMemory=4000 Feature={kind}\n" for kind in ("fast", "eco")) + (
    "PartitionName=main Nodes=fast[1-2],eco[1-2] Default=YES MaxTime=INFINITE State=UP\n"
    "PartitionName=hot Nodes=fast[1-2] MaxTime=INFINITE State=UP\n")
EXTRA = ["SchedulerParameters=bf_interval=1,bf_resolution=1,sched_min_interval=100000,"
         "batch_sched_delay=0,bf_continue,sched_interval=2", "MinJobAge=7200"]
CONFIG = PROMPT + f"""\
[energy]
cap_w = {CAPS[""]}
watts = {{ fast = {BUSY["fast"]}, eco = {BUSY["eco"]} }}
idle_watts = {{ fast = {IDLE["fast"]}, eco = {IDLE["eco"]} }}
price = {{ 0-24 = 2.0 }}
[partition.hot]
power_cap_w = {CAPS["hot"]}
"""
HOLD_S = 6                      # longest hold of a case
SENTENCE = re.compile(r"held by the power cap( of partition hot)?: [\d,]+ W of [\d,]+ W")
case = Cases()


def kind_of(node):
    """The kind of a node by its name."""
    return node.rstrip("0123456789")


def draws(cluster):
    """{partition: watts} of the nodes, by what runs now."""
    used = dict.fromkeys(NODES_OF[""], 0.0)
    rows = cluster.run("squeue", "-h", "-t", "R,S", "-o", "%C %N").stdout.split("\n")
    for cpus, names in (row.split() for row in rows if row.strip()):
        nodes = expand_hostlist(names)
        for node in nodes:
            used[node] += float(cpus) / len(nodes)
    watts = {node: IDLE[kind_of(node)] + min(cpus / CPUS, 1.0)
             * (BUSY[kind_of(node)] - IDLE[kind_of(node)]) for node, cpus in used.items()}
    return {name: sum(watts[node] for node in nodes) for name, nodes in NODES_OF.items()}


class Meter(threading.Thread):
    """Samples what a cluster draws."""

    def __init__(self, cluster):
        super().__init__()
        self.cluster, self.ended, self.samples = cluster, threading.Event(), []
        self.lost = CLOCK.lost()
        self.start()

    def run(self):
        while not self.ended.wait(EVERY_S):
            self.samples.append((time.monotonic(), draws(self.cluster)))

    def stop(self):
        """Ends it; returns itself."""
        self.ended.set()
        self.join()
        return self

    def peak(self, name):
        """The greatest draw of a partition's nodes."""
        return max(watts[name] for _, watts in self.samples)

    def lost_s(self):
        """Seconds that the machine had no time for the cluster."""
        return CLOCK.lost() - self.lost

    def above(self, name, watts):
        """The longest time in which their draw was above so many watts at a stretch."""
        longest, since = 0.0, None
        for at, sample in self.samples:
            if sample[name] <= watts + 0.01:
                since = None
                continue
            since = at if since is None else since
            longest = max(longest, at - since + EVERY_S)
        return longest


    def in_all(self, name, watts):
        """The whole time in which their draw was above so many watts."""
        return EVERY_S * sum(sample[name] > watts + 0.01 for _, sample in self.samples)


@contextlib.contextmanager
def edited(cluster, path, old, new, *reread):
    """A file has another text, and the command that reads it anew was run."""
    with open(path, encoding="utf-8") as file:
        before = file.read()

    def use(text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        cluster.run(*reread)

    use(before.replace(old, new))
    try:
        yield
    finally:
        use(before)


class Power(Suite):
    """A cluster with limits."""

    def submit(self, cluster, count, length):
        """Jobs of one or two CPUs, some in the limited partition; returns their ids."""
        return [cluster.submit("-n1", f"-c{1 + at % 2}", "-t5", "-p",
                               "hot" if at % 3 == 0 else "main", wrap=f"sleep {length}")
                for at in range(count)]

    def kept(self, meter):
        """The limits were kept to."""
        for name, cap in CAPS.items():
            peak = meter.peak(name)
            self.expect(peak <= cap + JOB_W + 0.01, f"{name or 'all'}: {peak} W of {cap} W")
            long = meter.above(name, cap)
            self.expect(long <= LONGEST_S + meter.lost_s(),
                        f"{name or 'all'}: above {cap} W for {long:.1f} s")

    def adds_up(self, ids):
        """`phalanx report energy` has these jobs' energy."""
        records = [r for r in self.cluster.jobs() if int(r["JobId"]) in set(ids)]
        wanted = 0.0
        for record in records:
            share = int(record["NumCPUs"]) / CPUS
            ran = seconds(record, "EndTime") - seconds(record, "StartTime")
            wanted += BUSY[kind_of(record["NodeList"])] * share * ran / 3.6e6

        def whole():
            found = phalanx_json(self.cluster, "report", "energy", "--since", "1h")
            return found if found["total"]["runs"] == len(ids) \
                and not found["total"]["running"] else None

        found = self.until(whole, f"all of {len(ids)} runs in phalanx report energy")
        total = found["total"]
        self.expect(not total["unknown"] and not total["measured"], f"{total}")
        # Slurm tells its times in whole seconds.
        self.expect(abs(total["kwh"] / wanted - 1) < 0.25, f"{wanted} kWh, not {total['kwh']}")
        self.expect(abs(total["cost"] - 2 * total["kwh"]) < 1e-9, f"2.0 a kWh: {total}")
        for rows in (found["users"], found["accounts"]):
            kwh = sum(row["kwh"] for row in rows)
            self.expect(abs(kwh - total["kwh"]) < 1e-9, f"{kwh} of {total['kwh']}: {rows}")
        text = phalanx(self.cluster, "report", "energy").stdout
        self.expect("kWh" in text and max(map(len, text.splitlines())) <= 100, text)


@case
def held(s):
    """Jobs wait below the cap, and it is told why"""
    power = s.until(lambda: phalanx_json(s.cluster, "status").get("power"), "limits in status")
    s.expect({c["partition"]: c["cap_w"] for c in power["caps"]} == CAPS, f"{power}")
    s.expect(power["known_nodes"] == 4, f"{power}")
    meter = Meter(s.cluster)
    ids = s.submit(s.cluster, 12, 3)
    texts = []

    def told():
        for job in ids:
            done = phalanx(s.cluster, "explain", str(job), check=False)
            texts.append(" ".join(done.stdout.split()))
            if SENTENCE.search(texts[-1]):
                return True
        return False

    s.until(told, "a job that is held by the power cap")
    power = phalanx_json(s.cluster, "status")["power"]
    s.expect(power["holds"] > 0, f"{power}")
    s.cluster.wait_jobs(ids, timeout=60)
    s.kept(meter.stop())
    s.adds_up(ids)
    s.summary = f"peak {meter.peak(''):.0f} W of {CAPS['']:.0f} W"


@case
def claim(s):
    """A waiting job's power is reserved: nobody waits who is done by then or comes first"""
    def submit(cpus, minutes, length, *more):
        return s.cluster.submit("-n1", f"-c{cpus}", f"-t{minutes}", "-p", "hot", *more,
                                wrap=f"sleep {length}")

    def start(job):
        return seconds(s.cluster.wait_jobs([job], timeout=90)[0], "StartTime")

    lost = CLOCK.lost()
    first = submit(2, 3, 25)
    s.until(lambda: s.cluster.job(first)["JobState"] == "RUNNING", "the first job runs")
    # 800 W of 600 W now, 600 W once the first has ended.
    big = submit(4, 1, 3)
    s.until(lambda: phalanx_json(s.cluster, "status")["power"]["held"] > 0, "the big job is held")
    long = submit(1, 60, 1)
    words = f"job {big} of root has the power from"

    def told():
        said = phalanx(s.cluster, "explain", str(long), check=False).stdout
        return words in " ".join(said.split())

    s.until(told, f"explain says {words!r}")
    short, urgent = submit(1, 1, 1), submit(1, 10, 1, "--nice=-5000")
    at = {job: start(job) for job in (short, urgent, big, long)}
    ended = seconds(s.cluster.job(first), "EndTime")
    s.expect(at[short] < ended and at[urgent] < ended, f"who need not wait waited: {at}")
    s.expect(ended <= at[big] <= ended + 8 + CLOCK.lost() - lost, f"{at}, first until {ended}")
    s.expect(at[long] >= at[big], f"the long job took the power: {at}")


def ends(s):
    """A limit ends after HOLD_S, and Slurm starts the job"""
    meter, lost = Meter(s.cluster), CLOCK.lost()
    ids = [s.cluster.submit("-n1", f"-c{CPUS}", "-t5", wrap="sleep 15") for _ in range(4)]
    records = s.cluster.wait_jobs(ids, timeout=60)
    waits = sorted(seconds(r, "StartTime") - seconds(r, "EligibleTime") for r in records)
    late = 5 + CLOCK.lost() - lost
    s.expect(waits[0] < HOLD_S <= waits[-1] < HOLD_S + late, f"waited {waits} s")
    peak = meter.stop().peak("")
    s.expect(peak > CAPS[""], f"{peak:.0f} W of {CAPS['']:.0f} W")
    s.summary = f"held for {waits[-1]} s, then {peak:.0f} W of {CAPS['']:.0f} W"


@case
def longest_hold(s):
    """With `energy.hold_max_s` a limit ends there, and Slurm starts the job"""
    with edited(s.cluster, s.cluster.paths.phalanx_toml, "[energy]",
                f"[energy]\nhold_max_s = {HOLD_S}", "phalanx", "daemon", "reload"):
        ends(s)


@case
def slurm_conf(s):
    """With `phalanx_hold_max` in slurm.conf too, whatever the daemon says"""
    with edited(s.cluster, s.cluster.paths.slurm_conf, "SchedulerParameters=",
                f"SchedulerParameters=phalanx_hold_max={HOLD_S},", "scontrol", "reconfigure"):
        s.until(lambda: phalanx_json(s.cluster, "status")["plugin"]["synced"], "synced anew")
        ends(s)
        # Beyond a week only with slurm.conf's leave.
        report = json.loads(phalanx(s.cluster, "doctor", "--json", "--config",
                                    s.cluster.paths.phalanx_toml, check=False).stdout)
        found = [f for f in report["findings"] if f["check"] == "hold-max"]
        s.expect([f["level"] for f in found] == ["warning"], f"doctor: {found}")


@case
def beside_stock(s):
    """Under the same jobs stock Slurm is far above the cap, for long"""
    place = os.path.join(os.path.dirname(s.cluster.paths.root), "stock")
    with Cluster(place, nodes=NODES, extra=EXTRA, stock=True) as stock:
        both = (s.cluster, stock)
        meters = [Meter(cluster) for cluster in both]
        ids = [s.submit(cluster, 40, 8) for cluster in both]
        for cluster, of in zip(both, ids):
            states = {r["JobState"] for r in cluster.wait_jobs(of, timeout=180)}
            s.expect(states == {"COMPLETED"}, f"{cluster.paths.root}: {states}")
        ours, theirs = [meter.stop() for meter in meters]
    s.kept(ours)
    long = theirs.in_all("", CAPS[""] + JOB_W)
    s.expect(long > LONGEST_S, f"stock is above the cap by one job's power for {long:.1f} s only")
    s.summary = (f"above {CAPS['']:.0f} W for {ours.in_all('', CAPS['']):.1f} s, stock "
                 f"{theirs.in_all('', CAPS['']):.1f} s; peak {ours.peak(''):.0f} W, stock "
                 f"{theirs.peak(''):.0f} W")


case(shipped_config)


@contextlib.contextmanager
def setting(root, _args):
    """One cluster with limits."""
    place = os.path.join(root, "c")
    with Cluster(place, nodes=NODES, extra=EXTRA, config=write_config(place, CONFIG)) as cluster:
        yield Power(cluster)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
