// SPDX-License-Identifier: GPL-3.0-or-later
//! Topology options of a job.

use serde::{Deserialize, Serialize};

/// A job's options that topology plugins read.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(default)]
pub struct TopologyAsk {
    /// Position of the topology of the job's partition in
    /// [`Table::topologies`](crate::snapshot::Table::topologies); `None`: the default one.
    pub index: Option<u16>,
    /// `--switches`: most leaf switches; 0 if not given.
    pub switches: u32,
    /// Seconds until the job accepts more switches; `u32::MAX`: never.
    pub switch_wait_left_s: u32,
    /// `--segment`: nodes that must share a block; 0 if not given.
    pub segment: u32,
    /// `--spread-segments`: one segment to a block.
    pub spread_segments: bool,
    /// `--consolidate-segments`: all segments in one aggregated block.
    pub consolidate_segments: bool,
    /// `--contiguous`.
    pub contiguous: bool,
    /// Least loaded nodes first: `CR_LLN` or the partition's `LLN`.
    pub lln: bool,
    /// Whether the job has one CPU under `pack_serial_at_end`: Slurm takes the table's last nodes.
    pub pack_serial: bool,
    /// Several sizes, `-N 2,4,8`.
    pub sizes: bool,
    /// `--spread-job`.
    pub spread: bool,
    /// `--exclusive=topo`, or the partition's `ExclusiveTopo`.
    pub exclusive: bool,
    /// `TopologyParam=TopoOptional`: a tree is looked at with `--switches` only.
    pub optional: bool,
    /// `TopologyParam=dragonfly`.
    pub dragonfly: bool,
}

impl TopologyAsk {
    /// Whether no option is given, so that recordings leave them out.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Most leaf switches that the job accepts at present; `None`: any number.
    #[must_use]
    pub fn switches_now(&self) -> Option<u32> {
        (self.switches > 0 && self.switch_wait_left_s > 0).then_some(self.switches)
    }
}
