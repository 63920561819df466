// SPDX-License-Identifier: GPL-3.0-or-later
//! The preferences in force, on the node table that they were made for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::job_class::JobClassRule;
use super::model::{CandidateSet, JobKey, Method, Preference};
use super::question::Question;
use crate::cluster::{RunningJob, Table};
use phalanx_core::NodeIdx;
use phalanx_core::limits::{CANDIDATE_SETS_MAX, PREFERENCES_MAX};
use phalanx_core::shape::LeftToSlurm;
use phalanx_core::snapshot::{JobState, Snapshot};

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) preference: Arc<Preference>,
    /// Number of tasks started in each set since the table was made.
    pub(super) taken: Vec<u32>,
}

/// Preferences of a table as plain data, each with the tasks started in its sets.
pub type Rows = Vec<(Arc<Preference>, Vec<u32>)>;

/// The preferences of one method, on the node table that they were made for.
#[derive(Debug)]
pub struct PreferenceTable {
    pub(super) table: Arc<Table>,
    pub(super) by_job: HashMap<JobKey, Entry>,
    /// The rule that makes the table's keys of job classes; `None` if it has none.
    job_class_rule: Option<JobClassRule>,
}

impl PreferenceTable {
    /// All rows of the table, by key.
    pub fn rows(&self) -> Rows {
        let entries = self.by_job.values();
        let mut rows: Rows =
            entries.map(|e| (Arc::clone(&e.preference), e.taken.clone())).collect();
        rows.sort_unstable_by_key(|(preference, _)| preference.key);
        rows
    }

    /// A table of `rows`, whose nodes are indexes of `table`.
    pub fn of_rows(table: Arc<Table>, rows: Rows) -> Self {
        let entry = |(preference, taken): (Arc<Preference>, Vec<u32>)| {
            debug_assert_eq!(preference.sets.len(), taken.len(), "a count for each set");
            (preference.key, Entry { preference, taken })
        };
        let by_job: HashMap<_, _> = rows.into_iter().map(entry).collect();
        let class = |key: &JobKey| match key {
            JobKey::Class(class) => Some(JobClassRule::of(class)),
            _ => None,
        };
        let job_class_rule = by_job.keys().find_map(class);
        Self { table, by_job, job_class_rule }
    }

    /// The node table that the preferences were made for.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Makes the table of a plan's preferences, whose nodes are indexes of `table`. Those beyond
    /// [`PREFERENCES_MAX`] are left out.
    pub fn new(table: Arc<Table>, preferences: Vec<Preference>) -> Self {
        let row = |mut preference: Preference| {
            preference.sets.truncate(CANDIDATE_SETS_MAX);
            let mut nodes = preference.sets.iter().flat_map(|set| set.nodes.iter());
            debug_assert!(nodes.all(|node| node.at() < table.nodes.len()), "{preference:?}");
            let taken = vec![0; preference.sets.len()];
            (Arc::new(preference), taken)
        };
        let rows = preferences.into_iter().take(PREFERENCES_MAX).map(row).collect();
        Self::of_rows(table, rows)
    }

    /// The preference for the job class of the question.
    fn like(&self, ask: &Question<'_>) -> Option<&Entry> {
        self.by_job.get(&JobKey::Class(self.job_class_rule?.key(ask.origin, &ask.shape)))
    }

    /// Whether there is no preference.
    pub fn is_empty(&self) -> bool {
        self.by_job.is_empty()
    }

    /// Counts the tasks that have started since the plan's snapshot was taken.
    pub fn count_since<'a>(
        &mut self,
        snapshot: &Snapshot,
        running: impl Iterator<Item = &'a RunningJob>,
    ) {
        if !self.by_job.keys().any(|key| matches!(key, JobKey::Array(_))) {
            return;
        }
        let waits = |id| snapshot.job(id).is_none_or(|job| job.state == JobState::Pending);
        for (job, (array, _)) in running.filter_map(|job| Some((job, job.array?))) {
            if self.by_job.contains_key(&JobKey::Array(array)) && waits(job.id) {
                self.began(array, job.held.iter().map(|held| held.node));
            }
        }
    }

    /// Counts a task's start on `nodes`: the quota of its array there shrinks.
    fn began(&mut self, array_job_id: u32, nodes: impl Iterator<Item = NodeIdx> + Clone) {
        let Some(entry) = self.by_job.get_mut(&JobKey::Array(array_job_id)) else { return };
        let inside =
            |set: &CandidateSet| nodes.clone().all(|node| set.nodes.binary_search(&node).is_ok());
        let at = entry.preference.sets.iter().position(inside);
        if let Some(taken) = at.and_then(|at| entry.taken.get_mut(at)) {
            *taken = taken.saturating_add(1);
        }
    }
}

/// The preferences in force, by method.
#[derive(Debug, Default)]
pub struct Preferences {
    pub(super) tables: BTreeMap<Method, PreferenceTable>,
    /// Greatest job id that the latest plan knew.
    pub(super) newest: Option<u32>,
}

impl Preferences {
    /// The tables by method.
    pub fn tables(&self) -> impl Iterator<Item = (Method, &PreferenceTable)> {
        self.tables.iter().map(|(method, table)| (*method, table))
    }

    /// Greatest job id that the latest plan knew.
    pub fn newest(&self) -> Option<u32> {
        self.newest
    }

    /// Notes that plans know the jobs up to an id.
    pub fn set_newest(&mut self, newest: Option<u32>) {
        self.newest = newest;
    }

    /// Replaces the preferences of one method. The former ones are returned, so that they can be
    /// dropped where nobody waits.
    pub fn replace(&mut self, method: Method, table: PreferenceTable) -> Option<PreferenceTable> {
        if table.is_empty() {
            self.tables.remove(&method)
        } else {
            self.tables.insert(method, table)
        }
    }

    /// Notes that plans know all jobs of a snapshot.
    pub fn saw(&mut self, snapshot: &Snapshot) {
        self.newest = snapshot.all_jobs().map(|job| job.id).max().or(Some(0));
    }

    /// Whether the question is of an array that no plan has seen yet.
    pub(super) fn is_new_array(&self, ask: &Question<'_>) -> bool {
        let plain = ask.shape.left_to_slurm.is_none() && ask.shape.wanted_nodes() == 1;
        plain && ask.array_job_id.zip(self.newest).is_some_and(|(array, newest)| array > newest)
    }

    /// Whether the question is of a gang that no plan has seen yet.
    pub(super) fn is_new_gang(&self, ask: &Question<'_>) -> bool {
        let het = ask.shape.left_to_slurm == Some(LeftToSlurm::HetJob);
        let gang = het || (ask.shape.left_to_slurm.is_none() && ask.shape.wanted_nodes() > 1);
        gang && !ask.input && self.newest.is_some_and(|newest| ask.job_id > newest)
    }

    pub(super) fn find(&self, ask: &Question<'_>) -> Option<(&PreferenceTable, &Entry)> {
        if self.tables.is_empty() {
            return None;
        }
        let element = ask.array;
        let keys = [
            element.map(|(array, task)| JobKey::Element(array, task)),
            Some(JobKey::Job(ask.job_id)),
            ask.array_job_id.map(JobKey::Array),
        ];
        let tables = || self.tables.values();
        let own = keys
            .iter()
            .flatten()
            .find_map(|key| tables().find_map(|table| Some((table, table.by_job.get(key)?))));
        // A preference for the job itself comes before that of its class.
        let plain = ask.shape.left_to_slurm.is_none();
        let like = || tables().find_map(|table| Some((table, table.like(ask)?)));
        own.or_else(|| if plain { like() } else { None })
    }

    /// Whether a method has a preference for the job itself, rather than its class.
    pub(super) fn has_own(&self, method: Method, ask: &Question<'_>) -> bool {
        let keys = [Some(JobKey::Job(ask.job_id)), ask.array_job_id.map(JobKey::Array)];
        let table = self.tables.get(&method);
        table.is_some_and(|t| keys.iter().flatten().any(|key| t.by_job.contains_key(key)))
    }

    /// Counts a task's start on `nodes`: the quota of its array there shrinks.
    pub fn began(&mut self, array_job_id: u32, nodes: impl Iterator<Item = NodeIdx> + Clone) {
        for table in self.tables.values_mut() {
            table.began(array_job_id, nodes.clone());
        }
    }
}
