// SPDX-License-Identifier: GPL-3.0-or-later
//! Properties of the balance engine on random clusters: the indexed search equals the plain scan to
//! the last bit, and the plain scan equals the formulas, written down here a second time in
//! floating point.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use crate::exact::balance::{self as oracle, Nodes};
use phalanx_core::{Amount, NodeIdx, NodeSet};
use phalanx_methods::balance::fragment::Want;
use phalanx_methods::balance::pending::{Lack, PendingCounts};
use phalanx_methods::balance::{
    Branch, Decision, Engine, Holding, Mode, NoImprovement, Outcome, Params, Problem, Request,
    Sources, Span, solve,
};
use phalanx_methods::verify;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;
use serde_json::json;

/// Shape of a random cluster and of the jobs on it.
#[derive(Clone, Debug)]
struct Shape {
    nodes: usize,
    dims: usize,
    /// Number of different node totals; 0: all differ.
    classes: usize,
    /// Percent of totals that are 0.
    absent: u32,
    /// Number of which amounts are multiples: the larger, the more ties.
    grain: u64,
    /// Usage of busy nodes in percent, and percent of nodes that are busy.
    fill: u64,
    busy: u32,
    /// Largest request in percent of the largest total.
    request: u64,
    seed: u64,
}

fn shapes(nodes: std::ops::Range<usize>) -> impl Strategy<Value = Shape> {
    let classes = prop_oneof![Just(1usize), Just(3), Just(0)];
    let grain = prop_oneof![Just(1u64), Just(100), Just(1000)];
    let fill = prop_oneof![Just(30u64), Just(70), Just(100)];
    let busy = prop_oneof![Just(0u32), Just(50), Just(100)];
    let request = prop_oneof![Just(5u64), Just(30), Just(80)];
    let absent = prop_oneof![Just(0u32), Just(0), Just(30)];
    (nodes, 1usize..6, classes, absent, grain, fill, busy, request, any::<u64>()).prop_map(
        |(nodes, dims, classes, absent, grain, fill, busy, request, seed)| Shape {
            nodes,
            dims,
            classes,
            absent,
            grain,
            fill,
            busy,
            request,
            seed,
        },
    )
}

const TOTAL: u64 = 10_000;

impl Shape {
    fn total(&self, rng: &mut Rng) -> Vec<u64> {
        let mut one = || {
            if rng.random_range(0..100u32) < self.absent {
                return 0;
            }
            rng.random_range(TOTAL / 4 / self.grain..=TOTAL / self.grain) * self.grain
        };
        (0..self.dims).map(|_| one()).collect()
    }

    fn cluster(&self, rng: &mut Rng) -> (Vec<Vec<u64>>, Vec<Vec<u64>>) {
        let classes: Vec<Vec<u64>> = (0..self.classes).map(|_| self.total(rng)).collect();
        let mut totals = Vec::new();
        let mut used = Vec::new();
        for _ in 0..self.nodes {
            let total = match classes.len() {
                0 => self.total(rng),
                count => classes[rng.random_range(0..count)].clone(),
            };
            let is_busy = rng.random_range(0..100u32) < self.busy;
            let part = |total: &u64, rng: &mut Rng| {
                let most = total * self.fill / 100 / self.grain;
                rng.random_range(0..=most) * self.grain
            };
            used.push(total.iter().map(|t| if is_busy { part(t, rng) } else { 0 }).collect());
            totals.push(total);
        }
        (totals, used)
    }

    fn request(&self, rng: &mut Rng) -> Vec<Amount> {
        let most = TOTAL * self.request / 100 / self.grain;
        let mut one = || match rng.random_range(0..4) {
            0 => 0,
            _ => rng.random_range(0..=most) * self.grain,
        };
        (0..self.dims).map(|_| Amount::saturating(one())).collect()
    }
}

fn amounts(ticks: &[u64]) -> Vec<Amount> {
    ticks.iter().map(|&t| Amount::saturating(t)).collect()
}

fn engine(totals: &[Vec<u64>], used: &[Vec<u64>], params: Params) -> Engine {
    let flat: Vec<Amount> = totals.iter().flat_map(|total| amounts(total)).collect();
    let mut engine = Engine::new(totals[0].len(), &flat, params).unwrap();
    for (at, (total, used)) in totals.iter().zip(used).enumerate() {
        engine.set_node(NodeIdx::new(at), &amounts(total), &amounts(used)).unwrap();
    }
    engine
}

fn params(mode: Mode, rng: &mut Rng) -> Params {
    let bits = rng.random_range(1..8);
    Params {
        mode,
        sources: Sources { initial: bits & 1 > 0, pending: bits & 2 > 0, usage: bits & 4 > 0 },
        threshold: [0.0, 0.5, 2.0][rng.random_range(0..3)],
        no_improvement: match rng.random_range(0..2) {
            0 => NoImprovement::Fallback,
            _ => NoImprovement::Hold,
        },
        hold_max_ms: Some(10),
        ..Params::default()
    }
}

fn candidates(nodes: usize, rng: &mut Rng) -> NodeSet {
    let percent = [100u32, 100, 60, 5][rng.random_range(0..4)];
    let mut set = NodeSet::new(nodes);
    for at in 0..nodes {
        if rng.random_range(0..100) < percent {
            set.insert(NodeIdx::new(at));
        }
    }
    set
}

fn request<'a>(amounts: &'a [Amount], nodes: usize, rng: &mut Rng) -> Request<'a> {
    Request {
        nodes: match rng.random_range(0..6) {
            0 => rng.random_range(2..6),
            1 => rng.random_range(1..=nodes / 2),
            _ => 1,
        },
        whole_node: rng.random_range(0..6) == 0,
        holding: Holding::After(rng.random_range(0..15)),
        runner_up: rng.random_range(0..3) == 0,
        span: (rng.random_range(0..3) > 0)
            .then(|| Span { now_s: NOW_S, limit_s: 600 * rng.random_range(0..20) }),
        ..Request::new(amounts)
    }
}

fn want(rng: &mut Rng) -> Want {
    Want {
        cpu_milli: rng.random_range(0..40) * 1000,
        gpus: rng.random_range(0..9),
        gpu_milli: 1000,
        weight: f64::from(rng.random_range(1..9)),
    }
}

/// A time at which jobs ask.
const NOW_S: u64 = 1_000_000;

/// Draws a last end: none, a past one, or a future one; often the same.
fn last_end(rng: &mut Rng) -> u64 {
    if rng.random_range(0..4) == 0 { 0 } else { NOW_S - 600 + 600 * rng.random_range(0..30) }
}

/// Changes that the daemon's events make.
fn disturb(engine: &mut Engine, totals: &[Vec<u64>], shape: &Shape, rng: &mut Rng) {
    let node = NodeIdx::new(rng.random_range(0..totals.len()));
    let more = shape.request(rng);
    match rng.random_range(0..12) {
        0 => engine.add_used(node, &more).unwrap(),
        1 => engine.sub_used(node, &more).unwrap(),
        2 => engine.set_node(node, &amounts(&totals[node.at()]), &more).unwrap(),
        3 => {
            let counts: Vec<u64> = (0..shape.dims).map(|_| rng.random_range(0..4)).collect();
            engine.set_pending(&counts).unwrap();
        }
        8 if shape.dims > 1 => {
            let wants: Vec<Want> = (0..rng.random_range(0..4)).map(|_| want(rng)).collect();
            engine.set_demand(0, 1, &wants).unwrap();
        }
        4 => engine.set_poll_start(rng.random_range(0..totals.len())),
        5 => engine.maintain(),
        9 | 10 => engine.set_last_end(node, last_end(rng)).unwrap(),
        11 => {
            engine.note_last_end(node, last_end(rng));
            engine.add_used(node, &more).unwrap();
        }
        _ => {}
    }
}

fn compare(shape: &Shape, mode: Mode) -> Result<(), TestCaseError> {
    let mut rng = Rng::seed_from_u64(shape.seed);
    let (totals, used) = shape.cluster(&mut rng);
    let mut engine = engine(&totals, &used, params(mode, &mut rng));
    for at in 0..shape.nodes {
        engine.set_last_end(NodeIdx::new(at), last_end(&mut rng)).unwrap();
    }
    for _ in 0..24 {
        let set = candidates(shape.nodes, &mut rng);
        let amounts = shape.request(&mut rng);
        let request = request(&amounts, shape.nodes, &mut rng);
        let plain = engine.decide_plain(&set, &request);
        let mut fast = engine.decide(&set, &request).unwrap();
        engine.find_runner_up(&mut fast);
        prop_assert_eq!(&fast, &plain, "{:?}", request);
        if rng.random_range(0..4) > 0 {
            engine.commit(&request, &fast).unwrap();
        }
        disturb(&mut engine, &totals, shape, &mut rng);
    }
    Ok(())
}

/// The decision by section Balance of `docs/methods.md`, from floating-point numbers.
struct Formula<'a> {
    totals: &'a [Vec<u64>],
    used: &'a [Vec<u64>],
    weights: &'a [f64],
}

impl Formula<'_> {
    fn dispersion(&self, node: usize, request: &[Amount]) -> f64 {
        let own: Vec<(f64, f64)> = (0..self.weights.len())
            .filter(|&dim| self.totals[node][dim] > 0)
            .map(|dim| {
                let sum = self.used[node][dim] + request[dim].ticks();
                (self.weights[dim], sum as f64 / self.totals[node][dim] as f64)
            })
            .collect();
        let share: f64 = own.iter().map(|(weight, _)| weight).sum();
        if share == 0.0 {
            return 0.0;
        }
        let mean = own.iter().map(|(_, usage)| usage).sum::<f64>() / own.len() as f64;
        let squares = own.iter().map(|(weight, usage)| weight / share * (usage - mean).powi(2));
        squares.sum::<f64>().sqrt()
    }

    fn fits(&self, node: usize, request: &[Amount]) -> bool {
        let room = |dim: usize| self.totals[node][dim].saturating_sub(self.used[node][dim]);
        (0..request.len()).all(|dim| request[dim].ticks() <= room(dim))
    }
}

/// Checks a single-node decision of mode seed against the formulas, with room
/// for rounding: the chosen node is one of the admissible ones.
fn check_formula(
    formula: &Formula<'_>,
    start: usize,
    hold: bool,
    request: &[Amount],
    got: &Decision,
) {
    const NEAR: f64 = 1e-9;
    let zero = vec![Amount::ZERO; request.len()];
    let count = formula.totals.len();
    let fitting: Vec<usize> = (0..count).filter(|&node| formula.fits(node, request)).collect();
    let before = |node: usize| formula.dispersion(node, &zero);
    let after = |node: usize| formula.dispersion(node, request);
    let least = fitting.iter().map(|&node| after(node)).fold(f64::INFINITY, f64::min);
    let Outcome::Placed(choices) = &got.outcome else {
        if fitting.is_empty() {
            assert_eq!(got.outcome, Outcome::NoFit { fitting: 0 });
        } else {
            assert!(hold && got.outcome == Outcome::Held && got.branch == Branch::Low);
            assert!(fitting.iter().all(|&node| after(node) >= before(node) - NEAR));
        }
        return;
    };
    let choice = choices[0];
    let node = choice.node.at();
    assert!(fitting.contains(&node));
    let near = |got: f64, expected: f64| (got - expected).abs() < NEAR;
    assert!(near(choice.before, before(node)) && near(choice.after, after(node)));
    let idle = |node: usize| formula.used[node].iter().all(|&used| used == 0);
    let accepts = |node: usize, by: f64| after(node) < before(node) - by || (hold && idle(node));
    if got.branch == Branch::Low && accepts(node, -NEAR) {
        // No node that clearly accepts comes earlier in the poll.
        let position = |node: usize| (node + count - start) % count;
        let earlier = fitting.iter().filter(|&&other| position(other) < position(node));
        let clear = earlier.filter(|&&other| accepts(other, NEAR)).count();
        if clear == 0 {
            return;
        }
    }
    assert!(after(node) <= least + NEAR, "{} > {least}", after(node));
    assert!(got.branch == Branch::High || fitting.iter().all(|&other| !accepts(other, NEAR)));
}

fn formula(shape: &Shape) {
    let mut rng = Rng::seed_from_u64(shape.seed);
    let (totals, mut used) = shape.cluster(&mut rng);
    let params = Params { hold_max_ms: None, ..params(Mode::Seed, &mut rng) };
    let hold = params.no_improvement == NoImprovement::Hold;
    let mut engine = engine(&totals, &used, params);
    let all = NodeSet::full(shape.nodes);
    for _ in 0..16 {
        let amounts = shape.request(&mut rng);
        let request = Request::new(&amounts);
        let start = engine.poll_start();
        let decision = engine.decide(&all, &request).unwrap();
        let weights = decision.weights.clone();
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let formula = Formula { totals: &totals, used: &used, weights: &weights };
        check_formula(&formula, start, hold, &amounts, &decision);
        engine.commit(&request, &decision).unwrap();
        for choice in decision.choices() {
            for (used, amount) in used[choice.node.at()].iter_mut().zip(&amounts) {
                *used += amount.ticks();
            }
        }
    }
}

/// Attribution kept up to date equals attribution made anew.
fn attribution(shape: &Shape) {
    let mut rng = Rng::seed_from_u64(shape.seed);
    let (totals, used) = shape.cluster(&mut rng);
    let mut engine = engine(&totals, &used, Params::default());
    let mut counts = PendingCounts::new(shape.dims);
    let mut pending: Vec<(Vec<Amount>, usize)> = Vec::new();
    for _ in 0..40 {
        let amounts = shape.request(&mut rng);
        if rng.random_range(0..2) == 0 {
            let nodes = if rng.random_range(0..2) == 0 { 1 } else { rng.random_range(1..9) };
            // Held jobs may fit.
            let fits = engine.lack(&amounts, nodes) == Lack::Nothing || rng.random_range(0..2) == 0;
            counts.add(&mut engine, &amounts, nodes, fits);
            pending.push((amounts, nodes));
        } else {
            let node = NodeIdx::new(rng.random_range(0..shape.nodes));
            engine.add_used(node, &amounts).unwrap();
            counts.node_filled(&mut engine, node);
        }
        let mut expected = vec![0u64; shape.dims];
        for (amounts, nodes) in &pending {
            if let Lack::Dims(dims) = engine.lack(amounts, *nodes) {
                dims.iter().for_each(|&dim| expected[dim] += 1);
            }
        }
        assert_eq!(counts.counts(), expected);
    }
}

/// The figures of a small instance for the oracle.
fn oracle_nodes(totals: &[Vec<u64>], used: &[Vec<u64>]) -> Nodes {
    let rows = |table: &[Vec<u64>]| -> Vec<Vec<f64>> {
        table.iter().map(|row| row.iter().map(|&ticks| ticks as f64).collect()).collect()
    };
    Nodes { total: rows(totals), used: rows(used) }
}

/// Goal: several nodes of the high branch are the best set.
fn several(shape: &Shape) {
    let mut rng = Rng::seed_from_u64(shape.seed);
    let (totals, used) = shape.cluster(&mut rng);
    let params = Params { threshold: 0.0, ..Params::default() };
    let mut engine = engine(&totals, &used, params);
    let nodes = oracle_nodes(&totals, &used);
    for wanted in 1..5 {
        let amounts = shape.request(&mut rng);
        let request = Request { nodes: wanted, ..Request::new(&amounts) };
        let decision = engine.decide(&NodeSet::full(shape.nodes), &request).unwrap();
        let plain: Vec<f64> = amounts.iter().map(|amount| amount.as_f64()).collect();
        let best = oracle::best_nodes(&nodes, &plain, &decision.weights, wanted);
        assert_eq!(decision.choices().is_empty(), best.is_none());
        let sum: f64 = decision.choices().iter().map(|choice| choice.after).sum();
        let least = best.map_or(0.0, |(_, least)| least);
        assert!((sum - least).abs() < 1e-9, "{sum} is not {least}");
    }
}

/// Checks that a mode places no more jobs than fit together, and at most all that fit.
fn packing(shape: &Shape, mode: Mode) {
    let mut rng = Rng::seed_from_u64(shape.seed);
    let (totals, used) = shape.cluster(&mut rng);
    let mut engine = engine(&totals, &used, Params { mode, ..Params::default() });
    let nodes = oracle_nodes(&totals, &used);
    let jobs: Vec<Vec<Amount>> = (0..7).map(|_| shape.request(&mut rng)).collect();
    let mut placed = 0;
    for amounts in &jobs {
        let request = Request::new(amounts);
        let decision = engine.decide(&NodeSet::full(shape.nodes), &request).unwrap();
        let fits = engine.lack(amounts, 1) == Lack::Nothing;
        assert_eq!(fits, !decision.choices().is_empty(), "a job that fits is placed");
        placed += usize::from(fits);
        engine.commit(&request, &decision).unwrap();
    }
    let ticks = |job: &Vec<Amount>| job.iter().map(|amount| amount.as_f64()).collect();
    let jobs: Vec<Vec<f64>> = jobs.iter().map(ticks).collect();
    let most = oracle::most_jobs(&nodes, &jobs).unwrap();
    assert!(placed <= most && most <= oracle::jobs_bound(&nodes, &jobs), "{placed} of {most}");
}

/// Places a list of jobs, and checks the answer by the checker that shares no code with the method.
fn solved(shape: &Shape, mode: Mode) {
    let mut rng = Rng::seed_from_u64(shape.seed);
    let (total, used) = shape.cluster(&mut rng);
    let id = |at: usize| at.to_string();
    let mut job = |_| {
        let amounts = shape.request(&mut rng);
        (amounts.iter().map(|amount| amount.ticks()).collect(), rng.random_range(1..4))
    };
    let jobs: Vec<(Vec<u64>, usize)> = (0..40).map(&mut job).collect();
    let nodes: Vec<_> = (0..total.len())
        .map(|at| json!({ "name": id(at), "total": total[at], "used": used[at] }))
        .collect();
    let listed: Vec<_> = (0..)
        .zip(&jobs)
        .map(|(at, (request, nodes))| json!({ "id": id(at), "request": request, "nodes": nodes }))
        .collect();
    let names: Vec<String> = (0..shape.dims).map(id).collect();
    let text = json!({ "dimensions": names, "nodes": nodes, "jobs": listed }).to_string();
    let problem: Problem<'_> = serde_json::from_str(&text).unwrap();
    let answer = solve(&problem, mode, false).unwrap();
    assert_eq!(answer.placements.len() + answer.pending.len(), jobs.len());
    let placed = answer.placements.iter().map(|placed| {
        let (request, nodes_wanted) = jobs[placed.id.parse::<usize>().unwrap()].clone();
        let nodes = placed.nodes.iter().map(|name| name.parse().unwrap()).collect();
        let job = placed.id.to_owned();
        verify::Placement { job, nodes, nodes_wanted, request, whole_node: false }
    });
    assert_eq!(verify::check(&total, &used, &placed.collect::<Vec<_>>()), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn indexed_equals_plain_in_mode_seed(shape in shapes(96..700)) {
        compare(&shape, Mode::Seed)?;
    }

    #[test]
    fn indexed_equals_plain_in_mode_best(shape in shapes(96..700)) {
        compare(&shape, Mode::Best)?;
    }

    #[test]
    fn decisions_follow_the_formulas(shape in shapes(1..300)) {
        formula(&shape);
    }

    #[test]
    fn attribution_is_kept_up_to_date(shape in shapes(1..200)) {
        attribution(&shape);
    }

    #[test]
    fn several_nodes_are_the_best_set(shape in shapes(1..9)) {
        several(&shape);
    }

    #[test]
    fn answers_pass_the_checker(shape in shapes(1..120), best in any::<bool>()) {
        solved(&shape, if best { Mode::Best } else { Mode::Seed });
    }

    #[test]
    fn no_more_jobs_than_fit(shape in shapes(1..4)) {
        packing(&shape, Mode::Seed);
        packing(&shape, Mode::Best);
    }
}
