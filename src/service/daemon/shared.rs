// SPDX-License-Identifier: GPL-3.0-or-later
//! The sum of the data that the daemon's threads share. # T

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::api::Counters;
use crate::collect::{DataService, Now};
use crate::daemon::methods::gangs::Breeding;
use crate::daemon::settings::settings_of_link;
use crate::daemon::state::cluster::Cluster;
use crate::daemon::state::configuration::Configuration;
use crate::daemon::state::decision_memory::DecisionMemory;
use crate::daemon::state::energy::EnergyRequests;
use crate::daemon::state::inputs::DataInputs;
use crate::daemon::state::learned::Learned;
use crate::daemon::state::order::StartOrder;
use crate::daemon::state::plans::Plans;
use crate::daemon::state::power::Power;
use crate::daemon::threads::collect;
use crate::daemon::watchdog::Heartbeats;
use crate::history::{HistoryReader, HistorySender, Limits};
use crate::link::Responder;
use crate::recordings;
use phalanx_config::{Config, logging};
use phalanx_core::snapshot::Snapshot;
use phalanx_messages::rest::ReloadReport;
use phalanx_planner::usage::NodeUsage;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) started: Instant,
    pub(super) configuration: Configuration,
    pub(super) cluster: Cluster,
    pub(super) responder: Arc<Responder>,
    pub(super) plans: Plans,
    pub(super) order: StartOrder,
    pub(super) decisions: Mutex<DecisionMemory>,
    pub(super) history: HistorySender,
    pub(super) reader: HistoryReader,
    pub(super) data_service: DataService,
    pub(super) learned: Learned,
    pub(super) energy: EnergyRequests,
    pub(super) inputs: DataInputs,
    /// Power of nodes as it was measured.
    pub(super) power: Arc<Mutex<Power>>,
    /// Plans of gangs that were found between rounds.
    pub(super) gangs: Arc<Breeding>,
    pub(super) recording: Arc<recordings::Shared>,
    /// Counts of the control socket and the TCP listener.
    pub(super) control: Arc<Counters>,
    pub(super) heartbeats: Heartbeats,
}

impl Shared {
    pub(super) fn new(
        path: &Path,
        config: &Arc<Config>,
        responder: Arc<Responder>,
        history: HistorySender,
        recording: Arc<recordings::Shared>,
        control: Arc<Counters>,
    ) -> Self {
        Self {
            started: Instant::now(),
            configuration: Configuration::new(path, Arc::clone(config)),
            cluster: Cluster::default(),
            responder,
            plans: Plans::default(),
            order: StartOrder::default(),
            decisions: Mutex::default(),
            reader: HistoryReader::new(&config.history.path),
            history,
            data_service: collect::start(config),
            learned: Learned::default(),
            energy: EnergyRequests::default(),
            inputs: DataInputs::with_maps(config.history.path.with_file_name("maps")),
            power: Arc::default(),
            gangs: Arc::default(),
            recording,
            control,
            heartbeats: Heartbeats::default(),
        }
    }

    pub(super) fn config(&self) -> Arc<Config> {
        self.configuration.get()
    }

    /// Usage in the snapshot's node order, and whether a plugin reports it, so that it is exact.
    pub(super) fn usages(&self, snapshot: &Snapshot) -> (Vec<NodeUsage>, bool) {
        match self.responder.copy_usages() {
            Some((table, usages)) if snapshot.is_numbered_by(&table) => (usages, true),
            _ => (NodeUsage::of_snapshot(snapshot), false),
        }
    }

    /// Reads the configuration file and puts it in force, or reports the reason why not.
    pub(super) fn reload(&self) -> ReloadReport {
        self.configuration.reload(|new, generation| {
            self.responder
                .set_settings(settings_of_link(new, generation))
                .map_err(|error| format!("balance: {error}"))?;
            logging::set_level(&new.log);
            self.history.shared().set_limits(Limits::new(new.history.retention_days));
            self.data_service.collect.set_settings(collect::settings(new), Now::read());
            Ok(())
        })
    }
}
