// SPDX-License-Identifier: GPL-3.0-or-later
//! Records starts, use of the nodes and energy, while a simulation goes on.

use std::time::Duration;

use phalanx_core::number::nearest_u64;
use phalanx_planner::cluster::{Cluster, Held, RunningJob};

use super::NodeLoad;
use super::choose::GpuMix;
use super::inputs::Run;
use super::leaves::{LeafFigures, LeafUse};
use super::usage::Usage;

/// Result of a simulation.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Start of each job, Unix seconds; `None` if the job never fitted.
    pub starts_s: Vec<Option<i64>>,
    /// End of each job, Unix seconds; 0 if the job never fitted.
    pub ends_s: Vec<i64>,
    /// Input read from other nodes, percent, where jobs have inputs.
    pub input_remote_pct: Option<f64>,
    /// Node indexes of each job.
    pub nodes: Vec<Vec<u32>>,
    /// Shares of the resources over time.
    pub usage: Usage,
    /// Joules, if the nodes' power is known.
    pub joules: Option<f64>,
    /// Leaf switches or blocks, where there is a topology.
    pub leaves: Option<LeafFigures>,
    /// Longest time from a first start promised to a start, as in
    /// [`Schedule`](crate::schedule::Schedule).
    pub slip_s: Option<i64>,
    /// Real time of each pass that started jobs, microseconds.
    pub pass_us: Vec<f32>,
    /// Real time that the whole simulation took.
    pub wall: Duration,
}

/// Sums and lists from which the outcome is made.
pub(super) struct Record<'a> {
    load: &'a NodeLoad,
    /// The outcome so far.
    pub(super) known: Outcome,
    /// Megabytes of inputs, and of these the megabytes read from other nodes.
    input_mb: [f64; 2],
    /// Leaf switches or blocks, where there is a topology.
    pub(super) leaves: Option<LeafUse<'a>>,
    /// Joules that jobs draw beyond idle nodes.
    busy_joules: f64,
    /// End of the simulation or of the period of the load, Unix seconds; `None`: when the last job
    /// has ended.
    until_s: Option<i64>,
}

impl<'a> Record<'a> {
    /// Makes a record of nodes on which nothing has happened.
    pub(super) fn new(
        load: &'a NodeLoad,
        idle: &Cluster,
        mix: &GpuMix,
        until_s: Option<i64>,
    ) -> Self {
        Self {
            load,
            known: Outcome {
                starts_s: vec![None; load.jobs.len()],
                ends_s: vec![0; load.jobs.len()],
                nodes: vec![Vec::new(); load.jobs.len()],
                usage: Usage::new(idle.usages(), mix, load.begin_s),
                ..Outcome::default()
            },
            input_mb: [0.0; 2],
            leaves: load.leaves(),
            busy_joules: 0.0,
            until_s: until_s.or(load.until_s),
        }
    }

    /// Lets time pass; nothing after the period is counted.
    pub(super) fn advance(&mut self, now_s: i64) {
        let now_s = self.until_s.map_or(now_s, |until_s| until_s.min(now_s));
        self.known.usage.advance(now_s);
        if let Some(leaves) = &mut self.leaves {
            leaves.advance(now_s);
        }
    }

    /// Records a job that starts, or holds its nodes from the beginning.
    pub(super) fn started(&mut self, id: u32, running: &RunningJob, now_s: i64, run: Run) {
        let (at, known) = (id as usize, &mut self.known);
        if let (Some(start_s), Some(end_s), Some(nodes)) =
            (known.starts_s.get_mut(at), known.ends_s.get_mut(at), known.nodes.get_mut(at))
        {
            (*start_s, *end_s) = (Some(now_s), now_s.saturating_add_unsigned(run.run_s));
            *nodes = running.held.iter().map(|held| held.node.raw()).collect();
        }
        let left_s = self.until_s.map_or(i64::MAX, |until_s| until_s.saturating_sub(now_s));
        let within_s = run.run_s.min(nearest_u64(left_s));
        self.busy_joules += self.joules_of(running, within_s);
        self.input_mb = [self.input_mb[0] + run.input_mb, self.input_mb[1] + run.remote_mb];
    }

    /// Seconds that a started job runs.
    pub(super) fn run_s(&self, id: u32) -> u64 {
        let start_s = self.known.starts_s.get(id as usize).copied().flatten();
        let both = start_s.zip(self.known.ends_s.get(id as usize).copied());
        debug_assert!(both.is_some(), "job {id} did not start");
        both.map_or(0, |(start_s, end_s)| nearest_u64(end_s.saturating_sub(start_s)))
    }

    /// Records that the usage of the nodes in `held` changed.
    pub(super) fn touch(&mut self, cluster: &Cluster, mix: &GpuMix, held: &[Held]) {
        for held in held {
            if let Some(room) = cluster.usages().get(held.node.at()) {
                self.known.usage.touch(held.node.at(), room, mix);
                if let Some(leaves) = &mut self.leaves {
                    leaves.touch(held.node, room.jobs == 0);
                }
            }
        }
    }

    fn joules_of(&self, job: &RunningJob, run_s: u64) -> f64 {
        let of = |held: &Held| {
            let (node, [idle, busy]) = (
                self.load.cluster.nodes.get(held.node.at())?,
                *self.load.watts.get(held.node.at())?,
            );
            Some((busy - idle) * held.cpus as f64 / node.cpus.max(1) as f64 * run_s as f64)
        };
        job.held.iter().filter_map(of).sum()
    }

    /// Joules of the whole period where it has an end, else until the last job ended.
    fn joules(&self) -> Option<f64> {
        let idle: f64 = self.load.watts.iter().map(|[idle, _]| idle).sum();
        let period_s = |until_s: i64| until_s.saturating_sub(self.load.begin_s) as f64;
        let known = !self.load.watts.is_empty();
        let all_s = self.until_s.map_or_else(|| self.known.usage.seconds(), period_s);
        known.then_some(idle * all_s + self.busy_joules)
    }

    /// The outcome of a simulation that took `wall`.
    pub(super) fn outcome(mut self, wall: Duration) -> Outcome {
        self.load.until_s.into_iter().for_each(|until_s| self.advance(until_s));
        let (joules, leaves) = (self.joules(), self.leaves.as_ref().map(LeafUse::figures));
        let [all, remote] = self.input_mb;
        let input_remote_pct = (all > 0.0).then(|| remote / all * 100.0);
        Outcome { joules, leaves, wall, input_remote_pct, ..self.known }
    }
}
