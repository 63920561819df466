// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx data ls`, `phalanx data check`: read HDFS as the calling user, without the daemon.

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::global::Global;
use crate::hdfs::{self, Access};
use crate::outcome::Outcome;
use crate::text::units::many;
use crate::text::{clean, table_of};
use phalanx_core::blocks::Located;
use phalanx_hdfs::DataNodeReport;

/// Options that name the HDFS.
#[derive(clap::Args, Debug)]
struct Site {
    /// Directory of core-site.xml and hdfs-site.xml; may be given several times
    /// [default: $HADOOP_CONF_DIR, else hdfs.conf_dirs of --config or
    /// /etc/phalanx/phalanx.toml]
    #[arg(long, value_name = "DIR")]
    conf_dir: Vec<PathBuf>,
}

/// Show every DataNode of HDFS with the Slurm node it is, or UNMAPPED; for HDFS's superuser
#[derive(clap::Args, Debug)]
pub struct Check {
    /// File system: hdfs://host:port/ or hdfs://nameservice/ [default: fs.defaultFS]
    #[arg(value_name = "URI", default_value = "/")]
    uri: String,
    #[command(flatten)]
    site: Site,
}

/// Show the blocks of an input in HDFS by node
#[derive(clap::Args, Debug)]
pub struct Ls {
    /// File, directory or pattern: /data/in, hdfs://nn:8020/data/*.csv, webhdfs://...
    #[arg(value_name = "URI")]
    uri: String,
    /// Include directories within the directory
    #[arg(long)]
    recursive: bool,
    /// With --json: list every block of every file
    #[arg(long)]
    blocks: bool,
    #[command(flatten)]
    site: Site,
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

impl Check {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let mut access = self.site.open(global)?;
        let mut found = access.hdfs.datanodes(&self.uri, &access.user).map_err(hdfs::failure)?;
        found.sort_by(|a, b| a.datanode.cmp(&b.datanode));
        let row = |report: &DataNodeReport| CheckRow {
            host: report.datanode.host.clone(),
            address: format!("{}:{}", report.datanode.ip, report.datanode.port),
            rack: report.datanode.rack.clone(),
            state: report.state,
            node: access.node(&report.datanode),
        };
        let datanodes: Vec<CheckRow> = found.iter().map(row).collect();
        let unmapped = datanodes.iter().filter(|row| row.node.is_none()).count();
        let report = CheckReport { file_system: self.uri.clone(), unmapped, datanodes };
        let exit = if unmapped > 0 { Exit::Negative } else { Exit::Ok };
        let outcome = global.show(&report, check_text)?.ends_with(exit);
        Ok(with_warning(outcome, global, &access))
    }
}

impl Ls {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let mut access = self.site.open(global)?;
        let started = Instant::now();
        let located = access.locate(&self.uri, self.recursive, "phalanx data ls")?;
        let mut report = ls(&self.uri, &located, &access);
        report.took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        report.located = self.blocks.then_some(located);
        Ok(with_warning(global.show(&report, ls_text)?, global, &access))
    }
}

impl Site {
    fn open(&self, global: &Global) -> Result<Access, Failure> {
        Access::open(global, &self.conf_dir)
    }
}

/// Adds to a text why Slurm's nodes are not known.
fn with_warning(mut outcome: Outcome, global: &Global, access: &Access) -> Outcome {
    if let (Some(error), false) = (access.no_nodes(), global.json) {
        outcome.text.push_str(&format!("Slurm's nodes are not known: {error}\n"));
    }
    outcome
}

fn check_text(report: &CheckReport) -> String {
    let rows = table_of(&report.datanodes)
        .left("DataNode", |row| row.host.clone())
        .left("Address", |row| row.address.clone())
        .left("Rack", |row| row.rack.clone())
        .left("State", |row| row.state)
        .left("Node", |row| node_or_unmapped(&row.node))
        .text();
    format!("{rows}{} DataNodes, {} UNMAPPED\n", report.datanodes.len(), report.unmapped)
}

fn node_or_unmapped(node: &Option<String>) -> String {
    node.clone().unwrap_or_else(|| "UNMAPPED".to_owned())
}

fn ls(uri: &str, located: &Located, access: &Access) -> LsReport {
    let mut rows: Vec<LsRow> = Vec::new();
    for datanode in &located.datanodes {
        let node = access.node(datanode);
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
    let LsReport { files, bytes, blocks, .. } = report;
    let uri = clean(&report.uri);
    let mut text = {
        let [files, bytes, blocks] =
            [(*files as u64, "file"), (*bytes, "byte"), (*blocks as u64, "block")]
                .map(|(n, what)| many(n, what));
        format!("{uri}: {files}, {bytes}, {blocks}\n")
    };
    text.push_str(
        &table_of(&report.nodes)
            .left("DataNode", |row| row.host.clone())
            .left("Node", |row| node_or_unmapped(&row.node))
            .right("Replicas", |row| row.blocks)
            .right("Bytes", |row| row.bytes)
            .text(),
    );
    for warning in &report.warnings {
        text.push_str(&format!("warning: {}\n", clean(warning)));
    }
    text
}
