// SPDX-License-Identifier: GPL-3.0-or-later
//! The link's settings.

use crate::link::{BreakerLimits, Mode as LinkMode, Proving, Settings};
use phalanx_config::{Config, LinkConfig, Mode};

/// The link's settings under this configuration.
pub fn link_settings(config: &Config, generation: u64) -> Settings {
    let modes = config.partition.iter().filter_map(|(name, p)| Some((name.clone(), p.mode?)));
    Settings {
        generation,
        mode: link_mode(config.mode),
        partition_modes: modes.map(|(name, mode)| (name, link_mode(mode))).collect(),
        deadline_us: config.link.deadline_us,
        breaker: breaker(&config.link),
        ask_will_run: config.link.ask_will_run,
        proving: Proving {
            test_only: config.link.prove_test_only && config.any_enforced(),
            will_run: config.link.prove_will_run && config.any_enforced(),
            no_fit: config.link.prove_no_fit && config.any_enforced(),
            verify_every: config.link.verify_every,
        },
        input_wait_ms: if config.data_jobs.enabled { config.data_jobs.wait_ms.into() } else { 0 },
        require_wait_ms: if config.data_jobs.enabled {
            u64::from(config.data_jobs.require_wait_s) * 1000
        } else {
            0
        },
        hold_budget_ms: u64::from(config.data_jobs.hold_budget_s) * 1000,
        power_hold_s: config.power_hold_s(),
        untested_release: config.link.untested_release,
        order: config.order.enabled && config.any_enforced(),
        config: text(config).into(),
        tuning: config.tuning(),
    }
}

fn breaker(link: &LinkConfig) -> BreakerLimits {
    BreakerLimits {
        late_budget_ms: link.late_budget_ms,
        open_ms: link.breaker_open_ms,
        refused_pct: percent(link.refused_share),
        syncs_a_minute: link.syncs_a_minute,
        eject_openings: link.eject_openings,
        eject_window_s: link.eject_window_s,
    }
}

/// A share from 0 to 1 in percent.
fn percent(share: f64) -> u32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    {
        (share.clamp(0.0, 1.0) * 100.0).round() as u32
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
