#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data jobs on a real HDFS with Kerberos and TLS: near their blocks, or as stock, but never stuck.

A KDC, an HDFS whose NameNode believes tickets only, and a cluster whose nodes are its DataNodes.
phalanxd asks as a principal that may ask for others. Checked: with a good keytab a job runs where
its blocks are, and reads nothing that its own user may not; with a wrong keytab, an expired ticket,
a principal that nobody knows, one that may ask for nobody, a certificate of another authority, and
without a KDC, the job starts as it would with stock, soon, and `explain` and its comment say why.
"""

import contextlib
import os
import subprocess
import sys
import time

from securehdfs import REALM, SecureHdfs
from slurmcluster import Cluster
from slurmcluster.clock import CLOCK
from slurmcluster.conf import PROMPT, write_config
from slurmcluster.nodes import expand_hostlist
from slurmcluster.phalanx import fresh_plan, phalanx, phalanx_json
from slurmcluster.suite import Cases, Suite, command_line, run

NAMES = ["n1", "n2", "n3", "n4"]
HOLDERS = ["n3", "n4"]
NODES = """\
NodeName=n[1-4] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=8000
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP
"""
HDFS = """\
[hdfs]
conf_dirs = ["{conf}"]
keytab = "{keytab}"
ca_file = "{authority}"
job_ms = 8000
cache_s = 0
"""
BLOCK = 64 << 10
SOON_S = 25
case = Cases()


class Secure(Suite):
    """The cluster and the file system."""

    def __init__(self, cluster, hdfs):
        super().__init__(cluster)
        self.hdfs = hdfs
        with open(cluster.paths.phalanx_toml, encoding="utf-8") as file:
            self.text = file.read()

    @contextlib.contextmanager
    def settings(self, **values):
        """The daemon under other values of [hdfs]."""
        text = self.text
        for key, value in values.items():
            line, = [line for line in text.splitlines() if line.startswith(f"{key} = ")]
            text = text.replace(line, f'{key} = "{value}"')
        for lines in (text, self.text):
            with open(self.cluster.paths.phalanx_toml, "w", encoding="utf-8") as file:
                file.write(lines)
            phalanx(self.cluster, "daemon", "reload")
            if lines is text:
                yield

    def job(self, declared, *options):
        """Runs a job; returns its nodes, what is told of its input, its comment, and the time."""
        # Where a job has just ended the plan would rather not wait.
        self.until(lambda: not any(node["used"][0] for node in phalanx_json(
            self.cluster, "nodes")["nodes"]), "idle nodes")
        begun = CLOCK.now()
        job = self.cluster.submit("-t1", *options, f"--comment=hdfs-input={declared}",
                                  wrap="sleep 1")
        record = self.cluster.wait_jobs([job], timeout=60)[0]
        took = CLOCK.now() - begun
        self.expect(record["JobState"] == "COMPLETED", f"{declared}: {record['JobState']}")
        told = self.until(lambda: phalanx_json(self.cluster, "explain", str(job))["input"],
                          f"{declared}: what explain says", 15)
        comment = self.cluster.job(job).get("Comment", "")
        return sorted(expand_hostlist(record["NodeList"])), told, comment, took

    def refused(self, what, *says, path="/data/one"):
        """A job whose input cannot be located starts as with stock, and is told one of these."""
        nodes, told, comment, took = self.job(path, "-N2")
        error = told.get("error") or ""
        print(f"    {what}: on {','.join(nodes)} after {took:.1f} s: {error}", flush=True)
        self.expect(any(text in error for text in says), f"{what}: explain says {error!r}")
        self.expect(nodes == NAMES[:2], f"{what}: on {nodes}, not where stock places it")
        self.expect(";phalanx: " in comment and error[:40].replace(";", ",") in comment,
                    f"{what}: comment {comment!r}")
        self.expect(took < SOON_S, f"{what}: after {took:.0f} s")


@case
def good(suite):
    """A good keytab: near its blocks, by WebHDFS over TLS, whatever the URI says"""
    web = f"localhost:{suite.hdfs.https['nn1']}"
    for uri in ("/data/one", f"swebhdfs://{web}/data/one", "/data/*"):
        nodes, told, _, took = suite.job(uri, "-N2", "-n4")
        print(f"    {uri}: on {','.join(nodes)} after {took:.1f} s, "
              f"{told.get('local_share')} local", flush=True)
        suite.expect(nodes == HOLDERS and not told.get("error"), f"{uri}: {nodes}, {told}")
        suite.expect(told.get("local_share") == 1.0, f"{uri}: {told}")


@case
def callers_ticket(suite):
    """`phalanx data` asks with the caller's own ticket, for nobody else"""
    command = [os.path.join(suite.cluster.paths.bin_dir, "phalanx"), "--config",
               suite.cluster.paths.phalanx_toml, "--json", "data"]
    tickets = {name: suite.hdfs.kdc.ticket(f"{name}@{REALM}") for name in ("alice", "bob")}

    def ask(name, *words):
        env = {**suite.hdfs.kdc.env, "KRB5CCNAME": f"FILE:{tickets[name]}"}
        return subprocess.run([*command, *words], env=env, capture_output=True, text=True,
                              timeout=60, check=False)

    done = ask("alice", "ls", "/private/alice")
    suite.expect(done.returncode == 0 and "/private/alice" in done.stdout, f"alice: {done}")
    done = ask("bob", "ls", "/private/alice")
    suite.expect(done.returncode != 0 and "AccessControlException" in done.stderr, f"bob: {done}")
    done = ask("bob", "check")
    suite.expect(done.returncode == 1 and "no list of DataNodes" in done.stderr, f"check: {done}")


@case
def own_files(suite):
    """The job's user reads, not the daemon's principal: what root may not read stays closed"""
    suite.refused("alice's file for root", "AccessControlException", path="/private/alice")


@case
def wrong_ticket(suite):
    """A keytab with an old key, and one that is none"""
    with suite.settings(keytab=suite.old_key):
        suite.refused("an old key", "Preauthentication failed", "integrity check failed")
    with suite.settings(keytab="/nonexistent/keytab"):
        suite.refused("no keytab", "hdfs.keytab: /nonexistent/keytab: No such file")


@case
def expired_ticket(suite):
    """Without a keytab the ticket of the daemon's environment counts, which has expired"""
    with suite.settings(keytab=""):
        suite.refused("an expired ticket", "Ticket expired", "expired")


@case
def unknown_user(suite):
    """Principals that the KDC has forgotten, and that may ask for nobody"""
    with suite.settings(keytab=suite.gone):
        suite.refused("a principal that is gone", "not found in Kerberos database")
    with suite.settings(keytab=suite.hdfs.keytab("stranger")):
        suite.refused("a principal that may ask for nobody", "not allowed to impersonate")


@case
def wrong_certificate(suite):
    """The NameNode's certificate is not of the authority, or of no known one"""
    for authority in (suite.hdfs.stranger, ""):
        with suite.settings(ca_file=authority):
            suite.refused("another authority" if authority else "the system's authorities",
                          "certificate")
    with suite.settings(ca_file="/nonexistent/ca.pem"):
        suite.refused("no file of authorities", "ca.pem", "certificate")


@case
def no_kdc(suite):
    """The KDC is down: what needs a new ticket is told so"""
    suite.hdfs.kdc.close()
    try:
        # Another keytab, so that no ticket is kept.
        with suite.settings(keytab=suite.hdfs.dir / "kdc/gone.keytab"):
            suite.refused("no KDC", "Cannot contact any KDC", "Cannot find KDC")
    finally:
        suite.hdfs.kdc.start()
    nodes, told, _, _ = suite.job("/data/one", "-N2", "-n4")
    suite.expect(nodes == HOLDERS, f"afterwards: {nodes}, {told}")


def write_files(hdfs):
    """One file on chosen nodes, and one that is alice's alone."""
    for name in HOLDERS:
        hdfs.start_datanode(name)
    hdfs.wait(lambda: hdfs.live() == len(HOLDERS), "the first DataNodes")
    hdfs.tool(f"create /data/one {32 * BLOCK} {BLOCK} 2")
    hdfs.tool(f"create /private/alice {BLOCK} {BLOCK} 1")
    hdfs.tool("chown /private/alice alice")
    hdfs.tool("chmod /private/alice 600")
    for name in NAMES:
        if name not in HOLDERS:
            hdfs.start_datanode(name)
    hdfs.wait(lambda: hdfs.live() == len(NAMES), "all DataNodes")


@contextlib.contextmanager
def setting(root, _args):
    """KDC, file system and cluster."""
    begun = time.monotonic()
    hdfs = SecureHdfs(os.path.join(root, "hdfs"), NAMES, block_size=BLOCK)
    with contextlib.closing(hdfs):
        hdfs.nodes = []
        hdfs.start()
        hdfs.nodes = NAMES
        write_files(hdfs)
        expired = hdfs.kdc.ticket(f"late@{REALM}", life="1s")
        os.environ |= {"KRB5_CONFIG": hdfs.env["KRB5_CONFIG"], "KRB5CCNAME": f"FILE:{expired}"}
        place = os.path.join(root, "c")
        config = write_config(place, PROMPT + HDFS.format(
            conf=hdfs.conf, keytab=hdfs.keytab("phalanx"), authority=hdfs.authority)
            + "[data_jobs]\nhold_budget_s = 3600\n")
        with Cluster(place, nodes=NODES, config=config) as cluster:
            suite = Secure(cluster, hdfs)
            # Its keys are newer in the KDC than in the file.
            suite.old_key = hdfs.keytab("rekeyed")
            hdfs.kdc.admin(f"change_password -randkey rekeyed@{REALM}")
            suite.gone = hdfs.keytab("gone")
            hdfs.kdc.admin(f"delprinc -force gone@{REALM}")
            fresh_plan(cluster)
            print(f"    KDC, HDFS and cluster after {time.monotonic() - begun:.0f} s", flush=True)
            yield suite


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
