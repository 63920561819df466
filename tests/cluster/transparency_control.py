# SPDX-License-Identifier: GPL-3.0-or-later
"""Transparency cases: what administrators do while jobs wait and run; policies."""

from slurmcluster.clock import CLOCK
from transparency_bench import ACTIVE, DONE, SLEEP, shell
from transparency_cases import case


def reservation(t, label, *settings):
    """Creates a reservation that is deleted at the end; returns its name."""
    name = f"{t.name}_{label}_{t.part}"
    t.undo("scontrol", "delete", f"ReservationName={name}")
    done = t.run("scontrol", "create", "reservation", f"ReservationName={name}", *settings)
    t.note(f"create {label}", f"{done.returncode} {done.stderr}")
    return name


# Without accounting 24.11 itself takes an old errno of its thread for the association's.
STALE_TRIES = 20


@case()
def update_pending(t):
    """scontrol update of pending jobs: nodes, CPUs, features, partition, lists, memory"""
    t.block()
    # 24.11 leaves a job with fewer CPUs than tasks pending for ever.
    changes = {
        "nodes": ("NumNodes=2",), "cpus": (f"NumCPUs={4 if t.since(24, 11) else 3}",),
        "features": ("Features=b",), "partition": (f"Partition={t.part}_share",),
        "reqlist": (f"ReqNodeList={t.nodes[1]}",), "exclist": (f"ExcNodeList={t.nodes[0]}",),
        "memory": ("MinMemoryNode=9000",), "name": ("Nice=7", "Comment=hello"),
        "limit": ("TimeLimit=7",), "tasks": ("NumTasks=3",), "badnodes": ("NumNodes=9",),
        "badfeature": ("Features=nosuch",),
    }
    for label, settings in changes.items():
        t.sbatch(label, "-N1", "-n4", run="exec sleep 0.5")
        for _ in range(STALE_TRIES):
            done = t.run("scontrol", "update", f"JobId={t.job_id(label)}", *settings)
            if "Resource temporarily unavailable" not in done.stderr:
                break
        t.note(f"update {label}", f"{done.returncode} {done.stderr}")
    t.cancel("blocker")
    for label in changes:
        t.until(label, lambda found: found[0]["JobState"] in DONE or
                found[0].get("Reason") in ("BadConstraints", "PartitionNodeLimit"),
                "ended or refused")
    t.cancel("badnodes", "badfeature")
    t.note("reqlist on", t.hosts(t.record("reqlist")))
    t.note("exclist off n1", 1 not in t.hosts(t.record("exclist")))


@case()
def update_running(t):
    """scontrol update of a running job: time limit; others are refused"""
    t.block("job", "-N2", "-t10")
    job = t.job_id("job")
    t.update(f"JobId={job}", "TimeLimit=20")
    t.note("limit", t.record("job")["TimeLimit"])
    for setting in (f"Partition={t.part}_share", "Features=b", "NumCPUs=1", "Nice=5"):
        done = t.run("scontrol", "update", f"JobId={job}", setting)
        t.note(setting, f"{done.returncode} {done.stderr}")
    t.cancel("job")


@case()
def job_shrink(t):
    """scontrol update NumNodes of a running job gives nodes back"""
    t.sbatch("job", "-N4", "-n16", script=shell("exec sleep 600"))
    t.wait("job", "RUNNING")
    t.update(f"JobId={t.job_id('job')}", "NumNodes=2")
    t.until("job", lambda found: found[0]["NumNodes"] == "2", "on two nodes")
    t.sbatch("uses", "-N2", "-n8")
    t.ended("uses")
    t.sbatch("third", "-N3")
    t.never_started("third", 2)
    t.cancel("job")


@case()
def job_expand(t):
    """--dependency=expand and NumNodes=ALL: one job gets another's nodes"""
    # 25.11.7 and 26.05.3 end with a segmentation fault where one of the two has no licences
    # (_valid_license_job_expansion looks into a list that is not there).
    licence = ("-L", "delta:1") if t.since(25, 11) else ()
    t.sbatch("small", "-N1", "-n4", *licence, run=SLEEP)
    t.wait("small", "RUNNING")
    small = t.job_id("small")
    t.salloc("extra", "-N2", "-n8", *licence, f"--dependency=expand:{small}", "--no-shell")
    t.wait("extra", "RUNNING")
    done = t.run("scontrol", "update", f"JobId={t.job_id('extra')}", "NumNodes=0")
    t.note("give", f"{done.returncode} {done.stderr}")
    done = t.run("scontrol", "update", f"JobId={small}", "NumNodes=ALL")
    t.note("take", f"{done.returncode} {done.stderr}")
    t.until("small", lambda found: found[0]["NumNodes"] == "3", "on three nodes")
    t.sbatch("rest", "-N1", "-n4")
    t.ended("rest")
    t.sbatch("more", "-N2")
    t.never_started("more", 2)
    t.cancel("extra", "small")


@case()
def node_drain(t):
    """Draining nodes while jobs run and wait, then resuming them"""
    t.undo("scontrol", "update", f"NodeName={','.join(t.nodes)}", "State=RESUME")
    t.block("runs", "-N1", "-w", t.nodes[0], "-n1")
    t.update(f"NodeName={t.nodes[0]},{t.nodes[1]}", "State=DRAIN", "Reason=test")
    t.sbatch("three", "-N3", "-c4")
    t.never_started("three", 3)
    t.sbatch("two", "-N2", "-c4")
    t.ended("two")
    t.note("two on", t.hosts(t.record("two")))
    t.note("runs", t.record("runs")["JobState"])
    t.update(f"NodeName={t.nodes[1]}", "State=RESUME")
    t.ended("three")
    t.cancel("runs")
    t.sbatch("wants", "-N1", "-w", t.nodes[0])
    t.never_started("wants", 2)
    t.update(f"NodeName={t.nodes[0]}", "State=RESUME")


@case()
def node_down(t):
    """A node set DOWN: its job is requeued and runs elsewhere, or ends with NODE_FAIL"""
    t.undo("scontrol", "update", f"NodeName={','.join(t.nodes)}", "State=RESUME")
    t.sbatch("again", "-N1", "-n4", "-w", t.nodes[0], run=SLEEP)
    t.sbatch("fails", "-N2", "--no-requeue", "-x", f"{t.nodes[0]},{t.nodes[3]}", run=SLEEP)
    t.wait("again", "RUNNING")
    t.wait("fails", "RUNNING")
    t.update(f"NodeName={t.nodes[0]}", "State=DOWN", "Reason=test")
    t.until("again", lambda found: found[0]["Restarts"] == "1" and
            found[0]["JobState"] == "PENDING", "requeued")
    t.update(f"NodeName={t.nodes[1]}", "State=DOWN", "Reason=test")
    t.ended("fails")
    t.settle()
    t.update(f"NodeName={t.nodes[0]},{t.nodes[1]}", "State=RESUME")
    t.update(f"JobId={t.job_id('again')}", "StartTime=now")
    t.wait("again", "RUNNING")
    t.cancel("again")


@case()
def partition_state(t):
    """A partition INACTIVE and DOWN while jobs wait, then UP"""
    t.undo("scontrol", "update", f"PartitionName={t.part}", "State=UP")
    t.update(f"PartitionName={t.part}", "State=DOWN")
    t.sbatch("waits", "-N2")
    t.wait("waits", "PENDING", reason="PartitionDown")
    t.update(f"PartitionName={t.part}", "State=INACTIVE")
    t.refused("inactive", "-N1")
    t.update(f"PartitionName={t.part}", "State=DRAIN")
    t.refused("drain", "-N1")
    t.update(f"PartitionName={t.part}", "State=UP")
    t.ended()


@case()
def multi_partition(t):
    """A job in several partitions starts in the one where it may"""
    t.block("blocker", "-N4", "-n4", "--exclusive")
    t.sbatch("either", "-p", f"{t.part}_cap,{t.part}_share", "-N3", "-t30")
    t.wait("either", "PENDING")
    t.cancel("blocker")
    t.ended("either")
    t.note("partition", t.record("either")["Partition"])
    t.sbatch("ranked", "-p", f"{t.part},{t.part}_high", "-N1")
    t.ended("ranked")
    t.refused("unknown", "-p", f"{t.part},nosuch")


@case()
def licences(t):
    """-L: jobs beyond the number of licences wait with reason Licenses"""
    t.sbatch("two", "-L", "alpha:2", "-N1", "-n1", run=SLEEP)
    t.sbatch("more", "-L", "alpha:2", "-N2", "-n2", run=SLEEP)
    t.wait("two", "RUNNING")
    t.wait("more", "RUNNING")
    t.sbatch("waits", "-L", "alpha:1", "-n1")
    t.wait("waits", "PENDING", reason="Licenses")
    t.sbatch("other", "-L", "beta", "-n1")
    t.ended("other")
    t.cancel("two")
    t.ended("waits")
    t.sbatch("both", "-L", "beta:1,gamma:2", "-n1")
    t.ended("both")
    t.refused("toomany", "-L", "beta:2")
    t.cancel("more")


@case()
def reservation_nodes(t):
    """A reservation of two nodes: jobs inside, outside, too large, after its deletion"""
    name = reservation(t, "pair", "StartTime=now", "Duration=60", "Users=root",
                       f"Nodes={t.nodes[0]},{t.nodes[1]}")
    t.sbatch("inside", "-N2", f"--reservation={name}", run="exec sleep 1")
    t.sbatch("outside", "-N2", run="exec sleep 1")
    t.ended()
    t.note("inside on", t.hosts(t.record("inside")))
    t.note("outside on", t.hosts(t.record("outside")))
    t.sbatch("wide", "-N3")
    t.never_started("wide", 2)
    t.refused("toowide", "-N3", f"--reservation={name}")
    t.sbatch("narrow", "-N1", "-n2", f"--reservation={name}")
    t.ended("narrow")
    t.scontrol("delete", f"ReservationName={name}")
    t.ended("wide")


@case()
def reservation_cores(t):
    """A reservation of cores leaves the other cores of its nodes to everyone"""
    name = reservation(t, "cores", "StartTime=now", "Duration=60", "Users=root",
                       f"PartitionName={t.part}", f"Nodes={t.nodes[0]},{t.nodes[1]}",
                       "CoreCnt=4" if t.since(24, 11) else "CoreCnt=2,2")
    t.sbatch("inside", "-n4", f"--reservation={name}", run=SLEEP)
    t.wait("inside", "RUNNING")
    t.sbatch("more", "-n1", f"--reservation={name}")
    t.never_started("more", 2)
    t.sbatch("outside", "-N4", "-n12", run=SLEEP)
    t.wait("outside", "RUNNING")
    t.sbatch("waits", "-n1")
    t.wait("waits", "PENDING", reason="Resources")
    t.cancel("inside", "outside")
    t.ended()


@case()
def reservation_future(t):
    """A reservation in an hour: short jobs run on its nodes, long ones do not"""
    reservation(t, "soon", "StartTime=now+60minutes", "Duration=60", "Users=root",
                f"Nodes={t.nodes[0]},{t.nodes[1]},{t.nodes[2]}")
    t.sbatch("short", "-N4", "-c4", "-t30")
    t.ended("short")
    t.sbatch("long", "-N1", "-t120")
    t.ended("long")
    t.note("long on", t.hosts(t.record("long")))
    t.sbatch("longwide", "-N2", "-t120")
    t.never_started("longwide", 3)
    t.cancel("longwide")
    reservation(t, "clash", "StartTime=now", "Duration=600", "Users=root",
                f"Nodes={t.nodes[0]}")


@case()
def reservation_user(t):
    """A reservation for one user keeps another out; by count of nodes"""
    name = reservation(t, "count", "StartTime=now", "Duration=60", "Users=daemon",
                       "NodeCnt=2", f"PartitionName={t.part}")
    t.sbatch("denied", "--uid=bin", "-D", "/tmp", f"--reservation={name}")
    t.sbatch("owner", "--uid=daemon", "-D", "/tmp", "-N2", f"--reservation={name}")
    t.sbatch("others", "-N2", "-n8")
    t.ended("owner", "others")
    t.cancel("denied")


@case()
def preempt_requeue(t):
    """A partition of a higher tier requeues jobs of a lower one"""
    t.sbatch("low", "--array=0-3", "-N1", "-n4", part="_low", script=shell(
        "test ${SLURM_RESTART_COUNT:-0} -gt 0 && exit 0", "exec sleep 600"))
    t.wait("low", "RUNNING")
    t.sbatch("high", "-N2", "-n8", part="_high", run="exec sleep 1")
    t.ended("high")
    t.until("low", lambda found: sum(r["Restarts"] == "1" for r in found) == 2,
            "two of them requeued")
    t.settle()
    for record in t.records("low"):
        if record["JobState"] == "PENDING":
            t.scontrol("update", f"JobId={record['JobId']}", "StartTime=now")
    t.until("low", lambda found: sum(r["JobState"] == "COMPLETED" for r in found) == 2,
            "the two requeued ones COMPLETED")
    t.note("left running", sum(r["JobState"] == "RUNNING" for r in t.records("low")))
    t.run("scancel", "-n", t.job_name("low"))
    t.ended("low")
    t.labels.remove("low")


@case()
def preempt_cancel(t):
    """A partition of a higher tier cancels jobs of a lower one"""
    t.block("low", "-N4", "-n16", part="_cancel")
    t.sbatch("high", "-N1", "-n1", part="_high", run="exec sleep 1")
    t.ended("low", "high")
    t.sbatch("equal", "-N1", part="_cancel")


@case(variant="gang")
def preempt_suspend(t):
    """A partition of a higher tier suspends jobs of a lower one, which go on later"""
    t.sbatch("small", "-N1", "-n1", part="_susp")
    t.ended("small")
    t.block("low", "-N4", "-n16", part="_susp")
    t.sbatch("high", "-N4", "-n8", part="_high", run=SLEEP)
    t.wait("high", "RUNNING")
    t.wait("low", "SUSPENDED")
    t.cancel("high")
    t.wait("low", "RUNNING")
    t.cancel("low")


@case(variant="gang")
def time_slicing(t):
    """Two jobs share all CPUs in turns in a partition with OverSubscribe=FORCE"""
    t.scontrol("update", f"PartitionName={t.part}_susp", "OverSubscribe=FORCE:2")
    t.undo("scontrol", "update", f"PartitionName={t.part}_susp", "OverSubscribe=FORCE:1")
    for label in ("one", "two"):
        t.sbatch(label, "-N4", "-n16", run=SLEEP, part="_susp")
    for label in ("one", "two", "one"):
        t.wait(label, "RUNNING")
        t.wait(label, "SUSPENDED")
    t.cancel("one", "two")


@case()
def preempt_none(t):
    """No preemption of a partition that forbids it, nor when free nodes suffice"""
    t.block("safe", "-N2", "--exclusive")
    t.block("low", "-N1", "-n4", part="_low")
    t.sbatch("fits", "-N1", "-n4", part="_high", run="exec sleep 1")
    t.ended("fits")
    t.note("low", t.record("low")["JobState"])
    t.cancel("low")
    t.ended("low")
    t.sbatch("wide", "-N3", "-n3", part="_high")
    t.never_started("wide", 3)
    t.note("safe", t.record("safe")["JobState"])
    t.cancel("safe")


@case(solo=True)
def reconfigure(t):
    """scontrol reconfigure while jobs run and wait"""
    t.block("runs", "-N2", "--exclusive")
    t.sbatch("waits", "-N4", "-c4")
    t.wait("waits", "PENDING", reason="Resources")
    t.command("reconfigure", "scontrol", "reconfigure")
    t.sbatch("after", "-N2", "-n2", "-t1")
    t.ended("after")
    t.note("runs", t.record("runs")["JobState"])
    t.cancel("runs")


@case(solo=True)
def restart_controller(t):
    """slurmctld restarted while jobs run and wait"""
    t.block("runs", "-N2", "--exclusive")
    t.sbatch("short", "-N1", "-n4", run="exec sleep 4")
    t.wait("short", "RUNNING")
    t.sbatch("waits", "-N4", "-c4")
    t.sbatch("array", "--array=0-5%2", "-n1", "--dependency=afterany:" + t.job_id("waits"))
    t.cluster.restart_slurmctld()
    t.ended("short")
    t.note("runs", t.record("runs")["JobState"])
    t.cancel("runs")


@case(solo=True)
def node_stops(t):
    """A node's slurmd is restarted under a running job, which goes on"""
    node = t.nodes[1]
    t.block("runs", "-N1", "-w", node)
    t.cluster.stop_slurmd(node)
    t.cluster.start_slurmd(node)
    t.sbatch("next", "-N1", "-w", node, "-n1", run="exec sleep 1")
    t.ended("next")
    t.note("runs", t.record("runs")["JobState"])
    t.cancel("runs")


@case()
def many_small(t):
    """Sixty short jobs of four shapes: all complete"""
    for index in range(15):
        t.sbatch(f"a{index}", "-n1")
        t.sbatch(f"b{index}", "-N2", "-n2")
        t.sbatch(f"c{index}", "-N1", "-n3", "--mem-per-cpu=600")
        t.sbatch(f"d{index}", "-N1", "--exclusive")
    begin = CLOCK.now()
    t.ended(limit=110)
    t.note("within the bound", CLOCK.now() - begin < 110)
    t.note("running", sum(r["JobState"] in ACTIVE for r in t.records(*t.labels)))
