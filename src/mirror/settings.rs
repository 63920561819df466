// SPDX-License-Identifier: GPL-3.0-or-later
//! The link's settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_ffi::wire;

use crate::proofs::Proving;
use phalanx_config::{Config, LinkConfig, Mode};
use phalanx_methods::balance::NoImprovement;
use phalanx_planner::place::Tuning;

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
    /// What opens the plugin's circuit breaker.
    pub breaker: BreakerLimits,
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
    /// Seconds after which a job that could start is not held by a limit of the nodes' power,
    /// `u32::MAX` for ever; `None` where there is no such limit.
    pub power_hold_s: Option<u32>,
    /// Place jobs also on a release of Slurm on which nothing was tested.
    pub untested_release: bool,
}

/// What opens the plugin's circuit breaker, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerLimits {
    /// Time for which slurmctld may wait in vain, milliseconds a minute.
    pub late_budget_ms: u32,
    /// Time that the breaker stays open, milliseconds; twice as long when a
    /// limit is crossed anew.
    pub open_ms: u32,
    /// Share of the answers that Slurm may refuse, percent; 0 or 100: any.
    pub refused_pct: u32,
    /// Whole states a minute that are not sent for changes in slurmctld; 0: any number.
    pub syncs_a_minute: u32,
    /// Openings within the window that eject; 0: never.
    pub eject_openings: u32,
    /// The window, seconds.
    pub eject_window_s: u32,
}

impl Default for BreakerLimits {
    fn default() -> Self {
        Self {
            late_budget_ms: 1000,
            open_ms: 5000,
            refused_pct: 50,
            syncs_a_minute: 10,
            eject_openings: 10,
            eject_window_s: 3600,
        }
    }
}

impl BreakerLimits {
    fn of(link: &LinkConfig) -> Self {
        // The former key still makes room for so many misses in a row.
        let misses_ms = (link.breaker_misses * link.deadline_us).div_ceil(1000);
        Self {
            late_budget_ms: link.late_budget_ms.max(misses_ms),
            open_ms: link.breaker_open_ms,
            refused_pct: percent(link.refused_share),
            syncs_a_minute: link.syncs_a_minute,
            eject_openings: link.eject_openings,
            eject_window_s: link.eject_window_s,
        }
    }
}

/// A share from 0 to 1 in percent.
fn percent(share: f64) -> u32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    {
        (share.clamp(0.0, 1.0) * 100.0).round() as u32
    }
}

/// What the budget of held data jobs lets through in an hour beyond the budget, twice.
const HELD_ROOM_S: u64 = 600;

/// Releases of Slurm on which the overlay was tested.
const TESTED: [&str; 4] = ["22.05.", "24.11.", "25.11.", "26.05."];

/// Whether the overlay was tested on this version of Slurm.
pub fn is_tested(slurm_version: &str) -> bool {
    TESTED.iter().any(|release| slurm_version.starts_with(release))
}

impl Settings {
    /// Returns the settings under this configuration.
    pub fn of(config: &Config, generation: u64) -> Self {
        let modes = config.partition.iter().filter_map(|(name, p)| Some((name.clone(), p.mode?)));
        Self {
            generation,
            mode: config.mode,
            partition_modes: modes.collect(),
            deadline_us: config.link.deadline_us,
            breaker: BreakerLimits::of(&config.link),
            ask_will_run: config.link.ask_will_run,
            proving: Proving {
                test_only: config.link.prove_test_only && config.any_enforced(),
                will_run: config.link.prove_will_run && config.any_enforced(),
                no_fit: config.link.prove_no_fit && config.any_enforced(),
                verify_every: config.link.verify_every,
            },
            input_wait_ms: if config.data_jobs.enabled {
                config.data_jobs.wait_ms.into()
            } else {
                0
            },
            require_wait_ms: if config.data_jobs.enabled {
                u64::from(config.data_jobs.require_wait_s) * 1000
            } else {
                0
            },
            hold_budget_ms: u64::from(config.data_jobs.hold_budget_s) * 1000,
            power_hold_s: config.power_hold_s(),
            untested_release: config.link.untested_release,
            order: config.order.enabled && config.any_enforced(),
            config: config.text().into(),
            tuning: config.tuning(),
        }
    }

    /// Mode for jobs of a partition.
    pub fn mode_of(&self, partition: &str) -> Mode {
        self.partition_modes.get(partition).copied().unwrap_or(self.mode)
    }

    /// The settings that the plugin needs.
    pub fn welcome(&self) -> wire::Welcome {
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
            || self.power_hold_s.is_some()
            || self.tuning.gang_hold.is_some()
            || self.input_wait_ms.max(self.require_wait_ms) > 0;
        let hold = if may_hold { wire::PHX_W_MAY_HOLD } else { 0 };
        let flags = wire::PHX_W_ASK_RUN_NOW | will_run | hold | order | proofs;
        let BreakerLimits { late_budget_ms, open_ms, refused_pct, syncs_a_minute, .. } =
            self.breaker;
        wire::Welcome {
            deadline_us: self.deadline_us,
            breaker_open_ms: open_ms,
            late_budget_ms,
            refused_pct,
            syncs: syncs_a_minute,
            held_s: self.held_limit_s(),
            eject_openings: self.breaker.eject_openings,
            eject_window_s: self.breaker.eject_window_s,
            limit_hold_s: self.power_hold_s.unwrap_or(0),
            ..wire::Welcome::new(self.generation, flags)
        }
    }

    /// Seconds an hour for which the plugin lets one user's jobs be held in one partition. It is
    /// what the budget of data jobs comes to at most, with room; 0, no limit, where the
    /// administrator lets other methods hold jobs.
    fn held_limit_s(&self) -> u32 {
        let others = self.tuning.params.no_improvement == NoImprovement::Hold
            || self.tuning.preference_hold_ms.is_some()
            || self.tuning.gang_hold.is_some();
        if others || self.hold_budget_ms == 0 {
            return 0;
        }
        let s = 2 * self.hold_budget_ms / 1000 + HELD_ROOM_S;
        u32::try_from(s).unwrap_or(u32::MAX)
    }
}
