#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the rpms for EL, and installs, upgrades and erases them in a root of their own

    rpms.py --tree build/trees/bookworm --programs target/debug

No EL can be had here: the spec is built by Debian's rpmbuild with the places that EL's macros
have, and a copy of a small Debian system, with a database of rpm of its own, is the root that the
scriptlets run in. Slurm's rpms are stand-ins with the names, paths and dependencies of SchedMD's;
one more stands for EL itself. Needs root, no network.
"""

import contextlib
import glob
import os
import shutil
import subprocess
import sys

import sites
from slurmcluster.suite import Cases, Suite, check, command_line, run

OVERLAY_DIR = "usr/lib64/phalanx/slurm"
OVERLAY = f"{OVERLAY_DIR}/select_cons_tres.so"
STOCK = "usr/lib64/slurm/select_cons_tres.so"
PLUGIN_DIR = "PluginDir=/usr/lib64/phalanx/slurm:/usr/lib64/slurm"
# Where EL expects what; @ is the version of Slurm.
PACKAGES = {
    "phalanx": ("/usr/sbin/phalanxd", "/usr/sbin/phalanx-gate",
                "/usr/bin/phalanx", "/usr/bin/phalanx-share",
                "/etc/phalanx/phalanx.toml", "/usr/share/man/man1/phalanx-share.1",
                "/usr/lib/systemd/system/phalanxd.service", "/etc/logrotate.d/phalanx",
                "/usr/libexec/phalanx/overlay-check", "/usr/share/man/man1/phalanx.1",
                "/usr/share/man/man5/phalanx.toml.5", "/usr/share/man/man8/phalanxd.8",
                "/usr/share/bash-completion/completions/phalanx",
                "/usr/share/zsh/site-functions/_phalanx",
                "/usr/share/fish/vendor_completions.d/phalanx.fish",
                "/usr/share/phalanx/monitoring/phalanx.rules.yml",
                "/usr/share/phalanx/monitoring/phalanx-dashboard.json",
                "/usr/share/phalanx/ondemand/passenger_wsgi.py",
                "/usr/share/phalanx/slurm/job_submit.lua",
                "/usr/share/phalanx/slurm/slurm.conf.fragment",
                "/usr/share/phalanx/slurm/sysusers-slurm.conf"),
    "phalanx-common": ("/usr/lib64/phalanx/slurm", "/usr/lib/tmpfiles.d/phalanx.conf"),
    "phalanx-slurm-plugin-@": (f"/{OVERLAY}",),
    "phalanx-spank": ("/usr/lib64/slurm/spank_phalanx.so",),
    "phalanx-agent": ("/usr/lib/systemd/system/phalanx-agent.service",
                      "/etc/sysconfig/phalanx-agent", "/usr/share/phalanx/collectors/load"),
    "phalanx-slurm-plugin-source": ("/usr/sbin/phalanx-overlay",
                                    "/usr/libexec/phalanx/rebuild-overlay",
                                    "/usr/src/phalanx-slurm-plugin/plugin/overlay.c",
                                    "/usr/share/man/man8/phalanx-overlay.8"),
}
case = Cases()


class Root(Suite):
    """The packages, and the root that they go into."""

    def __init__(self, directory, args):
        super().__init__()
        self.directory, self.args = directory, args
        self.out, self.root = os.path.join(directory, "out"), os.path.join(directory, "root")
        # cp, and nothing of Python: it has to copy /dev/zero as a device.
        subprocess.run(["cp", "-a", "--reflink=auto", args.tree, self.root], check=True)
        # Of the library that Slurm's packages have; fetched when the tree was made.
        for deb in glob.glob(f"{self.root}/var/cache/apt/archives/libslurm[0-9]*.deb"):
            self.sh("dpkg-deb", "-x", deb, self.root)
        for one in (STOCK, OVERLAY):
            os.makedirs(os.path.dirname(os.path.join(self.root, os.path.dirname(one))),
                        exist_ok=True)

    def sh(self, *command, fails=False):
        """Runs a command on this host; returns what it says."""
        done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=sites.TOP)
        check(bool(done.returncode) == fails,
              f"{' '.join(command)}: exit {done.returncode}: {done.stdout[-3000:]}")
        return done.stdout

    def rpm(self, *words, fails=False):
        """rpm on the root."""
        return self.sh("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "rpm",
                       "--root", self.root, *words, fails=fails)

    def named(self, name):
        """The file of one package."""
        name = name.replace("@", self.args.slurm)
        found = [path for path in glob.glob(f"{self.out}/*.rpm")
                 if self.sh("rpm", "-qp", "--qf", "%{NAME}", path) == name]
        check(len(found) == 1, f"packages named {name}: {found}")
        return found[0]

    def path(self, inside):
        """A path of the root, seen from this host."""
        return os.path.join(self.root, inside)

    def configure(self, text):
        """Writes slurm.conf."""
        os.makedirs(self.path("etc/slurm"), exist_ok=True)
        with open(self.path("etc/slurm/slurm.conf"), "w", encoding="utf-8") as file:
            file.write(f"ClusterName=c\nSlurmctldHost=ctl\n{text}\n")

    def spec(self, name, lines):
        """Builds stand-ins from the lines of a spec; returns their files."""
        where = os.path.join(self.directory, name)
        os.makedirs(f"{where}/BUILD", exist_ok=True)
        with open(f"{where}/one.spec", "w", encoding="ascii") as file:
            file.write("Release: 1\nSummary: stand-in\nLicense: none\nAutoReqProv: no\n"
                       + "\n".join(lines) + "\n")
        self.sh("rpmbuild", "-bb", "--define", f"_topdir {where}", f"{where}/one.spec")
        return self.stand_ins(name)

    def stand_ins(self, name):
        """The files of stand-ins that were built."""
        return glob.glob(f"{self.directory}/{name}/RPMS/*/*.rpm")

    def slurm(self, version, library="38"):
        """Stand-ins of Slurm's packages: slurmctld, and a select plugin of that release."""
        name = f"slurm-{version}"
        if self.stand_ins(name):
            return self.stand_ins(name)
        where = os.path.join(self.directory, name)
        os.makedirs(where, exist_ok=True)
        numbers = [int(part) for part in version.split(".")]
        with open(f"{where}/stock.c", "w", encoding="ascii") as file:
            file.write('const char plugin_name[] = "stand-in";\n'
                       'const char plugin_type[] = "select/cons_tres";\n'
                       "const unsigned int plugin_version = "
                       f"{numbers[0] << 16 | numbers[1] << 8 | numbers[2]}u;\n")
        self.sh("cc", "-shared", "-fPIC", "-o", f"{where}/stock.so", f"{where}/stock.c")
        return self.spec(name, (
            f"Name: slurm\nVersion: {version}\nProvides: libslurm.so.{library}()(64bit)",
            "%description\nStand-in.\n%package slurmctld\nSummary: stand-in",
            f"Requires: slurm = {version}-1\n%description slurmctld\nStand-in.\n%install",
            f"install -D {where}/stock.so %{{buildroot}}/{STOCK}\nmkdir -p %{{buildroot}}/usr/sbin",
            f"printf '#!/bin/sh\\necho slurm {version}\\n' > %{{buildroot}}/usr/sbin/slurmctld",
            f"chmod 755 %{{buildroot}}/usr/sbin/*\n%files\n/{STOCK}",
            "%files slurmctld\n/usr/sbin/slurmctld"))

    def system(self):
        """A stand-in of EL: what our packages need and neither they nor Slurm's have."""
        needs = set()
        for path in glob.glob(f"{self.out}/*.rpm"):
            needs |= set(self.sh("rpm", "-qp", "--requires", path).splitlines())
        ours = ("phalanx", "config(phalanx", "rpmlib(", "slurm", "libslurm")
        return self.spec("system", (
            "Name: system\nVersion: 9", *(f"Provides: {need}" for need in sorted(needs)
                                          if not need.startswith(ours)),
            "%description\nStand-in.\n%files"))


@case
def built(suite):
    """rpmbuild makes every package, from the source of a Slurm"""
    programs = ("--programs", suite.args.programs)
    source = sites.archive(sites.source_tree(suite.directory, suite.args.slurm))
    suite.sh("packaging/build-rpm", "--source", source, *programs, suite.out)
    for name in PACKAGES:
        suite.named(name)
    said = suite.sh("packaging/build-rpm", "--source", "README.md", *programs,
                    f"{suite.out}/none", fails=True)
    check("README.md" in said, said)


@case(needs=["built"])
def lint(suite):
    """rpmlint finds no error and no warning"""
    said = suite.sh("rpmlint", "-c", "packaging/rpm/rpmlint.toml", *glob.glob(f"{suite.out}/*.rpm"))
    check(" 0 errors, 0 warnings" in said, said)


@case(needs=["built"])
def files(suite):
    """Every file is where EL expects it, and nothing is in a place of Debian's"""
    everything = []
    for name, expected in PACKAGES.items():
        there = suite.sh("rpm", "-qpl", suite.named(name)).splitlines()
        missing = set(expected) - set(there)
        check(not missing, f"{name}: {missing} not among {there}")
        everything += there
    wrong = [path for path in everything if "x86_64-linux-gnu" in path or "/etc/default" in path
             or "BUILDROOT" in path]
    check(not wrong, f"{wrong}")
    for name in ("phalanx", "phalanx-slurm-plugin-@", "phalanx-spank"):
        needs = suite.sh("rpm", "-qp", "--requires", suite.named(name)).splitlines()
        wrong = [need for need in needs if need.startswith("slurm")]
        check(not wrong, f"{name}: a relation by which dnf exchanges a site's Slurm: {wrong}")


def new_file(path, flags):
    """Opens a program that is new: a link of the tree would lead to a file of the host."""
    return os.open(path, flags | os.O_EXCL, 0o755)


@case(needs=["files"])
def another_slurm(suite):
    """Beside another slurmctld, of whatever package, the plugin does not install and says why"""
    # The tree's own name leads by links of Debian's to the host's file: it is set aside.
    here = suite.path("usr/sbin/slurmctld")
    os.rename(here, f"{here}.aside")
    with open(here, "w", encoding="ascii", opener=new_file) as file:
        file.write("#!/bin/sh\necho slurm 25.11.8\n")
    said = suite.rpm("-i", "--nodeps", suite.named("phalanx-slurm-plugin-@"), fails=True)
    os.rename(f"{here}.aside", here)
    check("slurmctld is 25.11.8 here" in said and f"fits {suite.args.slurm} only" in said, said)


@case(needs=["another-slurm"])
def installed(suite):
    """Installed, they start nothing, change no slurm.conf, and say what to do"""
    suite.configure("")
    suite.rpm("-i", *suite.system(), *suite.slurm(suite.args.slurm))
    said = suite.rpm("-i", *glob.glob(f"{suite.out}/*.rpm"))
    check(PLUGIN_DIR in said and "bf_continue" in said and "systemctl enable" in said, said)
    check("error" not in said.lower() and "warning" not in said.lower(), said)
    with open(suite.path("etc/slurm/slurm.conf"), encoding="utf-8") as file:
        check("PluginDir" not in file.read(), "slurm.conf was changed")
    changed = suite.rpm("-V", *(name.replace("@", suite.args.slurm) for name in PACKAGES))
    check(not changed, changed)
    for name, text in (("phalanxd", "/etc/sysconfig/phalanxd"),
                       ("phalanx-agent", "/etc/sysconfig/phalanx-agent")):
        with open(suite.path(f"usr/lib/systemd/system/{name}.service"), encoding="utf-8") as file:
            check(text in file.read(), f"{name}.service does not read {text}")
    for name in ("usr/lib/tmpfiles.d/phalanx.conf", "usr/share/phalanx/slurm/slurm.conf.fragment"):
        with open(suite.path(name), encoding="utf-8") as file:
            text = file.read()
        check(f"/{OVERLAY_DIR}" in text and "linux-gnu" not in text, f"{name}: {text}")
    owner = os.stat(suite.path("var/lib/phalanx"))
    with open(suite.path("etc/passwd"), encoding="utf-8") as file:
        slurm = next(line.split(":")[2] for line in file if line.startswith("slurm:"))
    check(owner.st_mode & 0o777 == 0o750 and str(owner.st_uid) == slurm, f"{owner}")


@case(needs=["installed"])
def slurm_upgraded(suite):
    """Slurm upgraded under the overlay: rpm's trigger says what to do, once, and breaks nothing"""
    suite.configure(PLUGIN_DIR)
    newer = suite.slurm("23.02.7")
    said = suite.rpm("-U", *newer)
    check(said.count("phalanx: slurmctld was changed") == 1 and "overlay-version" in said
          and "23.02.7" in said and "phalanx-overlay build --source" in said
          and "dnf install phalanx-slurm-plugin-23.02.7" in said, said)
    check(os.path.exists(suite.path(OVERLAY)), "the overlay is gone")
    said = suite.rpm("-U", "--oldpackage", *suite.slurm(suite.args.slurm))
    check("overlay-version" not in said, f"back at the release that fits: {said}")


@case(needs=["slurm-upgraded"])
def library_gone(suite):
    """Slurm upgraded to another major release, whose libslurm has another number: it says so"""
    library = glob.glob(suite.path("usr/lib/*/libslurm.so.38"))[0]
    os.rename(library, library + ".gone")
    newer = suite.slurm("24.05.1", library="41")
    said = suite.rpm("-U", *newer, fails=True)
    check("libslurm.so.38()(64bit) is needed by (installed) phalanx-0" in said, said)
    said = suite.rpm("-U", "--nodeps", *newer)
    os.rename(library + ".gone", library)
    check("does not start with the libslurm" in said and "built for this release" in said, said)
    suite.rpm("-U", "--oldpackage", *suite.slurm(suite.args.slurm))


@case(needs=["library-gone"])
def upgraded(suite):
    """The same packages once more: the message is that of an upgrade"""
    said = suite.rpm("-U", "--force", *glob.glob(f"{suite.out}/*.rpm"))
    check("until it is restarted" in said and PLUGIN_DIR not in said, said)
    check(os.path.exists(suite.path(OVERLAY)), "the overlay is gone")


@case(needs=["upgraded"])
def erased(suite):
    """Erased, the directory stays while a slurm.conf names it, and else nothing is left"""
    names = [name.replace("@", suite.args.slurm) for name in PACKAGES]
    said = suite.rpm("-e", *names)
    there = os.listdir(suite.path(OVERLAY_DIR))
    check("it stays, empty" in said and there == [".named-in-slurm.conf"], f"{said} {there}")
    suite.configure("")
    shutil.rmtree(suite.path("usr/lib64/phalanx"))
    suite.rpm("-i", *glob.glob(f"{suite.out}/*.rpm"))
    suite.rpm("-e", *names)
    left = suite.sh("find", suite.root, "-name", "*phalanx*").split()
    kept = {suite.path(f"var/{name}/phalanx") for name in ("lib", "log")}
    check(set(left) == kept, f"left, beside history and logs: {set(left) - kept}")


def options(parser):
    """What this suite has beside the usual."""
    needed = "--list" not in sys.argv
    parser.add_argument("--tree", required=needed, help="system made by tests/packaging/tree")
    parser.add_argument("--programs", required=needed, help="directory of phalanxd and phalanx")
    parser.add_argument("--slurm", default="22.05.8", metavar="VERSION",
                        help="for which the packages are; its headers are in build/")


@contextlib.contextmanager
def setting(directory, args):
    """A copy of the tree."""
    yield Root(directory, args)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, options), setting))
