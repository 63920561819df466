// SPDX-License-Identifier: GPL-3.0-or-later
//! The datum that each method uses.

use serde::{Deserialize, Serialize};

use super::Origin;

/// The datum that a method uses, and a replacement for stale values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UseChange {
    /// Name of the datum, or `configuration`.
    pub name: String,
    /// Replacement for stale values; absent: the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

/// One line of `GET /v1/use`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UseReport {
    /// Key of the use, such as `share.capability`.
    pub key: String,
    /// Name of the datum.
    pub name: String,
    /// Replacement for stale values.
    pub fallback: String,
    /// Origin of the choice: configuration or REST.
    pub origin: Origin,
    /// Nodes with a usable value.
    pub fresh: u64,
    /// Nodes whose value is too old.
    pub stale: u64,
}

/// `GET /v1/use`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsesReport {
    /// Uses by key.
    pub uses: Vec<UseReport>,
}

/// Origin of a node's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TakenFrom {
    /// The node's own fresh value.
    #[default]
    Data,
    /// The fallback, scaled to the other nodes' fresh values.
    Scaled,
    /// The fallback.
    Fallback,
}

/// The value that a method takes for one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsedValue {
    /// Node.
    pub node: String,
    /// The number.
    pub value: f64,
    /// Origin of the number.
    pub from: TakenFrom,
    /// Age of the node's own value, if the node has one, in milliseconds.
    pub age_ms: Option<u64>,
}

/// `GET /v1/use/{key}`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsedValues {
    /// Key of the use, such as `share.capability`.
    pub key: String,
    /// Name of the datum.
    pub name: String,
    /// Replacement for stale values.
    pub fallback: String,
    /// Values in the order of the request.
    pub values: Vec<UsedValue>,
}
