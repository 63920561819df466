#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""filtered.py PROGRAM ARGUMENT... - runs a program under the SystemCallFilter of phalanxd.service,
also where no systemd runs. A call that the unit does not allow ends the process by SIGSYS: under
systemd it would fail."""

import ctypes
import os
import subprocess
import sys

KILL, ALLOW = 0x80000000, 0x7fff0000    # SCMP_ACT_KILL_PROCESS, SCMP_ACT_ALLOW
UNIT = os.path.join(os.path.dirname(__file__), "..", "..", "config", "phalanxd.service")


def groups():
    """{@name: its calls and groups}, as this host's systemd knows them."""
    listed = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], text=True,
                            check=True, capture_output=True)
    found, name = {}, None
    for line in listed.stdout.splitlines():
        if line.startswith("@"):
            name = line.strip()
        elif name and line.startswith("    ") and not line.strip().startswith("#"):
            found.setdefault(name, []).append(line.strip())
    return found


def calls(name, known):
    """The calls of a name: a group's, or the one call."""
    if not name.startswith("@"):
        return {name}
    return {call for each in known[name] for call in calls(each, known)}


def allowed():
    """The calls that the unit leaves."""
    known, left = groups(), set()
    with open(UNIT, encoding="utf-8") as file:
        lines = [line.strip().partition("=")[2] for line in file
                 if line.startswith("SystemCallFilter=")]
    for line in lines:
        for name in line.removeprefix("~").split():
            change = left.difference_update if line.startswith("~") else left.update
            change(calls(name, known))
    return left


def apply():
    """Nothing but these calls from now on."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    library.seccomp_rule_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int,
                                         ctypes.c_uint]
    context = library.seccomp_init(ctypes.c_uint32(KILL))
    for call in allowed():
        number = library.seccomp_syscall_resolve_name(call.encode())
        # Of another processor, or newer than libseccomp.
        if number >= 0 and library.seccomp_rule_add(context, ALLOW, number, 0):
            raise OSError(f"seccomp_rule_add {call}")
    if library.seccomp_load(context):
        raise OSError("seccomp_load")


if __name__ == "__main__":
    apply()
    os.execv(sys.argv[1], sys.argv[1:])
