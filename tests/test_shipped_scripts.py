#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts that packages ship, under each awk and shell that a node may have.

A collector prints a number or ends with another status than 0, whatever the tool that it asks
prints; prolog and epilog never fail. Tools are programs of the test in PATH.
"""

import contextlib
import glob
import itertools
import os
import re
import shutil
import subprocess
import sys

from slurmcluster.suite import Cases, Suite, check, command_line, run

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COLLECTORS = os.path.join(TOP, "config", "collectors")
NUMBER = r"-?[0-9.]+(e[-+]?[0-9]+)?"
# What nvidia-smi prints for a query, and the hottest of what is a number there.
ANSWERS = (
    ("45\n61\n58\n", "61"), ("45\n[GPU is lost]\n61\n", "61"), ("[N/A]\n45\n", "45"),
    ("ERR!\n9\n10\n", "10"), ("[N/A]\n", None), ("", None), ("Unknown Error\n", None),
    ("0\n", "0"), ("No devices were found\n", None),
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", None),
    ("45 %\n[Not Supported]\n", "45"),
)
LIST = ("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)\n  MIG 1g.5gb      Device  0: (UUID: MIG-b)\n"
        "GPU 1: Tesla V100 (UUID: GPU-c)\n")
case = Cases()


def gawk():
    """The program gawk: the host's, else one unpacked from Debian's packages, which installs no
    alternative to the host's awk; and where its libraries are."""
    found = shutil.which("gawk")
    if found:
        return found, ""
    tools = os.path.join(TOP, "build", "tools", "gawk")
    if not os.path.exists(f"{tools}/usr/bin/gawk"):
        os.makedirs(tools, exist_ok=True)
        subprocess.run(["apt-get", "download", "-q", "gawk", "libsigsegv2", "libmpfr6"],
                       cwd=tools, check=True, capture_output=True)
        for deb in glob.glob(f"{tools}/*.deb"):
            subprocess.run(["dpkg-deb", "-x", deb, tools], check=True)
    return f"{tools}/usr/bin/gawk", ":".join(glob.glob(f"{tools}/usr/lib/*-linux-gnu"))


class Scripts(Suite):
    """A directory of tools for each awk."""

    def __init__(self, scratch):
        super().__init__()
        self.scratch = scratch
        program, self.libraries = gawk()
        self.awks = {}
        for name, target in (("gawk", program), ("mawk", "/usr/bin/mawk"),
                             ("busybox", "/usr/bin/busybox")):
            check(os.path.exists(target), f"no {target}")
            where = os.path.join(self.scratch, name)
            os.mkdir(where)
            os.symlink(target, os.path.join(where, "awk"))
            self.awks[name] = where
        self.shells = ["/bin/dash", "/bin/bash", f"{self.scratch}/busybox/sh"]
        os.symlink("/usr/bin/busybox", self.shells[2])

    def each(self):
        """Every awk with every shell."""
        return itertools.product(self.awks.items(), self.shells)

    def tool(self, name, text, status=0):
        """Makes a tool that prints a text and ends with a status."""
        path = os.path.join(self.scratch, name)
        with open(f"{path}.out", "w", encoding="utf-8") as file:
            file.write(text)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\ncat {path}.out\nexit {status}\n")
        os.chmod(path, 0o755)

    def run(self, awk, shell, script, *words, **more):
        """Runs a shipped script; its status and what it printed."""
        env = {"PATH": f"{awk}:{self.scratch}:/usr/bin:/bin", "LANG": "de_DE.UTF-8",
               "LD_LIBRARY_PATH": self.libraries, **more}
        done = subprocess.run([shell, script, *words], text=True, env=env, check=False,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
        return done.returncode, done.stdout, done.stderr


def number_or_status(said, expected, where):
    """Holds that a collector printed this number, or nothing and another status than 0."""
    status, out, err = said
    if expected is None:
        check(status != 0 and not out, f"{where}: {status} {out!r} {err!r}")
    else:
        check(status == 0 and re.fullmatch(NUMBER, out.strip()), f"{where}: {said}")
        check(expected == "any" or out.strip() == expected, f"{where}: {said}, not {expected}")


@case
def temperature(suite):
    """The hottest GPU that tells a temperature; no value where none does"""
    script = f"{COLLECTORS}/gpu_temperature"
    for (name, awk), shell in suite.each():
        for text, expected in ANSWERS:
            for status in (0, 9):
                suite.tool("nvidia-smi", text, status)
                number_or_status(suite.run(awk, shell, script), expected, (name, shell, text))


@case
def numbers(suite):
    """Load, free space and a program's own number; no value where there is none"""
    speed = os.path.join(suite.scratch, "speed")
    for (name, awk), shell in suite.each():
        where = (name, shell)
        number_or_status(suite.run(awk, shell, f"{COLLECTORS}/load"), "any", where)
        suite.tool("getconf", "undefined\n")
        number_or_status(suite.run(awk, shell, f"{COLLECTORS}/load"), None, where)
        os.remove(os.path.join(suite.scratch, "getconf"))
        free = f"{COLLECTORS}/disk_free_gib"
        number_or_status(suite.run(awk, shell, free, "/tmp"), "any", where)
        number_or_status(suite.run(awk, shell, free, "/none"), None, where)
        for text, expected in (("12.5\n", "12.5"), ("3e4\n", "3e4"), ("", None), ("ERR!\n", None),
                               ("[N/A]\n", None), ("nan\n", None), ("7 items\n", "7")):
            with open(speed, "w", encoding="utf-8") as file:
                file.write(text)
            said = suite.run(awk, shell, f"{COLLECTORS}/items_per_s", speed)
            number_or_status(said, expected, (*where, text))
        number_or_status(suite.run(awk, shell, f"{COLLECTORS}/items_per_s"), None, where)


@case
def throughput(suite):
    """A line for each GPU or slice; no lines where list or benchmark is not what it should be"""
    script, bench = f"{COLLECTORS}/gpu_throughput", os.path.join(suite.scratch, "bench")
    for (name, awk), shell in suite.each():
        for text, status, value, expected in (
                (LIST, 0, "12.5\n", ["nvidia_a100_1g.5gb 12.5", "tesla_v100 12.5"]),
                (LIST, 0, "ERR!\n", None), (LIST, 0, "", None), (LIST, 9, "1\n", None),
                ("NVIDIA-SMI has failed because it couldn't communicate\n", 0, "1\n", None),
                ("No devices found.\n", 6, "1\n", None), ("", 0, "1\n", None)):
            suite.tool("nvidia-smi", text, status)
            suite.tool("bench", value)
            status, out, err = suite.run(awk, shell, script, bench)
            where = f"{name} {shell} {text!r} {value!r}: {status} {out!r} {err!r}"
            check((status == 0) == (expected is not None), where)
            check(expected is None or out.splitlines() == expected, where)
            check(expected is not None or (not out and err), where)


@case
def prologs(suite):
    """Prolog and epilog end with 0 though the program fails, prints words, or is not there"""
    for (name, awk), shell in suite.each():
        for status, program in ((0, "phalanx"), (1, "phalanx"), (0, "none")):
            suite.tool("phalanx", "a word\n", status)
            for script in ("phalanx-prolog", "phalanx-epilog", "phalanx-task-prolog"):
                done = suite.run(awk, shell, f"{TOP}/config/slurm/{script}", SLURM_JOB_ID="1",
                                 PHALANX=os.path.join(suite.scratch, program),
                                 PHALANX_JOBS_DIR=suite.scratch)
                check(done[0] == 0, f"{script} by {shell} with {name}: {done}")


@case
def web_app(suite):
    """The app of Open OnDemand shows each waiting job, escapes words, and says what failed"""
    app = "import passenger_wsgi; print(b''.join(passenger_wsgi.application({}, print)).decode())"
    job, waits = "7|main|<b>|x\n", '{"pending": {"summary": "1 < 2", "start_ms": [0, 60000]}}'
    for squeue, phalanx, code, expected in (
            (job, waits, 0, ("200 OK", "<td>7<td>main<td>&lt;b&gt;|x<td>1 &lt; 2<td>", " to ")),
            (job, '{"pending": null}', 0, ("200 OK", "It has started")),
            (job, "a word", 0, ("200 OK", "not known")), (job, "{}", 0, ("200 OK", "not known")),
            (job, "", 4, ("200 OK", "not known: phalanx ended with 4")),
            (40 * job, waits, 0, ("200 OK", "And 10 more")),
            ("", "", 4, ("200 OK", "No job of yours waits")), (None, waits, 0, ("503 ", "squeue"))):
        suite.tool("squeue", squeue or "", 0 if squeue is not None else 1)
        suite.tool("phalanx", phalanx, code)
        done = subprocess.run(
            [sys.executable, "-B", "-c", app], cwd=f"{TOP}/config/ondemand", check=False, text=True,
            capture_output=True, timeout=60, env={"PATH": f"{suite.scratch}:/usr/bin:/bin"})
        check(all(part in done.stdout for part in expected), f"{expected}: {done}")


@case
def all_shells(_suite):
    """Every shell script among the collectors is run by a case of this file"""
    with open(__file__, encoding="utf-8") as file:
        text = file.read()
    for path in glob.glob(f"{COLLECTORS}/*"):
        with open(path, encoding="utf-8") as file:
            shell = file.readline().strip() == "#!/bin/sh"
        check(not shell or f"/{os.path.basename(path)}\"" in text, f"{path} is not run")


@contextlib.contextmanager
def setting(root, _args):
    """The tools are in the directory of the run."""
    os.makedirs(root, exist_ok=True)
    yield Scripts(root)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
