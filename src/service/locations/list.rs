// SPDX-License-Identifier: GPL-3.0-or-later
//! The site's list of datasets: a JSON file of names, each with its parts and their hosts.
//!
//! Object stores, Ceph and Alluxio have no common question for the hosts of an object; a script of
//! the site writes this file. It is read again when it changed. One that is wrong changes nothing:
//! the former list stays in force, and the error says where.

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use phalanx_core::limits::{DATASET_NAME_BYTES_MAX, LOCATIONS_BYTES_MAX};
use phalanx_core::problem::Name;
use phalanx_methods::data_jobs::blockmap::is_dataset_name;

/// Most bytes of the name of a host.
const HOST_BYTES_MAX: usize = 255;

/// A part of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Length of the part.
    pub bytes: u64,
    pub hosts: Box<[Arc<str>]>,
}

/// Datasets by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List {
    /// Parts of each dataset, in order.
    pub of: HashMap<Arc<str>, Arc<[Part]>>,
}

/// One entry of a part list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "{\"bytes\": NUMBER, \"hosts\": [NAME, ...]}")]
struct RawPart<'a> {
    bytes: u64,
    #[serde(borrow)]
    hosts: Vec<Name<'a>>,
}

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Names)
    }
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = List;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{NAME: [{\"bytes\": NUMBER, \"hosts\": [NAME, ...]}, ...], ...}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<List, A::Error> {
        let mut list = List::default();
        let mut hosts: HashMap<String, Arc<str>> = HashMap::new();
        while let Some(Name(name)) = map.next_key::<Name<'_>>()? {
            if !is_dataset_name(&name) {
                let text = format!(
                    "expected names of 1 to {DATASET_NAME_BYTES_MAX} bytes without control \
                     characters, got {:?}",
                    phalanx_messages::collect::short(&name)
                );
                return Err(A::Error::custom(text));
            }
            let mut parts = Vec::new();
            for RawPart { bytes, hosts: named } in map.next_value::<Vec<RawPart<'_>>>()? {
                let mut on = Vec::with_capacity(named.len());
                for Name(host) in named {
                    on.push(interned(&mut hosts, &host).map_err(A::Error::custom)?);
                }
                parts.push(Part { bytes, hosts: on.into() });
            }
            let total = parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.bytes));
            if total.is_none() {
                return Err(A::Error::custom(format!("{name:?}: more than {} bytes", u64::MAX)));
            }
            if list.of.insert(Arc::from(&*name), parts.into()).is_some() {
                return Err(A::Error::custom(format!("{name:?} stands there twice")));
            }
        }
        Ok(list)
    }
}

fn interned(known: &mut HashMap<String, Arc<str>>, host: &str) -> Result<Arc<str>, String> {
    if let Some(host) = known.get(host) {
        return Ok(Arc::clone(host));
    }
    if host.is_empty() || host.len() > HOST_BYTES_MAX || host.chars().any(char::is_control) {
        let host = phalanx_messages::collect::short(host);
        return Err(format!("expected the name or address of a host, got {host:?}"));
    }
    let shared: Arc<str> = host.into();
    known.insert(host.to_owned(), Arc::clone(&shared));
    Ok(shared)
}

impl List {
    /// Reads the text of a list.
    ///
    /// # Errors
    /// Fails with the line and what was expected there.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(text).map_err(|error| {
            let (line, text) = (error.line(), error.to_string());
            let message = text.rfind(" at line ").map_or(text.as_str(), |at| &text[..at]);
            format!("{line}: {message}")
        })
    }

    /// Takes over the parts of an older list that are the same, so that comparing them shows at
    /// once that nothing changed.
    fn sharing(mut self, older: &List) -> Self {
        for (name, parts) in &mut self.of {
            if let Some(old) = older.of.get(name).filter(|old| *old == parts) {
                *parts = Arc::clone(old);
            }
        }
        self
    }
}

/// Mark of a state of the file: another state has another mark.
type Stamp = (u64, u64, u64, i64, i64);

/// The dataset list's file, and the last valid list read from it.
#[derive(Debug, Clone, Default)]
pub struct ListFile {
    path: String,
    /// The file's state at the last reading, whether the list was valid or not.
    seen: Option<Stamp>,
    /// The last good list.
    pub list: Arc<List>,
    pub error: Option<String>,
}

impl ListFile {
    /// Reads the file if it is another than at the last call or has changed; returns whether the
    /// list or the error differs from before. An empty path stands for no list.
    pub fn refresh(&mut self, path: &str) -> bool {
        if path.is_empty() {
            let had = !self.path.is_empty();
            *self = Self::default();
            return had;
        }
        let stamp = match std::fs::metadata(path) {
            Ok(metadata) => stamp(&metadata),
            Err(error) => return self.wrong(path, None, format!("{path}: {error}")),
        };
        if self.path == path && self.seen == Some(stamp) {
            return false;
        }
        match read(Path::new(path)) {
            Ok((stamp, list)) => {
                let list = Arc::new(list.sharing(&self.list));
                *self = Self { path: path.to_owned(), seen: Some(stamp), list, error: None };
                true
            }
            Err(error) => self.wrong(path, Some(stamp), error),
        }
    }

    fn wrong(&mut self, path: &str, seen: Option<Stamp>, error: String) -> bool {
        path.clone_into(&mut self.path);
        self.seen = seen;
        let error = Some(error);
        let is_new = self.error != error;
        self.error = error;
        is_new
    }
}

fn stamp(of: &Metadata) -> Stamp {
    (of.dev(), of.ino(), of.size(), of.mtime(), of.mtime_nsec())
}

/// Reads the list, and the state of the file before that: a change meanwhile is seen later.
fn read(path: &Path) -> Result<(Stamp, List), String> {
    let name = path.display();
    let failed = |error: std::io::Error| format!("{name}: {error}");
    // A pipe would make the open wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file: File = file.map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(format!("{name}: expected a file"));
    }
    let mut text = Vec::new();
    (&file).take(LOCATIONS_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > LOCATIONS_BYTES_MAX {
        return Err(format!("{name}: expected at most {LOCATIONS_BYTES_MAX} bytes"));
    }
    let list = List::parse(&text).map_err(|error| format!("{name}:{error}"))?;
    Ok((stamp(&metadata), list))
}
