# SPDX-License-Identifier: GPL-3.0-or-later
"""A real HDFS on one machine: NameNode (or two), and DataNodes named after the cluster's nodes.

    with MiniHdfs("/tmp/h", ["n1", "n2"]) as hdfs:
        hdfs.tool("create /data/in 1048576 131072 1 " + hdfs.datanode("n1"))
        ... hdfs.conf is the directory for clients (core-site.xml, hdfs-site.xml)

Hadoop 3.5.0 comes from Maven Central, 2.7.4 (the old end) from the PyPI source package of pyspark
3.0.2, which carries its server jars; both are kept under build/hadoop-VERSION. Everything listens
on 127.0.0.1. `python3 minihdfs.py DIR NODE...` starts one and waits for Enter; with `--fetch`
alone it only fetches both. PYTHONPATH must have tests/cluster.
"""

import json
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

from slurmcluster.ports import free_ports
from slurmcluster.suite import until

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build"
NEW, OLD = "3.5.0", "2.7.4"
JVM = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
START_S = 300

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>phalanx</groupId><artifactId>hadoop-for-tests</artifactId><version>1</version>
<packaging>pom</packaging><dependencies>%s</dependencies></project>"""
DEPENDENCY = ("<dependency><groupId>org.apache.hadoop</groupId><artifactId>%s</artifactId>"
              "<version>%s</version></dependency>")
# Of pyspark's jars, what NameNode and DataNode of 2.7.4 need. Their WebHDFS wants jersey 1, which
# Debian has; jersey 2 must not be beside it.
OLD_JARS = re.compile(
    r"(hadoop-(annotations|auth|common|hdfs)-2|guava-14|commons-(cli|codec|collections-3"
    r"|configuration-1|io|lang-2|logging|net)|htrace-core-3|jackson-(core|mapper)-asl"
    r"|jackson-jaxrs|javax.servlet-api|jetty-6|jetty-util-6|jetty-sslengine|leveldbjni|log4j-1"
    r"|netty-all|protobuf-java-2.5|slf4j-(api|log4j12)|jcl-over|xmlenc|xercesImpl|xml-apis"
    r"|jaxb-runtime|jakarta.xml.bind|jakarta.annotation|istack|activation-1"
    r"|hadoop-mapreduce-client-core|httpcore|httpclient)[^/]*$")
OLD_DEBS = ["libjersey1-core-java", "libjersey1-server-java", "libjersey1-servlet-java",
            "libjersey1-json-java", "libjsr311-api-java"]
LOG4J = """log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""


class HdfsError(Exception):
    """What went wrong, with the end of the log that tells."""


def jars(version):
    """The directory with Hadoop's jars; fetched once."""
    cache = BUILD / f"hadoop-{version}"
    if not (cache / ".done").exists():
        shutil.rmtree(cache, ignore_errors=True)
        cache.mkdir(parents=True)
        (fetch_new if version == NEW else fetch_old)(cache)
        for name in ("hdfs", "datanode", "secondary"):
            (cache / "res/webapps" / name).mkdir(parents=True)
        (cache / "res/log4j.properties").write_text(LOG4J)
        (cache / ".done").touch()
    return cache


def fetch_new(cache):
    names = ("hadoop-common", "hadoop-hdfs", "hadoop-hdfs-client")
    with tempfile.TemporaryDirectory() as work:
        dependencies = "".join(DEPENDENCY % (name, NEW) for name in names)
        (Path(work) / "pom.xml").write_text(POM % dependencies)
        run(["mvn", "-B", "-q", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:"
             "copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={cache}"], cwd=work)


def fetch_old(cache):
    with tempfile.TemporaryDirectory() as work:
        run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
             "-d", work, "pyspark==3.0.2"])
        with tarfile.open(Path(work) / "pyspark-3.0.2.tar.gz") as tar:
            for member in tar:
                name = Path(member.name).name
                if "/deps/jars/" in member.name and OLD_JARS.match(name):
                    (cache / name).write_bytes(tar.extractfile(member).read())
        run(["apt-get", "download", "-q", *OLD_DEBS], cwd=work)
        for deb in Path(work).glob("*.deb"):
            run(["dpkg-deb", "-x", str(deb), f"{work}/x"])
        for name in ("jersey1-core", "jersey1-server", "jersey1-servlet", "jersey1-json",
                     "jsr311-api"):
            shutil.copy(Path(work) / "x/usr/share/java" / f"{name}.jar", cache)


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode:
        raise HdfsError(f"{' '.join(map(str, command))}: {done.stdout.decode()[-2000:]}")
    return done.stdout.decode()


def site(path, properties):
    rows = "".join(f"<property><name>{k}</name><value>{v}</value></property>\n"
                   for k, v in properties.items())
    path.write_text(f"<configuration>\n{rows}</configuration>\n")


def with_files(xml, files):
    """An image's XML with further files in its root directory; see MiniHdfs."""
    root = inode = int(re.search("<lastInodeId>([0-9]+)", xml)[1])
    block = first = int(re.search("<lastAllocatedBlockId>([0-9]+)", xml)[1])
    stamp = int(re.search("<genstampV2>([0-9]+)", xml)[1])
    inodes = children = ""
    for name, (count, size, replicas) in files.items():
        inode += 1
        blocks = "".join(f"<block><id>{at}</id><genstamp>{stamp}</genstamp>"
                         f"<numBytes>{size}</numBytes></block>"
                         for at in range(block + 1, block + 1 + count))
        block += count
        inodes += (f"<inode><id>{inode}</id><type>FILE</type><name>{name}</name>"
                   f"<replication>{replicas}</replication><mtime>1</mtime><atime>1</atime>"
                   f"<preferredBlockSize>{size}</preferredBlockSize>"
                   f"<permission>root:supergroup:0644</permission><blocks>{blocks}</blocks>"
                   "<storagePolicyId>0</storagePolicyId></inode>")
        children += f"<child>{inode}</child>"
    directory = f"<directory><parent>{root}</parent>{children}</directory>"
    for old, new in ((f"<lastAllocatedBlockId>{first}", f"<lastAllocatedBlockId>{block}"),
                     (f"<lastInodeId>{root}", f"<lastInodeId>{inode}"),
                     ("<numInodes>1<", f"<numInodes>{1 + len(files)}<"),
                     ("</inode>", f"</inode>{inodes}"),
                     ("<INodeDirectorySection>", f"<INodeDirectorySection>{directory}")):
        assert xml.count(old) == 1, old
        xml = xml.replace(old, new)
    return xml


class MiniHdfs:
    """See the module. `ha`: two NameNodes behind the name service `phx`, the first active.

    `image`: files that the NameNode knows from the beginning without anybody having written them,
    as {name in /: (number of blocks, bytes of each, replicas)}; only with Hadoop 3. The command
    `claim` of HdfsTool.java then tells where they are. With such files nothing is re-replicated.
    """

    def __init__(self, directory, nodes, version=NEW, ha=False, replication=1,
                 block_size=1 << 20, namenode_mb=256, image=None):
        self.dir = Path(directory).resolve()
        self.nodes, self.version, self.ha = list(nodes), version, ha
        self.replication, self.block_size, self.namenode_mb = replication, block_size, namenode_mb
        self.processes, self._tool, self.image = {}, None, image
        # Of a subclass: variables and options of each JVM.
        self.env, self.jvm = None, list(JVM)
        ports = free_ports(4 + 3 * len(self.nodes))
        self.namenodes = ["nn1", "nn2"] if ha else ["nn1"]
        self.rpc = dict(zip(self.namenodes, ports[0:2]))
        self.http = dict(zip(self.namenodes, ports[2:4]))
        self.ports = {n: ports[4 + 3 * i:7 + 3 * i] for i, n in enumerate(self.nodes)}
        self.conf = self.dir / "conf"

    # ---- life

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.close()

    def start(self):
        self.cache = jars(self.version)
        for name in ("conf", "logs", "tmp"):
            (self.dir / name).mkdir(parents=True, exist_ok=True)
        self.write_conf()
        try:
            self.start_namenodes()
            for node in self.nodes:
                self.start_datanode(node)
            self.wait(lambda: self.live() == len(self.nodes), "all DataNodes")
        except BaseException:
            self.close()
            raise

    def start_namenodes(self):
        namenode = "org.apache.hadoop.hdfs.server.namenode.NameNode"
        first = self.namenodes[0]
        self.java("format", namenode, self.which(first) + ["-format", "-nonInteractive"])
        if self.image:
            self.write_image()
        self.spawn(first, namenode, self.which(first), self.namenode_mb)
        for other in self.namenodes[1:]:
            self.wait(lambda: self.bean(first) is not None, "the first NameNode")
            self.java("bootstrap", namenode,
                      self.which(other) + ["-bootstrapStandby", "-nonInteractive"])
            self.spawn(other, namenode, self.which(other), self.namenode_mb)
        if self.ha:
            self.activate(first)
        self.wait(lambda: (self.bean(first) or {}).get("FSState") == "Operational", "the NameNode")

    def write_image(self):
        """Adds the files to the empty image: to XML, changed, and back."""
        viewer = "org.apache.hadoop.hdfs.tools.offlineImageViewer.OfflineImageViewerPB"
        image, = [path for path in self.dir.glob("nn1/current/fsimage_*") if not path.suffix]
        text = self.dir / "image.xml"
        self.java("image", viewer, ["-p", "XML", "-i", str(image), "-o", str(text)])
        text.write_text(with_files(text.read_text(), self.image))
        self.java("image", viewer, ["-p", "ReverseXML", "-i", str(text), "-o", str(image)])

    def which(self, name):
        return [f"-Ddfs.ha.namenode.id={name}"] if self.ha else []

    def activate(self, name):
        """Makes this NameNode the active one; whoever was must be gone or standby."""
        admin = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"
        running = [n for n in self.namenodes if n in self.processes]
        self.wait(lambda: all(self.listens(self.rpc[n]) for n in running), "the NameNodes")
        # The other one is asked first whether it is active; a dead one cannot say.
        force = [] if running == self.namenodes else ["--forceactive"]
        self.java("activate", admin, ["-transitionToActive", *force, name])

    @staticmethod
    def listens(port):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def start_datanode(self, node):
        data, ipc, http = self.ports[node]
        options = {"dfs.datanode.data.dir": f"file://{self.dir}/data-{node}",
                   "dfs.datanode.hostname": node,
                   "dfs.datanode.address": f"127.0.0.1:{data}",
                   "dfs.datanode.ipc.address": f"127.0.0.1:{ipc}",
                   "dfs.datanode.http.address": f"127.0.0.1:{http}"}
        self.spawn(node, "org.apache.hadoop.hdfs.server.datanode.DataNode",
                   [f"-D{k}={v}" for k, v in options.items()], 128)

    def kill(self, name):
        """SIGKILL to a DataNode or NameNode, as a host dies."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def close(self):
        """Ends everything."""
        if self._tool:
            self._tool.kill()
            self._tool.wait()
            self._tool = None
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
        self.processes = {}

    # ---- use

    def tool(self, command):
        """One command of HdfsTool.java; raises what it answers with `error`."""
        if self._tool is None:
            self._tool = subprocess.Popen(
                ["java", "-Xmx256m", *self.jvm, "-cp", self.class_path(),
                 str(HERE / "HdfsTool.java")],
                env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=open(self.dir / "logs/tool.log", "a"), text=True)
        self._tool.stdin.write(command + "\n")
        self._tool.stdin.flush()
        answer = self._tool.stdout.readline().strip()
        if not answer.startswith("ok"):
            raise HdfsError(f"{command}: {answer or self.tail('tool')}")
        return answer[3:]

    def datanode(self, *nodes):
        """HOST:PORT of DataNodes, as `create` takes them."""
        return " ".join(f"127.0.0.1:{self.ports[node][0]}" for node in nodes)

    def bean(self, namenode, name="FSNamesystemState"):
        """A JMX bean of a NameNode; `None` while it does not answer."""
        url = (f"http://127.0.0.1:{self.http[namenode]}/jmx?qry="
               f"Hadoop:service=NameNode,name={name}")
        try:
            return json.loads(self.page(url))["beans"][0]
        except (OSError, ValueError, LookupError):
            return None

    def page(self, url):
        """What a NameNode answers."""
        with urllib.request.urlopen(url, timeout=3) as reply:
            return reply.read()

    def live(self, namenode=None):
        """DataNodes that the NameNode takes for live."""
        bean = self.bean(namenode or self.namenodes[0])
        return bean["NumLiveDataNodes"] if bean else -1

    def wait(self, done, what):
        """Waits for something while all processes run; raises HdfsError or SuiteError."""
        def looked():
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise HdfsError(f"{name} ended: {self.tail(name)}")
            return done()
        until(looked, what, START_S, every=0.2)

    # ---- parts

    def class_path(self):
        own = [self.conf, self.cache / "res"]
        # First, where it is: of two jars with the same classes the old API must win.
        own += self.cache.glob("jsr311-api.jar")
        return ":".join(map(str, own + sorted(self.cache.glob("*.jar"))))

    def java(self, log, main, arguments):
        with open(self.dir / f"logs/{log}.log", "w") as out:
            done = subprocess.run(["java", *self.jvm, "-cp", self.class_path(), main, *arguments],
                                  env=self.env, stdout=out, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL)
        if done.returncode:
            raise HdfsError(f"{main}: {self.tail(log)}")

    def spawn(self, name, main, arguments, megabytes):
        out = open(self.dir / f"logs/{name}.log", "a")
        self.processes[name] = subprocess.Popen(
            ["java", f"-Xmx{megabytes}m", *self.jvm, "-cp", self.class_path(), main, *arguments],
            env=self.env, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        out.close()

    def tail(self, log):
        path = self.dir / f"logs/{log}.log"
        return path.read_text(errors="replace")[-1500:] if path.exists() else "no log"

    def write_conf(self):
        first = self.namenodes[0]
        uri = "hdfs://phx" if self.ha else f"hdfs://127.0.0.1:{self.rpc[first]}"
        site(self.conf / "core-site.xml",
             {"fs.defaultFS": uri, "hadoop.tmp.dir": self.dir / "tmp"} | self.more_core())
        properties = {
            "dfs.replication": self.replication,
            "dfs.blocksize": self.block_size,
            "dfs.namenode.fs-limits.min-block-size": 512,
            "dfs.namenode.safemode.extension": 0,
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            # A killed DataNode is dead after 12 s instead of 10.5 minutes.
            "dfs.heartbeat.interval": 1,
            "dfs.namenode.heartbeat.recheck-interval": 1000,
            "dfs.namenode.replication.interval": 1,
            "dfs.namenode.redundancy.interval.seconds": 1,
            "dfs.webhdfs.enabled": "true",
            "dfs.permissions.superusergroup": "supergroup",
        }
        if self.image:
            # Blocks that no DataNode has keep nobody from starting, and nobody copies them.
            properties |= {"dfs.namenode.safemode.threshold-pct": 0,
                           "dfs.namenode.redundancy.interval.seconds": 3600}
        if self.ha:
            properties |= {
                "dfs.nameservices": "phx",
                "dfs.ha.namenodes.phx": ",".join(self.namenodes),
                "dfs.namenode.shared.edits.dir": f"file://{self.dir}/shared",
                "dfs.ha.fencing.methods": "shell(/bin/true)",
                "dfs.client.failover.proxy.provider.phx":
                    "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
            }
            for name in self.namenodes:
                properties[f"dfs.namenode.rpc-address.phx.{name}"] = f"127.0.0.1:{self.rpc[name]}"
                properties[f"dfs.namenode.http-address.phx.{name}"] = f"127.0.0.1:{self.http[name]}"
                properties[f"dfs.namenode.name.dir.phx.{name}"] = f"file://{self.dir}/{name}"
            (self.dir / "shared").mkdir(exist_ok=True)
        else:
            properties |= {"dfs.namenode.name.dir": f"file://{self.dir}/nn1",
                           "dfs.namenode.http-address": f"127.0.0.1:{self.http[first]}"}
        site(self.conf / "hdfs-site.xml", properties | self.more_site())

    def more_core(self):
        """Further properties of core-site.xml."""
        return {}

    def more_site(self):
        """Further properties of hdfs-site.xml."""
        return {}


def main():
    """Fetches Hadoop, or runs a file system until Enter is pressed."""
    if sys.argv[1:] == ["--fetch"]:
        for version in (NEW, OLD):
            print(jars(version))
        return
    with MiniHdfs(sys.argv[1], sys.argv[2:]) as started:
        print(f"HADOOP_CONF_DIR={started.conf}; Enter ends it", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main()
