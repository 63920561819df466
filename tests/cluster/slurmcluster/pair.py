# SPDX-License-Identifier: GPL-3.0-or-later
"""Several clusters at once, as suites that compare with stock Slurm need them."""

import threading

from .errors import ClusterError
from .suite import text_of


def boot(clusters):
    """Starts clusters at once; raises the first error after ending those that came up."""
    errors = []

    def up(cluster):
        try:
            cluster.up(timeout=120)
        except Exception as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=up, args=(cluster,)) for cluster in clusters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        for cluster in clusters:
            cluster.down(quick=True)
        raise ClusterError(text_of(errors[0]))
