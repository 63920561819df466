// SPDX-License-Identifier: GPL-3.0-or-later
//! The link's settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_core::number::nearest_u32;
use phalanx_ffi::wire;

use crate::proofs::Proving;
use phalanx_config::{Config, DataMode, Draw, Mode, Proofs};
use phalanx_methods::balance::NoImprovement;
use phalanx_methods::learn::account_key;
use phalanx_planner::place::Tuning;
use phalanx_planner::preference::HoldLimits;

/// The link's settings under one configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Number of the accepted configuration.
    pub generation: u64,
    /// Mode of jobs whose partition and account have no mode of their own.
    pub mode: Mode,
    /// Mode by partition.
    pub partition_modes: BTreeMap<String, Mode>,
    /// Mode by the key of an account, which precedes that of the partition.
    pub account_modes: BTreeMap<u32, Mode>,
    /// Assignment of jobs to the control arm of a live comparison.
    pub draw: Option<Draw>,
    /// Longest wait of the plugin, microseconds.
    pub deadline_us: u32,
    /// Limits that open the plugin's circuit breaker.
    pub breaker: BreakerLimits,
    /// Whether the plugin asks about planning calls too.
    pub ask_will_run: bool,
    /// Proofs that are given.
    pub proving: Proving,
    /// Whether the order of starts may be changed.
    pub order: bool,
    /// The configuration behind the settings, as TOML; for recordings.
    pub config: Arc<str>,
    /// Parameters of the balance method.
    pub tuning: Tuning,
    /// Longest time that a job that declares an input is held back until the input was looked up,
    /// in milliseconds; 0: not at all.
    pub input_wait_ms: u64,
    /// Longest time that a job waits for the nodes of its input where it requires them, in
    /// milliseconds.
    pub require_wait_ms: u64,
    /// Longest time that the jobs of one user may hold one partition for their inputs, in
    /// milliseconds; see [`phalanx_planner::preference::HoldBudget`].
    pub hold_budget_ms: u64,
}

/// Limits that open the plugin's circuit breaker, and the time for which it stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerLimits {
    /// Time for which slurmctld may wait in vain, in milliseconds a minute.
    pub late_budget_ms: u32,
    /// Time that the breaker stays open, in milliseconds; doubled when a limit is crossed again.
    pub open_ms: u32,
    /// Share of the answers that Slurm may refuse, in percent; 0 or 100: any.
    pub refused_pct: u32,
    /// Full states a minute beyond those for changes in slurmctld; 0: any number.
    pub syncs_a_minute: u32,
    /// Openings within the window that eject the plugin; 0: never.
    pub eject_openings: u32,
    /// Length of the window, in seconds.
    pub eject_window_s: u32,
}

impl BreakerLimits {
    /// Limits that no daemon crosses, for tests on busy machines.
    pub const WIDE: Self = Self {
        late_budget_ms: LATE_BUDGET_MAX_MS,
        syncs_a_minute: 0,
        eject_openings: 0,
        ..Self::DEFAULT
    };

    /// Limits of a daemon that serves jobs.
    pub const DEFAULT: Self = Self {
        // Below two per cent of a minute.
        late_budget_ms: 1000,
        // A restart of the daemon fits in.
        open_ms: 5000,
        // Above it most asks are wasted.
        refused_pct: 50,
        // One takes milliseconds.
        syncs_a_minute: 10,
        // As the breaker stays open longer each time, half an hour in which each try failed.
        eject_openings: 10,
        eject_window_s: 3600,
    };
}

/// Greatest `late_budget_ms` that the plugin accepts, in milliseconds a minute.
const LATE_BUDGET_MAX_MS: u32 = 6000;

/// Seconds an hour that are allowed beyond twice the budget of held data jobs.
const HELD_ROOM_S: u64 = 600;

/// Series of Slurm whose operations and records the overlay was compared with, as `slots.h` and
/// docs/releases.md list them. Within a series each build checks its structures, and what Phalanx
/// does is compared with what Slurm would do until there is evidence.
const SERIES: [&str; 8] =
    ["22.05.", "23.02.", "23.11.", "24.05.", "24.11.", "25.05.", "25.11.", "26.05."];

/// Returns whether a version of Slurm is of a known series.
pub fn is_known(slurm_version: &str) -> bool {
    SERIES.iter().any(|series| slurm_version.starts_with(series))
}

impl Settings {
    /// Limits of holds.
    pub fn holds(&self) -> HoldLimits<'_> {
        HoldLimits {
            tuning: &self.tuning,
            input_ms: self.input_wait_ms,
            require_ms: self.require_wait_ms,
            budget_ms: self.hold_budget_ms,
        }
    }

    /// Returns the settings under a configuration.
    pub fn of(config: &Config, generation: u64) -> Self {
        let is_on = config.data_jobs.mode != DataMode::Off;
        let proofs = if config.any_enforced() { config.link.proofs } else { Proofs::None };
        let modes = config.partition_modes().map(|(name, mode)| (name.clone(), mode));
        let accounts = config.account.iter().map(|(name, mode)| (account_key(name), *mode));
        Self {
            generation,
            mode: config.mode,
            partition_modes: modes.collect(),
            account_modes: accounts.collect(),
            draw: None,
            deadline_us: config.link.deadline_us,
            breaker: match config.expert.breaker {
                true => BreakerLimits::DEFAULT,
                false => BreakerLimits::WIDE,
            },
            ask_will_run: true,
            proving: Proving {
                test_only: proofs != Proofs::None,
                will_run: proofs != Proofs::None,
                no_fit: proofs == Proofs::All,
            },
            input_wait_ms: if is_on { config.data_jobs.wait_ms.into() } else { 0 },
            require_wait_ms: if is_on { config.require_wait_s() * 1000 } else { 0 },
            hold_budget_ms: u64::from(config.data_jobs.hold_budget_s) * 1000,
            order: config.orders() && config.any_enforced(),
            config: config.text().into(),
            tuning: config.tuning(),
        }
    }

    /// Returns the mode for jobs of a partition and an account, see [`account_key`].
    pub fn mode_of(&self, partition: &str, account_key: u32) -> Mode {
        let of_partition = || self.partition_modes.get(partition);
        self.account_modes.get(&account_key).or_else(of_partition).copied().unwrap_or(self.mode)
    }

    /// Returns whether a partition or an account has the mode.
    fn has_mode(&self, wanted: impl Fn(Mode) -> bool) -> bool {
        let own = self.partition_modes.values().chain(self.account_modes.values());
        std::iter::once(&self.mode).chain(own).any(|mode| wanted(*mode))
    }

    /// Returns whether an answer may change anything.
    pub fn enforces(&self) -> bool {
        self.has_mode(|mode| mode == Mode::Enforce)
    }

    /// Returns the settings that the plugin needs. With `watch`, where no answer may change
    /// anything, the plugin reports what Slurm started, and waits for nothing.
    pub fn welcome(&self, watch: bool) -> wire::Welcome {
        // Where all is off nothing is to be asked: a daemon that hangs then costs nothing.
        let asks = self.has_mode(|mode| mode != Mode::Off);
        let plans = asks && self.ask_will_run && !watch;
        let will_run = if plans { wire::PHX_W_ASK_WILL_RUN } else { 0 };
        let run_now = match (asks, watch) {
            (false, _) => 0,
            (true, false) => wire::PHX_W_ASK_RUN_NOW,
            (true, true) => wire::PHX_W_ASK_RUN_NOW | wire::PHX_W_WATCH,
        };
        let proving = &self.proving;
        let proofs = [
            (proving.test_only, wire::PHX_W_PROVE_TEST_ONLY),
            (proving.will_run, wire::PHX_W_PROVE_WILL_RUN),
            (proving.no_fit, wire::PHX_W_PROVE_NO_FIT),
        ];
        let given = proofs.iter().filter(|(given, _)| *given && !watch);
        let proofs = given.map(|(_, flag)| flag).sum::<u32>();
        let order = if self.order { wire::PHX_W_ORDER } else { 0 };
        let may_hold = self.tuning.params.no_improvement == NoImprovement::Hold
            || self.tuning.preference_hold_ms.or(self.tuning.brief_hold_ms).is_some()
            || self.tuning.gang_hold.is_some()
            || self.input_wait_ms.max(self.require_wait_ms) > 0;
        let hold = if may_hold { wire::PHX_W_MAY_HOLD } else { 0 };
        let flags = run_now | will_run | hold | order | proofs;
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
            ..wire::Welcome::new(self.generation, flags)
        }
    }

    /// Returns the seconds an hour for which the plugin lets one user's jobs be held in one
    /// partition: the most that the budget of data jobs allows, with room; 0, no limit, where the
    /// administrator lets other methods hold jobs.
    fn held_limit_s(&self) -> u32 {
        let others = self.tuning.params.no_improvement == NoImprovement::Hold
            || self.tuning.preference_hold_ms.is_some()
            || self.tuning.gang_hold.is_some();
        if others || self.hold_budget_ms == 0 {
            return 0;
        }
        let s = 2 * self.hold_budget_ms / 1000 + HELD_ROOM_S;
        nearest_u32(s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: where nothing is enforced no answer is a proof, and where all is off none is asked
    /// for.
    #[test]
    fn only_what_enforces_proves() {
        let flags = |mode| {
            let config = Config { mode, ..Config::default() };
            Settings::of(&config, 1).welcome(false).flags
        };
        let proofs =
            wire::PHX_W_PROVE_TEST_ONLY | wire::PHX_W_PROVE_WILL_RUN | wire::PHX_W_PROVE_NO_FIT;
        assert_ne!(flags(Mode::Enforce) & proofs, 0);
        assert_eq!(flags(Mode::Shadow) & proofs, 0);
        let asks = wire::PHX_W_ASK_RUN_NOW | wire::PHX_W_ASK_WILL_RUN;
        assert_eq!(flags(Mode::Shadow) & asks, asks);
        assert_eq!(flags(Mode::Off) & (proofs | asks), 0);
    }
}
