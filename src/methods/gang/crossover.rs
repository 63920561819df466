// SPDX-License-Identifier: GPL-3.0-or-later
//! Crossover of two plans by servers or by gangs, with repair gang by gang.

use super::clock::Clock;
use super::instance::{Instance, NONE};
use super::moves::{Line, NOISE};
use super::problem::GaParams;
use super::state::{Score, State};
use phalanx_core::random::Stream;

/// Largest share of the servers that one crossover takes.
const SERVERS_MAX: f64 = 0.34;
/// Share of the gangs that a shaken line loses.
const SHAKEN: f64 = 0.3;

/// Copy of a line's best plan, which other lines may take as a parent while all breed.
#[derive(Debug)]
pub struct Parent {
    server: Vec<u32>,
    score: Score,
}

impl Parent {
    pub fn of(line: &Line<'_>) -> Self {
        Self { server: line.best.clone(), score: line.best_score }
    }
}

/// The gangs that a child has from its own line.
enum Part {
    /// Gangs with a task on one of `count` servers from `first` on, modulo `all`.
    Servers { first: usize, count: usize, all: usize },
    /// Gangs that are marked.
    Gangs(Vec<bool>),
}

impl Part {
    fn draw(instance: &Instance, by_servers: f64, rng: &mut Stream) -> Self {
        if rng.unit() >= by_servers {
            let share = rng.unit();
            return Self::Gangs((0..instance.jobs()).map(|_| rng.unit() < share).collect());
        }
        let all = instance.servers;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let most = (all as f64 * SERVERS_MAX).ceil() as usize;
        Self::Servers { first: rng.below(all), count: 1 + rng.below(most), all }
    }

    fn has(&self, job: usize, servers: &[u32]) -> bool {
        match self {
            Self::Gangs(chosen) => chosen[job],
            Self::Servers { first, count, all } => {
                servers.iter().any(|s| (*s as usize + all - first) % all < *count)
            }
        }
    }
}

impl Line<'_> {
    /// Makes the line's plan the child of its own best plan and of the better of two others.
    ///
    /// A part of the own plan comes first, then whatever of the other still fits as it is there,
    /// and the rest of the room goes to the densest gangs.
    ///
    /// A child that is worse than the plan which it replaces is kept by the rule of Metropolis.
    pub fn cross(
        &mut self,
        params: &GaParams,
        parents: &[Parent],
        own: usize,
        (temperature, clock): (f64, Clock<'_>),
    ) {
        if parents.len() < 2 || self.rng.unit() >= params.crossover {
            return;
        }
        let mut draw = || (own + 1 + self.rng.below(parents.len() - 1)) % parents.len();
        let (a, b) = (&parents[draw()], &parents[draw()]);
        let other = if b.score.beats(&a.score, self.instance) { b } else { a };
        let own = &parents[own];
        let part = Part::draw(self.instance, params.by_servers, &mut self.rng);
        let before = std::mem::replace(&mut self.state, State::new(self.instance));
        for parent in [own, other] {
            for job in 0..self.instance.jobs() {
                let servers = &parent.server[self.instance.job_tasks(job)];
                let wanted = std::ptr::eq(parent, other) || part.has(job, servers);
                if wanted && servers[0] != NONE && !self.state.is_placed(job) {
                    self.state.place_as(self.instance, job, servers);
                }
            }
        }
        self.refill(0.0, clock);
        self.keep_best();
        let values = [&before, &self.state].map(|state| state.score().scalar(self.instance));
        // Work is counted on, whichever plan stays.
        let work = before.work.max(self.state.work);
        if !self.accepts(values[0] - values[1], temperature) {
            self.state = before;
        }
        self.state.work = work;
    }

    /// Removes a part of the gangs and refills in another order, so that the line forgets its best
    /// plan.
    pub fn shake(&mut self, clock: Clock<'_>) {
        for job in 0..self.instance.jobs() {
            if self.state.is_placed(job) && self.rng.unit() < SHAKEN {
                self.state.remove_job(self.instance, job);
            }
        }
        self.refill(NOISE, clock);
        self.best.copy_from_slice(&self.state.server);
        self.best_score = self.state.score();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::start::{greedy, share_prices};
    use super::super::tests::{random_problem, scattered};
    use super::super::values::Values;
    use super::*;

    /// Goal: every child is a plan of whole gangs within capacity, and no line loses its best plan.
    #[test]
    fn children_keep_the_rules_and_the_best_plan() {
        let mut rng = Stream::new(17);
        let mut children = 0;
        let clock = Clock::new(&|| None);
        for case in 0..300 {
            let problem = match case % 30 {
                0 => scattered(24, 120, 12),
                _ => random_problem(&mut rng),
            };
            let instance = Instance::compile(&problem).unwrap();
            let values = Values::new(&instance, &share_prices(&instance, 0.3));
            let start = greedy(&instance, &values, State::new(&instance));
            let by_servers = (case % 3) as f64 / 2.0;
            let params = GaParams { crossover: 1.0, by_servers, ..GaParams::default() };
            let mut lines: Vec<Line<'_>> = (0..3)
                .map(|at| Line::new(&instance, &values, Stream::numbered(case, at), 0.3, &start))
                .collect();
            lines[1].shake(clock);
            lines[2].shake(clock);
            let parents: Vec<Parent> = lines.iter().map(Parent::of).collect();
            for (own, line) in lines.iter_mut().enumerate() {
                let before = line.best_score;
                line.cross(&params, &parents, own, (100.0, clock));
                assert!(!before.beats(&line.best_score, &instance));
                // A plan that keeps the rules is adopted as it is.
                let again = State::with(&instance, &line.state.server);
                assert_eq!(again.server, line.state.server, "case {case}");
                assert_eq!(again.placed, line.state.placed);
                children += usize::from(line.state.server != parents[own].server);
            }
        }
        assert!(children > 20, "{children}");
    }
}
