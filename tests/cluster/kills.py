#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kills of phalanxd and slurmctld at random points under a stream of jobs, beside stock.

Both clusters have the same jobs and the same blows from one seed; those on phalanxd fall on one
side only. Blows fall on a sound cluster, or in a spell in which the state directory is full or
hangs, files are few, memory is short, or the clock has jumped by up to a minute. slurmctld is
also ended at a random step on the ledger of the order of starts, and by failing allocations. Each
job has a name of its own. One that slurmctld had saved, which is seen by the time of its state
file, must end as COMPLETED; what was not saved may be lost with stock too, and both are
counted. Audits see that no delta stays where the daemon is dead.
"""

import contextlib
import mmap
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

from slurmcluster import Cluster, ClusterError
from slurmcluster.conf import write_config
from slurmcluster.pair import boot
from slurmcluster.phalanx import phalanx_json
from slurmcluster.procs import Process
from slurmcluster.suite import Cases, Suite, SuiteError, command_line, run, until

HERE = os.path.dirname(os.path.realpath(__file__))
NODES = """NodeName=n[1-6] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=8000
PartitionName=main Nodes=n[1-6] Default=YES MaxTime=INFINITE State=UP
"""
EXTRA = ["MinJobAge=60", "JobCompType=jobcomp/filetxt", "SchedulerParameters=bf_interval=2,"
         "bf_continue,sched_interval=1,batch_sched_delay=1,default_queue_depth=300"]
TOML = """mode = "enforce"
[order]
enabled = true
by = "shortest"
max_delta = 5000
max_overtakes = 10
max_delay_s = 20
interval_ms = 200
[link]
eject_openings = 0
syncs_a_minute = 0
[source]
poll_ms = 300
"""
WAITING = 24            # pending jobs that the stream keeps
DISK_MB = 4             # of the state directory
SAVED_AFTER_S = 1.1     # a state file so much younger than a job's submission has it
DRAIN_S = 150.0         # until all jobs have ended after the last blow
GONE_S = 12.0           # deltas without a daemon: a lease of 5 s, removed within a second or so
AUDIT_EVERY = 40
SPELL_MOST = 5          # blows in one spell
GOOD = "COMPLETED"
# Blow and its weight; in one third of all a spell is on.
BLOWS = (("daemon", 30), ("slurmctld", 22), ("both", 8), ("ledger", 24), ("daemon-stop", 6),
         ("daemon-term", 5), ("slurmctld-term", 5))
SPELLS = ("full", "frozen", "files", "daemon-files", "memory", "daemon-memory", "clock",
          "daemon-clock")
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
    """One cluster: its stream, what became of it, and the blows."""

    def __init__(self, cluster, seed):
        self.cluster, self.rng = cluster, random.Random(seed)
        self.name = "stock" if cluster.stock else "phalanx"
        self.submitted, self.saved, self.refused = {}, set(), 0
        self.blows, self.late_s = 0, 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._stream, name=self.name, daemon=True)

    def start(self):
        """Begins the stream."""
        self._thread.start()

    def end(self):
        """No more jobs come."""
        self._stop.set()
        self._thread.join()

    def _stream(self):
        number = 0
        while not self._stop.wait(0.1):
            self.note_saved()
            waiting = self.names("-t", "PD")
            if waiting is None or len(waiting) >= WAITING:
                continue
            for _ in range(6):
                number += 1
                self._submit(f"j{number}")

    def _submit(self, name):
        size = self.rng.choice((["-n1"], ["-n1"], ["-n1", "--array=1-3"], ["-N2", "-n2"],
                                ["-N1", "-n3"], ["-N1", "--exclusive"], ["-n5"]))
        words = ["sbatch", "-J", name, "-o", "/dev/null", f"-t{self.rng.choice((30, 40, 60))}",
                 "--requeue", *size, "--wrap", f"exec sleep {self.rng.choice((0, 0.2, 0.5, 1.5))}"]
        try:
            done = self.cluster.run(*words, check=False, timeout=20)
        except ClusterError:
            done = None
        if done and not done.returncode:
            self.submitted[name] = time.time()
        else:   # slurmctld is away just now, or may have taken it all the same
            self.refused += 1

    def names(self, *words):
        """Names of jobs in the queue; None while slurmctld does not answer."""
        try:
            done = self.cluster.run("squeue", "-h", "-r", *words, "-o", "%j", check=False,
                                    timeout=20)
        except ClusterError:
            return None
        return done.stdout.split() if not done.returncode else None

    def note_saved(self):
        """Jobs that are in slurmctld's state file are safe from then on."""
        with contextlib.suppress(OSError):
            at = os.stat(os.path.join(self.cluster.paths.state, "job_state")).st_mtime
            self.saved |= {name for name, when in list(self.submitted.items())
                           if at > when + SAVED_AFTER_S}

    # --- blows

    def up(self):
        """What has died is started again."""
        for role, start in (("slurmctld", self.cluster.start_slurmctld),
                            ("phalanxd", self.cluster.start_phalanxd)):
            if role == "phalanxd" and self.cluster.stock:
                continue
            for attempt in range(4):
                if self.cluster.alive(role):
                    break
                with contextlib.suppress(ClusterError):
                    start()
                    break
                if attempt == 2:    # it does not start in this spell, with stock neither
                    self.ease()

    def blow(self, kind, after_s, steps):
        """One blow; both sides take the same time for it."""
        cluster, ours = self.cluster, not self.cluster.stock
        time.sleep(after_s)
        self.blows += 1
        if kind == "ledger" and ours:
            self._in_the_ledger(steps)
        elif kind in ("slurmctld", "both", "ledger"):
            cluster.process("slurmctld").signal(signal.SIGKILL)
        elif kind == "slurmctld-term":
            with contextlib.suppress(ClusterError):
                cluster.stop_slurmctld()
            if cluster.alive("slurmctld"):  # it hangs in its state directory
                cluster.process("slurmctld").signal(signal.SIGKILL)
        if ours and kind in ("daemon", "both"):
            cluster.process("phalanxd").signal(signal.SIGKILL)
        if ours and kind == "daemon-term":
            cluster.stop_phalanxd()
        if ours and kind == "daemon-stop":
            cluster.process("phalanxd").signal(signal.SIGSTOP)
            time.sleep(1.0)
            cluster.process("phalanxd").signal(signal.SIGCONT)
        until(lambda: kind not in ("slurmctld", "both", "ledger") or not cluster.alive("slurmctld"),
              "the end of slurmctld", 10.0)
        self.up()

    def _in_the_ledger(self, steps):
        """SIGKILL at a step on the ledger, or soon where none comes."""
        meddle = self.cluster.meddle["slurmctld"]
        meddle.set(kill_at=steps)
        end = time.monotonic() + 2.5
        while time.monotonic() < end and self.cluster.alive("slurmctld"):
            time.sleep(0.02)
        meddle.set(kill_at=0)
        self.cluster.process("slurmctld").signal(signal.SIGKILL)

    # --- spells

    def spell(self, kind, number):
        """Something bad begins. `number`: how bad, 0 to 1."""
        meddle = self.cluster.meddle
        role = "phalanxd" if kind.startswith("daemon") else "slurmctld"
        if role == "phalanxd" and self.cluster.stock:
            return
        if kind == "full":
            self._fill()
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
            meddle[role].set(jump_s=int(120 * number) - 60)

    def ease(self):
        """The spell is over."""
        for meddle in self.cluster.meddle.values():
            meddle.set(jump_s=0, frozen=0, kill_at=0)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.cluster.paths.state, "filler"))
        for role in ("slurmctld", "phalanxd"):
            if self.cluster.alive(role):
                for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS):
                    self._limit(role, what, None)

    def _limit(self, role, what, soft):
        with contextlib.suppress(ProcessLookupError, ValueError):
            pid = self.cluster.process(role).pid
            hard = resource.prlimit(pid, what)[1]
            resource.prlimit(pid, what, (hard if soft is None else soft, hard))

    def _fill(self):
        with open(os.path.join(self.cluster.paths.state, "filler"), "wb", buffering=0) as file:
            size = 65536
            while size:
                try:
                    file.write(b"\0" * size)
                except OSError:
                    size //= 2

    # --- what became of it

    def ended(self):
        """{name: [states of its jobs that ended]} and the longest wait of a start."""
        found, longest = {}, 0.0
        with contextlib.suppress(FileNotFoundError), \
                open(self.cluster.completions, encoding="utf-8", errors="replace") as file:
            for line in file:
                match = re.match(r"JobId=\S+ .*?Name=(\S+) JobState=(\S+)", line)
                if match:
                    found.setdefault(match.group(1), []).append(match.group(2))
        return found, longest

    def drain(self):
        """Waits until no job is left; seconds that it took."""
        begin = time.monotonic()
        until(lambda: self.names() == [], f"{self.name}: no job left", DRAIN_S, every=0.5)
        return time.monotonic() - begin

    def verdict(self):
        """({state: saved jobs with it}, saved jobs that never ended, others that were lost)."""
        ended, _ = self.ended()
        bad, lost, unsaved = {}, [], 0
        for name in self.submitted:
            states = ended.get(name, [])
            if not states:
                if name in self.saved:
                    lost.append(name)
                else:
                    unsaved += 1
            for state in states if name in self.saved else ():
                if state != GOOD:
                    bad.setdefault(state, []).append(name)
        return bad, lost, unsaved


class Kills(Suite):
    """Both clusters."""

    def __init__(self, clusters, args):
        super().__init__(clusters[0])
        self.args, self.rng = args, random.Random(args.seed)
        self.sides = [Side(cluster, args.seed) for cluster in clusters]
        self.audits, self.counts, self.spells = 0, {}, {}

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
            raise SuiteError("; ".join(errors))

    def blow(self):
        """One blow, drawn from the seed."""
        kind = self.rng.choices([name for name, _ in BLOWS], [weight for _, weight in BLOWS])[0]
        after, steps = self.rng.random() * self.args.gap, self.rng.randint(1, 20)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.both(lambda side: side.blow(kind, after, steps))

    def audit(self):
        """Where the daemon is dead no delta stays, nor a ledger that names one."""
        ours = self.sides[0]
        ours.cluster.process("phalanxd").signal(signal.SIGKILL)
        sites = {}

        def gone():
            text = ours.cluster.run("sprio", "-h", "-o", "%i %S", check=False).stdout
            sites.clear()
            sites.update(line.split() for line in text.splitlines() if len(line.split()) == 2)
            return not any(int(site) for site in sites.values())
        try:
            until(gone, "no delta left without a daemon", GONE_S, every=0.3)
        except SuiteError as error:
            self.problems.append(f"{error}: {sites}")
        self.audits += 1
        ours.up()

    def go(self):
        """All blows, with spells and audits between them."""
        left = 0
        for number in range(self.args.kills):
            if not left and self.rng.random() < 0.15:
                kind, how, left = (self.rng.choice(SPELLS), self.rng.random(),
                                   self.rng.randint(1, SPELL_MOST))
                self.spells[kind] = self.spells.get(kind, 0) + 1
                self.both(lambda side, kind=kind, how=how: side.spell(kind, how))
            self.blow()
            left = max(0, left - 1)
            if not left:
                self.both(lambda side: (side.ease(), side.up()))
            if not left and number % AUDIT_EVERY == AUDIT_EVERY // 2:
                self.audit()
            if number % 50 == 49:
                print(f"    {number + 1} blows", flush=True)
        self.both(lambda side: (side.ease(), side.up()))


@case
def kills(suite):
    """Every job that was saved completes, whatever is killed"""
    ours, stock = suite.sides
    for side in suite.sides:
        side.start()
    until(lambda: len(ours.saved) and len(stock.saved), "a saved job", 30.0)
    try:
        suite.go()
    finally:
        for side in suite.sides:
            side.end()
    suite.until(lambda: phalanx_json(ours.cluster, "status")["plugin"]["synced"], "the mirror")
    suite.audit()
    took = []
    suite.both(lambda side: took.append((side.name, round(side.drain(), 1))))
    told = []
    for side in suite.sides:
        bad, lost, unsaved = side.verdict()
        told.append((sum(map(len, bad.values())), len(lost)))
        print(f"    {side.name}: {len(side.submitted)} submissions, {len(side.saved)} saved before "
              f"a blow; of these not {GOOD}: {({k: len(v) for k, v in bad.items()})}, "
              f"lost: {len(lost)} {lost[:5]}; not saved and lost: {unsaved}; not taken: "
              f"{side.refused}", flush=True)
    killed = ours.cluster.meddle["slurmctld"].killed
    print(f"    seed {suite.args.seed}: {suite.args.kills} blows {suite.counts}, in the ledger's "
          f"window {killed}, spells {suite.spells}, {suite.audits} audits; drained {took}")
    suite.summary = f"{suite.args.kills} blows, {len(ours.saved)} saved jobs"
    (our_bad, our_lost), (stock_bad, stock_lost) = told
    suite.expect(our_bad <= stock_bad, f"{our_bad} saved jobs not {GOOD}, stock {stock_bad}")
    suite.expect(our_lost <= stock_lost, f"{our_lost} saved jobs lost, stock {stock_lost}")


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
    try:
        yield Kills(clusters, args)
    finally:
        for cluster in clusters:
            cluster.down()


def more(parser):
    """Options of its own."""
    parser.add_argument("--kills", type=int, default=1000, help="blows on each side")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gap", type=float, default=1.0, help="most seconds before a blow")


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, more), setting))
