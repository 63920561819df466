// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx history speeds`.

use crate::client::Method;
use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::{fraction, many, seconds_fine, time};
use crate::text::{clean, heading, table_of};
use phalanx_core::number::{as_f64, nearest_u64};
use phalanx_core::text::percent_encode;
use phalanx_messages::rest::{ClassSpeeds, SpeedRow, SpeedsReport};

/// Most runs of a job class on a class of nodes that may have been trials.
const TRIALS_MAX: u64 = 3;

/// Show how fast job classes run on which nodes
///
/// By class of nodes; with --class or --node, also by node.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only this job class
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Only this node
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let given = [("class", &self.class), ("node", &self.node)];
        let given = given.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let query: Vec<String> =
            given.map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
        let (path, with_nodes) =
            (format!("/v1/history/speeds?{}", query.join("&")), !query.is_empty());
        global.exchange(Method::GET, &path, None::<&()>, |report: &SpeedsReport| {
            text(report, with_nodes)
        })
    }
}

/// Formats the whole report: every class of nodes, and the single nodes where they are asked for.
fn text(report: &SpeedsReport, with_nodes: bool) -> String {
    let mut out = String::new();
    heading(&mut out, &sentence(report));
    for class in &report.classes {
        one(&mut out, class, with_nodes);
    }
    out
}

/// Says how much was learned, and where the nodes differ most.
fn sentence(report: &SpeedsReport) -> String {
    let runs: u64 = report.classes.iter().map(|class| class.runs).sum();
    if report.classes.is_empty() {
        return "Nothing was learned yet: no job has completed.".to_owned();
    }
    let classes = report.classes.len();
    let of = if classes == 1 { "1 job class".to_owned() } else { format!("{classes} job classes") };
    let mut text = format!("Learned from {} of {of}", many(runs, "run"));
    let ratios = report.classes.iter().filter_map(|class| {
        let rows = || class.node_classes.iter().filter(|row| row.runs > 0 && row.mean > 0.0);
        let fast = rows().max_by(|a, b| a.mean.total_cmp(&b.mean))?;
        let slow = rows().min_by(|a, b| a.mean.total_cmp(&b.mean))?;
        Some((fast.mean / slow.mean, class, fast, slow))
    });
    if let Some((ratio, class, fast, slow)) = ratios.max_by(|a, b| a.0.total_cmp(&b.0))
        && ratio >= 1.05
    {
        let (of, fast, slow) = (clean(&class.class), clean(&fast.name), clean(&slow.name));
        text.push_str(&format!(
            "; most different: {of}, {ratio:.1} times as fast on {fast} as on {slow}"
        ));
    }
    text + "."
}

fn one(out: &mut String, class: &ClassSpeeds, with_nodes: bool) {
    let newest = time(nearest_u64(class.newest_s) * 1000);
    let (mean, deviation) = (seconds_fine(class.seconds), seconds_fine(class.deviation_s));
    let (name, runs) = (clean(&class.class), many(class.runs, "run"));
    let mut text = format!("{name}: {runs} of {mean} s (deviation {deviation} s), newest {newest}");
    let cost = trials_s(class);
    if cost >= 1.0 {
        text.push_str(&format!("; trying slower nodes cost at most {} s", seconds_fine(cost)));
    }
    heading(out, &text);
    let nodes = Some(("Node", &class.nodes)).filter(|_| with_nodes);
    for (name, list) in [Some(("Node class", &class.node_classes)), nodes].into_iter().flatten() {
        if !list.is_empty() {
            out.push_str(&rows(name, &class.unit, list));
        }
    }
}

/// Seconds by which the first runs on slower classes of nodes, as many as explore, took longer than
/// on the fastest.
fn trials_s(class: &ClassSpeeds) -> f64 {
    let rows = || class.node_classes.iter().filter(|row| row.runs > 0);
    let fastest = rows().map(|row| row.seconds).fold(f64::INFINITY, f64::min);
    let cost = |row: &SpeedRow| as_f64(row.runs.min(TRIALS_MAX)) * (row.seconds - fastest);
    rows().map(cost).sum()
}

fn rows(name: &str, unit: &str, list: &[SpeedRow]) -> String {
    table_of(list)
        .left(name, |row| row.name.clone())
        .right("Runs", |row| row.runs)
        .right("Time [s]", |row| seconds_fine(row.seconds))
        .right(format!("Speed [{unit}]"), |row| fraction(row.mean))
        .right("Believed", |row| fraction(row.speed))
        .text()
}
