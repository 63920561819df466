// SPDX-License-Identifier: GPL-3.0-or-later
//! `[expert]`: settings for tests and measurements that sites leave alone.

use super::section::section;

section! {
    /// `[expert]`: settings for tests and measurements that sites leave alone.
    ExpertConfig {
        /// Whether the plugin's circuit breaker opens; else its limits are as wide as possible.
        breaker: bool = true,
    }
}
