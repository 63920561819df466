// SPDX-License-Identifier: GPL-3.0-or-later
//! Datasets by name, from the site's list and the caches of the nodes together.

use std::collections::HashMap;
use std::sync::Arc;

use super::caches::Held;
use super::list::{List, Part};
use super::{Locations, Question};
use phalanx_core::blocks::{Block, DataNode, File, Interner, Located, Replica, Storage};
use phalanx_core::limits::{DATASET_PARTS, HDFS_BLOCKS_MAX};

/// Both sources of datasets, as they were at one moment.
#[derive(Debug, Clone, Default)]
pub struct Datasets {
    /// The last good list.
    pub list: Arc<List>,
    /// Error in the list's file, for which an older list is in force.
    pub list_error: Option<String>,
    /// Datasets in the caches of nodes.
    pub held: HashMap<Arc<str>, Arc<Held>>,
    /// Whether neither source is configured.
    pub unconfigured: bool,
    /// Whether a source was not read yet, so that an unknown name means nothing.
    pub unread: bool,
}

/// Error where neither source is configured.
pub const UNCONFIGURED: &str = "neither data_jobs.caches nor data_jobs.locations is set";

/// A dataset as the two sources know it.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    pub parts: Option<Arc<[Part]>>,
    /// Nodes that hold it, by their reports.
    pub held: Option<Arc<Held>>,
}

impl Dataset {
    /// Whether both sources know the same of the dataset as at another moment.
    pub fn is_same(&self, other: &Self) -> bool {
        fn same<T: ?Sized>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
            match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                _ => false,
            }
        }
        same(self.parts.as_ref(), other.parts.as_ref())
            && same(self.held.as_ref(), other.held.as_ref())
    }
}

impl Datasets {
    /// Returns the dataset of a name; an unknown one has neither parts nor nodes.
    pub fn dataset(&self, name: &str) -> Dataset {
        Dataset { parts: self.list.of.get(name).cloned(), held: self.held.get(name).cloned() }
    }
}

impl Locations for Arc<Datasets> {
    fn locate(&mut self, question: &Question<'_>) -> Result<Arc<Located>, String> {
        let name = question.input;
        if self.unconfigured {
            return Err(UNCONFIGURED.to_owned());
        }
        let Dataset { parts, held } = self.dataset(name);
        let held = held.unwrap_or_default();
        let mut located = match parts {
            Some(parts) => listed(name, &parts, &held)?,
            None if !held.on.is_empty() => cached(name, &held),
            None => return Err(unknown(name, &held)),
        };
        if let Some(error) = &self.list_error {
            located.warnings.push(format!("a former list of locations counts: {error}"));
        }
        Ok(Arc::new(located))
    }
}

fn unknown(name: &str, held: &Held) -> String {
    match &held.last_evicted {
        Some(node) => format!("dataset {name}: no node holds it any more, last {node}"),
        None => format!("dataset {name}: no node holds it, and no list names it"),
    }
}

/// A node of Slurm as a host that holds bytes.
fn host(name: &str) -> DataNode {
    DataNode { host: name.to_owned(), ip: String::new(), port: 0, rack: String::new() }
}

fn replica(datanode: u32, bytes: u64, cached: bool) -> Replica {
    Replica { datanode, bytes, storage: Storage::Disk, cached, leaving: false }
}

fn one_file(name: &str, interner: Interner, blocks: Vec<Block>) -> Located {
    let length = blocks.last().map_or(0, |block| block.offset + block.length);
    let file = File { path: name.to_owned(), length, blocks, ..File::default() };
    Located { datanodes: interner.datanodes, files: vec![file], ..Located::default() }
}

/// Nodes that hold so much of a dataset that they count as holding all of it. Directories of one
/// dataset need not have the same bytes; one that has far less is being filled or emptied.
fn whole(held: &Held, total: u64) -> impl Iterator<Item = &Arc<str>> {
    let all = move |bytes: u64| 20 * u128::from(bytes) >= 19 * u128::from(total);
    held.on.iter().filter(move |(_, bytes)| all(**bytes)).map(|(node, _)| node)
}

/// A dataset of the list; nodes that cache all of it hold each part as well.
fn listed(name: &str, parts: &[Part], held: &Held) -> Result<Located, String> {
    if parts.len() > HDFS_BLOCKS_MAX {
        return Err(format!("dataset {name}: more than {HDFS_BLOCKS_MAX} parts"));
    }
    let total: u64 = parts.iter().map(|part| part.bytes).sum();
    let mut interner = Interner::default();
    let whole: Vec<u32> = whole(held, total).map(|node| interner.index(host(node))).collect();
    let (mut blocks, mut offset) = (Vec::with_capacity(parts.len()), 0);
    for part in parts.iter().filter(|part| part.bytes > 0) {
        let mut on: Vec<u32> = part.hosts.iter().map(|name| interner.index(host(name))).collect();
        on.extend(&whole);
        on.sort_unstable();
        on.dedup();
        let one = |at: u32| replica(at, part.bytes, whole.contains(&at));
        let replicas = on.into_iter().map(one).collect();
        blocks.push(Block { offset, length: part.bytes, corrupt: false, replicas });
        offset += part.bytes;
    }
    Ok(one_file(name, interner, blocks))
}

/// A dataset that only nodes know: as long as the most that one of them holds, and cut into parts,
/// since it has none of its own.
fn cached(name: &str, held: &Held) -> Located {
    let total = held.on.values().copied().max().unwrap_or(0);
    let mut interner = Interner::default();
    let on: Vec<u32> = whole(held, total).map(|node| interner.index(host(node))).collect();
    let size = total.div_ceil(DATASET_PARTS).max(1);
    let (mut blocks, mut offset) = (Vec::new(), 0);
    while offset < total {
        let length = size.min(total - offset);
        let replicas = on.iter().map(|&at| replica(at, length, true)).collect();
        blocks.push(Block { offset, length, corrupt: false, replicas });
        offset += length;
    }
    one_file(name, interner, blocks)
}
