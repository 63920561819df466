#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installs and purges the Debian packages beside SchedMD's, on a fresh system.

    smd.py --tree build/trees/bookworm --debs build/deb-test/22.05.8

In a copy of the tree stand-ins (standins.py) take the place of Debian's Slurm: apt must then take
Phalanx's packages and none of Debian's Slurm, and give them back. That jobs are placed there too is
for packages.py --smd. Needs root, no network.
"""

import contextlib
import glob
import os
import shutil
import subprocess
import sys

import standins
from slurmcluster.suite import Cases, Suite, check, command_line, run

OURS = ("phalanx-common", "phalanx", "phalanx-agent", "phalanx-slurm-plugin-{slurm}",
        "phalanx-slurm-plugin-source")
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INSTALLER = os.path.join(TOP, "tests", "install-packages")
STAND_INS, FOREIGN = standins.STAND_INS, standins.FOREIGN
case = Cases()


class Fresh(Suite):
    """A copy of the tree, with the stand-ins."""

    def __init__(self, tree, slurm):
        super().__init__()
        self.tree, self.slurm = tree, slurm

    def sh(self, command, fails=False):
        """Runs a shell command in the tree; returns its output."""
        done = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "chroot",
                               self.tree, "sh", "-c",
                               f"mount -t proc proc /proc && {command}"],
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=240,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                                   "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"})
        check(bool(done.returncode) == fails,
              f"{command}: exit {done.returncode}: {done.stdout[-3000:]}")
        return done.stdout

    def installed(self):
        """Names of the packages that are installed."""
        lines = self.sh("dpkg-query -W -f '${Package} ${db:Status-Status}\\n'").splitlines()
        return {line.split()[0] for line in lines if line.endswith(" installed")}


@case
def made(suite):
    """Stand-ins of SchedMD's packages take the place of Debian's"""
    standins.replace(suite.sh, f"{suite.slurm}-1")
    check(set(STAND_INS) <= suite.installed(), f"{suite.installed()}")
    check("Conflicts" not in suite.sh("apt-get check"), "conflicts")


def wanted_by(target):
    """The packages that a target of make would have, in its order."""
    done = subprocess.run(["make", "-n", "-C", TOP, target], capture_output=True, text=True,
                          check=True)
    return [line.split()[1:] for line in done.stdout.splitlines()
            if line.startswith("tests/install-packages ")]


def asked(suite, target, fails):
    """What a target asks apt for, which is a script here; and what was said."""
    suite.sh(": > /asked")
    said = [suite.sh(f"PATH=/tells:$PATH sh /install-packages {' '.join(names)}",
                     fails=fails and "libslurm-dev" in names) for names in wanted_by(target)]
    check(said, f"make {target} looks for no packages")
    return suite.sh("cat /asked").split(), "".join(said)


@case(needs=["made"])
def left_alone(suite):
    """No target takes a package of theirs away, or brings a Slurm of Debian's"""
    shutil.copy(INSTALLER, os.path.join(suite.tree, "install-packages"))
    suite.sh("mkdir /tells && printf '#!/bin/sh\\necho \"$@\" >> /asked\\n' > /tells/apt-get && "
             "chmod 755 /tells/apt-get")
    before = suite.installed()
    for target in ("demo", "test", "build", "deb", "install"):
        names, said = asked(suite, target, fails=True)
        check("another Slurm is here (slurm-smd" in said and "slurm-smd-dev" in said, said)
        check(not [name for name in names if "slurm" in name], f"{target}: {names}")
    # The same for programs that no package owns.
    suite.sh("cp /bin/true /usr/local/sbin/slurmctld && "
             "sed -i 's/^Package: slurm-smd/Package: other-smd/' /var/lib/dpkg/status")
    said = suite.sh("PATH=/usr/local/sbin:$PATH sh /install-packages slurmd", fails=True)
    suite.sh("sed -i 's/^Package: other-smd/Package: slurm-smd/' /var/lib/dpkg/status && "
             "rm /usr/local/sbin/slurmctld")
    check("(/usr/local/sbin/slurmctld" in said, said)
    check(suite.installed() == before, "packages changed")


@case(needs=["left_alone"])
def none_begins_at_boot(suite):
    """A service that an installation brings does not begin at boot; those of the host still do"""
    suite.sh("mkdir -p /etc/systemd/system/multi-user.target.wants && "
             "for n in theirs ours; do printf '#!/bin/sh\n### BEGIN INIT INFO\n# Provides: '$n'\n"
             "# Required-Start:\n# Required-Stop:\n# Default-Start: 2 3 4 5\n# Default-Stop:\n"
             "### END INIT INFO\n' > /etc/init.d/$n && chmod 755 /etc/init.d/$n; done && "
             "update-rc.d theirs defaults && mkdir /brings && printf '#!/bin/sh\n"
             "case $* in *-s*) exit 0 ;; esac\nupdate-rc.d ours defaults\n"
             "ln -sf /x /etc/systemd/system/multi-user.target.wants/ours.service\n' "
             "> /brings/apt-get && chmod 755 /brings/apt-get && "
             "PATH=/brings:$PATH sh /install-packages no-such-package")
    there = suite.sh("find /etc/rc?.d /etc/systemd/system -type l").split()
    begins = [path for path in there if path.endswith("ours") and "/S" in path
              or path.endswith("ours.service")]
    check(not begins, f"begin at boot: {begins}")
    check("/etc/rc2.d/S01theirs" in there, f"the host's does not: {there}")
    suite.sh("update-rc.d -f theirs remove; update-rc.d -f ours remove; "
             "rm -r /brings /etc/init.d/ours /etc/init.d/theirs")


@case(needs=["none_begins_at_boot"])
def built_beside(suite):
    """With SchedMD's headers what builds needs nothing of Debian's Slurm; the rest is refused"""
    suite.sh("mkdir -p /dev-deb/DEBIAN && printf 'Package: slurm-smd-dev\\nVersion: 1\\n"
             "Architecture: all\\nMaintainer: nobody <nobody@example.org>\\nDescription: stand-in"
             "\\n' > /dev-deb/DEBIAN/control && dpkg-deb --build /dev-deb /dev.deb > /dev/null && "
             "dpkg -i /dev.deb")
    for target in ("build", "deb", "install"):
        names, _said = asked(suite, target, fails=False)
        check("--no-remove" in names and "libmunge-dev" in names, f"{target}: {names}")
        check(not [name for name in names if "slurm" in name], f"{target}: {names}")
    suite.sh("sh /install-packages slurmctld", fails=True)
    suite.sh("dpkg --purge slurm-smd-dev && rm -r /tells /dev-deb /dev.deb")


@case(needs=["made"])
def installs(suite):
    """apt takes Phalanx's packages, all of them, and nothing of Debian's Slurm"""
    said = suite.sh("apt-get install -y --no-install-recommends /debs/*.deb")
    there = suite.installed()
    ours = {name.format(slurm=suite.slurm) for name in OURS}
    check(ours <= there, f"missing: {ours - there}: {said}")
    check(set(STAND_INS) <= there, f"removed: {set(STAND_INS) - there}")
    check(not there & set(FOREIGN), f"Debian's came: {there & set(FOREIGN)}")
    place = suite.sh("ls -d /usr/lib/*/slurm/select_cons_tres.so").strip()
    check(f"slurm:{os.path.dirname(place)}" in said, f"PluginDir in: {said}")
    suite.sh("apt-get check")


@case(needs=["installs"])
def another_slurm(suite):
    """Another version of theirs is upgraded to as without us, and takes none of ours away"""
    said = suite.sh("sed -i 's/^Version: .*/Version: 23.02.1-1/; s/(= .*)/(= 23.02.1-1)/' "
                    "/smd/*/DEBIAN/control && mkdir -p /smd2 && for d in /smd/*/; do dpkg-deb "
                    "--root-owner-group --build $d /smd2 > /dev/null; done; "
                    "apt-get install -s /smd2/*.deb", fails=False)
    check("Remv" not in said and "Inst slurm-smd-slurmctld [" in said, said)


@case(needs=["installs"])
def purged(suite):
    """Purged, they leave SchedMD's as they were"""
    before = suite.sh("dpkg -V " + " ".join(STAND_INS))
    suite.sh("apt-get purge -y 'phalanx*'")
    there = suite.installed()
    check(not [name for name in there if name.startswith("phalanx")], f"{there}")
    check(set(STAND_INS) <= there, "theirs are gone")
    check(suite.sh("dpkg -V " + " ".join(STAND_INS)) == before, "their files changed")
    left = suite.sh("find / -xdev -name '*phalanx*' -not -path '/debs/*' -not -path '/proc/*' "
                    "-not -path '/var/lib/apt/*' -not -path '/var/log/*'").split()
    check(not left, f"left: {left}")


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--tree", required="--list" not in sys.argv,
                        help="fresh system, made by tests/packaging/tree")
    parser.add_argument("--debs", default="", help="directory of the packages")


@contextlib.contextmanager
def setting(directory, args):
    """A copy of the tree."""
    copy = os.path.join(directory, "tree")
    subprocess.run(["cp", "-a", "--reflink=auto", args.tree, copy], check=True)
    os.makedirs(os.path.join(copy, "debs"))
    for deb in glob.glob(os.path.join(args.debs, "*.deb")):
        shutil.copy(deb, os.path.join(copy, "debs"))
    yield Fresh(copy, os.path.basename(args.debs.rstrip("/")))


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, options), setting))
