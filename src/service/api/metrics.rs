// SPDX-License-Identifier: GPL-3.0-or-later
//! `GET /metrics`: the status as OpenMetrics text.
//!
//! Counters restart at 0 with the daemon, those of the plugin with slurmctld.
//! Durations are in seconds, memory in bytes, shares from 0 to 1.
//!
//! # Source
//! OpenMetrics 1.0.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use super::heat::stranded;
use super::types::{NodesReport, PlanReport, Quantiles, Status};
use phalanx_core::collect::{AgentsReport, CollectorsReport, DataNames, State, UseReport};

/// Content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the text is made of; what is `None` is left out.
#[derive(Debug, Default)]
pub struct Sources {
    /// `GET /v1/status`
    pub status: Status,
    /// `GET /v1/nodes`
    pub nodes: Option<NodesReport>,
    /// `GET /v1/plan`
    pub plan: Option<PlanReport>,
    /// `GET /v1/collectors`
    pub collectors: Option<CollectorsReport>,
    /// `GET /v1/data`
    pub data: Option<DataNames>,
    /// `GET /v1/agents`
    pub agents: Option<AgentsReport>,
}

/// Upper edges of latency buckets, nanoseconds.
const EDGES_NS: [u64; 19] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
];

/// The text, with its end mark.
#[must_use]
pub fn text(sources: &Sources) -> String {
    let mut text = Text::default();
    let status = &sources.status;
    about(&mut text, status);
    placement(&mut text, status);
    latencies(&mut text, status);
    source(&mut text, status);
    if let Some(plan) = &sources.plan {
        gaps(&mut text, plan);
    }
    if let Some(nodes) = &sources.nodes {
        resources(&mut text, nodes);
    }
    collected(&mut text, sources);
    text.0.push_str("# EOF\n");
    text.0
}

#[derive(Default)]
struct Text(String);

impl Text {
    /// The lines before a metric's samples.
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {help}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{before}{label}=\"{value}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    fn gauge(&mut self, name: &str, unit: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", unit, help);
        self.sample(name, &[], value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", "", help);
        self.sample(&format!("{name}_total"), &[], value);
    }

    /// One counter with a label.
    fn counters(&mut self, name: &str, help: &str, label: &str, values: &BTreeMap<String, u64>) {
        self.family(name, "counter", "", help);
        for (key, value) in values {
            self.sample(&format!("{name}_total"), &[(label, key)], value);
        }
    }

    /// A histogram; a sample counts at the upper edge of its fine bucket.
    fn histogram(&mut self, name: &str, help: &str, of: &Quantiles) {
        self.family(name, "histogram", "seconds", help);
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

/// Edges are numbers with a point in OpenMetrics' canonical form.
fn seconds(ns: u64) -> String {
    let text = (ns as f64 / 1e9).to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}

fn flag(on: bool) -> u8 {
    u8::from(on)
}

fn about(text: &mut Text, status: &Status) {
    text.family("phalanx_build", "info", "", "Version of phalanxd.");
    text.sample("phalanx_build_info", &[("version", &status.version)], 1);
    text.gauge("phalanx_uptime_seconds", "seconds", "Time since the start.", status.uptime_s);
    let generation = status.config.generation;
    text.gauge("phalanx_config_generation", "", "Accepted configurations.", generation);
    let refused = flag(status.config.last_error.is_some());
    let help = "1 if the last reload was refused.";
    text.gauge("phalanx_config_reload_refused", "", help, refused);
    text.family("phalanx_mode", "stateset", "", "Mode of partitions without one of their own.");
    for mode in ["off", "shadow", "enforce"] {
        text.sample("phalanx_mode", &[("phalanx_mode", mode)], flag(status.config.mode == mode));
    }
    let history = &status.history;
    text.counter("phalanx_history_written", "History records written.", history.written);
    text.counter("phalanx_history_dropped", "History records dropped.", history.dropped);
    text.counter("phalanx_history_errors", "Failed history transactions.", history.errors);
}

fn placement(text: &mut Text, status: &Status) {
    let modes = [("run_now", &status.run_now), ("will_run", &status.will_run)];
    for (name, help, of) in [
        ("phalanx_asks", "Questions of the plugin.", 0),
        ("phalanx_answers", "Questions answered with nodes.", 1),
        ("phalanx_narrowed", "Calls that Slurm placed on the answered nodes.", 2),
    ] {
        text.family(name, "counter", "", help);
        for (mode, shares) in modes {
            let value = [shares.asked, shares.answered, shares.narrowed][of];
            text.sample(&format!("{name}_total"), &[("mode", mode)], value);
        }
    }
    let help = "Calls that Slurm placed by itself, by reason.";
    text.family("phalanx_fallbacks", "counter", "", help);
    for (mode, shares) in modes {
        for (reason, count) in &shares.fallen_back {
            let labels = [("mode", mode), ("reason", reason.as_str())];
            text.sample("phalanx_fallbacks_total", &labels, count);
        }
    }
    let plugin = &status.plugin;
    text.gauge("phalanx_plugin_connected", "", "1 if the overlay is.", flag(plugin.connected));
    let help = "1 if the mirror is complete.";
    text.gauge("phalanx_plugin_synced", "", help, flag(plugin.synced));
    text.family("phalanx_breaker", "stateset", "", "The plugin's circuit breaker.");
    for state in ["closed", "half-open", "open"] {
        let labels = [("phalanx_breaker", state)];
        text.sample("phalanx_breaker", &labels, flag(plugin.breaker == state));
    }
    let opens = plugin.breaker_opens;
    text.counter("phalanx_breaker_opens", "Times the breaker opened.", opens);
    text.counter("phalanx_plugin_late_answers", "Answers too late.", plugin.late_answers);
    text.counter("phalanx_plugin_resyncs", "Full states sent.", plugin.resyncs);
    let help = "Calls of job_test by mode.";
    text.counters("phalanx_plugin_calls", help, "mode", &plugin.calls);
    let help = "Calls not asked, answered or kept, by reason.";
    text.counters("phalanx_plugin_reasons", help, "reason", &plugin.reasons);
    let link = &status.link;
    text.counter("phalanx_link_events", "Events applied to the mirror.", link.events);
    text.counter("phalanx_link_refused", "Connections refused.", link.refused);
    let help = "Connections closed for a malformed message.";
    text.counter("phalanx_link_protocol_errors", help, link.protocol_errors);
}

fn latencies(text: &mut Text, status: &Status) {
    let help = "Time of phalanxd for one answer.";
    text.histogram("phalanx_answer_seconds", help, &status.link.answer_ns);
    let help = "The plugin's own time in slurmctld for a call that it asked about.";
    text.histogram("phalanx_plugin_ask_seconds", help, &status.plugin.ask_ns);
    let help = "The plugin's own time for a call that it did not ask about.";
    text.histogram("phalanx_plugin_skip_seconds", help, &status.plugin.skip_ns);
}

fn millis(ms: u64) -> f64 {
    ms as f64 / 1e3
}

fn source(text: &mut Text, status: &Status) {
    let slurm = &status.slurm;
    let help = "1 if slurmctld answered the last poll.";
    text.gauge("phalanx_slurm_reachable", "", help, flag(slurm.reachable));
    if let Some(age) = slurm.snapshot_age_ms {
        let help = "Age of what was read from slurmctld.";
        text.gauge("phalanx_snapshot_age_seconds", "seconds", help, millis(age));
    }
    text.counter("phalanx_snapshots_refused", "Snapshots refused.", slurm.snapshots_refused);
    text.family("phalanx_jobs", "gauge", "", "Jobs in Slurm.");
    text.sample("phalanx_jobs", &[("state", "pending")], slurm.jobs_pending);
    text.sample("phalanx_jobs", &[("state", "running")], slurm.jobs_running);
    text.gauge("phalanx_nodes", "", "Nodes in Slurm.", slurm.nodes);
    let planner = &status.planner;
    text.counter("phalanx_plans", "Plans made.", planner.plans);
    let help = "Plans that the independent check refused.";
    text.counter("phalanx_plans_refused", help, planner.refused);
    let help = "Time of the last plan.";
    text.gauge("phalanx_plan_seconds", "seconds", help, millis(planner.last_plan_ms));
    if let Some(age) = planner.plan_age_ms {
        let help = "Age of the plan in force.";
        text.gauge("phalanx_plan_age_seconds", "seconds", help, millis(age));
    }
}

fn gaps(text: &mut Text, plan: &PlanReport) {
    let help = "(bound - objective) / bound of the plan in force, by method.";
    text.family("phalanx_plan_gap_ratio", "gauge", "ratio", help);
    for method in &plan.methods {
        if let Some(gap) = method.gap.filter(|gap| gap.is_finite()) {
            text.sample("phalanx_plan_gap_ratio", &[("method", &method.method)], gap);
        }
    }
    text.family("phalanx_plan_method_jobs", "gauge", "", "Jobs that a method looked at.");
    for method in &plan.methods {
        let labels = [("method", method.method.as_str())];
        text.sample("phalanx_plan_method_jobs", &labels, method.jobs);
    }
}

fn resources(text: &mut Text, nodes: &NodesReport) {
    let stranded = stranded(nodes);
    let of = |pick: fn(&super::types::DimensionReport, f64) -> f64| {
        let pairs = nodes.dimensions.iter().zip(&stranded);
        pairs.map(move |(dimension, stranded)| {
            // Memory is in MiB in the report.
            let factor = if dimension.unit == "MiB" { 1_048_576.0 } else { 1.0 };
            (dimension.name.clone(), pick(dimension, *stranded) * factor)
        })
    };
    let help_total = "Configured on all nodes; memory in bytes.";
    let help_stranded = "Free, but on nodes whose CPUs or memory are used up.";
    let families = [
        ("phalanx_resource_total_amount", help_total, of(|d, _| d.total)),
        ("phalanx_resource_used_amount", "In use.", of(|d, _| d.used)),
        ("phalanx_resource_stranded_amount", help_stranded, of(|_, s| s)),
    ];
    for (name, help, values) in families {
        text.family(name, "gauge", "", help);
        for (dimension, value) in values {
            text.sample(name, &[("dimension", &dimension)], value);
        }
    }
    text.family("phalanx_resource_weight", "gauge", "", "Weight of balance in force.");
    for dimension in &nodes.dimensions {
        let labels = [("dimension", dimension.name.as_str())];
        text.sample("phalanx_resource_weight", &labels, dimension.weight);
    }
    let help = "Pending jobs attributed to a shortage.";
    text.family("phalanx_resource_pending_jobs", "gauge", "", help);
    for dimension in &nodes.dimensions {
        let labels = [("dimension", dimension.name.as_str())];
        text.sample("phalanx_resource_pending_jobs", &labels, dimension.pending);
    }
    let help = "Cluster utilisation of balance.";
    text.gauge("phalanx_utilization_ratio", "ratio", help, nodes.utilization);
}

fn used(text: &mut Text, uses: &[UseReport]) {
    let help = "Nodes with a value of what a method goes by.";
    text.family("phalanx_use_nodes", "gauge", "", help);
    for used in uses {
        for (state, count) in [("fresh", used.fresh), ("stale", used.stale)] {
            let labels = [("key", &*used.key), ("name", &*used.name), ("state", state)];
            text.sample("phalanx_use_nodes", &labels, count);
        }
    }
}

fn collected(text: &mut Text, sources: &Sources) {
    if let Some(report) = &sources.collectors {
        let help = "Collectors and processors by state.";
        text.family("phalanx_collectors", "gauge", "", help);
        for (state, name) in [
            (State::Running, "running"),
            (State::Failing, "failing"),
            (State::Waiting, "waiting"),
            (State::Stopped, "stopped"),
        ] {
            let count = report.collectors.iter().filter(|c| c.state == state).count();
            text.sample("phalanx_collectors", &[("state", name)], count);
        }
        let help = "Nodes where a collector's last run failed.";
        text.family("phalanx_collector_failing_nodes", "gauge", "", help);
        for collector in &report.collectors {
            let labels = [("collector", collector.registration.name.as_str())];
            let failing = collector.instances.failing;
            text.sample("phalanx_collector_failing_nodes", &labels, failing);
        }
    }
    if let Some(report) = &sources.data {
        text.family("phalanx_data_nodes", "gauge", "", "Nodes with a value.");
        for name in &report.names {
            for (state, count) in [("fresh", name.fresh), ("stale", name.stale)] {
                let labels = [("name", name.name.as_str()), ("state", state)];
                text.sample("phalanx_data_nodes", &labels, count);
            }
        }
        let help = "Age of the oldest value.";
        text.family("phalanx_data_oldest_age_seconds", "gauge", "seconds", help);
        for name in &report.names {
            let labels = [("name", name.name.as_str())];
            let age = millis(name.oldest_age_ms);
            text.sample("phalanx_data_oldest_age_seconds", &labels, age);
        }
    }
    used(text, &sources.status.collect.uses);
    if let Some(report) = &sources.agents {
        text.family("phalanx_agents", "gauge", "", "Agents by state.");
        let connected = report.agents.iter().filter(|agent| agent.connected).count();
        text.sample("phalanx_agents", &[("state", "connected")], connected);
        let gone = report.agents.len() - connected;
        text.sample("phalanx_agents", &[("state", "gone")], gone);
        let dropped = report.agents.iter().map(|agent| agent.dropped).sum();
        let help = "Values that agents dropped for want of room.";
        text.counter("phalanx_agent_values_dropped", help, dropped);
    }
}
