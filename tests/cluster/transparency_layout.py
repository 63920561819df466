# SPDX-License-Identifier: GPL-3.0-or-later
"""Transparency cases: sockets, cores and threads of partly busy nodes.

The nodes have two sockets of two cores with two threads, or with GPUs two sockets of four cores.
"""

from transparency_bench import SLEEP, shell
from transparency_cases import case


def hold(t, label, *options, part=""):
    """Starts a job that stays until it is forgotten."""
    t.sbatch(label, "-t600", *options, run=SLEEP, part=part)
    t.wait(label, "RUNNING", limit=20)


def waits(t, label, *options, part=""):
    """Submits a job that cannot start yet."""
    t.sbatch(label, *options, part=part)
    t.wait(label, "PENDING", reason="Resources", limit=20)


@case("layout", kind="smt")
def hint_compute_bound(t):
    """--hint=compute_bound takes one thread of each core"""
    t.sbatch("six", "-n6", "--hint=compute_bound")
    t.ended()
    hold(t, "busy", "-N3", "-n3", "-c4")
    t.sbatch("fits", "-n6", "--hint=compute_bound", "-t1")
    t.ended("fits")
    waits(t, "seven", "-n7", "--hint=compute_bound")
    t.forget("busy")


@case("layout", kind="smt")
def hint_memory_bound(t):
    """--hint=memory_bound takes one core of each socket"""
    t.sbatch("four", "-n4", "--hint=memory_bound")
    t.sbatch("nodes", "-N3", "-n6", "--hint=memory_bound")
    t.ended()
    hold(t, "busy", "-N3", "-n3", "-c4")
    t.sbatch("late", "-n3", "--hint=memory_bound", "-t1")
    t.never_started("late", 2)
    t.forget("busy")


@case("layout", kind="smt")
def hint_multithread(t):
    """--hint=multithread uses every thread"""
    t.sbatch("one", "-N1", "-n8", "--hint=multithread")
    t.ended()
    hold(t, "all", "-n20", "--hint=multithread")
    t.sbatch("four", "-n4", "--hint=multithread", "-t1")
    t.ended("four")
    waits(t, "five", "-n5", "--hint=multithread")
    t.forget("all")


@case("layout", kind="smt")
def hint_nomultithread_fill(t):
    """Jobs of one core each fill the room, in whatever words they ask for it"""
    hold(t, "hint", "--array=0-3", "-n1", "--hint=nomultithread")
    hold(t, "threads", "--array=0-3", "-n1", "--threads-per-core=1")
    hold(t, "tasks", "--array=0-3", "-n1", "--ntasks-per-core=1")
    waits(t, "more", "-n1")
    t.forget("hint", "threads", "tasks")
    t.ended("more")


@case("layout", kind="smt")
def threads_per_core_busy(t):
    """--threads-per-core=1 beside jobs that hold a socket of every node"""
    hold(t, "busy", "-N3", "-n3", "-c4")
    t.sbatch("two", "-N3", "-n6", "--threads-per-core=1", "-t1")
    t.ended("two")
    waits(t, "three", "-N3", "-n9", "--threads-per-core=1")
    t.forget("busy")


@case("layout", kind="smt")
def ntasks_per_core_wide(t):
    """--ntasks-per-core=1 with more CPUs per task than a core has threads"""
    t.sbatch("three", "-n2", "-c3", "--ntasks-per-core=1")
    t.sbatch("five", "-N2", "-n2", "-c5", "--ntasks-per-core=1")
    t.ended()
    hold(t, "fill", "--array=0-5", "-n1", "-c3", "--ntasks-per-core=1")
    waits(t, "more", "-n1", "-c3", "--ntasks-per-core=1")
    t.forget("fill")


@case("layout", kind="smt")
def ntasks_per_core_range(t):
    """-N1-3 with --ntasks-per-core=1 takes as many nodes as the tasks need"""
    t.sbatch("ten", "-N1-3", "-n10", "--ntasks-per-core=1")
    t.sbatch("four", "-N1-3", "-n4", "--ntasks-per-core=1")
    t.ended()
    t.refused("never", "-N1-3", "-n13", "--ntasks-per-core=1")


@case("layout", kind="smt")
def ntasks_per_socket_busy(t):
    """--ntasks-per-socket=1 where one socket of each node is busy"""
    t.sbatch("six", "-n6", "--ntasks-per-socket=1")
    t.ended("six")
    hold(t, "busy", "-N3", "-n3", "-c4", "-m", "block:block")
    t.sbatch("three", "-N3", "-n3", "--ntasks-per-socket=1", "-t1")
    t.ended("three")
    t.sbatch("pair", "-N1", "-n2", "--ntasks-per-socket=1")
    t.never_started("pair", 2)
    t.forget("busy")


@case("layout", kind="smt")
def sockets_per_node_busy(t):
    """--sockets-per-node=2 waits for a node with cores free on both sockets"""
    hold(t, "busy", "-N3", "-n3", "-c4", "-m", "block:block")
    t.sbatch("one", "-N3", "--sockets-per-node=1", "-t1")
    t.ended("one")
    t.sbatch("two", "-N1", "--sockets-per-node=2")
    t.never_started("two", 2)
    t.forget("busy")


@case("layout", kind="smt")
def cores_per_socket_busy(t):
    """--cores-per-socket=2 waits for a socket that is wholly free"""
    hold(t, "core", "-N3", "--ntasks-per-node=2", "-c2", "-m", "block:cyclic")
    t.sbatch("one", "-N3", "--cores-per-socket=1", "-t1")
    t.ended("one")
    t.sbatch("two", "-N2", "--cores-per-socket=2")
    t.never_started("two", 2)
    t.forget("core")


@case("layout", kind="smt")
def mem_per_cpu_odd(t):
    """--mem-per-cpu with an odd number of CPUs is charged for whole cores"""
    t.sbatch("three", "-N1", "-n3", "--mem-per-cpu=1900")
    t.ended("three")
    hold(t, "one", "--array=0-2", "-n1", "--mem-per-cpu=2500")
    waits(t, "next", "-N1", "-n3", "--mem-per-cpu=1500")
    t.sbatch("small", "-n1", "--mem-per-cpu=1500", "-t1")
    t.ended("small")
    t.forget("one")


@case("layout", kind="smt")
def mem_per_cpu_threads(t):
    """--mem-per-cpu together with --threads-per-core=1"""
    t.sbatch("four", "-N1", "-n4", "--threads-per-core=1", "--mem-per-cpu=1900")
    t.ended("four")
    hold(t, "two", "-N3", "--ntasks-per-node=2", "--threads-per-core=1", "--mem-per-cpu=2500")
    waits(t, "next", "-n2", "-N1", "--threads-per-core=1", "--mem-per-cpu=2000")
    t.forget("two")


@case("layout", kind="smt")
def odd_cpus(t):
    """Jobs of three CPUs take two cores each"""
    hold(t, "three", "--array=0-5", "-n1", "-c3")
    waits(t, "more", "-n1")
    t.forget("three")


@case("layout", kind="smt")
def core_spec_busy(t):
    """--core-spec waits for whole nodes, and leaves their cores to the system"""
    hold(t, "busy", "-N2", "-n2", "-c2")
    t.sbatch("one", "-N1", "--core-spec=2", "-t1")
    t.ended("one")
    waits(t, "two", "-N2", "--core-spec=1")
    t.forget("busy")


@case("layout", kind="smt")
def thread_spec_counts(t):
    """--thread-spec with tasks: what is left, and one too many"""
    t.sbatch("three", "-N1", "-n5", "--thread-spec=3")
    t.sbatch("two", "-N2", "-n12", "--thread-spec=2")
    t.ended()
    t.refused("all", "-N1", "-n8", "--thread-spec=2")


@case("layout", kind="smt")
def exclusive_layout(t):
    """--exclusive with --hint=nomultithread, --ntasks-per-socket, --threads-per-core"""
    t.sbatch("hint", "-N2", "--exclusive", "--hint=nomultithread")
    t.sbatch("threads", "-N1", "--exclusive", "-n4", "--threads-per-core=1")
    t.ended()
    hold(t, "busy", "-N1", "-n1")
    waits(t, "socket", "-N3", "--exclusive", "--ntasks-per-socket=1")
    t.forget("busy")


@case("layout", kind="smt")
def overcommit_layout(t):
    """-O with --ntasks-per-core and --ntasks-per-socket"""
    t.sbatch("core", "-N1", "-n12", "-O", "--ntasks-per-core=1")
    t.sbatch("socket", "-N2", "-n20", "-O", "--ntasks-per-socket=2")
    t.ended()


@case("layout", kind="smt")
def mincpus_layout(t):
    """--mincpus with one thread per core, beside busy cores"""
    hold(t, "busy", "-N3", "-n3", "-c4")
    t.sbatch("two", "-N2", "--mincpus=4", "-t1")
    t.ended("two")
    waits(t, "six", "-N1", "--mincpus=6")
    t.forget("busy")


@case("layout", kind="smt")
def het_layout(t):
    """Components of a het job with different layouts"""
    t.sbatch("both", "-n2", "--hint=nomultithread", ":", "-n4", "--ntasks-per-socket=1",
             script=shell("exit 0"))
    t.ended("both")
    t.sbatch("wide", "-N1", "-n4", "--threads-per-core=1", ":", "-N2", "-n8")
    t.ended("wide")


@case("layout", kind="smt")
def srun_layout(t):
    """srun with --hint, --ntasks-per-core and --distribution"""
    t.srun("hint", "-n4", "-N1", "--hint=nomultithread", "bash", "-c", "echo task")
    t.srun("core", "-n6", "--ntasks-per-core=1", "bash", "-c", "echo task")
    t.srun("cyclic", "-N2", "-n4", "-m", "cyclic:block", "bash", "-c", "echo task")


@case("layout", kind="smt")
def reservation_cores_threads(t):
    """A reservation of some cores; jobs with layouts inside and outside of it"""
    name = f"{t.room.name}cores"
    t.scontrol("create", "reservation", f"ReservationName={name}", "StartTime=now", "Duration=60",
               "Users=root", f"PartitionName={t.part}", f"Nodes={t.nodes[0]},{t.nodes[1]}",
               "CoreCnt=4" if t.since(24, 11) else "CoreCnt=2,2")
    t.undo("scontrol", "delete", f"ReservationName={name}")
    hold(t, "inside", "-n4", "--hint=nomultithread", f"--reservation={name}")
    t.sbatch("more", "-n1", f"--reservation={name}")
    t.never_started("more", 2)
    hold(t, "outside", "-n8", "--threads-per-core=1")
    waits(t, "waits", "-n1")
    t.forget("inside", "outside")


@case("layout", kind="gpu")
def gpus_per_socket_busy(t):
    """--gpus-per-socket where GPUs or cores of some nodes are taken"""
    hold(t, "gpus", "-N2", "--gres=gpu:3")
    t.sbatch("two", "-N2", "-n4", "--sockets-per-node=2", "--gpus-per-socket=1", "-t1")
    t.ended("two")
    t.sbatch("four", "-N3", "-n6", "--sockets-per-node=2", "--gpus-per-socket=2")
    t.never_started("four", 2)
    t.forget("gpus")


@case("layout", kind="gpu")
def enforce_binding_typed(t):
    """--gres-flags=enforce-binding with typed GPUs on partly busy nodes"""
    hold(t, "busy", "-N4", "-n4", "-c2", "--gres=gpu:a100:1", "--gres-flags=enforce-binding")
    t.sbatch("same", "-N4", "-n4", "--gres=gpu:a100:1", "--gres-flags=enforce-binding", "-t1")
    t.ended("same")
    t.sbatch("other", "-N2", "-n2", "--gres=gpu:v100:2", "--gres-flags=enforce-binding", "-t1")
    t.ended("other")
    waits(t, "late", "-N1", "--gres=gpu:a100:2", "--gres-flags=enforce-binding")
    t.forget("busy")


@case("layout", kind="gpu")
def mem_per_gpu_busy(t):
    """--mem-per-gpu chooses nodes by the memory that is left"""
    hold(t, "memory", "-N3", "-n3", "--mem=25000")
    t.sbatch("big", "-N1", "--gpus-per-node=4", "--mem-per-gpu=7000", "-t1")
    t.ended("big")
    waits(t, "two", "-N2", "--gpus-per-node=2", "--mem-per-gpu=7000")
    t.forget("memory")


@case("layout", kind="gpu")
def exclusive_with_gres(t):
    """--exclusive with a typed GPU beside nodes whose GPUs, but not CPUs, are busy"""
    hold(t, "busy", "-N2", "-n2", "--gres=gpu:v100:1")
    t.sbatch("pair", "-N2", "--exclusive", "--gres=gpu:a100:2", "-t1")
    t.ended("pair")
    waits(t, "three", "-N3", "--exclusive", "--gres=gpu:a100:1")
    t.forget("busy")


@case("layout", kind="gpu")
def typed_gpu_waits(t):
    """A job for one type of GPU waits although GPUs of the other are free"""
    hold(t, "a100", "-N4", "-n4", "--gres=gpu:a100:2")
    waits(t, "more", "-N1", "--gres=gpu:a100:1")
    t.sbatch("v100", "-N4", "--gres=gpu:v100:2", "-t1")
    t.sbatch("total", "--gpus=v100:3", "-n3", "-t1")
    t.ended("v100", "total")
    t.forget("a100")


@case("layout", kind="gpu")
def gpu_sockets(t):
    """GPUs with --ntasks-per-socket, --cores-per-socket and --gpu-bind"""
    t.sbatch("socket", "-N2", "-n4", "--ntasks-per-socket=1", "--gres=gpu:2")
    t.sbatch("cores", "-N1", "--cores-per-socket=4", "--gpus-per-node=1")
    t.sbatch("bind", "-N1", "-n4", "--gpus=4", "--gpu-bind=closest")
    t.ended()
    hold(t, "busy", "-N4", "-n4", "-c5")
    t.sbatch("rest", "-N2", "-n2", "--ntasks-per-socket=1", "--gres=gpu:1", "-t1")
    t.ended("rest")
    t.forget("busy")


@case("layout", kind="shard")
def shards(t):
    """Shards of GPUs beside whole GPUs"""
    hold(t, "half", "-N1", "-n1", "--gres=shard:4")
    t.sbatch("gpu", "-N2", "-n2", "--gres=gpu:2", "-t1")
    t.sbatch("more", "-N1", "-n1", "--gres=shard:4", "-t1")
    t.ended("gpu", "more")
    t.forget("half")


@case("layout", kind="shard")
def shard_fill(t):
    """Jobs of three of eight shards: two for each node, the seventh waits"""
    hold(t, "three", "--array=0-5", "-n1", "--gres=shard:3")
    waits(t, "next", "-n1", "--gres=shard:3")
    t.forget("three")


@case("layout", kind="mps")
def mps_share(t):
    """Percents of GPUs, which one job of a node may have of one GPU"""
    hold(t, "half", "-N1", "-n1", "--gres=mps:50")
    t.sbatch("more", "-N2", "-n2", "--gres=mps:50", "-t1")
    t.sbatch("gpu", "-N2", "-n2", "--gres=gpu:1", "-t1")
    t.ended("more", "gpu")
    t.forget("half")
