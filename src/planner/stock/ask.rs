// SPDX-License-Identifier: GPL-3.0-or-later
//! The request, the candidates and what is still wanted, in the amounts by which stock counts.

use phalanx_core::NodeIdx;
use phalanx_core::shape::{Shape, Sharing};

/// Most GRES asked for per job that are counted.
pub(super) const GRES: usize = 3;

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

pub(super) fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX / 4)
}

/// Amounts that are still wanted while nodes are taken.
#[derive(Debug, Clone)]
pub(super) struct Rest {
    pub ask: Ask,
    pub cpus: i64,
    pub max_cpus: i64,
    pub nodes: i64,
    pub min_nodes: i64,
    pub max_nodes: i64,
    pub gres: [u64; GRES],
    pub taken: Vec<Taken>,
    /// Nodes taken that give less than they have.
    pub cut: Vec<Offer>,
}

impl Rest {
    pub(super) fn new(ask: &Ask) -> Self {
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
    pub(super) fn enough(&self, nodes: i64) -> bool {
        let (min, req) = (i64::from(self.ask.min_nodes), i64::from(self.ask.req_nodes));
        nodes >= self.nodes - (req - min).max(0)
    }

    pub(super) fn has_gres(&self, gres: &[u64; GRES]) -> bool {
        self.gres.iter().zip(gres).all(|(want, has)| has >= want)
    }

    /// Whether all wanted amounts are taken.
    pub(super) fn has_all(&self) -> bool {
        self.cpus <= 0 && self.gres == [0; GRES]
    }

    pub(super) fn is_done(&self) -> bool {
        self.nodes <= 0 && self.has_all()
    }

    /// Takes a node. What it gives may be less than it has: the steps keep CPUs for the nodes
    /// still to be found, and know the node by that number from then on.
    pub(super) fn take(&mut self, offer: &Offer) {
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
