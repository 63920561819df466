// SPDX-License-Identifier: GPL-3.0-or-later
//! Rows of the small tables: partitions, reservations, licences.

use super::table::{Record, Row, Table, accessors};
use crate::shim::{PLS_PARTITION_SCHED, pls_license, pls_partition, pls_reservation};

// SAFETY: pls_load_partitions() and synth's load fill in pls_partition.
unsafe impl Record for pls_partition {}
// SAFETY: pls_load_reservations() and synth's load fill in pls_reservation.
unsafe impl Record for pls_reservation {}
// SAFETY: pls_load_licenses() and synth's load fill in pls_license.
unsafe impl Record for pls_license {}

/// The partition table.
pub type Partitions = Table<pls_partition>;
/// A partition.
pub type PartitionRow<'a> = Row<'a, pls_partition>;
/// The reservation table.
pub type Reservations = Table<pls_reservation>;
/// A reservation.
pub type ReservationRow<'a> = Row<'a, pls_reservation>;
/// The licence table.
pub type Licenses = Table<pls_license>;
/// A licence.
pub type LicenseRow<'a> = Row<'a, pls_license>;

impl<'a> Row<'a, pls_partition> {
    accessors! {
        /// Name.
        name = text name;
        /// Nodes, as a host list.
        nodes = text nodes;
        /// Tier: jobs of a higher tier always come first.
        priority_tier = u32 priority_tier;
        /// Fewest nodes of a job.
        nodes_min = u32 min_nodes;
        /// Most nodes of a job.
        nodes_max = limit32 max_nodes;
        /// Longest time limit, minutes.
        time_max_min = limit32 max_time;
        /// Billing weights, e.g. `CPU=1.0,GRES/gpu=8`.
        billing_weights = text billing_weights;
        /// Topology that the partition names; `None`: the default one, always so before 25.05.
        topology = text topology;
    }

    /// Whether the partition's jobs may start.
    pub fn starts_jobs(&self) -> bool {
        self.raw.state_up & PLS_PARTITION_SCHED != 0
    }
}

impl<'a> Row<'a, pls_reservation> {
    accessors! {
        /// Name.
        name = text name;
        /// Nodes, as a host list.
        nodes = text nodes;
        /// Start, unix seconds.
        start_s = time start_time;
        /// End, unix seconds.
        end_s = time end_time;
        /// Number of cores.
        cores = option32 core_cnt;
    }
}

impl<'a> Row<'a, pls_license> {
    accessors! {
        /// Name.
        name = text name;
        /// Total number of the licence.
        total = u32 total;
        /// Number held by jobs.
        in_use = u32 in_use;
    }
}
