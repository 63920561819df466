// SPDX-License-Identifier: GPL-3.0-or-later
//! The numbers of a report for other programs.

use std::fmt::Write as _;

use super::super::job::Workload;
use super::super::metrics::{FIGURES, Figure, Figures, Part};
use super::super::waits::{bounded_slowdown, wait_s};

/// Writes one line for each policy.
pub(super) fn summary(figures: &[&Figures]) -> String {
    let names: Vec<&str> = FIGURES.iter().map(|figure| figure.key).collect();
    let mut out = format!("policy,{}\n", names.join(","));
    for own in figures {
        let field = |figure: &Figure| (figure.of)(own).map_or(String::new(), |v| v.to_string());
        let fields: Vec<String> = FIGURES.iter().map(field).collect();
        let _ = writeln!(out, "{},{}", own.policy, fields.join(","));
    }
    out
}

/// Writes one line for each job and policy.
pub(super) fn jobs(load: &Workload, parts: &[Part<'_>]) -> String {
    let mut out = String::from("policy,job,cpus,submit_s,start_s,end_s,wait_s,bounded_slowdown\n");
    for (figures, schedule) in parts {
        for (job, (start_s, end_s)) in load.jobs.iter().zip(schedule.spans()) {
            let _ = writeln!(
                out,
                "{},{},{},{},{start_s},{end_s},{},{:.4}",
                figures.policy,
                job.number,
                job.size,
                job.submit_s,
                wait_s(job, start_s),
                bounded_slowdown(job, end_s)
            );
        }
    }
    out
}
