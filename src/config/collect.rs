// SPDX-License-Identifier: GPL-3.0-or-later
//! `[collect]`: the data service.

use std::path::PathBuf;

use super::section::section;

section! {
    /// `[collect]`: the data service.
    CollectConfig {
        /// The data service runs.
        enabled: bool = true,
        /// Path of the database.
        path: PathBuf = "/var/lib/phalanx/collect.sqlite".into(),
        /// Directories in which registered commands may lie.
        command_dirs: Vec<PathBuf> = vec!["/etc/phalanx/collectors".into()],
        /// User that commands run as unless their registration names one.
        run_as: String = "nobody".to_owned(),
        /// User ids whose agents may hand in values, besides administrators'.
        agent_uids: Vec<u32> = Vec::new(),
        /// Periods after which a value is stale.
        stale_periods: u32 = 3,
        /// Least time between two past values of one node in the history, seconds.
        history_step_s: u32 = 60,
        /// Age at which past values are deleted, hours.
        retention_hours: u32 = 24,
        /// Size at which the oldest past values are deleted, MiB.
        max_mb: u32 = 512,
    }
}
