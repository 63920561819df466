// SPDX-License-Identifier: GPL-3.0-or-later
//! Bags of whole tasks on whole slots, each free at a time of its own.
//!
//! The source counts a machine type as a fluid: a plan of 26 tasks on 8 slots takes 3.25 rounds.
//! What runs takes 4, so that such a plan may earn less than no plan at all. Here the makespan is
//! that of whole tasks. Of one bag only the times at which a slot can end a task are possible
//! makespans, and up to each of them the cheapest slots are filled first: that is its optimum.
//! Several bags are searched from given splits. No plan is worth less than list scheduling, which
//! starts the next task wherever a slot comes free.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_core::number::as_f64;

/// Most makespans that are considered for one bag; where there are more, a sample in equal steps.
const MAKESPANS_MAX: u64 = 4096;
/// Most splits that are compared with the longest delay of a task.
const CHECKS_MAX: usize = 256;
/// Groups of slots that one search may advance: some ten milliseconds.
const STEPS_MAX: u64 = 2_000_000;
/// Tasks up to which list scheduling is simulated; with more, rounds hardly matter.
const LISTED_MAX: u64 = 100_000;
/// Last rounds of one bag that are simulated one by one; the earlier ones are one step.
const ROUNDS_MAX: u64 = 1024;
/// Relative gain from which on a plan counts as better.
const BETTER: f64 = 1e-12;

/// Slots of a machine type: number of slots by the microsecond from which they are free.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slots(BTreeMap<u64, u64>);

impl Slots {
    /// Adds `count` slots that are free from `at_us` on.
    pub fn add(&mut self, at_us: u64, count: u64) {
        if count > 0 {
            *self.0.entry(at_us).or_default() += count;
        }
    }

    /// Number of slots.
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// Number of tasks of `each_us` that end until `until_us`.
    fn capacity(&self, each_us: u64, until_us: u64) -> u64 {
        let of = |(at, count): (&u64, &u64)| count * (until_us.saturating_sub(*at) / each_us);
        self.0.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Starts tasks one after the other on the slot that is free first, and calls `began` with the
    /// time and number of those that start together. Returns the end of the last.
    fn run(&mut self, tasks: u64, each_us: u64, mut began: impl FnMut(u64, u64)) -> u64 {
        let (mut left, mut end) = (tasks, 0);
        let at_once = (tasks / self.count().max(1)).saturating_sub(ROUNDS_MAX);
        if at_once > 0 {
            let later = |(at, count): (u64, u64)| {
                (0..at_once).for_each(|round| began(at + round * each_us, count));
                (at + at_once * each_us, count)
            };
            left -= at_once * self.count();
            self.0 = std::mem::take(&mut self.0).into_iter().map(later).collect();
        }
        while left > 0
            && let Some((at, count)) = self.0.pop_first()
        {
            let taken = count.min(left);
            began(at, taken);
            left -= taken;
            end = end.max(at.saturating_add(each_us));
            self.add(at.saturating_add(each_us), taken);
            self.add(at, count - taken);
        }
        end
    }
}

/// A task of a bag on one machine type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlotTask {
    /// Microseconds for which a task takes a slot, at least 1.
    pub each_us: u64,
    /// Energy of the task.
    pub joules: f64,
}

/// A bag: its tasks, and what one task takes on each machine type; `None` where tasks may not run.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotBag {
    /// Number of tasks.
    pub tasks: u64,
    /// A task of the bag on each machine type.
    pub on: Vec<Option<SlotTask>>,
    /// Microseconds until the bag's running tasks end, each time with a number of tasks.
    pub running: Times,
    /// How long the bag's tasks may wait; `None`: any time.
    pub wait: Option<Wait>,
}

/// Times with the number of tasks of each, ascending.
pub type Times = Vec<(u64, u64)>;

/// The wait that is left to the tasks of a bag.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wait {
    /// Microseconds for which tasks may wait while slots are left idle for the plan, in sum.
    pub sum_us: u64,
    /// Microseconds by which the last waiting task must start, and by which the last waiting or
    /// running task must end: as many entries as there are tasks.
    pub due: Listed,
}

/// Starts and ends of the tasks of one bag.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listed {
    /// Starts of the bag's waiting tasks.
    pub starts: Times,
    /// Ends of the bag's waiting and running tasks.
    pub ends: Times,
}

/// Tasks of each bag on each machine type.
pub type Split = Vec<Vec<u64>>;

/// Bags on machine types whose slots are free at different times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SlotProblem {
    /// Machine types.
    pub slots: Vec<Slots>,
    /// Bags in the order in which their tasks start.
    pub bags: Vec<SlotBag>,
    /// Money of all tasks, running ones included, less the energy of all.
    pub earned: f64,
    /// Money per joule.
    pub energy_price: f64,
    /// Microseconds until the running tasks have ended, below which no makespan is.
    pub least_us: u64,
}

/// A split of the tasks, and its makespan, energy and value.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotPlan {
    /// The split.
    pub split: Split,
    /// Microseconds until all tasks have ended.
    pub makespan_us: u64,
    /// Joules of the bag's tasks.
    pub joules: f64,
    /// Profit per second; 0 where nothing takes any time.
    pub value: f64,
}

/// Starts of one bag: number of tasks by time and duration, from which the ends follow.
type Starts = BTreeMap<(u64, u64), u64>;

/// Starts of the tasks in `of`, and their ends together with those of the bag's running tasks.
fn times(bag: &SlotBag, of: &Starts) -> Listed {
    let starts: Times = of.iter().map(|((at, _), n)| (*at, *n)).collect();
    let own = of.iter().map(|((at, each), n)| (at.saturating_add(*each), *n));
    let mut ends: Times = own.chain(bag.running.iter().copied()).collect();
    ends.sort_unstable();
    Listed { starts, ends }
}

impl SlotProblem {
    /// The plan, with its value, of a split.
    pub fn plan_of(&self, split: Split) -> SlotPlan {
        self.followed(split, |_, _, _, _| {}).0
    }

    /// The plan of a split, and the time from which each machine type has an idle slot.
    fn followed(
        &self,
        split: Split,
        mut began: impl FnMut(usize, u64, u64, u64),
    ) -> (SlotPlan, Vec<u64>) {
        let (mut makespan_us, mut joules) = (self.least_us, 0.0);
        let mut idle = Vec::with_capacity(self.slots.len());
        for (class, slots) in self.slots.iter().enumerate() {
            let mut slots = slots.clone();
            for (at, (bag, x)) in self.bags.iter().zip(&split).enumerate() {
                let (Some(Some(task)), Some(&tasks)) = (bag.on.get(class), x.get(class)) else {
                    continue;
                };
                let each = task.each_us;
                let end = slots.run(tasks, each, |start, count| began(at, start, each, count));
                makespan_us = makespan_us.max(end);
                joules += as_f64(tasks) * task.joules;
            }
            idle.push(slots.0.first_key_value().map_or(u64::MAX, |(at, _)| *at));
        }
        let net = self.earned - self.energy_price * joules;
        let value = if makespan_us > 0 { net / (as_f64(makespan_us) / 1e6) } else { 0.0 };
        (SlotPlan { split, makespan_us, joules, value }, idle)
    }

    fn starts(&self, split: &Split) -> (Vec<Starts>, Vec<u64>) {
        let mut starts = vec![Starts::new(); self.bags.len()];
        let (_, idle) = self.followed(split.clone(), |bag, at, each, count| {
            *starts[bag].entry((at, each)).or_default() += count;
        });
        (starts, idle)
    }

    /// List scheduling: each task, bag after bag, goes to the slot that is free first; of slots
    /// that are free together, to that of the first machine type.
    pub fn list(&self) -> SlotPlan {
        let (split, _) = self.listed();
        self.plan_of(split)
    }

    /// Starts and ends of each bag's tasks with list scheduling; `None` where there are too many
    /// tasks.
    pub fn times_of_list(&self) -> Option<Vec<Listed>> {
        (self.tasks() <= LISTED_MAX).then(|| self.listed().1)
    }

    fn tasks(&self) -> u64 {
        self.bags.iter().map(|bag| bag.tasks).fold(0, u64::saturating_add)
    }

    fn listed(&self) -> (Split, Vec<Listed>) {
        let mut slots = self.slots.clone();
        let mut split = vec![vec![0; slots.len()]; self.bags.len()];
        let mut starts = vec![Starts::new(); self.bags.len()];
        for (at, bag) in self.bags.iter().enumerate() {
            let mut left = bag.tasks;
            while left > 0 {
                let first = |(class, task): (usize, &Option<SlotTask>)| {
                    Some((*slots[class].0.first_key_value()?.0, class, (*task)?.each_us))
                };
                let next = bag.on.iter().enumerate().filter_map(first).min();
                let Some((free, class, each)) = next else { break };
                let count = slots[class].0.remove(&free).unwrap_or(0);
                let taken = count.min(left);
                left -= taken;
                split[at][class] += taken;
                *starts[at].entry((free, each)).or_default() += taken;
                slots[class].add(free, count - taken);
                slots[class].add(free.saturating_add(each), taken);
            }
        }
        let times = self.bags.iter().zip(&starts).map(|(bag, starts)| times(bag, starts));
        (split, times.collect())
    }

    /// The best plan found: of one bag the optimum, of several the best of `splits` and list
    /// scheduling, improved by a search. Splits must place all tasks, where they may run.
    pub fn solve(&self, splits: Vec<Split>) -> SlotPlan {
        let tasks = self.tasks();
        let mut plans: Vec<SlotPlan> = splits.into_iter().map(|s| self.plan_of(s)).collect();
        let is_bound = self.bags.iter().any(|bag| bag.wait.is_some());
        if tasks > LISTED_MAX && !is_bound && !plans.is_empty() {
            plans.sort_by(|a, b| b.value.total_cmp(&a.value));
            return plans.swap_remove(0);
        }
        let (list, times) = self.listed();
        let list = self.plan_of(list);
        if tasks > LISTED_MAX {
            return list;
        }
        match &self.bags[..] {
            [bag] => plans.extend(self.of_one(bag)),
            _ => plans.extend(self.of_several(list.makespan_us)),
        }
        plans.retain(|plan| plan.value > list.value);
        plans.sort_by(|a, b| b.value.total_cmp(&a.value));
        let allowed = |plan: &SlotPlan| self.is_in_time(plan, &times);
        let best = plans.into_iter().take(CHECKS_MAX).find(allowed);
        let best = best.unwrap_or_else(|| list.clone());
        if self.bags.len() == 1 && !is_bound {
            return best;
        }
        let from_best = self.improved(best, &times);
        if !is_bound {
            return from_best;
        }
        // What is best without a limit may stand far from what the limit allows.
        let from_list = self.improved(list, &times);
        if from_list.value > from_best.value { from_list } else { from_best }
    }

    /// Whether no task of a bag starts or ends later than it may.
    fn is_in_time(&self, plan: &SlotPlan, list: &[Listed]) -> bool {
        if self.bags.iter().all(|bag| bag.wait.is_none()) {
            return true;
        }
        let (own, idle) = self.starts(&plan.split);
        self.bags.iter().zip(own.iter().zip(list)).all(|(bag, (starts, list))| {
            // From when a slot that it could take stays idle, its tasks wait until the last starts.
            let usable = bag.on.iter().zip(&idle).filter_map(|(on, at)| on.and(Some(*at)));
            let last = starts.last_key_value().map_or(0, |((at, _), _)| *at);
            let held = last.saturating_sub(usable.min().unwrap_or(u64::MAX));
            let own = times(bag, starts);
            // Where nothing starts later, slower machines are a choice and no wait.
            bag.wait.as_ref().is_none_or(|wait| {
                is_within(&own.starts, &list.starts)
                    || (held <= wait.sum_us
                        && is_within(&own.starts, &wait.due.starts)
                        && is_within(&own.ends, &wait.due.ends))
            })
        })
    }

    /// For each makespan that one bag may have, the cheapest split up to it.
    fn of_one(&self, bag: &SlotBag) -> Vec<SlotPlan> {
        let order = self.cheapest_first(bag);
        let capacity = |until: u64| {
            let of = |(class, task): &(usize, SlotTask)| {
                self.slots[*class].capacity(task.each_us, until)
            };
            order.iter().map(of).fold(0, u64::saturating_add)
        };
        let Some(longest) = self.longest(bag, &order) else { return Vec::new() };
        // The least makespan: bisection, as capacity grows with time.
        let (mut low, mut high) = (0, longest);
        while low < high {
            let middle = low + (high - low) / 2;
            if capacity(middle) >= bag.tasks { high = middle } else { low = middle + 1 }
        }
        let fill = |until: &u64| {
            let (mut left, mut x) = (bag.tasks, vec![0; self.slots.len()]);
            for (class, task) in &order {
                let taken = self.slots[*class].capacity(task.each_us, *until).min(left);
                x[*class] = taken;
                left -= taken;
            }
            (left == 0).then_some(x)
        };
        let mut splits: Vec<Vec<u64>> =
            self.makespans(&order, low, longest).iter().filter_map(fill).collect();
        splits.dedup();
        splits.into_iter().map(|x| self.plan_of(vec![x])).collect()
    }

    /// For some makespans from half to four times the given one, the cheapest split up to it, bag
    /// after bag.
    fn of_several(&self, around_us: u64) -> Vec<SlotPlan> {
        let until = (8..=64).map(|sixteenth| around_us / 16 * sixteenth);
        let splits = until.filter_map(|until| {
            let mut slots = self.slots.clone();
            let mut split = Split::new();
            for bag in &self.bags {
                let (mut left, mut x) = (bag.tasks, vec![0; slots.len()]);
                for (class, task) in self.cheapest_first(bag) {
                    x[class] = slots[class].capacity(task.each_us, until).min(left);
                    left -= x[class];
                    slots[class].run(x[class], task.each_us, |_, _| {});
                }
                split.push((left == 0).then_some(x)?);
            }
            Some(split)
        });
        splits.map(|split| self.plan_of(split)).collect()
    }

    /// Machine types of a bag by energy per task; of equal ones the quickest first.
    fn cheapest_first(&self, bag: &SlotBag) -> Vec<(usize, SlotTask)> {
        let of = |(class, task): (usize, &Option<SlotTask>)| Some((class, (*task)?));
        let usable = bag.on.iter().enumerate().filter_map(of);
        let mut order: Vec<_> = usable.filter(|(at, _)| self.slots[*at].count() > 0).collect();
        let speed = |(class, task): &(usize, SlotTask)| {
            as_f64(self.slots[*class].count()) / as_f64(task.each_us)
        };
        order.sort_by(|a, b| a.1.joules.total_cmp(&b.1.joules).then(speed(b).total_cmp(&speed(a))));
        order
    }

    /// Time until the cheapest machine type alone has done all tasks.
    fn longest(&self, bag: &SlotBag, order: &[(usize, SlotTask)]) -> Option<u64> {
        let (class, task) = order.first()?;
        let slots = &self.slots[*class];
        let last = *slots.0.last_key_value()?.0;
        let rounds = bag.tasks.div_ceil(slots.count().max(1));
        Some(last.max(self.least_us).saturating_add(rounds.saturating_mul(task.each_us)))
    }

    /// Times from `from` on at which a slot can end a task.
    fn makespans(&self, order: &[(usize, SlotTask)], from: u64, to: u64) -> BTreeSet<u64> {
        let mut found = BTreeSet::from([from, self.least_us.max(from), to]);
        let groups: usize = order.iter().map(|(class, _)| self.slots[*class].0.len()).sum();
        let of_each = (MAKESPANS_MAX / (groups as u64).max(1)).max(8);
        for (class, task) in order {
            for &free in self.slots[*class].0.keys() {
                let first = from.saturating_sub(free).div_ceil(task.each_us).max(1);
                let last = to.saturating_sub(free) / task.each_us;
                let step = (last.saturating_sub(first) / of_each).max(1);
                let mut rounds = first;
                while rounds <= last {
                    found.insert(free + rounds * task.each_us);
                    rounds += step;
                }
            }
        }
        found
    }

    /// Moves tasks of a bag to other machine types while a move raises the value.
    fn improved(&self, from: SlotPlan, list: &[Listed]) -> SlotPlan {
        let mut best = from;
        let groups: u64 = self.slots.iter().map(|slots| slots.0.len() as u64 + 8).sum();
        let cost = groups * (self.bags.len() as u64).max(1);
        let mut trials = (STEPS_MAX / cost.max(1)).max(64);
        loop {
            let before = best.value;
            for at in 0..self.bags.len() {
                for (i, j) in self.moves() {
                    for tasks in self.amounts(best.split[at][i], i, j) {
                        if trials == 0 {
                            return best;
                        }
                        let bag = &self.bags[at];
                        if tasks > best.split[at][i] || bag.on[j].is_none() {
                            continue;
                        }
                        trials -= 1;
                        let mut split = best.split.clone();
                        split[at][i] -= tasks;
                        split[at][j] += tasks;
                        let plan = self.plan_of(split);
                        let more = plan.value > best.value + BETTER * best.value.abs();
                        if more && self.is_in_time(&plan, list) {
                            best = plan;
                        }
                    }
                }
            }
            if best.value <= before {
                return best;
            }
        }
    }

    fn moves(&self) -> impl Iterator<Item = (usize, usize)> {
        let count = self.slots.len();
        let has = |class: usize| self.slots[class].count() > 0;
        (0..count)
            .flat_map(move |i| (0..count).map(move |j| (i, j)))
            .filter(move |&(i, j)| i != j && has(j))
    }

    /// Numbers of tasks that are worth moving: one, a round, half, all.
    fn amounts(&self, tasks: u64, i: usize, j: usize) -> BTreeSet<u64> {
        let round = |class: usize| self.slots[class].count();
        let mut amounts: BTreeSet<u64> = (1..=4).collect();
        amounts.extend([round(i), round(j), tasks % round(i).max(1), tasks / 2, tasks]);
        amounts.remove(&0);
        amounts
    }
}

/// Whether the n-th last time of `own` is at most the n-th last of `due`, for every n; both are
/// ascending, each time with a number of tasks.
fn is_within(own: &Times, due: &Times) -> bool {
    let (mut due, mut known) = (due.iter().rev(), 0);
    let (mut by, mut count) = (u64::MAX, 0);
    for &(at, tasks) in own.iter().rev() {
        count += tasks;
        // The first of these has the earliest due time.
        while known < count {
            let Some((next, more)) = due.next() else { return false };
            (by, known) = (*next, known + more);
        }
        if at > by {
            return false;
        }
    }
    true
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
