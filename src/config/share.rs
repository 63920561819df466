// SPDX-License-Identifier: GPL-3.0-or-later
//! `[share]`: splitting data by the nodes' capabilities.

use super::section::section;
use phalanx_messages::collect::CONFIGURATION;

section! {
    /// `[share]`: splitting data by the nodes' capabilities.
    ShareConfig {
        /// Datum with the capability of each node, or `configuration`.
        capability: String = CONFIGURATION.to_owned(),
        /// Substitute for stale values.
        capability_fallback: String = CONFIGURATION.to_owned(),
    }
}
