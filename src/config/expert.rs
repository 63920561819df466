// SPDX-License-Identifier: GPL-3.0-or-later
//! `[expert]`: what tests and measurements set, and sites leave alone.

use super::section::section;

section! {
    /// `[expert]`: what tests and measurements set, and sites leave alone.
    ExpertConfig {
        /// The plugin's circuit breaker opens; else every limit is as wide as the plugin allows.
        breaker: bool = true,
    }
}
