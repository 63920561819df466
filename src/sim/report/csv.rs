// SPDX-License-Identifier: GPL-3.0-or-later
//! The numbers of a report for other programs.

use std::fmt::Write as _;

use super::super::job::Workload;
use super::super::metrics::{Figures, bounded_slowdown, wait_s};
use super::Part;

/// Name and figure of a column.
type Column = (&'static str, fn(&Figures) -> Option<f64>);

/// Name and figure of each column behind the policy's; whole numbers print without a fraction.
const COLUMNS: [Column; 13] = [
    ("jobs", |f| Some(f.jobs as f64)),
    ("skipped", |f| Some(f.skipped as f64)),
    ("makespan_s", |f| f.makespan_s.map(|s| s as f64)),
    ("cpu_utilization", |f| f.utilization.cpu),
    ("gpu_allocated_pct", |f| f.gpu_allocated_pct),
    ("gpu_fragmented_pct", |f| f.gpu_fragmented_pct),
    ("wait_mean_s", |f| f.wait_mean_s),
    ("wait_p95_s", |f| f.wait_p95_s.map(|s| s as f64)),
    ("wait_max_s", |f| f.wait_max_s.map(|s| s as f64)),
    ("bounded_slowdown_mean", |f| f.bounded_slowdown_mean),
    ("bounded_slowdown_p99", |f| f.bounded_slowdown_p99),
    ("mem_utilization", |f| f.utilization.mem),
    ("energy_j", |f| f.energy_j),
];

/// Writes one line for each policy.
pub(super) fn summary(figures: &[&Figures]) -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let mut out = format!("policy,{}\n", names.join(","));
    for own in figures {
        let field = |(_, of): &Column| of(own).map_or(String::new(), |value| value.to_string());
        let fields: Vec<String> = COLUMNS.iter().map(field).collect();
        let _ = writeln!(out, "{},{}", own.policy, fields.join(","));
    }
    out
}

/// Writes one line for each job and policy.
pub(super) fn jobs(load: &Workload, parts: &[Part<'_>]) -> String {
    let mut out = String::from("policy,job,cpus,submit_s,start_s,end_s,wait_s,bounded_slowdown\n");
    for part in parts {
        for (job, &start_s) in load.jobs.iter().zip(&part.schedule.starts_s) {
            let _ = writeln!(
                out,
                "{},{},{},{},{start_s},{},{},{:.4}",
                part.figures.policy,
                job.number,
                job.size,
                job.submit_s,
                start_s.saturating_add_unsigned(job.run_s),
                wait_s(job, start_s),
                bounded_slowdown(job, start_s)
            );
        }
    }
    out
}
