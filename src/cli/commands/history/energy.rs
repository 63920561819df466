// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx history energy`.

use crate::text::units::{amount, fraction, seconds_fine, time, watts_from};
use crate::text::{Left, Right, clean, facts, heading, lines, table};
use phalanx_service::api::types::EnergyReport;

/// The whole report.
pub fn text(report: &EnergyReport) -> String {
    let mut out = String::new();
    heading(&mut out, &format!("Energy, as believed at {}", time(report.time_ms)));
    let price = match report.task_price > 0.0 {
        true => format!("{} a task", fraction(report.task_price)),
        false => format!("{} times the least energy cost, where no price is given", report.margin),
    };
    let per_kwh = format!("{} per kWh", fraction(report.energy_price_kwh));
    facts(&mut out, &[("Energy price", per_kwh), ("Tasks earn", price)]);
    let mut rows = table(&[
        ("Node class", Left),
        ("Nodes", Right),
        ("Full [W]", Right),
        ("Idle [W]", Right),
        ("From", Left),
    ]);
    for node in &report.nodes {
        rows.add_row([
            clean(&node.class),
            node.nodes.to_string(),
            node.busy_w.map_or_else(|| "-".to_owned(), amount),
            amount(node.idle_w),
            node.from.map_or("-", watts_from).to_owned(),
        ]);
    }
    out.push('\n');
    out.push_str(&lines(&rows));
    if report.rows.is_empty() {
        return out;
    }
    let mut rows = table(&[
        ("Job class", Left),
        ("Node class", Left),
        ("Runs", Right),
        ("Seconds", Right),
        ("Watts", Right),
        ("Of runs", Right),
        ("From", Left),
    ]);
    for row in &report.rows {
        rows.add_row([
            clean(&row.job_class),
            clean(&row.nodes),
            amount(row.runs),
            seconds_fine(row.seconds),
            row.watts.map_or_else(|| "by share of the node".to_owned(), amount),
            amount(row.measured),
            row.from.map_or("-", watts_from).to_owned(),
        ]);
    }
    out.push('\n');
    out.push_str(&lines(&rows));
    out
}
