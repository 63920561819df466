// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx simulate`.

use crate::text::table_of;
use crate::text::units::KWH;
use phalanx_sim::metrics::Figures;

/// Formats a row for each policy; columns without a value in any row are left out.
pub fn text(all: &[Figures]) -> String {
    table_of(all)
        .left("Policy", |f| f.policy.clone())
        .right("Jobs", |f| f.jobs)
        .right("Skipped", |f| some((f.skipped > 0).then_some(f.skipped), |n| n.to_string()))
        .right("Makespan [h]", |f| some(f.makespan_s, hours))
        .right("CPU [%]", |f| some(f.utilization.cpu, |u| format!("{:.1}", u * 100.0)))
        .right("Memory [%]", |f| some(f.utilization.mem, |u| format!("{:.1}", u * 100.0)))
        .right("GPU [%]", |f| some(f.gpu_allocated_pct, |u| format!("{u:.2}")))
        .right("GPU unusable [%]", |f| some(f.gpu_fragmented_pct, |u| format!("{u:.2}")))
        .right("Wait mean [s]", |f| some(f.wait_mean_s, |w| format!("{w:.0}")))
        .right("p95 [s]", |f| some(f.wait_p95_s, |w| w.to_string()))
        .right("max [s]", |f| some(f.wait_max_s, |w| w.to_string()))
        .right("Slowdown mean", |f| some(f.bounded_slowdown_mean, |s| format!("{s:.2}")))
        .right("p99", |f| some(f.bounded_slowdown_p99, |s| format!("{s:.1}")))
        .right("Energy [kWh]", |f| some(f.energy_j, |joules| format!("{:.1}", joules / KWH)))
        .right("Time [s]", |f| format!("{:.2}", f.wall_s))
        .without_empty_columns()
        .text()
}

fn some<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map(text).unwrap_or_default()
}

#[allow(clippy::cast_precision_loss)] // seconds stay below 2^53
fn hours(seconds: i64) -> String {
    format!("{:.2}", seconds as f64 / 3600.0)
}
