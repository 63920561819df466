# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs and nodes of a cluster: submit, list, wait."""

import re
import time

from .clock import Deadline
from .errors import ClusterError

DONE = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
        "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
IDLE = {"IDLE", "IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD"}


def parse_record(line):
    """One line of `scontrol -o show ...` as a dictionary."""
    # A value may hold spaces; the next key starts at ` Word=`, also `TRES:node=`-like ones.
    pieces = re.split(r"(?:^|\s)([A-Z][\w:/]*)=", line.strip())
    return dict(zip(pieces[1::2], (value.strip() for value in pieces[2::2])))


def seconds(record, key):
    """A time of a record in unix seconds."""
    return time.mktime(time.strptime(record[key], "%Y-%m-%dT%H:%M:%S"))


class JobsMixin:
    """What Cluster can do with jobs; uses its `run`."""

    def submit(self, *options, wrap=None, script=None, timeout=60):
        """sbatch with options and `wrap` (a command) or `script` (text); returns the job's id.

        Raises ClusterError with sbatch's message if the job is refused.
        """
        argv = ["sbatch", "--parsable", "-o", "/dev/null", *options]
        if script is not None:
            done = self.run(*argv, input=script, timeout=timeout)
        else:
            done = self.run(*argv, "--wrap", wrap or "true", timeout=timeout)
        return int(done.stdout.strip().splitlines()[-1].split(";")[0])

    def scontrol_records(self, *what, timeout=60):
        """`scontrol -o show WHAT` (`job -d`, `node`, ...) as a list of dictionaries."""
        done = self.run("scontrol", "-o", "-a", "show", *what, check=False, timeout=timeout)
        if done.returncode:
            text = done.stderr + done.stdout
            if "Invalid job id" in text:
                return []
            raise ClusterError(f"scontrol show {' '.join(map(str, what))}: {text.strip()}")
        return [parse_record(line) for line in done.stdout.splitlines() if "=" in line]

    def jobs(self):
        """Every job record that slurmctld still has, arrays split as slurmctld has them."""
        return self.scontrol_records("job", "-d")

    def job(self, job_id):
        """One job's record. Raises ClusterError if slurmctld does not know it."""
        found = self.scontrol_records("job", str(job_id), "-d")
        if not found:
            raise ClusterError(f"job {job_id} is unknown")
        return found[0]

    def wait_jobs(self, job_ids=None, timeout=120, states=DONE):
        """Waits until the given jobs (array tasks included; None: all) are in `states`.

        Returns their records. Raises ClusterError naming the jobs that are late.
        """
        wanted = None if job_ids is None else {str(job_id) for job_id in job_ids}
        deadline = Deadline(timeout)
        while True:
            found = [record for record in self.jobs()
                     if wanted is None or wanted & _ids(record)]
            late = [record for record in found if record["JobState"] not in states]
            missing = (wanted or set()) - set().union(*map(_ids, found), set())
            if missing:
                raise ClusterError(f"jobs {', '.join(sorted(missing))} are unknown")
            if not late:
                return found
            if deadline.over():
                text = ", ".join(f"{r['JobId']} {r['JobState']} ({r.get('Reason', '')})"
                                 for r in late[:10])
                raise ClusterError(f"{len(late)} jobs late after {timeout} s: {text}")
            time.sleep(0.2)

    def nodes(self):
        """Every node's record."""
        return self.scontrol_records("node")

    def wait_idle(self, timeout=60):
        """Waits until every node is idle (CLOUD nodes: powered down and idle).

        Raises ClusterError naming the nodes that are not, or a slurmd that has ended.
        """
        deadline = Deadline(max(0.0, timeout))
        while True:
            dead = sorted({p.role for p in self.processes
                           if p.role.startswith("slurmd:") and not self.alive(p.role)})
            if dead:
                raise ClusterError(f"ended: {', '.join(dead[:5])}")
            if not self.alive("slurmctld"):
                raise ClusterError("slurmctld has ended")
            states = self._node_states()
            busy = {name: state for name, state in states.items() if state not in IDLE}
            if states and not busy:
                return
            if deadline.over():
                text = ", ".join(f"{name} {state}" for name, state in sorted(busy.items())[:5])
                raise ClusterError(f"{len(busy)} of {len(states)} nodes are not idle: {text}")
            time.sleep(0.1)

    def _node_states(self):
        """{node: state as scontrol prints it, or why it does not count as idle}."""
        done = self.run("scontrol", "-o", "-a", "show", "node", check=False, timeout=60)
        if done.returncode:
            return {}
        states = {}
        for line in done.stdout.splitlines():
            match = re.match(r"NodeName=(\S+).*? State=(\S+)", line)
            if match:
                # slurmctld also calls a node idle of which it has not heard yet.
                silent = "SlurmdStartTime=None" in line and "CLOUD" not in match.group(2)
                states[match.group(1)] = "UNREGISTERED" if silent else match.group(2)
        return states


def _ids(record):
    """The ids under which a job record may be asked for."""
    found = {record["JobId"], record.get("ArrayJobId"), record.get("HetJobId")}
    if "ArrayTaskId" in record:
        found.add(f"{record['ArrayJobId']}_{record['ArrayTaskId']}")
    return found - {None}
