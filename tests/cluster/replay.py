#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recordings of a real cluster: decided again to the last bit, and otherwise.

One cluster of 16 nodes of four kinds with more jobs than it holds: single and multi-node jobs
(gangs), arrays that wait for their plan (bags). The daemon records them over a reload and a
reconfigure of slurmctld. Then the recording is replayed, with the same configuration and with
another; it is cut and changed; it is the simulator's input; and `phalanx plan --config` looks ahead
with a thin history and with an imported one.
"""

import contextlib
import json
import os
import sys
import time

from slurmcluster import Cluster
from slurmcluster.conf import write_config
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.suite import Cases, Suite, check, command_line, run

case = Cases()
TOML = """mode = "enforce"
[source]
poll_ms = 300
[bag]
hold = "plan"
watts = { amd = 300, intel = 800 }
[energy]
idle_watts = { amd = 100, intel = 200 }
"""


class Replay(Suite):
    """The cluster, and its recording once there is one."""

    def __init__(self, cluster, root):
        super().__init__(cluster)
        self.root, self.files = root, []

    @property
    def other(self):
        """Where the other configuration is."""
        return os.path.join(self.root, "other.toml")

    def status(self, *words, code=0):
        """What a phalanx command prints; it must end with this status."""
        done = phalanx(self.cluster, *words, check=False)
        check(done.returncode == code,
              f"phalanx {' '.join(words)}: {done.returncode} {done.stderr}")
        return done.stderr if code and not done.stdout else done.stdout


def contention(cluster, rounds):
    """More jobs than there is room for."""
    for i in range(rounds):
        cluster.submit(f"-n{i % 6 + 1}", f"-c{i % 3 + 1}", f"--mem={i % 4 * 90 + 40}",
                       f"-t{i % 7 + 1}", wrap=f"sleep {i % 3 + 1}")
        if i % 4 == 0:
            cluster.submit(f"-N{i % 3 + 2}", f"-t{i % 7 + 1}", wrap=f"sleep {i % 4 + 1}")
        if i % 10 == 0:
            cluster.submit("-a1-8", "-c2", "-t2", wrap="sleep 2")


@case
def record(suite):
    """a period under contention is recorded, over a reload and a reconfigure"""
    contention(suite.cluster, 20)
    begun = phalanx_json(suite.cluster, "record", "start", "--for", "10min")
    check(begun["active"] and begun["until_ms"], f"record start: {begun}")
    check("under way" in suite.status("record", "start", code=1), "a second one")
    contention(suite.cluster, 40)
    suite.status("daemon", "reload")
    suite.cluster.run("scontrol", "reconfigure")
    contention(suite.cluster, 20)
    suite.until(lambda: not suite.cluster.run("squeue", "-h").stdout.strip(), "all jobs ended", 180)
    time.sleep(1)
    ended = phalanx_json(suite.cluster, "record", "stop")
    check(not ended["active"] and ended["gaps"] == 0 and not ended["last_error"], f"{ended}")
    check("nothing is being" in suite.status("record", "stop", code=1), "none to stop")
    folder = os.path.join(suite.cluster.paths.var, "recordings")
    suite.files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


@case(needs=["record"])
def replays(suite):
    """the same answers to the last bit; others under another configuration"""
    same = phalanx_json(suite.cluster, "record", "replay", *suite.files)
    print(f"    {same['asks']} questions, {same['same']} same, {same['missed']} not recorded",
          flush=True)
    # A busy slurmctld asks less often.
    check(same["asks"] > 100 and same["differing"] == 0 and not same["broken"], f"{same}")
    check(same["same"] == same["asks"] and same["ends"][-1] == "it was told to end", f"{same}")
    check(same["missed"] * 10 < same["asks"], f"missed: {same}")
    with open(suite.other, "w", encoding="utf-8") as file:
        file.write(TOML.replace('mode = "enforce"',
                                'mode = "enforce"\n[balance]\nmode = "seed"'))
    then = json.loads(suite.status("record", "replay", *suite.files, "--config", suite.other,
                                   "--json"))
    check(then["then"]["elsewhere"] > 0 and then["same"] == then["asks"], f"{then['then']}")
    check(then["first"] and then["first"][0]["recorded"] != then["first"][0]["now"], f"{then}")
    text = suite.status("record", "replay", *suite.files, "--config", suite.other)
    check("Placed elsewhere" in text and "First differences" in text, text)


@case(needs=["record"])
def broken(suite):
    """a cut or changed file is used up to there, with the place"""
    with open(suite.files[0], "rb") as file:
        whole = file.read()
    path = os.path.join(suite.root, "broken.phxrec")
    # Within the last frame, however short.
    for data, what in ((whole[:-1], "cut off within a frame"),
                       (whole[:-1] + bytes([whole[-1] ^ 1]), "damaged")):
        with open(path, "wb") as file:
            file.write(data)
        text = suite.status("record", "replay", path, code=1)
        words = " ".join(text.split())
        check(all(part in words for part in (what, "Broken", "record ", "Differing 0")), text)


@case(needs=["record"])
def simulates(suite):
    """the recorded jobs on the recorded nodes, simulated"""
    words = ["simulate", "--policy", "stock", "--policy", "phalanx"]
    words += [word for file in suite.files for word in ("--jobs", file)]
    rows = [json.loads(line) for line in suite.status(*words).splitlines()]
    check([row["policy"] for row in rows] == ["stock", "phalanx"], f"{rows}")
    print(f"    {rows[0]['jobs']} jobs, makespan {rows[0]['makespan_s']} s", flush=True)
    # 100 submissions and 25 of several nodes, and the arrays' tasks; those before count too.
    check(rows[0]["jobs"] > 130 and 10 < rows[0]["makespan_s"] < 400, f"{rows}")


@case(needs=["replays"])
def looks_ahead(suite):
    """plan --config with learned arrivals, and without where the history is thin"""
    # --config names the other configuration here, whose socket is not this daemon's.
    ahead = ("plan", "--config", suite.other)
    thin = json.loads(suite.status(*ahead, "--json"))["arrivals"]
    check("too thin" in thin["none"] and thin["jobs"] == 0, f"{thin}")
    now = time.time()
    rows = ["JobID|User|Account|JobName|Partition|Submit|Start|End|State|NodeList|NCPUS|ReqTRES|"
            "Timelimit"]
    for i in range(30 * 24):
        times = [time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now - i * 3600 + s))
                 for s in (-5400, -5300, -3600)]
        rows.append("|".join([str(5_000_000 + i), "eve", "phys", "train", "main", *times,
                              "COMPLETED", "cpu1", "2", "cpu=2,mem=50M,node=1", "01:00:00"]))
    path = os.path.join(suite.root, "runs.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(rows) + "\n")
    suite.status("history", "import", path)
    report = json.loads(suite.status(*ahead, "--json"))
    arrivals = report["arrivals"]
    check(arrivals["none"] is None and arrivals["rates_by"] == "week", f"{arrivals}")
    check(12 <= arrivals["jobs"] <= 60, f"24 were likely: {arrivals}")
    today = report["today"]
    check(today["new_starts"] > 0 and today["utilization"]["cpu"] > 0, f"{report}")
    check(report["no_energy"] is None, f"{report}")
    idle_j = (10 * 100 + 6 * 200) * report["hours"] * 3600
    for side in (today, report["then"]):
        check(idle_j < side["energy_j"] < idle_j * 4, f"idle nodes take {idle_j}: {side}")
    again = json.loads(suite.status(*ahead, "--json"))["arrivals"]
    check(abs(again["jobs"] - arrivals["jobs"]) <= 5, f"{again} after {arrivals}")
    text = suite.status(*ahead)
    check("New: " in text and "New jobs that start" in text, text)


@contextlib.contextmanager
def setting(root, _args):
    """One cluster."""
    place = os.path.join(root, "c")
    with Cluster(place, config=write_config(place, TOML)) as cluster:
        yield Replay(cluster, root)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
