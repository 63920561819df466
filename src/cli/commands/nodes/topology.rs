// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx nodes --topology`.

use crate::text::units::many;
use crate::text::{clean, heading, table_of};
use phalanx_core::topology::Kind;
use phalanx_messages::rest::{DomainReport, NodesReport, TopologyReport};

/// Formats all topologies, the highest level of each first.
pub fn text(report: &NodesReport) -> String {
    if report.topologies.is_empty() {
        return "No topology is known: only a connected plugin reports it.\n".to_owned();
    }
    let mut out = String::new();
    for topology in &report.topologies {
        one(&mut out, topology, report.topologies.len() > 1);
    }
    out
}

fn one(out: &mut String, topology: &TopologyReport, of_several: bool) {
    let default = if topology.is_default { ", the default" } else { "" };
    let name = format!("Topology {} ({}{default})", clean(&topology.name), clean(&topology.plugin));
    heading(out, &format!("{name}: {}", summary(topology)));
    if of_several && !topology.partitions.is_empty() {
        let names = clean(&topology.partitions.join(", "));
        out.push_str(&format!("Partitions: {names}.\n"));
    }
    if !has_leaves(topology) {
        return;
    }
    if topology.outside.total > 0 {
        let leaf = if topology.kind == Kind::Block { "in no block" } else { "on no leaf switch" };
        let (total, idle) = (topology.outside.total, topology.outside.idle);
        out.push_str(&format!("{} {leaf}, {idle} of them idle.\n", many(total as u64, "node")));
    }
    if !topology.unknown_nodes.is_empty() {
        let names = clean(&topology.unknown_nodes.join(", "));
        out.push_str(&format!("Slurm's file names nodes that there are not, such as {names}.\n"));
    }
    out.push('\n');
    let mut domains: Vec<&DomainReport> = topology.domains.iter().collect();
    domains.sort_by_key(|domain| std::cmp::Reverse(domain.level));
    let upper = |domain: &DomainReport, value: u32| match domain.level {
        0 => String::new(),
        _ => value.to_string(),
    };
    table_of(domains)
        .right("Level", |domain| domain.level)
        .left("Name", |domain| domain.name.clone())
        .left("Below", |domain| domain.parent.clone().unwrap_or_default())
        .right("Leaves", |domain| upper(domain, domain.leaves))
        .right("Whole", |domain| upper(domain, domain.whole_leaves))
        .right("Nodes", |domain| domain.counts.total)
        .right("Idle", |domain| domain.counts.idle)
        .right("Mixed", |domain| domain.counts.mixed)
        .right("Full", |domain| domain.counts.allocated)
        .right("Unusable", |domain| domain.counts.unavailable)
        .left("State", |domain| state(domain))
        .without_empty_columns()
        .add_to(out);
}

fn has_leaves(topology: &TopologyReport) -> bool {
    matches!(topology.kind, Kind::Tree | Kind::Block) && !topology.domains.is_empty()
}

fn summary(topology: &TopologyReport) -> String {
    let leaves = || topology.domains.iter().filter(|domain| domain.level == 0);
    let word = match topology.kind {
        Kind::Flat => return "all nodes are alike".to_owned(),
        Kind::Other => return "jobs of several nodes are left to Slurm".to_owned(),
        Kind::Unknown => {
            return "it could not be read; jobs of several nodes are left to Slurm".to_owned();
        }
        Kind::Tree => "leaf switches",
        Kind::Block => "blocks",
    };
    let whole = leaves().filter(|leaf| leaf.whole_leaves > 0).count();
    let largest = leaves().map(|leaf| leaf.counts.idle).max().unwrap_or(0);
    let size = topology
        .block_size
        .map_or_else(String::new, |size| format!(" of {}", many(size.into(), "node")));
    format!(
        "{} {word}{size}, {whole} of them whole; most idle nodes on one: {largest}",
        leaves().count()
    )
}

/// Says whether a job could have all nodes of a leaf at present.
fn state(leaf: &DomainReport) -> &'static str {
    match (leaf.level, leaf.counts.total, leaf.whole_leaves, leaf.counts.idle) {
        (1.., ..) => "",
        (_, 0, ..) => "empty",
        (_, _, 1.., _) => "whole",
        (_, _, _, 0) => "no idle node",
        _ => "broken",
    }
}
