// SPDX-License-Identifier: GPL-3.0-or-later
//! Plays recordings to the decision code, under the recorded configuration or another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::file::{FileError, Reader};
use crate::agreement::{Agreement, Witness};
use crate::recording::{AskOp, Op, RecordedAnswer};
use crate::{Other, Replica};

/// One answer that differs from the recorded one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Name of the file, where there are several.
    pub file: String,
    /// Record within its file.
    pub record: u64,
    /// Time of the decision, unix milliseconds.
    pub time_ms: u64,
    /// Job id.
    pub job: u32,
    /// Whether the call was WILL_RUN rather than RUN_NOW.
    pub will_run: bool,
    /// Text of the recorded answer: nodes, or the reason for none.
    pub recorded: String,
    /// Text of the replayed answer.
    pub now: String,
}

/// Effects of another configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Then {
    /// Questions with the same answer.
    pub same: u64,
    /// Questions placed on other nodes.
    pub elsewhere: u64,
    /// Questions placed only under the new configuration.
    pub placed: u64,
    /// Questions placed only under the recorded configuration.
    pub not_placed: u64,
    /// Questions placed under neither configuration, for another reason.
    pub other_reason: u64,
    /// Jobs placed elsewhere at least once.
    pub jobs_elsewhere: u64,
    /// Answers by category, recorded and under the new configuration.
    pub answers: BTreeMap<String, [u64; 2]>,
    /// Mean dispersion of the decided nodes, recorded and under the new configuration.
    pub dispersion: [Option<f64>; 2],
    /// Mean leaf switches or blocks of answers of several nodes, recorded and under the new
    /// configuration, by the latter's topology; null without topology.
    #[serde(default)]
    pub leaves: [Option<f64>; 2],
}

/// Result of a replay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Files played.
    pub files: u64,
    /// Records in the files.
    pub records: u64,
    /// Time of the first record, unix milliseconds.
    pub begin_ms: u64,
    /// Time of the last record, unix milliseconds.
    pub end_ms: u64,
    /// Questions compared.
    pub asks: u64,
    /// Questions that were not recorded, because a state was not complete.
    pub missed: u64,
    /// Questions answered as recorded, to the last bit.
    pub same: u64,
    /// Questions answered differently.
    pub differing: u64,
    /// Reason why each file ended, or a note that it was cut off.
    pub ends: Vec<String>,
    /// Places where a file could not be read further.
    pub broken: Vec<String>,
    /// First differences: under the other configuration, if there is one.
    pub first: Vec<Difference>,
    /// Effects of the other configuration, if there is one.
    pub then: Option<Then>,
    /// Starts by stock beside stock's choice as the planner works it out.
    #[serde(default)]
    pub stock: Agreement,
}

impl Report {
    /// Returns whether everything was readable, and every answer was the same.
    pub fn is_same(&self) -> bool {
        self.broken.is_empty() && self.differing == 0
    }
}

/// Sum and count of a mean.
#[derive(Debug, Clone, Copy, Default)]
struct Mean(f64, u64);

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.0 += value;
            self.1 += 1;
        }
    }

    #[allow(clippy::cast_precision_loss)] // questions stay below 2^53
    fn value(self) -> Option<f64> {
        (self.1 > 0).then(|| self.0 / self.1 as f64)
    }
}

#[derive(Default)]
struct Tally {
    report: Report,
    listed: usize,
    means: [Mean; 2],
    leaves: [Mean; 2],
    elsewhere: std::collections::BTreeSet<u32>,
}

/// Plays files in their order. `other`: decide under this too. At most `listed` differences are
/// listed.
///
/// # Errors
/// Fails if the first file cannot be read at all. Later faults are in the report.
pub fn replay(
    files: &[PathBuf],
    other: Option<&Other<'_>>,
    listed: usize,
    progress: &dyn Fn(u64),
) -> Result<Report, FileError> {
    let mut tally = Tally { listed, ..Tally::default() };
    tally.report.then = other.map(|_| Then::default());
    for path in files {
        let name = if files.len() > 1 { path.display().to_string() } else { String::new() };
        let reader = Reader::open(path)?;
        tally.report.files += 1;
        play(path, &name, reader, other, &mut tally, progress);
    }
    let Tally { mut report, means, leaves, elsewhere, .. } = tally;
    if let Some(then) = &mut report.then {
        then.dispersion = means.map(Mean::value);
        then.leaves = leaves.map(Mean::value);
        then.jobs_elsewhere = elsewhere.len() as u64;
    }
    Ok(report)
}

/// Plays one file up to its first fault.
fn play(
    path: &Path,
    name: &str,
    mut reader: Reader,
    other: Option<&Other<'_>>,
    tally: &mut Tally,
    progress: &dyn Fn(u64),
) {
    let base = Instant::now();
    let zero_ms = reader.head().zero_ms;
    let mut replica = Replica::new(base, Other::default());
    let mut then = other.map(|other| Replica::new(base, *other));
    let mut witness = Witness::default();
    let mut end = None;
    let broken_before = tally.report.broken.len();
    loop {
        let record = match reader.next_record() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) => {
                tally.report.broken.push(error.to_string());
                break;
            }
        };
        tally.report.records += 1;
        progress(tally.report.records);
        let time_ms = zero_ms.saturating_add(record.t / 1_000_000);
        let first = tally.report.begin_ms == 0;
        tally.report.begin_ms = if first { time_ms } else { tally.report.begin_ms };
        tally.report.end_ms = tally.report.end_ms.max(time_ms);
        match &record.op {
            Op::End(why) => end = Some(why.clone()),
            Op::Rest(rest) => tally.report.missed += rest.missed,
            _ => {}
        }
        witness.follow(&record.op, &replica, &mut tally.report.stock);
        let again = replica.take(record.t, &record.op);
        let again_then = then.as_mut().map(|then| then.take(record.t, &record.op)).transpose();
        let (again, again_then) = match (again, again_then) {
            (Ok(again), Ok(then)) => (again, then.flatten()),
            (Err(what), _) | (_, Err(what)) => {
                let at = format!("{}: record {}: {what}", path.display(), reader.records());
                tally.report.broken.push(at);
                break;
            }
        };
        let (Op::Ask(ask), Some(again)) = (&record.op, again) else { continue };
        let place = Difference {
            file: name.to_owned(),
            record: reader.records(),
            time_ms,
            job: ask.question.job_id,
            will_run: ask.question.will_run,
            ..Difference::default()
        };
        let same = tally.judge(ask, &again.answer, &place, &replica, other.is_none());
        if let (Some(now), true) = (again_then, same) {
            tally.means[0].add(again.dispersion);
            tally.means[1].add(now.dispersion);
            if let Some(then) = &then {
                tally.add_leaves([&ask.answer, &now.answer], then);
            }
            tally.compare(ask, &now.answer, place, &replica);
        }
    }
    let broken = tally.report.broken.len() > broken_before;
    let unknown = if broken { "not reached" } else { "none: phalanxd was killed, or still writes" };
    tally.report.ends.push(end.unwrap_or_else(|| unknown.to_owned()));
}

impl Tally {
    /// Adds the leaves of the recorded and of the replayed answer, where both have several nodes.
    #[allow(clippy::cast_precision_loss)] // leaves stay below 2^53
    fn add_leaves(&mut self, answers: [&RecordedAnswer; 2], then: &Replica<'_>) {
        if answers.iter().all(|answer| answer.nodes.len() > 1) {
            for (mean, answer) in self.leaves.iter_mut().zip(answers) {
                mean.add(then.leaves(&answer.nodes).map(|leaves| leaves as f64));
            }
        }
    }

    /// Returns whether the replayed answer is the recorded one.
    fn judge(
        &mut self,
        ask: &AskOp,
        now: &RecordedAnswer,
        place: &Difference,
        replica: &Replica<'_>,
        list: bool,
    ) -> bool {
        self.report.asks += 1;
        if ask.answer == *now {
            self.report.same += 1;
            return true;
        }
        self.report.differing += 1;
        if list || self.report.then.is_none() {
            self.list(ask, now, place.clone(), replica);
        }
        false
    }

    fn compare(
        &mut self,
        ask: &AskOp,
        now: &RecordedAnswer,
        place: Difference,
        replica: &Replica<'_>,
    ) {
        let Some(then) = &mut self.report.then else { return };
        let recorded = &ask.answer;
        then.answers.entry(word(recorded)).or_default()[0] += 1;
        then.answers.entry(word(now)).or_default()[1] += 1;
        let placed = |answer: &RecordedAnswer| !answer.nodes.is_empty();
        match (placed(recorded), placed(now)) {
            (true, true) if recorded.nodes == now.nodes => {
                then.same += 1;
                return;
            }
            (true, true) => {
                then.elsewhere += 1;
                self.elsewhere.insert(ask.question.job_id);
            }
            (false, true) => then.placed += 1,
            (true, false) => then.not_placed += 1,
            (false, false) if word(recorded) == word(now) => {
                then.same += 1;
                return;
            }
            (false, false) => then.other_reason += 1,
        }
        self.list(ask, now, place, replica);
    }

    fn list(
        &mut self,
        ask: &AskOp,
        now: &RecordedAnswer,
        place: Difference,
        replica: &Replica<'_>,
    ) {
        if self.report.first.len() >= self.listed {
            return;
        }
        let (recorded, now) = (says(&ask.answer, replica), says(now, replica));
        self.report.first.push(Difference { recorded, now, ..place });
    }
}

/// Returns the category of an answer, for counting.
fn word(answer: &RecordedAnswer) -> String {
    let by = if answer.set.is_some() { &answer.method } else { "balance" };
    match answer.reason.as_str() {
        "" => format!("placed by {by}"),
        reason if answer.detail.is_empty() => reason.to_owned(),
        reason => format!("{reason} ({})", answer.detail),
    }
}

/// Returns the text of an answer, with the nodes' names.
fn says(answer: &RecordedAnswer, replica: &Replica<'_>) -> String {
    if answer.nodes.is_empty() {
        return word(answer);
    }
    let names: Vec<String> = answer.nodes.iter().map(|node| replica.node(*node)).collect();
    let nodes = phalanx_core::hostlist::compress(&names);
    format!("{}: {nodes} [figures {:016x}]", word(answer), answer.digest)
}
