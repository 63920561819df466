# SPDX-License-Identifier: GPL-3.0-or-later
"""The grammar of what a cluster is busy with, and of sbatch's options."""

from dataclasses import dataclass, replace

from grammar_config import QOS, SPEC, pick, without

MINUTES = (10, 20, 40, 80)
ASLEEP, ENDING = "POWER_DOWN_FORCE", "COMPLETING"
STATES = {"DRAIN": 12, "DOWN": 6, ASLEEP: 1, ENDING: 8}


@dataclass(frozen=True)
class State:
    """What a cluster is busy with, the same on both sides.

    jobs   sbatch's words of each job, `-w` among them
    marks  (node, state) by scontrol; a node is COMPLETING by a job that an Epilog keeps
    kept   (name, nodes, further words) of reservations
    """

    jobs: tuple = ()
    marks: tuple = ()
    kept: tuple = ()

    def simpler(self):
        """States with one thing less, for shrinking."""
        for index in range(len(self.jobs)):
            yield replace(self, jobs=without(self.jobs, index))
        for index in range(len(self.marks)):
            yield replace(self, marks=without(self.marks, index))
        for index in range(len(self.kept)):
            yield replace(self, kept=without(self.kept, index))
        for index, job in enumerate(self.jobs):
            for word in range(len(job)):
                if not job[word].startswith(("-w", "-t")):
                    yield replace(self, jobs=(*self.jobs[:index], without(job, word),
                                              *self.jobs[index + 1:]))

    def __str__(self):
        lines = ["sbatch " + " ".join(job) for job in self.jobs]
        lines += [f"scontrol update NodeName={node} State={state}" for node, state in self.marks]
        lines += [f"scontrol create reservation ReservationName={name} Nodes={nodes} "
                  + " ".join(words) for name, nodes, words in self.kept]
        return "\n".join(lines) or "(idle)"


def make_job(rng, config, names):
    """The words of a job that is there before."""
    node = rng.choice(names)
    kind = config.kind(node)
    words = [f"-w{node}", f"-t{rng.choice(MINUTES)}"]
    if rng.random() < 0.2:
        return (*words, "-N1", "--exclusive")
    words += ["-N1", f"-n{rng.randint(1, max(1, kind.cpus - 1))}"]
    if rng.random() < 0.5:
        words.append(f"--mem={rng.choice((100, 500, 1000, kind.memory // 2))}")
    if kind.gres and rng.random() < 0.5:
        words.append(f"--gres={one_gres(rng, rng.choice(kind.gres))}")
    if config.qos and rng.random() < 0.3:
        words.append("-qgroup")
    return tuple(words)


def one_gres(rng, text):
    """A request of a node's GRES, by its type or not."""
    name, *middle, most = text.replace("no_consume:", "").split(":")
    typed = middle if rng.random() < 0.6 else []
    return ":".join([name, *typed, str(rng.randint(1, int(most)))])


def make_state(rng, config):
    """A state of the grammar: mostly some jobs, now and then more than that."""
    names = list(config.names)
    density = rng.choice((0, 0.3, 0.6, 0.9, 1.3))
    jobs = tuple(make_job(rng, config, names) for _ in range(int(density * len(names))))
    marks = tuple((node, pick(rng, STATES)) for node in names if rng.random() < 0.06)
    never = {ASLEEP} if not config.cloud else set()
    never |= {ENDING} if not config.epilog else set()
    marks = tuple((node, "DRAIN" if mark in never else mark) for node, mark in marks)
    kept = ()
    if rng.random() < 0.25:
        first = rng.randint(1, len(names))
        last = rng.randint(first, min(len(names), first + 2))
        start = rng.choice(("now", "now", "now+15minutes"))
        flags = rng.choice(("", "", "MAINT", "FLEX", "MAGNETIC"))
        flags = ",".join(filter(None, (flags, "IGNORE_JOBS")))
        words = (f"StartTime={start}", "Duration=120", "Users=root", f"Flags={flags}")
        if rng.random() < 0.2:
            words += ("CoreCnt=" + ",".join("1" * (last - first + 1)),)
        kept = (("r1", f"n[{first}-{last}]", words),)
    return State(jobs, marks, kept)


def make_request(rng, config, state):
    """The words of a request; each is one option with its value."""
    few = rng.random() < 0.5
    words = [*sizes(rng, config), *memory(rng, config, few), *amounts(rng, config, few),
             *places(rng, config, state, few), *layout(rng, config, few), *others(rng, config)]
    return tuple({head(word): word for word in words}.values())


def head(word):
    """An option without its value."""
    return word.split("=")[0] if word.startswith("--") else word[:2]


def sizes(rng, config):
    """How many nodes, tasks and CPUs."""
    nodes, kind = len(config.kinds), rng.choice(config.kinds)
    count = min(rng.randint(1, nodes + (rng.random() < 0.1)), rng.randint(1, nodes + 1))
    tasks = rng.randint(1, max(1, kind.cpus * rng.choice((1, 1, 2, 3, nodes))))
    most = count + rng.randint(0, 3)
    shape = rng.randrange(12)
    words = ([], [f"-n{tasks}"], [f"-n{tasks}"], [f"-N{count}"], [f"-N{count}", f"-n{tasks}"],
             [f"-N{count}-{most}", f"-n{tasks}"], [f"-N{count}-{most}"],
             [f"-N{count}", "--exclusive"],
             [f"-N{count}", f"--ntasks-per-node={rng.randint(1, kind.cpus)}"],
             [f"-n{tasks}", f"--ntasks-per-node={rng.randint(1, kind.cpus)}"],
             [f"-n{tasks}", "--exclusive"], [f"-n{tasks}", f"-N1-{most}"])[shape]
    if rng.random() < 0.25:
        words = [*words, f"-c{rng.choice((1, 2, 2, 3, 4, kind.cpus))}"]
    return words


def memory(rng, config, few):
    """How much memory, by node or CPU."""
    kind = rng.choice(config.kinds)
    if rng.random() < (0.7 if few else 0.4):
        return []
    return rng.choice(([f"--mem={rng.choice((100, 1000, kind.memory // 2, kind.memory))}"],
                       [f"--mem={rng.choice((100, 1000, kind.memory // 2, kind.memory))}"],
                       [f"--mem-per-cpu={rng.choice((100, 500, 1000, 2000))}"], ["--mem=0"]))


def amounts(rng, config, few):
    """GRES and licences."""
    words, gres = [], [text for kind in config.kinds for text in kind.gres]
    gpus = sorted({text.split(":")[1] for text in gres if text.count(":") > 1 and "gpu" in text})
    typed = rng.choice(["", *(f"{name}:" for name in gpus)])
    number = rng.choice((1, 1, 2, 2, 3, 4))
    if gres and rng.random() < (0.3 if few else 0.5):
        words.append(rng.choice((
            f"--gres={one_gres(rng, rng.choice(gres))}",
            f"--gres={one_gres(rng, rng.choice(gres))}",
            f"--gpus={typed}{number}", f"--gpus-per-node={typed}{number}",
            f"--gpus-per-task={typed}{rng.choice((1, 1, 2))}",
            f"--gpus-per-socket={typed}1")))
        if "per-socket" in words[0]:
            words.append("--sockets-per-node=1")
        if "gpu" in words[0]:
            words += [word for word, share in (
                (f"--cpus-per-gpu={rng.choice((1, 2))}", 0.15), ("--mem-per-gpu=500", 0.05),
                (f"--ntasks-per-gpu={rng.choice((1, 2))}", 0.05), ("--sockets-per-node=1", 0.1),
                ("--gres-flags=enforce-binding", 0.1), ("--gres-flags=disable-binding", 0.1))
                if rng.random() < share]
    if any("Licenses" in line for line in config.extra) and rng.random() < 0.1:
        words.append(rng.choice(("-Llic:1", "-Llic:4", "-Ltool:1", "-Llic:2,tool:1")))
    return words


def places(rng, config, state, few):
    """Where: partition, nodes, features, switches, reservation."""
    words, names = [], list(config.names)
    if len(config.parts) > 1 and rng.random() < 0.4:
        words.append("-p" + ",".join(rng.sample([part.name for part in config.parts],
                                                rng.choice((1, 1, 1, 2)))))
    chance = 0.08 if few else 0.2
    if rng.random() < chance:
        words.append("-w" + ",".join(rng.sample(names, rng.choice((1, 1, 2, 3)))))
    if rng.random() < chance:
        words.append("-x" + ",".join(rng.sample(names, rng.choice((1, 2, 3)))))
    if rng.random() < 1.5 * chance:
        known = sorted({name for kind in config.kinds for name in kind.features}) or ["a"]
        a, b, c = (rng.choice(known) for _ in range(3))
        words.append(rng.choice((f"-C{a}", f"-C{b}", f"-C{a}&{b}", f"-C{a}|{b}", f"-C[{a}|{b}]",
                                 f"-C[{a}*1&{b}*1]", f"-C[{a}*2&{c}*1]", f"-C({a}|{b})&{c}")))
    if rng.random() < (0.3 if config.switches else 0.03):
        words.append(rng.choice(("--switches=1", "--switches=1@10", "--switches=2")))
    if rng.random() < (0.4 if state.kept else 0.003):
        words.append("--reservation=r1")
    if rng.random() < chance / 2:
        words.append("--contiguous")
    return words


def layout(rng, config, few):
    """How tasks are spread over nodes, sockets, cores and threads."""
    if rng.random() < (0.8 if few else 0.4):
        return []
    threads = any(kind.threads > 1 for kind in config.kinds)
    return rng.sample((
        "--spread-job", "--use-min-nodes", "--distribution=cyclic", "--distribution=block",
        "--distribution=plane=2", "--distribution=block:cyclic", "--distribution=cyclic:fcyclic",
        "--distribution=pack", "--distribution=nopack", "--distribution=block:block,nopack",
        f"--ntasks-per-socket={rng.choice((1, 2))}", "--ntasks-per-core=1", "--overcommit",
        "--cores-per-socket=2", f"--sockets-per-node={rng.choice((1, 2))}",
        f"--threads-per-core={rng.choice((1, 2))}" if threads else "--threads-per-core=1",
        rng.choice(("--hint=nomultithread", "--hint=multithread", "--hint=compute_bound",
                    "--hint=memory_bound")),
        f"--mincpus={rng.choice((1, 2, 4))}",
        *(("--core-spec=1", "--thread-spec=1") if SPEC in config.extra else ())),
        rng.choice((1, 1, 1, 2)))


def others(rng, config):
    """Sharing, times, and what has nothing to do with nodes."""
    chances = (("--exclusive", 0.06), ("--exclusive=user", 0.04), ("--oversubscribe", 0.08),
               (f"-t{rng.choice(MINUTES)}", 0.4), ("--time-min=5", 0.05), ("--no-requeue", 0.02),
               ("--comment=x", 0.02), ("--nice=10", 0.02), ("--hold", 0.01), ("-qnone", 0.01),
               ("--begin=now+1hour", 0.01), ("--deadline=now+2hours", 0.02), ("--tmp=100", 0.005),
               ("--requeue", 0.02), ("--wait-all-nodes=1", 0.01), ("--reboot", 0.01),
               ("--power=level", 0.01), ("--bb=none", 0.005), ("--signal=USR1@60", 0.01),
               ("--delay-boot=5", 0.01), ("--dependency=afterok:1", 0.01),
               ("-q" + rng.choice(("normal", "low", "high", *QOS)), 0.6 * config.qos))
    return [word for word, chance in chances if rng.random() < chance]
