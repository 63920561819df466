#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is energy learned from Slurm's own accounting while the daemon runs, and decided by?

The cluster's slurmd measure energy by Slurm's own plugin acct_gather_energy/pm_counters.
The sensor files that it reads are written by this suite, in a mount namespace of its own:
every node draws the same power. First the configuration's watts are believed, then what
slurmctld shows of busy nodes, then what slurmdbd keeps of ended jobs, batch scripts without
srun included. Then an array that makes a loss waits for a cheaper hour but not beyond the
longest wait.
"""

import contextlib
import datetime
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

from slurmcluster import Cluster
from slurmcluster.clock import CLOCK
from slurmcluster.conf import PROMPT, write_config
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.shipped import shipped_config
from slurmcluster.suite import Cases, Suite, command_line, run

WATTS = 150.0               # of each node
COUNTERS = "/sys/cray/pm_counters"
NODES = "".join(f"NodeName={kind}[1-2] CPUs=2 Sockets=1 CoresPerSocket=2 RealMemory=4000 "
                f"Feature={kind}\n" for kind in ("fast", "eco")) + (
    "PartitionName=main Nodes=fast[1-2],eco[1-2] Default=YES MaxTime=INFINITE State=UP\n")
EXTRA = ["AcctGatherEnergyType=acct_gather_energy/pm_counters", "AcctGatherNodeFreq=1",
         "JobAcctGatherType=jobacct_gather/linux", "JobAcctGatherFrequency=task=1",
         "SchedulerParameters=bf_interval=1,bf_resolution=1,sched_min_interval=100000,"
         "batch_sched_delay=0,bf_continue,bf_min_age_reserve=3600,sched_interval=2"]
CONFIG = PROMPT + """\
[planner]
hold_max_s = 3600
[energy]
price = { 0-24 = 1000.0 }
[bag]
hold = "plan"
watts = { fast = 400.0, eco = 40.0 }
"""
INSIDE = "--inside"        # first on the command line in the name space
case = Cases()


def in_namespace():
    """Goes on in a mount namespace where /sys has a directory for the sensors."""
    script = ('old=$1; shift; mount --rbind /sys "$old"; mount -t tmpfs tmpfs /sys; '
              'for d in "$old"/*; do mkdir "/sys/${d##*/}"; mount --rbind "$d" "/sys/${d##*/}"; '
              f'done; mkdir -p {COUNTERS}; exec "$@"')
    # Not root: a user namespace of its own, in which the user keeps the id.
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    place = tempfile.mkdtemp(prefix="phx-sys-")
    try:
        return subprocess.run(["unshare", *user, "--mount", "--propagation", "private", "sh", "-ec",
                               script, "sh", place, sys.executable, __file__, INSIDE,
                               *sys.argv[1:]],
                              check=False).returncode
    finally:
        os.rmdir(place)


def measure(stop):
    """Writes the sensors until `stop`."""
    begin = time.monotonic()
    while True:
        joules = 1000 + WATTS * (time.monotonic() - begin)
        for name, text in (("energy", f"{joules:.0f} J"), ("power", f"{WATTS:.0f} W")):
            path = os.path.join(COUNTERS, name)
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(text + " 0\n")
            os.rename(path + ".new", path)
        if stop.wait(0.2):
            return


class Energy(Suite):
    """Arrays, and what is planned for them."""

    def configure(self, price, hold_max_s=3600, hold="plan"):
        """Puts a configuration in force: prices, the longest hold, what tasks wait for."""
        path = self.cluster.paths.phalanx_toml
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for key, value in (("price", f"{{ {price} }}"), ("hold_max_s", hold_max_s),
                           ("hold", f'"{hold}"')):
            text = re.sub(f"(?m)^{key} = .*", f"{key} = {value}", text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        phalanx(self.cluster, "daemon", "reload")

    def array(self, name, tasks, *options, seconds=4):
        """Submits one array of one-CPU tasks."""
        return self.cluster.submit("-J", name, "-n1", f"--array=1-{tasks}", "-t5", *options,
                                   wrap=f"sleep {seconds}")

    def bag(self):
        """The bag method's report in the latest plan."""
        report = phalanx_json(self.cluster, "plan")
        return next((m for m in report["methods"] if m["method"] == "bag"), {})

    def ended(self, job):
        """Whether no task of an array is left."""
        return not self.cluster.run("squeue", "-h", "-j", str(job), check=False).stdout.strip()

    def waiting_array(self):
        """A loss-making array that waits; None if its first plan came too late for it (a busy
        machine: unplanned tasks are held for 3 s only)."""
        job, end = self.array("half", 4, "--comment=price=0.0", seconds=1), CLOCK.now() + 10
        while CLOCK.now() < end:
            if any(b["waits"] and b["array"] == job for b in self.bag().get("bags", [])):
                return job
            time.sleep(0.2)
        self.cluster.run("scancel", str(job), check=False)
        return None


@case
def sources(suite):
    """Configuration, then CurrentWatts, then ConsumedEnergy"""
    def nodes():
        return phalanx_json(suite.cluster, "report", "energy")["nodes"]

    def rows():
        return phalanx_json(suite.cluster, "report", "energy")["rows"]

    first = suite.until(nodes, "the nodes")
    suite.expect({n["from"] for n in first} == {"configuration"}, f"at first: {first}")
    whole = [suite.array("whole", 4, "--exclusive")]

    def busy():
        # On a busy machine they may end before anybody has looked.
        if suite.ended(whole[-1]):
            whole.append(suite.array("whole", 4, "--exclusive"))
        return {n["from"] for n in nodes()} == {"slurm"} and nodes()
    seen = suite.until(busy, "power of busy nodes", 30)
    near = all(abs(n["busy_w"] - WATTS) < 10 for n in seen)
    suite.expect(near, f"busy nodes draw {WATTS} W: {seen}")
    half = [suite.array("half", 2, "-C", kind) for kind in ("fast", "eco")]
    for job in (*whole, *half):
        suite.until(lambda job=job: suite.ended(job), f"end of {job}", 40)
    found = suite.until(lambda: len(rows()) == 4 and all(
        r["measured"] > r["runs"] - 0.1 for r in rows()) and rows(), "energy of all classes", 90)
    for row in found:
        # A task of one CPU has half of its node's energy.
        wanted = WATTS / 2 if "/half/" in row["job_class"] else WATTS
        good = row["from"] == "accounting" and abs(row["watts"] / wanted - 1) < 0.3
        suite.expect(good, f"{wanted} W: {row}")
    # The file has them a little later than the table.
    suite.until(lambda: all(run["joules"] for run in
                            phalanx_json(suite.cluster, "history", "runs")["runs"]), "the file", 10)
    text = phalanx(suite.cluster, "report", "energy").stdout
    suite.expect("accounting" in text and "slurm" in text, text)
    imported = phalanx(suite.cluster, "history", "import", "--sacct", "--since", "1h").stdout
    suite.expect("energy or work added" not in imported, f"energy was there:\n{imported}")


@case(needs=["sources"])
def loss(suite):
    """A loss-making array waits for a cheaper hour, but not for ever"""
    hour = datetime.datetime.now().hour
    ends = [(hour + i) % 24 for i in (0, 1, 2, 3, 0)]
    falling = ", ".join(f"{ends[i]}-{ends[i + 1]} = {900 - 100 * i}" for i in range(4))
    suite.configure(falling, hold="price")
    job = suite.until(suite.waiting_array, "an array that waits", 40)
    time.sleep(2)
    states = suite.cluster.run("squeue", "-h", "-j", str(job), "-o", "%T").stdout.split()
    suite.expect(set(states) == {"PENDING"}, f"it waits for a cheaper hour: {states}")
    suite.configure(falling, 5, "price")
    suite.until(lambda: suite.ended(job), "the end of its wait")


case(shipped_config)


@contextlib.contextmanager
def setting(root, _args):
    """One cluster with accounting, and its sensors."""
    place, stop = os.path.join(root, "c"), threading.Event()
    thread = threading.Thread(target=measure, args=(stop,))
    thread.start()
    try:
        with Cluster(place, nodes=NODES, extra=EXTRA, config=write_config(place, CONFIG),
                     slurmdbd=True) as cluster:
            cluster.start_agent("@master")
            yield Energy(cluster)
    finally:
        stop.set()
        thread.join()


def main():
    """Runs the cases, in a name space of their own; returns the exit status."""
    if sys.argv[1:2] != [INSIDE]:
        command_line(__doc__, case)
        return in_namespace()
    del sys.argv[1]
    return run(command_line(__doc__, case), setting)


if __name__ == "__main__":
    sys.exit(main())
