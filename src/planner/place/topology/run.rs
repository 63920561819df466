// SPDX-License-Identifier: GPL-3.0-or-later
//! `--contiguous`: one run of consecutive nodes.

use super::Chooser;
use crate::place::Why;
use phalanx_core::NodeIdx;
use phalanx_methods::balance::{Decision, Request};

/// Windows of a run that are compared.
const WINDOWS_MAX: usize = 8;

impl Chooser<'_> {
    /// The tightest run of nodes on offer that suffices, there the window of least mean score.
    pub(super) fn in_a_run(&mut self, request: &Request<'_>) -> Result<Decision, Why> {
        self.engine.retain_fitting(&mut self.sets.mask, request);
        let nodes: Vec<NodeIdx> = self.sets.mask.iter().collect();
        // The shortest run that suffices; the first of equal ones.
        let runs = nodes.chunk_by(|a, b| self.are_neighbours(*a, *b));
        let runs = runs.filter(|run| run.len() >= request.nodes);
        let run = runs.min_by_key(|run| run.len()).ok_or(Why::NoFit)?;
        let starts = run.len() - request.nodes;
        let step = starts.div_ceil(WINDOWS_MAX - 1).max(1);
        let sets = &mut *self.sets;
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
