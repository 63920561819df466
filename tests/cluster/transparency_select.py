# SPDX-License-Identifier: GPL-3.0-or-later
"""Transparency cases: named nodes, features, generic resources."""

from transparency_bench import SLEEP, shell
from transparency_cases import case

# Features of the nodes of a flat room, by number.
FEATURE = {1: "a", 2: "a", 3: "b", 4: "b"}


def features(t, label):
    """The features of the nodes a running or ended job got, sorted."""
    return "".join(sorted(FEATURE[number] for number in t.hosts(t.record(label))))


@case()
def nodelist_full(t):
    """-w with all the nodes of the job"""
    t.sbatch("pair", "-N2", "-n8", "-w", f"{t.nodes[1]},{t.nodes[3]}", run=SLEEP)
    t.wait("pair", "RUNNING")
    t.note("pair on", t.hosts(t.record("pair")))
    t.sbatch("same", "-w", t.nodes[1], "-n4")
    t.wait("same", "PENDING", reason="Resources")
    t.sbatch("elsewhere", "-w", t.nodes[0], "-n4", "-t1")
    t.ended("elsewhere")
    t.cancel("pair")


@case()
def nodelist_partial(t):
    """-w with some of the nodes, Slurm chooses the others"""
    t.sbatch("pair", "-N2", "-w", t.nodes[2], run="exec sleep 1")
    t.sbatch("three", "-N3", "-n3", "-w", f"{t.nodes[0]},{t.nodes[3]}", run="exec sleep 1")
    t.ended()
    t.note("pair has n3", 3 in t.hosts(t.record("pair")))
    t.note("three has n1, n4", {1, 4} <= set(t.hosts(t.record("three"))))
    t.sbatch("tasks", "-n6", "-w", t.nodes[1])
    t.ended()
    t.note("tasks has n2", 2 in t.hosts(t.record("tasks")))


@case()
def nodelist_busy(t):
    """-w of a busy node waits although others are free"""
    t.block("blocker", "-w", t.nodes[2], "--exclusive")
    t.sbatch("wants", "-N1", "-w", t.nodes[2])
    t.wait("wants", "PENDING", reason="Resources")
    t.sbatch("part", "-N2", "-w", t.nodes[2])
    t.never_started("part", 3)
    t.cancel("blocker")


@case()
def exclude(t):
    """-x keeps nodes out"""
    t.sbatch("pair", "-N2", "-x", f"{t.nodes[0]},{t.nodes[2]}", run="exec sleep 1")
    t.ended()
    t.note("pair on", t.hosts(t.record("pair")))
    t.refused("three", "-N3", "-x", f"{t.nodes[0]},{t.nodes[2]}")
    t.sbatch("both", "-N1", "-w", t.nodes[1], "-x", t.nodes[0])
    t.refused("clash", "-N1", "-w", t.nodes[1], "-x", t.nodes[1])


@case()
def constraint_and_or(t):
    """-C with & and |"""
    t.sbatch("and", "-N2", "-C", "a&x")
    t.sbatch("or", "-N4", "-C", "a|b")
    t.sbatch("plain", "-N2", "-C", "b")
    t.ended()
    for label in ("and", "or", "plain"):
        t.note(f"{label} features", features(t, label))


@case()
def constraint_xor(t):
    """-C [a|b]: all nodes of one feature; waits when neither group is free"""
    t.sbatch("pair", "-N2", "-C", "[a|b]")
    t.ended("pair")
    t.note("pair uniform", len(set(features(t, "pair"))) == 1)
    t.block("blocker", "-N1", "-w", t.nodes[0], "--exclusive")
    t.sbatch("other", "-N2", "-t1", "-C", "[a|b]")
    t.ended("other")
    t.note("other features", features(t, "other"))
    t.block("blocker2", "-N1", "-w", t.nodes[3], "--exclusive")
    t.sbatch("waits", "-N2", "-C", "[a|b]")
    t.never_started("waits", 3)
    t.cancel("blocker")
    t.ended("waits")
    t.note("waits features", features(t, "waits"))
    t.cancel("blocker2")


@case()
def constraint_counts(t):
    """-C [a*2&b*1] and [a*1&b*2]"""
    t.sbatch("aab", "-N3", "-C", "[a*2&b*1]")
    t.ended("aab")
    t.note("aab features", features(t, "aab"))
    if not t.since(24, 11):  # which leaves the job pending for ever
        t.sbatch("abb", "-N3", "-n6", "-C", "[a*1&b*2]")
        t.ended("abb")
        t.note("abb features", features(t, "abb"))
    t.sbatch("more", "-N4", "-C", "[a*1&b*1]")
    t.refused("never", "-N3", "-C", "[a*3&b*1]")


@case()
def constraint_mixed(t):
    """-C x&[a|b]-like combinations and repeated features"""
    t.sbatch("xab", "-N2", "-C", "x&(a|b)")
    t.sbatch("bang", "-N1", "-C", "a&a")
    t.ended()
    t.refused("paren", "-N1", "-C", "(a|b")
    t.refused("none", "-N1", "-C", "a&g")


@case()
def prefer(t):
    """--prefer is followed when it can be, and dropped when not"""
    t.sbatch("liked", "-N2", "--prefer=b", run=SLEEP)
    t.wait("liked", "RUNNING")
    t.note("liked features", features(t, "liked"))
    t.sbatch("second", "-N2", "-c4", "--prefer=b", run=SLEEP)
    t.wait("second", "RUNNING")
    t.note("second features", features(t, "second"))
    t.sbatch("unknown", "-N1", "--prefer=nosuch")
    t.cancel("liked", "second")


@case(kind="gpu")
def gres_typed(t):
    """--gres=gpu:TYPE:N"""
    t.sbatch("a100", "-N2", "--gres=gpu:a100:2", run=SLEEP)
    t.wait("a100", "RUNNING")
    t.sbatch("more", "-N2", "--gres=gpu:a100:1", run=SLEEP)
    t.wait("more", "RUNNING")
    t.sbatch("three", "-N3", "--gres=gpu:a100:1")
    t.wait("three", "PENDING", reason="Resources")
    t.sbatch("v100", "-N4", "-t1", "--gres=gpu:v100:2")
    t.ended("v100")
    t.refused("never", "-N1", "--gres=gpu:a100:3")
    t.refused("type", "-N1", "--gres=gpu:h100:1")
    t.cancel("a100", "more")
    t.ended("three")


@case(kind="gpu")
def gres_untyped(t):
    """--gres=gpu:N of any type"""
    t.sbatch("three", "-N2", "--gres=gpu:3", run=SLEEP)
    t.wait("three", "RUNNING")
    t.sbatch("four", "-N2", "--gres=gpu:4", run=SLEEP)
    t.wait("four", "RUNNING")
    t.sbatch("two", "-N1", "--gres=gpu:2")
    t.wait("two", "PENDING", reason="Resources")
    t.sbatch("one", "-N2", "-t1", "--gres=gpu:1")
    t.refused("five", "-N1", "--gres=gpu:5")
    t.cancel("three", "four")


@case(kind="gpu")
def gres_kinds(t):
    """Several kinds of generic resources at once"""
    t.sbatch("both", "-N2", "--gres=gpu:a100:1,nic:3", run=SLEEP)
    t.wait("both", "RUNNING")
    t.sbatch("nics", "-N3", "--gres=nic:2")
    t.wait("nics", "PENDING", reason="Resources")
    t.sbatch("types", "-N1", "-t1", "--gres=gpu:a100:1,gpu:v100:2,nic:1")
    t.ended("types")
    t.cancel("both")
    t.ended("nics")


@case(kind="gpu")
def gpus_per_job(t):
    """--gpus over as many nodes as needed"""
    t.sbatch("three", "--gpus=3", "-n3")
    t.ended("three")
    t.sbatch("six", "--gpus=6", "-N2", "-n6")
    t.ended("six")
    t.sbatch("typed", "--gpus=a100:2,v100:1", "-N1", "-n3")
    t.ended("typed")
    t.sbatch("all", "--gpus=16", "-N4", "-n16")
    t.refused("never", "--gpus=17", "-N4")


@case(kind="gpu")
def gpus_per_node(t):
    """--gpus-per-node, and waiting while they are taken"""
    t.sbatch("two", "-N4", "--gpus-per-node=2", run=SLEEP)
    t.wait("two", "RUNNING")
    t.sbatch("three", "-N1", "--gpus-per-node=3")
    t.wait("three", "PENDING", reason="Resources")
    t.sbatch("pair", "-N2", "-t1", "--gpus-per-node=v100:2")
    t.ended("pair")
    t.cancel("two")
    t.ended("three")


@case(kind="gpu")
def gpus_per_task(t):
    """--gpus-per-task with -n and -c"""
    t.sbatch("one", "-n4", "--gpus-per-task=1")
    t.ended("one")
    t.sbatch("two", "-N2", "-n4", "-c2", "--gpus-per-task=2")
    t.ended("two")
    t.sbatch("typed", "-n2", "--gpus-per-task=a100:1")
    t.refused("five", "-n1", "--gpus-per-task=5")


@case(kind="gpu")
def gpus_per_socket(t):
    """--gpus-per-socket with --sockets-per-node"""
    t.sbatch("one", "-N1", "-n2", "--sockets-per-node=2", "--gpus-per-socket=1")
    t.sbatch("two", "-N2", "-n4", "--sockets-per-node=1", "--gpus-per-socket=2")
    t.ended()
    t.refused("alone", "-N1", "--gpus-per-socket=1")


@case(kind="gpu")
def per_gpu_requests(t):
    """--cpus-per-gpu, --mem-per-gpu, --ntasks-per-gpu"""
    t.sbatch("cpus", "-N1", "--gpus-per-node=2", "--cpus-per-gpu=3")
    t.sbatch("memory", "-N2", "--gpus-per-node=2", "--mem-per-gpu=4000")
    t.ended()
    t.sbatch("tasks", "--gpus=4", "--ntasks-per-gpu=1")
    t.ended()
    t.sbatch("both", "-N1", "--gpus=2", "--cpus-per-gpu=2", "--mem-per-gpu=6000")
    t.refused("never", "-N1", "--gpus-per-node=4", "--cpus-per-gpu=3")


@case(kind="gpu")
def gpu_exhaustion(t):
    """One-GPU jobs take every GPU; a CPU job still runs beside them"""
    t.sbatch("ones", "--array=0-15", "-n1", "--gres=gpu:1", run=SLEEP)
    t.wait("ones", "RUNNING")
    t.sbatch("next", "-n1", "--gres=gpu:1")
    t.wait("next", "PENDING", reason="Resources")
    t.sbatch("cpu", "-n4", "-t1")
    t.ended("cpu")
    t.cancel("ones")
    t.ended("next")


@case(kind="gpu")
def gpu_binding(t):
    """--gres-flags and --gpu-bind; what the job sees of its GPUs"""
    t.sbatch("bound", "-N1", "-n2", "--gres=gpu:2", "--gres-flags=enforce-binding",
             script=shell("echo gpus $SLURM_GPUS_ON_NODE of $SLURM_JOB_NUM_NODES nodes",
                          "echo visible $CUDA_VISIBLE_DEVICES | tr 0-9 n"))
    t.sbatch("free", "-N1", "--gpus=4", "--gres-flags=disable-binding")
    t.ended()
    t.note("bound sees", t.output("bound").splitlines())
    t.srun("srun", "-n2", "--gpus-per-task=1", "--gpu-bind=single:1", "bash", "-c",
           "echo gpus $CUDA_VISIBLE_DEVICES | tr 0-9 n")


@case(kind="gpu")
def gpu_exclusive(t):
    """--exclusive with GPUs: the whole node's CPUs, the GPUs asked for"""
    t.sbatch("whole", "-N2", "--exclusive", "--gres=gpu:1", run=SLEEP)
    t.wait("whole", "RUNNING")
    t.sbatch("beside", "-N3", "--gres=gpu:1")
    t.wait("beside", "PENDING", reason="Resources")
    t.sbatch("fits", "-N2", "-n8", "--gres=gpu:2")
    t.cancel("whole")
