#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""phalanxd for another Slurm without compiling Rust twice.

    relink.py PROFILE TARGET_DIR INCLUDE_DIR LIB_DIR OUT     (run by build-other)

What depends on Slurm is the C shim of `ffi/slurm`; the Rust code sees the shim's own header. So
the shim is built for the other release, and where the Rust view of it is the same for both, which
is looked at, the daemon of the installed release is linked once more with the other shim. The
command line depends on no Slurm and is copied. Ends with 3 where that cannot be done: then
everything has to be built.
"""

import filecmp
import glob
import json
import os
import shutil
import subprocess
import sys

CARGO = os.environ.get("CARGO", "cargo")
RUSTC = os.environ.get("RUSTC", "rustc")
# The daemon's source, and the libraries that it names.
SOURCE, NAMES = "src/service/phalanxd.rs", ("phalanx_service", "phalanx_config", "clap")
VIEW = "shim.rs"
CODEGEN = {"debug": ["-Copt-level=0"], "release": ["-Copt-level=3", "-Cpanic=abort"]}
CANNOT = 3


def cargo(*words, **variables):
    """cargo's messages about what it has built or found built."""
    done = subprocess.run([CARGO, "build", "--message-format=json-render-diagnostics", *words],
                          stdout=subprocess.PIPE, text=True, check=True,
                          env=os.environ | variables)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def library(messages, name):
    """The rlib of a crate."""
    for message in messages:
        if message["reason"] == "compiler-artifact" and message["target"]["name"] == name:
            for path in message["filenames"]:
                if path.endswith(".rlib"):
                    return path
    return give_up(f"cargo names no library of {name}")


def shim_dir(messages):
    """Where the build script of ffi/slurm has written."""
    for message in messages:
        if message["reason"] == "build-script-executed" \
                and "#phalanx-slurm@" in message["package_id"]:
            return message["out_dir"]
    return give_up("cargo tells no build directory of ffi/slurm")


def give_up(why):
    """Everything has to be built."""
    print(f"relink: {why}", file=sys.stderr)
    sys.exit(CANNOT)


def libraries(own, other_shim, directory):
    """All libraries, with the shim's objects replaced in the one that has them."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    for path in glob.glob(os.path.join(os.path.dirname(own), "lib*")):
        name = os.path.basename(path)
        if name.endswith((".rlib", ".so", ".rmeta")) and not name.startswith("libphalanx_slurm-"):
            os.symlink(path, os.path.join(directory, name))
    copy = shutil.copy(own, directory)
    members = subprocess.run(["ar", "t", copy], stdout=subprocess.PIPE, text=True, check=True)
    old = [name for name in members.stdout.split() if name.endswith(".o") and "-slurm_" in name]
    new = glob.glob(os.path.join(other_shim, "*-slurm_*.o"))
    names = {name.split("-")[-1] for name in old}
    if not old or names != {os.path.basename(path).split("-")[-1] for path in new}:
        give_up(f"the objects of the shim are {old} and {new}")
    subprocess.run(["ar", "d", copy, *old], check=True)
    subprocess.run(["ar", "qs", copy, *new], check=True)


def main():
    """Builds the shim, compares, links."""
    profile, target, include_dir, lib_dir, out = sys.argv[1:]
    flags = ["--release"] if profile == "release" else []
    what = os.environ.get("DEBUG_BUILD", "--bins").split() if profile == "debug" else ["--bins"]
    ours = cargo(*what, *flags)
    synth = ["--features", "synth"] if "--test" in what else []      # as the tests have it
    other = cargo("-p", "phalanx-slurm", *synth, *flags, "--target-dir", target,
                  SLURM_INCLUDE_DIR=include_dir, SLURM_LIB_DIR=lib_dir)
    here, there = shim_dir(ours), shim_dir(other)
    if not filecmp.cmp(os.path.join(here, VIEW), os.path.join(there, VIEW), shallow=False):
        give_up(f"{VIEW} differs between the two releases of Slurm")
    link_dir = os.path.join(target, "link")
    libraries(library(ours, "phalanx_slurm"), there, link_dir)
    paths = {path for message in ours for path in message.get("linked_paths", [])}
    externs = [word for name in NAMES for word in ("--extern", f"{name}={library(ours, name)}")]
    daemon = os.path.join(out, "phalanxd")
    subprocess.run([RUSTC, "--edition=2024", "--crate-name=phalanxd", "--crate-type=bin",
                    SOURCE, *CODEGEN[profile], "-Cdebuginfo=line-tables-only",
                    *externs, f"-Ldependency={link_dir}", f"-Lnative={lib_dir}",
                    *[f"-L{path}" for path in sorted(paths)], "-o", daemon + ".new"], check=True)
    os.replace(daemon + ".new", daemon)
    for name in ("phalanx", "phalanx-gate"):     # these know nothing of Slurm
        shutil.copy(os.path.join("target", profile, name), os.path.join(out, name + ".new"))
        os.replace(os.path.join(out, name + ".new"), os.path.join(out, name))


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        give_up(error)
