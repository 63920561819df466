# SPDX-License-Identifier: GPL-3.0-or-later
"""Transparency cases: numbers of nodes, tasks, CPUs and memory, and refusals."""

from transparency_bench import SLEEP, shell
from transparency_cases import case


@case()
def nodes_range(t):
    """-N2-4 takes four free nodes, and the two that are left when two are busy"""
    t.sbatch("wide", "-N2-4", run="exec sleep 1")
    t.ended("wide")
    t.block("blocker", "-N2", "--exclusive")
    t.sbatch("narrow", "-N2-4", "-c4", run="exec sleep 1")
    t.ended("narrow")
    t.cancel("blocker")


@case()
def nodes_range_spaces(t):
    """-N 1-3 with more tasks than one node has CPUs"""
    t.sbatch("tasks", "-N", "1-3", "-n", "9")
    t.ended()
    t.sbatch("plain", "-N", "1-3")
    t.ended()
    t.sbatch("two", "-N", "1-2", "-n", "7")
    t.refused("short", "-N", "1-2", "-n", "12")


@case()
def ntasks_only(t):
    """-n alone: as many nodes as the CPUs need"""
    for tasks in (1, 4, 6, 16):
        t.sbatch(f"n{tasks}", "-n", str(tasks))
        t.ended()


@case()
def ntasks_cpus(t):
    """-n with -c"""
    t.sbatch("small", "-n2", "-c2")
    t.ended()
    t.sbatch("odd", "-n3", "-c3")
    t.ended()
    t.sbatch("whole", "-n4", "-c4")
    t.refused("too wide", "-n1", "-c5")


@case()
def ntasks_per_node(t):
    """--ntasks-per-node with and without -N and -n"""
    t.sbatch("both", "-N2", "--ntasks-per-node=2")
    t.sbatch("tasks", "-n4", "--ntasks-per-node=1")
    t.ended()
    t.sbatch("full", "-n8", "--ntasks-per-node=2", "--exclusive")
    t.refused("over", "-N2", "--ntasks-per-node=5")


@case(kind="gpu")
def ntasks_per_socket(t):
    """--ntasks-per-socket on nodes with two sockets"""
    t.sbatch("one", "-n4", "--ntasks-per-socket=1")
    t.sbatch("two", "-N1", "-n4", "--ntasks-per-socket=2")
    t.ended()
    t.sbatch("three", "-N2", "-n12", "--ntasks-per-socket=3")
    t.ended()


@case(kind="smt")
def ntasks_per_core(t):
    """--ntasks-per-core on nodes with two threads per core"""
    t.sbatch("one", "-n4", "--ntasks-per-core=1")
    t.sbatch("two", "-n4", "--ntasks-per-core=2")
    t.ended()


@case(kind="smt")
def threads_per_core(t):
    """--threads-per-core=1 and --hint=nomultithread"""
    t.sbatch("one", "-n4", "--threads-per-core=1")
    t.ended()
    t.sbatch("hint", "-n6", "--hint=nomultithread")
    t.ended()
    t.sbatch("both", "-n8", "--threads-per-core=2")
    t.refused("three", "-n1", "--threads-per-core=3")


@case(kind="smt")
def node_geometry(t):
    """-B, --sockets-per-node, --cores-per-socket, --mincpus"""
    t.sbatch("extra", "-N1", "-n2", "-B", "2:2:1")
    t.sbatch("sockets", "-N2", "--sockets-per-node=2", "--cores-per-socket=2")
    t.ended()
    t.sbatch("mincpus", "-N2", "--mincpus=6")
    t.refused("wide", "-N1", "--sockets-per-node=3")
    t.refused("cores", "-N1", "--cores-per-socket=4")


@case()
def exclusive(t):
    """--exclusive waits for whole nodes and gets all their CPUs"""
    t.block("blocker", "-N1", "-n1")
    t.sbatch("three", "-N3", "--exclusive", run="exec sleep 1")
    t.ended("three")
    t.sbatch("four", "-N4", "--exclusive")
    t.wait("four", "PENDING", reason="Resources")
    t.cancel("blocker")
    t.ended("four")


@case()
def exclusive_user(t):
    """--exclusive=user keeps others off the node, but not the same user's jobs"""
    t.sbatch("first", "-N4", "-n4", "--exclusive=user", run=SLEEP)
    t.wait("first", "RUNNING")
    t.sbatch("same", "-n1", "--exclusive=user")
    t.ended("same")
    t.sbatch("other", "--uid=daemon", "-n1", "-D", "/tmp")
    t.wait("other", "PENDING", reason="Resources")
    t.never_started("other", 2)
    t.cancel("first")
    t.ended("other")


@case()
def contiguous(t):
    """--contiguous finds neighbours, or waits for them"""
    t.sbatch("three", "-N3", "--contiguous")
    t.ended("three")
    t.block("blocker", "-w", t.nodes[1], "--exclusive")
    t.sbatch("pair", "-N2", "--contiguous", run=SLEEP)
    t.wait("pair", "RUNNING")
    t.note("pair on", t.hosts(t.record("pair")))
    t.sbatch("three2", "-N3", "--contiguous")
    t.wait("three2", "PENDING", reason="Resources")
    t.cancel("blocker", "pair")


@case()
def overcommit(t):
    """-O lets more tasks than CPUs onto the nodes"""
    t.sbatch("one", "-N1", "-n10", "-O")
    t.sbatch("two", "-N2", "-n20", "--overcommit")
    t.ended()
    t.srun("tasks", "-N1", "-n7", "-O", "true")


@case(variant="accounting")
def oversubscribe(t):
    """-s shares CPUs in a partition with OverSubscribe=YES:2, and only there"""
    t.sbatch("first", "-N4", "-n16", "-s", run=SLEEP, part="_share")
    t.wait("first", "RUNNING")
    t.sbatch("second", "-N4", "-n16", "-s", run=SLEEP, part="_share")
    t.wait("second", "RUNNING")
    t.sbatch("third", "-N1", "-n1", "-s", part="_share")
    t.wait("third", "PENDING", reason="Resources")
    t.cancel("first", "second")
    t.ended("third")
    t.sbatch("alone", "-N4", "-n16", run="exec sleep 1", part="_share")
    t.ended("alone")


@case()
def core_spec(t):
    """--core-spec takes whole nodes and leaves cores to the system"""
    t.sbatch("one", "-N2", "--core-spec=1")
    t.sbatch("threads", "-N1", "--thread-spec=1")
    t.ended()
    t.refused("all", "-N1", "-n4", "--core-spec=1")


@case()
def memory_per_node(t):
    """--mem chooses nodes with room, waits when none has, is refused above the largest"""
    t.sbatch("big", "-N2", "--mem=12000", run=SLEEP)
    t.wait("big", "RUNNING")
    t.note("big on", t.hosts(t.record("big")))
    t.sbatch("next", "-N1", "--mem=10000")
    t.wait("next", "PENDING", reason="Resources")
    t.sbatch("small", "-N2", "--mem=2000")
    t.ended("small")
    t.refused("huge", "-N1", "--mem=20000")
    t.refused("wide", "-N3", "--mem=12000")
    t.cancel("big")


@case()
def memory_per_cpu(t):
    """--mem-per-cpu limits how many CPUs of a node can be used"""
    t.sbatch("two", "-n2", "--mem-per-cpu=3000")
    t.sbatch("spread", "-n8", "--mem-per-cpu=4000", "-C", "b")
    t.ended()
    t.sbatch("low", "-n4", "--mem-per-cpu=3500", "-C", "a", run=SLEEP)
    t.wait("low", "RUNNING")
    t.cancel("low")
    t.refused("never", "-n1", "--mem-per-cpu=17000")


@case()
def memory_all(t):
    """--mem=0 takes all memory of the nodes, so nothing else fits beside it"""
    t.sbatch("all", "-N2", "-n2", "--mem=0", "-C", "a", run=SLEEP)
    t.wait("all", "RUNNING")
    t.sbatch("beside", "-n1", "--mem=100", "-C", "a")
    t.wait("beside", "PENDING", reason="Resources")
    t.cancel("all")
    t.ended("beside")


@case()
def impossible(t):
    """Requests that can never run are refused with the same words and exit code"""
    for options in (("-N5",), ("-n999",), ("--mem=999999",), ("-C", "nosuch"),
                    ("--gres=gpu:1",), ("--gres=foo:1",), ("-w", "nosuchnode"),
                    # 24.11 takes it; held, so that it is cancelled before it starts.
                    ("-w", ",".join(t.nodes), "-N2-3", "--hold"), ("-x", ",".join(t.nodes)),
                    ("-L", "nosuch:1"), ("-L", "alpha:9"), ("-N3-2",), ("-t", "bad"),
                    ("-N0",), ("-n0",), ("-c0",), ("--mem=-1",), ("--reservation=nosuch",),
                    ("--dependency=afterok:bad",), ("-N2", "-C", "a&b"),
                    ("-C", "[a*3]", "-N3"), ("--tmp=1T",), ("--nodelist=/nonexistent",),
                    ("-M", "nosuch"), ("--array=5-1",), ("--array=0-99999",),
                    ("--switches=x",), ("--begin=never",), ("--nosuchoption",)):
        t.refused(" ".join(options), *options)
    t.refused("partition", part="_nosuch")
    t.refused("script", script="no interpreter\n")


@case()
def partition_limits(t):
    """MaxNodes and MaxTime of a partition hold a job back with the right reason"""
    t.sbatch("nodes", "-N3", part="_cap")
    t.wait("nodes", "PENDING", reason="PartitionNodeLimit")
    t.sbatch("time", "-t", "60", part="_cap")
    t.wait("time", "PENDING", reason="PartitionTimeLimit")
    t.sbatch("range", "-N1-2", "-c4", part="_cap")
    t.ended("range")
    t.update(f"JobId={t.job_id('time')}", "TimeLimit=3")
    t.ended("time")
    t.cancel("nodes")


@case()
def spread_and_distribution(t):
    """--spread-job, --distribution and --use-min-nodes"""
    t.sbatch("spread", "-n4", "--spread-job")
    t.ended("spread")
    t.sbatch("minimal", "-N1-4", "-n3", "--use-min-nodes")
    t.sbatch("cyclic", "-N2", "-n4", "-m", "cyclic",
             script=shell("srun -m cyclic -l bash -c 'echo $SLURM_PROCID' | sort"))
    t.ended()
    t.note("cyclic ranks", t.output("cyclic").splitlines())
    t.refused("plane", "-N2", "-n4", "-m", "plane=")


@case()
def fill_exactly(t):
    """Sixteen one-CPU jobs fill the room, the seventeenth waits"""
    t.sbatch("fill", "--array=0-15", "-n1", run=SLEEP)
    t.wait("fill", "RUNNING")
    t.sbatch("next", "-n1")
    t.wait("next", "PENDING", reason="Resources")
    t.cancel("fill")
    t.ended("next")


@case()
def two_sizes(t):
    """Jobs of one and of three CPUs pack so that all run at once"""
    t.sbatch("three", "--array=0-3", "-n1", "-c3", run=SLEEP)
    t.wait("three", "RUNNING")
    t.sbatch("one", "--array=0-3", "-n1", run=SLEEP)
    t.wait("one", "RUNNING")
    t.cancel("three", "one")
