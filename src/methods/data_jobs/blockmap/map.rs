// SPDX-License-Identifier: GPL-3.0-or-later
//! The block map of a job, made by the daemon and read by the job.

use std::collections::HashMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::assignment::Assignment;
use super::splits::Split;
use phalanx_core::blocks::{File, Located};

/// A node of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MapNode {
    /// NodeName.
    pub name: String,
    /// Tasks that the job is expected to run on the node.
    pub tasks: u32,
    /// Speed of each task in thousandths of that of the fastest; `None` where all are taken as
    /// equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_permille: Option<u32>,
}

/// A split and the task that reads it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Range {
    /// Index into `files`.
    pub file: u32,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Index into `nodes`.
    pub node: u32,
    /// Number of the task on the node, from 0.
    pub slot: u32,
    /// Indexes into `holders`: the nodes that hold the whole split, or of an erasure-coded file a
    /// data unit.
    pub held_by: Vec<u32>,
}

/// The bytes that each task of a job reads.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockMap {
    /// The job.
    pub job_id: u32,
    /// User of the job.
    pub user_id: u32,
    /// The job's nodes in Slurm's order.
    pub nodes: Vec<MapNode>,
    /// Nodes that hold some split.
    pub holders: Vec<String>,
    /// URIs.
    pub files: Vec<String>,
    /// Splits in the order of the input.
    pub ranges: Vec<Range>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl BlockMap {
    /// The map of a job with `tasks[i]` tasks on the node `names[i]`; `holder` gives the node of a
    /// DataNode.
    #[must_use]
    pub fn new(
        (job_id, user_id): (u32, u32),
        input: &Located,
        splits: &[Split],
        assignment: &Assignment,
        nodes: Vec<MapNode>,
        holder: impl Fn(u32) -> Option<String>,
    ) -> Self {
        let owners: Vec<(u32, u32)> = (0u32..)
            .zip(&nodes)
            .flat_map(|(at, node)| (0..node.tasks).map(move |slot| (at, slot)))
            .collect();
        let mut holders: Vec<String> = Vec::new();
        let mut known: HashMap<u32, Option<u32>> = HashMap::new();
        let mut number = |datanode: u32| {
            *known.entry(datanode).or_insert_with(|| {
                let name = holder(datanode)?;
                let at = holders.iter().position(|other| *other == name).unwrap_or_else(|| {
                    holders.push(name);
                    holders.len() - 1
                });
                u32::try_from(at).ok()
            })
        };
        let range = |(split, task): (&Split, &u32)| {
            let task = *task as usize;
            let (node, slot) = owners.get(task).copied().unwrap_or_default();
            let most = split.held.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
            let whole = split.held.iter().filter(|(_, bytes)| *bytes == most && most > 0);
            let mut held_by: Vec<u32> = whole.filter_map(|(at, _)| number(*at)).collect();
            held_by.sort_unstable();
            held_by.dedup();
            Range {
                file: split.file,
                offset: split.offset,
                length: split.length,
                node,
                slot,
                held_by,
            }
        };
        let ranges = splits.iter().zip(&assignment.task).map(range).collect();
        let uri = |file: &File| format!("{}{}", input.base, file.path);
        let files = input.files.iter().map(uri).collect();
        Self { job_id, user_id, nodes, holders, files, ranges, warnings: input.warnings.clone() }
    }

    /// Whether the node `name` holds the split.
    #[must_use]
    pub fn is_local(&self, range: &Range, node: &str) -> bool {
        let name = |at: &u32| self.holders.get(usize::try_from(*at).ok()?);
        range.held_by.iter().filter_map(name).any(|holder| holder == node)
    }

    /// Name of the node on which a split is read.
    #[must_use]
    pub fn node_of(&self, range: &Range) -> &str {
        let at = range.node as usize;
        self.nodes.get(at).map_or("", |node| &node.name)
    }

    /// URI of a split's file.
    #[must_use]
    pub fn uri(&self, range: &Range) -> &str {
        let at = range.file as usize;
        self.files.get(at).map_or("", String::as_str)
    }

    /// Number of the task that reads a split, when tasks are numbered node by node.
    #[must_use]
    pub fn task(&self, range: &Range) -> u64 {
        let before = self.nodes.iter().take(range.node as usize);
        before.map(|node| u64::from(node.tasks)).sum::<u64>() + u64::from(range.slot)
    }

    /// Bytes of the input.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.length).sum()
    }

    /// Bytes that tasks read from a disk of their own node.
    #[must_use]
    pub fn local_bytes(&self) -> u64 {
        let local = |range: &&Range| self.is_local(range, self.node_of(range));
        self.ranges.iter().filter(local).map(|range| range.length).sum()
    }

    /// Writes one line a split: task, node, URI, offset, length, 1 if local else 0; tabs between.
    #[must_use]
    pub fn to_tsv(&self) -> String {
        let mut first = Vec::with_capacity(self.nodes.len());
        let mut sum = 0u64;
        for node in &self.nodes {
            first.push(sum);
            sum += u64::from(node.tasks);
        }
        let mut text = String::new();
        for range in &self.ranges {
            let at = range.node as usize;
            let task = first.get(at).copied().unwrap_or(0) + u64::from(range.slot);
            self.write_line(&mut text, task, self.node_of(range), range);
        }
        text
    }

    /// Writes one line of [`Self::to_tsv`].
    pub fn write_line(&self, text: &mut String, task: u64, node: &str, range: &Range) {
        let local = u8::from(self.is_local(range, node));
        let uri = escaped(self.uri(range));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{task}\t{}\t{uri}\t{}\t{}\t{local}",
            escaped(node),
            range.offset,
            range.length
        );
    }
}

/// Removes from a text what would break a line of the table or of a shell script.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        } else {
            out.push(c);
        }
    }
    out
}
