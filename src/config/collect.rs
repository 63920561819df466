// SPDX-License-Identifier: GPL-3.0-or-later
//! `[collect]`: the data service.

use std::path::PathBuf;

use super::section::section;

section! {
    /// `[collect]`: the data service.
    CollectConfig {
        /// Directories in which registered commands may lie.
        command_dirs: Vec<PathBuf> = vec!["/etc/phalanx/collectors".into()],
        /// User ids whose agents may hand in values, besides administrators'.
        agent_uids: Vec<u32> = Vec::new(),
    }
}
