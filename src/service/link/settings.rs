// SPDX-License-Identifier: GPL-3.0-or-later
//! The link's settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_ffi::wire;

use crate::link::proofs::Proving;
use phalanx_methods::balance::NoImprovement;
use phalanx_planner::place::Tuning;

/// Treatment of a partition's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// No decisions.
    Off,
    /// Decide and record; Slurm places.
    Shadow,
    /// Decide; the plugin tries it first.
    Enforce,
}

impl Mode {
    /// The name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Shadow => "shadow",
            Self::Enforce => "enforce",
        }
    }
}

/// The link's settings under one configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Counts accepted configurations.
    pub generation: u64,
    /// Mode of partitions without one of their own.
    pub mode: Mode,
    /// Mode by partition.
    pub partition_modes: BTreeMap<String, Mode>,
    /// Longest wait of the plugin, microseconds.
    pub deadline_us: u32,
    /// Misses in a row that open its breaker.
    pub breaker_misses: u32,
    /// Time that the breaker stays open, milliseconds.
    pub breaker_open_ms: u32,
    /// Whether planning calls are asked too.
    pub ask_will_run: bool,
    /// Which proofs are given.
    pub proving: Proving,
    /// Whether the order of starts is ours to change.
    pub order: bool,
    /// The configuration that this is of, as TOML; for recordings.
    pub config: Arc<str>,
    /// Parameters of the balance method.
    pub tuning: Tuning,
    /// Longest time that a job that declares an input is held back until it was looked up,
    /// milliseconds; 0: not at all.
    pub input_wait_ms: u64,
    /// Longest time that a job waits for the nodes of its input where it insists on them,
    /// milliseconds.
    pub require_wait_ms: u64,
    /// Longest time that the jobs of one user may hold one partition for their inputs,
    /// milliseconds; see [`phalanx_planner::preference::HoldBudget`].
    pub hold_budget_ms: u64,
    /// Place jobs also on a release of Slurm on which nothing was tested.
    pub untested_release: bool,
}

/// Releases of Slurm on which the overlay was tested.
const TESTED: [&str; 4] = ["22.05.", "24.11.", "25.11.", "26.05."];

/// Whether the overlay was tested on this version of Slurm.
pub(super) fn is_tested(slurm_version: &str) -> bool {
    TESTED.iter().any(|release| slurm_version.starts_with(release))
}

impl Settings {
    /// Mode for jobs of a partition.
    pub fn mode_of(&self, partition: &str) -> Mode {
        self.partition_modes.get(partition).copied().unwrap_or(self.mode)
    }

    /// The settings that the plugin needs.
    pub(super) fn welcome(&self) -> wire::Welcome {
        let will_run = if self.ask_will_run { wire::PHX_W_ASK_WILL_RUN } else { 0 };
        let proving = &self.proving;
        let proofs = [
            (proving.test_only, wire::PHX_W_PROVE_TEST_ONLY),
            (proving.will_run, wire::PHX_W_PROVE_WILL_RUN),
            (proving.no_fit, wire::PHX_W_PROVE_NO_FIT),
        ];
        let proofs = proofs.iter().filter(|(given, _)| *given).map(|(_, flag)| flag).sum::<u32>();
        let order = if self.order { wire::PHX_W_ORDER } else { 0 };
        let may_hold = self.tuning.params.no_improvement == NoImprovement::Hold
            || self.tuning.preference_hold_ms.is_some()
            || self.input_wait_ms.max(self.require_wait_ms) > 0;
        let hold = if may_hold { wire::PHX_W_MAY_HOLD } else { 0 };
        wire::Welcome::new(
            self.generation,
            self.deadline_us,
            self.breaker_misses,
            self.breaker_open_ms,
            wire::PHX_W_ASK_RUN_NOW | will_run | hold | order | proofs,
        )
    }
}
