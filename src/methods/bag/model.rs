// SPDX-License-Identifier: GPL-3.0-or-later
//! The problem made ready for the methods: rates per machine, machines of every
//! task type in the order of formula 7, and the state between two arrivals.

use super::problem::Problem;
use phalanx_core::number::as_f64;

/// A task type: its machines from the most to the least energy per task.
///
/// A *rank* is a place in that order; all vectors here are indexed by rank.
#[derive(Debug, Clone)]
pub(super) struct TaskType {
    /// Machine type at each rank (index into the problem's machine types).
    pub machine: Vec<usize>,
    /// Seconds of makespan that one task adds: ETC / count of the type.
    pub time: Vec<f64>,
    /// Joules of one task.
    pub joules: Vec<f64>,
}

impl TaskType {
    /// Sorts the usable machines by energy, most first, equal ones by index.
    /// `idle` watts are there with and without tasks: they do not count.
    fn new(times: &[f64], watts: &[f64], idle: Option<&[f64]>, counts: &[u64]) -> Self {
        let usable = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        let mut machine: Vec<usize> = usable.map(|(j, _)| j).collect();
        let energy = |j: usize| times[j] * (watts[j] - idle.map_or(0.0, |idle| idle[j]));
        machine.sort_by(|&a, &b| energy(b).total_cmp(&energy(a)));
        let time = machine.iter().map(|&j| times[j] / as_f64(counts[j])).collect();
        let joules = machine.iter().map(|&j| energy(j)).collect();
        Self { machine, time, joules }
    }

    /// Number of machines that can take tasks.
    pub fn len(&self) -> usize {
        self.machine.len()
    }
}

/// The rates of a problem.
#[derive(Debug, Clone)]
pub(super) struct Model {
    /// Money per joule.
    pub price: f64,
    /// Machine types, also those of count 0.
    pub machines: usize,
    /// Machine types with at least one machine, ascending.
    pub usable: Vec<usize>,
    /// Task types; one that no user has is `None`.
    types: Vec<Option<TaskType>>,
    /// Seconds of makespan on each machine type before the first arrival.
    pub initial: Vec<f64>,
}

impl Model {
    /// Ranks the machines of every task type that a user has.
    ///
    /// The problem must have passed [`Problem::validate`].
    pub fn new(problem: &Problem) -> Self {
        let mut used = vec![false; problem.etc_s.len()];
        for user in &problem.users {
            used[user.task_type] = true;
        }
        let counts: Vec<u64> = problem.machine_types.iter().map(|machine| machine.count).collect();
        let idle = problem.idle_w.as_deref();
        let rows = problem.etc_s.iter().zip(&problem.apc_w).zip(used);
        let types = rows
            .map(|((times, watts), used)| used.then(|| TaskType::new(times, watts, idle, &counts)))
            .collect();
        let load = |j: usize| problem.initial_load_s.as_ref().map_or(0.0, |loads| loads[j]);
        let makespan = |(j, &count): (usize, &u64)| match count {
            0 => 0.0,
            _ => load(j) / as_f64(count),
        };
        let initial = counts.iter().enumerate().map(makespan).collect();
        let usable = (0..counts.len()).filter(|&j| counts[j] > 0).collect();
        Self { price: problem.energy_price, machines: counts.len(), usable, types, initial }
    }

    /// The task type of row `row`, if a user has it.
    pub fn task_type(&self, row: usize) -> Option<&TaskType> {
        self.types.get(row).and_then(Option::as_ref)
    }

    /// Returns the model at another price of energy.
    pub fn at_price(&self, price: f64) -> Self {
        Self { price, ..self.clone() }
    }

    /// Rows of the rate matrices.
    pub fn rows(&self) -> usize {
        self.types.len()
    }
}

/// The tasks placed so far, in sums (formula 5).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    /// Makespan of each machine type in seconds.
    pub load: Vec<f64>,
    /// Joules of all tasks placed.
    pub energy: f64,
    /// Money of all users whose bags have arrived.
    pub revenue: f64,
    /// Largest load in seconds.
    pub makespan: f64,
}

impl State {
    /// The state before the first arrival.
    pub fn new(model: &Model) -> Self {
        let makespan = model.initial.iter().copied().fold(0.0, f64::max);
        Self { load: model.initial.clone(), energy: 0.0, revenue: 0.0, makespan }
    }

    /// Places `x[j]` tasks of one type on each machine type.
    pub fn place(&mut self, task_type: &TaskType, x: &[u64]) {
        for (rank, &j) in task_type.machine.iter().enumerate() {
            if x[j] > 0 {
                let tasks = as_f64(x[j]);
                self.load[j] += tasks * task_type.time[rank];
                self.energy += tasks * task_type.joules[rank];
                self.makespan = self.makespan.max(self.load[j]);
            }
        }
    }

    /// Profit per second (formula 4); `None` while the makespan is 0.
    pub fn objective(&self, price: f64) -> Option<f64> {
        (self.makespan > 0.0).then(|| (self.revenue - price * self.energy) / self.makespan)
    }
}

/// An arriving bag with everything a rule needs, by rank. The vectors are scratch space that is
/// reused from arrival to arrival.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    /// Tasks of the bag, at least 1.
    pub tasks: f64,
    /// Revenue of all users up to this one less the cost of the energy so far.
    pub net: f64,
    /// Money per joule.
    pub price: f64,
    /// Makespan before the bag, which no choice of the bag can undercut.
    pub floor: f64,
    /// Makespan of each machine before the bag, by rank.
    pub load: Vec<f64>,
    /// Seconds of one task, by rank.
    pub time: Vec<f64>,
    /// Joules of one task, by rank.
    pub joules: Vec<f64>,
}

impl Arrival {
    /// Loads the arrival of `tasks` tasks, whose revenue `state.revenue` includes already.
    pub fn set(&mut self, model: &Model, state: &State, task_type: &TaskType, tasks: u64) {
        self.tasks = as_f64(tasks);
        self.price = model.price;
        self.net = state.revenue - model.price * state.energy;
        self.floor = state.makespan;
        self.load.clear();
        self.load.extend(task_type.machine.iter().map(|&j| state.load[j]));
        self.time.clone_from(&task_type.time);
        self.joules.clone_from(&task_type.joules);
    }

    /// Number of machines.
    pub fn len(&self) -> usize {
        self.load.len()
    }
}
