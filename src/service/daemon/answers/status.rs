// SPDX-License-Identifier: GPL-3.0-or-later
//! The answer to `phalanx status`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use phalanx_ffi::wire::{Proof, Reason, Stats};

use crate::api::Counters;
use crate::collect::Now;
use crate::daemon::shared::Shared;
use crate::daemon::threads::collect;
use phalanx_ffi::locks::lock;
use phalanx_messages::rest::{
    CallShares, CallTime, CollectStatus, ConfigStatus, ControlStatus, HistoryStatus, LinkStatus,
    OptionRefusals, PluginStatus, ProofStatus, Quantiles, Status,
};
use phalanx_mirror::{Histogram, LinkView, OptionCount, upper_edge_quantiles};

impl Shared {
    /// Returns share and begin of a live comparison.
    fn comparison(&self) -> Option<(f64, i64)> {
        self.responder.settings().draw.as_ref().map(|draw| (draw.share, draw.since_s))
    }

    pub(super) fn status_report(&self) -> Status {
        let (view, queue) = (self.responder.view(), self.responder.order.report());
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: self.started.elapsed().as_secs(),
            config: ConfigStatus { compare: self.comparison(), ..self.configuration.status() },
            slurm: self.cluster.status(),
            plugin: PluginStatus {
                shadow_only: self.responder.is_shadow_only(),
                ..plugin_status(&view)
            },
            run_now: shares(&view.run_now),
            will_run: shares(&view.will_run),
            proofs: self.proofs(&view),
            not_asked: view.not_asked.clone(),
            refused: refused(&view),
            link: self.link_status(&view),
            control: self.control_status(),
            planner: self.plans.status(),
            order: self.order.status(self.config().orders(), queue.as_ref()),
            history: self.history_status(),
            collect: self.collect_status(),
            datasets: self.inputs.dataset_counts(),
            recording: self.recording.status(),
            gate: self.gate_connections(),
        }
    }

    fn gate_connections(&self) -> Option<u64> {
        let config = self.config();
        let needed = config.hdfs.has_files() || !config.control.listen.is_empty();
        needed.then(|| self.inputs.gate.connections() as u64)
    }

    fn collect_status(&self) -> CollectStatus {
        let (collect, config, now) = (&self.data_service.collect, self.config(), Now::read());
        CollectStatus {
            enabled: true,
            path: collect::path(&config).display().to_string(),
            listen: config.control.listen.clone(),
            generation: collect.generation(),
            totals: collect.totals(now),
            uses: collect.uses(now).uses,
        }
    }

    fn proofs(&self, view: &LinkView) -> BTreeMap<String, ProofStatus> {
        let proving = self.responder.settings().proving;
        let enabled = [proving.test_only, proving.will_run, proving.no_fit];
        let kinds = [Proof::TestOnly, Proof::WillRun, Proof::NoFit];
        let each = kinds.iter().zip(view.proofs.iter().zip(enabled));
        let status = |counts: &ProofStatus, enabled| ProofStatus { enabled, ..counts.clone() };
        each.map(|(kind, (counts, on))| (kind.to_string(), status(counts, on))).collect()
    }

    fn link_status(&self, view: &LinkView) -> LinkStatus {
        LinkStatus {
            socket: self.config().link.socket.display().to_string(),
            answer_ns: quantiles(&view.answer_ns),
            ..view.link.clone()
        }
    }

    fn control_status(&self) -> ControlStatus {
        let Counters { connections_refused, forbidden, no_room, slow_readers, .. } = &*self.control;
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ControlStatus {
            connections_refused: value(connections_refused),
            forbidden: value(forbidden),
            no_room: value(no_room),
            slow_readers: value(slow_readers),
            listen_error: lock(&self.control.listen_error).clone(),
        }
    }

    fn history_status(&self) -> HistoryStatus {
        let path = self.config().history.path.display().to_string();
        let shared = self.history.shared();
        HistoryStatus {
            enabled: true,
            path,
            written: shared.written.load(Ordering::Relaxed),
            dropped: shared.not_written(),
            errors: shared.errors.load(Ordering::Relaxed),
            last_error: shared.last_error(),
        }
    }
}

fn plugin_status(view: &LinkView) -> PluginStatus {
    let mut status = PluginStatus {
        connected: view.connected,
        synced: view.synced,
        overlay_version: view.plugin.overlay_version.clone(),
        slurm_version: view.plugin.slurm_version.clone(),
        pid: view.plugin.pid,
        ..PluginStatus::default()
    };
    if let Some(counters) = &view.counters {
        fill_counters(&mut status, &counters.0);
    }
    status
}

const MODES: [&str; 4] = ["run_now", "test_only", "will_run", "other"];

/// Causes that open the plugin's breaker, by the protocol's numbers.
const BREACHES: [&str; 6] = ["", "late", "refused", "syncs", "held", "refuted"];

fn fill_counters(status: &mut PluginStatus, stats: &Stats) {
    let by_mode = |counts: &[u64; 4]| -> BTreeMap<String, u64> {
        MODES.iter().zip(counts).map(|(mode, n)| ((*mode).to_owned(), *n)).collect()
    };
    let mean =
        |calls: u64, ns: u64| CallTime { calls, mean_ns: ns.checked_div(calls).unwrap_or(0) };
    status.calls = by_mode(&stats.calls);
    status.asks = stats.asks;
    status.answers = stats.answers;
    status.narrowed = stats.narrowed;
    status.late_answers = stats.late_answers;
    status.events = stats.events;
    status.resyncs = stats.resyncs;
    status.connects = stats.connects;
    status.breaker_opens = stats.breaker_opens;
    status.breaker = match stats.breaker_open {
        0 => "closed",
        1 => "open",
        2 => "half-open",
        _ => "ejected",
    }
    .to_owned();
    let cause = usize::try_from(stats.breach).ok().and_then(|breach| BREACHES.get(breach));
    status.breaker_cause = cause.copied().unwrap_or_default().to_owned();
    let breaches = BREACHES.iter().zip(&stats.breaches).skip(1);
    status.breaches = breaches.map(|(cause, n)| ((*cause).to_owned(), *n)).collect();
    status.ejections = stats.ejections;
    status.late_ns = stats.late_ns;
    status.held_calls = stats.held_calls;
    status.held_startable = stats.held_startable;
    status.held_sampled = stats.held_sampled;
    status.held_ns = stats.held_ns;
    status.compared = stats.compared;
    // Reason 0 counts what was placed as answered: no reason at all.
    for (number, count) in (0u16..).zip(&stats.reasons).skip(1).filter(|(_, n)| **n > 0) {
        let name = Reason::from_raw(number).map_or("unknown", Reason::as_str);
        *status.reasons.entry(name.to_owned()).or_insert(0) += count;
    }
    status.ask_ns = quantiles(&Histogram::from_counts(stats.ask_ns_hist));
    status.skip_ns = quantiles(&Histogram::from_counts(stats.skip_ns_hist));
    status.narrowed_stock = mean(stats.narrowed_calls, stats.narrowed_ns);
    let full = MODES.iter().zip(stats.full_calls.iter().zip(&stats.full_ns));
    status.full_stock = full.map(|(m, (c, ns))| ((*m).to_owned(), mean(*c, *ns))).collect();
}

fn quantiles(histogram: &Histogram) -> Quantiles {
    let (count, p50, p99, max) = upper_edge_quantiles(histogram);
    Quantiles { count, mean: histogram.mean(), p50, p99, max, buckets: histogram.buckets() }
}

fn shares(shares: &CallShares) -> CallShares {
    // The plugin reports its calls once a second.
    CallShares { calls: shares.calls.max(shares.asked), ..shares.clone() }
}

fn refused(view: &LinkView) -> Vec<OptionRefusals> {
    let option = |(option, count): (&String, &OptionCount)| OptionRefusals {
        option: option.clone(),
        answered: count.answered,
        refused: count.refused,
        left_s: count.left_until_ms.saturating_sub(view.now_ms).div_ceil(1000),
    };
    view.options.iter().map(option).collect()
}
