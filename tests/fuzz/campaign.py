#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives damaged inputs to every parser of Phalanx.

    tests/fuzz/campaign.py [--runs N] [--seed N] [--seconds N] [--only TARGET]...

Goal: no input makes a parser panic, leave its bounds or take 20 s. The same seed makes the same
inputs of the targets in Rust.

Method: the tests that call phalanx_fuzz::run, compiled with the profile `campaign`, one target at
a time; then the plugin's libFuzzer target. Prints a row for each; inputs that failed are in
build/fuzz, of the plugin in plugin/crash-*. Exit code 1 where there are any.
"""

import argparse
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CARGO = os.environ.get("CARGO", "cargo")
# Target, package, options of cargo test, name of the test.
TARGETS = (
    ("wire_parse", "phalanx-ffi", ("--test", "fuzz"), "packets"),
    ("http", "phalanx-service", ("--lib",), "api::fuzz::requests"),
    ("data_service", "phalanx-service", ("--lib",), "collect::fuzz::bodies"),
    ("toml", "phalanx-service", ("--test", "it"), "fuzz::configurations"),
    ("hostlist", "phalanx-core", ("--test", "fuzz"), "hostlists"),
    ("gres", "phalanx-core", ("--test", "fuzz"), "gres_and_features"),
    ("sacct", "phalanx-core", ("--test", "fuzz"), "sacct_texts"),
    ("swf", "phalanx-core", ("--test", "fuzz"), "swf_logs"),
    ("openb", "phalanx-bench", ("--bin", "phalanx-bench"),
     "simulate::openb::tests::damaged_lists"),
    ("hdfs_rpc", "phalanx-hdfs", ("--lib",), "tests::fuzz::answers_of_hadoop_rpc"),
    ("webhdfs", "phalanx-hdfs", ("--lib",), "tests::fuzz::answers_of_webhdfs"),
    ("locations", "phalanx-service", ("--lib",),
     "locations::tests::lists_are_damaged"),
    ("gate", "phalanx-messages", ("--lib",), "gate::tests::answers_are_damaged"),
    ("hdfs_conf", "phalanx-hdfs", ("--lib",), "tests::fuzz::hadoop_configurations_and_uris"),
    ("recording", "phalanx-service", ("--test", "it"), "fuzz::recordings"),
    ("topology", "phalanx-core", ("--test", "fuzz"), "topologies"),
    ("spec", "phalanx-core", ("--test", "fuzz"), "specifications_and_comments"),
    ("declaration", "phalanx-methods", ("--test", "it"), "fuzz_declaration::declarations"),
)
PLUGIN = "plugin"
ROW = re.compile(r"fuzz (\w+) (\d+) (\d+) (\d+) (\d+) ([\d.]+) ([\d.]+)$", re.MULTILINE)
HEAD = ("target", "inputs", "ways of seeds", "new ways", "failures", "slowest ms", "s")


def in_rust(target, args):
    """The row of one target, or None where it did not run."""
    _, package, options, test = target
    env = dict(os.environ, FUZZ_RUNS=str(args.runs), FUZZ_SEED=str(args.seed))
    if args.seconds:
        env["FUZZ_SECONDS"] = str(args.seconds)
    command = (CARGO, "test", "-q", "--profile", "campaign", "-p", package, *options, "--",
               "--exact", test, "--nocapture")
    done = subprocess.run(command, cwd=TOP, env=env, stdout=subprocess.PIPE, text=True, check=False)
    found = ROW.search(done.stdout)
    if not found or (done.returncode and found.group(5) == "0"):
        print(done.stdout, file=sys.stderr)
        return None
    return found.groups()


def of_plugin(args):
    """The same of the overlay's packets."""
    command = ("make", "-s", "-C", "plugin", "fuzz", f"FUZZ_RUNS={args.runs}",
               f"FUZZ_SEED={args.seed}", f"FUZZ_SECONDS={args.seconds}")
    done = subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    inputs = re.search(r"number_of_executed_units: (\d+)", done.stdout)
    ways = [int(number) for number in re.findall(r" ft: (\d+)", done.stdout)]
    if not inputs or not ways:
        print(done.stdout[-3000:], file=sys.stderr)
        return None
    seconds = re.search(r"Done \d+ runs in (\d+)", done.stdout)
    return (PLUGIN, inputs.group(1), str(ways[0]), str(ways[-1] - ways[0]),
            str(int(done.returncode != 0)), "-", seconds.group(1) if seconds else "-")


def main():
    """Runs the targets and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=100_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=0)
    names = [target[0] for target in TARGETS] + [PLUGIN]
    parser.add_argument("--only", action="append", choices=names)
    args = parser.parse_args()
    line = "{:<13} {:>11} {:>13} {:>9} {:>9} {:>11} {:>8}".format
    print(f"seed {args.seed}, {args.runs} inputs a target\n" + line(*HEAD), flush=True)
    good = True
    for target in (*TARGETS, None):
        name = target[0] if target else PLUGIN
        if args.only and name not in args.only:
            continue
        row = in_rust(target, args) if target else of_plugin(args)
        print(line(*row) if row else f"{name}: did not run to its end", flush=True)
        good = good and row is not None and row[4] == "0"
    sys.exit(not good)


if __name__ == "__main__":
    main()
