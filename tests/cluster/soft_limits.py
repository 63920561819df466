#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Soft limits on a real slurmctld of 23.11 or newer: planned short, started with the whole limit.

Three of four nodes are taken for ten minutes; the first job in line wants all four. A job whose
program ran for a second so far has a limit of an hour: backfill starts it on the fourth node only
by its TimeMin. What the job, Slurm's accounting and its users see is the hour.
"""

import contextlib
import os
import signal
import sys
import time

from slurmcluster import Cluster
from slurmcluster.conf import PROMPT, SCHEDULER, write_config
from slurmcluster.jobs import seconds
from slurmcluster.suite import Cases, Suite, check, command_line, run

NODES = ("NodeName=n[1-4] CPUs=2 Sockets=1 CoresPerSocket=2 RealMemory=4000\n"
         "PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP\n")
SOFT = "time_min_as_soft_limit"
# Among equal priorities the newest would be tried as it comes.
DEFER = SCHEDULER + ",defer"
EXTRA = [f"SchedulerParameters={DEFER},{SOFT}", "PriorityWeightAge=1000"]
CONFIG = PROMPT + "[soft_limits]\nenabled = true\n"
GONE_S = 1.0
LIVES_S = 125       # two minutes, of jobs that were planned as one
case = Cases()


class Soft(Suite):
    """The cluster, its nodes taken, and the job that was planned short."""

    def __init__(self, cluster):
        super().__init__(cluster)
        runs = [self.submit("-N1", run_s=1) for _ in range(4)]
        cluster.wait_jobs(runs, timeout=60)
        self.blocker = cluster.submit("-N3", "--exclusive", "-t10", wrap="exec sleep 600")
        self.until(lambda: self.state(self.blocker) == "RUNNING", "three nodes taken")
        self.first = cluster.submit("-N4", "--exclusive", "-t10", wrap="sleep 1")
        self.until(lambda: self.state(self.first) == "PENDING", "the first in line waits")
        self.planned = self.waits = None

    def submit(self, *options, run_s=300):
        """A job of an hour's limit whose program usually runs for a second."""
        text = f"echo $SLURM_JOB_END_TIME > {self.end_time('$SLURM_JOB_ID')}; exec sleep {run_s}"
        return self.cluster.submit("-J", "short", "-t60", *options, wrap=text)

    def end_time(self, job):
        """The file in which a job writes the end that it was told."""
        return os.path.join(self.cluster.paths.root, f"end-time-{job}")

    def state(self, job):
        """The state of a job."""
        return self.cluster.job(job)["JobState"]

    def time_min(self, job):
        """The TimeMin of a job, as Slurm shows it."""
        return self.cluster.job(job)["TimeMin"]

    def is_whole(self, job):
        """A started job has the limit and the end of its user's, and no TimeMin."""
        record = self.cluster.job(job)
        check((record["TimeLimit"], record["TimeMin"]) == ("01:00:00", "N/A"), f"{record}")
        lasts = seconds(record, "EndTime") - seconds(record, "StartTime")
        check(lasts == 3600, f"ends {lasts} s after its start: {record}")

    def accounted(self, job):
        """Accounting has the hour."""
        self.until(lambda: self.cluster.run("sacct", "-nXP", "-j", job, "-o", "TimelimitRaw")
                   .stdout.strip() == "60", "accounting has the hour")

    def soften(self):
        """A job that waits for two nodes is planned as a minute."""
        self.until(lambda: self.time_min(self.waits) == "00:01:00", "planned as a minute")

    def reconfigure(self, old, new):
        """Changes slurm.conf and has slurmctld read it."""
        path = self.cluster.paths.slurm_conf
        with open(path, encoding="utf-8") as file:
            text = file.read()
        check(old in text, f"no {old} in slurm.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))
        self.cluster.run("scontrol", "reconfigure")


@case
def planned(s):
    """a job is planned as a minute and started with its hour"""
    hard = s.submit("-N1", "--deadline=now+5hours")
    s.planned = s.submit("-N1")
    s.until(lambda: s.state(s.planned) == "RUNNING", "started beside the first in line", 40)
    s.is_whole(s.planned)
    check(s.state(hard) == "PENDING", "not one that is planned by its limit")
    s.cluster.run("scancel", hard)
    path = s.end_time(s.planned)
    s.until(lambda: os.path.exists(path) and os.path.getsize(path) > 0, "it is told its end")
    with open(path, encoding="utf-8") as file:
        lasts = int(file.read()) - seconds(s.cluster.job(s.planned), "StartTime")
    check(abs(lasts - 3600) <= 1, f"SLURM_JOB_END_TIME is {lasts} s after the start")
    s.accounted(s.planned)


@case(needs=["planned"])
def left_alone(s):
    """het jobs, deadlines and a user's own --time-min are not touched"""
    s.waits = s.submit("-N2")
    own = s.submit("-N2", "--time-min=5")
    deadline = s.submit("-N2", "--deadline=now+5hours")
    array = s.submit("-N2", "--array=1-2")
    het = s.cluster.submit("-J", "short", "-t60", "-N1", ":", "-J", "short", "-t60", "-N2",
                           wrap="sleep 1")
    s.soften()
    time.sleep(2)
    found = [s.time_min(job) for job in (own, deadline, array, het)]
    check(found == ["00:05:00", "N/A", "N/A", "N/A"], f"TimeMin: {found}")
    check(s.cluster.job(s.waits)["TimeLimit"] == "01:00:00", "its limit stays")
    s.cluster.run("scancel", own, deadline, array, het)


@case(needs=["left_alone"])
def withdrawn(s):
    """without the daemon, or without Slurm's parameter, nothing of it is left"""
    s.cluster.signal_phalanxd(signal.SIGKILL)
    s.until(lambda: s.time_min(s.waits) == "N/A", "gone with the daemon", GONE_S + 1)
    print(f"    kill -9 of phalanxd: gone after {s.waited_s:.1f} s", flush=True)
    s.cluster.start_phalanxd()
    s.soften()
    s.reconfigure("," + SOFT, "")
    s.until(lambda: s.time_min(s.waits) == "N/A", "gone with the parameter", GONE_S)
    print(f"    reconfigured without {SOFT}: gone after {s.waited_s:.1f} s", flush=True)
    time.sleep(3)
    check(s.time_min(s.waits) == "N/A", "and stays so")
    s.reconfigure(DEFER, f"{DEFER},{SOFT}")
    s.soften()


@case(needs=["withdrawn"])
def overlay_lost(s):
    """after a crash, and without the overlay, such a job starts with its hour"""
    path = os.path.join(s.cluster.paths.state, "job_state")
    for word in ("once", "twice"):
        since = time.time()
        s.cluster.run("scontrol", "update", f"JobId={s.waits}", f"Comment={word}")
        s.until(lambda since=since: os.path.getmtime(path) > since, "the jobs are saved")
    s.cluster.stop_slurmctld(kill=True)
    s.cluster.stop_phalanxd(kill=True)
    s.cluster.remove_overlay()
    s.cluster.start_slurmctld()
    check(s.time_min(s.waits) == "00:01:00", "the saved state has it")
    s.cluster.run("scancel", s.first, s.blocker)
    s.until(lambda: s.state(s.waits) == "RUNNING", "started without the overlay", 60)
    check(s.cluster.job(s.waits)["TimeLimit"] == "01:00:00", f"{s.cluster.job(s.waits)}")
    s.accounted(s.waits)


@case(needs=["overlay_lost"])
def lives(s):
    """both run for longer than the minute that they were planned with"""
    for job in (s.planned, s.waits):
        left = seconds(s.cluster.job(job), "StartTime") + LIVES_S - time.time()
        time.sleep(max(0.0, left))
        check(s.state(job) == "RUNNING", f"{s.cluster.job(job)}")


@contextlib.contextmanager
def setting(root, _args):
    """One cluster of four nodes with accounting."""
    place = os.path.join(root, "c")
    with Cluster(place, nodes=NODES, extra=EXTRA, config=write_config(place, CONFIG),
                 slurmdbd=True) as cluster:
        yield Soft(cluster)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
