// SPDX-License-Identifier: GPL-3.0-or-later
//! Inputs of data-parallel jobs: where they lie, and which task reads which block.
//!
//! The plan thread looks for jobs that declare an input and asks for it; the thread `lookups` finds
//! it, whatever time that takes; the next plan has a preference for the job. A job that waits
//! for this is held back by the link, within `data_jobs.wait_ms`. The thread `comments` then writes
//! into the job's comment what is wrong, if so; the update also makes slurmctld look at the job
//! again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::kept_maps::KeptMaps;
use super::lookup_marks::LookupMarks;
pub use super::lookup_queue::InputKey;
use super::lookup_queue::LookupQueue;
use crate::locations::{Dataset, Datasets, Gate};
use phalanx_core::blocks::Located;
use phalanx_core::hostlist;
use phalanx_core::limits::{DATA_INPUTS_BYTES_MAX, DATA_INPUTS_MAX, DATA_MAPS_MAX, SPLITS_MAX};
use phalanx_core::number::as_f64;
use phalanx_core::run::Run;
use phalanx_core::shape::Shape;
use phalanx_core::snapshot::{Job, JobState, Snapshot};
use phalanx_ffi::locks::{lock, read as read_lock, write};
use phalanx_messages::rest::DatasetsStatus;
use phalanx_methods::data_jobs::blockmap::{self, BlockMap, Elements, Split};
use phalanx_methods::learn::teaches;
use phalanx_planner::data_jobs::MB;
use phalanx_planner::preference::DataNote;

/// Beginning of Phalanx's text in a comment.
const MARK: &str = ";phalanx: ";
/// Factor by which an input that was not found in time is kept longer than others.
const SLOW_FACTOR: u32 = 10;
/// Interval at which files of maps are removed.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// Most bytes of Phalanx's text in a comment.
const WORDS_MAX: usize = 400;
/// Least bytes that an input counts as, so that the bound of all bytes also bounds the number of
/// inputs.
const INPUT_BYTES_MIN: usize = DATA_INPUTS_BYTES_MAX / DATA_INPUTS_MAX;

/// The result of an input's look-up.
#[derive(Debug, Default)]
pub struct Input {
    pub located: Arc<Located>,
    pub splits: Vec<Split>,
    /// Node of each DataNode.
    pub nodes: Vec<Option<Arc<str>>>,
    pub note: DataNote,
    /// Whether the input was not found within its time, so that it is not asked for again soon.
    pub slow: bool,
    /// Datasets that the declaration names, as they were known when the input was looked up.
    pub known: Vec<Dataset>,
    /// Estimated bytes that the input takes; known once it is kept.
    pub bytes: usize,
}

impl Input {
    /// Makes an input that is not looked up or not kept, with the reason; it is not asked for again
    /// soon.
    fn left_out(key: &InputKey, known: Vec<Dataset>, why: &str) -> Self {
        let (input, error) = (key.declaration.names(), Some(why.to_owned()));
        let note = DataNote { input, error, ..DataNote::default() };
        Self { note, slow: true, known, bytes: INPUT_BYTES_MIN, ..Self::default() }
    }

    /// Whether what is known of the input's datasets is still the same.
    fn is_current(&self, key: &InputKey, now: &Datasets) -> bool {
        let names = key.declaration.datasets.iter();
        names.zip(&self.known).all(|(name, known)| now.is_current(name, known))
    }
}

/// Jobs that began, and whether their nodes held the datasets that they name.
#[derive(Debug, Clone, Copy, Default)]
struct DatasetStarts {
    /// Jobs of which each node held some of the data.
    hits: u64,
    /// Jobs of which some node held none of the data.
    misses: u64,
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
    /// Input of the job; absent when the declaration is wrong, for the reason in `error`.
    pub key: Option<InputKey>,
    pub error: Option<String>,
    pub user_id: u32,
    pub shape: Shape,
    pub start_s: i64,
    /// All tasks of the array that were seen so far, if the job is an array.
    pub elements: Option<Span>,
    /// Ids of array and task, if the job is one task of an array.
    pub element: Option<(u32, u32)>,
    /// Whether the job's comment was handed to the comment writer.
    pub commented: bool,
    /// Once the job began, its nodes that held none of its datasets.
    pub missed: Option<Vec<Arc<str>>>,
}

#[derive(Debug, Default)]
struct State {
    inputs: HashMap<InputKey, (Instant, Arc<Input>)>,
    lookups: LookupQueue,
    jobs: HashMap<u32, JobData>,
    maps: HashMap<u32, (i64, Arc<BlockMap>)>,
    /// Time at which files of maps were removed last.
    tidied: Option<Instant>,
    plans: HashMap<u32, DataNote>,
    /// Jobs that wait for the nodes of their input: since when, and their comments.
    waiting: HashMap<u32, (Instant, String)>,
    /// Counts of starts since the daemon started.
    starts: DatasetStarts,
}

/// A job's comment to be written; the same text only makes slurmctld look again.
#[derive(Debug, Clone)]
pub struct CommentUpdate {
    pub job_id: u32,
    pub comment: String,
    /// Whether the job waits for the nodes of its input, within its longest wait.
    pub requires_nodes: bool,
}

/// Declarations of jobs, their inputs, and block maps that were handed out.
#[derive(Debug)]
pub struct DataInputs {
    state: Mutex<State>,
    kept: KeptMaps,
    marks: LookupMarks,
    comments: (Sender<CommentUpdate>, Receiver<CommentUpdate>),
    pub gate: Gate,
    /// Datasets and their counts; the lock is taken before the state's, never within it.
    datasets: RwLock<(Arc<Datasets>, DatasetsStatus)>,
}

impl Default for DataInputs {
    fn default() -> Self {
        let unknown = Datasets { unconfigured: true, unread: true, ..Datasets::default() };
        Self {
            state: Mutex::default(),
            kept: KeptMaps::default(),
            marks: LookupMarks::default(),
            comments: bounded(1024),
            gate: Gate::default(),
            datasets: RwLock::new((Arc::new(unknown), DatasetsStatus::default())),
        }
    }
}

impl DataInputs {
    /// Makes inputs whose block maps and marks of look-ups are kept in a directory.
    pub fn with_maps(dir: PathBuf) -> Self {
        let marks = LookupMarks::new(dir.join("lookups"));
        Self { kept: KeptMaps::new(dir), marks, ..Self::default() }
    }

    pub fn datasets(&self) -> Arc<Datasets> {
        Arc::clone(&read_lock(&self.datasets).0)
    }

    /// Puts the known datasets in force; returns whether any job names one.
    pub fn set_datasets(&self, datasets: Datasets, counts: DatasetsStatus) -> bool {
        *write(&self.datasets) = (Arc::new(datasets), counts);
        let names = |data: &JobData| {
            data.key.as_ref().is_some_and(|key| !key.declaration.datasets.is_empty())
        };
        lock(&self.state).jobs.values().any(names)
    }

    /// Counts of datasets, and of the jobs that named them.
    pub fn dataset_counts(&self) -> DatasetsStatus {
        let (datasets, counts) = read_lock(&self.datasets).clone();
        let DatasetStarts { hits, misses } = lock(&self.state).starts;
        DatasetsStatus { enabled: !datasets.unconfigured, hits, misses, ..counts }
    }

    /// Records that a job began on these nodes. One that was not read from Slurm yet, such as a
    /// task that has just left its array, is judged by the next poll.
    pub fn began(&self, job_id: u32, nodes: &[Arc<str>]) {
        lock(&self.state).judge_start(job_id, nodes);
    }

    /// Takes in which jobs declare what; asks for inputs that are not known or too old.
    pub fn observe(&self, snapshot: &Snapshot, keep: Duration) {
        let datasets = self.datasets();
        let mut state = lock(&self.state);
        let state = &mut *state;
        let names =
            |comment: &str| ["hdfs-input=", "data-input="].iter().any(|key| comment.contains(key));
        let declares = |job: &&Job| names(&job.comment) || names(&job.admin_comment);
        let mut seen = HashSet::new();
        for job in snapshot.all_jobs().filter(declares) {
            seen.insert(job.id);
            let known = state.jobs.get(&job.id);
            let same = |data: &&JobData| data.start_s == job.start_s || job.start_s == 0;
            if known.is_none_or(|data| !same(&data)) || job_changed(known, job) {
                let commented = known.is_some_and(|data| data.commented);
                let missed = known.and_then(|data| data.missed.clone());
                let new = read(job);
                // Tasks that started have left the array's record.
                let elements = known.and_then(|data| data.elements).or(new.elements);
                state.jobs.insert(job.id, JobData { commented, elements, missed, ..new });
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
        for job in snapshot.all_jobs().filter(waits) {
            let Some(key) = state.jobs.get(&job.id).and_then(|data| data.key.clone()) else {
                continue;
            };
            // No verdict about a name before the first look.
            if datasets.unread && !key.declaration.datasets.is_empty() {
                continue;
            }
            let keep_of = |input: &Input| if input.slow { SLOW_FACTOR * keep } else { keep };
            let is_old = |(at, input): &(Instant, Arc<Input>)| {
                at.elapsed() >= keep_of(input) || !input.is_current(&key, &datasets)
            };
            if state.inputs.get(&key).is_none_or(is_old) {
                state.lookups.want(key, job.id);
            }
        }
        let running = |job: &&Job| job.state == JobState::Running && seen.contains(&job.id);
        for job in snapshot.all_jobs().filter(running) {
            if state.jobs.get(&job.id).is_none_or(|data| data.missed.is_some()) {
                continue;
            }
            let nodes = hostlist::nodes(&job.nodes);
            let nodes: Vec<Arc<str>> = nodes.into_iter().map(Arc::from).collect();
            state.judge_start(job.id, &nodes);
        }
        let used: HashSet<&InputKey> = state.jobs.values().filter_map(|d| d.key.as_ref()).collect();
        state.inputs.retain(|key, _| used.contains(key));
    }

    /// The next input to look up, and a job that declares it. Users take turns by the time that
    /// theirs took.
    pub fn next(&self) -> Option<(InputKey, u32)> {
        loop {
            let (key, job_id) = lock(&self.state).lookups.next()?;
            if self.marks.begin(&key) {
                return Some((key, job_id));
            }
            let datasets = self.datasets();
            let known = key.declaration.datasets.iter().map(|name| datasets.dataset(name));
            let why = "phalanxd ended while it looked for it: not tried again";
            let input = Input::left_out(&key, known.collect(), why);
            self.keep(key, input, Duration::ZERO);
        }
    }

    /// Keeps an input that [`DataInputs::next`] named, and the time that its look-up took.
    pub fn put(&self, key: InputKey, input: Input, took: Duration) {
        let split = |split: &Split| size_of::<Split>() + size_of_val(&*split.held);
        let bytes = input.located.bytes() + input.splits.iter().map(split).sum::<usize>();
        self.marks.end(&key);
        self.keep(key, Input { bytes: bytes.max(INPUT_BYTES_MIN), ..input }, took);
    }

    fn keep(&self, key: InputKey, input: Input, took: Duration) {
        let mut state = lock(&self.state);
        state.lookups.done(&key, took);
        state.inputs.insert(key, (Instant::now(), Arc::new(input)));
        while state.make_room().is_some() {}
    }

    /// The job's declaration, if it has one.
    pub fn job(&self, job_id: u32) -> Option<JobData> {
        lock(&self.state).jobs.get(&job_id).cloned()
    }

    /// The job's input, if it was looked up.
    pub fn input(&self, key: &InputKey) -> Option<Arc<Input>> {
        lock(&self.state).inputs.get(key).map(|(_, input)| Arc::clone(input))
    }

    /// The input of a job to be planned; an input older than `keep` serves only a job that was
    /// planned before.
    pub fn input_to_plan(
        &self,
        key: &InputKey,
        keep: Duration,
        planned: bool,
    ) -> Option<Arc<Input>> {
        let datasets = self.datasets();
        let state = lock(&self.state);
        let is_new = |(at, input): &&(Instant, Arc<Input>)| {
            planned || (at.elapsed() < keep && input.is_current(key, &datasets))
        };
        let found = state.inputs.get(key).filter(is_new);
        found.map(|(_, input)| Arc::clone(input))
    }

    /// The job's input; when it was not looked up yet, it will be.
    pub fn input_or_ask(&self, key: &InputKey, job_id: u32) -> Option<Arc<Input>> {
        let mut state = lock(&self.state);
        let found = state.inputs.get(key).map(|(_, input)| Arc::clone(input));
        if found.is_none() {
            state.lookups.want(key.clone(), job_id);
        }
        found
    }

    /// The map that was handed out for the job's present start.
    pub fn map(&self, job_id: u32, start_s: i64) -> Option<Arc<BlockMap>> {
        let known = lock(&self.state).maps.get(&job_id).filter(|(at, _)| *at == start_s).cloned();
        match known {
            Some((_, map)) => Some(map),
            // A daemon before this one has handed it out.
            None => self.put_map(job_id, start_s, self.kept.read(job_id, start_s)?),
        }
    }

    pub fn last_map(&self, job_id: u32) -> Option<Arc<BlockMap>> {
        lock(&self.state).maps.get(&job_id).map(|(_, map)| Arc::clone(map))
    }

    /// Keeps a new map and returns the one to hand out: of two made at once, the first. `None`
    /// where there is no room, as the next node could get another map than one that is not kept.
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

    /// The range of `total` splits that the job reads; for a task of an array, its part.
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

    /// Notes that the job's comment was not written because its user has changed it meanwhile.
    pub fn comment_again(&self, job_id: u32) {
        lock(&self.state).jobs.get_mut(&job_id).into_iter().for_each(|data| data.commented = false);
    }

    pub fn comments(&self) -> &Receiver<CommentUpdate> {
        &self.comments.1
    }

    /// Returns a job whose longest wait for its nodes has ended, each job once. While nothing else
    /// changes, slurmctld does not look at such a job again by itself.
    pub fn overdue(&self, wait: Duration) -> Option<CommentUpdate> {
        let waiting = &mut lock(&self.state).waiting;
        let over = |(since, _): &(Instant, String)| since.elapsed() > wait;
        let job_id = *waiting.iter().find(|(_, one)| over(one))?.0;
        let (_, comment) = waiting.remove(&job_id)?;
        Some(CommentUpdate { job_id, comment, requires_nodes: false })
    }

    /// Megabytes that an ended job has read, for its speed.
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

impl State {
    /// Drops the heaviest inputs of the user with the most while all inputs together take too much.
    fn make_room(&mut self) -> Option<()> {
        let mut users: BTreeMap<&str, usize> = BTreeMap::new();
        for (key, (_, input)) in &self.inputs {
            *users.entry(&key.user).or_default() += input.bytes;
        }
        if users.values().sum::<usize>() <= DATA_INPUTS_BYTES_MAX {
            return None;
        }
        let (most, _) = users.into_iter().max_by_key(|(_, bytes)| *bytes)?;
        let own = self.inputs.iter().filter(|(key, _)| key.user == most);
        let (key, (_, heaviest)) = own.max_by_key(|(_, (_, input))| input.bytes)?;
        let key = key.clone();
        if heaviest.bytes > INPUT_BYTES_MIN {
            let why = "the inputs of all jobs take too much memory";
            let input = Input::left_out(&key, heaviest.known.clone(), why);
            self.inputs.insert(key, (Instant::now(), Arc::new(input)));
        } else {
            self.inputs.remove(&key);
        }
        Some(())
    }

    /// Counts, once, whether the nodes on which a job began hold the datasets that it names.
    fn judge_start(&mut self, job_id: u32, nodes: &[Arc<str>]) {
        let Some(data) = self.jobs.get_mut(&job_id) else { return };
        let Some(key) = data.key.as_ref().filter(|_| data.missed.is_none()) else { return };
        if key.declaration.datasets.is_empty() || nodes.is_empty() {
            return;
        }
        let Some((_, input)) = self.inputs.get(key) else { return };
        let holders: HashSet<&str> = input.nodes.iter().flatten().map(|node| &**node).collect();
        let missed: Vec<Arc<str>> =
            nodes.iter().filter(|node| !holders.contains(&***node)).cloned().collect();
        let starts = &mut self.starts;
        *(if missed.is_empty() { &mut starts.hits } else { &mut starts.misses }) += 1;
        data.missed = Some(missed);
    }
}

/// Whether the declaration of a job changed; Phalanx's own text in the comment does not count.
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
        missed: None,
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

/// A comment without Phalanx's text.
fn without_words(comment: &str) -> &str {
    comment.split(MARK).next().unwrap_or(comment)
}

/// Whether two comments differ in Phalanx's text alone.
pub fn is_same_but_words(one: &str, other: &str) -> bool {
    without_words(one) == without_words(other)
}

/// A comment with Phalanx's text replaced by `words`, or without it.
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
mod tests;
