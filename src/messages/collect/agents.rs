// SPDX-License-Identifier: GPL-3.0-or-later
//! Messages between an agent and the daemon.

use serde::{Deserialize, Serialize};

use super::{Put, Refused, Registration};

/// One run of an instance that did not simply give a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RunReport {
    /// Name of the registration.
    pub name: String,
    /// End of the run by the agent's clock, unix milliseconds.
    pub time_ms: u64,
    /// Age of the run's end when the report was sent, in milliseconds.
    pub age_ms: u64,
    /// Duration of the run, in milliseconds.
    pub took_ms: u64,
    /// Exit status, if the run ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// Signal that ended the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Reason for which there is no value; absent after a good run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// End of the run's standard error.
    pub stderr: String,
    /// Number of consecutive failures.
    pub failures: u64,
    /// Pause before the next try beyond the period, in milliseconds.
    pub backoff_ms: u64,
}

/// `POST /v1/agents/{node}/sync`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SyncRequest {
    /// Generation of the assignments that the agent runs; 0: none.
    pub generation: u64,
    /// Longest time to hold the answer while the generation stays the same, in milliseconds.
    pub wait_ms: u64,
    /// The agent's version.
    pub version: String,
    /// Values dropped for lack of room since the agent started.
    pub dropped: u64,
    /// Values since the last sync.
    pub values: Vec<Put>,
    /// Runs that failed, and first good ones after a failure.
    pub runs: Vec<RunReport>,
}

/// Answer to an agent's sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SyncReply {
    /// Generation of the assignments in force.
    pub generation: u64,
    /// The daemon's clock, unix milliseconds.
    pub now_ms: u64,
    /// Values that were not stored.
    pub refused: Vec<Refused>,
    /// All registrations that the node runs; null when the generation is the agent's own.
    pub assignments: Option<Vec<Registration>>,
}
