// SPDX-License-Identifier: GPL-3.0-or-later
//! `[topology]`: switches and blocks.

use super::section::section;
pub use phalanx_planner::place::TopologyPolicy;

section! {
    /// `[topology]`: switches and blocks.
    TopologyConfig {
        /// What they count for.
        policy: TopologyPolicy = TopologyPolicy::Pack,
        /// Least gain in speed or locality for one leaf more; 1: none is enough.
        leaf_cost: f64 = 1.0,
    }
}
