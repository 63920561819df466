// SPDX-License-Identifier: GPL-3.0-or-later
//! The jobs of slurmctld's answers as snapshots have them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nix::unistd::{Uid, User};
use phalanx_slurm::{
    CoreSpec, JobBase, JobRow, Jobs, Memory as RawMemory, Sharing as RawSharing, UpdateTime,
    reason_text,
};

use phalanx_core::layout::Layout;
use phalanx_core::shape::{GresWant, LeftToSlurm, Memory, Shape, Sharing};
use phalanx_core::snapshot::{Builder, Job, JobState, Snapshot, gres};

/// Bits of SelectTypeParameters (`slurm/slurm.h`).
const CR_SOCKET: u32 = 0x2;
const CR_CORE: u32 = 0x4;
pub(super) const CR_MEMORY: u32 = 0x10;
const CR_ONE_TASK_PER_CORE: u32 = 0x100;
/// Slurm's `INFINITE` as a time limit in minutes, with which a job has no limit.
const MINUTES_UNLIMITED: u32 = u32::MAX;

/// Jobs of the last answer.
#[derive(Debug)]
pub(super) struct BuiltJobs {
    pub jobs: Arc<Vec<Arc<Job>>>,
    /// Version of the answer.
    pub updated: UpdateTime,
    /// Time up to which the suspension of jobs is counted, unix seconds.
    time_s: i64,
    pub by: Numbering,
}

/// Numbers of GRES and settings of slurm.conf on which the requests of built jobs depend.
#[derive(Debug, PartialEq)]
pub(super) struct Numbering {
    pub gres_kinds: Vec<Arc<str>>,
    pub gres_types: Vec<Arc<str>>,
    pub select_param: u32,
}

impl BuiltJobs {
    /// Builds the jobs of an answer, of which those that are as `before` are shared; `users` are
    /// names that slurmctld did not send.
    pub fn new(
        answer: &Jobs,
        before: Option<&Self>,
        builder: &mut Builder,
        by: Numbering,
        users: &mut BTreeMap<u32, Arc<str>>,
        now_s: i64,
    ) -> Self {
        let before = before.into_iter().flat_map(|before| before.jobs.iter());
        let before: HashMap<u32, &Arc<Job>> = before.map(|job| (job.id, job)).collect();
        let jobs = answer.iter().map(|row| {
            let mut job = job(builder, &row, by.select_param, now_s);
            if job.user.is_empty() {
                job.user = user_name(users, job.user_id);
            }
            known_or_new(before.get(&job.id).copied(), job)
        });
        Self { jobs: Arc::new(jobs.collect()), updated: answer.updated(), time_s: now_s, by }
    }

    /// The jobs, their suspensions counted up to this time.
    pub fn at(&mut self, now_s: i64) -> Arc<Vec<Arc<Job>>> {
        let passed_s = now_s.saturating_sub(self.time_s);
        self.time_s = now_s;
        if self.jobs.iter().any(|job| job.state == JobState::Suspended) {
            let jobs = Arc::make_mut(&mut self.jobs).iter_mut();
            for job in jobs.filter(|job| job.state == JobState::Suspended) {
                let job = Arc::make_mut(job);
                job.suspended_s = job.suspended_s.saturating_add(passed_s);
            }
        }
        Arc::clone(&self.jobs)
    }
}

/// The job as it was before, if it did not change.
fn known_or_new(before: Option<&Arc<Job>>, job: Job) -> Arc<Job> {
    before.filter(|before| ***before == job).cloned().unwrap_or_else(|| Arc::new(job))
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
    // Many jobs keep theirs for long, most of them one.
    wants.shrink_to_fit();
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

#[cfg(test)]
mod tests {
    use phalanx_core::snapshot::{Node, NodeGres, shared};

    use super::*;

    /// Goal: jobs that did not change are not copied, and the time of a suspended one goes on.
    #[test]
    fn unchanged_jobs_are_shared_and_suspensions_counted() {
        let job = |state, suspended_s| Job { state, suspended_s, ..Job::default() };
        let by = Numbering { gres_kinds: vec![], gres_types: vec![], select_param: 0 };
        let jobs = shared([job(JobState::Running, 7), job(JobState::Pending, 0)]);
        let updated = UpdateTime::NEVER;
        let mut built = BuiltJobs { jobs, updated, time_s: 100, by };
        assert!(Arc::ptr_eq(&built.at(160), &built.jobs));
        built.jobs = shared([job(JobState::Running, 7), job(JobState::Suspended, 9)]);
        let seen = [built.at(170), built.at(200)];
        assert!(Arc::ptr_eq(&seen[0][0], &seen[1][0]), "one that runs on is not copied");
        let counted = seen.map(|jobs| jobs.iter().map(|job| job.suspended_s).collect::<Vec<_>>());
        assert_eq!(counted, [vec![7, 19], vec![7, 49]]);
    }

    /// Goal: of two answers the jobs that are alike are kept once.
    #[test]
    fn a_job_that_did_not_change_is_shared() {
        let job = |id, priority| Job { id, priority, ..Job::default() };
        let before = Arc::new(job(1, 5));
        assert!(Arc::ptr_eq(&known_or_new(Some(&before), job(1, 5)), &before));
        assert_eq!(known_or_new(Some(&before), job(1, 6)).priority, 6);
        assert_eq!(known_or_new(None, job(2, 5)).id, 2);
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
