// SPDX-License-Identifier: GPL-3.0-or-later
//! The model as a problem of the gang method, and its answer as node indexes.

use std::collections::{BTreeMap, HashMap};

use crate::gang::billing::Billing;
use crate::gang::inputs::Inputs;
use crate::gang::model::{Gang, Model, NONE, Part};
use crate::usage::{Level, NodeUsage};
use phalanx_core::NodeIdx;
use phalanx_core::number::as_f64;
use phalanx_core::shape::Need;
use phalanx_methods::gang::{self, Answer, GroupEdge, Problem, Server, Task};

/// Amount of the dimension that keeps whole nodes and shared nodes apart: an idle node has all of
/// it, a whole-node job takes all, any other job takes one.
const IDLE: f64 = 1000.0;
/// Position of the first GRES kind, behind cpu, memory and idle.
const KINDS: usize = 3;

/// A problem, and the node indexes of its servers.
pub(super) struct Built {
    pub(super) problem: Problem,
    /// Node of each server.
    node_of: Vec<NodeIdx>,
    /// Server by name.
    server_of: HashMap<String, u32>,
}

/// Builds the problem. Capacities are the free amounts; values are in units of the mean payment.
pub(super) fn build(inputs: &Inputs<'_>, model: &Model<'_>) -> Built {
    let kinds = dimension_names(inputs);
    let mut servers = Vec::new();
    let mut node_of = Vec::new();
    for (node, (usage, group)) in inputs.usages.iter().zip(&model.group_of).enumerate() {
        if let (Some(own), true) = (inputs.snapshot.nodes.get(node), *group != NONE) {
            let name = own.name.to_string();
            servers.push(Server { name, capacity: free(usage), group: Some(group.to_string()) });
            node_of.push(NodeIdx::new(node));
        }
    }
    let prices = Prices::new(inputs, model, &kinds);
    let tasks_max = model.gangs.iter().map(Gang::tasks).max().unwrap_or(1);
    let jobs = model.gangs.iter().map(|gang| job(model, &prices, gang, kinds.len())).collect();
    let server_of = (0u32..).zip(&servers).map(|(at, s)| (s.name.clone(), at)).collect();
    let problem = Problem {
        cost: Some(prices.cost.clone()),
        slot: inputs.beliefs.runs().saturating_add(1),
        g: inputs.settings.growth(),
        bonus_scale: inputs.settings.bonus_scale,
        // By gang, not by plan: with thousands of gangs at once the bonus of
        // each would drown what is known.
        m: Some(tasks_max),
        kinds,
        servers,
        jobs,
    };
    Built { problem, node_of, server_of }
}

fn dimension_names(inputs: &Inputs<'_>) -> Vec<String> {
    let gres = inputs.snapshot.gres_kinds.iter().chain(&inputs.snapshot.gres_types);
    let mut names = vec!["cpu".to_owned(), "mem".to_owned(), "idle".to_owned()];
    names.extend(gres.map(|name| format!("gres/{name}")));
    names
}

fn free(usage: &NodeUsage) -> Vec<f64> {
    let free = |level: &Level| as_f64(level.free());
    let mut amounts = vec![free(&usage.cpus), free(&usage.memory_mb)];
    amounts.push(if usage.jobs == 0 { IDLE } else { IDLE - 1.0 });
    amounts.extend(usage.kinds.iter().chain(&usage.types).map(free));
    amounts
}

/// Amounts that one node of the job takes. All memory of a node stands for the whole node.
fn request(need: &Need, kinds: usize, dims: usize) -> Vec<f64> {
    let mut amounts = vec![0.0; dims];
    let mut add = |at: usize, n: f64| {
        if let Some(slot) = amounts.get_mut(at) {
            *slot += n;
        }
    };
    add(0, as_f64(need.cpus));
    add(1, as_f64(need.memory_mb));
    add(2, if need.whole || need.all_memory { IDLE } else { 1.0 });
    for &(kind, gres_type, count) in &need.gres {
        add(KINDS + kind.at(), as_f64(count));
        if let Some(gres_type) = gres_type {
            add(KINDS + kinds + gres_type.at(), as_f64(count));
        }
    }
    amounts
}

/// Payment and cost per unit of each dimension, scaled to a mean payment of 1.
struct Prices<'a> {
    per_unit: Vec<f64>,
    cost: Vec<f64>,
    /// Whether the dearest dimension counts, as no weights are configured, instead of the sum.
    largest: bool,
    scale: f64,
    priority: f64,
    kinds: usize,
    /// Slurm's billing weights, unless the configuration has other weights.
    billing: Option<Billing<'a>>,
}

/// Extra payment of a job of the highest priority compared with one of priority 0, relative to
/// that: with twice the payment neither size nor priority decides alone.
const PRIORITY_WEIGHT: f64 = 1.0;

impl<'a> Prices<'a> {
    fn new(inputs: &Inputs<'a>, model: &Model<'_>, names: &[String]) -> Self {
        let settings = inputs.settings;
        let unit = |name: &str, price: f64| if name == "mem" { price / 1024.0 } else { price };
        let of = |list: &BTreeMap<String, f64>, name: &String| {
            unit(name, list.get(name).copied().unwrap_or(0.0))
        };
        let largest = settings.billing.is_empty();
        let per_unit = match largest {
            true => share_prices(inputs, names.len()),
            false => names.iter().map(|name| of(&settings.billing, name)).collect(),
        };
        let mut prices = Self {
            per_unit,
            cost: names.iter().map(|name| of(&settings.cost, name)).collect(),
            largest,
            scale: 1.0,
            priority: PRIORITY_WEIGHT / model.priority_max,
            kinds: inputs.snapshot.gres_kinds.len(),
            billing: largest.then(|| Billing::new(inputs.snapshot, names)).flatten(),
        };
        let parts = || model.gangs.iter().flat_map(|gang| &gang.parts);
        let paid: f64 = parts().map(|p| prices.payment(p) * f64::from(p.nodes)).sum();
        let tasks: f64 = parts().map(|p| f64::from(p.nodes)).sum();
        if paid > 0.0 && paid.is_finite() {
            prices.scale = tasks / paid;
            prices.cost.iter_mut().for_each(|c| *c *= prices.scale);
        }
        prices
    }

    /// Price of the amounts that the job takes of one node, raised by the job's priority.
    fn payment(&self, part: &Part<'_>) -> f64 {
        let amounts = request(&part.need, self.kinds, self.per_unit.len());
        let terms = amounts.iter().zip(&self.per_unit).map(|(a, p)| a * p);
        let paid = match &self.billing {
            Some(billing) => billing.payment(part.job, &amounts),
            None if self.largest => terms.fold(0.0, f64::max),
            None => terms.sum(),
        };
        // Nothing is worth nothing: else free jobs would never start.
        let urgent = 1.0 + self.priority * f64::from(part.job.priority);
        paid.max(1e-6) * urgent * self.scale
    }
}

/// Returns one over an average node's amount of each dimension.
fn share_prices(inputs: &Inputs<'_>, dims: usize) -> Vec<f64> {
    let mut total = vec![0.0; dims];
    for usage in inputs.usages {
        let levels = [usage.cpus, usage.memory_mb, Level::default()].into_iter();
        let all = levels.chain(usage.kinds.iter().chain(&usage.types).copied());
        total.iter_mut().zip(all).for_each(|(sum, level)| *sum += as_f64(level.total));
    }
    let nodes = as_f64(inputs.usages.len() as u64);
    total.into_iter().map(|sum| if sum > 0.0 { nodes / sum } else { 0.0 }).collect()
}

fn job(model: &Model<'_>, prices: &Prices<'_>, gang: &Gang<'_>, dims: usize) -> gang::Job {
    let mut tasks = Vec::new();
    for part in &gang.parts {
        let paid = prices.payment(part);
        let edge = |(at, group): (usize, &super::model::Group)| {
            let belief = model.estimate(part, group.class);
            // The bonus of a task that pays p is p times that of one that pays
            // 1: sigma2 = p^2 g / (2 n).
            let count = belief.count / (paid * paid);
            GroupEdge { group: at.to_string(), mean: paid * belief.speed, count }
        };
        let task = Task {
            request: request(&part.need, prices.kinds, dims),
            groups: model.groups_for(part).map(edge).collect(),
            ..Task::default()
        };
        tasks.extend(std::iter::repeat_n(task, part.nodes as usize));
    }
    gang::Job { id: format!("{}.{}", gang.id, gang.copy), tasks, spread: true }
}

/// Node of each task of each gang; empty for gangs that wait.
pub(super) fn places(built: &Built, model: &Model<'_>, answer: &Answer) -> Vec<Vec<NodeIdx>> {
    let mut places = vec![Vec::new(); model.gangs.len()];
    let mut started = answer.assignment.iter().peekable();
    for (job, place) in built.problem.jobs.iter().zip(&mut places) {
        let Some(placement) = started.next_if(|p| p.job == job.id) else { continue };
        let node = |name: &String| {
            let server = *built.server_of.get(name)?;
            built.node_of.get(server as usize).copied()
        };
        *place = placement.tasks.iter().filter_map(node).collect();
    }
    places
}
