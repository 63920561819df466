// SPDX-License-Identifier: GPL-3.0-or-later
//! Reports about the order of starts.

use serde::{Deserialize, Serialize};

/// The order of starts as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OrderStatus {
    /// `order.enabled`
    pub enabled: bool,
    /// State by the plugin: `active`, or the reason for which no deltas are written.
    pub state: String,
    /// Pending jobs of its last report.
    pub pending: u64,
    /// Jobs with a delta now.
    pub active: u64,
    /// Deltas that were decided last.
    pub decided: u64,
    /// Jobs in front of which others are put now.
    pub overtaken: u64,
    /// Starts ahead of another job since the daemon started.
    pub starts_ahead: u64,
    /// Deltas written since the plugin was loaded.
    pub written: u64,
    /// Of these, removed while the job was pending.
    pub removed: u64,
    /// Jobs that started with one.
    pub started: u64,
    /// Now: wanted, but held, set by hand or no longer pending.
    pub refused: u64,
    /// Now: wanted, but put off.
    pub deferred: u64,
    /// Times that slurmctld's job lock was held for writing.
    pub lock_holds: u64,
    /// Mean of these, nanoseconds.
    pub lock_mean_ns: u64,
    /// The longest of these, nanoseconds.
    pub lock_max_ns: u64,
    /// The same for reading: looks at the jobs.
    #[serde(default)]
    pub read_holds: u64,
    /// Mean of these, nanoseconds.
    #[serde(default)]
    pub read_mean_ns: u64,
    /// The longest of these, nanoseconds.
    #[serde(default)]
    pub read_max_ns: u64,
}

/// One pending job's place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOrder {
    /// Rank in the preferred start order, from 0; none if no method asks for one.
    pub rank: Option<u32>,
    /// Decided delta on its site factor.
    pub delta: i32,
    /// Delta that slurmctld has now.
    pub delta_now: i32,
    /// Its priority with that.
    pub priority: u32,
    /// Jobs that it is put in front of.
    pub passes: u32,
    /// Starts that got ahead of it because of a delta.
    pub overtaken: u32,
    /// Time since which others are or were in front of it, unix seconds.
    pub overtaken_since_s: Option<u64>,
    /// Reason for which it is not further in front.
    pub stop: Option<String>,
    /// The job that it may not pass.
    pub stop_job: Option<u32>,
}
