// SPDX-License-Identifier: GPL-3.0-or-later
//! A client of WebHDFS: one GET a page. Hadoop's own client asks `GET_BLOCK_LOCATIONS` (1.x to
//! 3.5); `GETFILEBLOCKLOCATIONS`, documented since 3.2, is tried where the first is refused.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Instant;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use super::curl::Curl;
use super::error::{HdfsError, at_most};
use super::rpc::Timeouts;
use super::source::{BlockSource, Entry, Found, FoundReplica, Kind, Sink, Striping, path_of};
use phalanx_core::blocks::{DataNode, Storage};
use phalanx_core::text::percent_encode;

/// A client of one NameNode's HTTP address for one user.
#[derive(Debug)]
pub(super) struct Client<'a> {
    base: String,
    user: String,
    timeouts: Cell<Timeouts>,
    curl: &'a Curl,
}

/// The value of an object that has one member, as WebHDFS wraps its answers.
#[derive(Debug)]
pub(super) struct Only<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Only<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = BTreeMap::<String, T>::deserialize(deserializer)?;
        members.into_values().next().map(Only).ok_or_else(|| D::Error::custom("an empty object"))
    }
}

/// Answer of a refused request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemoteException {
    exception: String,
    #[serde(default)]
    message: String,
}

/// Answer of `LISTSTATUS`: `FileStatuses`, which holds `FileStatus`, which is a list.
pub(super) type Statuses = Only<Only<Vec<Status>>>;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    #[serde(default)]
    path_suffix: String,
    r#type: String,
    length: u64,
    modification_time: u64,
    #[serde(default)]
    replication: u32,
    #[serde(default)]
    block_size: u64,
    #[serde(default)]
    ec_policy_obj: Option<EcPolicy>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EcPolicy {
    #[serde(default)]
    num_data_units: u64,
    #[serde(default)]
    cell_size: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    partial_listing: Statuses,
    pub(super) remaining_entries: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LocatedBlocks {
    #[serde(default)]
    pub(super) is_under_construction: bool,
    #[serde(default)]
    pub(super) located_blocks: Vec<LocatedBlock>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LocatedBlock {
    start_offset: u64,
    #[serde(default)]
    is_corrupt: bool,
    block: ExtendedBlock,
    #[serde(default)]
    locations: Vec<Location>,
    #[serde(default)]
    cached_locations: Vec<Location>,
    #[serde(default)]
    storage_types: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExtendedBlock {
    num_bytes: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    host_name: String,
    #[serde(default)]
    ip_addr: String,
    #[serde(default)]
    xfer_port: u16,
    #[serde(default)]
    network_location: String,
    #[serde(default)]
    admin_state: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DocumentedBlock {
    offset: u64,
    length: u64,
    #[serde(default)]
    corrupt: bool,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    topology_paths: Vec<String>,
    #[serde(default)]
    cached_hosts: Vec<String>,
    #[serde(default)]
    storage_types: Vec<String>,
}

impl<'a> Client<'a> {
    pub(super) fn new(base: &str, user: &str, timeouts: Timeouts, curl: &'a Curl) -> Self {
        let (base, user) = (base.to_owned(), user.to_owned());
        Self { base, user, timeouts: Cell::new(timeouts), curl }
    }

    /// Makes one request; returns its JSON, or the refusal as an error.
    fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<T, HdfsError> {
        let base = &self.base;
        let path: Vec<String> = path.split('/').map(percent_encode).collect();
        let who = self.curl.who().map(|key| (key, self.user.as_str()));
        let pair = |(key, value): (&str, &str)| format!("{key}={}", percent_encode(value));
        let query: Vec<String> = who.into_iter().chain(query.iter().copied()).map(pair).collect();
        let url = format!("{base}/webhdfs/v1{}?{}", path.join("/"), query.join("&"));
        let started = Instant::now();
        let mut timeouts = self.timeouts.get();
        let (status, body) = self.curl.get(base, &url, &timeouts)?;
        timeouts.answered();
        self.timeouts.set(timeouts);
        log::trace!("{base}: {} bytes in {:?}", body.len(), started.elapsed());
        understood(base, status, &body)
    }

    /// Returns the blocks of a file by the documented operation, or by that of Hadoop's own client.
    fn located_file(
        &self,
        file: &Entry,
        documented: bool,
        sink: &mut Sink,
    ) -> Result<(), HdfsError> {
        let op = if documented { "GETFILEBLOCKLOCATIONS" } else { "GET_BLOCK_LOCATIONS" };
        sink.pages(file, |offset, length| {
            let (offset, length) = (offset.to_string(), length.to_string());
            let query = [("op", op), ("offset", &offset), ("length", &length)];
            let (open, mut found): (bool, Vec<Found>) = if documented {
                type Reply = Only<BTreeMap<String, Vec<DocumentedBlock>>>;
                let Only(lists) = self.get::<Reply>(&file.path, &query)?;
                (false, lists.into_values().flatten().map(Found::from).collect())
            } else {
                let Only(page) = self.get::<Only<LocatedBlocks>>(&file.path, &query)?;
                let blocks = page.located_blocks.into_iter().map(Found::from);
                (page.is_under_construction, blocks.collect())
            };
            found.iter_mut().for_each(|block| block.striping = file.striping);
            Ok((open, found))
        })
    }
}

impl BlockSource for Client<'_> {
    fn status(&mut self, path: &str) -> Result<Option<Entry>, HdfsError> {
        match self.get::<Only<Status>>(path, &[("op", "GETFILESTATUS")]) {
            Ok(Only(status)) => Ok(Some(entry(path, status))),
            Err(error) if error.is_remote("FileNotFoundException") => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&mut self, path: &str, most: usize) -> Result<Vec<Entry>, HdfsError> {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let query = [("op", "LISTSTATUS_BATCH"), ("startAfter", after.as_str())];
            let Only(page) = match self.get::<Only<Page>>(path, &query) {
                // Hadoop 2 cannot page; its directories come whole, within the size of a reply.
                Err(error) if error.is_remote("IllegalArgumentException") => {
                    let partial_listing = self.get(path, &[("op", "LISTSTATUS")])?;
                    Only(Page { partial_listing, remaining_entries: 0 })
                }
                other => other?,
            };
            let Page { partial_listing: Only(Only(entries)), remaining_entries } = page;
            let Some(last) = entries.last() else { break };
            after.clone_from(&last.path_suffix);
            found.extend(entries.into_iter().map(|status| entry(path, status)));
            at_most(most, found.len(), path, "entries")?;
            if remaining_entries == 0 {
                break;
            }
        }
        Ok(found)
    }

    fn blocks(&mut self, files: &[Entry], _: bool, sink: &mut Sink) -> Result<(), HdfsError> {
        for file in files {
            let found = match self.located_file(file, false, sink) {
                Err(error) if error.is_remote("IllegalArgumentException") => {
                    self.located_file(file, true, sink)
                }
                other => other,
            };
            match found {
                Err(error) if error.is_remote("FileNotFoundException") => sink.gone(file),
                other => other?,
            }
        }
        Ok(())
    }
}

/// Parses the JSON of an answer, or of a refusal.
pub(super) fn understood<T: DeserializeOwned>(
    base: &str,
    status: u16,
    body: &[u8],
) -> Result<T, HdfsError> {
    if (200..300).contains(&status) {
        return serde_json::from_slice(body)
            .map_err(|error| HdfsError::Broken(format!("{base}: {error}")));
    }
    match serde_json::from_slice::<Only<RemoteException>>(body) {
        Ok(Only(RemoteException { exception, message })) => {
            let message = message.lines().next().unwrap_or_default().to_owned();
            Err(HdfsError::Remote { class: exception, message })
        }
        Err(_) => Err(HdfsError::Broken(format!("{base}: HTTP {status}"))),
    }
}

pub(super) fn entry(directory: &str, status: Status) -> Entry {
    Entry {
        path: path_of(directory, &status.path_suffix),
        kind: match status.r#type.as_str() {
            "FILE" => Kind::File,
            "DIRECTORY" => Kind::Directory,
            _ => Kind::Link,
        },
        length: status.length,
        modified_ms: status.modification_time,
        replication: status.replication,
        block_size: status.block_size,
        striping: status.ec_policy_obj.map(|policy| Striping {
            data_units: policy.num_data_units.max(1),
            cell: policy.cell_size.max(1),
        }),
    }
}

pub(super) fn split(address: &str) -> (String, u16) {
    match address.rsplit_once(':') {
        Some((ip, port)) => (ip.to_owned(), port.parse().unwrap_or(0)),
        None => (address.to_owned(), 0),
    }
}

fn storage(name: &str) -> Storage {
    match name {
        "SSD" => Storage::Ssd,
        "ARCHIVE" => Storage::Archive,
        "RAM_DISK" => Storage::Ram,
        "PROVIDED" => Storage::Provided,
        "NVDIMM" => Storage::Nvdimm,
        _ => Storage::Disk,
    }
}

impl From<LocatedBlock> for Found {
    fn from(block: LocatedBlock) -> Self {
        let cached: Vec<&str> =
            block.cached_locations.iter().map(|l| l.host_name.as_str()).collect();
        let replica = |(at, l): (usize, &Location)| FoundReplica {
            datanode: DataNode {
                host: l.host_name.clone(),
                ip: l.ip_addr.clone(),
                port: l.xfer_port,
                rack: l.network_location.clone(),
            },
            storage: block.storage_types.get(at).map_or(Storage::Disk, |s| storage(s)),
            cached: cached.contains(&l.host_name.as_str()),
            leaving: !matches!(l.admin_state.as_str(), "" | "NORMAL"),
            unit: None,
        };
        let replicas = block.locations.iter().enumerate().map(replica).collect();
        Found {
            offset: block.start_offset,
            length: block.block.num_bytes,
            corrupt: block.is_corrupt,
            striping: None,
            replicas,
        }
    }
}

impl From<DocumentedBlock> for Found {
    fn from(block: DocumentedBlock) -> Self {
        let replica = |(at, host): (usize, &String)| {
            let (ip, port) = block.names.get(at).map(|n| split(n)).unwrap_or_default();
            let rack = block.topology_paths.get(at).and_then(|p| p.rsplit_once('/'));
            FoundReplica {
                datanode: DataNode {
                    host: host.clone(),
                    ip,
                    port,
                    rack: rack.map_or("", |(rack, _)| rack).to_owned(),
                },
                storage: block.storage_types.get(at).map_or(Storage::Disk, |s| storage(s)),
                cached: block.cached_hosts.contains(host),
                leaving: false,
                unit: None,
            }
        };
        let replicas = block.hosts.iter().enumerate().map(replica).collect();
        Found {
            offset: block.offset,
            length: block.length,
            corrupt: block.corrupt,
            striping: None,
            replicas,
        }
    }
}
