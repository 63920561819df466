// SPDX-License-Identifier: GPL-3.0-or-later
//! The records of a recording, as they are written.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use phalanx_ffi::wire::Reason;
use serde::{Deserialize, Serialize};

use crate::decision::{Answer, Decision};
use crate::refusals::Refusals;
use phalanx_core::NodeIdx;
use phalanx_core::hash::fnv64;
use phalanx_core::snapshot::{Job, License, Node, Snapshot};
use phalanx_core::text::pairs;
use phalanx_planner::attribution::Demand;
use phalanx_planner::cluster::{RunningJob, Table};
use phalanx_planner::place::{Candidates, Classes, Excluded, Placement};
use phalanx_planner::preference::{JobKey, Method, Preference, PreferenceUse, Question, Rows};

/// One record of a recording, as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Node table of the mirror; its jobs follow.
    Table(Box<TableOp>),
    /// A part of the running jobs.
    Jobs(Vec<RunningJob>),
    /// The rest of the state, which completes the records before.
    Rest(Box<Rest>),
    /// The plugin disconnected, so that there is no mirror.
    Gone,
    /// A new configuration: its generation, and its text as TOML.
    Settings(u64, String),
    /// Levels of nodes by measured values.
    Levels(#[serde(with = "pairs")] BTreeMap<Arc<str>, u32>),
    /// Pending jobs by dimension, and licence pools.
    Queue(Demand, Vec<License>),
    /// Pending jobs by dimension alone, between two polls.
    Lacks(#[serde(with = "pairs")] BTreeMap<Arc<str>, u64>),
    /// Node preferences of one method.
    Preferences(PreferencesOp),
    /// A job with all that it holds; whether it began just now.
    Job(RunningJob, bool),
    /// Running jobs that end at other times: id, end in unix seconds.
    Ends(Vec<(u32, u64)>),
    /// A job gave everything back: its id, Slurm's state, end in unix seconds.
    Ended(u32, u32, u64),
    /// Ids of jobs that left the queue without having held anything.
    Forgot(Vec<u32>),
    /// A question and its answer.
    Ask(Box<AskOp>),
    /// Slurm took the nodes of a decision, or refused them.
    Outcome(u64, bool),
    /// Snapshot of queue and nodes.
    Picture(Box<Snapshot>),
    /// Changes of the queue and nodes since the last snapshot.
    Change(Box<Change>),
    /// End of the recording, with the reason.
    End(String),
}

/// The node table, for [`Op::Table`], and whether memory is a consumable resource.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TableOp {
    /// Nodes by Slurm's index.
    pub table: Table,
    /// Whether memory is a consumable resource.
    pub memory_tracked: bool,
}

/// The state beside node table, jobs, settings, queue and preferences.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// Node at which the engine polls next.
    pub poll_start: usize,
    /// Decision whose outcome moves `poll_start`, and the node to which it moves.
    #[serde(default)]
    pub polled: Option<(u64, usize)>,
    /// Jobs held back: id, and begin of the hold in nanoseconds of the recording.
    pub first_seen: Vec<(u32, u64)>,
    /// Jobs that declare an input.
    pub inputs: Vec<u32>,
    /// Greatest job id that plans know.
    pub newest: Option<u32>,
    /// Outcomes by option.
    #[serde(default, skip_serializing_if = "Refusals::is_empty")]
    pub refusals: Refusals,
    /// Questions that were not recorded, because the state was not complete.
    pub missed: u64,
}

/// Preferences of one method: the method, whether made for the table in force, greatest job id that
/// plans know, rows.
#[derive(Debug)]
pub struct RawPreferences(pub Method, pub bool, pub Option<u32>, pub Rows);

/// Preferences of one method, as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PreferencesOp {
    /// The method.
    pub method: Method,
    /// Whether the preferences are for the node table in force.
    pub current: bool,
    /// Greatest job id that plans know.
    pub newest: Option<u32>,
    /// Node lists that candidate sets refer to.
    pub lists: Vec<Vec<NodeIdx>>,
    /// Preferences by key.
    pub rows: Vec<PreferenceRow>,
}

impl PreferencesOp {
    /// Converts preferences; a node list that several sets share is written once.
    pub fn of(RawPreferences(method, current, newest, rows): RawPreferences) -> Self {
        let mut lists: Vec<Vec<NodeIdx>> = Vec::new();
        let mut known = HashMap::new();
        let mut row = |(preference, taken): (Arc<Preference>, Vec<u32>)| {
            let sets = preference.sets.iter().enumerate().map(|(at, set)| {
                let list = *known.entry(set.nodes.as_ptr().addr()).or_insert_with(|| {
                    lists.push(set.nodes.to_vec());
                    lists.len() - 1
                });
                (set.name.to_string(), list, set.quota, taken.get(at).copied().unwrap_or(0))
            });
            PreferenceRow {
                key: preference.key,
                required: preference.required,
                sets: sets.collect(),
                worth: preference.worth.clone(),
            }
        };
        // The preferences stay alive until all are made: an address means one list.
        let alive: Rows = rows.clone();
        let rows = rows.into_iter().map(&mut row).collect();
        drop(alive);
        Self { method, current, newest, lists, rows }
    }
}

/// One preference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PreferenceRow {
    /// The job or jobs that the preference is for.
    pub key: JobKey,
    /// Whether the job waits for these nodes rather than going elsewhere.
    pub required: bool,
    /// Name, number of the node list, quota, tasks started.
    pub sets: Vec<(String, usize, Option<u32>, u32)>,
    /// Worth of each set for the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worth: Vec<Option<f64>>,
}

/// A question and its answer, for [`Op::Ask`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskOp {
    /// Decision id.
    pub decision: u64,
    /// The question.
    pub question: Question<'static>,
    /// Candidates that were offered.
    #[serde(flatten)]
    pub offer: Offer,
    /// The answer.
    pub answer: RecordedAnswer,
}

/// The candidates of a question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// Words of the bitmap of candidates.
    #[serde(with = "words")]
    pub candidates: Vec<u64>,
    /// Tier and Weight of the candidates' classes, ascending; empty: those of the node table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<(u32, u32)>,
    /// Words of the bitmaps that number the class of each candidate.
    #[serde(default, with = "words", skip_serializing_if = "Vec::is_empty")]
    pub planes: Vec<u64>,
    /// Cores that the job may not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<Excluded>,
}

impl Offer {
    /// Copies the candidates.
    pub(crate) fn of(candidates: Candidates<'_>) -> Self {
        let classes = candidates.classes();
        Self {
            candidates: candidates.words().to_vec(),
            classes: classes.map(|c| c.keys.to_vec()).unwrap_or_default(),
            planes: classes.map(|c| c.planes.to_vec()).unwrap_or_default(),
            excluded: candidates.excluded().to_vec(),
        }
    }

    /// Returns the candidates of the question.
    pub(crate) fn candidates(&self) -> Candidates<'_> {
        let candidates = Candidates::new(&self.candidates).without(&self.excluded);
        if self.classes.is_empty() {
            return candidates;
        }
        let words = self.candidates.len();
        candidates.in_classes(Classes { keys: &self.classes, planes: &self.planes, words })
    }
}

impl AskOp {
    /// Returns the record of a decision on an offer.
    pub fn of(decision: &Decision, offer: Offer) -> Self {
        let answer = RecordedAnswer::of(&decision.answer, decision.preference_use.as_ref());
        Self { decision: decision.id, question: decision.question.clone(), offer, answer }
    }
}

/// An answer, as far as it is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedAnswer {
    /// Reason why Slurm is to decide; empty if Slurm is to take the nodes.
    pub reason: String,
    /// Detail of the reason, where it has one.
    pub detail: String,
    /// Decided nodes, also in shadow mode; empty if none.
    pub nodes: Vec<NodeIdx>,
    /// Method of the job's preference; empty without one.
    pub method: String,
    /// Position of the candidate set that decided.
    pub set: Option<usize>,
    /// Hash of every figure behind the answer, to the last bit; 0 without a decision.
    pub digest: u64,
}

impl RecordedAnswer {
    /// Returns the record of an answer and of the preference that applied.
    pub fn of(answer: &Answer, used: Option<&PreferenceUse>) -> Self {
        let placement = answer.placement();
        Self {
            reason: answer.reason().map(Reason::as_str).unwrap_or_default().to_owned(),
            detail: answer.detail().unwrap_or_default().to_owned(),
            nodes: placement.map(|p| p.nodes.clone()).unwrap_or_default(),
            method: used.map(|s| s.preference.method.as_str()).unwrap_or_default().to_owned(),
            set: used.and_then(|s| s.set),
            digest: placement.map_or(0, digest),
        }
    }
}

/// Changes of the queue and nodes since the last snapshot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Time of the snapshot, unix milliseconds.
    pub time_ms: u64,
    /// Nodes that changed.
    pub nodes: Vec<Node>,
    /// Jobs that are new or changed.
    pub jobs: Vec<Job>,
    /// Jobs that Slurm has forgotten.
    pub gone: Vec<u32>,
}

/// Hashes the bits of every figure of a decision by FNV-1a.
fn digest(placement: &Placement) -> u64 {
    let decision = &placement.decision;
    let (candidates, branch) = (placement.candidates as u64, decision.branch as u64);
    let mut figures = vec![candidates, branch, decision.utilization.to_bits()];
    figures.extend(decision.weights.iter().map(|weight| weight.to_bits()));
    let runner_up = decision.runner_up.iter().map(|r| &r.choice);
    for choice in decision.choices().iter().chain(runner_up) {
        figures.push(u64::from(choice.node.raw()));
        figures.extend([choice.before, choice.after, choice.score].map(f64::to_bits));
    }
    figures.extend(placement.needs.iter().flat_map(|need| [need.cpus, need.memory_mb]));
    fnv64(figures.into_iter().flat_map(u64::to_le_bytes))
}

/// Words of a bitmap as hexadecimal text.
mod words {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(words: &[u64], to: S) -> Result<S::Ok, S::Error> {
        use std::fmt::Write;
        let mut text = String::with_capacity(words.len() * 16);
        for word in words {
            // Writing to a string does not fail.
            let _ = write!(text, "{word:016x}");
        }
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        let word = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok().filter(|d| d.len() == 16)?;
            u64::from_str_radix(digits, 16).ok()
        };
        let words: Option<Vec<u64>> = text.as_bytes().chunks(16).map(word).collect();
        words.ok_or_else(|| serde::de::Error::custom("candidates are no words of 16 digits"))
    }
}
