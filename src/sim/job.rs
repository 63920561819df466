// SPDX-License-Identifier: GPL-3.0-or-later
//! The jobs of a log as the simulator runs them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::BufRead;

use jiff::tz::TimeZone;

use phalanx_core::limits::TRACE_JOBS_MAX;
use phalanx_core::trace::swf::{SwfHeader, SwfJob, SwfReader};
use phalanx_core::trace::{LeftOut, TraceError, sacct};
use phalanx_methods::learn::runtime::JobClass;

/// A job on a machine whose CPUs are all alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimJob {
    /// Number in the log.
    pub number: i64,
    /// Arrival, seconds.
    pub submit_s: i64,
    /// Seconds that the job runs; at least 1, at most the limit.
    pub run_s: u64,
    /// The user's limit, seconds.
    pub limit_s: u64,
    /// CPUs, at least 1.
    pub size: u64,
    /// User id.
    pub user: u64,
    /// Program of the user; 0: unknown.
    pub class: u64,
}

impl SimJob {
    /// Facts known on its arrival.
    pub fn class(&self) -> JobClass {
        JobClass { user: self.user, class: self.class, limit_s: self.limit_s, size: self.size }
    }
}

/// Jobs by arrival, and what was left out.
#[derive(Debug, Clone, Default)]
pub struct Workload {
    /// Jobs by arrival; jobs of one second in the log's order.
    pub jobs: Vec<SimJob>,
    /// Jobs that cannot be run: no runtime, no size, larger than the machine; and lines that cannot
    /// be read.
    pub skipped: u64,
    /// Lines that cannot be read.
    pub left_out: LeftOut,
    /// CPUs of the machine.
    pub cpus: u64,
    /// Seconds from a job's end until its CPUs take the next one, under Slurm's rules.
    pub turnaround_s: u64,
    /// Other resources of its nodes, where it has nodes.
    pub others: Vec<Dimension>,
    /// Names of the users by their ids, where the log has names.
    pub users: BTreeMap<u64, String>,
    /// Account and partition of each job as numbers, where the log has them.
    pub owners: Vec<(u64, u64)>,
}

/// A resource beside CPUs.
#[derive(Debug, Clone, Default)]
pub struct Dimension {
    /// Name for people.
    pub name: &'static str,
    /// Amount of the machine.
    pub total: u64,
    /// Amount of each job.
    pub amounts: Vec<u64>,
}

/// Reads a whole SWF log for a machine of `cpus`, or as large as the header
/// says.
///
/// # Errors
/// Fails as [`SwfReader`] does; a log without a single job; too many jobs; no `cpus`
/// and no header.
pub fn read_swf(reader: impl BufRead, cpus: Option<u64>) -> Result<Workload, TraceError> {
    let mut reader = SwfReader::new(reader);
    let mut load = Workload::default();
    let mut count = 0u64;
    while let Some(job) = reader.next_job()? {
        count += 1;
        if load.jobs.len() >= TRACE_JOBS_MAX {
            return Err(TraceError::Empty(format!("more than {TRACE_JOBS_MAX} jobs")));
        }
        match of_swf(&job) {
            Some(job) => load.jobs.push(job),
            None => load.skipped += 1,
        }
    }
    if count == 0 {
        return Err(TraceError::Empty("no job in it".to_owned()));
    }
    load.cpus = cpus.or_else(|| of_header(reader.header())).ok_or_else(|| {
        TraceError::Empty("the header names no MaxProcs: give --nodes".to_owned())
    })?;
    load.drop_too_large();
    // Stable: equal arrivals stay in the log's order.
    load.jobs.sort_by_key(|job| job.submit_s);
    Ok(load)
}

/// Reads a whole `sacct --parsable2` text for a machine of `cpus`, or of as many
/// as were in use at once. Jobs that did not end or never ran are skipped, as are lines that cannot
/// be read.
///
/// # Errors
/// Fails as [`sacct::read`] does; a text without a job that ran and has a size, or of several
/// clusters.
///
/// A job of which only the number of nodes is known has `node_cpus` CPUs on each.
pub fn read_sacct(
    reader: impl BufRead,
    zone: &TimeZone,
    cpus: Option<u64>,
    node_cpus: u64,
) -> Result<Workload, TraceError> {
    let mut seen = RunsRead::default();
    let mut load = Workload::default();
    let mut uses: Vec<(i64, i64)> = Vec::new();
    let (mut users, mut names) = (Ids::new(), Ids::new());
    let mut sizeless = false;
    let job = |_, row: sacct::Row| {
        if load.jobs.len() >= TRACE_JOBS_MAX {
            load.skipped += 1;
            return;
        }
        match of_sacct(&row, node_cpus, &mut users, &mut names) {
            Some((_, start_s)) if !seen.is_first(&row, start_s) => load.skipped += 1,
            Some((job, start_s)) => {
                let size = i64::try_from(job.size).unwrap_or(i64::MAX);
                uses.push((start_s, size));
                uses.push((start_s.saturating_add_unsigned(job.run_s), -size));
                load.jobs.push(job);
            }
            None => {
                sizeless |= row.is_ended() && row.ran();
                load.skipped += 1;
            }
        }
    };
    let mut left_out = LeftOut::default();
    sacct::read(reader, zone, job, |line, what| left_out.add(line, what))?;
    seen.one_cluster()?;
    if load.jobs.is_empty() {
        return Err(left_out.nothing_but(match sizeless {
            true => {
                "no job in it has a number of CPUs: expected column NCPUS, AllocTRES or ReqTRES"
            }
            false => "no job in it that ran and ended",
        }));
    }
    load.skipped += left_out.lines;
    load.left_out = left_out;
    load.cpus = cpus.unwrap_or_else(|| most_at_once(uses));
    load.users = users.into_iter().map(|(name, id)| (id, name)).collect();
    load.drop_too_large();
    load.jobs.sort_by_key(|job| job.submit_s);
    Ok(load)
}

/// Runs read so far: a dump may list one twice. A requeued job has several.
#[derive(Debug, Default)]
pub(super) struct RunsRead {
    runs: HashSet<(u32, u32, i64)>,
    clusters: BTreeSet<String>,
}

impl RunsRead {
    /// Whether this run was not listed before.
    pub(super) fn is_first(&mut self, row: &sacct::Row, start_s: i64) -> bool {
        // The task of an array or the component of a het job, from 1; 0 for neither.
        let offset = row.job.split_once('+').and_then(|(_, n)| n.parse::<u32>().ok());
        let part = row.array.map(|(_, task)| task).or(offset);
        if !self.clusters.contains(&row.cluster) {
            self.clusters.insert(row.cluster.clone());
        }
        self.runs.insert((row.job_id, part.map_or(0, |n| n.saturating_add(1)), start_s))
    }

    /// Refuses runs of several clusters: they are not one machine.
    pub(super) fn one_cluster(&self) -> Result<(), TraceError> {
        if self.clusters.len() < 2 {
            return Ok(());
        }
        let names: Vec<&str> = self.clusters.iter().map(String::as_str).collect();
        let names = names.join(", ");
        let what = format!(
            "jobs of {} clusters ({names}): expected one's, sacct -M NAME",
            self.clusters.len()
        );
        Err(TraceError::Empty(what))
    }
}

/// Numbers of names, from 1.
pub(super) type Ids = BTreeMap<String, u64>;

pub(super) fn id_of(ids: &mut Ids, name: &str) -> u64 {
    if let Some(id) = ids.get(name) {
        return *id;
    }
    let id = ids.len() as u64 + 1;
    ids.insert(name.to_owned(), id);
    id
}

/// The job and when it really started.
fn of_sacct(
    row: &sacct::Row,
    node_cpus: u64,
    users: &mut Ids,
    names: &mut Ids,
) -> Option<(SimJob, i64)> {
    let by_nodes = u64::from(row.node_count).saturating_mul(node_cpus);
    let size = if row.cpus > 0 { row.cpus } else { by_nodes };
    let start_s = row.start_s.filter(|_| row.is_ended() && row.ran() && size > 0)?;
    let run_s = row.elapsed_s.max(1);
    let limit_s = row.limit_min.map_or(run_s, |minutes| u64::from(minutes.max(1)) * 60);
    let job = SimJob {
        number: i64::from(row.job_id),
        submit_s: row.submit_s.unwrap_or(start_s),
        run_s: run_s.min(limit_s),
        limit_s,
        size,
        user: id_of(users, &row.user),
        class: id_of(names, &row.name),
    };
    Some((job, start_s))
}

/// Most CPUs in use at one time; what ends then is given back first.
pub(super) fn most_at_once(mut uses: Vec<(i64, i64)>) -> u64 {
    uses.sort_unstable();
    let (mut used, mut most) = (0i128, 0i128);
    for (_, change) in uses {
        used += i128::from(change);
        most = most.max(used);
    }
    u64::try_from(most).unwrap_or(u64::MAX)
}

fn of_header(header: SwfHeader) -> Option<u64> {
    [header.processors, header.nodes].into_iter().find(|count| *count > 0)
}

impl Workload {
    /// CPUs as a resource.
    pub fn cpus_in_use(&self) -> Dimension {
        let amounts = self.jobs.iter().map(|job| job.size).collect();
        Dimension { name: "CPUs in use", total: self.cpus, amounts }
    }

    fn drop_too_large(&mut self) {
        let before = self.jobs.len();
        self.jobs.retain(|job| job.size <= self.cpus);
        self.skipped += (before - self.jobs.len()) as u64;
    }
}

fn of_swf(job: &SwfJob) -> Option<SimJob> {
    let size = if job.requested > 0 { job.requested } else { job.allocated };
    let size = u64::try_from(size).ok().filter(|size| *size > 0)?;
    let run_s = u64::try_from(job.run_s).ok()?.max(1);
    let limit_s = u64::try_from(job.request_s).ok().filter(|s| *s > 0).unwrap_or(run_s);
    let id = |value: i64| u64::try_from(value).map_or(0, |v| v + 1);
    Some(SimJob {
        number: job.number,
        submit_s: job.submit_s,
        run_s: run_s.min(limit_s),
        limit_s,
        size,
        user: id(job.user),
        class: id(job.executable),
    })
}
