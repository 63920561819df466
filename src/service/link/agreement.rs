// SPDX-License-Identifier: GPL-3.0-or-later
//! Agreement of the mirror with what slurmctld says when it is polled.
//!
//! Polls and events come at different times, so a difference counts only when it lasts while
//! neither side changes. Then the plugin is asked for its whole state. What still differs after
//! that the mirror does not cause: it is counted, and nobody asks again because of it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use phalanx_planner::usage::NodeUsage;

/// Looks without a change that a difference must last. Polls of nodes may be 10 s old.
const LOOKS: u32 = 5;
/// First and longest time between two requests for the whole state.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// Time without a request after which the first pause applies again.
const CALM: Duration = Duration::from_secs(2 * 3600);
/// Most nodes that are named in a log line.
const NAMED_MAX: usize = 8;

/// CPUs and memory in use on one node, according to one side.
type Used = (u64, u64);

/// Differences that one comparison of mirror and poll finds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// Number of nodes that differ for so long that it counts.
    pub differing: u64,
    /// Nodes for which the whole state is to be asked for: index, use by mirror, use by poll.
    pub repair: Vec<(usize, Used, Used)>,
    /// Nodes that a whole state did not put right, each reported once, as in `repair`.
    pub unrepaired: Vec<(usize, Used, Used)>,
}

/// State that is kept from comparison to comparison.
#[derive(Debug)]
pub struct Agreement {
    /// Nodes that differ: both sides, and the number of looks since they last changed.
    differing: BTreeMap<usize, (Used, Used, u32)>,
    /// Differences that a whole state was asked for.
    asked: BTreeMap<usize, (Used, Used)>,
    /// Differences that a whole state did not put right.
    unrepaired: BTreeMap<usize, (Used, Used)>,
    pause: Duration,
    last: Option<Instant>,
}

impl Default for Agreement {
    fn default() -> Self {
        Self {
            differing: BTreeMap::new(),
            asked: BTreeMap::new(),
            unrepaired: BTreeMap::new(),
            pause: PAUSE.0,
            last: None,
        }
    }
}

impl Agreement {
    /// Compares mirror and poll, node by node in the same order. Cores that gang scheduling gives
    /// to two jobs are in use once: the mirror holds the sum, slurmctld tells the cores.
    pub fn look(
        &mut self,
        mirror: &[NodeUsage],
        polled: &[NodeUsage],
        memory_tracked: bool,
        now: Instant,
    ) -> Look {
        let used = |usage: &NodeUsage| -> Used {
            (usage.cpus.in_use(), if memory_tracked { usage.memory_mb.in_use() } else { 0 })
        };
        let mut fresh = BTreeMap::new();
        for (at, (ours, theirs)) in mirror.iter().zip(polled).enumerate() {
            let (ours, theirs) = (used(ours), used(theirs));
            if ours != theirs {
                let looks = match self.differing.get(&at) {
                    Some((a, b, looks)) if (*a, *b) == (ours, theirs) => looks + 1,
                    _ => 1,
                };
                fresh.insert(at, (ours, theirs, looks));
            }
        }
        self.differing = fresh;
        // What changed since may be repaired again.
        let same = |at: &usize, pair: &mut (Used, Used)| {
            self.differing.get(at).is_some_and(|(a, b, _)| (*a, *b) == *pair)
        };
        self.unrepaired.retain(same);
        let mut found = Look::default();
        let lasting = self.differing.iter().filter(|(_, (_, _, looks))| *looks >= LOOKS);
        for (&at, &(ours, theirs, looks)) in lasting {
            found.differing += 1;
            let pair = (ours, theirs);
            if self.unrepaired.contains_key(&at) {
                continue;
            }
            if self.asked.get(&at) == Some(&pair) {
                // The state that was asked for has come by now.
                if looks >= 2 * LOOKS {
                    self.asked.remove(&at);
                    self.unrepaired.insert(at, pair);
                    found.unrepaired.push((at, ours, theirs));
                }
            } else {
                found.repair.push((at, ours, theirs));
            }
        }
        self.ask(&mut found, now);
        found.repair.truncate(NAMED_MAX);
        found.unrepaired.truncate(NAMED_MAX);
        found
    }

    /// Clears `found.repair` unless it is time to ask for the whole state.
    fn ask(&mut self, found: &mut Look, now: Instant) {
        let since = self.last.map(|last| now.saturating_duration_since(last));
        if since.is_some_and(|since| since >= CALM) {
            self.pause = PAUSE.0;
        }
        if found.repair.is_empty() || since.is_some_and(|since| since < self.pause) {
            found.repair.clear();
            return;
        }
        if self.last.replace(now).is_some() {
            self.pause = (2 * self.pause).min(PAUSE.1);
        }
        self.asked = found.repair.iter().map(|&(at, a, b)| (at, (a, b))).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_planner::usage::Level;

    fn usages(cpus: &[u64]) -> Vec<NodeUsage> {
        let level = |used| Level { total: 10_000, used };
        let usage = |&used| NodeUsage { cpus: level(used), ..NodeUsage::default() };
        cpus.iter().map(usage).collect()
    }

    #[test]
    fn only_a_lasting_difference_is_repaired() {
        let (mut agreement, start) = (Agreement::default(), Instant::now());
        let mut look = |second: u64, mirror: &[u64], polled: &[u64]| {
            let now = start + Duration::from_secs(second);
            agreement.look(&usages(mirror), &usages(polled), true, now)
        };
        for second in 0..100 {
            // Jobs come and go, and the poll is late.
            let found = look(second, &[second, 0], &[second.saturating_sub(3), 0]);
            assert_eq!(found, Look::default(), "{second}");
        }
        for second in 100..104 {
            assert_eq!(look(second, &[4, 2], &[4, 0]), Look::default());
        }
        let found = look(104, &[4, 2], &[4, 0]);
        assert_eq!((found.differing, found.repair), (1, vec![(1, (2, 0), (0, 0))]));
        // The whole state has put it right.
        assert_eq!(look(105, &[4, 0], &[4, 0]), Look::default());
    }

    /// Goal: memory counts exactly where Slurm tracks it.
    #[test]
    fn memory_differs_only_where_it_is_tracked() {
        let mut other = usages(&[2]);
        other[0].memory_mb = Level { total: 1000, used: 500 };
        let differing = |tracked| {
            let (mut agreement, start) = (Agreement::default(), Instant::now());
            let look = |second| {
                let now = start + Duration::from_secs(second);
                agreement.look(&usages(&[2]), &other, tracked, now).differing
            };
            (0..10).map(look).max()
        };
        assert_eq!((differing(true), differing(false)), (Some(1), Some(0)));
    }

    /// Goal: jobs that gang scheduling runs in turn on the same cores are no difference. Method: a
    /// suspended job beside the job in its place, on a node as large as each.
    #[test]
    fn cores_that_gang_scheduling_shares_are_in_use_once() {
        let (mut mirror, mut polled) = (usages(&[8]), usages(&[4]));
        for level in [&mut mirror[0].cpus, &mut polled[0].cpus] {
            level.total = 4;
        }
        let (mut agreement, start) = (Agreement::default(), Instant::now());
        for second in 0..20 {
            let now = start + Duration::from_secs(second);
            assert_eq!(agreement.look(&mirror, &polled, true, now), Look::default());
        }
        polled[0].cpus.used = 3;
        let mut look = |second| {
            agreement.look(&mirror, &polled, true, start + Duration::from_secs(second)).differing
        };
        assert_eq!((20..30).map(&mut look).max(), Some(1));
    }

    #[test]
    fn what_cannot_be_repaired_is_asked_for_once() {
        let (mut agreement, start) = (Agreement::default(), Instant::now());
        let (mut asked, mut said) = (0, 0);
        for second in 0..1000 {
            let now = start + Duration::from_secs(second);
            let found = agreement.look(&usages(&[2]), &usages(&[1]), true, now);
            asked += found.repair.len();
            said += found.unrepaired.len();
        }
        assert_eq!((asked, said), (1, 1));
        let now = start + Duration::from_secs(1001);
        let found = agreement.look(&usages(&[2]), &usages(&[1]), true, now);
        assert_eq!((found.differing, found.repair.len()), (1, 0));
    }

    #[test]
    fn requests_are_ever_rarer() {
        let (mut agreement, start) = (Agreement::default(), Instant::now());
        let mut times = Vec::new();
        for second in 0..2000_u64 {
            let now = start + Duration::from_secs(second);
            // A node that is wrong in another way each ten looks.
            let found = agreement.look(&usages(&[2 + second / 10]), &usages(&[1]), true, now);
            times.extend((!found.repair.is_empty()).then_some(second));
        }
        assert!((5..15).contains(&times.len()), "{times:?}");
    }
}
