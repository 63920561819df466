#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""slurmctld with 10,000 CLOUD nodes and GPUs: the same jobs on stock Slurm and on the overlay.

Phases, each with a fresh slurmctld and the same list of GPU jobs:
  stock    Slurm alone: jobs started per second
  off      overlay that only forwards: time of the stock job_test
  enforce  overlay and daemon: job_test with the question, jobs started per second
  record   the same, recorded (`phalanx record start`)
  stopped  the daemon stops answering (SIGSTOP) just before: the circuit breaker opens
  down     the daemon is gone (SIGKILL): what a call costs then

The list waits in a partition that is DOWN (in `stopped` held, because a change of a partition
makes the overlay send its state anew, which a stopped daemon never takes). The clock runs from
the first to the last `sched: Allocate` line of slurmctld's log after the list may start. The
overlay's times are those of the calls in between alone.
"""

import argparse
import glob
import json
import math
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from datetime import datetime

from slurmcluster import Cluster, ClusterError, procs
from slurmcluster.phalanx import phalanx

PHASES = ("stock", "off", "enforce", "record", "stopped", "down")
START_LIMIT_S = 600
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CAUSE_SHARE = 0.99 # of the calls not asked, so many must be so for the phase's own reason
SETTLE_S = 3       # after the start, before idle use is measured
IDLE_S = 10        # for so long
STATS_S = 2.5      # the overlay reports its counters once a second
# max_sched_time above half of MessageTimeout would silently become 2 s; one pass must do
# the whole list, and backfill must not mix in.
EXTRA = ("MessageTimeout=200", "SchedulerParameters=max_sched_time=99,bf_interval=3600,"
         "default_queue_depth=100000,batch_sched_delay=1,sched_interval=60")
TAUGHT = 1300       # jobs, half of them with a GPU
COMPARED = "phalanx_compared"   # file of the overlay
ALLOCATE = re.compile(r"^\[([^\]]+)\] sched: Allocate JobId=(\d+)", re.MULTILINE)

# What the project promises: (name, value of results, limit, "min" or "max").
REQUIRED = (
    ("job_test faster than stock", lambda r: ratio(r, "off", "enforce", "job_test_ms"), 20, "min"),
    ("starts per second over stock", lambda r: ratio(r, "enforce", "stock", "starts_per_s"),
     10, "min"),
    ("plugin's own time per ask, p99, us", lambda r: get(r, "enforce", "ask_p99_us"), 300, "max"),
    ("own time with breaker open, p99, us", lambda r: get(r, "stopped", "skip_p99_us"), 2, "max"),
    ("own time with daemon down, p99, us", lambda r: get(r, "down", "skip_p99_us"), 2, "max"),
)


def get(results, phase, key):
    """A number of a phase; None if it was not measured."""
    return results.get(phase, {}).get(key)


def ratio(results, above, below, key):
    """Quotient of one number of two phases; None unless both were measured."""
    upper, lower = get(results, above, key), get(results, below, key)
    return upper / lower if upper and lower else None


def plugin_counters(cluster):
    """The overlay's counters out of `phalanx status --json`; the one place that knows its fields.

    Returns calls and ns of full and narrowed RUN_NOW stock calls, asks, own times in ns.
    Raises ClusterError if a field is missing.
    """
    phalanx = os.path.join(cluster.paths.bin_dir, "phalanx")
    text = cluster.run(phalanx, "status", "--json").stdout
    try:
        plugin = json.loads(text)["plugin"]
        full = plugin["full_stock"].get("run_now", {"calls": 0, "mean_ns": 0})
        narrow = plugin["narrowed_stock"]
        return {
            "ready": plugin["connected"] and plugin["synced"],
            "run_now_calls": plugin["calls"].get("run_now", 0),
            "asks": plugin["asks"], "narrowed": plugin["narrowed"],
            "full_calls": full["calls"], "full_ns": full["calls"] * full["mean_ns"],
            "narrow_calls": narrow["calls"], "narrow_ns": narrow["calls"] * narrow["mean_ns"],
            "ask": dict(plugin["ask_ns"]["buckets"]), "skip": dict(plugin["skip_ns"]["buckets"]),
            "breaker_opens": plugin["breaker_opens"], "reasons": plugin["reasons"],
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClusterError(f"phalanx status --json: no usable field plugin: {error!r}") from None


def job_options(seed, count):
    """sbatch options of GPU jobs: two thirds gangs of 2 to 8 nodes, one third on one node."""
    rng = random.Random(seed)
    options = []
    for _ in range(count):
        gpus, nodes = rng.choice([1, 2, 4]), rng.choice([1, 1, 2, 4, 4, 8])
        options.append((f"-N{nodes}", f"--ntasks-per-node={gpus}", f"--gres=gpu:{gpus}",
                        f"--cpus-per-task={rng.choice([2, 4, 8])}", "--mem=16G", "--time=60"))
    return options


def run_list(cluster, options, held=False, prepare=None, partition="cloud"):
    """Submits the list, calls `prepare`, lets the list start; returns starts per second, span.

    held: the jobs wait by --hold instead of in the partition, the default one, that is DOWN
    """
    if not held:
        cluster.run("scontrol", "update", f"PartitionName={partition}", "State=DOWN")
    begin = time.monotonic()
    ids = {cluster.submit(*words, *(["--hold"] if held else [])) for words in options}
    submit_s = time.monotonic() - begin
    if prepare:
        prepare()
    busy, own, opened = busy_ticks(), own_ticks(cluster), time.monotonic()
    if held:
        cluster.run("scontrol", "release", ",".join(map(str, sorted(ids))))
    else:
        cluster.run("scontrol", "update", f"PartitionName={partition}", "State=UP")
    log = os.path.join(cluster.paths.log, "slurmctld.log")
    end = time.monotonic() + START_LIMIT_S
    while True:
        # Only the log is read meanwhile: squeue would wait for and delay the scheduler.
        times = allocations(log, ids)
        if len(times) == len(ids):
            break
        if time.monotonic() > end or not cluster.alive("slurmctld"):
            raise ClusterError(f"{len(times)} of {len(ids)} jobs started in {START_LIMIT_S} s")
        time.sleep(0.5)
    span = max(times.values()) - min(times.values())
    ticks = (busy_ticks() - busy) - (own_ticks(cluster) - own)
    others = 100 * ticks / TICKS_PER_S / (time.monotonic() - opened)
    return {"jobs": len(ids), "submit_s": submit_s, "span_s": span,
            "others_pct": max(0.0, others),
            "starts_per_s": (len(ids) - 1) / span if span else None}


def teach(cluster, gpus, partition="cloud"):
    """Starts small jobs, no more than fit beside each other, until few decisions are compared with
    stock's, as on a site after its first thousand; then slurmctld begins anew without them."""
    wait_ready(cluster)
    run_list(cluster, [("-n1", "--mem-per-cpu=1G", "--time=60") if number % 2 else
                       ("-N1", "--ntasks-per-node=1", "--gres=gpu:1", "--cpus-per-task=2",
                        "--mem=1G", "--time=60") for number in range(min(TAUGHT, 2 * gpus))],
             partition=partition)
    begin_anew(cluster)


def begin_anew(cluster):
    """slurmctld without its jobs, with what it has compared."""
    cluster.stop_slurmctld()
    for path in glob.glob(os.path.join(cluster.paths.state, "*")):
        if os.path.isfile(path) and os.path.basename(path) not in ("clustername", COMPARED):
            os.unlink(path)
    os.truncate(os.path.join(cluster.paths.log, "slurmctld.log"), 0)
    cluster.start_slurmctld()


def allocations(log, ids):
    """{job id: seconds} of the `Allocate` lines of these jobs."""
    with open(log, encoding="utf-8", errors="replace") as file:
        found = ALLOCATE.findall(file.read())
    return {int(job): datetime.fromisoformat(when).timestamp()
            for when, job in found if int(job) in ids}


def run_phase(name, args, root, options):
    """One fresh slurmctld; returns the phase's numbers."""
    config = os.path.join(root, f"{name}.toml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f'mode = "{"off" if name == "off" else "enforce"}"\n')
    stock = name == "stock"
    cluster = Cluster(os.path.join(root, name), stock=stock, cloud=args.nodes, extra=EXTRA,
                      config=None if stock else config)
    with cluster:
        try:
            if args.nice:
                procs.favour([process.pid for process in cluster.running()], args.nice)
            return measure(name, args, cluster, options)
        except ClusterError as error:
            # The logs go with the directory, so what they say goes into the reason.
            raise ClusterError(f"{name}: {error}{cluster.why()}") from None


def measure(name, args, cluster, options):
    """The numbers of one phase on its booted cluster."""
    if name == "stock":
        return run_list(cluster, options)
    if name == "enforce":
        teach(cluster, 4 * args.nodes)
    wait_ready(cluster)
    if name == "record":
        phalanx(cluster, "record", "start")
    idle = idle_use(cluster) if name in ("enforce", "record") else {}
    before = {}

    def prepare():
        time.sleep(STATS_S)
        before.update(wait_ready(cluster))
        if name == "stopped":
            cluster.signal_phalanxd(signal.SIGSTOP)
        elif name == "down":
            cluster.stop_phalanxd(kill=True)

    result = run_list(cluster, options, name == "stopped", prepare)
    if name == "stopped":
        cluster.signal_phalanxd(signal.SIGCONT)
    elif name == "down":
        cluster.start_phalanxd()
    time.sleep(STATS_S)
    return result | idle | numbers(name, before, wait_ready(cluster))


def cpu_ticks(pid):
    """User and system time of a process, in clock ticks."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def busy_ticks():
    """Time that all CPUs of the machine were busy, in clock ticks."""
    with open("/proc/stat", encoding="utf-8") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return user + nice + system + irq + softirq + steal


def own_ticks(cluster):
    """Time that the cluster's living daemons and this process have used, in clock ticks."""
    used = os.times()
    ticks = (used.user + used.system) * TICKS_PER_S
    return ticks + sum(cpu_ticks(process.pid) for process in cluster.running())


def idle_use(cluster):
    """Memory of phalanxd and the CPU it uses while nothing happens."""
    pid = next(p.pid for p in cluster.running() if p.role == "phalanxd")
    time.sleep(SETTLE_S)
    ticks, begin = cpu_ticks(pid), time.monotonic()
    time.sleep(IDLE_S)
    share = (cpu_ticks(pid) - ticks) / TICKS_PER_S / (time.monotonic() - begin)
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        rss = re.search(r"VmRSS:\s*(\d+)", file.read())
    return {"rss_mb": int(rss[1]) / 1024, "idle_cpu_pct": 100 * share}


def wait_ready(cluster, timeout=60):
    """Waits until the overlay is connected and the daemon knows the whole state."""
    end = time.monotonic() + timeout
    while True:
        counters = plugin_counters(cluster)
        if counters["ready"]:
            return counters
        if time.monotonic() > end:
            raise ClusterError(f"the overlay is not connected after {timeout} s")
        time.sleep(0.2)


def minus(after, before):
    """Difference of two {key: count}, without zeros."""
    found = {key: count - before.get(key, 0) for key, count in after.items()}
    return {key: count for key, count in found.items() if count}


def quantile_us(buckets, share):
    """Upper edge in us of the bucket that holds a quantile of {edge in ns: count}."""
    rank = max(1, math.ceil(sum(buckets.values()) * share))
    for edge in sorted(buckets):
        rank -= buckets[edge]
        if rank <= 0:
            return edge / 1e3
    return None


def numbers(name, before, after):
    """The numbers of one phase from the overlay's counters before and after its starts."""
    keys = ("run_now_calls", "asks", "narrowed", "full_calls", "full_ns", "narrow_calls",
            "narrow_ns", "breaker_opens")
    delta = {key: after[key] - before[key] for key in keys}
    reasons = minus(after["reasons"], before["reasons"])
    ask, skip = minus(after["ask"], before["ask"]), minus(after["skip"], before["skip"])
    calls = delta["run_now_calls"]
    # A failed narrowed try is followed by a full call, whose time is counted; the tries'
    # own time is in neither sum, so the mean is a little low when there are many.
    total = delta["full_ns"] + delta["narrow_ns"]
    total += sum(edge * count for edge, count in ask.items())
    result = {"job_test_ms": total / calls / 1e6 if calls else None, "run_now_calls": calls,
              "asks": delta["asks"], "narrowed": delta["narrowed"],
              "ask_p50_us": quantile_us(ask, 0.5), "ask_p99_us": quantile_us(ask, 0.99),
              "breaker_opens": delta["breaker_opens"], "reasons": reasons,
              "skips": sum(skip.values())}
    # Times of another cause than the phase is about would prove nothing.
    cause = reasons.get({"stopped": "breaker", "down": "down"}.get(name), 0)
    if skip and cause >= CAUSE_SHARE * result["skips"]:
        result |= {"skip_p50_us": quantile_us(skip, 0.5), "skip_p99_us": quantile_us(skip, 0.99)}
    return result


COLUMNS = (("starts/s", "starts_per_s", 1), ("job_test ms", "job_test_ms", 3),
           ("RUN_NOW", "run_now_calls", 0), ("asked", "asks", 0), ("narrowed", "narrowed", 0),
           ("ask p50 us", "ask_p50_us", 1), ("ask p99 us", "ask_p99_us", 1),
           ("skip p50 us", "skip_p50_us", 2), ("skip p99 us", "skip_p99_us", 2),
           ("others %", "others_pct", 0))


def table(results):
    """The phases and the promises as text lines."""
    lines = [f"{'':9}" + "".join(f"{title:>13}" for title, _, _ in COLUMNS)]
    for phase, result in results.items():
        cells = (result.get(key) for _, key, _ in COLUMNS)
        shown = ("-" if v is None else f"{v:.{digits}f}"
                 for v, (_, _, digits) in zip(cells, COLUMNS))
        lines.append(f"{phase:9}" + "".join(f"{cell:>13}" for cell in shown))
    lines.append("ask, skip: the overlay's own time per call that was asked, that was not asked "
                 "(upper edges")
    lines.append("of buckets, at most 1/8 above; skip: only for the phase's own cause); job_test: "
                 "mean of")
    lines.append("RUN_NOW calls, question included; others: CPU that processes of others used "
                 "meanwhile, of "
                 f"{os.cpu_count()} CPUs")
    for phase, result in results.items():
        if result.get("rss_mb"):
            lines.append(f"phalanxd ({phase}): {result['rss_mb']:.0f} MB resident, "
                         f"{result['idle_cpu_pct']:.2f} % of a CPU while nothing happens")
    lines.append("")
    for check in verdicts(results):
        sign = ">=" if check["kind"] == "min" else "<="
        value = "not measured" if check["value"] is None else f"{check['value']:.2f}"
        mark = {True: "ok", False: "MISSED", None: ""}[check["ok"]]
        lines.append(f"{check['name']:38}{value:>14}  {sign} {check['limit']:<5}{mark}")
    return lines


def verdicts(results):
    """Each promise with its value and whether it is kept (None: not measured)."""
    found = []
    for name, value_of, limit, kind in REQUIRED:
        value = value_of(results)
        kept = None if value is None else (value >= limit if kind == "min" else value <= limit)
        found.append({"name": name, "value": value, "limit": limit, "kind": kind, "ok": kept})
    return found


def arguments():
    """The command line; checks numbers and phase names."""
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--phases", default=",".join(PHASES), help="comma-separated")
    parser.add_argument("--json", metavar="FILE", help="write the numbers here as well")
    parser.add_argument("--nice", type=int, default=0, metavar="N",
                        help="nice value of the daemons in every phase (below 0: root only), "
                             "for a machine that others use as well")
    parser.add_argument("--check", action="store_true", help="exit 1 unless all promises hold")
    args = parser.parse_args()
    args.phases = args.phases.split(",")
    unknown = [name for name in args.phases if name not in PHASES]
    if unknown:
        parser.error(f"--phases: {unknown[0]!r} is none of {', '.join(PHASES)}")
    if not -20 <= args.nice <= 19 or (args.nice < 0 and os.geteuid()):
        parser.error("--nice: -20 to 19; below 0 for root only")
    if args.jobs < 2 or not 64 <= args.nodes <= 65_000 or args.nodes < 8 * args.jobs:
        parser.error("--jobs: at least 2; --nodes: 64 to 65000, and 8 for each job")
    return args


def main():
    """Runs the phases one after the other, prints the table."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    args, results = arguments(), {}
    root = tempfile.mkdtemp(prefix="phalanx-bench-")
    options = job_options(args.seed, args.jobs)
    try:
        for name in args.phases:
            begin = time.monotonic()
            results[name] = run_phase(name, args, root, options)
            print(f"{name}: {args.jobs} jobs started in {results[name]['span_s']:.2f} s "
                  f"(whole phase {time.monotonic() - begin:.0f} s)", flush=True)
    except (ClusterError, OSError) as error:
        print(f"bench_10k: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print("", f"{args.nodes} CLOUD nodes, {args.jobs} GPU jobs, seed {args.seed}, nice {args.nice}",
          *table(results), sep="\n")
    checks = verdicts(results)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"nodes": args.nodes, "jobs": args.jobs, "seed": args.seed,
                       "phases": results, "required": checks}, file, indent=1)
    return 1 if args.check and not all(check["ok"] for check in checks) else 0


if __name__ == "__main__":
    sys.exit(main())
