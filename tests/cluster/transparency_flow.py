# SPDX-License-Identifier: GPL-3.0-or-later
"""Transparency cases: arrays, dependencies, order, steps, interactive jobs, endings."""

import os
import time

from slurmcluster.clock import CLOCK
from transparency_bench import ACTIVE, SLEEP, shell
from transparency_cases import case

END_BY_SIGNAL = shell("trap 'exit 7' USR1", "touch ready", "sleep 600 & wait")


def running(records):
    """How many records run."""
    return sum(record["JobState"] in ACTIVE for record in records)


@case()
def array_limit(t):
    """An array with %2: all tasks end, never more than two at once"""
    t.sbatch("tasks", "--array=1-8%2", "-n1", run="exec sleep 0.5")
    most = 0
    def all_ended(records):
        nonlocal most
        # The limit is one of tasks that run; what completes is none of them.
        most = max(most, sum(record["JobState"] == "RUNNING" for record in records))
        return records and all(r["JobState"] == "COMPLETED" for r in records)
    t.until("tasks", all_ended, "all COMPLETED")
    t.note("never more than two", most <= 2)
    t.sbatch("raised", "--array=1-4%1", "-n1", run=SLEEP)
    t.until("raised", lambda found: running(found) == 1, "one task running")
    t.update(f"JobId={t.job_id('raised')}", "ArrayTaskThrottle=4")
    t.wait("raised", "RUNNING")
    t.cancel("raised")


@case()
def array_steps(t):
    """An array with a step of 3 and multi-node tasks, one of which fails"""
    t.sbatch("steps", "--array=0-9:3", "-N2",
             script=shell("test $SLURM_ARRAY_TASK_ID != 6 || exit 3"))
    t.ended("steps")
    t.note("count", len(t.records("steps")))
    t.sbatch("list", "--array=1,5,7-8", "-N1", "-n2")


@case()
def array_hold_cancel(t):
    """Holding, releasing and cancelling single tasks of an array"""
    t.block()
    t.sbatch("tasks", "--array=1-6", "-n1")
    job = t.job_id("tasks")
    t.command("hold", "scontrol", "hold", f"{job}_2")
    t.command("cancel", "scancel", f"{job}_[4-5]")
    t.command("update", "scontrol", "update", f"JobId={job}_6", "TimeLimit=4")
    t.cancel("blocker")
    t.until("tasks", lambda found: sum(r["JobState"] == "COMPLETED" for r in found) == 3,
            "three COMPLETED")
    t.command("release", "scontrol", "release", f"{job}_2")


@case()
def aftercorr(t):
    """aftercorr: each task waits for the task of the same number"""
    t.sbatch("first", "--array=0-3", "-n1",
             script=shell("exit $((SLURM_ARRAY_TASK_ID == 2))"))
    t.sbatch("second", "--array=0-3", "-n1", f"--dependency=aftercorr:{t.job_id('first')}",
             "--kill-on-invalid-dep=yes")
    t.ended()


@case()
def dependencies(t):
    """after, afterok, afternotok, afterany, and alternatives"""
    t.sbatch("good", "-H")
    t.sbatch("bad", "-H", run="exit 5")
    good, bad = t.job_id("good"), t.job_id("bad")
    for label, kind in (("ok", f"afterok:{good}"), ("notok", f"afternotok:{bad}"),
                        ("any", f"afterany:{good}:{bad}"), ("after", f"after:{good}"),
                        ("either", f"afterok:{bad}?afterok:{good}"),
                        ("multi", f"afterok:{good},afternotok:{bad}")):
        t.sbatch(label, "-N2", f"--dependency={kind}")
        t.wait(label, "PENDING", reason="Dependency")
    t.scontrol("release", good)
    t.scontrol("release", bad)


@case()
def dependency_never(t):
    """A dependency that cannot come true: waits for ever, or is killed on demand"""
    t.sbatch("bad", run="exit 1")
    t.ended("bad")
    bad = t.job_id("bad")
    t.sbatch("waits", f"--dependency=afterok:{bad}", "--kill-on-invalid-dep=no")
    t.wait("waits", "PENDING", reason="DependencyNeverSatisfied")
    t.sbatch("killed", f"--dependency=afterok:{bad}", "--kill-on-invalid-dep=yes")
    t.ended("killed")
    t.refused("unknown", "--dependency=afterok:99999999")
    t.cancel("waits")


@case()
def singleton(t):
    """singleton: jobs of one name run one after another"""
    t.sbatch("same", "--dependency=singleton", run="exec sleep 2")
    t.sbatch("same", "--dependency=singleton", run="exec sleep 1")
    t.sbatch("same", "--dependency=singleton")
    most = 0
    def all_ended(records):
        nonlocal most
        most = max(most, running(records))
        return all(r["JobState"] == "COMPLETED" for r in records)
    t.until("same", all_ended, "all COMPLETED")
    t.note("one at a time", most == 1)


@case()
def hold_release(t):
    """--hold, scontrol hold, uhold and release"""
    t.sbatch("held", "--hold", "-N2")
    t.wait("held", "PENDING", reason="JobHeldUser")
    t.block()
    t.sbatch("later", "-N1")
    later = t.job_id("later")
    t.command("hold", "scontrol", "hold", later)
    t.wait("later", "PENDING", reason="JobHeldAdmin")
    t.command("uhold", "scontrol", "uhold", later)
    t.cancel("blocker")
    t.never_started("later", 2)
    t.command("release", "scontrol", "release", later, t.job_id("held"))


@case()
def requeue(t):
    """scontrol requeue of a running job runs it again; not with --no-requeue"""
    t.sbatch("again", "-N2", script=shell(
        "test ${SLURM_RESTART_COUNT:-0} -gt 0 && exit 0", "exec sleep 600"))
    t.wait("again", "RUNNING")
    t.command("requeue", "scontrol", "requeue", t.job_id("again"))
    t.wait("again", "PENDING", reason="BeginTime")
    t.settle()
    t.update(f"JobId={t.job_id('again')}", "StartTime=now")
    t.sbatch("once", "--no-requeue", run=SLEEP)
    t.wait("once", "RUNNING")
    t.command("refused", "scontrol", "requeue", t.job_id("once"))
    t.cancel("once")
    t.wait("again", "COMPLETED")


@case()
def requeue_hold(t):
    """scontrol requeuehold, then release"""
    t.sbatch("again", "-n2", script=shell(
        "test ${SLURM_RESTART_COUNT:-0} -gt 0 && exit 0", "exec sleep 600"))
    t.wait("again", "RUNNING")
    t.command("requeuehold", "scontrol", "requeuehold", t.job_id("again"))
    t.wait("again", "PENDING", reason="job_requeued_in_held_state")
    t.settle()
    t.command("release", "scontrol", "release", t.job_id("again"))
    t.update(f"JobId={t.job_id('again')}", "StartTime=now")


@case()
def suspend_resume(t):
    """scontrol suspend frees the CPUs for others; resume waits for them"""
    t.sbatch("first", "-N4", "-n16", run=SLEEP)
    t.wait("first", "RUNNING")
    job = t.job_id("first")
    t.command("suspend", "scontrol", "suspend", job)
    t.wait("first", "SUSPENDED")
    t.sbatch("second", "-N2", "-n4", run="exec sleep 1")
    t.ended("second")
    t.command("resume", "scontrol", "resume", job)
    t.wait("first", "RUNNING")
    t.sbatch("third", "-n1")
    t.wait("third", "PENDING", reason="Resources")
    t.cancel("first")


@case()
def begin(t):
    """--begin: pending with BeginTime, then runs"""
    t.sbatch("soon", "--begin=now+6", "-N3")
    t.wait("soon", "PENDING", reason="BeginTime")
    t.sbatch("tomorrow", "--begin=now+1days")
    t.wait("tomorrow", "PENDING", reason="BeginTime")
    t.update(f"JobId={t.job_id('tomorrow')}", "StartTime=now")
    t.ended()


@case()
def deadline(t):
    """--deadline: runs in time, is refused or ended when it cannot be met"""
    t.sbatch("met", "-t1", "--deadline=now+10minutes")
    t.ended("met")
    if t.sbatch("late", "-t60", "--deadline=now+2minutes"):
        t.wait("late", "DEADLINE", limit=50)
    t.block()
    t.sbatch("missed", "-t1", "--time-min=1", "--deadline=now+65seconds")
    t.wait("missed", "DEADLINE", limit=50)
    t.cancel("blocker")


@case(slow=True)
def time_limit(t):
    """A job over its time limit is killed with TIMEOUT"""
    t.sbatch("killed", "-t1", "-N2", run=SLEEP)
    t.sbatch("trapped", "-t1", "--signal=B:USR1@50", script=END_BY_SIGNAL)
    t.wait("trapped", "FAILED")
    t.wait("killed", "TIMEOUT", limit=150)


@case()
def time_min(t):
    """--time-min lets backfill shorten a job that ends before a reservation"""
    name = f"{t.name}_{t.part}"
    t.undo("scontrol", "delete", f"ReservationName={name}")
    t.scontrol("create", "reservation", f"ReservationName={name}", "StartTime=now+10minutes",
               "Duration=60", "Users=root", f"Nodes={','.join(t.nodes)}")
    t.sbatch("fixed", "-N2", "-t60")
    t.sbatch("short", "-N2", "-t60", "--time-min=2", run=SLEEP)
    t.wait("short", "RUNNING")
    t.note("shortened", t.record("short")["TimeLimit"] < "00:11:00")
    t.note("fixed", t.record("fixed")["JobState"])
    t.cancel("fixed", "short")


@case()
def priority_order(t):
    """--nice and scontrol top: jobs for the whole room start in order of priority"""
    t.block()
    for label, nice in (("c", 300), ("a", 100), ("b", 200)):
        t.sbatch(label, "-N4", "--exclusive", f"--nice={nice}", run="exec sleep 1.2")
    t.sbatch("top", "-N4", "--exclusive", "--nice=900", run="exec sleep 1.2")
    t.update(f"JobId={t.job_id('top')}", "Priority=90000")
    t.cancel("blocker")
    t.ended()
    t.note("order", t.start_order("c", "a", "b", "top"))


@case()
def backfill(t):
    """A short job passes a blocked wide one, a long job does not delay it"""
    t.block("blocker", "-N3", "--exclusive", "-t2")
    t.sbatch("wide", "-N4", "--exclusive", "-t5", run="exec sleep 1")
    t.until("wide", lambda found: found[0].get("StartTime") != "Unknown", "planned")
    t.sbatch("long", "-N1", "-n4", "-t30", run="exec sleep 1")
    t.sbatch("short", "-N1", "-n1", "-t1", run="exec sleep 1")
    t.ended("short")
    t.note("long waits", t.record("long")["JobState"])
    t.cancel("blocker")
    t.ended()
    t.note("order", t.start_order("short", "wide", "long"))


@case()
def no_starvation(t):
    """A job for the whole room starts although small ones keep coming"""
    t.sbatch("stream", "--array=0-39", "-n1", "-t1", run="exec sleep 1")
    t.sbatch("wide", "-N4", "--exclusive", "-t1")
    t.sbatch("more", "--array=0-39", "-n1", "-t1", "--nice=500", run="exec sleep 1")
    t.ended("wide")
    t.note("wide before the last", any(r["JobState"] not in ("COMPLETED",)
                                       for r in t.records("more")))


@case()
def steps(t):
    """Several srun steps inside a batch job, parallel and failing ones"""
    t.sbatch("batch", "-N2", "-n4", script=shell(
        "srun true; echo first $?", "srun -n2 -N2 false; echo second $?",
        "srun -n1 -N1 --exact --mem=200 sleep 0.5 & srun -n1 -N1 --exact --mem=200 sleep 0.5 &",
        "wait; echo parallel $?", "srun -n9 true; echo toobig $?",
        "srun -n4 -l bash -c 'echo rank' | sort",
        "srun -n1 bash -c 'exit 4'; echo third $?"))
    t.ended()
    lines = [line for line in t.output("batch").splitlines() if not line.startswith("srun:")]
    t.note("output", "; ".join(lines))


@case()
def srun_interactive(t):
    """srun: output, exit codes, -K, several nodes, refusals"""
    t.srun("ok", "-N2", "-n4", "-l", "echo", "hello")
    t.srun("fails", "-n2", "bash", "-c", "exit $((SLURM_PROCID * 3))")
    t.srun("signal", "-n1", "bash", "-c", "kill -9 $$")
    t.srun("range", "-N2-3", "-n2", "true")
    t.srun("never", "-N1", "--mem=999999", "true")
    t.srun("nocommand", "-n1", "/no/such/program")


@case()
def srun_waits(t):
    """srun waits for a busy room and then runs; a second one is cancelled"""
    t.block()
    first = t.start("first", "-N2", "echo", "ran")
    second = t.start("second", "-N4", "true")
    t.wait("first", "PENDING")
    t.wait("second", "PENDING")
    t.cancel("second")
    t.join("second", second)
    t.cancel("blocker")
    t.join("first", first)


@case()
def salloc_interactive(t):
    """salloc: a command, srun inside, --no-shell, its exit code"""
    t.salloc("command", "-N2", "bash", "-c", "srun hostname | wc -l; exit 6")
    t.salloc("tasks", "-n6", "srun", "-l", "echo", "task")
    t.salloc("kept", "-N1", "-n2", "--no-shell")
    t.wait("kept", "RUNNING")
    t.cancel("kept")
    t.salloc("never", "-N1", "--mem=999999", "true")


@case()
def immediate(t):
    """--immediate: runs at once or fails"""
    t.srun("free", "-I10", "-N2", "true")
    t.block()
    t.srun("busy", "-I1", "-N1", "true")
    t.salloc("busy2", "-I1", "-N1", "true")
    t.cancel("blocker")


@case()
def test_only(t):
    """--test-only of sbatch and srun: possible, later, never"""
    t.block("blocker", "-N2", "--exclusive")
    for label, options in (("now", ("-N2",)), ("later", ("-N4", "--exclusive")),
                           ("never", ("-N9",)), ("memory", ("--mem=99999",))):
        done = t.run("sbatch", "--test-only", "-p", t.part, *options, "--wrap", "true")
        said = done.stderr.replace("sbatch: ", "").split(" to start at")[0]
        t.note(f"sbatch {label}", f"{done.returncode} {said}")
        parts = done.stderr.split(" using ")
        t.note(f"sbatch {label} size", parts[1].split(" nodes ")[0] if len(parts) > 1 else "")
        done = t.run("srun", "--test-only", "-p", t.part, *options, "true")
        t.note(f"srun {label}", f"{done.returncode} {done.stderr.split(' to start at')[0]}")
    t.cancel("blocker")


@case()
def wait_and_codes(t):
    """sbatch --wait: exit codes, killed by a signal"""
    for label, run in (("zero", "true"), ("three", "exit 3"), ("signal", "kill -9 $$")):
        done = t.run("sbatch", "--wait", "-p", t.part, "-J", t.job_name(label), "-o",
                     "/dev/null", "--wrap", run)
        t.labels.append(label)
        t.note(f"wait {label}", done.returncode)


@case()
def scancel_kinds(t):
    """scancel of pending, running and signalled jobs, by state and by name"""
    t.sbatch("trap", script=END_BY_SIGNAL)
    t.sbatch("run", "-N3", "-n3", run=SLEEP)
    t.wait("run", "RUNNING")
    t.wait("trap", "RUNNING")
    t.block("fill", "-N1", "-n1")
    t.sbatch("wait", "-N4", "--exclusive")
    t.wait("wait", "PENDING", reason="Resources")
    t.command("pending", "scancel", "-t", "PENDING", "-p", t.part)
    t.ended("wait")
    end = CLOCK.now() + 20
    while not os.path.exists(f"{t.dir}/ready") and CLOCK.now() < end:
        time.sleep(0.1)
    t.command("signal", "scancel", "-b", "--signal=USR1", t.job_id("trap"))
    t.wait("trap", "FAILED")
    t.command("running", "scancel", t.job_id("run"))
    t.command("unknown", "scancel", "99999999")
    t.cancel("fill")


@case()
def het_batch(t):
    """A batch het job of two and of three components"""
    t.sbatch("two", "-N1", "-n2", ":", "-N2", "-n4",
             script=shell("srun --het-group=0,1 -l bash -c 'echo rank' | sort"))
    t.ended("two")
    t.note("two output", t.output("two").splitlines())
    t.sbatch("three", "-N1", ":", "-N1", "-c4", ":", "-N2", "-C", "b",
             script=shell("echo $SLURM_HET_SIZE", "srun --het-group=2 bash -c 'echo node'"))
    t.ended("three")
    t.note("three output", t.output("three").splitlines())


@case()
def het_waits(t):
    """A het job waits until all components fit, is refused when one never does"""
    t.block("blocker", "-N2", "--exclusive")
    t.sbatch("pair", "-N2", "-c4", ":", "-N1", "-c4", run="sleep 1")
    t.never_started("pair", 3)
    t.cancel("blocker")
    t.ended("pair")
    t.refused("never", "-N1", ":", "-N9")
    t.sbatch("gone", "-N1", "-n1", ":", "-N2", run=SLEEP)
    t.wait("gone", "RUNNING")
    t.command("cancel", "scancel", t.job_id("gone"))


@case(kind="gpu")
def het_mixed(t):
    """A het job of a CPU and a GPU component, and one by salloc"""
    t.sbatch("mixed", "-N1", "-n4", ":", "-N2", "--gres=gpu:a100:2", run="sleep 1")
    t.ended("mixed")
    done = t.run("salloc", "-J", t.job_name("salloc"), "-p", t.part, "-N1", "-n1", ":", "-J",
                 t.job_name("salloc"), "-p", t.part, "-N1", "--gres=gpu:1", "srun",
                 "--het-group=0,1", "echo", "hi")
    t.labels.append("salloc")
    t.note("salloc", f"{done.returncode} {done.stdout.split()}")
