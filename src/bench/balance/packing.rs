// SPDX-License-Identifier: GPL-3.0-or-later
//! The packing experiment: how many jobs do placement policies fit on 50 nodes
//! of 64 cpu, 512 GB and 8 GPUs before the first one has to wait, and what is
//! left over then?
//!
//! `phalanx-bench balance-packing [RUNS]`
//!
//! Three mixes of jobs (mostly cpu, mostly memory, mostly GPU) and an even
//! one, on nodes that are all alike and on a cluster half of which has no
//! GPUs. Every policy gets the same jobs in the same order; figures are means
//! over the runs. `jobs` counts those placed before the first rejection;
//! `left` is the share of each dimension free at that moment (stranded by
//! whatever the job lacked).

use phalanx_core::{Amount, NodeIdx, NodeSet};
use phalanx_methods::balance::{Engine, Mode, Params, Request};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;

const NODES: usize = 50;
const DIMS: usize = 3;
const TOTAL: [u64; DIMS] = [64, 512, 8];
/// Percentages of jobs that need mostly cpu, memory, GPUs.
const MIXES: [(&str, [u32; 3]); 4] = [
    ("mostly cpu", [60, 20, 20]),
    ("mostly memory", [20, 60, 20]),
    ("mostly GPU", [20, 20, 60]),
    ("even", [34, 33, 33]),
];
const POLICIES: [&str; 7] =
    ["first-fit", "best-fit", "least-loaded", "k8s-balanced", "dot-product", "seed", "best"];

type Row = [f64; DIMS];

fn job(mix: [u32; 3], rng: &mut Rng) -> [u64; DIMS] {
    let draw = rng.random_range(0..100);
    if draw < mix[0] {
        let cpu = rng.random_range(4..=32);
        [cpu, cpu * rng.random_range(1..=2), 0]
    } else if draw < mix[0] + mix[1] {
        [rng.random_range(1..=8), rng.random_range(32..=256), 0]
    } else {
        let gpu = [1, 1, 2, 2, 4, 8][rng.random_range(0..6)];
        [(gpu * rng.random_range(2..=8)).min(64), (gpu * rng.random_range(16..=64)).min(512), gpu]
    }
}

/// A policy's score of one node, given request, use and total.
fn score(policy: &str, request: &Row, used: &Row, total: &Row) -> f64 {
    let own: Vec<usize> = (0..DIMS).filter(|&dim| total[dim] > 0.0).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let usage: Vec<f64> = own.iter().map(|&dim| used[dim] / total[dim]).collect();
    let share = |dim: usize| request[dim] / total[dim];
    match policy {
        "best-fit" => -mean(&usage),
        "least-loaded" => mean(&usage),
        "k8s-balanced" => {
            let of_free = own.iter().map(|&dim| match request[dim] {
                0.0 => 0.0,
                amount => amount / (total[dim] - used[dim]),
            });
            let of_free: Vec<f64> = of_free.collect();
            let centre = mean(&of_free);
            let squares: Vec<f64> = of_free.iter().map(|f| (f - centre) * (f - centre)).collect();
            mean(&squares).sqrt()
        }
        "dot-product" => {
            -own.iter().map(|&dim| share(dim) * (1.0 - used[dim] / total[dim])).sum::<f64>()
        }
        _ => 0.0, // first-fit
    }
}

fn total_of(node: usize, without_gpu: usize) -> [u64; DIMS] {
    let is_cpu_node = node * 7 % NODES < without_gpu;
    [TOTAL[0], TOTAL[1], if is_cpu_node { 0 } else { TOTAL[2] }]
}

fn row(values: &[u64; DIMS]) -> Row {
    values.map(|value| value as f64)
}

struct Cluster {
    total: Vec<Row>,
    used: Vec<Row>,
    engine: Option<Engine>,
}

impl Cluster {
    fn new(policy: &str, without_gpu: usize) -> Self {
        let totals: Vec<[u64; DIMS]> = (0..NODES).map(|at| total_of(at, without_gpu)).collect();
        let mode = match policy {
            "seed" => Some(Mode::Seed),
            "best" => Some(Mode::Best),
            _ => None,
        };
        let engine = mode.and_then(|mode| {
            let flat: Vec<Amount> =
                totals.iter().flatten().map(|&ticks| Amount::saturating(ticks)).collect();
            Engine::new(DIMS, &flat, Params { mode, ..Params::default() }).ok()
        });
        Self { total: totals.iter().map(row).collect(), used: vec![[0.0; DIMS]; NODES], engine }
    }

    /// The node that the policy takes, if any fits.
    fn choose(&mut self, policy: &str, request: &[u64; DIMS]) -> Option<usize> {
        if let Some(engine) = &mut self.engine {
            let amounts = request.map(Amount::saturating);
            let asked = Request::new(&amounts);
            let decision = engine.decide(&NodeSet::full(NODES), &asked).ok()?;
            engine.commit(&asked, &decision).ok()?;
            return decision.choices().first().map(|choice| choice.node).map(NodeIdx::at);
        }
        let request = row(request);
        let fits = |node: &usize| {
            (0..DIMS).all(|dim| self.used[*node][dim] + request[dim] <= self.total[*node][dim])
        };
        let score = |node: usize| score(policy, &request, &self.used[node], &self.total[node]);
        (0..NODES).filter(fits).min_by(|&a, &b| score(a).total_cmp(&score(b)))
    }

    /// Jobs placed before the first rejection, and the shares free then.
    fn fill(&mut self, policy: &str, mix: [u32; 3], rng: &mut Rng) -> (f64, Row) {
        let mut placed = 0.0;
        loop {
            let request = job(mix, rng);
            let Some(node) = self.choose(policy, &request) else { break };
            for (used, amount) in self.used[node].iter_mut().zip(row(&request)) {
                *used += amount;
            }
            placed += 1.0;
        }
        let sum = |rows: &[Row], dim: usize| rows.iter().map(|row| row[dim]).sum::<f64>();
        let free = |dim: usize| 1.0 - sum(&self.used, dim) / sum(&self.total, dim);
        (placed, [free(0), free(1), free(2)])
    }
}

pub fn run(words: &[String]) {
    let runs: u64 = words.first().and_then(|runs| runs.parse().ok()).unwrap_or(300);
    for without_gpu in [0, NODES / 2] {
        println!("{NODES} nodes, {without_gpu} of them without GPUs; means of {runs} runs");
        for (name, mix) in MIXES {
            println!("  {name:14} {:>7} {:>9} {:>9} {:>9}", "jobs", "left cpu", "memory", "GPU");
            for policy in POLICIES {
                let mut sums = (0.0, [0.0; DIMS]);
                for run in 0..runs {
                    let mut rng = Rng::seed_from_u64(run);
                    let (jobs, free) =
                        Cluster::new(policy, without_gpu).fill(policy, mix, &mut rng);
                    sums.0 += jobs;
                    (0..DIMS).for_each(|dim| sums.1[dim] += free[dim]);
                }
                let mean = |sum: f64| sum / runs as f64;
                let [cpu, memory, gpu] = sums.1.map(mean);
                println!("  {policy:14} {:7.1} {cpu:9.3} {memory:9.3} {gpu:9.3}", mean(sums.0));
            }
        }
    }
}
