// SPDX-License-Identifier: GPL-3.0-or-later
//! Rows of the small tables: partitions, reservations, licences.

use super::table::{Record, Row, Table, accessors};
use super::values::{self, OverSubscribe};
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
        /// Flags: `PART_FLAG_*` of slurm.h.
        flags = u32 flags;
        /// Tier: jobs of a higher tier always come first.
        priority_tier = u32 priority_tier;
        /// Factor of the priority of the partition's jobs.
        priority_job_factor = u32 priority_job_factor;
        /// Least nodes of a job.
        nodes_min = u32 min_nodes;
        /// Most nodes of a job.
        nodes_max = limit32 max_nodes;
        /// Number of nodes.
        total_nodes = u32 total_nodes;
        /// Number of CPUs.
        total_cpus = u32 total_cpus;
        /// Time limit of a job that names none, minutes.
        time_default_min = limit32 default_time;
        /// Longest time limit, minutes.
        time_max_min = limit32 max_time;
        /// Notice before preemption, seconds.
        grace_s = u32 grace_time;
        /// Most CPUs of a job on a node.
        cpus_per_node_max = limit32 max_cpus_per_node;
        /// Preemption mode: `PREEMPT_MODE_*` of slurm.h.
        preempt_mode = u32 preempt_mode;
        /// Accounts that may use the partition; `None` for all.
        allow_accounts = text allow_accounts;
        /// Accounts that may not use the partition.
        deny_accounts = text deny_accounts;
        /// Groups that may use the partition; `None` for all.
        allow_groups = text allow_groups;
        /// Qualities of service that may use the partition; `None` for all.
        allow_qos = text allow_qos;
        /// Qualities of service that may not use the partition.
        deny_qos = text deny_qos;
        /// Quality of service whose limits apply to the partition.
        qos = text qos;
        /// Billing weights, e.g. `CPU=1.0,GRES/gpu=8`.
        billing_weights = text billing_weights;
        /// Trackable resources.
        tres = text tres_fmt_str;
        /// Partition that takes the jobs when this one is down.
        alternate = text alternate;
        /// Topology that the partition names; `None`: the default one, as always before 25.05.
        topology = text topology;
    }

    /// Whether the partition's jobs may start.
    pub fn starts_jobs(&self) -> bool {
        self.raw.state_up & PLS_PARTITION_SCHED != 0
    }

    /// Returns whether jobs share resources.
    pub fn over_subscribe(&self) -> OverSubscribe {
        values::over_subscribe(self.raw.max_share)
    }
}

impl<'a> Row<'a, pls_reservation> {
    accessors! {
        /// Name.
        name = text name;
        /// Nodes, as a host list.
        nodes = text nodes;
        /// Partition.
        partition = text partition;
        /// Start, unix seconds.
        start_s = time start_time;
        /// End, unix seconds.
        end_s = time end_time;
        /// Flags: `RESERVE_FLAG_*` of slurm.h.
        flags = u64 flags;
        /// Number of cores.
        cores = option32 core_cnt;
        /// Number of nodes.
        node_count = option32 node_cnt;
        /// Users that may use the reservation.
        users = text users;
        /// Accounts that may use the reservation.
        accounts = text accounts;
        /// Groups that may use the reservation.
        groups = text groups;
        /// Features of the reservation's nodes.
        features = text features;
        /// Licences.
        licenses = text licenses;
        /// Trackable resources, e.g. `cpu=16`.
        tres = text tres;
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
        /// Number that is free.
        available = u32 available;
        /// Number held by reservations.
        reserved = u32 reserved;
        /// Whether the licence is defined in the accounting database, not in slurm.conf.
        is_remote = flag remote;
    }
}
