#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that kills jobs is met by few: the others come first, and a retry goes elsewhere.

Six nodes; Slurm's Weight puts n3 first. The accounting of three users, whose programs live on every
node, is imported. Then n3 kills.
"""

import contextlib
import os
import sys
import time

from slurmcluster import Cluster
from slurmcluster.conf import PROMPT, write_config
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.suite import Cases, Suite, command_line, run

NODES = """\
NodeName=n3 CPUs=2 RealMemory=1000 Weight=1
NodeName=n[1-2,4-6] CPUs=2 RealMemory=1000 Weight=10
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
BAD, USERS, LIVED = "n3", ("nobody", "daemon", "bin"), 300
SCRIPT = f"""#!/bin/sh
[ "$SLURMD_NODENAME" = {BAD} ] && exit 1
sleep 0.1
"""
EXTRA = ["SchedulerParameters=bf_interval=1,sched_min_interval=200000,batch_sched_delay=0,"
         "phalanx_trade=1",
         "RequeueExit=99"]
HEAD = "JobID|User|Account|JobName|State|Start|End|NodeList|ReqTRES|NCPUS|NNodes\n"
case = Cases()


class Deaths(Suite):
    """The cluster."""

    soon_s = 15.0

    def accused(self):
        """{node: why it comes last}."""
        nodes = phalanx_json(self.cluster, "nodes")["nodes"]
        return {node["name"]: node["accused"] for node in nodes if node.get("accused")}

    def jobs(self, users, script, *options):
        """A job of each of these users, one after the other; their nodes."""
        nodes = []
        for user in users:
            job = self.cluster.submit("-n1", f"--uid={user}", "-D/", *options, script=script)
            self.cluster.wait_jobs([job])
            nodes.append(self.cluster.job(job)["NodeList"])
        return nodes

    def lived(self):
        """Imports what the users' programs did before."""
        text, now = HEAD, int(time.time()) - 4000
        for at in range(LIVED * len(USERS)):
            user = USERS[at % len(USERS)]
            begin, end = (time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now + at + more))
                          for more in (0, 2))
            text += (f"{900000 + at}|{user}||prog|COMPLETED|{begin}|{end}|n{at // 3 % 6 + 1}|"
                     "cpu=1,node=1|1|1\n")
        path = os.path.join(os.path.dirname(self.cluster.paths.phalanx_toml), "lived.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        phalanx(self.cluster, "history", "import", path)
        runs = lambda: sum(c["runs"] for c in phalanx_json(  # noqa: E731
            self.cluster, "history", "speeds")["classes"] if "/prog/" in c["class"])
        self.until(lambda: runs() >= LIVED, "the runs are learned")


@case
def one_user(suite):
    """Failing jobs of one user accuse nobody"""
    suite.lived()
    broken = "#!/bin/sh\nexit $((SLURM_JOB_ID % 3 == 0))\n"
    suite.jobs(USERS[:1] * 30, broken, "-Jown")
    suite.expect(not suite.accused(), f"accused: {suite.accused()}")


@case(needs=["one_user"])
def retry(suite):
    """A requeued job avoids the node that failed it, though its Weight puts it first"""
    once = "#!/bin/sh\n[ ${SLURM_RESTART_COUNT:-0} -gt 0 ] || exit 99\n"
    job = suite.cluster.submit("-n1", "--requeue", "-Jagain", script=once)
    waits = lambda: suite.cluster.job(job).get("Restarts") == "1"  # noqa: E731
    suite.until(waits, "the job was requeued")
    time.sleep(3)           # a poll, and a round of planning; Slurm itself waits for 2 min
    suite.cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    suite.cluster.wait_jobs([job])
    node = suite.cluster.job(job)["NodeList"]
    suite.expect(node != BAD, f"the retry ran on {node}")
    said = phalanx(suite.cluster, "explain", str(job), "--verbose").stdout
    suite.expect(f"other than {BAD}, where it failed" in said, said)
    suite.expect(suite.jobs(["root"], "#!/bin/sh\n") == [BAD], "other jobs go by Weight")


@case(needs=["retry"])
def found(suite):
    """Within 20 deaths no job of another class meets it while others fit; it is told"""
    deaths = 0
    while not suite.accused() and deaths < 20:
        jobs = [suite.cluster.submit("-n1", f"--uid={user}", "-D/", "-Jprog", script=SCRIPT)
                for user in USERS * 2]
        suite.cluster.wait_jobs(jobs)
        deaths += [suite.cluster.job(job)["NodeList"] for job in jobs].count(BAD)
        time.sleep(1.5)         # a poll, and a round of planning
    suite.expect(list(suite.accused()) == [BAD] and deaths <= 20, f"{suite.accused()} at {deaths}")
    time.sleep(1.5)             # it comes last from the next round of planning on
    met = suite.jobs(["root"] * 12, SCRIPT, "-Jother").count(BAD)
    suite.expect(met == 0, f"{met} of 12 jobs of another class met it")
    told = phalanx(suite.cluster, "nodes").stdout
    suite.expect(f"Node {BAD} comes last: jobs die there" in told, told)
    waits = [suite.cluster.submit("-N5", "--exclusive", wrap="sleep 30")]
    suite.cluster.wait_jobs(waits, states={"RUNNING"})
    last = suite.cluster.submit("-n1", wrap="sleep 30")
    suite.cluster.wait_jobs([last], states={"RUNNING"})
    suite.expect(suite.cluster.job(last)["NodeList"] == BAD, "where nothing else fits it is taken")
    said = phalanx(suite.cluster, "explain", str(last)).stdout
    suite.expect(f"Node {BAD}: jobs die there" in said, said)
    suite.cluster.run("scancel", *map(str, waits + [last]))


@case(needs=["found"])
def forgiven(suite):
    """An administrator clears it, and jobs go by Weight again"""
    told = phalanx(suite.cluster, "nodes", "--forgive", BAD).stdout
    suite.expect(f"Node {BAD}: jobs that died there" in told, told)
    suite.until(lambda: not suite.accused(), "nobody is accused")
    time.sleep(3)           # a round of planning
    suite.expect(suite.jobs(["root"], "#!/bin/sh\n") == [BAD], "other jobs go by Weight")
    refused = phalanx(suite.cluster, "nodes", "--forgive", "n99", check=False)
    suite.expect("Slurm does not know it" in refused.stderr, refused.stderr)


@contextlib.contextmanager
def setting(root, _args):
    """The cluster."""
    place = os.path.join(root, "c")
    with Cluster(place, nodes=NODES, extra=EXTRA, config=write_config(place, PROMPT)) as cluster:
        yield Deaths(cluster)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
