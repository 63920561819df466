// SPDX-License-Identifier: GPL-3.0-or-later
//! The numbers of a report for other programs.

use std::fmt::Write as _;

use super::super::job::Workload;
use super::super::metrics::{Figures, bounded_slowdown, wait_s};
use super::Part;

/// One line for each policy.
pub(super) fn summary(figures: &[&Figures]) -> String {
    let mut out = String::from(
        "policy,jobs,skipped,makespan_s,cpu_utilization,gpu_allocated_pct,gpu_fragmented_pct,\
         wait_mean_s,wait_p95_s,wait_max_s,bounded_slowdown_mean,bounded_slowdown_p99,\
         mem_utilization,energy_j\n",
    );
    for own in figures {
        let float = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
        let whole = |value: Option<i64>| value.map_or(String::new(), |v| v.to_string());
        let fields = [
            own.policy.clone(),
            own.jobs.to_string(),
            own.skipped.to_string(),
            whole(own.makespan_s),
            float(own.utilization.cpu),
            float(own.gpu_allocated_pct),
            float(own.gpu_fragmented_pct),
            float(own.wait_mean_s),
            whole(own.wait_p95_s),
            whole(own.wait_max_s),
            float(own.bounded_slowdown_mean),
            float(own.bounded_slowdown_p99),
            float(own.utilization.mem),
            float(own.energy_j),
        ];
        out.push_str(&fields.join(","));
        out.push('\n');
    }
    out
}

/// One line for each job and policy.
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

/// Allocated over requested GPUs.
pub(super) fn filling(parts: &[(Figures, Vec<(f64, f64)>)]) -> String {
    let mut out = String::from("policy,requested_pct,allocated_pct\n");
    for (figures, curve) in parts {
        for (requested, allocated) in curve {
            let _ = writeln!(out, "{},{requested:.3},{allocated:.4}", figures.policy);
        }
    }
    out
}
