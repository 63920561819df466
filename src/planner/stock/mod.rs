// SPDX-License-Identifier: GPL-3.0-or-later
//! The nodes that stock Slurm takes for a job, by its own steps.
//!
//! [`Ask`] is the request as these steps count it, [`Offer`] a candidate with what the job could
//! have there. [`choose`] takes nodes of the offers: without a topology from runs of neighbours
//! ([`consec`]), else from leaf switches ([`tree`]) or blocks. Sources: `_eval_nodes`,
//! `_eval_nodes_topo` and `choose_nodes` of `plugins/select/cons_tres/job_test.c` (22.05 to 23.11),
//! `plugins/topology/common/eval_nodes.c` and `plugins/topology/tree/eval_nodes_tree.c` (24.05 on).

mod consec;
mod offers;
#[cfg(test)]
mod tests;
mod tree;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use offers::offers;

use crate::cluster::Table;
use crate::place::{Blocks, Form, place_one};
use phalanx_core::NodeIdx;
use phalanx_core::shape::{Need, Shape, Sharing};
use phalanx_core::topology::Topology;

/// Most looks at nodes that the steps take in all, as the answer is late otherwise.
const WORK_MAX: usize = 16_000;
/// Most GRES asked for per job that are counted.
const GRES: usize = 3;

/// Tier, above 0 if Slurm takes the node last, and Weight; then the GPUs that the job could have
/// there, the most first.
///
/// Source: `can_job_run_on_node` writes them into the lowest byte of `sched_weight`.
pub type Class = (u32, u32, u32);

/// Request of a job, for all of its nodes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Fewest nodes.
    pub min_nodes: u32,
    /// Most nodes.
    pub max_nodes: u32,
    /// Number of nodes to aim at.
    pub req_nodes: u32,
    /// CPUs.
    pub cpus: i64,
    /// Fewest CPUs that a node gives.
    pub least_cpus: i64,
    /// CPUs that the job's GRES bring to a node.
    pub gres_cpus: i64,
    /// Whether nodes are taken whole.
    pub whole: bool,
    /// GRES asked for per job.
    pub gres: [u64; GRES],
}

/// A candidate node, and what of it the job could have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The node.
    pub node: NodeIdx,
    /// Class.
    pub class: Class,
    /// CPUs.
    pub cpus: i64,
    /// CPUs, before GRES leave only those that the tasks need, and GPUs: nodes with little are
    /// given up first where all together do not do.
    pub size: i64,
    /// CPUs that are left for each of the nodes still to be found.
    pub reserve: i64,
    /// Tasks.
    pub tasks: u64,
    /// GRES asked for per job.
    pub gres: [u64; GRES],
}

/// A node of the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The node.
    pub node: NodeIdx,
    /// CPUs of the node that the job could have.
    pub cpus: i64,
    /// Tasks that the node could hold.
    pub tasks: u64,
}

/// Stock's choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The nodes, ascending.
    pub taken: Vec<Taken>,
    /// Whether the choice would be the same with heavier nodes on offer too.
    pub is_settled: bool,
}

/// Why there is no choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The candidates do not hold the job.
    NoFit,
    /// Stock's steps are not known for a request of this kind.
    Unknown(&'static str),
}

impl Ask {
    /// Makes the request of a shape; `Unknown` for options whose steps differ.
    ///
    /// # Errors
    /// [`Refused::Unknown`] with the option.
    pub fn new(shape: &Shape) -> Result<Self, Refused> {
        let ask = &shape.topology;
        let unknown = [
            (shape.left_to_slurm.is_some(), "left to Slurm"),
            (shape.enforce_binding, "--gres-flags=enforce-binding"),
            (ask.lln, "least loaded nodes"),
            (ask.pack_serial, "pack_serial_at_end"),
            (ask.contiguous, "--contiguous"),
            (ask.spread, "--spread-job"),
            (ask.sizes, "several sizes"),
            (ask.segment > 0, "--segment"),
            (ask.exclusive, "--exclusive=topo"),
            (ask.dragonfly, "dragonfly"),
            (ask.switches_now().is_some(), "--switches"),
        ];
        if let Some((_, why)) = unknown.iter().find(|(applies, _)| *applies) {
            return Err(Refused::Unknown(why));
        }
        let mut gres = [0; GRES];
        let per_job = shape.gres.iter().filter(|want| want.per_job > 0);
        for (at, want) in per_job.enumerate() {
            *gres.get_mut(at).ok_or(Refused::Unknown("kinds of GRES"))? = want.per_job;
        }
        let each = u64::from(shape.cpus_per_task.max(1));
        let by_tasks = if shape.overcommit { 0 } else { shape.tasks() * each };
        let on_each = each * u64::from(shape.ntasks_per_node.max(1));
        let by_gres = shape.gres.iter().map(|want| want.per_node * u64::from(want.cpus_per_gres));
        let gres_cpus = by_gres.max().unwrap_or(0);
        let least = on_each.max(u64::from(shape.pn_min_cpus)).max(gres_cpus);
        let min_nodes = shape.min_nodes.max(shape.nodes_for_tasks()).max(1);
        let tasks = if shape.num_tasks > 0 { shape.num_tasks } else { u32::MAX };
        Ok(Self {
            min_nodes,
            max_nodes: shape.max_nodes.max(min_nodes).min(tasks.max(min_nodes)),
            req_nodes: shape.req_nodes,
            cpus: signed(by_tasks.max(u64::from(shape.min_cpus)).max(1)),
            least_cpus: signed(least),
            gres_cpus: signed(gres_cpus),
            whole: shape.sharing == Sharing::Whole,
            gres,
        })
    }

    /// Whether GRES are asked for per job.
    pub(crate) fn has_gres(&self) -> bool {
        self.gres != [0; GRES]
    }
}

/// Amounts that are still wanted while nodes are taken.
#[derive(Debug, Clone)]
struct Rest {
    ask: Ask,
    cpus: i64,
    max_cpus: i64,
    nodes: i64,
    min_nodes: i64,
    max_nodes: i64,
    gres: [u64; GRES],
    taken: Vec<Taken>,
    /// Nodes taken that give less than they have.
    cut: Vec<Offer>,
}

impl Rest {
    fn new(ask: &Ask) -> Self {
        let (min, req) = (i64::from(ask.min_nodes), i64::from(ask.req_nodes));
        let nodes = if ask.has_gres() { min.min(req.max(1)) } else { min.max(req) };
        Self {
            ask: *ask,
            cpus: ask.cpus,
            max_cpus: ask.cpus.max(ask.gres_cpus * nodes),
            nodes,
            min_nodes: min,
            max_nodes: ask.max_nodes.into(),
            gres: ask.gres,
            taken: Vec::new(),
            cut: Vec::new(),
        }
    }

    /// Whether `nodes` nodes reach the fewest that the job accepts.
    fn enough(&self, nodes: i64) -> bool {
        let (min, req) = (i64::from(self.ask.min_nodes), i64::from(self.ask.req_nodes));
        nodes >= self.nodes - (req - min).max(0)
    }

    fn has_gres(&self, gres: &[u64; GRES]) -> bool {
        self.gres.iter().zip(gres).all(|(want, has)| has >= want)
    }

    /// Whether all wanted amounts are taken.
    fn has_all(&self) -> bool {
        self.cpus <= 0 && self.gres == [0; GRES]
    }

    fn is_done(&self) -> bool {
        self.nodes <= 0 && self.has_all()
    }

    /// Takes a node. What it gives may be less than it has: the steps keep CPUs for the nodes
    /// still to be found, and know the node by that number from then on.
    fn take(&mut self, offer: &Offer) {
        let mut offer = *offer;
        if !self.ask.whole {
            let most = self.max_cpus - (self.min_nodes - 1).max(0) * offer.reserve;
            if offer.cpus > most {
                let gives = most.max(self.ask.least_cpus);
                (offer.size, offer.cpus) = (offer.size - offer.cpus + gives, gives);
                self.cut.push(offer);
            }
        }
        self.cpus -= offer.cpus;
        self.max_cpus -= offer.cpus;
        for (want, has) in self.gres.iter_mut().zip(offer.gres) {
            *want = want.saturating_sub(has);
        }
        self.nodes -= 1;
        self.min_nodes -= 1;
        self.max_nodes -= 1;
        let Offer { node, cpus, tasks, .. } = offer;
        self.taken.push(Taken { node, cpus, tasks });
    }
}

/// Chooses the nodes of a job among the offers, which ascend by node; `Err` where there is no
/// choice or it is not known.
///
/// # Errors
/// See [`Refused`].
pub fn choose(
    ask: &Ask,
    offers: &[Offer],
    table: &Table,
    topology: Option<(&Topology, &Form)>,
) -> Result<Chosen, Refused> {
    let is_inside =
        |topology: &Topology| offers.iter().any(|offer| topology.leaf_of(offer.node).is_some());
    let mut chosen = match topology {
        Some((topology, Form::Block(blocks))) if is_inside(topology) => {
            in_blocks(ask, offers, topology, blocks)?
        }
        Some((topology, Form::Tree(tree))) => {
            let attempt =
                |rest: &mut Rest, offers: &[Offer]| tree::choose(rest, offers, topology, tree);
            dropping_small(ask, offers, &attempt)?
        }
        _ => dropping_small(ask, offers, &|rest, offers| consec::choose(rest, offers, table))?,
    };
    chosen.taken.sort_unstable_by_key(|taken| taken.node);
    chosen.is_settled &= topology.is_none();
    Ok(chosen)
}

/// Whether no other node lies between two; empty slots of the node table do not count.
pub(crate) fn are_neighbours(table: &Table, a: NodeIdx, b: NodeIdx) -> bool {
    (a.at() + 1..b.at()).all(|at| table.nodes.get(at).is_some_and(|node| node.name.is_empty()))
}

/// Tries all offers; where that fails, the offers without those of the fewest CPUs, and so on: a
/// node that gives little takes the place of one that gives much.
fn dropping_small(
    ask: &Ask,
    offers: &[Offer],
    attempt: &dyn Fn(&mut Rest, &[Offer]) -> bool,
) -> Result<Chosen, Refused> {
    let min_nodes = ask.min_nodes as usize;
    let mut left = Cow::Borrowed(offers);
    let mut work = 0;
    loop {
        work += left.len();
        if work > WORK_MAX.max(left.len()) {
            return Err(Refused::Unknown("nodes of many sizes"));
        }
        let cpus: i64 = left.iter().map(|offer| offer.cpus).sum();
        if left.len() < min_nodes || cpus < ask.cpus {
            return Err(Refused::NoFit);
        }
        let mut rest = Rest::new(ask);
        if attempt(&mut rest, &left) {
            // Runs are taken by class, until no more is wanted.
            let is_settled = left.len() == offers.len() && rest.is_done();
            return Ok(Chosen { taken: rest.taken, is_settled });
        }
        let left = left.to_mut();
        for cut in rest.cut {
            let at = left.binary_search_by_key(&cut.node, |offer| offer.node);
            at.ok().and_then(|at| left.get_mut(at)).into_iter().for_each(|offer| *offer = cut);
        }
        let sizes = || left.iter().map(|offer| offer.size);
        let Some(least) = sizes().min() else { return Err(Refused::NoFit) };
        let most = sizes().max().unwrap_or(least);
        if left.len() <= min_nodes || least >= most {
            return Err(Refused::NoFit);
        }
        let mut count = left.len();
        left.retain(|offer| {
            let goes = offer.size == least && count > min_nodes;
            count -= usize::from(goes);
            !goes
        });
    }
}

/// Takes classes of Weight, the lightest first, until blocks accept the fewest nodes; `Unknown`
/// where these lack CPUs, which the steps look at as they go.
fn in_blocks(
    ask: &Ask,
    offers: &[Offer],
    topology: &Topology,
    blocks: &Blocks,
) -> Result<Chosen, Refused> {
    let mut classes: BTreeMap<Class, Vec<&Offer>> = BTreeMap::new();
    offers.iter().for_each(|offer| classes.entry(offer.class).or_default().push(offer));
    let mut counts = vec![0; topology.leaf_count()];
    let none = counts.clone();
    let mut by_leaf: BTreeMap<u32, Vec<&Offer>> = BTreeMap::new();
    for class in classes.into_values() {
        for offer in class {
            let Some(leaf) = topology.leaf_of(offer.node) else { continue };
            counts.get_mut(leaf as usize).into_iter().for_each(|count| *count += 1);
            by_leaf.entry(leaf).or_default().push(offer);
        }
        let Some(take) = place_one(blocks, &none, &counts, ask.min_nodes) else { continue };
        let of = |(leaf, offers): (&u32, &Vec<&Offer>)| {
            let count = take.get(*leaf as usize).map_or(0, |count| *count as usize);
            offers.iter().take(count).copied().copied().collect::<Vec<Offer>>()
        };
        let mut rest = Rest::new(ask);
        by_leaf.iter().flat_map(of).for_each(|offer| rest.take(&offer));
        return if rest.has_all() {
            Ok(Chosen { taken: rest.taken, is_settled: false })
        } else {
            Err(Refused::Unknown("CPUs of blocks"))
        };
    }
    Err(Refused::NoFit)
}

/// Amounts that each node of a choice gives.
pub fn needs(shape: &Shape, taken: &[Taken]) -> Vec<(NodeIdx, Need)> {
    let nodes = taken.len() as u64;
    let each = u64::from(shape.cpus_per_task.max(1));
    let by_cpus = u64::from(shape.min_cpus).div_ceil(each);
    let mut left = shape.tasks().max(by_cpus);
    let mut behind = nodes;
    let mut given = Vec::with_capacity(taken.len());
    for node in taken {
        behind -= 1;
        let tasks = node.tasks.min(left.saturating_sub(behind)).max(1);
        left = left.saturating_sub(tasks);
        given.push((node.node, shape.need_for(tasks, 1, nodes)));
    }
    given
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX / 4)
}
