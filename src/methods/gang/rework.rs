// SPDX-License-Identifier: GPL-3.0-or-later
//! Reworks of filled servers: a few are emptied and filled again with the best patterns of their
//! tasks and of some open ones.
//!
//! Between two repairs gangs may be incomplete, so that single tasks find their place before the
//! gangs that lack most are dropped.

use super::clock::{Clock, READ_EVERY};
use super::fill::Filler;
use super::instance::{NONE, narrow};
use super::state::{Saved, State};

/// Size of open tasks during reworks, as a share of the cluster's.
const OPEN_SHARE: f64 = 0.05;
/// Largest number of servers of one rework; the smallest is two.
const SERVERS_MAX: usize = 5;
/// Servers drawn for one that should be badly filled.
const DRAWS: usize = 4;
/// First step of the price corrections, as a share of a task's mean size; later ones are shorter.
const STEP: f64 = 0.05;
/// Largest number of passes over all servers, and of repairs without a deadline.
const ROUNDS_MAX: usize = 8;

impl Filler<'_> {
    /// Best of some passes and reworks, or `start` when none beats it. Passes but for the first end
    /// at this share of the time: reworks make more of one whole pass than of none.
    pub fn improve(&mut self, start: &State, clock: Clock<'_>, passes_share: f64) -> State {
        let mut best = start.clone();
        let passes = clock.until(passes_share);
        let mut step = STEP;
        for pass in 0..ROUNDS_MAX {
            if !self.pass(if pass == 0 { clock } else { passes }) {
                break;
            }
            self.correct_prices(step);
            step *= 0.9;
            self.complete();
            self.keep(&mut best);
        }
        self.mend(&mut best, clock);
        best
    }

    /// Reworks and repairs until time is up.
    fn mend(&mut self, best: &mut State, clock: Clock<'_>) {
        let servers = self.instance.servers;
        self.mend_from(best);
        let all: f64 = (0..servers).map(|s| self.server_size(s)).sum();
        // A repair takes time by the size of the cluster; so many reworks are worth it.
        let tries = servers.max(4 * READ_EVERY);
        let mut drawn = Vec::new();
        let mut saved = Vec::new();
        let repairs = if clock.is_limited() { usize::MAX } else { ROUNDS_MAX };
        for _ in 0..repairs {
            for at in 0..tries {
                if at % READ_EVERY == 0 {
                    if clock.expired() {
                        break;
                    }
                    self.open_more(OPEN_SHARE * all);
                }
                self.rework(&mut drawn, &mut saved);
            }
            self.complete();
            self.keep(best);
            if clock.expired() {
                break;
            }
        }
    }

    /// Keeps the state in `best` if it is better, else goes back to that.
    fn keep(&mut self, best: &mut State) {
        if self.state.score().beats(&best.score(), self.instance) {
            best.clone_from(&self.state);
        } else {
            self.state.clone_from(best);
        }
    }

    /// Opens pending gangs, dense ones more often, until tasks of this size are open.
    fn open_more(&mut self, wanted: f64) {
        for _ in 0..2 * READ_EVERY {
            if self.open_size >= wanted || self.order.is_empty() {
                return;
            }
            let at = self.rng.below(self.order.len()).min(self.rng.below(self.order.len()));
            let job = self.order[at] as usize;
            let known = self.instance.job_tasks(job).any(|task| {
                let ty = self.instance.task_type[task] as usize;
                self.state.server[task] != NONE || self.open[ty].contains(&narrow(task))
            });
            if !known {
                self.open_job(job);
            }
        }
    }

    /// Empties a few servers and fills them again; keeps what is not worse.
    fn rework(&mut self, drawn: &mut Vec<u32>, saved: &mut Vec<Saved>) {
        self.draw_servers(drawn);
        saved.clear();
        let mut before = 0.0;
        for server in drawn.iter() {
            before += self.empty_server(*server as usize, saved);
        }
        let after: f64 = drawn.iter().map(|server| self.fill_for_worth(*server)).sum();
        if after >= before - 1e-12 * before.abs() {
            return;
        }
        let given_up = saved.len();
        for server in drawn.iter() {
            self.empty_server(*server as usize, saved);
        }
        saved.truncate(given_up);
        for Saved { task, server, option } in saved.iter() {
            self.close_task(*task);
            self.state.put(self.instance, *task as usize, *server, *option as usize);
        }
        self.drop_closed_types();
    }

    /// Draws some different servers, the first two of them badly filled.
    fn draw_servers(&mut self, drawn: &mut Vec<u32>) {
        drawn.clear();
        for at in 0..2 + self.rng.below(SERVERS_MAX - 1) {
            let draw = |_| self.rng.below(self.instance.servers);
            let some: Vec<usize> = (0..if at < 2 { DRAWS } else { 1 }).map(draw).collect();
            let unused = |a: &usize, b: &usize| self.unused(*a).total_cmp(&self.unused(*b));
            let server = some.into_iter().max_by(unused).map_or(0, narrow);
            if !drawn.contains(&server) {
                drawn.push(server);
            }
        }
        self.rng.shuffle(drawn);
    }

    /// Takes all tasks off a server and opens them; returns their gain.
    fn empty_server(&mut self, server: usize, saved: &mut Vec<Saved>) -> f64 {
        let instance = self.instance;
        let mut gain = 0.0;
        loop {
            let task = self.state.first_task(server);
            if task == NONE {
                return gain;
            }
            let option = self.state.option[task as usize];
            saved.push(Saved { task, server: narrow(server), option });
            let job = instance.job_of[task as usize] as usize;
            if self.state.is_placed(job) {
                self.state.mark(instance, job, false);
            }
            gain += self.gain(instance.task_type[task as usize] as usize, option as usize);
            self.state.take(instance, task as usize);
            self.open_task(task);
        }
    }
}
