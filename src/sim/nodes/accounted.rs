// SPDX-License-Identifier: GPL-3.0-or-later
//! The jobs of an accounting text on a cluster of nodes: what each asked for, where and when it
//! really ran, and what of it is not modelled.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use jiff::tz::TimeZone;

use super::choose::Rule;
use super::classes::{Classes, idle_rooms};
use super::load::{PARTITION, PartitionSpec, Site, Tres, idle, shape_of};
use super::{NodeJob, NodeLoad, Ran};
use crate::job::{Ids, RunsRead, id_of, most_at_once};
use crate::window::{Span, Window};
use phalanx_core::NodeIdx;
use phalanx_core::hostlist;
use phalanx_core::limits::{NODES_MAX, TRACE_JOBS_MAX};
use phalanx_core::number::{nearest_i64, nearest_u32};
use phalanx_core::shape::{Memory, Sharing};
use phalanx_core::snapshot::Job;
use phalanx_core::snapshot::features::Constraint;
use phalanx_core::trace::sacct::{self, Row};
use phalanx_core::trace::spec::NodeSpec;
use phalanx_core::trace::{LeftOut, Reasons, TraceError};
use phalanx_methods::learn::program_name;
use phalanx_methods::learn::runtime::{JobClass, NO_LIMIT_S};
use phalanx_planner::cluster::{Cluster, Held, RunningJob};

/// The jobs of an accounting that ran, and the period that it covers.
#[derive(Debug)]
pub struct Accounting {
    rows: Vec<(Row, Span)>,
    /// The period.
    pub window: Window,
    reasons: Reasons,
    left_out: LeftOut,
}

/// Reads a whole `sacct --parsable2` text for a site, as far as it lies in the period that it
/// covers. Jobs that never ran, fit nowhere or are impossible are skipped by reason, as are lines
/// that cannot be read.
///
/// # Errors
/// Fails as [`sacct::read`] does; a text without a job that ran, or of several clusters; too many
/// jobs; two nodes of one name.
pub fn read_sacct(
    reader: impl BufRead,
    zone: &TimeZone,
    site: &Site,
) -> Result<NodeLoad, TraceError> {
    let accounting = Accounting::read(reader, zone)?;
    accounting.load(site, &accounting.window)
}

impl Accounting {
    /// Reads a whole `sacct --parsable2` text.
    ///
    /// # Errors
    /// Fails as [`read_sacct`] does.
    pub fn read(reader: impl BufRead, zone: &TimeZone) -> Result<Self, TraceError> {
        let (mut rows, mut too_many) = (Vec::<(Row, Span)>::new(), false);
        let (mut seen, mut reasons) = (RunsRead::default(), Reasons::default());
        let left_out = RefCell::new(LeftOut::default());
        let visit = |line, row: Row| {
            too_many |= rows.len() >= TRACE_JOBS_MAX;
            let span = match seen.span(&row) {
                Err(why) => return reasons.add(why, &row.job),
                Ok(span) => span,
            };
            match Tres::of(&row) {
                Err(what) => left_out.borrow_mut().add(line, what),
                Ok(_) if too_many || !seen.is_first(&row, span.start_s) => {
                    reasons.add("listed twice", &row.job);
                }
                Ok(_) => rows.push((row, span)),
            }
        };
        sacct::read(reader, zone, visit, |line, what| left_out.borrow_mut().add(line, what))?;
        let left_out = left_out.into_inner();
        seen.one_cluster()?;
        if too_many {
            return Err(TraceError::Empty(format!("more than {TRACE_JOBS_MAX} jobs")));
        }
        if rows.is_empty() {
            return Err(left_out.nothing_but("no job in it that ran"));
        }
        let runaway = runaways(&rows);
        let mut at = 0;
        rows.retain(|(row, _)| {
            at += 1;
            let is_runaway = runaway.contains(&(at - 1));
            if is_runaway {
                let why = "that ran far beyond the limit while others came to the same nodes";
                reasons.add(why, &row.job);
            }
            !is_runaway
        });
        rows.sort_by_key(|(_, span)| span.start_s);
        Ok(Self { rows, window: seen.dates.window(), reasons, left_out })
    }

    /// The part of the period in which the latest `jobs` jobs started.
    pub fn latest(&self, window: &Window, jobs: usize) -> Window {
        let last = self.rows.partition_point(|(_, span)| span.start_s < window.end_s);
        let begin = last.checked_sub(jobs).and_then(|at| self.rows.get(at));
        let begin_s = begin.map_or(window.begin_s, |(_, span)| span.start_s);
        Window { begin_s: begin_s.max(window.begin_s), ..*window }
    }

    /// The part of the period in which the first `jobs` jobs started.
    pub fn earliest(&self, window: &Window, jobs: usize) -> Window {
        let first = self.rows.partition_point(|(_, span)| span.start_s < window.begin_s);
        let end = self.rows.get(first.saturating_add(jobs));
        let end_s = end.map_or(window.end_s, |(_, span)| span.start_s);
        Window { end_s: end_s.min(window.end_s).max(window.begin_s + 1), ..*window }
    }

    /// Splits the period at the first `percent` of the jobs that start in it.
    pub fn split(&self, percent: usize) -> (Window, Window) {
        let of = |at_s: i64| self.rows.partition_point(|(_, span)| span.start_s < at_s);
        let inside = of(self.window.end_s).saturating_sub(of(self.window.begin_s));
        let first = self.earliest(&self.window, inside * percent / 100);
        (first, Window { begin_s: first.end_s, ..self.window })
    }

    /// Makes a load of a part of the period, on the nodes of a site.
    ///
    /// # Errors
    /// Nodes that are not known, or two of one name.
    pub fn load(&self, site: &Site, window: &Window) -> Result<NodeLoad, TraceError> {
        let mut reasons = self.reasons.clone();
        let begin_s = self.window.begin_s;
        let inside = self.rows.iter().filter(|(row, span)| {
            let is_in = window.inside(span).is_some();
            if !is_in && span.end_s.is_some_and(|end_s| end_s <= begin_s) {
                reasons.add("that ended as the period began", &row.job);
            }
            is_in
        });
        let rows: Vec<(&Row, &Span)> = inside.map(|(row, span)| (row, span)).collect();
        let ran_on = names_of(&rows);
        let learned = || Site { nodes: learned(&rows, &ran_on), named: true, ..Site::default() };
        let of_jobs = site.nodes.is_empty().then(learned);
        let site = of_jobs.as_ref().unwrap_or(site);
        if site.nodes.is_empty() {
            let what = "no column NodeList from which nodes could be learned: name the nodes";
            return Err(TraceError::Empty(what.to_owned()));
        }
        let mut reader = Reader::new(site, &rows, &ran_on).map_err(TraceError::Empty)?;
        let mut load = std::mem::take(&mut reader.load);
        let all = rows.iter().zip(&ran_on);
        let jobs = all.map(|((row, span), names)| reader.job(&load, row, (span, window), names));
        load.jobs = jobs.flatten().collect();
        load.unmodelled = reader.unmodelled;
        load.skipped = reasons.total() + self.left_out.lines;
        (load.left_out, load.reasons) = (self.left_out.clone(), reasons);
        (load.begin_s, load.until_s) = (window.begin_s, Some(window.end_s));
        load.hold();
        load.jobs.sort_by_key(|job| (job.held.is_none(), job.job.submit_s));
        load.drop_impossible();
        Ok(load)
    }
}

/// Factor and seconds by which a job may run longer than its limit: Slurm takes a minute to end a
/// job, and sites let jobs overrun.
const OVERRUN: (u64, u64) = (2, 3600);

/// Places of impossible rows: the accounting missed their end, and others started on their nodes
/// after they must have ended.
fn runaways(rows: &[(Row, Span)]) -> BTreeSet<usize> {
    let is_long = |(row, span): &&(Row, Span)| {
        let most_s = span.limit_s.saturating_mul(OVERRUN.0).saturating_add(OVERRUN.1);
        row.limit_min.is_some() && row.elapsed_s > most_s && !row.nodes.is_empty()
    };
    // A list that cannot be read names no node on which the end of another job could show.
    let names = |row: &Row| hostlist::expand(&row.nodes, NODES_MAX).unwrap_or_default();
    // Of each node of theirs, the time at which each had to be gone.
    let mut gone: BTreeMap<String, Vec<(i64, usize)>> = BTreeMap::new();
    for (at, (row, span)) in rows.iter().enumerate().filter(|(_, of)| is_long(of)) {
        let gone_s = span.start_s.saturating_add_unsigned(span.limit_s);
        names(row).into_iter().for_each(|name| gone.entry(name).or_default().push((gone_s, at)));
    }
    let mut found = BTreeSet::new();
    for (at, (row, span)) in rows.iter().enumerate().filter(|_| !gone.is_empty()) {
        for name in names(row) {
            let own = gone.get(&name).into_iter().flatten();
            found.extend(
                own.filter(|(gone_s, of)| *of != at && span.start_s > *gone_s).map(|o| o.1),
            );
        }
    }
    found
}

/// The nodes that each job ran on; at most [`TRACE_JOBS_MAX`] names in all, which fit into memory.
fn names_of(rows: &[(&Row, &Span)]) -> Vec<Vec<String>> {
    let mut room = TRACE_JOBS_MAX;
    // A job beyond counts as one of unknown nodes.
    let mut names = |row: &Row| hostlist::expand_within(&row.nodes, &mut room).unwrap_or_default();
    rows.iter().map(|(row, _)| names(row)).collect()
}

/// The resources of a job that [`Accounting::read`] kept: it leaves out rows whose TRES cannot be
/// read.
fn tres_of(row: &Row) -> Tres<'_> {
    let of = Tres::of(row);
    debug_assert!(of.is_ok(), "job {}: its TRES cannot be read", row.job);
    of.unwrap_or_default()
}

/// CPUs, memory in MiB and GPUs that a job had on each of its `nodes` nodes.
fn shares(row: &Row, nodes: usize) -> [u64; 3] {
    let of = tres_of(row);
    let gpus = of.gres.iter().filter(|(name, _)| **name == "gpu" || name.starts_with("gpu:"));
    let gpus = gpus.map(|(_, count)| *count).max();
    let nodes = nodes.max(1) as u64;
    [of.held, of.memory_mb.unwrap_or(0), gpus.unwrap_or(0)].map(|amount| amount.div_ceil(nodes))
}

/// The nodes that the jobs ran on, each as large as the most that was in use on it at once.
fn learned(rows: &[(&Row, &Span)], ran_on: &[Vec<String>]) -> Vec<NodeSpec> {
    let mut uses: BTreeMap<&str, [Vec<(i64, i64)>; 3]> = BTreeMap::new();
    for ((row, span), names) in rows.iter().zip(ran_on) {
        let start_s = span.start_s;
        let end_s = start_s.saturating_add_unsigned(row.elapsed_s.max(1));
        let shares = shares(row, names.len());
        for name in names {
            for (of, share) in uses.entry(name).or_default().iter_mut().zip(shares) {
                let share = nearest_i64(share);
                of.extend([(start_s, share), (end_s, -share)].iter().filter(|_| share > 0));
            }
        }
    }
    let spec = |(name, uses): (&str, [Vec<(i64, i64)>; 3])| {
        let [cpus, memory_mb, gpus] = uses.map(most_at_once);
        NodeSpec {
            name: name.to_owned(),
            cpu_milli: cpus.max(1).saturating_mul(1000),
            memory_mb,
            gpus: nearest_u32(gpus),
            weight: 1,
            ..NodeSpec::default()
        }
    };
    uses.into_iter().take(NODES_MAX).map(spec).collect()
}

/// Site, and the counts that are kept while jobs are made.
struct Reader<'a> {
    load: NodeLoad,
    partitions: BTreeMap<&'a str, PartitionSpec>,
    /// Whether the text has time limits; else a job's limit is its runtime.
    has_limits: bool,
    users: Ids,
    names: Ids,
    unmodelled: BTreeMap<String, u64>,
    named: bool,
}

impl<'a> Reader<'a> {
    fn new(
        site: &'a Site,
        rows: &[(&'a Row, &'a Span)],
        ran_on: &'a [Vec<String>],
    ) -> Result<Self, String> {
        let mut partitions: BTreeMap<&str, PartitionSpec> =
            site.partitions.iter().map(|of| (&*of.name, of.clone())).collect();
        let known: BTreeSet<&str> = site.nodes.iter().map(|node| &*node.name).collect();
        // Partitions that no file defines have the nodes that their jobs ran on.
        for ((row, _), names) in rows.iter().zip(ran_on).filter(|_| site.partitions.is_empty()) {
            let own = partitions.entry(&row.partition).or_default();
            own.name.clone_from(&row.partition);
            own.nodes.extend(names.iter().filter(|name| known.contains(&***name)).cloned());
        }
        partitions.retain(|name, own| !name.is_empty() && !own.nodes.is_empty());
        let all: Vec<PartitionSpec> = partitions.values().cloned().collect();
        let load = idle(&Site { partitions: all, ..site.clone() })?;
        Ok(Self {
            load,
            partitions,
            has_limits: rows.iter().any(|(row, _)| row.limit_min.is_some()),
            users: Ids::new(),
            names: Ids::new(),
            unmodelled: lacking(site, rows),
            named: site.named,
        })
    }

    /// The part of a job that lies in the period.
    fn job(
        &mut self,
        load: &NodeLoad,
        row: &Row,
        (span, window): (&Span, &Window),
        names: &[String],
    ) -> Option<NodeJob> {
        let nodes: Vec<u32> =
            names.iter().filter_map(|name| Some(load.cluster.node(name)?.raw())).collect();
        let partition = self.partitions.get(&*row.partition);
        let run_s = row.elapsed_s.max(1);
        let limit_min = row.limit_min.or(partition.and_then(|of| of.limit_min));
        let limit_s = match limit_min {
            Some(minutes) => u64::from(minutes.max(1)) * 60,
            None if self.has_limits => NO_LIMIT_S.max(run_s),
            None => run_s,
        };
        let inside = window.inside(&Span { limit_s, ..*span })?;
        let shape = shape_of(row, &load.cluster);
        debug_assert!(shape.is_ok(), "job {}: its TRES cannot be read", row.job);
        let mut shape = shape.unwrap_or_default();
        if !load.memory_tracked {
            shape.memory = Memory::Untracked;
        }
        if partition.is_some_and(|of| of.exclusive) || self.is_whole(load, row, &nodes) {
            shape.sharing = Sharing::Whole;
            // They may differ in size: the smallest holds a part as well.
            let own = nodes.iter().filter_map(|at| load.cluster.nodes.get(*at as usize));
            let least = own.map(|node| nearest_u32(node.cpus)).min();
            let most = least.unwrap_or(u32::MAX).saturating_mul(shape.req_nodes);
            shape.min_cpus = shape.min_cpus.min(most);
        }
        let class = JobClass {
            user: id_of(&mut self.users, &row.user),
            class: id_of(&mut self.names, &program_name(&row.name)),
            limit_s,
            size: u64::from(shape.min_cpus),
        };
        let job = Job {
            id: row.job_id,
            array_job_id: row.array.map(|(array, _)| array),
            array_task_id: row.array.map(|(_, task)| task),
            label: row.job.as_str().into(),
            comment: row.comment.as_str().into(),
            task_count: 1,
            user_id: nearest_u32(class.user),
            user: row.user.as_str().into(),
            account: row.account.as_str().into(),
            name: row.name.as_str().into(),
            tres_req: row.tres_req.as_str().into(),
            partitions: partition.map_or(PARTITION, |of| &*of.name).into(),
            constraint: constraint(load, &row.constraints).map(Into::into),
            priority: row.priority.unwrap_or(1).max(1),
            submit_s: inside.submit_s,
            time_limit_min: limit_min,
            shape,
            ..Job::default()
        };
        self.note(load, row, nodes.len());
        let nodes = if nodes.len() == names.len() { nodes } else { Vec::new() };
        let held = inside.began_before.then(|| held_on(load, &job, &nodes));
        Some(NodeJob {
            job,
            run_s: inside.run_s,
            limit_s: inside.limit_s,
            unfinished: inside.goes_on,
            class,
            held,
            ran: Some(Ran { start_s: span.start_s, nodes }),
            ..NodeJob::default()
        })
    }

    /// Whether a job had all CPUs of its nodes without having asked for them.
    fn is_whole(&self, load: &NodeLoad, row: &Row, nodes: &[u32]) -> bool {
        let of = tres_of(row);
        let cpus = |node: &u32| load.cluster.nodes.get(*node as usize).map_or(0, |of| of.cpus);
        let largest = || load.cluster.nodes.iter().map(|node| node.cpus).max().unwrap_or(0);
        let whole = match nodes.iter().map(cpus).sum() {
            0 => largest().saturating_mul(u64::from(row.node_count.max(1))),
            sum => sum,
        };
        of.cpus.is_some_and(|asked| of.held > asked) && of.held >= whole
    }

    /// Counts the parts of a job's request that are not modelled.
    fn note(&mut self, load: &NodeLoad, row: &Row, known_nodes: usize) {
        let partition = self.partitions.get(&*row.partition);
        let unknown = |name: &str| load.cluster.gres_kind(name.split(':').next().unwrap_or(name));
        let of = tres_of(row);
        let qos = !matches!(&*row.qos, "" | "normal");
        let partitioned = partition.is_none() && !row.partition.is_empty();
        let elsewhere = !row.nodes.is_empty() && known_nodes < row.node_count as usize;
        let moved = self.named && elsewhere;
        let found: [(bool, &str); 10] = [
            (partitioned, "in a partition of unknown nodes: run on any"),
            (moved, "that ran on nodes that are not given"),
            (
                !row.constraints.is_empty() && constraint(load, &row.constraints).is_none(),
                "with features that the nodes given do not name: any node will do",
            ),
            (!row.reservation.is_empty(), "in a reservation: the nodes of it are free to all"),
            (qos, "under a QOS other than normal: its limits, not its priority"),
            (row.het_job_id.is_some(), "of het jobs: each component starts by itself"),
            (of.has_licences, "with licences: there are enough"),
            (
                of.gres.keys().any(|name| unknown(name).is_none()),
                "with a GRES that the nodes given do not have: it costs nothing",
            ),
            (row.state == "NODE_FAIL", "ended by a failed node: nodes are always up"),
            (row.state == "PREEMPTED", "preempted: no job is"),
        ];
        let own = partition.map(|of| &of.unmodelled).into_iter().flatten().map(|what| &**what);
        for what in found.iter().filter(|(is, _)| *is).map(|(_, what)| *what).chain(own) {
            *self.unmodelled.entry(what.to_owned()).or_default() += 1;
        }
    }
}

/// Resources that a job of this request holds on `nodes`.
fn held_on(load: &NodeLoad, job: &Job, nodes: &[u32]) -> RunningJob {
    let need = job.shape.need(u32::try_from(nodes.len()).unwrap_or(1));
    let held = nodes.iter().filter_map(|node| {
        Some(Held::by_need((*node).into(), load.cluster.nodes.get(*node as usize)?, &need))
    });
    RunningJob { held: held.collect(), ..RunningJob::default() }
}

impl NodeLoad {
    /// Gives the jobs that hold unknown nodes from the beginning the first nodes that fit beside
    /// the other jobs. Jobs that fit nowhere are left out.
    fn hold(&mut self) {
        let mut cluster = Cluster::with_usages(self.table(), idle_rooms(self));
        let (classes, mix) = (Classes::of(self), self.mix());
        let mut lost: BTreeSet<usize> = BTreeSet::new();
        for known in [true, false] {
            for (at, id) in (0..self.jobs.len()).zip(0u32..) {
                let Some(job) = self.jobs.get(at) else { continue };
                let Some(held) = job.held.as_ref().filter(|of| of.held.is_empty() != known) else {
                    continue;
                };
                let mut running = RunningJob { id, ..held.clone() };
                if !known {
                    let class = classes.of_job(id).and_then(|class| classes.get(class));
                    let nodes: Vec<u32> =
                        class.iter().flat_map(|of| of.nodes.iter()).map(NodeIdx::raw).collect();
                    let shape = &job.job.shape;
                    let Some(found) = Rule::Slurm.choose(&cluster, &mix, None, shape, &nodes)
                    else {
                        lost.insert(at);
                        continue;
                    };
                    let nodes: Vec<u32> = found.into_iter().map(|(node, _)| node).collect();
                    running.held = held_on(self, &job.job, &nodes).held;
                }
                cluster.set_job(running.clone(), |_| {});
                self.jobs.get_mut(at).into_iter().for_each(|job| job.held = Some(running.clone()));
            }
        }
        let mut at = 0;
        let (reasons, skipped) = (&mut self.reasons, &mut self.skipped);
        self.jobs.retain(|job| {
            at += 1;
            let is_lost = lost.contains(&(at - 1));
            if is_lost {
                *skipped += 1;
                reasons.add("that held more than the nodes given have", &job.job.label);
            }
            !is_lost
        });
    }
}

/// The constraint of a job, where a node has the features that it names.
fn constraint<'t>(load: &NodeLoad, text: &'t str) -> Option<&'t str> {
    let known = Constraint::parse(text).ok()?;
    load.cluster.nodes.iter().any(|node| known.matches(&node.features)).then_some(text)
}

/// Whether a job has what a column says.
type Has = fn(&Row) -> bool;

/// Columns that matter and that no job has.
fn lacking(site: &Site, rows: &[(&Row, &Span)]) -> BTreeMap<String, u64> {
    let columns: [(&str, Has); 5] = [
        ("Partition: all nodes are of one", |row| !row.partition.is_empty()),
        ("Eligible: dependencies and begin times count as waits", |row| row.eligible_s.is_some()),
        ("Priority: age decides", |row| row.priority.is_some()),
        ("Timelimit: it is the runtime", |row| row.limit_min.is_some()),
        ("NodeList: what ran where is not known", |row| !row.nodes.is_empty()),
    ];
    let columns = columns.iter().skip(usize::from(site.partitions.len() < 2));
    let none = columns.filter(|(_, has)| !rows.iter().any(|(row, _)| has(row)));
    none.map(|(what, _)| (format!("without {what}"), rows.len() as u64)).collect()
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
