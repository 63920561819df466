// SPDX-License-Identifier: GPL-3.0-or-later
//! Reworks of filled servers: a few are emptied and filled again with the best patterns of their
//! tasks and of some open ones.
//!
//! Between two repairs gangs may be incomplete, so that single tasks find their place before the
//! gangs that lack most are dropped.

use super::best::Clock;
use super::fill::Filler;
use super::guide::Guide;
use super::instance::{Instance, NONE, narrow};
use super::prices::Prices;
use super::rng::Stream;
use super::state::State;

/// Reworks between two repairs: so many by server, within these bounds, the last one where they are
/// far apart; in a large cluster one for so many servers.
const TRIES_PER_SERVER: usize = 2;
const TRIES_MIN: usize = 32;
const TRIES_MAX: usize = 400;
const TRIES_MANY_MAX: usize = 1_500;
const TRIES_SERVERS: usize = 4;
/// Reworks between two looks at the clock and at what is open.
const TOP_UP_TRIES: usize = 32;
/// Open tasks, as a part of the priced cluster.
const OPEN_SHARE: f64 = 0.05;
/// Gangs looked at to open enough.
const DRAWS_MAX: usize = 64;
/// Servers of one rework: two and up to so many more.
const WIDTH: usize = 3;
/// Servers drawn for one that should be badly filled; where repairs are far apart.
const DRAWS: usize = 4;
const DRAWS_MANY: usize = 6;
/// How much more the tasks of nearly complete gangs count at the last rework before a repair.
const PRESS: f64 = 1.0;
/// How often that is set between two repairs, about.
const PULLS: usize = 16;
/// A repaired state that is worse by no more than this part is gone on from.
const NEAR: f64 = 0.003;
/// Step of the wages, as a part of a task's mean price, and its decay from pass to pass.
const STEP: f64 = 0.05;
const STEP_DECAY: f64 = 0.9;

/// How long an island fills and reworks.
#[derive(Clone, Copy)]
pub(crate) struct Limits<'a> {
    pub(crate) clock: Clock<'a>,
    /// Most passes, and the share of the time after which they end, but for the first.
    pub(crate) passes: usize,
    pub(crate) passes_until: f64,
    /// Most repairs, and the share of the time after which reworks end.
    pub(crate) repairs: usize,
    pub(crate) repairs_until: f64,
    /// Many servers, and no task cares on which it runs: repairs are far apart, and gangs pull.
    pub(crate) long: bool,
}

/// Best of some passes and reworks, or `start` when none beats it.
///
/// `wage` by type: where the passes begin to learn; none = from `prices`.
pub(crate) fn improve(
    instance: &Instance,
    guide: (&Guide, &Prices),
    wage: Option<&[f64]>,
    start: &State,
    rng: Stream,
    limits: &Limits<'_>,
) -> State {
    let mut best = start.clone();
    if limits.passes == 0 || limits.clock.past(limits.repairs_until) {
        return best;
    }
    let mut filler = Filler::new(instance, guide, wage, rng);
    let mut step = STEP;
    for pass in 0..limits.passes {
        // Reworks make more of one whole pass than of none.
        let until = if pass == 0 { limits.repairs_until } else { limits.passes_until };
        if !filler.pass(&|| limits.clock.past(until)) {
            break;
        }
        filler.learn(step);
        step *= STEP_DECAY;
        filler.close();
        filler.keep(&mut best);
    }
    mend(filler, &mut best, limits);
    best
}

/// Reworks and repairs until the limits.
fn mend(mut filler: Filler<'_>, best: &mut State, limits: &Limits<'_>) {
    let servers = filler.instance.servers;
    let expired = || limits.clock.past(limits.repairs_until);
    filler.restart(best);
    filler.aim_at_worth();
    let room: f64 = (0..servers).map(|s| filler.room(s)).sum();
    let (tries_max, draws, press, near) = match limits.long {
        true => (TRIES_MANY_MAX, DRAWS_MANY, PRESS, NEAR),
        false => (TRIES_MAX, DRAWS, 0.0, 0.0),
    };
    let tries = (servers * TRIES_PER_SERVER).clamp(TRIES_MIN, tries_max);
    let tries = tries.max(servers / TRIES_SERVERS);
    let stride = (tries / (TOP_UP_TRIES * PULLS)).max(1);
    let mut scratch = Scratch::default();
    for _ in 0..limits.repairs {
        for at in 0..tries {
            if at % TOP_UP_TRIES == 0 {
                if expired() {
                    break;
                }
                filler.top_up(OPEN_SHARE * room);
                if (at / TOP_UP_TRIES).is_multiple_of(stride) {
                    filler.set_pull(press * at as f64 / tries as f64);
                }
            }
            filler.rework(&mut scratch, draws);
        }
        filler.set_pull(0.0);
        filler.close();
        filler.keep_near(best, near);
        if expired() {
            break;
        }
    }
}

/// A task and where it was.
#[derive(Debug, Clone, Copy)]
struct Saved {
    task: u32,
    server: u32,
    option: u32,
}

#[derive(Debug, Default)]
struct Scratch {
    servers: Vec<u32>,
    saved: Vec<Saved>,
}

impl Filler<'_> {
    fn restart(&mut self, from: &State) {
        self.state.copy_from(from);
        self.forget_open();
    }

    /// Opens pending gangs, dense ones more often, until tasks of this price are open.
    fn top_up(&mut self, wanted: f64) {
        for _ in 0..DRAWS_MAX {
            if self.pool >= wanted || self.order.is_empty() {
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

    /// Empties a few servers and fills them again; keeps what is not worse.
    fn rework(&mut self, scratch: &mut Scratch, draws: usize) {
        self.draw_servers(&mut scratch.servers, draws);
        scratch.saved.clear();
        let mut before = 0.0;
        for server in &scratch.servers {
            before += self.empty_server(*server as usize, &mut scratch.saved);
        }
        before -= 1e-12;
        let mut after = 0.0;
        for (at, server) in scratch.servers.iter().enumerate() {
            // The last one is not worth a search when it cannot make good what the others lost.
            let last = at + 1 == scratch.servers.len();
            let least = if last { before - after - 1e-12 * before.abs() } else { 0.0 };
            after += self.fill_for_worth(*server, least);
        }
        if after >= before {
            return;
        }
        let given_up = scratch.saved.len();
        for server in &scratch.servers {
            self.empty_server(*server as usize, &mut scratch.saved);
        }
        scratch.saved.truncate(given_up);
        for Saved { task, server, option } in &scratch.saved {
            self.close_task(*task);
            self.state.put(self.instance, *task as usize, *server, *option as usize);
        }
        self.tidy();
    }

    /// Some different servers; half of them badly filled ones.
    fn draw_servers(&mut self, servers: &mut Vec<u32>, draws: usize) {
        servers.clear();
        let all = self.instance.servers;
        let count = (2 + self.rng.below(WIDTH + 1)).min(all);
        for at in 0..count {
            let draws = if at < count.div_ceil(2) { draws } else { 1 };
            let mut best = (f64::NEG_INFINITY, 0);
            for _ in 0..draws {
                let server = self.rng.below(all);
                let unused = self.unused(server);
                if unused > best.0 {
                    best = (unused, narrow(server));
                }
            }
            if !servers.contains(&best.1) {
                servers.push(best.1);
            }
        }
        self.rng.shuffle(servers);
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
            self.open_task(task, 1.0);
        }
    }
}
