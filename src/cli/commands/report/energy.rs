// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx report energy`

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::{amount, fraction, seconds_fine, time, watts_from};
use crate::text::{facts, heading, table_of};
use phalanx_messages::rest::EnergyReport;

/// Show the power of each class of nodes and jobs that decisions use, and where it comes from
#[derive(clap::Args, Debug)]
pub struct Args {}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        global.report("/v1/history/energy", text)
    }
}

fn text(report: &EnergyReport) -> String {
    let mut out = String::new();
    heading(&mut out, &format!("Energy, as believed at {}", time(report.time_ms)));
    let price = match report.task_price > 0.0 {
        true => format!("{} a task", fraction(report.task_price)),
        false => "what price= says; without it energy only breaks ties".to_owned(),
    };
    let per_kwh = format!("{} per kWh", fraction(report.energy_price_kwh));
    out.push_str(&facts(&[("Energy price", per_kwh), ("Tasks earn", price)]));
    out.push('\n');
    table_of(&report.nodes)
        .left("Node class", |node| node.class.clone())
        .right("Nodes", |node| node.nodes)
        .right("Full [W]", |node| node.busy_w.map(amount).unwrap_or_default())
        .right("Idle [W]", |node| amount(node.idle_w))
        .left("From", |node| node.from.map(watts_from).unwrap_or_default())
        .add_to(&mut out);
    if report.rows.is_empty() {
        return out;
    }
    let watts = |watts: Option<f64>| watts.map_or("by share of the node".to_owned(), amount);
    out.push('\n');
    table_of(&report.rows)
        .left("Job class", |row| row.job_class.clone())
        .left("Node class", |row| row.nodes.clone())
        .right("Runs", |row| amount(row.runs))
        .right("Seconds", |row| seconds_fine(row.seconds))
        .right("Watts", |row| watts(row.watts))
        .right("Of runs", |row| amount(row.measured))
        .left("From", |row| row.from.map(watts_from).unwrap_or_default())
        .add_to(&mut out);
    out
}
