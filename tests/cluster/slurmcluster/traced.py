#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""traced.py FILE... - what phalanxd did, by traces of strace, that it never does.

It starts no program, and speaks over Unix sockets and to slurmctld alone. With
PHALANX_TRACE=DIRECTORY the phalanxd of every suite is traced there, into files whose names begin
with slurmctld's port.
"""

import os
import re
import sys

CALLS = "execve,execveat,socket,bind,connect,listen"
# A resolver's, and 0: getaddrinfo() asks so from which address it would speak.
NAMES = {53, 0}


def words(path):
    """The words before a program that write what it does to a file; its process stays the one
    that was started."""
    return ["strace", "-D", "-f", "-yy", "--seccomp-bpf", "-e", f"trace={CALLS}", "-o", path]


def is_fault(line, port):
    """Whether a call is one of those that phalanxd does not do."""
    call = re.match(r"\d+ +(\w+)\(", line)
    if not call:
        return False
    name = call[1]
    if name == "socket":
        return not re.search(r"\(AF_(UNIX|INET|INET6|NETLINK),", line)
    if name == "connect":
        at = re.search(r"sin6?_port=htons\((\d+)\)", line)
        return bool(at) and int(at[1]) not in NAMES | {port}
    if name == "bind":
        return "AF_UNIX" not in line and "AF_NETLINK" not in line
    return name != "listen" or "<UNIX" not in line


def faults(path, port):
    """The lines of a trace that should not be there; the first is the start of phalanxd."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line.strip() for line in file.readlines()[1:] if is_fault(line, port)]


def main():
    """Prints what was found."""
    found = [f"{path}: {line}" for path in sys.argv[1:]
             for line in faults(path, int(os.path.basename(path).split("-")[0]))]
    print("\n".join(found) or f"{len(sys.argv) - 1} traces: no program, no other socket")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
