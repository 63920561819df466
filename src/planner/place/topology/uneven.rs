// SPDX-License-Identifier: GPL-3.0-or-later
//! Leaves for a job whose nodes are open: `-n` without `-N`.

use super::Form;
use crate::place::uneven::excluded_on;
use crate::place::{NoPlacement, Placer, Split, capacity};
use phalanx_core::NodeSet;
use phalanx_core::shape::Shape;
use phalanx_core::topology::Topology;

impl Placer {
    /// [`other_split`](Placer::other_split) on as few leaves as hold all tasks; where that
    /// takes too many nodes, below the lowest switch where it does not.
    pub(in crate::place) fn other_split_on_leaves(
        &mut self,
        topology: &Topology,
        form: usize,
        shape: &Shape,
        wanted: u32,
        held_ms: u64,
    ) -> Result<Split, NoPlacement> {
        let offered = self.mask.clone();
        let Some(leaves) = self.leaves_for_tasks(topology, form, shape) else {
            return Err(NoPlacement::NoFit);
        };
        self.topologies.fewest = u32::try_from(leaves.len()).unwrap_or(u32::MAX);
        let mut inside: Vec<u32> = leaves;
        let mut above = topology.common(inside.iter().copied());
        loop {
            self.keep(topology, &inside, &offered);
            match (self.other_split(shape, wanted, held_ms), above) {
                (Err(NoPlacement::NoFit), Some(domain)) => {
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
    fn leaves_for_tasks(
        &mut self,
        topology: &Topology,
        form: usize,
        shape: &Shape,
    ) -> Option<Vec<u32>> {
        let none = NodeSet::new(self.mask.len());
        self.topologies.count(topology.leaf_by_node(), topology.leaf_count(), &none);
        let one = shape.need_for(1, 1, 1);
        let counts = &mut self.topologies.counts;
        for node in self.mask.iter() {
            let leaf = topology.leaf_of(node).map(|leaf| leaf as usize);
            let slot = leaf.and_then(|leaf| counts.free.get_mut(leaf));
            if let (Some(slot), Some(usage)) = (slot, self.cluster.usages().get(node.at())) {
                let excluded = excluded_on(&self.excluded, node);
                let tasks = capacity(shape, &one, usage, &excluded).min(shape.tasks());
                *slot = slot.saturating_add(u32::try_from(tasks).unwrap_or(u32::MAX));
            }
        }
        counts.free_idle.clone_from(&counts.free);
        let cpus = u64::from(shape.min_cpus.div_ceil(shape.cpus_per_task.max(1)));
        let tasks = u32::try_from(shape.tasks().max(cpus)).ok()?;
        let Some(Form::Tree(tree)) = self.topologies.forms.get(form) else { return None };
        let plan = tree.choose(&self.topologies.counts, tasks, None)?.equal.into_iter().next()?;
        Some(plan.take.into_iter().map(|(leaf, _)| leaf).collect())
    }

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
