// SPDX-License-Identifier: GPL-3.0-or-later
//! The jobs of an accounting, simulated as Slurm and as Phalanx place them.

use std::path::Path;

use jiff::tz::TimeZone;
use serde::Serialize;

use crate::commands::simulate::rules::rules;
use crate::exit::Failure;
use crate::outcome::note_left_out;
use crate::slurm_conf::SlurmConf;
use phalanx_config::Config;
use phalanx_core::problem::InputError;
use phalanx_core::trace::spec::NodeSpec;
use phalanx_messages::rest::NodesReport;
use phalanx_planner::gang::Settings as GangSettings;
use phalanx_sim::input;
use phalanx_sim::job::Workload;
use phalanx_sim::metrics::Figures;
use phalanx_sim::nodes::{self, NoBeliefs, Setup};
use phalanx_sim::policy::{PHALANX, Policy, SLURM};
use phalanx_sim::pool::Schedule;
use phalanx_sim::report::{self, Part};

/// Path of slurm.conf where neither `--slurm-conf` nor the daemon names the nodes.
const SLURM_CONF: &str = "/etc/slurm/slurm.conf";
/// Policies that stand for Slurm alone, and for Slurm with the daemon.
const POLICIES: [Policy; 2] = [SLURM, PHALANX];

/// Figures of a log under Slurm alone, and with Phalanx.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Simulated {
    /// File of the accounting.
    pub log: String,
    /// Source of the nodes.
    pub nodes_from: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of CPUs of all nodes.
    pub cpus: u64,
    /// Jobs of the log that cannot be run: never ran, without an end, or larger than the nodes.
    pub skipped: u64,
    /// Figures of Slurm alone.
    pub slurm: Figures,
    /// Figures of Slurm with Phalanx.
    pub phalanx: Figures,
}

/// Figures, and schedules for pictures.
#[derive(Debug)]
pub struct Simulation {
    pub summary: Simulated,
    pool: Workload,
    schedules: [Schedule; 2],
}

impl Simulation {
    /// Simulates the jobs of `file` on the nodes of `conf`, else on `known` ones.
    pub fn run(
        file: &Path,
        conf: Option<&Path>,
        known: impl FnOnce() -> Option<NodesReport>,
        config: Option<&Config>,
    ) -> Result<Self, Failure> {
        let (specs, nodes_from) = specs(conf, known)?;
        // Without a file it is what is shipped that is simulated.
        let config = config.cloned().unwrap_or_default();
        let rules = rules(Some(&config), conf)?;
        let name = input::shown(file);
        let load = nodes::load::read_sacct(input::open(file)?, &TimeZone::system(), &specs)
            .map_err(|error| Failure::usage_line(InputError::new(&name, error)))?;
        note_left_out(&name, &load.left_out);
        let pool = load.workload();
        if load.jobs.is_empty() {
            let skipped = load.skipped;
            return Err(Failure::usage_line(format!(
                "{name}: all {skipped} jobs never ran, have no end or are larger than the nodes of \
                 {nodes_from}"
            )));
        }
        let gangs = GangSettings { bonus_scale: 0.0, ..config.gang_settings() };
        let simulate = |policy: Policy| {
            let setup = Setup::of(&policy, &config.tuning(), &gangs, &rules);
            let outcome = nodes::engine::run(&load, &setup, &NoBeliefs, &|_| {})
                .map_err(|error| Failure::usage_line(format!("balance: {error}")))?;
            Ok::<_, Failure>(nodes::load::figures(policy.name, &pool, &outcome))
        };
        let [slurm, phalanx] = POLICIES.map(simulate);
        let ((mut slurm, stock), (mut phalanx, ours)) = (slurm?, phalanx?);
        slurm.policy = "Slurm alone".to_owned();
        phalanx.policy = "with Phalanx".to_owned();
        let summary = Simulated {
            log: name,
            nodes_from,
            nodes: specs.len(),
            cpus: specs.iter().map(|node| node.cpu_milli / 1000).sum(),
            skipped: load.skipped,
            slurm,
            phalanx,
        };
        Ok(Self { summary, pool, schedules: [stock, ours] })
    }

    /// Table and plots as HTML.
    pub fn html(&self) -> String {
        let figures = [&self.summary.slurm, &self.summary.phalanx];
        let pairs = figures.iter().zip(&self.schedules);
        let parts: Vec<Part<'_>> =
            pairs.map(|(figures, schedule)| Part { figures, schedule }).collect();
        report::table(&figures) + &report::pictures(&self.pool, &parts)
    }
}

/// Returns the nodes, and their source.
fn specs(
    conf: Option<&Path>,
    known: impl FnOnce() -> Option<NodesReport>,
) -> Result<(Vec<NodeSpec>, String), Failure> {
    let read = |path: &Path| {
        let conf = SlurmConf::read(path).map_err(Failure::usage_line)?;
        let specs = conf.node_specs().map_err(Failure::usage_line)?;
        Ok((specs, path.display().to_string()))
    };
    if let Some(path) = conf {
        return read(path);
    }
    if let Some(report) = known().filter(|report| !report.nodes.is_empty()) {
        return Ok((of_report(&report), "phalanxd".to_owned()));
    }
    read(Path::new(SLURM_CONF)).map_err(|failure: Failure| {
        Failure::usage_line(format!(
            "{}; name the cluster's nodes by --slurm-conf FILE",
            failure.message
        ))
    })
}

/// Nodes as the daemon knows them.
fn of_report(report: &NodesReport) -> Vec<NodeSpec> {
    let at = |name: &str| report.dimensions.iter().position(|of| of.name == name);
    let (cpu, mem, gpu) = (at("cpu"), at("mem"), at("gres/gpu"));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts and MiB")]
    let amount = |total: &[f64], at: Option<usize>| {
        at.and_then(|at| total.get(at)).map_or(0, |value| value.max(0.0) as u64)
    };
    let spec = |node: &phalanx_messages::rest::NodeReport| NodeSpec {
        name: node.name.clone(),
        cpu_milli: amount(&node.total, cpu).max(1) * 1000,
        memory_mb: amount(&node.total, mem),
        gpus: u32::try_from(amount(&node.total, gpu)).unwrap_or(u32::MAX),
        weight: 1,
        ..NodeSpec::default()
    };
    report.nodes.iter().map(spec).collect()
}
