# SPDX-License-Identifier: GPL-3.0-or-later
"""The phalanx command line of a cluster; the only place with the field names of its status."""

import json
import os

from .errors import ClusterError


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
