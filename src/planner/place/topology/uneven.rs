// SPDX-License-Identifier: GPL-3.0-or-later
//! Leaves for a job whose nodes are open: `-n` without `-N`.

use super::{Form, Sets};
use crate::place::Why;
use crate::place::search::{Search, Split};
use phalanx_core::NodeSet;
use phalanx_core::topology::Topology;

impl Search<'_> {
    /// [`other_split`](Search::other_split) on as few leaves as hold all tasks; where that
    /// takes too many nodes, below the lowest switch where it does not.
    pub(in crate::place) fn other_split_on_leaves(&mut self, at: usize) -> Result<Split, Why> {
        let topology = self.chooser.topology(at)?;
        let offered = self.chooser.sets.mask.clone();
        let mut inside = self.leaves_for_tasks(topology, at).ok_or(Why::NoFit)?;
        self.chooser.fewest = u32::try_from(inside.len()).unwrap_or(u32::MAX);
        let mut above = topology.common(inside.iter().copied());
        loop {
            self.chooser.sets.keep(topology, &inside, &offered);
            match (self.other_split(), above) {
                (Err(Why::NoFit), Some(domain)) => {
                    let leaves = 0..u32::try_from(topology.leaf_count()).unwrap_or(0);
                    let below = |leaf: &u32| topology.above(*leaf).any(|d| d == domain);
                    inside = leaves.filter(below).collect();
                    above = topology.domains().get(domain as usize).and_then(|d| d.parent);
                }
                (split, _) => return split,
            }
        }
    }

    /// The leaves of least rank whose nodes hold all tasks.
    fn leaves_for_tasks(&mut self, topology: &Topology, at: usize) -> Option<Vec<u32>> {
        let shape = self.shape;
        let tasks_on = self.tasks_on();
        let Sets { mask, idle, chosen, counts, .. } = &mut *self.chooser.sets;
        chosen.clear();
        counts.count(topology, chosen, idle, None);
        for node in mask.iter() {
            if let Some(leaf) = topology.leaf_of(node) {
                let tasks = u32::try_from(tasks_on(node).min(shape.tasks())).unwrap_or(u32::MAX);
                counts.add_free(leaf, tasks);
            }
        }
        counts.free_idle.clone_from(&counts.free);
        let cpus = u64::from(shape.min_cpus.div_ceil(shape.cpus_per_task.max(1)));
        let tasks = u32::try_from(shape.tasks().max(cpus)).ok()?;
        let Some(Form::Tree(tree)) = self.chooser.topologies.forms.get(at) else { return None };
        let plan = tree.choose(counts, tasks, None)?.equal.into_iter().next()?;
        Some(plan.take.into_iter().map(|(leaf, _)| leaf).collect())
    }
}

impl Sets {
    /// Offers what was offered on these leaves.
    fn keep(&mut self, topology: &Topology, leaves: &[u32], offered: &NodeSet) {
        self.mask.clear();
        for &leaf in leaves {
            for &node in topology.nodes_of(leaf).iter().filter(|node| offered.contains(**node)) {
                self.mask.insert(node);
            }
        }
    }
}
