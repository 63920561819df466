// SPDX-License-Identifier: GPL-3.0-or-later
//! The link's settings.

use crate::link::{BreakerLimits, Mode as LinkMode, Proving, Settings};
use phalanx_config::{Config, DataMode, Mode, OrderBy, Proofs};

/// Proofs of which one is compared with Slurm's answer in full: what that costs is not seen.
const VERIFY_EVERY: u32 = 256;

/// The link's settings under this configuration.
pub fn link_settings(config: &Config, generation: u64) -> Settings {
    let modes = config.partition.iter().filter_map(|(name, p)| Some((name.clone(), p.mode?)));
    let is_on = config.data_jobs.mode != DataMode::Off;
    let proofs = if config.any_enforced() { config.link.proofs } else { Proofs::None };
    Settings {
        generation,
        mode: link_mode(config.mode),
        partition_modes: modes.map(|(name, mode)| (name, link_mode(mode))).collect(),
        deadline_us: config.link.deadline_us,
        breaker: if config.expert.breaker { BreakerLimits::default() } else { BreakerLimits::WIDE },
        ask_will_run: true,
        proving: Proving {
            test_only: proofs != Proofs::None,
            will_run: proofs != Proofs::None,
            no_fit: matches!(proofs, Proofs::All | Proofs::Checked),
            verify_every: if proofs == Proofs::Checked { 1 } else { VERIFY_EVERY },
        },
        input_wait_ms: if is_on { config.data_jobs.wait_ms.into() } else { 0 },
        require_wait_ms: if is_on { config.require_wait_s() * 1000 } else { 0 },
        hold_budget_ms: u64::from(config.data_jobs.hold_budget_s) * 1000,
        power_hold_s: config.power_hold_s(),
        untested_release: config.link.untested_release,
        order: config.order.by != OrderBy::Off && config.any_enforced(),
        config: text(config).into(),
        tuning: config.tuning(),
    }
}

fn link_mode(mode: Mode) -> LinkMode {
    match mode {
        Mode::Off => LinkMode::Off,
        Mode::Shadow => LinkMode::Shadow,
        Mode::Enforce => LinkMode::Enforce,
    }
}

/// A configuration as TOML; read again it is the same.
pub fn text(config: &Config) -> String {
    // Every value is a plain one, so this does not fail.
    toml::to_string(config).unwrap_or_default()
}
