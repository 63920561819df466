// SPDX-License-Identifier: GPL-3.0-or-later
//! Snapshots of a running slurmctld, read through libslurm.
//!
//! Each table is asked for with the time of the last answer; slurmctld then
//! says "no change" for most of them, and the last table serves again.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::unistd::{Uid, User};
use phalanx_slurm::{
    Conf, CoreSpec, JobBase, JobRow, Jobs, Licenses, Load, Memory as RawMemory, NodeRow, Nodes,
    Partitions, Reservations, Sharing as RawSharing, Slurm, SlurmError, UpdateTime, reason_text,
};
use thiserror::Error;

use crate::clock::WallClock;
use phalanx_core::hostlist;
use phalanx_core::layout::{Layout, NodeCores};
use phalanx_core::number::seconds_of;
use phalanx_core::shape::{GresWant, LeftToSlurm, Memory, Shape, Sharing};
use phalanx_core::snapshot::{
    Builder, Job, JobState, License, Node, NodeGres, Partition, Refused, Reservation, Snapshot,
    Table, gres,
};
use phalanx_planner::order::largest_weight;

/// Bits of SelectTypeParameters (`slurm/slurm.h`).
const CR_SOCKET: u32 = 0x2;
const CR_CORE: u32 = 0x4;
const CR_MEMORY: u32 = 0x10;
const CR_ONE_TASK_PER_CORE: u32 = 0x100;
/// Slurm's `INFINITE` as a time limit in minutes, with which a job has no limit.
const MINUTES_UNLIMITED: u32 = u32::MAX;

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
const JOBS_FEW: usize = 2000;

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
    jobs: Option<Jobs>,
    nodes: Option<Nodes>,
    partitions: Option<Partitions>,
    reservations: Option<Reservations>,
    licenses: Option<Licenses>,
    with_gres_used: bool,
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
            jobs: None,
            nodes: None,
            partitions: None,
            reservations: None,
            licenses: None,
            with_gres_used: false,
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
        let slurm = &self.slurm;
        if with_gres_used != self.with_gres_used {
            self.with_gres_used = with_gres_used;
            self.nodes = None;
        }
        if self.clock.was_set(now_ms, Instant::now()) {
            // slurmctld calls unchanged what changes at an earlier time than that of the question.
            (self.conf, self.jobs, self.nodes) = (None, None, None);
            (self.partitions, self.reservations, self.licenses) = (None, None, None);
        }
        let mut changed = refresh(&mut self.conf, |t| t.updated(), |s| slurm.load_conf(s))?;
        if changed {
            // slurmctld does not say that a reconfiguration changed licences.
            self.licenses = None;
        }
        if self.jobs_due() {
            let asked = Instant::now();
            let jobs = refresh(&mut self.jobs, |t| t.updated(), |s| slurm.load_jobs(s))?;
            changed |= jobs;
            // That nothing changed is said without the lock being held for long.
            let took = if jobs { asked.elapsed() } else { Duration::ZERO };
            self.jobs_asked = Some((asked, took));
        }
        if with_gres_used || self.nodes_due() {
            let asked = Instant::now();
            let load = |since| slurm.load_nodes(since, with_gres_used);
            changed |= refresh(&mut self.nodes, |t| t.updated(), load)?;
            self.nodes_asked = Some((asked, asked.elapsed()));
        }
        changed |= refresh(&mut self.partitions, |t| t.updated(), |s| slurm.load_partitions(s))?;
        changed |=
            refresh(&mut self.reservations, |t| t.updated(), |s| slurm.load_reservations(s))?;
        changed |= refresh(&mut self.licenses, |t| t.updated(), |s| slurm.load_licenses(s))?;
        // Without a mirror the last numbering stays.
        if let Some(table) = table {
            let is_known = self.table.as_ref().is_some_and(|own| Arc::ptr_eq(own, &table));
            changed |= !is_known;
            self.table = Some(table);
        }
        if !changed && self.epoch > 0 {
            return Ok(None);
        }
        let snapshot = self.build(now_ms)?;
        self.epoch = snapshot.epoch;
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
        self.jobs.as_ref().is_none_or(|jobs| jobs.len() <= JOBS_FEW)
            || is_rested(self.jobs_asked, JOBS_SHARE, JOBS_PAUSE_MAX)
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
        let select_param = self.info().select_param;
        if let Some(table) = &self.jobs {
            let now_s = seconds_of(now_ms);
            let users = &mut self.users;
            let jobs = table.iter().map(|row| {
                let mut job = job(&mut builder, &row, select_param, now_s);
                if job.user.is_empty() {
                    job.user = user_name(users, job.user_id);
                }
                job
            });
            let jobs = jobs.collect();
            builder.draft.jobs = jobs;
        }
        Ok(builder.build(self.epoch + 1, now_ms)?)
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

/// The name of a user that slurmctld did not send, asked for once; empty if the system has none.
fn user_name(known: &mut BTreeMap<u32, Arc<str>>, user_id: u32) -> Arc<str> {
    let ask = || {
        let user = User::from_uid(Uid::from_raw(user_id)).ok().flatten();
        Arc::from(user.map_or(String::new(), |user| user.name))
    };
    Arc::clone(known.entry(user_id).or_insert_with(ask))
}

fn job(builder: &mut Builder, row: &JobRow<'_>, select_param: u32, now_s: i64) -> Job {
    let state = row.state();
    let until_s = row.end_s().filter(|_| state.is_finished()).unwrap_or(now_s);
    let shape = shape(builder, row, select_param);
    let names = &mut builder.names;
    let mut text = |t: Option<&str>| names.get(t.unwrap_or_default());
    let label = label(row);
    Job {
        id: row.id(),
        label: Arc::from(label),
        array_job_id: row.array_job_id(),
        array_task_id: row.array_task_id(),
        task_count: task_count(row),
        state: match state.base() {
            JobBase::Pending => JobState::Pending,
            JobBase::Suspended => JobState::Suspended,
            _ if state.holds_resources() || state.is_completing() => JobState::Running,
            _ => JobState::Ended,
        },
        state_text: text(Some(&state.to_string())),
        reason: text(Some(&reason_text(row.reason()))),
        user_id: row.user_id(),
        user: text(row.user_name()),
        account: text(row.account()),
        name: text(row.name()),
        qos: text(row.qos()),
        comment: text(row.comment()),
        admin_comment: text(row.admin_comment()),
        tres_req: text(row.tres_req()),
        tres_alloc: text(row.tres_alloc()),
        partitions: text(row.partition()),
        priority: row.priority(),
        submit_s: row.submit_s().unwrap_or(0),
        eligible_s: row.eligible_s(),
        start_s: row.start_s().unwrap_or(0),
        end_s: row.end_s().unwrap_or(0),
        suspended_s: row.suspended_s(until_s),
        exit: row.exit(),
        het_job_id: row.het_job_id(),
        time_limit_min: row.time_limit_min().value().filter(|m| *m != MINUTES_UNLIMITED),
        shape,
        constraint: row.features().map(|t| text(Some(t))),
        required_nodes: row.req_nodes().map(|t| text(Some(t))),
        excluded_nodes: row.exc_nodes().map(|t| text(Some(t))),
        reservation: row.reservation().map(|t| text(Some(t))),
        licenses: licenses_of(row.licenses().unwrap_or_default(), &mut text),
        nodes: text(row.nodes()),
    }
}

fn label(row: &JobRow<'_>) -> String {
    match (row.array_job_id(), row.array_task_id(), row.array_tasks(), row.het_job_id()) {
        (Some(array), Some(task), _, _) => format!("{array}_{task}"),
        (Some(array), None, Some(tasks), _) => format!("{array}_[{tasks}]"),
        (_, _, _, Some(leader)) => format!("{leader}+{}", row.het_job_offset().unwrap_or(0)),
        _ => row.id().to_string(),
    }
}

/// Tasks behind a record of a waiting array: `3-9:2,12%4` has five.
fn task_count(row: &JobRow<'_>) -> u64 {
    match (row.array_task_id(), row.array_tasks()) {
        (None, Some(text)) => count_tasks(text),
        _ => 1,
    }
}

fn count_tasks(text: &str) -> u64 {
    let list = text.split('%').next().unwrap_or_default();
    let part = |part: &str| -> u64 {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let step = step.parse::<u64>().unwrap_or(1).max(1);
        match range.split_once('-') {
            Some((first, last)) => match (first.parse::<u64>(), last.parse::<u64>()) {
                (Ok(first), Ok(last)) if last >= first => (last - first) / step + 1,
                // Slurm shortens long lists with an ellipsis.
                _ => 1,
            },
            None => 1,
        }
    };
    list.split(',').map(part).sum::<u64>().max(1)
}

fn licenses_of(
    text: &str,
    intern: &mut impl FnMut(Option<&str>) -> Arc<str>,
) -> Vec<(Arc<str>, u64)> {
    let mut wanted = Vec::new();
    // Of alternatives (`a|b`, 25.05 on) Slurm chooses when the job starts: it lacks none of them.
    for part in text.split([',', ';']).filter(|p| !p.is_empty() && !p.contains('|')) {
        let (name, count) = part.split_once([':', '=']).unwrap_or((part, "1"));
        wanted.push((intern(Some(name)), count.parse().unwrap_or(1)));
    }
    wanted
}

fn shape(builder: &Builder, row: &JobRow<'_>, select_param: u32) -> Shape {
    let (gres, unknown) = gres_wants(builder, row);
    let sharing = match row.sharing() {
        RawSharing::Exclusive => Sharing::Whole,
        RawSharing::User | RawSharing::Mcs => Sharing::Owner,
        // Specialised cores are of whole nodes.
        _ if row.core_spec().is_some() => Sharing::Whole,
        RawSharing::Default | RawSharing::OverSubscribe => Sharing::Shared,
    };
    let memory = match (select_param & CR_MEMORY != 0, row.memory()) {
        (false, _) => Memory::Untracked,
        (true, RawMemory::Unset) => Memory::All,
        (true, RawMemory::PerNodeMib(mib)) => Memory::PerNode(mib),
        (true, RawMemory::PerCpuMib(mib)) => Memory::PerCpu(mib),
    };
    Shape {
        min_nodes: row.nodes_min(),
        max_nodes: row.nodes_max().unwrap_or(u32::MAX),
        req_nodes: row.nodes_min(),
        min_cpus: row.cpus_min(),
        num_tasks: row.tasks().unwrap_or(0),
        pn_min_cpus: row.cpus_per_node_min().map_or(0, u32::from),
        cpus_per_task: row.cpus_per_task().map_or(0, u32::from),
        ntasks_per_node: row.tasks_per_node().map_or(0, u32::from),
        memory,
        gres,
        sharing,
        overcommit: false,
        left_to_slurm: unknown.then_some(LeftToSlurm::Gres),
        layout: layout(row, select_param),
        ..Shape::default()
    }
}

fn layout(row: &JobRow<'_>, select_param: u32) -> Layout {
    let (core_spec, spec_is_threads) = match row.core_spec() {
        Some(CoreSpec::Cores(count)) => (count, false),
        Some(CoreSpec::Threads(count)) => (count, true),
        None => (0, false),
    };
    Layout {
        threads_per_core: row.threads_per_core().unwrap_or(0),
        ntasks_per_core: row.tasks_per_core().unwrap_or(0),
        ntasks_per_socket: row.tasks_per_socket().unwrap_or(0),
        sockets_per_node: row.sockets_per_node().unwrap_or(0),
        cores_per_socket: row.cores_per_socket().unwrap_or(0),
        core_spec,
        spec_is_threads,
        one_task_per_core: select_param & CR_ONE_TASK_PER_CORE != 0,
        whole_cores: select_param & (CR_CORE | CR_SOCKET) != 0,
        whole_sockets: select_param & CR_SOCKET != 0,
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

fn gres_wants(builder: &Builder, row: &JobRow<'_>) -> (Vec<GresWant>, bool) {
    let mut wants: Vec<GresWant> = Vec::new();
    let mut unknown = false;
    let mut add = |text: Option<&str>, set| {
        unknown |= !add_wants(&mut wants, &builder.draft, text.unwrap_or_default(), set);
    };
    add(row.tres_per_node(), |want, n| want.per_node = n);
    add(row.tres_per_job(), |want, n| want.per_job = n);
    add(row.tres_per_task(), |want, n| want.per_task = n);
    add(row.tres_per_socket(), |want, n| want.per_socket = n);
    (wants, unknown)
}

/// Adds the GRES that a text asks for; returns `false` if some is on no node or cannot be read.
fn add_wants(
    wants: &mut Vec<GresWant>,
    snapshot: &Snapshot,
    text: &str,
    set: fn(&mut GresWant, u64),
) -> bool {
    let Ok(entries) = gres::parse(text) else { return false };
    let mut all = true;
    for entry in entries {
        let gres_type = entry.gres_type.as_deref().map(|t| snapshot.gres_type(&entry.kind, t));
        let (Some(kind), None | Some(Some(_))) = (snapshot.gres_kind(&entry.kind), gres_type)
        else {
            all = false;
            continue;
        };
        let gres_type = gres_type.flatten();
        match wants.iter_mut().find(|w| w.kind == kind && w.gres_type == gres_type) {
            Some(want) => set(want, entry.count),
            None => {
                let mut want = GresWant { kind, gres_type, ..GresWant::default() };
                set(&mut want, entry.count);
                wants.push(want);
            }
        }
    }
    all
}

/// Whether a reservation is of whole nodes, which have as many cores as it does.
fn covers_whole_nodes(
    builder: &Builder,
    row: &phalanx_slurm::ReservationRow<'_>,
    nodes: &fixedbitset::FixedBitSet,
) -> bool {
    let cpus = |i: usize| builder.draft.nodes.get(i).map_or(0, |n| n.cpus);
    let configured: u64 = nodes.ones().map(cpus).sum();
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

    #[test]
    fn array_tasks_are_counted() {
        for (text, count) in [("3-9:2,12%4", 5), ("7", 1), ("0-99", 100), ("1,3,5-...", 3)] {
            assert_eq!(count_tasks(text), count, "{text}");
        }
    }

    /// Goal: a job whose request cannot be read in full is Slurm's, not one that asks for less.
    #[test]
    fn gres_that_no_node_has_or_that_cannot_be_read_is_not_left_out() {
        let mut builder = Builder::default();
        let a100 =
            NodeGres { kind: "gpu".into(), gres_type: Some("a100".into()), total: 4, used: 0 };
        let node = Node { name: "n1".into(), gres: vec![a100], ..Node::default() };
        builder.nodes(vec![node]).unwrap();
        for (text, all, count) in [
            ("", true, 0),
            ("gres:gpu:2", true, 1),
            ("gres/gpu:a100:2,cpu:1", true, 1),
            ("gres:gpu:h100:2", false, 0),
            ("gres:gpu:2,gres:nic:1", false, 1),
            ("gres:gpu:a100:two", false, 0),
        ] {
            let mut wants = Vec::new();
            let found = add_wants(&mut wants, &builder.draft, text, |want, n| want.per_node = n);
            assert_eq!((found, wants.len()), (all, count), "{text}");
        }
    }

    #[test]
    fn licences_with_and_without_a_count() {
        let wanted = licenses_of("matlab:2,ansys;x=3", &mut |t| Arc::from(t.unwrap_or_default()));
        let names: Vec<(&str, u64)> = wanted.iter().map(|(n, c)| (&**n, *c)).collect();
        assert_eq!(names, [("matlab", 2), ("ansys", 1), ("x", 3)]);
        assert_eq!(licenses_of("matlab:2|ansys:1", &mut |t| Arc::from(t.unwrap_or_default())), []);
    }
}
