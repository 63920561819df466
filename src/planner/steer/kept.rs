// SPDX-License-Identifier: GPL-3.0-or-later
//! The steers in force as plain data, for recordings.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Entry, Method, Steer, SteerTable, Steers};
use crate::cluster::Table;

/// Steers of a table, each with the tasks started in its tiers.
pub type Rows = Vec<(Arc<Steer>, Vec<u32>)>;

impl SteerTable {
    /// Everything in it, by key.
    pub fn rows(&self) -> Rows {
        let entries = self.by_job.values();
        let mut rows: Rows = entries.map(|e| (Arc::clone(&e.steer), e.taken.clone())).collect();
        rows.sort_unstable_by_key(|(steer, _)| steer.key);
        rows
    }

    /// From its rows, whose nodes are indexes of `table`.
    pub fn of_rows(table: Arc<Table>, rows: Rows) -> Self {
        let entry = |(steer, taken): (Arc<Steer>, Vec<u32>)| (steer.key, Entry { steer, taken });
        let by_job: HashMap<_, _> = rows.into_iter().map(entry).collect();
        Self::of_entries(table, by_job)
    }

    /// The node table that it was made for.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

impl Steers {
    /// The tables by method.
    pub fn tables(&self) -> impl Iterator<Item = (Method, &SteerTable)> {
        self.tables.iter().map(|(method, table)| (*method, table))
    }

    /// Greatest job id that the latest plan knew.
    pub fn newest(&self) -> Option<u32> {
        self.newest
    }

    /// Plans know the jobs up to this id now.
    pub fn set_newest(&mut self, newest: Option<u32>) {
        self.newest = newest;
    }
}
