// SPDX-License-Identifier: GPL-3.0-or-later
//! The arms of a live comparison: their figures, and how certain a difference is.
//!
//! # Method
//! The daemon drew each job's arm, so under "no difference" any other draw was as likely. Redrawing
//! the arms of the same jobs shows which differences chance makes, whatever the waits are like:
//! long tails, busy days, users with many jobs (Fisher, "The Design of Experiments", 1935). An
//! array or het job, drawn as one, is redrawn as one. Of several figures one may differ by chance:
//! each gets its part of the error (Bonferroni).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use phalanx_core::number::as_f64;
use phalanx_core::random::Stream;
use phalanx_core::run::Run;
use phalanx_sim::waits::{TAU_S, percentile};

/// Redraws of the arms, and those of them within the interval: all figures together are wrong in
/// less than 5 % of comparisons without a difference.
const REDRAWS: usize = 1999;
const WITHIN: usize = 1975;
const _: () = assert!((REDRAWS + 1 - WITHIN) * FIGURES.len() * 20 <= REDRAWS + 1);
/// Figures of an arm; all are seconds but the last.
pub const FIGURES: [&str; 4] =
    ["Mean wait", "Half waited at most", "95 % waited at most", "Mean bounded slowdown"];
/// Beginnings of [`Run::arm`].
const SLURM: &str = "slurm";
const PHALANX: &str = "phalanx";
/// Factor by which a difference has to exceed chance to be seen in four of five comparisons.
const SURELY: f64 = 1.34;
/// Fewest jobs, an array as one, that each arm needs before a difference is judged.
pub const LEAST: usize = 20;

/// One figure of both arms.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Figure {
    pub name: &'static str,
    pub slurm: f64,
    pub phalanx: f64,
    /// Largest difference that chance makes, in either direction.
    pub chance: f64,
}

impl Figure {
    /// Whether chance does not explain the difference.
    pub fn differs(&self) -> bool {
        (self.phalanx - self.slurm).abs() > self.chance
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Arm {
    pub runs: usize,
    /// Number of drawn jobs, an array or a het job as one.
    pub drawn: usize,
    pub users: usize,
    /// Shares of the runs by partition and by size, 0 to 1.
    pub mix: BTreeMap<String, f64>,
}

/// A live comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Share of the jobs that were drawn for Phalanx.
    pub share: f64,
    pub slurm: Arm,
    pub phalanx: Arm,
    /// Figures; none with too few jobs.
    pub figures: Vec<Figure>,
    /// Further runs with which a difference of 5 % of the mean wait would show.
    pub more_runs: f64,
    /// Runs recorded without their eligibility, whose wait counts from their submission.
    pub from_submit: usize,
}

/// One run of a job; `drawn` is the id by which the job's arm was drawn.
struct Row {
    wait: f64,
    slowdown: f64,
    drawn: usize,
}

impl Comparison {
    /// Compares the runs of the newest share, which come first; those whose wait is not known are
    /// left out.
    pub fn of(runs: &[Run]) -> Self {
        let share_of = |run: &Run| Some(run.arm.split_once(' ')?.1.to_owned());
        let Some(newest) = runs.iter().find_map(share_of) else { return Self::default() };
        let is_compared =
            |run: &&Run| share_of(run).as_ref() == Some(&newest) && run.wait_s().is_some();
        let runs: Vec<&Run> = runs.iter().filter(is_compared).collect();
        let (rows, mut ours) = rows(&runs);
        let mut comparison = Self {
            share: newest.parse().unwrap_or(1.0),
            slurm: arm(&runs, SLURM),
            phalanx: arm(&runs, PHALANX),
            from_submit: runs.iter().filter(|run| run.eligible_s.is_none()).count(),
            ..Self::default()
        };
        if comparison.slurm.drawn.min(comparison.phalanx.drawn) < LEAST {
            return comparison;
        }
        let [slurm, phalanx] = figures(&rows, &ours);
        let mut chance = [(); FIGURES.len()].map(|()| Vec::with_capacity(REDRAWS));
        let mut random = Stream::new(ours.len() as u64);
        for _ in 0..REDRAWS {
            random.shuffle(&mut ours);
            let [one, other] = figures(&rows, &ours);
            for (all, (one, other)) in chance.iter_mut().zip(one.iter().zip(other)) {
                all.push((one - other).abs());
            }
        }
        let pairs = slurm.into_iter().zip(phalanx);
        for ((name, mut chance), (slurm, phalanx)) in FIGURES.into_iter().zip(chance).zip(pairs) {
            chance.sort_unstable_by(f64::total_cmp);
            let chance = chance.get(WITHIN - 1).copied().unwrap_or(f64::INFINITY);
            comparison.figures.push(Figure { name, slurm, phalanx, chance });
        }
        if let Some(mean) = comparison.figures.first() {
            // Chance falls with the root of the number of jobs.
            let times = (mean.chance * SURELY / (0.05 * mean.slurm.max(1.0))).powi(2);
            comparison.more_runs = (times - 1.0).max(0.0) * as_f64(runs.len() as u64);
        }
        comparison
    }
}

fn drawn(run: &Run) -> u32 {
    run.het_job_id.or(run.array_job_id).unwrap_or(run.job_id)
}

fn arm(runs: &[&Run], arm: &str) -> Arm {
    let runs: Vec<_> = runs.iter().filter(|run| run.arm.starts_with(arm)).collect();
    let mut mix: BTreeMap<String, f64> = BTreeMap::new();
    for run in &runs {
        let size = match run.node_count {
            0..=1 => "1 node",
            2..=7 => "2 to 7 nodes",
            _ => "8 nodes and more",
        };
        for name in [format!("partition {}", run.partition), size.to_owned()] {
            *mix.entry(name).or_default() += 1.0 / as_f64(runs.len() as u64);
        }
    }
    let drawn: BTreeSet<u32> = runs.iter().map(|run| drawn(run)).collect();
    let users: BTreeSet<&str> = runs.iter().map(|run| &*run.user).collect();
    Arm { runs: runs.len(), drawn: drawn.len(), users: users.len(), mix }
}

/// Returns the runs, the shortest wait first, and for each drawn job whether it is in Phalanx's
/// arm.
fn rows(runs: &[&Run]) -> (Vec<Row>, Vec<bool>) {
    let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
    let mut ours = Vec::new();
    let row = |run: &&Run| {
        let wait = as_f64(run.wait_s()?.unsigned_abs());
        let drawn = *numbers.entry(drawn(run)).or_insert(ours.len());
        if drawn == ours.len() {
            ours.push(run.arm.starts_with(PHALANX));
        }
        let seconds = as_f64(run.elapsed_ms) / 1000.0;
        let slowdown = ((wait + seconds) / seconds.max(as_f64(TAU_S))).max(1.0);
        Some(Row { wait, slowdown, drawn })
    };
    let mut rows: Vec<Row> = runs.iter().filter_map(row).collect();
    rows.sort_by(|a, b| a.wait.total_cmp(&b.wait));
    (rows, ours)
}

/// Returns the figures of Slurm and of Phalanx for a given assignment of drawn jobs to arms.
fn figures(rows: &[Row], ours: &[bool]) -> [[f64; FIGURES.len()]; 2] {
    [false, true].map(|arm| {
        let of = || rows.iter().filter(|row| ours.get(row.drawn) == Some(&arm));
        let waits: Vec<f64> = of().map(|row| row.wait).collect();
        let runs = as_f64(waits.len().max(1) as u64);
        let slowdown = of().map(|row| row.slowdown).sum::<f64>() / runs;
        let wait = waits.iter().sum::<f64>() / runs;
        [wait, percentile(&waits, 50), percentile(&waits, 95), slowdown]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of a comparison: arrays, users with bursts, busy hours, and waits with a long tail, as
    /// under Slurm alone; Phalanx changes them by a factor.
    fn runs(seed: u64, jobs: u32, factor: f64) -> Vec<Run> {
        let mut random = Stream::new(seed);
        let mut all = Vec::new();
        for job_id in 1..=jobs {
            let ours = random.unit() < 0.5;
            let busy = 1.0 + 20.0 * f64::from(u32::from(job_id / 7 % 5 == 0));
            let tasks = if random.unit() < 0.1 { 1 + random.below(12) } else { 1 };
            let tail = random.unit().max(1e-4).powf(-0.7) - 1.0;
            for _ in 0..tasks {
                let wait = busy * tail * (20.0 + 5.0 * random.unit());
                let wait = if ours { wait * factor } else { wait };
                #[allow(clippy::cast_possible_truncation)]
                let start_s = 1000 + wait as i64;
                all.push(Run {
                    job_id,
                    array_job_id: (tasks > 1).then_some(job_id),
                    arm: format!("{} 0.5", if ours { PHALANX } else { SLURM }),
                    submit_s: 1000,
                    start_s,
                    elapsed_ms: 1000 * (1 + random.below(3600) as u64),
                    ..Run::default()
                });
            }
        }
        all
    }

    fn differs(runs: &[Run]) -> bool {
        Comparison::of(runs).figures.iter().any(Figure::differs)
    }

    /// Goal: with Slurm's own waits in both arms no difference is claimed in 95 of 100 cases.
    #[test]
    fn prop_slurm_on_both_arms_is_no_difference() {
        let wrong = (0..100).filter(|seed| differs(&runs(*seed, 60, 1.0))).count();
        eprintln!("a difference was claimed in {wrong} of 100");
        assert!(wrong <= 5);
    }

    #[test]
    fn jobs_that_could_not_start_did_not_wait() {
        let mut runs = runs(1, 100, 1.0);
        let plain = Comparison::of(&runs);
        for run in &mut runs {
            // A week on its own wish, or behind its dependencies.
            (run.submit_s, run.eligible_s) = (1000 - 7 * 86_400, Some(1000));
        }
        let held = Comparison::of(&runs);
        assert_eq!((plain.from_submit, held.from_submit), (runs.len(), 0));
        assert_eq!(held.figures, plain.figures);
    }

    #[test]
    fn runs_of_an_unknown_wait_are_left_out_not_counted_as_started_at_once() {
        let mut all = runs(1, 100, 1.0);
        let plain = Comparison::of(&all);
        let unknown: Vec<Run> = all
            .iter()
            .map(|run| Run { submit_s: 0, job_id: run.job_id + 1000, ..run.clone() })
            .collect();
        all.extend(unknown);
        assert_eq!(Comparison::of(&all), plain);
    }

    #[test]
    fn a_large_difference_is_seen_and_a_small_one_needs_more_jobs() {
        let seen = |jobs, factor| (0..6).filter(|s| differs(&runs(*s, jobs, factor))).count();
        let found = seen(300, 0.2);
        assert!(found >= 5, "{found} of 6");
        let more = |jobs| Comparison::of(&runs(1, jobs, 1.0)).more_runs;
        assert!(more(60) > 1000.0 && more(200) > 1000.0, "{} {}", more(60), more(200));
        // Each of the same wait: nothing is left to chance.
        let mut same = runs(1, 100, 1.0);
        same.iter_mut().for_each(|run| (run.start_s, run.elapsed_ms) = (1500, 60_000));
        let found = Comparison::of(&same);
        assert_eq!((found.more_runs, differs(&same)), (0.0, false));
    }

    #[test]
    fn arms_are_told_by_what_is_recorded() {
        let mut all = runs(3, 200, 1.0);
        let comparison = Comparison::of(&all);
        assert_eq!(comparison.slurm.runs + comparison.phalanx.runs, all.len());
        assert!(comparison.slurm.runs > comparison.slurm.drawn, "arrays are drawn as one");
        assert_eq!((comparison.share, comparison.figures.len()), (0.5, 4));
        let sum: f64 = comparison.phalanx.mix.values().sum();
        assert!((sum - 2.0).abs() < 1e-9, "each run is of a partition and of a size");
        // Outside of a comparison, or of one with another share before.
        let half = all.len() / 2;
        all.iter_mut().skip(half).for_each(|run| run.arm = "slurm 0.9".to_owned());
        all.push(Run::default());
        let of_newest = Comparison::of(&all);
        assert_eq!(of_newest.slurm.runs + of_newest.phalanx.runs, half);
        assert_eq!(Comparison::of(&[]), Comparison::default());
        assert!(Comparison::of(&runs(3, 30, 1.0)).figures.is_empty(), "too few");
    }
}
