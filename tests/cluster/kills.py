#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kills of phalanxd and slurmctld under jobs, also in bad conditions, beside stock.

Both clusters have the same jobs and the same blows from one seed; those on phalanxd fall on one
side only. Slurm itself, killed within the 5 s in which its state is not saved, gives job ids twice,
drains nodes for it and holds jobs. So each round fills all nodes with jobs, lets others wait, and
blows fall on slurmctld once its state is saved: at once, at a random step on the ledger of the
order of starts, or by want of memory; in some rounds with a state directory that is full or hangs,
few files, or a clock that jumped by up to 20 s. The jobs that fill the nodes end only when the
suite lets them, after the last blow, however slow the machine is. phalanxd is killed at any time.
Every job must then end as COMPLETED, once, and no later than with stock by more than the stated
limits. Audits see that no delta stays where the daemon is dead. In the end what Slurm wrote is
judged, beside what stock wrote (tests/judge_history.py).
"""

import contextlib
import fcntl
import mmap
import os
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import threading
import time

from faults_tools import Disk
from judged import Keeper, judge, receipts
from slurmcluster import Cluster, ClusterError
from slurmcluster.clock import CLOCK
from slurmcluster.conf import write_config
from slurmcluster.pair import boot
from slurmcluster.suite import Cases, Suite, SuiteError, command_line, run, until

HERE = os.path.dirname(os.path.realpath(__file__))
NODES = """NodeName=n[1-6] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=8000
PartitionName=main Nodes=n[1-6] Default=YES MaxTime=INFINITE State=UP
"""
EXTRA = ["MinJobAge=60", "JobCompType=jobcomp/filetxt", "SchedulerParameters=bf_interval=2,"
         "bf_continue,sched_interval=1,batch_sched_delay=1,default_queue_depth=300"]
TOML = """mode = "enforce"
[order]
by = "learned"
short_s = 604800
[expert]
breaker = false
[source]
poll_ms = 300
"""
BLOWS_S = 7.0           # in which blows on slurmctld fall, in a round
REGISTER_S = 4.0        # after them: nodes register anew, and no job may start just then
DISK_MB = 4            # of the state directory
SAVED_AFTER_S = 1.1     # a state file so much younger than a change has it
DRAIN_S = 90.0          # until all jobs of a round have ended
LATER_S = 15.0          # than with stock: a lease, a breaker that is open, a poll
GONE_S = 12.0           # deltas without a daemon: a lease of 5 s, removed within a second or so
AUDIT_EVERY = 8         # rounds
KEEP_S = 6.0            # between two questions for all jobs
LATE_S = 45.0           # receipts by two clocks of which each may have jumped
GOOD = "COMPLETED"
# What waits meanwhile: sbatch options, seconds.
WAIT = ((("-n1",), 0), (("-n1", "--array=1-3"), 0.3), (("-N2", "-n2"), 0.5), (("-N1", "-n3"), 0.2),
        (("-N1", "--exclusive"), 0), (("-n5",), 1), (("-N3", "-n6"), 0.5))
# Blows and their weights. On slurmctld in the saved state, on phalanxd at any time.
BLOWS = {"slurmctld": 6, "both": 3, "ledger": 8, "slurmctld-term": 2, "daemon": 3}
DAEMON_BLOWS = {"daemon": 8, "daemon-stop": 1, "daemon-term": 2}
SPELLS = ("full", "frozen", "files", "memory", "clock")
DAEMON_SPELLS = ("daemon-files", "daemon-memory", "daemon-clock")
case = Cases()


class Meddle:
    """The shared file of meddle.c for one daemon."""

    LAYOUT = struct.Struct("<qiii4x")

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.write(bytes(4096))
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 4096)

    def set(self, *, jump_s=None, frozen=None, kill_at=None):
        """Changes some of it."""
        for offset, kind, value in ((0, "<q", jump_s), (8, "<i", frozen), (12, "<i", kill_at)):
            if value is not None:
                struct.pack_into(kind, self._map, offset, value)

    @property
    def kill_at(self):
        """Steps that are left until the ledger's kill; 0 if none is set."""
        return struct.unpack_from("<i", self._map, 12)[0]

    @property
    def killed(self):
        """How often it came to that."""
        return struct.unpack_from("<i", self._map, 16)[0]


class Meddled(Cluster):
    """A cluster whose state directory is a small file system, and whose daemons are meddled."""

    def __init__(self, directory, library, **options):
        super().__init__(directory, **options)
        self.library, self.meddle = library, {}
        self.extra.append(f"JobCompLoc={self.completions}")

    @property
    def completions(self):
        """Slurm's own log of ended jobs."""
        return self.paths.root + ".jobcomp"

    def _write_files(self):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=755", "tmpfs",
                        self.paths.state], check=True)
        for role in ("slurmctld", "phalanxd"):
            self.meddle[role] = Meddle(os.path.join(self.paths.run, f"meddle-{role}"))
        super()._write_files()

    def spawn(self, role, argv, variables=None):
        """The same, with the library in the two daemons."""
        more = {}
        if role in self.meddle:
            more = {"LD_PRELOAD": self.library, "PHALANX_MEDDLE": self.meddle[role].path}
        return super().spawn(role, argv, (variables or {}) | more)

    def down(self, quick=False):
        """The same, and the small file system goes."""
        for one in self.meddle.values():
            one.set(jump_s=0, frozen=0, kill_at=0)
        try:
            super().down(quick)
        finally:
            subprocess.run(["umount", "-l", self.paths.state], check=False, capture_output=True)


class Side:
    """One cluster: its jobs, what became of them, and the blows."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.name = "stock" if cluster.stock else "phalanx"
        self.expected, self.after_s = {}, []

    def submit(self, jobs):
        """Submits [(name, options, command)]."""
        for name, options, command in jobs:
            tasks = next((int(word.split("-")[-1]) for word in options if "--array" in word), 1)
            self.cluster.run("sbatch", "-J", name, "-o", "/dev/null", *options, "--wrap",
                             f"exec {command}")
            self.expected[name] = tasks

    def settle(self, names):
        """Waits until jobs of these names run and slurmctld has saved that."""
        def running():
            done = self.cluster.run("squeue", "-h", "-t", "R", "-n", ",".join(names), "-o", "%i",
                                    check=False)
            return done.stdout.split() if len(done.stdout.split()) == len(names) else None
        job = until(running, "the jobs that fill the nodes run", 20.0)[0]
        saved = time.time() + SAVED_AFTER_S
        state = os.path.join(self.cluster.paths.state, "job_state")
        time.sleep(SAVED_AFTER_S)
        # Where it was saved just before, nothing else would have it saved for five minutes.
        self.cluster.run("scontrol", "update", f"JobId={job}", "Comment=saved")
        until(lambda: os.path.exists(state) and os.stat(state).st_mtime > saved,
              "a saved state", 60.0)

    # --- blows

    def up(self):
        """What has died is started again. Nothing starts while its state directory hangs."""
        for role, start in (("slurmctld", self.cluster.start_slurmctld),
                            ("phalanxd", self.cluster.start_phalanxd)):
            if role == "phalanxd" and self.cluster.stock:
                continue
            if not self.cluster.alive(role):
                self.cluster.meddle[role].set(frozen=0)
                start()

    def blow(self, kind, after_s, steps):
        """One blow; both sides wait the same time for it."""
        cluster, ours = self.cluster, not self.cluster.stock
        time.sleep(after_s)
        if kind in ("slurmctld", "both", "ledger"):
            cluster.process("slurmctld").signal(signal.SIGKILL)
            until(lambda: not cluster.alive("slurmctld"), "the end of slurmctld", 10.0)
        elif kind == "slurmctld-term":
            cluster.meddle["slurmctld"].set(frozen=0)
            cluster.stop_slurmctld()
        if ours and kind in ("daemon", "both"):
            cluster.process("phalanxd").signal(signal.SIGKILL)
        if ours and kind == "daemon-term":
            cluster.stop_phalanxd()
        if ours and kind == "daemon-stop":
            cluster.process("phalanxd").signal(signal.SIGSTOP)
            time.sleep(1.0)
            cluster.process("phalanxd").signal(signal.SIGCONT)
        if ours and kind == "ledger":
            self._in_the_ledger(steps)
        self.up()

    def _in_the_ledger(self, steps):
        """Starts slurmctld, and ends it at a step on the ledger, or soon where none comes."""
        meddle = self.cluster.meddle["slurmctld"]
        meddle.set(kill_at=steps, frozen=0)
        with contextlib.suppress(ClusterError):
            self.cluster.start_slurmctld()
        end = time.monotonic() + 1.5
        while time.monotonic() < end and self.cluster.alive("slurmctld"):
            time.sleep(0.02)
        meddle.set(kill_at=0)
        self.cluster.process("slurmctld").signal(signal.SIGKILL)
        until(lambda: not self.cluster.alive("slurmctld"), "the end of slurmctld", 10.0)

    # --- spells

    def spell(self, kind, number):
        """Something bad begins. `number`: how bad, 0 to 1."""
        meddle = self.cluster.meddle
        role = "phalanxd" if kind.startswith("daemon") else "slurmctld"
        if role == "phalanxd" and self.cluster.stock:
            return
        if kind == "full":
            Disk(self.cluster.paths.state).fill()
        elif kind == "frozen":
            meddle["slurmctld"].set(frozen=1)
        elif kind.endswith("files"):
            used = len(os.listdir(f"/proc/{self.cluster.process(role).pid}/fd"))
            self._limit(role, resource.RLIMIT_NOFILE, used + int(4 * number))
        elif kind.endswith("memory"):
            with open(f"/proc/{self.cluster.process(role).pid}/statm", encoding="ascii") as file:
                pages = int(file.read().split()[0])
            self._limit(role, resource.RLIMIT_AS,
                        pages * resource.getpagesize() + int(4e6 * number))
        elif kind.endswith("clock"):
            meddle[role].set(jump_s=int(40 * number) - 20)

    def ease(self):
        """The spell is over."""
        for meddle in self.cluster.meddle.values():
            meddle.set(jump_s=0, frozen=0, kill_at=0)
        with contextlib.suppress(OSError):
            Disk(self.cluster.paths.state).free()
        for role in ("slurmctld", "phalanxd"):
            if self.cluster.alive(role):
                for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS):
                    self._limit(role, what, None)

    def _limit(self, role, what, soft):
        with contextlib.suppress(ProcessLookupError, ValueError):
            pid = self.cluster.process(role).pid
            hard = resource.prlimit(pid, what)[1]
            resource.prlimit(pid, what, (hard if soft is None else soft, hard))

    # --- what became of it

    def drain(self):
        """Waits until no job is left, and notes how long after the nodes became free."""
        def empty():
            done = self.cluster.run("squeue", "-h", "-o", "%i", check=False)
            return not done.returncode and not done.stdout.split()
        begin = CLOCK.now()
        try:
            until(empty, "no job left", DRAIN_S, every=0.3)
        except SuiteError as error:
            left = self.cluster.run("squeue", "-h", "-o", "%i %T %r %N", check=False).stdout
            left += self.cluster.run("sinfo", "-h", "-N", "-o", "%N %T %E", check=False).stdout
            raise SuiteError(f"{error}:\n{left}") from None
        self.after_s.append(CLOCK.now() - begin)

    def verdict(self):
        """{what is wrong: [names]} of the jobs so far."""
        found = {}
        with contextlib.suppress(FileNotFoundError), \
                open(self.cluster.completions, encoding="utf-8", errors="replace") as file:
            for line in file:
                match = re.match(r"JobId=\S+ .*?Name=(\S+) JobState=(\S+)", line)
                if match:
                    found.setdefault(match.group(1), []).append(match.group(2))
        wrong = {}
        for name, tasks in self.expected.items():
            states = found.get(name, [])
            for state in set(states) - {GOOD}:
                wrong.setdefault(state, []).append(name)
            if states.count(GOOD) != tasks:
                wrong.setdefault("lost" if len(states) < tasks else "twice", []).append(name)
        return wrong


class Kills(Suite):
    """Both clusters."""

    def __init__(self, clusters, args):
        super().__init__(clusters[0])
        self.args, self.rng = args, random.Random(args.seed)
        self.sides = [Side(cluster) for cluster in clusters]
        self.keepers, self.gate_path = [], clusters[0].paths.root + ".gate"
        self.gate = os.open(self.gate_path, os.O_CREAT | os.O_WRONLY, 0o644)
        self.blows, self.rounds, self.audits, self.counts, self.spells = 0, 0, 0, {}, {}

    def both(self, work):
        """The same on both sides at once; raises what one raises."""
        errors = []

        def each(side):
            try:
                work(side)
            except (ClusterError, SuiteError, OSError) as error:
                errors.append(f"{side.name}: {error}")
        threads = [threading.Thread(target=each, args=(side,)) for side in self.sides]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise SuiteError(f"round {self.rounds} of seed {self.args.seed}: {'; '.join(errors)}")

    def blow(self, kinds):
        """One blow, drawn from the seed."""
        kind = self.rng.choices(list(kinds), list(kinds.values()))[0]
        after, steps = self.rng.random() * 0.6, self.rng.randint(1, 20)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.blows += 1
        self.both(lambda side: side.blow(kind, after, steps))

    def spell(self, kinds):
        """With a chance of one third something bad begins; what, else an empty text."""
        if self.rng.random() > 1 / 3:
            return ""
        kind, how = self.rng.choice(kinds), self.rng.random()
        self.spells[kind] = self.spells.get(kind, 0) + 1
        self.both(lambda side: side.spell(kind, how))
        return kind

    def ease(self):
        """All is well again, but for what was killed."""
        self.both(lambda side: (side.ease(), side.up()))

    def at_the_daemon(self):
        """Some blows at any time, on phalanxd alone."""
        self.spell(DAEMON_SPELLS)
        for _ in range(self.rng.randint(1, 4)):
            self.blow(DAEMON_BLOWS)
        self.ease()

    def one_round(self):
        """Jobs that fill the nodes, jobs that wait, blows, and all jobs end."""
        self.rounds += 1
        audit = self.rounds % AUDIT_EVERY == 0
        fcntl.flock(self.gate, fcntl.LOCK_EX)
        fill = [(f"r{self.rounds}f{i}", ("-N1", "--exclusive", "-t60"),
                 f"flock -s {self.gate_path} true") for i in range(6)]
        wait = [(f"r{self.rounds}w{i}", (*options, f"-t{self.rng.choice((5, 20, 40))}"),
                 f"sleep {seconds}")
                for i, (options, seconds) in enumerate(self.rng.choices(WAIT, k=12))]
        self.both(lambda side: side.submit(fill))
        self.both(lambda side: side.submit(wait))
        self.at_the_daemon()
        self.both(lambda side: side.settle([name for name, _, _ in fill]))
        end = time.monotonic() + BLOWS_S
        kind = self.spell(SPELLS)
        while time.monotonic() < end:
            self.blow(BLOWS)
        self.ease()
        if kind == "clock":     # set back, slurmctld saves nothing more until it is restarted
            self.both(lambda side: side.blow("slurmctld-term", 0, 0))
        if audit:
            self.audit()
        end = CLOCK.now() + REGISTER_S
        while CLOCK.now() < end:
            time.sleep(0.1)
        fcntl.flock(self.gate, fcntl.LOCK_UN)
        self.at_the_daemon()
        self.both(Side.drain)

    def audit(self):
        """Where the daemon is dead no delta stays."""
        ours = self.sides[0]
        ours.cluster.process("phalanxd").signal(signal.SIGKILL)
        sites = {}

        def gone():
            text = ours.cluster.run("sprio", "-h", "-o", "%i %S", check=False).stdout
            sites.clear()
            sites.update(line.split() for line in text.splitlines() if len(line.split()) == 2)
            return sites and not any(int(site) for site in sites.values())
        try:
            until(gone, "no delta left without a daemon", GONE_S, every=0.3)
        except SuiteError as error:
            self.problems.append(f"round {self.rounds}: {error}: {sites}")
        self.audits += 1
        ours.up()


@case
def kills(suite):
    """Every job completes, whatever is killed"""
    ours, stock = suite.sides
    while suite.blows < suite.args.kills:
        suite.one_round()
        if suite.rounds % 10 == 0:
            print(f"    {suite.blows} blows, {suite.rounds} rounds", flush=True)
    wrong = [side.verdict() for side in suite.sides]
    print(f"    seed {suite.args.seed}: {suite.blows} blows {suite.counts}, in the ledger's window "
          f"{ours.cluster.meddle['slurmctld'].killed}; spells {suite.spells}; {suite.audits} "
          f"audits; {sum(ours.expected.values())} jobs on each side", flush=True)
    for side, found in zip(suite.sides, wrong):
        print(f"    {side.name}: wrong {found}; drained in at most {max(side.after_s):.1f} s, "
              f"{sum(side.after_s) / suite.rounds:.1f} s on average", flush=True)
    suite.summary = f"{suite.blows} blows, {sum(ours.expected.values())} jobs"
    for kind, names in wrong[0].items():
        suite.expect(len(names) <= len(wrong[1].get(kind, ())),
                     f"{kind}: {names[:8]}, with stock {wrong[1].get(kind, [])[:8]}")
    later = max(ours.after_s) - max(stock.after_s)
    suite.expect(later <= LATER_S, f"drained {later:.1f} s later than with stock")
    broken, verdict = judge(suite.keepers, [side.expected for side in suite.sides])
    suite.problems += broken
    ours.up()   # the last blow may have been on phalanxd
    broken, receipt = receipts(suite.keepers[0], "24h", LATE_S)
    suite.problems += broken
    verdict += receipt
    print("".join(f"    {line}\n" for line in verdict.splitlines()), end="", flush=True)


@contextlib.contextmanager
def setting(root, args):
    """Both clusters, with the library in their daemons."""
    library = os.path.join(root, "meddle.so")
    subprocess.run([os.environ.get("CC", "gcc"), "-std=gnu11", "-O1", "-shared", "-fPIC", "-o",
                    library, os.path.join(HERE, "meddle.c"), "-ldl"], check=True)
    place = os.path.join(root, "c")
    clusters = [Meddled(place, library, nodes=NODES, extra=EXTRA,
                        config=write_config(place, TOML)),
                Meddled(os.path.join(root, "s"), library, nodes=NODES, extra=EXTRA, stock=True)]
    boot(clusters)
    suite = Kills(clusters, args)
    try:
        with contextlib.ExitStack() as stack:
            suite.keepers = [stack.enter_context(Keeper(each, KEEP_S)) for each in clusters]
            yield suite
    finally:
        for cluster in clusters:
            cluster.down()


def more(parser):
    """Options of its own."""
    parser.add_argument("--kills", type=int, default=1000, help="blows on each side")
    parser.add_argument("--seed", type=int, default=1)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, more), setting))
