#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the runner on small tables: lanes, needs, second runs, and what an interrupt leaves.

And of the clock of all deadlines, which goes by what the machine does, and of the judge's verdict.
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import signal
import subprocess
import sys
import time
import types

from slurmcluster import clock
from slurmcluster.suite import Cases, Suite, check, command_line, run, until

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "judge"))
import inside  # noqa: E402
import judge  # noqa: E402
import order  # noqa: E402
case = Cases()


def loaded():
    """The program tests/run as a module."""
    loader = importlib.machinery.SourceFileLoader("run", os.path.join(HERE, "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
    sys.modules["run"] = module
    loader.exec_module(module)
    return module


RUN = loaded()


class Table(Suite):
    """Small tables, whose rows write when they begin and end."""

    def __init__(self, root):
        super().__init__()
        self.root = root
        RUN.LOGS = os.path.join(root, "log")
        RUN.TIMES = os.path.join(root, "times.tsv")
        RUN.FLAKES = os.path.join(root, "flakes.tsv")

    def row(self, name, lane="any", seconds=1, command="sleep 0.4", needs=(), again=False):
        """A row that notes its begin and end in a file."""
        path = os.path.join(self.root, "events")
        script = f"echo begin {name} >> {path}; {command}; code=$?; " \
                 f"echo end {name} >> {path}; exit $code"
        return RUN.stages.Row(name, "test", lane, seconds, ("sh", "-c", script), tuple(needs),
                              again=again)

    def suite(self, name, *options):
        """A row of the suite below, whose cases note in the file of events that they run."""
        path = os.path.join(self.root, f"{name}.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(SUITE.format(events=os.path.join(self.root, "events"), name=name,
                                    flaky=os.path.join(self.root, f"{name}.flaky")))
        command = (sys.executable, path, *options)
        return RUN.stages.Row(name, "test", "any", 1, command, again=True)

    def work(self, *rows, lanes=3, strict=False):
        """Runs rows; returns (the runner, its exit status, the events)."""
        path = os.path.join(self.root, "events")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        runner = RUN.Runner(rows, lanes, [], strict)
        status = runner.work()
        runner.report()
        with open(path, encoding="utf-8") as file:
            return runner, status, [tuple(line.split()) for line in file]


# Its case `flaky` fails the first time, `hopeless` always; `dies` ends the program.
SUITE = """
import contextlib, os, sys
from slurmcluster.suite import Cases, Suite, check, command_line, run
case = Cases()

def note(name):
    with open({events!r}, "a") as file:
        file.write("case " + name + "\\n")

@case
def good(_):
    note("good")

@case
def flaky(suite):
    note("flaky")
    there = os.path.exists({flaky!r})
    open({flaky!r}, "w").close()
    suite.expect(there, "not within 3.0 s:\tthe second time\\nmore")

@case(needs=["flaky"])
def after(_):
    note("after")

@case
def hopeless(_):
    note("hopeless")
    raise KeyError("never")

@case
def dies(_):
    note("dies")
    if not os.path.exists({flaky!r}):
        open({flaky!r}, "w").close()
        os._exit(1)

@contextlib.contextmanager
def setting(root, args):
    if os.path.exists({flaky!r} + ".setting"):
        os.unlink({flaky!r} + ".setting")
        check(False, "no cluster")
    yield Suite()

sys.exit(run(command_line("A suite", case), setting))
"""


def at_once(events, names=None):
    """The largest number of these rows that ran at once."""
    most, running = 0, set()
    for what, name in events:
        if names is None or name in names:
            running = running | {name} if what == "begin" else running - {name}
            most = max(most, len(running))
    return most


@case
def lanes_are_kept(table):
    """Never more than there are lanes, one that builds, and quiet rows by two in the end"""
    rows = [table.row(f"any{i}") for i in range(4)]
    rows += [table.row(f"{lane}{i}", lane) for lane in ("build", "work") for i in range(3)]
    quiet = {f"quiet{i}" for i in range(3)}
    rows += [table.row(name, "quiet", 99) for name in sorted(quiet)]
    _, status, events = table.work(*rows)
    check(status == 0, f"status {status}")
    check(at_once(events) == 3, f"{at_once(events)} at once, three lanes: {events}")
    for lane in ("build", "work"):
        check(at_once(events, {f"{lane}{i}" for i in range(3)}) == 1, f"{lane} at once: {events}")
    check(at_once(events, quiet) == 2, f"quiet rows at once: {events}")
    check(all(name in quiet for _, name in events[-6:]), f"quiet: {events}")


@case
def longest_chain_first(table):
    """What others wait for comes before what takes longer itself"""
    _, _, events = table.work(table.row("short", seconds=1), table.row("long", seconds=10),
                              table.row("first", seconds=1),
                              table.row("second", seconds=20, needs=["first"]), lanes=1)
    order = [name for what, name in events if what == "begin"]
    check(order == ["first", "second", "long", "short"], f"{order}")


@case
def failures_are_told(table):
    """What needs a failed row is not run; a suite that fails runs once more, alone"""
    flaky = os.path.join(table.root, "flaky")
    runner, status, events = table.work(
        table.row("bad", command="false"), table.row("needs-bad", needs=["bad"]),
        table.row("flaky", command=f"[ -e {flaky} ] || {{ touch {flaky}; echo FAIL leaf; "
                  "echo '       why'; echo more; echo '       no'; false; }", again=True),
        table.row("hopeless", command="false", again=True), table.row("good"))
    check(status == 1, f"status {status}")
    check(runner.failed == ["bad", "hopeless"], f"failed: {runner.failed}")
    check(runner.skipped == ["needs-bad"], f"not run: {runner.skipped}")
    check(sorted(runner.second) == ["flaky", "hopeless"], f"twice: {runner.second}")
    check("flaky" in runner.passed, "flaky did not pass the second time")
    check(runner.said["flaky"] == ["    flaky: FAIL leaf", "    flaky:        why"],
          f"said: {runner.said}")
    begun = [name for what, name in events if what == "begin"]
    check(begun.count("hopeless") == 2 and begun.count("bad") == 1, f"{begun}")
    check(set(begun[-2:]) == {"flaky", "hopeless"}, f"second runs come last: {begun}")
    check([(flake.row, flake.case, flake.reason, flake.passed) for flake in runner.flakes]
          == [("flaky", "*", "FAIL leaf", True), ("hopeless", "*", "", False)],
          f"{runner.flakes}")
    with open(RUN.TIMES, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    check(rows[0] == RUN.COLUMNS.rstrip("\n").split("\t"), f"{rows[0]}")
    check(len({len(row) for row in rows}) == 1, f"{rows}")


@case
def only_failed_cases_run_again(table):
    """Cases that failed run again, alone; they are kept, named last and, strictly, a failure"""
    row = table.suite("suite", "--skip", "hopeless", "--skip", "dies")
    runner, status, events = table.work(row)
    check(status == 0 and runner.passed == {"suite"}, f"status {status}, {runner.passed}")
    names = [name for _, name in events]
    check(names == ["good", "flaky", "flaky", "after"], f"{names}")
    found = [(flake.case, flake.reason, flake.passed) for flake in runner.flakes]
    check(found == [("flaky", "not within 3.0 s:\tthe second time", True),
                    ("after", "not run, because it needs flaky", True)], f"{found}")
    kept = [row for row in RUN.kept(RUN.FLAKES) if row["row"] == "suite"]
    check([(row["row"], row["case"], row["result"]) for row in kept]
          == [("suite", "flaky", "passed"), ("suite", "after", "passed")], f"{kept}")
    check(kept[0]["reason"] == "not within 3.0 s: the second time", f"{kept[0]}")
    check(float(kept[0]["load"]) >= 0 and kept[0]["run"] == runner.stamp, f"{kept[0]}")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runner.report()
    last = out.getvalue().splitlines()[-6:]
    check("2 CASES PASSED ONLY THE SECOND TIME" in last and "suite flaky" in last[3], f"{last}")

    os.unlink(os.path.join(table.root, "suite.flaky"))
    runner, status, _ = table.work(row, strict=True)
    check(status == RUN.EXIT_SECOND and not runner.failed, f"strict: {status}, {runner.failed}")
    runner, status, _ = table.work(row, strict=True)
    check(status == 0 and not runner.flakes, f"strict, clean: {status}, {runner.flakes}")


@case
def only_suites_run_again(_table):
    """What compilers and unit tests say is final: rows with a second run are suites with cases"""
    again = [row for row in RUN.stages.ROWS if row.again]
    wrong = [row.name for row in again if row.lane in RUN.BUSY or row.group in ("build", "check")
             or not row.command[1].endswith(".py")]
    check(again and not wrong, f"with a second run: {wrong}")
    for path in sorted({row.command[1] for row in again}):
        with open(os.path.join(os.path.dirname(HERE), path), encoding="utf-8") as file:
            check("command_line(" in file.read(), f"{path} tells no cases")


@case
def a_case_that_fails_twice_fails(table):
    """A second failure is one; what passed beside it is told apart"""
    runner, status, events = table.work(
        table.suite("twice", "--skip", "dies", "--skip", "after"), strict=True)
    check(status == RUN.EXIT_FAILED and runner.failed == ["twice"], f"{status}, {runner.failed}")
    names = [name for _, name in events]
    check(names == ["good", "flaky", "hopeless", "flaky", "hopeless"], f"{names}")
    found = {flake.case: flake.passed for flake in runner.flakes}
    check(found == {"flaky": True, "hopeless": False}, f"{found}")
    check(runner.flakes[1].reason == "KeyError: 'never'", f"{runner.flakes[1]}")


@case
def what_was_not_told_runs_again(table):
    """A suite that dies runs what had not passed; one without its cluster all, for that reason"""
    runner, status, events = table.work(table.suite("dead", "--only", "good", "--only", "dies"))
    check(status == 0, f"status {status}, {events}")
    check([name for _, name in events] == ["good", "dies", "dies"], f"{events}")
    check([(flake.case, flake.reason) for flake in runner.flakes] == [("dies", "did not end")],
          f"{runner.flakes}")
    with open(os.path.join(table.root, "bare.flaky.setting"), "w", encoding="utf-8"):
        pass
    runner, status, events = table.work(table.suite("bare", "--only", "good"))
    check(status == 0 and [name for _, name in events] == ["good"], f"{status}, {events}")
    check([(flake.case, flake.reason) for flake in runner.flakes]
          == [("good", "setting: no cluster")], f"{runner.flakes}")


@case
def the_last_run_can_be_asked(table):
    """--flakes shows what of the last run passed only the second time, and of none before it"""
    path = os.path.join(table.root, "suite.flaky")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    row = table.suite("suite", "--only", "flaky")
    for stamp, cases in (("1", ["flaky"]), ("2", [])):
        runner = RUN.Runner([row], 1, [])
        runner.stamp = stamp
        runner.work()
        runner.report()
        found = [flake.case for flake in RUN.flakes_of_last_run()]
        check(found == cases, f"run {stamp}: {found}")


@case
def deadlines_go_by_the_machine(_table):
    """A busy machine stretches a limit, and a stand-still does not count"""
    cpus = os.cpu_count()
    for elapsed, runnable, counted in ((0.05, 0, 0.05), (0.05, cpus, 0.05), (3.0, 1, 0.05),
                                       (0.05, 2 * cpus, 0.025), (0.05, 1000, 0.01)):
        one = clock.Clock()
        one.tick(elapsed, runnable)
        with one._lock:     # pylint: disable=protected-access
            found = one._now
        check(abs(found - counted) < 1e-9, f"{elapsed} s, {runnable} ready: {found}")
    one, begin = clock.Clock(lambda: 4 * cpus), time.monotonic()
    until(lambda: one.now() >= 0.1, "0.1 s of the clock")
    took = time.monotonic() - begin
    check(took >= 0.3, f"0.1 s on a machine that is four times too busy took {took:.2f} s")
    check(clock.runnable_now() >= 0, "/proc/loadavg")


@case
def one_that_hangs_is_ended(table):
    """A row that takes far too long fails, and the others go on"""
    runner, status = hasty(table, table.row("hangs", command="sleep 60"),
                           table.row("waits", "build", command="sleep 60"),
                           table.row("good", command="true"))
    check(status == 1 and set(runner.failed) == {"hangs", "waits"},
          f"{status}, failed: {runner.failed}")
    check(runner.times[-1][2] < 10, f"{runner.times}")


@case
def processors_are_counted_by_row(table):
    """Beside the seconds that a row took are those of processors that it used"""
    runner, _, _ = table.work(table.row("works", command="seq 4000000 | sort -n | tail -1"),
                              table.row("waits", command="sleep 1"))
    cpu = {row.name: cpu for row, _, _, cpu, _ in runner.times}
    check(cpu["works"] > 0.2 > cpu["waits"], f"{cpu}")


@case
def no_wall_clock_ends_a_row(table):
    """What waits goes on while the suites' clock stands, what builds while it gets processors"""
    kept, RUN.CLOCK = RUN.CLOCK, clock.Clock()
    RUN.CLOCK.now = lambda: 0.0
    # An eighth of the time is worked: twice the limit by the wall.
    works = ("python3 -c 'import time\nfor _ in range(5):\n time.sleep(.4)\n"
             " end = time.process_time() + .03\n while time.process_time() < end: pass'")
    try:
        runner, status = hasty(table, table.row("waits", command="sleep 3"),
                               table.row("works", "build", command=works))
    finally:
        RUN.CLOCK = kept
    check(status == 0, f"failed: {runner.failed}")


def hasty(table, *rows):
    """(runner, status) of rows that hang after 1.5 s."""
    limits = RUN.LIMIT_S, RUN.LIMIT_FACTOR
    RUN.LIMIT_S, RUN.LIMIT_FACTOR = 1.5, 0.0
    try:
        return table.work(*rows)[:2]
    finally:
        RUN.LIMIT_S, RUN.LIMIT_FACTOR = limits


@case
def wrong_names_are_refused(_table):
    """An unknown row ends with 2 and the list of what there is; a known one brings its needs"""
    done = subprocess.run([os.path.join(HERE, "run"), "--only", "nothing"], capture_output=True,
                          text=True, check=False)
    check(done.returncode == 2 and "transparency" in done.stderr, f"{done}")
    done = subprocess.run([os.path.join(HERE, "run"), "--only", "doctor", "--list"],
                          capture_output=True, text=True, check=True)
    found = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    check({"doctor", "debug", "plugin", "packages"} == set(found), f"{found}")


class Answers(judge.Root):
    """A side of the judge that has run, without a root."""

    def __init__(self, *runs, **counts):
        self.ended = None
        self.answers = [{"unit": "pytest m", "tests": {name: [verdict, 1.0, "why"]
                                                      for name, verdict in run.items()}, **counts}
                        for run in runs]


def judged(root, stock, phalanx, **counts):
    """The judge's line and exit status after three runs of each test, a letter each."""
    words = {"p": "passed", "f": "failed", "s": "skipped"}

    def runs(letters):
        return [{name: words[each[at]] for name, each in letters.items() if each[at] in words}
                for at in range(judge.RUNS)]
    args = types.SimpleNamespace(dir=root, release=types.SimpleNamespace(version="22.05.8"))
    return judge.verdict(args, Answers(*runs(stock)), Answers(*runs(phalanx), **counts))


@case
def the_judge_takes_three_runs(table):
    """Worse is what stock passes three times and Phalanx at most once; lost tests count too"""
    counts = {"asked": 5, "placed": 2}
    stock = {"good": "ppp", "bad": "ppp", "chance": "ppp", "shaky": "pfp", "not": "sss"}
    line, status = judged(table.root, stock, stock | {"chance": "fpp", "shaky": "fff"}, **counts)
    check(status == 0 and "0 tests pass with stock" in line and "m chance" in line
          and "3 passed on both, 4 with stock, of 4 judged" in line, line)
    for lost in ("fpf", "f f", "   "):
        line, status = judged(table.root, stock, stock | {"bad": lost}, **counts)
        check(status == 1 and "1 tests pass with stock and not with Phalanx: m bad;" in line, line)
    line, status = judged(table.root, stock, stock, asked=5, placed=0)
    check(status == 1 and "NOTHING JUDGED" in line, f"nothing was placed: {line}")


@case
def the_judge_reads_the_suite(table):
    """A test keeps its worst outcome; what touches placement comes first, whole halves together"""
    path = os.path.join(table.root, "junit.xml")
    with open(path, "w", encoding="utf-8") as file:
        file.write('<testsuites><testsuite><testcase name="a" time="1"/><testcase name="a" '
                   'time="2"><error message="teardown"/></testcase><testcase name="b" time="3">'
                   '<failure message="Failed: Timeout &gt;75.0s"/></testcase><testcase name="c" '
                   'time="0"><skipped message="no"/></testcase></testsuite></testsuites>')
    found = {name: entry[:2] for name, entry in inside.outcomes(path).items()}
    check(found == {"a": ["failed", 3.0], "b": ["late", 3.0], "c": ["skipped", 0.0]}, f"{found}")
    for name in ("python/tests/test_144_2.py", "python/tests/test_1_1.py", "expect/test39.10",
                 "expect/test1.1", "expect/globals"):
        os.makedirs(os.path.join(table.root, "testsuite", os.path.dirname(name)), exist_ok=True)
        with open(os.path.join(table.root, "testsuite", name), "w", encoding="utf-8"):
            pass
    units = order.ordered(table.root)
    check(units == ["pytest test_144_2.py", "expect test39.10", "pytest test_1_1.py",
                    "expect test1.1"], f"{units}")


@case
def a_judge_without_a_suite_is_told(_table):
    """Rows of SchedMD's tests are there where these are given, else `NOT TESTED` says so"""
    code = ("import stages; print(sum(row.group == 'judge' for row in stages.ROWS), "
            "sum(gate == 'all' and 'SchedMD' in text for gate, text in stages.NOT_RUN))")
    for suite, counts in (("", "0 2"), (HERE, "2 0")):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              check=True, cwd=HERE, env=os.environ | {"SLURM_TESTSUITE": suite})
        check(done.stdout.strip() == counts, f"{suite}: rows, NOT TESTED: {done.stdout}")


@case
def a_system_of_its_own(table):
    """What a command changes is there for the next, beside another's, and not on the machine"""
    mark, name = f"/etc/phalanx-{os.getpid()}", f"/etc/phalanx-{os.getpid()}-changed"
    program = os.path.join(table.root, "tests", "own-system")
    os.makedirs(os.path.dirname(program), exist_ok=True)
    with open(os.path.join(HERE, "own-system"), encoding="utf-8") as file:
        text = file.read()
    # Within a system there would be nothing to make.
    with open(program, "w", encoding="utf-8") as file:
        file.write(text.replace("mark=/etc/phalanx-own-system", f"mark={mark}"))
    os.chmod(program, 0o755)
    clean = {key: value for key, value in os.environ.items() if key != "PHALANX_TEST_SYSTEM"}

    def inside(script):
        done = subprocess.run([program, "sh", "-c", script], env=clean, cwd=table.root,
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr
    if "no system of its own" in inside("true")[2]:
        return
    with subprocess.Popen([program, "sh", "-c", f"echo 1 > {name}; echo; read -r end"], env=clean,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        check(inside(f"cat {name}; pwd; exit 7") == (7, f"1\n{table.root}\n", ""),
              f"beside another: {inside(f'cat {name}; pwd; exit 7')}")
        other.communicate(b"\n")
    check(inside(f"cat {name} && rm {name}") == (0, "1\n", ""), "afterwards")
    check(not os.path.exists(name) and not os.path.exists(mark), "the machine has it")


@case
def an_interrupt_ends_what_runs(table):
    """After SIGINT the whole process group of a row is gone"""
    nap = f"sleep 98{os.getpid()}"
    # The program itself, with a table of one row.
    code = (f"import runpy, sys; sys.path.insert(0, {HERE!r}); import stages; "
            f"stages.ROWS = (stages.Row('nap', 'test', 'any', 1, ('sh', '-c', '{nap} & {nap}')),); "
            f"stages.TOP = {table.root!r}; sys.argv = ['run']; "
            f"runpy.run_path({os.path.join(HERE, 'run')!r}, run_name='__main__')")
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL,
                             env=os.environ | {"PHALANX_TEST_SYSTEM": "machine"},
                             stderr=subprocess.DEVNULL)

    def naps():
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
        return listed.stdout.splitlines().count(nap)
    until(lambda: naps() == 2, "the row runs", 10)
    child.send_signal(signal.SIGINT)
    check(child.wait(timeout=30) == 128 + signal.SIGINT, f"ended with {child.returncode}")
    until(lambda: naps() == 0, "its processes are gone", 5)


@case
def what_is_installed_is_uninstalled(_table):
    """make uninstall removes each file that make install names, but the configuration"""
    def lines(target):
        words = ["make", "-n", "-o", "build", "-o", "man", target, "DESTDIR=/x"]
        done = subprocess.run(words, cwd=os.path.dirname(HERE), capture_output=True, text=True,
                              check=True)
        return done.stdout.splitlines()
    files = {line.split()[-1] for line in lines("install") if line.startswith("install -D ")}
    removed = {word for line in lines("uninstall") for word in line.split()}
    check(len(files) > 5 and files <= removed, f"they stay: {sorted(files - removed)}")


@contextlib.contextmanager
def setting(root, _args):
    """A place for logs and times."""
    yield Table(root)


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
