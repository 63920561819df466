// SPDX-License-Identifier: GPL-3.0-or-later
//! Mode `best`: dual prices, greedy starts, then islands of local search with crossover.

use super::guide::Guide;
use super::instance::Instance;
use super::prices::{Dual, Prices};
use super::problem::{Options, Stopped};
use super::rework::{Limits, improve};
use super::rng::Stream;
use super::search::{Island, Mood};
use super::state::{Score, State, Taste};
use super::{branch, cuts, wages};
use rayon::prelude::*;
use std::borrow::Cow;
use std::time::Duration;

/// Islands, whatever the number of threads: the answer must not depend on it.
const ISLANDS: usize = 2;
/// Share of the time for prices and bound before the search starts.
const DUAL_TIME_SHARE: f64 = 0.1;
/// The same where prices come from sweeps.
const SWEEP_TIME_SHARE: f64 = 0.16;
/// The same for cuts, and with the descent on wages: with many servers; with few; where most of many
/// differ, and a pass of wages takes long.
const CUTS_TIME_SHARE: f64 = 0.02;
const WAGES_TIME_SHARE: f64 = 0.3;
const WAGES_FEW_TIME_SHARE: f64 = 0.2;
const WAGES_OWN_TIME_SHARE: f64 = 0.35;
/// Shortest deadline in seconds that leaves time for wages where servers are few.
const WAGES_FEW_LEAST_S: f64 = 0.3;
/// Shares of the time after which servers are no longer filled anew, and no longer reworked: with
/// few servers; with many; where tasks do not care where they run and the search adds little; where
/// most servers differ, and few tasks may change places.
const FEW_UNTIL: (f64, f64) = (0.4, 0.5);
const FEW_EQUAL_UNTIL: (f64, f64) = (0.2, 0.4);
const MANY_UNTIL: (f64, f64) = (0.45, 0.6);
const MANY_EQUAL_UNTIL: (f64, f64) = (0.45, 0.95);
const MANY_OWN_UNTIL: (f64, f64) = (0.4, 0.55);
const LISTED_UNTIL: (f64, f64) = (0.37, 0.4);
/// What they have at least where edges are listed and all before took longer.
const LISTED_LEAST: (f64, f64) = (0.05, 0.12);
/// Passes and repairs of one island without a deadline, servers of all its passes, and its passes
/// with one.
const PASSES_MAX: usize = 3;
const PASSES_TIMED_MAX: usize = 8;
const PASSES_SERVERS_MAX: usize = 40_000;
const REPAIRS_MAX: usize = 12;
/// Work of a pass by server, and of a repair with the reworks before it.
const PASS_WORK: u64 = 2_000;
const REPAIR_WORK: u64 = 500_000;
/// Most steps for prices, and the work after which they stop without a deadline.
const DUAL_STEPS_MAX: u64 = 600;
const DUAL_WORK_MAX: u64 = 1_500_000_000;
/// Work (servers looked at) of all islands without a deadline; some seconds.
const SEARCH_WORK_MAX: u64 = 120_000_000;
/// Rounds, between which islands exchange their best, of a search without a deadline.
const ROUNDS: u64 = 40;
/// Rounds between two exchanges among the islands.
const EXCHANGE_ROUNDS: u64 = 4;
/// Steps between two looks at the clock.
const CLOCK_STEPS: u32 = 8;
/// Rounds without improvement at the end after which a search counts as converged.
const STALE_ROUNDS: u64 = ROUNDS / 4;
/// Search nodes of the exact attempt on small problems.
const EXACT_NODES: u64 = 10_000;
/// Share of the time after which the exact attempt gives up.
const EXACT_TIME_SHARE: f64 = 0.3;
/// Temperatures at the start and the end, in mean job values.
const HEAT_START: f64 = 0.4;
const HEAT_END: f64 = 0.008;

/// Random numbers of the sweeps for prices.
const SWEEP_STREAM: usize = 1 << 6;
/// How much warmer it is where edges are listed.
const HEAT_LISTED: f64 = 4.0;
/// Jobs up to which the full temperature is used.
const HEAT_JOBS: f64 = 200.0;

/// What a mode hands back: servers by task, and what is known about them.
#[derive(Debug)]
pub(crate) struct Found {
    /// Internal server of each task, or `NONE`.
    pub(crate) server: Vec<u32>,
    /// Upper bound of [`Score::scalar`].
    pub(crate) bound: f64,
    pub(crate) proven: bool,
    pub(crate) generations: u64,
    pub(crate) stopped: Stopped,
}

/// Deadline as seen by one solve: total and remaining time.
#[derive(Clone, Copy)]
pub(crate) struct Clock<'a> {
    remaining: &'a (dyn Fn() -> Option<Duration> + Sync),
    total: Option<f64>,
}

impl<'a> Clock<'a> {
    pub(crate) fn new(remaining: &'a (dyn Fn() -> Option<Duration> + Sync)) -> Clock<'a> {
        Clock { remaining, total: remaining().map(|d| d.as_secs_f64()) }
    }

    /// Share of the time used, in [0, 1]; `None` without a deadline.
    pub(crate) fn used(&self) -> Option<f64> {
        let total = self.total?;
        let left = (self.remaining)().map_or(0.0, |d| d.as_secs_f64());
        Some(if total > 0.0 { (1.0 - left / total).clamp(0.0, 1.0) } else { 1.0 })
    }

    /// The time that is left, as a clock of its own.
    fn rest(&self) -> Clock<'a> {
        Clock::new(self.remaining)
    }

    /// There is a deadline.
    fn is_limited(&self) -> bool {
        self.total.is_some()
    }

    pub(crate) fn expired(&self) -> bool {
        self.used().is_some_and(|used| used >= 1.0)
    }

    /// True once `share` of the time is used; never without a deadline.
    pub(crate) fn past(&self, share: f64) -> bool {
        self.used().is_some_and(|used| used >= share.min(1.0))
    }
}

/// Descends on the bound towards `target` until done or out of time.
pub(crate) fn run_dual(
    instance: &Instance,
    dual: &mut Dual<'_>,
    target: f64,
    until: &dyn Fn() -> bool,
    steps: u64,
) {
    let cost = instance.opts.len() as u64 * instance.kinds as u64 + instance.tasks() as u64 + 1;
    let steps = steps.min(DUAL_WORK_MAX / cost + 8);
    for step in 0..steps {
        dual.step(target);
        if dual.is_done() || (step > 0 && until()) {
            break;
        }
    }
}

/// Greedy: all jobs by density.
pub(crate) fn greedy(instance: &Instance, guide: &Guide, tight: f32) -> State {
    let mut state = State::new(instance);
    let mut order: Vec<(f64, usize)> =
        (0..instance.jobs()).map(|job| (guide.density[job], job)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, job) in order {
        let before = state.score().scalar(instance);
        if state.insert_job(instance, guide, job, Taste { tight, window: None })
            && state.score().scalar(instance) <= before
        {
            state.remove_job(instance, job);
        }
    }
    state.rescore(instance);
    state
}

/// Prices by which the classical density greedy sorts: requests as shares of the cluster.
pub(crate) fn share_prices(instance: &Instance, theta: f64) -> Prices {
    let kinds = instance.kinds;
    let mut total = vec![0.0; kinds];
    for row in instance.capacity.chunks_exact(kinds) {
        for k in 0..kinds {
            total[k] += f64::from(row[k]) / instance.kind_scale[k];
        }
    }
    let share: Vec<f64> = total.iter().map(|t| if *t > 0.0 { 1.0 / t } else { 0.0 }).collect();
    let lambda = share.iter().copied().cycle().take(instance.zones * kinds).collect();
    Prices { lambda, theta, bound: f64::INFINITY }
}

fn better(instance: &Instance, a: State, b: State) -> State {
    if b.score().beats(&a.score(), instance) { b } else { a }
}

/// Greedy starts, prices, and the best start found.
pub(crate) struct Start<'a> {
    /// The one given, or with cuts.
    pub(crate) instance: Cow<'a, Instance>,
    pub(crate) guide: Guide,
    pub(crate) state: State,
    pub(crate) prices: Prices,
    /// What prices or wages prove; the tree search needs what the prices prove by themselves.
    pub(crate) bound: f64,
    /// Wages by type, where they prove more than the prices.
    wage: Option<Vec<f64>>,
}

impl<'a> Start<'a> {
    pub(crate) fn new(
        instance: &'a Instance,
        options: &Options<'_>,
        clock: Clock<'_>,
    ) -> Start<'a> {
        let mut dual = Dual::new(instance);
        let density = Guide::new(instance, &share_prices(instance, dual.theta()));
        let mut state = greedy(instance, &density, 0.1);
        if let Some(warm) = warm_state(instance, options) {
            state = better(instance, state, warm);
        }
        // A share of its own: in a large cluster the greedy start alone takes longer.
        let begun = clock.used().unwrap_or(0.0);
        let target = state.score().scalar(instance);
        let swept = instance.various && !branch::fits(instance);
        let share = if swept { SWEEP_TIME_SHARE } else { DUAL_TIME_SHARE };
        let until = || clock.past(begun + share * 0.5);
        if swept {
            let spent = || clock.used().map_or(0.0, |used| (used - begun) / (share * 0.5));
            dual.sweep(target, &mut Stream::new(options.seed, SWEEP_STREAM), &spent);
        } else if !branch::fits(instance) {
            dual.scan(target, &until);
        }
        run_dual(instance, &mut dual, target, &until, DUAL_STEPS_MAX / 2);
        let mut guide = Guide::new(instance, &dual.best);
        state = better(instance, state, greedy(instance, &guide, 0.1));
        if !clock.past(share) {
            let until = || clock.past(share);
            dual.rewind(0.1);
            run_dual(
                instance,
                &mut dual,
                state.score().scalar(instance),
                &until,
                DUAL_STEPS_MAX / 2,
            );
            guide = Guide::new(instance, &dual.best);
            state = better(instance, state, greedy(instance, &guide, 0.02));
        }
        let (bound, instance) = (dual.proved(), Cow::Borrowed(instance));
        let prices = dual.best.clone();
        let mut start = Start { instance, guide, state, prices, bound, wage: None };
        if !start.instance.edges.are_listed() {
            start.cut(&mut dual, clock);
        }
        start.add_wages(options, clock);
        start
    }

    /// Goes on with cuts where they prove more.
    fn cut(&mut self, dual: &mut Dual<'_>, clock: Clock<'_>) {
        let begun = clock.used().unwrap_or(0.0);
        let until = || clock.past(begun + CUTS_TIME_SHARE);
        let target = self.state.score().scalar(&self.instance);
        let Some((wider, prices)) = cuts::widen(&self.instance, dual, target, &until) else {
            return;
        };
        let guide = Guide::new(&wider, &prices);
        let mut state = State::new(&wider);
        state.adopt(&wider, &self.state.server);
        state.rescore(&wider);
        self.state = better(&wider, state, greedy(&wider, &guide, 0.02));
        self.bound = self.bound.min(prices.bound);
        (self.guide, self.prices, self.instance) = (guide, prices, Cow::Owned(wider));
    }

    /// Descends on wages where that proves more; the prices keep guiding the search.
    fn add_wages(&mut self, options: &Options<'_>, clock: Clock<'_>) {
        let instance = &*self.instance;
        let few = instance.few;
        let own = !few && instance.own_classes();
        let wages_share = match (few, own) {
            (true, _) => WAGES_FEW_TIME_SHARE,
            (false, true) => WAGES_OWN_TIME_SHARE,
            (false, false) => WAGES_TIME_SHARE,
        };
        let short = few && clock.total.is_some_and(|total| total < WAGES_FEW_LEAST_S);
        if short || !wages::pays(instance) || clock.past(wages_share) {
            return;
        }
        let begin = clock.used().unwrap_or(0.0);
        let share = (wages_share - begin).max(1e-9);
        let used = || clock.used().map(|used| (used - begin) / share);
        let guide = (&self.guide, &self.prices);
        if let Some((bound, wage)) = wages::descend(instance, guide, options.seed, &used)
            && bound < self.bound
        {
            self.bound = bound;
            self.wage = Some(wage);
        }
    }
}

fn warm_state(instance: &Instance, options: &Options<'_>) -> Option<State> {
    if options.warm_start.is_empty() {
        return None;
    }
    let mut server = vec![super::instance::NONE; instance.tasks()];
    for (job, given) in options.warm_start.iter().enumerate().take(instance.jobs()) {
        let range = instance.job_tasks(job);
        if given.len() == range.len() {
            for (task, input) in range.zip(given) {
                let found = instance.internal_of.get(*input as usize);
                server[task] = found.copied().unwrap_or(super::instance::NONE);
            }
        }
    }
    let mut state = State::new(instance);
    state.adopt(instance, &server);
    Some(state)
}

/// No assignment can be better than `score`, up to rounding.
fn closes(instance: &Instance, bound: f64, score: &Score) -> bool {
    let value = score.scalar(instance);
    bound - value <= 4e-9 * value.abs().max(1e-3)
}

pub(crate) fn solve(instance: &Instance, options: &Options<'_>, clock: Clock<'_>) -> Found {
    let start = Start::new(instance, options, clock);
    let (instance, state, prices) = (&*start.instance, &start.state, &start.prices);
    let mut found = Found {
        server: state.server.clone(),
        bound: start.bound,
        proven: false,
        generations: 0,
        stopped: Stopped::Converged,
    };
    if closes(instance, start.bound, &state.score()) {
        found.proven = true;
        return found;
    }
    if branch::fits(instance) {
        let stop = || clock.past(EXACT_TIME_SHARE);
        let tree = branch::search(instance, prices, &state.score(), EXACT_NODES, &stop);
        if tree.complete {
            found.proven = true;
            found.server = tree.server.unwrap_or(found.server);
            found.generations = tree.nodes;
            return found;
        }
    }
    search(&start, options, clock, &mut found);
    found
}

/// Runs the islands round by round; reductions go by island number.
fn search(start: &Start<'_>, options: &Options<'_>, clock: Clock<'_>, found: &mut Found) {
    let (instance, guide) = (&*start.instance, &start.guide);
    let limits = limits(start, options, clock);
    let mut islands: Vec<Island> = (0..ISLANDS)
        .into_par_iter()
        .map(|i| {
            let fills = Stream::new(options.seed, ISLANDS + i);
            let guide = (guide, &start.prices);
            let wage = start.wage.as_deref();
            let filled = improve(instance, guide, wage, &start.state, fills, &limits);
            Island::new(instance, Stream::new(options.seed, i), &filled)
        })
        .collect();
    let mut shared_score = start.state.score();
    for island in &islands {
        if island.best_score.beats(&shared_score, instance) {
            shared_score = island.best_score;
            found.server.copy_from_slice(&island.best);
        }
    }
    let clock = clock.rest();
    let mut stale = 0;
    let own = 200_000 + 4_000 * (instance.tasks() * instance.servers.min(64)) as u64;
    let share = ROUNDS * ISLANDS as u64;
    let work_round = options.work_max.unwrap_or(SEARCH_WORK_MAX.min(own * share)) / share + 1;
    for round in 0..ROUNDS {
        islands.par_iter_mut().for_each(|island| {
            run_round(instance, guide, island, round, work_round, clock);
        });
        found.generations += ISLANDS as u64;
        let mut improved = false;
        for island in &islands {
            if island.best_score.beats(&shared_score, instance) {
                shared_score = island.best_score;
                found.server.copy_from_slice(&island.best);
                improved = true;
            }
        }
        stale = if improved { 0 } else { stale + 1 };
        if closes(instance, found.bound, &shared_score) {
            found.proven = true;
            return;
        }
        if clock.expired() {
            found.stopped = Stopped::Deadline;
            return;
        }
        if round % EXCHANGE_ROUNDS == EXCHANGE_ROUNDS - 1 {
            let mut shared = State::new(instance);
            shared.adopt(instance, &found.server);
            // The first island keeps its own line; the others cross theirs with the best.
            for island in &mut islands[1..] {
                let own = island.best.clone();
                island.restart_from(instance, &shared, shared_score);
                island.cross(instance, guide, &own);
            }
        }
    }
    if stale < STALE_ROUNDS {
        found.stopped = Stopped::Limit;
    }
}

/// How long islands fill and rework before they search.
fn limits<'a>(start: &Start<'_>, options: &Options<'_>, clock: Clock<'a>) -> Limits<'a> {
    let instance = &*start.instance;
    let servers = instance.servers.max(1);
    // Half of the work of each island.
    let work = options.work_max.map(|work| work / (2 * ISLANDS as u64));
    let most = |limit: usize, cost: u64| {
        work.map_or(limit, |work| limit.min(usize::try_from(work / 2 / cost).unwrap_or(limit)))
    };
    let choosy = start.guide.choosy.contains(&true);
    let (passes_until, repairs_until) = match (!instance.few, choosy) {
        (false, true) => FEW_UNTIL,
        (false, false) => FEW_EQUAL_UNTIL,
        (true, true) if instance.edges.are_listed() => {
            let used = clock.used().unwrap_or(0.0);
            let until = |share: f64, least: f64| share.max(used + least);
            (until(LISTED_UNTIL.0, LISTED_LEAST.0), until(LISTED_UNTIL.1, LISTED_LEAST.1))
        }
        (true, true) if instance.own_classes() => MANY_OWN_UNTIL,
        (true, true) => MANY_UNTIL,
        (true, false) => MANY_EQUAL_UNTIL,
    };
    Limits {
        clock,
        passes: if clock.is_limited() {
            PASSES_TIMED_MAX
        } else {
            most(PASSES_MAX.min(PASSES_SERVERS_MAX / servers).max(1), PASS_WORK * servers as u64)
        },
        passes_until,
        repairs: if clock.is_limited() { usize::MAX } else { most(REPAIRS_MAX, REPAIR_WORK) },
        repairs_until,
        long: !instance.few && !choosy,
    }
}

fn run_round(
    instance: &Instance,
    guide: &Guide,
    island: &mut Island,
    round: u64,
    work_max: u64,
    clock: Clock<'_>,
) {
    let end = island.state.work + work_max;
    let mut progress = round as f64 / ROUNDS as f64;
    // Many jobs leave few steps for each, too few to make good what a warm start would lose.
    let cool = (HEAT_JOBS / instance.jobs().max(1) as f64).min(1.0);
    let warm = if instance.edges.are_listed() { HEAT_LISTED } else { 1.0 };
    let mut steps = 0_u32;
    while island.state.work < end {
        steps += 1;
        if steps % CLOCK_STEPS == 1
            && let Some(used) = clock.used()
        {
            if used * ROUNDS as f64 >= (round + 1) as f64 {
                return;
            }
            progress = progress.max(used);
        }
        let heat = warm * cool * HEAT_START * (HEAT_END / HEAT_START).powf(progress);
        island.step(instance, guide, Mood { heat });
    }
}
