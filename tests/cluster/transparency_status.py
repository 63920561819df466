# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads `phalanx status --json` for the test suites; the only place with its field names."""

import json
import os

from slurmcluster import ClusterError


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
    plugin = raw["plugin"]
    return {"asks": plugin["asks"], "answers": plugin["answers"],
            "narrowed": plugin["narrowed"], "raw": raw}
