// SPDX-License-Identifier: GPL-3.0-or-later
//! Turns a split into preferences: classes of nodes with the number of tasks that may still start
//! there.

use std::sync::Arc;

use crate::bag::inputs::Inputs;
use crate::bag::model::{Bag, Model};
use crate::preference::{
    BagNote, BagRow, CandidateSet, JobKey, Method, MethodReport, Note, Preference,
};
use phalanx_core::NodeIdx;
use phalanx_core::limits::CANDIDATE_SETS_MAX;
use phalanx_core::number::{as_f64, nearest_u32};

/// Makes one preference for each array with waiting tasks.
pub(super) fn make(
    inputs: &Inputs<'_>,
    model: &Model<'_>,
    split: &[Vec<u64>],
    report: &MethodReport,
) -> Vec<Preference> {
    let nodes: Vec<Arc<[NodeIdx]>> =
        model.classes.iter().map(|class| class.nodes.clone().into()).collect();
    let mut preferences = Vec::new();
    for ((bag, x), row) in model.bags.iter().zip(split).zip(&report.bags) {
        if bag.pending == 0 {
            continue;
        }
        let note = Note::Bag(Box::new(BagNote {
            bag: row.clone(),
            energy_price_kwh: model.energy_price * 3.6e6,
            profit_per_hour: report.terms.get("profit_per_hour").copied(),
        }));
        preferences.push(Preference {
            key: JobKey::Array(bag.array),
            method: Method::Bag,
            sets: sets(model, bag, x, &nodes),
            worth: Vec::new(),
            required: model.wait_s(inputs, bag).is_none_or(|wait_s| wait_s > 0.0),
            made_ms: inputs.now_ms,
            note,
        });
    }
    preferences
}

/// Returns the reasons why arrays are not planned, by their records.
pub(super) fn notes(model: &Model<'_>) -> Vec<(u32, Note)> {
    let note = |bag: &BagRow| {
        let energy_price_kwh = model.energy_price * 3.6e6;
        Note::Bag(Box::new(BagNote { bag: bag.clone(), energy_price_kwh, profit_per_hour: None }))
    };
    model.unknown.iter().map(|(job, bag)| (job.id, note(bag))).collect()
}

/// The classes that get tasks; first the class that has most to do for its size.
fn sets(
    model: &Model<'_>,
    bag: &Bag<'_>,
    x: &[u64],
    nodes: &[Arc<[NodeIdx]>],
) -> Vec<CandidateSet> {
    let rounds = |j: usize| {
        let slots = bag.rates.get(j).copied().flatten().map_or(1.0, |rate| rate.slots);
        as_f64(x[j]) / slots
    };
    let mut used: Vec<usize> = (0..x.len()).filter(|&j| x[j] > 0).collect();
    used.sort_by(|&a, &b| rounds(b).total_cmp(&rounds(a)));
    used.truncate(CANDIDATE_SETS_MAX);
    used.iter()
        .map(|&j| CandidateSet {
            name: model.classes[j].name.as_str().into(),
            nodes: Arc::clone(&nodes[j]),
            quota: Some(nearest_u32(x[j])),
        })
        .collect()
}
