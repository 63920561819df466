// SPDX-License-Identifier: GPL-3.0-or-later
//! Leaves for a job whose nodes are open: `-n` without `-N`.

use super::{Form, Sets};
use crate::place::search::Search;
use crate::place::uneven::{Ask, Picked, Room};
use phalanx_core::topology::Topology;

impl Search<'_> {
    /// Picks rooms on as few leaves as hold all; where these take too many nodes, below the
    /// lowest switch where they do not. `forced` are taken anyway.
    pub(in crate::place) fn on_leaves_of(
        &mut self,
        at: usize,
        ask: &Ask,
        forced: &[Room],
        rest: &[Room],
    ) -> Option<Picked> {
        let topology = self.chooser.topology(at).ok()?;
        let mut inside = self.leaves_for(topology, at, ask, forced, rest)?;
        self.chooser.fewest = u32::try_from(inside.len()).unwrap_or(u32::MAX);
        let mut above = topology.common(inside.iter().copied());
        let leaf = |room: &Room| topology.leaf_of(room.node);
        loop {
            let on = |rooms: &[Room]| {
                let on = |at: u32| inside.binary_search(&at).is_ok();
                let mut on: Vec<Room> =
                    rooms.iter().filter(|room| leaf(room).is_some_and(on)).copied().collect();
                on.sort_by_key(leaf);
                on
            };
            let rest = on(rest);
            let sets: Vec<&[Room]> = rest.chunk_by(|a, b| leaf(a) == leaf(b)).collect();
            if let Some(mut picked) = Picked::new(ask, &on(forced), &sets) {
                picked.leaves = topology.leaves(picked.nodes()).len();
                return Some(picked);
            }
            let domain = above?;
            let below = |leaf: &u32| topology.above(*leaf).any(|d| d == domain);
            inside = (0..u32::try_from(topology.leaf_count()).ok()?).filter(below).collect();
            above = topology.domains().get(domain as usize).and_then(|d| d.parent);
        }
    }

    /// The leaves of least rank whose nodes hold all, those of forced nodes included.
    fn leaves_for(
        &mut self,
        topology: &Topology,
        at: usize,
        ask: &Ask,
        forced: &[Room],
        rest: &[Room],
    ) -> Option<Vec<u32>> {
        let Sets { idle, chosen, counts, .. } = &mut *self.chooser.sets;
        chosen.clear();
        counts.count(topology, chosen, idle, None);
        let (all, part) = ask.parts()?;
        for (rooms, is_forced) in [(forced, true), (rest, false)] {
            for room in rooms {
                if let Some(leaf) = topology.leaf_of(room.node) {
                    counts.add(leaf, part(&room.units), is_forced);
                }
            }
        }
        counts.free_idle.clone_from(&counts.free);
        let Some(Form::Tree(tree)) = self.chooser.topologies.forms.get(at) else { return None };
        let plan = tree.choose(counts, all, None)?.equal.into_iter().next()?;
        let root = |leaf: &u32| topology.above(*leaf).last() == plan.root;
        let held = forced.iter().filter_map(|room| topology.leaf_of(room.node)).filter(root);
        let mut leaves: Vec<u32> =
            plan.take.into_iter().map(|(leaf, _)| leaf).chain(held).collect();
        leaves.sort_unstable();
        leaves.dedup();
        Some(leaves)
    }
}
