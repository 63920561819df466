// SPDX-License-Identifier: GPL-3.0-or-later
//! The whole-task split of one arriving bag with the highest profit per second:
//! what trying every split would find, without trying them.
//!
//! # How
//! In any split some machine sets the makespan T: either it was that busy before,
//! or it holds k whole tasks of this bag, T = load + k time. Up to a given T the
//! cheapest machines, filled with whole tasks, need the least energy E(T), and
//! E falls as T grows. So no split with a makespan between a and b is better than
//! (revenue - price E(b)) / a: intervals are halved, those next to the fractional
//! peak first, until that bound cannot beat the best split found.
//! When even the cheapest split loses money a longer makespan is better, and T
//! must really be reached: then machine and k are forced one by one.

use super::model::Arrival;
use super::myopic::{Myopic, fill_joules};
use super::num::{BETTER, whole_below, whole_ceil, whole_floor, whole_within};
use phalanx_core::number::as_f64;

/// Scratch space and result of the search.
#[derive(Debug, Default)]
pub(super) struct Integer {
    /// The best split, by rank.
    pub x: Vec<u64>,
    /// Profit per second of the best split.
    pub value: f64,
    found: bool,
    trial: Vec<u64>,
    intervals: Vec<Interval>,
}

/// Makespans above `above` seconds and up to `limit`, whose splits cannot earn
/// more than `net` money.
#[derive(Debug, Clone, Copy)]
struct Interval {
    above: f64,
    limit: Limit,
    net: f64,
}

/// The longest time that the machines may work.
#[derive(Debug, Clone, Copy)]
enum Limit {
    /// A makespan that was built from whole tasks: by rounding it may be slightly short.
    Reaching(f64),
    /// Any makespan.
    UpTo(f64),
    /// Clearly less than a makespan that was built from whole tasks.
    Below(f64),
}

impl Limit {
    /// Whole tasks that a machine can take within the limit.
    fn room(self, load: f64, time: f64) -> u64 {
        match self {
            Self::Reaching(makespan) => whole_floor((makespan - load) / time),
            Self::UpTo(makespan) => whole_within((makespan - load) / time),
            Self::Below(makespan) => whole_below((makespan - load) / time),
        }
    }
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
        // A good first answer lets the searches end early.
        myopic.round(tasks, peak.tau, &mut self.trial);
        self.offer(arrival);
        self.try_limit(arrival, Limit::Reaching(arrival.floor), tasks, None);
        let cheapest = arrival.joules.last().map_or(0.0, |joules| joules * arrival.tasks);
        if arrival.net - arrival.price * cheapest >= 0.0 {
            self.halve_intervals(arrival, peak.makespan, tasks);
        } else {
            for rank in 0..arrival.len() {
                self.force(arrival, rank, tasks);
            }
        }
        self.found
    }

    /// Searches all makespans; requires that the best split loses no money.
    fn halve_intervals(&mut self, arrival: &Arrival, peak: f64, tasks: u64) {
        /// Makespans closer than this, relative, are one.
        const WIDTH_MIN: f64 = 1e-12;
        let speed: f64 = arrival.time.iter().map(|time| 1.0 / time).sum();
        let shortest = arrival.floor.max(arrival.tasks / speed * (1.0 - 1e-9));
        let longest = match (arrival.load.last(), arrival.time.last()) {
            (Some(load), Some(time)) => load + arrival.tasks * time,
            _ => return,
        };
        let peak = peak.max(shortest);
        let net = arrival.net;
        self.intervals.clear();
        let longest = Limit::Reaching(longest.max(peak));
        self.intervals.push(Interval { above: peak, limit: longest, net });
        self.intervals.push(Interval { above: shortest, limit: Limit::UpTo(peak), net });
        while let Some(Interval { above, limit, net }) = self.intervals.pop() {
            if !self.promises(net, above) {
                continue;
            }
            let Some((joules, makespan)) = measure(arrival, limit, tasks) else { continue };
            let net = arrival.net - arrival.price * joules;
            if !self.found || net / makespan > self.value + BETTER {
                self.try_limit(arrival, limit, tasks, None);
            }
            // Longer ones within the limit need as much energy as this one.
            if makespan - above <= WIDTH_MIN * makespan || !self.promises(net, above) {
                continue;
            }
            let middle = 0.5 * (above + makespan);
            let longer = Interval { above: middle, limit: Limit::Below(makespan), net };
            let shorter = Interval { above, limit: Limit::UpTo(middle), net };
            if above < peak {
                self.intervals.extend([shorter, longer]);
            } else {
                self.intervals.extend([longer, shorter]);
            }
        }
    }

    /// Whether `net` money in more than `above` seconds can beat the best split found.
    fn promises(&self, net: f64, above: f64) -> bool {
        net >= 0.0 && (!self.found || net > (self.value + BETTER) * above)
    }

    /// Tries splits in which `rank` sets the makespan with k tasks of this bag.
    fn force(&mut self, arrival: &Arrival, rank: usize, tasks: u64) {
        let (load, time) = (arrival.load[rank], arrival.time[rank]);
        let bound = |k: u64| -> Option<f64> {
            let makespan = load + as_f64(k) * time;
            let others = fill_joules(arrival, makespan, as_f64(tasks - k), Some(rank))?;
            let joules = others + as_f64(k) * arrival.joules[rank];
            Some((arrival.net - arrival.price * joules) / makespan)
        };
        let least = whole_ceil((arrival.floor - load).max(0.0) / time).max(1);
        if least > tasks {
            return;
        }
        // No split of this kind lasts longer or needs less than this.
        let least_net =
            arrival.net - arrival.price * arrival.tasks * arrival.joules.last().unwrap_or(&0.0);
        if self.found && least_net / (load + arrival.tasks * time) <= self.value + BETTER {
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
            self.try_limit(
                arrival,
                Limit::Reaching(load + as_f64(k) * time),
                tasks,
                Some((rank, k)),
            );
            k -= 1;
        }
        let mut k = peak + 1;
        while k <= tasks && promises(self.value, self.found, k) {
            self.try_limit(
                arrival,
                Limit::Reaching(load + as_f64(k) * time),
                tasks,
                Some((rank, k)),
            );
            k += 1;
        }
    }

    /// Fills the cheapest machines with whole tasks within `limit`, with
    /// `forced = (rank, k)` holding exactly k, and offers the result.
    fn try_limit(
        &mut self,
        arrival: &Arrival,
        limit: Limit,
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
            let take = limit.room(arrival.load[rank], arrival.time[rank]).min(rest);
            self.trial[rank] = take;
            rest -= take;
        }
        if rest == 0 {
            self.offer(arrival);
        }
    }

    /// Keeps the trial if its true makespan and energy make it better than the best so far.
    fn offer(&mut self, arrival: &Arrival) {
        let (mut makespan, mut joules) = (arrival.floor, 0.0);
        for (rank, &tasks) in self.trial.iter().enumerate() {
            if tasks > 0 {
                let tasks = as_f64(tasks);
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

/// Energy and makespan of the cheapest split in whole tasks within `limit`; `None`
/// when the tasks do not fit.
fn measure(arrival: &Arrival, limit: Limit, tasks: u64) -> Option<(f64, f64)> {
    let (mut joules, mut makespan) = (0.0, arrival.floor);
    let mut rest = tasks;
    for rank in (0..arrival.len()).rev() {
        let (load, time) = (arrival.load[rank], arrival.time[rank]);
        let take = limit.room(load, time).min(rest);
        if take > 0 {
            joules += as_f64(take) * arrival.joules[rank];
            makespan = f64::max(makespan, load + as_f64(take) * time);
            rest -= take;
            if rest == 0 {
                return Some((joules, makespan));
            }
        }
    }
    None
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
