#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions a second of `phalanx solve balance`, whole process, by workload.

Usage: balance_speed.py [PHALANX] [NODES] [JOBS]

Runs every workload of balance_problem.py in both modes and prints wall and
user time and jobs by wall second (reading and printing JSON included).
"""
import os
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def user_time():
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def main():
    phalanx, nodes, jobs = sys.argv[1:] + ["target/release/phalanx", "10000", "20000"][
        len(sys.argv) - 1:]
    generator = [sys.executable, os.path.join(HERE, "balance_problem.py")]
    kinds = subprocess.run(generator + ["--list"], capture_output=True, text=True, check=True)
    print(f"{'workload':18} {'mode':5} {'wall s':>7} {'user s':>7} {'jobs/s':>8}")
    for kind in kinds.stdout.split():
        with tempfile.NamedTemporaryFile(suffix=".json") as problem:
            subprocess.run(generator + [kind, nodes, jobs], stdout=problem, check=True)
            for mode in "seed", "best":
                wall, user = time.monotonic(), user_time()
                command = [phalanx, "solve", "balance", "--mode", mode, problem.name]
                subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
                wall, user = time.monotonic() - wall, user_time() - user
                print(f"{kind:18} {mode:5} {wall:7.2f} {user:7.2f} {int(jobs) / wall:8.0f}")


main()
