# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run was like: from node samples, and from the job records at its end."""

import math
import re
from dataclasses import dataclass, field
from datetime import datetime

MEMORY_UNIT_MB = 500   # less free memory than one CPU's default is none


@dataclass
class Samples:
    """Time-weighted sums over node samples; each sample holds until the next."""

    seconds: float = 0.0
    sums: dict = field(default_factory=dict)
    last: tuple | None = None

    def add(self, now, values):
        """Takes the values seen at `now` (seconds); None marks a quantity without a value."""
        if self.last:
            before, held = self.last
            self.seconds += now - before
            for key, value in held.items():
                if value is not None:
                    total, weight = self.sums.get(key, (0.0, 0.0))
                    self.sums[key] = (total + value * (now - before), weight + now - before)
        self.last = (now, values)

    def mean(self, key):
        """Time average of a quantity over the time in which it had a value; None without any."""
        total, weight = self.sums.get(key, (0.0, 0.0))
        return total / weight if weight else None


def gres_count(text, name="gpu"):
    """`gpu:a100:2(IDX:0-1),gpu:v100:1(IDX:0)` -> 3."""
    plain = re.sub(r"\([^)]*\)", "", text or "")
    total = 0
    for item in plain.split(","):
        parts = item.split(":")
        if parts[0] == name:
            total += int(parts[-1]) if parts[-1].isdigit() else 1
    return total


def usage(node):
    """[(used, total)] of CPUs, memory in MB and GPUs from `scontrol -d show node`."""
    return [(int(node["CPUAlloc"]), int(node["CPUTot"])),
            (int(node["AllocMem"]), int(node["RealMemory"])),
            (gres_count(node.get("GresUsed")), gres_count(node.get("Gres")))]


def dispersion(pairs):
    """Weighted dispersion of one node's usage with equal weights.

    A dimension the node does not have drops out and the others' weights grow. Source: the
    balance method, y = sqrt(sum w_i (d_i - mean d)^2).
    """
    shares = [used / total for used, total in pairs if total]
    mean = sum(shares) / len(shares)
    return math.sqrt(sum((share - mean) ** 2 for share in shares) / len(shares))


def node_values(nodes):
    """One sample: stranded GPUs and CPUs, used GPUs and CPUs, mean dispersion of nodes in use."""
    stranded_gpus = stranded_cpus = used_gpus = used_cpus = 0
    dispersions = []
    for node in nodes:
        pairs = usage(node)
        (cpus, cpus_all), (memory, memory_all), (gpus, gpus_all) = pairs
        no_memory = memory_all - memory < MEMORY_UNIT_MB
        if cpus >= cpus_all or no_memory:
            stranded_gpus += gpus_all - gpus
        if no_memory:
            stranded_cpus += cpus_all - cpus
        used_gpus, used_cpus = used_gpus + gpus, used_cpus + cpus
        if cpus or memory or gpus:
            dispersions.append(dispersion(pairs))
    return {"stranded_gpus": stranded_gpus, "stranded_cpus": stranded_cpus,
            "used_gpus": used_gpus, "used_cpus": used_cpus,
            "dispersion": sum(dispersions) / len(dispersions) if dispersions else None}


def seconds_of(text):
    """A time of scontrol as seconds; None for Unknown and the like."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def job_values(records):
    """Makespan, waits and concurrency from the job records (one per array task).

    Slurm keeps whole seconds, so each wait is off by less than a second.
    """
    rows = []
    for record in records:
        times = [seconds_of(record[key]) for key in ("SubmitTime", "StartTime", "EndTime")]
        if None not in times:
            rows.append(times)
    if not rows:
        return {}
    makespan = max(end for _, _, end in rows) - min(submit for submit, _, _ in rows)
    waits = [start - submit for submit, start, _ in rows]
    busy = sum(end - start for _, start, end in rows)
    return {"jobs": len(rows), "makespan_s": makespan, "wait_mean_s": sum(waits) / len(waits),
            "wait_max_s": max(waits), "running_mean": busy / makespan if makespan else None}
