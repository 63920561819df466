# SPDX-License-Identifier: GPL-3.0-or-later
"""A stretch of a real log as a list of jobs that last seconds, and what becomes of it.

Sizes are scaled to the machine, run times and limits by one factor, and submissions so that the
machine is asked for as much of its time as in the log. What Slurm cannot make shorter stays: a job
lasts a second at least and a limit is whole minutes, so that limits are more generous than in the
log; `Replay.generosity` says by how much. The log's users, of whom the daemon learns, are accounts
that every system has, the busiest an account each.
"""

import collections
import pwd
import statistics
import subprocess
from dataclasses import dataclass

TAU_S = 1.0             # of the bounded slowdown: the shortest run time
LOADS = (0.85, 1.15)    # of stretches that are replayed: queues, but no endless ones
BEFORE = 1500           # jobs before the stretch that the daemon is told of


@dataclass(frozen=True)
class Job:
    """One job: submission, run time and limit in seconds, CPUs, the user and the program."""

    at_s: float
    run_s: int
    limit_s: int
    size: int
    user: str
    name: str


@dataclass(frozen=True)
class Replay:
    """The list, the jobs before it, and what was done to the log."""

    jobs: tuple
    before: tuple
    scale: float
    load: float

    @property
    def generosity(self):
        """Limits over run times, median."""
        return statistics.median(job.limit_s / job.run_s for job in self.jobs)


def read_log(path):
    """(processors, [(submit, run, limit, size, user, name)]) of an SWF log, by submission."""
    if path.endswith(".zst"):
        text = subprocess.run(["zstd", "-dqc", path], check=True, capture_output=True).stdout
    else:
        with open(path, "rb") as file:
            text = file.read()
    processors, jobs = 0, []
    for line in text.decode("ascii", "replace").splitlines():
        if line.startswith(";"):
            key, _, value = line[1:].partition(":")
            if key.strip() in ("MaxProcs", "MaxNodes") and not processors:
                processors = int(value.split()[0])
            continue
        field = line.split()
        if len(field) < 14:
            continue
        submit, run, asked, limit = (int(float(field[i])) for i in (1, 3, 7, 8))
        size = asked if asked > 0 else int(field[4])
        if run < 0 or size <= 0:
            continue
        run = max(1, run)
        limit = limit if limit > 0 else run
        jobs.append((submit, min(run, limit), limit, size, field[11],
                     program(field[11], field[13])))
    return processors or max(job[3] for job in jobs), sorted(jobs)


def program(user, executable):
    """A job name for a user's program; digits would not count as part of it."""
    letters = str.maketrans("0123456789-", "abcdefghijn")
    return f"u{user}x{executable}".translate(letters)


def load_of(jobs, processors):
    """The share of the machine's time that is asked for while jobs are submitted."""
    span = max(1, jobs[-1][0] - jobs[0][0])
    return sum(run * min(size, processors) for _, run, _, size, *_ in jobs) / (processors * span)


def accounts(users):
    """{user: account}; where the accounts do not suffice, the rarest users share one."""
    own = sorted({entry.pw_name for entry in pwd.getpwall() if 0 < entry.pw_uid < 1000})
    busiest = [user for user, _ in collections.Counter(users).most_common()]
    return {user: own[min(place, len(own) - 1)] for place, user in enumerate(busiest)}


def stretches(jobs, processors, count):
    """First indexes of stretches that keep the machine busy, each behind the other."""
    found, at = [], 0
    while at + count <= len(jobs):
        if LOADS[0] <= load_of(jobs[at:at + count], processors) <= LOADS[1]:
            found.append(at)
            at += count
        else:
            at += count // 4
    return found


def make(path, count, slots, span_s, segment):
    """The list of stretch number `segment` of a log, as long as `span_s` says."""
    processors, log = read_log(path)
    starts = stretches(log, processors, count)
    if not starts:
        raise SystemExit(f"{path}: no {count} jobs in a row ask for {LOADS[0]:.0%} to "
                         f"{LOADS[1]:.0%} of the machine")
    at = starts[segment % len(starts)]
    part = log[at:at + count]
    load = load_of(part, processors)

    def size_of(size):
        return max(1, min(slots, round(size * slots / processors)))

    sizes = [size_of(size) for _, _, _, size, *_ in part]
    known = log[max(0, at - BEFORE):at]
    account = accounts([user for *_, user, _ in known + part])

    def work(scale):
        return sum(seconds(run, scale) * size for (_, run, *_), size in zip(part, sizes))

    low, high = 1e-7, 1.0
    for _ in range(60):
        scale = (low * high) ** 0.5
        low, high = (scale, high) if work(scale) < load * slots * span_s else (low, scale)
    first, last = part[0][0], part[-1][0]
    pace = span_s / max(1, last - first)
    jobs = tuple(Job((submit - first) * pace, seconds(run, scale), minutes(limit, scale), size,
                     account[user], name)
                 for (submit, run, limit, _, user, name), size in zip(part, sizes))
    before = tuple(Job(0.0, seconds(run, scale), minutes(limit, scale), size_of(size),
                       account[user], name)
                   for _, run, limit, size, user, name in known)
    return Replay(jobs, before, scale, load)


def seconds(run_s, scale):
    """A run time on the cluster."""
    return max(1, round(run_s * scale))


def minutes(limit_s, scale):
    """A limit on the cluster, seconds: whole minutes."""
    return 60 * max(1, -(-int(limit_s * scale + 0.999) // 60))


def as_swf(replay, begin_s):
    """The list for the simulator, behind the jobs before it, of which each runs alone."""
    numbers, lines, at_s = {}, [], begin_s - sum(job.run_s + 5 for job in replay.before) - 100

    def line(number, submit_s, job):
        user, name = (numbers.setdefault(key, len(numbers) + 1)
                      for key in (("user", job.user), job.name))
        lines.append(f"{number} {submit_s} -1 {job.run_s} {job.size} -1 -1 {job.size} "
                     f"{job.limit_s} -1 1 {user} 1 {name} 1 1 -1 -1\n")

    for number, job in enumerate(replay.before):
        line(1_000_000 + number, at_s, job)
        at_s += job.run_s + 5
    for number, job in enumerate(replay.jobs, 1):
        line(number, begin_s + round(job.at_s), job)
    return "".join(lines)


def card(jobs, submits, starts):
    """{key: number} of a list that was worked through; a third of the jobs is short, or long."""
    waits = [max(0.0, start - submit) for submit, start in zip(submits, starts)]
    slow = [max(1.0, (wait + job.run_s) / max(job.run_s, TAU_S))
            for wait, job in zip(waits, jobs)]
    work = [job.run_s * job.size for job in jobs]
    by_run = [wait for _, wait in sorted(zip((job.run_s for job in jobs), waits))]
    third = len(jobs) // 3
    return {"bounded_slowdown_mean": statistics.fmean(slow), "wait_mean_s": statistics.fmean(waits),
            "wait_by_work_s": sum(wait * own for wait, own in zip(waits, work)) / sum(work),
            "wait_short_mean_s": statistics.fmean(by_run[:third]),
            "wait_long_mean_s": statistics.fmean(by_run[-third:]),
            "wait_p95_s": sorted(waits)[len(waits) * 95 // 100], "wait_max_s": max(waits)}
