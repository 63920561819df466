#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a command on a machine that stalls: all its processes are stopped together, again and again,
for a random time. What passes only where nothing is ever late fails here.

    tests/stalled.py [--longest S] [--every S] [--seed N] COMMAND ...
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time


def stop_and_go(group, seconds):
    """Stop a process group for some seconds. Returns whether it is still there."""
    try:
        os.killpg(group, signal.SIGSTOP)
        time.sleep(seconds)
        os.killpg(group, signal.SIGCONT)
    except ProcessLookupError:
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--longest", type=float, default=0.16, help="seconds, uniform from 0")
    parser.add_argument("--every", type=float, default=0.25, help="mean seconds between two stalls")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    draws = random.Random(args.seed)
    print(f"stalled: --seed {args.seed}", file=sys.stderr)
    process = subprocess.Popen(args.command, start_new_session=True)
    while process.poll() is None:
        time.sleep(draws.expovariate(1 / args.every))
        if not stop_and_go(process.pid, draws.uniform(0, args.longest)):
            break
    sys.exit(process.wait())


if __name__ == "__main__":
    main()
