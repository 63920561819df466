// SPDX-License-Identifier: GPL-3.0-or-later
//! Verdict of a simulation on Phalanx at a site, if it can be believed.

use serde::Serialize;

use phalanx_core::number::as_f64;
use phalanx_sim::job::Workload;
use phalanx_sim::metrics::{Figures, span};

/// Share by which the mean wait of simulated Slurm may differ from what happened.
const BELIEVED: f64 = 0.2;
/// Share by which a mean wait has to change to be a difference.
const DIFFERENCE: f64 = 0.05;
/// Percentage points of stranded GPUs that are a difference.
const STRANDED: f64 = 1.0;
/// Bounds of the seconds that never matter: a hundredth of the mean runtime within these.
const SECONDS: (f64, f64) = (2.0, 60.0);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Waits or stranded GPUs become fewer.
    Install,
    /// Neither changes.
    NoDifference,
    /// Waits or stranded GPUs become more.
    DoNot,
    /// The simulation is not this cluster.
    #[default]
    Refused,
}

/// A verdict in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Judged {
    pub verdict: Verdict,
    /// Sentence for people, with which the report ends.
    pub sentence: String,
}

pub fn judge(load: &Workload, happened: &Figures, slurm: &Figures, phalanx: &Figures) -> Judged {
    let wait = |of: &Figures| of.wait_mean_s.unwrap_or(0.0);
    let (was, stock, ours) = (wait(happened), wait(slurm), wait(phalanx));
    let seconds: u64 = load.jobs.iter().map(|job| job.run_s).sum();
    let run_s = as_f64(seconds) / as_f64(load.jobs.len().max(1) as u64);
    let little = (run_s / 100.0).clamp(SECONDS.0, SECONDS.1);
    if (stock - was).abs() > (was * BELIEVED).max(little) {
        return Judged { verdict: Verdict::Refused, sentence: refused(was, stock, little) };
    }
    let stranded = |of: &Figures| of.stranded.get("gpu").copied().unwrap_or(0.0);
    let more = stranded(phalanx) - stranded(slurm);
    let matters = (stock * DIFFERENCE).max(little);
    let verdict = match ours - stock {
        change if change > matters => Verdict::DoNot,
        change if change < -matters => Verdict::Install,
        _ if more < -STRANDED => Verdict::Install,
        _ if more > STRANDED => Verdict::DoNot,
        _ => Verdict::NoDifference,
    };
    let begin = match verdict {
        Verdict::Install => "Install",
        Verdict::DoNot => "Do not install",
        _ => "No difference",
    };
    let change = (stock > little).then(|| format!(" ({:+.0} %)", (ours / stock - 1.0) * 100.0));
    let gpus = (more.abs() > STRANDED).then(|| format!(", {more:+.1} % of the GPUs stranded"));
    let (change, gpus) = (change.unwrap_or_default(), gpus.unwrap_or_default());
    let (ours, stock) = (span(ours), span(stock));
    let sentence =
        format!("{begin}: mean wait {ours} with Phalanx{change}, {stock} without{gpus}.");
    Judged { verdict, sentence }
}

fn refused(was: f64, stock: f64, little: f64) -> String {
    let why = if stock < was {
        "jobs waited for what is not modelled: limits of QOS and associations, nodes that were \
         down or not given to them, jobs that the text does not have"
    } else {
        "the nodes are fewer or smaller than those that the jobs ran on, or a job asked for less \
         than simulated"
    };
    format!(
        "No verdict: simulated Slurm has a mean wait of {}, what happened {}. More than 20 % (and \
         {}) apart it is another cluster that was simulated; most likely {why}.",
        span(stock),
        span(was),
        span(little)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_sim::job::SimJob;

    #[test]
    fn a_verdict_is_one_of_four() {
        let job = |run_s| SimJob {
            number: 1,
            submit_s: 0,
            run_s,
            limit_s: 9999,
            size: 1,
            user: 0,
            class: 0,
        };
        let verdict = |run_s, waits: [f64; 3], stranded: [f64; 2]| {
            let load = Workload { jobs: vec![job(run_s)], ..Workload::default() };
            let of = |wait, gpu| Figures {
                wait_mean_s: Some(wait),
                stranded: [("gpu".to_owned(), gpu)].into(),
                ..Figures::default()
            };
            let [was, stock, ours] = waits;
            judge(&load, &of(was, 0.0), &of(stock, stranded[0]), &of(ours, stranded[1]))
        };
        for (run_s, waits, stranded, expected, said) in [
            (3600, [100.0, 110.0, 70.0], [0.0; 2], Verdict::Install, "70.0 s with Phalanx (-36 %)"),
            (
                3600,
                [1000.0, 1100.0, 1060.0],
                [0.0; 2],
                Verdict::NoDifference,
                "No difference: mean",
            ),
            (3600, [1000.0, 1100.0, 1300.0], [0.0; 2], Verdict::DoNot, "Do not install: mean"),
            (3600, [1000.0, 1100.0, 1100.0], [5.0, 2.0], Verdict::Install, "-3.0 % of the GPUs"),
            (3600, [1000.0, 1100.0, 1100.0], [2.0, 5.0], Verdict::DoNot, "+3.0 % of the GPUs"),
            (3600, [1000.0, 1210.0, 100.0], [0.0; 2], Verdict::Refused, "No verdict: simulated"),
            (3600, [1000.0, 790.0, 100.0], [0.0; 2], Verdict::Refused, "limits of QOS"),
            // Seconds do not matter where jobs run for an hour, and do where they run for ten.
            (3600, [1.0, 2.0, 1.0], [0.0; 2], Verdict::NoDifference, "1.0 s with Phalanx, 2.0 s"),
            (3600, [4.1, 0.9, 0.9], [0.0; 2], Verdict::NoDifference, "No difference"),
            (10, [4.1, 0.9, 0.9], [0.0; 2], Verdict::Refused, "(and 2.0 s) apart"),
            (10, [1.0, 2.0, 2.0], [0.0; 2], Verdict::NoDifference, "No difference"),
        ] {
            let found = verdict(run_s, waits, stranded);
            assert_eq!(found.verdict, expected, "{waits:?}");
            assert!(found.sentence.contains(said), "{}", found.sentence);
        }
    }
}
