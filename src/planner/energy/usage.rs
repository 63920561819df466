// SPDX-License-Identifier: GPL-3.0-or-later
//! Energy and cost of jobs that ran.

use super::price::DayPrices;
use phalanx_core::number::as_f64;

/// Seconds of one step of a [`PriceClock`]: time zones differ by whole quarters of an hour.
const STEP_S: i64 = 900;
/// Joules of a kilowatt hour.
const KWH: f64 = 3.6e6;

/// Mean prices of periods of time.
#[derive(Debug, Clone, Default)]
pub struct PriceClock {
    from_s: i64,
    to_s: i64,
    /// Sum of the prices of the steps before each one.
    sums: Vec<f64>,
}

impl PriceClock {
    /// Covers the time between two unix seconds; `hour_of` returns the hour of the day of one.
    pub fn new(prices: &DayPrices, from_s: i64, to_s: i64, hour_of: &dyn Fn(i64) -> usize) -> Self {
        let from_s = from_s.div_euclid(STEP_S) * STEP_S;
        let mut sums = vec![0.0];
        let (mut at_s, mut sum) = (from_s, 0.0);
        while at_s < to_s {
            sum += prices.at(hour_of(at_s));
            sums.push(sum);
            at_s += STEP_S;
        }
        Self { from_s, to_s: at_s, sums }
    }

    /// The part of a period that lies within, in unix seconds; `None` where none does.
    pub fn within(&self, from_s: i64, to_s: i64) -> Option<(i64, i64)> {
        let (from_s, to_s) = (from_s.max(self.from_s), to_s.min(self.to_s));
        (from_s < to_s).then_some((from_s, to_s))
    }

    /// Mean price of a period, of what lies within.
    pub fn mean(&self, from_s: i64, to_s: i64) -> f64 {
        let Some((from_s, to_s)) = self.within(from_s, to_s) else { return 0.0 };
        let seconds = |s: i64| as_f64(s.unsigned_abs());
        (self.until(to_s) - self.until(from_s)) * seconds(STEP_S) / seconds(to_s - from_s)
    }

    /// Sum of the prices of all steps up to a time.
    fn until(&self, at_s: i64) -> f64 {
        let passed = (at_s - self.from_s).max(0);
        let step = usize::try_from(passed / STEP_S).unwrap_or(usize::MAX);
        let before = self.sums.get(step).or(self.sums.last()).copied().unwrap_or(0.0);
        let after = self.sums.get(step.saturating_add(1)).copied().unwrap_or(before);
        before
            + (after - before) * as_f64((passed % STEP_S).unsigned_abs())
                / as_f64(STEP_S.unsigned_abs())
    }
}

/// A job that ran, or runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ran {
    /// Start of the job, unix seconds.
    pub start_s: i64,
    /// End of the job, unix seconds; now while it runs.
    pub end_s: i64,
    /// Seconds that it ran, suspensions left out.
    pub elapsed_s: f64,
    /// CPUs of the job on all nodes.
    pub cpus: u64,
    /// Energy of its nodes as measured.
    pub joules: Option<f64>,
}

/// Energy of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    /// Whether its energy is known; else that is 0 here.
    pub known: bool,
    /// Kilowatt hours, its nodes' idle power by its share included.
    pub kwh: f64,
    /// Cost of the energy at the prices of the hours in which it was used.
    pub cost: f64,
    /// Hours times CPUs.
    pub cpu_hours: f64,
    /// Whether the energy was measured, not computed.
    pub measured: bool,
}

/// The energy of a job within the clock's time: what was measured, else the power of its full
/// nodes, in either case by its share of their CPUs. Nodes come with their CPUs and their power
/// when full; without them CPU hours alone are known. `None`: none of its time lies within.
pub fn used(ran: &Ran, nodes: Option<&[(u64, f64)]>, clock: &PriceClock) -> Option<Used> {
    let (from_s, to_s) = clock.within(ran.start_s, ran.end_s.max(ran.start_s + 1))?;
    let whole = (ran.end_s - ran.start_s).max(1);
    let part = as_f64((to_s - from_s).unsigned_abs()) / as_f64(whole.unsigned_abs());
    let all: u64 = nodes.unwrap_or_default().iter().map(|(cpus, _)| *cpus).sum();
    let share = if all > ran.cpus && ran.cpus > 0 { as_f64(ran.cpus) / as_f64(all) } else { 1.0 };
    let watts = || Some(nodes?.iter().map(|(_, watts)| watts).sum::<f64>());
    let joules = match ran.joules {
        Some(joules) => Some(joules * share),
        None => watts().map(|watts| watts * share * ran.elapsed_s),
    };
    let kwh = joules.unwrap_or(0.0) * part / KWH;
    Some(Used {
        known: joules.is_some(),
        kwh,
        cost: kwh * clock.mean(from_s, to_s),
        cpu_hours: as_f64(ran.cpus) * ran.elapsed_s * part / 3600.0,
        measured: ran.joules.is_some(),
    })
}
