// SPDX-License-Identifier: GPL-3.0-or-later
//! The modes that know the totals per task type: `template` and `best`.

use super::lp::Optimum;
use super::model::{Model, State};
use super::num::BETTER;
use super::online::{Choice, Plan, Rule, Splitter, run};
use super::problem::Problem;
use super::totals::{Rates, Search, Totals, apportion, optimum, round};
use phalanx_core::limits::{BAG_TRIALS_COMMITTED_MAX, BAG_TRIALS_REVISED_MAX};

/// Everything that planning for whole task types needs.
#[derive(Debug)]
pub(super) struct Planner<'a> {
    problem: &'a Problem,
    model: &'a Model,
    state: State,
    revenue: f64,
    totals: Totals,
    /// Place of each row of the rate matrices among those of `totals`.
    place: Vec<usize>,
    rates: Rates,
    /// The offline optimum; `None` when nothing takes any time.
    pub optimum: Option<Optimum>,
}

/// A mode that took part in `best` and what it reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Contender {
    pub name: &'static str,
    pub objective: Option<f64>,
}

impl<'a> Planner<'a> {
    /// Adds up the problem by task type and solves the offline programme.
    pub fn new(problem: &'a Problem, model: &'a Model) -> Self {
        let state = State::new(model);
        let bags = problem.users.iter().map(|user| (user.task_type, user.tasks));
        let totals = Totals::new(model.rows(), bags);
        let mut place = vec![0; model.rows()];
        totals.rows.iter().enumerate().for_each(|(i, &row)| place[row] = i);
        let rates = Rates::new(model, &totals);
        let revenue = problem.users.iter().map(|user| user.revenue).sum();
        let optimum = optimum(model, &rates, &totals, &state, revenue);
        Self { problem, model, state, revenue, totals, place, rates, optimum }
    }

    /// Bags split in the proportions of the offline optimum of the totals.
    pub fn template(&self) -> Plan {
        self.deal(&self.rounded())
    }

    /// Whole numbers of tasks by type, closest to the offline optimum.
    fn rounded(&self) -> Vec<u64> {
        let Some(optimum) = &self.optimum else { return Vec::new() };
        round(&self.totals, self.rates.machines, &optimum.share)
    }

    /// The best of all modes, improved by a search on whole tasks.
    ///
    /// With `revise` the search is longer and begins at every mode's result.
    pub fn best(&self, revise: bool) -> (Plan, Vec<Contender>) {
        let rules = [
            ("seed", Rule::Seed),
            ("exact", Rule::Exact),
            ("integer", Rule::Integer),
            ("greedy", Rule::Greedy),
            ("average", Rule::Average),
        ];
        let mut plans = vec![("template", self.template())];
        plans.extend(rules.map(|(name, rule)| (name, run(self.problem, self.model, rule))));
        let contender =
            |(name, plan): &(&'static str, Plan)| Contender { name, objective: plan.objective };
        let mut contenders: Vec<Contender> = plans.iter().map(contender).collect();
        plans.sort_by(|(_, a), (_, b)| {
            let value = |plan: &Plan| plan.objective.unwrap_or(f64::NEG_INFINITY);
            value(b).total_cmp(&value(a))
        });
        let (starts, trials) = if revise {
            (plans.len(), BAG_TRIALS_REVISED_MAX)
        } else {
            (1, BAG_TRIALS_COMMITTED_MAX)
        };
        let improved: Vec<Plan> =
            plans.iter().take(starts).map(|(_, plan)| self.improve(plan, trials)).collect();
        let mut best = plans.swap_remove(0).1;
        let mut searched = None;
        for plan in improved {
            if plan.objective > searched {
                searched = plan.objective;
            }
            if plan.objective > best.objective.map(|objective| objective + BETTER) {
                best = plan;
            }
        }
        contenders.push(Contender { name: "search", objective: searched });
        best.choices = self.fractional(&best);
        (best, contenders)
    }

    /// Adds up a plan by task type, searches from there and deals the result out to the bags.
    fn improve(&self, plan: &Plan, trials: usize) -> Plan {
        let machines = self.rates.machines;
        let mut sum = vec![0; self.totals.rows.len() * machines];
        let rows = plan.x.chunks_exact(self.model.machines.max(1));
        for (user, x) in self.problem.users.iter().zip(rows) {
            if user.tasks == 0 {
                continue;
            }
            let at = self.place[user.task_type] * machines;
            for (column, &j) in self.model.usable.iter().enumerate() {
                sum[at + column] += x[j];
            }
        }
        let mut search = Search::new(self.model, &self.rates, &self.state, self.revenue, sum);
        if !search.value().is_finite() {
            return plan.clone();
        }
        search.improve(trials);
        self.deal(&search.x)
    }

    /// Gives each arriving bag its part of the planned tasks of its type that are not dealt yet.
    fn deal(&self, plan: &[u64]) -> Plan {
        let machines = self.rates.machines;
        let mut left = plan.to_vec();
        let mut state = self.state.clone();
        let mut x = vec![0; self.problem.users.len() * self.model.machines];
        let mut part = Vec::new();
        for (i, user) in self.problem.users.iter().enumerate() {
            state.revenue += user.revenue;
            if user.tasks == 0 {
                continue;
            }
            let at = self.place[user.task_type] * machines;
            let left = &mut left[at..at + machines];
            apportion(user.tasks, left, &mut part);
            let row = &mut x[i * self.model.machines..(i + 1) * self.model.machines];
            for (column, &j) in self.model.usable.iter().enumerate() {
                left[column] -= part[column];
                row[j] = part[column];
            }
            if let Some(task_type) = self.model.task_type(user.task_type) {
                state.place(task_type, row);
            }
        }
        let choices = vec![Choice::default(); self.problem.users.len()];
        Plan { x, choices, objective: state.objective(self.model.price) }
    }

    /// Returns the fractional optimum of each bag alone at its arrival, for comparison.
    fn fractional(&self, plan: &Plan) -> Vec<Choice> {
        let mut state = self.state.clone();
        let mut splitter = Splitter::default();
        let rows = plan.x.chunks_exact(self.model.machines.max(1));
        let step = |(user, x): (&super::problem::User, &[u64])| {
            state.revenue += user.revenue;
            let task_type = self.model.task_type(user.task_type).filter(|_| user.tasks > 0);
            let Some(task_type) = task_type else { return Choice::default() };
            let fractional = splitter.fractional(self.model, &state, task_type, user.tasks);
            state.place(task_type, x);
            Choice { tau: None, fractional }
        };
        self.problem.users.iter().zip(rows).map(step).collect()
    }
}
