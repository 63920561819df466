// SPDX-License-Identifier: GPL-3.0-or-later
//! The answer to `phalanx report energy`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::Failure;
use crate::clock::{hour, zoned};
use crate::daemon::shared::Shared;
use crate::daemon::state::power::{Configured, Power};
use crate::history::RUNS_DAYS;
use phalanx_core::hostlist;
use phalanx_core::limits::HOSTLIST_NAMES_MAX;
use phalanx_core::number::as_f64;
use phalanx_core::snapshot::{Job, JobState, Node, Snapshot};
use phalanx_ffi::clock::now_ms;
use phalanx_ffi::locks::lock;
use phalanx_messages::rest::{EnergyShare, EnergyUse};
use phalanx_methods::learn::{NodeKey, node_class_of};
use phalanx_planner::energy::{PriceClock, Ran, Used, used};

/// Period of a report by default, in milliseconds.
const PERIOD_MS: u64 = 7 * 24 * 3600 * 1000;

/// Returns energy and cost by user and account since a time.
pub(super) fn report(shared: &Shared, since_ms: Option<u64>) -> Result<EnergyUse, Failure> {
    let time_ms = now_ms();
    let since_ms = since_ms.unwrap_or_else(|| time_ms.saturating_sub(PERIOD_MS));
    let (config, snapshot) = (shared.config(), shared.cluster.snapshot());
    let seconds = |ms: u64| i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    let hour_of = |at_s: i64| {
        let ms = u64::try_from(at_s).unwrap_or(0).saturating_mul(1000);
        hour(&zoned(ms))
    };
    // The first run was not before the oldest that is kept.
    let oldest_s = seconds(time_ms) - i64::from(RUNS_DAYS) * 86_400;
    let since_s = seconds(since_ms).max(oldest_s);
    let prices = config.energy_prices();
    let clock = PriceClock::new(&prices, since_s, seconds(time_ms), &hour_of);
    let mut sum = Sum { nodes: BTreeMap::new(), clock, out: EnergyUse::default() };
    if let Some(snapshot) = &snapshot {
        let classes = Configured::new(&config, snapshot);
        let power = lock(&shared.power);
        sum.nodes = nodes(snapshot, &classes, &power, &config.learn.node_class_by);
    }
    let visited = shared.reader.each_run_since(since_ms, |run| {
        let ran = Ran {
            start_s: run.start_s,
            end_s: run.end_s,
            elapsed_s: as_f64(run.elapsed_ms) / 1000.0,
            cpus: run.cpus,
            joules: run.joules,
        };
        sum.add(&run.user, &run.account, &run.nodes, &ran, false);
    });
    visited?;
    let jobs = snapshot.iter().flat_map(|s| &s.jobs);
    for job in jobs.filter(|job| job.state == JobState::Running && job.start_s > 0) {
        let ran = running(job, seconds(time_ms));
        sum.add(&job.user, &job.account, &job.nodes, &ran, true);
    }
    let mut out = EnergyUse { time_ms, since_ms, ..sum.out };
    for list in [&mut out.users, &mut out.accounts] {
        list.sort_by(|a, b| b.kwh.total_cmp(&a.kwh).then_with(|| a.name.cmp(&b.name)));
    }
    Ok(out)
}

/// Converts a job that runs now.
fn running(job: &Job, now_s: i64) -> Ran {
    let cpus = job.tres_alloc.split(',').find_map(|part| part.strip_prefix("cpu="));
    let elapsed_s = (now_s - job.start_s - job.suspended_s).max(0);
    Ran {
        start_s: job.start_s,
        end_s: now_s.max(job.start_s),
        elapsed_s: as_f64(elapsed_s.unsigned_abs()),
        cpus: cpus.and_then(|cpus| cpus.parse().ok()).unwrap_or(0),
        joules: None,
    }
}

/// Returns the CPUs of each node, and its power when full, if known.
fn nodes(
    snapshot: &Snapshot,
    classes: &Configured,
    power: &Power,
    by: &[NodeKey],
) -> BTreeMap<Arc<str>, (u64, Option<f64>)> {
    let of = |node: &Node| {
        let class = node_class_of(node, by);
        (Arc::clone(&node.name), (node.cpus, classes.full_w(power, &class)))
    };
    snapshot.named().map(|(_, node)| of(node)).collect()
}

struct Sum {
    nodes: BTreeMap<Arc<str>, (u64, Option<f64>)>,
    clock: PriceClock,
    out: EnergyUse,
}

impl Sum {
    fn add(&mut self, user: &str, account: &str, nodes: &str, ran: &Ran, runs_now: bool) {
        let names = hostlist::expand(nodes, HOSTLIST_NAMES_MAX).unwrap_or_default();
        let of = |name: &String| {
            let (cpus, watts) = self.nodes.get(name.as_str()).copied()?;
            Some((cpus, watts?))
        };
        let known: Option<Vec<(u64, f64)>> = names.iter().map(of).collect();
        let known = known.filter(|known| !known.is_empty());
        let Some(found) = used(ran, known.as_deref(), &self.clock) else { return };
        let out = &mut self.out;
        for (list, name) in [(&mut out.users, user), (&mut out.accounts, account)] {
            let at = list.iter().position(|row| row.name == name).unwrap_or_else(|| {
                list.push(EnergyShare { name: name.to_owned(), ..EnergyShare::default() });
                list.len() - 1
            });
            if let Some(row) = list.get_mut(at) {
                add(row, &found, runs_now);
            }
        }
        add(&mut out.total, &found, runs_now);
    }
}

fn add(row: &mut EnergyShare, found: &Used, runs_now: bool) {
    row.runs += 1;
    row.running += u64::from(runs_now);
    row.unknown += u64::from(!found.known);
    row.measured += u64::from(found.measured);
    row.kwh += found.kwh;
    row.cost += found.cost;
    row.cpu_hours += found.cpu_hours;
}
