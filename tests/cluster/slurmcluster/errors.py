# SPDX-License-Identifier: GPL-3.0-or-later
"""The two kinds of failure: the caller's mistake, and the cluster's."""


class ClusterError(Exception):
    """The cluster could not be started, stopped or asked; the text says why."""


class UsageError(ClusterError):
    """An option, a file or a combination of them that cannot be accepted."""
