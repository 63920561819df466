# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration files of both halves of the judge, below the private root."""

BASE = """\
ClusterName=judge
SlurmctldHost=judge(127.0.0.1)
SlurmUser=slurm
SlurmctldPort=6817
AuthType=auth/munge
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmctldDebug=verbose
SlurmdPidFile=/run/slurm/slurmd-%n.pid
SlurmdLogFile=/var/log/slurm/slurmd.%n.log
SlurmdSpoolDir=/var/spool/slurmd/%n
SlurmdParameters=config_overrides
StateSaveLocation=/var/lib/slurm/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
MpiDefault=none
SchedulerType=sched/backfill
SelectType=select/cons_tres
ReturnToService=1
KillWait=5
InactiveLimit=0
MinJobAge=300
SlurmdTimeout=300
MailProg=/bin/true
"""
# Where a module of pytest begins: it adds nodes and all else by itself. With Slurm's own intervals:
# some tests want to see a job pending before it starts.
SMALL = BASE + """\
SelectTypeParameters=CR_CPU
NodeName=node0 NodeHostname=judge NodeAddr=127.0.0.1 Port=6900 RealMemory=4000
PartitionName=primary Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# The cluster of the Expect programs, which change no configuration.
NODES = [f"n{number}" for number in range(1, 9)]
LARGE = BASE + """\
SchedulerParameters=bf_interval=2,bf_continue,sched_interval=2,batch_sched_delay=1
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu
PriorityType=priority/multifactor
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n[1-8] NodeHostname=judge NodeAddr=127.0.0.1 Port=[7001-7008] Sockets=2 \
CoresPerSocket=4 ThreadsPerCore=1 RealMemory=8000 Gres=gpu:4 Feature=rackA,fast
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=0
"""
LARGE_GRES = "NodeName=n[1-8] Name=gpu File=/dev/tty[0-3]\n"
SLURMDBD = """\
DbdHost=localhost
AuthType=auth/munge
SlurmUser=slurm
DebugLevel=info
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurm/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
"""
SUITE = """\
SlurmSourceDir=/judge/suite
SlurmBuildDir=/judge/build
SlurmInstallDir=/usr
SlurmConfigDir=/etc/slurm
"""
# A program of Expect waits so many seconds for a job that does not start.
GLOBALS = "set max_job_delay 40\n"
PHALANX = """\
mode = "enforce"
[link]
deadline_us = 20000
[source]
poll_ms = 500
[history]
path = "/var/lib/phalanx/history.sqlite"
"""
# What maintainer scripts and an administrator would have written.
SUDOERS = "atf ALL=(ALL:ALL) NOPASSWD: ALL\nroot ALL=(ALL:ALL) NOPASSWD: ALL\n"
PROFILE = "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
