// SPDX-License-Identifier: GPL-3.0-or-later
//! The jobs of an accounting: what happened, and simulated as Slurm and as Phalanx place them.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use serde::Serialize;

use super::verdict::{Judged, judge};
use crate::commands::simulate::{each, rules};
use crate::exit::Failure;
use crate::outcome::note_left_out;
use crate::site;
use crate::slurm_conf::SlurmConf;
use crate::topology::TopologyFile;
use phalanx_config::Config;
use phalanx_core::problem::InputError;
use phalanx_messages::rest::NodesReport;
use phalanx_planner::gang::Settings as GangSettings;
use phalanx_sim::card;
use phalanx_sim::input;
use phalanx_sim::job::Workload;
use phalanx_sim::metrics::Figures;
use phalanx_sim::nodes::accounted::read_sacct;
use phalanx_sim::nodes::load::{Site, figures, happened};
use phalanx_sim::nodes::{Setup, engine};
use phalanx_sim::policy::{PHALANX, Policy, SLURM};
use phalanx_sim::pool::Schedule;
use phalanx_sim::report::{self, Part};

/// Path of slurm.conf where `--slurm-conf` names none.
const SLURM_CONF: &str = "/etc/slurm/slurm.conf";
/// Figures that are shown, by their keys.
pub const SHOWN: [&str; 15] = [
    "wait_mean_s",
    "wait_by_work_s",
    "wait_p50_s",
    "wait_p95_s",
    "wait_max_s",
    "users_better",
    "users_worse",
    "shares_moved_pct",
    "slip_s",
    "inversions",
    "cpu_idle_pct",
    "bounded_slowdown_mean",
    "cpu_utilization",
    "gpu_allocated_pct",
    "gpu_stranded_pct",
];

/// Figures of a log as it happened, under Slurm alone, and with Phalanx.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Simulated {
    /// File of the accounting.
    pub log: String,
    pub nodes_from: String,
    pub nodes: usize,
    pub cpus: u64,
    /// Jobs of the log that cannot be run: never ran, without an end, or larger than the nodes.
    pub skipped: u64,
    /// Number of jobs by what of them is not modelled, most jobs first.
    pub unmodelled: Vec<(String, u64)>,
    /// Figures of what happened by the accounting.
    pub happened: Figures,
    pub slurm: Figures,
    pub phalanx: Figures,
    /// Verdict on the three.
    pub judged: Judged,
}

impl Simulated {
    pub fn columns(&self) -> [&Figures; 3] {
        [&self.happened, &self.slurm, &self.phalanx]
    }
}

/// Figures, and schedules for pictures.
#[derive(Debug)]
pub struct Simulation {
    pub summary: Simulated,
    pool: Workload,
    schedules: [Schedule; 3],
}

impl Simulation {
    /// Simulates the jobs of an accounting on the nodes of slurm.conf, else on `known` ones, else
    /// on those that its jobs ran on. `files`: slurm.conf and topology, where they are named.
    pub fn run(
        sacct: &Path,
        files: (Option<&Path>, Option<&Path>),
        known: impl FnOnce() -> Option<NodesReport>,
        config: Option<&Config>,
    ) -> Result<Self, Failure> {
        // Without a file it is what is shipped that is simulated.
        let config = config.cloned().unwrap_or_default();
        let (site, nodes_from, conf) = site(files.0, known)?;
        let rules = rules::rules(Some(&config), conf.as_deref())?;
        let name = input::shown(sacct);
        let mut load = read_sacct(input::open(sacct)?, &TimeZone::system(), &site)
            .map_err(|error| Failure::usage_line(InputError::new(&name, error)))?;
        note_left_out(&name, &load.left_out);
        let own = conf.and_then(|conf| TopologyFile::beside(&SlurmConf::read(&conf).ok()?));
        if let Some(path) = files.1.or(own.as_deref().filter(|path| path.exists())) {
            load.set_topology(TopologyFile::open(path)?.over(&load.table())?);
        } else if own.is_some() {
            let what = "without leaf switches or blocks: no file of them beside slurm.conf";
            load.unmodelled.insert(what.to_owned(), load.jobs.len() as u64);
        }
        if load.jobs.is_empty() {
            let skipped = load.skipped;
            return Err(Failure::usage_line(format!(
                "{name}: no job of {skipped} ran, ended, and fits the nodes of {nodes_from}"
            )));
        }
        let pool = load.workload();
        rules::note_window(&rules, &[SLURM], pool.jobs.iter().map(|job| job.limit_s));
        let gangs = GangSettings { bonus_scale: 0.0, ..config.gang_settings() };
        let setup = |policy: &Policy| Setup::of(policy, &config.tuning(), &gangs, &rules);
        let mut as_was = [happened(&load, &pool, &setup(&SLURM))];
        card::fill(&pool, &mut as_was, 0);
        let [(happened, as_was)] = as_was;
        let found = each(None, &[SLURM, PHALANX], load.jobs.len(), |policy, progress| {
            let outcome = engine::run(&load, &setup(policy), None, progress)?;
            let is_slurm = policy.name == SLURM.name;
            let name = if is_slurm { "Slurm simulated" } else { "With Phalanx" };
            Ok(figures(name, &pool, &outcome))
        });
        let found: Result<Vec<_>, String> = found.into_iter().collect();
        let mut found = found.map_err(|error| Failure::usage_line(format!("balance: {error}")))?;
        card::fill(&pool, &mut found, 0);
        let Ok([(slurm, stock), (phalanx, ours)]) = <[_; 2]>::try_from(found) else {
            return Err(Failure::usage_line("the simulation broke off"));
        };
        let mut unmodelled: Vec<(String, u64)> = load.unmodelled.into_iter().collect();
        unmodelled.sort_by_key(|(_, jobs)| std::cmp::Reverse(*jobs));
        let judged = judge(&pool, &happened, &slurm, &phalanx);
        let summary = Simulated {
            log: name,
            nodes_from,
            nodes: load.cluster.nodes.len(),
            cpus: pool.cpus,
            skipped: load.skipped,
            unmodelled,
            happened,
            slurm,
            phalanx,
            judged,
        };
        Ok(Self { summary, pool, schedules: [as_was, stock, ours] })
    }

    /// Table and plots as HTML.
    pub fn html(&self) -> String {
        let columns = self.summary.columns();
        let parts: Vec<Part<'_>> = columns.into_iter().zip(&self.schedules).collect();
        report::table(&columns, &SHOWN)
            + &report::classes(&columns)
            + &report::pictures(&self.pool, &parts)
    }
}

/// Returns nodes and partitions, their source, and the slurm.conf that was read.
fn site(
    conf: Option<&Path>,
    known: impl FnOnce() -> Option<NodesReport>,
) -> Result<(Site, String, Option<PathBuf>), Failure> {
    let of = |path: &Path| {
        let read = site::of_conf(path);
        read.map(|site| (site, path.display().to_string(), Some(path.to_owned())))
    };
    if let Some(path) = conf {
        return of(path);
    }
    if let Ok(found) = of(Path::new(SLURM_CONF)) {
        return Ok(found);
    }
    if let Some(report) = known().filter(|report| !report.nodes.is_empty()) {
        return Ok((site::of_report(&report), "phalanxd".to_owned(), None));
    }
    let learned = "each as large as what jobs used of it at once; better: --slurm-conf FILE";
    Ok((Site::default(), learned.to_owned(), None))
}
