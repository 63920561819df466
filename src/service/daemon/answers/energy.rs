// SPDX-License-Identifier: GPL-3.0-or-later
//! The answer to `phalanx report energy`.

use std::collections::BTreeMap;

use crate::clock::{hour, zoned};
use crate::daemon::methods::bags::BagKnowledge;
use crate::daemon::shared::Shared;
use crate::daemon::state::power::Configured;
use phalanx_core::number::seconds_of;
use phalanx_ffi::clock::now_ms;
use phalanx_ffi::locks::lock;
use phalanx_messages::rest::{EnergyReport, EnergyRow, NodePower};
use phalanx_planner::bag::{Knowledge, WattsFrom};

/// Returns estimated power and energy, with the sources of the figures.
pub(super) fn report(shared: &Shared) -> EnergyReport {
    let config = shared.config();
    let time_ms = now_ms();
    let snapshot = shared.cluster.snapshot();
    let speeds = shared.learned.speeds();
    let power = lock(&shared.power);
    let known = BagKnowledge {
        speeds: &speeds,
        config: &config,
        classes: snapshot
            .as_ref()
            .map_or_else(Configured::default, |s| Configured::new(&config, s)),
        power: &power,
        now_s: seconds_of(time_ms),
    };
    let mut nodes: BTreeMap<String, NodePower> = BTreeMap::new();
    for (_, node) in snapshot.iter().flat_map(|s| s.named()) {
        let class = known.node_class(node);
        let row = nodes.entry(class.clone()).or_insert_with(|| {
            let busy = known.node_watts(&class);
            NodePower {
                class: class.clone(),
                nodes: 0,
                busy_w: busy.map(|(watts, _)| watts),
                idle_w: known.idle_watts(&class),
                from: busy.map(|(_, from)| from),
            }
        });
        row.nodes += 1;
    }
    let mut rows = Vec::new();
    for job in speeds.classes() {
        for (class, _) in job.node_classes() {
            let seconds = speeds.etc(job.name(), &class, known.now_s);
            let measured = speeds.watts(job.name(), &class, known.now_s);
            rows.push(EnergyRow {
                job_class: job.name().to_string(),
                nodes: class.to_string(),
                seconds: seconds.mean,
                runs: seconds.count,
                watts: (measured.count > 0.0).then_some(measured.mean),
                measured: measured.count,
                from: match measured.count > 0.0 {
                    true => Some(WattsFrom::Accounting),
                    false => known.node_watts(&class).map(|(_, from)| from),
                },
            });
        }
    }
    EnergyReport {
        time_ms,
        energy_price_kwh: config.energy_prices().at(hour(&zoned(time_ms))),
        task_price: config.bag.task_price,
        nodes: nodes.into_values().collect(),
        rows,
    }
}
