// SPDX-License-Identifier: GPL-3.0-or-later
//! From events and polls to runs: one record for each run of a job that ended.
//!
//! The plugin's events say at once when a job began, on which nodes, and when it ended; polls of
//! slurmctld say which job it was and how it ended. A run whose end came by event waits for the
//! next poll; one that ended unseen (the daemon was down, there is no plugin) is taken from the
//! poll alone. Nothing here does I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::idle_times::{Idle, IdleTimes};
use crate::history::node_classes;
use phalanx_core::limits::RUNS_WAITING_MAX;
use phalanx_core::number::{as_u32, nearest_u64};
use phalanx_core::run::Run;
use phalanx_core::snapshot::{Job, JobState, Snapshot};
use phalanx_core::{comment, hostlist};
use phalanx_methods::learn::{ClassKey, JobTraits, NodeKey, class_of, node_class_of};

/// Longest wait of an ended run for a poll that shows how it ended.
const WAIT_MS: u64 = 10_000;
/// Longest time by which the event of an end may come after the poll that shows the end.
const EVENT_WAIT_MS: u64 = 3_000;
/// Largest difference of times by events and by Slurm; with a larger one Slurm's, in seconds,
/// count.
const CLOCKS_DIFFER_MS: u64 = 2_500;

/// An event of the link in the life of a job.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// The job holds these nodes, since now or since some time.
    Holds {
        job_id: u32,
        /// Start of the job, unix seconds.
        start_s: i64,
        nodes: Vec<Arc<str>>,
        /// Method that chose the job's nodes; `stock` where Slurm chose, empty where unknown.
        placed_by: String,
        /// Arrival of the event, unix milliseconds.
        at_ms: u64,
        /// Whether the job began at the time of the event.
        fresh: bool,
    },
    /// The job gave its nodes back.
    Ended {
        job_id: u32,
        /// State of the job as Slurm writes it.
        state: String,
        /// End of the job, unix seconds.
        end_s: i64,
        /// Arrival of the event, unix milliseconds.
        at_ms: u64,
    },
}

#[derive(Debug, Clone, Default)]
struct Live {
    start_s: i64,
    nodes: Vec<Arc<str>>,
    placed_by: String,
    /// Arrival of the begin's event; `None` if there was none, or the job was suspended since.
    began_ms: Option<u64>,
    /// Time of a poll that showed the end without an event.
    over_ms: Option<u64>,
    /// Idle time of the slot before the job.
    idle: Option<Idle>,
}

#[derive(Debug, Clone)]
struct Ended {
    live: Live,
    state: String,
    end_s: i64,
    at_ms: u64,
}

/// The keys by which jobs and nodes are put into classes.
#[derive(Debug, Clone, Copy)]
pub struct Naming<'a> {
    pub class_by: &'a [ClassKey],
    pub node_class_by: &'a [NodeKey],
}

/// Jobs that run or ended, until the records of their runs are complete.
#[derive(Debug, Default)]
pub struct Runs {
    live: BTreeMap<u32, Live>,
    ended: Vec<(u32, Ended)>,
    /// Starts of recorded jobs that Slurm still knows.
    done: BTreeMap<u32, i64>,
    /// Runs that a former daemon recorded, until the first poll.
    known: BTreeSet<(String, i64)>,
    last: Option<Arc<Snapshot>>,
    /// Times for which slots stand idle between two jobs.
    pub idle_times: IdleTimes,
}

impl Runs {
    /// Takes the runs that are recorded already: job as users write it, and start.
    pub fn knows(&mut self, known: BTreeSet<(String, i64)>) {
        if self.last.is_none() {
            self.known = known;
        }
    }

    pub fn take(&mut self, event: RunEvent) {
        match event {
            RunEvent::Holds { job_id, start_s, nodes, placed_by, at_ms, fresh } => {
                let live = self.live.entry(job_id).or_default();
                if live.start_s != start_s || fresh {
                    *live = Live { start_s, placed_by, ..Live::default() };
                    live.began_ms = fresh.then_some(at_ms);
                } else {
                    // Resized, suspended or resumed: the clock of events no longer fits.
                    live.began_ms = None;
                }
                live.nodes = nodes;
                if let (true, [node]) = (fresh, &live.nodes[..]) {
                    live.idle = self.idle_times.started(node, at_ms);
                }
            }
            RunEvent::Ended { job_id, state, end_s, at_ms } => {
                let Some(live) = self.live.remove(&job_id) else { return };
                if let [node] = &live.nodes[..] {
                    self.idle_times.ended(node, at_ms);
                }
                self.ended.push((job_id, Ended { live, state, end_s, at_ms }));
                if self.ended.len() > RUNS_WAITING_MAX {
                    self.ended.remove(0);
                }
            }
        }
    }

    /// Returns the runs that a poll completes. `now_ms` is the time at which the poll was taken.
    pub fn poll(&mut self, snapshot: &Arc<Snapshot>, now_ms: u64, naming: Naming<'_>) -> Vec<Run> {
        let mut runs = Vec::new();
        let waiting = std::mem::take(&mut self.ended);
        for (job_id, ended) in waiting {
            match self.complete(snapshot, job_id, &ended, now_ms, naming) {
                Some(run) => {
                    self.done.insert(job_id, ended.live.start_s);
                    if let Some(idle) = ended.live.idle {
                        self.idle_times.seen(idle, run.submit_s);
                    }
                    runs.push(run);
                }
                None => self.ended.push((job_id, ended)),
            }
        }
        let waiting: BTreeSet<(u32, i64)> =
            self.ended.iter().map(|(id, ended)| (*id, ended.live.start_s)).collect();
        let over = |job: &&Job| is_over(job) && !waiting.contains(&(job.id, job.start_s));
        for job in snapshot.all_jobs().filter(over) {
            runs.extend(self.over(snapshot, job, now_ms, naming));
        }
        self.done.retain(|job_id, _| snapshot.job(*job_id).is_some());
        self.live.retain(|job_id, live| {
            // An event may be newer than the poll; a job that is gone for long has ended unheard.
            let gone = snapshot.job(*job_id).is_none();
            !gone || is_within(*live.over_ms.get_or_insert(now_ms), now_ms, WAIT_MS)
        });
        self.known.clear();
        self.last = Some(Arc::clone(snapshot));
        runs
    }

    /// Returns a run whose end came by event, once a poll shows how it ended, or shows it no more.
    fn complete(
        &self,
        snapshot: &Snapshot,
        job_id: u32,
        ended: &Ended,
        now_ms: u64,
        naming: Naming<'_>,
    ) -> Option<Run> {
        let start_s = ended.live.start_s;
        let same = |job: &&Job| job.start_s == start_s;
        let row = snapshot.job(job_id);
        let late = !is_within(ended.at_ms, now_ms, WAIT_MS);
        let over = row.filter(same).filter(|job| is_over(job));
        if over.is_none() && row.filter(same).is_some() && !late {
            return None;
        }
        // A poll from before the end may show a short job while it waited.
        if over.is_none() && snapshot.time_ms <= ended.at_ms && !late {
            return None;
        }
        // A requeued job keeps its name and owner; so does what the last poll showed of it.
        let last = self.last.as_ref().and_then(|last| last.job(job_id));
        let job = over.or(last.filter(same)).or(row).or(last);
        let mut run = match job {
            Some(job) => of_job(job, naming),
            None => Run { job: job_id.to_string(), job_id, ..Run::default() },
        };
        if over.is_none() {
            run.state.clone_from(&ended.state);
            run.end_s = ended.end_s;
            (run.exit_code, run.exit_signal) = (0, 0);
        }
        run.start_s = start_s;
        run.placed_by.clone_from(&ended.live.placed_by);
        let suspended_s = over.map_or(0, |job| job.suspended_s);
        run.elapsed_ms = seconds_ms(run.end_s - start_s - suspended_s);
        if let Some(began_ms) = ended.live.began_ms.filter(|_| suspended_s == 0) {
            let by_events = ended.at_ms.saturating_sub(began_ms);
            if by_events.abs_diff(run.elapsed_ms) <= CLOCKS_DIFFER_MS {
                run.elapsed_ms = by_events;
            }
        }
        set_nodes(&mut run, &ended.live.nodes, snapshot, naming);
        Some(run)
    }

    /// Returns the run of a job that a poll shows as ended, unless the event of the end may still
    /// come.
    fn over(
        &mut self,
        snapshot: &Snapshot,
        job: &Job,
        now_ms: u64,
        naming: Naming<'_>,
    ) -> Option<Run> {
        if self.done.get(&job.id) == Some(&job.start_s) {
            return None;
        }
        if let Some(live) = self.live.get_mut(&job.id).filter(|l| l.start_s == job.start_s) {
            let since = *live.over_ms.get_or_insert(now_ms);
            if is_within(since, now_ms, EVENT_WAIT_MS) {
                return None;
            }
        }
        let live = self.live.remove(&job.id).unwrap_or_default();
        self.done.insert(job.id, job.start_s);
        if self.known.contains(&(job.label.to_string(), job.start_s)) {
            return None;
        }
        let mut run = of_job(job, naming);
        run.start_s = job.start_s;
        run.placed_by = live.placed_by;
        run.elapsed_ms = seconds_ms(job.end_s - job.start_s - job.suspended_s);
        let names = hostlist::nodes(&job.nodes);
        let nodes: Vec<Arc<str>> = names.iter().map(|name| Arc::from(name.as_str())).collect();
        set_nodes(&mut run, &nodes, snapshot, naming);
        Some(run)
    }
}

/// Whether at most `longest_ms` has passed; false by a clock that was set back behind `since_ms`.
fn is_within(since_ms: u64, now_ms: u64, most_ms: u64) -> bool {
    now_ms.checked_sub(since_ms).is_some_and(|passed_ms| passed_ms <= most_ms)
}

fn seconds_ms(seconds: i64) -> u64 {
    nearest_u64(seconds).saturating_mul(1000)
}

/// Whether a job ran and ended, even if its epilog still runs.
fn is_over(job: &Job) -> bool {
    let words = ["PENDING", "RUNNING", "SUSPENDED", "REQUEUE", "RESIZING", "CONFIGURING"];
    let going = words.iter().any(|word| job.state_text.contains(word));
    // Cancelled before it began: it has no nodes, and Slurm sets its start to its end.
    let ran = job.start_s > 0 && !job.nodes.is_empty();
    (job.state == JobState::Ended || !going) && ran && job.end_s >= job.start_s
}

/// Returns the run of a job's record, without times, nodes and the method that placed it.
fn of_job(job: &Job, naming: Naming<'_>) -> Run {
    let text = |t: &Arc<str>| t.to_string();
    let traits = JobTraits::of(job);
    Run {
        job: text(&job.label),
        job_id: job.id,
        array_job_id: job.array_job_id,
        array_task_id: job.array_task_id,
        het_job_id: job.het_job_id,
        user: text(&job.user),
        account: text(&job.account),
        name: text(&job.name),
        declared: traits.declared.map(str::to_owned),
        class: class_of(&traits, naming.class_by),
        partition: text(&job.partitions),
        qos: text(&job.qos),
        submit_s: job.submit_s,
        eligible_s: job.eligible_s,
        end_s: job.end_s,
        limit_min: job.time_limit_min,
        state: job.state_text.split('+').next().unwrap_or_default().to_owned(),
        exit_code: job.exit.0,
        exit_signal: job.exit.1,
        cpus: tres_count(&job.tres_alloc, "cpu"),
        tres_req: text(&job.tres_req),
        tres_alloc: text(&job.tres_alloc),
        work: comment::work_units(&job.admin_comment).or_else(|| comment::work_units(&job.comment)),
        source: "live".to_owned(),
        ..Run::default()
    }
}

fn tres_count(tres: &str, name: &str) -> u64 {
    let value = tres.split(',').filter_map(|t| t.split_once('=')).find(|(n, _)| *n == name);
    value.and_then(|(_, count)| count.parse().ok()).unwrap_or(0)
}

fn set_nodes(run: &mut Run, nodes: &[Arc<str>], snapshot: &Snapshot, naming: Naming<'_>) {
    let class = |name: &str| {
        let node = snapshot.node(name).and_then(|index| snapshot.nodes.get(index.at()));
        node.map_or(String::new(), |node| node_class_of(node, naming.node_class_by))
    };
    let pairs: Vec<(String, String)> =
        nodes.iter().map(|name| (name.to_string(), class(name))).collect();
    run.nodes = hostlist::compress(nodes);
    run.node_count = as_u32(nodes.len());
    run.node_class = node_classes(&pairs);
}

#[cfg(test)]
#[path = "runs_tests.rs"]
mod tests;
