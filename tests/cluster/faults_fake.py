# SPDX-License-Identifier: GPL-3.0-or-later
"""A false daemon on the plugin's socket that answers with garbage, or well-formed and hostile.

It speaks enough of the wire format (ffi/include/phalanx_wire.h) to be asked:
WELCOME after HELLO, then one kind of bad packet for every ASK. It sets itself no
limit: all are 0, every proof and hold is on, and each WELCOME asks to close the
breaker. What the plugin made of it is read from the STATS it sends.
"""

import contextlib
import os
import re
import select
import socket
import struct
import threading
from dataclasses import dataclass
from random import Random

from slurmcluster.paths import repository

MAGIC, PACKET_MAX = 0x31584850, 131072
with open(os.path.join(repository(), "ffi", "include", "phalanx_wire.h"), encoding="utf-8") as wire:
    VERSION = int(re.search(r"define PHX_VERSION (\d+)u", wire.read())[1])
HELLO, ASK, STATS, WELCOME, ANSWER = 1, 8, 10, 64, 66
NARROW = 1
RUN_NOW, TEST_ONLY, WILL_RUN = range(3)            # enum phx_mode
OFF, NO_FIT, HELD = 1, 3, 7                        # enum phx_reason
A_PROOF = 2                                        # PHX_A_PROOF
P_TEST_ONLY, P_WILL_RUN, P_NO_FIT = 1, 2, 3        # enum phx_proof
HEADER = struct.Struct("<IHHIIQ")                  # phx_hdr
ANSWER_FIXED = struct.Struct("<IHHQQIIIIQQ")       # phx_answer after its header
WELCOME_FIXED = struct.Struct("<Q9I4x")            # phx_welcome after its header
ASK_JOB_AT, ASK_MODE_AT, ASK_LIMITS_AT = 24, 48, 56     # job_id; mode; min, max, req_nodes
ASK_BITS_AT = 24 + 160 + 16 * 56 + 64               # node_bits, word_count
ASK_FIXED = ASK_BITS_AT + 8 + 24                   # sizeof(struct phx_ask)
STATS_COUNTERS = struct.Struct("<4Q3Q32QQ")        # calls .. reasons, late_answers
STATS_BREAKER_AT = HEADER.size + STATS_COUNTERS.size + 32    # breaker_open
EJECTED = 3                                        # enum breaker_state
DEADLINE_US, BREAKER_OPEN_MS = 10_000, 300
ALL_FLAGS = 1 | 2 | 4 | 16 | 32 | 64 | 128         # ASK_*, MAY_HOLD, PROVE_*, ENABLE
INVALID, TIMEOUT = 19, 18                          # enum phx_reason


@dataclass(frozen=True)
class Kind:
    """One kind of garbage.

    `answer(fake, ask)` gives the packets to send for an ask. `counters` name what
    must grow in `phalanx status` ("a|b": one of them). `may_narrow`: the packets
    hold a valid answer, so that jobs may be placed by it.
    """

    name: str
    title: str
    answer: object
    counters: tuple
    may_narrow: bool = False


@dataclass(frozen=True)
class Ask:
    """What a bad answer needs to know of an ASK."""

    seq: int
    job_id: int
    mode: int
    min_nodes: int
    max_nodes: int
    node_bits: int
    candidates: list


def packet(kind, seq, body, *, version=VERSION, length=None):
    """A packet with its header."""
    total = HEADER.size + len(body) if length is None else length
    return HEADER.pack(MAGIC, version, kind, total, 0, seq) + body


def leave(ask, reason=OFF, *, proof=0, until=0):
    """An ANSWER without an opinion."""
    return packet(ANSWER, ask.seq, ANSWER_FIXED.pack(
        ask.job_id, 0, reason, 1, 1, 0, A_PROOF if proof else 0, proof, 0, 0, until))


def answer(ask, nodes, *, seq=None, proof=0, until=0, **header):
    """An ANSWER that narrows to these node indexes."""
    body = ANSWER_FIXED.pack(ask.job_id, NARROW, 0, 1, 1, len(nodes), A_PROOF if proof else 0,
                             proof, 0, 0, until)
    body += struct.pack(f"<{len(nodes)}I", *nodes)
    return packet(ANSWER, ask.seq if seq is None else seq, body, **header)


def right_nodes(ask):
    """A set that the plugin must accept."""
    return ask.candidates[:max(1, ask.min_nodes)]


def foreign_nodes(fake, ask):
    """Indexes beyond the table, and such as are in it but not candidates, in turn."""
    others = sorted(set(range(ask.node_bits)) - set(ask.candidates))
    if fake.asks % 2 and len(others) >= ask.min_nodes:
        return [answer(ask, others[:ask.min_nodes])]
    return [answer(ask, [ask.node_bits + i for i in range(max(1, ask.min_nodes))])]


def too_many_nodes(fake, ask):
    """More nodes than the job may have; the whole candidate list if it may have all."""
    count = min(ask.max_nodes, 16000) + 1
    return [answer(ask, (ask.candidates + list(range(ask.node_bits, ask.node_bits + count)))
                   [:max(count, len(ask.candidates) + 1)])]


GARBAGE = (
    Kind("random", "random bytes",
         lambda fake, ask: [fake.random.randbytes(fake.random.randrange(1, 400))],
         ("invalid",)),
    Kind("version", "answers of another version of the wire format",
         lambda fake, ask: [answer(ask, right_nodes(ask), version=VERSION + 7)], ("invalid",)),
    Kind("foreign", "nodes outside the table and outside the candidates", foreign_nodes,
         ("invalid",)),
    Kind("many", "more nodes than the job may have", too_many_nodes, ("invalid",)),
    Kind("old", "answers to an old question, none to the present one",
         lambda fake, ask: [answer(ask, right_nodes(ask), seq=ask.seq - 1)],
         ("timeout|invalid", "late_answers|invalid")),
    Kind("length", "a header whose length is not the packet's",
         lambda fake, ask: [answer(ask, right_nodes(ask), length=4096)], ("invalid",)),
    Kind("twice", "every answer twice",
         lambda fake, ask: [answer(ask, right_nodes(ask))] * 2, ("late_answers|invalid",),
         may_narrow=True),
)


class FakeDaemon:
    """Listens on the socket's path on a thread while in a `with` block."""

    def __init__(self, path, kind, *, deadline_us=DEADLINE_US):
        self.path, self.kind, self.random = path, kind, Random(2)
        self.deadline_us, self.breaker, self.asked = deadline_us, 0, [0, 0, 0]
        self.asks, self.hellos, self.error, self._first, self._last = 0, 0, "", None, None
        self._stop = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._thread = threading.Thread(target=self._work, name="fake", daemon=True)

    def __enter__(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self._listener.bind(self.path)
        self._listener.listen(4)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def problems(self):
        """What does not fit what the plugin was sent, from its own counters."""
        found = [self.error] if self.error else []
        if not self.hellos:
            found.append("the plugin did not connect to the false daemon")
        if self._first and self._last and not self.kind.may_narrow:
            narrowed = self._last[6] - self._first[6]
            if narrowed:
                found.append(f"the plugin placed {narrowed} calls by garbage")
        return found

    def _work(self):
        clients = []
        try:
            while not self._stop.is_set():
                ready, _, _ = select.select([self._listener, *clients], [], [], 0.1)
                for client in ready:
                    if client is self._listener:
                        clients.append(client.accept()[0])
                    elif not self._serve(client):
                        clients.remove(client)
                        client.close()
        except Exception as error:  # reported by problems(), the thread must not just vanish
            self.error = f"the false daemon failed: {type(error).__name__}: {error}"
        for client in clients:
            client.close()

    def _serve(self, client):
        """Handles one packet; False when the connection is gone."""
        try:
            data = client.recv(PACKET_MAX)
            if len(data) < HEADER.size:
                return False
            kind, seq = HEADER.unpack_from(data)[2], HEADER.unpack_from(data)[5]
            if kind == HELLO:
                self.hellos += 1
                client.send(packet(WELCOME, 1, WELCOME_FIXED.pack(
                    1, self.deadline_us, BREAKER_OPEN_MS, ALL_FLAGS, 0, 0, 0, 0, 0, 0)))
            elif kind == ASK:
                self.asks += 1
                ask = parse_ask(data, seq)
                self.asked[ask.mode] += 1
                for reply in self.kind.answer(self, ask):
                    client.send(reply)
            elif kind == STATS:
                self._last = STATS_COUNTERS.unpack_from(data, HEADER.size)
                self._first = self._first or self._last
                self.breaker, = struct.unpack_from("<I", data, STATS_BREAKER_AT)
        except OSError:
            return False
        return True


def parse_ask(data, seq):
    """The fields of an ASK that bad answers are made from."""
    job_id, = struct.unpack_from("<I", data, ASK_JOB_AT)
    least, most, _ = struct.unpack_from("<III", data, ASK_LIMITS_AT)
    bits, words = struct.unpack_from("<II", data, ASK_BITS_AT)
    bitmap = struct.unpack_from(f"<{words}Q", data, ASK_FIXED)
    candidates = [i for i in range(bits) if bitmap[i // 64] >> (i % 64) & 1]
    mode, = struct.unpack_from("<H", data, ASK_MODE_AT)
    return Ask(seq, job_id, mode, least, most, bits, candidates)
