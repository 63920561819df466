// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx status --watch`.

use std::collections::BTreeSet;

use super::Look;
use crate::commands::status::render::verdict;
use crate::text::units::{clock, time};
use crate::text::{clean, facts, heading, table_of, wrapped};
use phalanx_core::number::as_f64;
use phalanx_messages::rest::{LatestDecision, PlannedJob, Status};

/// Returns the page; rates are those since `before`, or else since the daemon's start.
pub fn text(look: &Look, before: Option<&Look>, list: usize) -> String {
    let status = &look.status;
    let mut out = wrapped(&verdict(status), "");
    let (slurm, run) = (&status.slurm, &status.run_now);
    let cluster = clean(&slurm.cluster);
    out.push_str(&facts(&[
        ("Cluster", format!("{cluster}, {} nodes, {}", slurm.nodes, time(look.time_ms))),
        ("Jobs", format!("{} waiting, {} running", slurm.jobs_pending, slurm.jobs_running)),
        ("Questions", questions(look, before)),
        ("Placed", format!("{} of {} answers for starts", run.narrowed, run.answered)),
    ]));
    queue(&mut out, look, list);
    decisions(&mut out, look, list);
    out
}

fn questions(look: &Look, before: Option<&Look>) -> String {
    let asked = |status: &Status| status.run_now.asked + status.will_run.asked;
    let all = asked(&look.status);
    // A daemon that was started anew counts from zero.
    let since = before.filter(|before| look.status.uptime_s >= before.status.uptime_s);
    let (number, seconds, since) = match since {
        Some(before) => {
            let ms = look.time_ms.saturating_sub(before.time_ms);
            (all.saturating_sub(asked(&before.status)), as_f64(ms) / 1000.0, "now")
        }
        None => (all, as_f64(look.status.uptime_s), "mean since the start"),
    };
    if seconds <= 0.0 {
        return format!("{all}, rate unknown");
    }
    format!("{all}, {:.1} a second {since}", as_f64(number) / seconds)
}

fn queue(out: &mut String, look: &Look, list: usize) {
    let Some(plan) = &look.plan else {
        heading(out, "Queue: no plan yet");
        return;
    };
    let more = (plan.jobs.len() as u64 + plan.not_planned).saturating_sub(list as u64);
    let more = if more > 0 { format!(", {more} more") } else { String::new() };
    if plan.jobs.is_empty() {
        heading(out, "Nobody waits");
        return;
    }
    heading(out, &format!("Queue{more}"));
    let what = |job: &&PlannedJob| {
        job.reason.clone().unwrap_or_else(|| format!("its turn; there is room on {}", job.nodes))
    };
    table_of(plan.jobs.iter().take(list))
        .left(
            "Job",
            |job| if job.label.is_empty() { job.job_id.to_string() } else { job.label.clone() },
        )
        .left("Method", |job| job.method.clone())
        .left("Waits for", what)
        .add_to(out);
}

fn decisions(out: &mut String, look: &Look, list: usize) {
    let Some(latest) = &look.decisions else {
        heading(out, "Latest decisions: unknown, the history is off or does not answer");
        return;
    };
    if latest.decisions.is_empty() {
        heading(out, "No decision yet");
        return;
    }
    heading(out, "Latest decisions");
    // Slurm asks of a waiting job again and again: its latest question says all.
    let mut seen = BTreeSet::new();
    let once = latest.decisions.iter().filter(|made| seen.insert((&made.job, &made.ask)));
    table_of(once.take(list))
        .left("Time", |made| clock(made.time_ms))
        .left("Job", |made| made.job.clone())
        .left("Partition", |made| made.partition.clone())
        .left("Call", |made| made.ask.clone())
        .left("Nodes", |made| made.nodes.clone())
        .left("What became of it", |made| became(made))
        .add_to(out);
}

fn became(made: &LatestDecision) -> String {
    match (&made.reason, &made.outcome, made.placed) {
        (Some(reason), ..) => format!("no opinion: {reason}"),
        (None, Some(outcome), _) => format!("Slurm chose: {outcome}"),
        (None, None, Some(true)) => format!("placed so, {} us", made.latency_us),
        (None, None, Some(false)) => "Slurm did not start it".to_owned(),
        (None, None, None) => format!("not told, mode {}", made.mode),
    }
}
