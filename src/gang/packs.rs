// SPDX-License-Identifier: GPL-3.0-or-later
//! Wages of task types: a bound that knows that tasks are whole and servers separate.
use super::instance::{Instance, narrow};
use super::pattern::Pattern;
use super::prices::Prices;
use super::rng::Stream;

const ROUNDING: f64 = 1e-9;

#[derive(Debug)]
pub(crate) struct Packs<'a> {
    instance: &'a Instance,
    /// (type, worth) by zone.
    zone_start: Vec<u32>,
    zone_items: Vec<(u32, f64)>,
    /// Price per unit by (zone, kind).
    price: Vec<f64>,
    theta: f64,
    /// Tasks of each type in possible jobs.
    pub(crate) total: Vec<f64>,
    /// Types and counts of each possible job.
    job_start: Vec<u32>,
    job_types: Vec<(u32, f64)>,
    pub(crate) wage: Vec<f64>,
    mean: Vec<f64>,
    mean_weight: f64,
    pub(crate) best_wage: Vec<f64>,
    pub(crate) bound: f64,
    pattern: Pattern,
    rng: Stream,
    order: Vec<u32>,
    pub(crate) step: f64,
}

impl<'a> Packs<'a> {
    pub(crate) fn new(instance: &'a Instance, prices: &Prices, seed: u64) -> Packs<'a> {
        let kinds = instance.kinds;
        let mut total = vec![0.0; instance.types];
        let mut job_start = vec![0];
        let mut job_types: Vec<(u32, f64)> = Vec::new();
        for job in (0..instance.jobs()).filter(|j| instance.possible[*j]) {
            let mut types: Vec<u32> = instance.task_type[instance.job_tasks(job)].to_vec();
            types.sort_unstable();
            for run in types.chunk_by(|a, b| a == b) {
                total[run[0] as usize] += run.len() as f64;
                job_types.push((run[0], run.len() as f64));
            }
            job_start.push(narrow(job_types.len()));
        }
        let mut wage = vec![f64::NEG_INFINITY; instance.types];
        let mut by_zone: Vec<Vec<(u32, f64)>> = vec![Vec::new(); instance.zones];
        for ty in 0..instance.types {
            if total[ty] == 0.0 {
                wage[ty] = 0.0;
                continue;
            }
            let request = &instance.request_f[ty * kinds..(ty + 1) * kinds];
            for at in instance.type_opts(ty) {
                let opt = &instance.opts[at];
                let zone = opt.zone as usize;
                let row = &prices.lambda[zone * kinds..(zone + 1) * kinds];
                let cost: f64 = row.iter().zip(request).map(|(l, a)| l * a).sum();
                let worth = opt.lin + prices.theta * opt.s2;
                wage[ty] = wage[ty].max(worth - cost);
                by_zone[zone].push((narrow(ty), worth));
            }
        }
        let mut zone_start = vec![0];
        let mut zone_items = Vec::new();
        for row in by_zone {
            zone_items.extend(row);
            zone_start.push(narrow(zone_items.len()));
        }
        let scale = &instance.kind_scale;
        let sum: f64 = prices.lambda.iter().sum::<f64>() / prices.lambda.len().max(1) as f64;
        let floor = (0.02 * sum).max(1e-9);
        let price = prices
            .lambda
            .iter()
            .enumerate()
            .map(|(i, l)| (l + floor) / scale[i % kinds])
            .collect();
        let servers = instance.servers;
        Packs {
            instance,
            zone_start,
            zone_items,
            price,
            theta: prices.theta,
            total,
            job_start,
            job_types,
            mean: vec![0.0; instance.types],
            mean_weight: 0.0,
            best_wage: wage.clone(),
            wage,
            bound: f64::INFINITY,
            pattern: Pattern::default(),
            rng: Stream::new(seed, 7),
            order: (0..narrow(servers)).collect(),
            step: 0.0,
        }
    }

    fn fill(&mut self, zone: usize, nodes: u32) {
        let Packs { instance, pattern, zone_items, wage, total, .. } = self;
        let kinds = instance.kinds;
        let first = instance.zone_start[zone] as usize;
        let free = &instance.capacity[first * kinds..(first + 1) * kinds];
        pattern.clear(free, &self.price[zone * kinds..(zone + 1) * kinds]);
        let range = self.zone_start[zone] as usize..self.zone_start[zone + 1] as usize;
        let row = |ty: u32| &instance.request[ty as usize * kinds..(ty as usize + 1) * kinds];
        for (ty, worth) in &zone_items[range] {
            let most = total[*ty as usize].min(1e6) as u32;
            if pattern.admits(row(*ty)) { pattern.offer(*ty, worth - wage[*ty as usize], most, row(*ty)); }
        }
        pattern.search(nodes, 0.0, row);
    }

    fn job_profit(&self, job: usize) -> f64 {
        let range = self.job_start[job] as usize..self.job_start[job + 1] as usize;
        self.job_types[range].iter().map(|(ty, n)| self.wage[*ty as usize] * n).sum()
    }

    /// Bound at the current wages.
    pub(crate) fn evaluate(&mut self, nodes: u32) -> f64 {
        let instance = self.instance;
        let mut bound = 0.0;
        for zone in 0..instance.zones {
            self.fill(zone, nodes);
            let servers = instance.zone_start[zone + 1] - instance.zone_start[zone];
            bound += f64::from(servers) * self.pattern.bound;
        }
        for job in 0..self.job_start.len() - 1 {
            bound += self.job_profit(job).max(0.0);
        }
        if self.theta > 0.0 {
            bound += 0.25 / self.theta;
        }
        bound += ROUNDING * bound.abs();
        if bound < self.bound {
            self.bound = bound;
            self.best_wage.copy_from_slice(&self.wage);
        }
        bound
    }

    /// One pass over all servers and jobs with step `alpha`.
    pub(crate) fn pass(&mut self, alpha: f64, nodes: u32) {
        let servers = self.instance.servers;
        let jobs = self.job_start.len() - 1;
        let all = servers + jobs;
        self.order.clear();
        self.order.extend(0..narrow(all));
        for i in (1..all).rev() {
            let j = self.rng.below(i + 1);
            self.order.swap(i, j);
        }
        for i in 0..all {
            let at = self.order[i] as usize;
            if at < servers {
                let zone = self.instance.zone_of[at] as usize;
                self.fill(zone, nodes);
                for (ty, n) in &self.pattern.best {
                    let ty = *ty as usize;
                    self.wage[ty] += alpha * f64::from(*n) / self.total[ty];
                }
            } else {
                let job = at - servers;
                let profit = self.job_profit(job);
                if profit <= 0.0 {
                    continue;
                }
                let range = self.job_start[job] as usize..self.job_start[job + 1] as usize;
                let norm: f64 =
                    self.job_types[range.clone()].iter().map(|(t, n)| n * n / self.total[*t as usize]).sum();
                let tau = alpha.min(profit / norm);
                for (ty, n) in &self.job_types[range] {
                    self.wage[*ty as usize] -= tau * n / self.total[*ty as usize];
                }
            }
        }
    }

    pub(crate) fn average(&mut self, keep: f64) {
        self.mean_weight = self.mean_weight * keep + 1.0;
        let w = 1.0 / self.mean_weight;
        for (m, x) in self.mean.iter_mut().zip(&self.wage) {
            *m += w * (x - *m);
        }
    }

    pub(crate) fn evaluate_mean(&mut self, nodes: u32) -> f64 {
        std::mem::swap(&mut self.mean, &mut self.wage);
        let b = self.evaluate(nodes);
        std::mem::swap(&mut self.mean, &mut self.wage);
        b
    }
}

pub(crate) fn experiment(instance: &Instance, prices: &Prices) {
    let t0 = std::time::Instant::now();
    let mut packs = Packs::new(instance, prices, 1);
    let envf = |k: &str, d: f64| std::env::var(k).ok().and_then(|s| s.parse().ok()).unwrap_or(d);
    let passes = envf("PASSES", 100.0);
    let a0 = envf("A0", 0.3);
    let a1 = envf("A1", 0.005);
    let nodes = envf("NODES", 300.0) as u32;
    eprintln!("old bound {} start {} {:?}", prices.bound, packs.evaluate(1_000_000), t0.elapsed());
    for p in 0..passes as usize {
        let progress = p as f64 / passes;
        let alpha = a0 * (a1 / a0).powf(progress);
        packs.pass(alpha, nodes);
        packs.average(0.9);
        if p % ((passes / 10.0) as usize).max(1) == 0 || p + 1 == passes as usize {
            let t = t0.elapsed();
            let b = packs.evaluate(1_000_000);
            let nn = 0;
            let m = packs.evaluate_mean(1_000_000);
            eprintln!("pass {p} alpha {alpha:.4} bound {b:.2} mean {m:.2} best {:.2} nodes {nn} {t:?} {:?}", packs.bound, t0.elapsed());
        }
    }
}
