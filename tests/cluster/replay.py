#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recordings of a real cluster: decided again to the last bit, and otherwise.

One cluster of 16 nodes of four kinds with more jobs than it holds: single and multi-node jobs
(gangs), arrays that wait for their plan (bags). The daemon records them over a reload and a
reconfigure of slurmctld. Then the recording is replayed, with the same configuration and with
another; it is cut and changed; it is the simulator's input; and `phalanx what-if` looks ahead
with a thin history and with an imported one.
"""

import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

from slurmcluster import Cluster  # noqa: E402
from slurmcluster.conf import write_config  # noqa: E402
from slurmcluster.suite import check, run_in_directory  # noqa: E402
from transparency_status import phalanx, phalanx_json  # noqa: E402

SOON_S = 60.0
TOML = """mode = "enforce"
[source]
poll_ms = 300
[record]
file_mb = 1
[gang]
enabled = true
[bag]
enabled = true
hold = true
watts = { amd = 300, intel = 800 }
idle_watts = { amd = 100, intel = 200 }
"""


def until(condition, what, limit=SOON_S):
    """Waits; raises SuiteError."""
    start = time.monotonic()
    while not condition():
        check(time.monotonic() - start < limit, f"not within {limit:.0f} s: {what}")
        time.sleep(0.2)


def status(cluster, *words, code=0):
    """Exit status and text of a phalanx command."""
    done = phalanx(cluster, *words, check=False)
    check(done.returncode == code, f"phalanx {' '.join(words)}: {done.returncode} {done.stderr}")
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


def idle(cluster):
    """No job is left."""
    return not cluster.run("squeue", "-h").stdout.strip()


def record(cluster):
    """a period under contention is recorded, over a reload and a reconfigure"""
    contention(cluster, 20)
    begun = phalanx_json(cluster, "record", "start", "--for", "10min")
    check(begun["active"] and begun["until_ms"], f"record start: {begun}")
    check("under way" in status(cluster, "record", "start", code=1), "a second one")
    contention(cluster, 40)
    status(cluster, "reload")
    cluster.run("scontrol", "reconfigure")
    contention(cluster, 20)
    until(lambda: idle(cluster), "all jobs ended", 180)
    time.sleep(1)
    ended = phalanx_json(cluster, "record", "stop")
    check(not ended["active"] and ended["gaps"] == 0 and not ended["last_error"], f"{ended}")
    check("nothing is being" in status(cluster, "record", "stop", code=1), "none to stop")
    folder = os.path.join(cluster.paths.var, "recordings")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def replays(cluster, directory, files):
    """the same answers to the last bit; others under another configuration"""
    same = phalanx_json(cluster, "replay", *files)
    print(f"    {same['asks']} questions, {same['same']} same, {same['missed']} not recorded",
          flush=True)
    check(same["asks"] > 300 and same["differing"] == 0 and not same["broken"], f"{same}")
    check(same["same"] == same["asks"] and same["ends"][-1] == "it was told to end", f"{same}")
    check(same["missed"] * 10 < same["asks"], f"missed: {same}")
    other = os.path.join(directory, "other.toml")
    with open(other, "w", encoding="utf-8") as file:
        file.write(TOML.replace('mode = "enforce"',
                                'mode = "enforce"\n[balance]\nmode = "seed"'))
    then = json.loads(status(cluster, "replay", *files, "--config", other, "--json"))
    check(then["then"]["elsewhere"] > 0 and then["same"] == then["asks"], f"{then['then']}")
    check(then["first"] and then["first"][0]["recorded"] != then["first"][0]["now"], f"{then}")
    text = status(cluster, "replay", *files, "--config", other)
    check("Placed elsewhere" in text and "First differences" in text, text)


def broken(cluster, directory, files):
    """a cut or changed file is used up to there, with the place"""
    with open(files[0], "rb") as file:
        whole = file.read()
    path = os.path.join(directory, "broken.phxrec")
    for data, what in ((whole[:-40], "cut off within a frame"),
                       (whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:], "damaged")):
        with open(path, "wb") as file:
            file.write(data)
        text = status(cluster, "replay", path, code=1)
        check(what in text and "Broken" in text and "record " in text, text)
        check("Differing    0" in text, text)


def simulates(cluster, files):
    """the recorded jobs on the recorded nodes, simulated"""
    words = ["simulate", "--policy", "stock", "--policy", "phalanx"]
    words += [word for file in files for word in ("--jobs", file)]
    rows = [json.loads(line) for line in status(cluster, *words).splitlines()]
    check([row["policy"] for row in rows] == ["stock", "phalanx"], f"{rows}")
    print(f"    {rows[0]['jobs']} jobs, makespan {rows[0]['makespan_s']} s", flush=True)
    # 100 submissions and 25 of several nodes, and the arrays' tasks; those before count too.
    check(rows[0]["jobs"] > 130 and 10 < rows[0]["makespan_s"] < 400, f"{rows}")


def looks_ahead(cluster, directory):
    """what-if with learned arrivals, and without where the history is thin"""
    # --config names the other configuration here, whose socket is not this daemon's.
    ahead = ("what-if", "--config", os.path.join(directory, "other.toml"))
    thin = json.loads(status(cluster, *ahead, "--json"))["arrivals"]
    check("too thin" in thin["none"] and thin["jobs"] == 0, f"{thin}")
    now = time.time()
    rows = ["JobID|User|Account|JobName|Partition|Submit|Start|End|State|NodeList|NCPUS|ReqTRES|"
            "Timelimit"]
    for i in range(30 * 24):
        times = [time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now - i * 3600 + s))
                 for s in (-5400, -5300, -3600)]
        rows.append("|".join([str(5_000_000 + i), "eve", "phys", "train", "main", *times,
                              "COMPLETED", "cpu1", "2", "cpu=2,mem=50M,node=1", "01:00:00"]))
    path = os.path.join(directory, "runs.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(rows) + "\n")
    status(cluster, "history", "import", path)
    report = json.loads(status(cluster, *ahead, "--json"))
    arrivals = report["arrivals"]
    check(arrivals["none"] is None and arrivals["rates_by"] == "week", f"{arrivals}")
    check(12 <= arrivals["jobs"] <= 60, f"24 were likely: {arrivals}")
    today = report["today"]
    check(today["new_starts"] > 0 and today["utilization"]["cpu"] > 0, f"{report}")
    check(report["no_energy"] is None, f"{report}")
    idle_j = (10 * 100 + 6 * 200) * report["hours"] * 3600
    for side in (today, report["then"]):
        check(idle_j < side["energy_j"] < idle_j * 4, f"idle nodes take {idle_j}: {side}")
    again = json.loads(status(cluster, *ahead, "--json"))["arrivals"]
    check(abs(again["jobs"] - arrivals["jobs"]) <= 5, f"{again} after {arrivals}")
    text = status(cluster, *ahead)
    check("new jobs arrive" in text and "New jobs that start" in text, text)


def run(directory):
    """Everything on one cluster."""
    place = os.path.join(directory, "c")
    with Cluster(place, config=write_config(place, TOML)) as cluster:
        print("  record:", record.__doc__, flush=True)
        files = record(cluster)
        for part, args in ((replays, (directory, files)), (broken, (directory, files)),
                           (simulates, (files,)), (looks_ahead, (directory,))):
            print(f"  {part.__name__}: {part.__doc__}", flush=True)
            part(cluster, *args)


def main():
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave the logs behind")
    args = parser.parse_args()
    return run_in_directory("replay", run, args.keep)


if __name__ == "__main__":
    sys.exit(main())
