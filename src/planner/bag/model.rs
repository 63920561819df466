// SPDX-License-Identifier: GPL-3.0-or-later
//! The queue in the method's terms: arrays, classes of nodes, rates and loads.
//!
//! A class of nodes is a fluid of its CPUs. A task that takes more of another
//! resource than of CPUs counts as the CPUs that it keeps others from.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::bag::inputs::{Inputs, Loss, Seconds, Watts, WattsFrom};
use crate::bag::unheld::{Unheld, Waits};
use crate::eligible::{eligible, reservations_met};
use crate::preference::BagRow;
use crate::usage::NodeUsage;
use phalanx_core::comment;
use phalanx_core::limits::BAG_PLACES_MAX;
use phalanx_core::number::{as_f64, seconds_of, whole};
use phalanx_core::reason::is_for_nodes;
use phalanx_core::run::waits_from_s;
use phalanx_core::shape::Need;
use phalanx_core::snapshot::{Job, JobState};
use phalanx_core::{NodeIdx, NodeSet, hostlist};
use phalanx_methods::bag::slots::{SlotBag, SlotProblem, SlotTask, Slots, Times, Wait};
use phalanx_methods::bag::{MachineType, Problem, User};

/// Factor by which a class that an array may not use is slower to it than any other.
const FORBIDDEN: f64 = 1e4;
/// Class of an empty slot of the node table.
const NO_CLASS: usize = usize::MAX;
/// Ended runs on a class of nodes after which its power is taken to be unmeasurable, so that trials
/// end.
const TRIALS: f64 = 3.0;
/// Worth of a task without a price, as a multiple of its greatest energy cost: a hundredth of a per
/// cent of time outweighs it.
const TIME_DECIDES: f64 = 1e4;
/// Inverse of the share of an array's time that is kept in reserve when the array begins to wait.
const RESERVED: u64 = 5;
/// Least part of a task's time that a running task is expected to need still.
const OVERDUE: f64 = 0.1;

/// An array on one class of nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// Tasks that run at once on the nodes.
    pub(super) slots: f64,
    pub(super) time: Seconds,
    pub(super) watts: Watts,
}

impl Rate {
    pub(super) fn joules(&self) -> f64 {
        self.time.seconds * self.watts.watts
    }

    /// Whether a run on the class would measure a time or a power.
    fn is_untried(&self) -> bool {
        // Runs fade: three count a little less than three.
        let tried = self.time.count.round() >= TRIALS;
        let by_power = self.watts.from == WattsFrom::OtherClasses && !tried;
        self.time.count <= 0.0 || by_power
    }
}

/// A job array and what the plan needs of it.
#[derive(Debug)]
pub(super) struct Bag<'a> {
    /// A record of the array, which has its request.
    pub(super) job: &'a Job,
    pub(super) array: u32,
    pub(super) class: String,
    /// Tasks that have not started.
    pub(super) pending: u64,
    /// Running tasks: class of nodes, seconds since the start.
    pub(super) running: Vec<(usize, f64)>,
    /// Rate on each class of nodes; `None` where the bag may not run.
    pub(super) rates: Vec<Option<Rate>>,
    /// Money of one task; `None`: the array states no price, and energy only breaks ties.
    pub(super) price: Option<f64>,
    /// Whether the bag waits for cheaper energy.
    pub(super) waits: bool,
    /// Unknown figures of the bag.
    pub(super) missing: Vec<String>,
}

impl Bag<'_> {
    /// Joules of a task on the node class where it takes fewest.
    pub(super) fn least_joules(&self) -> f64 {
        self.rates.iter().flatten().map(Rate::joules).fold(f64::INFINITY, f64::min)
    }

    /// Money of one task in the search; without a price a sum so large that time decides.
    fn worth(&self, energy_price: f64) -> f64 {
        let most = self.rates.iter().flatten().map(Rate::joules).fold(0.0, f64::max);
        self.price.unwrap_or_else(|| (TIME_DECIDES * energy_price * most).max(1.0))
    }

    /// Whether the price covers the energy on no class of nodes.
    pub(super) fn makes_a_loss(&self, energy_price: f64) -> bool {
        self.price.is_some_and(|price| price < energy_price * self.least_joules())
    }
}

/// A class of nodes.
#[derive(Debug, Default)]
pub(super) struct Class {
    pub(super) name: String,
    /// CPUs that are up and not taken by other jobs.
    pub(super) cpus: f64,
    /// Nodes that are up.
    pub(super) nodes: Vec<NodeIdx>,
    /// CPU seconds that running tasks still need.
    pub(super) load: f64,
}

/// Arrays and classes of nodes of one plan.
#[derive(Debug, Default)]
pub(super) struct Model<'a> {
    /// Bags in queue order, followed by those whose tasks all run.
    pub(super) bags: Vec<Bag<'a>>,
    /// Arrays of which too little is known to plan them, by their records.
    pub(super) unknown: Vec<(&'a Job, BagRow)>,
    pub(super) classes: Vec<Class>,
    pub(super) energy_price: f64,
    /// Money that running tasks still earn, less their energy.
    pub(super) under_way: f64,
    /// CPUs that other jobs are expected to give back in time.
    pub(super) given_back: f64,
    /// Seconds that a slot stands idle between two tasks.
    pub(super) pause_s: f64,
    /// CPUs that are in use for a while: class of nodes, part of its CPUs, seconds.
    busy: Vec<(usize, f64, f64)>,
    /// Seconds until the running tasks have ended.
    least_s: f64,
    class_of: Vec<usize>,
}

impl<'a> Model<'a> {
    /// Makes the model. CPUs of other jobs count where those are expected to end within
    /// `horizon_s`, and their time until then is load.
    pub(super) fn new(inputs: &Inputs<'a>, horizon_s: f64) -> Self {
        let mut model = Self {
            energy_price: inputs.settings.energy_price,
            pause_s: inputs.settings.pause_s,
            ..Self::default()
        };
        model.set_classes(inputs);
        let arrays = model.arrays(inputs);
        let own: HashSet<u32> =
            arrays.iter().flat_map(|array| &array.running).map(|(_, job)| job.id).collect();
        let mut foreign = foreign_cpus(inputs, &arrays, &own);
        model.give_back(inputs, &own, &mut foreign, horizon_s);
        for (node, class) in model.class_of.iter().enumerate() {
            let up = inputs.snapshot.nodes.get(node).is_some_and(|n| n.available);
            if let (true, Some(class), Some(usage)) =
                (up, model.classes.get_mut(*class), inputs.usages.get(node))
            {
                class.cpus += as_f64(usage.cpus.total.saturating_sub(foreign[node]));
                class.nodes.push(NodeIdx::new(node));
            }
        }
        // Parts of what is there, now that this is known.
        for (class, cpus, _) in &mut model.busy {
            *cpus /= model.classes.get(*class).map_or(1.0, |class| class.cpus.max(1.0));
        }
        let mut places = Places::default();
        for array in arrays {
            if model.bags.len() >= inputs.settings.arrays_max {
                break;
            }
            model.add(inputs, &mut places, &foreign, array);
        }
        // A class without any task of a known array says nothing of a profit.
        if model.bags.iter().all(|bag| bag.pending == 0) {
            model.bags.clear();
        }
        model
    }

    fn set_classes(&mut self, inputs: &Inputs<'_>) {
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        self.class_of = vec![NO_CLASS; inputs.snapshot.nodes.len()];
        for (node_at, node) in inputs.snapshot.named() {
            let name = inputs.knowledge.node_class(node);
            let at = *known.entry(name.clone()).or_insert_with(|| {
                self.classes.push(Class { name, ..Class::default() });
                self.classes.len() - 1
            });
            if let Some(slot) = self.class_of.get_mut(node_at.at()) {
                *slot = at;
            }
        }
    }

    fn give_back(
        &mut self,
        inputs: &Inputs<'_>,
        own: &HashSet<u32>,
        foreign: &mut [u64],
        horizon_s: f64,
    ) {
        let now_s = seconds_of(inputs.now_ms);
        for end in inputs.outlook.ends.iter().filter(|end| !own.contains(&end.job.id)) {
            let left_s = as_f64(end.end_s.saturating_sub(now_s).max(0).unsigned_abs());
            if left_s >= horizon_s {
                break;
            }
            for held in &end.job.held {
                let at = self.class_of.get(held.node.at()).copied().unwrap_or(NO_CLASS);
                let class = self.classes.get_mut(at);
                let (Some(taken), Some(class)) = (foreign.get_mut(held.node.at()), class) else {
                    continue;
                };
                let cpus = held.cpus.min(*taken);
                *taken -= cpus;
                class.load += as_f64(cpus) * left_s;
                self.busy.push((at, as_f64(cpus), left_s));
                self.given_back += as_f64(cpus);
            }
        }
    }

    /// Arrays of one-node tasks, in queue order; running ones last.
    fn arrays(&self, inputs: &Inputs<'a>) -> Vec<Array<'a>> {
        let snapshot = inputs.snapshot;
        let mut arrays: Vec<Array<'a>> = Vec::new();
        let mut index: HashMap<u32, usize> = HashMap::new();
        let queue = snapshot.queued();
        let running = snapshot.all_jobs().filter(|job| job.state == JobState::Running);
        for job in queue.chain(running) {
            let Some(array) = job.array_job_id.filter(|_| is_one_node(job)) else { continue };
            if job.state == JobState::Pending && !waits_for_nodes(job) {
                continue;
            }
            let at = *index.entry(array).or_insert_with(|| {
                arrays.push(Array { job, array, pending: 0, running: Vec::new() });
                arrays.len() - 1
            });
            match (job.state, snapshot.node(&job.nodes)) {
                (JobState::Pending, _) => arrays[at].pending += job.task_count,
                (_, Some(node)) => arrays[at].running.push((node, job)),
                _ => {}
            }
        }
        arrays
    }

    /// Adds the array if enough is known of it.
    fn add(
        &mut self,
        inputs: &Inputs<'a>,
        places: &mut Places<'a>,
        foreign: &[u64],
        array: Array<'a>,
    ) {
        let job = array.job;
        let class = inputs.knowledge.job_class(job);
        let Some(place) = places.of(inputs, job) else { return };
        let need = job.shape.need(1);
        let slots = self.slots(inputs, &place, foreign, &need);
        let (rates, missing) = self.rates(inputs, &class, &slots);
        let Some(rates) = rates else {
            let room = self.unknown.len() < inputs.settings.arrays_max;
            if !missing.is_empty() && array.pending > 0 && room {
                let (array, pending) = (array.array, array.pending);
                let row = BagRow { array, job_class: class, pending, missing, ..BagRow::default() };
                self.unknown.push((job, row));
            }
            return;
        };
        let mut bag = Bag {
            job,
            array: array.array,
            class,
            pending: array.pending,
            running: Vec::new(),
            rates,
            price: None,
            waits: false,
            missing,
        };
        bag.price = price(inputs, &bag);
        bag.waits = waits(inputs, &bag);
        self.add_running(inputs, &mut bag, &array.running);
        self.bags.push(bag);
    }

    /// Rates by class of nodes, and what is not known. A class of unknown power counts with the
    /// mean of the others, as far as its tasks take a like share of a node; where no time or no
    /// power at all is known there are no rates.
    fn rates(
        &self,
        inputs: &Inputs<'_>,
        job_class: &str,
        slots: &[(f64, f64)],
    ) -> (Option<Vec<Option<Rate>>>, Vec<String>) {
        let usable = || slots.iter().zip(&self.classes).filter(|((slots, _), _)| *slots > 0.0);
        let times: Vec<_> =
            usable().map(|(_, of)| inputs.knowledge.seconds(job_class, &of.name)).collect();
        let powers: Vec<_> = usable()
            .map(|(&(_, share), of)| inputs.knowledge.watts(job_class, &of.name, share))
            .collect();
        let mean = |values: Vec<f64>| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / as_f64(values.len() as u64))
        };
        let mean_s = mean(times.iter().flatten().map(|time| time.seconds).collect());
        let shares = usable().map(|(&(_, share), _)| share.max(f64::MIN_POSITIVE));
        let whole =
            powers.iter().zip(shares).filter_map(|(w, share)| Some(w.as_ref()?.watts / share));
        let mean_w = mean(whole.collect());
        let mut missing = Vec::new();
        if times.is_empty() {
            return (None, missing);
        }
        if mean_s.is_none() {
            missing.push(format!("the time of a task: no run of {job_class} has ended well yet"));
        }
        let without: Vec<&str> = usable()
            .zip(&powers)
            .filter(|(_, watts)| watts.is_none())
            .map(|((_, of), _)| of.name.as_str())
            .collect();
        if !without.is_empty() {
            missing.push(format!(
                "the power of {}: Slurm's energy accounting, bag.power_w or bag.watts would tell",
                without.join(", ")
            ));
        }
        let (Some(mean_s), Some(mean_w)) = (mean_s, mean_w) else { return (None, missing) };
        let mut known = times.iter().zip(&powers);
        let rate = |&(slots, share): &(f64, f64)| {
            let (time, watts) = if slots > 0.0 { known.next()? } else { return None };
            let time = time.unwrap_or(Seconds { seconds: mean_s, count: 0.0 });
            let guessed = Watts { watts: mean_w * share, from: WattsFrom::OtherClasses };
            Some(Rate { slots, time, watts: watts.unwrap_or(guessed) })
        };
        (Some(slots.iter().map(rate).collect()), missing)
    }

    fn add_running(&mut self, inputs: &Inputs<'_>, bag: &mut Bag<'_>, running: &[(NodeIdx, &Job)]) {
        // To the millisecond, as the next plan has the same ends; starts are whole seconds.
        let now_s = as_f64(inputs.now_ms) / 1e3 - 0.5;
        for &(node, job) in running {
            let Some(&at) = self.class_of.get(node.at()) else { continue };
            let Some(rate) = bag.rates.get(at).copied().flatten() else { continue };
            let began_s = job.start_s.saturating_add(job.suspended_s).max(0).unsigned_abs();
            let ran = (now_s - as_f64(began_s)).max(0.0);
            bag.running.push((at, ran));
            let left = left(ran, rate.time.seconds);
            let worth = bag.worth(self.energy_price);
            self.under_way += left * (worth - self.energy_price * rate.joules());
            self.least_s = self.least_s.max(left * rate.time.seconds);
            if inputs.snapshot.nodes.get(node.at()).is_some_and(|node| node.available) {
                let left_s = left * rate.time.seconds + self.pause_s;
                self.busy.push((at, 1.0 / rate.slots, left_s));
            }
            if let Some(class) = self.classes.get_mut(at) {
                class.load += left * rate.time.seconds * class.cpus / rate.slots;
            }
        }
    }

    /// Returns, for each class, the tasks that its nodes hold at once and a task's share of a node.
    fn slots(
        &self,
        inputs: &Inputs<'_>,
        place: &NodeSet,
        foreign: &[u64],
        need: &Need,
    ) -> Vec<(f64, f64)> {
        let mut slots = vec![(0.0, 0.0); self.classes.len()];
        for node in place.iter().map(NodeIdx::at) {
            let (Some(usage), Some(&class)) = (inputs.usages.get(node), self.class_of.get(node))
            else {
                continue;
            };
            let holds = capacity(usage, foreign.get(node).copied().unwrap_or(0), need);
            if holds > 0 {
                slots[class].0 += as_f64(holds);
                let given = need.cpus_on(&usage.cores).unwrap_or(need.cpus);
                let cpus = if need.whole { usage.cpus.total } else { given };
                slots[class].1 = as_f64(cpus) / as_f64(usage.cpus.total.max(1));
            }
        }
        slots
    }

    /// The problem, and for each of its users the number of the array.
    pub(super) fn problem(&self) -> (Problem, Vec<usize>) {
        let rows: Vec<usize> = (0..self.bags.len())
            .filter(|&at| self.bags.get(at).is_some_and(|b| b.pending > 0 && !b.waits))
            .collect();
        let types = || 0..self.classes.len();
        let (mut etc_s, mut apc_w, mut users) = (Vec::new(), Vec::new(), Vec::new());
        for (row, &at) in rows.iter().enumerate() {
            let bag = &self.bags[at];
            let time = |j: usize| {
                let rate = bag.rates[j].as_ref()?;
                Some((rate.time.seconds + self.pause_s) * self.classes[j].cpus / rate.slots)
            };
            let joules = |j: usize| bag.rates[j].as_ref().map(Rate::joules);
            let most = |of: &dyn Fn(usize) -> Option<f64>| {
                FORBIDDEN * types().filter_map(of).fold(f64::MIN_POSITIVE, f64::max)
            };
            let (slowest, dearest) = (most(&time), most(&joules));
            let times: Vec<f64> = types().map(|j| time(j).unwrap_or(slowest)).collect();
            let watts = |j: usize| joules(j).unwrap_or(dearest) / times[j];
            apc_w.push(types().map(watts).collect());
            etc_s.push(times);
            let revenue = bag.worth(self.energy_price) * as_f64(bag.pending);
            users.push(User { task_type: row, tasks: bag.pending, revenue });
        }
        if !etc_s.is_empty() && self.under_way != 0.0 {
            users.push(User { task_type: 0, tasks: 0, revenue: self.under_way });
        }
        let machine = |class: &Class| MachineType {
            name: class.name.clone(),
            count: whole(class.cpus.round()),
        };
        let load = |class: &Class| if class.cpus.round() > 0.0 { class.load } else { 0.0 };
        let problem = Problem {
            energy_price: self.energy_price,
            machine_types: self.classes.iter().map(machine).collect(),
            etc_s,
            apc_w,
            initial_load_s: Some(self.classes.iter().map(load).collect()),
            idle_w: None,
            power_cap_w: None,
            revise: users.len() <= phalanx_core::limits::BAG_REVISED_ARRAYS_MAX,
            users,
        };
        (problem, rows)
    }

    /// Seconds for which the tasks of an array may still wait for their nodes; `None`: any.
    pub(super) fn wait_s(&self, inputs: &Inputs<'_>, bag: &Bag<'_>) -> Option<f64> {
        let settings = inputs.settings;
        if !settings.required || bag.price.is_none() {
            return Some(0.0);
        }
        settings.wait_s.map(|most_s| (most_s - (inputs.held_s)(bag.array)).max(0.0))
    }

    /// Slots of the class, whose number is the most tasks of one array that it holds.
    fn slots_of(&self, class: usize) -> f64 {
        let rate = |bag: &Bag<'_>| Some(bag.rates.get(class).copied().flatten()?.slots);
        self.bags.iter().filter_map(rate).fold(0.0, f64::max)
    }

    /// The problem of whole tasks on whole slots, for the arrays of `rows`.
    pub(super) fn slot_problem(&self, rows: &[usize]) -> SlotProblem {
        let bag = |bag: &Bag<'_>| {
            let task = |(class, rate): (usize, &Option<Rate>)| {
                let rate = rate.as_ref()?;
                // One that takes more than a slot takes it for longer.
                let slots = self.slots_of(class).floor() / rate.slots;
                let each_us = micros((rate.time.seconds + self.pause_s) * slots).max(1);
                Some(SlotTask { each_us, joules: rate.joules() })
            };
            SlotBag {
                tasks: bag.pending,
                on: bag.rates.iter().enumerate().map(task).collect(),
                running: self.running_ends(bag),
                wait: None,
            }
        };
        let bags: Vec<&Bag<'_>> = rows.iter().filter_map(|at| self.bags.get(*at)).collect();
        let worth = |bag: &&Bag<'_>| bag.worth(self.energy_price) * as_f64(bag.pending);
        SlotProblem {
            slots: (0..self.classes.len()).map(|class| self.free_slots(class)).collect(),
            earned: bags.iter().map(worth).sum::<f64>() + self.under_way,
            bags: bags.into_iter().map(bag).collect(),
            energy_price: self.energy_price,
            least_us: micros(self.least_s),
        }
    }

    /// Microseconds until the running tasks of an array give their slots back.
    fn running_ends(&self, bag: &Bag<'_>) -> Times {
        let left = |&(class, ran): &(usize, f64)| {
            let time = bag.rates.get(class).copied().flatten()?.time.seconds;
            Some((micros(left(ran, time) * time + self.pause_s), 1))
        };
        let mut ends: Times = bag.running.iter().filter_map(left).collect();
        ends.sort_unstable();
        ends
    }

    /// Bounds the waits of the arrays of `rows`.
    pub(super) fn bound(
        &self,
        inputs: &Inputs<'_>,
        rows: &[usize],
        slots: &mut SlotProblem,
        (unheld, given_back): (&mut Unheld, bool),
    ) {
        let list = slots.times_of_list().unwrap_or_default();
        let bags: Vec<&Bag<'_>> = rows.iter().filter_map(|at| self.bags.get(*at)).collect();
        for (at, (bag, slots)) in bags.iter().zip(&mut slots.bags).enumerate() {
            let Some(left_us) = self.wait_s(inputs, bag).map(micros) else { continue };
            let list = list.get(at).cloned().unwrap_or_default();
            let due = if left_us == 0 {
                list
            } else {
                let most_us = micros(inputs.settings.wait_s.unwrap_or(0.0));
                let waits = Waits { most_us, spent_us: most_us - left_us };
                unheld.due((bag.array, given_back), &list, waits, inputs.now_ms * 1000)
            };
            // A wait that has not begun leaves something for ends that come later than expected.
            let is_begun = (inputs.held_s)(bag.array) > 0.0;
            let sum_us = if is_begun { left_us } else { left_us / RESERVED * (RESERVED - 1) };
            slots.wait = Some(Wait { sum_us, due });
        }
        unheld.keep(&bags.iter().map(|bag| bag.array).collect::<Vec<_>>());
    }

    /// Times from which the slots of a class are free.
    fn free_slots(&self, class: usize) -> Slots {
        let count = self.slots_of(class).floor();
        let mut busy: Vec<(f64, f64)> =
            self.busy.iter().filter(|of| of.0 == class).map(|of| (of.2, of.1)).collect();
        busy.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut slots, mut part, mut taken) = (Slots::default(), 0.0, 0);
        for (left_s, of_all) in busy {
            part += of_all;
            let until = whole((part * count).round().min(count));
            slots.add(micros(left_s), until - taken);
            taken = until;
        }
        slots.add(0, whole(count) - taken);
        slots
    }

    /// Tasks of each array on each class of nodes.
    pub(super) fn split(&self, answer: &[Vec<u64>], rows: &[usize]) -> Vec<Vec<u64>> {
        let mut split = vec![vec![0; self.classes.len()]; self.bags.len()];
        for (&at, x) in rows.iter().zip(answer) {
            let (bag, own) = (&self.bags[at], &mut split[at]);
            own.clone_from(x);
            allow(bag, own);
            explore(bag, own);
        }
        split
    }
}

/// Part of a task that is still to run, for a task of `seconds` of which `ran` have passed.
fn left(ran: f64, seconds: f64) -> f64 {
    (1.0 - ran / seconds).max(OVERDUE)
}

fn micros(seconds: f64) -> u64 {
    whole(seconds * 1e6)
}

/// Takes tasks back that a method placed on classes where the bag may not run.
fn allow(bag: &Bag<'_>, split: &mut [u64]) {
    let lost: u64 = split.iter().zip(&bag.rates).filter(|(_, r)| r.is_none()).map(|(x, _)| x).sum();
    for (x, rate) in split.iter_mut().zip(&bag.rates) {
        if rate.is_none() {
            *x = 0;
        }
    }
    let joules = |j: &usize| bag.rates[*j].map_or(f64::INFINITY, |rate| rate.joules());
    let best = (0..split.len()).min_by(|a, b| joules(a).total_cmp(&joules(b)));
    if let Some(x) = best.and_then(|j| split.get_mut(j)) {
        *x += lost;
    }
}

/// Sends one task to each class where a run would measure a time or a power.
fn explore(bag: &Bag<'_>, split: &mut [u64]) {
    for (j, rate) in bag.rates.iter().enumerate() {
        let untried = rate.as_ref().is_some_and(Rate::is_untried);
        if !untried || split[j] > 0 || bag.running.iter().any(|&(at, _)| at == j) {
            continue;
        }
        if let Some(most) = (0..split.len()).max_by_key(|&k| split[k])
            && split[most] > 1
        {
            split[most] -= 1;
            split[j] += 1;
        }
    }
}

struct Array<'a> {
    job: &'a Job,
    array: u32,
    pending: u64,
    running: Vec<(NodeIdx, &'a Job)>,
}

/// Earnings of a task: the price in the array's comment, or the configured price of a task.
fn price(inputs: &Inputs<'_>, bag: &Bag<'_>) -> Option<f64> {
    let said = comment::token(&bag.job.comment, "price").and_then(|text| text.parse::<f64>().ok());
    let said = said.filter(|price| price.is_finite() && *price >= 0.0);
    said.or(Some(inputs.settings.task_price).filter(|price| *price > 0.0))
}

/// Whether the array loses money now and would lose less soon.
fn waits(inputs: &Inputs<'_>, bag: &Bag<'_>) -> bool {
    let settings = inputs.settings;
    let now_s = seconds_of(inputs.now_ms);
    let from_s = waits_from_s(bag.job.submit_s, bag.job.eligible_s, now_s);
    let waited = now_s.saturating_sub(from_s).max(0).unsigned_abs();
    let left = settings.wait_max_s.saturating_sub(waited);
    let cheaper =
        |&(begins_s, price): &(u64, f64)| begins_s < left && price < settings.energy_price;
    settings.loss == Loss::Wait
        && settings.required
        && settings.ahead.iter().any(cheaper)
        && bag.makes_a_loss(settings.energy_price)
}

/// CPUs by node that jobs other than the arrays' tasks hold, by the poll that saw the tasks: the
/// mirror may know of starts since. The poll's nodes can be older or newer than its jobs, so that a
/// node's own count of use matters only where another job is on it.
fn foreign_cpus(inputs: &Inputs<'_>, arrays: &[Array<'_>], own: &HashSet<u32>) -> Vec<u64> {
    let snapshot = inputs.snapshot;
    let mut foreign = vec![0; snapshot.nodes.len()];
    let holds = |job: &&Job| matches!(job.state, JobState::Running | JobState::Suspended);
    for job in snapshot.all_jobs().filter(holds).filter(|job| !own.contains(&job.id)) {
        let names = hostlist::nodes(&job.nodes);
        for node in names.iter().filter_map(|name| snapshot.node(name)) {
            foreign[node.at()] = snapshot.nodes[node.at()].cpus_used;
        }
    }
    for (node, job) in arrays.iter().flat_map(|array| &array.running) {
        let cores = snapshot.nodes.get(node.at()).map(|node| node.cores);
        let need = job.shape.need(1);
        if let Some(used) = foreign.get_mut(node.at()) {
            let given = cores.and_then(|cores| need.cpus_on(&cores));
            *used = used.saturating_sub(given.unwrap_or(need.cpus));
        }
    }
    foreign
}

/// Number of tasks of this need that the node holds when nothing else is on it.
fn capacity(usage: &NodeUsage, foreign: u64, need: &Need) -> u64 {
    if need.whole || need.all_memory {
        return u64::from(usage.could_hold(need) && foreign == 0);
    }
    let Some(cpus) = need.cpus_on(&usage.cores) else { return 0 };
    let mut holds = usage.cpus.total.saturating_sub(foreign) / cpus.max(1);
    let memory = usage.memory_mb.total.checked_div(need.memory_on(&usage.cores));
    holds = holds.min(memory.unwrap_or(u64::MAX));
    for &(kind, gres_type, count) in &need.gres {
        let has = usage.gres_level(kind, gres_type, |level| level.total);
        holds = holds.min(has.checked_div(count).unwrap_or(u64::MAX));
    }
    holds
}

fn is_one_node(job: &Job) -> bool {
    job.shape.wanted_nodes() == 1
        && job.shape.left_to_slurm.is_none()
        && job.required_nodes.is_none()
        && job.het_job_id.is_none()
}

/// Whether a job waits for nodes, and not for a dependency, a begin time or a limit.
fn waits_for_nodes(job: &Job) -> bool {
    let next_tasks = &*job.reason == "JobArrayTaskLimit";
    job.priority > 0 && (next_tasks || is_for_nodes(job))
}

/// Properties of a job that decide which nodes it may use at all.
type Where<'a> = (&'a str, [Option<&'a str>; 3], usize);

#[derive(Default)]
struct Places<'a> {
    known: HashMap<Where<'a>, NodeSet>,
}

impl<'a> Places<'a> {
    /// Finds the places of the jobs; `None` once there are too many different ones.
    fn of(&mut self, inputs: &Inputs<'_>, job: &'a Job) -> Option<NodeSet> {
        let options = [&job.constraint, &job.excluded_nodes, &job.reservation];
        let now_s = seconds_of(inputs.now_ms);
        let met = reservations_met(inputs.snapshot, job, now_s);
        let key = (&*job.partitions, options.map(Option::as_deref), met);
        if !self.known.contains_key(&key) {
            if self.known.len() >= BAG_PLACES_MAX {
                return None;
            }
            self.known.insert(key, eligible(inputs.snapshot, job, now_s).nodes);
        }
        self.known.get(&key).cloned()
    }
}
