// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs of jobs that ended: writing, importing, reading.

use rusqlite::{Transaction, params};

use super::HistoryError;
use super::columns::{Columns, insert};
use super::queries::HistoryReader;
use crate::sqlite::signed;
use phalanx_core::hostlist;
use phalanx_core::run::Run;
use phalanx_messages::rest::ImportReport;

/// Adds a run that is not known, else the energy and work that the known run lacks.
pub(super) fn add(transaction: &Transaction<'_>, r: &Run) -> rusqlite::Result<ImportReport> {
    let time = ("time_ms", r.end_s.saturating_mul(1000));
    let new = insert(transaction, "OR IGNORE INTO runs", r, Some(time))?;
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
        let sql = "SELECT * FROM runs WHERE time_ms >= ?1 ORDER BY time_ms DESC, seq DESC LIMIT ?2";
        self.ask(|connection| {
            connection
                .prepare(sql)?
                .query_map(params![signed(since_ms), limit], Run::read)?
                .collect()
        })
    }

    /// Calls `visit` with the runs that ended since a time, unix milliseconds, in the order of
    /// their ends.
    pub fn each_run_since(
        &self,
        since_ms: u64,
        mut visit: impl FnMut(Run),
    ) -> Result<(), HistoryError> {
        let sql = "SELECT * FROM runs WHERE time_ms >= ?1 ORDER BY time_ms, seq";
        self.ask(|connection| {
            let mut statement = connection.prepare(sql)?;
            let mut rows = statement.query([signed(since_ms)])?;
            while let Some(row) = rows.next()? {
                visit(Run::read(row)?);
            }
            Ok(())
        })
    }
}

/// Returns the text of [`Run::node_class`] for pairs of a node and its class.
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
        // Of more names than the run has nodes, the line is not of this run.
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
