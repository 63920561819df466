# SPDX-License-Identifier: GPL-3.0-or-later
"""The phalanx command line of a cluster; the only place with the field names of its status."""

import json
import os
import time

from .errors import ClusterError
from .suite import until


def phalanx(cluster, *words, check=True, timeout=15):
    """Runs the phalanx command line of a cluster; returns CompletedProcess."""
    return cluster.run(os.path.join(cluster.paths.bin_dir, "phalanx"), *words, check=check,
                       timeout=timeout)


def phalanx_json(cluster, *words):
    """The JSON a phalanx command prints. Raises ClusterError if it is none."""
    done = phalanx(cluster, *words, "--json")
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise ClusterError(f"phalanx {' '.join(words)} --json: {error}") from None


def fresh_plan(cluster, since_s=None):
    """Waits for a plan that knows all that the daemon knows now of the queue; returns it.

    since_s  and that was made after this time, as after a change of the configuration
    """
    epoch = phalanx_json(cluster, "status")["slurm"]["snapshot_epoch"]

    def made():
        done = phalanx(cluster, "plan", "--json", check=False)
        plan = json.loads(done.stdout) if done.returncode == 0 else {}
        return plan.get("epoch", -1) >= epoch and plan["time_ms"] >= 1000 * (since_s or 0) and plan

    return until(made, f"a plan of snapshot {epoch}")


def reload(cluster):
    """Puts the changed configuration in force; returns the first plan that was made under it."""
    since_s = time.time()
    phalanx(cluster, "daemon", "reload")
    return fresh_plan(cluster, since_s)


def read_status(cluster):
    """The counters the suites compare, flat, by the suites' own names."""
    raw = phalanx_json(cluster, "status")
    result = {"raw": raw, "asked": 0, "answered": 0, "narrowed": 0, "fallen_back": {}}
    # The daemon's own counters: the plugin's begin anew when slurmctld is restarted.
    for shares in (raw["run_now"], raw["will_run"]):
        for key in ("asked", "answered", "narrowed"):
            result[key] += shares[key]
        for reason, count in shares["fallen_back"].items():
            result["fallen_back"][reason] = result["fallen_back"].get(reason, 0) + count
    return result
