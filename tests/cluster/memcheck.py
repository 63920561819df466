#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""slurmctld under valgrind's memcheck with the overlay, beside stock with the same list of jobs.

Both take `--jobs` jobs of all kinds, cancels, `--test-only` and `--hold`, reconfigures, and ours
restarts of phalanxd and stops of it. An error or a leak with a frame of the overlay fails unless
stock has the same without that frame: much of stock is called through the overlay. So does more
that is definitely or indirectly lost than with stock. Needs valgrind.

With `--sabotage` the overlay under test is wrong on purpose (plugin/tests/sabotage.c), and what it
does has to be found.
"""

import argparse
import collections
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

from slurmcluster import Cluster, ClusterError
from slurmcluster.conf import write_config
from slurmcluster.phalanx import phalanx_json
from slurmcluster.suite import until

TOML = """mode = "enforce"
[link]
deadline_us = 20000
proofs = "all"
[expert]
breaker = false
[order]
by = "learned"
short_s = 604800
[source]
poll_ms = 500
"""
EXTRA = ["MinJobAge=30", "MessageTimeout=90", "SchedulerParameters=bf_interval=5,bf_continue,"
                         "sched_interval=2,batch_sched_delay=1,default_queue_depth=100"]
START_S, END_S, DONE_S = 120, 120, 600
# Bytes of leaks that a run of the same list differs by on one side alone.
LOST_MORE = 2048
SABOTAGE = ("InvalidRead", "Leak_DefinitelyLost")
KINDS = (["-n1"], ["-n1"], ["-n1", "--array=1-3"], ["-N2", "-n2"], ["-N1", "--exclusive"], ["-n5"],
         ["-n1", "--gres=gpu:1", "-p", "gpu"], ["-N2", "--gres=gpu:2", "-p", "gpu"],
         ["-n1", "--mem=20000"], ["-n1", "--test-only"], ["-N2", "--test-only"],
         ["-n1", "--hold"], ["-n2", "--exclusive=user"], ["-n1", "--comment=x;class=a;work=2"],
         ["-N1-3", "-n3"], ["-n2", ":", "-n1"], ["-n3", "--spread-job"], ["-n1", "--time-min=1"],
         ["-n1", "--begin=now+1hour"], ["-N3", "--contiguous"])


class Checked(Cluster):
    """A cluster whose slurmctld runs under valgrind."""

    def start_slurmctld(self, timeout=START_S, clean=False):
        """The same, in more time."""
        super().start_slurmctld(START_S, clean)

    def spawn(self, role, argv, variables=None):
        """The same, under valgrind."""
        if role == "slurmctld":
            program = shutil.which(argv[0], path=self.env["PATH"] + ":/usr/sbin:/sbin")
            argv = ["valgrind", "--xml=yes", f"--xml-file={self.paths.root}.%p.xml",
                    "--leak-check=full", "--show-leak-kinds=definite,indirect",
                    "--errors-for-leak-kinds=definite,indirect", "--num-callers=30",
                    "--keep-debuginfo=yes", "--child-silent-after-fork=yes", program, *argv[1:]]
        return super().spawn(role, argv, variables)

    def _stop(self, role, kill, grace_s):
        super()._stop(role, kill, END_S if role == "slurmctld" else grace_s)


def submit(cluster, rng, count):
    """So many submissions of all kinds; held jobs and late ones are cancelled, and some others."""
    for _ in range(count):
        words, seconds = rng.choice(KINDS), rng.choice((0, 0, 0.5, 2))
        done = cluster.run("sbatch", "--parsable", "-o", "/dev/null", f"-t{rng.choice((1, 5, 60))}",
                           *words, "--wrap", f"exec sleep {seconds}", check=False, timeout=120)
        job = done.stdout.strip().split(";")[0]
        late = "--hold" in words or "--begin=now+1hour" in words
        if job and (late or rng.random() < 0.1):
            cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=7", check=False,
                        timeout=120)
            cluster.run("scancel", job, check=False, timeout=120)


def work(cluster, args):
    """The list; the same on both sides."""
    rng = random.Random(args.seed)
    pieces = max(1, args.jobs // 25)
    for piece in range(pieces):
        submit(cluster, rng, args.jobs // pieces)
        if piece % 3 == 0:  # a launch that falls into slurmd's own reconfigure may get lost
            time.sleep(4)
            cluster.run("scontrol", "reconfigure", timeout=120)
            time.sleep(2)
        if piece % 3 == 1 and not cluster.stock:
            cluster.signal_phalanxd(signal.SIGKILL)
            time.sleep(2)
            cluster.start_phalanxd()
        if piece % 3 == 2 and not cluster.stock:
            cluster.signal_phalanxd(signal.SIGSTOP)
            time.sleep(2)
            cluster.signal_phalanxd(signal.SIGCONT)
        print(f"    {name_of(cluster)}: {(piece + 1) * (args.jobs // pieces)} submissions",
              flush=True)
    until(lambda: not cluster.run("squeue", "-h", "-o", "%i", timeout=120).stdout.split(),
          f"{name_of(cluster)}: no job left", DONE_S, every=1.0)


def name_of(cluster):
    """As which of the two it is reported."""
    return "stock" if cluster.stock else "phalanx"


def frames(error):
    """[(function, object)] of all stacks of an error."""
    return [(frame.findtext("fn") or "???", frame.findtext("obj") or "")
            for frame in error.iter("frame")]


def read(cluster):
    """What valgrind says of all runs of a slurmctld: [(kind, frames, bytes)]."""
    found = []
    directory, stem = os.path.split(cluster.paths.root)
    for name in sorted(os.listdir(directory)):
        if name.startswith(stem + ".") and name.endswith(".xml"):
            path = os.path.join(directory, name)
            try:
                tree = ElementTree.parse(path)
            except ElementTree.ParseError as error:
                raise ClusterError(f"{path}: valgrind did not end: {error}") from None
            for error in tree.getroot().iter("error"):
                lost = error.findtext("xwhat/leakedbytes") or "0"
                found.append((error.findtext("kind"), frames(error), int(lost)))
    return found


def signature(kind, stack, overlay):
    """An error without the overlay's frames."""
    return kind, tuple(fn for fn, obj in stack if not obj.startswith(overlay))


def judge(ours, stock, overlay):
    """What the overlay has to answer for."""
    known = {signature(kind, stack, overlay) for kind, stack, _ in stock}
    problems = []
    for kind, stack, lost in ours:
        mine = any(obj.startswith(overlay) for _, obj in stack)
        if mine and signature(kind, stack, overlay) not in known:
            problems.append(f"{kind}, {lost} bytes: {' < '.join(fn for fn, _ in stack[:14])}")
    lost = [sum(size for kind, _, size in each if kind.startswith("Leak_"))
            for each in (ours, stock)]
    for name, each, total in zip(("phalanx", "stock"), (ours, stock), lost):
        kinds = collections.Counter(kind for kind, _, _ in each)
        print(f"    {name}: {total} bytes definitely or indirectly lost; records {dict(kinds)}")
    if lost[0] > 1.1 * lost[1] + LOST_MORE:
        problems.append(f"{lost[0]} bytes lost, stock {lost[1]}")
    return problems


def side(root, args, stock):
    """One cluster through the list; what valgrind says."""
    place = os.path.join(root, "s" if stock else "c")
    with Checked(place, stock=stock, extra=EXTRA,
                 config=None if stock else write_config(place, TOML)) as cluster:
        work(cluster, args)
        if not stock:
            until(lambda: phalanx_json(cluster, "status")["plugin"]["asks"], "its counters", 60.0)
            plugin = phalanx_json(cluster, "status")["plugin"]
            print(f"    phalanx: {plugin['asks']} asks, {plugin['narrowed']} narrowed, "
                  f"{plugin['connects']} connects")
            if not plugin["narrowed"]:
                raise ClusterError("nothing was placed as decided")
        cluster.stop_slurmctld()
        overlay = cluster.paths.overlay
    return read(cluster), overlay


def main():
    """Both sides, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--jobs", type=int, default=500, help="submissions on each side")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sabotage", action="store_true", help="the overlay is wrong on purpose")
    parser.add_argument("--dir", help="where the files stay (default: nowhere)")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        parser.error("valgrind is not installed")
    with tempfile.TemporaryDirectory(prefix="phx-mem-") as new:
        root = args.dir or new
        os.makedirs(root, exist_ok=True)
        stock, _ = side(root, args, True)
        ours, overlay = side(root, args, False)
        problems = judge(ours, stock, overlay)
    for problem in problems:
        print(f"    {problem}")
    print(f"seed {args.seed}, {args.jobs} submissions: {len(problems)} problems")
    if args.sabotage:
        missed = [kind for kind in SABOTAGE if not any(
            problem.startswith(kind) and "__wrap_link_flags" in problem for problem in problems)]
        print(f"not found although it was there: {', '.join(missed) or 'nothing'}")
        return 1 if missed else 0
    return 1 if problems else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
