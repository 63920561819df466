// SPDX-License-Identifier: GPL-3.0-or-later
//! Requests to a NameNode, by either protocol, and its reports.

use super::error::HdfsError;
use phalanx_core::blocks::{Block, DataNode, File, Interner, Located, Replica, Storage};
use phalanx_core::limits::{HDFS_BLOCKS_MAX, HDFS_FILES_MAX, HDFS_PAGE_BLOCKS};

/// Greatest number of warnings.
const WARNINGS_MAX: usize = 10;

/// A file, or an entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Absolute path.
    pub(super) path: String,
    pub(super) kind: Kind,
    pub(super) length: u64,
    pub(super) modified_ms: u64,
    pub(super) replication: u32,
    pub(super) block_size: u64,
    /// Striping, if the file is erasure-coded.
    pub(super) striping: Option<Striping>,
}

impl Entry {
    /// Whether the blocks fit into one page.
    pub(super) fn is_small(&self) -> bool {
        let blocks = self.length.div_ceil(self.block_size.max(1));
        blocks.saturating_mul(u64::from(self.replication.max(1))) <= HDFS_PAGE_BLOCKS
    }
}

/// The path of an entry of a directory; the empty name is the directory itself.
pub(super) fn path_of(directory: &str, name: &str) -> String {
    match (directory, name) {
        (path, "") => path.to_owned(),
        ("/", name) => format!("/{name}"),
        (path, name) => format!("{path}/{name}"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
    Link,
}

/// The requests of the resolver to a NameNode, by either protocol.
pub(super) trait BlockSource {
    /// Returns one file or directory; `None` if there is none.
    fn status(&mut self, path: &str) -> Result<Option<Entry>, HdfsError>;
    /// Returns all entries of a directory, read in pages; stops with an error beyond `most`.
    fn list(&mut self, path: &str, most: usize) -> Result<Vec<Entry>, HdfsError>;
    /// Returns the blocks of some files of one directory, in the order given. `listed`: one listing
    /// of that directory may bring the blocks of all its files, for each that [is small].
    ///
    /// [is small]: Entry::is_small
    fn blocks(&mut self, files: &[Entry], listed: bool, sink: &mut Sink) -> Result<(), HdfsError>;
}

/// A replica as a source reports it.
#[derive(Debug)]
pub(super) struct FoundReplica {
    pub(super) datanode: DataNode,
    pub(super) storage: Storage,
    pub(super) cached: bool,
    pub(super) leaving: bool,
    /// Index of the internal block of an erasure-coded group.
    pub(super) unit: Option<u32>,
}

/// Erasure coding that distributes cells of one size round robin over data units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Striping {
    pub(super) data_units: u64,
    pub(super) cell: u64,
}

impl Striping {
    /// Bytes of a group's data in one of the group's internal blocks; parity blocks hold none.
    pub(super) fn bytes(self, group: u64, unit: u64) -> u64 {
        let cell = self.cell.max(1);
        let stripe = cell.saturating_mul(self.data_units.max(1));
        let rest = group % stripe;
        let last = rest.saturating_sub(unit.saturating_mul(cell)).min(cell);
        if unit < self.data_units { (group / stripe).saturating_mul(cell) + last } else { 0 }
    }
}

/// A block as a source reports it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) corrupt: bool,
    /// Striping of an erasure-coded group.
    pub(super) striping: Option<Striping>,
    pub(super) replicas: Vec<FoundReplica>,
}

/// Collects the findings of a source, within the limits.
#[derive(Debug, Default)]
pub(super) struct Sink {
    located: Located,
    interner: Interner,
    blocks: usize,
    unreadable: usize,
}

impl Sink {
    pub(super) fn begin(&mut self, entry: &Entry, open: bool) -> Result<(), HdfsError> {
        if self.located.files.len() >= HDFS_FILES_MAX {
            return Err(HdfsError::TooMuch(format!("more than {HDFS_FILES_MAX} files")));
        }
        self.located.files.push(File {
            path: entry.path.clone(),
            length: entry.length,
            modified_ms: entry.modified_ms,
            open,
            blocks: Vec::new(),
        });
        Ok(())
    }

    pub(super) fn block(&mut self, found: Found) -> Result<(), HdfsError> {
        self.blocks += 1;
        if self.blocks > HDFS_BLOCKS_MAX {
            return Err(HdfsError::TooMuch(format!("more than {HDFS_BLOCKS_MAX} blocks")));
        }
        let mut replicas = Vec::new();
        if !found.corrupt {
            let (length, striping) = (found.length, found.striping);
            let among = found.replicas.len() as u64;
            let with_bytes = |r| replica(r, (length, among), striping, &mut self.interner);
            replicas.extend(found.replicas.into_iter().filter_map(with_bytes));
        }
        replicas.sort_unstable_by_key(|r| r.datanode);
        let corrupt = replicas.is_empty() && found.length > 0;
        self.unreadable += usize::from(corrupt);
        if let Some(file) = self.located.files.last_mut() {
            let (offset, length) = (found.offset, found.length);
            file.blocks.push(Block { offset, length, corrupt, replicas });
        }
        Ok(())
    }

    /// Takes the blocks of one file in pages: `ask` gets the offset and the length of a page and
    /// returns whether the file is being written, and the blocks.
    pub(super) fn pages(
        &mut self,
        file: &Entry,
        mut ask: impl FnMut(u64, u64) -> Result<(bool, Vec<Found>), HdfsError>,
    ) -> Result<(), HdfsError> {
        let length = file.block_size.max(1).saturating_mul(HDFS_PAGE_BLOCKS);
        let (mut cursor, mut begun) = (0, false);
        loop {
            let (open, found) = ask(cursor, length)?;
            if !begun {
                self.begin(file, open)?;
                begun = true;
            }
            let mut end = cursor;
            // A page may begin with a block that the one before had.
            for block in found.into_iter().filter(|block| block.offset >= cursor) {
                end = block.offset.saturating_add(block.length);
                self.block(block)?;
            }
            if end <= cursor || end >= file.length {
                break;
            }
            cursor = end;
        }
        self.end();
        Ok(())
    }

    /// Makes the blocks of the last file cover its length exactly: a file that somebody writes
    /// is as long as its blocks, and a gap is a block that nobody holds.
    pub(super) fn end(&mut self) {
        let Some(file) = self.located.files.last_mut() else { return };
        file.blocks.sort_by_key(|block| block.offset);
        let mut whole = Vec::with_capacity(file.blocks.len());
        let mut end = 0u64;
        let most = if file.open { u64::MAX } else { file.length };
        for mut block in std::mem::take(&mut file.blocks) {
            block.length = block.length.min(most.saturating_sub(block.offset));
            if block.length == 0 || block.offset < end {
                continue;
            }
            if block.offset > end {
                whole.push(missing(end, block.offset - end));
            }
            end = block.offset.saturating_add(block.length);
            whole.push(block);
        }
        if file.open {
            file.length = end;
        } else if end < file.length {
            whole.push(missing(end, file.length - end));
        }
        file.blocks = whole;
        if file.open {
            let text = format!("{}: is being written; {end} bytes count", file.path);
            self.warn(text);
        }
    }

    /// Handles a file that was deleted or renamed after its directory was listed.
    pub(super) fn gone(&mut self, entry: &Entry) {
        self.located.files.pop_if(|last| last.path == entry.path);
        self.warn(format!("{}: gone while the input was read, left out", entry.path));
    }

    pub(super) fn warn(&mut self, text: String) {
        if self.located.warnings.len() < WARNINGS_MAX {
            self.located.warnings.push(text);
        }
    }

    pub(super) fn finish(mut self, base: &str) -> Located {
        if self.unreadable > 0 {
            let text = format!("{} blocks have no readable replica", self.unreadable);
            self.warn(text);
        }
        let mut located = self.located;
        located.datanodes = self.interner.datanodes;
        located.base = base.to_owned();
        located
    }
}

fn missing(offset: u64, length: u64) -> Block {
    Block { offset, length, corrupt: true, replicas: Vec::new() }
}

/// Converts a replica; `(length, among)` are bytes and hosts of the block. In an erasure-coded
/// group each data unit holds its cells and parity nothing that is read; if the source does not say
/// which unit a host has, all hold the same.
fn replica(
    found: FoundReplica,
    (length, among): (u64, u64),
    striping: Option<Striping>,
    interner: &mut Interner,
) -> Option<Replica> {
    let bytes = match (striping, found.unit) {
        (Some(striping), Some(unit)) => striping.bytes(length, u64::from(unit)),
        (Some(_), None) => length / among.max(1),
        (None, _) => length,
    };
    if bytes == 0 && length > 0 {
        return None;
    }
    Some(Replica {
        datanode: interner.index(found.datanode),
        bytes,
        storage: found.storage,
        cached: found.cached,
        leaving: found.leaving,
    })
}
