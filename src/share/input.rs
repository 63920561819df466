// SPDX-License-Identifier: GPL-3.0-or-later
//! The input that is split over nodes.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Deserialize;

use phalanx_cli::common::{Access, Failure, Global};
use phalanx_core::blocks::{self, Located, Replica};
use phalanx_methods::share::targets;

/// Unit of the cuts of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    /// Equal shares of bytes, cut after the end of a line.
    Records,
    /// Equal shares of the number of lines.
    Lines,
    /// Shares of bytes, cut anywhere.
    Bytes,
}

/// A local file, or the blocks of files in HDFS.
pub enum Input {
    /// A file that can be cut anywhere.
    File(LocalFile),
    /// Files that can only be handed out block by block.
    Blocks(Blocks),
}

/// Files in HDFS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocks {
    /// URIs of the files.
    pub files: Vec<String>,
    /// Blocks of all files, by file and offset, without gaps.
    pub all: Vec<Block>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl Blocks {
    /// Collects the blocks; `nodes` names each of the DataNodes. A node that holds a block in part
    /// (erasure coding) counts only where none holds more.
    fn of(located: &Located, nodes: &[String]) -> Self {
        let host = |replica: &Replica| nodes.get(usize::try_from(replica.datanode).ok()?).cloned();
        let block = |(file, block): (usize, &blocks::Block)| {
            let most = block.replicas.iter().map(|replica| replica.bytes).max().unwrap_or(0);
            let whole = block.replicas.iter().filter(|replica| replica.bytes == most && most > 0);
            let hosts = whole.filter_map(host).collect();
            Block { file, offset: block.offset, length: block.length, hosts }
        };
        let files = located.files.iter();
        let all =
            files.clone().enumerate().flat_map(|(at, f)| f.blocks.iter().map(move |b| (at, b)));
        Self {
            files: files.map(|file| format!("{}{}", located.base, file.path)).collect(),
            all: all.map(block).collect(),
            warnings: located.warnings.clone(),
        }
    }
}

/// A block of a file in HDFS.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Block {
    /// Position of the block's file among [`Blocks::files`].
    #[serde(skip)]
    pub file: usize,
    /// Offset of the block in its file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Hosts with a replica.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// A part of the input for one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub task: usize,
    /// Position of the piece's file among [`Blocks::files`]; 0 for a local file.
    pub file: usize,
    pub offset: u64,
    pub length: u64,
    pub lines: Option<u64>,
    pub local: Option<bool>,
}

/// A regular file.
pub struct LocalFile {
    path: PathBuf,
    bytes: u64,
}

impl Input {
    pub fn open(global: &Global, name: &str, locations: Option<&Path>) -> Result<Self, Failure> {
        if let Some(path) = locations {
            let files = vec![name.to_owned()];
            return Ok(Input::Blocks(Blocks { files, all: listed(path)?, warnings: Vec::new() }));
        }
        if name.contains("://") && !name.starts_with("file://") {
            let mut access = Access::open(global, &[])?;
            let located = access.locate(name, false, "phalanx-share")?;
            // The host's own name where it is no node, or Slurm's nodes are not known.
            let node = |datanode| access.node(datanode);
            let nodes: Vec<String> = located
                .datanodes
                .iter()
                .map(|datanode| node(datanode).unwrap_or_else(|| datanode.host.clone()))
                .collect();
            return Ok(Input::Blocks(Blocks::of(&located, &nodes)));
        }
        let path = PathBuf::from(name.strip_prefix("file://").unwrap_or(name));
        let metadata = path
            .metadata()
            .map_err(|error| Failure::usage(format!("--input {}: {error}", path.display())))?;
        if !metadata.is_file() {
            return Err(Failure::usage(format!(
                "--input {}: expected a regular file",
                path.display()
            )));
        }
        Ok(Input::File(LocalFile { path, bytes: metadata.len() }))
    }
}

#[derive(Deserialize)]
struct Locations {
    #[serde(rename = "BlockLocations")]
    locations: LocationList,
}

#[derive(Deserialize)]
struct LocationList {
    #[serde(rename = "BlockLocation")]
    blocks: Vec<Block>,
}

/// Reads block locations in WebHDFS' form, or their list alone; refuses gaps and overlaps.
fn listed(path: &Path) -> Result<Vec<Block>, Failure> {
    let wrong = |what: String| Failure::usage(format!("--locations {}: {what}", path.display()));
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let whole = serde_json::from_slice::<Locations>(&text).map(|all| all.locations.blocks);
    let mut blocks: Vec<Block> = whole
        .or_else(|_| serde_json::from_slice(&text))
        .map_err(|error| wrong(format!("expected BlockLocations: {error}")))?;
    blocks.sort_by_key(|block| block.offset);
    let mut end = 0_u64;
    for block in &blocks {
        if block.offset != end {
            let at = block.offset;
            return Err(wrong(format!("expected a block at offset {end}, got one at {at}")));
        }
        end = end.checked_add(block.length).ok_or_else(|| wrong("too long".to_owned()))?;
    }
    Ok(blocks)
}

impl LocalFile {
    fn failed(&self, error: &std::io::Error) -> Failure {
        Failure::usage(format!("--input {}: {error}", self.path.display()))
    }

    /// Cuts the file into one piece for each node with a share.
    pub fn cut(&self, capability: &[f64], unit: Unit) -> Result<Vec<Piece>, Failure> {
        let ends = match unit {
            Unit::Bytes => self.by_bytes(capability, |_, at| Ok(at)),
            Unit::Records => self.by_bytes(capability, |file, at| self.line_end(file, at)),
            Unit::Lines => return self.by_lines(capability),
        }?;
        Ok(pieces(&ends, None))
    }

    /// Returns the ends of the parts, each moved to a place where the file may be cut.
    fn by_bytes(
        &self,
        capability: &[f64],
        place: impl Fn(&mut BufReader<File>, u64) -> Result<u64, Failure>,
    ) -> Result<Vec<u64>, Failure> {
        let file = File::open(&self.path).map_err(|error| self.failed(&error))?;
        let mut file = BufReader::new(file);
        let (mut ends, mut sum, mut last) = (Vec::with_capacity(capability.len()), 0, 0);
        for share in targets(self.bytes, capability) {
            // A node without a share gets no line either.
            if share > 0 {
                sum += share;
                last = if sum <= last { last } else { place(&mut file, sum)? };
            }
            ends.push(last);
        }
        Ok(ends)
    }

    /// Returns the first line end at or after a byte; the end of the file if there is none.
    fn line_end(&self, file: &mut BufReader<File>, at: u64) -> Result<u64, Failure> {
        if at == 0 || at >= self.bytes {
            return Ok(at.min(self.bytes));
        }
        let before = at - 1;
        file.seek(SeekFrom::Start(before)).map_err(|error| self.failed(&error))?;
        let skipped = file.skip_until(b'\n').map_err(|error| self.failed(&error))?;
        Ok(before + skipped as u64)
    }

    fn by_lines(&self, capability: &[f64]) -> Result<Vec<Piece>, Failure> {
        let open = || File::open(&self.path).map_err(|error| self.failed(&error));
        let (mut file, mut lines) = (BufReader::new(open()?), 0_u64);
        while file.skip_until(b'\n').map_err(|error| self.failed(&error))? > 0 {
            lines += 1;
        }
        let shares = targets(lines, capability);
        let (mut file, mut at) = (BufReader::new(open()?), 0_u64);
        let mut ends = Vec::with_capacity(shares.len());
        for &share in &shares {
            for _ in 0..share {
                at += file.skip_until(b'\n').map_err(|error| self.failed(&error))? as u64;
            }
            ends.push(at);
        }
        Ok(pieces(&ends, Some(&shares)))
    }

    /// Writes pieces of the input into one file.
    pub fn copy(&self, pieces: &[&Piece], to: &Path) -> Result<(), Failure> {
        let done = || -> std::io::Result<()> {
            let mut out = std::io::BufWriter::new(File::create(to)?);
            let mut file = File::open(&self.path)?;
            for piece in pieces {
                file.seek(SeekFrom::Start(piece.offset))?;
                std::io::copy(&mut (&mut file).take(piece.length), &mut out)?;
            }
            out.flush()
        };
        done().map_err(|error| Failure::usage(format!("{}: {error}", to.display())))
    }
}

fn pieces(ends: &[u64], lines: Option<&[u64]>) -> Vec<Piece> {
    let mut offset = 0;
    let mut pieces = Vec::with_capacity(ends.len());
    for (task, &end) in ends.iter().enumerate() {
        let length = end.saturating_sub(offset);
        if length > 0 {
            let lines = lines.and_then(|lines| lines.get(task).copied());
            pieces.push(Piece { task, file: 0, offset, length, lines, local: None });
        }
        offset = end;
    }
    pieces
}
