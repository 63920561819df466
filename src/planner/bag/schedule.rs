// SPDX-License-Identifier: GPL-3.0-or-later
//! Promises of a plan: the makespan of whole tasks on whole slots, and with it energy and profit.

use crate::bag::inputs::Inputs;
use crate::bag::model::Model;
use crate::preference::{BagRow, BagShare, MethodReport};
use phalanx_core::number::as_f64;
use phalanx_methods::bag::slots::SlotPlan;

/// Values of a plan, and of the plans with which it is compared.
pub(super) struct Values {
    pub(super) promised: SlotPlan,
    /// Plan of list scheduling, which is what Slurm does.
    pub(super) list: SlotPlan,
    /// Bound of the profit where machine types are fluids.
    pub(super) bound: Option<f64>,
}

/// Writes the plan into the report. Where an array has no price there is no profit.
pub(super) fn fill(
    report: &mut MethodReport,
    inputs: &Inputs<'_>,
    model: &Model<'_>,
    split: &[Vec<u64>],
    values: &Values,
) {
    let priced = model.bags.iter().all(|bag| bag.price.is_some());
    if priced {
        report.objective = Some(values.promised.value);
        report.upper_bound = values.bound;
        report.gap =
            values.bound.map(|bound| (bound - values.promised.value) / bound.abs().max(1e-12));
    }
    report.bags = rows(model, split);
    // Behind those that are planned, and without any part in the sums.
    report.bags.extend(model.unknown.iter().map(|(_, row)| row.clone()));
    let sum = |of: fn(&BagRow) -> f64| report.bags.iter().map(of).sum::<f64>();
    let (revenue, energy) = (sum(|row| row.revenue), sum(|row| row.energy_j));
    let idle: f64 = model
        .classes
        .iter()
        .map(|class| as_f64(class.nodes.len() as u64) * inputs.knowledge.idle_watts(&class.name))
        .sum();
    let per_hour = |plan: &SlotPlan| 3600.0 * (plan.value - model.energy_price * idle);
    let mut term = |name: &str, value: f64| report.terms.insert(name.to_owned(), value);
    term("energy_j", energy);
    term("makespan_s", as_f64(values.promised.makespan_us) / 1e6);
    term("list_makespan_s", as_f64(values.list.makespan_us) / 1e6);
    term("list_energy_j", values.list.joules);
    term("idle_w", idle);
    term("pause_s", model.pause_s);
    term("energy_price_kwh", model.energy_price * 3.6e6);
    if priced {
        term("revenue", revenue);
        term("under_way", model.under_way);
        term("profit_per_hour", per_hour(&values.promised));
        term("list_profit_per_hour", per_hour(&values.list));
    }
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
            revenue: bag.price.unwrap_or(0.0) * as_f64(if bag.waits { 0 } else { bag.pending }),
            energy_j: shares.iter().map(|s| as_f64(s.tasks) * s.seconds * s.watts).sum(),
            loss: bag.makes_a_loss(model.energy_price),
            waits: bag.waits,
            shares,
            missing: bag.missing.clone(),
        }
    };
    model.bags.iter().zip(split).map(row).collect()
}
