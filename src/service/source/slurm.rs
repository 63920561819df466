// SPDX-License-Identifier: GPL-3.0-or-later
//! Snapshots of a running slurmctld, read through libslurm.
//!
//! Each table is asked for with the time of the last answer; slurmctld then
//! says "no change" for most of them, and the last table serves again.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_slurm::{
    Conf, Jobs, Licenses, Load, NodeRow, Nodes, Partitions, Reservations, Slurm, SlurmError,
    UpdateTime,
};
use thiserror::Error;

use super::jobs::{BuiltJobs, CR_MEMORY, Numbering};
use crate::clock::WallClock;
use phalanx_core::layout::NodeCores;
use phalanx_core::number::seconds_of;
use phalanx_core::snapshot::{
    Builder, Job, License, Node, NodeGres, Partition, Refused, Reservation, Snapshot, Table, gres,
};
use phalanx_core::{NodeIdx, NodeSet, hostlist};
use phalanx_ffi::memory;
use phalanx_planner::order::largest_weight;

/// Pause between two reads of the node table, in multiples of the time that a read takes. With a
/// plugin, only states, features and the like come from it, and slurmctld holds its node lock
/// meanwhile.
const NODES_SHARE: u32 = 200;
/// Longest pause between two reads of the node table.
const NODES_PAUSE_MAX: Duration = Duration::from_secs(10);
/// Pause between two reads of all jobs, in multiples of the time until the answer is read, which
/// is more than slurmctld holds its job lock.
const JOBS_SHARE: u32 = 100;
const JOBS_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Most jobs that are read without a pause: so few are packed in some milliseconds.
pub(crate) const JOBS_FEW: usize = 2000;

/// Reason why there is no new snapshot.
#[derive(Debug, Error)]
pub enum SourceError {
    /// slurmctld could not be asked.
    #[error(transparent)]
    Slurm(#[from] SlurmError),
    /// slurmctld's answer did not pass the checks of a snapshot.
    #[error("snapshot refused: {0}")]
    Refused(#[from] Refused),
}

/// The part of the controller's configuration that the daemon needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterInfo {
    /// ClusterName.
    pub cluster: String,
    /// slurmctld's version.
    pub version: String,
    /// SlurmUser.
    pub slurm_user_id: Option<u32>,
    /// Whether memory is a consumable resource.
    pub memory_tracked: bool,
    /// SelectTypeParameters, as bits.
    pub select_param: u32,
    /// Whether nodes measure energy, and slurmdbd keeps what jobs took.
    pub energy_accounted: bool,
    /// `PRIVATE_DATA_*` of slurm.h, which say what is hidden from other users.
    pub private_data: u32,
    /// Weights of priorities.
    pub priorities: Priorities,
}

/// Weights of the factors of priorities.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Priorities {
    pub largest_weight: u32,
    /// Points by which a job's priority rises in a day of waiting.
    pub points_a_day: f64,
}

/// Reads slurmctld, keeping the tables that did not change.
#[derive(Debug)]
pub struct Source {
    slurm: Slurm,
    conf: Option<Conf>,
    /// Jobs of an answer that is in no snapshot yet.
    unbuilt: Option<Jobs>,
    jobs: Option<BuiltJobs>,
    nodes: Option<Nodes>,
    partitions: Option<Partitions>,
    reservations: Option<Reservations>,
    licenses: Option<Licenses>,
    with_gres_used: bool,
    /// Whether something was read that is in no snapshot yet.
    changed: bool,
    /// Time of the last question for the nodes, and how long it took.
    nodes_asked: Option<(Instant, Duration)>,
    /// Time of the last question for the jobs, and how long it took.
    jobs_asked: Option<(Instant, Duration)>,
    /// Node table of the mirror, which the snapshots follow.
    table: Option<Arc<Table>>,
    epoch: u64,
    /// Names of users that slurmctld did not send.
    users: BTreeMap<u32, Arc<str>>,
    clock: WallClock,
}

fn is_energy_accounted(energy_type: &str, storage_type: &str) -> bool {
    let energy = energy_type.rsplit('/').next().unwrap_or_default();
    !matches!(energy, "" | "none" | "(null)") && storage_type.ends_with("slurmdbd")
}

/// Keeps `slot` up to date; returns true if it changed.
fn refresh<T>(
    slot: &mut Option<T>,
    updated: impl Fn(&T) -> UpdateTime,
    load: impl FnOnce(UpdateTime) -> Result<Load<T>, SlurmError>,
) -> Result<bool, SlurmError> {
    let since = slot.as_ref().map_or(UpdateTime::NEVER, updated);
    match load(since)? {
        Load::Unchanged => Ok(false),
        Load::New(table) => {
            *slot = Some(table);
            Ok(true)
        }
    }
}

/// Whether the pause after a question is over: `share` times as long as the question took.
fn is_rested(last: Option<(Instant, Duration)>, share: u32, most: Duration) -> bool {
    last.is_none_or(|(asked, took)| asked.elapsed() >= took.saturating_mul(share).min(most))
}

impl Source {
    /// Takes the process's handle on libslurm.
    pub fn new(slurm: Slurm) -> Self {
        Self {
            slurm,
            conf: None,
            unbuilt: None,
            jobs: None,
            nodes: None,
            partitions: None,
            reservations: None,
            licenses: None,
            with_gres_used: false,
            changed: true,
            nodes_asked: None,
            jobs_asked: None,
            table: None,
            epoch: 0,
            users: BTreeMap::new(),
            clock: WallClock::default(),
        }
    }

    /// The controller's configuration as of the last poll.
    pub fn info(&self) -> ClusterInfo {
        let Some(row) = self.conf.as_ref().and_then(Conf::row) else {
            return ClusterInfo::default();
        };
        ClusterInfo {
            cluster: row.cluster_name().unwrap_or_default().to_owned(),
            version: row.version().unwrap_or_default().to_owned(),
            slurm_user_id: Some(row.slurm_user_id()),
            memory_tracked: row.select_type_param() & CR_MEMORY != 0,
            private_data: row.private_data(),
            priorities: Priorities {
                largest_weight: row
                    .priority_weights()
                    .into_iter()
                    .fold(largest_weight(row.priority_weight_tres().into_iter()), u32::max),
                points_a_day: f64::from(row.priority_weight_age()) * 86_400.0
                    / f64::from(row.priority_max_age_s().max(1)),
            },
            select_param: row.select_type_param(),
            energy_accounted: is_energy_accounted(
                row.acct_gather_energy_type().unwrap_or_default(),
                row.accounting_storage_type().unwrap_or_default(),
            ),
        }
    }

    /// Asks for what changed; `None` when nothing did. `with_gres_used` asks for GRES in use too,
    /// which is slow in slurmctld: needed only while no plugin reports it. Otherwise nodes are
    /// asked for at intervals that grow with the time it takes (see [`NODES_SHARE`]).
    ///
    /// # Errors
    /// See [`SourceError`]; what was read before stays.
    pub fn poll(
        &mut self,
        with_gres_used: bool,
        table: Option<Arc<Table>>,
        now_ms: u64,
    ) -> Result<Option<Snapshot>, SourceError> {
        if with_gres_used != self.with_gres_used {
            self.with_gres_used = with_gres_used;
            self.nodes = None;
        }
        if self.clock.was_set(now_ms, Instant::now()) {
            // slurmctld calls unchanged what changes at an earlier time than that of the question.
            (self.conf, self.jobs, self.unbuilt, self.nodes) = (None, None, None, None);
            (self.partitions, self.reservations, self.licenses) = (None, None, None);
        }
        let slurm = &self.slurm;
        if refresh(&mut self.conf, |t| t.updated(), |s| slurm.load_conf(s))? {
            self.changed = true;
            // slurmctld does not say that a reconfiguration changed licences.
            self.licenses = None;
        }
        if self.jobs_due() {
            self.changed |= self.read_jobs()?;
        }
        let slurm = &self.slurm;
        if with_gres_used || self.nodes_due() {
            let asked = Instant::now();
            let load = |since| slurm.load_nodes(since, with_gres_used);
            self.changed |= refresh(&mut self.nodes, |t| t.updated(), load)?;
            self.nodes_asked = Some((asked, asked.elapsed()));
        }
        self.changed |=
            refresh(&mut self.partitions, |t| t.updated(), |s| slurm.load_partitions(s))?;
        self.changed |=
            refresh(&mut self.reservations, |t| t.updated(), |s| slurm.load_reservations(s))?;
        self.changed |= refresh(&mut self.licenses, |t| t.updated(), |s| slurm.load_licenses(s))?;
        // Without a mirror the last numbering stays.
        if let Some(table) = table {
            let is_known = self.table.as_ref().is_some_and(|own| Arc::ptr_eq(own, &table));
            self.changed |= !is_known;
            self.table = Some(table);
        }
        if !self.changed {
            return Ok(None);
        }
        let snapshot = self.build(now_ms)?;
        (self.epoch, self.changed) = (snapshot.epoch, false);
        Ok(Some(snapshot))
    }

    fn nodes_due(&self) -> bool {
        self.nodes.is_none() || is_rested(self.nodes_asked, NODES_SHARE, NODES_PAUSE_MAX)
    }

    /// Has slurmctld look whether a waiting job can start.
    ///
    /// # Errors
    /// The reason why it was not asked.
    pub fn touch(&self, job_id: u32) -> Result<(), SlurmError> {
        self.slurm.update_job(job_id, None)
    }

    /// Replaces a job's comment if `may_replace` accepts it; returns whether it was replaced.
    ///
    /// # Errors
    /// The reason why slurmctld was not asked, or refused.
    pub fn comment(
        &self,
        job_id: u32,
        comment: &CStr,
        may_replace: impl Fn(&str) -> bool,
    ) -> Result<bool, SlurmError> {
        let Load::New(jobs) = self.slurm.load_job(job_id)? else { return Ok(false) };
        let now = jobs.iter().find(|row| row.id() == job_id);
        let may = now.is_some_and(|row| may_replace(row.comment().unwrap_or_default()));
        may.then(|| self.slurm.update_job(job_id, Some(comment))).transpose()?;
        Ok(may)
    }

    fn jobs_due(&self) -> bool {
        self.jobs.as_ref().is_none_or(|built| built.jobs.len() <= JOBS_FEW)
            || is_rested(self.jobs_asked, JOBS_SHARE, JOBS_PAUSE_MAX)
    }

    /// Asks for the jobs; whether they changed since the last answer.
    fn read_jobs(&mut self) -> Result<bool, SlurmError> {
        let asked = Instant::now();
        let built = self.jobs.as_ref().map(|jobs| jobs.updated);
        let since = self.unbuilt.as_ref().map(Jobs::updated).or(built);
        let answer = self.slurm.load_jobs(since.unwrap_or(UpdateTime::NEVER))?;
        let is_new = matches!(answer, Load::New(_));
        if let Load::New(jobs) = answer {
            self.unbuilt = Some(jobs);
        }
        // That nothing changed is said without the lock being held for long.
        let took = if is_new { asked.elapsed() } else { Duration::ZERO };
        self.jobs_asked = Some((asked, took));
        Ok(is_new)
    }

    fn build(&mut self, now_ms: u64) -> Result<Snapshot, SourceError> {
        let mut builder = Builder::default();
        let nodes: Vec<Node> = match &self.nodes {
            Some(table) => table.iter().map(|row| node(&mut builder, &row)).collect(),
            None => Vec::new(),
        };
        // Slots of dynamic nodes that are gone have no name.
        let nodes = nodes.into_iter().filter(|node| !node.name.is_empty()).collect();
        match &self.table {
            Some(table) => builder.nodes_by(table, nodes)?,
            None => builder.nodes(nodes)?,
        }
        self.partitions(&mut builder);
        self.reservations(&mut builder);
        self.licenses(&mut builder);
        builder.draft.jobs = self.jobs(&mut builder, seconds_of(now_ms))?;
        Ok(builder.build(self.epoch + 1, now_ms)?)
    }

    /// The jobs as this snapshot numbers GRES: the last ones again where nothing changed.
    fn jobs(
        &mut self,
        builder: &mut Builder,
        now_s: i64,
    ) -> Result<Arc<Vec<Arc<Job>>>, SourceError> {
        let by = Numbering {
            gres_kinds: builder.draft.gres_kinds.clone(),
            gres_types: builder.draft.gres_types.clone(),
            select_param: self.info().select_param,
        };
        if self.unbuilt.is_none() && self.jobs.as_ref().is_some_and(|jobs| jobs.by != by) {
            self.jobs = None;
            self.read_jobs()?;
        }
        if let Some(answer) = self.unbuilt.take() {
            let before = self.jobs.take();
            let users = &mut self.users;
            self.jobs = Some(BuiltJobs::new(&answer, before.as_ref(), builder, by, users, now_s));
            let is_few = answer.len() <= JOBS_FEW;
            drop(answer);
            if !is_few {
                memory::give_back();
            }
        }
        Ok(self.jobs.as_mut().map(|jobs| jobs.at(now_s)).unwrap_or_default())
    }

    fn partitions(&self, builder: &mut Builder) {
        for row in self.partitions.iter().flat_map(|table| table.iter()) {
            let names = hostlist::nodes(row.nodes().unwrap_or_default());
            let partition = Partition {
                name: builder.names.get(row.name().unwrap_or_default()),
                nodes: builder.node_set(names.iter().map(String::as_str)),
                up: row.starts_jobs(),
                min_nodes: row.nodes_min(),
                max_nodes: row.nodes_max().value(),
                max_time_min: row.time_max_min().value(),
                billing: builder.names.get(row.billing_weights().unwrap_or_default()),
                topology: builder.names.get(row.topology().unwrap_or_default()),
                tier: row.priority_tier(),
            };
            builder.draft.partitions.push(partition);
        }
    }

    fn reservations(&self, builder: &mut Builder) {
        for row in self.reservations.iter().flat_map(|table| table.iter()) {
            let names = hostlist::nodes(row.nodes().unwrap_or_default());
            let nodes = builder.node_set(names.iter().map(String::as_str));
            let reservation = Reservation {
                name: builder.names.get(row.name().unwrap_or_default()),
                whole_nodes: row.cores().unwrap_or(0) == 0
                    || covers_whole_nodes(builder, &row, &nodes),
                nodes,
                start_s: row.start_s().unwrap_or(0),
                end_s: row.end_s().unwrap_or(i64::MAX),
            };
            builder.draft.reservations.push(reservation);
        }
    }

    fn licenses(&self, builder: &mut Builder) {
        for row in self.licenses.iter().flat_map(|table| table.iter()) {
            let license = License {
                name: builder.names.get(row.name().unwrap_or_default()),
                total: u64::from(row.total()),
                used: u64::from(row.in_use()),
            };
            builder.draft.licenses.push(license);
        }
    }
}

fn node(builder: &mut Builder, row: &NodeRow<'_>) -> Node {
    let names = &mut builder.names;
    let features = row.features_active().unwrap_or_default().split(',');
    let features = features.filter(|f| !f.is_empty()).map(|f| names.get(f)).collect();
    let used = gres::parse(row.gres_used().unwrap_or_default()).unwrap_or_default();
    let total = gres::parse(row.gres().unwrap_or_default()).unwrap_or_default();
    let gres = total
        .into_iter()
        .map(|entry| {
            let same = |u: &&gres::Entry| u.kind == entry.kind && u.gres_type == entry.gres_type;
            NodeGres {
                kind: names.get(&entry.kind),
                gres_type: entry.gres_type.as_deref().map(|t| names.get(t)),
                total: entry.count,
                used: used.iter().filter(same).map(|u| u.count).sum(),
            }
        })
        .collect();
    Node {
        name: names.get(row.name().unwrap_or_default()),
        hostname: names.get(row.hostname().unwrap_or_default()),
        address: names.get(row.address().unwrap_or_default()),
        state: names.get(&row.state().to_string()),
        available: row.state().is_available(),
        cpus: u64::from(row.cpus_usable()),
        cpus_used: u64::from(row.cpus_allocated()),
        cores: cores(row),
        memory_mb: row.memory_usable_mib(),
        memory_used_mb: row.memory_allocated_mib(),
        weight: row.weight(),
        gres,
        features,
        watts: row.watts().filter(|watts| *watts > 0),
    }
}

/// Cores and sockets of a node. Where a node has as many cores as CPUs, jobs are given cores.
fn cores(row: &NodeRow<'_>) -> NodeCores {
    let cores = row.sockets().saturating_mul(row.cores_per_socket());
    let threads = u16::try_from(row.threads_per_core()).unwrap_or(1);
    NodeCores {
        cpus_per_core: if cores >= row.cpus() { 1 } else { threads.max(1) },
        sockets: u16::try_from(row.sockets()).unwrap_or(0),
        cores,
        spec_cores: row.core_spec_count(),
    }
}

/// Whether a reservation is of whole nodes, which have as many cores as it does.
fn covers_whole_nodes(
    builder: &Builder,
    row: &phalanx_slurm::ReservationRow<'_>,
    nodes: &NodeSet,
) -> bool {
    let cpus = |node: NodeIdx| builder.draft.nodes.get(node.at()).map_or(0, |n| n.cpus);
    let configured: u64 = nodes.iter().map(cpus).sum();
    // Cores, not CPUs, are counted; with hardware threads there are fewer.
    u64::from(row.cores().unwrap_or(0)).saturating_mul(2) > configured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_with_the_time_it_took() {
        let ago = |ms| Instant::now().checked_sub(Duration::from_millis(ms));
        let took = Duration::from_millis(30);
        let rested = |ms| is_rested(ago(ms).map(|at| (at, took)), 100, JOBS_PAUSE_MAX);
        assert!(rested(3001) && !rested(1000));
        let long = ago(61_000).map(|at| (at, Duration::from_secs(5)));
        assert!(is_rested(long, 100, JOBS_PAUSE_MAX));
        assert!(is_rested(None, 100, JOBS_PAUSE_MAX));
    }
}
