// SPDX-License-Identifier: GPL-3.0-or-later
//! Views of a decision: its reports for `phalanx explain` and its record for the history.

use std::sync::Arc;

use crate::history::{DecisionRecord, JobRef};
use phalanx_core::number::as_u32;
use phalanx_core::snapshot::Snapshot;
use phalanx_core::topology::Topology;
use phalanx_core::{NodeIdx, hostlist};
use phalanx_messages::rest::{
    AskReport, DecisionReport, LeafNodes, LeavesReport, PreferenceReport, ScoredNode,
};
use phalanx_methods::balance::{self, Branch, Choice};
use phalanx_mirror::Decision;
use phalanx_planner::cluster::Table;
use phalanx_planner::place::{Placement, Span};
use phalanx_planner::preference::PreferenceUse;

/// Maximum number of chosen nodes whose scores are reported.
const SCORED_MAX: usize = 64;

/// Makes the record of a decision; `mode` is the balance method's mode.
pub(super) fn decision_record(
    decision: &Decision,
    mode: balance::Mode,
    time_ms: u64,
) -> DecisionRecord {
    let (question, answer) = (&decision.question, &decision.answer);
    let (placement, used) = (answer.placement(), decision.preference_use.as_ref());
    let ask = AskReport {
        time_ms,
        ask: if question.will_run { "will_run" } else { "run_now" }.to_owned(),
        verdict: if answer.reason().is_none() { "narrow" } else { "no-opinion" }.to_owned(),
        reason: answer.text(),
        nodes: placement.map(|p| names(&decision.table, &p.nodes)).unwrap_or_default(),
        preemptable: question.preemptable.clone(),
        preemptable_all: question.preemptable_all,
        preference: used.map(|used| Arc::new(preference(decision, used))),
    };
    DecisionRecord {
        decision: decision.id,
        job: job_ref(question.job_id, question.array, question.origin.user_id, &question.partition),
        mode: decision.mode.as_str().to_owned(),
        node_count: as_u32(placement.map_or(0, |p| p.nodes.len())),
        generation: decision.generation,
        explain: placement.map(|placement| Arc::new(scores(decision, placement, mode, &ask))),
        latency_us: decision.took_ns / 1000,
        ask,
    }
}

/// Reports the placement of an ask with its scores.
fn scores(
    decision: &Decision,
    placement: &Placement,
    mode: balance::Mode,
    ask: &AskReport,
) -> DecisionReport {
    let figures = &placement.decision;
    let preference = ask.preference.clone().filter(|used| used.candidate_set.is_some());
    let scored = |choice: &Choice| scored(decision, placement, choice);
    DecisionReport {
        id: decision.id,
        time_ms: ask.time_ms,
        method: preference.as_ref().map_or("balance", |used| &used.method).to_owned(),
        method_mode: match mode {
            balance::Mode::Seed => "seed".into(),
            balance::Mode::Best => "best".into(),
        },
        generation: decision.generation,
        nodes: ask.nodes.clone(),
        candidates: placement.candidates as u64,
        not_ready: placement.not_ready.0 as u64,
        not_ready_chosen: placement.not_ready.1 as u64,
        preference,
        topology: leaves(decision, placement),
        branch: match figures.branch {
            Branch::Low => "low".into(),
            Branch::High => "high".into(),
            Branch::Best => "best".into(),
        },
        utilization: figures.utilization,
        dimensions: decision.dims.iter().map(|name| name.to_string()).collect(),
        weights: figures.weights.clone(),
        chosen: figures.choices().iter().take(SCORED_MAX).map(scored).collect(),
        runner_up: figures.runner_up.as_ref().map(|runner_up| scored(&runner_up.choice)),
        margin: figures.runner_up.as_ref().map(|runner_up| runner_up.margin),
    }
}

/// Reports the leaf switches or blocks of a decision.
fn leaves(decision: &Decision, placement: &Placement) -> Option<LeavesReport> {
    let (_, topology) = decision.table.topology_at(decision.question.shape.topology.index)?;
    let fewest = placement.topology.as_ref().map(|used| used.fewest).filter(|fewest| *fewest > 0);
    leaves_report(topology, &placement.nodes).map(|report| LeavesReport { fewest, ..report })
}

/// Reports the leaf switches or blocks of several nodes.
pub(super) fn leaves_report(topology: &Topology, nodes: &[NodeIdx]) -> Option<LeavesReport> {
    if nodes.len() < 2 || !topology.has_leaves() {
        return None;
    }
    let on = topology.leaves(nodes.iter().copied());
    let above = topology.common(on.iter().map(|(leaf, _)| *leaf));
    let above = above.and_then(|at| topology.domains().get(at as usize));
    let of = |&(leaf, nodes): &(u32, u32)| LeafNodes {
        name: topology.leaf_name(leaf).to_owned(),
        nodes,
    };
    Some(LeavesReport {
        topology: topology.name().to_string(),
        kind: topology.kind(),
        leaves: on.iter().map(of).collect(),
        fewest: None,
        above: above.map(|domain| domain.name.to_string()),
        level: above.map(|domain| domain.level),
    })
}

/// Converts a job to the form of the history's records.
pub(super) fn job_ref(
    job_id: u32,
    array: Option<(u32, u32)>,
    user_id: u32,
    partition: &str,
) -> JobRef {
    JobRef {
        job_id,
        array_job_id: array.map(|(job, _)| job),
        array_task_id: array.map(|(_, task)| task),
        het_job_id: None,
        user_id,
        partition: partition.to_owned(),
    }
}

/// Returns nodes of a table as a hostlist in Slurm's order.
pub(super) fn names(table: &Table, nodes: &[NodeIdx]) -> String {
    let names: Vec<String> = nodes.iter().map(|&node| name(table, node)).collect();
    hostlist::compress(&names)
}

/// Reports a preference of the last plan, with nodes by the indexes of its snapshot.
pub(super) fn planned_preference(snapshot: &Snapshot, used: &PreferenceUse) -> PreferenceReport {
    preference_report(used, |node| {
        snapshot.nodes.get(node.at()).map_or_else(|| format!("#{node}"), |n| n.name.to_string())
    })
}

fn preference(decision: &Decision, used: &PreferenceUse) -> PreferenceReport {
    preference_report(used, |node| name(&decision.table, node))
}

fn preference_report(used: &PreferenceUse, name: impl Fn(NodeIdx) -> String) -> PreferenceReport {
    let preference = &used.preference;
    let set = used.set.and_then(|at| preference.sets.get(at));
    let set = set.map(|set| set.name.to_string());
    PreferenceReport {
        method: preference.method.as_str().to_owned(),
        made_ms: preference.made_ms,
        candidate_set: set,
        unused: used.unused.map(|unused| unused.text(name)),
        note: preference.note.clone(),
    }
}

fn name(table: &Table, node: NodeIdx) -> String {
    table.nodes.get(node.at()).map_or_else(|| format!("#{node}"), |n| n.name.to_string())
}

fn scored(decision: &Decision, placement: &Placement, choice: &Choice) -> ScoredNode {
    let at = placement.terms.iter().position(|(node, _)| *node == choice.node);
    let terms = at.and_then(|at| placement.terms.get(at)).into_iter().flat_map(|(_, of)| of);
    let busy_s = at.and_then(|at| placement.busy_s.get(at)).copied();
    let longer_s = |(busy_s, span): (u64, Span)| {
        span.now_s.saturating_add(span.limit_s).saturating_sub(busy_s.max(span.now_s))
    };
    ScoredNode {
        node: name(&decision.table, choice.node),
        dispersion_before: choice.before,
        dispersion_after: choice.after,
        score: choice.score,
        terms: terms.map(|(term, value)| ((*term).into(), *value)).collect(),
        busy_until_ms: busy_s.filter(|end_s| *end_s > 0).map(|end_s| end_s.saturating_mul(1000)),
        busy_longer_ms: busy_s.zip(placement.span).map(|of| longer_s(of).saturating_mul(1000)),
    }
}
