# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes slurm.conf, gres.conf, the GPU device files and phalanx.toml of a cluster."""

import os
import re
import tomllib

from .errors import UsageError
from .nodes import expand_hostlist

# Lines that may occur many times in slurm.conf; any other `--extra` replaces ours.
REPEATABLE = {"nodename", "partitionname", "nodeset", "downnodes", "include", "switchname"}
# For suites that look at what is done, not how soon: on a busy machine answers may come
# late, and an open breaker would leave everything to Slurm for a while.
PATIENT = """\
mode = "enforce"
[link]
deadline_us = 20000
[expert]
breaker = false
[source]
poll_ms = 500
"""
# What slurm.conf has to allow such a daemon.
PATIENT_SITE = "phalanx_ask_ms=6000,phalanx_syncs=0,phalanx_eject=0"
ORDER_SITE = "phalanx_order=1000000000"
# The configuration, and queue and plan are read and made more often than by default.
PROMPT = PATIENT.replace("poll_ms = 500", "poll_ms = 300")
CLOUD_MAX = 65_000   # Slurm's own limit is 64k nodes
SCHEDULER = ("bf_interval=2,bf_continue,bf_window=1440,bf_yield_interval=1000000,"
             "sched_interval=2,batch_sched_delay=1")


def settings(paths, names, ports, user):
    """The single-valued lines of slurm.conf, in order.

    `names` has cluster, host, addr, and whether the host's name is on loopback; `ports` has
    slurmctld.
    """
    return {
        "ClusterName": names["cluster"],
        "SlurmctldHost": f"{names['host']}({names['addr']})",
        "SlurmctldPort": ports["slurmctld"],
        "SlurmUser": user,
        "SlurmdUser": user,
        "AuthType": "auth/munge",
        "CredType": "cred/munge",
        # Only with a host name on loopback can the daemons bind to that address alone.
        "CommunicationParameters": "NoInAddrAny,NoCtldInAddrAny"
                                   if names["loopback"] else None,
        "StateSaveLocation": paths.state,
        "SlurmdSpoolDir": os.path.join(paths.spool, "%n"),
        "SlurmctldPidFile": os.path.join(paths.run, "slurmctld.pid"),
        "SlurmdPidFile": os.path.join(paths.run, "slurmd-%n.pid"),
        "SlurmctldLogFile": os.path.join(paths.log, "slurmctld.log"),
        "SlurmdLogFile": os.path.join(paths.log, "slurmd-%n.log"),
        "SlurmctldDebug": "info",
        "SlurmdDebug": "info",
        "SlurmdParameters": "config_overrides",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SwitchType": "switch/none",
        "MpiDefault": "none",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "DefMemPerCPU": 500,
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": SCHEDULER,
        "PriorityType": "priority/multifactor",
        "ReturnToService": 2,
        "SlurmctldTimeout": 300,
        "SlurmdTimeout": 300,
        "MessageTimeout": 30,
        "InactiveLimit": 0,
        "KillWait": 2,
        "MinJobAge": 600,
        "MaxJobCount": 200000,
        "MaxArraySize": 20001,
        "MailProg": "/bin/true",
    }


def release_settings(release):
    """What differs in a release: settings that it no longer has (None)."""
    if release.number >= (23, 11):
        return {"SwitchType": None, "TaskPlugin": None}
    return {}


def release_files(release):
    """{name: text} of the files beside slurm.conf that a release needs."""
    if release.number >= (23, 11):
        # slurmd would look for cgroups although no plugin of these clusters uses them.
        return {"cgroup.conf": "CgroupPlugin=disabled\n"}
    return {}


def cloud_settings():
    """What CLOUD nodes need: a resume that does nothing and never times out in a test."""
    return {
        # Despite its name, this shows CLOUD nodes that are powered down.
        "PrivateData": "cloud",
        "ResumeProgram": "/bin/true",
        "SuspendProgram": "/bin/true",
        "SuspendTime": -1,
        "ResumeTimeout": 30000,
        "SuspendTimeout": 30,
        "ResumeRate": 0,
        "SuspendRate": 0,
        "TreeWidth": 65533,
    }


def cloud_lines(count):
    """NodeName and PartitionName lines of `count` CLOUD nodes with 4 GPUs each."""
    if not 1 <= count <= CLOUD_MAX:
        raise UsageError(f"--cloud {count}: expected 1 to {CLOUD_MAX}")
    return [
        f"NodeName=cloud[1-{count}] CPUs=64 Sockets=2 CoresPerSocket=32 RealMemory=256000 "
        "Gres=gpu:4 Weight=50 State=CLOUD",
        f"PartitionName=cloud Nodes=cloud[1-{count}] Default=YES MaxTime=INFINITE State=UP",
    ]


def apply_extra(base, extra):
    """Puts `--extra` lines over the settings; returns (settings, repeatable lines).

    An empty value (`Key=`) removes our line. Raises UsageError on a line without KEY=VALUE.
    """
    lines, result = [], dict(base)
    for line in extra:
        key, equals, value = line.strip().partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z]\w*", key) or "\n" in line:
            raise UsageError(f"--extra {line!r}: expected one slurm.conf line KEY=VALUE")
        if key.lower() in REPEATABLE:
            lines.append(line.strip())
            continue
        for known in [k for k in result if k.lower() == key.lower()]:
            del result[known]
        if value:
            result[key] = value
    return result, lines


def allow(result, toml):
    """Allows the daemon in slurm.conf what its configuration has: wide limits, and an order."""
    words = [PATIENT_SITE] if re.search(r"^breaker = false", toml, re.MULTILINE) else []
    key = next((key for key in result if key.lower() == "schedulerparameters"),
               "SchedulerParameters")
    if "phalanx_order=" not in (result.get(key) or ""):
        words.append(ORDER_SITE)
    result[key] = ",".join(filter(None, (result.get(key), *words)))


def slurm_conf(result, repeatable, fragment, names, cloud):
    """The text of slurm.conf."""
    lines = ["# Written by the cluster harness; lost when the cluster is started again."]
    lines += [f"{key}={value}" for key, value in result.items() if value not in (None, "")]
    for node in fragment.nodes:
        keys = " ".join(f"{key}={value}" for key, value in node.keys.items())
        place = (f" NodeHostname={names['host']} NodeAddr={names['addr']} Port={node.port}"
                 if node.has_slurmd else "")
        lines.append(f"NodeName={node.name} {keys}{place}")
    lines += fragment.partitions
    if cloud:
        lines += cloud_lines(cloud)
    return "\n".join(lines + repeatable) + "\n"


def gres_types(fragment, cloud, repeatable):
    """GresTypes: the names in the fragment, plus gpu for CLOUD nodes and any in `--extra`."""
    found = set(fragment.gres_names()) | ({"gpu"} if cloud else set())
    for line in repeatable:
        match = re.search(r"\bGres=(\S+)", line, re.IGNORECASE)
        if match:
            found |= {item.split(":")[0].split("(")[0] for item in match.group(1).split(",")}
    return ",".join(sorted(found))


def write_gres(paths, fragment):
    """gres.conf and an empty device file per GPU; other GRES are plain counts."""
    lines = ["# Written by the cluster harness."]
    for node in fragment.nodes:
        if not node.has_slurmd:
            continue
        for name, kind, count in node.gres():
            typed = f" Type={kind}" if kind else ""
            if name == "gpu":
                stem = os.path.join(paths.dev, node.name, f"gpu-{kind or 'any'}-")
                os.makedirs(os.path.dirname(stem), exist_ok=True)
                for index in range(count):
                    with open(f"{stem}{index}", "wb"):
                        pass
                which = f"{stem}[0-{count - 1}]" if count > 1 else f"{stem}0"
                if count:
                    lines.append(f"NodeName={node.name} Name=gpu{typed} File={which}")
            else:
                lines.append(f"NodeName={node.name} Name={name}{typed} Count={count}")
    with open(os.path.join(paths.etc, "gres.conf"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def partition_names(fragment, cloud):
    """The partitions of a cluster, in order of definition."""
    names = []
    for line in fragment.partitions:
        for name in expand_hostlist(line.split()[0].split("=", 1)[1]):
            if name != "DEFAULT":
                names.append(name)
    return names + (["cloud"] if cloud else [])


def phalanx_toml(paths, source_text, where):
    """The daemon's configuration: a given file, or a small one, with every path under DIR."""
    text = source_text or ""
    # Suites look at what Phalanx does; one that says nothing of the mode wants its decisions.
    if not re.search(r"^mode\b", re.split(r"^\[", text, flags=re.MULTILINE)[0], re.MULTILINE):
        text = 'mode = "enforce"\n' + text
    for section, key, value in (
        ("link", "socket", paths.plugin_socket),
        ("control", "socket", paths.control_socket),
        ("history", "path", os.path.join(paths.var, "history.sqlite")),
    ):
        text = set_toml_string(text, section, key, value)
    if source_text is None:
        text = set_toml_raw(text, "source", "poll_ms", "500")
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: {error}") from None
    return text


def set_toml_string(text, section, key, value):
    """Sets a string key of a top-level table, keeping the rest of the file as it is."""
    return set_toml_raw(text, section, key, '"' + value.replace("\\", "\\\\") + '"')


def set_toml_raw(text, section, key, value):
    """Sets `key = value` in `[section]`, which is added at the end if it is not there."""
    lines, inside, at = text.splitlines(), False, None
    for index, line in enumerate(lines):
        header = re.fullmatch(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?", line)
        if header or line.lstrip().startswith("[["):
            inside = bool(header) and header.group(1) == section
            at = index + 1 if inside else at
        elif inside and re.match(rf"\s*{re.escape(key)}\s*=", line):
            lines[index] = f"{key} = {value}"
            return "\n".join(lines) + "\n"
    if at is None:
        lines += ["", f"[{section}]", f"{key} = {value}"]
    else:
        lines.insert(at, f"{key} = {value}")
    return "\n".join(lines) + "\n"


def write_config(cluster_dir, text=PATIENT):
    """Writes the daemon's configuration beside the directory of a cluster; returns its path."""
    path = cluster_dir.rstrip("/") + ".toml"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path
