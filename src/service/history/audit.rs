// SPDX-License-Identifier: GPL-3.0-or-later
//! The receipt: what Phalanx changed for which job, one line for each change. It is a view of the
//! other tables, and lacks what they lack.

use std::collections::BTreeMap;

use rusqlite::params;

use super::HistoryError;
use super::columns::{Columns, JOB};
use super::queries::{DECISION_OF_PLACEMENT, HistoryReader};
use crate::sqlite::signed;
use phalanx_messages::rest::{AuditReport, AuditRow, Receipt};

/// Jobs whose receipts are asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope {
    pub user: Option<u32>,
    /// Job or array, and a task of the array.
    pub job: Option<(u32, Option<u32>)>,
}

impl Scope {
    /// SQL condition on a record's job; `?2` user, `?3` job, `?4` task.
    fn condition(self) -> String {
        let user = if self.user.is_some() { "user_id = ?2" } else { "?2 IS NULL" };
        let job = match self.job {
            None => "?3 IS NULL AND ?4 IS NULL",
            Some((_, None)) => "(job_id = ?3 OR array_job_id = ?3) AND ?4 IS NULL",
            Some((_, Some(_))) => "array_job_id = ?3 AND array_task_id = ?4",
        };
        format!("{user} AND {job} AND time_ms >= ?1")
    }

    /// SQL tables `p`, the starts, and `receipts`. A hold lasts until the job's next question or
    /// its start; holds of one wait are one line.
    fn tables(self) -> String {
        let of = self.condition();
        format!(
            "WITH p AS (SELECT * FROM placements WHERE {of}), \
             c AS (SELECT *, coalesce(array_job_id, job_id) AS record, \
               outcome_reason = 'held' AND outcome_rc <> 0 AS held FROM decisions WHERE {of}), \
             e AS (SELECT time_ms, job_id, array_job_id, array_task_id, user_id, partition, \
                 record, decision, reason, held, 0 AS began FROM c \
                 WHERE record IN (SELECT record FROM c WHERE held) \
               UNION ALL SELECT time_ms, job_id, array_job_id, array_task_id, user_id, partition, \
                 coalesce(array_job_id, job_id), decision, NULL, 0, 1 FROM p), \
             w AS (SELECT *, max(0, lead(time_ms, 1, time_ms) OVER of_job - time_ms) AS lasts, \
                 sum(began) OVER of_job AS waits FROM e \
               WINDOW of_job AS (PARTITION BY record, array_task_id ORDER BY time_ms, began)), \
             receipts AS ( \
               SELECT p.time_ms, 'placed' AS kind, p.job_id, p.array_job_id, p.array_task_id, \
                 p.user_id, p.partition, p.nodes, p.node_count, d.decision, \
                 coalesce(json_extract(d.explain, '$.method'), '') AS reason, \
                 0 AS held_ms, 0 AS delta, \
                 json_array_length(d.explain, '$.topology.leaves') AS leaves, \
                 json_extract(d.explain, '$.not_ready_chosen') AS not_ready \
               FROM p JOIN decisions d ON d.seq = {DECISION_OF_PLACEMENT} \
               WHERE p.mode = 'enforce' AND d.nodes = p.nodes AND d.outcome_reason IS NULL \
             UNION ALL \
               SELECT time_ms, 'moved', job_id, array_job_id, array_task_id, user_id, partition, \
                 '', 0, decision, 'order', 0, delta, NULL, NULL FROM p WHERE delta IS NOT NULL \
             UNION ALL \
               SELECT min(time_ms), 'held', max(job_id), array_job_id, array_task_id, user_id, \
                 partition, '', 0, max(decision), coalesce(max(reason), ''), sum(lasts), \
                 0, NULL, NULL \
               FROM w WHERE held GROUP BY record, array_task_id, waits) "
        )
    }
}

impl HistoryReader {
    /// Changes since a time, the newest first; at most `limit` lines.
    pub fn audit(
        &self,
        since_ms: u64,
        scope: Scope,
        limit: usize,
    ) -> Result<AuditReport, HistoryError> {
        let task = scope.job.and_then(|(_, task)| task);
        let values = params![signed(since_ms), scope.user, scope.job.map(|(id, _)| id), task];
        let tables = scope.tables();
        let starts = format!("{tables} SELECT user_id, partition, count(*) FROM p GROUP BY 1, 2");
        let lines =
            format!("{tables} SELECT *, {JOB} FROM receipts ORDER BY time_ms DESC, job_id DESC");
        let moved = "SELECT count(*) FROM placements WHERE delta IS NOT NULL AND time_ms >= ?1";
        self.ask(|connection| {
            // One read transaction: sums and lines belong together.
            connection.execute_batch("BEGIN")?;
            let mut report = AuditReport { since_ms, ..AuditReport::default() };
            let mut sums: BTreeMap<(u32, String), AuditRow> = BTreeMap::new();
            let mut rows = connection.prepare(&starts)?;
            let mut rows = rows.query(values)?;
            while let Some(row) = rows.next()? {
                let starts = row.get::<_, i64>(2)?.cast_unsigned();
                let of = AuditRow { starts, ..AuditRow::default() };
                sums.insert((row.get(0)?, row.get(1)?), of);
            }
            let mut rows = connection.prepare(&lines)?;
            let mut rows = rows.query(values)?;
            while let Some(row) = rows.next()? {
                let line = Receipt::read(row)?;
                sums.entry((line.user_id, line.partition.clone())).or_default().add(&line);
                match report.receipts.len() < limit {
                    true => report.receipts.push(line),
                    false => report.left_out += 1,
                }
            }
            let whole = |((user_id, partition), of)| AuditRow { user_id, partition, ..of };
            report.rows = sums.into_iter().map(whole).collect();
            let moved: i64 = connection.query_row(moved, [signed(since_ms)], |row| row.get(0))?;
            report.moved_of_all = moved.cast_unsigned();
            Ok(report)
        })
    }
}
