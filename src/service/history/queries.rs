// SPDX-License-Identifier: GPL-3.0-or-later
//! The reading side of the history: queries of `explain` and `shadow`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::HistoryError;
use super::columns::{Columns, JOB};
use super::records::{DecisionRecord, DecisionRow, OutcomeRecord, PlacementRecord};
use crate::sqlite::{self, signed};
use phalanx_core::number::as_f64;
use phalanx_messages::rest::{LatestDecision, ShadowDiff, ShadowReport};

/// A start and the decision behind it, if that decision is known.
pub type Started = (PlacementRecord, Option<DecisionRow>);

/// Answers queries from any thread: each one opens a connection of its own, and so finds the new
/// file when the old one was moved.
#[derive(Clone, Debug)]
pub struct HistoryReader {
    path: PathBuf,
}

/// SQL term of the decision behind placement `p`: the one that it names; else the last run_now
/// decision with nodes since the previous start of the same job.
///
/// While an array waits its tasks are asked for under one job id, and a task gets its own when it
/// starts: array tasks are matched by array and task.
pub(super) const DECISION_OF_PLACEMENT: &str = "coalesce(
  (SELECT max(d.seq) FROM decisions d WHERE d.decision = p.decision
      AND (d.job_id = p.job_id OR d.array_job_id = p.array_job_id)),
  (SELECT max(d.seq) FROM decisions d
    WHERE d.array_job_id = p.array_job_id AND d.array_task_id = p.array_task_id
      AND d.ask = 'run_now' AND d.nodes <> '' AND d.time_ms <= p.time_ms
      AND d.time_ms > coalesce((SELECT max(q.time_ms) FROM placements q
            WHERE q.array_job_id = p.array_job_id AND q.array_task_id = p.array_task_id
              AND q.seq < p.seq), -1)),
  (SELECT max(d.seq) FROM decisions d
    WHERE d.job_id = p.job_id AND d.array_job_id IS NULL
      AND d.ask = 'run_now' AND d.nodes <> '' AND d.time_ms <= p.time_ms
      AND d.time_ms > coalesce((SELECT max(q.time_ms) FROM placements q
            WHERE q.job_id = p.job_id AND q.seq < p.seq), -1)))";

/// Returns the SQL condition of the records of job `?2`; of array `?2` where there is a task `?3`.
fn of_job(task: Option<u32>) -> &'static str {
    match task {
        None => "job_id = ?2 AND ?3 IS NULL",
        Some(_) => "array_job_id = ?2 AND array_task_id = ?3",
    }
}

impl HistoryReader {
    /// Makes a reader of the database at `path`, which need not exist yet.
    pub fn new(path: &Path) -> HistoryReader {
        HistoryReader { path: path.to_path_buf() }
    }

    pub(super) fn ask<T>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, HistoryError> {
        sqlite::read(&self.path, question)
    }

    /// The latest decisions under a job id or for a task of an array, newest first.
    pub fn decisions_of(
        &self,
        (id, task): (u32, Option<u32>),
        limit: u32,
    ) -> Result<Vec<DecisionRow>, HistoryError> {
        self.decisions(&format!("WHERE {}", of_job(task)), params![limit, id, task])
    }

    /// The latest decisions, newest first.
    pub fn latest(&self, limit: u32) -> Result<Vec<LatestDecision>, HistoryError> {
        let sql = format!(
            "SELECT *, {JOB}, outcome_reason AS outcome, outcome_rc = 0 AS placed \
             FROM decisions ORDER BY seq DESC LIMIT ?1"
        );
        self.ask(|connection| {
            connection.prepare(&sql)?.query_map([limit], LatestDecision::read)?.collect()
        })
    }

    pub(super) fn decisions(
        &self,
        filter: &str,
        values: &[&dyn ToSql],
    ) -> Result<Vec<DecisionRow>, HistoryError> {
        let sql = format!("SELECT * FROM decisions {filter} ORDER BY seq DESC LIMIT ?1");
        self.ask(|connection| connection.prepare(&sql)?.query_map(values, decision_row)?.collect())
    }

    /// The latest start under a job id or of a task of an array, with the decision behind it.
    pub fn placement_of(
        &self,
        (id, task): (u32, Option<u32>),
    ) -> Result<Option<Started>, HistoryError> {
        let of = of_job(task);
        let placement = format!("SELECT * FROM placements WHERE {of} ORDER BY seq DESC LIMIT ?1");
        let decision = format!(
            "SELECT * FROM decisions WHERE seq = \
             (SELECT {DECISION_OF_PLACEMENT} FROM placements p WHERE p.seq = ?1)"
        );
        self.ask(|connection| {
            let found = connection
                .query_row(&placement, params![1, id, task], |row| {
                    Ok((PlacementRecord::read(row)?, row.get::<_, i64>("seq")?))
                })
                .optional()?;
            let Some((placement, seq)) = found else {
                return Ok(None);
            };
            let decision = connection.query_row(&decision, [seq], decision_row).optional()?;
            Ok(Some((placement, decision)))
        })
    }

    /// Agreement of the starts in shadow mode since a time.
    pub fn shadow(&self, since_ms: u64, limit: u32) -> Result<ShadowReport, HistoryError> {
        let pairs = format!(
            "SELECT p.seq, p.job_id, p.time_ms, p.nodes AS actual, d.nodes AS decided, \
             p.partition, p.compared, (coalesce((SELECT min(e.time_ms) FROM job_ends e \
             WHERE e.job_id = p.job_id AND e.time_ms >= p.time_ms), unixepoch() * 1000) \
             - p.time_ms) / 3600000.0 AS hours \
             FROM placements p JOIN decisions d ON d.seq = {DECISION_OF_PLACEMENT} \
             WHERE p.mode = 'shadow' AND d.nodes <> '' AND p.time_ms >= ?1"
        );
        let counts = format!("SELECT count(*), coalesce(sum(actual = decided), 0) FROM ({pairs})");
        let compared =
            format!("SELECT partition, compared, hours FROM ({pairs}) WHERE compared IS NOT NULL");
        let differing = format!(
            "SELECT job_id, time_ms, actual AS slurm, decided AS phalanx FROM ({pairs}) \
             WHERE actual <> decided ORDER BY seq DESC LIMIT ?2"
        );
        let since = signed(since_ms);
        self.ask(|connection| {
            // One read transaction: counts and list belong together.
            connection.execute_batch("BEGIN")?;
            let mut report = connection.query_row(&counts, [since], |row| {
                let (starts, agreed) = (unsigned(row.get(0)?), unsigned(row.get(1)?));
                Ok(ShadowReport {
                    since_ms,
                    starts,
                    agreed,
                    agreement: (starts > 0).then(|| as_f64(agreed) / as_f64(starts)),
                    ..ShadowReport::default()
                })
            })?;
            let mut rows = connection.prepare(&compared)?;
            let mut rows = rows.query([since])?;
            while let Some(row) = rows.next()? {
                add_compared(&mut report, row.get(0)?, row.get(1)?, row.get(2)?);
            }
            report.differing = connection
                .prepare(&differing)?
                .query_map(params![since, limit], ShadowDiff::read)?
                .collect::<rusqlite::Result<_>>()?;
            Ok(report)
        })
    }
}

/// Counts a start on nodes other than the decided ones.
fn add_compared(report: &mut ShadowReport, partition: String, compared: String, hours: f64) {
    // A damaged text counts as a start on nodes that are equally good.
    let by: BTreeMap<String, f64> = serde_json::from_str(&compared).unwrap_or_default();
    let of = |better: bool, worse: bool| usize::from(!better) + usize::from(!better && worse);
    for (name, value) in &by {
        report.measures.entry(name.clone()).or_default()[of(*value > 0.0, *value < 0.0)] += 1;
    }
    let any = |is: fn(f64) -> bool| by.values().any(|value| is(*value));
    let (better, worse) = (any(|value| value > 0.0), any(|value| value < 0.0));
    let at = of(better && !worse, worse && !better);
    report.partitions.entry(partition).or_default()[at] += 1;
    report.gpu_hours += by.get("gpus").unwrap_or(&0.0) * hours;
}

/// Converts back what the writer's `u64::cast_signed` made.
fn unsigned(value: i64) -> u64 {
    value.cast_unsigned()
}

fn decision_row(row: &Row<'_>) -> rusqlite::Result<DecisionRow> {
    let reported = row.get::<_, Option<i64>>("outcome_ms")?.is_some();
    let outcome = reported.then(|| OutcomeRecord::read(row)).transpose()?;
    Ok(DecisionRow { decision: DecisionRecord::read(row)?, outcome })
}
