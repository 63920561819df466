// SPDX-License-Identifier: GPL-3.0-or-later
//! Files of a distributed file system as a list of blocks with the hosts that hold them
//! (`docs/methods.md`, section Data jobs). Hosts are interned: a large input has millions of
//! replicas on some hundred hosts.

use crate::number::as_u32;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// A host that stores blocks, as the file system names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DataNode {
    /// Host name that the DataNode reports.
    pub host: String,
    /// Address that the DataNode reports.
    pub ip: String,
    /// Port at which the DataNode transfers data.
    pub port: u16,
    /// Network location of the DataNode, such as `/rack-7`.
    pub rack: String,
}

/// Storage medium of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// Hard disk; the default where the file system does not say.
    #[default]
    Disk,
    /// Solid state disk.
    Ssd,
    /// Dense and slow.
    Archive,
    /// Memory.
    Ram,
    /// Storage outside the cluster that the DataNode mounts: local to no host.
    Provided,
    /// Non-volatile memory.
    Nvdimm,
}

/// A copy of a block, or of a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// Index into [`Located::datanodes`].
    pub datanode: u32,
    /// Bytes of the block that are read locally there: all of it, or of an erasure-coded block
    /// group the share of one data unit.
    pub bytes: u64,
    /// Storage medium of the copy.
    pub storage: Storage,
    /// Whether the DataNode also holds the block in memory.
    pub cached: bool,
    /// Whether the DataNode is being taken out of service.
    pub leaving: bool,
}

/// A block of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Block {
    /// First byte within the file.
    pub offset: u64,
    /// Bytes of the block.
    pub length: u64,
    /// Whether no replica is readable.
    pub corrupt: bool,
    /// Replicas by DataNode, ascending; empty if none is readable.
    pub replicas: Vec<Replica>,
}

/// A file and its blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct File {
    /// Absolute path within the file system.
    pub path: String,
    /// Bytes that can be read.
    pub length: u64,
    /// Time of the last change, Unix milliseconds.
    pub modified_ms: u64,
    /// Whether a client is writing the file.
    pub open: bool,
    /// Ascending by offset, without gaps, covering `0..length`.
    pub blocks: Vec<Block>,
}

/// The files of one input.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Located {
    /// Prefix of the paths, such as `hdfs://nn:8020`.
    pub base: String,
    /// Hosts of all replicas.
    pub datanodes: Vec<DataNode>,
    /// Files in the order of the input, by path within one directory.
    pub files: Vec<File>,
    /// Warnings for the user: skipped entries, unreadable blocks.
    pub warnings: Vec<String>,
}

impl Located {
    /// Bytes of all files.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.length))
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.files.iter().map(|file| file.blocks.len()).sum()
    }

    /// Estimated bytes that the files take in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let block = |block: &Block| size_of::<Block>() + size_of_val(&*block.replicas);
        let file = |file: &File| {
            size_of::<File>() + file.path.len() + file.blocks.iter().map(block).sum::<usize>()
        };
        let names = |of: &DataNode| of.host.len() + of.ip.len() + of.rack.len();
        let host = |of: &DataNode| size_of::<DataNode>() + names(of);
        self.files.iter().map(file).chain(self.datanodes.iter().map(host)).sum()
    }

    /// Takes over the files of another input of the same file system.
    pub fn append(&mut self, other: Located) {
        let mut interner = Interner::of(std::mem::take(&mut self.datanodes));
        let map: Vec<u32> = other.datanodes.into_iter().map(|d| interner.index(d)).collect();
        self.datanodes = interner.datanodes;
        for mut file in other.files {
            for replica in file.blocks.iter_mut().flat_map(|b| &mut b.replicas) {
                let at = usize::try_from(replica.datanode).ok().and_then(|at| map.get(at));
                replica.datanode = at.copied().unwrap_or(replica.datanode);
            }
            self.files.push(file);
        }
        self.warnings.extend(other.warnings);
    }
}

/// Gives each host one index.
#[derive(Debug, Default)]
pub struct Interner {
    /// Hosts by index.
    pub datanodes: Vec<DataNode>,
    index: HashMap<DataNode, u32>,
}

impl Interner {
    /// Goes on from known hosts.
    #[must_use]
    pub fn of(datanodes: Vec<DataNode>) -> Self {
        let mut interner = Self::default();
        datanodes.into_iter().for_each(|datanode| {
            interner.index(datanode);
        });
        interner
    }

    /// The host's index.
    pub fn index(&mut self, datanode: DataNode) -> u32 {
        if let Some(&at) = self.index.get(&datanode) {
            return at;
        }
        let at = as_u32(self.datanodes.len());
        self.datanodes.push(datanode.clone());
        self.index.insert(datanode, at);
        at
    }
}
