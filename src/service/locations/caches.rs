// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches: the datasets that nodes hold, as a collector on each of them reports.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use phalanx_core::limits::DATASETS_MAX;
use phalanx_methods::data_jobs::blockmap::is_dataset_name;

/// A dataset in the caches of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes on each node that holds any.
    pub on: BTreeMap<Arc<str>, u64>,
    /// Number of times that a node no longer held the dataset.
    pub evictions: u64,
    /// Last node that no longer held the dataset.
    pub last_evicted: Option<Arc<str>>,
}

/// Counts since the daemon started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Number of times that a dataset came to a node after its first report.
    pub arrivals: u64,
    /// Number of times that a node no longer held a dataset.
    pub evictions: u64,
    /// Evictions by node.
    pub evicted_from: BTreeMap<Arc<str>, u64>,
}

#[derive(Debug, Default)]
struct Report {
    /// Time of the report, as the data service has it.
    made_ms: i64,
    held: BTreeMap<Arc<str>, u64>,
    error: Option<String>,
}

#[derive(Debug, Default)]
pub struct Caches {
    nodes: BTreeMap<Arc<str>, Report>,
    of: HashMap<Arc<str>, Arc<Held>>,
    /// Arrivals and evictions of datasets.
    pub counts: CacheCounts,
}

impl Caches {
    /// The time of a node's last report.
    pub fn known(&self, node: &str) -> Option<i64> {
        self.nodes.get(node).map(|report| report.made_ms)
    }

    /// Takes the fresh reports, those that are not new without text; returns whether any changed.
    /// A node without a fresh report holds nothing that anybody knows of.
    pub fn take(&mut self, reports: Vec<(Arc<str>, i64, Option<String>)>) -> bool {
        let mut changed = false;
        let fresh: BTreeMap<&str, ()> = reports.iter().map(|(node, ..)| (&**node, ())).collect();
        let silent: Vec<Arc<str>> =
            self.nodes.keys().filter(|node| !fresh.contains_key(&***node)).cloned().collect();
        for node in silent {
            let gone = self.nodes.remove(&node).unwrap_or_default();
            changed |= self.differ(&node, &gone.held, &BTreeMap::new(), false);
        }
        for (node, made_ms, text) in reports {
            let Some(text) = text else { continue };
            let (named, error) = match parse(&text) {
                Ok(named) => named,
                Err(error) => (BTreeMap::new(), Some(error)),
            };
            if error.is_some() && self.nodes.get(&node).is_none_or(|had| had.error != error) {
                log::warn!("node {node}: its cached datasets: {}", error.as_deref().unwrap_or(""));
            }
            let had = self.nodes.remove(&node);
            let counts = error.is_none() && had.as_ref().is_some_and(|had| had.error.is_none());
            let had = had.unwrap_or_default();
            let held = self.shared(named);
            changed |= self.differ(&node, &had.held, &held, counts) || had.error != error;
            self.nodes.insert(node, Report { made_ms, held, error });
        }
        changed
    }

    /// Returns the names with one allocation for each, however many nodes hold it.
    fn shared(&self, named: BTreeMap<String, u64>) -> BTreeMap<Arc<str>, u64> {
        let one = |(name, bytes): (String, u64)| {
            let known = self.of.get_key_value(name.as_str());
            (known.map_or_else(|| Arc::from(name), |(name, _)| Arc::clone(name)), bytes)
        };
        named.into_iter().map(one).collect()
    }

    /// Enters the difference of two reports of a node; `counts`: between them things came and went.
    fn differ(
        &mut self,
        node: &Arc<str>,
        old: &BTreeMap<Arc<str>, u64>,
        new: &BTreeMap<Arc<str>, u64>,
        counts: bool,
    ) -> bool {
        let mut changed = false;
        for (name, bytes) in new.iter().filter(|(name, bytes)| old.get(*name) != Some(*bytes)) {
            if !self.of.contains_key(name) && !self.has_room() {
                continue;
            }
            let held = Arc::make_mut(self.of.entry(Arc::clone(name)).or_default());
            held.on.insert(Arc::clone(node), *bytes);
            self.counts.arrivals += u64::from(counts && !old.contains_key(name));
            changed = true;
        }
        for name in old.keys().filter(|name| !new.contains_key(*name)) {
            let Some(held) = self.of.get_mut(name) else { continue };
            let held = Arc::make_mut(held);
            held.on.remove(node);
            changed = true;
            if counts {
                held.evictions += 1;
                held.last_evicted = Some(Arc::clone(node));
                self.counts.evictions += 1;
                *self.counts.evicted_from.entry(Arc::clone(node)).or_default() += 1;
            } else if held.on.is_empty() && held.evictions == 0 {
                self.of.remove(name);
            }
        }
        changed
    }

    /// Makes room for one more name, first of datasets that nobody holds; whether there is any.
    fn has_room(&mut self) -> bool {
        if self.of.len() >= DATASETS_MAX {
            self.of.retain(|_, held| !held.on.is_empty());
        }
        self.of.len() < DATASETS_MAX
    }

    /// Datasets by name; some are held by nobody any more.
    pub fn of(&self) -> &HashMap<Arc<str>, Arc<Held>> {
        &self.of
    }

    /// Nodes with a fresh report, and those of them whose report is wrong.
    pub fn nodes(&self) -> (usize, usize) {
        let wrong = self.nodes.values().filter(|report| report.error.is_some()).count();
        (self.nodes.len(), wrong)
    }
}

/// Names and bytes of a report, and what was left out of it.
type Named = (BTreeMap<String, u64>, Option<String>);

/// Reads `{"NAME": BYTES, ...}`. What has no bytes is not held.
fn parse(text: &str) -> Result<Named, String> {
    let mut named: BTreeMap<String, u64> = serde_json::from_str(text).map_err(|error| {
        format!("expected a JSON object of names and bytes, {{\"NAME\": BYTES}}: {error}")
    })?;
    let all = named.len();
    named.retain(|name, _| is_dataset_name(name));
    let left_out = all - named.len();
    named.retain(|_, bytes| *bytes > 0);
    let error = (left_out > 0).then(|| format!("{left_out} names that can be none are left out"));
    Ok((named, error))
}
