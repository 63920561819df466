// SPDX-License-Identifier: GPL-3.0-or-later
//! Promises of a plan: the makespan when whole tasks run on whole slots, and
//! with it energy and profit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::bag::inputs::Inputs;
use crate::bag::model::Model;
use crate::preference::{BagRow, BagShare, MethodReport};
use phalanx_core::number::{as_f64, whole};
use phalanx_methods::bag::Answer;

/// Tasks of one class up to which their starts are worked out one by one.
const TASKS_MAX: u64 = 50_000;

/// Writes the plan into the report.
pub(super) fn fill(
    report: &mut MethodReport,
    inputs: &Inputs<'_>,
    model: &Model<'_>,
    answer: &Answer,
    split: &[Vec<u64>],
) {
    report.objective = answer.last.objective;
    report.upper_bound = answer.lp_bound;
    if let (Some(bound), Some(reached)) = (answer.lp_bound, answer.last.objective) {
        report.gap = Some((bound - reached) / bound.abs().max(1e-12));
    }
    report.bags = rows(model, split);
    // Behind those that are planned, and without any part in the sums.
    report.bags.extend(model.unknown.iter().map(|(_, row)| row.clone()));
    let sum = |of: fn(&BagRow) -> f64| report.bags.iter().map(of).sum::<f64>();
    let (revenue, energy) = (sum(|row| row.revenue), sum(|row| row.energy_j));
    let ends = (0..model.classes.len()).map(|class| end_of(model, split, class));
    let makespan = ends.fold(0.0, f64::max);
    let idle: f64 = model
        .classes
        .iter()
        .map(|class| as_f64(class.nodes.len() as u64) * inputs.knowledge.idle_watts(&class.name))
        .sum();
    let net = revenue - model.energy_price * energy + model.under_way;
    let per_s = if makespan > 0.0 { net / makespan } else { 0.0 };
    let mut term = |name: &str, value: f64| report.terms.insert(name.to_owned(), value);
    term("revenue", revenue);
    term("energy_j", energy);
    term("makespan_s", makespan);
    term("idle_w", idle);
    term("pause_s", model.pause_s);
    term("energy_price_kwh", model.energy_price * 3.6e6);
    term("under_way", model.under_way);
    term("profit_per_hour", 3600.0 * (per_s - model.energy_price * idle));
}

fn rows(model: &Model<'_>, split: &[Vec<u64>]) -> Vec<BagRow> {
    let row = |(bag, x): (&super::model::Bag<'_>, &Vec<u64>)| {
        let of_class = |((class, x), rate): ((&super::model::Class, &u64), _)| {
            let rate: Option<super::model::Rate> = rate;
            rate.map(|rate| BagShare {
                nodes: class.name.clone(),
                tasks: *x,
                seconds: rate.time.seconds,
                runs: rate.time.count,
                watts: rate.watts.watts,
                watts_from: rate.watts.from,
            })
        };
        let shares: Vec<BagShare> = model
            .classes
            .iter()
            .zip(x)
            .zip(bag.rates.iter().copied())
            .filter_map(of_class)
            .collect();
        BagRow {
            array: bag.array,
            job_class: bag.class.clone(),
            pending: bag.pending,
            running: bag.running.len() as u64,
            price: bag.price,
            revenue: bag.price * as_f64(if bag.waits { 0 } else { bag.pending }),
            energy_j: shares.iter().map(|s| as_f64(s.tasks) * s.seconds * s.watts).sum(),
            loss: bag.price < model.energy_price * bag.least_joules(),
            waits: bag.waits,
            shares,
            missing: bag.missing.clone(),
        }
    };
    model.bags.iter().zip(split).map(row).collect()
}

/// Seconds until the class has done its tasks, array after array, each on the
/// slot that is free first.
fn end_of(model: &Model<'_>, split: &[Vec<u64>], class: usize) -> f64 {
    let Some(own) = model.classes.get(class) else { return 0.0 };
    let rate = |bag: &super::model::Bag<'_>| bag.rates.get(class).copied().flatten();
    let slots = model.bags.iter().filter_map(rate).map(|r| r.slots).fold(0.0, f64::max);
    if slots < 1.0 || own.cpus <= 0.0 {
        return 0.0;
    }
    let before = own.load / own.cpus;
    // Seconds of a task if every task took one of the same slots.
    let tasks = || {
        model.bags.iter().zip(split).filter_map(move |(bag, x)| {
            let rate = rate(bag)?;
            Some((*x.get(class)?, (rate.time.seconds + model.pause_s) * slots / rate.slots))
        })
    };
    let count: u64 = tasks().map(|(x, _)| x).sum();
    let fluid = before + tasks().map(|(x, time)| as_f64(x) * time).sum::<f64>() / slots;
    if count == 0 || count > TASKS_MAX {
        return fluid;
    }
    /// Slots whose ends are followed.
    const SLOTS_MAX: f64 = 100_000.0;
    let start = micros(before);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // bounded
    let slots = slots.min(SLOTS_MAX) as usize;
    let mut free: BinaryHeap<Reverse<u64>> = std::iter::repeat_n(Reverse(start), slots).collect();
    let mut end = start;
    for (x, time) in tasks() {
        for _ in 0..x {
            let Some(Reverse(at)) = free.pop() else { continue };
            let done = at.saturating_add(micros(time));
            end = end.max(done);
            free.push(Reverse(done));
        }
    }
    as_f64(end) / 1e6
}

fn micros(seconds: f64) -> u64 {
    whole(seconds * 1e6)
}
