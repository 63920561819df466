# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster and the HDFS on which data_jobs.py runs jobs, and what their tasks tell."""

import collections
import contextlib
import json
import os

from minihdfs import MiniHdfs
from slurmcluster import Cluster
from slurmcluster.conf import PROMPT, write_config
from slurmcluster.paths import Paths
from slurmcluster.phalanx import phalanx, phalanx_json
from slurmcluster.ports import free_ports
from slurmcluster.release import Release
from slurmcluster.suite import Suite

HERE = os.path.dirname(os.path.realpath(__file__))
COUNT = 12
NAMES = [f"n{i}" for i in range(1, COUNT + 1)]
HOLDERS = ["n5", "n8", "n9", "n11"]
# A DataNode that is no node.
STRANGER = "elsewhere"
# Those of the largest file.
BIG = ["n1", "n3", "n4", "n6", "n7", "n9", "n10", "n12"]
NODES = f"""\
NodeName=n[1-{COUNT}] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=8000
PartitionName=main Nodes=n[1-{COUNT}] Default=YES MaxTime=INFINITE State=UP
PartitionName=stock Nodes=n[1-{COUNT}] MaxTime=INFINITE State=UP
"""
BLOCK = 64 << 10
HUGE = 100_000
WORDCOUNT = os.path.join(HERE, "..", "..", "config", "examples", "wordcount.py")
SCRIPTS = os.path.join(HERE, "..", "..", "config", "slurm")
LOCAL_MIN = 0.95
CONFIG = PROMPT + """\
[control]
listen = "127.0.0.1:{port}"
[partition.stock]
mode = "off"
[hdfs]
conf_dirs = ["{conf}"]
cache_s = 2
{limits}
# All jobs here are of one user, who waits far more than the default allows; and on a busy machine
# a lookup takes long.
[data_jobs]
hold_budget_s = 3600
wait_ms = 60000
"""
# A lookup ends well however busy the machine is.
PATIENT = "job_ms = 50000"


class Data(Suite):
    """The cluster and the file system."""

    def __init__(self, cluster, hdfs, root):
        super().__init__(cluster)
        self.hdfs, self.root, self.jobs = hdfs, root, 0
        self.masters, self.task_options = "", []
        self.program = os.path.join(cluster.paths.bin_dir, "phalanx")

    def submit(self, declared, *options, command=None, stock=False, words=False):
        """A job whose tasks write what they read; returns its id."""
        self.jobs += 1
        out = os.path.join(self.root, f"out-{self.jobs}")
        os.makedirs(out)
        argv = ["python3", os.path.join(HERE, "data_task.py"), out, self.hdfs_url()]
        if stock:
            argv += ["--stock", declared.split(";")[0]]
        if words:
            argv.append("--words")
        argv += self.task_options
        task = " ".join(argv)
        comment = ["-p", "stock"] if stock else [f"--comment=hdfs-input={declared}"]
        setup = f"export PHALANX={self.program} PHALANX_JOBS_DIR={self.root}/jobs; "
        job = self.cluster.submit("-t2", "-o", f"{out}/log", *comment, *options,
                                  wrap=setup + (command or "srun TASK").replace("TASK", task))
        return job, out

    @contextlib.contextmanager
    def settings(self, old, new):
        """The daemon under a configuration with another line."""
        path = self.cluster.paths.phalanx_toml
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for lines in (text.replace(old, new), text):
            with open(path, "w", encoding="utf-8") as file:
                file.write(lines)
            phalanx(self.cluster, "daemon", "reload")
            if lines != text:
                yield

    def hdfs_url(self):
        """WebHDFS of the first NameNode."""
        return f"http://127.0.0.1:{self.hdfs.http[self.hdfs.namenodes[0]]}"

    def run(self, declared, *options, command=None, stock=False, size=None, tasks=None,
            words=False):
        """Runs a job; returns (record, rows of all tasks, its explanation)."""
        job, out = self.submit(declared, *options, command=command, stock=stock,
                               words=words)
        record = self.cluster.wait_jobs([job], timeout=90)[0]
        explained = None if stock else phalanx_json(self.cluster, "explain", str(job))
        rows = self.rows(out)
        told = sum(name.startswith("task-") for name in os.listdir(out))
        log = open(f"{out}/log", encoding="utf-8", errors="replace").read()[-600:]
        self.expect(record["JobState"] == "COMPLETED", f"{declared}: {record['JobState']}: {log}")
        if tasks is not None:
            self.expect(told == tasks, f"{declared}: {told} tasks told, expected {tasks}: {log}")
        if size is not None:
            self.covers(rows, size, declared)
        return record, rows, explained

    def rows(self, out):
        """What the tasks of a job have written."""
        rows = []
        for name in sorted(os.listdir(out)):
            if name.startswith("task-"):
                with open(os.path.join(out, name), encoding="utf-8") as file:
                    rows += json.load(file)
        return rows

    def covers(self, rows, size, what):
        """Every byte of the input in exactly one row. `size`: bytes by path."""
        ends = collections.Counter()
        for row in sorted(rows, key=lambda row: (row["path"], row["offset"])):
            path = row["path"]
            if not self.expect(row["offset"] == ends[path],
                               f"{what}: {path} read up to {ends[path]}, then from "
                               f"{row['offset']}"):
                return
            ends[path] += row["length"]
        self.expect(dict(ends) == size, f"{what}: read {dict(ends)}, expected {size}")

    def share(self, rows):
        """Part of the bytes that the reading node holds, by the NameNode's word."""
        total = sum(row["length"] for row in rows)
        return sum(row["length"] for row in rows if row["local"]) / max(total, 1)

    def near(self, what, declared, *options, size, tasks):
        """Local share of a job on Phalanx and on stock; the first must be high."""
        self.cluster.wait_idle()
        record, rows, explained = self.run(declared, *options, size=size, tasks=tasks)
        share = self.share(rows)
        _, stock_rows, _ = self.run(declared, *options, stock=True, size=size, tasks=tasks)
        stock = self.share(stock_rows)
        print(f"    {what}: {100 * share:.1f} % local on {record['NodeList']}, "
              f"stock {100 * stock:.1f} %", flush=True)
        self.expect(share >= LOCAL_MIN, f"{what}: {share:.3f} local on {record['NodeList']}: "
                    f"{explained['input']}")
        told = (explained["input"] or {}).get("local_share")
        self.expect(told is not None and abs(told - share) < 1e-6,
                    f"{what}: explain says {told}, the tasks {share}")
        return record, share, stock


def extra(root, bin_dir, masters):
    """Lines of slurm.conf: the shipped scripts, told where this test has things.

    They know no control socket, as on hosts without a daemon, and the first of their two
    addresses is that of a controller that is down.
    """
    lines = ["SchedulerParameters=bf_interval=1,bf_resolution=1,sched_min_interval=200000,"
             "batch_sched_delay=0,bf_yield_interval=100000"]
    lines.append("JobSubmitPlugins=lua")
    jobs = os.path.join(root, "jobs")
    os.makedirs(jobs)
    for key, name in (("Prolog", "phalanx-prolog"), ("Epilog", "phalanx-epilog"),
                      ("TaskProlog", "phalanx-task-prolog")):
        path = os.path.join(root, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexport PHALANX={bin_dir}/phalanx PHALANX_JOBS_DIR={jobs}\n"
                       f"export PHALANX_MASTER={masters}\n"
                       f"exec {SCRIPTS}/{name}\n")
        os.chmod(path, 0o755)
        lines.append(f"{key}={path}")
    return lines


def files(paths):
    """Files beside slurm.conf."""
    with open(os.path.join(SCRIPTS, "job_submit.lua"), encoding="utf-8") as file:
        script = file.read()
    spank = os.path.join(paths.overlay_source, "spank_phalanx.so")
    return {"job_submit.lua": script, "plugstack.conf": f"optional {spank}\n"}


def write_files(hdfs):
    """The inputs. One file on chosen nodes: the other DataNodes are started after it."""
    hdfs.nodes = HOLDERS
    hdfs.start()
    hdfs.tool(f"create /data/one {64 * BLOCK} {BLOCK} 1")
    for i, (node, count) in enumerate(zip(HOLDERS, (40, 10, 6, 4))):
        hdfs.tool(f"create /data/skew/f{i} {count * BLOCK} {BLOCK} 1 {hdfs.datanode(node)}")
        hdfs.tool(f"create /data/even/f{i} {16 * BLOCK} {BLOCK} 1 {hdfs.datanode(node)}")
    for name in NAMES:
        if name not in HOLDERS:
            hdfs.start_datanode(name)
    hdfs.nodes = NAMES
    hdfs.wait(lambda: hdfs.live() == COUNT, "all DataNodes")
    hdfs.tool(f"create /data/wide {96 * BLOCK} {BLOCK} 1")
    hdfs.tool(f"create /data/three {72 * BLOCK} {BLOCK} 3")
    hdfs.start_datanode(STRANGER)
    hdfs.wait(lambda: hdfs.live() == COUNT + 1, "the last DataNode")
    for i, node in enumerate(("n9", STRANGER)):
        hdfs.tool(f"create /data/away/f{i} {BLOCK} {BLOCK} 1 {hdfs.datanode(node)}")


@contextlib.contextmanager
def started(root, hdfs):
    """The file system with its files, and the cluster on it."""
    with contextlib.closing(hdfs):
        write_files(hdfs)
        port, down = free_ports(2)
        masters = f"http://127.0.0.1:{down},http://127.0.0.1:{port}"
        place = os.path.join(root, "c")
        paths = Paths(place, Release())
        config = write_config(place, CONFIG.format(port=port, conf=hdfs.conf, limits=PATIENT))
        with Cluster(place, nodes=NODES, config=config, files=files(paths),
                     extra=extra(root, paths.bin_dir, masters)) as cluster:
            suite = Data(cluster, hdfs, root)
            suite.masters = masters
            yield suite


def file_system(root, **more):
    """The HDFS, not yet started."""
    return MiniHdfs(os.path.join(root, "hdfs"), [*NAMES, STRANGER], block_size=BLOCK, **more)
