// SPDX-License-Identifier: GPL-3.0-or-later
//! The metrics: for `GET /metrics` as OpenMetrics text, for a file of node exporter's textfile
//! collector in the form that it reads.
//!
//! Counters restart at 0 with the daemon, those of the plugin with slurmctld. Durations are in
//! seconds, memory in bytes, shares from 0 to 1. No label names a user or a job: everybody may
//! read the text, also where slurm.conf hides jobs from users. `metrics.txt` has the families.
//!
//! # Source
//! OpenMetrics 1.0; Prometheus' text format 0.0.4.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use phalanx_messages::collect::{AgentsReport, CollectorsReport, DataNames, State};
use phalanx_messages::rest::heat::stranded;
use phalanx_messages::rest::{
    CallShares, DimensionReport, NodesReport, PlanReport, ProofStatus, Quantiles, Status,
};

pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The reports behind the text; a report that is `None` is left out.
#[derive(Debug, Default)]
pub struct Sources {
    pub status: Status,
    pub nodes: Option<NodesReport>,
    pub plan: Option<PlanReport>,
    pub collectors: CollectorsReport,
    pub data: DataNames,
    pub agents: AgentsReport,
    pub queue: Queue,
}

/// Upper edges of the buckets of waits, in seconds.
pub const WAIT_EDGES_S: [i64; 12] =
    [1, 10, 60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400, 259_200, 604_800];

/// Waits in buckets; the last bucket has the waits longer than every edge.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Waits {
    pub counts: [u64; WAIT_EDGES_S.len() + 1],
    pub sum_s: i64,
}

impl Waits {
    pub fn add(&mut self, wait_s: i64) {
        let at = WAIT_EDGES_S.partition_point(|edge_s| *edge_s < wait_s);
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
        self.sum_s = self.sum_s.saturating_add(wait_s);
    }
}

/// The queue by partition, and the resources that its jobs left unused.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    /// Jobs by partition and state.
    pub jobs: BTreeMap<(String, &'static str), u64>,
    /// Waits of the jobs that started since phalanxd did, by partition.
    pub waits: BTreeMap<String, Waits>,
    /// Stranded GPUs, times seconds.
    pub stranded_gpu_s: f64,
}

/// Upper edges of latency buckets, in nanoseconds.
const EDGES_NS: [u64; 19] = {
    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;
    #[rustfmt::skip]
    let edges = [
        US, 5 * US / 2, 5 * US, 10 * US, 25 * US, 50 * US, 100 * US, 250 * US, 500 * US,
        MS, 2 * MS, 5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS, 1000 * MS,
    ];
    edges
};

/// Returns the metrics in OpenMetrics text, with its end mark.
pub fn text(sources: &Sources) -> String {
    written(Text::default(), sources) + "# EOF\n"
}

/// Returns the text in Prometheus' older format, which knows neither units nor sets of states.
pub fn textfile(sources: &Sources) -> String {
    written(Text { is_plain: true, ..Text::default() }, sources)
}

fn written(mut text: Text, sources: &Sources) -> String {
    let status = &sources.status;
    about(&mut text, status);
    placement(&mut text, status);
    text.histogram("phalanx_answer_seconds", &status.link.answer_ns);
    text.histogram("phalanx_plugin_ask_seconds", &status.plugin.ask_ns);
    text.histogram("phalanx_plugin_skip_seconds", &status.plugin.skip_ns);
    source(&mut text, status);
    if let Some(plan) = &sources.plan {
        let gaps = plan.methods.iter().filter_map(|method| Some(([&method.method], method.gap?)));
        text.many("phalanx_plan_gap_ratio", gaps.filter(|(_, gap)| gap.is_finite()));
        let jobs = plan.methods.iter().map(|method| ([&method.method], method.jobs));
        text.many("phalanx_plan_method_jobs", jobs);
    }
    if let Some(nodes) = &sources.nodes {
        resources(&mut text, nodes);
    }
    collected(&mut text, sources);
    datasets(&mut text, status);
    queue(&mut text, &sources.queue);
    text.out
}

/// Families of metrics, one a line: name, kind, unit, labels, help.
const FAMILIES: &str = include_str!("metrics.txt");

#[derive(Default)]
struct Text {
    out: String,
    /// Whether it is Prometheus' older format.
    is_plain: bool,
}

impl Text {
    /// Writes the lines before a metric's samples; returns what follows its name, and its labels.
    fn family(&mut self, name: &str) -> (&'static str, &'static str) {
        let row = FAMILIES.lines().find_map(|row| row.strip_prefix(name)?.strip_prefix('|'));
        debug_assert!(row.is_some(), "{name} is not in metrics.txt");
        let mut parts = row.unwrap_or_default().splitn(4, '|');
        let [kind, unit, labels, help] = [(); 4].map(|()| parts.next().unwrap_or_default());
        let end = if kind == "counter" { "_total" } else { "" };
        let (kind, of_sample) = match kind {
            "counter" if self.is_plain => (kind, end),
            "info" if self.is_plain => ("gauge", "_info"),
            "stateset" if self.is_plain => ("gauge", ""),
            _ => (kind, ""),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, "# TYPE {name}{of_sample} {kind}");
        if !unit.is_empty() && !self.is_plain {
            let _ = writeln!(self.out, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.out, "# HELP {name}{of_sample} {help}");
        (end, labels)
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.out.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.out, "{before}{label}=\"{value}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.out, "{end} {value}");
    }

    /// Writes a family of one sample.
    fn one(&mut self, name: &str, value: impl Display) {
        self.many(name, [([""; 0], value)]);
    }

    /// Writes a family of samples, one for each pair of labels and value.
    fn many<const N: usize, L: AsRef<str>, V: Display>(
        &mut self,
        name: &str,
        samples: impl IntoIterator<Item = ([L; N], V)>,
    ) {
        let (end, labels) = self.family(name);
        for (values, value) in samples {
            let named =
                labels.split(',').zip(&values).map(|(label, value)| (label, value.as_ref()));
            self.sample(&format!("{name}{end}"), &named.collect::<Vec<_>>(), value);
        }
    }

    /// Writes a set of states, one of which holds.
    fn states<const N: usize>(&mut self, name: &str, states: [&str; N], now: &str) {
        self.many(name, states.map(|state| ([state], flag(state == now))));
    }

    /// Writes a histogram; a sample counts at the upper edge of its fine bucket.
    fn histogram(&mut self, name: &str, of: &Quantiles) {
        self.family(name);
        let bucket = format!("{name}_bucket");
        for edge in EDGES_NS {
            let below = of.buckets.iter().filter(|(upper, _)| *upper <= edge);
            let count: u64 = below.map(|(_, count)| count).sum();
            self.sample(&bucket, &[("le", &seconds(edge))], count);
        }
        let count: u64 = of.buckets.iter().map(|(_, count)| count).sum();
        self.sample(&bucket, &[("le", "+Inf")], count);
        self.sample(&format!("{name}_count"), &[], count);
        let sum = of.mean as f64 * count as f64 / 1e9;
        self.sample(&format!("{name}_sum"), &[], sum);
    }
}

/// Returns an edge in OpenMetrics' canonical form: a number with a point.
fn seconds(ns: u64) -> String {
    let text = (ns as f64 / 1e9).to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}

fn flag(on: bool) -> u8 {
    u8::from(on)
}

fn millis(ms: u64) -> f64 {
    ms as f64 / 1e3
}

fn about(text: &mut Text, status: &Status) {
    text.family("phalanx_build");
    text.sample("phalanx_build_info", &[("version", &status.version)], 1);
    text.one("phalanx_uptime_seconds", status.uptime_s);
    text.one("phalanx_config_generation", status.config.generation);
    text.one("phalanx_config_reload_refused", flag(status.config.last_error.is_some()));
    text.states("phalanx_mode", ["off", "shadow", "enforce"], &status.config.mode);
    text.one("phalanx_history_written", status.history.written);
    text.one("phalanx_history_dropped", status.history.dropped);
    text.one("phalanx_history_errors", status.history.errors);
}

fn placement(text: &mut Text, status: &Status) {
    let modes = [("run_now", &status.run_now), ("will_run", &status.will_run)];
    let mut each = |name, pick: fn(&CallShares) -> u64| {
        text.many(name, modes.map(|(mode, shares)| ([mode], pick(shares))));
    };
    each("phalanx_calls", |shares| shares.calls);
    each("phalanx_asks", |shares| shares.asked);
    each("phalanx_answers", |shares| shares.answered);
    each("phalanx_narrowed", |shares| shares.narrowed);
    let reasons = modes.iter().flat_map(|(mode, shares)| {
        shares.fallen_back.iter().map(|(reason, count)| ([*mode, &**reason], count))
    });
    text.many("phalanx_fallbacks", reasons);
    proofs(text, status);
    let options = modes.iter().flat_map(|(mode, shares)| {
        shares.options.iter().map(|(option, count)| ([*mode, &**option], count))
    });
    text.many("phalanx_left_options", options);
    let named = |of: &BTreeMap<String, u64>| -> Vec<([String; 1], u64)> {
        of.iter().map(|(name, count)| ([name.clone()], *count)).collect()
    };
    text.many("phalanx_not_asked", status.not_asked.iter().map(|(name, n)| ([name], n)));
    let known = || status.refused.iter().map(|row| ([row.option.as_str()], row));
    text.many("phalanx_option_answers", known().map(|(name, row)| (name, row.answered)));
    text.many("phalanx_option_refused", known().map(|(name, row)| (name, row.refused)));
    text.many("phalanx_option_left", known().map(|(name, row)| (name, flag(row.left_s > 0))));
    let plugin = &status.plugin;
    text.one("phalanx_plugin_connected", flag(plugin.connected));
    text.one("phalanx_plugin_synced", flag(plugin.synced));
    let states = ["closed", "half-open", "open", "ejected"];
    text.states("phalanx_breaker", states, &plugin.breaker);
    text.many("phalanx_breaker_breaches", named(&plugin.breaches));
    text.one("phalanx_plugin_ejections", plugin.ejections);
    text.one("phalanx_held_calls", plugin.held_calls);
    let compared = ["agreed", "better", "worse"].into_iter().zip(plugin.compared);
    text.many("phalanx_compared", compared.map(|(result, count)| ([result], count)));
    text.one("phalanx_held_sampled", plugin.held_sampled);
    text.one("phalanx_held_startable", plugin.held_startable);
    text.one("phalanx_breaker_opens", plugin.breaker_opens);
    text.one("phalanx_plugin_late_answers", plugin.late_answers);
    text.one("phalanx_plugin_resyncs", plugin.resyncs);
    text.many("phalanx_plugin_calls", named(&plugin.calls));
    text.many("phalanx_plugin_reasons", named(&plugin.reasons));
    let (link, control) = (&status.link, &status.control);
    text.one("phalanx_link_events", link.events);
    text.one("phalanx_link_refused", link.refused);
    text.one("phalanx_link_protocol_errors", link.protocol_errors);
    text.one("phalanx_differing_nodes", link.differing_nodes);
    text.one("phalanx_resyncs_asked", link.resyncs_asked);
    text.one("phalanx_holds_refused", link.holds_refused);
    let reasons = [
        (["connections"], control.connections_refused),
        (["forbidden"], control.forbidden),
        (["no_room"], control.no_room),
        (["slow_readers"], control.slow_readers),
    ];
    text.many("phalanx_control_refused", reasons);
    text.one("phalanx_listen_failed", flag(control.listen_error.is_some()));
}

fn proofs(text: &mut Text, status: &Status) {
    let mut each = |name, pick: fn(&ProofStatus) -> u64| {
        let all = status.proofs.iter();
        text.many(name, all.map(|(kind, proof)| ([kind.as_str()], pick(proof))));
    };
    each("phalanx_proof_asks", |proof| proof.asked);
    each("phalanx_proofs", |proof| proof.proved);
    each("phalanx_proofs_accepted", |proof| proof.accepted);
    each("phalanx_proofs_rejected", |proof| proof.rejected);
    each("phalanx_proofs_refuted", |proof| proof.refuted);
    each("phalanx_proofs_off", |proof| u64::from(proof.off));
}

fn source(text: &mut Text, status: &Status) {
    let (slurm, planner) = (&status.slurm, &status.planner);
    text.one("phalanx_slurm_reachable", flag(slurm.reachable));
    if let Some(age) = slurm.snapshot_age_ms {
        text.one("phalanx_snapshot_age_seconds", millis(age));
    }
    text.one("phalanx_snapshots_refused", slurm.snapshots_refused);
    let jobs = [(["pending"], slurm.jobs_pending), (["running"], slurm.jobs_running)];
    text.many("phalanx_jobs", jobs);
    text.one("phalanx_nodes", slurm.nodes);
    text.one("phalanx_plans", planner.plans);
    text.one("phalanx_plans_refused", planner.refused);
    text.one("phalanx_plan_seconds", millis(planner.last_plan_ms));
    if let Some(age) = planner.plan_age_ms {
        text.one("phalanx_plan_age_seconds", millis(age));
    }
}

fn resources(text: &mut Text, nodes: &NodesReport) {
    let stranded = stranded(nodes);
    let pairs = || nodes.dimensions.iter().zip(&stranded).map(|(of, by)| ([&of.name], of, *by));
    // Memory is in MiB in the report.
    let unit = |of: &DimensionReport| if of.unit == "MiB" { 1_048_576.0 } else { 1.0 };
    let total = pairs().map(|(name, of, _)| (name, of.total * unit(of)));
    text.many("phalanx_resource_total_amount", total);
    let used = pairs().map(|(name, of, _)| (name, of.used * unit(of)));
    text.many("phalanx_resource_used_amount", used);
    let stranded = pairs().map(|(name, of, stranded)| (name, stranded * unit(of)));
    text.many("phalanx_resource_stranded_amount", stranded);
    text.many("phalanx_resource_weight", pairs().map(|(name, of, _)| (name, of.weight)));
    text.many("phalanx_resource_pending_jobs", pairs().map(|(name, of, _)| (name, of.pending)));
    text.one("phalanx_nodes_out", nodes.nodes.iter().filter(|node| node.out).count());
    let accused = nodes.nodes.iter().filter(|node| node.accused.is_some()).count();
    text.one("phalanx_nodes_accused", accused);
    text.one("phalanx_utilization_ratio", nodes.utilization);
}

/// Writes the jobs of each partition, and how long those that started had waited.
fn queue(text: &mut Text, of: &Queue) {
    let jobs = of.jobs.iter().map(|((partition, state), count)| ([partition, *state], count));
    text.many("phalanx_partition_jobs", jobs);
    let name = "phalanx_wait_seconds";
    text.family(name);
    for (partition, waits) in &of.waits {
        let edges = WAIT_EDGES_S.map(|edge_s| format!("{edge_s}.0"));
        let edges = edges.iter().map(String::as_str).chain(["+Inf"]);
        let mut below = 0;
        for (edge, count) in edges.zip(waits.counts) {
            below += count;
            let labels = [("partition", partition.as_str()), ("le", edge)];
            text.sample(&format!("{name}_bucket"), &labels, below);
        }
        let labels = [("partition", partition.as_str())];
        text.sample(&format!("{name}_count"), &labels, below);
        text.sample(&format!("{name}_sum"), &labels, waits.sum_s);
    }
    text.one("phalanx_stranded_gpu_seconds", of.stranded_gpu_s);
}

/// Writes counts of the datasets that jobs may name.
fn datasets(text: &mut Text, status: &Status) {
    let of = &status.datasets;
    text.one("phalanx_datasets", of.listed);
    text.one("phalanx_dataset_list_failed", flag(of.list_error.is_some()));
    text.many("phalanx_dataset_jobs", [(["held"], of.hits), (["missed"], of.misses)]);
}

fn collected(text: &mut Text, sources: &Sources) {
    let (collectors, names) = (&sources.collectors.collectors, &sources.data.names);
    let states = [
        ("running", State::Running),
        ("failing", State::Failing),
        ("waiting", State::Waiting),
        ("stopped", State::Stopped),
    ];
    let of = |state| collectors.iter().filter(|c| c.state == state).count();
    text.many("phalanx_collectors", states.map(|(name, state)| ([name], of(state))));
    let failing = collectors.iter().map(|c| ([&c.registration.name], c.instances.failing));
    text.many("phalanx_collector_failing_nodes", failing);
    let values = names.iter().flat_map(|of| {
        let name = of.name.as_str();
        [([name, "fresh"], of.fresh), ([name, "stale"], of.stale)]
    });
    text.many("phalanx_data_nodes", values);
    let ages = names.iter().map(|name| ([&name.name], millis(name.oldest_age_ms)));
    text.many("phalanx_data_oldest_age_seconds", ages);
    let uses = sources.status.collect.uses.iter().flat_map(|of| {
        let (key, name) = (of.key.as_str(), of.name.as_str());
        [([key, name, "fresh"], of.fresh), ([key, name, "stale"], of.stale)]
    });
    text.many("phalanx_use_nodes", uses);
    let agents = &sources.agents.agents;
    let connected = agents.iter().filter(|agent| agent.connected).count();
    let gone = agents.len() - connected;
    text.many("phalanx_agents", [(["connected"], connected), (["gone"], gone)]);
    let dropped: u64 = agents.iter().map(|agent| agent.dropped).sum();
    text.one("phalanx_agent_values_dropped", dropped);
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_messages::rest::{PlannedJob, SlurmStatus};

    /// Labels that name parts of Slurm, of Phalanx and of the administrator's configuration.
    const LABELS: [&str; 21] = [
        "cause",
        "collector",
        "dimension",
        "key",
        "kind",
        "le",
        "method",
        "mode",
        "name",
        "nodes",
        "option",
        "partition",
        "phalanx_breaker",
        "phalanx_mode",
        "reason",
        "report",
        "result",
        "source",
        "state",
        "version",
        "",
    ];

    /// Goal: everybody may read the text: no label is of a user or a job, and no user's or job's
    /// name is in it.
    #[test]
    fn metrics_name_nobody() {
        for row in FAMILIES.lines() {
            let parts: Vec<&str> = row.splitn(5, '|').collect();
            let [name, kind, _, labels, help] = parts[..] else { panic!("{row}") };
            assert!(name.starts_with("phalanx_") && help.ends_with('.'), "{row}");
            assert!(["counter", "gauge", "histogram", "info", "stateset"].contains(&kind), "{row}");
            for label in labels.split(',') {
                assert!(LABELS.contains(&label), "{label}");
            }
        }
        let job = PlannedJob {
            job_id: 4711,
            label: "4711_[1-9]".into(),
            reason: Some("behind ada".into()),
            ..PlannedJob::default()
        };
        let slurm = SlurmStatus { last_error: Some("ada".into()), ..SlurmStatus::default() };
        let sources = Sources {
            status: Status { slurm, ..Status::default() },
            plan: Some(PlanReport { jobs: vec![job], ..PlanReport::default() }),
            nodes: Some(NodesReport::default()),
            ..Sources::default()
        };
        let text = text(&sources);
        assert!(!text.contains("ada") && !text.contains("4711"), "{text}");
        let families = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
        assert!(families > 70, "{families} families: {text}");
    }

    #[test]
    fn waits_are_a_histogram_of_each_partition() {
        let mut waits = Waits::default();
        [0, 30, 30, 700_000].into_iter().for_each(|wait_s| waits.add(wait_s));
        let queue = Queue {
            jobs: [(("cpu".to_owned(), "pending"), 3)].into(),
            waits: [("cpu".to_owned(), waits)].into(),
            stranded_gpu_s: 90.5,
        };
        let text = text(&Sources { queue, ..Sources::default() });
        for line in [
            "phalanx_partition_jobs{partition=\"cpu\",state=\"pending\"} 3",
            "phalanx_wait_seconds_bucket{partition=\"cpu\",le=\"1.0\"} 1",
            "phalanx_wait_seconds_bucket{partition=\"cpu\",le=\"60.0\"} 3",
            "phalanx_wait_seconds_bucket{partition=\"cpu\",le=\"604800.0\"} 3",
            "phalanx_wait_seconds_bucket{partition=\"cpu\",le=\"+Inf\"} 4",
            "phalanx_wait_seconds_count{partition=\"cpu\"} 4",
            "phalanx_wait_seconds_sum{partition=\"cpu\"} 700060",
            "phalanx_stranded_gpu_seconds_total 90.5",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}: {text}");
        }
    }

    /// Goal: the file has the same samples, in words that node exporter's reader expfmt takes.
    #[test]
    fn the_textfile_has_the_older_format() {
        let sources = Sources::default();
        let (new, old) = (text(&sources), textfile(&sources));
        let samples = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
        };
        assert_eq!(samples(&new), samples(&old));
        let mut named = None;
        for line in old.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["#", "TYPE", name, kind] => {
                    assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                    assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                    named = Some(name.to_owned());
                }
                ["#", "HELP", name, ..] => assert_eq!(Some(name), named.as_deref()),
                ["#", ..] => panic!("{line}"),
                _ => assert!(line.starts_with(named.as_deref().unwrap_or("?")), "{line}"),
            }
        }
    }
}
