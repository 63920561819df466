// SPDX-License-Identifier: GPL-3.0-or-later
//! The power of one node, and of which limits it is part.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use phalanx_core::NodeIdx;
use phalanx_core::number::{as_f64, whole};

/// Whether a node is switched on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerState {
    /// The node is on.
    #[default]
    On,
    /// Slurm has powered the node down; a job that is given the node boots it.
    Off,
}

impl PowerState {
    /// Reads a node's state as Slurm writes it. A node that boots, or is being powered
    /// down, draws.
    pub fn of(state: &str) -> Self {
        if state.split('+').any(|part| part == "POWERED_DOWN") { Self::Off } else { Self::On }
    }
}

/// Power of one node in milliwatts: whole numbers, so that sums do not depend on their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodePower {
    /// Power while nothing runs on the node.
    pub idle_mw: u64,
    /// Power while all CPUs of the node are in use.
    pub busy_mw: u64,
    /// Whether the node is switched on.
    pub state: PowerState,
}

impl NodePower {
    /// The draw with `used` of `total` CPUs in use.
    pub fn draw_mw(&self, used: u64, total: u64) -> u64 {
        let above = u128::from(self.above_idle_mw()) * u128::from(used.min(total));
        let share = above.div_ceil(u128::from(total.max(1)));
        let on = self.idle_mw.saturating_add(u64::try_from(share).unwrap_or(u64::MAX));
        match self.state {
            PowerState::Off if used == 0 => 0,
            _ => on,
        }
    }

    /// The draw of all its CPUs beyond that of an idle node.
    pub fn above_idle_mw(&self) -> u64 {
        self.busy_mw.saturating_sub(self.idle_mw)
    }

    /// The draw that a job adds by the start of the node alone.
    pub fn start_mw(&self) -> u64 {
        match self.state {
            PowerState::Off => self.idle_mw,
            PowerState::On => 0,
        }
    }
}

/// Watts as milliwatts.
pub fn milliwatts(watts: f64) -> u64 {
    whole((watts * 1000.0).round())
}

/// Milliwatts as watts.
pub fn watts(milliwatts: u64) -> f64 {
    as_f64(milliwatts) / 1000.0
}

/// A limit of what some nodes draw together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerCap {
    /// Partition whose nodes are limited; empty: all nodes.
    pub partition: Arc<str>,
    /// The limit.
    pub cap_mw: u64,
}

/// Nodes of the same power under the same limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerRow {
    /// Power of each node.
    pub power: NodePower,
    /// Bit n is set where the nodes are under limit n.
    pub caps: u32,
    /// The nodes.
    pub nodes: Vec<NodeIdx>,
}

/// Limits, and the power of the nodes under them. Nodes that are in no row draw nothing that
/// is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerTable {
    /// Limits, at most 32.
    pub caps: Vec<PowerCap>,
    /// Nodes grouped by power and limits.
    pub rows: Vec<PowerRow>,
    /// Tiers of the partitions by name: jobs of a higher one come first.
    #[serde(default)]
    pub tiers: BTreeMap<Arc<str>, u32>,
}

impl PowerTable {
    pub(super) fn tier(&self, partition: &str) -> u32 {
        self.tiers.get(partition).copied().unwrap_or(1)
    }
}
