// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx plan --bags`

use crate::text::units::{KWH, amount, fraction_or_dash, millis, seconds_fine, time, watts_from};
use crate::text::{BLANK, clean, facts, heading, table_of};
use phalanx_messages::rest::PlanReport;
use phalanx_planner::preference::{BagRow, MethodReport};

/// Arrays of the plan.
pub fn text(report: &PlanReport) -> String {
    let mut out = String::new();
    let Some(method) = report.methods.iter().find(|method| method.method == "bag") else {
        heading(&mut out, "Bags: the method is switched off");
        return out;
    };
    let title = match &method.error {
        Some(error) => format!("Bags: {}", clean(error)),
        None => format!(
            "Bags {} of {}, made in {}: {} arrays",
            clean(&method.mode),
            time(report.time_ms),
            millis(method.took_ms),
            method.bags.len()
        ),
    };
    heading(&mut out, &title);
    out.push_str(&facts(&totals(method)));
    if method.bags.iter().any(|bag| !bag.shares.is_empty()) {
        out.push('\n');
        out.push_str(&arrays(&method.bags));
    }
    for bag in method.bags.iter().filter(|bag| !bag.missing.is_empty()) {
        let planned = if bag.shares.is_empty() { " (not planned)" } else { "" };
        let text = format!("Array {}{planned} lacks {}", bag.array, bag.missing.join("; "));
        out.push_str(&format!("\n{}\n", clean(&text)));
    }
    out
}

fn totals(method: &MethodReport) -> Vec<(&'static str, String)> {
    let term = |name: &str| method.terms.get(name).copied();
    if method.objective.is_none() {
        return Vec::new();
    }
    let hourly = |per_s: Option<f64>| fraction_or_dash(per_s.map(|per_s| per_s * 3600.0));
    vec![
        (
            "Profit per hour",
            format!("{} by whole tasks", fraction_or_dash(term("profit_per_hour"))),
        ),
        ("Solved for", format!("{} per hour, above idle", hourly(method.objective))),
        (
            "No plan exceeds",
            format!("{} (gap {})", hourly(method.upper_bound), fraction_or_dash(method.gap)),
        ),
        ("Makespan", seconds_fine(term("makespan_s").unwrap_or(0.0))),
        ("Revenue", fraction_or_dash(term("revenue"))),
        (
            "Energy",
            format!("{} kWh above idle", fraction_or_dash(term("energy_j").map(|j| j / KWH))),
        ),
        ("Idle power", format!("{} W", amount(term("idle_w").unwrap_or(0.0)))),
        ("Energy price", format!("{} per kWh", fraction_or_dash(term("energy_price_kwh")))),
    ]
}

fn arrays(bags: &[BagRow]) -> String {
    let pending =
        |bag: &BagRow| format!("{}{}", bag.pending, if bag.waits { " (cheaper hour)" } else { "" });
    // An array is named in the first of its lines only.
    let first = |at: usize, text: String| if at == 0 { text } else { BLANK.to_owned() };
    let lines = bags
        .iter()
        .flat_map(|bag| bag.shares.iter().enumerate().map(move |(at, share)| (bag, at, share)));
    table_of(lines)
        .right("Array", |(bag, at, _)| first(*at, bag.array.to_string()))
        .left("Job class", |(bag, at, _)| first(*at, clean(&bag.job_class)))
        .right("Waiting", |(bag, at, _)| first(*at, pending(bag)))
        .right("Running", |(bag, at, _)| first(*at, bag.running.to_string()))
        .left("Node class", |(.., share)| share.nodes.clone())
        .right("Tasks", |(.., share)| share.tasks)
        .right("Seconds", |(.., share)| seconds_fine(share.seconds))
        .right("Watts", |(.., share)| amount(share.watts))
        .left("From", |(.., share)| watts_from(share.watts_from))
        .text()
}
