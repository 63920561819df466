// SPDX-License-Identifier: GPL-3.0-or-later
//! Slurm's plan of the future in one pass of backfill: stretches of time with the nodes that no
//! waiting job of higher priority has reserved in them (`node_space` of `backfill.c`).

use phalanx_core::NodeSet;

/// Rounds for one job; Slurm has only a limit of time.
const TRIES_MAX: usize = 10_000;

/// A set of nodes, or of CPUs that count as nodes.
pub(crate) trait Group: Clone + PartialEq {
    /// Keeps what both have.
    fn keep(&mut self, other: &Self);
    /// Takes out what the other has.
    fn drop_all(&mut self, other: &Self);
    /// Whether `next` has something of the group that is not both in `free` and in `now`.
    fn gains(&self, next: &Self, free: &Self, now: &Self) -> bool;
}

impl Group for NodeSet {
    fn keep(&mut self, other: &Self) {
        self.intersect_with(other);
    }

    fn drop_all(&mut self, other: &Self) {
        self.subtract(other);
    }

    fn gains(&self, next: &Self, free: &Self, now: &Self) -> bool {
        let after = self.words().iter().zip(next.words()).map(|(own, next)| own & next);
        let before = free.words().iter().zip(now.words()).map(|(free, now)| free & now);
        after.zip(before).any(|(after, before)| after & !before != 0)
    }
}

/// A stretch of time.
#[derive(Debug, Clone)]
struct Slot<S> {
    begin_s: i64,
    end_s: i64,
    free: S,
}

/// Plan of backfill for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Planned<S> {
    /// The job starts, on some of these nodes.
    Now(S),
    /// The job gets a reservation from this time on.
    Later(i64),
    /// The job starts beyond the window or not at all; nothing is reserved.
    Never,
}

/// A search for the start of a job by the limits of the running ones.
pub(crate) trait Search<S> {
    /// Whether the job may start on some of these nodes by a time: fewer never do what more do not.
    fn may_run(&mut self, nodes: &S, until_s: i64) -> bool;
    /// The start on these nodes, of no use beyond a time, and the nodes for it.
    fn will_run(&mut self, nodes: &S, until_s: i64) -> Option<(i64, S)>;
}

/// The stretches of one pass.
#[derive(Debug, Clone)]
pub(crate) struct Slots<S> {
    slots: Vec<Slot<S>>,
    resolution_s: i64,
    window_s: i64,
    now_s: i64,
}

impl<S: Group> Slots<S> {
    /// Nothing is reserved yet on all these nodes.
    pub(crate) fn new(all: S, now_s: i64, window_s: i64, resolution_s: i64) -> Self {
        let down = |at_s: i64| at_s.div_euclid(resolution_s) * resolution_s;
        let whole = Slot { begin_s: down(now_s), end_s: down(now_s + window_s), free: all };
        Self { slots: vec![whole], resolution_s, window_s, now_s }
    }

    fn down(&self, at_s: i64) -> i64 {
        at_s.div_euclid(self.resolution_s) * self.resolution_s
    }

    /// Takes out of `free` what is reserved from `start_s` on, until another set of `own` nodes is
    /// worth a look: returns where the stretches behind begin, and that time.
    fn until_change(
        &self,
        own: &S,
        free: &mut S,
        start_s: i64,
        end_s: i64,
    ) -> (usize, Option<i64>) {
        let first = self.slots.partition_point(|slot| slot.end_s <= start_s);
        for (at, slot) in self.slots.iter().enumerate().skip(first) {
            let next = self.slots.get(at + 1);
            if next.is_some_and(|next| own.gains(&next.free, free, &slot.free)) {
                return (at, Some(slot.end_s));
            }
            if slot.begin_s > end_s {
                return (at, None);
            }
            free.keep(&slot.free);
        }
        (self.slots.len(), None)
    }

    /// Takes out of `free` what is reserved in these stretches until `end_s`.
    fn keep_until(&self, free: &mut S, from: usize, end_s: i64) {
        let behind = self.slots.get(from..).unwrap_or_default();
        let during = behind.iter().take_while(|slot| slot.begin_s <= end_s);
        during.for_each(|slot| free.keep(&slot.free));
    }

    /// Nodes of `own` that nobody has reserved from now on for so long: fewer with each
    /// reservation.
    pub(crate) fn free(&self, own: &S, limit_s: u64) -> S {
        let mut free = own.clone();
        self.keep_until(&mut free, 0, self.now_s.saturating_add_unsigned(limit_s));
        free
    }

    /// Plans one job of this limit on nodes of its own, on all of which it starts not before
    /// `earliest_s`: now or, if it `reserves`, later.
    pub(crate) fn plan(
        &mut self,
        own: &S,
        limit_s: u64,
        (earliest_s, reserves): (i64, bool),
        search: &mut dyn Search<S>,
    ) -> Planned<S> {
        let mut from_s = self.now_s;
        for _ in 0..if reserves { TRIES_MAX } else { 1 } {
            let end_s = from_s.saturating_add_unsigned(limit_s);
            let mut free = own.clone();
            let (behind, later) = self.until_change(own, &mut free, from_s, end_s);
            let until_s = later.unwrap_or(self.now_s.saturating_add(self.window_s));
            let too_early = later.is_some_and(|later| earliest_s > later);
            let found = if !too_early && search.may_run(&free, until_s) {
                self.keep_until(&mut free, behind, end_s);
                search.will_run(&free, until_s)
            } else {
                None
            };
            let Some((start_s, nodes)) = found else {
                let Some(later) = later else { return Planned::Never };
                from_s = later;
                continue;
            };
            let start_s = start_s.max(from_s);
            if start_s <= self.now_s {
                return Planned::Now(free);
            }
            if let Some(later) = later.filter(|later| start_s > *later) {
                from_s = later;
                continue;
            }
            if !reserves || start_s > self.now_s.saturating_add(self.window_s) {
                return Planned::Never;
            }
            let until_s = self.down(start_s.saturating_add_unsigned(limit_s));
            if self.overlaps(&nodes, self.down(start_s), until_s) {
                from_s = start_s.max(from_s + 1);
                continue;
            }
            self.reserve(&nodes, self.down(start_s), until_s);
            return Planned::Later(start_s);
        }
        Planned::Never
    }

    fn overlaps(&self, nodes: &S, start_s: i64, end_s: i64) -> bool {
        let during = |slot: &&Slot<S>| slot.end_s > start_s && slot.begin_s < end_s;
        self.slots.iter().filter(during).any(|slot| nodes.gains(nodes, &slot.free, &slot.free))
    }

    fn reserve(&mut self, nodes: &S, start_s: i64, end_s: i64) {
        let start_s = start_s.max(self.slots.first().map_or(start_s, |slot| slot.begin_s));
        let end_s = end_s.max(start_s + self.resolution_s);
        self.split(start_s);
        self.split(end_s);
        for slot in &mut self.slots {
            if slot.begin_s >= start_s && slot.end_s <= end_s {
                slot.free.drop_all(nodes);
            }
        }
    }

    /// Splits the stretch at this time in two, if the time is within the plan.
    fn split(&mut self, at_s: i64) {
        let inside = |slot: &Slot<S>| slot.begin_s < at_s && at_s < slot.end_s;
        let Some(at) = self.slots.iter().position(inside) else { return };
        let Some(slot) = self.slots.get_mut(at) else { return };
        let behind = Slot { begin_s: at_s, ..slot.clone() };
        slot.end_s = at_s;
        self.slots.insert(at + 1, behind);
    }
}
