#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the cluster harness itself; those of class OnSlurm start a stock Slurm."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest
import unittest.mock

import demo
import demo_page
import demo_rows
from slurmcluster import Cluster, ClusterError, UsageError, conf, core, measure, nodes
from slurmcluster import ports, procs, shipped, workload
from slurmcluster.clock import CLOCK
from slurmcluster.paths import Paths
from slurmcluster.suite import Cases, Suite, command_line, run

CLUSTER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "cluster")
FOUR = "NodeName=a[1-2] CPUs=2 RealMemory=1000\nNodeName=g CPUs=2 RealMemory=1000 Gres=gpu:x:2\n"


class Fragments(unittest.TestCase):
    """Reading NodeName and PartitionName lines."""

    def test_hostlists(self):
        for text, names in (("a", ["a"]), ("a[1-3]", ["a1", "a2", "a3"]),
                            ("a[08-10,3]x,b", ["a08x", "a09x", "a10x", "a3x", "b"]),
                            ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"])):
            self.assertEqual(nodes.expand_hostlist(text), names)
        for text in ("a[1", "a1]", "a[3-1]", "a[x]", "a[]", "a[1-999999999]"):
            with self.assertRaises(UsageError, msg=text):
                nodes.expand_hostlist(text)

    def test_gres(self):
        self.assertEqual(nodes.parse_gres("gpu:a100:4(S:0-1),shard:8,gpu,fs:2k", "n"),
                         [("gpu", "a100", 4), ("shard", None, 8), ("gpu", None, 1),
                          ("fs", None, 2048)])
        with self.assertRaises(UsageError):
            nodes.parse_gres("gpu:a:b:4", "n")

    def test_defaults_continuations_and_placement_keys(self):
        text = ("# c\nNodeName=DEFAULT CPUs=4 Weight=7\nNodeName=n[1-2] \\\n  weight=9 Port=1 # x\n"
                "PartitionName=p Nodes=ALL\n")
        fragment = nodes.parse_fragment(text)
        self.assertEqual([node.name for node in fragment.nodes], ["n1", "n2"])
        self.assertEqual(fragment.nodes[0].keys, {"CPUs": "4", "weight": "9"})
        self.assertEqual(fragment.partitions, ["PartitionName=p Nodes=ALL"])

    def test_errors_name_the_line(self):
        for text in ("NodeName=a CPUs=1\nSelectType=x", "NodeName=a CPUs=1\nNodeName=a CPUs=1 b"):
            with self.assertRaisesRegex(UsageError, "^f:2: "):
                nodes.parse_fragment(text, "f")
        with self.assertRaisesRegex(UsageError, "defined twice"):
            nodes.parse_fragment("NodeName=a,a CPUs=1", "f")
        with self.assertRaisesRegex(UsageError, "no NodeName"):
            nodes.parse_fragment("", "f")


class Files(unittest.TestCase):
    """What is written for the daemons."""

    def test_extra_replaces_without_case(self):
        result, lines = conf.apply_extra({"KillWait": 2, "MailProg": "x"},
                                         ["killwait=9", "DownNodes=a", "MailProg=", "New=1"])
        self.assertEqual(result, {"killwait": "9", "New": "1"})
        self.assertEqual(lines, ["DownNodes=a"])
        for line in ("nonsense", "=1", "A=1\nB=2", ""):
            with self.assertRaises(UsageError):
                conf.apply_extra({}, [line])

    def test_toml_paths_are_moved(self):
        source = ('mode = "off"\n[link] # c\nsocket = "/run/x"\ndeadline_us = 1\n'
                  '[history]\n[balance.best]\nsocket = "mine"\n')
        moved = tomllib.loads(conf.phalanx_toml(Paths("/d"), source, "t"))
        self.assertEqual(moved, {
            "mode": "off", "link": {"socket": "/d/run/plugin.sock", "deadline_us": 1},
            "history": {"path": "/d/var/history.sqlite"},
            "balance": {"best": {"socket": "mine"}},
            "control": {"socket": "/d/run/control.sock"}})
        with self.assertRaisesRegex(UsageError, "^t: "):
            conf.phalanx_toml(Paths("/d"), "mode = \n", "t")

    def test_paths_that_cannot_work(self):
        for root in ("/" + "x" * 100, "/a b", "/a#b"):
            with self.assertRaises(UsageError, msg=root):
                Paths(root).check_lengths(["n1"])
        Paths("/tmp/ok").check_lengths(["n1"])


class Measures(unittest.TestCase):
    """Numbers of the demo."""

    def test_job_records(self):
        base = "2026-01-01T00:00:"
        rows = [{"SubmitTime": base + "00", "StartTime": base + "02", "EndTime": base + "12"},
                {"SubmitTime": base + "01", "StartTime": base + "12", "EndTime": base + "20"},
                {"SubmitTime": base + "01", "StartTime": "Unknown", "EndTime": "Unknown"}]
        found = measure.job_values(rows)
        self.assertEqual(found, {"jobs": 2, "makespan_s": 20, "wait_mean_s": 6.5,
                                 "wait_max_s": 11, "running_mean": 18 / 20})

    def test_list_is_the_seeds(self):
        self.assertEqual(workload.mixed(3), workload.mixed(3))
        self.assertNotEqual(workload.mixed(3), workload.mixed(4))
        self.assertEqual(len(workload.mixed(3)), 60)

    def test_pace_changes_times_alone(self):
        for slow, quick in zip(workload.mixed(3), workload.mixed(3, pace=0.5)):
            self.assertEqual((slow.name, slow.at_s, slow.options),
                             (quick.name, quick.at_s, quick.options))
            self.assertLessEqual(abs(quick.sleep_s - slow.sleep_s / 2), 1)

    def test_verdicts(self):
        wait = demo_rows.Measure("wait", "wait", "s", 1, False, 0.05)
        rate = demo_rows.Measure("rate", "rate", "", 0, True, 0.05)
        for one, stock, ours, verdict in ((wait, 10, 8, "gain"), (wait, 10, 9.6, "no gain"),
                                          (wait, 10, 12, "loss"), (rate, 10, 300, "gain"),
                                          (rate, 10, 9, "loss"), (wait, 0, 0, "no gain")):
            found = demo.compare(one, [{"stock": {one.key: stock}, "phalanx": {one.key: ours}}])
            self.assertEqual(found["verdict"], verdict, f"{one.key} {stock} {ours}")
        self.assertIsNone(demo.compare(wait, [{"stock": {}, "phalanx": {"wait": 1}}]))
        runs = [{"stock": {"wait": 2}, "phalanx": {"wait": 1}},
                {"stock": {"wait": 4}, "phalanx": {"wait": 2}}]
        found = demo.compare(wait, runs)
        self.assertEqual((found["stock"], found["phalanx"], found["change"]), (3, 1.5, -0.5))

    def test_table_and_page(self):
        wait = demo_rows.Measure("wait", "wait", "s", 1, False, 0.05)
        one = demo.compare(wait, [{"stock": {"wait": 10}, "phalanx": {"wait": 2}}])
        row = {"name": "x", "title": "a <b>", "why": "because", "needs": "order.by = \"plan\"",
               "explain": "phalanx status", "measures": [one], "explained": "x < y"}
        result = {"rows": [row], "seed": 1, "repeat": 1, "null": False, "slurm": "22.05.8"}
        lines = demo.table(result)
        self.assertLessEqual(max(map(len, lines)), 100)
        self.assertRegex(lines[2], r"^  wait +10\.0 s +2\.0 s +x 5\.0  gain$")
        self.assertRegex(lines[4], r"^    phalanx status; needs order.by = \"plan\"$")
        self.assertEqual(demo.markdown([result, result])[2], '| a <b>, with `order.by = "plan"`: '
                         'wait | 10.0 s | 2.0 s | x 5.0 (x 5.0) |')
        html = demo_page.page(result)
        self.assertIn("needs order.by = &quot;plan&quot;", html)
        none = row | {"measures": [one | {"verdict": "no gain"}]}
        self.assertNotIn('class="gain"', demo_page.page(result | {"rows": [none]}))
        self.assertIn("a &lt;b&gt;", html)
        self.assertIn("x &lt; y", html)
        self.assertNotRegex(html, r"(src|href)=|https?:")


    def test_rows_have_the_shipped_configuration(self):
        defaults = shipped.shipped("shadow")
        for mode in ("shadow", "enforce"):
            self.assertEqual(tomllib.loads(shipped.shipped(mode)), {"mode": mode})
        for name, row in demo_rows.ROWS.items():
            one = row(1, "/nowhere")
            text = shipped.shipped("enforce", one.settings)
            self.assertEqual(text.replace('mode = "enforce"', 'mode = "shadow"', 1),
                             defaults + one.settings)
            for table, keys in tomllib.loads(one.settings).items():
                for key in keys:
                    self.assertIn(f"{table}.{key}", one.needs, name)
        self.assertEqual(demo_rows.Order(1, "/nowhere").needs, 'order.by = "learned"')

    def test_the_site_is_one(self):
        fragment = nodes.parse_fragment(workload.SITE)
        gpus = {node.name for node in fragment.nodes if "gpu" in node.get("Gres")}
        light = [int(node.get("Weight")) for node in fragment.nodes if node.name not in gpus]
        self.assertTrue(all(int(node.get("Weight")) > max(light)
                            for node in fragment.nodes if node.name in gpus))
        self.assertTrue(all("no_consume" in node.get("Gres") for node in fragment.nodes))
        asked = [set(job.options) for job in workload.mixed(1)]
        self.assertTrue(any(not {"-N", "-N1"} & {word[:2] for word in words} and
                            any(word.startswith("--mem-per-cpu") for word in words)
                            for words in asked))


class Processes(unittest.TestCase):
    """Identity by pid and start time."""

    def test_a_reused_pid_is_not_signalled(self):
        child = subprocess.Popen(["sleep", "60"])
        try:
            other = procs.Process("x", child.pid, procs.stat_of(child.pid)[2] + 1)
            self.assertFalse(other.alive())
            self.assertFalse(other.signal(signal.SIGKILL))
            self.assertIsNone(child.poll())
        finally:
            child.kill()
            child.wait()

    def test_ports_are_not_given_twice(self):
        first = ports.take(3, "test-a", "/nonexistent")
        second = ports.take(3, "test-b", "/nonexistent")
        ports.release("test-a")
        ports.release("test-b")
        self.assertFalse(set(first) & set(second))
        self.assertLess(max(first + second), ports.ephemeral_low())


def processes_of(directory):
    """Command lines that name a directory."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if directory in line]


def mounts(directory):
    """What is mounted on /usr or below a directory, as this process sees it.

    Other mounts come and go with what else runs on the machine.
    """
    with open("/proc/self/mounts", encoding="utf-8") as file:
        places = [line.split()[1] for line in file]
    return [place for place in places if f"{place}/".startswith(("/usr/", f"{directory}/"))]


class OnSlurm(unittest.TestCase):
    """With a real slurmctld and slurmd."""

    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="phx-harness-")
        self.addCleanup(shutil.rmtree, self.root, True)
        self.first = os.path.join(self.root, "a")

    def command(self, *words):
        """Runs tests/cluster/cluster."""
        return subprocess.run([CLUSTER, *words], capture_output=True, text=True, timeout=120,
                              check=False)

    def test_two_clusters_jobs_restart_and_nothing_left(self):
        second = os.path.join(self.root, "b")
        with Cluster(self.first, stock=True, nodes=FOUR) as one:
            two = Cluster(second, stock=True, nodes=FOUR, extra=["Licenses=l:1"]).up()
            try:
                jobs = [cluster.submit("--gres=gpu:x:1", wrap="sleep 1") for cluster in (one, two)]
                for cluster, job in zip((one, two), jobs):
                    found = cluster.wait_jobs([job])[0]
                    self.assertEqual((found["JobState"], found["NodeList"]), ("COMPLETED", "g"))
                # The first sleep leaves its session: only its environment says whose it is.
                nap = f"sleep 98{os.getpid()}"
                long = one.submit("-N2", wrap=f"setsid {nap} & {nap}")
                one.wait_jobs([long], states={"RUNNING"})
                one.restart_slurmctld()
                self.assertEqual(one.job(long)["JobState"], "RUNNING")
                self.assertEqual(processes_of(nap).count(nap), 2)
                # Without a slurmctld nobody cancels the job: its steps must be found.
                one.stop_slurmctld(kill=True)
                one.down()
                self.assertEqual(processes_of(nap) + processes_of(self.first), [])
                self.assertTrue(two.alive("slurmctld"))
                self.assertIn("l", two.run("scontrol", "show", "licenses").stdout)
            finally:
                two.down()
        self.assertEqual(processes_of(self.root), [])

    def test_the_release_asked_for_runs_and_nothing_is_mounted(self):
        before, out = mounts(self.root), os.path.join(self.root, "out")
        with Cluster(self.first, stock=True, nodes=FOUR) as cluster:
            version = cluster.release.version
            self.assertIn(version, cluster.run("sinfo", "-V").stdout)
            job = cluster.submit("-n2", wrap=f"srun -n1 slurmd -V > {out}")
            self.assertEqual(cluster.wait_jobs([job])[0]["JobState"], "COMPLETED")
            with open(out, encoding="utf-8") as file:
                self.assertIn(version, file.read())
            # Also in a shell that has the cluster's environment.
            with unittest.mock.patch.dict(os.environ, cluster.env_lines):
                again = Cluster.load(self.first)
                self.assertEqual(again.env_lines, cluster.env_lines)
                self.assertIn(version, again.run("squeue", "-V").stdout)
            self.assertEqual(mounts(self.root), before)

    def test_a_start_that_fails_leaves_nothing(self):
        bad = self.command("up", "--stock", "--dir", self.first, "--extra", "SelectType=select/no")
        self.assertEqual(bad.returncode, 1)
        self.assertIn("slurmctld ended", bad.stderr)
        self.assertIn("select/no", bad.stderr)
        self.assertEqual(processes_of(self.first), [])
        # A directory of a former cluster is taken again.
        with Cluster(self.first, stock=True, nodes=FOUR) as cluster:
            self.assertEqual(len(cluster.nodes()), 3)
            with self.assertRaisesRegex(ClusterError, "runs here already"):
                Cluster(self.first, stock=True, nodes=FOUR).up()
            self.assertTrue(cluster.alive("slurmctld"))

    def test_a_dead_slurmd_fails_the_start(self):
        class Dying(Cluster):
            """One slurmd is killed as soon as it was started."""

            def start_slurmd(self, name):
                super().start_slurmd(name)
                if name == "g":
                    self.process("slurmd:g").signal(signal.SIGKILL)

        with self.assertRaisesRegex(ClusterError, "slurmd:g"):
            Dying(self.first, stock=True, nodes=FOUR).up()
        self.assertEqual(processes_of(self.first), [])

    @unittest.skipUnless(shutil.which("mariadbd") and shutil.which("slurmdbd"),
                         "needs mariadb-server and slurmdbd")
    def test_accounting(self):
        with Cluster(self.first, stock=True, nodes=FOUR, slurmdbd=True) as cluster:
            job = cluster.submit("--qos=high", "--gres=gpu:1")
            cluster.wait_jobs([job])
            with self.assertRaisesRegex(ClusterError, "Invalid account"):
                cluster.submit("--account=nobodys")
            end, fields = CLOCK.now() + 20, []
            # slurmctld sends its records to slurmdbd piece by piece, a little later.
            while fields[:3] != ["research", "high", "COMPLETED"] and CLOCK.now() < end:
                done = cluster.run("sacct", "-nXPa", "-j", job, "-o", "Account,QOS,State,AllocTRES")
                fields = done.stdout.strip().split("|")
                time.sleep(0.2)
            self.assertEqual(fields[:3], ["research", "high", "COMPLETED"])
            self.assertIn("gres/gpu=1", fields[3])
        self.assertEqual(processes_of(self.first), [])

    def test_interrupted_up_cleans_up(self):
        up = subprocess.Popen([CLUSTER, "up", "--stock", "--dir", self.first, "--cloud", "60000"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = CLOCK.now() + 20
        while not processes_of(self.first + "/etc") and CLOCK.now() < end:
            time.sleep(0.02)
        up.terminate()
        self.assertEqual(up.wait(timeout=60), 128 + signal.SIGTERM)
        self.assertEqual(processes_of(self.first), [])

    def test_clusters_of_a_killed_suite_are_ended(self):
        code = ("import sys; from slurmcluster import Cluster; "
                "Cluster(sys.argv[1], stock=True, nodes=sys.argv[2]).up(); "
                "print('up', flush=True); sys.stdin.read()")
        run_id = f"run-{os.getpid()}"
        suite = subprocess.Popen([sys.executable, "-c", code, self.first, FOUR],
                                 cwd=os.path.dirname(CLUSTER), stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True,
                                 env=os.environ | {ports.RUN: run_id})
        self.assertEqual(suite.stdout.readline(), "up\n")
        suite.kill()
        suite.communicate()
        core.end_run("another run")
        self.assertNotEqual(processes_of(self.first), [])
        core.end_run(run_id)
        self.assertEqual(processes_of(self.first), [])

    def test_command_line(self):
        for words, code, text in (
                (["up"], 2, "--dir"), (["up", "--dir", "x", "--bogus"], 2, "--bogus"),
                (["up", "--dir", self.first, "--slurm", "23.02"], 2, "22.05, 24.11, 26.05"),
                (["up", "--dir", self.first, "--stock", "--nodes", "/no"], 2, "/no"),
                (["up", "--dir", "/tmp", "--stock"], 2, "not empty"),
                (["env", "--dir", self.first], 2, "no cluster"),
                (["down", "--dir", self.first], 2, "no cluster")):
            done = self.command(*words)
            self.assertEqual(done.returncode, code, words)
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertEqual(self.command("up", "--stock", "--dir", self.first).returncode, 0)
        try:
            shell = f'eval "$({CLUSTER} env --dir {self.first})" && sinfo -h -N -o %N | sort -u'
            listed = subprocess.run(["sh", "-c", shell], capture_output=True, text=True,
                                    check=True).stdout.split()
            self.assertEqual(len(listed), 16)
            self.assertIn("slurmctld version", self.command("logs", "--dir", self.first).stdout)
        finally:
            self.assertEqual(self.command("down", "--dir", self.first).returncode, 0)
        self.assertEqual(self.command("down", "--dir", self.first).returncode, 0)
        self.assertEqual(processes_of(self.first), [])


case = Cases()
case.unittests(Fragments, Files, Measures, Processes, OnSlurm)


@contextlib.contextmanager
def setting(_root, _args):
    """Nothing: those that need a cluster start it."""
    yield Suite()


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case), setting))
