# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Slurm cluster on one machine, for tests, benchmarks and the demo.

    with Cluster("/tmp/c1", stock=True) as cluster:
        job = cluster.submit("-N2", "--gres=gpu:1", wrap="sleep 5")
        cluster.wait_jobs([job])

Everything a cluster needs lives in its directory; every process that it starts
is ended by `down()`.
"""

from .core import Cluster
from .errors import ClusterError, UsageError

__all__ = ["Cluster", "ClusterError", "UsageError"]
