# SPDX-License-Identifier: GPL-3.0-or-later
"""Walks of requests over a grammar's clusters, and what is left of a difference after shrinking."""

import os
import random
import shutil
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace

from grammar_config import make_config, without
from grammar_model import HARMS, compare, outcome, truer
from grammar_requests import State, head, make_request, make_state
from grammar_sides import Pair, Uneven
from slurmcluster import ClusterError
from slurmcluster.phalanx import read_status
from slurmcluster.suite import SuiteError

OF_CLUSTER = 240        # requests to each cluster
OF_STATE = 15           # to each state of it
TESTED_SHARE = 0.25     # of the requests are put to --test-only as well
SHRINK_S = 25.0         # for one difference
SHRINK_SHARE = 0.3      # of the time of a walk
SHRUNK_MAX = 2          # of one kind and one cluster; others are only counted
SHRUNK_ALL, SHRUNK_BETTER = 40, 4   # of one kind
FRESH_ASKS, FRESH_S = 4, 0.5    # on a fresh cluster
BOOTS_MAX = 24          # of simpler clusters for one difference


@dataclass(frozen=True)
class Difference:
    """A request whose outcome differs: `kind` says how (grammar_model)."""

    kind: str
    config: object
    state: State
    words: tuple
    test: bool
    stock: object
    ours: object
    number: int = 0
    shrunk: bool = False

    @property
    def heads(self):
        """The names of its options, which with the kind say whether two are alike."""
        test = ("--test-only",) if self.test else ()
        return " ".join((*test, *sorted({head(word) for word in self.words})))

    def __str__(self):
        options = " ".join((("--test-only",) if self.test else ()) + self.words)
        return (f"{self.config.told()}\nstate: {self.state}\nsbatch {options}\n"
                f"  stock {self.stock}\n  ours  {self.ours}")


@dataclass
class Tally:
    """What a walk came to."""

    requests: int = 0
    asks: int = 0
    verdicts: Counter = field(default_factory=Counter)
    unsteady: Counter = field(default_factory=Counter)
    found: list = field(default_factory=list)
    passed: list = field(default_factory=list)      # faults that were there once
    counted: Counter = field(default_factory=Counter)   # by kind
    narrowed: int = 0
    asked: int = 0
    clusters: int = 0
    lost: list = field(default_factory=list)
    uneven: list = field(default_factory=list)
    seconds: float = 0.0
    shrinking: float = 0.0

    @property
    def harms(self):
        """The differences that are faults."""
        return [one for one in self.found if one.kind in HARMS]


class Walk:
    """Requests of one seed on one cluster after the other, or on the one that is given."""

    def __init__(self, root, library, seed, tally, config=None, **pair):
        self.root, self.library, self.seed, self.tally, self.pair = root, library, seed, tally, pair
        self.config = config
        self.lock, self.begin = threading.Lock(), time.monotonic()
        self.next, self.left, self.ends = 0, 0, False

    def run(self, requests, lanes=1):
        """Puts so many requests, on so many clusters at once."""
        self.left = requests
        threads = [threading.Thread(target=self.work) for _ in range(lanes)]
        for thread in threads:
            thread.start()
        try:
            wait(threads)
        finally:
            # Whatever ends this thread: the others end with the state that they are at.
            self.left, self.ends = 0, True
            wait(threads)
        self.tally.seconds = time.monotonic() - self.begin

    def work(self):
        """One cluster after the other while requests are left."""
        while True:
            with self.lock:
                number, mine = self.next, min(OF_CLUSTER, self.left)
                self.next, self.left = number + 1, self.left - mine
            if not mine:
                return
            self.cluster(number, mine)

    def cluster(self, number, requests):
        """One cluster of the grammar."""
        rng = random.Random(f"{self.seed}/{number}")
        config = self.config or make_config(rng)
        root, pair = os.path.join(self.root, f"c{number}"), None
        try:
            pair = Pair(root, self.library, config, **self.pair)
            pair.number = number
            self.states(pair, rng, requests)
            self.followed(pair)
        except (ClusterError, SuiteError, OSError, ValueError, IndexError) as error:
            text = f"cluster {number} of seed {self.seed}, {pair and pair.doing}: {error!r}"
            self.tally.lost.append(text[:3000])
        finally:
            with self.lock:
                self.tally.clusters += 1
            if pair:
                pair.close()
            shutil.rmtree(root, ignore_errors=True)
            print(f"cluster {number}: {self.tally.requests} requests, "
                  f"{time.monotonic() - self.begin:.0f} s, {dict(self.tally.counted)}", flush=True)

    def followed(self, pair):
        """Counts what the daemon was asked, where there is one."""
        ours = pair.clusters[1]
        if not ours.stock:
            status = read_status(ours)
            with self.lock:
                self.tally.asked += status["asked"]
                self.tally.narrowed += status["narrowed"]

    def states(self, pair, rng, requests):
        """One state after the other, and requests in it."""
        for done in range(0, requests, OF_STATE):
            if pair.spent or self.ends:
                with self.lock:
                    self.left += 0 if self.ends else requests - done
                return
            state = make_state(rng, pair.config)
            count = min(OF_STATE, requests - done)
            mine = [make_request(rng, pair.config, state) for _ in range(count)]
            tested = [rng.random() < TESTED_SHARE for _ in mine]
            pair.doing = f"state {state}"
            try:
                unlike = pair.apply(state)
                if unlike is not None:
                    # The job of the state whose outcome differs is the request.
                    state = State(state.jobs[:unlike])
                    mine, tested = [pair.state.jobs[unlike]], [False]
                    pair.apply(state)
                for words, test in zip(mine, tested):
                    pair.doing = f"sbatch {' '.join(words)}"
                    self.request(pair, pair.state, words, test)
            except Uneven as error:
                self.tally.uneven.append(f"cluster {pair.number}: {error}")

    def request(self, pair, state, words, tested):
        """One request, to --test-only as well if it is `tested`."""
        real = None
        with self.lock:
            self.tally.requests += 1
        for test in (False, True) if tested else (False,):
            kind, stock, ours = self.ask(pair, state, words, test)
            real = real if test else stock
            if kind in HARMS and test and truer(pair.config, state, words, stock, ours, real):
                kind = "truer"
            with self.lock:
                self.tally.verdicts[stock.verdict] += not test
            if not kind:
                continue
            # The jobs that are ending have ended on both sides then.
            pair.even()
            again, *others = self.ask(pair, state, words, test)
            if kind != "truer" and again != kind:
                with self.lock:
                    self.tally.unsteady[f"{kind}/{again}"] += 1
                    if kind in HARMS:
                        self.tally.passed.append(Difference(kind, pair.config, state, words, test,
                                                            stock, ours, pair.number))
                continue
            self.difference(pair, Difference(kind, pair.config, state, words, test, *others,
                                             pair.number))

    def ask(self, pair, state, words, test):
        """(kind of difference, stock's outcome, ours)."""
        with self.lock:
            self.tally.asks += 1
        stock, ours = map(outcome, pair.ask(words, test))
        return compare(pair.config, state, words, stock, ours), stock, ours

    def difference(self, pair, one):
        """Counts a difference and shrinks it, if not too many of its kind were already."""
        begin, before = time.monotonic(), one.state
        with self.lock:
            alike = [other for other in self.tally.found
                     if other.kind == one.kind and other.shrunk]
            here = sum(other.number == one.number for other in alike)
            spent = self.tally.shrinking < SHRINK_SHARE * (begin - self.begin) + SHRINK_S
        harm = one.kind in HARMS
        if here < SHRUNK_MAX - (not harm) and len(alike) < (SHRUNK_ALL if harm else SHRUNK_BETTER) \
                and (spent or harm and len(alike) < 2):
            one = shrink(one, lambda state, words: self.still(pair, one, state, words))
        if harm and here < SHRUNK_MAX and not on_cluster(
                one, one.config, f"{self.root}/fresh{one.number}", self.library, **self.pair):
            # What went before made it: of a job that Slurm fails with BadConstraints, gives more
            # GRES than there are, or whole nodes of a user, it keeps something, and the sides are
            # not even; a job that ended satisfies a dependency once slurmctld has purged it.
            aged = pair.failed or pair.keeps() or "--dependency" in one.heads
            one = replace(one, kind=f"{'aged' if aged else 'stale'}-{one.kind}")
            pair.spent = True
        self.note(one)
        pair.apply(before)
        with self.lock:
            self.tally.shrinking += time.monotonic() - begin

    def still(self, pair, one, state, words):
        """The smaller difference if it is one of the same kind, else None."""
        try:
            if pair.apply(state) is not None:
                return None
        except Uneven:
            return None
        kind, stock, ours = self.ask(pair, pair.state, words, one.test)
        if kind != one.kind:
            return None
        return replace(one, state=pair.state, words=words, stock=stock, ours=ours, shrunk=True)

    def note(self, one):
        """Keeps a difference."""
        with self.lock:
            self.tally.counted[one.kind] += 1
            self.tally.found.append(one)
            if one.shrunk:
                with open(os.path.join(self.root, "differences"), "a", encoding="utf-8") as file:
                    file.write(f"==== {one.kind} cluster {one.number} {one.config.traits()}"
                               f" : {one.heads}\n{one}\n")


def wait(threads):
    """Waits for threads; a join() that a signal interrupts would take its thread for ended."""
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.1)


def shrink(one, still):
    """The difference with the fewest options and the smallest state, as far as time allows."""
    end, smaller = time.monotonic() + SHRINK_S, True
    while smaller:
        smaller = None
        for state, words in smaller_ones(one):
            smaller = still(state, words)
            if smaller or time.monotonic() > end:
                break
        one = smaller or one
    return replace(one, shrunk=True)


def smaller_ones(one):
    """(state, words) that are less, the largest steps first."""
    state, jobs = one.state, one.state.jobs
    if state != State():
        yield State(), one.words
    if state.marks or state.kept:
        yield State(jobs), one.words
    if len(jobs) > 2:
        yield replace(state, jobs=jobs[:len(jobs) // 2]), one.words
        yield replace(state, jobs=jobs[len(jobs) // 2:]), one.words
    for index in range(len(one.words)):
        yield state, without(one.words, index)
    for less in state.simpler():
        yield less, one.words


def shrink_config(one, root, library, **how):
    """The difference on the plainest cluster: each candidate is booted anew."""
    boots, smaller = 0, True
    while smaller and boots < BOOTS_MAX:
        smaller = None
        for config in one.config.simpler():
            boots += 1
            smaller = on_cluster(one, config, os.path.join(root, "plain"), library, **how)
            if smaller or boots >= BOOTS_MAX:
                break
        one = smaller or one
    return one


def on_cluster(one, config, root, library, **how):
    """The difference if it is there on another cluster too, else None."""
    pair = None
    try:
        pair = Pair(root, library, config, **how)
        if pair.apply(one.state) is not None:
            return None
        for _ in range(FRESH_ASKS):
            stock, ours = map(outcome, pair.ask(one.words, one.test))
            if compare(config, one.state, one.words, stock, ours) == one.kind:
                return replace(one, config=config, stock=stock, ours=ours)
            # A daemon that has just begun may not have heard of all yet.
            time.sleep(FRESH_S)
        return None
    except (ClusterError, SuiteError, Uneven):
        return None
    finally:
        if pair:
            pair.close()
        shutil.rmtree(root, ignore_errors=True)
