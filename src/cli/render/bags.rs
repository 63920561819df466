// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx plan --bags` and `phalanx history energy`

use super::units::{amount, fraction, fraction_or_dash, millis, seconds_fine, time};
use super::{Left, Right, clean, facts, heading, lines, table};
use phalanx_planner::bag::WattsFrom;
use phalanx_planner::preference::{BagNote, BagRow, MethodReport};
use phalanx_service::api::types::{EnergyReport, PlanReport};

/// Joules of a kilowatt hour.
const KWH: f64 = 3.6e6;

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
    facts(&mut out, &totals(method));
    if !method.bags.is_empty() {
        out.push('\n');
        out.push_str(&arrays(&method.bags));
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
    let mut rows = table(&[
        ("Array", Right),
        ("Job class", Left),
        ("Waiting", Right),
        ("Running", Right),
        ("Node class", Left),
        ("Tasks", Right),
        ("Seconds", Right),
        ("Watts", Right),
        ("From", Left),
    ]);
    for bag in bags {
        for (at, share) in bag.shares.iter().enumerate() {
            let first = |text: String| if at == 0 { text } else { String::new() };
            rows.add_row([
                first(bag.array.to_string()),
                first(clean(&bag.job_class)),
                first(format!("{}{}", bag.pending, if bag.waits { " (cheaper hour)" } else { "" })),
                first(bag.running.to_string()),
                clean(&share.nodes),
                share.tasks.to_string(),
                seconds_fine(share.seconds),
                amount(share.watts),
                from(share.watts_from).to_owned(),
            ]);
        }
    }
    lines(&rows)
}

fn from(from: WattsFrom) -> &'static str {
    match from {
        WattsFrom::Accounting => "accounting",
        WattsFrom::Slurm => "slurm",
        WattsFrom::Metric => "metric",
        WattsFrom::Configuration => "configuration",
    }
}

/// Where an array's waiting tasks are to go, in a few words.
pub(super) fn shares(bag: &BagRow) -> String {
    if bag.waits {
        return "waits for cheaper energy".to_owned();
    }
    let used = bag.shares.iter().filter(|share| share.tasks > 0);
    let one = |share: &phalanx_planner::preference::BagShare| {
        format!("{} to {}", share.tasks, clean(&share.nodes))
    };
    used.map(one).collect::<Vec<_>>().join(", ")
}

/// Lines of an explanation.
pub(super) fn facts_of(note: &BagNote) -> Vec<(&'static str, String)> {
    let bag = &note.bag;
    let mut list = vec![
        ("Array", format!("{}, class {}", bag.array, clean(&bag.job_class))),
        ("Waiting tasks", format!("{} of them: {}", bag.pending, shares(bag))),
    ];
    for (at, share) in bag.shares.iter().enumerate() {
        let cost = share.seconds * share.watts / KWH * note.energy_price_kwh;
        list.push((
            if at == 0 { "A task" } else { "" },
            format!(
                "on {}: {}, {} W ({}), energy for {}",
                clean(&share.nodes),
                seconds_fine(share.seconds),
                amount(share.watts),
                from(share.watts_from),
                fraction(cost)
            ),
        ));
    }
    let loss = if bag.loss { ", below its energy cost" } else { "" };
    list.push(("Worth", format!("{} a task{loss}", fraction(bag.price))));
    list.push(("Plan's profit", format!("{} per hour", fraction_or_dash(note.profit_per_hour))));
    list
}

/// `phalanx history energy`
pub fn energy(report: &EnergyReport) -> String {
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
            node.from.map_or("-", from).to_owned(),
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
            row.from.map_or("-", from).to_owned(),
        ]);
    }
    out.push('\n');
    out.push_str(&lines(&rows));
    out
}
