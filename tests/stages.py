# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of tests/run: one row for each thing that is built or tested.

Seconds are what a row takes alone on two cores; they order the rows, nothing depends on them.
"""

import os
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass, replace

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = "/usr/bin/python3"     # the suites need nothing beyond its standard library
OLD, NEW = "22.05.8", "24.11.5"  # Slurm as Debian 12 and 13 have it
NEWEST = "26.05.5"               # and Debian's next release, whose source has to be given
GIVEN = dict(os.environ)
# Of the caller: the source of a Slurm, the prefix of one, and SchedMD's tests: a git repository of
# Slurm, or the source of a release. No row sees them but its own.
SOURCE, ROOT, SUITE = (value and os.path.abspath(value) for value in (
    os.environ.pop(name, "") for name in ("SLURM_SOURCE", "SLURM_ROOT", "SLURM_TESTSUITE")))
os.environ.pop("MAKEFLAGS", "")  # has them too, if they are of make's command line
NOT_RUN = []                     # (gate, what cannot be tested here, in a sentence)
MAKE = ("make", "-s")
# The programs, and one small test, for whose sake cargo gives the libraries the features that
# tests ask for: so nothing is compiled a second time when the turn of the tests comes.
DEBUG_BUILD = ("--workspace", "--bins", "--test", "init")
CARGO = os.environ.get("CARGO", "cargo")
SCHEMATHESIS = "build/venv/bin/schemathesis"

# What every change runs of the long suites. The rest of each is a row of its own for --all.
FAULTS = ("daemon-stopped", "garbage-old", "ejected", "slurmctld-restarted")
# Gangs by speeds that are imported: MODES.
GANGS = ("gangs-start-whole", "leaf-cost", "admission-waits", "shipped-config")
ORDER_LOST = ("slurmctld-lost", "switched-off")
DATA_JOBS = ("lands-on-holders", "environment-is-set", "told-to-users", "gate-dies",
             "shipped-config")
HOSTILE = ("submissions", "cannot-start")
# Of each long suite what takes longest; a shorter case of the same kind stays.
HDFS_LONG = ("new.hundred-thousand-blocks", "old.pages-of-a-file")
GRAMMAR_SEEN = ("waits-seen", "more-nodes-seen", "requests")
AGENTS_LONG = ("a-thousand-registrations-are-nothing-special",)
TRUST_LONG = ("flood", "readers")
PACKAGES_LONG = ("no-slurm-exchanged",)
MODES = ("gang-seed", "gang-document", "bag-seed", "data-seed-late")
# Those of the daemon and the overlay on the newer Slurm.
FAULTS_NEW = ("daemon-killed", "slurmctld-restarted", "overlay-wrong-version")
CASES_NEW = ("backfill", "reservation-cores", "het-mixed", "gres-typed", "preempt-requeue",
             "job-expand", "job-shrink", "suspend-resume", "exclusive", "exclusive-user",
             "nodelist-partial", "reconfigure", "restart-controller",
             "hint-nomultithread-fill", "ntasks-per-socket-busy", "partition-exclusive",
             "node-count-lists", "tree-pair", "tree-switches-range", "block-*")
# On 22.05 the nodes of these two drain after the reboot, with stock too: the cases hang.
STATE_REBOOT = ("state-reboot-asap", "state-reboot-backfill")
STATE_NEW = ("state-completing-backfill", "state-powered-down", "state-powered-down-backfill",
             "state-powering-up", "state-flex")
TOPOLOGY_NEW = ("leaves", "base-blocks")
LAYOUTS = ("layout", "packed", "tree", "block")
OTHERS = ("base", "gang", "accounting", "proved")
HARNESS_NEW = ("OnSlurm.the-release-asked-for-*",)


@dataclass(frozen=True)
class Row:
    """One row.

    lane     `build`: needs the processors, `work`: needs one, one of each at a time; `any`: mostly
             waits; `quiet`: beside one other of them
    seconds  what it is expected to take
    needs    rows that must have passed before
    env      variables of its own
    gate     `test`: run by every change; `all`: only by --all
    again    cases that fail run once more, alone, and are told: a real cluster meets the clocks
             of slurmctld and slurmd, and a machine that stands still for some seconds
    """

    name: str
    group: str
    lane: str
    seconds: int
    command: tuple
    needs: tuple = ()
    env: tuple = ()
    gate: str = "test"
    again: bool = False


def build(name, seconds, *command, needs=(), lane="build", env=(), gate="test"):
    """A row that makes what others need."""
    return Row(name, "build", lane, seconds, command, tuple(needs), env, gate)


def only(names):
    """Options that choose these cases."""
    return tuple(word for name in names for word in ("--only", name))


def skip(names):
    """Options that leave these cases out."""
    return tuple(word for name in names for word in ("--skip", name))


def variants(names):
    """Options that choose these configurations of Slurm of the transparency suite."""
    return tuple(word for name in names for word in ("--variant", name))


def programs():
    """Variables that say where the programs and the overlay under test are."""
    return (("PHALANX_BIN_DIR", os.path.join(TOP, "target", "debug")),
            ("PHALANX_OVERLAY_DIR", os.path.join(TOP, "build", f"slurm-{slurm()}")))


def by_increments(programs=os.path.join(TOP, "target", "debug")):
    """Whether cargo has compiled by increments into this directory; it makes theirs anyway."""
    try:
        return any(os.scandir(os.path.join(programs, "incremental")))
    except FileNotFoundError:
        return False


def slurm():
    """The version of the installed Slurm, or the one that is going to be installed."""
    program = shutil.which("slurmctld", path=os.environ.get("PATH", "") + ":/usr/sbin")
    return program and version_of(program) or OLD


def version_of(program):
    """The version that a slurmctld tells, or an empty text."""
    try:
        done = subprocess.run([program, "-V"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.split()[-1] if done.returncode == 0 and done.stdout else ""


def version_of_source(path):
    """The version of a source of Slurm, an archive or a tree, by its META; else an empty text."""
    try:
        if os.path.isdir(path):
            with open(os.path.join(path, "META"), encoding="utf-8") as file:
                text = file.read()
        else:
            with tarfile.open(path) as archive:
                name = next(entry for entry in archive if entry.name.count("/") == 1
                            and entry.name.endswith("/META"))
                text = archive.extractfile(name).read().decode()
    except (OSError, ValueError, tarfile.TarError, StopIteration):
        return ""
    found = re.search(r"^\s*Version:\s*(\S+)", text, re.MULTILINE)
    return found.group(1) if found else ""


def suite(name, seconds, *words, lane="any", needs=(), path="cluster", gate="test", env=()):
    """A suite on the installed Slurm."""
    program = words[0] if words and words[0].endswith(".py") else f"{name}.py"
    options = words[1:] if words and words[0].endswith(".py") else words
    return Row(name, path, lane, seconds, (PYTHON, f"tests/{path}/{program}", *options),
               ("debug", "plugin", "packages", *needs), (*programs(), *env), gate, again=True)


def suite_on(release, name, seconds, *options, lane="any", needs=(), gate="test", rest=False):
    """The same suite on another Slurm, in a tree; `rest`: what the gate leaves out."""
    program = {"harness": "test_harness", "node-state": "transparency",
               "data-jobs": "data_jobs", "stock-choice": "stock_choice"}.get(name, name)
    return Row(f"{name}-{release}{'-rest' if rest else ''}", release, lane, seconds,
               (PYTHON, f"tests/cluster/{program}.py", *options),
               (f"slurm-{release}", "packages", *needs),
               (("PHALANX_TEST_SLURM", release),), gate, again=True)


def suite_new(*words, **options):
    """On Debian 13's."""
    return suite_on("24.11", *words, **options)


def overlay_newest():
    """The overlay's suites on the newest Slurm, where its source is given."""
    if version_of_source(SOURCE) != NEWEST:
        found = version_of_source(SOURCE)
        NOT_RUN.append(("test", f"the overlay on Slurm {NEWEST}: SLURM_SOURCE is "
                        + (f"{SOURCE}, the source of {found or 'no Slurm'}" if SOURCE
                           else "not set; it has to be the source of exactly this version")))
        return ()
    source = (("SLURM_SOURCE", SOURCE),)
    return (
        Row("plugin-check-26.05", "26.05", "work", 70,
            (*MAKE, "-C", "plugin", "check", f"SLURM_VERSION={NEWEST}"),
            ("slurm-26.05", "packages"), source),
        suite_on("26.05", "placement", 40),
        suite_on("26.05", "transparency", 110, *variants(OTHERS + LAYOUTS), *only(CASES_NEW)),
        suite_on("26.05", "faults", 60, *only(FAULTS_NEW), lane="quiet"),
        suite_on("26.05", "transparency", 240, *variants(OTHERS + LAYOUTS), *skip(CASES_NEW),
                 gate="all", rest=True),
        suite_on("26.05", "faults", 180, *skip(FAULTS_NEW), lane="quiet", gate="all", rest=True),
        *(suite_on("26.05", name, seconds, gate="all") for name, seconds in
          (("bags", 65), ("doctor", 30), ("ha", 170), ("order", 90), ("gangs", 113))),
    )


def judges():
    """SchedMD's own tests, stock and with the overlay, of the releases whose tests are given."""
    given = version_of_source(SUITE)
    whole = any(os.path.exists(os.path.join(SUITE, name)) for name in (".git", "objects"))
    found, program = (("SLURM_TESTSUITE", SUITE),), (PYTHON, "tests/judge/judge.py")
    rows = {OLD: Row("judge", "judge", "any", 3600, program, ("debug", "plugin", "packages"),
                     (*programs(), *found), "all"),
            NEW: Row("judge-24.11", "judge", "any", 3600, program, ("slurm-24.11", "packages"),
                     (("PHALANX_TEST_SLURM", "24.11"), *found), "all")}
    lost = [version for version in rows if not SUITE or not whole and given not in ("", version)]
    for version in lost:
        NOT_RUN.append(("all", f"SchedMD's own tests of Slurm {version}: SLURM_TESTSUITE is "
                        + (f"the source of {given}" if SUITE
                           else "not set; it has to be a git repository of Slurm")))
    return tuple(row for version, row in rows.items() if version not in lost)


def site(rows):
    """All suites on the Slurm under SLURM_ROOT, which has to be built from SLURM_SOURCE."""
    if not ROOT:
        return ()
    version, given = version_of(f"{ROOT}/sbin/slurmctld"), version_of_source(SOURCE)
    own = (("PHALANX_TEST_SLURM_ROOT", ROOT),)
    built = build("slurm-site", 60, "tests/cluster/build-other", ROOT, needs=["debug", "packages"],
                  env=(("SLURM_SOURCE", SOURCE), ("DEBUG_BUILD", " ".join(DEBUG_BUILD))),
                  gate="all")
    check = Row("plugin-check-site", "site", "work", 70,
                (*MAKE, "-C", "plugin", "check", f"SLURM_VERSION={version}", f"SLURM_ROOT={ROOT}"),
                ("slurm-site", "packages"), (("SLURM_SOURCE", SOURCE),), "all")
    suites = [replace(row, name=f"{row.name}-site", group="site", gate="all", env=(*row.env, *own),
                      needs=("slurm-site", *(need for need in row.needs
                                             if need not in ("debug", "plugin"))))
              for row in rows if row.group in ("cluster", "beside")]
    if given != version and version not in (OLD, NEW):
        NOT_RUN.append(("all", f"the overlay on {ROOT}, which is Slurm {version or 'none'}: "
                        "SLURM_SOURCE " + (f"is the source of {given or 'no Slurm'}" if SOURCE
                                           else "is not set")))
        return built, *(row for row in suites if row.name in ("harness-site", "beside-site"))
    return built, check, *suites


def packages(version, release, seconds, programs_dir, gate, needs):
    """The rows of the packages for one release of Slurm."""
    debs, tree = f"build/deb-test/{version}", f"build/trees/{release}"
    overlay = f"build/slurm-{version}/select_cons_tres.so"
    other = () if version == OLD else (
        ("PHALANX_DEBIAN", "13"), ("PHALANX_PAGES", f"{TOP}/target/debug/phalanx-bench"))
    return (
        build(f"system-{release}", 90, "tests/packaging/tree", release, tree, lane="any",
              needs=["packages"], gate=gate),
        build(f"deb-{version}", 40, "packaging/build-deb", version, programs_dir, overlay, debs,
              lane="work", needs=["packages", *needs], env=other, gate=gate),
        Row(f"packages-{version}", "packages", "any", seconds,
            (PYTHON, "tests/packaging/packages.py", "--tree", tree, "--debs", debs,
             *skip(PACKAGES_LONG)),
            (f"system-{release}", f"deb-{version}"), (), gate, again=True),
        Row(f"packages-rest-{version}", "packages", "any", seconds,
            (PYTHON, "tests/packaging/packages.py", "--tree", tree, "--debs", debs,
             *only(PACKAGES_LONG)),
            (f"system-{release}", f"deb-{version}"), (), "all", again=True),
        # Beside stand-ins of SchedMD's: what apt does, and jobs on a Slurm of theirs.
        Row(f"smd-{version}", "packages", "any", 45,
            (PYTHON, "tests/packaging/smd.py", "--tree", tree, "--debs", debs),
            (f"system-{release}", f"deb-{version}"), (), "all"),
        Row(f"packages-smd-{version}", "packages", "any", seconds,
            (PYTHON, "tests/packaging/packages.py", "--tree", tree, "--debs", debs, "--smd",
             "--skip", "lintian"),
            (f"system-{release}", f"deb-{version}"), (), "all", again=True),
    )


ROWS = (
    # What the others need. Packages, downloads and trees come while Rust is being compiled.
    build("packages", 90, *MAKE, "deps-test", lane="any"),
    build("plugin", 60, *MAKE, "plugin", lane="any"),
    build("plugin-24.11", 60, *MAKE, "plugin", f"SLURM_VERSION={NEW}", lane="any"),
    build("debug", 220, CARGO, "build", *DEBUG_BUILD),
    build("tests", 180, CARGO, "build", "--workspace", "--bins", "--tests", needs=["debug"]),
    build("tree-24.11", 40, PYTHON, "-c",
          "from slurmcluster.release import Release; Release('24.11').ensure_tree()",
          lane="any", needs=["packages"]),
    build("slurm-24.11", 30, "tests/cluster/build-other", NEW,
          needs=["debug", "plugin-24.11", "tree-24.11"],
          env=(("DEBUG_BUILD", " ".join(DEBUG_BUILD)),)),
    build("tree-26.05", 30, PYTHON, "-c",
          "from slurmcluster.release import Release; Release('26.05').ensure_tree()",
          lane="any", needs=["packages"]),
    build("slurm-26.05", 30, "tests/cluster/build-other", NEWEST,
          needs=["debug", "tree-26.05"],
          env=(("DEBUG_BUILD", " ".join(DEBUG_BUILD)),
               ("SLURM_SOURCE", SOURCE if version_of_source(SOURCE) == NEWEST else ""))),
    build("hadoop", 60, PYTHON, "tests/hdfs/minihdfs.py", "--fetch", lane="any",
          needs=["packages"]),
    build("schemathesis", 30, *MAKE, SCHEMATHESIS, lane="any", needs=["packages"]),
    build("munged", 1, PYTHON, "-c", "from slurmcluster import munge; munge.ensure()", lane="any",
          needs=["packages"]),

    # What the compilers and the unit tests say.
    # Its own systems begin anew when the packages of the machine change.
    Row("runner", "check", "any", 8, (PYTHON, "tests/test_run.py"), ("packages",)),
    Row("tidy", "check", "any", 2, (PYTHON, "tests/test_tidy.py")),
    Row("histories", "check", "any", 10, (PYTHON, "tests/test_judge.py")),
    Row("receipts", "check", "any", 5, (PYTHON, "tests/test_receipts.py")),
    Row("dataset-list", "check", "any", 2, (PYTHON, "tests/test_dataset_list.py")),
    Row("gpu-logs", "check", "any", 1, (PYTHON, "tests/test_gpu_logs.py")),
    Row("shipped-scripts", "check", "any", 4, (PYTHON, "tests/test_shipped_scripts.py"),
        ("packages",)),
    Row("mutants", "check", "any", 1, (PYTHON, "tests/mutants.py", "--check")),
    Row("record", "check", "any", 1, (PYTHON, "tests/faults.py", "--check")),
    Row("lint", "check", "any", 10, ("tests/lint",), ("packages",)),
    Row("check", "check", "build", 95, (*MAKE, "check"), ("debug",)),
    Row("deny", "check", "build", 75, (*MAKE, "deny"), ("packages",), gate="all"),
    Row("unit", "check", "build", 100, (CARGO, "test", "--workspace"),
        ("tests", "plugin", "munged"), (("PHALANX_NEED_MUNGED", "1"),)),
    # Ten times as many random asks as unit has.
    Row("reference", "check", "build", 60,
        (CARGO, "test", "-p", "phalanx-planner", "--lib", "a_million", "--", "--ignored"),
        ("tests",), gate="all"),
    Row("standalone", "check", "any", 5, (PYTHON, "tests/standalone.py"), ("debug",), programs()),
    # Each call in turn: make campaign-failures.
    Row("failures", "check", "any", 15,
        (PYTHON, "tests/failures/daemon.py", "--every", "60"), ("debug", "packages"), programs()),
    # Overlay and link in one thread of virtual time: some seeds, and each check seen to fail.
    Row("sim-link", "check", "work", 160, ("tests/campaign-link", "--sabotage", "--seeds", "100"),
        ("tests", "plugin")),
    Row("plugin-check", "check", "any", 400, (*MAKE, "-C", "plugin", "check"),
        ("plugin", "packages", "debug")),
    Row("plugin-stalled", "check", "any", 165,
        (*MAKE, "-C", "plugin", "check-host", f"T={TOP}/build/slurm-{OLD}/stalled",
         f"RUN_HARNESS={PYTHON} {TOP}/tests/stalled.py"), ("plugin", "packages"), gate="all"),
    # Instructions and allocations of fixed work, beside those of the commit.
    Row("counts", "check", "work", 60, (PYTHON, "tests/counts.py"),
        ("plugin", "packages", "debug"), programs()),
    Row("figures", "check", "any", 150, (PYTHON, "tests/bench/figures.py"), ("debug",),
        programs(), gate="all"),
    Row("plugin-check-24.11", "24.11", "any", 400,
        (*MAKE, "-C", "plugin", "check", f"SLURM_VERSION={NEW}"), ("slurm-24.11", "packages"),
        gate="all"),
    Row("page", "page", "any", 25, (PYTHON, "tests/page/page.py"), ("packages",), again=True),

    # Suites on clusters of the installed Slurm.
    Row("harness", "cluster", "any", 35, (PYTHON, "tests/cluster/test_harness.py"),
        ("packages",), again=True),
    suite("placement", 42),
    suite("layout", 60),
    suite("deaths", 60, *skip(["one-user"])),
    suite("deaths-rest", 40, "deaths.py", *only(["one-user"]), gate="all"),
    suite("learn", 28),
    suite("capacity", 5, *only(["future-and-down"])),
    suite("capacity-rest", 75, "capacity.py", *skip(["future-and-down"]), gate="all"),
    suite("transparency", 173, *variants(OTHERS)),
    suite("transparency-layout", 80, "transparency.py", *variants(LAYOUTS)),
    # Alone: a plan for nodes that are powered down needs a moment before the job starts.
    suite("node-state", 80, "transparency.py", *variants(["state"]), *skip(STATE_REBOOT),
          lane="quiet"),
    suite("topology", 55),
    suite("grammar", 75, "--requests", "300", *only(GRAMMAR_SEEN)),
    suite("grammar-rest", 150, "grammar.py", "--requests", "1500", "--seed", "2", gate="all"),
    suite("order", 65, *skip(ORDER_LOST)),
    suite("order-rest", 50, "order.py", *only(ORDER_LOST), gate="all"),
    suite("compare", 50, "--jobs", "150"),
    suite("compare-long", 190, "compare.py", lane="quiet", gate="all"),
    suite("gangs", 35, *only(GANGS)),
    suite("gangs-rest", 100, "gangs.py", *skip(GANGS), gate="all"),
    suite("modes", 25, *only(MODES)),
    suite("modes-rest", 40, "modes.py", *skip(MODES), gate="all"),
    suite("replay", 25),
    suite("stock-choice", 80, "stock_choice.py", "--jobs", "60"),
    suite("data-jobs", 60, "data_jobs.py", *only(DATA_JOBS), needs=["hadoop"]),
    suite("data-jobs-rest", 150, "data_jobs.py", *skip(DATA_JOBS), needs=["hadoop"], gate="all"),
    suite("datasets", 20, *only(["near-the-list", "followed"])),
    suite("datasets-rest", 60, "datasets.py", *skip(["near-the-list", "followed"]), gate="all"),
    suite("secure-hdfs", 90, "secure_hdfs.py", needs=["hadoop"], gate="all"),
    suite("data-speeds", 150, "data_speeds.py", needs=["hadoop"], gate="all"),
    suite("bags", 65, *skip(["partly-known", "briefly", "held-tasks-wake"])),
    suite("bags-rest", 200, "bags.py", *only(["partly-known", "briefly", "held-tasks-wake"]),
          gate="all"),
    suite("ends", 43),
    suite("proofs", 30, *only(["queue"])),
    suite("proofs-changes", 90, "proofs.py", gate="all"),
    suite("starvation", 390, gate="all"),
    suite("energy", 20, *skip(["sources"])),
    suite("energy-rest", 60, "energy.py", *only(["sources"]), gate="all"),
    suite("data-service", 20, "data_service.py", needs=["schemathesis"],
          env=(("PHALANX_SCHEMATHESIS", f"{TOP}/{SCHEMATHESIS}"),)),
    suite("agents", 60, *skip(AGENTS_LONG)),
    suite("agents-rest", 45, "agents.py", *only(AGENTS_LONG), gate="all"),
    suite("streams", 20, *only(["unequal-nodes", "kills-lose-nothing"])),
    suite("streams-rest", 18, "streams.py", *skip(["unequal-nodes", "kills-lose-nothing"]),
          gate="all"),
    suite("report", 40, gate="all"),
    suite("doctor", 36, *skip(["drills"])),
    suite("doctor-rest", 90, "doctor.py", *only(["drills"]), gate="all"),
    suite("ha", 40),
    suite("trust", 60, *skip(TRUST_LONG), lane="quiet"),
    suite("inference", 55, "inference.py", "--images", "60", needs=["hadoop"]),
    suite("hdfs", 75, "test_client.py", *skip(HDFS_LONG), path="hdfs", needs=["hadoop"]),
    suite("hdfs-rest", 120, "test_client.py", *only(HDFS_LONG), path="hdfs", needs=["hadoop"],
          gate="all"),
    suite("faults", 70, *only(FAULTS), lane="quiet"),
    suite("hostile", 40, *only(HOSTILE), lane="quiet"),
    suite("hostile-rest", 90, "hostile.py", *skip(HOSTILE), lane="quiet", gate="all"),
    suite("kills", 24, "--kills", "5"),
    suite("kills-rest", 400, "kills.py", "--kills", "100", "--seed", "2", gate="all"),
    suite("lying-gate", 45, "lying_gate.py", lane="quiet", gate="all"),
    suite("trust-rest", 150, "trust.py", *only(TRUST_LONG), lane="quiet", gate="all"),
    suite("faults-rest", 150, "faults.py", *skip(FAULTS), lane="quiet", gate="all"),
    suite("reality", 45, "--together", lane="quiet", gate="all"),
    suite("replay-log", 130, "replay_log.py", "--jobs=60", "--slots=16", "--span=40",
          "--segment=3", lane="quiet", gate="all"),

    # The same on the newer Slurm.
    suite_new("harness", 5, *only(HARNESS_NEW)),
    suite_new("placement", 40),
    suite_new("layout", 60, gate="all"),
    suite_new("proofs", 90, gate="all"),
    suite_new("transparency", 110, *variants(OTHERS + LAYOUTS), *only(CASES_NEW)),
    suite_new("node-state", 30, *only(STATE_NEW), gate="all"),
    suite_new("topology", 45, *only(TOPOLOGY_NEW), gate="all"),
    suite_new("faults", 60, *only(FAULTS_NEW), lane="quiet"),
    suite_new("harness", 40, *skip(HARNESS_NEW), gate="all", rest=True),
    suite_new("transparency", 260, *variants(OTHERS + LAYOUTS), *skip(CASES_NEW), gate="all",
              rest=True),
    suite_new("node-state", 30, *variants(["state"]), *skip(STATE_NEW), gate="all", rest=True),
    suite_new("topology", 90, *skip(TOPOLOGY_NEW), gate="all", rest=True),
    suite_new("faults", 180, *skip(FAULTS_NEW), lane="quiet", gate="all", rest=True),
    suite_new("stock-choice", 80, "--jobs", "60", gate="all"),
    suite_new("bags", 65, gate="all"),
    suite_new("doctor", 30, gate="all"),
    suite_new("ha", 170, gate="all"),
    suite_new("agents", 100, gate="all"),
    suite_new("data-jobs", 215, needs=["hadoop"], gate="all"),
    suite_new("datasets", 100, gate="all"),
    suite_new("energy", 30, gate="all"),
    suite_new("gangs", 170, gate="all"),
    suite_new("learn", 20, gate="all"),
    suite_new("streams", 35, gate="all"),

    # The newest Slurm, whose own headers nobody need have: all that only reads.
    suite_on("26.05", "harness", 5, *only(HARNESS_NEW)),
    suite_on("26.05", "beside", 26),
    suite_on("26.05", "harness", 40, *skip(HARNESS_NEW), gate="all", rest=True),
    replace(suite("beside", 26, gate="all"), group="beside"),
    suite_new("beside", 26, gate="all"),
    *overlay_newest(),
    *judges(),

    # Debian packages on fresh systems.
    *packages(OLD, "bookworm", 66, "target/debug", "test", ["debug", "plugin"]),
    *packages(NEW, "trixie", 66, f"build/slurm-{NEW}/bin", "all", ["slurm-24.11"]),
    build("packages-rpm", 30, *MAKE, "deps-rpm", lane="any", needs=["packages"], gate="all"),
    Row("rpms", "packages", "any", 70,
        (PYTHON, "tests/packaging/rpms.py", "--tree", "build/trees/bookworm",
         "--programs", "target/debug"),
        ("system-bookworm", "packages-rpm", "debug", "plugin"), (), "all"),
    Row("containers", "packages", "any", 120,
        (PYTHON, "tests/packaging/containers.py", "--tree", "build/trees/bookworm",
         "--programs", "target/debug"),
        ("system-bookworm", "packages-rpm", "debug", "plugin"), (), "all"),
    Row("overlay", "packages", "work", 50, (PYTHON, "tests/packaging/overlay.py"),
        ("packages", "plugin"), (), "all"),
    Row("rebuild", "packages", "work", 25, (PYTHON, "tests/packaging/rebuild.py"),
        ("packages", "plugin")),
)

# A site's own.
ROWS += site(ROWS)
