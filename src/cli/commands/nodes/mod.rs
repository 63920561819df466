// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx nodes`

#[cfg(test)]
mod tests;
mod topology;

use crate::client::Method;
use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::{amount, fraction, many, percent};
use crate::text::{clean, table_of, wrapped};
use phalanx_core::text::percent_encode;
use phalanx_messages::rest::{ForgiveReport, NodesReport};

/// Show usage and weight of each resource, and usage and dispersion of each node
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Show leaf switches or blocks instead, with the number of idle nodes in each
    #[arg(long)]
    topology: bool,
    /// Forget the jobs that died on NODE, once it is mended: it no longer comes last
    #[arg(long, value_name = "NODE", conflicts_with = "topology")]
    forgive: Option<String>,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        if let Some(node) = &self.forgive {
            let path = format!("/v1/nodes/{}/forgive", percent_encode(node));
            return global.exchange(Method::POST, &path, None::<&()>, forgiven);
        }
        global.report("/v1/nodes", if self.topology { topology::text } else { text })
    }
}

fn forgiven(report: &ForgiveReport) -> String {
    format!("Node {}: jobs that died there until now count no more.\n", clean(&report.node))
}

fn text(report: &NodesReport) -> String {
    let mut out = String::new();
    let source = match report.source.as_str() {
        "plugin" => "from the plugin's events",
        "poll" => "from the last poll: the plugin is not connected",
        other => other,
    };
    out.push_str(&wrapped(&sentence(report), ""));
    let others = match report.nodes.iter().filter(|node| node.out).count() {
        0 => String::new(),
        count => format!(" and {count} that take no jobs and are not counted"),
    };
    let counted = report.nodes.iter().filter(|node| !node.out).count() as u64;
    let about = format!("{}{others}, {}.", many(counted, "node"), clean(source));
    out.push_str(&wrapped(&about, ""));
    out.push('\n');
    dimensions(&mut out, report);
    out.push('\n');
    nodes(&mut out, report);
    out
}

/// Says how much of all nodes is in use.
fn sentence(report: &NodesReport) -> String {
    let has = report.dimensions.iter().filter(|d| d.total > 0.0);
    let uses: Vec<String> =
        has.map(|d| format!("{} {} %", clean(&d.name), percent(d.used, d.total))).collect();
    match uses.len() {
        0 => "No node has anything.".to_owned(),
        _ => format!("In use: {}.", uses.join(", ")),
    }
}

fn dimensions(out: &mut String, report: &NodesReport) {
    table_of(&report.dimensions)
        .left("Resource", |d| d.name.clone())
        .left("Unit", |d| d.unit.clone())
        .right("Total", |d| amount(d.total))
        .right("Used", |d| amount(d.used))
        .right("Used [%]", |d| percent(d.used, d.total))
        .right("Jobs lacking", |d| d.pending)
        .right("Weight", |d| fraction(d.weight))
        .add_to(out);
}

fn nodes(out: &mut String, report: &NodesReport) {
    let mut table = table_of(&report.nodes)
        .left("Node", |node| node.name.clone())
        .left("State", |node| node.state.clone())
        .left("Partitions", |node| node.partitions.join(","))
        .right("Jobs", |node| node.jobs)
        .right("Dispersion", |node| fraction(node.dispersion));
    for (index, dimension) in report.dimensions.iter().enumerate() {
        let unit = match dimension.unit.as_str() {
            "count" | "" => String::new(),
            unit => format!(" [{unit}]"),
        };
        table = table.right(format!("{}{unit}", dimension.name), move |node| {
            let of = |vector: &[f64]| vector.get(index).copied().unwrap_or(0.0);
            let (used, total) = (of(&node.used), of(&node.total));
            // A node without the resource, or one of the whole cluster.
            match used == 0.0 && total == 0.0 {
                true => String::new(),
                false => format!("{}/{}", amount(used), amount(total)),
            }
        });
    }
    table.add_to(out);
    for (name, why) in
        report.nodes.iter().filter_map(|node| Some((&node.name, node.accused.as_ref()?)))
    {
        out.push_str(&wrapped(&format!("Node {} comes last: {}.", clean(name), clean(why)), ""));
    }
    if report.nodes.iter().any(|node| node.accused.is_some()) {
        out.push_str(&wrapped("Once it is mended: phalanx nodes --forgive NODE.", ""));
    }
}
