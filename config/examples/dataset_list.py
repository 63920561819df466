#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of datasets for data_jobs.locations, as the store itself tells where they lie.

    dataset_list.py ceph images=POOL                 every object of a pool
    dataset_list.py swift images=ACCOUNT/CONTAINER   every object of a container
    dataset_list.py lustre images=/lustre/images     every file below a directory
    dataset_list.py beegfs images=/beegfs/images

Prints JSON; write it beside the list and rename.  A striped file counts as one part for each of
its targets: right for where jobs go, not for which bytes a task reads.  Ceph needs a keyring that
may `osd find`, Swift the rings in /etc/swift and the environment of `swift`.
"""
import json
import os
import re
import subprocess
import sys
from functools import lru_cache


@lru_cache(maxsize=None)
def said(*command):
    """What a program prints."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def part(size, hosts):
    """A part of a dataset, held by these hosts."""
    return {"bytes": size, "hosts": sorted(set(hosts))}


def ceph(pool):
    """Objects of a pool: each is whole on the hosts of its placement group."""
    for name in said("rados", "-p", pool, "ls").splitlines():
        size = int(said("rados", "-p", pool, "stat", name).rsplit(" size ", 1)[1])
        osds = json.loads(said("ceph", "osd", "map", pool, name, "-f", "json"))["acting"]
        found = (json.loads(said("ceph", "osd", "find", str(osd), "-f", "json")) for osd in osds)
        yield part(size, (osd["crush_location"]["host"] for osd in found))


def swift(name):
    """Objects of a container: each is whole on its servers, handoffs not counted."""
    account, container = name.split("/", 1)
    for name in said("swift", "list", container).splitlines():
        stat = said("swift", "stat", container, name)
        size = int(re.search(r"Content Length: (\d+)", stat)[1])
        ring = said("swift-get-nodes", "/etc/swift/object.ring.gz", account, container, name)
        yield part(size, re.findall(r"^Server:Port Device\s+(\S+):\d+ \S+\s*$", ring, re.M))


def files(directory):
    """Paths and sizes of all files below a directory."""
    for path, _, names in sorted(os.walk(directory)):
        for name in sorted(names):
            file = os.path.join(path, name)
            yield file, os.path.getsize(file)


def striped(file, size, hosts):
    """A part of a file for each target, whose bytes add up to those of the file."""
    if not hosts:
        sys.exit(f"{file}: its targets are not said")
    for at, host in enumerate(hosts):
        yield part(size * (at + 1) // len(hosts) - size * at // len(hosts), [host])


def lustre(directory):
    """Files of a Lustre: objects by OST, OSTs by the server to which this client is connected."""
    # The name of a file system and of this mount, as in osc.lustre-OST0000-osc-ffff...
    system, mount = said("lfs", "getname", directory).split()[0].rsplit("-", 1)
    servers = re.compile(rf"^osc\.{system}-OST(\w+)-osc-{mount}\.ost_conn_uuid=([^@\n]+)", re.M)
    osts = servers.findall(said("lctl", "get_param", "osc.*.ost_conn_uuid"))
    server = {int(ost, 16): host for ost, host in osts}
    for file, size in files(directory):
        text = said("lfs", "getstripe", file)
        # Files of one layout have a table, composite ones a list.
        found = re.findall(r"^\s+(\d+)\s+\d+\s+0x|l_ost_idx: (\d+)", text, re.M)
        yield from striped(file, size, [server[int(a or b)] for a, b in found])


def beegfs(directory):
    """Files of a BeeGFS by their storage targets."""
    for file, size in files(directory):
        text = said("beegfs-ctl", "--getentryinfo", file)
        yield from striped(file, size, re.findall(r"^\s*\+ \d+ @ (\S+) \[ID:", text, re.M))


def main():
    """Prints the list."""
    kinds = {kind.__name__: kind for kind in (ceph, swift, lustre, beegfs)}
    if len(sys.argv) < 3 or sys.argv[1] not in kinds or not all("=" in one for one in sys.argv[2:]):
        sys.exit(__doc__)
    named = (one.split("=", 1) for one in sys.argv[2:])
    print(json.dumps({name: list(kinds[sys.argv[1]](where)) for name, where in named}))


if __name__ == "__main__":
    main()
