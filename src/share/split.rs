// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx-share --input`: splits an input over nodes by what each can do.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;

use crate::input::{Block, Input, Piece, Unit};
use phalanx_cli::common::{Failure, Global, Outcome, clean};
use phalanx_core::hostlist;
use phalanx_core::limits::NODES_MAX;
use phalanx_core::text::percent_encode;
use phalanx_messages::collect::UsedValues;
use phalanx_methods::share::{Item, Problem, solve};

/// Options of the program's other uses, which need no input.
const OTHER_USES: [&str; 2] = ["stream", "worker"];

/// Options of the program.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct Args {
    /// Input to split: a file here, or a file, directory or pattern of HDFS, such as
    /// hdfs://nn:8020/data or webhdfs://nn:9870/data
    #[arg(long, value_name = "FILE|URI", required_unless_present_any = OTHER_USES)]
    input: Option<String>,
    /// File with the block locations of the input, as WebHDFS answers GETFILEBLOCKLOCATIONS,
    /// instead of asking the file system
    #[arg(long, value_name = "FILE")]
    locations: Option<PathBuf>,
    /// Nodes that get a part, as a hostlist; with --stream, the nodes of its workers [default: the
    /// nodes of the job]
    #[arg(long, value_name = "HOSTLIST", required_unless_present_any = OTHER_USES)]
    nodes: Option<String>,
    /// Datum with the capability of each node [default: share.capability of phalanxd]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["method", "weights"])]
    capability: Option<String>,
    /// Shorthand for --capability: A: configuration; B: capability_cpu_load; C: capability_history
    #[arg(long, value_enum, conflicts_with = "weights")]
    method: Option<Method>,
    /// Capability of each node, relative to the others, instead of asking phalanxd
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    weights: Vec<f64>,
    /// Unit of the parts of a file: equal shares of bytes cut at ends of lines (records), of the
    /// number of lines (lines), or of bytes cut anywhere (bytes)
    #[arg(long, value_enum, default_value = "records")]
    unit: Unit,
    /// Directory to write the map into, as map.tsv, and each node's part of a file; parts of a file
    /// in HDFS stay there
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    #[command(flatten)]
    stream: crate::stream::Options,
}

/// The evaluation methods of the source (docs/methods.md, section 3 (b)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Method {
    /// Processor configuration.
    #[value(name = "A", alias = "a")]
    A,
    /// CPU load.
    #[value(name = "B", alias = "b")]
    B,
    /// History.
    #[value(name = "C", alias = "c")]
    C,
}

/// The answer of `--input`, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Shares {
    input: String,
    /// Name of the datum that gave the capability.
    capability_name: String,
    nodes: Vec<Part>,
    map: Vec<Row>,
    /// Warnings of the file system: entries passed over, unreadable blocks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// The part of the input for one node.
#[derive(Debug, Serialize)]
struct Part {
    node: String,
    capability: f64,
    /// Origin of the capability: `data`, `scaled`, `fallback` or `given`.
    from: String,
    bytes: u64,
    /// Number of lines, where they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
}

/// A line of the block map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Row {
    /// Position of the node in the list, from 0: the array task.
    task: usize,
    node: String,
    uri: String,
    offset: u64,
    length: u64,
    /// Whether the node holds a replica; absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<bool>,
}

/// Capability of each node and its origin.
struct Capability {
    name: String,
    values: Vec<(f64, String)>,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        if self.stream.is_used() {
            return if self.stream.worker {
                self.stream.work()
            } else {
                self.stream.dispatch(global, self.known(global)?)
            };
        }
        let nodes = names(self.nodes.as_deref().unwrap_or_default())?;
        if nodes.is_empty() {
            return Err(Failure::usage("--nodes: expected at least one node"));
        }
        let name = self.input.as_deref().unwrap_or_default();
        let input = Input::open(global, name, self.locations.as_deref())?;
        let capability = capability(global, self, &nodes)?;
        let values: Vec<f64> = capability.values.iter().map(|(value, _)| *value).collect();
        let pieces = match &input {
            Input::File(file) => file.cut(&values, self.unit)?,
            Input::Blocks(blocks) => deal(&blocks.all, &nodes, &values)?,
        };
        let counted = self.unit == Unit::Lines && matches!(input, Input::File(_));
        let shares = shares(name, &input, &nodes, capability, &pieces, counted);
        if let Some(directory) = &self.out {
            write_parts(directory, &input, &nodes, &pieces, &shares)?;
        }
        global.show(&shares, text)
    }

    /// Returns the known capabilities of a stream's nodes before their workers start. A stream
    /// needs phalanxd only if the user asks for one of its data.
    fn known(&self, global: &Global) -> Result<BTreeMap<String, f64>, Failure> {
        let is_asked =
            self.capability.is_some() || self.method.is_some() || !self.weights.is_empty();
        let of_job = std::env::var("SLURM_JOB_NODELIST").ok();
        let nodes = names(self.nodes.as_deref().or(of_job.as_deref()).unwrap_or_default())?;
        if nodes.is_empty() {
            if is_asked {
                return Err(Failure::usage("--nodes: expected at least one node"));
            }
            return Ok(BTreeMap::new());
        }
        match capability(global, self, &nodes) {
            Ok(known) => {
                let values = known.values.into_iter().map(|(value, _)| value);
                Ok(nodes.into_iter().zip(values).collect())
            }
            Err(failure) if is_asked => Err(failure),
            Err(_) => Ok(BTreeMap::new()),
        }
    }
}

fn names(hostlist: &str) -> Result<Vec<String>, Failure> {
    let names = hostlist::expand(hostlist, NODES_MAX)
        .map_err(|error| Failure::usage(format!("--nodes: {error}")))?;
    // Parts have the names of their nodes: one would replace the other.
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        Some(name) => Err(Failure::usage(format!("--nodes: {name} is there twice"))),
        None => Ok(names),
    }
}

fn text(shares: &Shares) -> String {
    let mut text = table(&shares.map);
    for warning in &shares.warnings {
        text.push_str(&format!("# warning: {}\n", clean(warning)));
    }
    text
}

fn capability(global: &Global, arguments: &Args, nodes: &[String]) -> Result<Capability, Failure> {
    if !arguments.weights.is_empty() {
        return given(&arguments.weights, nodes.len());
    }
    let name = match (arguments.method, &arguments.capability) {
        (Some(Method::A), _) => Some("configuration"),
        (Some(Method::B), _) => Some("capability_cpu_load"),
        (Some(Method::C), _) => Some("capability_history"),
        (None, name) => name.as_deref(),
    };
    let mut path =
        format!("/v1/use/share.capability?nodes={}", percent_encode(&hostlist::compress(nodes)));
    if let Some(name) = name {
        let _ = write!(path, "&name={}", percent_encode(name));
    }
    let used: UsedValues = global.client()?.get(&path)?;
    let value_of = |node: &String| {
        let found = used.values.iter().find(|value| value.node == *node)?;
        let from = serde_json::to_value(found.from).ok()?;
        Some((found.value, from.as_str().unwrap_or_default().to_owned()))
    };
    let values = nodes.iter().map(|node| {
        value_of(node).ok_or_else(|| {
            let message = format!("phalanxd has no {} of {node}", used.name);
            Failure::negative(message)
        })
    });
    Ok(Capability { values: values.collect::<Result<_, _>>()?, name: used.name.clone() })
}

fn given(weights: &[f64], nodes: usize) -> Result<Capability, Failure> {
    if weights.len() != nodes {
        return Err(Failure::usage(format!(
            "--weights: expected {nodes} numbers, got {}",
            weights.len()
        )));
    }
    if let Some(bad) = weights.iter().find(|weight| !weight.is_finite() || **weight < 0.0) {
        return Err(Failure::usage(format!("--weights: expected numbers >= 0, got {bad}")));
    }
    if weights.iter().all(|weight| *weight == 0.0) {
        return Err(Failure::usage("--weights: expected at least one number above 0"));
    }
    let values = weights.iter().map(|weight| (*weight, "given".to_owned())).collect();
    Ok(Capability { name: "--weights".to_owned(), values })
}

/// Assigns blocks to nodes by Algorithm 1. Replicas on hosts other than the nodes do not count; a
/// block without a replica on the nodes may go to each.
fn deal(blocks: &[Block], nodes: &[String], capability: &[f64]) -> Result<Vec<Piece>, Failure> {
    let holders = |block: &Block| -> Vec<String> {
        let held = |node: &&String| block.hosts.iter().any(|host| same_host(host, node));
        nodes.iter().filter(held).cloned().collect()
    };
    let item = |(at, block): (usize, &Block)| {
        let held = holders(block);
        let replicas = if held.is_empty() { nodes.to_vec() } else { held };
        Item { id: at.to_string(), replicas, weight: block.length.max(1) }
    };
    let problem = Problem {
        nodes: nodes.to_vec(),
        capability: capability.to_vec(),
        load: None,
        items: Some(blocks.iter().enumerate().map(item).collect()),
    };
    let answer = solve(&problem).map_err(|error| Failure::usage(format!("--nodes: {error}")))?;
    let parts = answer.partition.map(|partition| partition.0).unwrap_or_default();
    let mut pieces = Vec::with_capacity(blocks.len());
    for (task, node) in nodes.iter().enumerate() {
        let ids = parts.iter().find(|(name, _)| name == node).map(|(_, ids)| ids);
        for block in
            ids.into_iter().flatten().filter_map(|id| blocks.get(id.parse::<usize>().ok()?))
        {
            let local = Some(block.hosts.iter().any(|host| same_host(host, node)));
            let Block { file, offset, length, .. } = *block;
            pieces.push(Piece { task, file, offset, length, lines: None, local });
        }
    }
    pieces.sort_by_key(|piece| (piece.task, piece.file, piece.offset));
    Ok(pieces)
}

/// Whether a host is a node: HDFS may know hosts by their full names, Slurm by short ones.
fn same_host(host: &str, node: &str) -> bool {
    host == node || host.split('.').next() == Some(node)
}

fn shares(
    name: &str,
    input: &Input,
    nodes: &[String],
    capability: Capability,
    pieces: &[Piece],
    counted: bool,
) -> Shares {
    let part = |(task, (node, (value, from))): (usize, (&String, &(f64, String)))| {
        let own = || pieces.iter().filter(|piece| piece.task == task);
        Part {
            node: node.clone(),
            capability: *value,
            from: from.clone(),
            bytes: own().map(|piece| piece.length).sum(),
            lines: counted.then(|| own().filter_map(|piece| piece.lines).sum()),
        }
    };
    let row = |piece: &Piece| {
        let node = nodes.get(piece.task).cloned().unwrap_or_default();
        let uri = match input {
            Input::File(_) => name.to_owned(),
            Input::Blocks(blocks) => blocks.files.get(piece.file).cloned().unwrap_or_default(),
        };
        let Piece { task, offset, length, local, .. } = *piece;
        Row { task, node, uri, offset, length, local }
    };
    Shares {
        input: name.to_owned(),
        capability_name: capability.name,
        nodes: nodes.iter().zip(&capability.values).enumerate().map(part).collect(),
        map: pieces.iter().map(row).collect(),
        warnings: match input {
            Input::File(_) => Vec::new(),
            Input::Blocks(blocks) => blocks.warnings.clone(),
        },
    }
}

/// Formats the block map: one line a piece with task, node, URI, offset, length, and 1 if the node
/// holds it, else 0 (`-` where that is not known); tabs between.
fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let local = row.local.map_or("-", |local| if local { "1" } else { "0" });
        let Row { task, node, uri, offset, length, .. } = row;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{task}\t{node}\t{uri}\t{offset}\t{length}\t{local}");
    }
    text
}

/// Name of the file with the block map, beside the parts.
const MAP: &str = "map.tsv";

fn write_parts(
    directory: &Path,
    input: &Input,
    nodes: &[String],
    pieces: &[Piece],
    shares: &Shares,
) -> Result<(), Failure> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| Failure::usage(format!("{path}: {error}"))
    };
    let is_file_name = |node: &str| Path::new(node).file_name().is_some_and(|name| name == node);
    if let Some(node) = nodes.iter().find(|node| !is_file_name(node) || *node == MAP) {
        let why = format!("--nodes: {node}: a part in --out cannot have this name");
        return Err(Failure::usage(why));
    }
    std::fs::create_dir_all(directory).map_err(failed(directory))?;
    let map = directory.join(MAP);
    std::fs::write(&map, table(&shares.map)).map_err(failed(&map))?;
    let Input::File(file) = input else {
        return Ok(());
    };
    for (task, node) in nodes.iter().enumerate() {
        let path = directory.join(node);
        let own: Vec<&Piece> = pieces.iter().filter(|piece| piece.task == task).collect();
        file.copy(&own, &path)?;
    }
    Ok(())
}
