// SPDX-License-Identifier: GPL-3.0-or-later
//! The budget of overtakes: how often and since when each job was overtaken, over all slots.
//!
//! A job that is put in front of another counts against that one's budget
//! while it is there, with as many starts as it stands for; once it has
//! started the count stays. So the bound also holds for what Slurm starts
//! between two slots.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Bounds, Stop, Waiting};

/// Reports without a delta after which it is taken to be gone.
const IDLE_REPORTS: u32 = 2;

/// A job that was put in front of others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InFront {
    tasks: u32,
    of: BTreeSet<u32>,
    /// Reports in a row without a delta.
    idle: u32,
}

/// Overtakes of one job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    overtaken: u32,
    since_s: Option<u64>,
}

/// Overtakes of the waiting jobs, and the deltas in force that may still cause some.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OvertakeBudget {
    records: BTreeMap<u32, Record>,
    in_front: BTreeMap<u32, InFront>,
    /// Starts that may still come from what is in force, by the job passed.
    #[serde(skip)]
    load: BTreeMap<u32, u32>,
    starts: u64,
    /// Number of the last report.
    #[serde(skip)]
    report: u64,
}

/// Equal memories; what is computed anew from each report does not count.
impl PartialEq for OvertakeBudget {
    fn eq(&self, other: &Self) -> bool {
        let memory = |g: &Self| (g.starts, g.records.len(), g.in_front.len());
        memory(self) == memory(other)
            && self.records == other.records
            && self.in_front == other.in_front
    }
}

impl Eq for OvertakeBudget {}

impl OvertakeBudget {
    /// Times that the job was overtaken by a start.
    pub fn overtaken(&self, job_id: u32) -> u32 {
        self.records.get(&job_id).map_or(0, |r| r.overtaken)
    }

    /// Since when others are or were in front of it, unix seconds.
    pub fn since_s(&self, job_id: u32) -> Option<u64> {
        self.records.get(&job_id).and_then(|r| r.since_s)
    }

    /// Starts that got ahead of another job because of a delta.
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// Counts what has started, or is gone for another reason, since the last
    /// decision, and forgets who no longer waits.
    pub(super) fn observe(&mut self, report: u64, waiting: &[Waiting]) {
        let fresh = u32::from(self.report != report);
        self.report = report;
        let now: BTreeMap<u32, &Waiting> = waiting.iter().map(|w| (w.job_id, w)).collect();
        self.load.clear();
        for (job_id, front) in &mut self.in_front {
            let left = now.get(job_id).map_or(0, |w| w.tasks);
            let gone = front.tasks.saturating_sub(left);
            self.starts += u64::from(gone);
            for passed in front.of.iter().filter(|k| now.contains_key(k)) {
                let record = self.records.entry(*passed).or_default();
                record.overtaken = record.overtaken.saturating_add(gone);
            }
            front.tasks = left;
        }
        // A delta that is no longer in force cannot bring a start ahead; the
        // first report without it may have been made before it was written.
        self.in_front.retain(|job_id, front| {
            let Some(job) = now.get(job_id) else { return false };
            front.idle = if job.delta == 0 { front.idle + fresh } else { 0 };
            front.idle < IDLE_REPORTS
        });
        for front in self.in_front.values_mut() {
            front.of.retain(|k| now.contains_key(k));
            for passed in &front.of {
                let load = self.load.entry(*passed).or_default();
                *load = load.saturating_add(front.tasks);
            }
        }
        self.records.retain(|job_id, _| now.contains_key(job_id));
    }

    /// Whether `job` may be put in front of `passed`, with `added` starts of
    /// this decision already put there. `Ok` says how many it adds.
    pub(super) fn allows(
        &self,
        job: &Waiting,
        passed: u32,
        added: u32,
        bounds: &Bounds,
        now_s: u64,
    ) -> Result<u32, Stop> {
        let record = self.records.get(&passed).copied().unwrap_or_default();
        if record.since_s.is_some_and(|s| now_s.saturating_sub(s) >= bounds.max_delay_s) {
            return Err(Stop::Delay);
        }
        let known = self.in_front.get(&job.job_id).is_some_and(|f| f.of.contains(&passed));
        let cost = if known { 0 } else { job.tasks.max(1) };
        let load = self.load.get(&passed).copied().unwrap_or(0);
        let sum = record.overtaken.saturating_add(load).saturating_add(added);
        if sum.saturating_add(cost) > bounds.max_overtakes {
            return Err(Stop::Overtakes);
        }
        Ok(cost)
    }

    /// Takes over what was decided: pairs of a job and one that it passes.
    /// Deltas that were in force stay counted until a report is without them.
    /// Returns how many jobs are passed.
    pub(super) fn commit(&mut self, waiting: &[Waiting], passes: &[(u32, u32)], now_s: u64) -> u32 {
        let tasks: BTreeMap<u32, u32> =
            waiting.iter().map(|w| (w.job_id, w.tasks.max(1))).collect();
        let mut passed = BTreeSet::new();
        for &(job_id, other) in passes {
            let front = self.in_front.entry(job_id).or_default();
            front.tasks = tasks.get(&job_id).copied().unwrap_or(1);
            front.of.insert(other);
            front.idle = 0;
            passed.insert(other);
            self.records.entry(other).or_default().since_s.get_or_insert(now_s);
        }
        u32::try_from(passed.len()).unwrap_or(u32::MAX)
    }
}
