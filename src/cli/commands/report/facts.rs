// SPDX-License-Identifier: GPL-3.0-or-later
//! Facts of a report in words, the same in text and on the page.

use super::shadow;
use super::simulated::Simulated;
use crate::text::clean;
use crate::text::units::{many, share, time};
use phalanx_config::KWH;
use phalanx_core::number::{as_f64, nearest_u64};
use phalanx_messages::rest::{ActivityReport, RunSums, Share};
use phalanx_sim::metrics::span;
use phalanx_sim::window::Window;

/// Name and text of a fact.
pub type Fact = (&'static str, String);

/// Sums a report up in a sentence.
pub fn sentence(report: &ActivityReport) -> String {
    let starts: u64 = report.activity.starts.values().sum();
    let placed = report.activity.answers.placed;
    if report.activity.first_ms.is_none() {
        return "Nothing is recorded in this period: phalanxd was not running, or no job came."
            .to_owned();
    }
    if placed > 0 {
        let of = many(starts.max(placed), "start");
        let percent = share(placed, starts.max(placed));
        return format!("Phalanx chose the nodes of {placed} of {of} ({percent} %).");
    }
    if report.shadow.starts > 0 {
        return format!("Phalanx only watched (mode shadow). {}", shadow::verdict(&report.shadow));
    }
    match starts {
        0 => "Phalanx placed no job in this period.".to_owned(),
        starts => format!("Slurm placed all of {} by itself.", many(starts, "start")),
    }
}

/// Returns a line for each figure.
pub fn facts(report: &ActivityReport) -> Vec<Fact> {
    let of = &report.activity;
    let modes: Vec<String> =
        of.starts.iter().map(|(mode, starts)| format!("{starts} in mode {mode}")).collect();
    let all = all_runs(report);
    vec![
        ("Starts", if modes.is_empty() { unknown("none recorded") } else { modes.join(", ") }),
        ("Decisions", answers(report)),
        ("Jobs that ended", ended(&all)),
        ("Waits", waits(&all)),
        ("CPUs in use", use_of(of.use_of.get("cpu").map(|share| share.used), "CPUs")),
        ("GPUs in use", use_of(of.use_of.get("gres/gpu").map(|share| share.used), "GPUs")),
        ("GPUs stranded", stranded(of.use_of.get("gres/gpu"))),
        ("Leaf switches", leaves(report)),
        ("Local reads", locality(report)),
        ("Energy", measured(&all)),
        ("Shadow", shadow_of(report)),
    ]
}

fn unknown(why: &str) -> String {
    format!("unknown: {why}")
}

fn answers(report: &ActivityReport) -> String {
    let of = &report.activity.answers;
    let Some(mean) = of.mean_us else { return unknown("no question was asked") };
    format!(
        "nodes for {} of {} questions, {} of these placed so; {mean:.0} us each in phalanxd",
        of.with_nodes, of.asked, of.placed
    )
}

/// Sums up all runs; a percentile over several groups cannot be computed from those of each.
fn all_runs(report: &ActivityReport) -> RunSums {
    let mut all = RunSums::default();
    let mut wait = 0.0;
    for of in report.activity.runs.values() {
        all.runs += of.runs;
        all.waits += of.waits;
        all.waits_from_submit += of.waits_from_submit;
        all.measured += of.measured;
        // No mean where no run has a wait: it weighs nothing.
        wait += of.wait_mean_s.unwrap_or_default() * as_f64(of.waits);
        all.wait_max_s = all.wait_max_s.max(of.wait_max_s);
        let add = |sum: &mut Option<f64>, more: Option<f64>| {
            if let Some(more) = more {
                *sum.get_or_insert(0.0) += more;
            }
        };
        add(&mut all.cpu_hours, of.cpu_hours);
        add(&mut all.joules, of.joules);
    }
    all.wait_mean_s = (all.waits > 0).then(|| wait / as_f64(all.waits));
    all
}

fn ended(all: &RunSums) -> String {
    match (all.runs, all.cpu_hours) {
        (0, _) => unknown("none ended"),
        (runs, Some(hours)) => format!("{runs}, {hours:.1} CPU hours"),
        (runs, None) => format!("{runs}, CPU hours unknown"),
    }
}

fn waits(all: &RunSums) -> String {
    let (Some(mean), Some(most)) = (all.wait_mean_s, all.wait_max_s) else {
        return unknown("no job with its submission ended");
    };
    let of = |count: u64, what: &str| match count {
        0 => String::new(),
        count => format!(" (of {} {what})", many(count, "job")),
    };
    let (unknown, early) = (all.runs - all.waits, all.waits_from_submit);
    let most = span(as_f64(most.max(0).unsigned_abs()));
    let beside = of(unknown, "unknown") + &of(early, "from submission: eligibility not recorded");
    format!("mean {}, longest {most}{beside}", span(mean))
}

fn use_of(share: Option<f64>, what: &str) -> String {
    share.map_or_else(
        || unknown(&format!("no sample of {what} yet")),
        |share| format!("{:.1} % of them, mean over time", share * 100.0),
    )
}

fn stranded(gpus: Option<&Share>) -> String {
    gpus.map_or_else(
        || unknown("no sample of GPUs yet"),
        |gpus| {
            format!("{:.2} % of them, free beside used-up CPUs or memory", gpus.stranded * 100.0)
        },
    )
}

fn leaves(report: &ActivityReport) -> String {
    let Some(of) = &report.activity.leaves else {
        return unknown("no job of several nodes on decided nodes of a known topology");
    };
    format!(
        "{:.2} a job of several nodes, {:.2} the fewest possible then; {} of {} on the fewest",
        of.mean, of.fewest_mean, of.on_fewest, of.starts
    )
}

fn locality(report: &ActivityReport) -> String {
    let Some(of) = &report.activity.locality else {
        return unknown("no job that declares an input in HDFS was placed");
    };
    let jobs = many(of.starts, "data job");
    format!("{:.1} % of the bytes by plan, mean of {jobs}", of.share * 100.0)
}

fn measured(all: &RunSums) -> String {
    let Some(joules) = all.joules else {
        return unknown("Slurm's accounting has no energy of these jobs");
    };
    let rest = match all.runs - all.measured {
        0 => String::new(),
        rest => format!("; of {rest} more unknown"),
    };
    format!("{:.2} kWh of {}{rest}", joules / KWH, many(all.measured, "job"))
}

fn shadow_of(report: &ActivityReport) -> String {
    match report.shadow.starts {
        0 => unknown("no start in mode shadow with a decision"),
        _ => shadow::verdict(&report.shadow),
    }
}

/// Describes the input of a simulation.
pub fn simulated_about(of: &Simulated) -> String {
    let jobs = many(of.slurm.jobs as u64, "job");
    let nodes = many(of.nodes as u64, "node");
    let period = |of: &Window| [of.begin_s, of.end_s].map(clock).join(" to ");
    let part = match of.period == of.covers {
        true => String::new(),
        false => format!(" The text covers {}; its latest jobs are simulated.", period(&of.covers)),
    };
    format!(
        "{}; {} began before, {} still ran. {jobs} of {} on {nodes} with {} CPUs ({}).{part}",
        period(&of.period),
        many(of.began_before as u64, "job"),
        of.still_ran,
        of.log,
        of.cpus,
        of.nodes_from
    )
}

fn clock(at_s: i64) -> String {
    time(nearest_u64(at_s).saturating_mul(1000))
}

/// Names the jobs that were left out of a simulation, by reason.
pub fn left_out(of: &Simulated) -> Vec<String> {
    let each = of.left_out.iter().map(|(why, jobs, first)| match jobs {
        1 => format!("1 job {why}: {}", clean(first)),
        _ => format!("{} {why}; the first: {}", many(*jobs, "job"), clean(first)),
    });
    each.collect()
}

/// Names the parts of requests that a simulation does not model, with the number of jobs concerned.
pub fn unmodelled(of: &Simulated) -> Vec<String> {
    of.unmodelled.iter().map(|(what, jobs)| format!("{} {what}", many(*jobs, "job"))).collect()
}
