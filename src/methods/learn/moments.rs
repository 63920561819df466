// SPDX-License-Identifier: GPL-3.0-or-later
//! Fading sums over the runs of one (job class, node) pair.

use super::Stat;

/// An ended run as an observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Seconds that the job ran, suspensions left out; above 0.
    pub seconds: f64,
    /// Work units that the run reported, if any; above 0.
    pub work: Option<f64>,
    /// Joules that the run took on all its nodes together, if known.
    pub joules: Option<f64>,
    /// End of the run, unix seconds.
    pub end_s: i64,
}

/// Weight, mean and spread of a stream of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Spread {
    /// Weight of all numbers.
    pub(super) count: f64,
    /// Mean of all numbers.
    pub(super) mean: f64,
    /// Sum of weighted squared deviations from the mean.
    pub(super) squares: f64,
}

impl Spread {
    pub(super) fn add(&mut self, value: f64, weight: f64) {
        self.count += weight;
        let off = value - self.mean;
        self.mean += weight / self.count * off;
        self.squares += weight * off * (value - self.mean);
    }

    pub(super) fn fade(&mut self, factor: f64) {
        self.count *= factor;
        self.squares *= factor;
    }

    /// Numbers beyond the first, which is what `squares` is about.
    pub(super) fn freedom(&self) -> f64 {
        (self.count - 1.0).max(0.0)
    }
}

/// Mean and spread of numbers of which old ones count less; see [`Moments`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Fading {
    pub(super) spread: Spread,
    newest_s: i64,
}

impl Fading {
    pub(super) fn add(&mut self, value: f64, end_s: i64, half_life_s: f64) {
        let newest_s = if self.spread.count > 0.0 { self.newest_s } else { end_s };
        let (kept, weight) = shares(newest_s, end_s, half_life_s);
        self.spread.fade(kept);
        self.spread.add(value, weight);
        self.newest_s = newest_s.max(end_s);
    }

    /// Weight of all as of `now_s`.
    pub(super) fn count(&self, now_s: i64, half_life_s: f64) -> f64 {
        self.spread.count * fading(now_s.saturating_sub(self.newest_s).max(0), half_life_s)
    }
}

/// Weights of all earlier runs, and of the run itself.
fn shares(newest_s: i64, end_s: i64, half_life_s: f64) -> (f64, f64) {
    if end_s >= newest_s {
        (fading(end_s.saturating_sub(newest_s), half_life_s), 1.0)
    } else {
        (1.0, fading(newest_s.saturating_sub(end_s), half_life_s))
    }
}

/// Exponentially weighted moments of a stream of runs.
///
/// A run counts `0.5^(age / half_life)`, its age taken from the newest run, so that the result
/// does not depend on the order in which runs arrive (but for rounding): an import of last month's
/// accounting weighs as much as if it had been learned last month.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moments {
    /// Seconds of a run, over all runs.
    seconds: Spread,
    /// Mean of 1 / seconds.
    rate: f64,
    /// Logarithm of 1 / seconds.
    log_rate: Spread,
    /// Logarithm of work units per second, of runs that reported work.
    log_work_rate: Spread,
    /// Weight of the runs that reported work.
    work_count: f64,
    /// Mean work units per second, of runs that reported work.
    work_rate: f64,
    /// Weight of the runs whose energy is known.
    energy_count: f64,
    /// Mean joules per second (watts), of runs with known energy.
    watts: f64,
    /// Unix seconds of the newest run.
    newest_s: i64,
    /// Number of runs, without regard to their age.
    runs: u64,
}

impl Moments {
    /// Adds a run; `half_life_s` is infinite for a memory that never fades.
    pub fn add(&mut self, run: &Observation, half_life_s: f64) {
        let newest_s = if self.runs == 0 { run.end_s } else { self.newest_s };
        let (kept, weight) = shares(newest_s, run.end_s, half_life_s);
        self.fade(kept);
        self.newest_s = newest_s.max(run.end_s);
        self.runs = self.runs.saturating_add(1);
        self.seconds.add(run.seconds, weight);
        self.rate += weight / self.seconds.count * (1.0 / run.seconds - self.rate);
        self.log_rate.add(-run.seconds.ln(), weight);
        if let Some(work) = run.work {
            self.work_count += weight;
            let part = weight / self.work_count;
            self.work_rate += part * (work / run.seconds - self.work_rate);
            self.log_work_rate.add((work / run.seconds).ln(), weight);
        }
        self.meter(run, weight);
    }

    /// Adds the energy, once it is known, of a run that was added before.
    pub fn add_energy(&mut self, run: &Observation, half_life_s: f64) {
        self.meter(run, fading(self.newest_s.saturating_sub(run.end_s), half_life_s));
    }

    fn meter(&mut self, run: &Observation, weight: f64) {
        if let Some(joules) = run.joules {
            self.energy_count += weight;
            let part = weight / self.energy_count;
            self.watts += part * (joules / run.seconds - self.watts);
        }
    }

    fn fade(&mut self, factor: f64) {
        self.seconds.fade(factor);
        self.log_rate.fade(factor);
        self.log_work_rate.fade(factor);
        self.work_count *= factor;
        self.energy_count *= factor;
    }

    /// Weight and mean speed as of `now_s`: work units per second if `by_work`, else runs per
    /// second.
    pub fn speed(&self, by_work: bool, now_s: i64, half_life_s: f64) -> Stat {
        let (count, mean) = if by_work {
            (self.work_count, self.work_rate)
        } else {
            (self.seconds.count, self.rate)
        };
        self.aged(count, mean, now_s, half_life_s)
    }

    /// Weight and mean seconds of a run as of `now_s`.
    pub fn seconds(&self, now_s: i64, half_life_s: f64) -> Stat {
        self.aged(self.seconds.count, self.seconds.mean, now_s, half_life_s)
    }

    /// Weight and mean watts of a run, of all its nodes together, as of `now_s`.
    pub fn watts(&self, now_s: i64, half_life_s: f64) -> Stat {
        self.aged(self.energy_count, self.watts, now_s, half_life_s)
    }

    /// Logarithm of the speed, of work units per second if `by_work`; not aged.
    pub(super) fn log_speed(&self, by_work: bool) -> &Spread {
        if by_work { &self.log_work_rate } else { &self.log_rate }
    }

    /// Difference of a run's logarithm of speed from the mean before it; `None` for the first of
    /// its kind.
    pub(super) fn beyond(&self, run: &Observation) -> Option<f64> {
        let known = |mean: &Spread, value: f64| (mean.count > 0.0).then_some(value - mean.mean);
        match run.work {
            Some(work) => known(&self.log_work_rate, (work / run.seconds).ln()),
            None => known(&self.log_rate, -run.seconds.ln()),
        }
    }

    fn aged(&self, count: f64, mean: f64, now_s: i64, half_life_s: f64) -> Stat {
        let count = count * fading(now_s.saturating_sub(self.newest_s).max(0), half_life_s);
        if count > 0.0 { Stat { count, mean } } else { Stat::default() }
    }

    /// Standard deviation of the seconds of a run; 0 for less than two.
    pub fn deviation(&self) -> f64 {
        if self.runs < 2 || self.seconds.count <= 0.0 {
            return 0.0;
        }
        (self.seconds.squares / self.seconds.count).max(0.0).sqrt()
    }

    /// Whether any run reported its work.
    pub fn has_work(&self) -> bool {
        self.work_count > 0.0
    }

    /// Number of runs, without regard to their age.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Unix seconds of the newest run.
    pub fn newest_s(&self) -> i64 {
        self.newest_s
    }
}

/// The part of a weight that is left after `age_s` seconds.
fn fading(age_s: i64, half_life_s: f64) -> f64 {
    if age_s <= 0 || !half_life_s.is_finite() {
        return 1.0;
    }
    // Ages are far below 2^53.
    let halves = age_s as f64 / half_life_s;
    0.5_f64.powf(halves)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: f64, end_s: i64) -> Observation {
        Observation { seconds, work: None, joules: None, end_s }
    }

    #[test]
    fn without_fading_these_are_plain_moments() {
        let mut m = Moments::default();
        for (seconds, end_s) in [(2.0, 50), (4.0, 10), (6.0, 30)] {
            m.add(&run(seconds, end_s), f64::INFINITY);
        }
        assert_eq!(m.seconds(99, f64::INFINITY), Stat { count: 3.0, mean: 4.0 });
        let rate = m.speed(false, 99, f64::INFINITY);
        assert!((rate.mean - (0.5 + 0.25 + 1.0 / 6.0) / 3.0).abs() < 1e-12);
        assert!((m.deviation() - (8.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(m.speed(true, 99, f64::INFINITY), Stat::default());
    }

    #[test]
    fn the_order_of_arrival_does_not_matter() {
        let runs = [run(2.0, 0), run(8.0, 100), run(3.0, 250), run(5.0, 90)];
        let fold = |order: &[usize]| {
            let mut m = Moments::default();
            order.iter().for_each(|&i| m.add(&runs[i], 100.0));
            (m.seconds(300, 100.0), m.deviation())
        };
        let (a, b) = (fold(&[0, 1, 2, 3]), fold(&[2, 3, 0, 1]));
        assert!((a.0.mean - b.0.mean).abs() < 1e-12 && (a.0.count - b.0.count).abs() < 1e-12);
        assert!((a.1 - b.1).abs() < 1e-9);
    }

    #[test]
    fn old_runs_fade() {
        let mut m = Moments::default();
        m.add(&run(10.0, 0), 100.0);
        m.add(&run(1.0, 300), 100.0);
        let stat = m.seconds(300, 100.0);
        assert!((stat.count - 1.125).abs() < 1e-12 && (stat.mean - 2.0).abs() < 1e-12);
        assert!((m.seconds(400, 100.0).count - 0.5625).abs() < 1e-12);
    }

    #[test]
    fn work_and_energy_have_weights_of_their_own() {
        let mut m = Moments::default();
        m.add(&run(10.0, 0), f64::INFINITY);
        let told = Observation { work: Some(50.0), joules: Some(900.0), ..run(10.0, 1) };
        m.add(&told, f64::INFINITY);
        assert_eq!(m.speed(true, 1, f64::INFINITY), Stat { count: 1.0, mean: 5.0 });
        assert_eq!(m.watts(1, f64::INFINITY), Stat { count: 1.0, mean: 90.0 });
    }
}
