// SPDX-License-Identifier: GPL-3.0-or-later
//! Reports of the data service to its clients.

use serde::{Deserialize, Serialize};

use super::{Registration, RunReport, Value};

/// The latest value of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Node.
    pub node: String,
    /// The value.
    pub value: Value,
    /// Time by the source's clock, unix milliseconds.
    pub time_ms: u64,
    /// Time of arrival by the daemon's clock, unix milliseconds.
    pub received_ms: u64,
    /// Its age by monotonic clocks.
    pub age_ms: u64,
    /// Whether it is too old to be used.
    pub stale: bool,
}

/// `GET /v1/data/{name}`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataReport {
    /// Name of the datum.
    pub name: String,
    /// Period of its registration, if there is one.
    pub every_ms: Option<u64>,
    /// Age from which on a value is stale.
    pub stale_after_ms: u64,
    /// By node name.
    pub values: Vec<Row>,
}

/// One line of `GET /v1/data`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataName {
    /// Name of the datum.
    pub name: String,
    /// Nodes with a value.
    pub nodes: u64,
    /// Of these, usable ones.
    pub fresh: u64,
    /// Of these, too old ones.
    pub stale: u64,
    /// Largest age.
    pub oldest_age_ms: u64,
    /// Smallest age.
    pub newest_age_ms: u64,
}

/// `GET /v1/data`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataNames {
    /// By name.
    pub names: Vec<DataName>,
}

/// One past value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// By the source's clock, unix milliseconds.
    pub time_ms: u64,
    /// By the daemon's clock, unix milliseconds.
    pub received_ms: u64,
    /// The value.
    pub value: Value,
}

/// `GET /v1/data/{name}/{node}/history`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// Name of the datum.
    pub name: String,
    /// Node.
    pub node: String,
    /// Oldest first.
    pub points: Vec<Point>,
}

/// One registration in `GET /v1/collectors`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorReport {
    /// The registration.
    #[serde(flatten)]
    pub registration: Registration,
    /// All instances together.
    pub state: State,
    /// Numbers of instances by state.
    pub instances: Instances,
    /// The latest error of any node.
    pub last_error: Option<String>,
    /// One entry a node (`GET /v1/collectors/{name}` only), failing ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes_state: Vec<InstanceReport>,
}

/// One instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceReport {
    /// Node.
    pub node: String,
    /// Its state.
    pub state: State,
    /// Age of its value.
    pub age_ms: Option<u64>,
    /// Its last reported run, usually a failed one.
    pub run: Option<RunReport>,
}

/// `GET /v1/collectors`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorsReport {
    /// Generation of the assignments in force.
    pub generation: u64,
    /// By name.
    pub collectors: Vec<CollectorReport>,
}

/// One agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReport {
    /// Node.
    pub node: String,
    /// Its version.
    pub version: String,
    /// Age of its last sync.
    pub last_seen_ms: u64,
    /// Whether it counts as alive.
    pub connected: bool,
    /// Generation that it runs.
    pub generation: u64,
    /// Values received.
    pub values: u64,
    /// Values that it dropped for want of room.
    pub dropped: u64,
    /// Its values that were refused.
    pub refused: u64,
}

/// `GET /v1/agents`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentsReport {
    /// By node.
    pub agents: Vec<AgentReport>,
}

/// The service in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Registrations.
    pub registrations: u64,
    /// Agents that are alive.
    pub agents: u64,
    /// Latest values.
    pub values: u64,
    /// Of these, too old ones.
    pub stale: u64,
    /// Values written to the database since the start.
    pub written: u64,
    /// Failures of the database.
    pub errors: u64,
    /// Text of the last one, until a write succeeds.
    pub last_error: Option<String>,
    /// Times that the wall clock was set.
    pub clock_jumps: u64,
}

/// States of the instances of a registration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// No node has an agent for it, or none has run it yet.
    #[default]
    Waiting,
    /// Every instance gives values.
    Running,
    /// Some instance fails, or its value is stale.
    Failing,
    /// Switched off.
    Stopped,
}

/// Instances of one registration by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instances {
    /// Nodes that should run it and have an agent.
    pub assigned: u64,
    /// Nodes with a usable value.
    pub fresh: u64,
    /// Nodes whose value is too old.
    pub stale: u64,
    /// Nodes whose last run failed.
    pub failing: u64,
}
