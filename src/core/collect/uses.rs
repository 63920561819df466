// SPDX-License-Identifier: GPL-3.0-or-later
//! Which method goes by which datum.

use serde::{Deserialize, Serialize};

use super::Origin;

/// Which datum a method uses, and what instead when it is stale.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UseChange {
    /// Name of the datum, or `configuration`.
    pub name: String,
    /// What stands in for stale values; absent: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

/// One line of `GET /v1/use`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UseReport {
    /// What uses it, such as `share.capability`.
    pub key: String,
    /// Name of the datum.
    pub name: String,
    /// What stands in for stale values.
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

/// Where a node's value came from.
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

/// What a method takes for one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsedValue {
    /// Node.
    pub node: String,
    /// The number.
    pub value: f64,
    /// Where it came from.
    pub from: TakenFrom,
    /// Age of the node's own value, if it has one.
    pub age_ms: Option<u64>,
}

/// `GET /v1/use/{key}`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsedValues {
    /// What uses it.
    pub key: String,
    /// Name of the datum.
    pub name: String,
    /// What stands in for stale values.
    pub fallback: String,
    /// In the order asked for.
    pub values: Vec<UsedValue>,
}
