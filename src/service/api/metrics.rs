// SPDX-License-Identifier: GPL-3.0-or-later
//! `GET /metrics`: the status as OpenMetrics text.
//!
//! Counters restart at 0 with the daemon, those of the plugin with slurmctld.
//! Durations are in seconds, memory in bytes, shares from 0 to 1.
//!
//! # Source
//! OpenMetrics 1.0.

use std::fmt::{Display, Write};

use phalanx_messages::collect::{AgentsReport, CollectorsReport, DataNames, State};
use phalanx_messages::rest::heat::stranded;
use phalanx_messages::rest::{
    CallShares, ControlStatus, DimensionReport, NodesReport, PlanReport, PowerStatus, ProofStatus,
    Quantiles, Status,
};

/// Content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The reports behind the text; a report that is `None` is left out.
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

/// Returns the text, with its end mark.
pub fn text(sources: &Sources) -> String {
    let mut text = Text::default();
    let status = &sources.status;
    about(&mut text, status);
    placement(&mut text, status);
    if let Some(limits) = &status.power {
        power(&mut text, limits);
    }
    latencies(&mut text, status);
    source(&mut text, status);
    if let Some(plan) = &sources.plan {
        gaps(&mut text, plan);
    }
    if let Some(nodes) = &sources.nodes {
        resources(&mut text, nodes);
    }
    collected(&mut text, sources);
    datasets(&mut text, status);
    text.0.push_str("# EOF\n");
    text.0
}

#[derive(Default)]
struct Text(String);

impl Text {
    /// Writes the lines before a metric's samples.
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

    /// Writes a family whose samples differ in one label.
    fn labelled<L: AsRef<str>, V: Display>(
        &mut self,
        (name, kind, unit): (&str, &str, &str),
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (L, V)>,
    ) {
        self.family(name, kind, unit, help);
        let total = if kind == "counter" { "_total" } else { "" };
        for (key, value) in values {
            self.sample(&format!("{name}{total}"), &[(label, key.as_ref())], value);
        }
    }

    /// Writes a set of states of which one holds.
    fn states<const N: usize>(&mut self, name: &str, help: &str, states: [&str; N], now: &str) {
        let values = states.map(|state| (state, flag(state == now)));
        self.labelled((name, "stateset", ""), help, name, values);
    }

    /// Writes a histogram; a sample counts at the upper edge of its fine bucket.
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

/// Returns an edge in OpenMetrics' canonical form: a number with a point.
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
    let help = "Mode of partitions without one of their own.";
    text.states("phalanx_mode", help, ["off", "shadow", "enforce"], &status.config.mode);
    let history = &status.history;
    text.counter("phalanx_history_written", "History records written.", history.written);
    text.counter("phalanx_history_dropped", "History records dropped.", history.dropped);
    text.counter("phalanx_history_errors", "Failed history transactions.", history.errors);
}

/// Writes the refusals of the control socket and the TCP listener.
fn refusals(text: &mut Text, control: &ControlStatus) {
    let reasons = [
        ("connections", control.connections_refused),
        ("forbidden", control.forbidden),
        ("no_room", control.no_room),
        ("slow_readers", control.slow_readers),
    ];
    let help = "Requests and connections refused, by reason.";
    text.labelled(("phalanx_control_refused", "counter", ""), help, "reason", reasons);
    let help = "1 if the TCP listener that is configured does not listen.";
    let failed = flag(control.listen_error.is_some());
    text.gauge("phalanx_listen_failed", "", help, failed);
}

/// Writes limits of the nodes' power; the limit of all nodes has an empty label.
fn power(text: &mut Text, power: &PowerStatus) {
    let caps = || power.caps.iter().map(|cap| (cap.partition.as_str(), cap));
    let family = ("phalanx_power_draw_watts", "gauge", "watts");
    let help = "Estimated draw of the nodes under a limit, with jobs about to start.";
    text.labelled(family, help, "partition", caps().map(|(name, cap)| (name, cap.draw_w)));
    let family = ("phalanx_power_cap_watts", "gauge", "watts");
    let help = "Limit of their draw.";
    text.labelled(family, help, "partition", caps().map(|(name, cap)| (name, cap.cap_w)));
    let help = "Jobs that a limit of power holds back now.";
    text.gauge("phalanx_power_held_jobs", "", help, power.held);
    let help = "Answers that held a job back for a limit of power.";
    text.counter("phalanx_power_holds", help, power.holds);
}

fn placement(text: &mut Text, status: &Status) {
    let modes = [("run_now", &status.run_now), ("will_run", &status.will_run)];
    type Pick = fn(&CallShares) -> u64;
    let families: [(&str, &str, Pick); 4] = [
        ("phalanx_calls", "Calls of job_test, asked about or not.", |shares| shares.calls),
        ("phalanx_asks", "Questions of the plugin.", |shares| shares.asked),
        ("phalanx_answers", "Questions answered with nodes.", |shares| shares.answered),
        ("phalanx_narrowed", "Calls that Slurm placed on the answered nodes.", |s| s.narrowed),
    ];
    for (name, help, pick) in families {
        let values = modes.map(|(mode, shares)| (mode, pick(shares)));
        text.labelled((name, "counter", ""), help, "mode", values);
    }
    let help = "Calls that Slurm placed by itself, by reason.";
    text.family("phalanx_fallbacks", "counter", "", help);
    for (mode, shares) in modes {
        for (reason, count) in &shares.fallen_back {
            let labels = [("mode", mode), ("reason", reason.as_str())];
            text.sample("phalanx_fallbacks_total", &labels, count);
        }
    }
    proofs(text, status);
    options(text, status, modes);
    let plugin = &status.plugin;
    text.gauge("phalanx_plugin_connected", "", "1 if the overlay is.", flag(plugin.connected));
    text.gauge("phalanx_plugin_synced", "", "1 if the mirror is complete.", flag(plugin.synced));
    let help = "The plugin's circuit breaker.";
    let states = ["closed", "half-open", "open", "ejected"];
    text.states("phalanx_breaker", help, states, &plugin.breaker);
    let opens = plugin.breaker_opens;
    let family = ("phalanx_breaker_breaches", "counter", "");
    text.labelled(family, "Openings of the breaker by cause.", "cause", &plugin.breaches);
    text.counter("phalanx_plugin_ejections", "Times the plugin was ejected.", plugin.ejections);
    let help = "Calls that failed for a job that is held.";
    text.counter("phalanx_held_calls", help, plugin.held_calls);
    let help = "Held calls of which Slurm was asked as well.";
    text.counter("phalanx_held_sampled", help, plugin.held_sampled);
    let help = "Of these, the ones that Slurm would have started.";
    text.counter("phalanx_held_startable", help, plugin.held_startable);
    text.counter("phalanx_breaker_opens", "Times the breaker opened.", opens);
    text.counter("phalanx_plugin_late_answers", "Answers too late.", plugin.late_answers);
    text.counter("phalanx_plugin_resyncs", "Full states sent.", plugin.resyncs);
    let family = ("phalanx_plugin_calls", "counter", "");
    text.labelled(family, "Calls of job_test by mode.", "mode", &plugin.calls);
    let family = ("phalanx_plugin_reasons", "counter", "");
    let help = "Calls not asked about, not answered or answered in vain, by reason.";
    text.labelled(family, help, "reason", &plugin.reasons);
    let link = &status.link;
    text.counter("phalanx_link_events", "Events applied to the mirror.", link.events);
    text.counter("phalanx_link_refused", "Connections refused.", link.refused);
    let help = "Connections closed for a malformed message.";
    text.counter("phalanx_link_protocol_errors", help, link.protocol_errors);
    let help = "Nodes of which the mirror and polls say different things for long.";
    text.gauge("phalanx_differing_nodes", "", help, link.differing_nodes);
    let help = "Whole states asked of the plugin because the mirror differed.";
    text.counter("phalanx_resyncs_asked", help, link.resyncs_asked);
    let help = "Jobs not held for their input: their user's jobs were held long enough.";
    text.counter("phalanx_holds_refused", help, link.holds_refused);
    refusals(text, &status.control);
}

/// Writes calls left to Slurm or refused by it, by option of the request.
fn options(text: &mut Text, status: &Status, modes: [(&str, &CallShares); 2]) {
    let help = "Questions left to Slurm for an option of the request.";
    text.family("phalanx_left_options", "counter", "", help);
    for (mode, shares) in modes {
        for (option, count) in &shares.options {
            let labels = [("mode", mode), ("option", option.as_str())];
            text.sample("phalanx_left_options_total", &labels, count);
        }
    }
    let help = "Calls not asked about, or in vain, by the plugin's reason.";
    text.labelled(("phalanx_not_asked", "counter", ""), help, "reason", &status.not_asked);
    let known = || status.refused.iter();
    let help = "Answers whose outcome is known, by option of the request.";
    let answered = known().map(|row| (row.option.as_str(), row.answered));
    text.labelled(("phalanx_option_answers", "counter", ""), help, "option", answered);
    let help = "Answers that Slurm refused, by option of the request.";
    let refused = known().map(|row| (row.option.as_str(), row.refused));
    text.labelled(("phalanx_option_refused", "counter", ""), help, "option", refused);
    let help = "1 while requests with the option are left to Slurm.";
    let left = known().map(|row| (row.option.as_str(), flag(row.left_s > 0)));
    text.labelled(("phalanx_option_left", "gauge", ""), help, "option", left);
}

fn proofs(text: &mut Text, status: &Status) {
    type Pick = fn(&ProofStatus) -> u64;
    let families: [(&str, &str, Pick); 6] = [
        ("phalanx_proof_asks", "Asks that a proof may answer.", |proof| proof.asked),
        ("phalanx_proofs", "Proofs given.", |proof| proof.proved),
        ("phalanx_proofs_accepted", "Proofs taken for Slurm's answer in full.", |p| p.accepted),
        ("phalanx_proofs_rejected", "Proofs not taken: Slurm was asked in full.", |p| p.rejected),
        ("phalanx_proofs_verified", "Proofs that Slurm's answer in full bore out.", |p| p.verified),
        ("phalanx_proofs_refuted", "Proofs that Slurm's answer in full refuted.", |p| p.refuted),
    ];
    for (name, help, pick) in families {
        let values = status.proofs.iter().map(|(kind, proof)| (kind.as_str(), pick(proof)));
        text.labelled((name, "counter", ""), help, "kind", values);
    }
    let help = "1 while a kind is given no longer because a proof was refuted.";
    let values = status.proofs.iter().map(|(kind, proof)| (kind.as_str(), flag(proof.off)));
    text.labelled(("phalanx_proofs_off", "gauge", ""), help, "kind", values);
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
    let jobs = [("pending", slurm.jobs_pending), ("running", slurm.jobs_running)];
    text.labelled(("phalanx_jobs", "gauge", ""), "Jobs in Slurm.", "state", jobs);
    text.gauge("phalanx_nodes", "", "Nodes in Slurm.", slurm.nodes);
    let planner = &status.planner;
    text.counter("phalanx_plans", "Plans made.", planner.plans);
    let help = "Plans that the independent check refused.";
    text.counter("phalanx_plans_refused", help, planner.refused);
    let took = millis(planner.last_plan_ms);
    text.gauge("phalanx_plan_seconds", "seconds", "Time of the last plan.", took);
    if let Some(age) = planner.plan_age_ms {
        let help = "Age of the plan in force.";
        text.gauge("phalanx_plan_age_seconds", "seconds", help, millis(age));
    }
}

fn gaps(text: &mut Text, plan: &PlanReport) {
    let help = "(bound - objective) / bound of the plan in force, by method.";
    let gaps = plan.methods.iter().filter_map(|method| Some((&method.method, method.gap?)));
    let finite = gaps.filter(|(_, gap)| gap.is_finite());
    text.labelled(("phalanx_plan_gap_ratio", "gauge", "ratio"), help, "method", finite);
    let jobs = plan.methods.iter().map(|method| (&method.method, method.jobs));
    let family = ("phalanx_plan_method_jobs", "gauge", "");
    text.labelled(family, "Jobs that a method looked at.", "method", jobs);
}

fn resources(text: &mut Text, nodes: &NodesReport) {
    let stranded = stranded(nodes);
    let pairs = || nodes.dimensions.iter().zip(&stranded);
    type Pick = fn(&DimensionReport, f64) -> f64;
    let help = "Configured on the nodes that take jobs; memory in bytes.";
    let help_stranded = "Free, but on nodes whose CPUs or memory are used up.";
    let amounts: [(&str, &str, Pick); 3] = [
        ("phalanx_resource_total_amount", help, |dimension, _| dimension.total),
        ("phalanx_resource_used_amount", "In use.", |dimension, _| dimension.used),
        ("phalanx_resource_stranded_amount", help_stranded, |_, stranded| stranded),
    ];
    for (name, help, pick) in amounts {
        let values = pairs().map(|(dimension, stranded)| {
            // Memory is in MiB in the report.
            let factor = if dimension.unit == "MiB" { 1_048_576.0 } else { 1.0 };
            (&dimension.name, pick(dimension, *stranded) * factor)
        });
        text.labelled((name, "gauge", ""), help, "dimension", values);
    }
    let weights = pairs().map(|(dimension, _)| (&dimension.name, dimension.weight));
    let family = ("phalanx_resource_weight", "gauge", "");
    text.labelled(family, "Weight of balance in force.", "dimension", weights);
    let pending = pairs().map(|(dimension, _)| (&dimension.name, dimension.pending));
    let family = ("phalanx_resource_pending_jobs", "gauge", "");
    text.labelled(family, "Pending jobs attributed to a shortage.", "dimension", pending);
    let out = nodes.nodes.iter().filter(|node| node.out).count();
    text.gauge("phalanx_nodes_out", "", "Nodes that are down, drained or draining.", out);
    let help = "Cluster utilisation of balance.";
    text.gauge("phalanx_utilization_ratio", "ratio", help, nodes.utilization);
}

/// Writes counts of the datasets that jobs may name.
fn datasets(text: &mut Text, status: &Status) {
    let of = &status.datasets;
    let known = [("caches", of.cached), ("list", of.listed)];
    let family = ("phalanx_datasets", "gauge", "");
    text.labelled(family, "Datasets that are known, by source.", "source", known);
    let help = "Nodes with a fresh report of their cache, by whether it could be read.";
    let nodes = [("good", of.nodes - of.nodes_wrong.min(of.nodes)), ("wrong", of.nodes_wrong)];
    text.labelled(("phalanx_dataset_nodes", "gauge", ""), help, "report", nodes);
    let help = "1 if the file of data_jobs.locations is wrong and a former list counts.";
    text.gauge("phalanx_dataset_list_failed", "", help, flag(of.list_error.is_some()));
    text.counter("phalanx_dataset_arrivals", "Datasets that came to a node.", of.arrivals);
    let help = "Datasets that a node no longer held.";
    text.counter("phalanx_dataset_evictions", help, of.evictions);
    let starts = [("held", of.hits), ("missed", of.misses)];
    let help = "Jobs that began, by whether each of their nodes held the datasets they name.";
    text.labelled(("phalanx_dataset_jobs", "counter", ""), help, "nodes", starts);
}

fn collected(text: &mut Text, sources: &Sources) {
    if let Some(report) = &sources.collectors {
        let states = [
            ("running", State::Running),
            ("failing", State::Failing),
            ("waiting", State::Waiting),
            ("stopped", State::Stopped),
        ];
        let of = |state| report.collectors.iter().filter(|c| c.state == state).count();
        let counts = states.map(|(name, state)| (name, of(state)));
        let family = ("phalanx_collectors", "gauge", "");
        text.labelled(family, "Collectors and processors by state.", "state", counts);
        let failing = report.collectors.iter().map(|c| (&c.registration.name, c.instances.failing));
        let family = ("phalanx_collector_failing_nodes", "gauge", "");
        text.labelled(family, "Nodes where a collector's last run failed.", "collector", failing);
    }
    if let Some(report) = &sources.data {
        text.family("phalanx_data_nodes", "gauge", "", "Nodes with a value.");
        for name in &report.names {
            for (state, count) in [("fresh", name.fresh), ("stale", name.stale)] {
                let labels = [("name", name.name.as_str()), ("state", state)];
                text.sample("phalanx_data_nodes", &labels, count);
            }
        }
        let ages = report.names.iter().map(|name| (&name.name, millis(name.oldest_age_ms)));
        let family = ("phalanx_data_oldest_age_seconds", "gauge", "seconds");
        text.labelled(family, "Age of the oldest value.", "name", ages);
    }
    let help = "Nodes with a value of the datum that a method uses.";
    text.family("phalanx_use_nodes", "gauge", "", help);
    for used in &sources.status.collect.uses {
        for (state, count) in [("fresh", used.fresh), ("stale", used.stale)] {
            let labels = [("key", &*used.key), ("name", &*used.name), ("state", state)];
            text.sample("phalanx_use_nodes", &labels, count);
        }
    }
    if let Some(report) = &sources.agents {
        let connected = report.agents.iter().filter(|agent| agent.connected).count();
        let counts = [("connected", connected), ("gone", report.agents.len() - connected)];
        text.labelled(("phalanx_agents", "gauge", ""), "Agents by state.", "state", counts);
        let dropped = report.agents.iter().map(|agent| agent.dropped).sum();
        let help = "Values that agents dropped because their queue was full.";
        text.counter("phalanx_agent_values_dropped", help, dropped);
    }
}
