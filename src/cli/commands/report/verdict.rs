// SPDX-License-Identifier: GPL-3.0-or-later
//! Verdict of a simulation on Phalanx at a site, if the simulation can be believed.

use std::cmp::Ordering;

use serde::Serialize;

use phalanx_core::number::as_f64;
use phalanx_sim::card::Card;
use phalanx_sim::job::Workload;
use phalanx_sim::metrics::{Figures, span};

/// Largest relative difference between the mean wait of simulated Slurm and what happened.
const BELIEVED: f64 = 0.2;
/// Least relative change of a mean wait that counts as a difference.
const DIFFERENCE: f64 = 0.05;
/// Least difference of stranded GPUs that counts, in percentage points.
const STRANDED: f64 = 1.0;
/// Ratio of waits beyond which a class of jobs is worse off, and its fewest jobs.
const CLASS: f64 = 1.05;
const CLASS_MIN: usize = 20;
/// Seconds by which a promise may be missed more without counting.
const PROMISE_S: f64 = 60.0;
/// Ratio of the waits by node-hours up to which there is no difference.
const BY_WORK: f64 = 1.005;
/// Bounds of the seconds that never matter: a hundredth of the mean runtime, within these.
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
    /// The simulation does not agree with the cluster.
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

/// Mean wait in seconds; 0 where no job started, and so none waited for its start.
fn wait(of: &Figures) -> f64 {
    of.wait_mean_s.unwrap_or(0.0)
}

/// GPUs that are stranded, in percent of all; 0 on nodes without GPUs.
fn stranded(of: &Figures) -> f64 {
    of.stranded.get("gpu").copied().unwrap_or(0.0)
}

/// Seconds that never matter for runs of this length.
fn little(load: &Workload) -> f64 {
    let seconds: u64 = load.jobs.iter().map(|job| job.run_s).sum();
    let run_s = as_f64(seconds) / as_f64(load.jobs.len().max(1) as u64);
    (run_s / 100.0).clamp(SECONDS.0, SECONDS.1)
}

/// The verdict on Phalanx beside Slurm's present settings, or those of the lines given.
pub fn judge(
    load: &Workload,
    happened: &Figures,
    (slurm, tuned): (&Figures, Option<(&Figures, &[String])>),
    phalanx: &Figures,
) -> Judged {
    if let Some(doubt) = doubt(load, happened, slurm) {
        let sentence = format!("No verdict: {doubt}");
        return Judged { verdict: Verdict::Refused, sentence };
    }
    let little = little(load);
    let matters = |of: &Figures| (wait(of) * DIFFERENCE).max(little);
    let gains = |to: &Figures, from: &Figures| {
        wait(from) - wait(to) > matters(from) || stranded(from) - stranded(to) > STRANDED
    };
    let loses = |to: &Figures, from: &Figures| gains(from, to);
    let tuned = tuned.filter(|(of, _)| gains(of, slurm) && !loses(of, slurm));
    let base = tuned.map_or(slurm, |(of, _)| of);
    let harm = harm(base, phalanx, little);
    let verdict = match (gains(phalanx, base), loses(phalanx, base)) {
        (_, true) if tuned.is_none() => Verdict::DoNot,
        (true, false) if harm.is_none() => Verdict::Install,
        (true, false) if tuned.is_none() => Verdict::DoNot,
        _ => Verdict::NoDifference,
    };
    let of = compared(base, phalanx, little);
    let sentence = match (verdict, tuned) {
        (Verdict::NoDifference, Some((of, lines))) => format!(
            "No difference: write this, you need no Phalanx: {}. Mean wait {} with it, {} with \
             Phalanx, {} as it is.",
            lines.join("; "),
            span(wait(of)),
            span(wait(phalanx)),
            span(wait(slurm)),
        ),
        (Verdict::Install, _) => format!("Install: {of}."),
        (Verdict::NoDifference, None) => format!("No difference: {of}."),
        _ => {
            let harm = harm.map(|harm| format!("; {harm}")).unwrap_or_default();
            format!("Do not install: {of}{harm}.")
        }
    };
    Judged { verdict, sentence }
}

/// Orders two ways to tune Slurm: the one without harm first, then by mean wait, then by stranded
/// GPUs where the waits hardly differ.
pub fn by_help(load: &Workload, slurm: &Figures, a: &Figures, b: &Figures) -> Ordering {
    let little = little(load);
    let harms = |of: &Figures| harm(slurm, of, little).is_some();
    let by_wait = wait(a).total_cmp(&wait(b));
    let alike = (wait(a) - wait(b)).abs() <= little;
    let by_both = if alike { stranded(a).total_cmp(&stranded(b)) } else { by_wait };
    harms(a).cmp(&harms(b)).then(by_both)
}

/// Puts the mean waits and stranded GPUs of both into words.
fn compared(base: &Figures, phalanx: &Figures, little: f64) -> String {
    let (ours, stock) = (wait(phalanx), wait(base));
    let more = stranded(phalanx) - stranded(base);
    let change = (stock > little).then(|| format!(" ({:+.0} %)", (ours / stock - 1.0) * 100.0));
    let gpus = (more.abs() > STRANDED).then(|| format!(", {more:+.1} % of the GPUs stranded"));
    let (change, gpus) = (change.unwrap_or_default(), gpus.unwrap_or_default());
    format!("mean wait {} with Phalanx{change}, {} without{gpus}", span(ours), span(stock))
}

/// Names who is worse off with Phalanx, if anybody is: a class, a promise, or large jobs as a
/// whole.
fn harm(base: &Figures, phalanx: &Figures, little: f64) -> Option<String> {
    let [was, is] = [base, phalanx].map(|of| of.card.as_ref());
    let (was, is) = (was?, is?);
    for class in was.classes.iter().filter(|class| class.jobs >= CLASS_MIN) {
        let own = is.classes.iter().find(|of| (of.size, of.run) == (class.size, class.run))?;
        let each = [
            ("half", class.wait_p50_s, own.wait_p50_s),
            ("95 %", class.wait_p95_s, own.wait_p95_s),
        ];
        for (part, before_s, after_s) in each {
            let [before, after] = [before_s, after_s].map(seconds);
            if after > before * CLASS && after - before > little {
                return Some(format!(
                    "of jobs {}, {}, {part} wait {}, {} without",
                    class.size,
                    class.run,
                    span(after),
                    span(before)
                ));
            }
        }
    }
    let slip = |of: &Card| of.slip_s.map_or(0.0, seconds);
    if slip(is) > slip(was) + PROMISE_S {
        let (after, before) = (span(slip(is)), span(slip(was)));
        return Some(format!("a promised start is missed by {after}, {before} without"));
    }
    let work = |of: &Card| of.wait_by_work_s.unwrap_or(0.0);
    let more = work(is) > work(was) * BY_WORK && work(is) > work(was) + little;
    more.then(|| {
        let (after, before) = (span(work(is)), span(work(was)));
        format!("a node-hour waits {after}, {before} without")
    })
}

#[allow(clippy::cast_precision_loss)] // seconds stay below 2^53
fn seconds(of: i64) -> f64 {
    of as f64
}

/// Why simulated Slurm differs from this cluster, if it does: how far the mean waits are apart, and
/// the first class of jobs whose waits differ.
pub fn doubt(load: &Workload, happened: &Figures, slurm: &Figures) -> Option<String> {
    let (was, stock, little) = (wait(happened), wait(slurm), little(load));
    if (stock - was).abs() <= (was * BELIEVED).max(little) {
        return None;
    }
    let classes = |of: &Figures| of.card.as_ref().map(|card| card.classes.clone());
    let both = classes(happened).into_iter().flatten().filter_map(|class| {
        let own =
            classes(slurm)?.into_iter().find(|of| (of.size, of.run) == (class.size, class.run));
        Some((class, own?))
    });
    let off = both.into_iter().find(|(was, is)| {
        let [was_s, is_s] = [was.wait_p50_s, is.wait_p50_s].map(seconds);
        was.jobs >= CLASS_MIN && (is_s - was_s).abs() > (was_s * BELIEVED).max(little)
    });
    let off = off.map(|(was, is)| {
        format!(
            " First apart: half of the jobs {}, {} waited {}, simulated {}.",
            was.size,
            was.run,
            span(seconds(was.wait_p50_s)),
            span(seconds(is.wait_p50_s))
        )
    });
    Some(format!(
        "simulated Slurm has a mean wait of {}, what happened {}. More than 20 % (and {}) apart it \
         is another cluster that was simulated.{}",
        span(stock),
        span(was),
        span(little),
        off.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_sim::card::ClassWaits;
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
            judge(&load, &of(was, 0.0), (&of(stock, stranded[0]), None), &of(ours, stranded[1]))
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
            (3600, [1000.0, 790.0, 100.0], [0.0; 2], Verdict::Refused, "another cluster that"),
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

    fn figures(wait: f64, median: i64, slip_s: i64) -> Figures {
        let class = ClassWaits {
            size: "to 10 %",
            run: "longer",
            jobs: 100,
            wait_p50_s: median,
            wait_p95_s: median,
        };
        let card = Card {
            classes: vec![class],
            wait_by_work_s: Some(wait),
            slip_s: Some(slip_s),
            ..Card::default()
        };
        Figures { wait_mean_s: Some(wait), card: Some(card), ..Figures::default() }
    }

    /// Goal: a gain that a line of slurm.conf gives is not credited to Phalanx, and who is worse
    /// off is named. Method: Slurm as it is, with better settings, and Phalanx, with one class of
    /// jobs.
    #[test]
    fn the_verdict_is_against_slurm_as_it_could_be() {
        let job = SimJob { run_s: 600, limit_s: 600, size: 1, ..job_of() };
        let load = Workload { jobs: vec![job], ..Workload::default() };
        let lines = ["SchedulerParameters=x=1".to_owned()];
        let verdict = |tuned: Option<Figures>, ours: Figures| {
            let stock = figures(1000.0, 900, 0);
            let tuned = tuned.as_ref().map(|of| (of, &lines[..]));
            judge(&load, &stock.clone(), (&stock, tuned), &ours)
        };
        let found = verdict(Some(figures(500.0, 400, 0)), figures(490.0, 400, 0));
        assert_eq!(found.verdict, Verdict::NoDifference);
        assert!(found.sentence.contains("you need no Phalanx: SchedulerParameters=x=1"));
        let found = verdict(Some(figures(500.0, 400, 0)), figures(300.0, 300, 0));
        assert_eq!(found.verdict, Verdict::Install, "{}", found.sentence);
        let found = verdict(None, figures(900.0, 1000, 0));
        assert_eq!(found.verdict, Verdict::DoNot);
        assert!(
            found.sentence.contains("of jobs to 10 %, longer, half wait"),
            "{}",
            found.sentence
        );
        let found = verdict(None, figures(900.0, 900, 61));
        assert!(
            found.sentence.contains("promised start is missed by 61.0 s"),
            "{}",
            found.sentence
        );
        let (least, kept) = (figures(100.0, 1000, 0), figures(800.0, 900, 0));
        let stock = figures(1000.0, 900, 0);
        assert_eq!(
            by_help(&load, &stock, &least, &kept),
            Ordering::Greater,
            "a class waits longer"
        );
        assert_eq!(by_help(&load, &stock, &figures(700.0, 900, 0), &kept), Ordering::Less);
        let whole = Figures { stranded: [("gpu".into(), 2.0)].into(), ..kept.clone() };
        assert_eq!(by_help(&load, &stock, &whole, &kept), Ordering::Greater, "the waits are alike");
        let stock = figures(500.0, 400, 0);
        let found = judge(&load, &figures(1000.0, 900, 0), (&stock, None), &stock);
        assert!(found.sentence.contains("half of the jobs to 10 %, longer"), "{}", found.sentence);
    }

    fn job_of() -> SimJob {
        SimJob { number: 1, submit_s: 0, run_s: 1, limit_s: 9999, size: 1, user: 0, class: 0 }
    }
}
