// SPDX-License-Identifier: GPL-3.0-or-later
//! The sockets between `phalanxd` and `phalanx-gate`, which speaks to other hosts on its behalf.
//!
//! The gate connects; `phalanxd` asks, one question at a time on each connection. A message is its
//! length, four bytes with the lowest first, and JSON. An answer comes in parts, so that its bytes
//! are counted before they are kept: the gate repeats what strangers told it, and may lie.
//!
//! What comes over TCP the gate carries to a second socket, a connection for each of its own that
//! begins with the 16 bytes of the client's IPv6 address, of one in IPv4 the mapped.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use phalanx_core::blocks::{Block, DataNode, File, Located};
use phalanx_core::limits::{HDFS_BLOCKS_MAX, HDFS_FILES_MAX};
use phalanx_core::number::as_u32;

/// User of the gate, by the packages.
pub const GATE_USER: &str = "phalanx-gate";
/// Name of the socket of questions, beside the control socket.
pub const GATE_SOCKET: &str = "gate.sock";
/// Name of the socket of clients over TCP, beside the control socket.
pub const DOOR_SOCKET: &str = "door.sock";

/// Bytes of one message.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Hosts, or blocks and replicas, of one part of an answer.
const PART_HOSTS: usize = 1000;
const PART_REPLICAS: usize = 8192;
/// Bytes of a name of a host, of a path, and of a text for users.
const HOST_BYTES_MAX: usize = 255;
const PATH_BYTES_MAX: usize = 16 << 10;
const TEXT_BYTES_MAX: usize = 1 << 10;
/// Warnings of one answer.
const WARNINGS_MAX: usize = 64;

/// A question of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question<S> {
    /// Asks where the bytes of an input lie, for what [`answer`] sends.
    Lookup(Lookup<S>),
    /// Has the gate carry clients from an address for as long as the connection lasts. Its answers
    /// are [`Door`], one whenever the state changes.
    Listen(SocketAddr),
}

/// Whether the gate listens, or the reason why it does not yet.
pub type Door = Result<(), String>;

/// Question where the bytes of an input lie; `settings` are those of `[hdfs]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lookup<S> {
    /// The section in force.
    pub settings: S,
    /// URI or path, as the job names the input.
    pub input: String,
    /// Whether directories within directories count too.
    pub recursive: bool,
    /// User who reads the input.
    pub user: String,
    /// Job for which it is asked.
    pub job_id: u32,
    /// Longest time that the answer may take, milliseconds.
    pub limit_ms: u64,
    /// Longest time until a NameNode's first answer, milliseconds.
    pub patience_ms: u64,
}

/// A part of an answer: hosts, files, and the blocks of the last file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part<'a> {
    Hosts(Cow<'a, [DataNode]>),
    File(File),
    Blocks(Cow<'a, [Block]>),
    /// The answer is whole; its warnings.
    End(Vec<String>),
    /// Reason, for the user, why there is no answer.
    Refused(String),
}

/// Sends one message.
///
/// # Errors
/// The stream's, and `InvalidInput` for a message beyond the bound, of which nothing was sent.
pub fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - 4;
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::new(ErrorKind::InvalidInput, "a message is too long"));
    }
    let length = as_u32(length);
    for (to, from) in bytes.iter_mut().zip(length.to_le_bytes()) {
        *to = from;
    }
    to.write_all(&bytes)
}

/// Receives one message.
///
/// # Errors
/// The stream's, and `InvalidData` for a message that is too long or not what was expected.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(wrong(format!("a message of {length} bytes")));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))
}

fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.into())
}

/// Sends the answer to a lookup.
///
/// # Errors
/// Those of [`send`].
pub fn answer(to: &mut impl Write, found: Result<&Located, &str>) -> io::Result<()> {
    let located = match found {
        Ok(located) => located,
        Err(why) => return send(to, &Part::Refused(text(why))),
    };
    for hosts in located.datanodes.chunks(PART_HOSTS) {
        send(to, &Part::Hosts(hosts.into()))?;
    }
    for file in &located.files {
        let File { length, modified_ms, open, .. } = *file;
        let path = file.path.clone();
        send(to, &Part::File(File { path, length, modified_ms, open, blocks: Vec::new() }))?;
        let mut rest = &*file.blocks;
        while !rest.is_empty() {
            let mut taken = 0;
            let fits = |block: &&Block| {
                taken += 1 + block.replicas.len();
                taken <= PART_REPLICAS
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (part, more) = rest.split_at(count);
            send(to, &Part::Blocks(part.into()))?;
            rest = more;
        }
    }
    send(to, &Part::End(located.warnings.clone()))
}

/// Receives the answer to a lookup, and holds it to all that its readers rely on.
///
/// # Errors
/// The stream's, and `InvalidData` for an answer that is wrong or takes more than `bytes_max`.
pub fn receive_located(
    from: &mut impl Read,
    bytes_max: usize,
) -> io::Result<Result<Located, String>> {
    let (mut found, mut bytes, mut blocks) = (Located::default(), 0, 0);
    loop {
        let mut part = Located::default();
        match receive(from)? {
            Part::Hosts(hosts) => part.datanodes = hosts.into_owned(),
            Part::File(file) => part.files.push(file),
            Part::Blocks(blocks) => {
                part.files.push(File { blocks: blocks.into_owned(), ..File::default() });
            }
            Part::End(warnings) => {
                whole(found.files.last())?;
                found.warnings = warnings.iter().take(WARNINGS_MAX).map(|one| text(one)).collect();
                return Ok(Ok(found));
            }
            Part::Refused(why) => return Ok(Err(text(&why))),
        }
        bytes += part.bytes();
        blocks += part.blocks();
        if bytes > bytes_max || blocks > HDFS_BLOCKS_MAX || found.files.len() > HDFS_FILES_MAX {
            return Err(wrong("an answer that takes more than its bound"));
        }
        take(&mut found, part)?;
    }
}

/// Adds a part of an answer to the parts before it.
fn take(found: &mut Located, part: Located) -> io::Result<()> {
    let is_name = |name: &str, max| name.len() <= max && !name.chars().any(char::is_control);
    for host in part.datanodes {
        if ![&host.host, &host.ip, &host.rack].iter().all(|name| is_name(name, HOST_BYTES_MAX)) {
            return Err(wrong("a name of a host"));
        }
        found.datanodes.push(host);
    }
    for file in part.files {
        if !file.blocks.is_empty() {
            let last = found.files.last_mut().ok_or_else(|| wrong("blocks of no file"))?;
            let mut end = last.blocks.last().map_or(0, |block| block.offset + block.length);
            for block in file.blocks {
                end = checked(&block, end, last.length, found.datanodes.len())?;
                last.blocks.push(block);
            }
        } else if file.path.len() > PATH_BYTES_MAX {
            return Err(wrong("a path that is too long"));
        } else {
            whole(found.files.last())?;
            found.files.push(file);
        }
    }
    Ok(())
}

/// Checks one block of a file of a length; returns where the next block begins.
fn checked(block: &Block, begin: u64, length: u64, hosts: usize) -> io::Result<u64> {
    let end = block.offset.checked_add(block.length).filter(|end| *end <= length);
    let end = end.filter(|_| block.offset == begin);
    let known = |at: u32| usize::try_from(at).is_ok_and(|at| at < hosts);
    let held = block.replicas.iter().all(|of| known(of.datanode));
    let ascending = block.replicas.is_sorted_by_key(|of| of.datanode);
    end.filter(|_| held && ascending).ok_or_else(|| wrong("a block that is not of its file"))
}

/// Fails where the blocks of a file do not cover it.
fn whole(file: Option<&File>) -> io::Result<()> {
    let covered = |file: &File| file.blocks.last().map_or(0, |last| last.offset + last.length);
    match file {
        Some(file) if covered(file) != file.length => Err(wrong("a file without its end")),
        _ => Ok(()),
    }
}

/// A text for users within its bound, on one line.
pub fn text(of: &str) -> String {
    let clean = of.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut bytes = 0;
    let fits = |c: &char| {
        bytes += c.len_utf8();
        bytes <= TEXT_BYTES_MAX
    };
    clean.take_while(fits).collect()
}

#[cfg(test)]
mod tests;
