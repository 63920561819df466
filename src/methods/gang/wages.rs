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
//! (Nedic and Bertsekas 2001): a few servers and jobs at a time, each with a step of its own. It
//! pays where servers differ, since prices then have more unknowns than wages. Where classes are few
//! and tasks are large beside servers, wages come from soft prices (`soft.rs`), and what they prove
//! from tables of all patterns (`table.rs`).

use super::guide::Guide;
use super::instance::{Instance, narrow};
use super::offers::{self, Offer, Offers};
use super::pattern::{Filling, Pattern};
use super::prices::Prices;
use super::rng::Stream;
use super::soft::Soft;
use super::table::Table;
use rayon::prelude::*;

/// Relative slack added to a bound for rounding.
const ROUNDING: f64 = 1e-9;
/// Looks at items for a step, for a bound on the way, and for the last one, as many for each server;
/// and for one class at most.
const LOOKS_STEP: usize = 125;
const LOOKS_PASS: usize = 500;
const LOOKS_BOUND: usize = 25_000;
const LOOKS_MAX: usize = 250_000;
/// Passes at most, with many servers and a deadline and otherwise, and the steps of the first and
/// the last, as parts of a task's mean rent.
const PASSES_MANY_MAX: u32 = 200;
const PASSES_MAX: u32 = 16;
const STEPS: (f64, f64) = (0.05, 0.003);
/// The same where most of many servers differ: there is time for few passes.
const STEPS_OWN: (f64, f64) = (0.2, 0.006);
/// Passes, and share of the time, by which wages must prove more than prices do, where many servers
/// are of few classes.
const TRIAL_PASSES: u32 = 4;
const TRIAL_SHARE: f64 = 0.4;
/// Share of the time for wages after which passes end; the rest is for the bound.
const PASSES_SHARE: f64 = 0.8;
/// Visits of a pass, at least so many of every zone: the patterns of its servers differ little.
const VISITS: usize = 256;
const VISITS_LEAST: u32 = 4;
/// Visits of one step, as a part of all and of the zones, and at most: their patterns go by the
/// same wages, several at a time.
const STEP_VISITS: usize = 32;
const STEP_ZONES: usize = 4;
const STEP_VISITS_MAX: usize = 32;
/// Patterns that one thread searches in a row.
const ROW: usize = 2;
/// Cells times sizes of a table that a step may look at where a search does not end.
const TABLE_WORK: usize = 1_500_000;
/// Progress of soft prices at which their wages are tried first, and from then on.
const SOFT_FIRST: f64 = 0.5;
const SOFT_EACH: f64 = 0.1;
/// Edges looked at in one pass, at most.
const EDGES_MAX: usize = 3_000_000;

/// Wages and what they prove.
#[derive(Debug)]
pub(crate) struct Wages<'a> {
    instance: &'a Instance,
    theta: f64,
    offers: Offers<'a>,
    /// Prices that wages come from.
    soft: Option<Soft>,
    /// By type.
    wage: Vec<f64>,
    /// What a pass visits: (zone, for how many of its servers).
    visits: Vec<(u32, f64)>,
    /// Last best pattern by zone; ids are types.
    known: Vec<Filling>,
    /// Scratch space of the threads.
    patterns: Vec<Pattern>,
    /// Looks at items so far.
    looked: u64,
    rng: Stream,
}

/// An empty server of a zone: what no pattern has more profit than, the best one found, and the
/// items looked at.
struct Filled {
    bound: f64,
    best: Filling,
    looked: u32,
}

/// A pass is affordable, and patterns are of edges that were tried.
pub(crate) fn pays(instance: &Instance) -> bool {
    !instance.merged && !instance.has_untried && instance.opts.len() <= EDGES_MAX
}

/// Best bound of some passes from `prices`, with its wages; none when prices by class know as
/// much: few classes, and servers that small tasks fill to the brim. `used` is the share of the
/// time for this, none without a deadline.
pub(crate) fn descend(
    instance: &Instance,
    (guide, prices): (&Guide, &Prices),
    seed: u64,
    used: &dyn Fn() -> Option<f64>,
) -> Option<(f64, Vec<f64>)> {
    let mut wages = Wages::new(instance, guide, prices, seed);
    let own_classes = instance.own_classes();
    let many = !instance.few;
    if !own_classes {
        let worth = wages.offers.mean_worth(guide);
        if let Some(soft) = Soft::new(&mut wages.offers, worth) {
            return Some(wages.descend_softly(soft, used));
        }
    }
    if many {
        wages.offers.set_tables(TABLE_WORK, false);
    }
    let step = if many && own_classes { STEPS_OWN } else { STEPS };
    // There the first steps soon prove more.
    let first = if many && own_classes { f64::INFINITY } else { wages.bound(LOOKS_PASS, used) };
    let mut best = (first, wages.wage.clone());
    let trial = if many { TRIAL_PASSES } else { 0 };
    let passes = if many && used().is_some() { PASSES_MANY_MAX } else { PASSES_MAX };
    let rent = wages.mean_rent(guide);
    for pass in 0..passes {
        let spent = used();
        let tried = pass >= trial && (!many || spent.is_none_or(|spent| spent >= TRIAL_SHARE));
        if tried && !own_classes && best.0 >= prices.bound {
            return None;
        }
        let spent = spent.unwrap_or(0.0);
        if spent >= PASSES_SHARE {
            break;
        }
        let progress = spent.max(f64::from(pass) / f64::from(passes));
        wages.pass(rent * step.0 * (step.1 / step.0).powf(progress), used);
        // Where steps are too long for an instance the first passes prove most.
        if (pass + 1).is_power_of_two() && !own_classes {
            wages.keep(&mut best, LOOKS_PASS, used);
        }
    }
    wages.keep(&mut best, LOOKS_BOUND, used);
    best.0.is_finite().then_some(best)
}

impl<'a> Wages<'a> {
    fn new(instance: &'a Instance, guide: &Guide, prices: &Prices, seed: u64) -> Wages<'a> {
        let mut wages = Wages {
            instance,
            theta: prices.theta,
            offers: Offers::new(instance, guide, guide.unit_prices(instance, prices)),
            soft: None,
            wage: vec![0.0; instance.types],
            visits: Vec::new(),
            known: vec![Vec::new(); instance.zones],
            patterns: Vec::new(),
            looked: 0,
            rng: Stream::new(seed, 1 << 5),
        };
        wages.set_visits();
        for ty in (0..instance.types).filter(|ty| wages.offers.total[*ty] > 0.0) {
            let best = guide.option_order[instance.type_opts(ty).start];
            wages.wage[ty] = guide.reduced[best as usize];
        }
        wages
    }

    /// What wages of soft prices prove, and the best of them.
    fn descend_softly(mut self, soft: Soft, used: &dyn Fn() -> Option<f64>) -> (f64, Vec<f64>) {
        let mut best = (f64::INFINITY, self.wage.clone());
        self.soft = Some(soft);
        let (mut round, mut progress, mut due) = (0, 0.0, SOFT_FIRST);
        while progress < 1.0 {
            let Some(soft) = &mut self.soft else { break };
            soft.round(&self.offers, progress);
            soft.set_wages(&self.offers, &mut self.wage);
            round += 1;
            progress = Soft::progress(round, used().map(|used| used / PASSES_SHARE));
            if progress >= due {
                due = progress + SOFT_EACH;
                self.keep(&mut best, LOOKS_PASS, used);
            }
        }
        self.keep(&mut best, LOOKS_BOUND, used);
        best
    }

    fn set_visits(&mut self) {
        let most = (narrow(VISITS / self.instance.zones.max(1))).max(VISITS_LEAST);
        for (zone, ends) in self.instance.zone_start.windows(2).enumerate() {
            let servers = ends[1] - ends[0];
            let visits = servers.min(most);
            let each = f64::from(servers) / f64::from(visits);
            self.visits.extend((0..visits).map(|_| (narrow(zone), each)));
        }
    }

    /// What a task leaves to its server, in the mean.
    fn mean_rent(&self, guide: &Guide) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for (ty, total) in self.offers.total.iter().enumerate().filter(|(_, total)| **total > 0.0) {
            sum += total * (guide.best_worth[ty] - self.wage[ty]).max(0.0);
            count += total;
        }
        // Half of a task's worth where nothing is scarce yet.
        let worth =
            guide.best_worth.iter().filter(|w| w.is_finite()).fold(0.0_f64, |m, w| m.max(*w));
        f64::max(sum / f64::max(count, 1.0), 0.1 * worth)
    }

    /// Searches the best patterns of servers of these zones, which `known` keeps; returns what none
    /// has more profit than.
    fn fill(&mut self, zones: &[u32], looks: usize, some: bool) -> Vec<f64> {
        let mut patterns = std::mem::take(&mut self.patterns);
        let rows = zones.len().div_ceil(ROW);
        patterns.resize_with(rows.max(patterns.len()), Pattern::default);
        let wages = &*self;
        let looks = looks * wages.instance.servers / wages.instance.zones.max(1);
        let looks = narrow(looks.min(LOOKS_MAX));
        let found: Vec<Vec<Filled>> = zones
            .par_chunks(ROW)
            .zip(&mut patterns)
            .map(|(row, pattern)| {
                let fill = |zone: &u32| wages.fill_zone(pattern, *zone as usize, (looks, some));
                row.iter().map(fill).collect()
            })
            .collect();
        self.patterns = patterns;
        let mut bounds = Vec::with_capacity(zones.len());
        for (zone, filled) in zones.iter().zip(found.into_iter().flatten()) {
            self.known[*zone as usize] = filled.best;
            self.looked += u64::from(filled.looked);
            bounds.push(filled.bound);
        }
        bounds
    }

    /// By its table where that tells all, or the search does not.
    fn fill_zone(&self, pattern: &mut Pattern, zone: usize, (looks, some): (u32, bool)) -> Filled {
        let Some(table) = self.offers.table(zone) else {
            return self.search_zone(pattern, zone, (looks, some));
        };
        if self.soft.is_some() && table.whole {
            return self.fill_by_table(zone, table);
        }
        let filled = self.search_zone(pattern, zone, (looks, some));
        if filled.looked < looks {
            return filled;
        }
        let by_table = self.fill_by_table(zone, table);
        let bound = if some { by_table.bound } else { by_table.bound.min(filled.bound) };
        let best = if table.whole { by_table.best } else { filled.best };
        Filled { bound, best, looked: looks }
    }

    /// By the table of its zone, and prices of what is not in it.
    fn fill_by_table(&self, zone: usize, table: &Table) -> Filled {
        let instance = self.instance;
        let offers = self.offers.of(zone);
        let unit = self.soft.as_ref().map_or(&[][..], |soft| soft.units(zone));
        let priced = |row: &[i32]| -> f64 {
            row.iter().zip(unit).map(|(a, unit)| f64::from(*a) * unit).sum()
        };
        let profit = |at: usize| {
            let ty = offers[at].ty as usize;
            offers[at].worth - self.wage[ty] - priced(instance.row(ty))
        };
        let found = table.best(profit, |at| offers[at].most);
        let bound = found.profit + priced(self.offers.capacity(zone));
        let best = found.items.iter().map(|(at, n)| (offers[*at as usize].ty, *n)).collect();
        Filled { bound, best, looked: 0 }
    }

    /// By so many looks at its offers.
    fn search_zone(
        &self,
        pattern: &mut Pattern,
        zone: usize,
        (looks, some): (u32, bool),
    ) -> Filled {
        let instance = self.instance;
        let kinds = instance.kinds;
        let price = &self.offers.price[zone * kinds..(zone + 1) * kinds];
        pattern.clear(self.offers.capacity(zone), price);
        for Offer { ty, most, worth, size } in self.offers.of(zone) {
            let profit = worth - self.wage[*ty as usize];
            if *size > 0.0 {
                pattern.offer_sized(*ty, profit, *most, *size);
            } else {
                pattern.offer(*ty, profit, *most, instance.row(*ty as usize));
            }
        }
        pattern.begin_with(&self.known[zone]);
        let request = |ty: u32| instance.row(ty as usize);
        pattern.relax(some, request);
        pattern.search(looks, 0.0, request);
        Filled {
            bound: pattern.bound,
            best: pattern.best.clone(),
            looked: looks - pattern.looks_left,
        }
    }

    /// What the current wages prove by about so many looks a class, fewer out of time.
    fn bound(&mut self, looks: usize, used: &dyn Fn() -> Option<f64>) -> f64 {
        let instance = self.instance;
        let mut bound = if self.theta > 0.0 { 0.25 / self.theta } else { 0.0 };
        let zones: Vec<u32> = (0..narrow(instance.zones)).collect();
        let looks = looks.min(self.affordable(used));
        for zones in zones.chunks(STEP_VISITS_MAX) {
            let late = used().is_some_and(|used| used >= 1.0);
            let looks = if late { looks.min(LOOKS_STEP) } else { looks };
            let bounds = self.fill(zones, looks, false);
            for (zone, most) in zones.iter().zip(bounds) {
                bound += self.offers.servers(*zone as usize) * most;
            }
        }
        let counts = &instance.counts;
        bound += (0..counts.len()).map(|gang| counts.sum(gang, &self.wage).max(0.0)).sum::<f64>();
        bound + ROUNDING * bound.abs()
    }

    /// Looks for each server that fit into the time that is left, by those so far.
    fn affordable(&self, used: &dyn Fn() -> Option<f64>) -> usize {
        let Some(used) = used().filter(|_| self.looked > 0) else { return usize::MAX };
        let left = self.looked as f64 * (1.0 - used).max(0.0) / used.max(1e-6);
        offers::whole(left / self.instance.servers as f64).max(LOOKS_STEP)
    }

    /// Keeps the current wages if they prove more.
    fn keep(&mut self, best: &mut (f64, Vec<f64>), looks: usize, used: &dyn Fn() -> Option<f64>) {
        let bound = self.bound(looks, used);
        if bound < best.0 {
            best.0 = bound;
            best.1.copy_from_slice(&self.wage);
        }
    }

    /// Every visit and every job once, in random order, while there is time.
    fn pass(&mut self, step: f64, used: &dyn Fn() -> Option<f64>) {
        let visits = self.visits.len();
        let mut order: Vec<u32> = (0..narrow(visits + self.instance.counts.len())).collect();
        self.rng.shuffle(&mut order);
        let zones = self.instance.zones;
        let together = (visits / STEP_VISITS).min(zones / STEP_ZONES).clamp(1, STEP_VISITS_MAX);
        for group in order.chunks((together * order.len() / visits.max(1)).max(1)) {
            if used().is_some_and(|used| used >= PASSES_SHARE) {
                return;
            }
            self.step(group, step);
        }
    }

    /// The best patterns of servers make their types dearer, jobs that pay make theirs cheaper.
    fn step(&mut self, group: &[u32], step: f64) {
        let visit = |at: &u32| self.visits.get(*at as usize).copied();
        let visited: Vec<(u32, f64)> = group.iter().filter_map(visit).collect();
        let zones: Vec<u32> = visited.iter().map(|(zone, _)| *zone).collect();
        self.fill(&zones, LOOKS_STEP, true);
        for (zone, servers) in visited {
            for (ty, n) in &self.known[zone as usize] {
                let ty = *ty as usize;
                self.wage[ty] += step * servers * f64::from(*n) / self.offers.total[ty];
            }
        }
        let visits = narrow(self.visits.len());
        for job in group.iter().filter_map(|at| at.checked_sub(visits)) {
            self.step_job(job as usize, step);
        }
    }

    /// A job that pays makes its types cheaper, until it would not pay any more.
    fn step_job(&mut self, job: usize, step: f64) {
        let counts = &self.instance.counts;
        let profit = counts.sum(job, &self.wage);
        if profit <= 0.0 {
            return;
        }
        let types = counts.gang(job);
        let total = &self.offers.total;
        let norm: f64 = types.iter().map(|(ty, n)| n * n / total[*ty as usize]).sum();
        let step = step.min(profit / norm);
        for (ty, n) in types {
            self.wage[*ty as usize] -= step * n / total[*ty as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::gang::prices::Dual;
    use crate::gang::tests::random_problem;
    use crate::gang::{Mode, Options, solve};

    #[test]
    fn no_soft_prices_and_no_tables_prove_less_than_the_optimum() {
        let mut rng = Stream::new(8, 0);
        let (mut soft_ones, mut tables, mut tighter) = (0, 0, 0);
        for case in 0..300 {
            let problem = random_problem(&mut rng);
            let instance = Instance::compile(&problem).unwrap();
            let exact = Options { mode: Mode::Exact, ..Options::default() };
            let optimum = solve(&problem, &exact).unwrap().index - instance.delta;
            let mut dual = Dual::new(&instance);
            dual.scan(optimum, &|| false);
            let guide = Guide::new(&instance, &dual.best);
            let slack = 1e-9 * optimum.abs().max(1.0);
            let wages = || Wages::new(&instance, &guide, &dual.best, case);
            let mut by_table = wages();
            by_table.offers.set_tables(1 << (4 + case % 8), case % 2 == 0);
            // No looks: what is not in a whole table has the price of the relaxation.
            let bound = by_table.bound(0, &|| None);
            assert!(bound >= optimum - slack, "case {case}: {bound} < {optimum}");
            tables +=
                (0..instance.zones).filter(|zone| by_table.offers.table(*zone).is_some()).count();
            let mut softly = wages();
            let worth = softly.offers.mean_worth(&guide);
            let Some(soft) = Soft::new(&mut softly.offers, worth) else { continue };
            let spent = [None, Some(0.3), Some(0.9)][rng.below(3)];
            let calls = std::cell::Cell::new(0);
            let used = || {
                calls.set(calls.get() + 1);
                spent.map(|spent| spent + 0.01 * f64::from(calls.get()))
            };
            let (bound, _) = softly.descend_softly(soft, &used);
            assert!(bound >= optimum - slack, "case {case}: {bound} < {optimum}");
            soft_ones += 1;
            tighter += usize::from(bound < dual.best.bound - slack);
        }
        assert!(soft_ones > 150 && tables > 300, "{soft_ones} {tables}");
        assert!(tighter > soft_ones / 2, "{tighter} of {soft_ones}");
    }
}
