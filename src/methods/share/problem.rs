// SPDX-License-Identifier: GPL-3.0-or-later
//! The problem of dividing work among nodes as users state it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use phalanx_core::limits::SHARE_LOAD_MAX;
use phalanx_core::problem::{InputError, distinct, length, present, refuse};

/// Nodes, their capabilities, and the work: either `load` or `items`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// Names, all different; their order breaks ties.
    pub nodes: Vec<String>,
    /// Capability of each node, relative to the others, >= 0.
    pub capability: Vec<f64>,
    /// Units of work on each node before the partition.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub load: Option<Vec<u64>>,
    /// Pieces of work with the nodes that hold their data.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<Item>>,
}

/// A piece of work that cannot be split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// A name that no other item has.
    pub id: String,
    /// Nodes that hold the item's data, at least one, all different.
    pub replicas: Vec<String>,
    /// Units of work, at least 1.
    #[serde(default = "default_weight")]
    pub weight: u64,
}

fn default_weight() -> u64 {
    1
}

impl Problem {
    /// Checks the problem; gives the index of every node name.
    ///
    /// # Errors
    /// The first field that breaks a rule.
    pub(super) fn validate(&self) -> Result<BTreeMap<&str, usize>, InputError> {
        distinct(self.nodes.iter().map(String::as_str), |i| format!("nodes[{i}]"))?;
        length(|| "capability".into(), self.capability.len(), self.nodes.len(), "nodes")?;
        for (i, &capability) in self.capability.iter().enumerate() {
            if !capability.is_finite() || capability < 0.0 {
                let what = format!("must be a number >= 0, got {capability}");
                return refuse(format!("capability[{i}]"), what);
            }
        }
        let index = self.nodes.iter().enumerate().map(|(i, name)| (name.as_str(), i)).collect();
        match (&self.load, &self.items) {
            (Some(load), None) => self.validate_load(load)?,
            (None, Some(items)) => validate_items(items, &index)?,
            (Some(_), Some(_)) => {
                return refuse("items", "give either load or items, not both");
            }
            (None, None) => {
                return refuse("load", "missing; give either load or items");
            }
        }
        Ok(index)
    }

    fn validate_load(&self, load: &[u64]) -> Result<(), InputError> {
        length(|| "load".into(), load.len(), self.nodes.len(), "nodes")?;
        sum_within("load", load.iter().copied())
    }
}

fn validate_items(items: &[Item], nodes: &BTreeMap<&str, usize>) -> Result<(), InputError> {
    distinct(items.iter().map(|item| item.id.as_str()), |i| format!("items[{i}].id"))?;
    for (i, item) in items.iter().enumerate() {
        if item.weight == 0 {
            return refuse(format!("items[{i}].weight"), "must be >= 1, got 0");
        }
        if item.replicas.is_empty() {
            let field = format!("items[{i}].replicas");
            return refuse(field, "must name at least one node");
        }
        distinct(item.replicas.iter().map(String::as_str), |r| {
            format!("items[{i}].replicas[{r}]")
        })?;
        for (r, replica) in item.replicas.iter().enumerate() {
            if !nodes.contains_key(replica.as_str()) {
                let field = format!("items[{i}].replicas[{r}]");
                return refuse(field, format!("{replica:?} is not one of `nodes`"));
            }
        }
    }
    sum_within("items", items.iter().map(|item| item.weight))
}

fn sum_within(field: &str, amounts: impl Iterator<Item = u64>) -> Result<(), InputError> {
    let sum = amounts.fold(0, u64::saturating_add);
    if sum > SHARE_LOAD_MAX {
        return refuse(field, format!("must add up to at most {SHARE_LOAD_MAX}"));
    }
    Ok(())
}

/// Node indexes of every item's replicas, ascending.
pub(super) fn replicas(items: &[Item], nodes: &BTreeMap<&str, usize>) -> Vec<Vec<usize>> {
    let holders = |item: &Item| -> Vec<usize> {
        let known = item.replicas.iter().filter_map(|name| nodes.get(name.as_str()).copied());
        let mut holders: Vec<usize> = known.collect();
        holders.sort_unstable();
        holders
    };
    items.iter().map(holders).collect()
}
