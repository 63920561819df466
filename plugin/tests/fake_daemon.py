#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A stand-in for phalanxd that speaks the plugin's side of phalanx_wire.h.

A tool to try the overlay against a real slurmctld: it keeps the mirror that
the events describe, answers asks by a simple rule, can misbehave on purpose,
and writes one JSON line per message to its log.

    fake_daemon.py --socket PATH [--log FILE] [--rule last|first|none|foreign|...]
SIGUSR1 writes the mirror to the log; SIGUSR2 sends RESYNC.
"""
import argparse
import json
import os
import signal
import socket
import struct
import sys
import time

MAGIC, VERSION = 0x31584850, 3
HDR = struct.Struct("<IHHIIQ")
NAMES = {1: "HELLO", 2: "SYNC_BEGIN", 3: "GRES_NAMES", 4: "NODES", 5: "JOB", 6: "JOB_END",
         7: "SYNC_END", 8: "ASK", 9: "OUTCOME", 10: "STATS", 11: "QUEUE", 12: "TOPOLOGY",
         13: "ENDS"}
ASK = struct.Struct("<6I2H17IQQ3I2H2I4H4I")
ASK_GRES = struct.Struct("<2I5Q2I")
ASK_FIELDS = ("job_id array_job_id array_task_id het_job_id user_id priority mode name_key flags "
              "min_nodes max_nodes req_nodes min_cpus max_cpus num_tasks pn_min_cpus "
              "cpus_per_task ntasks_per_node ntasks_per_socket ntasks_per_core threads_per_core "
              "core_spec whole_node share_res time_limit_min mem_per_node_mb mem_per_cpu_mb "
              "tmp_disk_mb gres_count account_key topology max_share switches "
              "switch_wait_left_s sockets_per_node cores_per_socket segment_size class_planes "
              "class_count exc_count preempt_count preempt_all").split()
RULES = ("last", "first", "none", "silent", "garbage", "version", "foreign", "many", "few",
         "unsorted", "oldseq", "futureseq", "otherjob", "truncated", "huge", "close")


def text(raw):
    return raw.split(b"\0", 1)[0].decode()


class Mirror:
    """What the daemon knows of nodes and jobs."""

    def __init__(self):
        self.nodes, self.jobs, self.gres_names, self.part = [], {}, {}, {}

    def put_nodes(self, body):
        _, count = struct.unpack_from("<II", body)
        for i in range(count):
            at = 8 + 360 * i
            cpus, cores, threads, sockets, mem, state, weight, gres, tpc, spec = (
                struct.unpack_from("<4IQ3I2H", body, at + 64))
            found = [struct.unpack_from("<IIQ", body, at + 104 + 16 * g) for g in range(gres)]
            self.nodes.append({"name": text(body[at:at + 64]), "cpus": cpus, "cores": cores,
                               "threads": threads, "sockets": sockets, "mem": mem,
                               "state": state, "weight": weight, "tpc": tpc, "spec": spec,
                               "gres": {self.gres_name(p, t): n for p, t, n in found}})

    def gres_name(self, plugin, kind):
        return self.gres_names.get((plugin, kind), f"{plugin:x}:{kind:x}")

    def put_names(self, body):
        count, _ = struct.unpack_from("<II", body)
        for i in range(count):
            plugin, kind = struct.unpack_from("<II", body, 8 + 72 * i)
            self.gres_names[(plugin, kind)] = text(body[16 + 72 * i:80 + 72 * i])

    def put_job(self, body):
        f = struct.unpack_from("<8IQQII", body)
        job = {"job": f[0], "array": f[1], "task": f[2], "het": f[3], "uid": f[4],
               "flags": f[5] & ~3, "cause": f[6], "limit": f[7], "start": f[8], "end": f[9]}
        at, allocs, gres = 56, {}, {}
        for _ in range(f[10]):
            node, cpus, mem, *cores = struct.unpack_from("<IIQ8H", body, at)
            allocs[node] = (cpus, mem, *cores)
            at += 32
        for _ in range(f[11]):
            node, plugin, kind, _, count = struct.unpack_from("<4IQ", body, at)
            gres.setdefault(node, {})[self.gres_name(plugin, kind)] = count
            at += 24
        assert at == len(body), "JOB length"
        kept = self.part if not f[5] & 1 else {}
        job["allocs"] = {**kept.get("allocs", {}), **allocs}
        job["gres"] = {**kept.get("gres", {}), **gres}
        self.part = job
        if f[5] & 2:
            self.jobs[f[0]] = job
        return job

    def free(self, node):
        cpus, mem = self.nodes[node]["cpus"], self.nodes[node]["mem"]
        for job in self.jobs.values():
            used = job["allocs"].get(node, (0, 0))
            cpus, mem = cpus - used[0], mem - used[1]
        return cpus, mem

    def dump(self):
        return {"nodes": len(self.nodes), "names": list(self.gres_names.values()),
                "node_list": self.nodes,
                "jobs": {k: {**v, "allocs": {self.nodes[n]["name"]: a
                                             for n, a in v["allocs"].items()},
                             "gres": {self.nodes[n]["name"]: g for n, g in v["gres"].items()}}
                         for k, v in self.jobs.items()}}


class Daemon:
    def __init__(self, args):
        self.args, self.conn, self.mirror, self.decisions = args, None, Mirror(), 0
        self.log = open(args.log, "a", buffering=1) if args.log else sys.stdout
        self.want_dump = self.want_resync = False

    def say(self, **fields):
        if not self.args.quiet:
            print(json.dumps({"t": round(time.time(), 4), **fields}), file=self.log, flush=True)

    def send(self, kind, body, seq=0, version=VERSION):
        self.conn.send(HDR.pack(MAGIC, version, kind, 24 + len(body), 0, seq) + body)

    def choose(self, ask, candidates):
        want = max(ask["min_nodes"], min(ask["req_nodes"], ask["max_nodes"], len(candidates)))
        need = max(ask["pn_min_cpus"], ask["cpus_per_task"], 1)
        if ask["min_cpus"] not in (0, 0xfffffffe):
            need = max(need, -(-ask["min_cpus"] // max(want, 1)))
        order = candidates if self.args.rule == "first" else list(reversed(candidates))
        fits = [n for n in order if self.mirror.free(n)[0] >= need]
        return sorted(fits[:want])

    def answer(self, seq, body):
        ask = dict(zip(ASK_FIELDS, ASK.unpack_from(body)))
        gres = [ASK_GRES.unpack_from(body, ASK.size + 56 * i) for i in range(ask["gres_count"])]
        at = ASK.size + 56 * 16
        part = text(body[at:at + 64])
        bits, words = struct.unpack_from("<II", body, at + 64)
        bitmap = struct.unpack_from(f"<{words}Q", body, at + 96)
        left, = struct.unpack_from("<I", body, at + 88)
        candidates = [i for i in range(bits) if bitmap[i // 64] >> (i % 64) & 1]
        arrays = self.arrays(ask, body, at + 96 + 8 * (words + left), words, candidates)
        nodes = self.choose(ask, candidates)
        self.say(msg="ASK", seq=seq, part=part, gres=gres, candidates=len(candidates),
                 nodes=[self.mirror.nodes[n]["name"] for n in nodes], **ask, **arrays)
        self.decisions += 1
        self.reply(seq, ask, nodes, bits)

    def arrays(self, ask, body, at, words, candidates):
        """What follows the candidates; classes by the names of their nodes."""
        pairs = struct.iter_unpack("<2I", body[at:at + 8 * ask["class_count"]])
        classes = [[pair, []] for pair in pairs]
        at += 8 * ask["class_count"]
        planes = [struct.unpack_from(f"<{words}Q", body, at + 8 * words * p)
                  for p in range(ask["class_planes"])]
        at += 8 * words * ask["class_planes"]
        for node in candidates if classes else ():
            place = sum((plane[node // 64] >> node % 64 & 1) << p
                        for p, plane in enumerate(planes))
            classes[place][1].append(self.mirror.nodes[node]["name"])
        exc = list(struct.iter_unpack("<I2H8H", body[at:at + 24 * ask["exc_count"]]))
        at += 24 * ask["exc_count"]
        preempt = struct.unpack_from(f"<{ask['preempt_count']}I", body, at)
        at += 4 * (ask["preempt_count"] + ask["preempt_count"] % 2)
        assert at == len(body), "ASK length"
        return {"classes": classes, "exc": exc, "preempt": preempt}

    def reply(self, seq, ask, nodes, bits):
        rule, job, version = self.args.rule, ask["job_id"], VERSION
        if rule == "silent":
            return
        if rule == "close":
            raise ConnectionError("closing on purpose")
        if rule in ("garbage", "huge"):
            self.conn.send(os.urandom(77 if rule == "garbage" else 150000))
            return
        verdict = 1 if nodes and rule != "none" else 0
        nodes = {"foreign": [bits + 5], "many": list(range(bits)), "few": [],
                 "unsorted": list(reversed(nodes)) + nodes}.get(rule, nodes)
        seq += {"oldseq": -1, "futureseq": 7}.get(rule, 0)
        job += rule == "otherjob"
        version += rule == "version"
        nodes = nodes if verdict else []
        body = struct.pack("<IHHQQIIIIQQ", job, verdict, 0 if verdict else 3, self.decisions, 1,
                           len(nodes), 0, 0, 0, 0, 0) + struct.pack(f"<{len(nodes)}I", *nodes)
        self.send(66, body[:-2] if rule == "truncated" else body, seq, version)

    def handle(self, data):
        magic, version, kind, length, pad, seq = HDR.unpack_from(data)
        assert magic == MAGIC and version == VERSION and length == len(data) and not pad
        assert seq == self.seq + 1, f"seq {seq} after {self.seq}"
        self.seq, body, m = seq, data[24:], self.mirror
        if kind == 8:
            return self.answer(seq, body)
        fields = {}
        if kind == 1:
            ver, pid, count, param, start = struct.unpack_from("<4IQ", body)
            fields = {"slurm": hex(ver), "pid": pid, "nodes": count, "param": param,
                      "start": start, "cluster": text(body[24:88]), "overlay": text(body[88:])}
            self.send(64, struct.pack("<QIIII", 1, self.args.deadline_us, 3, 5000, 3))
        elif kind == 2:
            self.mirror = Mirror()
            fields = dict(zip(("nodes", "jobs", "hash"), struct.unpack("<IIQ", body)))
        elif kind == 3:
            m.put_names(body)
        elif kind == 4:
            m.put_nodes(body)
        elif kind == 5:
            fields = m.put_job(body)
        elif kind == 6:
            fields = dict(zip(("job", "state", "end"), struct.unpack("<IIQ", body)))
            fields["known"] = m.jobs.pop(fields["job"], None) is not None
        elif kind == 7:
            fields = dict(zip(("nodes", "jobs"), struct.unpack("<II", body)))
            assert fields["nodes"] == len(m.nodes) and fields["jobs"] == len(m.jobs)
        elif kind == 12:
            index, flags, length = struct.unpack_from("<2HI", body)
            fields = {"index": index, "flags": flags, "name": text(body[8:72]),
                      "plugin": text(body[72:136]),
                      "block_sizes": struct.unpack_from("<8I", body, 136),
                      "text": body[168:168 + length].decode()}
        elif kind == 9:
            fields = dict(zip(("ask", "decision", "job", "mode", "reason", "rc", "count",
                               "ask_ns", "narrowed_ns", "full_ns"),
                              struct.unpack("<QQIHHiIQQQHHIQQ", body)))
        elif kind == 10:
            f = struct.unpack("<" + "Q" * 44 + "II" + "Q" * 490, body)
            fields = {"calls": f[:4], "asks": f[4], "answers": f[5], "narrowed": f[6],
                      "reasons": {i: n for i, n in enumerate(f[7:39]) if n}, "late": f[39],
                      "events": f[40], "resyncs": f[41], "connects": f[42], "opens": f[43],
                      "open": f[44], "ask_hist": f[46:286], "skip_hist": f[286:526],
                      "narrowed_calls": f[526], "narrowed_ns": f[527],
                      "full_calls": f[528:532], "full_ns": f[532:536]}
        self.say(msg=NAMES[kind], seq=seq, **fields)

    def serve(self, conn):
        self.conn, self.seq = conn, 0
        conn.settimeout(0.2)
        while True:
            if self.want_dump:
                self.want_dump = False
                print(json.dumps({"mirror": self.mirror.dump()}), file=self.log, flush=True)
            if self.want_resync:
                self.want_resync = False
                self.send(67, b"")
            try:
                data = conn.recv(1 << 18)
            except socket.timeout:
                continue
            if not data:
                return
            self.handle(data)

    def run(self):
        if os.path.exists(self.args.socket):
            os.unlink(self.args.socket)
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.bind(self.args.socket)
        os.chmod(self.args.socket, 0o666)
        s.listen(8)
        signal.signal(signal.SIGUSR1, lambda *_: setattr(self, "want_dump", True))
        signal.signal(signal.SIGUSR2, lambda *_: setattr(self, "want_resync", True))
        while True:
            conn, _ = s.accept()
            self.say(msg="ACCEPT")
            try:
                self.serve(conn)
            except (ConnectionError, AssertionError) as e:
                self.say(msg="ERROR", what=repr(e))
            conn.close()
            self.say(msg="CLOSED")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--socket", required=True)
    p.add_argument("--log")
    p.add_argument("--rule", choices=RULES, default="last")
    p.add_argument("--deadline-us", type=int, default=20000)
    p.add_argument("--quiet", action="store_true", help="do not log messages")
    Daemon(p.parse_args()).run()


if __name__ == "__main__":
    main()
