#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""phalanx is one program for every release of Slurm, and for hosts without Slurm.

    tests/standalone.py [--program target/debug/phalanx] [--control target/debug/phalanxd]

Goal: the command line needs the C library and no other; it compiles nothing of the daemon; and
`doctor`, `daemon check`, `simulate` and `solve` run where nothing else is installed.

Method: `readelf -d`, `cargo tree`, and a root directory with the program, the libraries that ldd
names and the inputs. The control is a program that is linked with libslurm: each check of a
program must fail for it, or nothing was checked.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Parts of the C library and of the compiler's runtime.
ALLOWED = re.compile(r"(libc|libm|libgcc_s|ld-linux[\w-]*)\.so\.\d+$")
# Crates of the daemon, of its server and its database, and of libslurm.
FOREIGN = {"axum", "rusqlite", "libsqlite3-sys", "phalanx-service", "phalanx-slurm"}
LOG = os.path.join(TOP, "tests/data/KTH-SP2-1996-2.swf.zst")
PROBLEM = {"dimensions": ["cpu"], "nodes": [{"name": "a", "total": [4], "used": [0]}],
           "jobs": [{"id": "1", "request": [2]}]}


class Failed(Exception):
    """A check that did not hold."""


def check(holds, said):
    """Fails with this text."""
    if not holds:
        raise Failed(said)


def output(*words):
    """Standard output of a program that must end well."""
    return subprocess.run(words, cwd=TOP, stdout=subprocess.PIPE, text=True, check=True).stdout


def needed(program):
    """Only libraries that every host has are named as needed."""
    names = re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", program))
    foreign = sorted(name for name in names if not ALLOWED.match(name))
    check(names and not foreign, f"{program} needs {foreign or 'nothing, which cannot be'}")


def crates(package):
    """No crate of the daemon is compiled for a package."""
    cargo = os.environ.get("CARGO", "cargo")
    lines = output(cargo, "tree", "--locked", "-p", package, "-e", "normal", "--prefix", "none")
    foreign = sorted(FOREIGN & {line.split()[0] for line in lines.splitlines() if line.split()})
    check(not foreign, f"{package} compiles {foreign}")


def empty_root(root, program):
    """A root directory with the program and what it is linked with, where every host has it."""
    inputs = (program, "/program"), (LOG, "/log.swf.zst"), \
             (os.path.join(TOP, "config/phalanx.toml"), "/phalanx.toml")
    for path, name in inputs:
        shutil.copy(path, root + name)
    for path in re.findall(r"(/\S+)", output("ldd", program)):
        if ALLOWED.match(os.path.basename(path)):
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, root + path)


def inside(root, *words, said=""):
    """Runs the program in the root directory, without an environment."""
    become = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
    return subprocess.run([*become, "chroot", root, "/program", *words], input=said, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})


def expect(done, code):
    """Its output as JSON."""
    check(done.returncode == code and not done.stderr,
          f"{done.args[3:]}: {done.returncode}: {done.stderr}{done.stdout[-500:]}")
    return json.loads(done.stdout)


def runs(program):
    """The commands that need no daemon run in a root directory without Slurm."""
    with tempfile.TemporaryDirectory() as root:
        empty_root(root, program)
        findings = expect(inside(root, "doctor", "--json"), 2)["findings"]
        wrong = {each["check"] for each in findings if each["level"] == "error"}
        check("slurm-conf" in wrong, f"doctor finds {findings}")
        checked = expect(inside(root, "config", "check", "/phalanx.toml", "--json"), 0)
        check(checked["ok"], f"{checked}")
        figures = expect(inside(root, "simulate", "--jobs", "/log.swf.zst", "--policy", "easy"), 0)
        check(figures["jobs"] > 20000, f"{figures}")
        solved = expect(inside(root, "solve", "balance", "-", said=json.dumps(PROBLEM)), 0)
        check(solved["placements"][0]["nodes"] == ["a"], f"{solved}")


def refused(step, control):
    """A step must fail for the control."""
    try:
        step(control)
    except Failed as why:
        return print(f"{step.__name__}: refuses the control: {why}")
    raise Failed(f"{step.__name__}: nothing is found wrong with {control}")


def main():
    """All checks; the control is last."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    there = os.environ.get("PHALANX_BIN_DIR", os.path.join(TOP, "target/debug"))
    parser.add_argument("--program", default=os.path.join(there, "phalanx"))
    parser.add_argument("--control", default=os.path.join(there, "phalanxd"))
    args = parser.parse_args()
    try:
        crates("phalanx-cli")
        refused(crates, "phalanx-service")
        for step in needed, runs:
            step(args.program)
            refused(step, args.control)
    except Failed as why:
        sys.exit(f"standalone: {why}")
    print("standalone: phalanx needs neither Slurm nor the daemon")


if __name__ == "__main__":
    main()
