#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The converters of the public GPU logs, on invented lines in their columns."""

import contextlib
import os
import sys

from slurmcluster.suite import Cases, Suite, check, command_line, run

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench"))
import gpu_logs    # pylint: disable=wrong-import-position,import-error

PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-09-21 23:59:59,100.0,8,800.0,aaaaaa
2017-09-22 00:00:10,1799.6,1,1799.6,aaaaaa
2017-09-22 00:01:50,1801.0,12,21612.0,bbbbbb
"""
SUPERCLOUD = """id_user,mem_req,timelimit,time_submit,time_eligible,time_start,time_end,tres_req
7.0,1,1440,90,100,200,260,"1=4,2=34000,4=1,5=4,1002=1"
7.0,1,4294967295,90,110,120,180,"1=320,2=3000000,4=8,5=320"
7.0,1,1440,90,120,0,180,"1=1,4=1"
7.0,1,1440,90,120,180,180,"1=1,4=1"
"""
case = Cases()


@case
def philly(_suite):
    """Sizes by node, limits of twice the runtime or more, and the quiet days left out"""
    lines = gpu_logs.sacct(gpu_logs.philly(PHILLY.splitlines())).splitlines()[1:]
    check(lines == [
        "1|aaaaaa|job|COMPLETED|1506038410|1506038410|1506040210|1|8|cpu=8,node=1,gres/gpu=1|60",
        "2|bbbbbb|job|COMPLETED|1506038510|1506038510|1506040311|2|96|cpu=96,node=2,gres/gpu=12"
        "|240"], "\n".join(lines))
    check([job["nodes"] for job in gpu_logs.philly(PHILLY.splitlines(), 4)] == [1, 3], "nodes of 4")


@case
def supercloud(_suite):
    """TRES by number; what did not run is left out"""
    lines = gpu_logs.sacct(gpu_logs.supercloud(SUPERCLOUD.splitlines())).splitlines()[1:]
    check(lines == [
        "1|7.0|job|COMPLETED|100|200|260|1|4|cpu=4,node=1,mem=34000M,gres/gpu=1|1440",
        "2|7.0|job|COMPLETED|110|120|180|8|320|cpu=320,node=8,mem=3000000M|UNLIMITED"],
          "\n".join(lines))
    small, large = gpu_logs.supercloud(SUPERCLOUD.splitlines())
    held = [[gpu_logs.fits(job, *room) for job in (small, large)] for room in (
        (1, (4, 34000, 1)), (8, (40, 375000, 0)), (8, (39, 375000, 0)), (7, (64, 999999, 8)))]
    check(held == [[True, False], [False, True], [False, False], [True, False]], f"{held}")


@case
def by_hand(_suite):
    """Arrivals moved, GPUs in use and waits, as counted by hand"""
    jobs = list(gpu_logs.squeezed(gpu_logs.philly(PHILLY.splitlines()), 0.5))
    first = jobs[0]["submit"]
    check([job["submit"] - first for job in jobs] == [0, 50], "half of the time between arrivals")
    check([job["end"] - job["submit"] for job in jobs] == [1800, 1801], "runtimes stay")
    # One GPU from second 20 to the last arrival at 50; the other job comes then.
    check(gpu_logs.busy(jobs, {1: 20, 2: 0}) == 0.6, "GPUs in use")
    found = {"card": {"idle_pct": {"gpu": 25.0}}, "stranded": {}, "makespan_s": 7200,
             "wait_mean_s": 30.0}
    kinds = {"one": lambda gpus: gpus == 1}
    got = gpu_logs.figures(jobs, found, {1: 60, 2: 0}, 10, kinds)
    check(got["GPU hours idle beside work"] == [5.0], f"a quarter of 20 GPU hours: {got}")
    check(got["1 jobs of one"] == [1, 1, 1] and got["mean wait, min"] == [0.5], f"{got}")
    check(gpu_logs.change([2, 4], [3, 3]) == "+0.0 (33.3)", gpu_logs.change([2, 4], [3, 3]))
    check([gpu_logs.percentile([5, 1, 3, 2, 4], part) for part in (50, 95)] == [3, 5], "ranks")


@contextlib.contextmanager
def setting(_root, _args):
    """Nothing is needed."""
    yield Suite()


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
