// SPDX-License-Identifier: GPL-3.0-or-later
//! Retention: deleting by age, and by size when the file has grown too large.

use super::HistoryError;
use super::store::History;

/// Most rows of each table that one step deletes, so that steps and write-ahead log stay short.
const STEP_ROWS: i64 = 2000;
/// Most unused pages that one step returns to the file system.
const STEP_PAGES: i64 = 2000;
const DAY_MS: u64 = 86_400_000;
const TABLES: [&str; 4] = ["decisions", "placements", "job_ends", "samples"];
/// Tables that are kept as long as runs, from which speeds are learned.
const RUNS: [&str; 1] = ["runs"];

impl History {
    /// Deletes, in one short step, rows that are older than the retention or beyond the size;
    /// returns the number of rows deleted, and whether there is more to do.
    pub(super) fn prune_step(&mut self, now_ms: u64) -> Result<(u64, bool), HistoryError> {
        let cutoff = |days: u32| now_ms.saturating_sub(u64::from(days) * DAY_MS).cast_signed();
        let limits = self.limits;
        let mut deleted = self.delete_before(&TABLES, cutoff(limits.retention_days))?;
        deleted += self.delete_before(&RUNS, cutoff(limits.runs_days))?;
        let used = self.database.used_bytes()?;
        if used > self.max_bytes() {
            self.shrinking = true;
        }
        if self.shrinking {
            if used > self.max_bytes() / 10 * 9 {
                deleted += self.delete_oldest()?;
            } else {
                self.shrinking = false;
            }
        }
        let given = self.give_back()?;
        // A step that deleted nothing cannot do more the next time.
        if deleted == 0 {
            self.shrinking = false;
        }
        Ok((deleted, deleted > 0 || given))
    }

    /// Time of the newest record of any kind that is not later than `now_ms`.
    pub(super) fn newest_ms(&self, now_ms: u64) -> Result<Option<u64>, HistoryError> {
        let failed = HistoryError::sql(&self.database.path, "find its newest record");
        let mut newest = None;
        for table in TABLES.iter().chain(&RUNS) {
            let sql = format!("SELECT max(time_ms) FROM {table} WHERE time_ms <= ?1");
            let of: Option<i64> = self
                .database
                .connection
                .query_row(&sql, [now_ms.cast_signed()], |row| row.get(0))
                .map_err(&failed)?;
            newest = newest.max(of.and_then(|ms| u64::try_from(ms).ok()));
        }
        Ok(newest)
    }

    /// Deletes the oldest rows whatever their age; returns their number.
    pub(super) fn delete_oldest(&mut self) -> Result<u64, HistoryError> {
        let failed = HistoryError::sql(&self.database.path, "find its oldest records");
        let mut deleted = 0;
        // As many runs as of the others, so that neither crowds the other out.
        for (table, family) in
            TABLES.iter().map(|t| (t, &TABLES[..])).chain([(&RUNS[0], &RUNS[..])])
        {
            if deleted > 0 && family.len() > 1 {
                continue;
            }
            // The time of the last row that goes; other tables follow it.
            let sql = format!(
                "SELECT max(time_ms) FROM \
                 (SELECT time_ms FROM {table} ORDER BY time_ms LIMIT {STEP_ROWS})"
            );
            let last: Option<i64> =
                self.database.connection.query_row(&sql, [], |row| row.get(0)).map_err(&failed)?;
            if let Some(last) = last {
                deleted += self.delete_before(family, last.saturating_add(1))?;
            }
        }
        Ok(deleted)
    }

    fn delete_before(&mut self, tables: &[&str], cutoff_ms: i64) -> Result<u64, HistoryError> {
        self.database.change("delete old records", |transaction| {
            let mut deleted = 0;
            for table in tables {
                let sql = format!(
                    "DELETE FROM {table} WHERE seq IN (SELECT seq FROM {table} \
                     WHERE time_ms < ?1 ORDER BY time_ms LIMIT {STEP_ROWS})"
                );
                let rows = transaction.prepare_cached(&sql)?.execute([cutoff_ms])?;
                deleted += rows as u64;
            }
            Ok(deleted)
        })
    }

    /// Shrinks the file when a fifth or more of it is unused; below that the unused pages serve the
    /// next records. Returns whether the file shrank.
    fn give_back(&mut self) -> Result<bool, HistoryError> {
        let failed = HistoryError::sql(&self.database.path, "shrink it");
        let (pages, unused) = self.database.pages()?;
        if unused < STEP_PAGES / 4 || unused < pages / 5 {
            return Ok(false);
        }
        // Each row of the result is one page given back.
        let sql = format!("PRAGMA incremental_vacuum({STEP_PAGES})");
        let mut statement = self.database.connection.prepare(&sql).map_err(&failed)?;
        let mut rows = statement.query([]).map_err(&failed)?;
        let mut given = false;
        while rows.next().map_err(&failed)?.is_some() {
            given = true;
        }
        Ok(given)
    }
}
