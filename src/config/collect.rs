// SPDX-License-Identifier: GPL-3.0-or-later
//! `[collect]`: the data service.

use std::path::PathBuf;

use super::section::section;

section! {
    /// `[collect]`: the data service.
    CollectConfig {
        /// Directories that registered commands must lie in.
        command_dirs: Vec<PathBuf> = vec!["/etc/phalanx/collectors".into()],
        /// User ids whose agents may send values, besides administrators'.
        agent_uids: Vec<u32> = Vec::new(),
    }
}
