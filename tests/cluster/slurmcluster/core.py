# SPDX-License-Identifier: GPL-3.0-or-later
"""class Cluster: starts, asks, disturbs and ends one Slurm cluster on this machine."""

import contextlib
import glob
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
import tomllib
import uuid

from . import conf, dbd, jobs, munge, nodes, ports, procs, traced
from .clock import CLOCK, Deadline
from .errors import ClusterError, UsageError
from .paths import MARK_FILE, Paths, search_path
from .release import Release

UP_TIMEOUT_S = 60.0
FAIR_WAIT_S = 365 * 86400        # longest wait before a test, as the order of starts has it
NODES_PER_EXTRA_SECOND = 4      # beyond 16 nodes the limit grows
LOG_TAIL_LINES = 15
PACKAGES = {"slurmctld": "slurmctld", "slurmd": "slurmd", "scontrol": "slurm-client",
            "sinfo": "slurm-client", "sbatch": "slurm-client", "munge": "munge"}


class Cluster(jobs.JobsMixin):
    """One cluster in one directory.

    directory  where everything of the cluster lives; new, empty, or a former cluster's
    stock      True: Slurm alone; False: with the overlay and phalanxd
    nodes      slurm.conf fragment as text; None: 16 nodes of four kinds
    config     path of a phalanx.toml to use (its paths are moved into `directory`)
    extra      further slurm.conf lines, replacing those of the harness
    cloud      number of State=CLOUD nodes without slurmd
    slurmdbd   True: with mariadb and slurmdbd, a user, an account and two QOS
    files      {name: text} put beside slurm.conf (topology.conf ...)
    overlay    directory of select_cons_tres.so (default: the build's); False: there is none, and
               its directory stays empty
    nodes_where  what errors call the fragment (its file's name)
    daemon     False: overlay, but phalanxd is left to `start_phalanxd()`
    slurm      release of Slurm, `22.05`, `24.11` or `26.05`; None: PHALANX_TEST_SLURM, else 22.05
    slurm_root  prefix of a Slurm to use instead; None: PHALANX_TEST_SLURM_ROOT
    """

    def __init__(self, directory, *, stock=False, nodes=None, config=None, extra=(), cloud=0,
                 slurmdbd=False, files=None, overlay=None, daemon=True, nodes_where="nodes",
                 slurm=None, slurm_root=None):
        self.release = Release(slurm, slurm_root)
        self.paths = Paths(directory, self.release)
        self.stock, self.config, self.extra = stock, config, list(extra)
        self.nodes_text, self.cloud, self.with_dbd = nodes, cloud, slurmdbd
        self.files, self.overlay, self.with_daemon = dict(files or {}), overlay, daemon
        self.nodes_where, self.fair_wait_s = nodes_where, FAIR_WAIT_S
        self.id, self.processes, self.ports, self.fragment = "", [], {}, None

    def __enter__(self):
        return self.up()

    def __exit__(self, *_):
        self.down()

    # --- life ---------------------------------------------------------------

    def up(self, timeout=None):
        """Starts everything and waits until all nodes are idle.

        Raises UsageError or ClusterError with the reason; nothing is left running then.
        """
        self.fragment = self._parse_nodes()
        self._check_programs()
        self.paths.check_lengths([node.name for node in self.fragment.nodes])
        self._claim_directory()
        try:
            end = CLOCK.now() + (timeout or self._default_timeout())
            self._start_all(end)
        except BaseException as error:
            tail = self.why() if isinstance(error, ClusterError) else ""
            with contextlib.suppress(ClusterError):
                self.down(quick=True)
            if tail:
                raise type(error)(f"{error}{tail}") from None
            raise
        return self

    def down(self, quick=False):
        """Ends exactly what `up` and its jobs started; the files stay. Idempotent.

        Raises ClusterError if a process survives.
        """
        if not self.id:
            return
        if not quick and self.alive("slurmctld"):
            self._cancel_all()
        for prefix in ("agent:", "phalanx-gate", "phalanxd", "slurmd:", "slurmctld", "slurmdbd",
                       "mariadbd"):
            mine = [p for p in self.processes if p.role.startswith(prefix)]
            procs.stop(mine, grace_s=10.0 if prefix == "mariadbd" else 3.0)
        left = procs.sweep(self.id, self.paths.slurm_conf)
        left += [process for process in self.processes if process.alive()]
        ports.release(self.id)
        if left:
            raise ClusterError(f"still running: {', '.join(f'{p.role} {p.pid}' for p in left)}")
        self.processes = []
        self._save()

    @classmethod
    def load(cls, directory):
        """The cluster that an earlier `up` left running in a directory.

        Raises UsageError if there is none.
        """
        paths = Paths(directory)
        try:
            with open(paths.state_file, encoding="utf-8") as file:
                saved = json.load(file)
            cluster = cls(directory, stock=saved["stock"], cloud=saved["cloud"],
                          nodes=saved["nodes"], slurmdbd=saved["slurmdbd"],
                          slurm=saved["slurm"] if not saved["slurm_root"] else None,
                          slurm_root=saved["slurm_root"])
            cluster.id, cluster.ports = saved["id"], saved["ports"]
            cluster.processes = [procs.Process(**entry) for entry in saved["processes"]]
        except OSError:
            raise UsageError(f"{paths.root}: no cluster was started here") from None
        except (ValueError, KeyError, TypeError) as error:
            raise ClusterError(f"{paths.state_file}: unreadable: {error}") from None
        cluster.fragment = cluster._parse_nodes()
        return cluster

    def running(self):
        """The processes of `up` that live."""
        return [process for process in self.processes if process.alive()]

    # --- environment and commands -----------------------------------------------

    @property
    def env_lines(self):
        """The variables a shell needs to use this cluster."""
        binaries = self.paths.bin_dir
        path = search_path()
        result = {"SLURM_CONF": self.paths.slurm_conf, "PHALANX_CLUSTER_DIR": self.paths.root}
        if not self.stock:
            result["PHALANX_SOCKET"] = self.paths.control_socket
        if self.paths.apart or not self.stock:
            if binaries not in path.split(os.pathsep):
                path = binaries + os.pathsep + path
        result["PATH"] = path
        return result

    @property
    def env(self):
        """A full environment for commands on this cluster."""
        # Settings of an outer job or cluster must not leak into this one.
        inherited = {key: value for key, value in os.environ.items()
                     if not key.startswith(("SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "PHALANX_"))}
        inherited |= {key: value for key, value in os.environ.items()
                      if key in ("PHALANX_BIN_DIR", "PHALANX_OVERLAY_DIR")}
        return inherited | self.env_lines

    def run(self, *argv, check=True, timeout=60, **options):
        """Runs a command on the cluster; returns CompletedProcess with text output.

        Raises ClusterError if it fails (unless check=False) or does not end in time.
        """
        options = {"capture_output": True, "text": True, "env": self.env,
                   "stdin": None if "input" in options else subprocess.DEVNULL} | options
        if options["stdin"] is None:
            del options["stdin"]
        argv = [str(word) for word in argv]
        try:
            done = subprocess.run(argv, timeout=timeout, check=False, **options)
        except subprocess.TimeoutExpired:
            raise ClusterError(f"{' '.join(argv)}: no end within {timeout} s") from None
        except OSError as error:
            raise ClusterError(f"{argv[0]}: {error}") from None
        if check and done.returncode:
            reason = (done.stderr or done.stdout or "").strip()
            raise ClusterError(f"{' '.join(argv)}: exit {done.returncode}: {reason}")
        return done

    @property
    def cluster_name(self):
        """Slurm's ClusterName."""
        return f"c{self.id[:6]}"

    @property
    def on_loopback(self):
        """True if this host's name is a loopback address, so that daemons can bind to it."""
        return _loopback_of(socket.gethostname().split(".")[0], "").startswith("127.")

    def why(self):
        """The last log lines of the parts that have ended, else of slurmctld."""
        dead = [p.role for p in self.processes if not p.alive()] or ["slurmctld"]
        text = ""
        for role in dead[:3]:
            stem = os.path.join(self.paths.log, role.replace(":", "-"))
            for path in (stem + ".log", stem + ".out"):
                lines = tail(path, LOG_TAIL_LINES)
                if lines:
                    text += f"\n--- {path}\n" + "\n".join(lines)
                    break
        return text

    # --- parts, one by one ----------------------------------------------------------

    def alive(self, role):
        """True while the process of a role (`slurmctld`, `slurmd:cpu1`, `phalanxd`) lives."""
        return any(p.role == role and p.alive() for p in self.processes)

    def process(self, role):
        """The newest process of a role. Raises ClusterError if there was none."""
        for process in reversed(self.processes):
            if process.role == role:
                return process
        raise ClusterError(f"no {role} was started")

    def start_slurmctld(self, timeout=30, clean=False):
        """Starts slurmctld and waits until it answers; `clean` forgets saved state."""
        argv = ["slurmctld", "-D", "-f", self.paths.slurm_conf] + (["-c"] if clean else [])
        variables = {} if self.stock else {"PHALANX_PLUGIN_SOCKET": self.paths.plugin_socket}
        self.spawn("slurmctld", argv, variables)
        self._wait_for(lambda: self._answers("scontrol", "ping"), timeout, "slurmctld", "answer")

    def stop_slurmctld(self, kill=False):
        """Ends slurmctld in order, or with SIGKILL."""
        self._stop("slurmctld", kill, 30.0)

    def restart_slurmctld(self, kill=False, timeout=30):
        """Ends slurmctld (in order, or with SIGKILL) and starts it on its saved state.

        Slurm saves its state up to 5 s late, so a kill may lose what was submitted just before.
        """
        self.stop_slurmctld(kill)
        self.start_slurmctld(timeout)

    def start_slurmd(self, name):
        """Starts the slurmd of one node."""
        self.spawn(f"slurmd:{name}", ["slurmd", "-D", "-N", name, "-f", self.paths.slurm_conf])

    def stop_slurmd(self, name, kill=False):
        """Ends the slurmd of one node."""
        self._stop(f"slurmd:{name}", kill, 5.0)

    def start_phalanxd(self, timeout=20, before=()):
        """Starts phalanxd, by the words `before`, and waits until its control socket answers."""
        program = os.path.join(self.paths.bin_dir, "phalanxd")
        if not os.access(program, os.X_OK):
            raise ClusterError(f"{program} is missing: run `cargo build --release`, "
                               "or set PHALANX_BIN_DIR")
        traces = os.environ.get("PHALANX_TRACE")
        if traces:
            number = sum(p.role == "phalanxd" for p in self.processes)
            path = os.path.join(traces, f"{self.ports['slurmctld']}-{self.id}-{number}.trace")
            before = [*traced.words(path), *before]
        self.spawn("phalanxd", [*before, program, "--config", self.paths.phalanx_toml])
        self._wait_for(self.phalanxd_answers, timeout, "phalanxd", "accept on its control socket")
        if not self.alive("phalanx-gate"):
            self.start_gate()
        with open(self.paths.phalanx_toml, "rb") as file:
            listen = tomllib.load(file).get("control", {}).get("listen", "")
        if listen:
            def open_door():
                host, port = listen.rsplit(":", 1)
                with socket.socket() as probe:
                    return probe.connect_ex((host, int(port))) == 0
            self._wait_for(open_door, timeout, "phalanx-gate", "listen")

    def start_gate(self):
        """Starts phalanx-gate, which phalanxd has beside it in packages."""
        gate = os.path.join(self.paths.bin_dir, "phalanx-gate")
        place = os.path.join(self.paths.run, "gate.sock")
        self.spawn("phalanx-gate", [gate, "--socket", place])

    def stop_gate(self, kill=False):
        """Ends phalanx-gate in order, or with SIGKILL."""
        self._stop("phalanx-gate", kill, 10.0)

    def start_agent(self, name, *arguments):
        """Starts `phalanx collector agent` for one node; it runs as a node's agent would."""
        program = os.path.join(self.paths.bin_dir, "phalanx")
        self.spawn(f"agent:{name}", [program, "collector", "agent", "--node", name, *arguments])

    def stop_agent(self, name, kill=False):
        """Ends the agent of one node."""
        self._stop(f"agent:{name}", kill, 5.0)

    def stop_phalanxd(self, kill=False):
        """Ends phalanxd in order, or with SIGKILL."""
        self._stop("phalanxd", kill, 10.0)

    def signal_phalanxd(self, number):
        """Sends a signal (SIGSTOP, SIGCONT, SIGHUP, SIGKILL ...) to phalanxd."""
        if not self.process("phalanxd").signal(number):
            raise ClusterError("phalanxd does not run")

    def phalanxd_answers(self):
        """True if something accepts on the control socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(2.0)
            try:
                probe.connect(self.paths.control_socket)
            except OSError:
                return False
        return True

    def install_overlay(self, source=None):
        """Puts the overlay where slurmctld finds it at its next start."""
        if self.overlay is False and not source:
            return
        directory = source or self.overlay or self.paths.overlay_source
        plugin = os.path.join(directory, "select_cons_tres.so")
        if not os.path.isfile(plugin):
            raise ClusterError(f"{plugin} is missing: run {self.release.how_to_build()}, "
                               "or use --stock")
        # A new inode: a slurmctld that has the old file mapped keeps it.
        shutil.copy(plugin, self.paths.overlay + "/.new")
        os.replace(self.paths.overlay + "/.new", self.paths.overlay_file)

    def remove_overlay(self):
        """Removes the overlay's file; the directory stays, as PluginDir needs it."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.paths.overlay_file)

    # --- how it is done -----------------------------------------------------------------

    def _parse_nodes(self):
        if self.nodes_text is not None:
            return nodes.parse_fragment(self.nodes_text, self.nodes_where)
        if self.cloud:
            return nodes.Fragment()
        return nodes.parse_fragment(nodes.DEFAULT_FRAGMENT)

    def _check_programs(self):
        self.release.ensure_tree()
        needed = dict(PACKAGES)
        if self.with_dbd:
            needed |= {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server",
                       "mariadb-install-db": "mariadb-server"}
        ours = {program for program in needed if program.startswith("mariadb")}
        missing = {program for program in ours if not shutil.which(program)}
        missing |= set(self.release.programs(needed.keys() - ours))
        if missing:
            packages = sorted({needed[program] for program in missing})
            raise ClusterError(f"not installed: {' '.join(packages)}")
        self.release.enters()

    def _claim_directory(self):
        """Makes the directory ours and empty; refuses one with other people's files."""
        root = self.paths.root
        if os.path.exists(self.paths.state_file):
            old = Cluster.load(root)
            if old.running():
                raise ClusterError(f"{root}: a cluster runs here already; "
                                   f"end it with `cluster down --dir {root}`")
            # What a crashed `up` left, if anything, goes before its files do.
            procs.sweep(old.id, old.paths.slurm_conf)
        try:
            os.makedirs(root, exist_ok=True)
            if os.listdir(root) and not os.path.exists(os.path.join(root, MARK_FILE)):
                raise UsageError(f"{root} is not empty and not a cluster's directory")
            self.paths.reset()
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            raise UsageError(f"{root}: {error.strerror}") from None
        self.id = uuid.uuid4().hex[:12]

    def _start_all(self, end):
        self.release.write_wrappers(self.paths.bin, self.stock)
        munge.ensure()
        count = sum(node.has_slurmd for node in self.fragment.nodes)
        taken = ports.take(count + 3, self.id, self.paths.state_file)
        self.ports = dict(zip(("slurmctld", "slurmdbd", "mariadbd"), taken))
        for node, port in zip((n for n in self.fragment.nodes if n.has_slurmd), taken[3:]):
            node.port = port
        self._save()
        self._write_files()
        if self.with_dbd:
            dbd.start(self, self.cluster_name)
        self.start_slurmctld(timeout=max(5.0, end - CLOCK.now()))
        if self.release.root and count > 1:
            self._check_multiple()
        for node in self.fragment.nodes:
            if node.has_slurmd:
                os.makedirs(os.path.join(self.paths.spool, node.name), exist_ok=True)
                self.start_slurmd(node.name)
        if not self.stock and self.with_daemon:
            self.start_phalanxd()
        self.wait_idle(end - CLOCK.now())
        if not self.stock and self.with_daemon:
            self._wait_connected()
        self._check_survivors()

    def _wait_connected(self):
        """Waits for the overlay, which tries again at most 2.5 s later; no error, since a case may
        be about one that never connects."""
        end = CLOCK.now() + 3.0
        while CLOCK.now() < end:
            for path in glob.glob(os.path.join(self.paths.log, "slurmctld*.log")):
                with open(path, encoding="utf-8", errors="replace") as file:
                    if "phalanx: connected" in file.read():
                        return
            time.sleep(0.05)

    def _check_multiple(self):
        """Raises ClusterError unless this Slurm lets several slurmd run on one host."""
        if "MULTIPLE_SLURMD" not in self.run("scontrol", "show", "config").stdout:
            raise ClusterError(f"{self.release.root}: this Slurm is configured without "
                               "--enable-multiple-slurmd, which several nodes on one host need: "
                               "see docs/releases.md")

    def _write_files(self):
        paths = self.paths
        host = socket.gethostname().split(".")[0]
        names = {"cluster": self.cluster_name, "host": host, "addr": _loopback_of(host),
                 "loopback": self.on_loopback}
        base = conf.settings(paths, names, self.ports, pwd.getpwuid(os.getuid()).pw_name)
        base |= conf.release_settings(self.release)
        if self.cloud or any(not node.has_slurmd for node in self.fragment.nodes):
            base |= conf.cloud_settings()
        _, repeatable = conf.apply_extra({}, self.extra)
        base["GresTypes"] = conf.gres_types(self.fragment, self.cloud, repeatable)
        if self.with_dbd:
            base |= dbd.settings(self, base["GresTypes"])
        if not self.stock:
            self.install_overlay()
            base["PluginDir"] = f"{paths.overlay}:{self.release.plugin_dir()}"
            text = self._write_toml()
        result, repeatable = conf.apply_extra(base, self.extra)
        if not self.stock:
            conf.allow(result, text)
        conf.write_gres(paths, self.fragment)
        for name, text in (conf.release_files(self.release) | self.files).items():
            _write(os.path.join(paths.etc, os.path.basename(name)), text)
        _write(paths.slurm_conf,
               conf.slurm_conf(result, repeatable, self.fragment, names, self.cloud))

    def _write_toml(self):
        text = None
        if self.config:
            try:
                with open(self.config, encoding="utf-8") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"--config {self.config}: {error}") from None
        _write(self.paths.phalanx_toml,
               conf.phalanx_toml(self.paths, text, self.config or "phalanx.toml"))
        # As if jobs had waited long before: a test has no time to wait until they have.
        names = conf.partition_names(self.fragment, self.cloud)
        _write(os.path.join(self.paths.var, "order.json"),
               json.dumps(dict.fromkeys(names, self.fair_wait_s)))
        return text or ""

    def spawn(self, role, argv, variables=None):
        """Starts a daemon of this cluster; `down` will end it.

        Raises ClusterError if the program cannot be started.
        """
        program = shutil.which(argv[0], path=self.env["PATH"] + ":/usr/sbin:/sbin")
        env = self.env | {procs.MARKER: self.id} | (variables or {})
        log = os.path.join(self.paths.log, role.replace(":", "-") + ".out")
        try:
            process = procs.spawn(role, [program or argv[0], *argv[1:]], env, log)
        except OSError as error:
            raise ClusterError(f"cannot start {argv[0]}: {error}") from None
        self.processes = [p for p in self.processes if p.role != role or p.alive()] + [process]
        self._save()
        return process

    def _stop(self, role, kill, grace_s):
        process = self.process(role)
        if kill:
            process.signal(signal.SIGKILL)
        if procs.stop([process], grace_s):
            raise ClusterError(f"{role} (pid {process.pid}) does not end")

    def _answers(self, *argv):
        """True if `scontrol ping` says that the controller is up."""
        done = self.run(*argv, check=False, timeout=30)
        return done.returncode == 0 and " is UP" in done.stdout

    def _wait_for(self, condition, timeout, role, what):
        deadline = Deadline(timeout)
        while not condition():
            if not self.alive(role):
                raise ClusterError(f"{role} ended before it could {what}")
            if deadline.over():
                raise ClusterError(f"{role} does not {what} within {timeout:.0f} s")
            time.sleep(0.05)

    def _check_survivors(self):
        dead = sorted({p.role for p in self.processes if not self.alive(p.role)})
        if dead:
            raise ClusterError(f"ended during start: {', '.join(dead)}")

    def _cancel_all(self):
        """Ends the jobs first, so that slurmd does not leave steps behind."""
        with contextlib.suppress(ClusterError):
            listed = self.run("squeue", "-h", "-a", "-o", "%F", timeout=20).stdout.split()
            if listed:
                self.run("scancel", *sorted(set(listed))[:5000], check=False, timeout=20)

    def _default_timeout(self):
        beyond = max(0, len(self.fragment.nodes) - 16) + self.cloud // 100
        return UP_TIMEOUT_S + beyond / NODES_PER_EXTRA_SECOND

    def _save(self):
        state = {"id": self.id, "stock": self.stock, "cloud": self.cloud,
                 "nodes": self.nodes_text, "slurmdbd": self.with_dbd, "ports": self.ports,
                 "slurm": self.release.name, "slurm_root": self.release.root,
                 "processes": [process.to_json() for process in self.processes]}
        _write(self.paths.state_file + ".new", json.dumps(state, indent=1))
        os.replace(self.paths.state_file + ".new", self.paths.state_file)


def end_run(run):
    """Ends the clusters that a run of tests/run has left running."""
    for state in ports.states_of(run):
        root = os.path.dirname(os.path.dirname(state))
        print(f"ending the cluster left in {root}", flush=True)
        with contextlib.suppress(ClusterError, UsageError):
            Cluster.load(root).down(quick=True)


def tail(path, lines):
    """The last lines of a file; all with 0, none if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()[-lines:]
    except OSError:
        return []


def _loopback_of(host, otherwise="127.0.0.1"):
    """The address of this host's name if that is on loopback, else `otherwise`."""
    with contextlib.suppress(OSError):
        address = socket.gethostbyname(host)
        if address.startswith("127."):
            return address
    return otherwise


def _write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
