// SPDX-License-Identifier: GPL-3.0-or-later
//! `--contiguous`: one run of consecutive nodes.

use super::Chooser;
use crate::place::Why;
use phalanx_core::NodeIdx;
use phalanx_core::snapshot::Table;
use phalanx_methods::balance::{Decision, Request};

/// Windows of a run that are compared.
const WINDOWS_MAX: usize = 8;

impl Chooser<'_> {
    /// The tightest run of nodes on offer that suffices, there the window of least mean score.
    pub(super) fn in_a_run(&mut self, request: &Request<'_>) -> Result<Decision, Why> {
        let sets = &mut *self.sets;
        self.engine.retain_fitting(&mut sets.mask, request);
        let nodes: Vec<NodeIdx> = sets.mask.iter().collect();
        let run = tightest(self.cluster.table(), &nodes, request.nodes).ok_or(Why::NoFit)?;
        let starts = run.len() - request.nodes;
        let step = starts.div_ceil(WINDOWS_MAX - 1).max(1);
        let mut best: Option<(f64, Decision)> = None;
        for window in run.windows(request.nodes).step_by(step) {
            sets.chosen.clear();
            for &node in window {
                sets.chosen.insert(node);
            }
            let decided = self.engine.decide(&sets.chosen, request).map_err(|_| Why::NoFit)?;
            let mean = decided.choices().iter().map(|choice| choice.score).sum::<f64>();
            if best.as_ref().is_none_or(|(least, _)| mean < *least) {
                best = Some((mean, decided));
            }
        }
        best.map(|(_, decided)| decided).ok_or(Why::NoFit)
    }
}

/// The shortest run of at least `wanted` nodes; the first of equal ones. Empty slots of
/// the node table do not end a run.
fn tightest<'a>(table: &Table, nodes: &'a [NodeIdx], wanted: usize) -> Option<&'a [NodeIdx]> {
    let empty = |at: usize| table.nodes.get(at).is_some_and(|node| node.name.is_empty());
    let joined = |a: &NodeIdx, b: &NodeIdx| (a.at() + 1..b.at()).all(empty);
    nodes.chunk_by(joined).filter(|run| run.len() >= wanted).min_by_key(|run| run.len())
}
