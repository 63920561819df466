// SPDX-License-Identifier: GPL-3.0-or-later
//! Finds a run of consecutive nodes, for `--contiguous`.

use super::Chooser;
use crate::cluster::are_neighbours;
use crate::place::Why;
use phalanx_core::NodeIdx;
use phalanx_core::number::as_u32;
use phalanx_methods::balance::{Decision, Request};

/// Windows of a run that are compared.
const WINDOWS_MAX: usize = 8;

impl Chooser<'_> {
    /// Windows of the fewest heavier nodes, the fewest leaves, the lowest common switch and the
    /// shortest run that suffices; of these the one of least mean score.
    pub(super) fn in_a_run(
        &mut self,
        at: Option<usize>,
        request: &Request<'_>,
    ) -> Result<Decision, Why> {
        let topology = at.map(|at| self.topology(at)).transpose()?;
        self.engine.retain_fitting(&mut self.sets.mask, request);
        let nodes: Vec<NodeIdx> = self.sets.mask.iter().collect();
        let leaf = |node: NodeIdx| topology.and_then(|topology| topology.leaf_of(node));
        let mut ranked = Vec::new();
        for run in nodes.chunk_by(|a, b| are_neighbours(self.cluster.table(), *a, *b)) {
            let mut before = None;
            for window in run.windows(request.nodes) {
                let first = window.first().copied().and_then(leaf);
                // A window from inside a leaf is on no fewer leaves than the one from its begin.
                let inside = std::mem::replace(&mut before, first) == first && first.is_some();
                if inside && self.lighter.is_none() {
                    continue;
                }
                let rank = topology.map(|topology| {
                    let leaves = topology.leaves(window.iter().copied());
                    let level = topology.common_level(leaves.iter().map(|leaf| leaf.0));
                    (leaves.len(), level.unwrap_or(u32::MAX))
                });
                let heavier =
                    |node: &&NodeIdx| self.lighter.is_some_and(|set| !set.contains(**node));
                ranked.push(((window.iter().filter(heavier).count(), rank, run.len()), window));
            }
        }
        let least = ranked.iter().map(|(rank, _)| *rank).min().ok_or(Why::NoFit)?;
        ranked.retain(|(rank, _)| *rank == least);
        // Windows are scored at equal steps, as there may be thousands.
        let step = ranked.len().saturating_sub(1).div_ceil(WINDOWS_MAX - 1).max(1);
        self.fewest = least.1.map_or(0, |(leaves, _)| as_u32(leaves));
        self.loss = 0;
        let sets = &mut *self.sets;
        let mut best: Option<(f64, Decision)> = None;
        for (_, window) in ranked.into_iter().step_by(step) {
            sets.chosen.clear();
            sets.chosen.extend(window.iter().copied());
            let decided = self.engine.decide(&sets.chosen, request).map_err(|_| Why::NoFit)?;
            let mean = decided.choices().iter().map(|choice| choice.score).sum::<f64>();
            if best.as_ref().is_none_or(|(least, _)| mean < *least) {
                best = Some((mean, decided));
            }
        }
        best.map(|(_, decided)| decided).ok_or(Why::NoFit)
    }
}
