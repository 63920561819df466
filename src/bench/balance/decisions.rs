// SPDX-License-Identifier: GPL-3.0-or-later
//! Time of one placement decision, as the daemon asks for it: `phalanx-bench balance`.
//!
//! 10,000 nodes, four dimensions, jobs beginning and ending between the
//! decisions. Times every decision by itself and prints percentiles: a mean
//! would hide the slow ones, and the plugin's deadline is about those. The
//! order of the index is renewed outside the timed part, as the daemon does.
#![allow(clippy::unwrap_used)]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // ranks of percentiles

use std::time::{Duration, Instant};

use phalanx_core::{Amount, NodeIdx, NodeSet};
use phalanx_methods::balance::fragment::Want;
use phalanx_methods::balance::{Engine, Mode, Params, Request};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;

const NODES: usize = 10_000;
const DECISIONS: usize = 20_000;
const TOTAL: [u64; 4] = [64, 512_000, 8, 2_000_000];

/// Node totals: one kind, or all different.
fn total(varied: bool, rng: &mut Rng) -> [u64; 4] {
    if !varied {
        return TOTAL;
    }
    TOTAL.map(|most| rng.random_range(most / 4..=most))
}

fn cluster(varied: bool, params: Params, rng: &mut Rng) -> Engine {
    let totals: Vec<[u64; 4]> = (0..NODES).map(|_| total(varied, rng)).collect();
    let amounts = |ticks: &[u64; 4]| ticks.map(Amount::saturating);
    let flat: Vec<Amount> = totals.iter().flat_map(amounts).collect();
    let mut engine = Engine::new(4, &flat, params).unwrap();
    for (at, total) in totals.iter().enumerate() {
        let used = total.map(|most| rng.random_range(0..=most * 7 / 10));
        engine.set_node(NodeIdx::new(at), &amounts(total), &amounts(&used)).unwrap();
    }
    engine.maintain();
    engine
}

/// The candidates of a partition or of a feature.
fn candidates(kind: &str, rng: &mut Rng) -> NodeSet {
    let mut set = NodeSet::new(NODES);
    let start = rng.random_range(0..NODES - NODES / 5);
    for at in 0..NODES {
        let is_in = match kind {
            "half" => rng.random_range(0..2) == 0,
            "fifth" => (start..start + NODES / 5).contains(&at),
            "hundredth" => rng.random_range(0..100) == 0,
            _ => true,
        };
        if is_in {
            set.insert(NodeIdx::new(at));
        }
    }
    set
}

/// The rules that decide in the measurement.
struct Form {
    name: &'static str,
    mode: Mode,
    threshold: f64,
    /// Pending requests for GPUs; with some, GPUs that they cannot use count too.
    wants: Vec<Want>,
}

/// Requests of 32 kinds.
fn wants() -> Vec<Want> {
    let of = |kind: u32| Want {
        cpu_milli: u64::from(1 + kind % 16) * 1000,
        gpus: 1 << (kind % 4),
        gpu_milli: 1000,
        weight: f64::from(1 + kind % 5),
    };
    (0..32).map(of).collect()
}

/// Latencies of decisions while jobs begin and end, ascending.
fn times(form: &Form, varied: bool, kind: &str, nodes: usize) -> Vec<Duration> {
    let mut rng = Rng::seed_from_u64(1);
    let params = Params { mode: form.mode, threshold: form.threshold, ..Params::default() };
    let mut engine = cluster(varied, params, &mut rng);
    engine.set_demand(0, 2, &form.wants).unwrap();
    let sets: Vec<NodeSet> = (0..8).map(|_| candidates(kind, &mut rng)).collect();
    let mut running: Vec<(NodeIdx, [Amount; 4])> = Vec::new();
    let mut times = Vec::with_capacity(DECISIONS);
    for at in 0..DECISIONS / nodes.min(8) {
        let amounts = TOTAL.map(|most| Amount::saturating(rng.random_range(0..=most / 8)));
        let request = Request { nodes, ..Request::new(&amounts) };
        let begin = Instant::now();
        let decision = engine.decide(&sets[at % sets.len()], &request).unwrap();
        times.push(begin.elapsed());
        for choice in decision.choices() {
            engine.add_used(choice.node, &amounts).unwrap();
            running.push((choice.node, amounts));
        }
        while running.len() > 2 * NODES {
            let (node, amounts) = running.swap_remove(rng.random_range(0..running.len()));
            engine.sub_used(node, &amounts).unwrap();
        }
        engine.maintain();
    }
    times.sort_unstable();
    times
}

pub fn run() {
    println!("{NODES} nodes, 4 dimensions; microseconds for one decision");
    println!(
        "{:12} {:8} {:10} {:>5} {:>10} {:>8} {:>8} {:>8} {:>8}",
        "mode", "totals", "candidates", "nodes", "per second", "p50", "p99", "p99.9", "largest"
    );
    let form = |name, mode, threshold, wants| Form { name, mode, threshold, wants };
    let forms = [
        form("seed, high", Mode::Seed, 0.0, Vec::new()),
        form("seed, low", Mode::Seed, 9.0, Vec::new()),
        form("best", Mode::Best, 0.5, Vec::new()),
        form("best, mix", Mode::Best, 0.5, wants()),
    ];
    for form in forms {
        for varied in [false, true] {
            for (kind, nodes) in
                [("all", 1), ("half", 1), ("fifth", 1), ("hundredth", 1), ("all", 16)]
            {
                let times = times(&form, varied, kind, nodes);
                let sum: Duration = times.iter().sum();
                let at = |part: f64| {
                    let rank = (times.len() as f64 * part) as usize;
                    times[rank.min(times.len() - 1)].as_secs_f64() * 1e6
                };
                println!(
                    "{:12} {:8} {kind:10} {nodes:5} {:10.0} {:8.1} {:8.1} {:8.1} {:8.1}",
                    form.name,
                    if varied { "differ" } else { "alike" },
                    times.len() as f64 / sum.as_secs_f64(),
                    at(0.5),
                    at(0.99),
                    at(0.999),
                    at(1.0)
                );
            }
        }
    }
}
