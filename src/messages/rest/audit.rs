// SPDX-License-Identifier: GPL-3.0-or-later
//! The receipt: what Phalanx changed for which job.

use serde::{Deserialize, Serialize};

/// `GET /v1/audit?since=&user=&job=`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditReport {
    /// Begin of the period, unix milliseconds.
    pub since_ms: u64,
    /// Sums by user and partition.
    pub rows: Vec<AuditRow>,
    /// Starts of all users' jobs with a changed place in the order, each of which may have passed
    /// others.
    pub moved_of_all: u64,
    /// Decisions about all users' jobs that the plugin compared with Slurm's own, under this build:
    /// those that agreed, were better, and were worse.
    pub compared: [u64; 3],
    /// Changes, the newest first.
    pub receipts: Vec<Receipt>,
    /// Number of older lines that are counted in `rows` only.
    pub left_out: u64,
}

/// Sums of one user in one partition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditRow {
    /// Unix user id.
    pub user_id: u32,
    /// Name of the user, where the host has one.
    pub user: String,
    /// Partition.
    pub partition: String,
    /// Starts, with changes and without.
    pub starts: u64,
    /// Starts on nodes that Phalanx chose.
    pub placed: u64,
    /// Waits with a hold.
    pub held: u64,
    /// Time of all holds, milliseconds.
    pub held_ms: u64,
    /// Time of holds in the wait with the longest, milliseconds.
    pub held_max_ms: u64,
    /// Starts with a changed place in the order.
    pub moved: u64,
}

impl AuditRow {
    /// Adds one line.
    pub fn add(&mut self, line: &Receipt) {
        match line.kind.as_str() {
            "placed" => self.placed += 1,
            "moved" => self.moved += 1,
            _ => {
                self.held += 1;
                self.held_ms += line.held_ms;
                self.held_max_ms = self.held_max_ms.max(line.held_ms);
            }
        }
    }
}

/// One change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Receipt {
    /// Time of the start, or of the first hold, unix milliseconds.
    pub time_ms: u64,
    /// `placed`: started on nodes that Phalanx chose; `held`: kept waiting; `moved`: had another
    /// place in the order of starts.
    pub kind: String,
    /// Job as users write it.
    pub job: String,
    /// Slurm's job id.
    pub job_id: u32,
    /// Unix user id.
    pub user_id: u32,
    /// Partition.
    pub partition: String,
    /// Id of the decision in the history.
    pub decision: Option<u64>,
    /// The method that chose the nodes, or the reason of the hold.
    pub reason: String,
    /// Nodes that were chosen.
    pub nodes: String,
    /// Number of nodes.
    pub node_count: u32,
    /// Leaf switches or blocks of several nodes.
    pub leaves: Option<u32>,
    /// Nodes that Slurm takes last: powered down, booting, to be rebooted, or outside FLEX.
    pub not_ready: Option<u32>,
    /// Time from each hold to the job's next question or its start, milliseconds.
    pub held_ms: u64,
    /// Addition to the job's site factor at its start.
    pub delta: i64,
}
