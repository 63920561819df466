// SPDX-License-Identifier: GPL-3.0-or-later
//! Times for which slots stand idle between two jobs although some wait, which Slurm's scheduler
//! and slurmd need between an end and the next start.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use phalanx_core::number::{as_f64, nearest_u64};

/// Longest pause between two jobs: a slot that is idle for longer waits for something else.
const PAUSE_MAX_MS: u64 = 30_000;
/// Number of pauses with equal weight; beyond this number older ones fade.
const ALIKE: f64 = 10.0;
/// Most ends that are remembered for each node.
const ENDS_MAX: usize = 256;

/// An idle time that ended with a start; if the started job waited during it, the time is a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// End of the previous job, unix milliseconds.
    since_ms: u64,
    /// Length of the idle time, milliseconds.
    for_ms: u64,
}

/// Ends without a start after them, by node, and the mean pause.
#[derive(Debug, Default)]
pub struct IdleTimes {
    ends: BTreeMap<Arc<str>, VecDeque<u64>>,
    mean_ms: f64,
    /// Number of pauses seen, up to [`ALIKE`].
    seen: f64,
}

impl IdleTimes {
    /// Records that a job of one node ended there.
    pub fn ended(&mut self, node: &Arc<str>, at_ms: u64) {
        let ends = self.ends.entry(Arc::clone(node)).or_default();
        ends.push_back(at_ms);
        if ends.len() > ENDS_MAX {
            ends.pop_front();
        }
    }

    /// Records that a job of one node starts there; returns the idle time that ends with it.
    pub fn started(&mut self, node: &Arc<str>, at_ms: u64) -> Option<Idle> {
        let ends = self.ends.get_mut(node)?;
        ends.retain(|end_ms| end_ms.saturating_add(PAUSE_MAX_MS) >= at_ms);
        let since_ms = ends.pop_front()?;
        Some(Idle { since_ms, for_ms: at_ms.saturating_sub(since_ms) })
    }

    /// Counts an idle time as a pause if the job that ended it was submitted before it began.
    pub fn seen(&mut self, idle: Idle, submit_s: i64) {
        let submit_ms = nearest_u64(submit_s).saturating_add(1).saturating_mul(1000);
        if submit_ms > idle.since_ms {
            return;
        }
        self.seen = (self.seen + 1.0).min(ALIKE);
        self.mean_ms += (as_f64(idle.for_ms) - self.mean_ms) / self.seen;
    }

    /// Returns the mean pause, seconds; 0 where no pause was seen.
    pub fn mean_s(&self) -> f64 {
        self.mean_ms / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_jobs_that_waited_count() {
        let (mut times, node) = (IdleTimes::default(), Arc::from("n1"));
        assert_eq!(times.started(&node, 5_000), None);
        times.ended(&node, 10_000);
        times.ended(&node, 10_400);
        let first = times.started(&node, 11_000);
        assert_eq!(first, Some(Idle { since_ms: 10_000, for_ms: 1_000 }));
        first.into_iter().for_each(|idle| times.seen(idle, 3));
        assert_eq!(times.mean_s(), 1.0);
        // Came when the slot was idle already; and an end of long ago.
        times.started(&node, 12_000).into_iter().for_each(|idle| times.seen(idle, 11));
        times.ended(&node, 13_000);
        assert_eq!((times.mean_s(), times.started(&node, 99_000)), (1.0, None));
        times.ended(&node, 100_000);
        times.started(&node, 102_000).into_iter().for_each(|idle| times.seen(idle, 11));
        assert!((times.mean_s() - 1.5).abs() < 1e-12);
    }

    #[test]
    fn one_long_pause_is_soon_outvoted() {
        let (mut times, node) = (IdleTimes::default(), Arc::from("n1"));
        for (end_s, for_s) in (0..40).map(|n| (1_000 + 50 * n, if n == 0 { 20 } else { 1 })) {
            times.ended(&node, end_s * 1000);
            let idle = times.started(&node, (end_s + for_s) * 1000);
            idle.into_iter().for_each(|idle| times.seen(idle, 3));
            let most = if end_s < 1_500 { 20.0 } else { 3.0 };
            assert!(times.mean_s() <= most, "{} after {end_s}", times.mean_s());
        }
        assert!(times.mean_s() < 1.15, "{}", times.mean_s());
    }
}
