#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example that makes the list of datasets, on what the programs of the stores print.

Stand-ins print recorded output: of Ceph as its documentation and `osd map -f json` have it, of
Swift the manual page of swift-get-nodes, of Lustre `lfs getstripe` of lustre-discuss (July 2016)
and the YAML of composite files, of BeeGFS the page "Deep Inspection" of its documentation.
"""

import contextlib
import json
import os
import subprocess
import sys

from slurmcluster.suite import Cases, Suite, check, command_line, run

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "config", "examples",
                      "dataset_list.py")
CEPH = {
    "rados": """case "$*" in
*ls) echo object_hello_bk ;;
*) echo "data/object_hello_bk mtime 2024-05-07T09:20:16.000000+0000, size 4194304" ;;
esac""",
    "ceph": """case "$*" in
"osd map data object_hello_bk -f json") echo '{"epoch":64,"pool":"data","pool_id":7,
"objname":"object_hello_bk","raw_pgid":"7.8931001","pgid":"7.1","up":[2,1,0],"up_primary":2,
"acting":[2,1],"acting_primary":2}' ;;
"osd find "*) echo '{"osd":'$3',"addrs":{"addrvec":[]},"host":"mon'$3'",
"crush_location":{"host":"n'$3'","root":"default"}}' ;;
esac""",
}
SWIFT = {
    "swift": """case "$1" in
list) echo cat.jpg ;;
stat) printf '       Account: AUTH_t\\n     Container: img\\n        Object: cat.jpg\\n'
printf '  Content Type: image/jpeg\\nContent Length: 5120\\n          ETag: d41d8\\n' ;;
esac""",
    "swift-get-nodes": """[ "$*" = "/etc/swift/object.ring.gz AUTH_t img cat.jpg" ] || exit 1
printf 'Account  \\tAUTH_t\\nContainer\\timg\\nObject   \\tcat.jpg\\n\\n\\nPartition\\t221082\\n'
printf 'Hash     \\td7e6ba68\\n\\nServer:Port Device\\t172.24.24.29:6202 sdd\\n'
printf 'Server:Port Device\\t172.24.24.27:6202 sdr\\n'
printf 'Server:Port Device\\t172.24.24.26:6202 sdv\\t [Handoff]\\n\\n\\n'
printf 'curl -g -I -XHEAD "http://172.24.24.29:6202/sdd/221082/AUTH_t/img/cat.jpg"\\n'""",
}
LUSTRE = {
    "lfs": """case "$*" in
getname*) echo "tfs1-ffff93af0c638800 $2" ;;
*/a) cat <<'.'
/lustre/a
lmm_stripe_count:   2
lmm_stripe_size:    1048576
lmm_pattern:        1
lmm_layout_gen:     0
lmm_stripe_offset:  12
\tobdidx\t\t objid\t\t objid\t\t group
\t    12\t      31515860\t    0x1e0e4d4\t             0
\t     3\t      31515861\t    0x1e0e4d5\t             0

.
;;
*) cat <<'.'
/lustre/b
  lcm_layout_gen:    3
  lcm_entry_count:   2
    lcme_id:             1
    lcme_extent.e_end:   1048576
      lmm_stripe_count:  1
      lmm_objects:
      - 0: { l_ost_idx: 4, l_fid: [0x100040000:0x2:0x0] }

    lcme_id:             2
      lmm_stripe_count:  -1
.
;; esac""",
    "lctl": """[ "$*" = "get_param osc.*.ost_conn_uuid" ] || exit 1
cat <<'.'
osc.tfs1-OST0003-osc-ffff93af0c638800.ost_conn_uuid=192.168.0.205@tcp
osc.tfs1-OST0004-osc-ffff93af0c638800.ost_conn_uuid=192.168.0.206@tcp
osc.tfs1-OST000c-osc-ffff93af0c638800.ost_conn_uuid=192.168.0.208@tcp
osc.tfs2-OST0003-osc-ffff93af2c7a6800.ost_conn_uuid=192.168.0.207@tcp
osc.tfs1-OST0003-osc-ffff93af2d000000.ost_conn_uuid=192.168.0.209@tcp
.""",
}
BEEGFS = {"beegfs-ctl": """[ "$1" = --getentryinfo ] && cat <<'.'
Entry type: file
EntryID: 0-5D285750-1
Metadata node: node1.beeg.local [ID: 1]
Stripe pattern details:
+ Type: RAID0
+ Chunksize: 512k
+ Number of storage targets: desired: 2; actual: 2
+ Storage targets:
  + 1 @ node1.beeg.local [ID: 1]
  + 2 @ node2.beeg.local [ID: 2]
.
"""}
MIRRORED = {"beegfs-ctl": "echo 'Entry type: file'; echo '+ Storage mirror buddy groups:'; "
                          "echo '  + 1'"}
case = Cases()


class Listed(Suite):
    """Stand-ins for the programs of a store, and files."""

    def __init__(self, root):
        super().__init__()
        self.root = root

    def of(self, programs, *words):
        """The script's end with these programs."""
        for name, text in programs.items():
            path = os.path.join(self.root, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(path, 0o755)
        env = {**os.environ, "PATH": f"{self.root}:{os.environ['PATH']}"}
        return subprocess.run([SCRIPT, *words], env=env, capture_output=True, text=True,
                              check=False)

    def files(self, **sizes):
        """A directory with files of these sizes."""
        path = os.path.join(self.root, "files")
        os.makedirs(path, exist_ok=True)
        for name, size in sizes.items():
            with open(os.path.join(path, name), "wb") as file:
                file.truncate(size)
        return path

    def lists(self, programs, *words, parts):
        """Checks the parts that are listed as `set`."""
        done = self.of(programs, *words)
        check(done.returncode == 0, done.stderr)
        want = {"set": [{"bytes": size, "hosts": hosts} for size, hosts in parts]}
        check(json.loads(done.stdout) == want, done.stdout)


@case
def objects(listed):
    """An object of Ceph or Swift is whole on each host of its group, not on handoffs"""
    listed.lists(CEPH, "ceph", "set=data", parts=[(4194304, ["n1", "n2"])])
    listed.lists(SWIFT, "swift", "set=AUTH_t/img", parts=[(5120, ["172.24.24.27", "172.24.24.29"])])


@case
def striped(listed):
    """A file of Lustre or BeeGFS is in parts, one for each target, with all its bytes"""
    path = listed.files(a=1001, b=7)
    listed.lists(LUSTRE, "lustre", f"set={path}",
                 parts=[(500, ["192.168.0.208"]), (501, ["192.168.0.205"]), (7, ["192.168.0.206"])])
    listed.lists(BEEGFS, "beegfs", f"set={path}",
                 parts=[(500, ["node1.beeg.local"]), (501, ["node2.beeg.local"]),
                        (3, ["node1.beeg.local"]), (4, ["node2.beeg.local"])])


@case
def told(listed):
    """What the script cannot read, or does not understand, ends it without a list"""
    path = listed.files(a=1)
    for programs, words in ((MIRRORED, ("beegfs", f"set={path}")),
                            ({"ceph": "exit 1", "rados": "exit 1"}, ("ceph", "set=data")),
                            ({}, ("nfs", "set=data")), ({}, ("ceph", "data"))):
        done = listed.of(programs, *words)
        check(done.returncode and done.stderr and not done.stdout, f"{words}: {done}")


@contextlib.contextmanager
def setting(root, _args):
    """A directory for the programs and the files."""
    yield Listed(root)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
