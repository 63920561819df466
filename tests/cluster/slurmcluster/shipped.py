# SPDX-License-Identifier: GPL-3.0-or-later
"""A case of every suite that places: its cluster with the configuration that is shipped."""

import os

from . import conf
from .paths import repository
from .phalanx import phalanx, read_status

FILE = os.path.join(repository(), "config", "phalanx.toml")
JOB = ("sbatch", "-N1", "-n1", "-t1", "-Jshipped", "-o/dev/null", "--wrap=true")


def shipped(mode, settings=""):
    """config/phalanx.toml as it is shipped, but for its mode, and further settings."""
    with open(FILE, encoding="utf-8") as file:
        return file.read().replace('mode = "shadow"', f'mode = "{mode}"', 1) + settings


def put(cluster, text):
    """Puts a configuration in force."""
    with open(cluster.paths.phalanx_toml, "w", encoding="utf-8") as file:
        file.write(text)
    phalanx(cluster, "daemon", "reload")


def shipped_config(suite):
    """With config/phalanx.toml as it is shipped, but for paths, Phalanx decides, then places too"""
    cluster = suite.cluster
    text = conf.phalanx_toml(cluster.paths, shipped("shadow"), FILE)
    with open(cluster.paths.phalanx_toml, encoding="utf-8") as file:
        own = file.read()

    def more(count):
        """Whether a count of the status has grown, once another job has come."""
        before = count(read_status(cluster))

        def grown():
            # Its 2 ms may be too few now and then.
            cluster.run(*JOB)
            return count(read_status(cluster)) > before
        return grown

    try:
        put(cluster, text)
        suite.until(more(lambda status: status["fallen_back"].get("shadow", 0)),
                    "a decision in mode shadow", every=0.5)
        put(cluster, text.replace('mode = "shadow"', 'mode = "enforce"', 1))
        suite.until(more(lambda status: status["narrowed"]), "a job is placed", every=0.5)
    finally:
        cluster.run("scancel", "--name=shipped")
        put(cluster, own)
    suite.until(lambda: not cluster.run("squeue", "-h", "--name=shipped").stdout.strip(),
                "the jobs have ended")
