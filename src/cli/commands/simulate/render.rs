// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx simulate`.

use crate::text::{Left, Right, Side, clean, lines, table};
use phalanx_sim::metrics::Figures;

/// Head, side and value of a column; `None` where a policy has no such figure.
type Column = (&'static str, Side, fn(&Figures) -> Option<String>);

const COLUMNS: [Column; 15] = [
    ("Policy", Left, |f| Some(clean(&f.policy))),
    ("Jobs", Right, |f| Some(f.jobs.to_string())),
    ("Skipped", Right, |f| (f.skipped > 0).then(|| f.skipped.to_string())),
    ("Makespan [h]", Right, |f| f.makespan_s.map(hours)),
    ("CPU [%]", Right, |f| f.utilization.cpu.map(|u| format!("{:.1}", u * 100.0))),
    ("Memory [%]", Right, |f| f.utilization.mem.map(|u| format!("{:.1}", u * 100.0))),
    ("GPU [%]", Right, |f| f.gpu_allocated_pct.map(|u| format!("{u:.2}"))),
    ("GPU unusable [%]", Right, |f| f.gpu_fragmented_pct.map(|u| format!("{u:.2}"))),
    ("Wait mean [s]", Right, |f| f.wait_mean_s.map(|w| format!("{w:.0}"))),
    ("p95 [s]", Right, |f| f.wait_p95_s.map(|w| w.to_string())),
    ("max [s]", Right, |f| f.wait_max_s.map(|w| w.to_string())),
    ("Slowdown mean", Right, |f| f.bounded_slowdown_mean.map(|s| format!("{s:.2}"))),
    ("p99", Right, |f| f.bounded_slowdown_p99.map(|s| format!("{s:.1}"))),
    ("Energy [kWh]", Right, |f| f.energy_j.map(|joules| format!("{:.1}", joules / 3.6e6))),
    ("Time [s]", Right, |f| Some(format!("{:.2}", f.wall_s))),
];

/// One row for each policy; columns that nobody has are left out.
pub fn text(all: &[Figures]) -> String {
    let has = |column: &&Column| all.iter().any(|figures| column.2(figures).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(has).collect();
    let heads: Vec<(&str, Side)> = columns.iter().map(|column| (column.0, column.1)).collect();
    let mut rows = table(&heads);
    for figures in all {
        rows.add_row(columns.iter().map(|c| c.2(figures).unwrap_or_else(|| "-".to_owned())));
    }
    lines(&rows)
}

#[allow(clippy::cast_precision_loss)] // seconds stay below 2^53
fn hours(seconds: i64) -> String {
    format!("{:.2}", seconds as f64 / 3600.0)
}
