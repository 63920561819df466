// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx nodes`

#[cfg(test)]
mod tests;

use crate::exit::{EXIT_CODES, Failure};
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::{amount, fraction, percent};
use crate::text::{Left, Right, Side, clean, heading, lines, table};
use phalanx_service::api::types::NodesReport;

/// Show usage and weight of each resource, and usage and dispersion of each node
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Args;

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        global.report("/v1/nodes", text)
    }
}

fn text(report: &NodesReport) -> String {
    let mut out = String::new();
    let source = match report.source.as_str() {
        "plugin" => "from the plugin's events",
        "poll" => "from the last poll: the plugin is not connected",
        other => other,
    };
    heading(
        &mut out,
        &format!(
            "Utilisation {}, threshold {}: branch {}; {} nodes, {}",
            fraction(report.utilization),
            fraction(report.threshold),
            clean(&report.branch),
            report.nodes.len(),
            clean(source)
        ),
    );
    out.push('\n');
    dimensions(&mut out, report);
    out.push('\n');
    nodes(&mut out, report);
    out
}

fn dimensions(out: &mut String, report: &NodesReport) {
    let mut rows = table(&[
        ("Resource", Left),
        ("Unit", Left),
        ("Total", Right),
        ("Used", Right),
        ("Used [%]", Right),
        ("Jobs lacking", Right),
        ("Weight", Right),
        ("from initial", Right),
        ("from pending", Right),
        ("from usage", Right),
    ]);
    for dimension in &report.dimensions {
        rows.add_row([
            clean(&dimension.name),
            clean(&dimension.unit),
            amount(dimension.total),
            amount(dimension.used),
            percent(dimension.used, dimension.total),
            dimension.pending.to_string(),
            fraction(dimension.weight),
            fraction(dimension.weight_initial),
            fraction(dimension.weight_pending),
            fraction(dimension.weight_usage),
        ]);
    }
    out.push_str(&lines(&rows));
}

fn nodes(out: &mut String, report: &NodesReport) {
    let mut columns: Vec<(String, Side)> = vec![
        ("Node".to_owned(), Left),
        ("State".to_owned(), Left),
        ("Partitions".to_owned(), Left),
        ("Jobs".to_owned(), Right),
        ("Dispersion".to_owned(), Right),
    ];
    for dimension in &report.dimensions {
        let unit = if dimension.unit == "count" || dimension.unit.is_empty() {
            String::new()
        } else {
            format!(" [{}]", dimension.unit)
        };
        columns.push((format!("{}{unit}", dimension.name), Right));
    }
    let mut rows = table(&columns);
    for node in &report.nodes {
        let mut row = vec![
            clean(&node.name),
            clean(&node.state),
            clean(&node.partitions.join(",")),
            node.jobs.to_string(),
            fraction(node.dispersion),
        ];
        for index in 0..report.dimensions.len() {
            let of = |vector: &[f64]| vector.get(index).copied().unwrap_or(0.0);
            let (used, total) = (of(&node.used), of(&node.total));
            // A node without the resource, or one of the whole cluster.
            row.push(if total == 0.0 && used == 0.0 {
                "-".to_owned()
            } else {
                format!("{}/{}", amount(used), amount(total))
            });
        }
        rows.add_row(row);
    }
    out.push_str(&lines(&rows));
}
