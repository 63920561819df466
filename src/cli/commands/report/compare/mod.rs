// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx report compare`

mod arms;

use std::collections::BTreeSet;

use self::arms::{Comparison, FIGURES, Figure, LEAST};
use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::{many, percent};
use crate::text::{clean, heading, table_of, wrapped};
use crate::time::since_ms;
use phalanx_core::limits::RUNS_LIST_MAX;
use phalanx_core::number::as_f64;
use phalanx_messages::rest::RunsReport;
use phalanx_sim::metrics::span;

/// Show the live comparison of Phalanx with Slurm alone
///
/// Of jobs that were submitted while compare.share was below 1.0, and have ended. Those that still
/// wait or run are in neither arm.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Begin of the period: a duration back from now (90min, 24h, 7d) or a time
    /// (2026-11-20, 2026-11-20T08:00, 2026-11-20T08:00:00Z)
    #[arg(long, value_name = "TIME", default_value = "30d")]
    since: String,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let since = since_ms(&self.since)?;
        let path = format!("/v1/history/runs?since={since}&limit={RUNS_LIST_MAX}");
        let report: RunsReport = global.client()?.get(&path)?;
        global.show(&Comparison::of(&report.runs), text)
    }
}

fn text(of: &Comparison) -> String {
    let mut out = wrapped(&verdict(of), "");
    if of.slurm.runs + of.phalanx.runs == 0 {
        return out;
    }
    if !of.figures.is_empty() {
        out.push('\n');
        table_of(&of.figures)
            .left("Figure", |of| of.name)
            .right("Slurm alone", |of| shown(of, of.slurm))
            .right("Phalanx", |of| shown(of, of.phalanx))
            .right("Difference", |of| signed(of, of.phalanx - of.slurm))
            .left("95 % interval of all four", |of| {
                let by = of.phalanx - of.slurm;
                format!("{} to {}", signed(of, by - of.chance), signed(of, by + of.chance))
            })
            .add_to(&mut out);
    }
    heading(&mut out, "The arms");
    let (slurm, phalanx) = (&of.slurm, &of.phalanx);
    let whole = |name: &str, slurm: usize, phalanx: usize| {
        (name.to_owned(), slurm.to_string(), phalanx.to_string())
    };
    let mut rows = vec![
        whole("Runs", slurm.runs, phalanx.runs),
        whole("Jobs, arrays as one", slurm.drawn, phalanx.drawn),
        whole("Users", slurm.users, phalanx.users),
    ];
    for name in slurm.mix.keys().chain(phalanx.mix.keys()).collect::<BTreeSet<_>>() {
        let part = |arm: &arms::Arm| percent(arm.mix.get(name).copied().unwrap_or(0.0), 1.0);
        rows.push((format!("{} [%]", clean(name)), part(slurm), part(phalanx)));
    }
    table_of(&rows)
        .left("Of the jobs", |row| row.0.clone())
        .right("Slurm alone", |row| row.1.clone())
        .right("Phalanx", |row| row.2.clone())
        .add_to(&mut out);
    if of.from_submit > 0 {
        let count = many(of.from_submit as u64, "wait");
        out.push_str(&format!("{count} from submission: eligibility not recorded.\n"));
    }
    out.push_str(&wrapped(
        "Both arms share the nodes: what Phalanx frees or takes is found by the other arm's jobs \
         too, so a difference is smaller, and idle or stranded nodes are no arm's.",
        "",
    ));
    out
}

/// Says whether the arms differ, or when that will be known.
fn verdict(of: &Comparison) -> String {
    let (slurm, phalanx) = (of.slurm.drawn, of.phalanx.drawn);
    if slurm + phalanx == 0 {
        return "No job of a live comparison has ended: see compare.share.".to_owned();
    }
    // By the draw: twice four deviations are beyond chance.
    let all = as_f64((slurm + phalanx) as u64);
    let expected = all * of.share;
    let off = (as_f64(phalanx as u64) - expected).abs();
    let lost = match off > 4.0 * (expected * (1.0 - of.share)).sqrt() + 1.0 {
        true => format!(
            " The arms are not as they were drawn ({phalanx} instead of {expected:.0}): jobs were \
             taken back in one."
        ),
        false => String::new(),
    };
    let differing: Vec<String> =
        of.figures.iter().filter(|figure| figure.differs()).map(difference).collect();
    let found = match (of.figures.first(), of.more_runs) {
        (None, _) => format!(
            "Too few jobs yet: {slurm} by Slurm alone, {phalanx} with Phalanx; each arm needs \
             {LEAST}."
        ),
        _ if !differing.is_empty() => format!("With Phalanx, {}.", differing.join(", ")),
        (_, more) if more < 1.0 => {
            "No difference: one of 5 % of the mean wait would have shown.".to_owned()
        }
        (_, more) => format!(
            "No difference seen; with {more:.0} more jobs one of 5 % of the mean wait would show."
        ),
    };
    found + &lost
}

fn difference(of: &Figure) -> String {
    let by = of.phalanx - of.slurm;
    let word = if by < 0.0 { "less" } else { "more" };
    format!("{} is {} {word} than {}", of.name.to_lowercase(), shown(of, by.abs()), {
        shown(of, of.slurm)
    })
}

fn shown(of: &Figure, value: f64) -> String {
    if FIGURES.last() == Some(&of.name) { format!("{value:.2}") } else { span(value) }
}

fn signed(of: &Figure, value: f64) -> String {
    format!("{}{}", if value < 0.0 { "-" } else { "+" }, shown(of, value.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arms::Arm;

    fn comparison(drawn: [usize; 2], figures: &[(f64, f64, f64)]) -> Comparison {
        let arm = |drawn| Arm { runs: drawn, drawn, users: 3, ..Arm::default() };
        let figure = |(name, (slurm, phalanx, chance)): (&&'static str, &(f64, f64, f64))| Figure {
            name,
            slurm: *slurm,
            phalanx: *phalanx,
            chance: *chance,
        };
        Comparison {
            share: 0.5,
            slurm: arm(drawn[0]),
            phalanx: arm(drawn[1]),
            figures: FIGURES.iter().zip(figures).map(figure).collect(),
            more_runs: 1234.0,
            from_submit: 0,
        }
    }

    #[test]
    fn the_verdict_says_what_is_known() {
        let none = [(100.0, 90.0, 20.0); 4];
        let of = |drawn, figures: &[_]| verdict(&comparison(drawn, figures));
        assert_eq!(
            of([400, 410], &none),
            "No difference seen; with 1234 more jobs one of 5 % of the mean wait would show."
        );
        let enough = Comparison { more_runs: 0.0, ..comparison([400, 410], &none) };
        assert!(verdict(&enough).starts_with("No difference: one of 5 %"));
        let some = [(100.0, 70.0, 20.0), (1.0, 1.0, 0.0), (9.0, 9.0, 1.0), (1.5, 2.75, 1.0)];
        assert_eq!(
            of([400, 410], &some),
            "With Phalanx, mean wait is 30.0 s less than 100.0 s, mean bounded slowdown is 1.25 \
             more than 1.50."
        );
        assert!(of([3, 4], &[]).starts_with("Too few jobs yet: 3 by Slurm alone, 4 with Phalanx"));
        assert!(of([0, 0], &[]).contains("see compare.share"));
        // 800 of 1,400 instead of 700: more than five deviations.
        let uneven = of([600, 800], &none);
        assert!(uneven.contains("not as they were drawn (800 instead of 700)"), "{uneven}");
    }

    #[test]
    fn the_text_has_both_arms_and_what_is_between_them() {
        let mut of = comparison([400, 410], &[(100.0, 70.0, 20.0); 4]);
        of.phalanx.mix.insert("partition gpu".to_owned(), 0.25);
        let text = text(&of);
        for line in ["Mean wait", "-50.0 s to -10.0 s", "partition gpu [%]", "share the nodes"] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
