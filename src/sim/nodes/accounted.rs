// SPDX-License-Identifier: GPL-3.0-or-later
//! The jobs of an accounting text on a cluster of nodes: what each asked for, where and when it
//! really ran, and what of it is not modelled.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use jiff::tz::TimeZone;

use super::load::{PARTITION, PartitionSpec, Site, Tres, idle, shape_of};
use super::{NodeJob, NodeLoad, Ran};
use crate::job::{Ids, RunsRead, id_of, most_at_once};
use phalanx_core::hostlist;
use phalanx_core::limits::{NODES_MAX, TRACE_JOBS_MAX};
use phalanx_core::shape::{Memory, Sharing};
use phalanx_core::snapshot::Job;
use phalanx_core::snapshot::features::Constraint;
use phalanx_core::trace::sacct::{self, Row};
use phalanx_core::trace::spec::NodeSpec;
use phalanx_core::trace::{LeftOut, TraceError};
use phalanx_methods::learn::program_name;
use phalanx_methods::learn::runtime::{JobClass, NO_LIMIT_S};

/// Reads a whole `sacct --parsable2` text for a site. Jobs that did not end, never ran or fit
/// nowhere are skipped, as are lines that cannot be read.
///
/// # Errors
/// Fails as [`sacct::read`] does; a text without a job that ran, or of several clusters; too many
/// jobs; two nodes of one name.
pub fn read_sacct(
    reader: impl BufRead,
    zone: &TimeZone,
    site: &Site,
) -> Result<NodeLoad, TraceError> {
    let (mut rows, mut skipped, mut too_many) = (Vec::<Row>::new(), 0, false);
    let mut seen = RunsRead::default();
    let left_out = RefCell::new(LeftOut::default());
    let visit = |line, row: Row| {
        too_many |= rows.len() >= TRACE_JOBS_MAX;
        let Some(start_s) = row.start_s.filter(|_| row.is_ended() && row.ran()) else {
            return skipped += 1;
        };
        match Tres::of(&row) {
            Err(what) => left_out.borrow_mut().add(line, what),
            Ok(_) if too_many || !seen.is_first(&row, start_s) => skipped += 1,
            Ok(_) => rows.push(row),
        }
    };
    sacct::read(reader, zone, visit, |line, what| left_out.borrow_mut().add(line, what))?;
    let left_out = left_out.into_inner();
    seen.one_cluster()?;
    if too_many {
        return Err(TraceError::Empty(format!("more than {TRACE_JOBS_MAX} jobs")));
    }
    if rows.is_empty() {
        return Err(left_out.nothing_but("no job in it that ran and ended"));
    }
    let ran_on = names_of(&rows);
    let learned = Site { nodes: learned(&rows, &ran_on), named: true, ..Site::default() };
    let site = if site.nodes.is_empty() { &learned } else { site };
    if site.nodes.is_empty() {
        let what = "no column NodeList from which nodes could be learned: name the nodes";
        return Err(TraceError::Empty(what.to_owned()));
    }
    let mut reader = Reader::new(site, &rows, &ran_on).map_err(TraceError::Empty)?;
    let mut load = std::mem::take(&mut reader.load);
    let jobs = rows.iter().zip(&ran_on).map(|(row, names)| reader.job(&load, row, names));
    load.jobs = jobs.collect();
    load.unmodelled = reader.unmodelled;
    load.skipped = skipped + left_out.lines;
    load.left_out = left_out;
    load.jobs.sort_by_key(|job| job.job.submit_s);
    load.begin_s = load.jobs.first().map_or(0, |job| job.job.submit_s);
    load.drop_impossible();
    Ok(load)
}

/// The nodes that each job ran on; of a text made to be long at most so many that all fit memory.
fn names_of(rows: &[Row]) -> Vec<Vec<String>> {
    let mut room = TRACE_JOBS_MAX;
    let names = |row: &Row| hostlist::expand_within(&row.nodes, &mut room).unwrap_or_default();
    rows.iter().map(names).collect()
}

/// The amounts of CPUs, memory in MiB and GPUs that a job had of each of so many nodes.
fn shares(row: &Row, nodes: usize) -> [u64; 3] {
    let of = Tres::of(row).unwrap_or_default();
    let gpus = of.gres.iter().filter(|(name, _)| **name == "gpu" || name.starts_with("gpu:"));
    let gpus = gpus.map(|(_, count)| *count).max();
    let nodes = nodes.max(1) as u64;
    [of.held, of.memory_mb.unwrap_or(0), gpus.unwrap_or(0)].map(|amount| amount.div_ceil(nodes))
}

/// The nodes that the jobs ran on, each as large as what was in use on it at once.
fn learned(rows: &[Row], ran_on: &[Vec<String>]) -> Vec<NodeSpec> {
    let mut uses: BTreeMap<&str, [Vec<(i64, i64)>; 3]> = BTreeMap::new();
    for (row, names) in rows.iter().zip(ran_on) {
        let Some(start_s) = row.start_s else { continue };
        let end_s = start_s.saturating_add_unsigned(row.elapsed_s.max(1));
        let shares = shares(row, names.len());
        for name in names {
            for (of, share) in uses.entry(name).or_default().iter_mut().zip(shares) {
                let share = i64::try_from(share).unwrap_or(i64::MAX);
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
            gpus: u32::try_from(gpus).unwrap_or(u32::MAX),
            weight: 1,
            ..NodeSpec::default()
        }
    };
    uses.into_iter().take(NODES_MAX).map(spec).collect()
}

/// Site and counts with which jobs are made.
struct Reader<'a> {
    load: NodeLoad,
    partitions: BTreeMap<&'a str, PartitionSpec>,
    /// Whether the text has time limits, or else a job's is its runtime.
    has_limits: bool,
    users: Ids,
    names: Ids,
    unmodelled: BTreeMap<String, u64>,
    named: bool,
}

impl<'a> Reader<'a> {
    fn new(site: &'a Site, rows: &'a [Row], ran_on: &'a [Vec<String>]) -> Result<Self, String> {
        let mut partitions: BTreeMap<&str, PartitionSpec> =
            site.partitions.iter().map(|of| (&*of.name, of.clone())).collect();
        let known: BTreeSet<&str> = site.nodes.iter().map(|node| &*node.name).collect();
        // What no file has is as the jobs show it.
        for (row, names) in rows.iter().zip(ran_on).filter(|_| site.partitions.is_empty()) {
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
            has_limits: rows.iter().any(|row| row.limit_min.is_some()),
            users: Ids::new(),
            names: Ids::new(),
            unmodelled: lacking(site, rows),
            named: site.named,
        })
    }

    fn job(&mut self, load: &NodeLoad, row: &Row, names: &[String]) -> NodeJob {
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
        let start_s = row.start_s.unwrap_or(0);
        let submit_s = row.submit_s.unwrap_or(start_s);
        let eligible_s = row.eligible_s.filter(|at_s| (submit_s..=start_s).contains(at_s));
        let mut shape = shape_of(row, &load.cluster).unwrap_or_default();
        if !load.memory_tracked {
            shape.memory = Memory::Untracked;
        }
        if partition.is_some_and(|of| of.exclusive) || self.is_whole(load, row, &nodes) {
            shape.sharing = Sharing::Whole;
            // They may differ in size: the smallest holds a part as well.
            let own = nodes.iter().filter_map(|at| load.cluster.nodes.get(*at as usize));
            let least = own.map(|node| u32::try_from(node.cpus).unwrap_or(u32::MAX)).min();
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
            user_id: u32::try_from(class.user).unwrap_or(0),
            user: row.user.as_str().into(),
            account: row.account.as_str().into(),
            name: row.name.as_str().into(),
            tres_req: row.tres_req.as_str().into(),
            partitions: partition.map_or(PARTITION, |of| &*of.name).into(),
            constraint: constraint(load, &row.constraints).map(Into::into),
            priority: row.priority.unwrap_or(1).max(1),
            submit_s: eligible_s.unwrap_or(submit_s),
            time_limit_min: limit_min,
            shape,
            ..Job::default()
        };
        self.note(load, row, nodes.len());
        let nodes = if nodes.len() == names.len() { nodes } else { Vec::new() };
        let ran = Some(Ran { start_s, nodes });
        NodeJob { job, run_s: run_s.min(limit_s), limit_s, class, ran, ..NodeJob::default() }
    }

    /// Whether a job had all CPUs of its nodes without having asked for them.
    fn is_whole(&self, load: &NodeLoad, row: &Row, nodes: &[u32]) -> bool {
        let of = Tres::of(row).unwrap_or_default();
        let cpus = |node: &u32| load.cluster.nodes.get(*node as usize).map_or(0, |of| of.cpus);
        let largest = || load.cluster.nodes.iter().map(|node| node.cpus).max().unwrap_or(0);
        let whole = match nodes.iter().map(cpus).sum() {
            0 => largest().saturating_mul(u64::from(row.node_count.max(1))),
            sum => sum,
        };
        of.cpus.is_some_and(|asked| of.held > asked) && of.held >= whole
    }

    /// Counts what of a job is not modelled.
    fn note(&mut self, load: &NodeLoad, row: &Row, known_nodes: usize) {
        let partition = self.partitions.get(&*row.partition);
        let unknown = |name: &str| load.cluster.gres_kind(name.split(':').next().unwrap_or(name));
        let of = Tres::of(row).unwrap_or_default();
        let qos = !matches!(&*row.qos, "" | "normal");
        let partitioned = partition.is_none() && !row.partition.is_empty();
        let elsewhere = !row.nodes.is_empty() && known_nodes < row.node_count as usize;
        let moved = self.named && elsewhere;
        let found: [(bool, &str); 10] = [
            (partitioned, "in a partition of unknown nodes: they run on any"),
            (moved, "that ran on nodes that are not given"),
            (
                !row.constraints.is_empty() && constraint(load, &row.constraints).is_none(),
                "with features that the nodes given do not name: any node will do",
            ),
            (!row.reservation.is_empty(), "in a reservation: its nodes are free to all"),
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

/// The constraint of a job, where a node has the features that it names.
fn constraint<'t>(load: &NodeLoad, text: &'t str) -> Option<&'t str> {
    let known = Constraint::parse(text).ok()?;
    load.cluster.nodes.iter().any(|node| known.matches(&node.features)).then_some(text)
}

/// Whether a job has what a column says.
type Has = fn(&Row) -> bool;

/// Columns that matter and that no job has.
fn lacking(site: &Site, rows: &[Row]) -> BTreeMap<String, u64> {
    let columns: [(&str, Has); 5] = [
        ("Partition: all nodes are of one", |row| !row.partition.is_empty()),
        ("Eligible: dependencies and begin times count as waits", |row| row.eligible_s.is_some()),
        ("Priority: age decides", |row| row.priority.is_some()),
        ("Timelimit: it is the runtime", |row| row.limit_min.is_some()),
        ("NodeList: what ran where is not known", |row| !row.nodes.is_empty()),
    ];
    let columns = columns.iter().skip(usize::from(site.partitions.len() < 2));
    let none = columns.filter(|(_, has)| !rows.iter().any(has));
    none.map(|(what, _)| (format!("without {what}"), rows.len() as u64)).collect()
}
