# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests of SchedMD's suite are judged first: those that touch what Phalanx decides.

Names of both halves and of several releases; a name that a suite lacks is passed over.
"""

import fnmatch
import os
import re

# Modules of pytest below testsuite/python/tests, without `test_` and `.py`.
MODULES = (
    "features/gres/*", "commands/sbatch/gpu_options", "commands/sbatch/invalid_mps_options",
    "commands/sbatch/hetjob", "commands/srun/--constraint", "commands/srun/--exclusive",
    "commands/srun/--immediate", "commands/srun/--mem--mincpus--tmp",
    "commands/srun/--ntasks-per-node", "commands/srun/--overcommit",
    "commands/srun/--preserve-env", "commands/srun/--no-kill", "commands/srun/--test-only",
    "commands/srun/hostfile", "commands/srun/batch_multiple_concurrent_steps",
    "commands/srun/srun_increasing_job_sizes", "features/job_arrays/*",
    "features/reservations/*", "parameters/slurm/PreemptType/*",
    "parameters/slurm/EnforcePartLimits/*", "parameters/slurm/PriorityType/*",
    "parameters/slurm/RoutePlugin/*", "parameters/slurm/node_attributes/*",
    "plugins/node_features/*", "commands/scontrol/*",
    "144_*", "143_*", "145_*", "146_*", "128_*", "123_*", "105_*", "121_*", "150_*", "151_*",
    "161_*", "122_*", "116_9", "116_11", "116_13", "116_14", "116_28", "116_33", "116_38",
    "114_4", "126_*", "130_1", "133_1", "134_1", "136_*", "139_1", "141_1", "108_*", "153_2",
    "154_1", "158_2", "165_*",
)
# Programs of Expect, without `test`.
PROGRAMS = (
    "39.*", "40.*", "1.14", "1.62", "1.80", "1.81", "1.82", "1.83", "1.84", "1.97", "1.100",
    "1.113", "1.114", "1.119", "1.120", "3.11", "3.14", "3.15", "3.18", "7.22", "8.12", "8.14",
    "15.12", "15.19", "15.2*", "15.39", "17.11", "17.12", "17.17", "17.27", "17.32", "17.36",
    "17.63", "28.11", "34.*",
)


def rank(name, patterns):
    """The place of the first pattern that a name matches, or that after the last."""
    return next((at for at, pattern in enumerate(patterns) if fnmatch.fnmatchcase(name, pattern)),
                len(patterns))


def ordered(suite):
    """The units of a suite, first things first: `pytest MODULE`, `expect PROGRAM`."""
    base = os.path.join(suite, "testsuite", "python", "tests")
    modules = sorted(os.path.relpath(os.path.join(folder, name), base)
                     for folder, _, names in os.walk(base)
                     for name in names if re.fullmatch(r"test_.*\.py", name))
    programs = [name for name in os.listdir(os.path.join(suite, "testsuite", "expect"))
                if re.fullmatch(r"test\d+\.\d+", name)]
    programs.sort(key=lambda name: [int(part) for part in name[4:].split(".")])
    entries = [(rank(re.sub(r"test_(.*)\.py$", r"\1", path), MODULES), 0, f"pytest {path}")
               for path in modules]
    entries += [(rank(name[4:], PROGRAMS), 1, f"expect {name}") for name in programs]
    # The first of each half, then the rest of each: a half changes clusters only twice.
    last = (len(MODULES), len(PROGRAMS))
    entries.sort(key=lambda entry: (entry[0] == last[entry[1]], entry[1], entry[0]))
    return [unit for _, _, unit in entries]
