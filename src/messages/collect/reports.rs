// SPDX-License-Identifier: GPL-3.0-or-later
//! Reports of the data service to its clients.

use serde::{Deserialize, Serialize};

use super::{Registration, RunReport, Value};

/// The latest value of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// Node.
    pub node: String,
    /// The value.
    pub value: Value,
    /// Time by the source's clock, unix milliseconds.
    pub time_ms: u64,
    /// Time of arrival by the daemon's clock, unix milliseconds.
    pub received_ms: u64,
    /// Age of the value by monotonic clocks, in milliseconds.
    pub age_ms: u64,
    /// Whether the value is too old to be used.
    pub stale: bool,
}

/// `GET /v1/data/{name}`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DataReport {
    /// Name of the datum.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = super::NAME_PATTERN)))]
    pub name: String,
    /// Period of the datum's registration, if there is one, in milliseconds.
    pub every_ms: Option<u64>,
    /// Age from which on a value is stale, in milliseconds.
    pub stale_after_ms: u64,
    /// Values by node name.
    pub values: Vec<Row>,
}

/// One line of `GET /v1/data`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DataName {
    /// Name of the datum.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = super::NAME_PATTERN)))]
    pub name: String,
    /// Nodes with a value.
    pub nodes: u64,
    /// Nodes with a usable value.
    pub fresh: u64,
    /// Nodes whose value is too old.
    pub stale: u64,
    /// Largest age, in milliseconds.
    pub oldest_age_ms: u64,
    /// Smallest age, in milliseconds.
    pub newest_age_ms: u64,
}

/// `GET /v1/data`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DataNames {
    /// Names of the data, in order.
    pub names: Vec<DataName>,
}

/// One past value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PastPoint"))]
pub struct Point {
    /// Time by the source's clock, unix milliseconds.
    pub time_ms: u64,
    /// Time of arrival by the daemon's clock, unix milliseconds.
    pub received_ms: u64,
    /// The value.
    pub value: Value,
}

/// `GET /v1/data/{name}/{node}/history`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Past {
    /// Name of the datum.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = super::NAME_PATTERN)))]
    pub name: String,
    /// Node.
    pub node: String,
    /// Past values, oldest first.
    pub points: Vec<Point>,
}

/// One registration in `GET /v1/collectors`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectorReport {
    /// The registration.
    #[serde(flatten)]
    pub registration: Registration,
    /// State of all instances together.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InstanceReport {
    /// Node.
    pub node: String,
    /// State of the instance.
    pub state: State,
    /// Age of the instance's value, in milliseconds.
    pub age_ms: Option<u64>,
    /// Last reported run of the instance, usually a failed one.
    pub run: Option<RunReport>,
}

/// `GET /v1/collectors`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectorsReport {
    /// Generation of the assignments in force.
    pub generation: u64,
    /// Registrations by name.
    pub collectors: Vec<CollectorReport>,
}

/// One agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentReport {
    /// Node.
    pub node: String,
    /// Version of the agent.
    pub version: String,
    /// Age of the agent's last sync, in milliseconds.
    pub last_seen_ms: u64,
    /// Whether the agent counts as alive.
    pub connected: bool,
    /// Generation of the assignments that the agent runs.
    pub generation: u64,
    /// Values received from the agent.
    pub values: u64,
    /// Values that the agent dropped for lack of room.
    pub dropped: u64,
    /// Values of the agent that were refused.
    pub refused: u64,
}

/// `GET /v1/agents`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentsReport {
    /// Agents by node.
    pub agents: Vec<AgentReport>,
}

/// Totals of the data service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Totals {
    /// Registrations.
    pub registrations: u64,
    /// Agents that are alive.
    pub agents: u64,
    /// Latest values.
    pub values: u64,
    /// Latest values that are too old.
    pub stale: u64,
    /// Values written to the database since the start.
    pub written: u64,
    /// Failures of the database.
    pub errors: u64,
    /// Text of the last failure, until a write succeeds.
    pub last_error: Option<String>,
    /// Times that the wall clock was set.
    pub clock_jumps: u64,
}

/// States of the instances of a registration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// No node has an agent for the registration, or none has run it yet.
    #[default]
    Waiting,
    /// Every instance gives values.
    Running,
    /// Some instance fails, or its value is stale.
    Failing,
    /// The registration is switched off.
    Stopped,
}

/// Instances of one registration by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Instances {
    /// Nodes that should run the registration and have an agent.
    pub assigned: u64,
    /// Nodes with a usable value.
    pub fresh: u64,
    /// Nodes whose value is too old.
    pub stale: u64,
    /// Nodes whose last run failed.
    pub failing: u64,
}
