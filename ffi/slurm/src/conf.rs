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
        /// Path of slurm.conf.
        slurm_conf = text slurm_conf;
        /// User id of slurmctld.
        slurm_user_id = u32 slurm_user_id;
        /// `SelectType`, e.g. `select/cons_tres`.
        select_type = text select_type;
        /// `SelectTypeParameters`: `CR_*` of slurm.h.
        select_type_param = u32 select_type_param;
        /// `SchedulerType`.
        sched_type = text sched_type;
        /// `SchedulerParameters` as written; see [`ConfRow::sched_param`].
        sched_params = text sched_params;
        /// `PluginDir`.
        plugin_dir = text plugin_dir;
        /// `PriorityType`.
        priority_type = text priority_type;
        /// Value of `PriorityFlags`: `PRIORITY_FLAGS_*` of slurm.h.
        priority_flags = u32 priority_flags;
        /// `PriorityWeightAge`.
        priority_weight_age = u32 priority_weight_age;
        /// `PriorityWeightTRES`.
        priority_weight_tres = text priority_weight_tres;
        /// `PriorityMaxAge`, seconds.
        priority_max_age_s = u32 priority_max_age;
        /// `PreemptType`.
        preempt_type = text preempt_type;
        /// Value of `PreemptMode`: `PREEMPT_MODE_*` of slurm.h.
        preempt_mode = u32 preempt_mode;
        /// `PrioritySiteFactorPlugin`.
        site_factor_plugin = text site_factor_plugin;
        /// `TopologyPlugin`.
        topology_plugin = text topology_plugin;
        /// `TopologyParam`.
        topology_param = text topology_param;
        /// `SlurmctldParameters`.
        slurmctld_params = text slurmctld_params;
        /// `StateSaveLocation`.
        state_save_location = text state_save_location;
        /// `GresTypes`.
        gres_types = text gres_plugins;
        /// `Licenses`.
        licenses = text licenses;
        /// `JobSubmitPlugins`.
        job_submit_plugins = text job_submit_plugins;
        /// `AccountingStorageType`.
        accounting_storage_type = text accounting_storage_type;
        /// `AccountingStorageTRES`.
        accounting_storage_tres = text accounting_storage_tres;
        /// `AcctGatherEnergyType`.
        acct_gather_energy_type = text acct_gather_energy_type;
        /// Value of `PrivateData`: `PRIVATE_DATA_*` of slurm.h, what is hidden from other users.
        private_data = u32 private_data;
        /// `MinJobAge`, seconds.
        min_job_age_s = u32 min_job_age;
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

    /// Returns an option of `SchedulerParameters`: `Some("30")` for `bf_interval=30`, `Some("")`
    /// for one without a value such as `bf_continue`, `None` if it is not set. Names are compared
    /// without case, as Slurm does.
    pub fn sched_param(&self, name: &str) -> Option<&'a str> {
        self.sched_params()?.split(',').map(str::trim).find_map(|option| {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}
