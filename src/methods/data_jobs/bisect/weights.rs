// SPDX-License-Identifier: GPL-3.0-or-later
//! Choice of a job's next core: the product of three weights (formula 5).

use super::instance::{Instance, Job};

/// Cores that a job may get: altogether, of one host, and on how many hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Room {
    pub(super) cores: usize,
    pub(super) per_host: usize,
    pub(super) hosts_min: usize,
    pub(super) hosts_max: usize,
}

/// A host that the job may use.
struct Place {
    host: usize,
    /// Time before which the job cannot start on the host for other reasons than cores, ms.
    from: f64,
    beta: f64,
    /// Number of the host's cores that the job already has.
    count: usize,
    /// The free core outside the chosen ones that is free first, with the ms from which it is free.
    next: Option<(f64, usize)>,
}

/// Chooses cores one by one for one job. Phi is that of as many cores as there are then, so those
/// of fewer stay where the room allows it.
pub(super) struct Chooser<'a> {
    instance: &'a Instance,
    available: &'a [f64],
    /// The probed makespan, ms.
    makespan: f64,
    room: Room,
    places: Vec<Place>,
    /// Hosts that have a core of the job, and the most cores that it may have there.
    pub(super) hosts: usize,
    reach: usize,
    /// The cores chosen so far, in the order of choice.
    pub(super) chosen: Vec<usize>,
}

impl<'a> Chooser<'a> {
    /// Prepares the choice. `allowed` are the hosts of the job, ascending, with the ms before which
    /// it cannot start there; `available` are the ms at which cores are free. `smooth` is added to
    /// every beta, so that hosts without data can be chosen before others are used up.
    pub(super) fn new(
        instance: &'a Instance,
        job: &Job,
        allowed: impl Iterator<Item = (usize, f64)>,
        (available, makespan): (&'a [f64], f64),
        room: Room,
        smooth: f64,
    ) -> Self {
        let place = |(host, from)| {
            let held = job.held.binary_search_by_key(&host, |held| held.0);
            let held = held.map_or(0.0, |at| job.held[at].1);
            let beta = smooth + if job.total > 0.0 { held / job.total } else { 0.0 };
            Place { host, from, beta, count: 0, next: None }
        };
        let known = allowed.filter(|(host, _)| *host < instance.hosts.len());
        let (places, chosen) = (known.map(place).collect(), Vec::new());
        let mut chooser =
            Self { instance, available, makespan, room, places, hosts: 0, reach: 0, chosen };
        (0..chooser.places.len()).for_each(|at| chooser.advance(at));
        chooser
    }

    /// The most cores of a host that the job may have.
    fn size(&self, place: &Place) -> usize {
        self.instance.hosts[place.host].cores.min(self.room.per_host)
    }

    /// Finds the core of a host that is free first, among those not chosen.
    fn advance(&mut self, at: usize) {
        let place = &self.places[at];
        let host = &self.instance.hosts[place.host];
        let mut next: Option<(f64, usize)> = None;
        let left =
            host.first..host.first + if place.count < self.size(place) { host.cores } else { 0 };
        for core in left {
            let free = self.available[core].max(place.from).max(0.0);
            let chosen = || place.count > 0 && self.chosen.contains(&core);
            if next.is_none_or(|(first, _)| free < first) && !chosen() {
                next = Some((free, core));
            }
        }
        self.places[at].next = next;
    }

    /// The weight lambda of a host's next core, and t and phi, which decide where it is equal; t is
    /// the part of the makespan that the core is free.
    fn weight(&self, place: &Place, free: f64) -> (f64, f64, f64) {
        let phi = 1.0 - place.count as f64 / (self.chosen.len() + 1) as f64;
        let t = if free <= 0.0 { 1.0 } else { (1.0 - free / self.makespan).max(0.0) };
        (phi * place.beta * t, t, phi)
    }

    /// The next core of each host, and the core's lambda.
    #[cfg(test)]
    pub(super) fn weights(&self) -> Vec<Option<(usize, f64)>> {
        let weigh =
            |place: &Place| place.next.map(|(free, core)| (core, self.weight(place, free).0));
        self.places.iter().map(weigh).collect()
    }

    /// Adds the core with the largest lambda; ties: t, phi, lowest index. Returns false when the
    /// job may have no more cores.
    pub(super) fn add(&mut self) -> bool {
        let Room { cores, per_host, hosts_min, hosts_max } = self.room;
        let only_new = self.hosts + cores.saturating_sub(self.chosen.len()) <= hosts_min;
        let behind = hosts_max.saturating_sub(self.hosts + 1).saturating_mul(per_host);
        let mut best: Option<((f64, f64, f64), usize, usize)> = None;
        for (at, place) in self.places.iter().enumerate() {
            let Some((free, core)) = place.next else { continue };
            // The hosts that may follow must be able to hold the rest.
            let holds = || (self.reach + self.size(place)).saturating_add(behind) >= cores;
            let new = place.count == 0;
            if (new && !(self.hosts < hosts_max && holds())) || (!new && only_new) {
                continue;
            }
            let weight = self.weight(place, free);
            if best.is_none_or(|(most, ..)| weight > most) {
                best = Some((weight, at, core));
            }
        }
        let Some((_, at, core)) = best else { return false };
        if self.places[at].count == 0 {
            self.hosts += 1;
            self.reach += self.size(&self.places[at]);
        }
        self.chosen.push(core);
        self.places[at].count += 1;
        self.advance(at);
        true
    }
}
