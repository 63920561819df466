// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls of `ClientProtocol`, in pages.

use super::error::{HdfsError, at_most};
use super::proto::{
    DatanodeInfo, EcPolicy, FileStatus, GetBlockLocationsRequest, GetBlockLocationsResponse,
    GetDatanodeReportRequest, GetDatanodeReportResponse, GetFileInfoRequest, GetFileInfoResponse,
    GetListingRequest, GetListingResponse, LocatedBlock,
};
use super::rpc::{Connection, Timeouts};
use super::source::{BlockSource, Entry, Found, FoundReplica, Kind, Sink, Striping, path_of};
use phalanx_core::blocks::{DataNode, Storage};

/// A DataNode as a NameNode reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataNodeReport {
    /// Names of the DataNode.
    pub datanode: DataNode,
    /// `live`, `dead`, `decommissioning`, `decommissioned` or `maintenance`.
    pub state: &'static str,
}

#[derive(Debug)]
pub(super) struct Client {
    connection: Connection,
}

impl Client {
    pub(super) fn open(
        address: &str,
        user: &str,
        context: &str,
        timeouts: Timeouts,
    ) -> Result<Self, HdfsError> {
        Ok(Self { connection: Connection::open(address, user, context, timeouts)? })
    }

    /// Returns all DataNodes; only the superuser may ask.
    pub(super) fn datanodes(&mut self) -> Result<Vec<DataNodeReport>, HdfsError> {
        let mut ask = |kind| {
            let request = GetDatanodeReportRequest { kind };
            let reply: GetDatanodeReportResponse =
                self.connection.call("getDatanodeReport", &request)?;
            Ok::<_, HdfsError>(reply.datanodes)
        };
        let (all, live) = (ask(1)?, ask(2)?);
        let live: Vec<DataNode> = live.iter().map(datanode).collect();
        let report = |info: &DatanodeInfo| {
            let datanode = datanode(info);
            let state = match info.admin_state.unwrap_or(0) {
                _ if !live.contains(&datanode) => "dead",
                0 => "live",
                1 => "decommissioning",
                2 => "decommissioned",
                _ => "maintenance",
            };
            DataNodeReport { datanode, state }
        };
        Ok(all.iter().map(report).collect())
    }

    fn page(&mut self, path: &str, after: &[u8], located: bool) -> Result<Page, HdfsError> {
        let request = GetListingRequest {
            src: path.to_owned(),
            start_after: after.to_vec(),
            need_location: located,
        };
        let reply: GetListingResponse = self.connection.call("getListing", &request)?;
        let listing = reply.listing.ok_or_else(|| HdfsError::NotFound(path.to_owned()))?;
        Ok((listing.entries, listing.remaining))
    }

    fn located_listing(
        &mut self,
        directory: &str,
        files: &[Entry],
        sink: &mut Sink,
    ) -> Result<(), HdfsError> {
        let (mut after, mut wanted) = (Vec::new(), files.iter().peekable());
        loop {
            let (entries, remaining) = self.page(directory, &after, true)?;
            let Some(last) = entries.last() else { break };
            after.clone_from(&last.path);
            for status in entries {
                let path = path_of(directory, &String::from_utf8_lossy(&status.path));
                // Both are in the NameNode's order, by name.
                while let Some(file) = wanted.next_if(|f| f.path.as_bytes() < path.as_bytes()) {
                    sink.gone(file);
                }
                let Some(file) = wanted.next_if(|file| file.path == path) else { continue };
                let blocks = status.locations.unwrap_or_default();
                let policy = status.ec_policy.or_else(|| blocks.ec_policy.clone());
                sink.begin(file, blocks.under_construction)?;
                let mut found = blocks.blocks.iter().map(|block| found(block, policy.as_ref()));
                found.try_for_each(|block| sink.block(block))?;
                sink.end();
            }
            if remaining == 0 || wanted.peek().is_none() {
                break;
            }
        }
        wanted.for_each(|file| sink.gone(file));
        Ok(())
    }

    fn located_file(&mut self, file: &Entry, sink: &mut Sink) -> Result<(), HdfsError> {
        sink.pages(file, |offset, length| {
            let request = GetBlockLocationsRequest { src: file.path.clone(), offset, length };
            let reply: GetBlockLocationsResponse =
                self.connection.call("getBlockLocations", &request)?;
            let page = reply.locations.ok_or_else(|| HdfsError::NotFound(file.path.clone()))?;
            let of = |block| found(block, page.ec_policy.as_ref());
            Ok((page.under_construction, page.blocks.iter().map(of).collect()))
        })
    }
}

type Page = (Vec<FileStatus>, u32);

impl BlockSource for Client {
    fn status(&mut self, path: &str) -> Result<Option<Entry>, HdfsError> {
        let request = GetFileInfoRequest { src: path.to_owned() };
        let reply: GetFileInfoResponse = self.connection.call("getFileInfo", &request)?;
        Ok(reply.status.map(|status| entry(path.to_owned(), &status)))
    }

    fn list(&mut self, path: &str, most: usize) -> Result<Vec<Entry>, HdfsError> {
        let (mut found, mut after) = (Vec::new(), Vec::new());
        loop {
            let (entries, remaining) = self.page(path, &after, false)?;
            let Some(last) = entries.last() else { break };
            after.clone_from(&last.path);
            found.extend(entries.iter().map(|status| {
                entry(path_of(path, &String::from_utf8_lossy(&status.path)), status)
            }));
            at_most(most, found.len(), path, "entries")?;
            if remaining == 0 {
                break;
            }
        }
        Ok(found)
    }

    fn blocks(&mut self, files: &[Entry], listed: bool, sink: &mut Sink) -> Result<(), HdfsError> {
        // A listing with locations costs directory access only, and comes in few pages; but a
        // large file in it would come whole.
        match files {
            [first, _, ..] if listed => self.located_listing(parent(&first.path), files, sink),
            _ => files.iter().try_for_each(|file| match self.located_file(file, sink) {
                Err(error) if error.is_remote("FileNotFoundException") => {
                    sink.gone(file);
                    Ok(())
                }
                other => other,
            }),
        }
    }
}

pub(super) fn found(block: &LocatedBlock, policy: Option<&EcPolicy>) -> Found {
    let replicas = block.locations.iter().enumerate().map(|(at, info)| FoundReplica {
        datanode: datanode(info),
        storage: storage(block.storage_types.get(at).copied().unwrap_or(1)),
        cached: block.cached.get(at).copied().unwrap_or(false),
        leaving: info.admin_state.unwrap_or(0) != 0,
        unit: block.block_indices.as_ref().and_then(|i| i.get(at)).map(|&i| u32::from(i)),
    });
    Found {
        offset: block.offset,
        length: block.block.as_ref().and_then(|b| b.bytes).unwrap_or(0),
        corrupt: block.corrupt,
        striping: policy.map(striping),
        replicas: replicas.collect(),
    }
}

/// Striping of a policy; of built-in policies only the id is sent (`SystemErasureCodingPolicies`),
/// and their cells are 1 MiB.
fn striping(policy: &EcPolicy) -> Striping {
    let by_id = match policy.id {
        2 => 3,
        4 => 2,
        5 => 10,
        _ => 6,
    };
    Striping {
        data_units: policy.schema.as_ref().map_or(by_id, |schema| schema.data_units).max(1).into(),
        cell: policy.cell.filter(|&cell| cell > 0).unwrap_or(1 << 20).into(),
    }
}

fn storage(number: i32) -> Storage {
    match number {
        2 => Storage::Ssd,
        3 => Storage::Archive,
        4 => Storage::Ram,
        5 => Storage::Provided,
        6 => Storage::Nvdimm,
        _ => Storage::Disk,
    }
}

pub(super) fn datanode(info: &DatanodeInfo) -> DataNode {
    let id = info.id.clone().unwrap_or_default();
    DataNode {
        host: id.host,
        ip: id.ip,
        port: u16::try_from(id.port).unwrap_or(0),
        rack: info.rack.clone().unwrap_or_default(),
    }
}

pub(super) fn entry(path: String, status: &FileStatus) -> Entry {
    Entry {
        path,
        kind: match status.kind {
            1 => Kind::Directory,
            2 => Kind::File,
            _ => Kind::Link,
        },
        length: status.length,
        modified_ms: status.modified_ms,
        replication: status.replication.unwrap_or(1),
        block_size: status.block_size.unwrap_or(0),
        striping: status.ec_policy.as_ref().map(striping),
    }
}

fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => path.get(..at).unwrap_or("/"),
    }
}
