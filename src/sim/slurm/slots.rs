// SPDX-License-Identifier: GPL-3.0-or-later
//! Slurm's plan of the future in one pass of backfill: stretches of time with the nodes that no
//! waiting job of higher priority has reserved in them (`node_space` of `backfill.c`).

use std::collections::BTreeMap;

use phalanx_core::NodeSet;

/// Most rounds for one job, where Slurm has only a limit of time.
const TRIES_MAX: usize = 10_000;

/// A set of nodes, or of CPUs that count as nodes.
pub(crate) trait Group: Clone + PartialEq {
    /// Keeps what both sets have; returns whether anything is left.
    fn keep(&mut self, other: &Self) -> bool;
    /// Removes everything that is in `other`.
    fn drop_all(&mut self, other: &Self);
    /// Whether `next` has something of the group that is not both in `free` and in `now`.
    fn gains(&self, next: &Self, free: &Self, now: &Self) -> bool;
}

impl Group for NodeSet {
    fn keep(&mut self, other: &Self) -> bool {
        self.intersect_with(other);
        !self.is_empty()
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
    /// The job starts after the window or not at all; nothing is reserved.
    Never,
}

/// Result of one try, and where the next one begins, if there is one.
enum Attempt<S> {
    /// The job does not start up to this time, nor would it with fewer nodes or a longer limit.
    None(i64, Option<i64>),
    /// The job has a start, which is not taken.
    Other(Option<i64>),
    /// The job starts, on some of these nodes.
    Now(S),
    /// The job may start at this time on these nodes.
    At(i64, S),
}

/// A search for the start of a job by the limits of the running jobs.
pub(crate) trait Search<S> {
    /// Number that is equal for jobs with equal requests but for their limits.
    fn class(&self) -> u64;
    /// Whether the job may start on some of `nodes` by `until_s`: fewer never do what more do not.
    fn may_run(&mut self, nodes: &S, until_s: i64) -> bool;
    /// The start on `nodes`, no later than `until_s`, and the nodes for it.
    fn will_run(&mut self, nodes: &S, until_s: i64) -> Option<(i64, S)>;
}

/// The stretches of one pass.
#[derive(Debug, Clone)]
pub(crate) struct Slots<S> {
    slots: Vec<Slot<S>>,
    resolution_s: i64,
    window_s: i64,
    now_s: i64,
    /// The time up to which no job of a class starts that has this limit or a longer one, whatever
    /// else gets reserved.
    none_until: BTreeMap<(u64, u64), i64>,
}

impl<S: Group> Slots<S> {
    /// Slots of a pass in which nothing is reserved yet.
    pub(crate) fn new(all: S, now_s: i64, window_s: i64, resolution_s: i64) -> Self {
        let down = |at_s: i64| at_s.div_euclid(resolution_s) * resolution_s;
        let whole = Slot { begin_s: down(now_s), end_s: down(now_s + window_s), free: all };
        Self { slots: vec![whole], resolution_s, window_s, now_s, none_until: BTreeMap::new() }
    }

    fn down(&self, at_s: i64) -> i64 {
        at_s.div_euclid(self.resolution_s) * self.resolution_s
    }

    /// Removes from `free` what is reserved from `start_s` on, until another set of `own` nodes is
    /// worth a look; returns the index of the first stretch after that, and its time.
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

    /// Removes from `free` what the stretches from `from` on reserve until `end_s`, as long as
    /// anything is left; returns the number of these stretches.
    fn keep_until(&self, free: &mut S, from: usize, end_s: i64) -> usize {
        let behind = self.slots.get(from..).unwrap_or_default();
        let during = behind.iter().take_while(|slot| slot.begin_s <= end_s);
        during.take_while(|slot| free.keep(&slot.free)).count()
    }

    /// Nodes of `own` that nobody has reserved from now on for so long: fewer with each
    /// reservation.
    pub(crate) fn free(&self, own: &S, limit_s: u64) -> S {
        let mut free = own.clone();
        self.keep_until(&mut free, 0, self.now_s.saturating_add_unsigned(limit_s));
        free
    }

    /// Plans one job with a limit on nodes of its own, on all of which it starts not before
    /// `earliest_s`: at once or, if it `reserves`, later.
    pub(crate) fn plan(
        &mut self,
        own: &S,
        limit_s: u64,
        (earliest_s, reserves): (i64, bool),
        search: &mut dyn Search<S>,
    ) -> Planned<S> {
        let class = search.class();
        let (mut none_s, mut from_s) = (self.none_s(class, limit_s), self.now_s);
        if none_s > self.now_s {
            if !reserves {
                return Planned::Never;
            }
            from_s = self.first_worth(own, limit_s, none_s);
        }
        let mut planned = Planned::Never;
        for _ in 0..if reserves { TRIES_MAX } else { 1 } {
            let later = match self.attempt(own, limit_s, (from_s, earliest_s), search) {
                Attempt::None(until_s, later) => {
                    if from_s <= none_s {
                        none_s = none_s.max(until_s);
                    }
                    later
                }
                Attempt::Other(later) => later,
                Attempt::Now(free) => {
                    planned = Planned::Now(free);
                    None
                }
                Attempt::At(start_s, nodes) if reserves => {
                    let until_s = self.down(start_s.saturating_add_unsigned(limit_s));
                    if self.overlaps(&nodes, self.down(start_s), until_s) {
                        Some(start_s.max(from_s + 1))
                    } else {
                        self.reserve(&nodes, self.down(start_s), until_s);
                        planned = Planned::Later(start_s);
                        None
                    }
                }
                Attempt::At(..) => None,
            };
            let Some(later) = later else { break };
            from_s = later;
        }
        self.note(class, limit_s, none_s);
        planned
    }

    /// Tries a job from `from_s` on, up to the next set of nodes that is worth a look.
    fn attempt(
        &self,
        own: &S,
        limit_s: u64,
        (from_s, earliest_s): (i64, i64),
        search: &mut dyn Search<S>,
    ) -> Attempt<S> {
        let end_s = from_s.saturating_add_unsigned(limit_s);
        let mut free = own.clone();
        let (behind, later) = self.until_change(own, &mut free, from_s, end_s);
        let last_s = self.now_s.saturating_add(self.window_s);
        let until_s = later.unwrap_or(last_s);
        // Without another change the nodes become fewer up to where the search ended.
        let ended_s = self.slots.get(behind).map_or(i64::MAX, |slot| slot.end_s);
        let none = Attempt::None(later.unwrap_or(ended_s), later);
        if later.is_some_and(|later| earliest_s > later) || !search.may_run(&free, until_s) {
            return none;
        }
        // As far as reservations reach, which begin and end at whole steps.
        let kept = self.keep_until(&mut free, behind, self.down(end_s) - 1);
        if !search.may_run(&free, until_s) {
            return none;
        }
        self.keep_until(&mut free, behind + kept, end_s);
        let Some((start_s, nodes)) = search.will_run(&free, until_s) else {
            return Attempt::Other(later);
        };
        let start_s = start_s.max(from_s);
        match later {
            _ if start_s <= self.now_s => Attempt::Now(free),
            Some(later) if start_s > later => Attempt::Other(Some(later)),
            _ if start_s > last_s => Attempt::Other(None),
            _ => Attempt::At(start_s, nodes),
        }
    }

    /// The time up to which it is known that no job of `class` and `limit_s` starts; the time of
    /// the pass if nothing is known.
    fn none_s(&self, class: u64, limit_s: u64) -> i64 {
        let shorter = self.none_until.range((class, 0)..=(class, limit_s));
        shorter.last().map_or(self.now_s, |(_, none_s)| *none_s)
    }

    /// Notes that no job of a class starts up to a time that has a limit or a longer one.
    fn note(&mut self, class: u64, limit_s: u64, none_s: i64) {
        if none_s <= self.none_s(class, limit_s) {
            return;
        }
        let longer = self.none_until.range((class, limit_s)..=(class, u64::MAX));
        let less: Vec<_> = longer.take_while(|(_, own_s)| **own_s <= none_s).collect();
        let less: Vec<(u64, u64)> = less.into_iter().map(|(key, _)| *key).collect();
        for key in less {
            self.none_until.remove(&key);
        }
        self.none_until.insert((class, limit_s), none_s);
    }

    /// The first try worth its time for a job that cannot start up to `none_s`: all before the last
    /// change by then fail, or all before the first one behind which none comes in the limit.
    fn first_worth(&self, own: &S, limit_s: u64, none_s: i64) -> i64 {
        let mut from_s = self.now_s;
        for pair in self.slots.windows(2) {
            let [slot, next] = pair else { break };
            if next.begin_s > none_s {
                break;
            }
            let is_beyond = slot.begin_s > from_s.saturating_add_unsigned(limit_s);
            if slot.end_s <= from_s {
                continue;
            }
            if own.gains(&next.free, &slot.free, &slot.free) {
                if is_beyond && next.begin_s == none_s {
                    break;
                }
                from_s = next.begin_s;
            } else if is_beyond {
                break;
            }
        }
        from_s
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

    /// Splits the stretch at a time in two, if the time is within the plan.
    fn split(&mut self, at_s: i64) {
        let inside = |slot: &Slot<S>| slot.begin_s < at_s && at_s < slot.end_s;
        let Some(at) = self.slots.iter().position(inside) else { return };
        let Some(slot) = self.slots.get_mut(at) else { return };
        let behind = Slot { begin_s: at_s, ..slot.clone() };
        slot.end_s = at_s;
        self.slots.insert(at + 1, behind);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Windows;
    use super::*;
    use phalanx_core::NodeIdx;
    use proptest::prelude::*;

    const NODES: usize = 12;

    /// Jobs of a number of nodes, each of which has room from a time on.
    struct Fake<'a> {
        class: u64,
        wanted: usize,
        room_s: &'a [i64],
    }

    impl Fake<'_> {
        fn room(&self, nodes: &NodeSet) -> Vec<(i64, NodeIdx)> {
            let room = nodes.iter().map(|node| (self.room_s[node.at()], node));
            let mut room: Vec<_> = room.collect();
            room.sort_unstable();
            room
        }
    }

    impl Search<NodeSet> for Fake<'_> {
        fn class(&self) -> u64 {
            self.class
        }

        fn may_run(&mut self, nodes: &NodeSet, until_s: i64) -> bool {
            let room = self.room(nodes);
            room.iter().filter(|(at_s, _)| *at_s <= until_s).count() >= self.wanted
        }

        fn will_run(&mut self, nodes: &NodeSet, until_s: i64) -> Option<(i64, NodeSet)> {
            if !self.may_run(nodes, until_s) {
                return None;
            }
            let (room, mut windows) = (self.room(nodes), Windows::new());
            for (at, (end_s, _)) in room.iter().enumerate() {
                let next_s = room.get(at + 1).map(|(end_s, _)| *end_s);
                if windows.is_full(*end_s, next_s) && at + 1 >= self.wanted {
                    let mut found = NodeSet::new(NODES);
                    found.extend(room[..self.wanted].iter().map(|(_, node)| *node));
                    return Some((*end_s, found));
                }
            }
            None
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Goal: what is known of earlier jobs of a class changes no plan. Method: the same jobs
        /// are planned with and without that knowledge; nodes get room at times that windows group.
        #[test]
        fn what_is_known_changes_no_plan(
            room_s in prop::collection::vec(0..900_i64, NODES),
            jobs in prop::collection::vec(
                (1..4_usize, 1..1_500_u64, any::<bool>(), any::<bool>()), 1..60),
        ) {
            let all = NodeSet::full(NODES);
            let make = || Slots::new(all.clone(), 7, 3_600, 10);
            let (mut known, mut plain) = (make(), make());
            for (wanted, limit_s, half, reserves) in jobs {
                let mut own = all.clone();
                own.retain(|node| !half || node.at() % 2 == 0);
                let class = (2 * wanted + usize::from(half)) as u64;
                let mut search = Fake { class, wanted, room_s: &room_s };
                plain.none_until.clear();
                let room = search.room(&own);
                let from = (room[wanted - 1].0, reserves || limit_s % 3 > 0);
                let one = known.plan(&own, limit_s, from, &mut search);
                prop_assert_eq!(one, plain.plan(&own, limit_s, from, &mut search));
            }
        }
    }
}
