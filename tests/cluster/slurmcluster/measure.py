# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run was like, from the job records at its end."""

from datetime import datetime


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
