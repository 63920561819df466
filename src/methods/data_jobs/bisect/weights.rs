// SPDX-License-Identifier: GPL-3.0-or-later
//! Choice of a job's next core: the product of three weights (formula 5).

use super::instance::{Instance, Job};

/// Chooses cores one by one for one job.
pub(super) struct Chooser<'a> {
    instance: &'a Instance,
    available: &'a [f64],
    /// The probed makespan, ms.
    makespan: f64,
    /// beta of each host, smoothing included.
    beta: Vec<f64>,
    /// Cores of each host that the job already has.
    count: Vec<usize>,
    /// The best core of each host that is not chosen yet, with its t.
    next: Vec<Option<(f64, usize)>>,
    chosen: Vec<usize>,
}

impl<'a> Chooser<'a> {
    /// `available` are the ms at which cores are free; `smooth` is added to every beta,
    /// so that hosts without data can be chosen before the others are used up.
    pub(super) fn new(
        instance: &'a Instance,
        job: &Job,
        available: &'a [f64],
        makespan: f64,
        smooth: f64,
    ) -> Self {
        let mut beta = vec![smooth; instance.hosts.len()];
        if job.total > 0.0 {
            for &(host, held) in &job.held {
                beta[host] += held / job.total;
            }
        }
        let count = vec![0; instance.hosts.len()];
        let next = vec![None; instance.hosts.len()];
        let mut chooser =
            Self { instance, available, makespan, beta, count, next, chosen: Vec::new() };
        for host in 0..instance.hosts.len() {
            chooser.advance(host);
        }
        chooser
    }

    /// t of a core: the part of the makespan that it is free.
    fn t(&self, core: usize) -> f64 {
        let at = self.available[core];
        if at <= 0.0 { 1.0 } else { (1.0 - at / self.makespan).max(0.0) }
    }

    /// Finds the best remaining core of a host: phi and beta are those of the host.
    fn advance(&mut self, host: usize) {
        let place = &self.instance.hosts[host];
        let mut best: Option<(f64, usize)> = None;
        for core in place.first..place.first + place.cores {
            let t = self.t(core);
            if best.is_none_or(|(most, _)| t > most) && !self.is_chosen(host, core) {
                best = Some((t, core));
            }
        }
        self.next[host] = best;
    }

    fn is_chosen(&self, host: usize, core: usize) -> bool {
        self.count[host] > 0 && self.chosen.contains(&core)
    }

    /// The weight lambda of the best remaining core of each host, when the job is to get
    /// `n` cores; `None` where the host has no more.
    #[cfg(test)]
    pub(super) fn weights(&self, n: usize) -> Vec<Option<(usize, f64)>> {
        let weigh = |host: usize| {
            self.next[host].map(|(t, core)| (core, self.phi(host, n) * self.beta[host] * t))
        };
        (0..self.next.len()).map(weigh).collect()
    }

    fn phi(&self, host: usize, n: usize) -> f64 {
        1.0 - self.count[host] as f64 / n as f64
    }

    /// Adds the core with the largest lambda; ties: t, phi, lowest index. False when the
    /// cluster has no more.
    pub(super) fn add(&mut self, n: usize) -> bool {
        let mut best: Option<((f64, f64, f64), usize, usize)> = None;
        for (host, next) in self.next.iter().enumerate() {
            let Some((t, core)) = *next else { continue };
            let phi = self.phi(host, n);
            let weight = (phi * self.beta[host] * t, t, phi);
            if best.is_none_or(|(most, _, _)| weight > most) {
                best = Some((weight, host, core));
            }
        }
        let Some((_, host, core)) = best else { return false };
        self.chosen.push(core);
        self.count[host] += 1;
        self.advance(host);
        true
    }

    /// The cores so far, in the order of choice.
    pub(super) fn chosen(&self) -> &[usize] {
        &self.chosen
    }
}
