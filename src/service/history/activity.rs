// SPDX-License-Identifier: GPL-3.0-or-later
//! Sums over the records of a period, for `phalanx report` and the page.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::HistoryError;
use super::columns::Columns;
use super::queries::HistoryReader;
use super::records::SampleRecord;
use crate::sqlite::signed;
use phalanx_core::run::wait_s;
use phalanx_messages::rest::{
    Activity, AnswerSums, Day, LeafSums, LocalSums, Point, RunSums, Share,
};

/// Number of points of the curves of queue and use.
const POINTS: u64 = 240;
const DAY_MS: u64 = 86_400_000;

impl HistoryReader {
    /// Sums up the records between two times, unix milliseconds.
    pub fn activity(&self, since_ms: u64, until_ms: u64) -> Result<Activity, HistoryError> {
        self.ask(|connection| {
            // One read transaction: all figures are of the same records.
            connection.execute_batch("BEGIN")?;
            let mut activity = Activity {
                since_ms,
                until_ms,
                first_ms: first_ms(connection, since_ms)?,
                starts: starts(connection, since_ms)?,
                answers: answers(connection, since_ms)?,
                leaves: leaves(connection, since_ms)?,
                locality: locality(connection, since_ms)?,
                ..Activity::default()
            };
            runs(connection, &mut activity)?;
            samples(connection, &mut activity)?;
            Ok(activity)
        })
    }
}

fn first_ms(connection: &Connection, since_ms: u64) -> rusqlite::Result<Option<u64>> {
    let mut first: Option<i64> = None;
    for table in ["decisions", "placements", "runs", "samples"] {
        let sql = format!("SELECT min(time_ms) FROM {table} WHERE time_ms >= ?1");
        let of: Option<i64> = connection.query_row(&sql, [signed(since_ms)], |row| row.get(0))?;
        first = first.into_iter().chain(of).min();
    }
    Ok(first.and_then(|ms| u64::try_from(ms).ok()))
}

fn starts(connection: &Connection, since_ms: u64) -> rusqlite::Result<BTreeMap<String, u64>> {
    let sql = "SELECT mode, count(*) FROM placements WHERE time_ms >= ?1 GROUP BY mode";
    let pair = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()));
    connection.prepare(sql)?.query_map([signed(since_ms)], pair)?.collect()
}

/// SQL condition of a decision that Slurm carried out.
const PLACED: &str = "ask = 'run_now' AND mode = 'enforce' AND nodes <> '' \
     AND outcome_ms IS NOT NULL AND outcome_reason IS NULL AND outcome_rc = 0";

fn answers(connection: &Connection, since_ms: u64) -> rusqlite::Result<AnswerSums> {
    let sql = format!(
        "SELECT count(*) AS asked, coalesce(sum(nodes <> ''), 0) AS with_nodes, \
         coalesce(sum({PLACED}), 0) AS placed, avg(latency_us) AS mean_us \
         FROM decisions WHERE ask = 'run_now' AND time_ms >= ?1"
    );
    connection.query_row(&sql, [signed(since_ms)], AnswerSums::read)
}

fn leaves(connection: &Connection, since_ms: u64) -> rusqlite::Result<Option<LeafSums>> {
    let sql = format!(
        "SELECT count(*) AS starts, avg(own) AS mean, avg(fewest) AS fewest_mean, \
         sum(own <= fewest) AS on_fewest FROM \
         (SELECT json_array_length(explain, '$.topology.leaves') AS own, \
          json_extract(explain, '$.topology.fewest') AS fewest FROM decisions \
          WHERE {PLACED} AND node_count > 1 AND time_ms >= ?1 AND json_valid(explain)) \
         WHERE own > 0 AND fewest > 0"
    );
    of_any(connection, &sql, since_ms)
}

fn locality(connection: &Connection, since_ms: u64) -> rusqlite::Result<Option<LocalSums>> {
    let sql = format!(
        "SELECT count(*) AS starts, avg(share) AS share FROM \
         (SELECT json_extract(explain, '$.preference.note.local_share') AS share FROM decisions \
          WHERE {PLACED} AND time_ms >= ?1 AND json_valid(explain)) WHERE share IS NOT NULL"
    );
    of_any(connection, &sql, since_ms)
}

/// Returns the sums that a query makes; `None` where they are of no start.
fn of_any<R: Columns>(c: &Connection, sql: &str, since_ms: u64) -> rusqlite::Result<Option<R>> {
    let sql = format!("SELECT * FROM ({sql}) WHERE starts > 0");
    c.query_row(&sql, [signed(since_ms)], R::read).optional()
}

/// Sums over runs that are under way while records are read.
#[derive(Default)]
struct Open {
    sums: RunSums,
    waits: Vec<i64>,
}

#[allow(clippy::cast_precision_loss)] // counts and seconds stay below 2^53
fn runs(connection: &Connection, activity: &mut Activity) -> rusqlite::Result<()> {
    let sql = "SELECT placed_by, submit_s, start_s, elapsed_ms, cpus, joules, time_ms, eligible_s \
               FROM runs WHERE time_ms >= ?1 AND time_ms <= ?2";
    let mut statement = connection.prepare(sql)?;
    let mut rows =
        statement.query(params![signed(activity.since_ms), signed(activity.until_ms)])?;
    let mut open: BTreeMap<String, Open> = BTreeMap::new();
    let mut days: BTreeMap<u64, (u64, u64, i64)> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let eligible_s: Option<i64> = row.get(7)?;
        let wait = wait_s(row.get(1)?, eligible_s, row.get(2)?);
        let day = days.entry(row.get::<_, i64>(6)?.cast_unsigned() / DAY_MS).or_default();
        day.0 += 1;
        if let Some(wait) = wait {
            day.1 += 1;
            day.2 = day.2.saturating_add(wait);
        }
        let of = open.entry(row.get(0)?).or_default();
        of.sums.runs += 1;
        of.waits.extend(wait);
        of.sums.waits_from_submit += u64::from(wait.is_some() && eligible_s.is_none());
        let cpus: i64 = row.get(4)?;
        if cpus > 0 {
            let hours = row.get::<_, i64>(3)? as f64 / 3.6e6 * cpus as f64;
            *of.sums.cpu_hours.get_or_insert(0.0) += hours;
        }
        if let Some(joules) = row.get::<_, Option<f64>>(5)? {
            of.sums.measured += 1;
            *of.sums.joules.get_or_insert(0.0) += joules;
        }
    }
    let day = |(day, (runs, waits, wait)): (u64, (u64, u64, i64))| Day {
        time_ms: day * DAY_MS,
        runs,
        wait_mean_s: (waits > 0).then(|| wait as f64 / waits as f64),
    };
    activity.days = days.into_iter().map(day).collect();
    activity.runs = open.into_iter().map(|(method, open)| (method, closed(open))).collect();
    Ok(())
}

#[allow(clippy::cast_precision_loss)]
fn closed(Open { mut sums, mut waits }: Open) -> RunSums {
    waits.sort_unstable();
    let sum: i128 = waits.iter().map(|wait| i128::from(*wait)).sum();
    let rank = |percent: usize| {
        waits.get((waits.len() * percent).div_ceil(100).saturating_sub(1)).copied()
    };
    sums.waits = waits.len() as u64;
    sums.wait_mean_s = (!waits.is_empty()).then(|| sum as f64 / waits.len() as f64);
    (sums.wait_p50_s, sums.wait_p95_s, sums.wait_max_s) = (rank(50), rank(95), rank(100));
    sums
}

/// Sums of one step of time.
#[derive(Default)]
struct Step {
    samples: f64,
    pending: f64,
    running: f64,
    /// Shares in use and stranded, and number of samples, by dimension.
    shares: BTreeMap<String, [f64; 3]>,
}

impl Step {
    fn means(&self) -> BTreeMap<String, Share> {
        let mean = |(name, [used, stranded, samples]): (&String, &[f64; 3])| {
            (name.clone(), Share { used: used / samples, stranded: stranded / samples })
        };
        self.shares.iter().map(mean).collect()
    }

    fn add(&mut self, pending: f64, running: f64, resources: &BTreeMap<String, [f64; 3]>) {
        self.samples += 1.0;
        self.pending += pending;
        self.running += running;
        let there = resources.iter().filter(|(_, [total, ..])| *total > 0.0);
        for (name, [total, used, stranded]) in there {
            let sums = self.shares.entry(name.clone()).or_default();
            for (sum, value) in sums.iter_mut().zip([used / total, stranded / total, 1.0]) {
                *sum += value;
            }
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn samples(connection: &Connection, activity: &mut Activity) -> rusqlite::Result<()> {
    let sql = "SELECT * FROM samples WHERE time_ms >= ?1 AND time_ms <= ?2 ORDER BY time_ms";
    let mut statement = connection.prepare(sql)?;
    let mut rows =
        statement.query(params![signed(activity.since_ms), signed(activity.until_ms)])?;
    // Steps over what is recorded, so that a new history fills the picture too.
    let first = activity.first_ms.unwrap_or(activity.since_ms).max(activity.since_ms);
    let width = (activity.until_ms.saturating_sub(first) / POINTS).max(60_000);
    let (mut whole, mut steps) = (Step::default(), BTreeMap::<u64, Step>::new());
    while let Some(row) = rows.next()? {
        let SampleRecord { time_ms, pending, running, resources } = SampleRecord::read(row)?;
        let (pending, running) = (pending as f64, running as f64);
        let at = time_ms.saturating_sub(first) / width;
        steps.entry(at).or_default().add(pending, running, &resources);
        whole.add(pending, running, &resources);
    }
    let point = |(at, step): (u64, Step)| Point {
        time_ms: first + at * width,
        pending: step.pending / step.samples,
        running: step.running / step.samples,
        use_of: step.means(),
    };
    activity.use_of = whole.means();
    activity.points = steps.into_iter().map(point).collect();
    Ok(())
}
