// SPDX-License-Identifier: GPL-3.0-or-later
//! The state behind the mirror's lock.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use log::warn;

use crate::proofs::Proofs;
use crate::recording::{EventKind, Op, Recording, nanos};
use crate::refusals::Refusals;
use crate::view::LinkView;
use phalanx_core::snapshot::{Job, JobState, License, Snapshot};
use phalanx_ffi::wire::Reason;
use phalanx_methods::balance::EngineError;
use phalanx_planner::attribution::Demand;
use phalanx_planner::cluster::{Cluster, RunningJob};
use phalanx_planner::place::{Placer, Tuning};
use phalanx_planner::preference::{Holds, Method, PreferenceTable, Preferences};

/// Number of nodes checked for a waiting request before an answer; takes less than 0.1 ms.
const LOOKS_AT_ASK: usize = 512;
/// Number of nodes checked for a waiting request at a time while nobody asks.
const LOOKS_QUIET: usize = 2048;

/// An ask about a job that Slurm had started already, whose decision the plugin cannot know.
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
    /// Jobs that declare an input according to the plugin, until they end.
    pub inputs: BTreeSet<u32>,
    /// Node preferences that methods made.
    pub preferences: Preferences,
    /// Proofs that stand for Slurm's answers.
    pub proofs: Proofs,
    /// Holds with their budgets, by [`State::ms`].
    pub holds: Holds,
    /// Answers that Slurm refused, by option.
    pub refusals: Refusals,
    /// The latest decision to start a job by polling nodes, and the start of the next poll once
    /// Slurm has taken its nodes.
    pub(crate) polled: Option<(u64, usize)>,
    /// The latest ask that is not answered, and the decision made on it; see [`Watched`].
    pub watched: Option<Watched>,
    /// Whether it was logged that a job holds more than its node has.
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
            inputs: BTreeSet::new(),
            preferences: Preferences::default(),
            proofs: Proofs::default(),
            holds: Holds::default(),
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
        self.record_at(at, |_| EventKind::Op(Op::Outcome(decision, refused)));
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

    /// Replaces the preferences of one method; see [`Preferences::replace`].
    pub fn prefer(&mut self, method: Method, table: PreferenceTable) -> Option<PreferenceTable> {
        self.record(|state| EventKind::Preferences(state.raw_of(method, &table)));
        self.preferences.replace(method, table)
    }

    /// Records that the plugin has disconnected, so that there is no mirror.
    pub fn disconnected(&mut self) {
        self.record(|_| EventKind::Op(Op::Gone));
        self.view.synced = false;
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

    /// Logs, once, that a job holds more of a GRES than its node has.
    fn tell_beyond(&mut self) {
        let Some(placer) = self.placer.as_ref().filter(|_| !self.told_beyond) else { return };
        let Some((job, kind, count)) = placer.cluster().beyond() else { return };
        self.told_beyond = true;
        let kind = placer.cluster().table().kinds.get(kind.at()).map_or("", |name| name);
        warn!("job {job} holds {count} {kind} of a node that has fewer: counted as all of them");
    }

    /// Takes the demand of the queue and the licence pools.
    pub fn set_queue(&mut self, pending: Demand, pools: Vec<License>) {
        self.record(|_| EventKind::Op(Op::Queue(pending.clone(), pools.clone())));
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

    /// Records what a job holds, from the present on if it has `begun`.
    pub fn set_job(&mut self, job: RunningJob, begun: bool) {
        self.record_job(|| Op::Job(job.clone(), begun));
        let array = job.array.map(|(array, _)| array).filter(|_| begun);
        self.holds.began(job.id, array);
        self.refusals.forget(job.id);
        if let Some(array) = array {
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

    /// Records that running jobs end at other times: id, end in unix seconds.
    pub fn set_ends(&mut self, ends: &[(u32, u64)]) {
        self.record_job(|| Op::Ends(ends.to_vec()));
        let Some(placer) = &mut self.placer else { return };
        for &(job_id, end_s) in ends {
            let Some(job) = placer.cluster().jobs().get(&job_id) else { continue };
            let job = RunningJob { end_s, ..job.clone() };
            self.proofs.set_job(placer.cluster(), &job);
            placer.set_end(job_id, end_s);
        }
    }

    /// Records a job that gave everything back: its id, Slurm's state, end in unix seconds.
    pub fn end_job(&mut self, job_id: u32, job_state: u32, end_s: u64) {
        self.record_job(|| Op::Ended(job_id, job_state, end_s));
        self.inputs.remove(&job_id);
        self.holds.forget(job_id);
        self.refusals.forget(job_id);
        if let Some(placer) = &mut self.placer {
            self.proofs.end_job(placer.cluster(), job_id);
            placer.end_job(job_id);
        }
    }

    /// Returns the next ids, after `after`, of jobs that waited or declared an input.
    pub fn remembered(&self, after: u32, count: usize) -> Vec<u32> {
        let range = (Bound::Excluded(after), Bound::Unbounded);
        let mut ids: Vec<u32> = self.holds.remembered(after, count).collect();
        ids.extend(self.inputs.range(range).take(count));
        ids.sort_unstable();
        ids.dedup();
        // Beyond the first so many the two lists may have a gap.
        ids.truncate(count);
        ids
    }

    /// Forgets jobs that left the queue without having held anything.
    pub fn forget(&mut self, gone: &[u32]) {
        for id in gone {
            self.inputs.remove(id);
            self.holds.forget(*id);
        }
        self.record(|_| EventKind::Op(Op::Forgot(gone.to_vec())));
    }
}

/// Finds jobs that were cancelled while they waited, which no event of the plugin reports.
#[derive(Debug, Default)]
pub struct Gone {
    /// Jobs missing from the last snapshot, which a job may be younger than.
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
    use phalanx_core::snapshot::{Builder, shared};

    fn snapshot(pending: &[u32]) -> Snapshot {
        let mut builder = Builder::default();
        builder.draft.jobs =
            shared(pending.iter().map(|&id| Job { id, priority: 1, ..Job::default() }));
        builder.build(1, 0).unwrap()
    }

    /// Goal: a task that begins ends the wait of its array's record.
    #[test]
    fn an_array_waits_from_its_last_start_on() {
        let mut state = State::new(Instant::now());
        state.holds.set_first([(7, 0), (8, 0)].into_iter());
        let task = RunningJob { id: 9, array: Some((7, 1)), ..RunningJob::default() };
        state.set_job(task.clone(), false);
        assert_eq!(state.holds.first().count(), 2, "it ran before");
        state.set_job(task, true);
        assert_eq!(state.holds.first().collect::<Vec<_>>(), [(8, 0)]);
    }

    /// Goal: jobs cancelled while pending are forgotten, and no others.
    #[test]
    fn jobs_that_left_the_queue_are_forgotten() {
        let mut state = State::new(Instant::now());
        state.holds.set_first((1..=2000).map(|id| (id, 0)));
        for id in 1..=2000 {
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
        assert_eq!(state.holds.first().collect::<Vec<_>>(), [(5, 0)]);
        assert_eq!(state.inputs.len(), 101, "2500 and those that were not asked about");
    }
}
