#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts the words of this task's splits: an example of a data-parallel task.

    sbatch -N4 -n16 --comment="hdfs-input=/data/in" --wrap "srun wordcount.py http://nn:9870"

Splits are ranges of bytes, not of lines. The rule by which every line is read exactly once: a
split that does not begin at 0 leaves out what stands before its first line break (whoever reads
the split before has it), and each split reads on to the first line break behind its end, if its
last line does not end there. A line belongs to the split in which it begins, and one that begins
exactly at the start of a split to the split before: so each reader skips through one line break.

Data is read by WebHDFS, from the node itself where it holds the split. With -j one line of JSON
tells words, lines and bytes, and how many of them this node holds.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

PIECE = 1 << 16          # bytes read behind the end of a split, at a time


class Hdfs:
    """Reads ranges of files by WebHDFS. `hosts`: addresses of DataNodes whose names have none."""

    def __init__(self, namenode, user, hosts):
        self.namenode, self.user, self.hosts = namenode.rstrip("/"), user, hosts
        self.opener = urllib.request.build_opener(NoRedirect)

    def url(self, path, operation, **options):
        """The URL of one operation."""
        query = urllib.parse.urlencode({"op": operation, "user.name": self.user, **options})
        return f"{self.namenode}/webhdfs/v1{urllib.parse.quote(path)}?{query}"

    def read(self, path, offset, length):
        """Bytes of a file, fewer only at its end."""
        try:
            with self.opener.open(self.url(path, "OPEN", offset=offset, length=length),
                                  timeout=60) as reply:
                target = reply.headers.get("Location")
        except urllib.error.HTTPError as error:
            if error.code == 403 and b"Offset" in error.read():
                return b""           # exactly at the end of the file
            raise
        parts = urllib.parse.urlsplit(target)
        host = self.hosts.get(parts.hostname, parts.hostname)
        target = parts._replace(netloc=f"{host}:{parts.port}").geturl()
        with urllib.request.urlopen(target, timeout=120) as reply:
            return reply.read()


class NoRedirect(urllib.request.HTTPErrorProcessor):
    """Hands a redirection back instead of following it."""

    def http_response(self, request, response):
        """A redirection is an answer."""
        if response.status in (301, 302, 307):
            return response
        return super().http_response(request, response)

    https_response = http_response


def lines_of(hdfs, path, offset, length):
    """The text whose lines belong to this split."""
    if length == 0:
        return b""
    data = hdfs.read(path, offset, length)
    end = offset + len(data)
    if offset > 0:
        # A line that begins exactly here was read by the split before.
        at = data.find(b"\n")
        data = data[at + 1:] if at >= 0 else None
    if data is None:
        return b""                   # within one long line: not ours
    while True:
        more = hdfs.read(path, end, PIECE)
        at = more.find(b"\n")
        data += more[:at + 1] if at >= 0 else more
        end += len(more)
        if at >= 0 or len(more) < PIECE:
            return data


def splits():
    """This task's rows: (uri, offset, length, local)."""
    program = os.environ.get("PHALANX", "phalanx")
    text = subprocess.run([program, "data", "splits", "--mine", *extra()], check=True,
                          capture_output=True, text=True).stdout
    for line in text.splitlines():
        _task, _node, uri, offset, length, local = line.split("\t")
        yield uri, int(offset), int(length), local == "1"


def extra():
    """Where the prolog of a test writes."""
    directory = os.environ.get("PHALANX_JOBS_DIR")
    return ["--dir", directory] if directory else []


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("namenode", help="WebHDFS of the NameNode, such as http://nn:9870")
    parser.add_argument("-j", "--json", action="store_true", help="one line of JSON")
    parser.add_argument("--address", action="append", default=[], metavar="NAME=ADDRESS",
                        help="address of a DataNode whose name has none")
    args = parser.parse_args()
    hosts = dict(item.split("=", 1) for item in args.address)
    hdfs = Hdfs(args.namenode, os.environ.get("USER", "root"), hosts)
    words, told = collections.Counter(), collections.Counter()
    for uri, offset, length, local in splits():
        text = lines_of(hdfs, urllib.parse.urlsplit(uri).path, offset, length)
        words.update(text.split())
        told.update({"splits": 1, "bytes": length, "lines": text.count(b"\n"),
                     "local_bytes": length if local else 0})
    if args.json:
        told.update({"words": sum(words.values()), "different": len(words)})
        print(json.dumps({"task": int(os.environ.get("SLURM_PROCID", 0)),
                          "node": os.environ.get("SLURMD_NODENAME", ""), **told}), flush=True)
    else:
        for word, count in words.most_common():
            print(count, word.decode("utf-8", "replace"))


if __name__ == "__main__":
    sys.exit(main())
