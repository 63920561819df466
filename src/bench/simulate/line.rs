// SPDX-License-Identifier: GPL-3.0-or-later
//! Waiting jobs by rank.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use phalanx_planner::order::Rank;

/// Jobs by rank; jobs that have waited too long come before all others.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranked {
    ranks: BTreeMap<u32, Rank>,
    young: BTreeSet<(Rank, u32)>,
    old: BTreeSet<u32>,
    arrivals: VecDeque<(i64, u32)>,
}

impl Ranked {
    /// Adds a job that arrives; ids grow with arrival.
    pub(super) fn push(&mut self, id: u32, rank: Rank, submit_s: i64) {
        self.ranks.insert(id, rank);
        self.young.insert((rank, id));
        self.arrivals.push_back((submit_s, id));
    }

    /// A job started.
    pub(super) fn remove(&mut self, id: u32) {
        if let Some(rank) = self.ranks.remove(&id) {
            self.young.remove(&(rank, id));
            self.old.remove(&id);
        }
    }

    /// Gives a waiting job another rank.
    pub(super) fn revise(&mut self, id: u32, rank: Rank) {
        let Some(slot) = self.ranks.get_mut(&id) else { return };
        let before = std::mem::replace(slot, rank);
        if self.young.remove(&(before, id)) {
            self.young.insert((rank, id));
        }
    }

    /// Lets no other job pass one that has waited for `guard_s`.
    pub(super) fn age(&mut self, now_s: i64, guard_s: i64) {
        while let Some(&(submit_s, id)) = self.arrivals.front() {
            if now_s.saturating_sub(submit_s) < guard_s {
                return;
            }
            self.arrivals.pop_front();
            if let Some(rank) = self.ranks.get(&id) {
                self.young.remove(&(*rank, id));
                self.old.insert(id);
            }
        }
    }

    /// Jobs in their order; first come jobs that may be passed no more.
    pub(super) fn order(&self) -> impl Iterator<Item = u32> {
        self.old.iter().copied().chain(self.young.iter().map(|(_, id)| *id))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }
}
