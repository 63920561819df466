// SPDX-License-Identifier: GPL-3.0-or-later
//! The datum that each method uses.

use serde::{Deserialize, Serialize};

use super::Origin;

/// The datum that a method uses, and its replacement when that is stale.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct UseReport {
    /// Its user, such as `share.capability`.
    pub key: String,
    /// Name of the datum.
    pub name: String,
    /// Replacement for stale values.
    pub fallback: String,
    /// Configuration or REST.
    pub origin: Origin,
    /// Nodes with a usable value.
    pub fresh: u64,
    /// Nodes whose value is too old.
    pub stale: u64,
}

/// `GET /v1/use`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsesReport {
    /// By key.
    pub uses: Vec<UseReport>,
}

/// Origin of a node's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TakenFrom {
    /// Its own fresh value.
    #[default]
    Data,
    /// The fallback, scaled to the other nodes' fresh values.
    Scaled,
    /// The fallback.
    Fallback,
}

/// The value that a method takes for one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsedValue {
    /// Node.
    pub node: String,
    /// The number.
    pub value: f64,
    /// Its origin.
    pub from: TakenFrom,
    /// Age of the node's own value, if it has one.
    pub age_ms: Option<u64>,
}

/// `GET /v1/use/{key}`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsedValues {
    /// Its user.
    pub key: String,
    /// Name of the datum.
    pub name: String,
    /// Replacement for stale values.
    pub fallback: String,
    /// In the order asked for.
    pub values: Vec<UsedValue>,
}
