// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx shadow`

use super::units::{fraction_or_dash, share, time};
use super::{Left, Right, clean, facts, heading, lines, table};
use phalanx_service::api::types::ShadowReport;

/// The whole report.
pub fn text(report: &ShadowReport) -> String {
    let mut out = String::new();
    heading(&mut out, &format!("Starts in shadow mode since {}", time(report.since_ms)));
    if report.starts == 0 {
        out.push_str("  none with a decision\n");
        return out;
    }
    facts(
        &mut out,
        &[
            ("Starts", report.starts.to_string()),
            ("On the same nodes", report.agreed.to_string()),
            ("Agreement [%]", share(report.agreed, report.starts)),
            ("Mean dispersion, Slurm", fraction_or_dash(report.dispersion_slurm)),
            ("Mean dispersion, Phalanx", fraction_or_dash(report.dispersion_phalanx)),
        ],
    );
    if report.differing.is_empty() {
        return out;
    }
    heading(&mut out, "Latest starts on other nodes");
    let mut rows =
        table(&[("Started", Left), ("Job", Right), ("Slurm's nodes", Left), ("Decided", Left)]);
    for start in &report.differing {
        rows.add_row([
            time(start.time_ms),
            start.job_id.to_string(),
            clean(&start.slurm),
            clean(&start.phalanx),
        ]);
    }
    out.push_str(&lines(&rows));
    out
}
