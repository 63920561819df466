#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""One task of data_jobs.py: reads its splits and writes what it read to OUT/task-JOB-PROCID.

For each split it asks the NameNode which DataNodes hold it; it is local if this node holds it
whole. The data itself is read too: the number in each line must be that of its place. With
--stock there is no map: blocks go to the tasks in turn, or with --weighted as often as the task's
node is fast. With --rates the task is slowed down to the rate of its node, and what it reads from
other nodes to that of --network.
"""

import argparse
import json
import os
import sys
import time
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "config", "examples"))
sys.dont_write_bytecode = True

from wordcount import Hdfs, lines_of, splits

LINE = 64                # bytes of a line of HdfsTool's files


def holders(hdfs, path, offset, length):
    """[(offset, length, names of the DataNodes)] of the blocks of a range."""
    url = hdfs.url(path, "GET_BLOCK_LOCATIONS", offset=offset, length=length)
    with urllib.request.urlopen(url, timeout=60) as reply:
        blocks = json.load(reply)["LocatedBlocks"]["locatedBlocks"]
    return [(b["startOffset"], b["block"]["numBytes"], [n["hostName"] for n in b["locations"]])
            for b in blocks]


def paths(hdfs, path):
    """The file itself, or the files of the directory: (path, bytes)."""
    with urllib.request.urlopen(hdfs.url(path, "LISTSTATUS"), timeout=60) as reply:
        found = json.load(reply)["FileStatuses"]["FileStatus"]
    return [(f"{path}/{f['pathSuffix']}" if f["pathSuffix"] else path, f["length"]) for f in found]


def stock(hdfs, path, weights=None):
    """Every n-th block; with weights (of each task) by smooth weighted round robin."""
    blocks = []
    for name, length in paths(hdfs, path):
        blocks += [(name, at, size) for at, size, _ in holders(hdfs, name, 0, length)]
    task, count = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    if weights is None:
        return blocks[task::count]
    own, credit = [], [0] * count
    for block in blocks:
        credit = [c + w for c, w in zip(credit, weights)]
        best = max(range(count), key=lambda i: credit[i])
        credit[best] -= sum(weights)
        own += [block] if best == task else []
    return own


def check(data, offset):
    """Every whole line says which line of the file it is."""
    first = -offset % LINE
    for at in range(first, len(data) - LINE + 1, LINE):
        number = int(data[at:at + 15])
        assert number == (offset + at) // LINE, f"line {number} at {offset + at}"


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("namenode")
    parser.add_argument("--stock", metavar="PATH")
    parser.add_argument("--weighted", metavar="NODES", help="with --stock: the tasks' nodes")
    parser.add_argument("--rates", metavar="NODE=BYTES,...", help="bytes per second of each node")
    parser.add_argument("--network", type=float, metavar="BYTES", help="the same between nodes")
    parser.add_argument("--words", action="store_true", help="count words instead of checking")
    args = parser.parse_args()
    names = {name: "127.0.0.1" for name in ["elsewhere", *(f"n{i}" for i in range(1, 100))]}
    hdfs, begun, due = Hdfs(args.namenode, "root", names), time.monotonic(), 0.0
    rates = dict(rate.split("=") for rate in args.rates.split(",")) if args.rates else {}
    if args.stock:
        nodes = args.weighted and args.weighted.split(",")
        ranges = stock(hdfs, args.stock, nodes and [int(rates[name]) for name in nodes])
    else:
        ranges = [(urllib.parse.urlsplit(uri).path, at, length) for uri, at, length, _ in splits()]
    rows, node = [], os.environ["SLURMD_NODENAME"]
    for path, offset, length in ranges:
        found = holders(hdfs, path, offset, length)
        words = None
        if args.words:
            words = len(lines_of(hdfs, path, offset, length).split())
        else:
            data = hdfs.read(path, offset, length)
            assert len(data) == length, f"{len(data)} of {length} bytes"
            check(data, offset)
        local = all(node in names for _, _, names in found)
        if rates:
            due += length / int(rates[node]) + (0 if local else length / args.network)
            time.sleep(max(0.0, begun + due - time.monotonic()))
        rows.append({"path": path, "offset": offset, "length": length, "words": words,
                     "local": local, "node": node, "at": time.monotonic() - begun})
    name = f"task-{os.environ['SLURM_JOB_ID']}-{os.environ.get('SLURM_PROCID', 0)}"
    with open(os.path.join(args.out, name), "w", encoding="utf-8") as file:
        json.dump(rows, file)


if __name__ == "__main__":
    main()
