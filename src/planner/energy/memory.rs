// SPDX-License-Identifier: GPL-3.0-or-later
//! Memory of power limits: power promised to jobs that are about to start, and the jobs that are
//! held back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Time after which a promise is void whose job has not started, milliseconds: Slurm tells of
/// a start at once.
const PROMISE_MS: u64 = 2000;
/// Wait from which on a job's power is kept for it, milliseconds: until then smaller jobs get
/// what is left below the limit.
const PATIENCE_MS: u64 = 60_000;
/// Time without a question about a job after which it no longer counts as held, milliseconds.
const ASKED_MS: u64 = 60_000;
/// Time between two searches for a job whose power is to be kept, milliseconds.
const LOOK_MS: u64 = 1000;
/// Jobs that are remembered; those beyond are held all the same.
const JOBS_MAX: usize = 4096;

/// Why a job does not start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerHold {
    /// Number of the limit.
    pub cap: usize,
    /// Draw of its nodes with the job.
    pub with_job_mw: u64,
    /// The limit.
    pub cap_mw: u64,
    /// The limit is lower than what the job and idle nodes draw: it never fits.
    pub never: bool,
    /// Job for which the power is kept, where the held one would fit.
    pub kept_for: Option<u32>,
}

impl PowerHold {
    /// Says the reason to users, without a full stop; `partition` is empty for all nodes.
    pub fn text(&self, partition: &str) -> String {
        let of = match partition {
            "" => String::new(),
            name => format!(" of partition {name}"),
        };
        let (with, cap) = (grouped(self.with_job_mw.div_ceil(1000)), grouped(self.cap_mw / 1000));
        let text = format!("held by the power cap{of}: {with} W of {cap} W with this job");
        match self.kept_for {
            _ if self.never => format!("{text}, more than it allows on idle nodes"),
            Some(job) => format!("{text}, and job {job} waits for more"),
            None => text,
        }
    }
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Power that an answer gave away, by limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Promise {
    until_ms: u64,
    array: Option<u32>,
    extra_mw: Vec<u64>,
}

/// A job that is held back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    since_ms: u64,
    last_ms: u64,
    extra_mw: Vec<u64>,
    why: PowerHold,
}

/// Promises and held jobs. Times are milliseconds of any monotonic clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerMemory {
    promised: BTreeMap<u32, Promise>,
    held: BTreeMap<u32, Held>,
    /// Job for which power is kept.
    claimant: Option<u32>,
    /// Time of the last search for a claimant.
    looked_ms: u64,
    /// Answers that held a job back.
    pub(super) holds: u64,
}

impl PowerMemory {
    /// Power promised under a limit to others than this job.
    pub(super) fn promised_mw(&self, cap: usize, but: Option<u32>, now_ms: u64) -> u64 {
        let valid =
            |(job, promise): &(&u32, &Promise)| Some(**job) != but && promise.until_ms > now_ms;
        let others = self.promised.iter().filter(valid);
        others.filter_map(|(_, promise)| promise.extra_mw.get(cap)).sum()
    }

    /// The job whose power is kept from this one, and how much under each limit.
    pub(super) fn claim(&mut self, job: u32, now_ms: u64) -> Option<(u32, &[u64])> {
        self.promised.retain(|_, promise| promise.until_ms > now_ms);
        let waits = |held: &Held| now_ms.saturating_sub(held.last_ms) <= ASKED_MS;
        if self.claimant.is_some_and(|id| !self.held.get(&id).is_some_and(waits)) {
            self.claimant = None;
        }
        if self.claimant.is_none() && now_ms.saturating_sub(self.looked_ms) >= LOOK_MS {
            self.looked_ms = now_ms;
            self.held.retain(|_, held| waits(held));
            let long = |held: &Held| now_ms.saturating_sub(held.since_ms) >= PATIENCE_MS;
            let old = self.held.iter().filter(|(_, held)| long(held) && !held.why.never);
            self.claimant = old.min_by_key(|(id, held)| (held.since_ms, **id)).map(|(id, _)| *id);
        }
        let claimant = self.claimant.filter(|id| *id != job)?;
        Some((claimant, self.held.get(&claimant)?.extra_mw.as_slice()))
    }

    /// The job may start: what it adds counts until Slurm tells of its start.
    pub(super) fn promise(&mut self, job: u32, array: Option<u32>, extra: &[u64], now_ms: u64) {
        self.held.remove(&job);
        if extra.iter().all(|extra| *extra == 0) {
            return;
        }
        let (until_ms, extra_mw) = (now_ms + PROMISE_MS, extra.to_vec());
        self.promised.insert(job, Promise { until_ms, array, extra_mw });
    }

    /// The job is held back.
    pub(super) fn hold(&mut self, job: u32, extra: &[u64], why: PowerHold, now_ms: u64) {
        self.promised.remove(&job);
        self.holds += 1;
        if self.held.len() >= JOBS_MAX && !self.held.contains_key(&job) {
            return;
        }
        let held = self.held.entry(job).or_insert(Held { since_ms: now_ms, ..Held::default() });
        // After so long without a question it begins to wait anew.
        if now_ms.saturating_sub(held.last_ms) > ASKED_MS {
            held.since_ms = now_ms;
        }
        (held.last_ms, held.why) = (now_ms, why);
        held.extra_mw = extra.to_vec();
    }

    /// The job runs, or has gone: its own draw counts.
    pub(super) fn forget(&mut self, job: u32, array: Option<u32>) {
        self.held.remove(&job);
        if self.promised.remove(&job).is_none()
            && let Some(array) = array
        {
            // Of an array Slurm may ask by another id than that under which the task starts.
            let same = |(_, promise): &(&u32, &Promise)| promise.array == Some(array);
            let other = self.promised.iter().find(same).map(|(id, _)| *id);
            other.and_then(|id| self.promised.remove(&id));
        }
    }

    /// Why a job is held back.
    pub(super) fn why(&self, job: u32, now_ms: u64) -> Option<PowerHold> {
        let held = self.held.get(&job)?;
        (now_ms.saturating_sub(held.last_ms) <= ASKED_MS).then_some(held.why)
    }

    /// Jobs that are held back now.
    pub(super) fn held_now(&self, now_ms: u64) -> u64 {
        let asked = |held: &&Held| now_ms.saturating_sub(held.last_ms) <= ASKED_MS;
        self.held.values().filter(asked).count() as u64
    }
}
