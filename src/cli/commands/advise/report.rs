// SPDX-License-Identifier: GPL-3.0-or-later
//! The report of `phalanx advise time` on the runs of a period.

use std::collections::BTreeMap;

use serde::Serialize;

use phalanx_core::number::as_f64;
use phalanx_core::run::Run;
use phalanx_methods::learn::advice::{Advice, Past, advise};
use phalanx_methods::learn::program_name;

/// Output of `--json`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) runs: u64,
    /// Jobs, those with most unused CPU time first.
    pub(super) jobs: Vec<Row>,
}

/// Runs of one user under one job name.
#[derive(Debug, Default, Serialize)]
pub(super) struct Row {
    pub(super) user: String,
    /// Job name without its numbers, or `=CLASS`.
    pub(super) job: String,
    pub(super) runs: usize,
    /// Duration of the longest run, in seconds.
    pub(super) longest_s: u64,
    /// Limit of the latest run, minutes.
    pub(super) asked_min: u32,
    /// Shorter limit that is advised, minutes.
    pub(super) advised_min: Option<u32>,
    /// Number of the latest runs that were ended by their limit.
    pub(super) cut: usize,
    /// Number of runs for which earlier runs advised a shorter limit.
    pub(super) tried: usize,
    /// Number of runs among `tried` that the shorter limit would have ended early.
    pub(super) too_short: usize,
    /// CPU hours that limits reserved beyond the runs' ends.
    pub(super) unused_cpu_hours: f64,
}

impl Report {
    /// Makes the report of `runs`, which are sorted, the oldest first.
    pub(super) fn of(runs: &[Run]) -> Self {
        let mut groups: BTreeMap<(&str, String), Vec<&Run>> = BTreeMap::new();
        for run in runs.iter().filter(|run| past_of(run).is_some()) {
            let job = match &run.declared {
                Some(class) => format!("={class}"),
                None => program_name(&run.name),
            };
            groups.entry((&run.user, job)).or_default().push(run);
        }
        let count = groups.values().map(|group| group.len() as u64).sum();
        let mut jobs: Vec<Row> = groups.into_iter().map(row).collect();
        jobs.sort_by(|a, b| {
            let by_hours = b.unused_cpu_hours.total_cmp(&a.unused_cpu_hours);
            by_hours.then_with(|| (&a.user, &a.job).cmp(&(&b.user, &b.job)))
        });
        Self { runs: count, jobs }
    }
}

fn row(((user, job), group): ((&str, String), Vec<&Run>)) -> Row {
    let past: Vec<Past> = group.iter().filter_map(|run| past_of(run)).collect();
    let advised = advise(&past);
    let unused = group.iter().zip(&past).map(|(run, past)| {
        let unused_s = (u64::from(past.limit_min) * 60).saturating_sub(past.run_s);
        as_f64(unused_s * run.cpus.max(1)) / 3600.0
    });
    Row {
        user: user.to_owned(),
        job,
        runs: past.len(),
        longest_s: past.iter().map(|past| past.run_s).max().unwrap_or(0),
        asked_min: past.last().map_or(0, |past| past.limit_min),
        advised_min: match advised.advice {
            Advice::Shorter(minutes) => Some(minutes),
            _ => None,
        },
        cut: match advised.advice {
            Advice::Longer(cut) => cut,
            _ => 0,
        },
        tried: advised.tried,
        too_short: advised.too_short,
        unused_cpu_hours: unused.sum(),
    }
}

/// Returns what a run says of the time that such jobs need; `None` if it says nothing, or had no
/// limit.
fn past_of(run: &Run) -> Option<Past> {
    let cut = match run.state.split_whitespace().next()? {
        "COMPLETED" => false,
        "TIMEOUT" => true,
        _ => return None,
    };
    Some(Past { run_s: run.elapsed_ms.div_ceil(1000), limit_min: run.limit_min?, cut })
}
