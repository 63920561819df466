// SPDX-License-Identifier: GPL-3.0-or-later
//! Inputs of data-parallel jobs: where they lie, and which task reads which block.
//!
//! The plan thread looks for jobs that declare an input and asks for it; the thread `hdfs` looks
//! it up, whatever time that takes; the next plan has a preference for the job. A job that waits
//! for this is held back by the link, within `data_jobs.wait_ms`. The thread `comments` then writes
//! into the job's comment what is wrong, if so; the update also makes slurmctld look at the job
//! again.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::kept_maps::KeptMaps;
use super::lookup_queue::LookupQueue;
use crate::locks::lock;
use phalanx_core::blocks::Located;
use phalanx_core::limits::{DATA_INPUTS_MAX, DATA_MAPS_MAX, SPLITS_MAX};
use phalanx_core::number::as_f64;
use phalanx_core::run::Run;
use phalanx_core::shape::Shape;
use phalanx_core::snapshot::{Job, Snapshot};
use phalanx_methods::data_jobs::blockmap::{self, BlockMap, Declaration, Elements, Split};
use phalanx_methods::learn::teaches;
use phalanx_planner::data_jobs::MB;
use phalanx_planner::preference::DataNote;

/// Begin of our text in a comment.
const MARK: &str = ";phalanx: ";
/// An input that was not found in time is kept so many times as long as others.
const SLOW_FACTOR: u32 = 10;
/// Interval at which files of maps are removed.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// Bytes of our text in a comment.
const WORDS_MAX: usize = 400;

/// Whose input: one user must not see what another may read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InputKey {
    pub user: String,
    pub declaration: Declaration,
}

/// One input as it was found.
#[derive(Debug, Default)]
pub struct Input {
    pub located: Located,
    pub splits: Vec<Split>,
    /// Node of each DataNode.
    pub nodes: Vec<Option<Arc<str>>>,
    pub note: DataNote,
    /// It was not found within its time: not asked again soon.
    pub slow: bool,
}

/// The tasks of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub min: u64,
    pub max: u64,
    pub count: u64,
}

/// One job with a declaration.
#[derive(Debug, Clone)]
pub struct JobData {
    /// Absent when the declaration is wrong; then `error` says why.
    pub key: Option<InputKey>,
    pub error: Option<String>,
    pub user_id: u32,
    pub shape: Shape,
    pub start_s: i64,
    /// Of an array: all its tasks, as far as they were seen.
    pub elements: Option<Span>,
    /// Of one task of an array: the array and the task.
    pub element: Option<(u32, u32)>,
    /// Its comment was handed to the comment writer.
    pub commented: bool,
}

#[derive(Debug, Default)]
struct State {
    inputs: HashMap<InputKey, (Instant, Arc<Input>)>,
    lookups: LookupQueue,
    jobs: HashMap<u32, JobData>,
    maps: HashMap<u32, (i64, Arc<BlockMap>)>,
    /// When files of maps were removed last.
    tidied: Option<Instant>,
    /// Notes of the last plan, by job.
    plans: HashMap<u32, DataNote>,
    /// Jobs that wait for the nodes of their input: since when, and their comments.
    waiting: HashMap<u32, (Instant, String)>,
}

/// A job's comment to be written; the same text only makes slurmctld look again.
#[derive(Debug, Clone)]
pub struct CommentUpdate {
    pub job_id: u32,
    pub comment: String,
    /// The job waits for the nodes of its input, within `data.require_wait_s`.
    pub requires_nodes: bool,
}

/// Declarations of jobs, their inputs, and block maps that were handed out.
#[derive(Debug)]
pub struct DataInputs {
    state: Mutex<State>,
    kept: KeptMaps,
    comments: (Sender<CommentUpdate>, Receiver<CommentUpdate>),
}

impl Default for DataInputs {
    fn default() -> Self {
        Self { state: Mutex::default(), kept: KeptMaps::default(), comments: bounded(1024) }
    }
}

impl DataInputs {
    /// Block maps are kept in this directory, too.
    pub fn with_maps(dir: PathBuf) -> Self {
        Self { kept: KeptMaps::new(dir), ..Self::default() }
    }

    /// Takes in which jobs declare what; asks for inputs that are not known or too old.
    pub fn observe(&self, snapshot: &Snapshot, keep: Duration) {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let declares = |job: &&Job| {
            job.comment.contains("hdfs-input=") || job.admin_comment.contains("hdfs-input=")
        };
        let mut seen = HashSet::new();
        for job in snapshot.jobs.iter().filter(declares) {
            seen.insert(job.id);
            let known = state.jobs.get(&job.id);
            let same = |data: &&JobData| data.start_s == job.start_s || job.start_s == 0;
            if known.is_none_or(|data| !same(&data)) || job_changed(known, job) {
                let commented = known.is_some_and(|data| data.commented);
                let new = read(job);
                // Tasks that started have left the array's record.
                let elements = known.and_then(|data| data.elements).or(new.elements);
                state.jobs.insert(job.id, JobData { commented, elements, ..new });
            }
        }
        state.jobs.retain(|id, _| seen.contains(id));
        state.maps.retain(|id, _| seen.contains(id));
        if state.tidied.is_none_or(|tidied| tidied.elapsed() > TIDY_EVERY) {
            state.tidied = Some(Instant::now());
            self.kept.retain(|id| seen.contains(&id));
        }
        state.plans.retain(|id, _| seen.contains(id));
        state.waiting.retain(|id, _| seen.contains(id));
        let waits =
            |job: &&Job| seen.contains(&job.id) && phalanx_planner::data_jobs::may_start(job);
        for job in snapshot.jobs.iter().filter(waits) {
            let Some(key) = state.jobs.get(&job.id).and_then(|data| data.key.clone()) else {
                continue;
            };
            let keep_of = |input: &Input| if input.slow { SLOW_FACTOR * keep } else { keep };
            if state.inputs.get(&key).is_none_or(|(at, input)| at.elapsed() >= keep_of(input)) {
                state.lookups.want(key, job.id);
            }
        }
        let used: HashSet<&InputKey> = state.jobs.values().filter_map(|d| d.key.as_ref()).collect();
        state.inputs.retain(|key, _| used.contains(key));
    }

    /// The next input to look up, and a job that has it. Users take turns by the time that their
    /// inputs took.
    pub fn next(&self) -> Option<(InputKey, u32)> {
        lock(&self.state).lookups.next()
    }

    /// Keeps an input that [`DataInputs::next`] named, which took this time.
    pub fn put(&self, key: InputKey, input: Input, took: Duration) {
        let mut state = lock(&self.state);
        state.lookups.done(&key, took);
        if state.inputs.len() < DATA_INPUTS_MAX {
            state.inputs.insert(key, (Instant::now(), Arc::new(input)));
        }
    }

    /// The job's declaration, if it has one.
    pub fn job(&self, job_id: u32) -> Option<JobData> {
        lock(&self.state).jobs.get(&job_id).cloned()
    }

    /// The job's input, once it was looked up.
    pub fn input(&self, key: &InputKey) -> Option<Arc<Input>> {
        lock(&self.state).inputs.get(key).map(|(_, input)| Arc::clone(input))
    }

    /// The same for a job to be planned: what is older than `keep` does not count for one that was
    /// not planned yet.
    pub fn input_to_plan(
        &self,
        key: &InputKey,
        keep: Duration,
        planned: bool,
    ) -> Option<Arc<Input>> {
        let state = lock(&self.state);
        let found = state.inputs.get(key).filter(|(at, _)| planned || at.elapsed() < keep);
        found.map(|(_, input)| Arc::clone(input))
    }

    /// The same; when it is not there, it will be looked up.
    pub fn input_or_ask(&self, key: &InputKey, job_id: u32) -> Option<Arc<Input>> {
        let mut state = lock(&self.state);
        let found = state.inputs.get(key).map(|(_, input)| Arc::clone(input));
        if found.is_none() {
            state.lookups.want(key.clone(), job_id);
        }
        found
    }

    /// The map that was handed out for this start of a job.
    pub fn map(&self, job_id: u32, start_s: i64) -> Option<Arc<BlockMap>> {
        let known = lock(&self.state).maps.get(&job_id).filter(|(at, _)| *at == start_s).cloned();
        match known {
            Some((_, map)) => Some(map),
            // A daemon before this one has handed it out.
            None => self.put_map(job_id, start_s, self.kept.read(job_id, start_s)?),
        }
    }

    /// The last map that was handed out for a job.
    pub fn last_map(&self, job_id: u32) -> Option<Arc<BlockMap>> {
        lock(&self.state).maps.get(&job_id).map(|(_, map)| Arc::clone(map))
    }

    /// Keeps a new map and gives the one to hand out: of two made at once, the first.
    /// `None` where there is no room: one that is not kept could be another for the next node.
    pub fn keep_map(&self, job_id: u32, start_s: i64, map: BlockMap) -> Option<Arc<BlockMap>> {
        let map = self.put_map(job_id, start_s, map)?;
        if let Err(error) = self.kept.write(job_id, start_s, &map) {
            log::warn!("job {job_id}: its block map is lost with a restart: {error}");
        }
        Some(map)
    }

    fn put_map(&self, job_id: u32, start_s: i64, map: BlockMap) -> Option<Arc<BlockMap>> {
        let mut state = lock(&self.state);
        if let Some((_, kept)) = state.maps.get(&job_id).filter(|(at, _)| *at == start_s) {
            return Some(Arc::clone(kept));
        }
        if state.maps.len() >= DATA_MAPS_MAX && !state.maps.contains_key(&job_id) {
            return None;
        }
        let map = Arc::new(map);
        state.maps.insert(job_id, (start_s, Arc::clone(&map)));
        Some(map)
    }

    /// The range of `total` splits that the job reads; of a task of an array its part.
    pub fn part(&self, data: &JobData, total: usize) -> Range<usize> {
        let element = data.element.and_then(|(array, task)| {
            let span = self.job(array)?.elements?;
            Elements::of(task.into(), span.min, span.max, span.count)
        });
        element.map_or(0..total, |element| element.range(total))
    }

    /// Keeps the note of a plan on a job, or on the array.
    pub fn planned(&self, job_id: u32, note: &DataNote) {
        let mut state = lock(&self.state);
        if state.jobs.contains_key(&job_id) {
            state.plans.insert(job_id, note.clone());
        }
    }

    /// The note of the last plan on a job.
    pub fn plan_of(&self, job_id: u32) -> Option<DataNote> {
        lock(&self.state).plans.get(&job_id).cloned()
    }

    /// Has a job's comment written once.
    pub fn comment(&self, update: CommentUpdate) {
        let mut state = lock(&self.state);
        let Some(data) = state.jobs.get_mut(&update.job_id).filter(|data| !data.commented) else {
            return;
        };
        data.commented = self.comments.0.try_send(update.clone()).is_ok();
        if data.commented && update.requires_nodes {
            state.waiting.insert(update.job_id, (Instant::now(), update.comment));
        }
    }

    /// Comments to be written.
    pub fn comments(&self) -> &Receiver<CommentUpdate> {
        &self.comments.1
    }

    /// Jobs whose longest wait for their nodes has ended, each once. While nothing else changes,
    /// slurmctld does not look at them again by itself.
    pub fn overdue(&self, wait: Duration) -> Vec<CommentUpdate> {
        let mut state = lock(&self.state);
        let over = |(since, _): &(Instant, String)| since.elapsed() > wait;
        let ids: Vec<u32> =
            state.waiting.iter().filter(|(_, one)| over(one)).map(|(id, _)| *id).collect();
        let take = |job_id| {
            let (_, comment) = state.waiting.remove(&job_id)?;
            Some(CommentUpdate { job_id, comment, requires_nodes: false })
        };
        ids.into_iter().filter_map(take).collect()
    }

    /// Megabytes that a job that ended has read, for its speed.
    pub fn megabytes(&self, run: &Run) -> Option<f64> {
        // How much a stopped one has read is not known.
        if run.array_job_id.is_some() || !teaches(&run.state, false) {
            return None;
        }
        let state = lock(&self.state);
        let key = state.jobs.get(&run.job_id)?.key.as_ref()?;
        let (_, input) = state.inputs.get(key)?;
        (input.note.error.is_none() && input.note.bytes > 0).then(|| as_f64(input.note.bytes) / MB)
    }
}

/// A changed declaration counts; our own text does not change it.
fn job_changed(known: Option<&JobData>, job: &Job) -> bool {
    let fresh = read(job);
    known.is_none_or(|data| {
        data.key != fresh.key || data.error != fresh.error || data.shape != fresh.shape
    })
}

fn read(job: &Job) -> JobData {
    let comment = without_words(&job.comment);
    let user = if job.user.is_empty() { user_name(job.user_id) } else { job.user.to_string() };
    let (key, error) = match blockmap::of_job(comment, &job.admin_comment) {
        Ok(Some(declaration)) => (Some(InputKey { user, declaration }), None),
        Ok(None) => (None, None),
        Err(error) => (None, Some(error.to_string())),
    };
    JobData {
        key,
        error,
        user_id: job.user_id,
        shape: job.shape.clone(),
        start_s: job.start_s,
        elements: span(job),
        element: job.array_job_id.zip(job.array_task_id),
        commented: false,
    }
}

/// Waiting tasks of an array's record.
pub fn tasks_of(job: &Job) -> Option<Vec<u32>> {
    let (_, list) = job.label.split_once("_[")?;
    blockmap::array_tasks(list.strip_suffix(']')?, SPLITS_MAX)
}

fn span(job: &Job) -> Option<Span> {
    let tasks = tasks_of(job)?;
    let (min, max) = (u64::from(*tasks.iter().min()?), u64::from(*tasks.iter().max()?));
    Some(Span { min, max, count: tasks.len() as u64 })
}

fn user_name(uid: u32) -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid));
    user.ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

/// A comment without what we added.
fn without_words(comment: &str) -> &str {
    comment.split(MARK).next().unwrap_or(comment)
}

/// A comment with our text replaced by `words`, or without it.
pub fn with_words(comment: &str, words: Option<&str>) -> String {
    let own = without_words(comment);
    let Some(words) = words else { return own.to_owned() };
    let mut words: String =
        words.chars().map(|c| if c == ';' || c.is_control() { ',' } else { c }).collect();
    while words.len() > WORDS_MAX {
        words.pop();
    }
    format!("{own}{MARK}{words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every node of a job reads the same map, also where there are many such jobs.
    #[test]
    fn a_map_that_cannot_be_kept_is_not_handed_out() {
        let inputs = DataInputs::default();
        for job in 0..u32::try_from(DATA_MAPS_MAX).unwrap() {
            assert!(inputs.keep_map(job, 7, BlockMap::default()).is_some());
        }
        assert!(inputs.keep_map(u32::MAX, 7, BlockMap::default()).is_none());
        assert!(inputs.keep_map(0, 7, BlockMap::default()).is_some(), "the one that is kept");
        assert!(inputs.keep_map(0, 8, BlockMap::default()).is_some(), "it began again");
    }
}
