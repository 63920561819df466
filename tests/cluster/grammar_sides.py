# SPDX-License-Identifier: GPL-3.0-or-later
"""Two slurmctlds that are put into the same state and asked the same."""

import contextlib
import os
import re
import select
import subprocess
import time
from dataclasses import replace

from grammar_config import QOS
from grammar_requests import ASLEEP, ENDING, State
from slurmcluster import Cluster, ClusterError, dbd
from slurmcluster.conf import PATIENT, write_config
from slurmcluster.nodes import expand_hostlist
from slurmcluster.pair import boot
from slurmcluster.phalanx import read_status
from slurmcluster.procs import MARKER
from slurmcluster.suite import until

ANSWER_S = 60.0
POWER_S = 30.0
SEPARATOR = "\x1f"
PROGRAMS = ("sbatch", "scontrol", "scancel", "squeue")
UNDO = {"DRAIN": "UNDRAIN", "DOWN": "RESUME"}
ENDS = ("-N1", "-n1", "--mem=1", "-Jends")
EPILOG = "#!/bin/sh\nwhile [ -e {}/$SLURMD_NODENAME ]; do sleep 0.05; done\n"
WRAP = ("--parsable", "-o/dev/null", "--wrap=true")
EVEN_S = 5.0
FAILED = 5              # JOB_FAILED
SEEN = re.compile(r"\b(?:NodeName|CPUAlloc|AllocMem|State|AllocTRES)=\S*")
KEPT = re.compile(r"\bNodeName=(\S+).* AllocTRES=(\S+)")
OWNED = re.compile(r"\bOwner=\S+\(")


class Uneven(Exception):
    """Both sides were put into the same state and are not in it."""


class Room(Cluster):
    """A cluster whose nodes are at a port of loopback where nobody listens.

    Slurmctld tells nodes of ended jobs: a name that cannot be resolved costs it seconds.
    """

    def _write_files(self):
        super()._write_files()
        with open(self.paths.slurm_conf, encoding="utf-8") as file:
            lines = file.read().splitlines()
        for index, line in enumerate(lines):
            if line.startswith("NodeName=") and "NodeAddr=" not in line:
                lines[index] += f" NodeAddr=127.0.0.1 Port={index + 1}"
        with open(self.paths.slurm_conf, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


class Served:
    """A command of Slurm that stays, so that a call of it costs a fork (served.c)."""

    def __init__(self, cluster, library, program):
        self.program = program
        # Ended by close().
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(
            [program], env=cluster.env | {"LD_PRELOAD": library, MARKER: cluster.id,
                                          "SERVED": program},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def send(self, words, keep=True):
        """Begins a call."""
        line = SEPARATOR.join(["k" if keep else "e", *words]) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()

    def receive(self):
        """(exit status, what it printed) of the call. Raises ClusterError if none comes."""
        if not select.select([self.process.stdout], [], [], ANSWER_S)[0]:
            self.process.kill()
            raise ClusterError(f"{self.program}: no answer within {ANSWER_S:.0f} s")
        head = self.process.stdout.readline().split()
        if len(head) != 2:
            raise ClusterError(f"{self.program} has ended")
        return int(head[0]), self.process.stdout.read(int(head[1])).decode(errors="replace")

    def close(self):
        """Ends it."""
        self.process.terminate()
        self.process.wait(ANSWER_S)
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.stdout.close()


class Pair:
    """Both sides of one configuration.

    second   what is held against stock: `ours`, or another name for stock again
    toml     the daemon's configuration
    extra    lines of slurm.conf and `more` words of each request that only the second side has,
             so that it is not equal: sabotage
    """

    def __init__(self, root, library, config, second="ours", toml=PATIENT, extra=(), more=()):
        self.config, self.more, self.state, self.number = config, tuple(more), None, 0
        self.doing, self.spent, self.failed = "boot", False, False
        files = {"topology.conf": config.switch_conf()} if config.switches else {}
        toml = write_config(os.path.join(root, "ours"), toml)
        self.held = os.path.join(root, "held")
        common = [*config.settings(), *self.epilog(root, config)]
        self.clusters = [
            Room(os.path.join(root, name), stock=name != "ours", nodes=config.nodes_text(),
                 extra=[*common, *more_lines], files=files, slurmdbd=config.qos,
                 config=toml if name == "ours" else None)
            for name, more_lines in (("stock", ()), (second, extra))]
        self.served = {}
        boot(self.clusters)
        for cluster in self.clusters if config.qos else ():
            for name, limits in QOS.items():
                dbd.sacctmgr(cluster, "add", "qos", name, *limits.split())
            dbd.sacctmgr(cluster, "modify", "account", dbd.ACCOUNT, "set",
                         "qos=" + ",".join(("normal", *dbd.QOS, *QOS)))
        self.served = {program: [Served(cluster, library, program) for cluster in self.clusters]
                       for program in PROGRAMS}
        self.asleep = set()
        if config.cloud:
            self.power("POWER_UP", config.names)
        if second == "ours":
            until(lambda: read_status(self.clusters[1])["raw"]["plugin"].get("synced"),
                  "the daemon knows the cluster")

    def epilog(self, root, config):
        """Lines of slurm.conf: an Epilog that ends when a node's name is no longer in `held`."""
        if not config.epilog:
            return []
        os.makedirs(self.held)
        path = os.path.join(root, "epilog")
        with open(path, "w", encoding="utf-8",
                  opener=lambda name, flags: os.open(name, flags, 0o755)) as file:
            file.write(EPILOG.format(self.held))
        return [f"Epilog={path}"]

    def close(self):
        """Ends both."""
        for sides in self.served.values():
            for one in sides:
                one.close()
        for cluster in self.clusters:
            # In order it would wait for what it tells nodes that are not there.
            if cluster.alive("slurmctld"):
                cluster.stop_slurmctld(kill=True)
            cluster.down(quick=True)

    def both(self, program, *words, keep=True, more=()):
        """The answers of both sides to a command."""
        for index, one in enumerate(self.served[program]):
            one.send((*words, *(more if index else ())), keep)
        return [one.receive() for one in self.served[program]]

    def ask(self, words, test=False):
        """What both sides say to a request, whose job ends at once; `test`: to --test-only."""
        answers = self.both("sbatch", *(("--test-only",) if test else ()), *words, *WRAP,
                            keep=False, more=self.more)
        self.failed |= any(failed(text) for _, text in answers)
        self.spent |= self.failed
        if self.asleep and not test:
            woken = {node for _, text in answers for node in nodes_of(text)} & self.asleep
            if woken:
                self.power("POWER_DOWN_FORCE", woken)
        return answers

    def apply(self, state):
        """Puts both sides into a state; the index of a job of it whose outcomes differ, or None.

        `self.state` is it then, without the jobs that have not started: those are not kept.
        """
        if state == self.state:
            return None
        before, self.state = self.state, None
        if before:
            self.undo(before)
            self.even()
        self.state, runs = State(), []
        for index, words in enumerate(state.jobs):
            answers = self.both("sbatch", *words, *WRAP)
            if unlike(answers):
                self.state = replace(self.state, jobs=state.jobs[:index + 1])
                return index
            runs += [words] if nodes_of(answers[0][1]) else []
        self.state = replace(state, jobs=tuple(runs))
        for node, mark in state.marks:
            if mark == ASLEEP:
                self.power(mark, {node})
            elif mark == ENDING:
                with open(os.path.join(self.held, node), "wb"):
                    self.both("sbatch", f"-w{node}", *ENDS, *WRAP)
            else:
                self.both("scontrol", "update", f"nodename={node}", f"state={mark}", "reason=x")
        if ENDING in dict(state.marks).values():
            self.both("scancel", "--name=ends")
        for name, nodes, words in state.kept:
            self.even()
            answers = self.both("scontrol", "create", "reservation", f"reservationname={name}",
                                f"nodes={nodes}", *words)
            if unlike(answers):
                raise ClusterError(f"reservation {nodes}: {answers}")
        self.even()
        return None

    def even(self):
        """Waits until nodes and jobs are the same on both sides. Raises Uneven if they stay so."""
        end = time.monotonic() + EVEN_S
        while True:
            first, second = self.view()
            if first == second:
                return
            if time.monotonic() > end:
                raise Uneven("; ".join(f"stock {one}, ours {other}" for one, other
                                       in zip(first, second) if one != other))
            time.sleep(0.1)

    def view(self):
        """Lines of both sides: states of nodes and what is in use of them, jobs and where."""
        nodes = self.both("scontrol", "-o", "show", "node")
        jobs = self.both("squeue", "-h", "-o", "%T %N %C %m")
        return [[" ".join(SEEN.findall(line)) for line in text.splitlines() if line]
                + sorted(listed.splitlines()) for (_, text), (_, listed) in zip(nodes, jobs)]

    def undo(self, state):
        """Takes a state back."""
        for name, _, _ in state.kept:
            self.both("scontrol", "delete", f"reservationname={name}")
        ending = {node for node, mark in state.marks if mark == ENDING}
        for node in ending:
            os.unlink(os.path.join(self.held, node))
        if state.jobs or ending:
            self.both("scancel", "--user=root")
            end = time.monotonic() + POWER_S
            while any(text.strip() for _, text in self.both("squeue", "-h", "-o", "%i")):
                if time.monotonic() > end:
                    raise ClusterError("the jobs of a state do not end")
            self.leaks()
        for node, mark in state.marks:
            if mark == ASLEEP:
                self.power("POWER_UP", {node})
            elif mark != ENDING:
                self.both("scontrol", "update", f"nodename={node}", f"state={UNDO[mark]}")

    def leaks(self):
        """Looks what Slurm keeps of jobs that are gone, which ends the cluster.

        Raises ClusterError if stock keeps nothing.
        """
        kept = [KEPT.findall(text) for _, text in self.both("scontrol", "-o", "show", "node")]
        if kept[1] and not kept[0]:
            raise ClusterError(f"in use without a job, not with stock: {kept[1]}")
        self.failed |= bool(kept[0])
        self.spent |= self.failed

    def keeps(self):
        """Whether stock gave a job more GRES of a node than it has, or keeps a node for a user, or
        GRES, of which it tells nothing: it does not give all of an idle node's, which a side does.
        """
        if OWNED.search(self.both("scontrol", "-o", "show", "node")[0][1]):
            return True
        self.apply(State())
        given = []
        for node in self.config.names:
            gres = [one.replace("no_consume:", "") for one in self.config.kind(node).gres
                    if not one.startswith(("shard", "mps"))]
            if gres:
                answers = self.both("sbatch", f"-w{node}", "-N1", f"--gres={','.join(gres)}", *WRAP,
                                    keep=False)
                given.append([bool(nodes_of(text)) for _, text in answers])
        if any(map(any, given)) and not all(stock for stock, _ in given):
            return True
        log = os.path.join(self.clusters[0].paths.log, "slurmctld.log")
        with open(log, encoding="utf-8", errors="replace") as file:
            return "overallocated" in file.read()

    def power(self, how, nodes):
        """Powers nodes up or down and waits until both sides have done so."""
        # A job that boots it would end with the node: those go first.
        listed = ",".join(sorted(nodes))
        self.both("scontrol", "update", f"nodename={listed}", f"state={how}")
        down, end = how != "POWER_UP", time.monotonic() + POWER_S
        while True:
            texts = self.both("scontrol", "-o", "show", "node", listed)
            states = [line.split(" State=")[1].split()[0] for _, text in texts
                      for line in text.splitlines() if " State=" in line]
            if all(settled(state, down) for state in states):
                break
            if time.monotonic() > end:
                raise ClusterError(f"{how} {listed}: {states}")
            time.sleep(0.1)
        self.asleep = self.asleep | set(nodes) if down else self.asleep - set(nodes)


def settled(state, down):
    """Whether a node's state is that after a power command."""
    flags = set(state.split("+"))
    if down:
        return "POWERED_DOWN" in flags and not flags & {"POWERING_DOWN", "POWER_DOWN"}
    return not flags & {"POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWER_UP"}


def failed(text):
    """Whether a job has failed: Slurm 22.05 then keeps something of it until it counts anew."""
    return any(int(line.split("|")[1]) & 0xff == FAILED for line in text.splitlines()
               if line.startswith("=JOB") and "|" in line)


def nodes_of(text):
    """The nodes in an answer of served.c."""
    return [node for line in text.splitlines() if line.startswith("=JOB") and "|" in line
            for node in expand_hostlist(line.split("|")[2])]


def plain(text):
    """An answer without the numbers of jobs."""
    text = re.sub(r"^=JOB \d+", "=JOB", text, flags=re.MULTILINE)
    return re.sub(r"\b[Jj]ob \d+", "job", re.sub(r"^\d+$", "", text, flags=re.MULTILINE))


def unlike(answers):
    """Whether the answers of both sides differ."""
    return len({(status, plain(text)) for status, text in answers}) > 1
