// SPDX-License-Identifier: GPL-3.0-or-later
//! Classes of jobs and of nodes: the keys under which runs are remembered.
//!
//! Job type (`docs/methods.md`, section Gangs): account or user, job name or declared class, TRES
//! shape.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use phalanx_core::comment;
use phalanx_core::hash::fnv32;
use phalanx_core::run::Run;
use phalanx_core::snapshot::{Job, Node};
use phalanx_core::trace::spec::memory_mb;

/// Bytes of one part of a key; longer text is cut.
const PART_BYTES_MAX: usize = 96;

/// Parts of a job class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassKey {
    /// Account; the user's name where there is no account.
    Account,
    /// User's name.
    User,
    /// Declared class (`--comment="class=NAME"`), else the job name without its numbers.
    Name,
    /// Nodes, CPUs and GRES asked for.
    Shape,
    /// Memory asked for, in the next power of two of GiB.
    Memory,
    /// Partition.
    Partition,
    /// Quality of service.
    Qos,
}

/// The default: the job type of section Gangs of `docs/methods.md`.
pub const CLASS_BY_DEFAULT: [ClassKey; 3] = [ClassKey::Account, ClassKey::Name, ClassKey::Shape];

/// Parts of a node class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKey {
    /// Active features; a node without any is known by its name with its numbers taken out, as
    /// names tell machines bought together.
    Features,
    /// Usable CPUs.
    Cpus,
    /// Usable memory in GiB, rounded.
    Memory,
    /// GRES with types and counts.
    Gres,
    /// Weight of slurm.conf.
    Weight,
    /// NodeName, so that each node is a class by itself.
    Name,
}

/// Default of `learn.node_class_by`.
pub const NODE_CLASS_BY_DEFAULT: [NodeKey; 4] =
    [NodeKey::Features, NodeKey::Cpus, NodeKey::Memory, NodeKey::Gres];

/// Facts about a job from which its class is made; an empty text where a fact is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobTraits<'a> {
    /// Account.
    pub account: &'a str,
    /// User's name.
    pub user: &'a str,
    /// Job name.
    pub name: &'a str,
    /// Class that the job's comment declares: `class=NAME`.
    pub declared: Option<&'a str>,
    /// TRES asked for, in Slurm's words: `cpu=4,mem=8G,node=1,gres/gpu=2`.
    pub tres: &'a str,
    /// Nodes that the job takes; `None`: as many as it asks for.
    pub nodes: Option<u32>,
    /// Partition.
    pub partition: &'a str,
    /// Quality of service.
    pub qos: &'a str,
}

impl<'a> JobTraits<'a> {
    /// Returns the traits of a job in the queue.
    pub fn of(job: &'a Job) -> Self {
        JobTraits {
            account: &job.account,
            user: &job.user,
            name: &job.name,
            declared: comment::token(&job.comment, "class"),
            tres: &job.tres_req,
            nodes: nodes_of(&job.tres_alloc),
            partition: &job.partitions,
            qos: &job.qos,
        }
    }

    /// Returns the traits of a run that ended.
    pub fn of_run(run: &'a Run) -> Self {
        JobTraits {
            account: &run.account,
            user: &run.user,
            name: &run.name,
            declared: run.declared.as_deref(),
            tres: &run.tres_req,
            nodes: Some(run.node_count).filter(|nodes| *nodes > 0),
            partition: &run.partition,
            qos: &run.qos,
        }
    }
}

/// The class of a job: its parts, in the order of `by`, joined by `/`.
///
/// An account without name is the user. A declared class is written `=NAME`, so that it never
/// meets a job name. Components of a het job are jobs of their own with shapes of their own.
pub fn class_of(job: &JobTraits<'_>, by: &[ClassKey]) -> String {
    let parts = by.iter().map(|key| match key {
        ClassKey::Account if job.account.is_empty() => part(job.user),
        ClassKey::Account => part(job.account),
        ClassKey::User => part(job.user),
        ClassKey::Name => match job.declared {
            Some(class) => part(&format!("={class}")),
            None => part(&program_name(job.name)),
        },
        ClassKey::Shape => shape(job.tres, job.nodes),
        ClassKey::Memory => memory_class(job.tres),
        ClassKey::Partition => part(job.partition),
        ClassKey::Qos => part(job.qos),
    });
    parts.collect::<Vec<_>>().join("/")
}

/// The family of a class that [`class_of`] made with the same `by`: its parts but shape and memory.
/// `None` where that is the class itself, or nothing.
pub fn family_of(class: &str, by: &[ClassKey]) -> Option<String> {
    let size = |key: &ClassKey| matches!(key, ClassKey::Shape | ClassKey::Memory);
    let kept: Vec<&str> =
        class.split('/').zip(by).filter(|(_, key)| !size(key)).map(|(part, _)| part).collect();
    (!kept.is_empty() && kept.len() < by.len()).then(|| kept.join("/"))
}

/// Whether a run that ended in `state` teaches a speed.
///
/// A completed run does. One that was stopped (time limit, cancellation, preemption) did an
/// unknown part of its work: it teaches only where it says how much. A failure teaches nothing.
pub fn teaches(state: &str, reports_work: bool) -> bool {
    match state.split_whitespace().next().unwrap_or_default() {
        "COMPLETED" => true,
        "TIMEOUT" | "CANCELLED" | "PREEMPTED" | "DEADLINE" | "REQUEUED" => reports_work,
        _ => false,
    }
}

/// The class of a node: its parts, in the order of `by`, joined by `/`.
pub fn node_class_of(node: &Node, by: &[NodeKey]) -> String {
    let parts = by.iter().filter_map(|key| match key {
        NodeKey::Features => {
            let mut features: Vec<&str> = node.features.iter().map(|f| &**f).collect();
            features.sort_unstable();
            let text = features.join("+");
            Some(part(&if text.is_empty() { without_numbers(&node.name) } else { text }))
        }
        NodeKey::Cpus => Some(format!("c{}", node.cpus)),
        NodeKey::Memory => Some(format!("m{}", node.memory_mb.saturating_add(512) / 1024)),
        NodeKey::Gres => gres_text(node),
        NodeKey::Weight => Some(format!("w{}", node.weight)),
        NodeKey::Name => Some(part(&node.name)),
    });
    parts.collect::<Vec<_>>().join("/")
}

fn gres_text(node: &Node) -> Option<String> {
    let mut counts = BTreeMap::new();
    for gres in &node.gres {
        let name = match &gres.gres_type {
            Some(gres_type) => format!("{}:{gres_type}", gres.kind),
            None => gres.kind.to_string(),
        };
        *counts.entry(name).or_insert(0_u64) += gres.total;
    }
    let text: Vec<String> = counts.iter().map(|(name, count)| format!("{name}={count}")).collect();
    (!text.is_empty()).then(|| part(&text.join("+")))
}

/// Makes a part of a key: without separators and control characters, cut, `-` if empty.
fn part(text: &str) -> String {
    let odd = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    let mut clean: String = text.trim().chars().map(|c| if odd(c) { '_' } else { c }).collect();
    let cut = (0..=PART_BYTES_MAX.min(clean.len())).rev().find(|&at| clean.is_char_boundary(at));
    clean.truncate(cut.unwrap_or(0));
    if clean.is_empty() { "-".to_owned() } else { clean }
}

/// Words that a number counts, such as `run`: it is no part of the program's name.
const COUNTED: [&str; 16] = [
    "array", "batch", "case", "chunk", "fold", "iter", "job", "of", "part", "rep", "run", "seed",
    "sim", "step", "task", "test",
];

/// A name with each number taken out: `r1old07` is `r#old`; a name of nothing but numbers is `#`.
pub fn without_numbers(name: &str) -> String {
    folded(name, |_, _, _| false)
}

/// The part of a job name that its numbered variants share: `train_007` is `train`, `fold3of5.sh`
/// is `fold#of#.sh`. Short numbers that touch a word are part of it: `cp2k`, `llama70b`, `namd3`.
pub fn program_name(name: &str) -> String {
    folded(name, |before, digits, after| {
        let touches = !before.is_empty() || after.starts_with(char::is_alphabetic);
        let most = if before.chars().count() < 3 { 2 } else { 4 };
        let counts = digits.len() > most || (digits.len() > 1 && digits.starts_with('0'));
        touches && !counts && !COUNTED.contains(&&*before.to_lowercase())
    })
}

/// A name with each number taken out for which `keeps`, given the letters before it, the number and
/// what follows, is false.
fn folded(name: &str, keeps: impl Fn(&str, &str, &str) -> bool) -> String {
    let (mut out, mut rest) = (String::with_capacity(name.len()), name.trim());
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        let (digits, after) = from.split_at(end);
        let word = before.rsplit(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        out.push_str(before);
        out.push_str(if keeps(word, digits, after) { digits } else { "#" });
        rest = after;
    }
    out.push_str(rest);
    let numbering = |c: char| matches!(c, '#' | '_' | '-' | '.' | ' ' | ':' | '[' | ']' | '%');
    let base = out.trim_end_matches(numbering);
    if base.is_empty() && !out.is_empty() { "#".to_owned() } else { base.to_owned() }
}

/// `name_key` of the plugin's ASK (`plugin/packet.c`): short key of a job name, the same for names
/// that differ in numbers only. FNV-1a 32 over the bytes, each run of digits as one `#`, the
/// halves of the result xored.
pub fn name_key(name: &str) -> u16 {
    let runs = name.as_bytes().chunk_by(|a, b| a.is_ascii_digit() && b.is_ascii_digit());
    let of = |byte: &u8| if byte.is_ascii_digit() { b'#' } else { *byte };
    let plain = runs.filter_map(|run| run.first().map(of));
    let [high_0, high_1, low_0, low_1] = fnv32(plain).to_be_bytes();
    u16::from_be_bytes([high_0 ^ low_0, high_1 ^ low_1])
}

/// `account_key` of the plugin's ASK (`plugin/packet.c`): FNV-1a 32 over an account's bytes.
pub fn account_key(account: &str) -> u32 {
    fnv32(account.bytes())
}

/// Number of nodes in a TRES text.
pub fn nodes_of(tres: &str) -> Option<u32> {
    tres.split(',').find_map(|t| t.strip_prefix("node="))?.parse().ok()
}

/// Nodes, CPUs and GRES of a TRES text as `n2:c16:gpu:a100=4`; `-` where none is known. `nodes`
/// stands for the number that a job took which leaves it open.
fn shape(tres: &str, nodes: Option<u32>) -> String {
    let counts: BTreeMap<&str, &str> = tres.split(',').filter_map(|t| t.split_once('=')).collect();
    let mut parts = Vec::new();
    parts.extend(nodes.or_else(|| nodes_of(tres)).map(|count| format!("n{count}")));
    parts.extend(counts.get("cpu").map(|count| format!("c{count}")));
    for (name, count) in &counts {
        let Some(gres) = name.strip_prefix("gres/") else { continue };
        // Slurm counts a typed GRES under its kind as well.
        let typed =
            |other: &&str| other.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
        if !counts.keys().any(typed) {
            parts.push(format!("{gres}={count}"));
        }
    }
    if counts.is_empty() { "-".to_owned() } else { part(&parts.join(":")) }
}

fn memory_class(tres: &str) -> String {
    let value = tres.split(',').find_map(|t| t.strip_prefix("mem="));
    let Some(mib) = value.and_then(memory_mb) else { return "-".to_owned() };
    format!("m{}", mib.div_ceil(1024).max(1).next_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_numbers() {
        for (name, base) in [
            ("train_007", "train"),
            ("sweep-12-of-40", "sweep-#-of"),
            ("fold3of5.sh", "fold#of#.sh"),
            ("2026", "#"),
            ("", ""),
            ("wrap", "wrap"),
            ("run.[13]", "run"),
        ] {
            assert_eq!(without_numbers(name), base, "{name}");
            assert_eq!(program_name(name), base, "{name}");
        }
        assert_eq!(without_numbers("r1old07"), "r#old");
    }

    /// Goal: two programs are not one for the sake of their digits; numbers that count runs of one
    /// program do not make several of it, whichever way they are written.
    #[test]
    fn programs_keep_the_digits_of_their_names() {
        let programs = [
            "cp2k",
            "llama7b",
            "llama70b",
            "llama405b",
            "namd3",
            "gromacs2023",
            "g16",
            "h2o",
            "vasp6.std",
            "2d-heat",
            "openfoam10",
            "qe7",
            "train",
            "lqcd",
        ];
        for program in programs {
            assert_eq!(program_name(program), program);
            for count in ["1", "7", "12", "0001", "007", "20260101", "100000"] {
                for form in ["P_N", "P-N", "P.N", "P N", "P_[N]", "P_runN", "P-step_N", "P.taskN"] {
                    let name = form.replace('P', program).replace('N', count);
                    let base = program_name(&form.replace('P', program).replace('N', "3"));
                    assert_eq!(program_name(&name), base, "{name}");
                    assert!(base.starts_with(program), "{name}: {base}");
                }
            }
        }
        for counted in ["run0001", "run7", "job12", "Test3", "sim00042", "a0001", "mesh20260101"] {
            let letters = counted.trim_end_matches(|c: char| c.is_ascii_digit());
            assert_eq!(program_name(counted), letters, "{counted}");
        }
    }

    /// Goal: names that differ in numbers have one key, the one that `plugin/tests/unit.c` expects.
    #[test]
    fn names_that_differ_in_numbers_have_one_key() {
        assert_eq!(name_key(""), 0x1cd9);
        assert_eq!(name_key("train_007"), 0x42f4);
        assert_eq!(name_key("train_12"), name_key("train_007"));
        assert_eq!(name_key("fold3of5.sh"), 0xc939);
        assert_ne!(name_key("train"), name_key("train_007"));
        assert_eq!(name_key("gr\u{f6}\u{df}e"), 0x39a2);
    }

    /// Goal: accounts have the plugin's keys; the last two are the source's test vectors.
    #[test]
    fn accounts_have_keys() {
        assert_eq!(account_key(""), 0x811c_9dc5);
        assert_eq!(account_key("a"), 0xe40c_292c);
        assert_eq!(account_key("foobar"), 0xbf9c_f968);
    }

    #[test]
    fn a_class_has_owner_name_and_shape() {
        let job = JobTraits {
            account: "physics",
            user: "eve",
            name: "lqcd_12",
            tres: "cpu=16,mem=62.50G,node=2,billing=16,gres/gpu=4,gres/gpu:a100=4",
            ..JobTraits::default()
        };
        let by = CLASS_BY_DEFAULT;
        assert_eq!(class_of(&job, &by), "physics/lqcd/n2:c16:gpu:a100=4");
        let declared = JobTraits { declared: Some("big/one"), account: "", ..job };
        assert_eq!(class_of(&declared, &by), "eve/=big_one/n2:c16:gpu:a100=4");
        let open = JobTraits { tres: "cpu=16,mem=4G,node=1", nodes: Some(4), ..job };
        assert_eq!(class_of(&open, &by), "physics/lqcd/n4:c16");
        let all = [ClassKey::User, ClassKey::Memory, ClassKey::Partition, ClassKey::Qos];
        assert_eq!(class_of(&job, &all), "eve/m64/-/-");
        assert_eq!(class_of(&JobTraits::default(), &by), "-/-/-");
    }

    #[test]
    fn nodes_of_one_kind_are_one_class() {
        let node = |name: &str, features: &[&str]| Node {
            name: name.into(),
            cpus: 64,
            memory_mb: 257_000,
            features: features.iter().map(|f| (*f).into()).collect(),
            ..Node::default()
        };
        let by = NODE_CLASS_BY_DEFAULT;
        let class = node_class_of(&node("a", &["fast", "a100"]), &by);
        assert_eq!(class, "a100+fast/c64/m251");
        assert_eq!(class, node_class_of(&node("b", &["a100", "fast"]), &by));
        assert_eq!(node_class_of(&node("c", &[]), &by), "c/c64/m251");
        let [old, new] = ["r1old07", "r2new-14"].map(|name| node_class_of(&node(name, &[]), &by));
        assert_eq!([old, new], ["r#old/c64/m251", "r#new/c64/m251"]);
    }
}
