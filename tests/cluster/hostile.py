#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hostile daemon, well-formed in every packet, can do to slurmctld.

It sets itself no limits and asks to be readmitted in each WELCOME. One cluster of 8 nodes and 100
CLOUD nodes, for submissions are asked about from 64 candidates on; no job may be held there.
"""

import contextlib
import itertools
import os
import sys
import time

from faults_fake import (EJECTED, HELD, NO_FIT, P_NO_FIT, P_TEST_ONLY, P_WILL_RUN, RUN_NOW,
                         TEST_ONLY, WILL_RUN, FakeDaemon, Kind, answer, leave, right_nodes)
from faults_tools import site
from slurmcluster import Cluster
from slurmcluster.suite import Cases, Suite, command_line, run

NODES = ("NodeName=n[1-8] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=4000\n"
         "PartitionName=main Nodes=n[1-8] Default=NO MaxTime=INFINITE State=UP\n")
EXTRA = ["SchedulerParameters=phalanx_hold_max=0,bf_interval=2,bf_continue,sched_interval=2,"
         "bf_max_job_test=300,default_queue_depth=300"]
SLOW_US, SLOW_S, SHARE_MAX = 20_000, 60.0, 0.02    # deadline; length; of the time may be waited
FAR_S = 4_102_444_800   # the year 2100
case = Cases()


class Hostile(Suite):
    """A cluster without a true daemon."""

    enabled = itertools.count(1)

    @contextlib.contextmanager
    def daemon(self, reply, **limits):
        """A false daemon that is asked; the plugin is readmitted before."""
        site(self.cluster, f"phalanx_enable={next(self.enabled)}")
        kind = Kind("hostile", "", lambda _fake, ask: [reply(ask)], ())
        with FakeDaemon(self.cluster.paths.plugin_socket, kind, **limits) as fake:
            self.until(lambda: fake.hellos > 0, "the plugin connects")
            time.sleep(1.0)
            yield fake
            self.problems += [fake.error] if fake.error else []

    def submit(self, *options, command="true"):
        """The number of a job in `main`."""
        return self.cluster.run("sbatch", "--parsable", "-p", "main", "-o", "/dev/null", *options,
                                "--wrap", command).stdout.strip()

    def queue(self, *options):
        """What squeue prints of the jobs that wait or run."""
        return self.cluster.run("squeue", "-h", *options).stdout

    def planned(self, job):
        """When slurmctld means to start it, unix seconds; None while it does not say."""
        text = self.queue("-j", job, "-o", "%S").strip()
        try:
            return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
        except ValueError:
            return None

    def emptied(self):
        """No job is left."""
        self.cluster.run("scancel", "-u", "root", check=False)
        self.until(lambda: not self.queue().strip(), "an empty queue")

    recover = emptied


def refuses(how):
    """A daemon that would fail submissions, in this way."""
    def takes(s):
        with s.daemon(lambda ask: how(ask) if ask.mode == TEST_ONLY else leave(ask)) as fake:
            done = s.cluster.run("sbatch", "-p", "cloud", "-N1", "-o", "/dev/null", "--wrap",
                                 "true", check=False)
            s.expect(done.returncode == 0, f"sbatch: {done.stderr.strip()}")
            s.expect(fake.asked[TEST_ONLY] > 0, "no submission was asked about")
        s.emptied()
    return takes


@case
def submissions(s):
    """By a proof that nothing fits, or held: sbatch is accepted as by stock"""
    refuses(lambda ask: leave(ask, NO_FIT, proof=P_TEST_ONLY))(s)
    refuses(lambda ask: leave(ask, HELD))(s)
    refuses(lambda ask: answer(ask, right_nodes(ask)))(s)


@case
def cannot_start(s):
    """By a proof nothing fits on idle nodes: jobs start, and the daemon is ejected for good"""
    def reply(ask):
        kind = {RUN_NOW: P_NO_FIT, WILL_RUN: P_WILL_RUN}.get(ask.mode)
        return leave(ask, NO_FIT, proof=kind, until=FAR_S) if kind else leave(ask)

    with s.daemon(reply) as fake:
        for _ in range(30):
            s.submit("-N1", "-t1")
        s.until(lambda: not s.queue().strip(), "30 jobs end", limit=40)
        s.until(lambda: fake.breaker == EJECTED, "ejected")
        asks, hellos = fake.asks, fake.hellos
        fake.kind = Kind("good", "", lambda _fake, ask: [leave(ask)], ())
        s.cluster.run("scontrol", "reconfigure")
        s.submit("-N1", "-t1")
        time.sleep(5.0)
        if s.cluster.release.number < (23, 11):     # since then slurmctld begins anew
            s.expect(fake.asks == asks, "asked after it was ejected")
        s.expect(fake.hellos >= hellos, "no connection")
        site(s.cluster, f"phalanx_enable={next(s.enabled)}")
        s.submit("-N1", "-t1")
        s.until(lambda: fake.asks > asks, "asked again once slurm.conf says so")
    s.emptied()


@case
def planned_late(s):
    """By a proof a node that is busy for a day stands for all: planned when others are empty"""
    s.submit("-N1", "--exclusive", "-t1440", "-w", "n1", command="sleep 900")
    for node in range(2, 9):
        s.submit("-N1", "--exclusive", "-t5", "-w", f"n{node}", command="sleep 300")
    s.until(lambda: len(s.queue("-t", "R").splitlines()) == 8, "all nodes are busy")
    job = s.submit("-N1", "--exclusive", "-t5")
    s.until(lambda: s.planned(job), "stock plans it")
    began = time.time()

    def reply(ask):
        nodes = ask.candidates[:max(1, ask.min_nodes)]
        return answer(ask, nodes, proof=P_WILL_RUN, until=FAR_S) if ask.mode == WILL_RUN and \
            nodes else leave(ask)

    with s.daemon(reply) as fake:
        for _ in range(3):
            s.submit("-N1", "--exclusive", "-t5")
            time.sleep(3.0)
            at = s.planned(job)
            s.expect(at and at < began + 1200, f"{job} is planned at {at}, {began:.0f} was the "
                     f"beginning: {s.queue()}")
        s.expect(fake.asked[WILL_RUN] > 0, "no plan was asked about")
    s.emptied()


@case
def slow_in_time(s):
    """Each answer at nine tenths of its deadline: at most 2 % of a minute is waited"""
    def reply(ask):
        time.sleep(0.9 * SLOW_US / 1e6)
        return leave(ask)

    with s.daemon(reply, deadline_us=SLOW_US) as fake:
        for _ in range(60):
            s.submit("-N1", "--exclusive", "-t1", command="sleep 2")
        asks, began = fake.asks, time.monotonic()
        while time.monotonic() < began + SLOW_S:
            s.submit("-N1", "--exclusive", "-t1", command="sleep 1")
            time.sleep(0.2)
        share = (fake.asks - asks) * 0.9 * SLOW_US / 1e6 / (time.monotonic() - began)
        s.summary = f"{fake.asks} asks, {share * 100:.2f} % of the time waited"
        s.expect(share <= SHARE_MAX, s.summary)
        s.expect(fake.asks > 10 and fake.breaker == 0, f"{s.summary}; breaker {fake.breaker}")
    s.emptied()


@contextlib.contextmanager
def setting(root, _args):
    """One cluster, whose daemon is stopped."""
    with Cluster(os.path.join(root, "c"), cloud=100, nodes=NODES, extra=EXTRA) as cluster:
        cluster.stop_phalanxd()
        yield Hostile(cluster)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
