// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx report shadow`

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::{many, share, time};
use crate::text::{clean, heading, table_of, wrapped};
use crate::time::since_ms;
use phalanx_core::number::as_f64;
use phalanx_messages::rest::ShadowReport;

/// Show what the decisions of shadow mode would have made better or worse
///
/// Each start beside the decision for it: at the same time, on the nodes that Slurm had filled.
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
    let (mut out, since) = (String::new(), time(report.since_ms));
    if report.starts == 0 {
        heading(&mut out, &format!("No start in shadow mode with a decision since {since}."));
        return out;
    }
    heading(&mut out, &verdict(report));
    heading(&mut out, &format!("{} since {since}", many(report.starts, "start")));
    rows(&mut out, "By partition", &report.partitions, clean);
    rows(&mut out, "By measure", &report.measures, |name| match name {
        "gpus" => "free GPUs on nodes without a free CPU".to_owned(),
        "idle" => "idle nodes that it takes".to_owned(),
        "leaves" => "leaf switches or blocks".to_owned(),
        "nodes" => "number of nodes".to_owned(),
        "weight" => "Weight of its nodes".to_owned(),
        other => clean(other),
    });
    out.push_str(&wrapped(
        "Waits are not compared: in shadow mode jobs start when Slurm starts them. `phalanx plan \
         --config FILE` simulates the queue of now, `phalanx report --sacct` a month.",
        "",
    ));
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

/// Appends starts on other nodes: how many decided ones would have been better, the same, worse.
fn rows(
    out: &mut String,
    head: &str,
    rows: &BTreeMap<String, [u64; 3]>,
    name: impl Fn(&str) -> String,
) {
    if rows.is_empty() {
        return;
    }
    let better = |[better, _, worse]: &[u64; 3]| match wilson_95(*better, better + worse) {
        _ if better + worse == 0 => String::new(),
        (low, high) => format!("{:.0} to {:.0}", low * 100.0, high * 100.0),
    };
    table_of(rows)
        .left(head, |(of, _)| name(of))
        .right("Better", |(_, [better, ..])| *better)
        .right("Same", |(_, [_, same, _])| *same)
        .right("Worse", |(.., [.., worse])| *worse)
        .right("95 % interval [%]", |(_, counts)| better(counts))
        .add_to(out);
    out.push('\n');
}

/// Says how often the decision differs, and for how many starts it would have been better or
/// worse, with Wilson's 95 % interval (Wilson 1927), right for few starts too. It takes starts as
/// independent: where they are not, less is certain than it says.
pub fn verdict(report: &ShadowReport) -> String {
    let differ = report.starts.saturating_sub(report.agreed);
    let (low, high) = wilson_95(differ, report.starts);
    let percent = share(differ, report.starts);
    let sum = |at: usize| report.partitions.values().filter_map(|n| n.get(at)).sum::<u64>();
    let (better, same, worse) = (sum(0), sum(1), sum(2));
    let compared = match better + same + worse {
        0 => String::new(),
        _ => format!(": better for {better}, worse for {worse}, neither for {same}"),
    };
    let gpus = match report.gpu_hours {
        hours if hours >= 0.05 => format!("; {hours:.1} GPU hours less stranded"),
        hours if hours <= -0.05 => format!("; {:.1} GPU hours more stranded", -hours),
        _ => String::new(),
    };
    format!(
        "Other nodes than Slurm for {percent} % of starts (95 % interval {:.0} to {:.0} \
         %){compared}{gpus}.",
        low * 100.0,
        high * 100.0
    )
}

/// Returns the interval of the share of which `hits` of `of` are a sample, 0 to 1.
fn wilson_95(hits: u64, of: u64) -> (f64, f64) {
    const Z: f64 = 1.959_964;
    let n = as_f64(of.max(1));
    let p = as_f64(hits) / n;
    let scale = 1.0 + Z * Z / n;
    let centre = (p + Z * Z / (2.0 * n)) / scale;
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt() / scale;
    ((centre - half).max(0.0), (centre + half).min(1.0))
}
