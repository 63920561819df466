// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx hdfs ls`, `phalanx hdfs check`: need no daemon. They read as the user who calls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use phalanx_ffi::slurm::{Load, NodeDetail, Slurm, UpdateTime};
use serde::Serialize;

use super::args::Global;
use super::exit::{EXIT_CODES, Exit, Failure};
use super::render::{Left, Right, clean, lines, table};
use super::{Outcome, json};
use phalanx_core::blocks::Located;
use phalanx_service::config::{self, Config, HdfsConfig};
use phalanx_service::hdfs::{Hdfs, HdfsError, HostMap, HostNames};

/// `phalanx hdfs`.
#[derive(Args, Clone, Debug)]
pub struct HdfsArgs {
    /// Directory of core-site.xml and hdfs-site.xml, may be repeated
    /// [default: $HADOOP_CONF_DIR, else hdfs.conf_dirs of --config or
    /// /etc/phalanx/phalanx.toml]
    #[arg(long, global = true, value_name = "DIR")]
    pub conf_dir: Vec<PathBuf>,
    /// Names of DataNodes and the nodes they are: two hostlists with a space between, may be
    /// repeated, e.g. 'dn[01-99].hdfs.example node[01-99]'; before hdfs.host_map
    #[arg(long, global = true, value_name = "RULE")]
    pub map: Vec<String>,
    /// What to do.
    #[command(subcommand)]
    pub command: HdfsCommand,
}

/// `phalanx hdfs ...`.
#[derive(Clone, Debug, Subcommand)]
pub enum HdfsCommand {
    /// Show every DataNode with the Slurm node it is, or UNMAPPED
    #[command(after_help = EXIT_CODES)]
    Check {
        /// File system: hdfs://host:port/ or hdfs://nameservice/ [default: fs.defaultFS]
        #[arg(value_name = "URI", default_value = "/")]
        uri: String,
    },
    /// Show the blocks of an input by node
    #[command(after_help = EXIT_CODES)]
    Ls {
        /// File, directory or pattern: /data/in, hdfs://nn:8020/data/*.csv, webhdfs://...
        #[arg(value_name = "URI")]
        uri: String,
        /// Directories within the directory too
        #[arg(long)]
        recursive: bool,
        /// With --json: every block of every file too
        #[arg(long)]
        blocks: bool,
    },
}

#[derive(Serialize)]
struct CheckReport {
    file_system: String,
    unmapped: usize,
    datanodes: Vec<CheckRow>,
}

#[derive(Serialize)]
struct CheckRow {
    host: String,
    address: String,
    rack: String,
    state: &'static str,
    node: Option<String>,
}

#[derive(Serialize)]
struct LsReport {
    uri: String,
    files: usize,
    bytes: u64,
    blocks: usize,
    unreadable_blocks: usize,
    took_ms: u64,
    warnings: Vec<String>,
    nodes: Vec<LsRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    located: Option<Located>,
}

#[derive(Clone, Default, Serialize)]
struct LsRow {
    host: String,
    node: Option<String>,
    blocks: u64,
    bytes: u64,
}

/// Runs a command.
///
/// # Errors
/// [`Exit::Usage`] for what was typed and for configuration files, else [`Exit::Negative`].
pub(super) fn run(global: &Global, args: &HdfsArgs) -> Result<Outcome, Failure> {
    let config = config(global, &args.conf_dir, &args.map)?;
    let nodes = node_names();
    let map = HostMap::new(&config.host_map, nodes.as_deref().unwrap_or_default());
    let map = map.map_err(failure)?;
    let mut hdfs = Hdfs::configured(&config).map_err(failure)?;
    let user = user()?;
    let name = |at: u32| {
        let nodes = nodes.as_ref().ok()?;
        Some(nodes.get(usize::try_from(at).ok()?)?.name.clone())
    };
    let mut outcome = match &args.command {
        HdfsCommand::Check { uri } => check(global, &mut hdfs, uri, &user, &map, &name)?,
        HdfsCommand::Ls { uri, recursive, blocks } => {
            let started = Instant::now();
            let located =
                hdfs.locate(uri, *recursive, &user, "phalanx hdfs ls").map_err(failure)?;
            let mut report = ls(uri, &located, &map, &name);
            report.took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            if global.json {
                report.located = blocks.then_some(located);
                print_json(&report)?
            } else {
                Outcome::ok(ls_text(&report))
            }
        }
    };
    if let (Err(error), false) = (&nodes, global.json) {
        outcome.text.push_str(&format!("Slurm's nodes are not known: {error}\n"));
    }
    Ok(outcome)
}

/// An input's blocks, and the Slurm node that each DataNode is; its own host name where it is
/// none, or Slurm's nodes are not known.
///
/// # Errors
/// As [`run`].
pub(super) fn locate(global: &Global, uri: &str) -> Result<(Located, Vec<String>), Failure> {
    let config = config(global, &[], &[])?;
    let nodes = node_names().unwrap_or_default();
    let map = HostMap::new(&config.host_map, &nodes).map_err(failure)?;
    let mut hdfs = Hdfs::configured(&config).map_err(failure)?;
    let located = hdfs.locate(uri, false, &user()?, "phalanx share").map_err(failure)?;
    let name = |datanode: &phalanx_core::blocks::DataNode| {
        let node = map.node(datanode).and_then(|at| nodes.get(usize::try_from(at).ok()?));
        node.map_or_else(|| datanode.host.clone(), |node| node.name.clone())
    };
    let names = located.datanodes.iter().map(name).collect();
    Ok((located, names))
}

fn check(
    global: &Global,
    hdfs: &mut Hdfs,
    uri: &str,
    user: &str,
    map: &HostMap,
    name: &dyn Fn(u32) -> Option<String>,
) -> Result<Outcome, Failure> {
    let mut found = hdfs.datanodes(uri, user).map_err(failure)?;
    found.sort_by(|a, b| a.datanode.cmp(&b.datanode));
    let row = |report: &phalanx_service::hdfs::DataNodeReport| CheckRow {
        host: report.datanode.host.clone(),
        address: format!("{}:{}", report.datanode.ip, report.datanode.port),
        rack: report.datanode.rack.clone(),
        state: report.state,
        node: map.node(&report.datanode).and_then(name),
    };
    let datanodes: Vec<CheckRow> = found.iter().map(row).collect();
    let unmapped = datanodes.iter().filter(|row| row.node.is_none()).count();
    let report = CheckReport { file_system: uri.to_owned(), unmapped, datanodes };
    let exit = if unmapped > 0 { Exit::Negative } else { Exit::Ok };
    let text = if global.json { print_json(&report)?.text } else { check_text(&report) };
    Ok(Outcome { text, exit })
}

fn check_text(report: &CheckReport) -> String {
    let mut rows = table(&[
        ("DataNode", Left),
        ("Address", Left),
        ("Rack", Left),
        ("State", Left),
        ("Node", Left),
    ]);
    for row in &report.datanodes {
        let node = row.node.as_deref().unwrap_or("UNMAPPED");
        rows.add_row([
            clean(&row.host),
            clean(&row.address),
            clean(&row.rack),
            row.state.into(),
            clean(node),
        ]);
    }
    let (all, bad) = (report.datanodes.len(), report.unmapped);
    format!("{}{all} DataNodes, {bad} UNMAPPED\n", lines(&rows))
}

fn ls(
    uri: &str,
    located: &Located,
    map: &HostMap,
    name: &dyn Fn(u32) -> Option<String>,
) -> LsReport {
    let mut rows: Vec<LsRow> = Vec::new();
    for datanode in &located.datanodes {
        let node = map.node(datanode).and_then(name);
        rows.push(LsRow { host: datanode.host.clone(), node, ..LsRow::default() });
    }
    let blocks = || located.files.iter().flat_map(|file| &file.blocks);
    for replica in blocks().flat_map(|block| &block.replicas) {
        let at = usize::try_from(replica.datanode).unwrap_or(usize::MAX);
        if let Some(row) = rows.get_mut(at) {
            row.blocks += 1;
            row.bytes += replica.bytes;
        }
    }
    rows.sort_by(|a, b| a.host.cmp(&b.host));
    LsReport {
        uri: uri.to_owned(),
        files: located.files.len(),
        bytes: located.length(),
        blocks: located.blocks(),
        unreadable_blocks: blocks().filter(|block| block.corrupt).count(),
        took_ms: 0,
        warnings: located.warnings.clone(),
        nodes: rows,
        located: None,
    }
}

fn ls_text(report: &LsReport) -> String {
    let mut rows =
        table(&[("DataNode", Left), ("Node", Left), ("Replicas", Right), ("Bytes", Right)]);
    for row in &report.nodes {
        let node = row.node.as_deref().unwrap_or("UNMAPPED");
        rows.add_row([
            clean(&row.host),
            clean(node),
            row.blocks.to_string(),
            row.bytes.to_string(),
        ]);
    }
    let mut text = format!(
        "{}: {} files, {} bytes, {} blocks\n",
        clean(&report.uri),
        report.files,
        report.bytes,
        report.blocks
    );
    text.push_str(&lines(&rows));
    for warning in &report.warnings {
        text.push_str(&format!("warning: {}\n", clean(warning)));
    }
    text
}

fn print_json(report: &impl Serialize) -> Result<Outcome, Failure> {
    let body = serde_json::to_vec(report)
        .map_err(|error| Failure::new(Exit::Negative, error.to_string()))?;
    Ok(Outcome::ok(json::indent(&body)))
}

fn failure(error: HdfsError) -> Failure {
    let exit = match error {
        HdfsError::BadUri(_) | HdfsError::Configuration(_) | HdfsError::NotConfigured(_) => {
            Exit::Usage
        }
        _ => Exit::Negative,
    };
    Failure::new(exit, format!("hdfs: {error}"))
}

/// The section `[hdfs]`, with what was typed.
fn config(global: &Global, conf_dirs: &[PathBuf], rules: &[String]) -> Result<HdfsConfig, Failure> {
    let mut config = match &global.config {
        Some(file) => {
            Config::load(file).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?
        }
        // As for the socket: users need not be able to read it.
        None => Config::load(Path::new(config::DEFAULT_PATH)).unwrap_or_default(),
    }
    .hdfs;
    let variable = std::env::var_os("HADOOP_CONF_DIR").filter(|dir| !dir.is_empty());
    if !conf_dirs.is_empty() {
        config.conf_dirs = conf_dirs.to_vec();
    } else if let Some(dir) = variable {
        config.conf_dirs = vec![dir.into()];
    }
    // The last rule for a name holds.
    config.host_map.extend_from_slice(rules);
    Ok(config)
}

/// Who asks: HDFS decides by the name.
fn user() -> Result<String, Failure> {
    let uid = nix::unistd::geteuid();
    match nix::unistd::User::from_uid(uid) {
        Ok(Some(user)) => Ok(user.name),
        _ => Err(Failure::new(Exit::Negative, format!("user id {uid} has no name"))),
    }
}

/// Slurm's nodes under all their names.
fn node_names() -> Result<Vec<HostNames>, String> {
    let slurm = Slurm::init().map_err(|error| error.to_string())?;
    let loaded = slurm.load_nodes(UpdateTime::NEVER, NodeDetail::default());
    let Load::New(nodes) = loaded.map_err(|error| error.to_string())? else {
        return Ok(Vec::new());
    };
    let mut names = BTreeMap::new();
    for row in nodes.iter() {
        let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
        let node = HostNames {
            name: text(row.name()),
            hostname: text(row.hostname()),
            address: text(row.address()),
        };
        names.insert(node.name.clone(), node);
    }
    Ok(names.into_values().collect())
}
