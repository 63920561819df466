// SPDX-License-Identifier: GPL-3.0-or-later
//! Wages of task types: a bound that knows that tasks are whole and servers separate.
//!
//! With a wage for every task type, whatever its sign, every assignment's index is at most
//!
//! ```text
//! delta + 1/(4 theta) + sum_jobs max(0, sum_tasks wage)
//!       + sum_servers max_patterns sum_tasks (lin + theta s2 - wage)
//! ```
//!
//! because the relaxation lets servers run tasks that their jobs do not start and the other way
//! round, in exchange for the wage; a pattern is a multiset of tasks that fits the empty server.
//! The prices of `prices.rs` give wages that prove at least as much. The descent is incremental
//! (Nedic and Bertsekas 2001): one server or job at a time, each with a step of its own. It pays
//! where servers differ, since prices then have more unknowns than wages, and where tasks are large
//! beside servers, since prices do not see what no task fits into.

use super::instance::{Instance, narrow};
use super::pattern::Pattern;
use super::prices::{Guide, Prices};
use super::rng::Stream;

/// Relative slack added to a bound for rounding.
const ROUNDING: f64 = 1e-9;
/// Search nodes per server while descending, and for the bound.
const NODES_PASS: u32 = 2_000;
const NODES_BOUND: u32 = 50_000;
/// Passes at most, and the steps of the first and the last, as parts of a task's mean rent.
const PASSES_MAX: u32 = 16;
const STEP_FIRST: f64 = 0.05;
const STEP_LAST: f64 = 0.003;
/// The first where classes are few: a pass or two is all that fits.
const STEP_FIRST_FEW: f64 = 0.1;
/// Share of the time for wages after which passes end; the rest is for the bound.
const PASSES_SHARE: f64 = 0.8;
/// Steps between two looks at the clock.
const CLOCK_STEPS: usize = 64;
/// Edges looked at in one pass, at most.
const EDGES_MAX: usize = 3_000_000;

/// Wages and what they prove.
#[derive(Debug)]
pub(crate) struct Wages<'a> {
    instance: &'a Instance,
    theta: f64,
    /// (type, worth) by zone.
    zone_start: Vec<u32>,
    zone_items: Vec<(u32, f64)>,
    /// Price per unit by (zone, kind): the order of the knapsack search.
    price: Vec<f64>,
    /// Tasks of each type in possible jobs.
    total: Vec<f64>,
    job_start: Vec<u32>,
    job_types: Vec<(u32, f64)>,
    /// By type.
    wage: Vec<f64>,
    pattern: Pattern,
    rng: Stream,
}

/// A pass is affordable, and patterns are of edges that were tried.
pub(crate) fn pays(instance: &Instance) -> bool {
    !instance.merged && !instance.has_untried && instance.opts.len() <= EDGES_MAX
}

/// Best bound of some passes from `prices`, with its wages; none when time was too short, or when
/// prices by class know as much: few classes, and servers that small tasks fill to the brim.
pub(crate) fn descend(
    instance: &Instance,
    (guide, prices): (&Guide, &Prices),
    seed: u64,
    used: &dyn Fn() -> f64,
) -> Option<(f64, Vec<f64>)> {
    let mut wages = Wages::new(instance, guide, prices, seed);
    let first = wages.bound(NODES_PASS, used);
    let own_classes = instance.zones * 2 > instance.servers;
    if !own_classes && first >= prices.bound {
        return None;
    }
    let mut best = (first, wages.wage.clone());
    let rent = wages.mean_rent(guide);
    let step_first = if own_classes { STEP_FIRST } else { STEP_FIRST_FEW };
    for pass in 0..PASSES_MAX {
        let progress = used().max(f64::from(pass) / f64::from(PASSES_MAX));
        if progress >= PASSES_SHARE {
            break;
        }
        let step = rent * step_first * (STEP_LAST / step_first).powf(progress);
        wages.pass(step, used);
        // Where steps are too long for an instance the first passes prove most.
        if (pass + 1).is_power_of_two() && !own_classes {
            wages.keep(&mut best, NODES_PASS, used);
        }
    }
    wages.keep(&mut best, NODES_BOUND, used);
    best.0.is_finite().then_some(best)
}

impl<'a> Wages<'a> {
    fn new(instance: &'a Instance, guide: &Guide, prices: &Prices, seed: u64) -> Wages<'a> {
        let mut wages = Wages {
            instance,
            theta: prices.theta,
            zone_start: vec![0],
            zone_items: Vec::with_capacity(instance.opts.len()),
            price: guide.unit_prices(instance, prices),
            total: vec![0.0; instance.types],
            job_start: vec![0],
            job_types: Vec::new(),
            wage: vec![0.0; instance.types],
            pattern: Pattern::default(),
            rng: Stream::new(seed, 1 << 5),
        };
        wages.set_jobs();
        let mut by_zone: Vec<Vec<(u32, f64)>> = vec![Vec::new(); instance.zones];
        for ty in (0..instance.types).filter(|ty| wages.total[*ty] > 0.0) {
            let opts = instance.type_opts(ty);
            for at in opts.clone() {
                by_zone[instance.opts[at].zone as usize].push((narrow(ty), guide.worth[at]));
            }
            wages.wage[ty] = guide.reduced[guide.option_order[opts.start] as usize];
        }
        for row in by_zone {
            wages.zone_items.extend(row);
            wages.zone_start.push(narrow(wages.zone_items.len()));
        }
        wages
    }

    fn set_jobs(&mut self) {
        let instance = self.instance;
        for job in (0..instance.jobs()).filter(|j| instance.possible[*j]) {
            let mut types: Vec<u32> = instance.task_type[instance.job_tasks(job)].to_vec();
            types.sort_unstable();
            for run in types.chunk_by(|a, b| a == b) {
                let count = run.len() as f64;
                self.total[run[0] as usize] += count;
                self.job_types.push((run[0], count));
            }
            self.job_start.push(narrow(self.job_types.len()));
        }
    }

    /// What a task leaves to its server, in the mean.
    fn mean_rent(&self, guide: &Guide) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for (ty, total) in self.total.iter().enumerate().filter(|(_, total)| **total > 0.0) {
            sum += total * (guide.best_worth[ty] - self.wage[ty]).max(0.0);
            count += total;
        }
        // Half of a task's worth where nothing is scarce yet.
        let worth =
            guide.best_worth.iter().filter(|w| w.is_finite()).fold(0.0_f64, |m, w| m.max(*w));
        f64::max(sum / f64::max(count, 1.0), 0.1 * worth)
    }

    /// Searches the best pattern of a zone's servers.
    fn fill(&mut self, zone: usize, nodes: u32) {
        let instance = self.instance;
        let kinds = instance.kinds;
        let first = instance.zone_start[zone] as usize;
        let capacity = &instance.capacity[first * kinds..(first + 1) * kinds];
        self.pattern.clear(capacity, &self.price[zone * kinds..(zone + 1) * kinds]);
        let range = self.zone_start[zone] as usize..self.zone_start[zone + 1] as usize;
        for (ty, worth) in &self.zone_items[range] {
            let at = *ty as usize;
            let row = instance.row(at);
            if self.pattern.admits(row) {
                // Rounded up, so that nothing is left out.
                let most = narrow(tasks(self.total[at]));
                self.pattern.offer(*ty, worth - self.wage[at], most, row);
            }
        }
        self.pattern.search(nodes, 0.0, |ty| instance.row(ty as usize));
    }

    fn job_profit(&self, job: usize) -> f64 {
        let range = self.job_start[job] as usize..self.job_start[job + 1] as usize;
        self.job_types[range].iter().map(|(ty, n)| self.wage[*ty as usize] * n).sum()
    }

    /// What the current wages prove by about so many search nodes a class, fewer out of time.
    fn bound(&mut self, nodes: u32, used: &dyn Fn() -> f64) -> f64 {
        let instance = self.instance;
        let mut bound = if self.theta > 0.0 { 0.25 / self.theta } else { 0.0 };
        for zone in 0..instance.zones {
            self.fill(zone, if used() < 1.0 { nodes } else { nodes.min(NODES_PASS) });
            let servers = instance.zone_start[zone + 1] - instance.zone_start[zone];
            bound += f64::from(servers) * self.pattern.bound;
        }
        let jobs = 0..self.job_start.len() - 1;
        bound += jobs.map(|job| self.job_profit(job).max(0.0)).sum::<f64>();
        bound + ROUNDING * bound.abs()
    }

    /// Keeps the current wages if they prove more.
    fn keep(&mut self, best: &mut (f64, Vec<f64>), nodes: u32, used: &dyn Fn() -> f64) {
        let bound = self.bound(nodes, used);
        if bound < best.0 {
            best.0 = bound;
            best.1.copy_from_slice(&self.wage);
        }
    }

    /// One step for every server and every job, in random order, while there is time.
    fn pass(&mut self, step: f64, used: &dyn Fn() -> f64) {
        let servers = self.instance.servers;
        let mut order: Vec<u32> = (0..narrow(servers + self.job_start.len() - 1)).collect();
        self.rng.shuffle(&mut order);
        for (done, at) in order.into_iter().enumerate() {
            if done % CLOCK_STEPS == CLOCK_STEPS - 1 && used() >= PASSES_SHARE {
                return;
            }
            match (at as usize).checked_sub(servers) {
                None => self.step_server(at as usize, step),
                Some(job) => self.step_job(job, step),
            }
        }
    }

    /// The server's best pattern makes its types dearer.
    fn step_server(&mut self, server: usize, step: f64) {
        self.fill(self.instance.zone_of[server] as usize, NODES_PASS);
        for (ty, n) in &self.pattern.best {
            let ty = *ty as usize;
            self.wage[ty] += step * f64::from(*n) / self.total[ty];
        }
    }

    /// A job that pays makes its types cheaper, until it would not pay any more.
    fn step_job(&mut self, job: usize, step: f64) {
        let profit = self.job_profit(job);
        if profit <= 0.0 {
            return;
        }
        let range = self.job_start[job] as usize..self.job_start[job + 1] as usize;
        let types = &self.job_types[range];
        let norm: f64 = types.iter().map(|(ty, n)| n * n / self.total[*ty as usize]).sum();
        let step = step.min(profit / norm);
        for (ty, n) in types {
            self.wage[*ty as usize] -= step * n / self.total[*ty as usize];
        }
    }
}

/// A count kept as a float.
fn tasks(count: f64) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = count.ceil() as usize;
    whole
}
