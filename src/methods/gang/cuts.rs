// SPDX-License-Identifier: GPL-3.0-or-later
//! Cuts: what whole tasks leave over on whole servers, kind by kind.
//!
//! Of tasks that want three of eight GPUs two fit on a server, not 2.67. A price for every amount
//! that tasks ask of a kind, instead of one by the unit, knows that: what a server can earn is then
//! the best filling of its capacity, an integer knapsack. This is the dual of the cutting stock
//! problem (Gilmore and Gomory 1961) with gangs for orders. The prices found become one more kind of
//! resource: its requests are the prices of the amounts, its capacities the best fillings. Whatever
//! fits a server fits it in that kind too, so the bound stays one.

use std::collections::BTreeMap;

use super::best::run_dual;
use super::instance::{Instance, narrow};
use super::prices::{Dual, Prices};

/// Kinds that are cut at most, and the part of the bound that such a kind's price makes up at least.
const CUTS_MAX: usize = 3;
const PRICE_MIN: f64 = 0.03;
/// Cells that capacities are divided into.
const CELLS: i32 = 256;
/// Steps for the prices of the amounts of a kind, and those without a better bound after which the
/// step is shortened.
const STEPS: usize = 600;
const PATIENCE: usize = 10;
const SHORTER: f64 = 0.7;
/// Part of the gap by which a better bound counts as progress, and of a step's direction that stays.
const PROGRESS: f64 = 1e-3;
const MOMENTUM: f64 = 0.6;
/// First and last step: to see whether there is anything to prove, and to prove it.
const LOOK: (f64, f64) = (1.0, 1e-2);
const PROVE: (f64, f64) = (0.3, 1e-3);
/// Steps for all prices with a cut.
const DUAL_STEPS: u64 = 100;
/// Largest price of an amount, as a whole number.
const PRICE_UNITS: f64 = 1e6;
/// What a cut must prove at least, as a part of the gap; with few servers, where one more kind takes
/// more of the search than it gives.
const GAIN_MIN: f64 = 0.1;
const GAIN_FEW_MIN: f64 = 0.2;

/// The instance with cuts as further kinds, and its prices, where they prove clearly more than those
/// of `dual`; `target` is the scalar of a known assignment.
pub(super) fn widen(
    instance: &Instance,
    dual: &mut Dual<'_>,
    target: f64,
    until: &dyn Fn() -> bool,
) -> Option<(Instance, Prices)> {
    // The weight of edges never tried would be cut, not their worth.
    if instance.has_untried {
        return None;
    }
    let mut wider: Option<(Instance, Prices)> = None;
    for kind in by_price(instance, &dual.best) {
        let found = match &wider {
            None => Cut::find(instance, dual, kind, target, until),
            Some((current, known)) => {
                let mut dual = Dual::new(current);
                dual.best = known.clone();
                Cut::find(current, &mut dual, kind, target, until)
            }
        };
        let Some(cut) = found else { continue };
        let (current, known) = wider.as_ref().map_or((instance, &dual.best), |(i, p)| (i, p));
        let (next, start) = cut.add_to(current, known);
        let mut with_cut = Dual::new(&next);
        with_cut.start_from(&start);
        run_dual(&next, &mut with_cut, target, until, DUAL_STEPS);
        let prices = with_cut.best;
        if prices.bound < known.bound {
            wider = Some((next, prices));
        }
    }
    wider
}

/// Kinds whose price matters, the dearest first.
fn by_price(instance: &Instance, prices: &Prices) -> Vec<usize> {
    let kinds = instance.kinds;
    let mut paid = vec![0.0; kinds];
    for (server, row) in instance.capacity.chunks_exact(kinds).enumerate() {
        let zone = instance.zone_of[server] as usize;
        for (k, amount) in row.iter().enumerate() {
            paid[k] +=
                prices.lambda[zone * kinds + k] * f64::from(*amount) / instance.kind_scale[k];
        }
    }
    let mut order: Vec<usize> =
        (0..kinds).filter(|k| paid[*k] > PRICE_MIN * prices.bound.abs()).collect();
    order.sort_by(|a, b| paid[*b].total_cmp(&paid[*a]).then(a.cmp(b)));
    order.truncate(CUTS_MAX);
    order
}

/// Prices by amount of one kind, the other kinds' prices left as they are.
#[derive(Debug)]
struct Cut {
    grid: Grid,
    /// By cell.
    price: Vec<f64>,
}

/// Amounts of a kind as whole cells of a capacity: rounding down keeps what fits.
#[derive(Debug, Clone, Copy)]
struct Grid {
    kind: usize,
    most: i32,
    cells: i32,
}

impl Grid {
    fn new(instance: &Instance, kind: usize) -> Grid {
        let column = instance.capacity.iter().skip(kind).step_by(instance.kinds);
        let most = column.copied().max().unwrap_or(0).max(1);
        Grid { kind, most, cells: most.min(CELLS) }
    }

    /// Cell of a row of amounts; what no server has counts as all of the largest.
    fn cell(self, row: &[i32]) -> usize {
        let amount = i64::from(row[self.kind].clamp(0, self.most));
        usize::try_from(amount * i64::from(self.cells) / i64::from(self.most)).unwrap_or(0)
    }

    /// Number of cells, that of nothing included.
    fn len(self) -> usize {
        usize::try_from(self.cells).unwrap_or(0) + 1
    }
}

/// The best fillings of all capacities by prices of amounts.
#[derive(Debug, Default)]
struct Fillings {
    value: Vec<f64>,
    /// Cell of the task that a filling ends with; 0 where nothing more fits.
    last: Vec<u32>,
}

impl Fillings {
    /// `sizes` are the cells that tasks ask for, none of them 0.
    fn fill(&mut self, sizes: &[usize], price: &[f64]) {
        self.value.clear();
        self.value.resize(price.len(), 0.0);
        self.last.clear();
        self.last.resize(price.len(), 0);
        for &size in sizes {
            for cell in size..price.len() {
                let value = self.value[cell - size] + price[size];
                if value > self.value[cell] {
                    (self.value[cell], self.last[cell]) = (value, narrow(size));
                }
            }
        }
    }

    /// Counts what the best filling of a capacity holds, for so many servers.
    fn count(&self, mut cell: usize, servers: f64, counts: &mut [f64]) {
        while self.last[cell] > 0 {
            let last = self.last[cell] as usize;
            counts[last] += servers;
            cell -= last;
        }
    }
}

/// Jobs as the prices of a kind's amounts look at them.
struct Orders {
    sizes: Vec<usize>,
    /// (cell, servers)
    servers: Vec<(usize, f64)>,
    /// Value before the price of this kind, and the end of its row in `wants`.
    jobs: Vec<(f64, usize)>,
    /// (cell, tasks)
    wants: Vec<(usize, f64)>,
    /// Tasks by cell.
    total: Vec<f64>,
    /// What is paid for the other kinds, and the tangent's part.
    rest: f64,
}

impl Orders {
    fn new(instance: &Instance, dual: &mut Dual<'_>, grid: Grid) -> Orders {
        let kinds = instance.kinds;
        let mut others = dual.best.clone();
        others.lambda.iter_mut().skip(grid.kind).step_by(kinds).for_each(|l| *l = 0.0);
        dual.start_from(&others);
        let (type_best, rest) = dual.worth();
        let mut servers = BTreeMap::new();
        for row in instance.capacity.chunks_exact(kinds) {
            *servers.entry(grid.cell(row)).or_insert(0.0) += 1.0;
        }
        let mut orders = Orders {
            sizes: Vec::new(),
            servers: servers.into_iter().collect(),
            jobs: Vec::new(),
            wants: Vec::new(),
            total: vec![0.0; grid.len()],
            rest,
        };
        let mut row: BTreeMap<usize, f64> = BTreeMap::new();
        for job in (0..instance.jobs()).filter(|job| instance.possible[*job]) {
            row.clear();
            let mut value = 0.0;
            for ty in &instance.task_type[instance.job_tasks(job)] {
                value += type_best[*ty as usize];
                *row.entry(grid.cell(instance.row(*ty as usize))).or_insert(0.0) += 1.0;
            }
            for (cell, count) in row.iter().filter(|(cell, _)| **cell > 0) {
                orders.total[*cell] += count;
                orders.wants.push((*cell, *count));
            }
            orders.jobs.push((value, orders.wants.len()));
        }
        let asked = orders.total.iter().enumerate().filter(|(_, total)| **total > 0.0);
        orders.sizes = asked.map(|(cell, _)| cell).collect();
        orders
    }

    /// Descends from these prices by cell; keeps what proves most.
    fn descend(
        &self,
        start: &dyn Fn(usize) -> f64,
        (step_first, step_last): (f64, f64),
        target: f64,
        until: &dyn Fn() -> bool,
    ) -> (f64, Vec<f64>) {
        let cells = self.total.len();
        let (mut price, mut lack, mut direction) =
            (vec![0.0; cells], vec![0.0; cells], vec![0.0; cells]);
        self.sizes.iter().for_each(|cell| price[*cell] = start(*cell));
        let (mut own, mut own_price) = (f64::INFINITY, price.clone());
        let mut fillings = Fillings::default();
        let (mut step, mut stale) = (step_first, 0);
        for _ in 0..STEPS {
            let bound = self.evaluate(&price, &mut fillings, &mut lack);
            stale = if own - bound > PROGRESS * (own - target).abs() { 0 } else { stale + 1 };
            if bound < own {
                own = bound;
                own_price.copy_from_slice(&price);
            }
            if stale >= PATIENCE {
                (stale, step) = (0, step * SHORTER);
                price.copy_from_slice(&own_price);
                direction.fill(0.0);
            }
            let mut norm = 0.0;
            for cell in &self.sizes {
                direction[*cell] = lack[*cell] + MOMENTUM * direction[*cell];
                norm += direction[*cell] * direction[*cell] / self.total[*cell];
            }
            if norm <= 0.0 || step < step_last || until() {
                break;
            }
            let length = step * (bound - target).max(0.0) / norm;
            for cell in &self.sizes {
                let moved = length * direction[*cell] / self.total[*cell];
                price[*cell] = (price[*cell] + moved).max(0.0);
            }
        }
        (own, own_price)
    }

    /// What prices by cell prove; `lack` becomes the tasks of each cell that jobs start beyond those
    /// that servers run.
    fn evaluate(&self, price: &[f64], fillings: &mut Fillings, lack: &mut [f64]) -> f64 {
        fillings.fill(&self.sizes, price);
        let mut bound = self.rest;
        lack.fill(0.0);
        for (cell, servers) in &self.servers {
            bound += servers * fillings.value[*cell];
            fillings.count(*cell, -servers, lack);
        }
        let mut from = 0;
        for (value, to) in &self.jobs {
            let wants = &self.wants[from..*to];
            let profit = value - wants.iter().map(|(cell, n)| price[*cell] * n).sum::<f64>();
            if profit > 0.0 {
                bound += profit;
                wants.iter().for_each(|(cell, n)| lack[*cell] += n);
            }
            from = *to;
        }
        bound
    }
}

impl Cut {
    /// Descends from the price by the unit; none where it proves no more.
    fn find(
        instance: &Instance,
        dual: &mut Dual<'_>,
        kind: usize,
        target: f64,
        until: &dyn Fn() -> bool,
    ) -> Option<Cut> {
        let grid = Grid::new(instance, kind);
        let orders = Orders::new(instance, dual, grid);
        let known = dual.best.bound;
        let all = mean_price(instance, &dual.best, kind) * f64::from(grid.most);
        let by_unit = |cell: usize| all * cell as f64 / f64::from(grid.cells);
        // As many parts of a usual server as of such tasks fit.
        let most = |most: (usize, f64), at: &(usize, f64)| if at.1 > most.1 { *at } else { most };
        let (usual, _) = orders.servers.iter().fold((0, 0.0), most);
        let by_part = |cell: usize| by_unit(usual.max(cell)) / (usual / cell).max(1) as f64;
        let linear = orders.descend(&by_unit, LOOK, target, until);
        let parts = orders.descend(&by_part, LOOK, target, until);
        let (bound, price) = if parts.0 < linear.0 { parts } else { linear };
        let least = if !instance.few { GAIN_MIN } else { GAIN_FEW_MIN };
        if known - bound <= least * (known - target) {
            return None;
        }
        let (_, price) = orders.descend(&|cell| price[cell], PROVE, target, until);
        Some(Cut { grid, price })
    }

    /// The instance with the cut as one more kind, and prices that prove as much with it.
    fn add_to(&self, instance: &Instance, prices: &Prices) -> (Instance, Prices) {
        let most = self.price.iter().fold(0.0_f64, |most, price| most.max(*price));
        let unit = PRICE_UNITS / most.max(1e-300);
        let units: Vec<f64> = self.price.iter().map(|price| (price * unit).floor()).collect();
        let sizes: Vec<usize> = (1..units.len()).filter(|cell| units[*cell] > 0.0).collect();
        let mut fillings = Fillings::default();
        fillings.fill(&sizes, &units);
        let wider = instance.with_kind(
            |request| whole(units[self.grid.cell(request)]),
            |capacity| whole(fillings.value[self.grid.cell(capacity)]),
        );
        let kinds = instance.kinds;
        let scale = wider.kind_scale[kinds] / unit;
        let rows = prices.lambda.chunks_exact(kinds).flat_map(|row| {
            let own = |(k, l): (usize, &f64)| if k == self.grid.kind { 0.0 } else { *l };
            row.iter().enumerate().map(own).chain([scale]).collect::<Vec<f64>>()
        });
        let lambda = rows.collect();
        (wider, Prices { lambda, theta: prices.theta, bound: f64::INFINITY })
    }
}

/// Price of a unit of a kind, in the mean of the servers.
fn mean_price(instance: &Instance, prices: &Prices, kind: usize) -> f64 {
    let zones = instance.zone_of.iter();
    let sum: f64 = zones.map(|zone| prices.lambda[*zone as usize * instance.kinds + kind]).sum();
    sum / instance.servers.max(1) as f64 / instance.kind_scale[kind]
}

/// A whole number kept as a float.
fn whole(units: f64) -> i32 {
    #[allow(clippy::cast_possible_truncation)]
    let whole = units as i32;
    whole
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::gang::problem::{AnyEdge, Job, Problem, Server, Task};
    use crate::gang::rng::Stream;
    use crate::gang::{Mode, Options, solve};
    use crate::learn::Growth;

    /// Equal values but for a hundredth; one task a job.
    fn problem(capacities: &[f64], requests: &[f64]) -> Problem {
        let server = |(at, c): (usize, &f64)| Server {
            name: format!("s{at}"),
            capacity: vec![*c],
            ..Server::default()
        };
        let job = |(at, request): (usize, &f64)| {
            let any = Some(AnyEdge { mean: 1.0 + 0.01 * (at % 7) as f64, count: 3.0 });
            let task = Task { request: vec![*request], any, ..Task::default() };
            Job { id: format!("j{at}"), tasks: vec![task], spread: false }
        };
        Problem {
            kinds: vec!["gpu".into()],
            cost: None,
            slot: 1,
            g: Growth::None,
            bonus_scale: 0.0,
            m: None,
            servers: capacities.iter().enumerate().map(server).collect(),
            jobs: requests.iter().enumerate().map(job).collect(),
        }
    }

    #[test]
    fn what_fits_a_server_fits_it_with_any_cut() {
        let mut rng = Stream::new(7, 0);
        let mut tight = 0;
        for _ in 0..2_000 {
            let most = [9, 60, 700, 5_000][rng.below(4)];
            let capacities = [0; 3].map(|_| 1 + rng.below(most));
            let (mut left, mut requests) = (capacities[0], Vec::new());
            while left > 0 && requests.len() < 8 {
                let request = 1 + rng.below(left);
                requests.push(request as f64);
                left -= request;
            }
            let capacities = capacities.map(|capacity| capacity as f64);
            let instance = Instance::compile(&problem(&capacities, &requests)).unwrap();
            let grid = Grid::new(&instance, 0);
            let price = (0..grid.len()).map(|at| at.min(1) as f64 * rng.unit()).collect();
            let cut = Cut { grid, price };
            let prices = Dual::new(&instance).best;
            let (wider, _) = cut.add_to(&instance, &prices);
            let sum: i32 = instance.task_type.iter().map(|ty| wider.row(*ty as usize)[1]).sum();
            let server = instance.internal_of[0] as usize;
            let room = wider.capacity[server * 2 + 1];
            assert!(sum <= room, "{capacities:?} {requests:?}: {sum} > {room}");
            tight += usize::from(sum == room);
        }
        assert!(tight > 100, "{tight}");
    }

    #[test]
    fn of_three_gpus_two_fit_on_eight() {
        let problem = problem(&[8.0; 40], &[3.0; 200]);
        let remaining = || None;
        let options = Options {
            mode: Mode::Best,
            remaining: &remaining,
            work_max: Some(100_000),
            ..Options::default()
        };
        let answer = solve(&problem, &options).unwrap();
        assert_eq!(answer.assignment.len(), 80);
        // The 28 jobs of each of the two highest values, and 24 of the next.
        let best = 28.0 * 1.06 + 28.0 * 1.05 + 24.0 * 1.04;
        assert!((answer.mean_welfare - best).abs() < 1e-9, "{}", answer.mean_welfare);
        let bound = answer.upper_bound.unwrap() - answer.index + best;
        assert!(bound < best * 1.001, "{bound} is far above {best}");
    }

    #[test]
    fn no_exact_answer_is_above_the_bound_of_prices_with_cuts() {
        let mut rng = Stream::new(3, 0);
        let mut cut = 0;
        for _ in 0..60 {
            let requests: Vec<f64> = (0..12).map(|_| (19 + rng.below(22)) as f64).collect();
            let problem = problem(&[64.0, 64.0, 64.0, 48.0], &requests);
            let exact = solve(&problem, &Options { mode: Mode::Exact, ..Options::default() });
            let exact = exact.unwrap();
            assert!(exact.proven_optimal);
            let known = exact.mean_welfare;
            let instance = Instance::compile(&problem).unwrap();
            let mut dual = Dual::new(&instance);
            run_dual(&instance, &mut dual, known, &|| false, 200);
            let Some((_, prices)) = widen(&instance, &mut dual, known, &|| false) else {
                continue;
            };
            assert!(prices.bound < dual.best.bound);
            assert!(prices.bound >= known - 1e-9, "{} {known}", prices.bound);
            cut += 1;
        }
        assert!(cut > 20, "{cut}");
    }
}
