// SPDX-License-Identifier: GPL-3.0-or-later
//! Plans of arrays and data jobs, made as in the daemon, from what ended runs taught.

use std::sync::Arc;

use phalanx_core::hostlist;
use phalanx_core::number::{nearest_i64, nearest_u64};
use phalanx_core::snapshot::{Job, JobState, Node, Snapshot};
use phalanx_methods::data_jobs::bisect::Attenuation;
use phalanx_methods::learn::{Observation, RunNode, Speeds};
use phalanx_planner::bag::{self, Knowledge, Seconds, Watts, WattsFrom};
use phalanx_planner::cluster::{Cluster, Held};
use phalanx_planner::data_jobs::{self, DataJob, MB, Piece, key_of};
use phalanx_planner::ends::Outlook;
use phalanx_planner::preference::{DataNote, MethodPlan};

use super::inputs::BLOCK_MB;
use super::{NodeJob, NodeLoad, Setup};

/// Waiting data jobs that one plan considers, in queue order.
const DATA_JOBS_MAX: usize = 32;

/// Times of tasks by class of job and node, and the power that the nodes have.
pub(super) struct Learned<'a> {
    load: &'a NodeLoad,
    speeds: Speeds,
    /// Class of each node: nodes of equal CPUs, speed and watts.
    classes: Vec<String>,
    now_s: i64,
    unheld: bag::Unheld,
}

impl<'a> Learned<'a> {
    pub(super) fn new(load: &'a NodeLoad) -> Self {
        let class = |(at, node): (usize, &Node)| {
            let speed = load.speeds.get(at).copied().unwrap_or(1.0);
            let [idle, busy] = load.watts.get(at).copied().unwrap_or_default();
            format!("{} CPUs, speed {speed}, {idle} to {busy} W", node.cpus)
        };
        let classes = load.cluster.nodes.iter().enumerate().map(class).collect();
        Self { load, speeds: Speeds::default(), classes, now_s: 0, unheld: bag::Unheld::default() }
    }

    fn job(&self, id: u32) -> Option<&'a NodeJob> {
        self.load.jobs.get(id as usize)
    }

    /// Learns from a run of a job on its nodes.
    pub(super) fn learn(&mut self, held: &[Held], id: u32, run_s: u64, end_s: i64) {
        let Some(job) = self.job(id) else { return };
        let name = |held: &Held| self.load.cluster.nodes.get(held.node.at());
        let class = |held: &Held| self.classes.get(held.node.at());
        let node = |held| Some(RunNode { name: &name(held)?.name, class: class(held)? });
        let nodes: Vec<RunNode<'_>> = held.iter().filter_map(node).collect();
        let seconds = run_s.max(1) as f64;
        let run = Observation { seconds, work: None, joules: None, end_s };
        // Above 0 and finite: it is taken.
        let taken = self.speeds.learn("", &class_of(job), None, &nodes, &run);
        debug_assert!(taken.is_ok());
    }

    /// Whether arrays or data jobs are planned.
    pub(super) fn has_plans(&self, setup: &Setup) -> bool {
        let bags = setup.bags.is_some() && !self.load.watts.is_empty();
        bags || (setup.data.is_some() && self.load.inputs.is_some())
    }

    /// The plans in force, for a queue in `view`, to which they add the running jobs.
    pub(super) fn plans(
        &mut self,
        view: &mut Snapshot,
        setup: &Setup,
        cluster: &Cluster,
        now_s: i64,
        held_s: &dyn Fn(u32) -> f64,
    ) -> Vec<MethodPlan> {
        if !self.has_plans(setup) {
            return Vec::new();
        }
        let bags = setup.bags.as_ref().filter(|_| !self.load.watts.is_empty());
        let data = setup.data.zip(self.load.inputs);
        self.now_s = now_s;
        let waiting = view.jobs.len();
        let running = cluster.jobs().values().filter_map(|running| {
            let names = running.held.iter().filter_map(|h| view.nodes.get(h.node.at()));
            let names: Vec<&str> = names.map(|node| &*node.name).collect();
            Some(Arc::new(Job {
                id: running.id,
                state: JobState::Running,
                start_s: nearest_i64(running.start_s),
                nodes: hostlist::compress(&names).into(),
                ..self.job(running.id)?.job.clone()
            }))
        });
        let running: Vec<Arc<Job>> = running.collect();
        Arc::make_mut(&mut view.jobs).extend(running);
        for (node, room) in view.nodes.iter_mut().zip(cluster.usages()) {
            node.cpus_used = room.cpus.used;
        }
        let now_ms = nearest_u64(now_s).saturating_mul(1000);
        let (snapshot, usages) = (&*view, cluster.usages());
        let mut unheld = std::mem::take(&mut self.unheld);
        let bags = bags.map(|settings| {
            let outlook = &Outlook::default();
            let knowledge = &*self;
            let inputs =
                bag::Inputs { snapshot, usages, now_ms, outlook, knowledge, settings, held_s };
            bag::plan(&inputs, &mut unheld)
        });
        let data = data.map(|(rule, inputs)| {
            let jobs = snapshot.all_jobs().take(waiting);
            let jobs = jobs.filter_map(|job| self.data_job(job)).take(DATA_JOBS_MAX);
            let inputs = data_jobs::Inputs {
                snapshot,
                usages,
                now_ms,
                rule,
                transfer_mb_per_s: inputs.transfer_mb_per_s,
                remaining_s: &|job| self.remaining_s(job),
                expired: &|| false,
            };
            data_jobs::plan(&inputs, jobs.collect())
        });
        let plans = bags.into_iter().chain(data).collect();
        self.unheld = unheld;
        Arc::make_mut(&mut view.jobs).truncate(waiting);
        plans
    }

    fn remaining_s(&self, job: &Job) -> f64 {
        let limit_s = self.job(job.id).map_or(0, |own| own.limit_s);
        job.start_s.saturating_add_unsigned(limit_s).saturating_sub(self.now_s).max(1) as f64
    }

    fn data_job<'j>(&self, job: &'j Job) -> Option<DataJob<'j>> {
        let own = self.job(job.id)?;
        let blocks = self.load.blocks_of(own);
        let piece = |nodes: &Vec<usize>| Piece {
            bytes: phalanx_core::number::whole(BLOCK_MB * MB),
            nodes: nodes.iter().copied().map(phalanx_core::NodeIdx::new).collect(),
        };
        (!blocks.is_empty()).then(|| DataJob {
            job,
            key: key_of(job),
            pieces: blocks.iter().map(piece).collect(),
            speed_mb_per_s: NodeLoad::mb_per_s(own, blocks.len()),
            attenuation: Attenuation::Linear(0.0),
            speeds: Arc::from(&*self.load.speeds),
            required: false,
            note: DataNote::default(),
        })
    }

    /// Power of a node of a class, idle and full.
    fn power(&self, node_class: &str) -> Option<[f64; 2]> {
        let at = self.classes.iter().position(|class| class == node_class)?;
        self.load.watts.get(at).copied()
    }
}

fn class_of(job: &NodeJob) -> String {
    format!("{}/{}/{}", job.class.user, job.class.class, job.class.size)
}

impl Knowledge for Learned<'_> {
    fn job_class(&self, job: &Job) -> String {
        self.job(job.id).map(class_of).unwrap_or_default()
    }

    fn node_class(&self, node: &Node) -> String {
        let at = self.load.cluster.node(&node.name).map(|node| node.at());
        at.and_then(|at| self.classes.get(at)).cloned().unwrap_or_default()
    }

    fn seconds(&self, job_class: &str, node_class: &str) -> Option<Seconds> {
        let found = self.speeds.estimate(job_class, "", node_class, self.now_s);
        (found.seconds > 0.0).then_some(Seconds { seconds: found.seconds, count: found.count })
    }

    fn watts(&self, _: &str, node_class: &str, share: f64) -> Option<Watts> {
        let [idle, busy] = self.power(node_class)?;
        Some(Watts { watts: (busy - idle) * share, from: WattsFrom::Configuration })
    }

    fn idle_watts(&self, node_class: &str) -> f64 {
        self.power(node_class).map_or(0.0, |[idle, _]| idle)
    }
}
