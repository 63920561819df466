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

/// Fewest reworks between two repairs; on larger clusters one per server, because a repair takes
/// time in proportion to the servers.
const TRIES_MIN: usize = 64;
/// Size of the open tasks, as a part of the cluster's size.
const OPEN_SHARE: f64 = 0.05;
/// Most servers of one rework beyond two; each takes a pattern search.
const MORE_SERVERS: usize = 3;
/// Servers drawn for each that should be badly filled.
const DRAWS: usize = 4;
/// Step of the price corrections, as a part of a task's mean size, and its decay by pass.
const STEP: f64 = 0.05;
const STEP_DECAY: f64 = 0.9;

/// Most passes over all servers; the corrections of later ones are ever smaller.
pub const PASSES_MAX: usize = 6;
/// Repairs without a deadline.
const REPAIRS_MAX: usize = 12;

impl Filler<'_> {
    /// Returns the best of some passes and reworks, or `start` when none beats it. Passes but for
    /// the first end at a share of the time: reworks make more of one whole pass than of none.
    pub fn improve(
        &mut self,
        (start, passes_max): (&State, usize),
        clock: Clock<'_>,
        passes_share: f64,
    ) -> State {
        let mut best = start.clone();
        let mut step = STEP;
        let passes = clock.until(passes_share);
        for pass in 0..passes_max {
            if !self.pass(if pass == 0 { clock } else { passes }) {
                break;
            }
            self.correct_prices(step);
            step *= STEP_DECAY;
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
        let tries = servers.max(TRIES_MIN);
        let mut drawn = Vec::new();
        let mut saved = Vec::new();
        let repairs = if clock.is_limited() { usize::MAX } else { REPAIRS_MAX };
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

    /// Keeps the state in `best` if it is better, else restores it from `best`.
    fn keep(&mut self, best: &mut State) {
        if self.state.score().beats(&best.score(), self.instance) {
            best.copy_from(&self.state);
        } else {
            self.state.copy_from(best);
        }
    }

    /// Opens pending gangs, dense ones more often, until open tasks have a total size.
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
                self.open_job(job, 1.0);
            }
        }
    }

    /// Empties a few servers and fills them again; keeps a result that is not worse.
    fn rework(&mut self, drawn: &mut Vec<u32>, saved: &mut Vec<Saved>) {
        self.draw_servers(drawn);
        saved.clear();
        let mut before = 0.0;
        for server in drawn.iter() {
            before += self.empty_server(*server as usize, saved);
        }
        before -= 1e-12;
        let mut after = 0.0;
        for (at, server) in drawn.iter().enumerate() {
            // The last one is not worth a search when it cannot make good what the others lost.
            let last = at + 1 == drawn.len();
            let least = if last { before - after - 1e-12 * before.abs() } else { 0.0 };
            after += self.fill_for_worth(*server, least);
        }
        if after >= before {
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

    /// Draws some different servers, half of which are badly filled.
    fn draw_servers(&mut self, drawn: &mut Vec<u32>) {
        drawn.clear();
        let all = self.instance.servers;
        let count = (2 + self.rng.below(MORE_SERVERS + 1)).min(all);
        for at in 0..count {
            let draws = if at < count.div_ceil(2) { DRAWS } else { 1 };
            let mut best = (f64::NEG_INFINITY, 0);
            for _ in 0..draws {
                let server = self.rng.below(all);
                let unused = self.unused(server);
                if unused > best.0 {
                    best = (unused, narrow(server));
                }
            }
            if !drawn.contains(&best.1) {
                drawn.push(best.1);
            }
        }
        self.rng.shuffle(drawn);
    }

    /// Takes all tasks off a server and marks them open; returns their gain.
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
            self.open_task(task, 1.0);
        }
    }
}
