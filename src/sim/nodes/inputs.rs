// SPDX-License-Identifier: GPL-3.0-or-later
//! Inputs of jobs in blocks that nodes hold, and how long a job runs on the nodes that it gets.

use std::collections::BTreeSet;

use phalanx_core::number::{nearest_usize, whole};
use phalanx_core::random::Stream;
use phalanx_methods::data_jobs::bisect::Attenuation;
use phalanx_methods::data_jobs::bisect::rigid::{self, Block, Form, Problem, Rule};
use phalanx_methods::data_jobs::bisect::turns::{self, Turn};
use phalanx_methods::data_jobs::blockmap::declared;
use phalanx_planner::cluster::Held;

use super::jobs::{Inputs, NodeJob, NodeLoad};
use crate::job::{Ids, id_of};

/// Megabytes of a block.
pub(super) const BLOCK_MB: f64 = 128.0;
/// Nodes that hold a block.
const REPLICAS: usize = 3;

/// Time and input of a run on some nodes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    pub(super) run_s: u64,
    /// Megabytes of the input, and of these the megabytes read from other nodes.
    pub(super) input_mb: f64,
    pub(super) remote_mb: f64,
}

impl NodeLoad {
    /// Gives an input to each job whose comment names one, equal names the same input; where no
    /// comment does, each job has an input of its own.
    pub fn set_inputs(&mut self, inputs: Inputs) {
        let name = |job: &NodeJob| {
            let of = declared(&job.job.comment).ok().flatten()?;
            Some([of.uris, of.datasets].concat().join(","))
        };
        let is_named = self.jobs.iter().any(|job| name(job).is_some());
        let mut known = Ids::new();
        for (at, job) in (0..).zip(&mut self.jobs) {
            let mut own = || name(job).map(|name| id_of(&mut known, &name));
            job.input = if is_named { own() } else { Some(at) };
        }
        self.inputs = Some(inputs);
    }

    /// The nodes that hold each block of a job's input, ascending.
    pub(super) fn blocks_of(&self, job: &NodeJob) -> Vec<Vec<usize>> {
        let Some((inputs, input)) = self.inputs.zip(job.input) else { return Vec::new() };
        let mut stream = Stream::new(inputs.seed.rotate_left(32) ^ input);
        let nodes = self.cluster.nodes.len();
        let mut block = |_| {
            let mut holders = BTreeSet::new();
            while holders.len() < REPLICAS.min(nodes) {
                holders.insert(stream.below(nodes));
            }
            holders.into_iter().collect()
        };
        (0..inputs.blocks).map(&mut block).collect()
    }

    /// MB/s of a core at which a job runs as long as in the log if its nodes hold all its input.
    pub(super) fn mb_per_s(job: &NodeJob, blocks: usize) -> f64 {
        let cpus = job.job.shape.min_cpus.max(1) as usize;
        blocks.div_ceil(cpus) as f64 * BLOCK_MB / job.run_s.max(1) as f64
    }

    /// Seconds that a job runs on the nodes held, its blocks in turn where a baseline deals them.
    pub(super) fn run_on(&self, job: &NodeJob, held: &[Held], turn: Option<Turn>) -> Run {
        let speed = |held: &Held| self.speeds.get(held.node.at()).copied().unwrap_or(1.0);
        let speeds: Vec<f64> = held.iter().map(speed).collect();
        let blocks = self.blocks_of(job);
        let Some(inputs) = self.inputs.filter(|_| !blocks.is_empty() && !held.is_empty()) else {
            let slowest = speeds.into_iter().fold(f64::INFINITY, f64::min);
            let seconds = (job.run_s as f64 / slowest).ceil();
            let run_s = if slowest < f64::INFINITY { whole(seconds).max(1) } else { job.run_s };
            return Run { run_s, ..Run::default() };
        };
        let near = |block: &Vec<usize>| -> Vec<usize> {
            let holds = |at: &usize| held.get(*at).is_some_and(|h| block.contains(&h.node.at()));
            (0..held.len()).filter(holds).collect()
        };
        let near: Vec<Vec<usize>> = blocks.iter().map(near).collect();
        let cores = |held: &Held| nearest_usize(held.cpus).max(1);
        let (mb_per_s, input_mb) =
            (Self::mb_per_s(job, blocks.len()), BLOCK_MB * blocks.len() as f64);
        let (end_ms, remote_mb) = if let Some(turn) = turn {
            let hosts = held.iter().enumerate();
            let hosts = hosts.flat_map(|(at, held)| std::iter::repeat_n(at, cores(held)));
            let hosts: Vec<usize> = hosts.take(blocks.len()).collect();
            let dealt = turns::deal(&vec![BLOCK_MB; blocks.len()], hosts.len(), turn);
            let (mut end_s, mut remote_mb) = (0.0_f64, 0.0);
            for (host, own) in hosts.iter().zip(&dealt) {
                let far = own.iter().filter(|b| near.get(**b).is_some_and(|n| !n.contains(host)));
                let far_mb = far.count() as f64 * BLOCK_MB;
                let speed = mb_per_s * speeds.get(*host).copied().unwrap_or(1.0);
                let load_s = own.len() as f64 * BLOCK_MB / speed;
                end_s = end_s.max(load_s + far_mb / inputs.transfer_mb_per_s);
                remote_mb += far_mb;
            }
            (1e3 * end_s, remote_mb)
        } else {
            let least = held.iter().map(cores).min().unwrap_or(1);
            let own = rigid::Job {
                speed_mb_per_s: mb_per_s,
                attenuation: Attenuation::Linear(0.0),
                speeds,
                blocks: near
                    .into_iter()
                    .map(|replicas| Block { size_mb: BLOCK_MB, replicas })
                    .collect(),
                forms: vec![Form { hosts: held.len(), cores: least }],
                allowed: (0..held.len()).map(|at| (at, 0.0)).collect(),
            };
            let problem = Problem {
                hosts: vec![vec![0.0; least]; held.len()],
                transfer_mb_per_s: inputs.transfer_mb_per_s,
                jobs: vec![own],
            };
            let placed = rigid::plan(&problem, Rule::Best, &|| false).jobs.into_iter().flatten();
            let ends = placed.map(|placed| (placed.end_ms, placed.remote_mb)).next();
            ends.unwrap_or((1e3 * job.run_s as f64, 0.0))
        };
        Run { run_s: whole((end_ms / 1e3).ceil()).max(1), input_mb, remote_mb }
    }
}
