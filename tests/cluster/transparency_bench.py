# SPDX-License-Identifier: GPL-3.0-or-later
"""What a transparency case works with: one side (a cluster), one room, labelled jobs.

A case runs the same Python function on two sides at once. Everything it notes is
made independent of job ids, of the clock and of which nodes were chosen, so that
the two lists of notes must be equal. A room is a few nodes with partitions of
their own; cases in different rooms do not see each other.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time

from slurmcluster import ClusterError
from slurmcluster.clock import CLOCK
from slurmcluster.jobs import DONE, IDLE, parse_record
from slurmcluster.suite import SuiteError

POLL_S = 0.35              # between two looks at all jobs
WAIT_S = 60.0              # the usual bound of one wait
SETTLE_S = 2.0
COMMAND_S = 60.0           # the bound of one command
STOCK_FACTOR, STOCK_SLACK_S = 3.0, 20.0   # a case may take 3 x stock + 20 s
ACTIVE = {"RUNNING", "SUSPENDED", "COMPLETING"}
SLEEP = "exec sleep 600"   # a job that ends when it is cancelled
# Lines of srun and salloc that come or not, depending on how long they had to wait.
WAITING_LINES = re.compile(
    r"^(srun|salloc|sbatch): (job \S+ (queued and waiting|has been allocated)"
    r"|(Pending|Granted|Relinquishing) job allocation|Pending job|Nodes .* are ready"
    r"|Waiting for resource|Required node not available"
    r"|Job step( \S+)? aborted: Waiting up to|Job allocation \d+ has been revoked)")


class CaseError(SuiteError):
    """A case could not go on: a wait that did not come true, a command that failed."""


class Pair:
    """The clocks of the two sides of one case; the second may not be much slower."""

    def __init__(self):
        self.begin = CLOCK.now()
        self.first_s = None

    def limit_s(self):
        """Seconds from the beginning that side 2 may take, or None while not known."""
        return None if self.first_s is None else STOCK_FACTOR * self.first_s + STOCK_SLACK_S

    def elapsed(self):
        """Seconds since both sides began."""
        return CLOCK.now() - self.begin


class Side:
    """One cluster, and a thread that looks at its jobs while somebody waits for them."""

    def __init__(self, name, cluster):
        self.name, self.cluster = name, cluster
        self._changed = threading.Condition()
        self._waiters, self._begun, self._records, self._lines = 0, 0.0, [], {}
        self._closed = False
        self._thread = threading.Thread(target=self._look, name=f"look-{name}", daemon=True)
        self._thread.start()

    def close(self):
        """Ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def jobs(self, since):
        """All job records as of a look begun after `since` (monotonic seconds)."""
        with self._changed:
            self._waiters += 1
            self._changed.notify_all()
            try:
                end = time.monotonic() + COMMAND_S
                while self._begun < since and not self._closed:
                    if not self._changed.wait(max(0.1, end - time.monotonic())) or \
                            time.monotonic() > end:
                        raise CaseError(f"no answer to `scontrol show job` in {COMMAND_S:.0f} s")
                return self._records
            finally:
                self._waiters -= 1

    def _look(self):
        while True:
            with self._changed:
                while not self._waiters and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
            begun = time.monotonic()
            records = self._read()
            if records is not None:
                with self._changed:
                    self._begun, self._records = begun, records
                    self._changed.notify_all()
            time.sleep(max(0.05, POLL_S - (time.monotonic() - begun)))

    def _read(self):
        try:
            done = self.cluster.run("scontrol", "-o", "-a", "-d", "show", "job", check=False,
                                    timeout=COMMAND_S)
        except ClusterError:
            return None
        if done.returncode:
            return None
        known, fresh = self._lines, {}
        for line in done.stdout.splitlines():
            if "JobId=" in line:
                fresh[line] = known.get(line) or parse_record(line)
        self._lines = fresh
        return list(fresh.values())


class Case:
    """The context `t` of a case function on one side.

    Every job has a label, and its Slurm name is CASE.LABEL, by which it is found
    again. At the end of the case all its jobs must have ended; what they ended
    with is noted then.
    """

    def __init__(self, side, room, name, pair, second):
        self.side, self.cluster, self.room = side, side.cluster, room
        self.name, self.pair, self.second = name, pair, second
        self.part, self.nodes = room.name, room.nodes
        self.notes, self.labels, self._undo, self._children = [], [], [], []
        self._silent = set()        # labels of jobs whose ends are not compared
        self.dir = os.path.join(side.cluster.paths.root, "cases", name)
        self._earlier = set()       # ids of the jobs of an earlier run of the case
        if os.path.exists(self.dir):
            shutil.rmtree(self.dir, ignore_errors=True)
            self._earlier = {record["JobId"] for record in side.jobs(time.monotonic())}
        os.makedirs(self.dir)
        os.chmod(self.dir, 0o777)

    def since(self, major, minor):
        """True if the cluster runs this release of Slurm or a later one."""
        return self.cluster.release.number >= (major, minor)

    # --- notes ------------------------------------------------------------------

    def note(self, key, value):
        """Adds one observation."""
        self.notes.append((self.plain(str(key)), self.plain(str(value))))

    def plain(self, text):
        """Text without job ids, times, directories and the room's number."""
        text = text.replace(self.dir, "DIR").replace(self.cluster.paths.root, "DIR")
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?", "TIME", text)
        text = re.sub(rf"\b{re.escape(self.room.name)}(?=n\d|n\[|\b|_)", "R", text)
        text = re.sub(r"(?i)\b(job|jobid|allocation|stepid)([ =])\d+([.+_]\d+)?",
                      r"\1\2ID", text)
        text = re.sub(r"error: Rn\d+: task", "error: NODE: task", text)
        text = re.sub(r"slurmstepd-Rn\d+:", "slurmstepd-NODE:", text)
        return text.strip()

    # --- commands -------------------------------------------------------------------

    def left_s(self):
        """Seconds this side has left; raises CaseError when it has none."""
        limit = self.pair.limit_s() if self.second else None
        if limit is None:
            return COMMAND_S
        left = limit - self.pair.elapsed()
        if left <= 0:
            raise CaseError(f"held back: not done after {limit:.0f} s "
                            f"(stock took {self.pair.first_s:.0f} s)")
        return left

    def run(self, *argv, check=False, limit=COMMAND_S, **options):
        """Runs a command of the cluster; returns CompletedProcess."""
        limit = min(limit, self.left_s() + 5.0)
        try:
            return self.cluster.run(*argv, check=check, timeout=limit, cwd=self.dir, **options)
        except ClusterError as error:
            raise CaseError(str(error)) from None

    def command(self, key, *argv, limit=COMMAND_S):
        """Runs a command and notes its exit code and what it printed."""
        done = self.run(*argv, limit=limit)
        self.note(key, outcome_text(done))
        return done

    def scontrol(self, *words):
        """scontrol that must succeed."""
        return self.run("scontrol", *words, check=True)

    def update(self, what, *settings):
        """`scontrol update WHAT SETTING...`: its exit code and message are noted."""
        return self.command(f"update {what} {' '.join(settings)}", "scontrol", "update", what,
                            *settings)

    def undo(self, *argv):
        """A command to run at the end of the case, whatever happens."""
        self._undo.append(argv)

    # --- jobs -----------------------------------------------------------------------

    def job_name(self, label):
        """The Slurm name of a labelled job."""
        return f"{self.name}.{label}"

    def sbatch(self, label, *options, run="true", script=None, part="", parsable=True):
        """Submits a batch job; a refusal is noted with its text. Returns True if accepted.

        `run` is the command of --wrap; `script` the whole script instead. `part` is
        a suffix of the room's partition. ":" among the options begins the next
        component of a het job.
        """
        argv = ["sbatch", *(["--parsable"] if parsable else [])]
        for component in split_components(options):
            argv += [":"] if len(argv) > 2 else []
            argv += ["-J", self.job_name(label), "-p", self.part + part,
                     "-o", f"{self.dir}/{label}.%a.out", *component]
        if script is None:
            done = self.run(*argv, "--wrap", run)
        else:
            done = self.run(*argv, input=script)
        if done.returncode == 0:
            if label not in self.labels:
                self.labels.append(label)
            return True
        self.note(f"{label} refused", outcome_text(done))
        return False

    def refused(self, label, *options, **more):
        """Submits a job of which stock Slurm is expected to refuse it.

        A release that accepts it may have started or ended it before it is cancelled.
        """
        if self.sbatch(label, *options, **more):
            self.note(f"{label} accepted", "yes")
            self.forget(label)

    def interactive(self, program, label, *argv, part=""):
        """The command line of srun or salloc in the room."""
        if label not in self.labels:
            self.labels.append(label)
        return [program, "-J", self.job_name(label), "-p", self.part + part, *argv]

    def srun(self, label, *argv, part="", limit=COMMAND_S):
        """Runs srun to its end and notes exit code and (sorted) output."""
        done = self.run(*self.interactive("srun", label, *argv, part=part), limit=limit)
        self.note(f"srun {label}", outcome_text(done, ordered=False))

    def salloc(self, label, *argv, part="", limit=COMMAND_S):
        """Runs salloc to its end and notes exit code and (sorted) output."""
        done = self.run(*self.interactive("salloc", label, *argv, part=part), limit=limit)
        self.note(f"salloc {label}", outcome_text(done, ordered=False))

    def start(self, label, *argv, part=""):
        """Starts srun in the background; `join` notes how it ended."""
        child = subprocess.Popen(
            self.interactive("srun", label, *argv, part=part), env=self.cluster.env,
            cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True)
        self._children.append(child)
        return child

    def join(self, label, child):
        """Waits for a command of `start` and notes exit code and output."""
        try:
            out, err = child.communicate(timeout=min(COMMAND_S, self.left_s() + 5.0))
        except subprocess.TimeoutExpired:
            raise CaseError(f"srun of {label} does not end") from None
        done = subprocess.CompletedProcess(child.args, child.returncode, out, err)
        self.note(f"srun {label}", outcome_text(done, ordered=False))

    def cancel(self, *labels):
        """Cancels labelled jobs."""
        for label in labels:
            self.run("scancel", "-n", self.job_name(label))

    def forget(self, *labels):
        """Cancels jobs, and does not compare what they ended with."""
        self._silent |= set(labels)
        self.cancel(*labels)
        self.ended(*labels)

    def block(self, label="blocker", *options, part=""):
        """Starts a job that holds what it gets until it is cancelled; waits until it runs."""
        self.sbatch(label, *(options or ("-N", str(len(self.nodes)), "--exclusive")),
                    run=SLEEP, part=part)
        self.wait(label, "RUNNING")

    # --- looking at jobs ----------------------------------------------------------------

    def records(self, *labels, since=None):
        """The job records with these labels, as slurmctld has them now."""
        names = {self.job_name(label) for label in labels}
        found = self.side.jobs(time.monotonic() if since is None else since)
        return [record for record in found
                if record.get("JobName") in names and record["JobId"] not in self._earlier]

    def record(self, label):
        """The record of a job that has exactly one."""
        found = self.records(label)
        if len(found) != 1:
            raise CaseError(f"job {label}: {len(found)} records where one was expected")
        return found[0]

    def job_id(self, label):
        """The job id (of an array or het job: its first) as text."""
        found = self.records(label)
        if not found:
            raise CaseError(f"job {label} is unknown to slurmctld")
        first = found[0]
        return first.get("ArrayJobId") or first.get("HetJobId") or first["JobId"]

    def wait(self, label, *states, reason=None, limit=WAIT_S):
        """Waits until every record of a job is in one of the states, with the reason."""
        def there(records):
            return records and all(
                r["JobState"] in states and (reason is None or r.get("Reason") == reason)
                for r in records)
        return self.until(label, there, f"{'/'.join(states)}{f' ({reason})' if reason else ''}",
                          limit)

    def until(self, label, condition, what, limit=WAIT_S):
        """Waits until `condition(records of label)` holds; returns the records."""
        end = CLOCK.now() + limit
        while True:
            records = self.records(label)
            if condition(records):
                return records
            if CLOCK.now() > end:
                seen = sorted(f"{r['JobState']} ({r.get('Reason')}){wrote(r)}" for r in records)
                raise CaseError(f"job {label}: not {what} within {limit:.0f} s, "
                                f"but {', '.join(seen) or 'unknown'}")
            self.left_s()

    def ended(self, *labels, limit=WAIT_S):
        """Waits until these jobs (default: all of the case) have ended."""
        for label in labels or self.labels:
            self.wait(label, *DONE, limit=limit)

    def settle(self):
        """Gives slurmd the time to remove the files of a run that has just been ended.

        Slurm itself loses the script of a job that is started again on a node before that.
        """
        time.sleep(SETTLE_S)

    def never_started(self, label, seconds):
        """Notes whether a job stayed pending for some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if any(r["JobState"] != "PENDING" for r in self.records(label)):
                self.note(f"{label} stayed pending", "no")
                return
        self.note(f"{label} stayed pending", "yes")

    def hosts(self, record):
        """The numbers of the room's nodes that a job has or had, e.g. [1, 3]."""
        listed = self.run("scontrol", "show", "hostnames", record["NodeList"], check=True)
        return [int(name.rpartition("n")[2]) for name in listed.stdout.split()]

    def output(self, label, task="4294967294"):
        """The text a batch job wrote."""
        path = f"{self.dir}/{label}.{task}.out"
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError as error:
            raise CaseError(f"{path}: {error.strerror}") from None

    def start_order(self, *labels):
        """The labels in the order in which their jobs started."""
        found = {record["JobName"].rpartition(".")[2]: record["StartTime"]
                 for record in self.records(*labels)}
        return sorted(labels, key=lambda label: found.get(label, "Unknown"))

    # --- the end ----------------------------------------------------------------------

    def finish(self):
        """Waits for the jobs of the case and notes what each one came to."""
        self.ended()
        for label in self.labels:
            if label in self._silent:
                continue
            lines = [final_text(record) for record in self.records(label)]
            self.note(label, " | ".join(sorted(lines)) or "no record")

    def clean(self):
        """Leaves the room as it was: no jobs, no processes, nodes idle, undo list done."""
        for child in self._children:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
        for label in self.labels:
            self._quietly("scancel", "-n", self.job_name(label))
        for argv in reversed(self._undo):
            self._quietly(*argv)
        self.idle()

    def idle(self):
        """Waits until all nodes of the room are idle: a job that ended may still leave them."""
        end = CLOCK.now() + WAIT_S
        while self._busy():
            if CLOCK.now() > end:
                raise CaseError(f"room {self.room.name} is not idle again: {self._busy()}")
            time.sleep(0.2)

    def _quietly(self, *argv):
        try:
            self.cluster.run(*argv, check=False, timeout=COMMAND_S)
        except ClusterError as error:
            raise CaseError(f"clean-up: {error}") from None

    def _busy(self):
        """{node: state} of the room's nodes that are not idle."""
        done = self.cluster.run("scontrol", "-o", "show", "node", ",".join(self.nodes),
                                check=False, timeout=COMMAND_S)
        states = dict(re.findall(r"^NodeName=(\S+).*? State=(\S+)", done.stdout, re.MULTILINE))
        busy = {name: state for name, state in states.items() if state not in IDLE}
        return busy or ({} if states else {"all": "unknown"})


def split_components(options):
    """The options of each component of a het job."""
    parts = [[]]
    for option in options:
        if option == ":":
            parts.append([])
        else:
            parts[-1].append(option)
    return parts


def wrote(record):
    """Exit code and end of the output of a job that failed; "" of any other."""
    if record["JobState"] != "FAILED":
        return ""
    try:
        with open(record.get("StdOut", ""), encoding="utf-8", errors="replace") as file:
            text = file.read()[-300:]
    except OSError as error:
        text = str(error)
    return f" {record.get('ExitCode')} {record.get('BatchHost')} {text!r}"


def outcome_text(done, ordered=True):
    """Exit code and printed lines of a command, without lines that depend on timing."""
    lines = [line.strip() for line in (done.stdout + "\n" + done.stderr).splitlines()
             if line.strip() and not WAITING_LINES.match(line)]
    if not ordered:
        lines.sort()
    return f"exit {done.returncode}" + "".join(f"; {line}" for line in lines)


def final_text(record):
    """What a job came to: nothing of which nodes, which ids and when."""
    # Up to 23.02 TRES is what was asked for or given; later there is one of each.
    given = record.get("TRES") or record.get("AllocTRES", "")
    tres = ",".join(item for item in given.split(",")
                    if not item.startswith(("billing=", "energy=")))
    which = record.get("ArrayTaskId") or record.get("HetJobOffset")
    parts = [f"[{which}]" if which is not None else "", record["JobState"]]
    # A cancelled job's reason depends on when it was cancelled; one that never ran has no more.
    if record["JobState"] != "CANCELLED" or record.get("NodeList") not in (
            None, "", "(null)"):
        parts += [f"exit={exit_text(record)}", f"restarts={record.get('Restarts')}",
                  f"tasks={record.get('NumTasks')}", f"tres={tres}",
                  f"gres={gres_text(record)}"]
    if record["JobState"] != "CANCELLED":
        parts.append(f"reason={record.get('Reason')}")
    return " ".join(part for part in parts if part)


def exit_text(record):
    """The exit code of a job; SIGKILL of a cancelled one counts as the SIGTERM before it.

    Which of them ends a job that was just resumed is a race within slurmd, with stock too.
    """
    code = record.get("ExitCode", "")
    return code.replace(":9", ":15") if record["JobState"] == "CANCELLED" else code


def gres_text(record):
    """The GRES a job has, by type only where it asked for a type.

    Which type it gets otherwise depends on which types others have left.
    """
    given = record.get("JOB_GRES") or "(null)"
    asked = " ".join(value for key, value in record.items() if key.startswith("TresPer"))
    sums = {}
    for item in given.split(",") if ":" in given else []:
        words = item.split(":")
        name = ":".join(words[:-1]) if words[1] in asked else words[0]
        sums[name] = sums.get(name, 0) + int(words[-1])
    return ",".join(f"{name}:{count}" for name, count in sorted(sums.items())) or "none"


def shell(*lines):
    """A batch script of these lines."""
    return "#!/bin/bash\n" + "\n".join(lines) + "\n"


def quoted(*words):
    """Words as one shell command."""
    return " ".join(shlex.quote(word) for word in words)
