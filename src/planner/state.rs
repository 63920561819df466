// SPDX-License-Identifier: GPL-3.0-or-later
//! State from which a simulation of the live cluster starts, in its stored form.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::cluster::RunningJob;
use phalanx_core::snapshot::Snapshot;
use phalanx_core::topology::Topology;

/// The live cluster at one moment.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LiveState"))]
pub struct State {
    /// Time of the state, unix milliseconds.
    pub time_ms: u64,
    /// Configuration in force, in the form of the file.
    pub config: serde_json::Value,
    /// Whether memory is a consumable resource.
    pub memory_tracked: bool,
    /// Nodes and jobs by the last poll.
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub snapshot: Arc<Snapshot>,
    /// Allocations of running jobs, exact where a plugin reports them; node indexes
    /// are the snapshot's.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<serde_json::Value>"))]
    pub running: Vec<RunningJob>,
    /// Leaf switches or blocks by the snapshot's node indexes, where a plugin reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub topology: Option<Topology>,
    /// Learned runtimes by job id, seconds; absent where nothing is known.
    pub expected_s: BTreeMap<u32, f64>,
}
