// SPDX-License-Identifier: GPL-3.0-or-later
//! `[collect]` and `[share]`: the data service, and splitting data by what it says.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use phalanx_core::collect::CONFIGURATION;

/// `[collect]`: the data service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CollectConfig {
    /// Whether there is one.
    pub enabled: bool,
    /// Path of the database.
    pub path: PathBuf,
    /// Directories in which registered commands may lie.
    pub command_dirs: Vec<PathBuf>,
    /// User that commands run as unless their registration names one.
    pub run_as: String,
    /// User ids whose agents may hand in values, besides administrators'.
    pub agent_uids: Vec<u32>,
    /// Periods after which a value is stale.
    pub stale_periods: u32,
    /// Least time between two past values of one node that are kept, seconds.
    pub history_step_s: u32,
    /// Age at which past values are deleted, hours.
    pub retention_hours: u32,
    /// Size at which the oldest past values are deleted, MiB.
    pub max_mb: u32,
}

impl Default for CollectConfig {
    fn default() -> Self {
        CollectConfig {
            enabled: true,
            path: "/var/lib/phalanx/collect.sqlite".into(),
            command_dirs: vec!["/etc/phalanx/collectors".into()],
            run_as: "nobody".to_owned(),
            agent_uids: Vec::new(),
            stale_periods: 3,
            history_step_s: 60,
            retention_hours: 24,
            max_mb: 512,
        }
    }
}

/// `[share]`: splitting data by what the nodes can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShareConfig {
    /// Datum that says what a node can do, or `configuration`.
    pub capability: String,
    /// What stands in for stale values.
    pub capability_fallback: String,
}

impl Default for ShareConfig {
    fn default() -> Self {
        let configuration = || CONFIGURATION.to_owned();
        ShareConfig { capability: configuration(), capability_fallback: configuration() }
    }
}
