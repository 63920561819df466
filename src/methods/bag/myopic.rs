// SPDX-License-Identifier: GPL-3.0-or-later
//! The split of one arriving bag that gives the highest profit per second at its arrival: the
//! source's rule (`seed`) and its exact form (`exact`), both fractional.
//!
//! # Source
//! `docs/methods.md`, section Bags, (b) 6 to 11, (c), (e); Lemma 1 of the paper: machines
//! are used from the cheapest on, and all but the most expensive of the used ones are
//! full up to the makespan.

use super::model::Arrival;
use super::num::{BETTER, NEGATIVE, whole_ceil};
use phalanx_core::number::as_f64;

/// A fractional split of a bag. The shares are in the [`Myopic`] that made it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Split {
    /// Rank of the most expensive machine in use (the paper's tau, less 1).
    pub tau: usize,
    /// Makespan in seconds after the bag.
    pub makespan: f64,
    /// Profit per second after the bag.
    pub value: f64,
}

/// Scratch space of the rules.
#[derive(Debug, Default)]
pub(super) struct Myopic {
    /// Tasks by rank of the split found last.
    pub share: Vec<f64>,
    /// Makespan and energy of the bag for each tau; NaN where the tau was discarded.
    candidates: Vec<(f64, f64)>,
}

impl Myopic {
    /// The paper's rule: the best tau among those whose solution of the linear
    /// system (16) has no negative share; ties go to the smallest.
    ///
    /// O(machines). `None` only when there is no machine.
    pub fn seed(&mut self, arrival: &Arrival) -> Option<Split> {
        self.solve_systems(arrival);
        let mut best: Option<Split> = None;
        for (tau, &(makespan, joules)) in self.candidates.iter().enumerate() {
            if makespan.is_nan() {
                continue;
            }
            // The source's code divides by the true makespan; its text forgets
            // machines that are already busier than the new ones.
            let makespan_after = makespan.max(arrival.floor);
            let value = (arrival.net - arrival.price * joules) / makespan_after;
            if best.is_none_or(|best| value > best.value + BETTER) {
                best = Some(Split { tau, makespan, value });
            }
        }
        let best = best?;
        self.share_up_to(arrival, best);
        Some(best)
    }

    /// The exact rule: the best makespan T among the present one and every solution of (16) that is
    /// not below it, with the cheapest machines filled up to T. Ties go to the smallest T.
    ///
    /// Profit over T is a concave function over an affine one, so that a
    /// breakpoint is optimal (`docs/methods.md`, Bags, (e)). When every choice loses money
    /// the best breakpoint is given: without one, waiting for ever is "best".
    pub fn exact(&mut self, arrival: &Arrival) -> Option<Split> {
        self.solve_systems(arrival);
        let mut best = self.fill(arrival, arrival.floor);
        let at_floor = best.is_some();
        for (tau, &(makespan, joules)) in self.candidates.iter().enumerate() {
            if makespan.is_nan() || makespan < arrival.floor {
                continue;
            }
            let value = (arrival.net - arrival.price * joules) / makespan;
            if best.is_none_or(|best| value > best.value + BETTER) {
                best = Some(Split { tau, makespan, value });
            }
        }
        let best = best?;
        if !(at_floor && best.makespan == arrival.floor) {
            self.share_up_to(arrival, best);
        }
        Some(best)
    }

    /// Solves (16) for every tau by the closed form (formula 10) on suffix sums.
    fn solve_systems(&mut self, arrival: &Arrival) {
        let machines = arrival.len();
        self.candidates.clear();
        self.candidates.resize(machines, (f64::NAN, f64::NAN));
        let (mut speed, mut busy, mut power, mut busy_joules) = (0.0, 0.0, 0.0, 0.0);
        let mut least = f64::NEG_INFINITY;
        for rank in (0..machines).rev() {
            let (load, time, joules) =
                (arrival.load[rank], arrival.time[rank], arrival.joules[rank]);
            speed += 1.0 / time;
            busy += load / time;
            power += joules / time;
            busy_joules += load * joules / time;
            // A share is negative when the makespan is below its machine's load.
            least = least.max(load + NEGATIVE * time);
            let makespan = (arrival.tasks + busy) / speed;
            if makespan >= least {
                self.candidates[rank] = (makespan, makespan * power - busy_joules);
            }
        }
    }

    /// The shares of a solution of (16).
    fn share_up_to(&mut self, arrival: &Arrival, split: Split) {
        self.share.clear();
        self.share.resize(split.tau, 0.0);
        let used = arrival.load[split.tau..].iter().zip(&arrival.time[split.tau..]);
        self.share.extend(used.map(|(&load, &time)| (split.makespan - load) / time));
    }

    /// Fills the cheapest machines up to `makespan` seconds; `None` when the bag
    /// does not fit below it.
    fn fill(&mut self, arrival: &Arrival, makespan: f64) -> Option<Split> {
        self.share.clear();
        self.share.resize(arrival.len(), 0.0);
        let mut rest = arrival.tasks;
        let mut joules = 0.0;
        for tau in (0..arrival.len()).rev() {
            let room = ((makespan - arrival.load[tau]) / arrival.time[tau]).max(0.0);
            let share = room.min(rest);
            self.share[tau] = share;
            joules += share * arrival.joules[tau];
            rest -= share;
            if rest <= 0.0 {
                let value = (arrival.net - arrival.price * joules) / makespan;
                return Some(Split { tau, makespan, value });
            }
        }
        None
    }

    /// Rounds the shares up, cheapest machine first, until every task has a
    /// place (formula 11). `x` is by rank.
    pub fn round(&self, tasks: u64, tau: usize, x: &mut Vec<u64>) {
        x.clear();
        x.resize(self.share.len(), 0);
        let mut placed = 0;
        for rank in (tau..self.share.len()).rev() {
            let rest = tasks - placed;
            x[rank] = if as_f64(placed) + self.share[rank] < as_f64(tasks) {
                whole_ceil(self.share[rank]).min(rest)
            } else {
                rest
            };
            placed += x[rank];
        }
        if let Some(last) = x.get_mut(tau) {
            // Only the noise of the last digits can leave tasks over.
            *last += tasks - placed;
        }
    }
}

/// Energy in joules of `tasks` tasks on the cheapest machines with room for them
/// below `makespan`, leaving out rank `skip`; `None` when they do not fit.
pub(super) fn fill_joules(
    arrival: &Arrival,
    makespan: f64,
    tasks: f64,
    skip: Option<usize>,
) -> Option<f64> {
    let mut rest = tasks;
    let mut joules = 0.0;
    for rank in (0..arrival.len()).rev() {
        if rest <= 0.0 {
            break;
        }
        if Some(rank) == skip {
            continue;
        }
        let room = ((makespan - arrival.load[rank]) / arrival.time[rank]).max(0.0);
        let share = room.min(rest);
        joules += share * arrival.joules[rank];
        rest -= share;
    }
    (rest <= tasks * 1e-12).then_some(joules)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every tau of the authors' patent example, user 1, machines by falling energy, is as
    /// worked out there.
    #[test]
    fn every_tau_of_the_patent_example() {
        let times = [59.72, 72.81, 27.01, 42.15];
        let watts = [139.6, 97.5, 223.1, 121.3];
        let arrival = Arrival {
            tasks: 40.0,
            net: 200_000.0,
            price: 1.0,
            floor: 0.0,
            load: vec![0.0; 4],
            time: times.to_vec(),
            joules: times.iter().zip(watts).map(|(time, watts)| time * watts).collect(),
        };
        let mut myopic = Myopic::default();
        assert_eq!(myopic.seed(&arrival).map(|split| split.tau), Some(3));
        let wanted =
            [(438.4652, -125.3635), (537.0389, -69.4875), (658.4566, -40.6594), (1686.0, -2.6760)];
        for (&(makespan, joules), (seconds, value)) in myopic.candidates.iter().zip(wanted) {
            assert!((makespan - seconds).abs() < 1e-3, "{makespan}");
            let found = (arrival.net - joules) / makespan;
            assert!((found - value).abs() < 1e-3, "{found} for {value}");
        }
    }
}
