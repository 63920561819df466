// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx plan`

#[cfg(test)]
mod tests;
mod what_if;

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::{many, millis, start, time};
use crate::text::{clean, heading, preference, table_of, wrapped};
use phalanx_core::reason::WaitsFor;
use phalanx_messages::rest::{PlanReport, PlannedJob};
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
    #[command(flatten)]
    what_if: what_if::Args,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        if global.config.is_some() {
            return self.what_if.run(global);
        }
        global.report("/v1/plan", text)
    }
}

fn text(report: &PlanReport) -> String {
    let mut out = wrapped(&sentence(report), "");
    if !report.jobs.is_empty() {
        out.push('\n');
        let delta = |delta: i32| if delta == 0 { String::new() } else { format!("{delta:+}") };
        let id = |job: &PlannedJob| match job.label.as_str() {
            "" => job.job_id.to_string(),
            label => label.to_owned(),
        };
        table_of(report.jobs.iter().enumerate())
            .right("Order", |(index, _)| index + 1)
            .left("Job", |(_, job)| id(job))
            .left("Method", |(_, job)| job.method.clone())
            .right("Rank", |(_, job)| job.rank.map_or(String::new(), |rank| (rank + 1).to_string()))
            .right("Delta", |(_, job)| delta(job.delta))
            .left("Room now on", |(_, job)| job.nodes.clone())
            .left("Waits for", |(_, job)| job.reason.clone().unwrap_or_default())
            .left("Expected to start", |(_, job)| job.start_ms.map(start).unwrap_or_default())
            .left("Preference", |(_, job)| {
                job.preference.as_ref().map(preference::short).unwrap_or_default()
            })
            .without_empty_columns()
            .add_to(&mut out);
    }
    let (at, took) = (time(report.time_ms), millis(report.took_ms));
    let made = format!("Planned at {at} in {took}, from snapshot {}.", report.epoch);
    heading(&mut out, &made);
    busy(report).for_each(|method| out.push_str(&wrapped(&of_method(method), "  ")));
    out
}

/// Returns the methods with jobs, or that failed, which are the methods shown.
fn busy(report: &PlanReport) -> impl Iterator<Item = &MethodReport> {
    report.methods.iter().filter(|method| method.jobs > 0 || method.error.is_some())
}

/// Says how many jobs could start, and what keeps most of the others.
fn sentence(report: &PlanReport) -> String {
    let waiting = report.jobs.len() as u64 + report.not_planned;
    if waiting == 0 {
        return "No job waits.".to_owned();
    }
    let starts = report.jobs.iter().filter(|job| job.reason.is_none()).count();
    let wait = if waiting == 1 { "waits" } else { "wait" };
    let mut text = format!("{} {wait}; there is room for {starts} now", many(waiting, "job"));
    let never = Some(WaitsFor::Never.text());
    let never = report.jobs.iter().filter(|job| job.reason.as_deref() == never).count();
    if never > 0 {
        text.push_str(&format!(", {never} can never start as submitted"));
    }
    if report.not_planned > 0 {
        text.push_str(&format!(", not looked at: {}", report.not_planned));
    }
    text + "."
}

/// Describes what a method did, and how far its plan may be from the best one.
fn of_method(method: &MethodReport) -> String {
    let name = format!("{} {}", clean(&method.method), method.mode);
    let name = name.trim_end();
    if let Some(error) = &method.error {
        return format!("{name}: {}", clean(error));
    }
    let (jobs, starts, took) = (method.jobs, method.starts, millis(method.took_ms));
    let mut text = format!("{name}: {starts} of {jobs} to start now, made in {took}");
    if let (Some(of), Some(bound)) = (method.objective, method.upper_bound) {
        text.push_str(&format!("; worth {of:.2}, no plan more than {bound:.2}"));
    }
    if let Some(gap) = method.gap {
        text.push_str(&format!(" (gap {:.1} %)", 100.0 * gap));
    }
    if let (Some(generations), Some(stopped)) = (method.terms.get("generations"), method.stopped) {
        let stopped = format!("{stopped:?}").to_lowercase();
        text.push_str(&format!("; {generations} generations, stopped: {stopped}"));
    }
    text
}
