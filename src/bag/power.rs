// SPDX-License-Identifier: GPL-3.0-or-later
//! Plans under a power cap: mean power from the start to the makespan.
//!
//! A cap is a surcharge on the price of energy: with the right one, the plan of
//! highest profit keeps to the cap by itself. (Lagrange: for a surcharge s every
//! plan within the cap of P watts earns at most the uncapped optimum at price
//! c + s, plus s P.) The least surcharge is found by halving.
//!
//! # Source
//! The programme of methods.md 4 (b) 13 with its row `Pbar <= P_max`.

use super::model::{Model, State};
use super::online::Plan;
use super::problem::Problem;
use super::{Mode, SolveError, Solved, solve_with};
use crate::model::problem::FieldError;

/// Doublings of the surcharge, and halvings afterwards.
const DOUBLINGS: usize = 60;
const HALVINGS: usize = 40;

/// The plan within `cap` watts with the highest profit found, and a bound of the
/// profit per second of every such plan; both without idle power.
pub(super) fn capped(
    problem: &Problem,
    model: &Model,
    mode: Mode,
    cap: f64,
) -> Result<(Solved, Option<f64>), SolveError> {
    let mut search = Search { problem, model, mode, room: cap - problem.idle_total(), bound: None };
    let (free, least) = search.try_surcharge(0.0);
    if least <= search.room {
        return Ok((free, search.bound));
    }
    // A price at which energy is worth what a task earns.
    let revenue: f64 = problem.users.iter().map(|user| user.revenue.abs()).sum();
    let joules = search.state(&free.plan).energy.max(f64::MIN_POSITIVE);
    let mut high = (model.price.max(revenue / joules) * 1e-3).max(f64::MIN_POSITIVE);
    let (mut low, mut within, mut least) = (0.0, None, least);
    for _ in 0..DOUBLINGS {
        let (solved, watts) = search.try_surcharge(high);
        least = least.min(watts);
        if watts <= search.room {
            within = Some(solved);
            break;
        }
        low = high;
        high *= 2.0;
    }
    let Some(mut best) = within else {
        let total = least + problem.idle_total();
        let what = format!("no plan of this mode takes less than {total:.1} W, got {cap}");
        return Err(SolveError::Infeasible(FieldError::new("power_cap_w", what)));
    };
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        let (solved, watts) = search.try_surcharge(middle);
        if watts <= search.room {
            high = middle;
            if search.value(&solved.plan) > search.value(&best.plan) {
                best = solved;
            }
        } else {
            low = middle;
        }
    }
    Ok((best, search.bound))
}

struct Search<'a> {
    problem: &'a Problem,
    model: &'a Model,
    mode: Mode,
    /// Watts above idle.
    room: f64,
    bound: Option<f64>,
}

impl Search<'_> {
    /// The plan with energy dearer by this, and its mean watts above idle.
    fn try_surcharge(&mut self, surcharge: f64) -> (Solved, f64) {
        let model = self.model.at_price(self.model.price + surcharge);
        let solved = solve_with(self.problem, &model, self.mode);
        if let (Some(optimum), true) = (&solved.optimum, self.room >= 0.0) {
            let bound = optimum.bound + surcharge * self.room;
            self.bound = Some(self.bound.map_or(bound, |known: f64| known.min(bound)));
        }
        let state = self.state(&solved.plan);
        let watts = if state.energy > 0.0 { state.energy / state.makespan } else { 0.0 };
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
