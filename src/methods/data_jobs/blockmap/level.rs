// SPDX-License-Identifier: GPL-3.0-or-later
//! Cuts splits in two so that tasks of unequal speed end together.
//!
//! Whole splits leave a slow task with half a split too much or too little, which on a node of an
//! eighth of the speed is as long as four splits elsewhere. Where the user leaves the splits to us
//! (`split=block`), the task that ends last hands on part of one, as often as that pays.

use super::assignment::{Assignment, NodeTasks, Pace, State};
use super::splits::Split;
use phalanx_core::number::{as_f64, as_u32, whole};

/// Least part of the time of the task that ends last which a cut must save.
const WORTH: f64 = 0.005;
/// Splits of one task that are looked at.
const LOOK_MAX: usize = 64;

/// Bytes of a split, by task, in the order of the bytes.
type Parts = Vec<(usize, u64)>;

/// A cut: this many bytes of a split for another task.
struct Cut {
    split: usize,
    bytes: u64,
    to: usize,
    /// Time at which the task that hands on then ends.
    end: f64,
}

/// The splits and their assignment, with some of them cut; every byte stays in exactly one. The
/// arguments are those of [`assign`](super::assign) and its answer.
#[must_use]
pub fn level(
    splits: &[Split],
    dealt: &Assignment,
    node_of: &[Option<usize>],
    nodes: &[NodeTasks],
    pace: Pace,
) -> (Vec<Split>, Assignment) {
    let mut state = State::new(splits, node_of, nodes, pace);
    let mut parts: Vec<Parts> = Vec::with_capacity(splits.len());
    let mut own: Vec<Vec<usize>> = vec![Vec::new(); state.loads.len()];
    let mut remote = 0.0;
    for (i, split) in splits.iter().enumerate() {
        let task = dealt.task.get(i).and_then(|task| usize::try_from(*task).ok()).unwrap_or(0);
        if task >= own.len() {
            return (splits.to_vec(), dealt.clone());
        }
        state.give(i, task);
        own[task].push(i);
        parts.push(vec![(task, split.length)]);
        remote += state.far_bytes(i, task);
    }
    let mut allowance = state.allowance(pace) - remote;
    for _ in 0..2 * own.len() {
        let Some(critical) = state.critical() else { break };
        let Some(cut) = best_cut(&state, &parts, &own[critical], critical, allowance) else {
            break;
        };
        let (split, bytes) = (cut.split, as_f64(cut.bytes));
        allowance -= bytes * further(&state, split, critical, cut.to);
        let reached = state.loads[cut.to] + bytes * rate(&state, split, cut.to);
        state.set_load(critical, cut.end);
        state.set_load(cut.to, reached);
        for part in &mut parts[split] {
            part.1 -= if part.0 == critical { cut.bytes } else { 0 };
        }
        match parts[split].iter_mut().find(|part| part.0 == cut.to) {
            Some(part) => part.1 += cut.bytes,
            None => parts[split].push((cut.to, cut.bytes)),
        }
        own[cut.to].push(split);
    }
    (cut_up(splits, &parts), dealt_up(&parts, state.loads))
}

/// Time of one byte of a split with a task.
fn rate(state: &State, split: usize, task: usize) -> f64 {
    state.cost(split, task) / state.items[split].length
}

/// Returns, for each byte of a split that goes from one task to another: 1 if the byte could be
/// read locally before and not after, -1 the other way round.
fn further(state: &State, split: usize, from: usize, to: usize) -> f64 {
    let far = state.far_bytes(split, to) - state.far_bytes(split, from);
    far / state.items[split].length
}

/// The cut after which the critical task ends soonest; both tasks then end together.
fn best_cut(
    state: &State,
    parts: &[Parts],
    own: &[usize],
    critical: usize,
    allowance: f64,
) -> Option<Cut> {
    let high = state.loads[critical];
    let mut best: Option<Cut> = None;
    for &split in own.iter().rev().take(LOOK_MAX) {
        let held = parts[split].iter().find(|part| part.0 == critical).map_or(0, |part| part.1);
        let near = state.near(split).map(|(_, task)| task);
        for to in near.chain(state.least_loaded()).filter(|&to| to != critical) {
            let (out, into) = (rate(state, split, critical), rate(state, split, to));
            let bytes = whole((high - state.loads[to]).max(0.0) / (out + into));
            let end = high - as_f64(bytes) * out;
            let far = as_f64(bytes) * further(state, split, critical, to);
            let good = bytes < held && far <= allowance && high - end > WORTH * high;
            if good && best.as_ref().is_none_or(|best| end < best.end) {
                best = Some(Cut { split, bytes, to, end });
            }
        }
    }
    best
}

/// The parts as splits, in the order of the input.
fn cut_up(splits: &[Split], parts: &[Parts]) -> Vec<Split> {
    let mut all = Vec::with_capacity(splits.len());
    for (split, parts) in splits.iter().zip(parts) {
        let mut offset = split.offset;
        for &(_, length) in parts {
            let part = |bytes: u64| {
                let part = u128::from(bytes) * u128::from(length) / u128::from(split.length.max(1));
                u64::try_from(part).unwrap_or(length)
            };
            let held = split.held.iter().map(|&(datanode, bytes)| (datanode, part(bytes)));
            all.push(Split { file: split.file, offset, length, held: held.collect() });
            offset += length;
        }
    }
    all
}

fn dealt_up(parts: &[Parts], loads: Vec<f64>) -> Assignment {
    let task = parts.iter().flatten().map(|&(task, _)| as_u32(task));
    Assignment { task: task.collect(), loads }
}
