#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cases of packages.py, which run in name spaces and a root directory of their own."""

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import re
import socket
import struct
import subprocess

import standins
from slurmcluster.suite import Cases, Suite, SuiteError, check, until

HOST = "ctl1"
NODES = ("n1", "n2", "n3", "n4")
SIOCSIFFLAGS, SIOCSIFADDR, IFF_UP = 0x8914, 0x8916, 1
ADDRESS = "127.1.1.1"   # with 127.0.0.1 alone, getaddrinfo() takes the host to have no network
WAIT_S = 60.0
LOGS = ("/var/log/slurm/slurmctld.log", "/var/log/slurm/slurmd-n1.log",
        "/var/log/phalanx/phalanxd.log")
SLURM_CONF = """\
ClusterName=pkg
SlurmctldHost=ctl1
SlurmUser=slurm
SlurmdUser=root
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/spool/slurmd-%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
ReturnToService=2
NodeName=n[1-4] NodeHostname=ctl1 Port=[17001-17004] CPUs=8 RealMemory=8000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# Not of Phalanx: what apt, dpkg, Slurm and the C library write as they work.
NOISE = re.compile(r"/(proc|sys|dev|run|tmp|debs)(/|$)"
                   r"|/var/(log|spool|cache|tmp|lib/(slurm|dpkg|apt|munge|systemd|init.d))(/|$)"
                   r"|/var/lib/systemd|/etc/(ld.so.cache|rc\w\.d)|/root/")


case = Cases()


def ok(condition, text, more=""):
    """Prints what holds; raises SuiteError with what does not."""
    check(condition, f"{text}{': ' + str(more) if more != '' else ''}")
    print(f"    {text}", flush=True)


def sh(command, check=True, timeout=120):
    """Runs a shell command; returns its output, standard error included."""
    done = subprocess.run(["sh", "-c", command], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=timeout)
    if check and done.returncode:
        raise SuiteError(f"{command}: exit {done.returncode}: {done.stdout[-2000:]}")
    return done.stdout


def wait(condition, what):
    """Waits until something is true; raises SuiteError if it does not become so."""
    until(condition, what, WAIT_S, every=0.2)


def enter(tree):
    """Host name, loopback, mounts and root directory of the copy."""
    socket.sethostname(HOST)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
        fcntl.ioctl(device, SIOCSIFADDR, struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0,
                                                     socket.inet_aton(ADDRESS)))
    for command in ("mount --make-rprivate /", f"mount -t proc proc {tree}/proc",
                    f"mount --rbind /dev {tree}/dev", f"mount -t tmpfs tmpfs {tree}/run",
                    f"mount --rbind /sys {tree}/sys"):
        sh(command)
    os.chroot(tree)
    os.chdir("/")
    os.environ.clear()
    os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL="C.UTF-8",
                      DEBIAN_FRONTEND="noninteractive", HOME="/root")
    os.makedirs("/run/lock", exist_ok=True)
    write("/etc/hosts", f"127.0.0.1 localhost\n{ADDRESS} {HOST}\n")


def write(path, text):
    """Writes a file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def configure(*lines):
    """slurm.conf, with more lines."""
    if not any(line.startswith("PluginDir=") for line in lines):
        lines = f"PluginDir={stock_dir()}", *lines
    write("/etc/slurm/slurm.conf", SLURM_CONF + "".join(f"{line}\n" for line in lines))


def start_slurm():
    """munge and Slurm as Debian's own init scripts and programs start them."""
    sh("install -d -o munge -g munge -m 755 /run/munge && service munge start")
    configure()
    if "slurm-wlm 22." not in sh("slurmd -V"):
        write("/etc/slurm/cgroup.conf", "CgroupPlugin=disabled\n")
    sh("service slurmctld start")
    for node in NODES:
        sh(f"mkdir -p /var/spool/slurmd-{node} && slurmd -N {node}")
    wait(lambda: sh("sinfo -h -t idle -o %D", check=False).strip() == "4", "four idle nodes")


def submit(seconds, options=""):
    """A job of so many seconds."""
    line = sh(f"cd /tmp && sbatch --parsable -o /dev/null {options} --wrap 'sleep {seconds}'")
    return line.strip().splitlines()[-1]


def state(job):
    """State of a job as squeue says."""
    return sh(f"squeue -h -t all -j {job} -o %T", check=False).strip()


def pids(name):
    """Process ids by program name."""
    return set(sh(f"pgrep -x {name}", check=False).split())


def steps_of_jobs():
    """The processes of the long jobs, which nothing may end."""
    return set(sh("pgrep -f '^sleep 600'", check=False).split())


def status():
    """`phalanx status --json`, empty without an answer."""
    try:
        return json.loads(sh("phalanx status --json", check=False))
    except ValueError:
        return {}


def plugin(key):
    """One field of the plugin's status."""
    return status().get("plugin", {}).get(key)


def files():
    """Every path that packages leave behind, but for the noise of others."""
    found = set()
    for base, directories, names in os.walk("/"):
        directories[:] = [d for d in directories if not NOISE.match(os.path.join(base, d) + "/")]
        found |= {os.path.join(base, name) for name in directories + names}
    return {path for path in found if not NOISE.match(path)}


def digest(path):
    """Checksum of a file."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def apt_install():
    """apt install of all packages, as an administrator does it."""
    return sh("cd /debs && apt-get -y -q --no-install-recommends install ./*.deb", timeout=300)


def stock_dir():
    """The directory of Slurm's plugins: Debian's or SchedMD's."""
    found = [name for place in ("slurm-wlm", "slurm")
             for name in glob.glob(f"/usr/lib/*/{place}/select_cons_tres.so")]
    return os.path.dirname(found[0])


def triplet_dir():
    """The overlay's directory."""
    return os.path.join(os.path.dirname(stock_dir()), "phalanx/slurm")


class System(Suite):
    """The fresh system: its files before anything was installed, and the jobs that run there."""

    def __init__(self):
        super().__init__()
        self.before, self.running = files(), submit(600)
        self.jobs = [self.running]
        wait(lambda: state(self.running) == "RUNNING", "a job by stock")

    def why(self):
        """The ends of the logs."""
        return "\n".join(f"--- {log}\n{sh(f'tail -n 15 {log}', check=False)}" for log in LOGS)


@case
def install(system):
    """Installing changes nothing of Slurm and starts nothing."""
    before, conf = pids("slurmctld"), digest("/etc/slurm/slurm.conf")
    said = apt_install()
    ok(f"PluginDir={triplet_dir()}:" in said and "bf_continue" in said,
       "apt install prints the two lines for slurm.conf", said[-1500:])
    ok(before == pids("slurmctld") and conf == digest("/etc/slurm/slurm.conf"),
       "slurmctld was not restarted and slurm.conf not changed")
    ok(not pids("phalanxd"), "the daemon was not started")
    ok(state(system.running) == "RUNNING", "the job runs on")
    for page in ("phalanx.1", "phalanxd.8", "phalanx.toml.5"):
        ok(glob.glob(f"/usr/share/man/man{page[-1]}/{page}.gz"), f"manual page {page}")


def add_lines():
    """The two lines, at the end of slurm.conf."""
    configure(f"PluginDir={triplet_dir()}:{stock_dir()}", "SchedulerParameters=bf_continue")


def placed_jobs():
    """Jobs that run, four of them on the daemon's nodes; a busy machine may miss a deadline."""
    jobs = []
    while len(jobs) < 12 and status()["run_now"]["narrowed"] < 4:
        jobs += [submit(600, "-n1 -c1") for _ in range(4)]
        wait(lambda: all(state(job) == "RUNNING" for job in jobs), "new jobs run")
        wait(lambda: status()["run_now"]["asked"] >= len(jobs), "slurmctld asked for each")
    ok(status()["run_now"]["narrowed"] >= 4, "jobs placed on the daemon's nodes", status())
    return jobs


def set_mode(mode):
    """The mode of all partitions, in the file and in the daemon if it runs."""
    sh(f"sed -i '0,/^mode = /s/^mode = .*/mode = \"{mode}\"/' /etc/phalanx/phalanx.toml")
    sh("phalanx daemon check")
    if pids("phalanxd"):
        sh("service phalanxd reload")
        wait(lambda: status().get("config", {}).get("mode") == mode, f"mode {mode}")


def read(command, *words):
    """Shows what an administrator reads; returns it. It has to have these words."""
    said = sh(command)
    print("".join(f"      {line}\n" for line in (f"$ {command}", *said.splitlines())), end="")
    for word in words:
        ok(word in said, f"{command} says {word!r}")
    return said


def placed_here():
    """Whether Phalanx placed one more job on two nodes, by what is told of it."""
    job = submit(1, "-N2")
    wait(lambda: state(job) in ("COMPLETED", ""), "a job on two nodes ends")
    return "Phalanx decided" in read(f"phalanx explain {job}")


@case(needs=["install"])
def shadow(system):
    """First look, then enforce: as the README has it, its outputs as they are read."""
    with open("/etc/phalanx/phalanx.toml", encoding="utf-8") as file:
        ok('\nmode = "shadow"\n' in file.read(), "the packages ship mode shadow")
    add_lines()
    sh("service phalanxd start")
    sh("service slurmctld restart")
    wait(lambda: plugin("connected") and plugin("synced"), "plugin connected and synchronised")
    jobs = [submit(1, "-n2") for _ in range(8)]
    wait(lambda: all(state(job) in ("COMPLETED", "") for job in jobs), "eight jobs end")
    wait(lambda: status()["run_now"]["asked"] >= len(jobs), "slurmctld asked for each")
    ok(not status()["run_now"]["narrowed"], "in shadow no job is placed")
    wait(lambda: json.loads(sh("phalanx report shadow --json"))["starts"] >= len(jobs) // 2,
         "starts have a decision beside them")
    read("phalanx status", "shadow", "connected")
    read("phalanx report shadow")
    read("phalanx report --since 1d")
    set_mode("enforce")
    # On a busy machine an answer may be late, and Slurm places that job.
    wait(placed_here, "a job on two nodes that Phalanx placed")
    read("phalanx nodes")
    ok(state(system.running) == "RUNNING", "the older job runs on")


@case(needs=["install"])
def use(system):
    """Two lines, no systemctl: jobs are placed by Phalanx."""
    add_lines()
    sh("service phalanxd start")
    sh("service slurmctld restart")
    wait(lambda: plugin("connected") and plugin("synced"), "plugin connected and synchronised")
    ok(True, "started without systemctl, the plugin is connected")
    jobs = placed_jobs()
    ok(state(system.running) == "RUNNING", "jobs are placed, the older one runs on")
    sh("service phalanxd reload && service phalanxd status")
    # Exit status 1: warnings only.
    done = sh("phalanx doctor --json > /tmp/doctor.json; echo $?").split()[-1]
    with open("/tmp/doctor.json", encoding="utf-8") as file:
        report = json.load(file)
    ok(done in ("0", "1") and not report["errors"], "phalanx doctor finds no error", report)
    system.jobs += jobs


@case(needs=["use"])
def upgrade(_system):
    """Installing the same packages again restarts the daemon only."""
    slurmctld, daemon = pids("slurmctld"), pids("phalanxd")
    sh("cd /debs && apt-get -y -q --no-install-recommends --reinstall install ./*.deb",
       timeout=300)
    now = pids("phalanxd")
    ok(slurmctld == pids("slurmctld") and len(now) == 1 and daemon != now,
       "an upgrade restarts phalanxd and not slurmctld")
    wait(lambda: plugin("connected") and plugin("synced"), "plugin connected again")


@case(needs=["use"])
def purge(system):
    """Purging under running jobs: they run on, Slurm alone schedules, nothing is left."""
    jobs = system.jobs
    slurmctld, processes = pids("slurmctld"), steps_of_jobs()
    said = sh("apt-get -y -q purge --auto-remove 'phalanx*'", timeout=300)
    ok(not pids("phalanxd") and slurmctld == pids("slurmctld"),
       "apt purge ends the daemon and leaves slurmctld",
       f"{pids('phalanxd')} {slurmctld} {pids('slurmctld')} {said[-2000:]}")
    ok(processes and processes == steps_of_jobs() and all(state(j) == "RUNNING" for j in jobs),
       "no job was interrupted")
    # slurm.conf still has the line: every program of Slurm must go on.
    ok(os.path.isdir(triplet_dir()), "the directory stays while slurm.conf names it")
    quick = submit(0)
    wait(lambda: state(quick) == "COMPLETED", "a job without Phalanx, slurmctld as it was")
    sh("service slurmctld restart")
    quick = submit(0)
    wait(lambda: state(quick) == "COMPLETED", "a job by stock after a restart")
    configure()
    sh(f"service slurmctld restart && rm -r {os.path.dirname(triplet_dir())}")
    quick = submit(0)
    wait(lambda: state(quick) == "COMPLETED", "a job by stock without the line")
    ok(processes == steps_of_jobs() and all(state(job) == "RUNNING" for job in jobs),
       "stock again, jobs never interrupted")
    left = files() - system.before
    ok(not left, "purge leaves nothing", sorted(left)[:20])


@case(needs=["purge"])
def purge_in_order(system):
    """The documented order, lines out first: purge alone leaves nothing."""
    apt_install()
    sh("apt-get -y -q purge --auto-remove 'phalanx*'", timeout=300)
    left = files() - system.before
    ok(not left, "with the lines out first, purge leaves nothing either", sorted(left)[:20])


@contextlib.contextmanager
def setting(tree, smd=False):
    """Enters the copy of the tree; everything ends with the name space of its processes."""
    enter(tree)
    if smd:
        standins.replace(sh, sh("slurmctld -V").split()[-1] + "-1")
    start_slurm()
    yield System()
