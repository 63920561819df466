// SPDX-License-Identifier: GPL-3.0-or-later
//! The block map of a running job: its splits on the nodes that it really got.

use std::collections::HashMap;
use std::sync::Arc;

use crate::api::Failure;
use crate::daemon::measured_values::data_capability;
use crate::daemon::node_speeds::NodeSpeeds;
use crate::daemon::shared::Shared;
use crate::daemon::state::inputs::{Input, JobData};
use crate::locations::UNCONFIGURED;
use phalanx_config::Config;
use phalanx_core::number::{as_f64, nearest_i64, nearest_usize};
use phalanx_core::snapshot::{JobState, Snapshot};
use phalanx_core::{NodeIdx, hostlist};
use phalanx_methods::data_jobs::bisect::rigid::Rule;
use phalanx_methods::data_jobs::blockmap::{
    Assignment, BlockMap, Declaration, Locality, MapNode, NodeTasks, Pace, Range, Split, SplitBy,
    assign, level, remote_share,
};
use phalanx_planner::data_jobs::{MB, layout, permille, speeds_in_words};
use phalanx_planner::preference::DataNote;

/// Nodes of a job, each with the number of CPUs that the job has there.
type Allocation = Vec<(Arc<str>, u64)>;

/// Part of the local bytes that may be read from other nodes, so that no task reads much more than
/// others: it costs less than runs vary anyway.
const REMOTE_SHARE: f64 = 0.03;

impl Shared {
    /// Returns a job's map for a user, or for a user who may see all; constant for one start.
    pub(super) fn block_map(
        &self,
        job_id: u32,
        user: Option<u32>,
    ) -> Result<Arc<BlockMap>, Failure> {
        let snapshot = self.cluster.snapshot();
        let job = snapshot.as_ref().and_then(|s| s.job(job_id));
        let missing = || Failure::NotFound(format!("job {job_id}: declares no input"));
        // The daemon of a standby controller sees the queue too, but what it would make need not
        // be what the other one has handed out.
        let in_charge = self.responder.with_placer(|_| ()).is_some();
        let elsewhere = || {
            let text = "slurmctld is not connected: is this a standby controller?";
            Failure::Unavailable(format!("job {job_id}: {text}"))
        };
        let Some(data) = self.inputs.job(job_id).or_else(|| self.of_array(job_id)) else {
            // A job that began between two polls: only those with an input are waited for.
            let new = job.is_none() && self.responder.declared_input(job_id);
            let wait = Failure::Unavailable(format!("job {job_id}: not read from Slurm yet"));
            return Err(match job {
                None if !in_charge => elsewhere(),
                _ if new => wait,
                _ => missing(),
            });
        };
        // Names of files are their readers' business; others learn no more than `squeue` shows.
        if user.is_some_and(|user| user != data.user_id) {
            let text = format!("job {job_id}: its block map is for its user");
            return Err(Failure::NotFound(text));
        }
        if let Some(error) = data.error {
            return Err(Failure::NotFound(format!("job {job_id}: {error}")));
        }
        let Some((start_s, nodes)) = self.allocation(job_id) else {
            return Err(Failure::NotFound(format!("job {job_id}: is not running")));
        };
        if let Some(map) = self.inputs.map(job_id, start_s) {
            return Ok(map);
        }
        if !in_charge {
            return Err(elsewhere());
        }
        let key = data.key.as_ref().ok_or_else(missing)?;
        let Some(input) = self.inputs.input_or_ask(key, job_id) else {
            return Err(Failure::Unavailable(format!("job {job_id}: its input is looked up")));
        };
        if let Some(error) = &input.note.error {
            return Err(Failure::NotFound(format!("job {job_id}: no block map: {error}")));
        }
        let map = self.make_map(job_id, &data, &input, &nodes);
        self.inputs.keep_map(job_id, start_s, map).ok_or_else(|| {
            let text = format!("job {job_id}: too many jobs with block maps run; try again later");
            Failure::Unavailable(text)
        })
    }

    /// Returns the data of an array task that is known only as part of its array.
    fn of_array(&self, job_id: u32) -> Option<JobData> {
        let array = self.responder.with_placer(|placer| {
            placer.cluster().jobs().get(&job_id).and_then(|job| job.array)
        })??;
        self.inputs.job(array.0)
    }

    /// Returns start and nodes of a running job, by the plugin's events, else by the last poll.
    fn allocation(&self, job_id: u32) -> Option<(i64, Allocation)> {
        let by_plugin = self.responder.with_placer(|placer| {
            let cluster = placer.cluster();
            Some((cluster.jobs().get(&job_id)?.clone(), Arc::clone(cluster.table())))
        });
        // Questions wait for no more than the copy.
        let by_plugin = by_plugin.flatten().map(|(job, table)| {
            let mut held: Vec<(NodeIdx, u64)> = job.held.iter().map(|h| (h.node, h.cpus)).collect();
            held.sort_unstable();
            let name = |(node, cpus): (NodeIdx, u64)| {
                Some((Arc::clone(&table.nodes.get(node.at())?.name), cpus))
            };
            let start_s = nearest_i64(job.start_s);
            (start_s, held.into_iter().filter_map(name).collect())
        });
        if let Some(found) = by_plugin {
            return Some(found);
        }
        let snapshot = self.cluster.snapshot()?;
        let job = snapshot.job(job_id).filter(|job| job.state == JobState::Running)?;
        let names = hostlist::expand(&job.nodes, snapshot.nodes.len()).ok()?;
        let share = u64::from(job.shape.min_cpus).div_ceil((names.len() as u64).max(1)).max(1);
        let held = names.into_iter().map(|name| (Arc::from(name), share));
        Some((job.start_s, held.collect()))
    }

    fn make_map(&self, job_id: u32, data: &JobData, input: &Input, nodes: &Allocation) -> BlockMap {
        let config = self.config();
        let cpus: Vec<u64> = nodes.iter().map(|(_, cpus)| *cpus).collect();
        let tasks = layout(&data.shape, &cpus);
        let position: HashMap<&str, usize> =
            nodes.iter().enumerate().map(|(at, (name, _))| (&**name, at)).collect();
        let node_of: Vec<Option<usize>> =
            input.nodes.iter().map(|node| position.get(node.as_deref()?).copied()).collect();
        let (parts, speed_mb_per_s) = self.task_speeds(job_id, data, nodes, cpus.iter().sum());
        let speeds = parts.iter().copied().chain(std::iter::repeat(1.0));
        let on: Vec<NodeTasks> =
            tasks.iter().zip(speeds).map(|(&tasks, speed)| NodeTasks { tasks, speed }).collect();
        let (splits, dealt) = deal(&config, data, input, &node_of, &on, speed_mb_per_s);
        let map_node = |((name, _), (at, &tasks)): (&(Arc<str>, u64), (usize, &u32))| MapNode {
            name: name.to_string(),
            tasks,
            speed_permille: parts.get(at).map(|part| permille(*part)),
        };
        let holder = |at: u32| input.nodes.get(at as usize)?.as_deref().map(str::to_owned);
        let map = BlockMap::new(
            (job_id, data.user_id),
            &input.located,
            &splits,
            &dealt,
            nodes.iter().zip(tasks.iter().enumerate()).map(map_node).collect(),
            holder,
        );
        log::info!(
            "job {job_id}: block map of {} splits on {} nodes, {} of {} bytes local",
            map.ranges.len(),
            map.nodes.len(),
            map.local_bytes(),
            map.bytes()
        );
        map
    }

    /// Returns the speeds of the job's tasks on its nodes relative to the fastest one, none where
    /// all are alike, and MB/s of one of its CPUs there; 0 where the job's class never ran.
    fn task_speeds(
        &self,
        job_id: u32,
        data: &JobData,
        nodes: &Allocation,
        cpus: u64,
    ) -> (Vec<f64>, f64) {
        let config = self.config();
        let snapshot = self.cluster.snapshot();
        // An array's task that began a moment ago is known as part of its array only.
        let array = data.element.map(|(array, _)| array);
        let job = |s: &'_ Arc<Snapshot>| {
            s.job(job_id).or_else(|| array.and_then(|array| s.job(array))).cloned()
        };
        let Some((snapshot, job)) = snapshot.and_then(|s| Some((Arc::clone(&s), job(&s)?))) else {
            return (Vec::new(), 0.0);
        };
        let names: Vec<String> = nodes.iter().map(|(name, _)| name.to_string()).collect();
        let node_speeds = NodeSpeeds {
            capability: &data_capability(&self.data_service.collect, &names),
            core_speeds: &self.learned.core_speeds,
            config: &config,
            snapshot: &snapshot,
        };
        let (speed, form, runs) = node_speeds.core(&job);
        let on = node_speeds.of(&job, &form, names.iter().map(String::as_str));
        let cpus = nearest_usize(cpus);
        let speed = on.core.unwrap_or(speed) * form.factor(cpus).max(0.05);
        // The configured speed is a guess, fit to choose nodes by, not to weigh bytes.
        (on.parts, if runs > 0 { speed } else { 0.0 })
    }

    /// Returns the bytes that a job or array task reads, and those that its nodes hold.
    fn read_by(&self, data: &JobData, map: &BlockMap) -> (f64, f64) {
        if data.element.is_none() {
            return (as_f64(map.bytes()), as_f64(map.local_bytes()));
        }
        let part = map.ranges.get(self.inputs.part(data, map.ranges.len())).unwrap_or_default();
        let near = |range: &&Range| map.nodes.iter().any(|node| map.is_local(range, &node.name));
        let sum = |bytes: &mut dyn Iterator<Item = u64>| as_f64(bytes.sum());
        let local = sum(&mut part.iter().filter(near).map(|range| range.length));
        (sum(&mut part.iter().map(|range| range.length)), local)
    }

    /// Returns the text about an input that was not looked up.
    fn not_looked_up(&self, named: &Declaration) -> DataNote {
        let config = self.config();
        let error = if !named.datasets.is_empty() && !config.data_jobs.finds_datasets() {
            UNCONFIGURED
        } else if !named.uris.is_empty() && !config.hdfs.has_files() {
            "hdfs.conf_dirs: no NameNode is configured"
        } else {
            "not looked up"
        };
        DataNote { input: named.names(), error: Some(error.to_owned()), ..DataNote::default() }
    }

    /// Returns the note on a job's input in `phalanx explain`.
    pub(super) fn input_note(&self, job_id: u32) -> Option<DataNote> {
        let data = self.inputs.job(job_id)?;
        if let Some(error) = data.error {
            return Some(DataNote { error: Some(error), ..DataNote::default() });
        }
        let key = data.key.as_ref()?;
        let looked_up = || self.inputs.input(key).map(|input| input.note.clone());
        let planned = self.inputs.plan_of(job_id).or_else(looked_up);
        let mut note = planned.unwrap_or_else(|| self.not_looked_up(&key.declaration));
        if let Some(missed) = &data.missed {
            note.missed = Some(hostlist::compress(missed));
        }
        if let Some(map) = self.inputs.last_map(job_id) {
            let (all, local) = self.read_by(&data, &map);
            note.local_share = (all > 0.0).then(|| local / all);
            note.remote_mb = Some((all - local) / MB);
            let names: Vec<&str> = map.nodes.iter().map(|node| node.name.as_str()).collect();
            note.nodes = hostlist::compress(&names);
            let speed = |node: &MapNode| node.speed_permille.unwrap_or(1000);
            let speeds: Vec<(&str, u32)> =
                names.into_iter().zip(map.nodes.iter().map(speed)).collect();
            note.node_speeds = speeds_in_words(&speeds);
        }
        Some(note)
    }
}

/// Assigns the splits to the tasks of the nodes. Where the nodes are unequal and the splits free to
/// choose, some are cut; not for arrays, whose elements must all see the same splits.
fn deal(
    config: &Config,
    data: &JobData,
    input: &Input,
    node_of: &[Option<usize>],
    on: &[NodeTasks],
    speed_mb_per_s: f64,
) -> (Vec<Split>, Assignment) {
    let declared = data.key.as_ref().map(|key| &key.declaration);
    let required = declared.is_some_and(|declared| declared.locality == Locality::Require);
    // The published migration knows no bound.
    let seed = matches!(config.data_jobs.rule(), Rule::Seed { .. });
    let most = if seed { 1.0 } else { REMOTE_SHARE };
    let pace = Pace {
        remote_extra: speed_mb_per_s / config.data_jobs.transfer_mb_per_s,
        remote_share: if required { 0.0 } else { remote_share(most, on) },
    };
    let dealt = assign(&input.splits, node_of, on, pace);
    let ours = declared.is_some_and(|declared| declared.split == SplitBy::Block);
    let array = data.element.is_some() || data.elements.is_some();
    if ours && !array && on.iter().any(|node| node.speed < 1.0) {
        return level(&input.splits, &dealt, node_of, on, pace);
    }
    (input.splits.clone(), dealt)
}
