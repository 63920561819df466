# SPDX-License-Identifier: GPL-3.0-or-later
"""The block locations that `phalanx data` reads from a real HDFS.

Goal: what the client tells is what the NameNode has: files, directories, patterns, replicas on the
DataNodes where they were put, erasure-coded groups, open files, unreadable blocks; of files that
the user may not read nothing; only configured NameNodes are asked; a dead or standby NameNode is
passed over. Both protocols, and both ends of the range of Hadoop releases.

Method: files are written with every replica on chosen DataNodes (HdfsTool.java), DataNodes are
killed, the active NameNode is killed; each time the JSON of `phalanx data ls|check` is held
against what was written.
"""

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys

from minihdfs import NEW, OLD, MiniHdfs
from slurmcluster.clock import CLOCK
from slurmcluster.suite import Case, Cases, Suite, command_line, dashed, run, title_of, until

PHALANX = os.environ["PHALANX_BIN_DIR"] + "/phalanx"
NODES = [f"n{i}" for i in range(1, 9)]
KIB = 1024


def phalanx(hdfs, *words, ok=True, user=None):
    command = [PHALANX, "--json", "data", *words, "--conf-dir", str(hdfs.conf)]
    if user:
        # The user may not be able to reach the build's directory.
        copy = hdfs.dir.parent / "phalanx"
        shutil.copy(PHALANX, copy)
        sudo = ["sudo"] if os.geteuid() else []
        command = [*sudo, "setpriv", "--reuid", user, "--clear-groups", copy, *command[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    # Unless a test wants it, WebHDFS must not hide that RPC does not work.
    assert "read by WebHDFS" not in done.stdout, done.stdout
    if ok is None:
        return done
    assert (done.returncode == 0) == ok, f"{words}: {done.returncode} {done.stdout} {done.stderr}"
    return json.loads(done.stdout) if ok else done.stderr.strip()


def ls(hdfs, uri, *words):
    return phalanx(hdfs, "ls", uri, *words)


def hosts(report):
    return {row["host"]: row["blocks"] for row in report["nodes"] if row["blocks"]}


def covers(located):
    """Every byte of every file in exactly one block."""
    for file in located["files"]:
        end = 0
        for block in file["blocks"]:
            assert block["offset"] == end, file
            end += block["length"]
        assert end == file["length"], file


def both(hdfs):
    """The two ways to ask for a path."""
    name = hdfs.namenodes[0]
    return ["", f"webhdfs://127.0.0.1:{hdfs.http[name]}"]


def files_and_replicas(hdfs):
    hdfs.tool("create /data/one 1000000 131072 1 " + hdfs.datanode("n3"))
    hdfs.tool("create /data/two 300000 131072 2 " + hdfs.datanode("n1", "n5"))
    hdfs.tool("create /data/empty 0 131072 1")
    hdfs.tool("create /data/_hidden 1000 131072 1")
    hdfs.tool("create /data/sub/three 1000 131072 1 " + hdfs.datanode("n8"))
    for prefix in both(hdfs):
        one = ls(hdfs, prefix + "/data/one", "--blocks")
        assert (one["files"], one["bytes"], one["blocks"]) == (1, 1000000, 8), one
        assert hosts(one) == {"n3": 8}, one
        covers(one["located"])
        everything = ls(hdfs, prefix + "/data", "--blocks")
        assert everything["files"] == 3 and everything["bytes"] == 1300000, everything
        assert hosts(everything) == {"n3": 8, "n1": 3, "n5": 3}, everything
        assert any("sub" in w for w in everything["warnings"]), everything
        covers(everything["located"])
        deep = ls(hdfs, prefix + "/data", "--recursive")
        assert deep["files"] == 4 and hosts(deep)["n8"] == 1, deep
        names = [f["path"] for f in
                 ls(hdfs, prefix + "/data/{one,t*,x?}", "--blocks")["located"]["files"]]
        assert names == ["/data/one", "/data/two"], names
        assert ls(hdfs, prefix + "/d[a-c]ta/*/three")["files"] == 1
    for wrong in ("/nope", "/data/*.csv"):
        assert "no such file" in phalanx(hdfs, "ls", wrong, ok=False), wrong


def pages_of_a_file(hdfs):
    hdfs.tool(f"create /big {1100 * KIB} {KIB} 1 " + hdfs.datanode("n2"))
    for prefix in both(hdfs):
        big = ls(hdfs, prefix + "/big", "--blocks")
        assert big["blocks"] == 1100 and hosts(big) == {"n2": 1100}, big["blocks"]
        covers(big["located"])


def hundred_thousand_blocks(hdfs):
    """Of three replicas; nobody has written it, but the NameNode does not know that."""
    hdfs.tool("claim /huge 3 " + hdfs.datanode(*NODES))
    for prefix in both(hdfs):
        huge = ls(hdfs, prefix + "/huge", "--blocks",
                  "--config", limit(hdfs, 300_000))
        print(f"   100,000 blocks in {huge['took_ms']} ms {prefix}", flush=True)
        assert huge["blocks"] == 100_000 and huge["unreadable_blocks"] == 0, huge["warnings"]
        assert hosts(huge) == {node: 37_500 for node in NODES}, hosts(huge)
        covers(huge["located"])


def limit(hdfs, job_ms):
    """A configuration of phalanx with this limit of one input, milliseconds."""
    path = hdfs.dir / "phalanx.toml"
    path.write_text(f"[hdfs]\njob_ms = {job_ms}\n")
    return str(path)


def skewed(hdfs):
    """Most of it on one DataNode, replicas raised afterwards."""
    for at, node in enumerate(("n6", "n6", "n6", "n7")):
        hdfs.tool(f"create /skew/part-{at} 262144 131072 1 " + hdfs.datanode(node))
    hdfs.tool("create /three 393216 131072 3")
    for prefix in both(hdfs):
        assert hosts(ls(hdfs, prefix + "/skew/part-*")) == {"n6": 6, "n7": 2}
        three = ls(hdfs, prefix + "/three")
        assert sum(hosts(three).values()) == 9 and len(three["nodes"]) >= 3, three


def share(hdfs, uri, *words):
    """`phalanx-share` of it, and the rows of its map by node."""
    command = [PHALANX + "-share", "--json", "--input", uri, *words]
    env = dict(os.environ, HADOOP_CONF_DIR=str(hdfs.conf))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    return report, {part["node"]: [row for row in report["map"] if row["node"] == part["node"]]
                    for part in report["nodes"]}


def shares(hdfs):
    """Blocks go to their holders as far as the weights allow, each byte of each file once."""
    first = hdfs.namenodes[0]
    for base in (f"hdfs://127.0.0.1:{hdfs.rpc[first]}", f"webhdfs://127.0.0.1:{hdfs.http[first]}"):
        report, rows = share(hdfs, base + "/skew", "--nodes", "n[6-7]", "--weights", "3,1")
        assert [len(rows[node]) for node in ("n6", "n7")] == [6, 2], report
        assert all(row["local"] for row in report["map"]), report
        report, rows = share(hdfs, base + "/skew", "--nodes", "n[5-7]", "--weights", "1,2,1")
        assert [len(rows[node]) for node in ("n5", "n6", "n7")] == [2, 4, 2], report
        assert [row["node"] for row in report["map"] if not row["local"]] == ["n5"] * 2, report
        located = ls(hdfs, base + "/skew", "--blocks")["located"]
        wanted = sorted((located["base"] + file["path"], block["offset"], block["length"])
                        for file in located["files"] for block in file["blocks"])
        assert sorted((r["uri"], r["offset"], r["length"]) for r in report["map"]) == wanted, report


def refused(hdfs):
    other = phalanx(hdfs, "ls", "hdfs://127.0.0.1:1/data", ok=False)
    assert "not among the NameNodes" in other, other
    for wrong in ("ftp://x/y", "relative", "hdfs://nn", "/a/../b", "hdfs://u@h/x"):
        text = phalanx(hdfs, "ls", wrong, ok=False)
        assert wrong.split("/../")[0] in text, text
    hdfs.tool("chmod /data/one 600")
    hdfs.tool("chmod /data 700")
    text = phalanx(hdfs, "ls", "/data/one", ok=None, user="daemon")
    assert text.returncode == 1 and "AccessControlException" in text.stderr, text
    hdfs.tool("chmod /data 755")
    hdfs.tool("chmod /data/one 644")


def open_file(hdfs):
    hdfs.tool("grow /growing 200000 131072")
    report = ls(hdfs, "/growing", "--blocks")
    assert report["bytes"] == 200000 and report["blocks"] == 2, report
    assert any("being written" in w for w in report["warnings"]), report
    covers(report["located"])


def erasure_coding(hdfs):
    hdfs.tool("mkdir /ec")
    hdfs.tool("policy /ec XOR-2-1-1024k")
    hdfs.tool(f"create /ec/f {4 * 1024 * KIB} {1024 * KIB} 1")
    # Two data units hold everything, parity counts nothing; WebHDFS does not tell who is which,
    # there all three hold a third each.
    for prefix, holders in zip(both(hdfs), (2, 3)):
        report = ls(hdfs, prefix + "/ec/f", "--blocks")
        covers(report["located"])
        held = sum(row["bytes"] for row in report["nodes"])
        assert report["bytes"] == 4 * 1024 * KIB and 0 <= report["bytes"] - held < 10, report
        for block in report["located"]["files"][0]["blocks"]:
            assert len(block["replicas"]) == holders, block


def check(hdfs):
    report = phalanx(hdfs, "check", ok=None)
    assert report.returncode == 1, "unmapped DataNodes are an answer of no"
    rows = json.loads(report.stdout)["datanodes"]
    assert [row["host"] for row in rows] == NODES and {row["state"] for row in rows} == {"live"}


def dead_datanode(hdfs):
    """Its blocks have no readable replica any more; the others keep theirs."""
    hdfs.kill("n3")
    until(lambda: not hosts(ls(hdfs, "/data/one")), "its blocks are seen as gone", 60, every=0.5)
    for prefix in both(hdfs):
        report = ls(hdfs, prefix + "/data/one", "--blocks")
        assert report["unreadable_blocks"] == 8 and not hosts(report), report
        assert any("no readable replica" in w for w in report["warnings"]), report
        covers(report["located"])
        assert hosts(ls(hdfs, prefix + "/data/two")) == {"n1": 3, "n5": 3}
    rows = json.loads(phalanx(hdfs, "check", ok=None).stdout)["datanodes"]
    assert [row["host"] for row in rows if row["state"] == "dead"] == ["n3"], rows


def starting_datanode(hdfs):
    """A file is written again until it lies on the DataNode that was named, which only starts"""
    hdfs.start_datanode("n3")
    hdfs.tool("create /late 300000 131072 1 " + hdfs.datanode("n3"))
    assert hosts(ls(hdfs, "/late")) == {"n3": 3}


def hung_namenode(hdfs):
    """Stopped, it accepts connections and says nothing: the limit of one input ends that."""
    os.kill(hdfs.processes["nn1"].pid, signal.SIGSTOP)
    started = CLOCK.now()
    short = limit(hdfs, 1500)
    text = phalanx(hdfs, "ls", "/data", "--config", short, ok=False)
    assert "no answer in time" in text, text
    assert CLOCK.now() - started < 10, "longer than the limit of one input"
    os.kill(hdfs.processes["nn1"].pid, signal.SIGCONT)


def dead_namenode(hdfs):
    hdfs.kill("nn1")
    started = CLOCK.now()
    text = phalanx(hdfs, "ls", "/data", ok=False)
    assert "refused" in text, text
    assert CLOCK.now() - started < 21, "longer than the limit of one input"


def failover(hdfs):
    hdfs.tool("create /f 300000 131072 1 " + hdfs.datanode("n2"))
    assert hosts(ls(hdfs, "hdfs://phx/f")) == {"n2": 3}
    hdfs.kill("nn1")
    hdfs.activate("nn2")
    until(lambda: hosts(ls(hdfs, "/f")) == {"n2": 3}, "the other one answers", 60, every=0.5)


case = Cases()
IMAGE = {"huge": (100_000, KIB, 3)}
# What each file system has beside its nodes, and the cases that run on it, in this order.
SYSTEMS = {
    "new": ({"version": NEW, "image": IMAGE},
            (files_and_replicas, hundred_thousand_blocks, skewed, shares, refused, open_file,
             erasure_coding, check, dead_datanode, starting_datanode, hung_namenode,
             dead_namenode)),
    "old": ({"version": OLD},
            (files_and_replicas, pages_of_a_file, skewed, shares, refused, open_file, check)),
    "ha": ({"version": NEW, "ha": True, "nodes": NODES[:2]}, (failover,)),
}
# A case needs what those before it have written.
NEEDS = {shares: skewed, refused: files_and_replicas, check: files_and_replicas,
         dead_datanode: files_and_replicas, starting_datanode: dead_datanode}


@contextlib.contextmanager
def setting(more, root, _args):
    """One file system."""
    with MiniHdfs(root, **{"nodes": NODES} | more) as hdfs:
        yield Client(hdfs)


class Client(Suite):
    """One file system."""

    def __init__(self, hdfs):
        super().__init__()
        self.hdfs = hdfs


def on_hdfs(function, suite):
    """A case's function of the file system."""
    function(suite.hdfs)


for system, (of_system, functions) in SYSTEMS.items():
    for each in functions:
        needs = [f"{system}.{NEEDS[each].__name__}"] if each in NEEDS else []
        case.add(Case(f"{system}.{dashed(each.__name__)}", title_of(each) or f"Hadoop {system}",
                      functools.partial(on_hdfs, each), tuple(needs), system))

if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case),
                 {name: functools.partial(setting, more) for name, (more, _) in SYSTEMS.items()}))
