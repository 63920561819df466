// SPDX-License-Identifier: GPL-3.0-or-later
//! The jobs of a log as the simulator runs them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::BufRead;

use jiff::tz::TimeZone;

use phalanx_core::number::nearest_i64;
use phalanx_core::trace::swf::{SwfHeader, SwfJob, SwfReader};
use phalanx_core::trace::{LeftOut, TraceError, sacct};
use phalanx_core::{limits::TRACE_JOBS_MAX, run::waits_from_s};
use phalanx_methods::learn::runtime::JobClass;

use super::window::{Inside, Seen, Span, Window};

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
    /// The job's class, from facts known on its arrival.
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
    /// Seconds from a job's end until its CPUs take the next job, under Slurm's rules.
    pub turnaround_s: u64,
    /// Resources of the cluster's nodes other than CPUs, where the load has nodes.
    pub others: Vec<Dimension>,
    /// Names of the users by their ids, where the log has names.
    pub users: BTreeMap<u64, String>,
    /// Account and partition of each job as numbers, where the log has them.
    pub owners: Vec<(u64, u64)>,
    /// The period that the log covers; `None`: from the first arrival to the last end.
    pub window: Option<Window>,
    /// Number of first jobs that hold their CPUs as the period begins: they do not wait.
    pub held: usize,
    /// Places of jobs that still run at the end of the period, so that their runtime is unknown.
    pub unfinished: BTreeSet<usize>,
}

/// A resource other than CPUs.
#[derive(Debug, Clone, Default)]
pub struct Dimension {
    /// Name for people.
    pub name: &'static str,
    /// Amount that the machine has.
    pub total: u64,
    /// Amount that each job takes.
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
    let mut whole_of_parts: BTreeMap<i64, SwfJob> = BTreeMap::new();
    while let Some(job) = reader.next_job()? {
        count += 1;
        if load.jobs.len() + whole_of_parts.len() >= TRACE_JOBS_MAX {
            return Err(TraceError::Empty(format!("more than {TRACE_JOBS_MAX} jobs")));
        }
        if job.is_part() {
            whole_of_parts
                .entry(job.number)
                .and_modify(|whole| add_part(whole, &job))
                .or_insert(job);
            continue;
        }
        match of_swf(&job) {
            Some(job) => load.jobs.push(job),
            None => load.skipped += 1,
        }
    }
    for job in &load.jobs {
        whole_of_parts.remove(&job.number);
    }
    for job in whole_of_parts.values() {
        match of_swf(job) {
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
/// be read. A job of which only the number of nodes is known has `node_cpus` CPUs on each.
///
/// # Errors
/// Fails as [`sacct::read`] does; a text without a job that ran and has a size, or of several
/// clusters.
pub fn read_sacct(
    reader: impl BufRead,
    zone: &TimeZone,
    cpus: Option<u64>,
    node_cpus: u64,
) -> Result<Workload, TraceError> {
    let mut seen = RunsRead::default();
    let mut load = Workload::default();
    let mut found: Vec<(SimJob, Span)> = Vec::new();
    let (mut users, mut names) = (Ids::new(), Ids::new());
    let mut sizeless = false;
    let job = |_, row: sacct::Row| {
        if found.len() >= TRACE_JOBS_MAX {
            load.skipped += 1;
            return;
        }
        let span = seen.span(&row);
        match span.map(|span| (of_sacct(&row, node_cpus, &mut users, &mut names), span)) {
            Ok((Some(_), span)) if !seen.is_first(&row, span.start_s) => load.skipped += 1,
            Ok((Some(job), span)) => found.push((job, span)),
            Ok((None, _)) => {
                sizeless = true;
                load.skipped += 1;
            }
            Err(_) => load.skipped += 1,
        }
    };
    let mut left_out = LeftOut::default();
    sacct::read(reader, zone, job, |line, what| left_out.add(line, what))?;
    seen.one_cluster()?;
    if found.is_empty() {
        return Err(left_out.nothing_but(match sizeless {
            true => {
                "no job in it has a number of CPUs: expected column NCPUS, AllocTRES or ReqTRES"
            }
            false => "no job in it that ran",
        }));
    }
    load.skipped += left_out.lines;
    load.left_out = left_out;
    load.users = users.into_iter().map(|(name, id)| (id, name)).collect();
    load.take(&found, seen.dates.window(), cpus);
    Ok(load)
}

/// Runs read so far, by which one that is listed twice is told; a requeued job has several runs.
#[derive(Debug, Default)]
pub(super) struct RunsRead {
    runs: HashSet<(u32, u32, i64)>,
    clusters: BTreeSet<String>,
    /// The period that the runs cover.
    pub(super) dates: Seen,
}

impl RunsRead {
    /// When the job of a row waited and ran; its limit is the row's, else the time that it ran.
    ///
    /// # Errors
    /// Why it did not run.
    pub(super) fn span(&mut self, row: &sacct::Row) -> Result<Span, &'static str> {
        let ends_s = row.end_s.filter(|_| row.is_ended());
        ends_s.into_iter().for_each(|end_s| self.dates.ended(end_s));
        let from_s = row.eligible_s.or(row.submit_s);
        let Some(start_s) = row.start_s.filter(|_| row.ran() && !row.is_waiting()) else {
            from_s.into_iter().for_each(|from_s| self.dates.came(from_s));
            let waits = row.is_waiting();
            return Err(if waits { "still waiting" } else { "that ended before a start" });
        };
        let end_s = start_s.saturating_add_unsigned(row.elapsed_s.max(1));
        if !row.is_going() {
            ends_s.ok_or("without an end, not running")?;
        }
        self.dates.started(from_s.unwrap_or(start_s), start_s);
        if row.is_going() {
            self.dates.runs(end_s);
        }
        let submit_s = waits_from_s(row.submit_s.unwrap_or(start_s), row.eligible_s, start_s);
        let limit_s = row.limit_min.map(|minutes| u64::from(minutes.max(1)) * 60);
        Ok(Span {
            submit_s,
            start_s,
            end_s: Some(end_s).filter(|_| !row.is_going()),
            limit_s: limit_s.unwrap_or(row.elapsed_s.max(1)),
        })
    }

    /// Whether the run was not listed before.
    pub(super) fn is_first(&mut self, row: &sacct::Row, start_s: i64) -> bool {
        // The task of an array or the component of a het job, from 1; 0 for neither.
        let offset = row.job.split_once('+').and_then(|(_, n)| n.parse::<u32>().ok());
        let part = row.array.map(|(_, task)| task).or(offset);
        if !self.clusters.contains(&row.cluster) {
            self.clusters.insert(row.cluster.clone());
        }
        self.runs.insert((row.job_id, part.map_or(0, |n| n.saturating_add(1)), start_s))
    }

    /// Refuses runs of several clusters, since they did not share one machine.
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

/// A job of a row of sacct, without its times; `None` without a size.
fn of_sacct(row: &sacct::Row, node_cpus: u64, users: &mut Ids, names: &mut Ids) -> Option<SimJob> {
    let by_nodes = u64::from(row.node_count).saturating_mul(node_cpus);
    let size = if row.cpus > 0 { row.cpus } else { by_nodes };
    (size > 0).then(|| SimJob {
        number: i64::from(row.job_id),
        submit_s: 0,
        run_s: 1,
        limit_s: 1,
        size,
        user: id_of(users, &row.user),
        class: id_of(names, &row.name),
    })
}

/// Most CPUs in use at one time; CPUs of jobs that end at that time are given back first.
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
    /// The first time that matters for a job.
    pub fn first_s(&self) -> i64 {
        let first = || self.jobs.first().map_or(0, |job| job.submit_s);
        self.window.map_or_else(first, |window| window.begin_s)
    }

    /// Time at which a job comes to the queue: a job that waits already comes as the period begins.
    pub fn arrival_s(&self, job: &SimJob) -> i64 {
        self.window.map_or(job.submit_s, |window| job.submit_s.max(window.begin_s))
    }

    /// CPUs as a [`Dimension`].
    pub fn cpus_in_use(&self) -> Dimension {
        let amounts = self.jobs.iter().map(|job| job.size).collect();
        Dimension { name: "CPUs in use", total: self.cpus, amounts }
    }

    /// Takes the jobs that lie in the period, for a machine of `cpus`, or of as many CPUs as were
    /// in use at once.
    fn take(&mut self, found: &[(SimJob, Span)], window: Window, cpus: Option<u64>) {
        let inside = found.iter().map(|(job, span)| Some((*job, *span, window.inside(span)?)));
        let mut inside: Vec<(SimJob, Span, Inside)> = inside.flatten().collect();
        let uses = inside.iter().flat_map(|(job, span, of)| {
            let size = nearest_i64(job.size);
            let from_s = span.start_s.max(window.begin_s);
            [(from_s, size), (from_s.saturating_add_unsigned(of.run_s), -size)]
        });
        self.cpus = cpus.unwrap_or_else(|| most_at_once(uses.collect()));
        inside.retain(|(job, ..)| job.size <= self.cpus);
        self.skipped += (found.len() - inside.len()) as u64;
        // Stable: equal arrivals stay in the log's order.
        inside.sort_by_key(|(.., of)| (!of.began_before, of.submit_s));
        self.held = inside.iter().filter(|(.., of)| of.began_before).count();
        let going = inside.iter().enumerate().filter(|(_, (.., of))| of.goes_on);
        self.unfinished = going.map(|(at, _)| at).collect();
        let job = |(job, _, of): (SimJob, Span, Inside)| SimJob {
            submit_s: of.submit_s,
            run_s: of.run_s,
            limit_s: of.limit_s,
            ..job
        };
        self.jobs = inside.into_iter().map(job).collect();
        self.window = Some(window);
    }

    fn drop_too_large(&mut self) {
        let before = self.jobs.len();
        self.jobs.retain(|job| job.size <= self.cpus);
        self.skipped += (before - self.jobs.len()) as u64;
    }
}

/// Joins the parts of a job to one: from its first arrival, with the sum of the runtimes.
fn add_part(whole: &mut SwfJob, part: &SwfJob) {
    whole.run_s = whole.run_s.max(0).saturating_add(part.run_s.max(0));
    whole.submit_s = whole.submit_s.min(part.submit_s);
    whole.request_s = whole.request_s.max(part.request_s);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_wait_from_the_time_at_which_they_could_start() {
        let text = "JobID|State|Submit|Eligible|Start|End|Elapsed|AllocCPUS\n\
                    7|COMPLETED|1000|1600|1700|1800|00:01:40|2\n\
                    8|COMPLETED|1010|Unknown|1700|1800|00:01:40|2\n";
        let load = read_sacct(text.as_bytes(), &TimeZone::UTC, None, 1).unwrap();
        let submits: Vec<_> = load.jobs.iter().map(|job| (job.number, job.submit_s)).collect();
        assert_eq!(submits, [(8, 1010), (7, 1600)]);
    }

    #[test]
    fn parts_of_a_job_of_a_log_are_one_job() {
        let line = |job, at, run, status| {
            format!("{job} {at} 0 {run} 2 -1 -1 2 900 -1 {status} 1 1 1 -1 -1 -1 -1\n")
        };
        let read = |text: String| {
            let load = read_swf(text.as_bytes(), Some(4)).unwrap();
            let jobs: Vec<_> = load.jobs.iter().map(|j| (j.number, j.submit_s, j.run_s)).collect();
            (jobs, load.skipped)
        };
        let parts = line(1, 0, 100, 2) + &line(1, 50, 200, 3);
        let (whole, next) = (line(1, 0, 300, 1), line(2, 10, 60, 0));
        let expected = (vec![(1, 0, 300), (2, 10, 60)], 0);
        assert_eq!(read(format!("{whole}{parts}{next}")), expected, "they are in the whole");
        assert_eq!(read(format!("{parts}{next}{whole}")), expected, "wherever it stands");
        assert_eq!(read(format!("{parts}{next}")), expected, "nothing else tells of it");
    }
}
