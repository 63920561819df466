// SPDX-License-Identifier: GPL-3.0-or-later
//! The state behind the mirror's lock.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::warn;

use crate::decision::Answer;
use crate::held::Holds;
use crate::proofs::Proofs;
use crate::recording::{EventKind, Op, Recording, nanos};
use crate::refusals::Refusals;
use crate::settings::Settings;
use crate::view::LinkView;
use phalanx_core::snapshot::{Job, JobState, License, Snapshot};
use phalanx_ffi::wire::Reason;
use phalanx_methods::balance::EngineError;
use phalanx_planner::attribution::Demand;
use phalanx_planner::cluster::{Cluster, RunningJob};
use phalanx_planner::place::{Holding, Placer, Tuning};
use phalanx_planner::preference::{HoldBudget, Method, PreferenceUse, Preferences, Question};

/// Number of nodes checked for a waiting request before an answer; takes less than 0.1 ms.
const LOOKS_AT_ASK: usize = 512;
/// Number of nodes checked for a waiting request at a time while nobody asks.
const LOOKS_QUIET: usize = 2048;

/// An ask about a job that Slurm had started already: the plugin cannot know the decision.
#[derive(Debug, Clone, Copy)]
pub struct Watched {
    /// Number of the ask's packet.
    pub seq: u64,
    /// Id of the decision; 0 if there is none.
    pub decision: u64,
    /// Reason why Slurm's nodes stand.
    pub reason: Reason,
}

/// The state that answers depend on, except for the settings.
#[derive(Debug)]
pub struct State {
    /// Usage of the nodes and the search of nodes; `None` without a mirror.
    pub placer: Option<Placer>,
    /// Names of the resource dimensions.
    pub dims: Arc<[Arc<str>]>,
    /// Counts for the status page.
    pub view: LinkView,
    pub(crate) pools: Vec<License>,
    pub(crate) pending: Demand,
    pub(crate) first_seen: BTreeMap<u32, Instant>,
    /// Jobs that declare an input according to the plugin, until they end.
    pub inputs: BTreeSet<u32>,
    /// Node preferences that methods made.
    pub preferences: Preferences,
    /// Proofs that stand for Slurm's answers.
    pub proofs: Proofs,
    /// Time for which users' jobs were held for their inputs.
    pub holds: HoldBudget,
    /// Time for which users' gangs that are worth less than their cost were held.
    pub(crate) gang_holds: HoldBudget,
    /// Holds under way.
    pub held: Holds,
    /// Answers that Slurm refused, by option.
    pub refusals: Refusals,
    /// The latest decision to start a job by polling nodes, and the start of the next poll once
    /// Slurm has taken its nodes.
    pub(crate) polled: Option<(u64, usize)>,
    /// The latest ask that is not answered, and its decision; see [`Watched`].
    pub watched: Option<Watched>,
    /// Whether it was said that a job holds more than there is.
    told_beyond: bool,
    /// Time at which the times in a recording begin.
    pub born: Instant,
    /// The recording under way.
    pub recording: Option<Recording>,
}

impl State {
    /// Creates a state without a mirror.
    pub fn new(born: Instant) -> Self {
        Self {
            placer: None,
            dims: Arc::default(),
            view: LinkView::default(),
            pools: Vec::new(),
            pending: Demand::default(),
            first_seen: BTreeMap::new(),
            inputs: BTreeSet::new(),
            preferences: Preferences::default(),
            proofs: Proofs::default(),
            holds: HoldBudget::default(),
            gang_holds: HoldBudget::default(),
            held: Holds::default(),
            refusals: Refusals::default(),
            polled: None,
            watched: None,
            told_beyond: false,
            born,
            recording: None,
        }
    }

    /// Returns the time in a recording, in milliseconds.
    pub fn ms(&self, at: Instant) -> u64 {
        nanos(self.born, at) / 1_000_000
    }

    /// Records whether stock took the nodes of an answer or refused them.
    pub fn outcome(&mut self, decision: u64, refused: bool, at: Instant) {
        let polled = self.polled.take_if(|(id, _)| *id == decision);
        if let (Some((_, start)), false, Some(placer)) = (polled, refused, &mut self.placer) {
            placer.set_poll_start(start);
        }
        let now_ms = self.ms(at);
        for option in self.refusals.outcome(decision, refused, now_ms) {
            warn!(
                "Slurm refused too many answers to requests with {option}: these are left to it \
                 for an hour"
            );
        }
    }

    /// Replaces the mirror by a complete one.
    ///
    /// # Errors
    /// Returns the engine's error.
    pub fn set_cluster(
        &mut self,
        cluster: Cluster,
        memory_tracked: bool,
        tuning: Tuning,
    ) -> Result<(), EngineError> {
        // The same table again keeps its identity, and with it the preferences.
        let cluster = match &self.placer {
            Some(old) => cluster.with_equal_table(old.cluster().table()),
            None => cluster,
        };
        let mut placer = Placer::new(cluster, memory_tracked, tuning, self.pools.clone())?;
        placer.set_pending(self.pending.clone())?;
        // Before the first question rather than during it.
        placer.maintain();
        self.dims = placer.dims().into();
        self.proofs.set_cluster(placer.cluster());
        self.placer = Some(placer);
        self.view.synced = true;
        self.tell_beyond();
        Ok(())
    }

    /// Says, once, that a job holds more of a GRES than its node has.
    fn tell_beyond(&mut self) {
        let Some(placer) = self.placer.as_ref().filter(|_| !self.told_beyond) else { return };
        let Some((job, kind, count)) = placer.cluster().beyond() else { return };
        self.told_beyond = true;
        let kind = placer.cluster().table().kinds.get(kind.at()).map_or("", |name| name);
        warn!("job {job} holds {count} {kind} of a node that has fewer: counted as all of them");
    }

    /// Takes the demand of the queue and the licence pools.
    pub fn set_queue(&mut self, pending: Demand, pools: Vec<License>) {
        self.pools.clone_from(&pools);
        self.pending.clone_from(&pending);
        if let Some(placer) = &mut self.placer {
            let done = placer.set_pools(pools).and_then(|()| placer.set_pending(pending));
            if let Err(error) = done {
                warn!("weights of the queue not taken: {error}");
            }
            self.dims = placer.dims().into();
        }
    }

    /// Updates the pending jobs by dimension for the next decision.
    pub fn freshen(&mut self, is_quiet: bool) {
        let looks = if is_quiet { LOOKS_QUIET } else { LOOKS_AT_ASK };
        let Some(placer) = &mut self.placer else { return };
        let Some(pending) = placer.freshen(looks, is_quiet) else { return };
        self.pending.lacks.clone_from(&pending.lacks);
        self.record(|state| EventKind::Op(Op::Lacks(state.pending.lacks.clone())));
    }

    /// Records all that a job holds, since just now if it has `begun`.
    pub fn set_job(&mut self, job: RunningJob, begun: bool) {
        self.first_seen.remove(&job.id);
        self.held.forget(job.id, false);
        self.refusals.forget(job.id);
        if let (Some((array, _)), true) = (job.array, begun) {
            // What waits on is the array's record: it waits from this start on.
            self.first_seen.remove(&array);
            self.preferences.began(array, job.held.iter().map(|held| held.node));
        }
        if let Some(placer) = &mut self.placer {
            self.proofs.set_job(placer.cluster(), &job);
            if begun {
                placer.began(&job);
            }
            placer.set_job(job);
            self.tell_beyond();
        }
    }

    /// Records that a job ends at another time.
    pub fn set_end(&mut self, job_id: u32, end_s: u64) {
        let Some(placer) = &mut self.placer else { return };
        let Some(job) = placer.cluster().jobs().get(&job_id) else { return };
        let job = RunningJob { end_s, ..job.clone() };
        self.proofs.set_job(placer.cluster(), &job);
        placer.set_end(job_id, end_s);
    }

    /// Records that a job gave everything back.
    pub fn end_job(&mut self, job_id: u32) {
        self.first_seen.remove(&job_id);
        self.inputs.remove(&job_id);
        self.held.forget(job_id, true);
        self.refusals.forget(job_id);
        if let Some(placer) = &mut self.placer {
            self.proofs.end_job(placer.cluster(), job_id);
            placer.end_job(job_id);
        }
    }

    /// Returns whether the hold budget of the job's user allows a hold for its input, as a gang or
    /// as a task of an array.
    pub fn may_hold(&mut self, question: &Question<'_>, settings: &Settings, now: Instant) -> bool {
        let (user, partition, ms) = (question.origin.user_id, &*question.partition, self.ms(now));
        let is_task = !question.input && question.shape.wanted_nodes() <= 1;
        let array = question.array_job_id.filter(|_| is_task);
        if let Some((array, most_ms)) = array.zip(settings.tuning.brief_hold_ms)
            && self.held.spent(array, now) >= Duration::from_millis(most_ms)
        {
            return false;
        }
        if let (false, Some(hold)) = (question.input, settings.tuning.gang_hold) {
            let may = self.gang_holds.allows(user, partition, ms, hold.user_ms);
            if !may || question.array_job_id.is_none() || question.shape.wanted_nodes() > 1 {
                return may;
            }
        }
        let may = self.holds.allows(user, partition, ms, settings.hold_budget_ms);
        self.holds.refused += u64::from(!may && question.input && !question.will_run);
        may
    }

    /// Counts an answer in force that holds a job back and with it a partition's queue: for an
    /// input, as a gang, or as a task of an array for seconds.
    pub fn count_hold(&mut self, asked: &Question<'_>, used: Option<&PreferenceUse>, at: Instant) {
        if asked.will_run {
            return;
        }
        let (user, ms) = (asked.origin.user_id, self.ms(at));
        let several = asked.shape.left_to_slurm.is_some() || asked.shape.wanted_nodes() > 1;
        let of_gang = |used: &PreferenceUse| used.preference.method == Method::Gang;
        let unplanned = used.is_none() && several;
        let brief = self.placer.as_ref().is_some_and(|p| p.may_wait_briefly(Holding::After(0)));
        let of_bag = |used: &PreferenceUse| brief && used.preference.method == Method::Bag;
        if asked.input || used.is_some_and(of_bag) {
            self.holds.held(asked.job_id, user, &asked.partition, ms);
        } else if used.is_some_and(of_gang) || unplanned {
            self.gang_holds.held(asked.job_id, user, &asked.partition, ms);
        }
    }

    /// Notes whether an answer in force holds its job, and until when.
    pub fn note_hold(
        &mut self,
        asked: &Question<'_>,
        answer: &Answer,
        used: Option<&PreferenceUse>,
        settings: &Settings,
        at: Instant,
    ) {
        if asked.will_run {
            return;
        }
        let wait = if let Answer::Hold(wait) = answer { Some(*wait) } else { None };
        let first = self.first_seen.get(&asked.job_id).copied();
        self.held.answered(asked, wait, used, settings, (first, at));
    }

    /// Returns the next ids, after `after`, of jobs that waited or declared an input.
    pub fn remembered(&self, after: u32, count: usize) -> Vec<u32> {
        let range = (Bound::Excluded(after), Bound::Unbounded);
        let seen = self.first_seen.range(range).map(|(id, _)| *id);
        let mut ids: Vec<u32> = seen.take(count).collect();
        ids.extend(self.inputs.range(range).take(count));
        ids.extend(self.held.remembered(after, count));
        ids.sort_unstable();
        ids.dedup();
        // Beyond the first so many the two lists may have a gap.
        ids.truncate(count);
        ids
    }

    /// Forgets jobs that left the queue without having held anything.
    pub fn forget(&mut self, gone: &[u32]) {
        for id in gone {
            self.first_seen.remove(id);
            self.inputs.remove(id);
            self.held.forget(*id, true);
        }
        self.record(|_| EventKind::Op(Op::Forgot(gone.to_vec())));
    }
}

/// Finds jobs that were cancelled while they waited: no event of the plugin says so.
#[derive(Debug, Default)]
pub struct Gone {
    /// Jobs missing from the last snapshot; a job may be younger than a snapshot.
    missing: BTreeSet<u32>,
}

impl Gone {
    /// Returns the jobs that are missing from two consecutive snapshots.
    pub fn sort_out(&mut self, ids: &[u32], snapshot: &Snapshot) -> Vec<u32> {
        // One that its user holds back is not asked about.
        let waits = |job: &Job| match job.state {
            JobState::Pending => job.priority > 0,
            state => state != JobState::Ended,
        };
        let missing = |id: &&u32| !snapshot.job(**id).is_some_and(waits);
        let now: BTreeSet<u32> = ids.iter().filter(missing).copied().collect();
        let gone = now.intersection(&self.missing).copied().collect();
        self.missing = now;
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    use phalanx_config::{Admission, Config};
    use phalanx_core::limits::HELD_JOBS_MAX;
    use phalanx_core::shape::Shape;
    use phalanx_core::snapshot::Builder;
    use phalanx_planner::preference::{JobKey, Note, Preference};

    fn snapshot(pending: &[u32]) -> Snapshot {
        let mut builder = Builder::default();
        builder.draft.jobs =
            pending.iter().map(|&id| Job { id, priority: 1, ..Job::default() }).collect();
        builder.build(1, 0).unwrap()
    }

    /// Goal: a task that begins ends the wait of its array's record.
    #[test]
    fn an_array_waits_from_its_last_start_on() {
        let mut state = State::new(Instant::now());
        state.first_seen.extend([7, 8].map(|id| (id, state.born)));
        let task = RunningJob { id: 9, array: Some((7, 1)), ..RunningJob::default() };
        state.set_job(task.clone(), false);
        assert_eq!(state.first_seen.len(), 2, "it ran before");
        state.set_job(task, true);
        assert_eq!(state.first_seen.keys().copied().collect::<Vec<_>>(), [8]);
    }

    /// Goal: jobs cancelled while pending are forgotten, and no others.
    #[test]
    fn jobs_that_left_the_queue_are_forgotten() {
        let now = Instant::now();
        let mut state = State::new(now);
        for id in 1..=2000 {
            state.first_seen.insert(id, now);
            state.inputs.insert(id + 1000);
        }
        let (mut ids, mut after) = (Vec::new(), 0);
        while let Some(&last) = {
            let some = state.remembered(after, 300);
            ids.extend(&some);
            some
        }
        .last()
        {
            after = last;
        }
        assert_eq!(ids, (1..=3000).collect::<Vec<u32>>());
        let mut gone = Gone::default();
        let left = snapshot(&[5, 2500]);
        assert!(gone.sort_out(&ids, &left).is_empty(), "they may be younger than the snapshot");
        let known: Vec<u32> = (1..=2900).collect();
        let found = gone.sort_out(&known, &left);
        assert_eq!(found.len(), 2898);
        state.forget(&found);
        assert_eq!(state.first_seen.keys().copied().collect::<Vec<_>>(), [5]);
        assert_eq!(state.inputs.len(), 101, "2500 and those that were not asked about");
        assert!(state.first_seen.len() < HELD_JOBS_MAX);
    }

    /// Goal: tasks of arrays wait within the budget of data jobs, gangs within their own, each also
    /// where the other may wait. Method: asked once a second, a twentieth of it is forgotten.
    #[test]
    fn who_is_held_uses_up_a_budget() {
        let now = Instant::now();
        let mut config = Config::default();
        config.bag.watts.insert("node".to_owned(), 100.0);
        let held_s = |config: &Config, method, nodes| {
            let settings = Settings::of(config, 1);
            let mut state = State::new(now);
            state.set_cluster(Cluster::default(), false, settings.tuning.clone()).unwrap();
            let shape = Shape { min_nodes: nodes, req_nodes: nodes, ..Shape::default() };
            let question = Question {
                job_id: 7,
                array_job_id: Some(7),
                partition: "main".into(),
                shape: Cow::Owned(shape),
                ..Question::default()
            };
            let preference = Preference {
                key: JobKey::Array(7),
                method,
                sets: Vec::new(),
                worth: Vec::new(),
                required: true,
                made_ms: 0,
                note: Note::None,
            };
            let used = PreferenceUse { preference: preference.into(), set: None, unused: None };
            (0..1000).find(|second| {
                let at = now + Duration::from_secs(*second);
                state.count_hold(&question, Some(&used), at);
                !state.may_hold(&question, &settings, at)
            })
        };
        assert_eq!(held_s(&config, Method::Bag, 1), Some(64));
        config.gang.admission = Admission::Enforce;
        assert_eq!(held_s(&config, Method::Bag, 1), Some(64));
        assert_eq!(held_s(&config, Method::Gang, 2), Some(632));
    }
}
