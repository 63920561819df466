// SPDX-License-Identifier: GPL-3.0-or-later
//! The controller's configuration.

use super::table::{Record, Row, Table, accessors};
use crate::shim::pls_conf;

// SAFETY: pls_load_conf() and synth's load fill in one pls_conf.
unsafe impl Record for pls_conf {}

/// The configuration in force: a table of exactly one row, [`Conf::row`].
pub type Conf = Table<pls_conf>;
/// The row of [`Conf`].
pub type ConfRow<'a> = Row<'a, pls_conf>;

impl Conf {
    /// Returns the configuration; `None` never happens with a table that was loaded.
    pub fn row(&self) -> Option<ConfRow<'_>> {
        self.get(0)
    }
}

impl<'a> Row<'a, pls_conf> {
    accessors! {
        /// Version of slurmctld, e.g. `22.05.8`.
        version = text version;
        /// Name of the cluster.
        cluster_name = text cluster_name;
        /// User id of slurmctld.
        slurm_user_id = u32 slurm_user_id;
        /// `SelectTypeParameters`: `CR_*` of slurm.h.
        select_type_param = u32 select_type_param;
        /// `PriorityWeightAge`.
        priority_weight_age = u32 priority_weight_age;
        /// `PriorityWeightTRES`.
        priority_weight_tres = text priority_weight_tres;
        /// `PriorityMaxAge`, seconds.
        priority_max_age_s = u32 priority_max_age;
        /// `AccountingStorageType`.
        accounting_storage_type = text accounting_storage_type;
        /// `AcctGatherEnergyType`.
        acct_gather_energy_type = text acct_gather_energy_type;
        /// Value of `PrivateData`: `PRIVATE_DATA_*` of slurm.h, what is hidden from other users.
        private_data = u32 private_data;
    }

    /// Returns the weights of the factors of priorities but TRES.
    pub fn priority_weights(&self) -> [u32; 6] {
        let raw = self.raw;
        [
            raw.priority_weight_age,
            raw.priority_weight_assoc,
            raw.priority_weight_fs,
            raw.priority_weight_js,
            raw.priority_weight_part,
            raw.priority_weight_qos,
        ]
    }
}
