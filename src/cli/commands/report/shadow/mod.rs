// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx report shadow`

#[cfg(test)]
mod tests;

use std::fmt::Write;

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::{count, fraction_or_dash, share, time};
use crate::text::{facts, heading, table_of};
use crate::time::since_ms;
use phalanx_messages::rest::ShadowReport;

/// Show how often Slurm and the decisions of shadow mode agreed
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Begin of the period: a duration back from now (90min, 24h, 7d) or a time
    /// (2026-11-20, 2026-11-20T08:00, 2026-11-20T08:00:00Z)
    #[arg(long, value_name = "TIME", default_value = "24h")]
    since: String,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        global.report(&format!("/v1/shadow?since={}", since_ms(&self.since)?), text)
    }
}

fn text(report: &ShadowReport) -> String {
    let mut out = String::new();
    heading(&mut out, &format!("Starts in shadow mode since {}", time(report.since_ms)));
    if report.starts == 0 {
        out.push_str("  none with a decision\n");
        return out;
    }
    let _ = writeln!(out, "  {}", verdict(report));
    out.push_str(&facts(&[
        ("Starts", report.starts.to_string()),
        ("On the same nodes", report.agreed.to_string()),
        ("Agreement [%]", share(report.agreed, report.starts)),
        ("Mean dispersion, Slurm", fraction_or_dash(report.dispersion_slurm)),
        ("Mean dispersion, Phalanx", fraction_or_dash(report.dispersion_phalanx)),
    ]));
    if report.differing.is_empty() {
        return out;
    }
    heading(&mut out, "Latest starts on other nodes");
    table_of(&report.differing)
        .left("Started", |start| time(start.time_ms))
        .right("Job", |start| start.job_id)
        .left("Slurm's nodes", |start| start.slurm.clone())
        .left("Decided", |start| start.phalanx.clone())
        .add_to(&mut out);
    out
}

/// Says how often the decision differs, with Wilson's 95 % interval (Wilson 1927), right for few
/// starts too. It takes starts as independent: where they are not, less is certain than it says.
pub fn verdict(report: &ShadowReport) -> String {
    let differ = report.starts.saturating_sub(report.agreed);
    let (low, high) = wilson_95(differ, report.starts);
    let percent = share(differ, report.starts);
    format!(
        "Other nodes than Slurm for {percent} % of starts (95 % interval {:.0} to {:.0} %).",
        low * 100.0,
        high * 100.0
    )
}

/// Returns the interval of the share of which `hits` of `of` are a sample, 0 to 1.
fn wilson_95(hits: u64, of: u64) -> (f64, f64) {
    const Z: f64 = 1.959_964;
    let n = count(of.max(1));
    let p = count(hits) / n;
    let scale = 1.0 + Z * Z / n;
    let centre = (p + Z * Z / (2.0 * n)) / scale;
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt() / scale;
    ((centre - half).max(0.0), (centre + half).min(1.0))
}
