// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs of jobs that ended: writing, importing, reading.

use rusqlite::{Row, Transaction, params};

use super::HistoryError;
use super::queries::HistoryReader;
use phalanx_core::hostlist;
use phalanx_core::run::Run;
use phalanx_messages::rest::ImportReport;

const COLUMNS: &str = "job, job_id, array_job_id, array_task_id, het_job_id, user, account, name, \
     declared, class, partition, qos, nodes, node_count, node_class, submit_s, start_s, end_s, \
     elapsed_ms, limit_min, state, exit_code, exit_signal, cpus, tres_req, tres_alloc, work, \
     joules, placed_by, source";

/// Adds a run that is not known, else the energy and work that the known one lacks.
pub(super) fn insert(transaction: &Transaction<'_>, r: &Run) -> rusqlite::Result<ImportReport> {
    let sql = format!(
        "INSERT OR IGNORE INTO runs (time_ms, {COLUMNS}) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,\
         ?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22,?23,?24,?25,?26,?27,?28,?29,?30,?31)"
    );
    let new = transaction.prepare_cached(&sql)?.execute(params![
        r.end_s.saturating_mul(1000),
        r.job,
        r.job_id,
        r.array_job_id,
        r.array_task_id,
        r.het_job_id,
        r.user,
        r.account,
        r.name,
        r.declared,
        r.class,
        r.partition,
        r.qos,
        r.nodes,
        r.node_count,
        r.node_class,
        r.submit_s,
        r.start_s,
        r.end_s,
        r.elapsed_ms.cast_signed(),
        r.limit_min,
        r.state,
        r.exit_code,
        r.exit_signal,
        r.cpus.cast_signed(),
        r.tres_req,
        r.tres_alloc,
        r.work,
        r.joules,
        r.placed_by,
        r.source,
    ])?;
    if new > 0 {
        return Ok(ImportReport { new: 1, ..ImportReport::default() });
    }
    let more = transaction
        .prepare_cached(
            "UPDATE runs SET work = coalesce(work, ?3), joules = coalesce(joules, ?4) \
             WHERE job = ?1 AND start_s = ?2 AND ((work IS NULL AND ?3 IS NOT NULL) \
             OR (joules IS NULL AND ?4 IS NOT NULL))",
        )?
        .execute(params![r.job, r.start_s, r.work, r.joules])?;
    Ok(match more {
        0 => ImportReport { known: 1, ..ImportReport::default() },
        _ => ImportReport { filled: 1, ..ImportReport::default() },
    })
}

impl HistoryReader {
    /// The latest runs that ended since a time, unix milliseconds, newest first.
    pub fn runs(&self, since_ms: u64, limit: u32) -> Result<Vec<Run>, HistoryError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM runs WHERE time_ms >= ?1 \
             ORDER BY time_ms DESC, seq DESC LIMIT ?2"
        );
        let since = since_ms.min(i64::MAX.cast_unsigned()).cast_signed();
        self.ask(|connection| {
            connection.prepare(&sql)?.query_map(params![since, limit], run_row)?.collect()
        })
    }

    /// Shows the runs that ended since a time, unix milliseconds, to `visit`.
    pub fn each_run_since(
        &self,
        since_ms: u64,
        mut visit: impl FnMut(Run),
    ) -> Result<(), HistoryError> {
        let sql = format!("SELECT {COLUMNS} FROM runs WHERE time_ms >= ?1 ORDER BY time_ms, seq");
        let since = since_ms.min(i64::MAX.cast_unsigned()).cast_signed();
        self.ask(|connection| {
            let mut statement = connection.prepare(&sql)?;
            let mut rows = statement.query(params![since])?;
            while let Some(row) = rows.next()? {
                visit(run_row(row)?);
            }
            Ok(())
        })
    }

    /// Shows all runs to `visit`, in the order of their ends.
    pub fn each_run(&self, visit: impl FnMut(Run)) -> Result<(), HistoryError> {
        self.each_run_since(0, visit)
    }
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<Run> {
    Ok(Run {
        job: row.get("job")?,
        job_id: row.get("job_id")?,
        array_job_id: row.get("array_job_id")?,
        array_task_id: row.get("array_task_id")?,
        het_job_id: row.get("het_job_id")?,
        user: row.get("user")?,
        account: row.get("account")?,
        name: row.get("name")?,
        declared: row.get("declared")?,
        class: row.get("class")?,
        partition: row.get("partition")?,
        qos: row.get("qos")?,
        nodes: row.get("nodes")?,
        node_count: row.get("node_count")?,
        node_class: row.get("node_class")?,
        submit_s: row.get("submit_s")?,
        start_s: row.get("start_s")?,
        end_s: row.get("end_s")?,
        elapsed_ms: row.get::<_, i64>("elapsed_ms")?.cast_unsigned(),
        limit_min: row.get("limit_min")?,
        state: row.get("state")?,
        exit_code: row.get("exit_code")?,
        exit_signal: row.get("exit_signal")?,
        cpus: row.get::<_, i64>("cpus")?.cast_unsigned(),
        tres_req: row.get("tres_req")?,
        tres_alloc: row.get("tres_alloc")?,
        work: row.get("work")?,
        joules: row.get("joules")?,
        placed_by: row.get("placed_by")?,
        source: row.get("source")?,
    })
}

/// Returns the text of [`Run::node_class`] for nodes and their classes.
pub fn node_classes(nodes: &[(String, String)]) -> String {
    let mut classes: Vec<&str> = nodes.iter().map(|(_, class)| class.as_str()).collect();
    classes.sort_unstable();
    classes.dedup();
    if let [class] = classes[..] {
        return class.to_owned();
    }
    let line = |class: &&str| {
        let same = nodes.iter().filter(|(_, c)| c == class);
        let names: Vec<&str> = same.map(|(name, _)| name.as_str()).collect();
        format!("{class}\t{}", hostlist::compress(&names))
    };
    classes.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the class of each of `nodes` by the text of [`Run::node_class`]; empty where the text
/// lacks it.
pub fn split_node_classes(text: &str, nodes: &[String]) -> Vec<String> {
    if !text.contains('\t') {
        return vec![text.to_owned(); nodes.len()];
    }
    let mut classes = vec![String::new(); nodes.len()];
    for (class, list) in text.lines().filter_map(|line| line.split_once('\t')) {
        let names = hostlist::expand(list, nodes.len()).unwrap_or_default();
        for (node, found) in nodes.iter().zip(&mut classes) {
            if names.contains(node) {
                class.clone_into(found);
            }
        }
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_classes_go_there_and_back() {
        let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(n, c)| ((*n).to_owned(), (*c).to_owned())).collect()
        };
        for list in [
            pairs(&[("a1", "fast"), ("a2", "fast")]),
            pairs(&[("a1", "fast"), ("b2", "slow"), ("b3", "slow")]),
            pairs(&[("a1", "")]),
            pairs(&[("a1", ""), ("b2", "slow")]),
        ] {
            let nodes: Vec<String> = list.iter().map(|(n, _)| n.clone()).collect();
            let classes: Vec<String> = list.iter().map(|(_, c)| c.clone()).collect();
            assert_eq!(split_node_classes(&node_classes(&list), &nodes), classes);
        }
        assert_eq!(node_classes(&[]), "");
    }
}
