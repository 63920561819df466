// SPDX-License-Identifier: GPL-3.0-or-later
//! The campaign sim-link: the overlay as it is, in virtual time (`plugin/tests/sim`), and this
//! link's own session, mirror and answers, in one thread. One seed is one history.
//!
//! `tests/campaign-link --seeds N --seed FIRST` runs it; docs/developing.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a failed expectation ends a test"
)]

mod classes;
mod episode;
mod truth;
mod wire;

use std::path::PathBuf;
use std::time::Instant;

use classes::CLASSES;
use episode::{Episode, rng_of};
use phalanx_config::Config;
use phalanx_ffi::sim::{Counts, Sim};

/// Arguments of the campaign, from the environment that `tests/campaign-link` sets.
struct Args {
    seeds: u64,
    first: u64,
    seconds: u64,
    sabotage: u32,
    log: bool,
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(format!("PHALANX_CAMPAIGN_{name}")).unwrap_or_default();
    if text.is_empty() { default } else { text.parse().unwrap() }
}

fn args() -> Args {
    Args {
        seeds: number("SEEDS", 200),
        first: number("SEED", 0),
        seconds: number("SECONDS", u64::MAX),
        sabotage: u32::try_from(number("SABOTAGE", 0)).unwrap(),
        log: number("LOG", 0) != 0,
    }
}

fn load() -> Sim {
    let path = std::env::var_os("PHALANX_CAMPAIGN_LIBRARY").map(PathBuf::from);
    Sim::load(&path.expect("PHALANX_CAMPAIGN_LIBRARY: run by tests/campaign-link")).unwrap()
}

#[derive(Default, Clone)]
struct Sum {
    seeds: u64,
    ns: u64,
    cuts: u64,
    compared: u64,
    counts: Counts,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.ns += other.ns;
        self.cuts += other.cuts;
        self.compared += other.compared;
        let (a, b) = (&mut self.counts, &other.counts);
        a.actions += b.actions;
        a.events += b.events;
        a.asks += b.asks;
        a.answers += b.answers;
        a.narrowed += b.narrowed;
        a.held += b.held;
        a.syncs += b.syncs;
        a.connects += b.connects;
        a.opens += b.opens;
        a.ejections += b.ejections;
        a.deltas += b.deltas;
        a.crashes += b.crashes;
        a.restarts += b.restarts;
        a.checks += b.checks;
        a.late += b.late;
    }

    fn row(&self, name: &str) -> String {
        let c = &self.counts;
        format!(
            "{name:<8}{:>9}{:>9.1}{:>11}{:>11}{:>11}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>10}\
             {:>12}",
            self.seeds,
            self.ns as f64 / 3.6e12,
            c.actions,
            c.events,
            c.asks,
            c.late,
            c.held,
            c.syncs,
            self.cuts,
            c.crashes,
            c.restarts,
            c.opens,
            c.ejections,
            self.compared,
            c.checks,
        )
    }
}

/// Runs one seed; the text says what failed.
fn run(sim: &Sim, seed: u64, args: &Args, config: &Config, born: Instant) -> (Sum, Option<String>) {
    let mut rng = rng_of(seed);
    let mut plan = classes::draw(seed, &mut rng, config);
    plan.params.sabotage = args.sabotage;
    plan.params.log = u32::from(args.log);
    let mut episode = Episode::new(sim, plan, rng, born);
    let failure = episode.run().err();
    if failure.is_some() {
        sim.dump();
    }
    let sum = Sum {
        seeds: 1,
        ns: sim.now(),
        cuts: episode.cuts,
        compared: episode.compared,
        counts: sim.counts(),
    };
    (sum, failure)
}

/// Goal: with every seed the mirror is exact, asks keep their deadline, holds their limit and the
/// breaker its rules, and no delta is left.
#[test]
#[ignore = "needs sim_link.so: tests/campaign-link runs it, row sim-link of make test"]
fn campaign() {
    let (args, sim, config, born) = (args(), load(), Config::default(), Instant::now());
    let mut sums = vec![Sum::default(); CLASSES.len()];
    let mut failures = 0;
    for seed in args.first..args.first.saturating_add(args.seeds) {
        if born.elapsed().as_secs() >= args.seconds {
            break;
        }
        let (sum, failure) = run(&sim, seed, &args, &config, born);
        sums[usize::try_from(seed % CLASSES.len() as u64).unwrap()].add(&sum);
        if let Some(why) = failure {
            failures += 1;
            println!("seed {seed} ({}): {why}", CLASSES[(seed % 10) as usize]);
            if failures == 20 {
                break;
            }
        }
    }
    println!(
        "class      seeds    hours    actions     events       asks      late     held    \
         syncs     cuts  crashes restarts    opens  ejected  compared      checks"
    );
    let mut all = Sum::default();
    for (name, sum) in CLASSES.iter().zip(&sums) {
        println!("{}", sum.row(name));
        all.add(sum);
    }
    println!("{}", all.row("sum"));
    println!("failures {failures}, {:.0} s", born.elapsed().as_secs_f64());
    assert_eq!(failures, 0);
}
