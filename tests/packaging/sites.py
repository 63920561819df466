# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site has and this host has not: the source of its Slurm, and a Slurm under a prefix."""

import glob
import os
import shutil
import subprocess

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
SLURMCTLD = """\
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "-V"))
		return puts("slurm %s") < 0;
	return pause();
}
"""


def source_tree(directory, version):
    """The source of Slurm as a site gives it: here its headers, which are configured already."""
    tree = os.path.join(directory, f"slurm-{version}")
    shutil.copytree(os.path.join(TOP, "build", f"slurm-src-{version}"), tree)
    with open(f"{tree}/configure", "w", encoding="ascii") as file:
        file.write("#!/bin/sh\n")
    os.chmod(f"{tree}/configure", 0o755)
    return tree


def archive(tree):
    """A tree as an archive beside it."""
    subprocess.run(["tar", "-C", os.path.dirname(tree), "-cjf", f"{tree}.tar.bz2",
                    os.path.basename(tree)], check=True)
    return f"{tree}.tar.bz2"


def prefix(directory, version):
    """Slurm under a prefix: a slurmctld that only tells its version or waits, Debian's plugins."""
    os.makedirs(f"{directory}/sbin")
    plugins = glob.glob("/usr/lib/*/slurm-wlm")[0]
    shutil.copytree(plugins, f"{directory}/lib/slurm", symlinks=True)
    subprocess.run(["cc", "-x", "c", "-o", f"{directory}/sbin/slurmctld", "-"], check=True,
                   input=SLURMCTLD % version, text=True)
    return directory
