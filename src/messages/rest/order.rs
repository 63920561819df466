// SPDX-License-Identifier: GPL-3.0-or-later
//! Reports about the order of starts.

use serde::{Deserialize, Serialize};

/// The order of starts as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OrderStatus {
    /// Whether the order is changed, which it is unless `order.by` is `off`.
    pub enabled: bool,
    /// State by the plugin: `active`, or the reason for which no deltas are written.
    pub state: String,
    /// Pending jobs in the plugin's last report.
    pub pending: u64,
    /// Jobs that have a delta.
    pub active: u64,
    /// Deltas decided last.
    pub decided: u64,
    /// Jobs that others overtake at present.
    pub overtaken: u64,
    /// Wait from which on no job passes a waiting one, where that is longest, seconds.
    pub passable_s: u64,
    /// Deltas written since the plugin was loaded.
    pub written: u64,
    /// Deltas removed while the job was pending.
    pub removed: u64,
    /// Jobs that started with a delta.
    pub started: u64,
    /// Deltas refused at present: the job is held, set by hand or no longer pending.
    pub refused: u64,
    /// Deltas postponed now.
    pub deferred: u64,
    /// Times that slurmctld's job lock was held for writing.
    pub lock_holds: u64,
    /// Mean time for which the job lock was held for writing, nanoseconds.
    pub lock_mean_ns: u64,
    /// Longest time for which the job lock was held for writing, nanoseconds.
    pub lock_max_ns: u64,
    /// Times that slurmctld's job lock was held for reading.
    #[serde(default)]
    pub read_holds: u64,
    /// Mean time for which the job lock was held for reading, nanoseconds.
    #[serde(default)]
    pub read_mean_ns: u64,
    /// Longest time for which the job lock was held for reading, nanoseconds.
    #[serde(default)]
    pub read_max_ns: u64,
}

/// One pending job's position in the order of starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobOrder {
    /// Rank in the preferred start order, from 0; none if no method asks for one.
    pub rank: Option<u32>,
    /// Decided delta on the job's site factor.
    pub delta: i32,
    /// Delta that slurmctld has now.
    pub delta_now: i32,
    /// Priority of the job with `delta_now`.
    pub priority: u32,
    /// Jobs that the job overtakes.
    pub passes: u32,
    /// Time from which on no job passes the job, unix seconds; none before it waits for resources.
    pub due_s: Option<u64>,
    /// Reason for which the job is not further in front.
    pub stop: Option<String>,
    /// The job that it may not overtake.
    pub stop_job: Option<u32>,
}
