// SPDX-License-Identifier: GPL-3.0-or-later
//! The data job document's claim: better than round robin and weighted round robin.
//!
//! `phalanx-bench bisect-turns [RUNS] [FILE.svg]`: 5 to 80 jobs of 40 blocks on 16 hosts of 2 to 8
//! cores, three replicas of a block. Prints the makespan against its lower bound and the share of
//! the input that is read from other hosts, mean and standard deviation over the runs, each with
//! blocks of its own; draws both into the file.

use std::cell::Cell;

use anyhow::Result;
use phalanx_methods::data_jobs::bisect::{Mode, Options, Problem, solve};

use super::bisect::drawn;
use crate::plot::{self, Line, Panel, Spread};

/// Checks of a search whether it is over; some seconds of search.
const CHECKS: u32 = 2_000;
const JOBS: [usize; 5] = [5, 10, 20, 40, 80];
const SHOWN: [(&str, Mode, &str); 4] = [
    ("round robin", Mode::RoundRobin, "#b2182b"),
    ("weighted", Mode::Weighted, "#ef8a62"),
    ("seed", Mode::Seed, "#2166ac"),
    ("best", Mode::Best, "#1b7837"),
];

/// Makespan over its bound, and percent read from other hosts, by number of jobs.
type Found = Vec<[(f64, Spread); 2]>;

fn measured(mode: Mode, runs: u64) -> Result<Found> {
    let of_jobs = |jobs: usize| {
        let (mut ends, mut remote) = (Vec::new(), Vec::new());
        for seed in 1..=runs {
            let text = drawn(seed, 16, |host| 2 + 2 * (host % 4), jobs, 40).to_string();
            let problem: Problem<'_> = serde_json::from_str(&text)?;
            // The search ends by its work, not by the clock: equal numbers on every machine.
            let checks = Cell::new(0_u32);
            let expired = || checks.replace(checks.get() + 1) > CHECKS;
            let options = Options { mode, seed, expired: &expired, explain: false };
            let answer = solve(&problem, &options)?;
            let blocks = problem.jobs.iter().flat_map(|job| &job.blocks);
            let size: f64 = blocks.map(|block| block.size_mb).sum();
            ends.push(answer.makespan_ms.0 / answer.lower_bound_ms.0);
            remote.push(100.0 * answer.transferred_mb.0 / size);
        }
        Ok([ends, remote].map(|values| (jobs as f64, Spread::of(&values))))
    };
    JOBS.into_iter().map(of_jobs).collect()
}

fn svg(found: &[Found], runs: u64) -> String {
    let titles = [
        format!("makespan by its lower bound, mean and deviation of {runs} runs"),
        "percent of the input read from other hosts".to_owned(),
    ];
    let panel = |at: usize| {
        let line = |(found, (name, _, colour)): (&Found, &(&str, Mode, &'static str))| {
            let bars: Vec<(f64, Spread)> = found.iter().map(|both| both[at]).collect();
            let points = bars.iter().map(|(jobs, spread)| (*jobs, spread.mean)).collect();
            Line { name: (*name).to_owned(), colour, points, bars }
        };
        Panel {
            at: (50.0 + 480.0 * at as f64, 40.0),
            size: (330.0, 290.0),
            title: &titles[at],
            across: "jobs",
            ticks: JOBS.map(|jobs| jobs as f64).to_vec(),
            is_log: (true, false),
            least: if at == 0 { 1.0 } else { 0.0 },
            lines: found.iter().zip(&SHOWN).map(line).collect(),
        }
        .draw()
    };
    plot::page((960.0, 390.0), &(panel(0) + &panel(1)))
}

pub fn run(words: &[String]) -> Result<()> {
    let runs: u64 = words.first().map_or(Ok(10), |word| word.parse())?;
    let found: Result<Vec<Found>> =
        SHOWN.iter().map(|(_, mode, _)| measured(*mode, runs)).collect();
    let found = found?;
    println!("{runs} runs; makespan by its bound, percent from other hosts, for {JOBS:?} jobs");
    for ((name, ..), row) in SHOWN.iter().zip(&found) {
        let cells: Vec<String> =
            row.iter().map(|[(_, end), (_, remote)]| format!("{end:.2}, {remote:.0}")).collect();
        println!("{name:<12} {}", cells.join("  "));
    }
    if let Some(file) = words.get(1) {
        std::fs::write(file, svg(&found, runs))?;
    }
    Ok(())
}
