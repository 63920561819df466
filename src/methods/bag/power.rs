// SPDX-License-Identifier: GPL-3.0-or-later
//! Plans under a power cap: mean power from the start to the makespan.
//!
//! A cap is a surcharge on the price of energy: with the right one, the plan of
//! highest profit keeps to the cap by itself. (Lagrange: for a surcharge s every
//! plan within the cap of P watts earns at most the uncapped optimum at price
//! c + s, plus s P.) The least surcharge is found by halving.
//!
//! # Source
//! The programme of `docs/methods.md`, section Bags, (b) 13 with its row `Pbar <= P_max`.

use super::model::{Model, State};
use super::online::Plan;
use super::problem::Problem;
use super::solved::{Mode, SolveError, Solved, solve_with};
use super::totals::apportion;
use phalanx_core::problem::InputError;

/// Doublings of the surcharge, and halvings afterwards.
const DOUBLINGS: usize = 60;
const HALVINGS: usize = 40;
/// Steps between a plan within the cap and one above it.
const MIXES: u64 = 64;

/// The plan within `cap` watts with the highest profit found, and a bound of the
/// profit per second of every such plan; both without idle power.
///
/// Mode `best` takes the best of all modes.
pub(super) fn capped(
    problem: &Problem,
    model: &Model,
    mode: Mode,
    cap: f64,
) -> Result<(Solved, Option<f64>), SolveError> {
    let room = cap - problem.idle_total();
    let mut search = Search { problem, model, mode, room, bound: None, least: f64::INFINITY };
    let mut best = search.run();
    if mode == Mode::Best {
        for (_, other) in Mode::ALL.into_iter().filter(|(_, other)| *other != mode) {
            search.mode = other;
            if let Some(found) = search.run()
                && best.as_ref().is_none_or(|b| search.value(&found.plan) > search.value(&b.plan))
            {
                best = Some(found);
            }
        }
    }
    best.map(|best| (best, search.bound)).ok_or_else(|| {
        let total = search.least + problem.idle_total();
        let what = format!("no plan of this mode takes less than {total:.1} W, got {cap}");
        SolveError::Infeasible(InputError::new("power_cap_w", what))
    })
}

struct Search<'a> {
    problem: &'a Problem,
    model: &'a Model,
    mode: Mode,
    /// Watts above idle.
    room: f64,
    bound: Option<f64>,
    /// Least mean watts above idle of any plan seen.
    least: f64,
}

impl Search<'_> {
    /// The best plan within the cap; `None` if there is none.
    fn run(&mut self) -> Option<Solved> {
        let (free, watts) = self.try_surcharge(0.0);
        if watts <= self.room {
            return Some(free);
        }
        // A price at which energy is worth what a task earns.
        let revenue: f64 = self.problem.users.iter().map(|user| user.revenue.abs()).sum();
        let joules = self.state(&free.plan).energy.max(f64::MIN_POSITIVE);
        let mut high = (self.model.price.max(revenue / joules) * 1e-3).max(f64::MIN_POSITIVE);
        let (mut low, mut above, mut within) = (0.0, free.plan, None);
        for _ in 0..DOUBLINGS {
            let (solved, watts) = self.try_surcharge(high);
            if watts <= self.room {
                within = Some(solved);
                break;
            }
            above = solved.plan;
            low = high;
            high *= 2.0;
        }
        let mut best = within?;
        let mut nearest = best.plan.clone();
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            let (solved, watts) = self.try_surcharge(middle);
            if watts > self.room {
                low = middle;
                above = solved.plan;
                continue;
            }
            high = middle;
            nearest.clone_from(&solved.plan);
            if self.value(&solved.plan) > self.value(&best.plan) {
                best = solved;
            }
        }
        // At the right surcharge both are equally good: what lies between them may be better.
        for step in 1..MIXES {
            let plan = self.mix(&nearest, &above, step);
            if self.watts(&plan) <= self.room && self.value(&plan) > self.value(&best.plan) {
                best.plan = plan;
            }
        }
        best.plan.objective = self.state(&best.plan).objective(self.model.price);
        Some(best)
    }

    /// `step` of [`MIXES`] parts of `to`, the rest of `from`.
    fn mix(&self, from: &Plan, to: &Plan, step: u64) -> Plan {
        let mut plan = from.clone();
        let mut x = Vec::new();
        let machines = self.model.machines.max(1);
        let rows = plan.x.chunks_exact_mut(machines).zip(to.x.chunks_exact(machines));
        for (user, (own, other)) in self.problem.users.iter().zip(rows) {
            let weights: Vec<u64> = own
                .iter()
                .zip(other)
                .map(|(a, b)| a.saturating_mul(MIXES - step).saturating_add(b.saturating_mul(step)))
                .collect();
            apportion(user.tasks, &weights, &mut x);
            own.copy_from_slice(&x);
        }
        plan
    }

    /// Mean watts above idle.
    fn watts(&self, plan: &Plan) -> f64 {
        let state = self.state(plan);
        if state.energy > 0.0 { state.energy / state.makespan } else { 0.0 }
    }

    /// The plan at an energy price that is higher by a surcharge, and the plan's mean watts above
    /// idle.
    fn try_surcharge(&mut self, surcharge: f64) -> (Solved, f64) {
        let model = self.model.at_price(self.model.price + surcharge);
        let solved = solve_with(self.problem, &model, self.mode);
        if let (Some(optimum), true) = (&solved.optimum, self.room >= 0.0) {
            let bound = optimum.bound + surcharge * self.room;
            self.bound = Some(self.bound.map_or(bound, |known: f64| known.min(bound)));
        }
        let watts = self.watts(&solved.plan);
        self.least = self.least.min(watts);
        (solved, watts)
    }

    fn state(&self, plan: &Plan) -> State {
        let mut state = State::new(self.model);
        let rows = plan.x.chunks_exact(self.model.machines.max(1));
        for (user, x) in self.problem.users.iter().zip(rows) {
            state.revenue += user.revenue;
            if let Some(task_type) = self.model.task_type(user.task_type) {
                state.place(task_type, x);
            }
        }
        state
    }

    fn value(&self, plan: &Plan) -> f64 {
        self.state(plan).objective(self.model.price).unwrap_or(0.0)
    }
}
