// SPDX-License-Identifier: GPL-3.0-or-later
//! The context of a run: arguments, inputs, and counters between two runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use phalanx_messages::collect::Row;

/// Readings of counters that only grow, or wrap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Counts by a name that the reader chooses.
    pub(super) values: BTreeMap<String, u64>,
    pub(super) wraps: BTreeMap<String, u64>,
}

/// The arguments of a run.
#[derive(Debug)]
pub struct Context<'a> {
    /// Directory of `proc` and `sys`.
    pub root: &'a Path,
    /// Arguments of the registration.
    pub args: &'a [String],
    pub node: &'a str,
    pub inputs: &'a [(String, Vec<Row>)],
    /// Time at which the run must have ended.
    pub deadline: Instant,
}

/// The state that a registration's runs pass on to the next run.
#[derive(Debug, Default)]
pub struct Memory {
    pub(super) reading: Option<(Instant, Counters)>,
    /// Mean of the values read so far, and the time of the newest, unix milliseconds.
    pub(super) mean: Option<(f64, u64)>,
}

/// Reads a small file below the root as text.
pub(super) fn text(root: &Path, path: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(path)).map_err(|error| format!("/{path}: {error}"))
}
