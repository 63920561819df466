// SPDX-License-Identifier: GPL-3.0-or-later
//! Forecasts of starts: a pool is run forward many times from its present state.
//!
//! In each draw jobs run as long as their predictions times what recent runs of their users were of
//! theirs, longer than they have run already; jobs arrive as on an earlier day at the same hour.
//! What the model leaves out (reservations, what users do when they wait) makes real starts scatter
//! more than draws: the end of a forecast is scaled so that lately nine in ten starts of forecasts
//! of like length came by theirs: first ones of jobs, later ones and those of each user.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::easy::{Easy, Request};
use super::rank::Rank;
use phalanx_core::number::{as_f64, as_u32, nearest_i64, nearest_u64, nearest_usize, whole};
use phalanx_core::random::Stream;

/// Most arrivals, and ratios of runtimes to predictions, that are kept; the oldest go first.
const ARRIVALS_MAX: usize = 20_000;
const RATIOS_MAX: usize = 1_000;
/// Most ratios of one user that are kept, and the number from which on they count alone.
const OWN_MAX: usize = 50;
const OWN_MIN: usize = 10;
/// Users whose ratios are kept.
const USERS_MAX: usize = 20_000;
/// Most ratios drawn until one is long enough for a job that runs already.
const RATIO_TRIES: usize = 16;
/// Jobs behind the first one that backfill looks at.
const DEPTH: usize = 500;
const DAY_S: i64 = 86_400;
/// Shortest forecast that is scaled, seconds: the interval at which Slurm looks.
const SHORTEST_S: i64 = 30;
/// Classes of lengths, each four times as long as the one before.
const LENGTHS: usize = 8;
/// Share of starts that come before the end of their forecast.
const SHARE: f64 = 0.9;
/// Number of scales: for each class of lengths one for a job's first forecast and one for later
/// ones.
const SCALES: usize = 2 * LENGTHS;
/// Logarithms of the first scale of an end, and of the least and the greatest scale.
const SCALE: f64 = 1.2;
const SCALE_MAX: f64 = 5.0;
/// Greatest change of a scale's logarithm by a user's own error, either way.
const OWN_SCALE_MAX: f64 = 1.5;
/// Step by which the logarithms of scales move after each start.
const STEP: f64 = 0.1;

/// A job of a pool as the forecast begins; waiting jobs are in Slurm's order.
#[derive(Debug, Clone, Copy)]
pub struct Ahead {
    /// Request of the job; the rank does not count.
    pub job: Request,
    /// Number of its user.
    pub user: u64,
    /// Predicted runtime, seconds.
    pub mean_s: f64,
    /// Time for which the job has run; `None`: the job waits.
    pub ran_s: Option<u64>,
}

/// A forecast: seconds from now until the start, which comes by the middle as often as not, and by
/// the end nine times in ten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Middle of the forecast, seconds.
    pub median_s: i64,
    /// End of the forecast, seconds.
    pub by_s: i64,
}

/// A job that arrived.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    at_s: i64,
    pool: u32,
    job: Request,
    user: u64,
    mean_s: f64,
}

/// Inputs of the forecasts of starts, and the errors of earlier ones.
#[derive(Debug, Clone)]
pub struct Forecasts {
    arrivals: VecDeque<Arrival>,
    ratios: VecDeque<f64>,
    /// Ratios by user.
    own: BTreeMap<u64, VecDeque<f64>>,
    /// Logarithms of the scales.
    scales: [f64; SCALES],
    /// Addends to the common scales, by user.
    own_scales: BTreeMap<u64, f64>,
    /// User of each job, and the end, Unix seconds, of its first forecast under each scale; `None`:
    /// the forecast has been judged.
    told: BTreeMap<u32, (u64, BTreeMap<usize, Option<i64>>)>,
}

impl Default for Forecasts {
    fn default() -> Self {
        Self {
            arrivals: VecDeque::new(),
            ratios: VecDeque::new(),
            own: BTreeMap::new(),
            scales: [SCALE; SCALES],
            own_scales: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }
}

impl Forecasts {
    /// Records that a job arrived in a pool.
    pub fn arrived(&mut self, at_s: i64, pool: u32, job: Request, user: u64, mean_s: f64) {
        keep(&mut self.arrivals, Arrival { at_s, pool, job, user, mean_s }, ARRIVALS_MAX);
    }

    /// Learns how the runtime of a job that ended compares with the predicted mean.
    pub fn ended(&mut self, user: u64, mean_s: f64, run_s: u64) {
        let ratio = as_f64(run_s.max(1)) / mean_s.max(1.0);
        keep(&mut self.ratios, ratio, RATIOS_MAX);
        if self.own.len() < USERS_MAX || self.own.contains_key(&user) {
            keep(self.own.entry(user).or_default(), ratio, OWN_MAX);
        }
    }

    /// Judges the forecasts of a job that started.
    pub fn started(&mut self, id: u32, now_s: i64) {
        self.judge(id, now_s, true);
        self.told.remove(&id);
    }

    /// Judges the forecasts of a job that starts, or is still waiting.
    fn judge(&mut self, id: u32, now_s: i64, starts: bool) {
        let Some((user, ends)) = self.told.get_mut(&id) else { return };
        for (at, end) in ends {
            let Some(scale) = self.scales.get_mut(*at) else { continue };
            let late = end.is_some_and(|by_s| by_s < now_s);
            if end.is_some() && (late || starts) {
                let step = STEP * if late { SHARE } else { SHARE - 1.0 };
                *scale = (*scale + step).clamp(-SCALE_MAX, SCALE_MAX);
                if self.own_scales.len() < USERS_MAX || self.own_scales.contains_key(user) {
                    let own = self.own_scales.entry(*user).or_default();
                    *own = (*own + step).clamp(-OWN_SCALE_MAX, OWN_SCALE_MAX);
                }
                *end = None;
            }
        }
    }

    /// Drops the forecasts of jobs that `waits` does not accept.
    pub fn retain(&mut self, waits: impl Fn(u32) -> bool) {
        self.told.retain(|id, _| waits(*id));
    }

    /// Forecasts the starts of the waiting jobs of a pool by Monte Carlo runs, until there are
    /// enough runs or `time_is_up`.
    pub fn of_pool(
        &mut self,
        now_s: i64,
        (pool, total): (u32, u64),
        jobs: &[Ahead],
        draws: usize,
        time_is_up: &dyn Fn() -> bool,
    ) -> BTreeMap<u32, Start> {
        let mut starts: Vec<Vec<i64>> = vec![Vec::new(); jobs.len()];
        for number in 0..draws {
            if number > 1 && time_is_up() {
                break;
            }
            Draw::new(self, now_s, pool, number).run(total, jobs, &mut starts);
        }
        let mut found = BTreeMap::new();
        for (ahead, starts) in jobs.iter().zip(&mut starts) {
            let id = ahead.job.id;
            let Some(median_s) = share_of(starts, 0.5).filter(|_| !found.contains_key(&id)) else {
                continue;
            };
            self.judge(id, now_s, false);
            let (user, ends) = self.told.entry(id).or_insert((ahead.user, BTreeMap::new()));
            let at = class_of(median_s) + if ends.is_empty() { 0 } else { LENGTHS };
            let own = self.own_scales.get(user).copied().unwrap_or(0.0);
            let scale = (self.scales.get(at).copied().unwrap_or(SCALE) + own).exp();
            let by_s = as_f64(share_of(starts, SHARE).unwrap_or(0).max(SHORTEST_S).unsigned_abs());
            let by_s = nearest_i64(whole(by_s * scale)).max(median_s);
            ends.entry(at).or_insert(Some(now_s.saturating_add(by_s)));
            found.insert(id, Start { median_s, by_s });
        }
        found
    }
}

fn keep<T>(list: &mut VecDeque<T>, value: T, most: usize) {
    list.push_back(value);
    if list.len() > most {
        list.pop_front();
    }
}

/// The number below which a share of a list lies.
fn share_of(list: &mut [i64], share: f64) -> Option<i64> {
    list.sort_unstable();
    let place = whole((as_f64(list.len() as u64) * share).floor());
    list.get(nearest_usize(place)).copied()
}

/// The class of a forecast's length.
fn class_of(seconds: i64) -> usize {
    let ratio = (seconds / SHORTEST_S).max(1).ilog2() / 2;
    (ratio as usize).min(LENGTHS - 1)
}

/// One draw of how runtimes and arrivals may go.
struct Draw<'a> {
    of: &'a Forecasts,
    /// Arrivals from an earlier time at the present hour on, and how far back that is.
    arrivals: Vec<&'a Arrival>,
    shift_s: i64,
    now_s: i64,
    random: Stream,
}

impl<'a> Draw<'a> {
    fn new(of: &'a Forecasts, now_s: i64, pool: u32, number: usize) -> Self {
        let mut random = Stream::new(now_s.unsigned_abs().wrapping_add(number as u64));
        let span_s = of.arrivals.front().map_or(0, |first| now_s - first.at_s);
        let days = nearest_usize(nearest_u64(span_s / DAY_S));
        let shift_s = match i64::try_from(random.below(days) + 1) {
            Ok(day) if days > 0 => day * DAY_S,
            _ => span_s,
        };
        let behind = of.arrivals.partition_point(|arrival| arrival.at_s <= now_s - shift_s);
        let arrivals = of.arrivals.range(behind..).filter(|arrival| arrival.pool == pool);
        Self { of, arrivals: arrivals.collect(), shift_s, now_s, random }
    }

    /// Draws the runtime of a job, longer than the job has run already.
    fn run_s(&mut self, ahead: &Ahead) -> u64 {
        let (ran_s, limit_s) = (ahead.ran_s.unwrap_or(0), ahead.job.limit_s.max(1));
        let own = self.of.own.get(&ahead.user).filter(|own| own.len() >= OWN_MIN);
        let ratios = own.unwrap_or(&self.of.ratios);
        for _ in 0..RATIO_TRIES {
            let ratio = ratios.get(self.random.below(ratios.len()));
            let run_s = whole(ahead.mean_s * ratio.copied().unwrap_or(1.0)).clamp(1, limit_s);
            if run_s > ran_s {
                return run_s;
            }
        }
        let left_s = as_f64(limit_s.saturating_sub(ran_s));
        ran_s + whole(left_s * self.random.unit()).max(1)
    }

    /// The `number`-th arrival from the present on: the time until it, and the job.
    fn arrival(&self, number: usize) -> Option<(i64, &'a Arrival)> {
        let round = number.checked_div(self.arrivals.len()).filter(|_| number < ARRIVALS_MAX)?;
        let arrival = *self.arrivals.get(number % self.arrivals.len())?;
        let later_s = self.shift_s.saturating_mul(nearest_i64(round as u64) + 1);
        Some((arrival.at_s.saturating_add(later_s) - self.now_s, arrival))
    }

    /// Runs the pool until all waiting jobs have started; adds the start of each.
    fn run(mut self, total: u64, jobs: &[Ahead], starts: &mut [Vec<i64>]) {
        let mut pool = Easy::new(total, DEPTH);
        let mut ends: BinaryHeap<Reverse<(i64, u32)>> = BinaryHeap::new();
        let end_s = |now_s: i64, run_s: u64| now_s.saturating_add_unsigned(run_s);
        let (mut runs, mut waiting) = (Vec::new(), 0);
        for (id, ahead) in (0..).zip(jobs) {
            let run_s = self.run_s(ahead);
            let (ran_s, rank) = (ahead.ran_s.unwrap_or(0), Rank::ARRIVAL);
            let limit_s = ahead.job.limit_s.saturating_sub(ran_s).max(1);
            let job = Request { id, limit_s, rank, ..ahead.job };
            runs.push(run_s);
            if ahead.ran_s.is_some() {
                pool.start(&job, 0);
                ends.push(Reverse((end_s(0, run_s - ran_s), id)));
            } else if job.size <= total {
                pool.submit(job);
                waiting += 1;
            }
        }
        let (mut now_s, mut come, mut started) = (0, 0, Vec::new());
        while waiting > 0 {
            while let Some(&Reverse((_, id))) = ends.peek().filter(|next| next.0.0 <= now_s) {
                ends.pop();
                pool.finish(id);
            }
            while let Some((_, next)) = self.arrival(come).filter(|(at_s, _)| *at_s <= now_s) {
                let id = as_u32(runs.len());
                pool.submit(Request { id, rank: Rank::ARRIVAL, ..next.job });
                let ahead =
                    Ahead { job: next.job, user: next.user, mean_s: next.mean_s, ran_s: None };
                runs.push(self.run_s(&ahead));
                come += 1;
            }
            pool.pass(now_s, &mut started);
            for id in started.drain(..) {
                let run_s = runs.get(id as usize).copied().unwrap_or(1);
                ends.push(Reverse((end_s(now_s, run_s), id)));
                if let Some(starts) = starts.get_mut(id as usize) {
                    starts.push(now_s);
                    waiting -= 1;
                }
            }
            let next_s = self.arrival(come).map(|(at_s, _)| at_s);
            let end_s = ends.peek().map(|Reverse((end_s, _))| *end_s);
            let Some(next_s) = next_s.into_iter().chain(end_s).min() else { return };
            now_s = next_s.max(now_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead(id: u32, size: u64, seconds: u64, ran_s: Option<u64>) -> Ahead {
        let job = Request { id, size, limit_s: seconds, rank: Rank::ARRIVAL };
        Ahead { job, user: 1, mean_s: as_f64(seconds), ran_s }
    }

    fn medians(of: &mut Forecasts, now_s: i64, jobs: &[Ahead]) -> Vec<(u32, i64)> {
        let found = of.of_pool(now_s, (0, 10), jobs, 9, &|| false);
        found.into_iter().map(|(id, start)| (id, start.median_s)).collect()
    }

    /// Goal: the pool is run forward from how it is. Method: one job has 70 s left, the first in
    /// line is to wait for it, the next for both, and another passes; then jobs come as they did a
    /// day before, of which one fits beside the first in line and holds up the next.
    #[test]
    fn what_runs_waits_and_comes_decides() {
        let jobs = [
            ahead(1, 6, 100, Some(30)),
            ahead(2, 8, 50, None),
            ahead(3, 9, 50, None),
            ahead(4, 2, 60, None),
            ahead(5, 11, 60, None),
        ];
        let mut forecasts = Forecasts::default();
        let (day_s, now_s) = (DAY_S, 2 * DAY_S - 20);
        assert_eq!(medians(&mut forecasts, now_s, &jobs), [(2, 70), (3, 120), (4, 0)]);
        let came = ahead(9, 2, 1000, None);
        forecasts.arrived(day_s - 30, 0, came.job, 1, came.mean_s);
        forecasts.arrived(day_s - 10, 1, came.job, 1, came.mean_s);
        assert_eq!(medians(&mut forecasts, now_s, &jobs[..4])[1], (3, 120), "in another pool");
        forecasts.arrived(day_s - 10, 0, came.job, 1, came.mean_s);
        assert_eq!(medians(&mut forecasts, now_s, &jobs[..4])[1], (3, 1010));
    }

    /// Goal: a drawn runtime is one of the user's, but longer than the job has run already.
    #[test]
    fn runs_are_drawn_from_the_users() {
        let mut forecasts = Forecasts::default();
        (0..20).for_each(|at| forecasts.ended(1 + at % 2, 100.0, 20 + at % 2 * 30));
        let runs = |ran_s| [ahead(1, 6, 100, Some(ran_s)), ahead(2, 8, 50, None)];
        assert_eq!(medians(&mut forecasts, 0, &runs(5)), [(2, 15)]);
        let late = medians(&mut forecasts, 0, &runs(30));
        assert!((1..=70).contains(&late[0].1), "longer than any run: until its limit, {late:?}");
        let stranger = runs(30).map(|of| Ahead { user: 7, ..of });
        assert_eq!(medians(&mut forecasts, 0, &stranger), [(2, 20)], "as any user's");
    }

    /// Goal: nine in ten jobs start by the end of their first forecast, nine in ten by that of a
    /// later one, and so do each user's. Method: two forecasts for a job; jobs of one user wait
    /// longer.
    #[test]
    fn nine_in_ten_come_by_each_end_and_for_each_user() {
        let (mut forecasts, mut random) = (Forecasts::default(), Stream::new(5));
        let mut covered = [[0; 2]; 2];
        for id in 1..=4000_u32 {
            let (now_s, user) = (i64::from(id) * 10_000, u64::from(id % 2));
            let jobs = [ahead(0, 6, 100, Some(0)), Ahead { user, ..ahead(id, 8, 50, None) }];
            let factor = if user == 0 { 2.0 } else { 8.0 };
            let wait_s = i64::try_from(whole(100.0 * (1.0 + random.unit() * factor))).unwrap();
            for (later, asked_s) in [now_s, now_s + 90].into_iter().enumerate() {
                let by_s = forecasts.of_pool(asked_s, (0, 10), &jobs, 3, &|| false)[&id].by_s;
                let comes = asked_s + by_s >= now_s + wait_s;
                covered[usize::from(user == 1)][later] += u32::from(comes);
            }
            forecasts.started(id, now_s + wait_s);
        }
        let [[a, b], [c, d]] = covered;
        let near = |count: u32| (3550..=3650).contains(&count);
        assert!([a + b, c + d, a + c, b + d].into_iter().all(near), "{covered:?}");
    }

    /// Goal: nine in ten starts come by the end of their forecasts, however far the draws are off.
    /// Method: starts at up to 8 times the middle, judged as they come or are overdue.
    #[test]
    fn nine_in_ten_come_by_the_end() {
        let (mut forecasts, mut random, mut covered) = (Forecasts::default(), Stream::new(5), 0);
        for id in 1..=2000 {
            let now_s = i64::from(id) * 10_000;
            let jobs = [ahead(0, 6, 100, Some(0)), ahead(id, 8, 50, None)];
            let by_s = forecasts.of_pool(now_s, (0, 10), &jobs, 3, &|| false)[&id].by_s;
            let wait_s = i64::try_from(whole(100.0 * (random.unit() * 8.0))).unwrap();
            covered += u32::from(wait_s <= by_s);
            if id % 3 == 0 && wait_s > by_s {
                forecasts.of_pool(now_s + by_s + 1, (0, 10), &jobs, 3, &|| false);
            }
            forecasts.started(id, now_s + wait_s);
        }
        assert!((1770..=1830).contains(&covered), "{covered}");
        assert!(forecasts.told.is_empty());
    }
}
