#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""`phalanx-share --stream` in jobs of a real Slurm: items to tasks on nodes of unequal speed.

Three nodes on which an item takes 0.4, 0.2 and 0.1 s. By learned speed all items must be done in
at most 75 % of the time that round robin takes beside it, with both in one run, so that the
machine's load falls on both. Workers and programs that are killed with SIGKILL lose no item, nor
does the whole stream, whose next start goes on from its journal; a step that comes later joins.
"""

import contextlib
import json
import os
import signal
import sys

from slurmcluster import Cluster
from slurmcluster.shipped import shipped_config
from slurmcluster.suite import Cases, Suite, command_line, run

FRAGMENT = """\
NodeName=n[1-3] CPUs=8 RealMemory=4000
PartitionName=all Nodes=ALL Default=YES
"""
SPEEDS = (2.5, 5.0, 10.0)       # items a second on n1, n2, n3
PROGRAM = """\
#!/bin/sh
echo $$ >> "$1/programs.$SLURM_JOB_ID"
case $SLURMD_NODENAME in n1) pause=0.4 ;; n2) pause=0.2 ;; *) pause=0.1 ;; esac
while IFS= read -r item; do
    echo "$item" >> "$1/log.$SLURM_JOB_ID"
    sleep $pause
    echo "$SLURMD_NODENAME"
done
"""
SHARE_MAX = 0.75                # of the time of round robin
case = Cases()


class Streams(Suite):
    """The cluster, and jobs that work off a file."""

    soon_s = 90.0

    def __init__(self, cluster, root):
        super().__init__(cluster)
        self.root = root
        self.share = os.path.join(cluster.paths.bin_dir, "phalanx-share")
        self.program = os.path.join(root, "program")
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        os.chmod(self.program, 0o755)

    def path(self, name):
        """A file of the suite."""
        return os.path.join(self.root, name)

    def lines(self, name):
        """Its whole lines; none where it is not there."""
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return [line.rstrip("\n") for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def start(self, name, count, *options, tasks=3, more="", before=""):
        """A job that works off `count` items; returns its id."""
        items = self.path(f"items.{count}")
        with open(items, "w", encoding="utf-8") as file:
            file.writelines(f"item {number}\n" for number in range(1, count + 1))
        worker = f"{self.share} --worker"
        # The worker's process number, then the worker in its place.
        begin = f"echo $$ >> {self.root}/workers.$SLURM_JOB_ID; exec {worker}"
        script = (f"#!/bin/sh\n{before}\n{self.share} --json --stream {items} "
                  f"--journal {self.path('journal.' + name)} {' '.join(options)} -- "
                  f"srun --ntasks={tasks} --overlap --wait=0 sh -c '{begin} -- {self.program} "
                  f"{self.root}' > {self.path('report.' + name)} 2> {self.path('said.' + name)} "
                  f"{more}\n")
        return self.cluster.submit("-N3", f"--ntasks={tasks}", "-t5", "--requeue", script=script)

    def report(self, job, name, count):
        """What the stream of a job that is to end well tells; every item must be there."""
        self.cluster.wait_jobs([job], timeout=self.soon_s)
        state = self.cluster.job(job)["JobState"]
        said = "\n".join(self.lines("said." + name))
        self.expect(state == "COMPLETED", f"{name}: {state}: {said}")
        rows = [line.split("\t") for line in self.lines("journal." + name)]
        self.expect(sorted(row[1] for row in rows)
                    == sorted(f"item {number}" for number in range(1, count + 1)),
                    f"{name}: not every item once, but {len(rows)} lines")
        with open(self.path("report." + name), encoding="utf-8") as file:
            return json.load(file)

    def kill(self, name, at):
        """Ends one of the processes that a file names."""
        pid = int(self.lines(name)[at])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def why(self):
        """What the streams said."""
        names = sorted(name for name in os.listdir(self.root) if name.startswith("said."))
        return "\n".join(f"{name}: {line}" for name in names for line in self.lines(name)[-3:])


@case
def unequal_nodes(suite):
    """On nodes of 1:2:4 at least 25 % faster than round robin"""
    count = 70
    jobs = {order: suite.start(order, count, "--order", order) for order in ("speed", "turn")}
    reports = {order: suite.report(job, order, count) for order, job in jobs.items()}
    took = {order: report["seconds"] for order, report in reports.items()}
    ideal = count / sum(SPEEDS)
    suite.summary = (f"{took['speed']:.2f} s by speed, {took['turn']:.2f} s in turn, ideal "
                     f"{ideal:.2f} s: {1 - took['speed'] / took['turn']:.0%} less")
    suite.expect(took["speed"] <= SHARE_MAX * took["turn"], suite.summary)
    done = {row["node"]: row["items"] for row in reports["speed"]["workers"]}
    suite.expect(done["n1"] < done["n2"] < done["n3"], f"items by node: {done}")


@case
def kills_lose_nothing(suite):
    """Workers and programs are killed: their items go to others"""
    count = 150
    job = suite.start("kills", count, "--tries", "10", tasks=9)
    for step, (name, at) in enumerate((("workers", 0), ("programs", 4), ("workers", 7))):
        seen = 20 * (step + 1)
        suite.until(lambda seen=seen: len(suite.lines(f"log.{job}")) >= seen,
                    f"{seen} items are begun")
        suite.kill(f"{name}.{job}", at)
    report = suite.report(job, "kills", count)
    suite.expect(report["sent_again"] >= 2, f"sent again: {report}")
    suite.expect(sum(row["lost"] > 0 for row in report["workers"]) == 2, f"lost: {report}")
    suite.summary = f"{report['sent_again']} of {count} sent again"


@case
def a_requeued_job_goes_on(suite):
    """The stream is killed; the job's next start has only the rest to do"""
    count = 100
    # Once: the second start must not be killed too.
    before = f"[ -e {suite.path('killed')} ] || (sleep 3; : > {suite.path('killed')}; " \
             "scontrol requeue $SLURM_JOB_ID) &"
    job = suite.start("requeued", count, before=before, tasks=6)
    suite.until(lambda: os.path.exists(suite.path("killed")), "the job is requeued")
    # slurmctld lets a requeued job wait for two minutes.
    suite.until(lambda: suite.cluster.job(job)["JobState"] == "PENDING", "it waits again")
    suite.cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    report = suite.report(job, "requeued", count)
    suite.expect(0 < report["passed_over"] < count, f"passed over: {report}")
    suite.expect(report["items"] + report["passed_over"] == count, f"{report}")
    suite.summary = f"{report['passed_over']} of {count} were done before"


@case
def a_step_joins(suite):
    """A step that starts later works for the stream as well"""
    count, address = 60, suite.path("address")
    more = (f"&\nsleep 1; srun --overlap --ntasks=1 --nodelist=n3 {suite.share} --worker "
            f"--address-file {address} -- {suite.program} {suite.root}\nwait")
    job = suite.start("joined", count, "--address-file", address, more=more)
    report = suite.report(job, "joined", count)
    names = [row["worker"] for row in report["workers"]]
    suite.expect(len(names) == 4 and all(row["items"] for row in report["workers"]), f"{report}")
    suite.expect(not os.path.exists(address), "the address is still there")


case(shipped_config)


@contextlib.contextmanager
def setting(root, _args):
    """One cluster."""
    with Cluster(os.path.join(root, "c"), nodes=FRAGMENT) as cluster:
        yield Streams(cluster, root)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
