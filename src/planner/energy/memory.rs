// SPDX-License-Identifier: GPL-3.0-or-later
//! Memory of power limits: power promised to jobs that are about to start, and the jobs that are
//! held back.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cap::PowerAsk;
use crate::preference::HoldBudget;

/// Time after which a promise is void whose job has not started, milliseconds: Slurm tells of
/// a start at once.
const PROMISE_MS: u64 = 2000;
/// Jobs that are remembered: those that come first in Slurm's order.
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
    /// Claim that has the power, where the held job would fit without it.
    #[serde(default)]
    pub claim: Option<KeptFor>,
}

/// Job for which power is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFor {
    /// Job id.
    pub job: u32,
    /// User id.
    pub user_id: u32,
    /// Unix second from which on the power is the job's: then the running jobs leave enough.
    pub from_s: u64,
}

impl PowerHold {
    /// Says the reason to users, without a full stop; `partition` is empty for all nodes, `kept`
    /// gives name and time of a claim.
    pub fn text(&self, partition: &str, kept: impl FnOnce(&KeptFor) -> (String, String)) -> String {
        let of = match partition {
            "" => String::new(),
            name => format!(" of partition {name}"),
        };
        let (with, cap) = (grouped(self.with_job_mw.div_ceil(1000)), grouped(self.cap_mw / 1000));
        let text = format!("held by the power cap{of}: {with} W of {cap} W with this job");
        match &self.claim {
            _ if self.never => format!("{text}, more than it allows on idle nodes"),
            Some(claim) => {
                let (user, from) = kept(claim);
                format!("{text}, and job {} of {user} has the power from {from} on", claim.job)
            }
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

/// Power that is a job's for some time: promised by an answer, or reserved while it waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    pub(super) job: u32,
    pub(super) user_id: u32,
    pub(super) rank: Rank,
    /// Unix seconds, up to that by the job's time limit.
    pub(super) from_s: u64,
    pub(super) until_s: u64,
    /// Power by limit.
    pub(super) extra_mw: Vec<u64>,
    /// Draw of the running jobs at its begin, by limit.
    pub(super) drawn_mw: Vec<u64>,
}

/// Place in Slurm's order, the greater the earlier: tier, priority, job id.
pub(super) type Rank = (u32, u32, Reverse<u32>);

/// Power that an answer gave away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Promise {
    until_ms: u64,
    array: Option<u32>,
    claim: Claim,
}

/// Promises and held jobs. Times are milliseconds of any monotonic clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PowerMemory {
    promised: BTreeMap<u32, Promise>,
    /// Jobs that are held back, until they start or leave the queue, with what they ask for.
    #[serde(rename = "waiting")]
    pub(super) held: BTreeMap<u32, (PowerAsk, PowerHold)>,
    /// Time for which claims held other jobs although their power was there, by user and limit.
    pub(super) kept: HoldBudget,
    /// Answers that held a job back.
    pub(super) holds: u64,
}

impl PowerMemory {
    /// Power promised to others than this job.
    pub(super) fn promised(&self, but: Option<u32>, now_ms: u64) -> impl Iterator<Item = &Claim> {
        let valid = move |promise: &&Promise| promise.until_ms > now_ms;
        let claims = self.promised.values().filter(valid).map(|promise| &promise.claim);
        claims.filter(move |claim| Some(claim.job) != but)
    }

    /// The job may start: what it adds counts until Slurm tells of its start.
    pub(super) fn promise(&mut self, array: Option<u32>, claim: Claim, now_ms: u64) {
        self.promised.retain(|_, promise| promise.until_ms > now_ms);
        self.held.remove(&claim.job);
        if claim.extra_mw.iter().any(|extra| *extra > 0) {
            let promise = Promise { until_ms: now_ms + PROMISE_MS, array, claim };
            self.promised.insert(promise.claim.job, promise);
        }
    }

    /// The job is held back.
    pub(super) fn hold(&mut self, ask: &PowerAsk, why: PowerHold) {
        self.promised.remove(&ask.job_id);
        self.holds += 1;
        self.held.insert(ask.job_id, (ask.clone(), why));
        if self.held.len() > JOBS_MAX {
            let last = self.held.values().min_by_key(|(ask, _)| ask.rank());
            let last = last.map(|(ask, _)| ask.job_id);
            last.and_then(|last| self.held.remove(&last));
        }
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
}
