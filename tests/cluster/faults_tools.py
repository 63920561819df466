# SPDX-License-Identifier: GPL-3.0-or-later
"""Disturbances and observations of the fault suite: disk, overlay file, logs."""

import contextlib
import os
import struct
import subprocess

from faults_stream import FaultError

DISK_BYTES = 1024 * 1024
SITE_WORDS = ("phalanx_enable=", "phalanx_eject=", "phalanx_uid=")    # see site()


class Disk:
    """A small file system that can be filled and freed."""

    def __init__(self, directory):
        self._filler = os.path.join(directory, "filler")

    def fill(self):
        """Writes until nothing more fits."""
        with open(self._filler, "wb", buffering=0) as file:
            size = 65536
            while size:
                try:
                    file.write(b"\0" * size)
                except OSError:
                    size //= 2

    def free(self):
        """Gives the room back."""
        os.unlink(self._filler)


@contextlib.contextmanager
def filled_disk(directory):
    """Mounts a file system of 1 MiB at a directory; what was there is covered meanwhile.

    Raises FaultError where mounting is not allowed.
    """
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=755", "tmpfs",
                           directory], capture_output=True, text=True, check=False)
    if done.returncode:
        raise FaultError(f"cannot mount a small tmpfs, needed to fill a disk: "
                         f"{done.stderr.strip()}")
    try:
        yield Disk(directory)
    finally:
        # Lazily: a process that still has a file open there must not keep it mounted.
        subprocess.run(["umount", "-l", directory], check=True)


def log_path(cluster, which):
    """The log of slurmctld (its own file) or phalanxd (what it prints)."""
    return os.path.join(cluster.paths.log, {"slurmctld": "slurmctld.log",
                                            "phalanxd": "phalanxd.out"}[which])


def log_size(cluster, which):
    """The present size of a log in bytes."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.getsize(log_path(cluster, which))
    return 0


def log_since(cluster, which, offset):
    """What a log has said since it had that size."""
    try:
        with open(log_path(cluster, which), "rb") as file:
            file.seek(offset)
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def maps_overlay(cluster):
    """True if the running slurmctld has the overlay's file in its memory."""
    pid = cluster.process("slurmctld").pid
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return cluster.paths.overlay_file in file.read()


def wrong_version_copy(source, directory):
    """Copies the overlay with a plugin_version one micro release lower."""
    with open(source, "rb") as file:
        image = bytearray(file.read())
    offset = symbol_offset(image, b"plugin_version")
    version, = struct.unpack_from("<I", image, offset)
    struct.pack_into("<I", image, offset, version - 1)
    with open(os.path.join(directory, os.path.basename(source)), "wb") as file:
        file.write(image)


def symbol_offset(image, name):
    """Where in an ELF-64 little-endian file a dynamic symbol's data is.

    Raises FaultError if the file is none, or lacks the symbol.
    """
    if image[:6] != b"\x7fELF\x02\x01":
        raise FaultError("the overlay is no ELF-64 little-endian file")
    phoff, shoff = struct.unpack_from("<QQ", image, 32)
    phentsize, phnum, shentsize, shnum = struct.unpack_from("<HHHH", image, 54)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, shoff + i * shentsize)
                for i in range(shnum)]
    loads = [segment for segment in (struct.unpack_from("<IIQQQQQQ", image, phoff + i * phentsize)
                                     for i in range(phnum)) if segment[0] == 1]
    for _, kind, _, _, offset, size, link, _, _, entsize in sections:
        if kind != 11:  # SHT_DYNSYM
            continue
        strings = sections[link][4]
        for at in range(offset, offset + size, entsize):
            word, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", image, at)
            start = strings + word
            if bytes(image[start:start + len(name) + 1]) != name + b"\0":
                continue
            for _, _, file_at, address, _, in_file, _, _ in loads:
                if address <= value < address + in_file:
                    return value - address + file_at
    raise FaultError(f"the overlay has no symbol {name.decode()}")


def site(cluster, *words):
    """Puts these in front of SchedulerParameters, in place of those of the last time."""
    path, name = cluster.paths.slurm_conf, "SchedulerParameters="
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith(name))
    own = [word for word in lines[at].removeprefix(name).split(",")
           if not word.startswith(SITE_WORDS)]
    lines[at] = name + ",".join([*words, *own])
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    cluster.run("scontrol", "reconfigure")
