// SPDX-License-Identifier: GPL-3.0-or-later
//! Leaves for a job whose nodes are open: `-n` without `-N`.

use super::Form;
use super::counts::Plan;
use crate::place::search::Search;
use crate::place::uneven::{Ask, Picked, Room};
use phalanx_core::topology::Topology;

impl Search<'_> {
    /// Picks rooms on as few leaves as hold all, and of such leaves those that take the fewest
    /// nodes; where these are too many, below the lowest switch where they are not. `forced` are
    /// taken anyway.
    pub(in crate::place) fn on_leaves_of(
        &mut self,
        at: usize,
        ask: &Ask,
        forced: &[Room],
        rest: &[Room],
    ) -> Option<Picked> {
        let topology = self.chooser.topology(at).ok()?;
        let leaf = |room: &Room| topology.leaf_of(room.node);
        let by_leaf = |rooms: &[Room]| {
            let mut rooms = rooms.to_vec();
            rooms.retain(|room| leaf(room).is_some());
            rooms.sort_by_key(leaf);
            rooms
        };
        let (forced, rest) = (by_leaf(forced), by_leaf(rest));
        let sets: Vec<&[Room]> = rest.chunk_by(|a, b| leaf(a) == leaf(b)).collect();
        let plan = self.plan_for(topology, at, ask, [&forced, &rest])?;
        self.chooser.fewest = plan.leaves;
        let alone = (plan.leaves == 1 && forced.is_empty()).then_some(&sets);
        let pick = |inside: &[u32]| {
            let is_in = |room: &&Room| leaf(room).is_some_and(|at| inside.contains(&at));
            let on = |set: &&[Room]| set.first().as_ref().is_some_and(is_in);
            let sets: Vec<&[Room]> = sets.iter().copied().filter(on).collect();
            let forced: Vec<Room> = forced.iter().filter(is_in).copied().collect();
            let mut picked = Picked::new(ask, &forced, &sets)?;
            picked.leaves = topology.leaves(picked.nodes()).len();
            Some(picked)
        };
        let below = |leaf: &u32, domain| topology.above(*leaf).any(|above| Some(above) == domain);
        let held = forced.iter().filter_map(leaf).filter(|leaf| below(leaf, plan.root));
        let planned: Vec<u32> = plan.take.iter().map(|(leaf, _)| *leaf).chain(held).collect();
        let mut above = topology.common(planned.iter().copied());
        let one = alone.and_then(|sets| self.on_one_leaf(ask, sets));
        let mut best = one.or_else(|| pick(&planned));
        while let (None, Some(domain)) = (&best, above) {
            let leaves = 0..u32::try_from(topology.leaf_count()).ok()?;
            best = pick(&leaves.filter(|leaf| below(leaf, above)).collect::<Vec<_>>());
            above = topology.domains().get(domain as usize).and_then(|d| d.parent);
        }
        best
    }

    /// Picks on the leaf where the job takes the fewest nodes; of these on the one with the fewest
    /// idle nodes.
    fn on_one_leaf(&self, ask: &Ask, sets: &[&[Room]]) -> Option<Picked> {
        let idle = |set: &[Room]| {
            set.iter().filter(|room| self.chooser.sets.idle.contains(room.node)).count()
        };
        let on = |set: &&[Room]| {
            let mut picked = Picked::new(ask, &[], &[set])?;
            picked.leaves = 1;
            Some(((picked.nodes().count(), idle(set)), picked))
        };
        sets.iter().filter_map(on).min_by_key(|(rank, _)| *rank).map(|(_, picked)| picked)
    }

    /// The leaves of least rank whose rooms, forced and free ones, hold all.
    fn plan_for(
        &mut self,
        topology: &Topology,
        at: usize,
        ask: &Ask,
        rooms: [&[Room]; 2],
    ) -> Option<Plan> {
        let counts = &mut self.chooser.sets.counts;
        counts.reset(topology.leaf_count());
        let (all, part) = ask.parts()?;
        for (rooms, is_forced) in rooms.into_iter().zip([true, false]) {
            for room in rooms {
                if let Some(leaf) = topology.leaf_of(room.node) {
                    counts.add_room(leaf, part(&room.units), is_forced);
                }
            }
        }
        counts.free_idle.clone_from(&counts.free);
        let Some(Form::Tree(tree)) = self.chooser.topologies.forms.get(at) else { return None };
        tree.choose(counts, all, None)?.equal.into_iter().next()
    }
}
