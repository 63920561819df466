// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx plan`

mod bags;
#[cfg(test)]
mod tests;
mod what_if;

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::{amount, fraction_or_dash, millis, time};
use crate::text::{clean, facts, heading, preference, table_of, wrapped};
use phalanx_messages::rest::PlanReport;
use phalanx_planner::preference::MethodReport;

/// Show the plan for the pending jobs, or with --config what another configuration would change
///
/// With --config FILE, the jobs of the live queue are simulated under the configuration in force
/// and under that of FILE, and the differences are listed. Nothing is changed: phalanxd is asked
/// for nodes, jobs and learned run times, and the simulation runs here. Jobs that wait for
/// something else than resources are left out. FILE does not name the control socket then: that
/// is the one of --socket, $PHALANX_SOCKET or /etc/phalanx/phalanx.toml.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Show only job arrays as bags of tasks: split, makespan, energy, profit and its bound
    #[arg(long)]
    bags: bool,
    #[command(flatten)]
    what_if: what_if::Args,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        if global.config.is_some() && !self.bags {
            return self.what_if.run(global);
        }
        self.what_if.refuse()?;
        global.report("/v1/plan", if self.bags { bags::text } else { text })
    }
}

fn text(report: &PlanReport) -> String {
    let mut out = wrapped(&sentence(report), "");
    out.push_str(&wrapped(
        &format!(
            "Plan of {} from snapshot {}, made in {}: {} jobs, {} not planned",
            time(report.time_ms),
            report.epoch,
            millis(report.took_ms),
            report.jobs.len(),
            report.not_planned
        ),
        "",
    ));
    busy(report).for_each(|method| methods(&mut out, method));
    if report.jobs.is_empty() {
        return out;
    }
    out.push('\n');
    let delta = |delta: i32| if delta == 0 { String::new() } else { format!("{delta:+}") };
    table_of(report.jobs.iter().enumerate())
        .right("Order", |(index, _)| index + 1)
        .right("Job", |(_, job)| job.job_id)
        .left("Method", |(_, job)| job.method.clone())
        .right("Rank", |(_, job)| job.rank.map_or(String::new(), |rank| (rank + 1).to_string()))
        .right("Delta", |(_, job)| delta(job.delta))
        .left("Nodes now", |(_, job)| job.nodes.clone())
        .left("Waits for", |(_, job)| job.reason.clone().unwrap_or_default())
        .left("Why there", |(_, job)| {
            job.preference.as_ref().map(preference::short).unwrap_or_default()
        })
        .add_to(&mut out);
    out
}

/// Returns the methods with jobs, or that failed; the others are not shown.
fn busy(report: &PlanReport) -> impl Iterator<Item = &MethodReport> {
    report.methods.iter().filter(|method| method.jobs > 0 || method.error.is_some())
}

/// Says how many jobs could start, and how far the methods are from the best possible.
fn sentence(report: &PlanReport) -> String {
    let waiting = report.jobs.len() as u64 + report.not_planned;
    if waiting == 0 {
        return "Nobody waits.".to_owned();
    }
    let starts = report.jobs.iter().filter(|job| job.reason.is_none()).count();
    let gaps = busy(report).filter_map(|method| Some((&method.method, method.gap?)));
    let proofs: Vec<String> = gaps
        .map(|(method, gap)| {
            format!("; {} is at most {:.1} % from the best possible", clean(method), gap * 100.0)
        })
        .collect();
    format!("{starts} of {waiting} waiting jobs could start now{}.", proofs.concat())
}

/// Objective, terms and certified gap of one method.
fn methods(out: &mut String, method: &MethodReport) {
    let name = format!("Method {} {}", clean(&method.method), clean(&method.mode));
    let text = match &method.error {
        Some(error) => format!("{name}: {}", clean(error)),
        None => format!(
            "{}: {} jobs, {} start now, made in {}",
            name.trim_end(),
            method.jobs,
            method.starts,
            millis(method.took_ms)
        ),
    };
    heading(out, &text);
    let mut list = Vec::new();
    if method.objective.is_some() {
        list.push(("Objective", fraction_or_dash(method.objective)));
        list.push(("No plan exceeds", fraction_or_dash(method.upper_bound)));
        list.push(("Certified gap", fraction_or_dash(method.gap)));
    }
    for (at, (term, value)) in method.terms.iter().enumerate() {
        let title = if at == 0 { "Terms" } else { "" };
        list.push((title, format!("{} {}", clean(term), amount(*value))));
    }
    out.push_str(&facts(&list));
}
