// SPDX-License-Identifier: GPL-3.0-or-later
//! The schedule of runs. It gets monotonic times from its caller, so that a jump of the clock
//! changes nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use phalanx_core::limits::COLLECTOR_BACKOFF_MS_MAX;
use phalanx_messages::collect::Registration;

/// Longest time until the first run of a new assignment.
const FIRST_MAX_MS: u64 = 30_000;
/// Variation of a period in both directions, in percent.
const JITTER_PERCENT: u64 = 5;
/// Least and greatest result of [`Schedule::gather`], in milliseconds.
const GATHER_MS: (u64, u64) = (200, 2_000);
/// Time after a run's timeout at which the run counts as lost.
const GRACE: Duration = Duration::from_secs(2);

/// An ended run.
#[derive(Debug, Clone)]
pub(super) struct Done {
    pub(super) registration: Registration,
    /// Number of consecutive failures before the run under way.
    pub(super) failures_before: u32,
}

#[derive(Debug)]
struct Instance {
    id: u64,
    registration: Registration,
    due: Instant,
    started: Option<Instant>,
    failures: u32,
    /// Number of consecutive failures before the latest run.
    failures_before: u32,
}

/// Assignments by name.
#[derive(Debug)]
pub(super) struct Schedule {
    instances: BTreeMap<String, Instance>,
    /// Name of the registration with each id.
    names: BTreeMap<u64, String>,
    next_id: u64,
    random: Xoshiro256PlusPlus,
}

/// Returns the extra pause after consecutive failures, in milliseconds: nothing after the first,
/// then one period, three, seven ...
pub(super) fn backoff_ms(every_ms: u64, failures: u32) -> u64 {
    let periods = (1_u64 << failures.saturating_sub(1).min(20)) - 1;
    every_ms.saturating_mul(periods).min(COLLECTOR_BACKOFF_MS_MAX)
}

impl Schedule {
    pub(super) fn new(seed: u64) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { instances: BTreeMap::new(), names: BTreeMap::new(), next_id: 1, random }
    }

    pub(super) fn len(&self) -> usize {
        self.instances.len()
    }

    /// Returns the start of the longest run under way.
    pub(super) fn running_since(&self) -> Option<Instant> {
        self.instances.values().filter_map(|instance| instance.started).min()
    }

    /// Returns the runs that have not ended although their time is over.
    pub(super) fn lost(&self, now: Instant) -> Vec<(u64, Duration)> {
        let lost = |i: &Instance| {
            let timeout = Duration::from_millis(i.registration.timeout_ms);
            i.started.is_some_and(|at| at + timeout + GRACE < now).then_some((i.id, timeout))
        };
        self.instances.values().filter_map(lost).collect()
    }

    /// Takes over the complete list of registrations; returns the ids of removed instances.
    pub(super) fn assign(&mut self, all: Vec<Registration>, now: Instant) -> Vec<u64> {
        let mut before = std::mem::take(&mut self.instances);
        let mut gone = Vec::new();
        for registration in all {
            let name = registration.name.clone();
            let instance = match before.remove(&name) {
                Some(old) if old.registration == registration => old,
                old => {
                    gone.extend(old.map(|old| old.id));
                    self.fresh(registration, now)
                }
            };
            self.instances.insert(name, instance);
        }
        gone.extend(before.into_values().map(|instance| instance.id));
        for id in &gone {
            self.names.remove(id);
        }
        gone
    }

    fn fresh(&mut self, registration: Registration, now: Instant) -> Instance {
        let id = self.next_id;
        self.next_id += 1;
        self.names.insert(id, registration.name.clone());
        let most = (registration.every_ms / 2).min(FIRST_MAX_MS);
        let due = now + Duration::from_millis(self.below(most));
        Instance { id, registration, due, started: None, failures: 0, failures_before: 0 }
    }

    fn below(&mut self, most: u64) -> u64 {
        self.random.next_u64() % (most + 1)
    }

    /// Returns a random time between half of `ms` and `ms`.
    pub(super) fn jitter(&mut self, ms: u64) -> u64 {
        ms - self.below(ms / 2)
    }

    /// Returns the time within which due runs are started together.
    pub(super) fn gather(&self) -> Duration {
        let shortest = self.instances.values().map(|i| i.registration.every_ms).min();
        let (least, most) = GATHER_MS;
        Duration::from_millis(shortest.map_or(most, |every| (every / 8).clamp(least, most)))
    }

    /// Returns the time at which the next run is due, among registrations that do not run at
    /// present.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let waiting = self.instances.values().filter(|instance| instance.started.is_none());
        waiting.map(|instance| instance.due).min()
    }

    /// Returns the registrations that are due and do not run.
    pub(super) fn due(&self, now: Instant) -> Vec<(u64, Registration)> {
        let waiting = self.instances.values().filter(|i| i.started.is_none() && i.due <= now);
        waiting.map(|instance| (instance.id, instance.registration.clone())).collect()
    }

    fn by_id(&mut self, id: u64) -> Option<&mut Instance> {
        self.instances.get_mut(self.names.get(&id)?)
    }

    pub(super) fn started(&mut self, id: u64, now: Instant) {
        if let Some(instance) = self.by_id(id) {
            instance.started = Some(now);
        }
    }

    /// Records an end and plans the next run; `None` for a run that no
    /// assignment needs any more, or that was given up before.
    pub(super) fn finished(&mut self, id: u64, now: Instant, failed: bool) -> Option<Done> {
        let random = self.random.next_u64();
        let instance = self.by_id(id)?;
        let started = instance.started.take()?;
        instance.failures_before = instance.failures;
        instance.failures = if failed { instance.failures.saturating_add(1) } else { 0 };
        let every = instance.registration.every_ms;
        let span = every * JITTER_PERCENT / 100;
        let period = every - span + random % (2 * span + 1);
        let extra = backoff_ms(every, instance.failures);
        // Missed runs are not made up for.
        let due = started + Duration::from_millis(period.saturating_add(extra));
        instance.due = due.max(now);
        let failures_before = instance.failures_before;
        Some(Done { registration: instance.registration.clone(), failures_before })
    }

    /// Records that a run that just finished has failed after all.
    pub(super) fn failed_late(&mut self, id: u64) {
        if let Some(instance) = self.by_id(id)
            && instance.failures == 0
        {
            instance.failures = instance.failures_before.saturating_add(1);
            let extra = backoff_ms(instance.registration.every_ms, instance.failures);
            instance.due += Duration::from_millis(extra);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn registration(name: &str, every_ms: u64) -> Registration {
        Registration { name: name.to_owned(), every_ms, ..Registration::default() }
    }

    /// Goal: a period between 95 % and 105 %, the first run within half of one; an assignment that
    /// is unchanged is not disturbed.
    #[test]
    fn periods_jitter_and_unchanged_assignments_stay() {
        let (mut schedule, start) = (Schedule::new(1), Instant::now());
        assert!(schedule.assign(vec![registration("a", 10_000)], start).is_empty());
        let mut now = schedule.next_due().unwrap();
        assert!(now - start <= Duration::from_secs(5));
        let (id, _) = schedule.due(now).remove(0);
        for _ in 0..100 {
            schedule.started(id, now);
            assert!(schedule.due(now + Duration::from_secs(60)).is_empty(), "runs once at a time");
            schedule.finished(id, now + Duration::from_millis(50), false).unwrap();
            let next = schedule.next_due().unwrap();
            let period = (next - now).as_millis();
            assert!((9_500..=10_500).contains(&period), "{period}");
            assert!(schedule.assign(vec![registration("a", 10_000)], now).is_empty());
            now = next;
        }
        assert_eq!(schedule.assign(vec![registration("a", 20_000)], now), [id]);
        assert_ne!(schedule.due(now + Duration::from_secs(10)).remove(0).0, id);
        assert!(schedule.finished(id, now, false).is_none(), "nobody wants the old run");
        assert_eq!(schedule.assign(Vec::new(), now).len(), 1);
    }

    #[test]
    fn failures_back_off_and_a_success_ends_that() {
        assert_eq!([0, 1, 2, 3, 4].map(|n| backoff_ms(1000, n)), [0, 0, 1000, 3000, 7000]);
        assert_eq!(backoff_ms(1000, u32::MAX), COLLECTOR_BACKOFF_MS_MAX);
        let (mut schedule, now) = (Schedule::new(2), Instant::now());
        schedule.assign(vec![registration("a", 1000)], now);
        let now = now + Duration::from_secs(1);
        let (id, _) = schedule.due(now).remove(0);
        let mut gaps = Vec::new();
        for failed in [true, true, true, false] {
            schedule.started(id, now);
            schedule.finished(id, now, failed).unwrap();
            gaps.push((schedule.next_due().unwrap() - now).as_millis() / 900);
        }
        assert_eq!(gaps, [1, 2, 4, 1]);
        schedule.started(id, now);
        schedule.finished(id, now, false).unwrap();
        schedule.failed_late(id);
        assert_eq!(schedule.by_id(id).unwrap().failures, 1);
    }

    /// Goal: a run whose end is never reported does not stop its registration.
    #[test]
    fn a_lost_run_is_noticed() {
        let (mut schedule, now) = (Schedule::new(3), Instant::now());
        schedule.assign(vec![registration("a", 1000)], now);
        let (id, _) = schedule.due(now + Duration::from_secs(1)).remove(0);
        schedule.started(id, now);
        assert!(schedule.lost(now + Duration::from_secs(6)).is_empty());
        assert_eq!(schedule.lost(now + Duration::from_secs(8))[0].0, id);
        assert!(schedule.finished(id, now, true).is_some());
        assert!(schedule.finished(id, now, false).is_none(), "its late end does not count");
    }
}
