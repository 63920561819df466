#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same jobs on stock Slurm and on Phalanx, side by side, on two 16-node clusters."""

import argparse
import json
import os
import pwd
import re
import shutil
import signal
import sys
import tempfile
import threading
import time

from slurmcluster import Cluster, ClusterError
from slurmcluster.jobs import DONE
from slurmcluster.measure import Samples, job_values, node_values
from slurmcluster.nodes import DEFAULT_FRAGMENT
from slurmcluster.workload import last_week, mixed

SAMPLE_S = 1.0
PLAIN_LINE_S = 10.0      # between two progress lines when the output is no terminal
RUN_LIMIT_S = 420        # a list that takes longer is stuck
BAR_WIDTH = 24
REPEAT_MAX = 100
TITLES = {"stock": "stock Slurm", "phalanx": "Phalanx"}
ROWS = (("makespan_s", "makespan", "s", 0), ("wait_mean_s", "mean wait", "s", 1),
        ("wait_max_s", "longest wait", "s", 0), ("running_mean", "jobs running at once", "", 1),
        ("used_cpus", "CPUs in use", "", 1), ("used_gpus", "GPUs in use", "", 1),
        ("stranded_gpus", "stranded GPUs", "", 2), ("stranded_cpus", "stranded CPUs", "", 2),
        ("dispersion", "mean dispersion", "", 3))
# On both clusters: priorities that can be changed, by themselves first come first served.
EXTRA = ["PriorityType=priority/multifactor", "PriorityWeightAge=0"]
# The queue follows what was learned of each program's runtime, within bounds; the rest is default.
CONFIG = """\
mode = "enforce"
[order]
enabled = true
by = "learned"
max_overtakes = 20
max_delay_s = 60
"""
EXPLAINED = ("gpu", "multi-node", "memory")


class Run(threading.Thread):
    """One cluster working through the list, in a thread of its own."""

    def __init__(self, name, cluster, jobs):
        super().__init__(name=name, daemon=True)
        self.cluster, self.jobs, self.samples = cluster, jobs, Samples()
        self.ids, self.records, self.error = {}, [], None
        self.counts = {"pending": sum(job.tasks for job in jobs), "running": 0, "done": 0}
        self.used, self.stopping, self.origin = (0, 0), threading.Event(), 0.0
        self.ended = None

    def run(self):
        """Submits on time, samples once a second, ends when every job has."""
        try:
            self._work()
        except (ClusterError, KeyError, ValueError) as error:
            self.error = f"{type(error).__name__}: {error}"
        finally:
            self.ended = time.monotonic()

    def _work(self):
        waiting, next_sample = list(self.jobs), self.origin
        while not self.stopping.is_set():
            now = time.monotonic()
            while waiting and waiting[0].at_s <= now - self.origin:
                self._submit(waiting.pop(0))
            if now >= next_sample:
                self._sample(waiting)
                next_sample += SAMPLE_S
                if not waiting and not self.counts["pending"] and not self.counts["running"]:
                    return
            if now - self.origin > RUN_LIMIT_S:
                raise ClusterError(f"jobs are left after {RUN_LIMIT_S} s: {self.counts}")
            due = [next_sample] + [self.origin + job.at_s for job in waiting[:1]]
            time.sleep(max(0.0, min(due) - time.monotonic()))

    def _submit(self, job):
        job_id = self.cluster.submit("-J", job.name, "--time=2", *job.options,
                                     wrap=f"sleep {job.sleep_s}")
        self.ids[job_id] = job

    def _sample(self, waiting):
        nodes = self.cluster.scontrol_records("node", "-d")
        values = node_values(nodes)
        self.samples.add(time.monotonic(), values)
        self.used = (values["used_cpus"], values["used_gpus"])
        self.records = [record for record in self.cluster.jobs()
                        if int(record.get("ArrayJobId", record["JobId"])) in self.ids]
        running = sum(r["JobState"] in ("RUNNING", "COMPLETING") for r in self.records)
        done = sum(r["JobState"] in DONE for r in self.records)
        total = sum(job.tasks for job in self.jobs)
        self.counts = {"pending": total - running - done, "running": running, "done": done}

    def metrics(self):
        """Every number of the table."""
        result = job_values(self.records)
        for key in ("used_cpus", "used_gpus", "stranded_gpus", "stranded_cpus", "dispersion"):
            result[key] = self.samples.mean(key)
        states = {}
        for record in self.records:
            states[record["JobState"]] = states.get(record["JobState"], 0) + 1
        return result | {"states": states}

    def line(self):
        """The status line."""
        total = sum(self.counts.values())
        filled = round(BAR_WIDTH * self.counts["done"] / max(1, total))
        bar = "#" * filled + "." * (BAR_WIDTH - filled)
        seconds = (self.ended or time.monotonic()) - self.origin
        return (f"{TITLES[self.name]:12} [{bar}] {seconds:4.0f} s  {self.counts['pending']:3} "
                f"waiting {self.counts['running']:3} running {self.counts['done']:3} done  "
                f"{self.used[0]:3} CPUs {self.used[1]:2} GPUs")


def show_progress(runs):
    """Refreshes one line per cluster until all threads have ended."""
    terminal, next_plain, drawn = sys.stdout.isatty(), 0.0, False
    while True:
        alive = any(run.is_alive() for run in runs)
        now = time.monotonic()
        if terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\033[{len(runs)}A" if drawn else "", end="")
            for run in runs:
                print("\033[2K" + run.line()[:width])
            drawn = True
        elif now >= next_plain or not alive:
            for run in runs:
                print(run.line(), flush=True)
            next_plain = now + PLAIN_LINE_S
        if not alive or any(run.error for run in runs):
            return
        time.sleep(0.25)


def mean_of(runs):
    """The mean of several runs' numbers; their job states are added up."""
    result = {"states": {}}
    for key, *_ in ROWS:
        values = [run[key] for run in runs if run.get(key) is not None]
        result[key] = sum(values) / len(values) if values else None
    for run in runs:
        for state, count in run["states"].items():
            result["states"][state] = result["states"].get(state, 0) + count
    return result


def table(results):
    """The comparison as text lines."""
    names = list(results)
    head = f"{'':22}" + "".join(f"{TITLES[name]:>14}" for name in names)
    lines = [head + (f"{'difference':>14}" if len(names) == 2 else "")]
    for key, title, unit, digits in ROWS:
        values = [results[name].get(key) for name in names]
        cells = ["-" if v is None else f"{v:.{digits}f}{' ' + unit if unit else ''}"
                 for v in values]
        text = f"{title:22}" + "".join(f"{cell:>14}" for cell in cells)
        if len(values) == 2 and None not in values and values[0]:
            text += f"{(values[1] - values[0]) / values[0]:>+13.0%} "
        lines.append(text.rstrip())
    lines.append("Means over time; stranded: free GPUs of nodes without free CPUs or memory,")
    lines.append("and free CPUs of nodes without free memory. Lower dispersion: better balance.")
    return lines


def explain(run):
    """Prints `phalanx explain` of three placements. Returns False if one fails."""
    good = True
    for kind in EXPLAINED:
        job_id = next((i for i, job in sorted(run.ids.items()) if job.kind == kind), None)
        if job_id is None:
            continue
        job = run.ids[job_id]
        print(f"\n$ phalanx explain {job_id}      # {kind}: sbatch {' '.join(job.options)}")
        phalanx = os.path.join(run.cluster.paths.bin_dir, "phalanx")
        done = run.cluster.run(phalanx, "explain", str(job_id), check=False, timeout=30)
        print((done.stdout + done.stderr).rstrip())
        good &= done.returncode == 0
    return good


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--seed", type=int, default=1, help="of the job list (default 1)")
    parser.add_argument("--only", choices=sorted(TITLES), help="one of the two clusters")
    parser.add_argument("--repeat", type=int, default=1, metavar="N",
                        help="run the list N times and show the means (default 1)")
    parser.add_argument("--weights", action="store_true",
                        help="give the nodes a Weight: CPU-only nodes first, then large memory, "
                             "then GPUs (default: none, Slurm's default)")
    parser.add_argument("--dir", help="where the clusters live (default: a temporary directory)")
    parser.add_argument("--json", metavar="FILE", help="write the numbers here as well")
    args = parser.parse_args()
    if not 1 <= args.repeat <= REPEAT_MAX:
        parser.error(f"--repeat: expected 1 to {REPEAT_MAX}")
    return args


def unweighted():
    """The default nodes as slurm.conf has them when nobody wrote a Weight."""
    return re.sub(r"Weight=\d+ ", "", DEFAULT_FRAGMENT)


def main():
    """Boots, runs, compares, explains; ends everything whatever happens."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    args = arguments()
    names = [args.only] if args.only else ["stock", "phalanx"]
    root = args.dir or tempfile.mkdtemp(prefix="phalanx-demo-")
    jobs, clusters, runs = mixed(args.seed), {}, []
    nodes = None if args.weights else unweighted()
    os.makedirs(root, exist_ok=True)
    try:
        for name in names:
            print(f"booting 16 nodes: {TITLES[name]}", flush=True)
            clusters[name] = Cluster(os.path.join(root, name), stock=name == "stock",
                                     nodes=nodes, config=write_config(root), extra=EXTRA).up()
        if "phalanx" in clusters:
            teach(clusters["phalanx"], root, args.seed)
        print(f"submitting {len(jobs)} jobs ({sum(job.tasks for job in jobs)} with array tasks)"
              f", seed {args.seed}", flush=True)
        for _ in range(args.repeat):
            runs.append([Run(name, cluster, jobs) for name, cluster in clusters.items()])
            work_through(runs[-1])
        return report(runs, args)
    except (ClusterError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        for run in (run for pair in runs for run in pair if run.ident):
            run.stopping.set()
            run.join(timeout=60)
        for cluster in clusters.values():
            cluster.down()
        if not args.dir:
            shutil.rmtree(root, ignore_errors=True)


def write_config(root):
    """The configuration of the demo's phalanxd."""
    path = os.path.join(root, "phalanx.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(CONFIG)
    return path


def teach(cluster, root, seed):
    """What an administrator would do: import what Slurm's accounting knows of last week."""
    path = os.path.join(root, "last-week.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(last_week(seed, pwd.getpwuid(os.getuid()).pw_name))
    phalanx = os.path.join(cluster.paths.bin_dir, "phalanx")
    print(f"\n$ phalanx history import {os.path.basename(path)}")
    print(cluster.run(phalanx, "history", "import", path, timeout=60).stdout.rstrip())


def work_through(runs):
    """Runs the list on every cluster at once, showing progress. Raises ClusterError."""
    origin = time.monotonic()
    for run in runs:
        run.origin = origin
        run.start()
    show_progress(runs)
    failed = [f"{TITLES[run.name]}: {run.error}" for run in runs if run.error]
    if failed:
        raise ClusterError("; ".join(failed))


def report(runs, args):
    """Prints what came of all runs. Returns the exit code."""
    every = {run.name: [pair[at].metrics() for pair in runs] for at, run in enumerate(runs[0])}
    results = {name: mean_of(found) for name, found in every.items()}
    print("", *table(results), sep="\n")
    print("One run: timing alone moves these numbers, see --repeat." if args.repeat == 1
          else f"Means of {args.repeat} runs of the same list.")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"seed": args.seed, "results": results, "runs": every}, file, indent=1)
    code = 0
    for run in runs[-1]:
        states = results[run.name]["states"]
        if set(states) != {"COMPLETED"}:
            print(f"{TITLES[run.name]}: not every job completed: {states}", file=sys.stderr)
            code = 1
        if run.name == "phalanx" and not explain(run):
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
