// SPDX-License-Identifier: GPL-3.0-or-later
//! `[topology]`: switches and blocks.

use super::section::section;
pub use phalanx_planner::place::TopologyPolicy;

section! {
    /// `[topology]`: switches and blocks.
    TopologyConfig {
        /// Policy by which leaf switches and blocks affect placement.
        policy: TopologyPolicy = TopologyPolicy::Pack,
        /// Least gain in speed or locality that justifies one more leaf; 1: no gain does.
        leaf_cost: f64 = 1.0,
    }
}
