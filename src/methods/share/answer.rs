// SPDX-License-Identifier: GPL-3.0-or-later
//! The answer.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// The partition of the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Units of work that each node should have.
    pub target: Vec<u64>,
    /// Moves of items, in the order of the decisions.
    pub transfers: Vec<TransferAnswer>,
    /// Items of each node; only when items were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<Partition>,
    /// Items on a node without their data; only when items were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_items: Option<usize>,
}

/// `count` units of work move from one node to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransferAnswer {
    /// Node that has too much.
    pub from: String,
    /// Node that has too little.
    pub to: String,
    /// Units of work; with items their weights added up.
    pub count: u64,
}

/// Item ids by node, nodes in the problem's order; a node without items is left
/// out. Written as one JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition(pub Vec<(String, Vec<String>)>);

impl Serialize for Partition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (node, ids) in &self.0 {
            map.serialize_entry(node, ids)?;
        }
        map.end()
    }
}
