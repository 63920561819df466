#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is energy learned from Slurm's own accounting while the daemon runs, and decided by?

The cluster's slurmd measure energy by Slurm's own plugin acct_gather_energy/pm_counters.
The sensor files that it reads are written by this suite, in a mount namespace of its own:
every node draws the same power. First the configuration's watts are believed, then what
slurmctld shows of busy nodes, then what slurmdbd keeps of ended jobs, batch scripts without
srun included. Then an array that makes a loss waits for a cheaper hour but not beyond the
longest wait, and a plan keeps to a limit of its power.
"""

import datetime
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

from gangs import Suite  # noqa: E402
from slurmcluster import Cluster  # noqa: E402
from slurmcluster.conf import PROMPT, write_config  # noqa: E402
from transparency_status import phalanx, phalanx_json  # noqa: E402

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
[learn]
accounting_s = 1
[bag]
hold = true
energy_price = 1000.0
watts = { fast = 400.0, eco = 40.0 }
# more
# end of [bag]
"""
MORE, END = "# more", "# end of [bag]"


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
                               script, "sh", place, sys.executable, __file__, "--inside"],
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
    """The cases, on one cluster."""

    def configure(self, more):
        """Puts a configuration with further keys of [bag] in force."""
        path = self.cluster.paths.phalanx_toml
        with open(path, encoding="utf-8") as file:
            text = file.read()
        begin, end = text.index(MORE), text.index(END)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text[:begin] + MORE + "\n" + more + "\n" + text[end:])
        phalanx(self.cluster, "reload")

    def until(self, what, test, timeout=30):
        """Waits for something; a problem if it does not come."""
        end = time.monotonic() + timeout
        found = None
        while time.monotonic() < end:
            found = test()
            if found:
                return found
            time.sleep(0.3)
        self.problems.append(f"{what}: not within {timeout} s")
        return found

    def array(self, name, tasks, *options, seconds=4):
        """Submits one array of one-CPU tasks."""
        return self.cluster.submit("-J", name, "-n1", f"--array=1-{tasks}", "-t5", *options,
                                   wrap=f"sleep {seconds}")

    def bag(self):
        """The bag method's report in the latest plan."""
        report = phalanx_json(self.cluster, "plan")
        return next((m for m in report["methods"] if m["method"] == "bag"), {})

    def sources(self):
        """Configuration, then CurrentWatts, then ConsumedEnergy"""
        nodes = lambda: phalanx_json(self.cluster, "history", "energy")["nodes"]
        rows = lambda: phalanx_json(self.cluster, "history", "energy")["rows"]
        first = self.until("the nodes", nodes) or []
        self.expect({n["from"] for n in first} == {"configuration"}, f"at first: {first}")
        whole = self.array("whole", 4, "--exclusive")
        seen = self.until("power of busy nodes", lambda: {n["from"] for n in nodes()} == {"slurm"}
                          and nodes(), 15)
        if seen:
            near = all(abs(n["busy_w"] - WATTS) < 10 for n in seen)
            self.expect(near, f"busy nodes draw {WATTS} W: {seen}")
        half = [self.array("half", 2, "-C", kind) for kind in ("fast", "eco")]
        for job in (whole, *half):
            self.until(f"end of {job}", lambda job=job: not self.cluster.run(
                "squeue", "-h", "-j", str(job), check=False).stdout.strip(), 40)
        found = self.until("energy of all classes",
                           lambda: len(rows()) == 4 and all(
                               r["measured"] > r["runs"] - 0.1 for r in rows()) and rows())
        for row in found or []:
            # A task of one CPU has half of its node's energy.
            wanted = WATTS / 2 if "/half/" in row["job_class"] else WATTS
            good = row["from"] == "accounting" and abs(row["watts"] / wanted - 1) < 0.3
            self.expect(good, f"{wanted} W: {row}")
        text = phalanx(self.cluster, "history", "energy").stdout
        self.expect("accounting" in text and "slurm" in text, text)
        imported = phalanx(self.cluster, "history", "import", "--sacct", "--since", "1h").stdout
        self.expect("energy or work added" not in imported, f"energy was there:\n{imported}")

    def loss(self):
        """A loss-making array waits for a cheaper hour, but not for ever"""
        hour = datetime.datetime.now().hour
        falling = ", ".join(f"{(hour + i) % 24} = {900 - 100 * i}" for i in range(4))
        self.configure(f'loss = "wait"\nwait_max_s = 3600\ntariff = {{ {falling} }}')
        job = self.until("an array that waits", self.waiting_array, 40)
        time.sleep(2)
        states = self.cluster.run("squeue", "-h", "-j", str(job), "-o", "%T").stdout.split()
        self.expect(set(states) == {"PENDING"}, f"it waits for a cheaper hour: {states}")
        self.configure(f'loss = "wait"\nwait_max_s = 5\ntariff = {{ {falling} }}')
        self.until("the end of its wait", lambda: not self.cluster.run(
            "squeue", "-h", "-j", str(job), check=False).stdout.strip())

    def waiting_array(self):
        """A loss-making array that waits; None if its first plan came too late for it (a busy
        machine: unplanned tasks are held for 3 s only)."""
        job, end = self.array("half", 4, "--comment=price=0.0", seconds=1), time.monotonic() + 10
        while time.monotonic() < end:
            if any(b["waits"] and b["array"] == job for b in self.bag().get("bags", [])):
                return job
            time.sleep(0.2)
        self.cluster.run("scancel", str(job), check=False)
        return None

    def cap(self):
        """A plan keeps to the limit of its power"""
        self.configure("")
        job = self.array("half", 80, "--comment=price=1.0", "--hold")
        self.cluster.run("scontrol", "release", str(job))

        def mean():
            bag = self.bag()
            rows = [b for b in bag.get("bags", []) if b["array"] == job and b["pending"] > 8]
            terms = bag.get("terms", {})
            return rows and terms["energy_j"] / terms["makespan_s"]

        free = self.until("a plan", mean)
        self.configure("power_cap_w = 400.0")
        self.until(f"a plan below 400 W (without limit {free:.0f} W)",
                   lambda: 0 < (mean() or 999) <= 420)
        self.cluster.run("scancel", str(job))


def inside():
    """The suite; 0 if all is well."""
    root, stop = tempfile.mkdtemp(prefix="phx-energy-"), threading.Event()
    thread = threading.Thread(target=measure, args=(stop,))
    thread.start()
    try:
        directory = os.path.join(root, "c")
        config = write_config(directory, CONFIG)
        with Cluster(directory, nodes=NODES, extra=EXTRA, config=config,
                     slurmdbd=True) as cluster:
            suite = Energy(cluster)
            return suite.run_cases("energy", (suite.sources, suite.loss, suite.cap))
    finally:
        stop.set()
        thread.join()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(inside() if "--inside" in sys.argv else in_namespace())
