// SPDX-License-Identifier: GPL-3.0-or-later
//! Plans and prices that a search leaves for the next one, stored by names and converted to the
//! indexes of an instance.
//!
//! Jobs and servers come and go between two searches: what is there no more is left out.

use super::dual::Prices;
use super::instance::{Instance, NONE};
use super::problem::{Bred, Placement, Problem, ServerNames};
use std::collections::HashMap;

/// A bred population in terms of an instance.
#[derive(Debug, Default)]
pub struct Warm {
    /// Internal server of each task, or `NONE`.
    pub plans: Vec<Vec<u32>>,
    pub prices: Option<Prices>,
}

impl Bred {
    pub(super) fn of(
        problem: &Problem,
        instance: &Instance,
        plans: &[&[u32]],
        prices: &Prices,
    ) -> Self {
        let kinds = instance.kinds;
        let price = |(server, input): (usize, &u32)| {
            let row = &prices.lambda[instance.zone_of[server] as usize * kinds..][..kinds];
            (problem.servers[*input as usize].name.clone(), row.to_vec())
        };
        Self {
            plans: plans.iter().map(|plan| placements(problem, instance, plan)).collect(),
            prices: instance.input_of.iter().enumerate().map(price).collect(),
            theta: prices.theta,
        }
    }

    pub(super) fn on(&self, problem: &Problem, instance: &Instance) -> Warm {
        let names = ServerNames::of(&problem.servers);
        let ids = problem.jobs.iter().map(|job| job.id.as_str());
        let jobs: HashMap<&str, usize> = ids.zip(0..).collect();
        let plan = |placements: &Vec<Placement>| {
            let mut server = vec![NONE; instance.tasks()];
            for Placement { job, tasks } in placements {
                let range = jobs.get(job.as_str()).map_or(0..0, |job| instance.job_tasks(*job));
                for (task, name) in range.zip(tasks) {
                    let input = names.find(name, None);
                    server[task] = input.map_or(NONE, |input| instance.internal_of[input]);
                }
            }
            server
        };
        let plans = self.plans.iter().map(plan).collect();
        Warm { plans, prices: self.prices_on(problem, instance) }
    }

    /// Prices by zone: those of its first server, or of the zone before if that server is new.
    fn prices_on(&self, problem: &Problem, instance: &Instance) -> Option<Prices> {
        let known: HashMap<&str, &Vec<f64>> =
            self.prices.iter().map(|(name, row)| (name.as_str(), row)).collect();
        let mut row = &self.prices.first()?.1;
        let mut lambda = Vec::with_capacity(instance.zones * instance.kinds);
        for first in &instance.zone_start[..instance.zones] {
            let input = instance.input_of[*first as usize] as usize;
            row = known.get(problem.servers[input].name.as_str()).copied().unwrap_or(row);
            lambda.extend(row.iter().copied().chain(std::iter::repeat(0.0)).take(instance.kinds));
        }
        Some(Prices { lambda, theta: self.theta, bound: f64::INFINITY })
    }
}

/// Placed gangs by names, in input order.
pub fn placements(problem: &Problem, instance: &Instance, server: &[u32]) -> Vec<Placement> {
    let name = |task: usize| {
        let input = instance.input_of[server[task] as usize] as usize;
        problem.servers[input].name.clone()
    };
    let placed = problem.jobs.iter().zip(0..).map(|(job, at)| (job, instance.job_tasks(at)));
    let placed = placed.filter(|(_, tasks)| server[tasks.start] != NONE);
    placed
        .map(|(job, tasks)| Placement { job: job.id.clone(), tasks: tasks.map(name).collect() })
        .collect()
}
