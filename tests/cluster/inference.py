#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The framework's experiment (docs/methods.md, 3 (d)): inference over images in a real HDFS.

Four nodes of a real Slurm get 24, 18, 9 and 15 % of a CPU (slow_nodes.py). Images lie in HDFS, one
a block, 40, 30, 20 and 10 % of them on the nodes' DataNodes and each also on the next. A job with
a task on each node reads what is written on them by a neural network (inference_task.py). The
images are dealt out by `phalanx-share` with what collectors and processors of an agent on each
node say: method A (configuration), B (CPU load, measured just before) and C (history: images per
second of the jobs before); at last one by one by `phalanx-share --stream`. Every image must be
read once and right, and C must end before A. The ideal split of a run is items / (sum of the speeds
that the nodes had in it); --check fails unless C is within 5 % and one image of it, which wants a
quiet machine and some hundred images. --svg plots completion time of each node.
"""

import contextlib
import json
import os
import random
import statistics
import sys

from inference_plot import plot
from inference_task import HEIGHT, WIDTH
from minihdfs import MiniHdfs
from PIL import Image, ImageDraw, ImageFont
from slow_nodes import slow_nodes
from slurmcluster import Cluster
from slurmcluster.ports import free_port
from slurmcluster.shipped import shipped_config
from slurmcluster.suite import Cases, Suite, command_line, run

HERE = os.path.dirname(os.path.realpath(__file__))
# Of one CPU; the relation 8, 6, 3, 5 of docs/methods.md.
SHARES = {"n1": 0.24, "n2": 0.18, "n3": 0.09, "n4": 0.15}
NAMES = list(SHARES)
START = [0.40, 0.30, 0.20, 0.10]        # of the images, where they lie
CPU_REQUIRED = 0.20                     # of method B
NEWEST = 0.5                            # weight of the newest run in the history
ABOVE_IDEAL = 0.05                      # of method C
RIGHT = 0.95                            # of the images, read without a fault
BLOCK = WIDTH * HEIGHT
FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
WORDS = "array block cable cluster label node plane power queue rack shelf switch track".split()
FRAGMENT = """\
NodeName=n[1-4] CPUs=2 RealMemory=2000
PartitionName=all Nodes=ALL Default=YES
"""
CONFIG = """\
[control]
listen = "127.0.0.1:{port}"
public_read = "all"
[collect]
command_dirs = ["{commands}"]
[hdfs]
conf_dirs = ["{conf}"]
"""
# How much of a CPU a program gets on the node.
FREE = """\
#!/usr/bin/python3
import os, time
path = f"{slow}/{{os.environ['PHALANX_NODE']}}/{{os.getpid()}}"
open(path, "w").close()
while os.path.exists(path):
    time.sleep(0.01)
cpu, begun = time.process_time(), time.monotonic()
while time.monotonic() - begun < 1:
    pass
print((time.process_time() - cpu) / (time.monotonic() - begun))
"""
SPEED = "#!/bin/sh\nexec cat {speeds}/$PHALANX_NODE\n"
case = Cases()


class Inference(Suite):
    """The cluster, the images, and what was measured."""

    def __init__(self, cluster, hdfs, root, truth, is_checked):
        super().__init__(cluster)
        self.hdfs, self.root, self.truth, self.rows = hdfs, root, truth, []
        self.is_checked = is_checked
        self.input = f"hdfs://127.0.0.1:{hdfs.rpc[hdfs.namenodes[0]]}/images"
        self.task = (f"/usr/bin/python3 {HERE}/inference_task.py "
                     f"http://127.0.0.1:{hdfs.http[hdfs.namenodes[0]]} {self.path('slow')}")
        self.program = os.path.join(cluster.paths.bin_dir, "phalanx")

    def path(self, name):
        """A file of the suite."""
        return os.path.join(self.root, name)

    def script(self, name, text):
        """A program for `collector add`."""
        path = os.path.join(self.root, "commands", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def phalanx(self, *argv):
        """Output of a command."""
        config = ("--config", self.cluster.paths.phalanx_toml)
        return self.cluster.run(self.program, *argv, *config, timeout=30).stdout

    def share(self, *argv):
        """Output of phalanx-share."""
        config = ("--config", self.cluster.paths.phalanx_toml)
        return self.cluster.run(f"{self.program}-share", *argv, *config, timeout=30).stdout

    def collect(self, name, *options):
        """A datum with a value of every node."""
        self.phalanx("collector", "add", name, *options, "--every", "2s", "--timeout", "15s")
        self.known(name)

    def known(self, name, more=lambda value: True):
        """Waits until a datum has a fresh value of every node."""
        def fresh():
            rows = json.loads(self.phalanx("collector", "data", name, "--json"))["values"]
            return len(rows) == len(NAMES) and not any(row["stale"] for row in rows) and \
                all(more(row) for row in rows)
        self.until(fresh, f"{name} of every node")

    def job(self, name, script):
        """Runs a job on all nodes, and must end well."""
        job = self.cluster.submit("-J", name, "-N4", "--ntasks-per-node=1", "-t10", "-o",
                                  self.path(f"log-{name}"), wrap=script)
        record = self.cluster.wait_jobs([job], timeout=300)[0]
        with open(self.path(f"log-{name}"), encoding="utf-8", errors="replace") as file:
            self.expect(record["JobState"] == "COMPLETED", file.read()[-800:])

    def by_method(self, name):
        """The images by one method: the row of its numbers."""
        out = self.path(f"by-{name}")
        self.share("--input", self.input, "--nodes", "n[1-4]", "--method", name, "--out", out)
        self.job(name, f"srun {self.task} --map {out}/map.tsv --out {out}")
        tasks = {}
        for entry in os.listdir(out):
            if entry.startswith("task."):
                with open(os.path.join(out, entry), encoding="utf-8") as file:
                    task = json.load(file)
                tasks[task["node"]] = task
        done = [len(tasks[node]["texts"]) for node in NAMES]
        seconds = [tasks[node]["seconds"] for node in NAMES]
        self.right(name, [text for task in tasks.values() for text in task["texts"]])
        return self.row(name, done, seconds, sum(done) - sum(t["local"] for t in tasks.values()))

    def right(self, name, texts):
        """Every image was read once, and nearly all without a fault."""
        read = {(uri.rsplit("/", 1)[1], int(offset)): text for uri, offset, text in texts}
        self.expect(len(texts) == len(read) and read.keys() == self.truth.keys(),
                    f"{name}: {len(texts)} images read, {len(read)} of {len(self.truth)}")
        right = sum(text == self.truth.get(at) for at, text in read.items())
        self.expect(right >= RIGHT * len(self.truth),
                    f"{name}: {right} of {len(self.truth)} read without a fault")

    def row(self, name, done, seconds, remote, speeds=None):
        """One run's numbers; those of the speeds that the nodes had in it, or of others."""
        own = [items / max(time, 1e-9) for items, time in zip(done, seconds)]
        ideal = sum(done) / sum(speeds or own)
        row = {"method": name, "items": done, "seconds": seconds, "completion": max(seconds),
               "imbalance": max(seconds) / statistics.mean(seconds), "speeds": own,
               "above_ideal": max(seconds) / ideal - 1, "remote": remote}
        self.rows.append(row)
        self.summary = (f"{' '.join(map(str, done))} images, {row['completion']:.1f} s, longest / "
                        f"mean {row['imbalance']:.2f}, {row['above_ideal']:+.1%} of the ideal "
                        f"split, {remote} remote")
        return row

    def remember(self, row):
        """What the nodes did counts in the history."""
        for node, speed in zip(NAMES, row["speeds"]):
            with open(self.path(f"speeds/{node}"), "w", encoding="utf-8") as file:
                file.write(f"{speed}\n")


@case
def by_configuration(suite):
    """Method A: the configuration says that all nodes are equal"""
    row = suite.by_method("A")
    count = len(suite.truth)
    suite.expect(max(row["items"]) - min(row["items"]) <= 1, f"{row['items']} of {count}")
    suite.remember(row)


@case(needs=["by_configuration"])
def by_cpu_load(suite):
    """Method B: what a program gets of the CPU just before"""
    suite.collect("images_per_s", "--cmd",
                  suite.script("speed", SPEED.format(speeds=suite.path("speeds"))))
    suite.collect("capability_history", "--kind", "processor", "--cmd",
                  "builtin:capability_history", "--arg", str(NEWEST), "--inputs", "images_per_s")
    suite.collect("cpu_free", "--cmd", suite.script("free", FREE.format(slow=suite.path("slow"))))
    suite.collect("capability_cpu_load", "--kind", "processor", "--cmd",
                  "builtin:capability_cpu_load", "--arg", str(CPU_REQUIRED), "--inputs", "cpu_free")
    # It takes from the nodes what it measures; a run of it that has begun ends.
    suite.phalanx("collector", "stop", "cpu_free")
    suite.until(lambda: "running" not in suite.phalanx("collector", "list", "cpu_free"), "its end")
    suite.remember(suite.by_method("B"))


@case(needs=["by_cpu_load"])
def by_history(suite):
    """Method C: images per second of the jobs before"""
    last = suite.rows[-1]["speeds"]
    suite.known("images_per_s",
                lambda row: abs(row["value"] - last[NAMES.index(row["node"])]) < 1e-3)
    row = suite.by_method("C")
    suite.expect(row["completion"] < suite.rows[0]["completion"], suite.summary)
    if suite.is_checked:
        most = ABOVE_IDEAL + 1 / min(row["items"])
        suite.expect(row["above_ideal"] <= most, f"{suite.summary}, expected {most:.1%}")


@case(needs=["by_history"])
def item_by_item(suite):
    """No split: a stream hands the images out one by one, by learned speed"""
    items, journal, report = (suite.path(name) for name in ("items", "journal", "report"))
    with open(items, "w", encoding="utf-8") as file:
        file.writelines(f"{suite.input}/{name} {offset}\n" for name, offset in suite.truth)
    suite.job("stream", f"{suite.program}-share --config {suite.cluster.paths.phalanx_toml} "
              f"--method C --json --stream {items} --journal {journal} -- srun --overlap "
              f"{suite.program}-share --worker -- {suite.task} > {report}")
    with open(journal, encoding="utf-8") as file:
        texts = [[*item.split(), text] for _, item, text in
                 (line.rstrip("\n").split("\t") for line in file)]
    suite.right("stream", texts)
    with open(report, encoding="utf-8") as file:
        told = json.load(file)
    done = {row["node"]: row["items"] for row in told["workers"]}
    suite.row("one by one", [done[node] for node in NAMES], [told["seconds"]] * len(NAMES), "-",
              suite.rows[-1]["speeds"])


case(shipped_config)


def picture(rng):
    """An image and what is written on it."""
    lines = [f"{rng.choice(WORDS)} {rng.choice(WORDS)} {rng.randrange(1000, 10000)}"
             for _ in range(4)]
    image = Image.new("L", (WIDTH, HEIGHT), 255)
    font = ImageFont.truetype(FONT, 30)
    for at, line in enumerate(lines):
        ImageDraw.Draw(image).text((12, 4 + 42 * at), line, font=font, fill=0)
    return image.tobytes(), " ".join(lines)


def images(hdfs, root, count):
    """The images into HDFS; what is written on them, by file and offset."""
    rng, truth = random.Random(30), {}
    for at, part in enumerate(START):
        path, name = os.path.join(root, "part"), f"part-{at + 1}"
        with open(path, "wb") as file:
            for _ in range(round(part * count)):
                pixels, text = picture(rng)
                truth[name, file.tell()] = text
                file.write(pixels)
        where = hdfs.datanode(NAMES[at], NAMES[(at + 1) % len(NAMES)])
        hdfs.tool(f"load {path} /images/{name} {BLOCK} 2 {where}")
    return truth


@contextlib.contextmanager
def setting(root, args):
    """HDFS with the images, the slow nodes, and the cluster with an agent on each."""
    commands, port = os.path.join(root, "commands"), free_port()
    for name in (commands, os.path.join(root, "speeds")):
        os.makedirs(name)
    config = os.path.join(root, "in.toml")
    with MiniHdfs(os.path.join(root, "hdfs"), NAMES, replication=2, block_size=BLOCK) as hdfs, \
            slow_nodes(os.path.join(root, "slow"), SHARES):
        truth = images(hdfs, root, args.images)
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(port=port, commands=commands, conf=hdfs.conf))
        with Cluster(os.path.join(root, "c"), nodes=FRAGMENT, config=config) as cluster:
            for node in NAMES:
                cluster.start_agent(node, "--master", f"http://127.0.0.1:{port}",
                                    "--command-dir", commands)
            suite = Inference(cluster, hdfs, root, truth, args.check)
            yield suite
            if args.svg:
                plot(suite.rows, args.svg, NAMES, len(truth))


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--images", type=int, default=120, help="how many (default: 120)")
    parser.add_argument("--check", action="store_true", help="fail if C misses its aim")
    parser.add_argument("--svg", metavar="FILE", help="plot what was measured")


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, options), setting))
