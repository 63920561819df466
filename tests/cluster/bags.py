#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job arrays as bags on a real cluster: is the promised profit per hour earned?

Three classes of nodes of different speed and power; the tasks of five arrays really
take different times on each. The daemon first learns the times from a few tasks of
each array's class on each class of nodes; powers and prices come from its
configuration. Then all arrays are submitted at once. Checked: the plan names split,
profit and bound, tasks go where the plan wants them, and the profit per hour that the
ended tasks earned is near what the planner promised and above that of stock Slurm.
With --bench also against the methods greedy and average, with 200 tasks each.
"""

import contextlib
import functools
import json
import os
import re
import sys
import threading
import time
import traceback

from slurmcluster import Cluster, ClusterError
from slurmcluster.clock import CLOCK
from slurmcluster.conf import PROMPT, write_config
from slurmcluster.jobs import seconds
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.shipped import shipped_config
from slurmcluster.suite import Cases, Suite, check, command_line, directory, run, until

CLASSES = ("fast", "mid", "eco")
CPUS = 2                                        # of a node; a task takes one
WATTS = {"fast": 200.0, "mid": 90.0, "eco": 40.0}       # of a node that is fully used
# Seconds of a task of each array on fast, mid and eco nodes.
TYPES = {"alpha": (3, 6, 9), "beta": (6, 5, 8), "gamma": (4, 8, 6), "delta": (8, 6, 12),
         "epsilon": (5, 7, 7)}
ZETA = (4, 4, 4)            # of an array that was never on the last class
# Energy of a task of it: 0.11, 0.05, and 0.08 by the mean of the two where the last is not known.
DEAR, CHEAP, UNKNOWN = CLASSES
PRICE = 0.06
TRIALS = 3                  # tasks on a class of which too little is known
PRICE_KWH = 1000.0
MARGIN = 3.0                # a task earns three times its least energy cost
# The least profit per hour against the promise, with a few tasks: the last ones weigh much. More
# than was promised is no fault. The pauses between tasks are as long as the machine is busy, so
# only time that it had for the tests counts. (With 200 tasks it is within 0.15: BENCHMARKS.md.)
BELOW = 0.25
TASKS = 12      # of each array of the case
case = Cases()
EXTRA = ["SchedulerParameters=bf_interval=1,bf_resolution=1,sched_min_interval=100000,"
         "batch_sched_delay=0,bf_yield_interval=100000,bf_max_job_test=5000,"
         "default_queue_depth=2000,bf_continue,bf_max_job_array_resv=1,bf_min_age_reserve=3600",
         "MinJobAge=7200"]
SETTINGS = f"""\
[energy]
price = {{ 0-24 = {PRICE_KWH} }}
[bag]
hold = "plan"
watts = {{ {', '.join(f'{kind} = {watts}' for kind, watts in WATTS.items())} }}
"""


def conf(nodes):
    """Node lines with so many nodes of each class."""
    lines = [f"NodeName={kind}[1-{nodes}] CPUs={CPUS} Sockets=1 CoresPerSocket={CPUS} "
             f"RealMemory=4000 Feature={kind}" for kind in CLASSES]
    names = ",".join(f"{kind}[1-{nodes}]" for kind in CLASSES)
    lines.append(f"PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP")
    return "\n".join(lines) + "\n"


def script(times):
    """A task that takes its time on the node that it gets."""
    cases = " ".join(f"{kind}*) sleep {time};;" for kind, time in zip(CLASSES, times))
    return f'case "$SLURMD_NODENAME" in {cases} esac'


def task_joules(name, kind):
    """Energy of one task by its nominal time."""
    return TYPES[name][CLASSES.index(kind)] * WATTS[kind] / CPUS


def price_of(name):
    """Earnings of one task."""
    return MARGIN * min(task_joules(name, kind) for kind in CLASSES) * PRICE_KWH / 3.6e6


def submit(cluster, name, tasks, *options):
    """One array; returns its job id."""
    return cluster.submit("-J", name, "-n1", f"--array=1-{tasks}", "-t5",
                          f"--comment=price={price_of(name)}", *options, wrap=script(TYPES[name]))


def wait_ended(cluster, ids, timeout):
    """Waits for arrays without asking for every task; returns the tasks' records."""
    wanted = ",".join(map(str, ids))

    def ended():
        left = cluster.run("squeue", "-h", "-j", wanted, "-o", "%A", check=False)
        return left.returncode == 0 and not left.stdout.strip()

    until(ended, f"end of arrays {wanted}", timeout, every=1.0)
    arrays = set(map(str, ids))
    return [r for r in cluster.jobs() if r.get("ArrayJobId") in arrays]


def earned(records):
    """What the ended tasks earned: makespan, revenue, energy cost, profit per hour, split."""
    begin = min(seconds(r, "StartTime") for r in records)
    makespan = max(seconds(r, "EndTime") for r in records) - begin
    revenue = energy = 0.0
    split = {name: dict.fromkeys(CLASSES, 0) for name in TYPES}
    for record in records:
        name, kind = record["JobName"], record["NodeList"].rstrip("0123456789")
        split[name][kind] += 1
        revenue += MARGIN * min(task_joules(name, k) for k in CLASSES)
        ran = seconds(record, "EndTime") - seconds(record, "StartTime")
        energy += ran * WATTS[kind] / CPUS
    money = PRICE_KWH / 3.6e6
    return {"makespan_s": makespan, "revenue": revenue * money, "energy_j": energy,
            "profit_per_hour": (revenue - energy) * money / makespan * 3600, "split": split}


def learn(cluster):
    """Tasks of every class of jobs on every class of nodes."""
    ids = [submit(cluster, name, 2, "-C", kind) for name in TYPES for kind in CLASSES]
    wait_ended(cluster, ids, 300)
    # A plan for less than all nodes would promise something else.
    cluster.wait_idle(30)


def knows(cluster):
    """Whether times of all job classes on all classes of nodes are learned."""
    rows = phalanx_json(cluster, "report", "energy")["rows"]
    return len([row for row in rows if row["runs"] >= 1.9]) >= len(TYPES) * len(CLASSES)


def promise(cluster, arrays):
    """The first plan that has all arrays: its report of the method."""
    def planned():
        done = phalanx(cluster, "plan", "--json", check=False)
        methods = json.loads(done.stdout)["methods"] if done.returncode == 0 else []
        for method in methods:
            # On a busy machine all tasks of one may have begun before the others are there.
            known = {row["array"] for row in method.get("bags", [])
                     if row["pending"] or row["running"]}
            if method["method"] == "bag" and set(arrays) <= known:
                return method
        return None

    return until(planned, f"a plan that has the arrays {arrays}")


def earn(cluster, tasks, planned):
    """Submits the five arrays; returns what was earned and promised."""
    ids = [submit(cluster, name, tasks, "--hold") for name in TYPES]
    # All at once: on a busy machine the first would have started before the last is there.
    cluster.run("scontrol", "release", ",".join(map(str, ids)))
    began, lost = time.monotonic(), CLOCK.lost()
    method = promise(cluster, ids) if planned else None
    text = phalanx(cluster, "plan").stdout if planned else ""
    explained = None

    def told():
        # The preferences of a plan follow its report.
        nonlocal explained
        explained = phalanx_json(cluster, "explain", f"{ids[-1]}_{tasks}")
        return (explained.get("pending") or {}).get("preference") or explained.get("placed")
    if planned:
        until(told, "explain to know a method")
    records = wait_ended(cluster, ids, 120 + 60 * tasks)
    had = 1 - (CLOCK.lost() - lost) / (time.monotonic() - began)
    wrong = [r["JobId"] for r in records if r["JobState"] != "COMPLETED"]
    if wrong or len(records) != tasks * len(TYPES):
        raise ClusterError(f"{len(records)} tasks ended, not completed: {wrong[:5]}")
    result = earned(records)
    if planned:
        result["promised"] = method["terms"]["profit_per_hour"]
        result["bound"] = method["upper_bound"] * 3600
        result["promised_makespan_s"] = method["terms"]["makespan_s"]
        result["off"] = result["profit_per_hour"] / result["promised"] - 1
        result["time_had"] = had        # the part of the time that the machine had for this
    return result, method, text, explained


def config_of(mode):
    """The daemon's configuration."""
    return PROMPT + SETTINGS.replace("[bag]", f'[bag]\nmode = "{mode}"')


def stock_policy(root, nodes, tasks, up=None, begin=None):
    """Stock Slurm on a cluster of its own; tells when it is up and waits until it may begin."""
    with Cluster(root, nodes=conf(nodes), extra=EXTRA, stock=True) as cluster:
        if up:
            up.set()
            begin.wait(300)
        return earn(cluster, tasks, False)[0]


def policy(root, name, nodes, tasks):
    """One policy on a cluster of its own."""
    if name == "stock":
        return stock_policy(root, nodes, tasks)
    config = write_config(root, config_of(name))
    with Cluster(root, nodes=conf(nodes), extra=EXTRA, config=config) as cluster:
        learn(cluster)
        until(lambda: knows(cluster), "history energy has all times")
        return earn(cluster, tasks, True)[0]


def drain(suite, ids):
    """Drains all nodes of a class until no task is planned there."""
    def moved():
        return not sum(share["tasks"] for row in promise(suite.cluster, ids)["bags"]
                       for share in row["shares"] if share["nodes"].startswith("eco"))

    suite.cluster.run("scontrol", "update", "NodeName=eco[1-2]", "State=DRAIN", "Reason=test")
    try:
        suite.until(moved, "no tasks planned on drained nodes", 15)
    finally:
        suite.cluster.run("scontrol", "update", "NodeName=eco[1-2]", "State=RESUME")


def check_plan(suite, method, text, explained):
    """What the reports say of the arrays."""
    suite.expect(method["upper_bound"] >= method["objective"] - 1e-9, f"bound: {method}")
    classes = [row["job_class"] for row in method["bags"]]
    suite.expect(all(any(f"/{name}/" in c for c in classes) for name in TYPES), f"{classes}")
    suite.expect("; worth " in text, f"plan lacks the worth of bag:\n{text}")
    chosen = (explained.get("pending") or {}).get("preference") or {}
    suite.expect(chosen.get("method") == "bag" or explained.get("placed"),
                 f"explain: {json.dumps(explained)[:500]}")


class Bags(Suite):
    """The cluster of the plan; beside it, on a thread, stock Slurm works off the same arrays."""

    def __init__(self, cluster, root):
        super().__init__(cluster)
        self.stock, self.error = None, None
        self._up, self._learned = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, args=(os.path.join(root, "stock"),))

    def __enter__(self):
        """The other cluster does not come up beside what is learned."""
        self._thread.start()
        self._up.wait(300)
        return self

    def __exit__(self, *_):
        self.begin()
        self._thread.join()

    def begin(self):
        """Lets the arrays begin on the other cluster."""
        self._learned.set()

    def result(self):
        """What stock Slurm earned."""
        self._thread.join()
        check(self.stock, f"no result of stock Slurm: {self.error}")
        return self.stock

    def _work(self, place):
        try:
            self.stock = stock_policy(place, 2, TASKS, self._up, self._learned)
        except Exception:   # pylint: disable=broad-except
            self.error = traceback.format_exc()
        finally:
            self._up.set()


@case(where="plan")
def profit(suite):
    """Profit per hour near the promise, and above that of stock Slurm"""
    cluster = suite.cluster
    learn(cluster)
    suite.until(lambda: knows(cluster), "history energy has all times", 20)
    nodes = phalanx_json(cluster, "report", "energy")["nodes"]
    suite.expect({row["from"] for row in nodes} == {"configuration"}, f"{nodes}")
    suite.begin()
    result, method, text, explained = earn(cluster, TASKS, True)
    check_plan(suite, method, text, explained)
    print(f"    {text}\n    {json.dumps(result)}", flush=True)
    off = (1 + result["off"]) / result["time_had"] - 1
    suite.expect(off >= -BELOW, f"below the promise by {off:+.1%}, {result['off']:+.1%} by the "
                 "wall clock")
    suite.expect(result["promised"] <= result["bound"] * (1 + 1e-6), f"above its bound: {result}")
    ours, stock = result["profit_per_hour"], suite.result()["profit_per_hour"]
    print(f"    profit per hour: stock {stock:.2f}, best {ours:.2f}", flush=True)
    suite.expect(ours > stock, f"stock earns more: {stock:.2f}, not {ours:.2f}")


@case(needs=["profit"], where="plan")
def drained(suite):
    """Draining all nodes of a class moves its tasks elsewhere in the next plan"""
    ids = [submit(suite.cluster, name, 40, "--hold") for name in ("beta", "gamma")]
    for job in ids:
        suite.cluster.run("scontrol", "release", str(job))
    drain(suite, ids)
    suite.cluster.run("scancel", *map(str, ids))


@contextlib.contextmanager
def without_watts(cluster, kind):
    """The configuration does not say what a class draws."""
    path = cluster.paths.phalanx_toml
    with open(path, encoding="utf-8") as file:
        before = file.read()
    for text in (re.sub(rf", {kind} = [0-9.]+", "", before), before):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        phalanx(cluster, "daemon", "reload")
        if text != before:
            yield


def on_class(cluster, job, kind):
    """Tasks of an array that run on a class, and those that have ended there."""
    records = [r for r in cluster.jobs() if r.get("ArrayJobId") == str(job)
               and r.get("NodeList", "").startswith(kind)]
    running = sum(r["JobState"] == "RUNNING" for r in records)
    return running, sum(r["JobState"] == "COMPLETED" for r in records)


@case(where="plan")
def partly_known(suite):
    """A class without runs and watts, too dear by a guess, is tried by one task at a time"""
    cluster = suite.cluster
    cluster.wait_idle(60)
    array = ("-J", "zeta", "-n1", "-t5")
    with without_watts(cluster, UNKNOWN):
        known = [cluster.submit(*array, "--array=1-2", "-C", kind, wrap=script(ZETA))
                 for kind in CLASSES if kind != UNKNOWN]
        wait_ended(cluster, known, 90)
        job = cluster.submit(*array, "--array=1-60", "--hold", f"--comment=price={PRICE}",
                             wrap=script(ZETA))
        cluster.run("scontrol", "release", str(job))
        explain = functools.partial(phalanx, cluster, "explain", "-v", f"{job}_60", check=False)
        suite.until(lambda: re.search(rf"Not known +the power of {UNKNOWN}/", explain().stdout),
                    "that watts are missing, as its time is known")
        at_once, ended, others = [], 0, 0
        while others < TRIALS * 8:
            running, ended = on_class(cluster, job, UNKNOWN)
            at_once.append(running)
            others = on_class(cluster, job, CHEAP)[1]
            suite.expect(on_class(cluster, job, DEAR) == (0, 0), "tasks where each makes a loss")
            time.sleep(0.2)
        suite.expect(max(at_once) == 1 and TRIALS <= ended <= TRIALS + 1,
                     f"{ended} trials, at most {max(at_once)} at once")
    suite.until(lambda: on_class(cluster, job, UNKNOWN)[0] > 1, "its use, as watts say it pays")
    suite.summary = f"{ended} trials beside {others} tasks, one at a time"
    cluster.run("scancel", str(job))


# An array that is worth most on the two frugal classes: seconds, earnings of a task.
ETA, ETA_PRICE, ETA_TASKS, BRIEF_S = (4, 5, 6), 260 * PRICE_KWH / 3.6e6, 120, 10


@case(where="brief")
def briefly(suite):
    """By default no task starts later than 10 s after stock Slurm's, and energy costs no more"""
    cluster = suite.cluster

    def array(partition, tasks=ETA_TASKS, *options):    # pylint: disable=keyword-arg-before-vararg
        job = cluster.submit("-J", "eta", "-n1", "-p", partition, f"--array=1-{tasks}", "-t5",
                             f"--comment=price={ETA_PRICE}", *options, wrap=script(ETA))
        return wait_ended(cluster, [job], 300)

    def cost(records):
        """Of their energy, by the times that the scripts ask for: a busy machine stretches them."""
        kinds = [CLASSES.index(r["NodeList"].rstrip("0123456789")) for r in records]
        joules = sum(ETA[kind] * WATTS[CLASSES[kind]] / CPUS for kind in kinds)
        return joules * PRICE_KWH / 3.6e6

    for kind in CLASSES:
        array("main", 2, "-C", kind)
    cluster.wait_idle(30)
    ours, stock = array("main"), array("stock")
    costs = cost(ours), cost(stock)
    suite.expect(costs[0] < 1.03 * costs[1], f"energy for {costs[0]:.2f}, stock {costs[1]:.2f}")

    def waits(records):
        return sorted(seconds(r, "StartTime") - seconds(r, "SubmitTime") for r in records)

    # Slurm's times are seconds, and both arrays have tasks that take a little longer.
    late = max(our - their for our, their in zip(waits(ours), waits(stock)))
    suite.expect(late <= BRIEF_S + 3, f"a task starts {late} s later than with stock")
    suite.summary = f"energy for {costs[0]:.2f}, stock {costs[1]:.2f}; at most {late:.0f} s later"


# A slurmctld that looks at waiting jobs by itself only every five minutes.
IDLE = ["SchedulerParameters=bf_interval=300,sched_interval=300,sched_min_interval=100000,"
        "batch_sched_delay=0,default_queue_depth=2000", "MinJobAge=7200"]


@case(where="idle")
def held_tasks_wake(suite):
    """Tasks held for a thrifty class start when their 10 s end, though nothing else happens"""
    cluster = suite.cluster

    def array(tasks, times, *options):
        return cluster.submit("-J", "eta", "-n1", f"--array=1-{tasks}", "-t5",
                              f"--comment=price={PRICE}", *options, wrap=script(times))

    for kind in CLASSES:
        wait_ended(cluster, [array(2, ETA, "-C", kind)], 60)
    cluster.wait_idle(30)
    job = array(8 * CPUS, (60, 60, 60), "--hold")
    suite.until(lambda: "Expected to run" in phalanx(cluster, "explain", f"{job}_1",
                                                         check=False).stdout,
                "the array to be known")
    cluster.run("scontrol", "release", str(job))
    begin = time.time()
    suite.until(lambda: on_class(cluster, job, "eco")[0] == 4 * CPUS, "the thrifty nodes in use")
    last = f"{job}_{8 * CPUS}"
    suite.until(lambda: "Phalanx holds it" in phalanx(cluster, "explain", last, check=False).stdout,
                "explain to name the holder")
    suite.expect("Phalanx holds it" in " ".join(phalanx(cluster, "plan").stdout.split()),
                 "the plan does not name the holder")
    suite.until(lambda: sum(on_class(cluster, job, kind)[0] for kind in CLASSES) == 8 * CPUS,
                "the held tasks to start")
    suite.summary = f"held tasks start after {time.time() - begin:.1f} s"
    suite.expect(8 < time.time() - begin < BRIEF_S + 8, suite.summary)
    cluster.run("scancel", str(job))


case(where="plan")(shipped_config)


@contextlib.contextmanager
def brief(root, _args):
    """The default of `bag.hold`, and a partition that is left to Slurm."""
    place = os.path.join(root, "b")
    config = config_of("best").replace('hold = "plan"\n', "")
    config += '[partition.stock]\nmode = "off"\n'
    nodes = conf(4)
    nodes += nodes.splitlines()[-1].replace("=main", "=stock").replace("Default=YES ", "") + "\n"
    with Cluster(place, nodes=nodes, extra=EXTRA, config=write_config(place, config)) as cluster:
        yield Suite(cluster)


@contextlib.contextmanager
def idle(root, _args):
    """A slurmctld that does little by itself."""
    place = os.path.join(root, "i")
    config = write_config(place, config_of("best").replace('hold = "plan"\n', ""))
    with Cluster(place, nodes=conf(4), extra=IDLE, config=config) as cluster:
        yield Suite(cluster)


@contextlib.contextmanager
def setting(root, _args):
    """Both clusters."""
    place = os.path.join(root, "c")
    config = write_config(place, config_of("best"))
    with Cluster(place, nodes=conf(2), extra=EXTRA, config=config) as cluster, \
            Bags(cluster, root) as suite:
        yield suite


def bench(root, names, nodes, tasks):
    """The same arrays under each policy, side by side; prints the results."""
    results, threads = {}, []

    def one(name):
        try:
            results[name] = policy(os.path.join(root, name), name, nodes, tasks)
            print(json.dumps({name: results[name]}), flush=True)
        except (ClusterError, KeyError, ValueError):
            print(f"{name}: {traceback.format_exc()}", flush=True)

    for name in names:
        threads.append(threading.Thread(target=one, args=(name,)))
        threads[-1].start()
        time.sleep(5)
    for thread in threads:
        thread.join()
    for name in names:
        if name in results:
            row = results[name]
            promised = f", {row['off']:+.1%} of the promise" if "off" in row else ""
            print(f"{name:<10} {row['profit_per_hour']:10.2f} per hour, makespan "
                  f"{row['makespan_s']:.0f} s, {row['energy_j']:.0f} J{promised}")


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--bench", type=int, metavar="TASKS",
                        help="measure arrays of so many tasks")
    parser.add_argument("--nodes", type=int, default=4, help="nodes of each class in --bench")
    parser.add_argument("--modes", default="stock,best,greedy,average", help="policies of --bench")


def main():
    """Runs the cases, or measures; returns the exit status."""
    args = command_line(__doc__, case, options)
    if not args.bench:
        return run(args, {"plan": setting, "brief": brief, "idle": idle})
    with directory(args) as root:
        bench(root, args.modes.split(","), args.nodes, args.bench)
    return 0


if __name__ == "__main__":
    sys.exit(main())
