// SPDX-License-Identifier: GPL-3.0-or-later
//! The whole-task split of one arriving bag with the highest profit per second:
//! what trying every split would find, without trying them.
//!
//! # How
//! In any split some machine sets the makespan: either it was that busy before,
//! or it holds k whole tasks of this bag, T = load + k time. For a given T the
//! cheapest machines, filled with whole tasks up to T, need the least energy.
//! The fractional fill bounds the whole-task one from above and is a concave
//! profit over an affine T, so that it falls on both sides of its peak: the walk
//! from the peak outwards ends where the bound cannot beat the best found.
//! When even the cheapest split loses money a longer makespan is better, and T
//! must really be reached: then machine and k are forced one by one.

use super::model::Arrival;
use super::myopic::{Myopic, fill_joules};
use super::num::{BETTER, float, whole_ceil, whole_floor};

/// Scratch space and result of the search.
#[derive(Debug, Default)]
pub(super) struct Integer {
    /// The best split, by rank.
    pub x: Vec<u64>,
    /// Its profit per second.
    pub value: f64,
    found: bool,
    trial: Vec<u64>,
    next: Vec<u64>,
}

impl Integer {
    /// Finds the best split of `tasks` tasks into [`Self::x`].
    ///
    /// False only when there is no machine.
    pub fn solve(&mut self, arrival: &Arrival, myopic: &mut Myopic, tasks: u64) -> bool {
        self.found = false;
        self.value = f64::NEG_INFINITY;
        self.x.clear();
        self.x.resize(arrival.len(), 0);
        let Some(peak) = myopic.exact(arrival) else { return false };
        // A good first answer lets the walks end early.
        myopic.round(tasks, peak.tau, &mut self.trial);
        self.offer(arrival);
        self.try_makespan(arrival, arrival.floor, tasks, None);
        let cheapest = arrival.joules.last().map_or(0.0, |joules| joules * arrival.tasks);
        if arrival.net - arrival.price * cheapest >= 0.0 {
            self.walk_down(arrival, peak.makespan, tasks);
            self.walk_up(arrival, peak.makespan, tasks);
        } else {
            for rank in 0..arrival.len() {
                self.force(arrival, rank, tasks);
            }
        }
        self.found
    }

    /// Tries the makespans below `peak` that whole tasks reach, downwards.
    fn walk_down(&mut self, arrival: &Arrival, peak: f64, tasks: u64) {
        self.next.clear();
        for rank in 0..arrival.len() {
            let room = whole_floor((peak - arrival.load[rank]).max(0.0) / arrival.time[rank]);
            self.next.push(room.min(tasks));
        }
        loop {
            let reached = (0..arrival.len()).filter(|&rank| self.next[rank] > 0);
            let at = |rank: usize, next: &[u64]| {
                arrival.load[rank] + float(next[rank]) * arrival.time[rank]
            };
            let highest =
                reached.max_by(|&a, &b| at(a, &self.next).total_cmp(&at(b, &self.next)));
            let Some(rank) = highest else { return };
            let makespan = at(rank, &self.next);
            if makespan < arrival.floor || !self.promises(arrival, makespan) {
                return;
            }
            self.try_makespan(arrival, makespan, tasks, None);
            self.next[rank] -= 1;
        }
    }

    /// Tries the makespans above `peak` that whole tasks reach, upwards.
    fn walk_up(&mut self, arrival: &Arrival, peak: f64, tasks: u64) {
        self.next.clear();
        for rank in 0..arrival.len() {
            let room = whole_floor((peak - arrival.load[rank]).max(0.0) / arrival.time[rank]);
            self.next.push(room.saturating_add(1));
        }
        loop {
            let reachable = (0..arrival.len()).filter(|&rank| self.next[rank] <= tasks);
            let at = |rank: usize, next: &[u64]| {
                arrival.load[rank] + float(next[rank]) * arrival.time[rank]
            };
            let lowest =
                reachable.min_by(|&a, &b| at(a, &self.next).total_cmp(&at(b, &self.next)));
            let Some(rank) = lowest else { return };
            let makespan = at(rank, &self.next);
            if makespan >= arrival.floor {
                if !self.promises(arrival, makespan) {
                    return;
                }
                self.try_makespan(arrival, makespan, tasks, None);
            }
            self.next[rank] += 1;
        }
    }

    /// Whether the fractional fill up to `makespan` beats the best found.
    fn promises(&self, arrival: &Arrival, makespan: f64) -> bool {
        let Some(joules) = fill_joules(arrival, makespan, arrival.tasks, None) else {
            return false;
        };
        let bound = (arrival.net - arrival.price * joules) / makespan;
        !self.found || bound > self.value + BETTER
    }

    /// Tries splits in which `rank` sets the makespan with k tasks of this bag.
    fn force(&mut self, arrival: &Arrival, rank: usize, tasks: u64) {
        let (load, time) = (arrival.load[rank], arrival.time[rank]);
        let bound = |k: u64| -> Option<f64> {
            let makespan = load + float(k) * time;
            let others = fill_joules(arrival, makespan, float(tasks - k), Some(rank))?;
            let joules = others + float(k) * arrival.joules[rank];
            Some((arrival.net - arrival.price * joules) / makespan)
        };
        let least = whole_ceil((arrival.floor - load).max(0.0) / time).max(1);
        if least > tasks {
            return;
        }
        // The rest fits from some k on, and the bound has one peak from there.
        let fits = partition(least, tasks, |k| bound(k).is_none());
        let peak = partition(fits, tasks, |k| k < tasks && bound(k) < bound(k + 1));
        let promises = |value: f64, found: bool, k: u64| {
            bound(k).is_some_and(|bound| !found || bound > value + BETTER)
        };
        let mut k = peak;
        while k >= fits && promises(self.value, self.found, k) {
            self.try_makespan(arrival, load + float(k) * time, tasks, Some((rank, k)));
            k -= 1;
        }
        let mut k = peak + 1;
        while k <= tasks && promises(self.value, self.found, k) {
            self.try_makespan(arrival, load + float(k) * time, tasks, Some((rank, k)));
            k += 1;
        }
    }

    /// Fills the cheapest machines with whole tasks up to `makespan`, with
    /// `forced = (rank, k)` holding exactly k, and offers the result.
    fn try_makespan(
        &mut self,
        arrival: &Arrival,
        makespan: f64,
        tasks: u64,
        forced: Option<(usize, u64)>,
    ) {
        self.trial.clear();
        self.trial.resize(arrival.len(), 0);
        let mut rest = tasks;
        if let Some((rank, k)) = forced {
            self.trial[rank] = k;
            rest -= k;
        }
        for rank in (0..arrival.len()).rev() {
            if rest == 0 {
                break;
            }
            if forced.is_some_and(|(forced, _)| forced == rank) {
                continue;
            }
            let room = (makespan - arrival.load[rank]) / arrival.time[rank];
            let take = whole_floor(room.max(0.0)).min(rest);
            self.trial[rank] = take;
            rest -= take;
        }
        if rest == 0 {
            self.offer(arrival);
        }
    }

    /// Keeps the trial when it is better by its true makespan and energy.
    fn offer(&mut self, arrival: &Arrival) {
        let (mut makespan, mut joules) = (arrival.floor, 0.0);
        for (rank, &tasks) in self.trial.iter().enumerate() {
            if tasks > 0 {
                let tasks = float(tasks);
                makespan = makespan.max(arrival.load[rank] + tasks * arrival.time[rank]);
                joules += tasks * arrival.joules[rank];
            }
        }
        let value = (arrival.net - arrival.price * joules) / makespan;
        if !self.found || value > self.value + BETTER {
            self.found = true;
            self.value = value;
            std::mem::swap(&mut self.x, &mut self.trial);
        }
    }
}

/// The first of `from..=last` for which `before` is false; `last` if none.
fn partition(from: u64, last: u64, before: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (from, last);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
