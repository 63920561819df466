// SPDX-License-Identifier: GPL-3.0-or-later
//! What a configuration means to the parts that do not read it themselves.

use std::collections::BTreeMap;

use crate::config::{Config, HistoryConfig, Mode};
use crate::history::Limits;
use crate::link::{Mode as LinkMode, Settings};

/// The link's settings under this configuration.
pub(super) fn link_settings(config: &Config, generation: u64) -> Settings {
    let modes = config.partition.iter().filter_map(|(name, p)| Some((name.clone(), p.mode?)));
    Settings {
        generation,
        mode: link_mode(config.mode),
        partition_modes: modes.map(|(name, mode)| (name, link_mode(mode))).collect(),
        deadline_us: config.link.deadline_us,
        breaker_misses: config.link.breaker_misses,
        breaker_open_ms: config.link.breaker_open_ms,
        ask_will_run: config.link.ask_will_run,
        input_wait_ms: if config.data.enabled { config.data.wait_ms.into() } else { 0 },
        require_wait_ms: if config.data.enabled {
            u64::from(config.data.require_wait_s) * 1000
        } else {
            0
        },
        order: config.order.enabled && config.any_enforced(),
        tuning: config.tuning(),
    }
}

/// Modes of the partitions that have one of their own, as words.
pub(super) fn partition_modes(config: &Config) -> BTreeMap<String, String> {
    let own = config.partition.iter().filter_map(|(name, p)| Some((name.clone(), p.mode?)));
    own.map(|(name, mode)| (name, mode.as_str().to_owned())).collect()
}

fn link_mode(mode: Mode) -> LinkMode {
    match mode {
        Mode::Off => LinkMode::Off,
        Mode::Shadow => LinkMode::Shadow,
        Mode::Enforce => LinkMode::Enforce,
    }
}

/// Bounds of what the history keeps.
pub(super) fn history_limits(config: &HistoryConfig) -> Limits {
    Limits {
        retention_days: config.retention_days,
        runs_days: config.runs_days,
        max_mb: config.max_mb,
    }
}
