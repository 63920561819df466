// SPDX-License-Identifier: GPL-3.0-or-later
//! Datasets by name, from the site's list.

use std::sync::Arc;

use super::list::{List, Part};
use super::{Locations, Question};
use phalanx_core::blocks::{Block, DataNode, File, Interner, Located, Replica, Storage};
use phalanx_core::limits::HDFS_BLOCKS_MAX;

/// The dataset list at one moment.
#[derive(Debug, Clone, Default)]
pub struct Datasets {
    /// The last good list.
    pub list: Arc<List>,
    /// Error in the list's file, because of which an older list is in force.
    pub list_error: Option<String>,
    /// Whether no list is configured.
    pub unconfigured: bool,
    /// Whether the list was not read yet, so that an unknown name means nothing.
    pub unread: bool,
}

/// Error where no list is configured.
pub const UNCONFIGURED: &str = "data_jobs.locations is not set";

/// Parts of a dataset; none where the list does not name it.
pub type Dataset = Option<Arc<[Part]>>;

impl Datasets {
    /// Returns the dataset of a name.
    pub fn dataset(&self, name: &str) -> Dataset {
        self.list.of.get(name).cloned()
    }

    /// Whether the list says the same of a name as at another moment.
    pub fn is_current(&self, name: &str, known: &Dataset) -> bool {
        match (self.list.of.get(name), known) {
            (None, None) => true,
            (Some(now), Some(then)) => Arc::ptr_eq(now, then),
            _ => false,
        }
    }
}

impl Locations for Arc<Datasets> {
    fn locate(&mut self, question: &Question<'_>) -> Result<Arc<Located>, String> {
        let name = question.input;
        if self.unconfigured {
            return Err(UNCONFIGURED.to_owned());
        }
        let parts =
            self.dataset(name).ok_or_else(|| format!("dataset {name}: no list names it"))?;
        let mut located = listed(name, &parts)?;
        if let Some(error) = &self.list_error {
            located.warnings.push(format!("a former list of locations counts: {error}"));
        }
        Ok(Arc::new(located))
    }
}

/// A node of Slurm, as a host that holds bytes.
fn host(name: &str) -> DataNode {
    DataNode { host: name.to_owned(), ip: String::new(), port: 0, rack: String::new() }
}

/// The parts of a dataset in the form of one file's blocks.
fn listed(name: &str, parts: &[Part]) -> Result<Located, String> {
    if parts.len() > HDFS_BLOCKS_MAX {
        return Err(format!("dataset {name}: more than {HDFS_BLOCKS_MAX} parts"));
    }
    let mut interner = Interner::default();
    let (mut blocks, mut offset) = (Vec::with_capacity(parts.len()), 0);
    for part in parts.iter().filter(|part| part.bytes > 0) {
        let mut on: Vec<u32> = part.hosts.iter().map(|name| interner.index(host(name))).collect();
        on.sort_unstable();
        on.dedup();
        let (bytes, storage) = (part.bytes, Storage::Disk);
        let one = |datanode| Replica { datanode, bytes, storage, cached: false, leaving: false };
        let replicas = on.into_iter().map(one).collect();
        blocks.push(Block { offset, length: part.bytes, corrupt: false, replicas });
        offset += part.bytes;
    }
    let file = File { path: name.to_owned(), length: offset, blocks, ..File::default() };
    Ok(Located { datanodes: interner.datanodes, files: vec![file], ..Located::default() })
}
