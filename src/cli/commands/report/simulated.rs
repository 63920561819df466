// SPDX-License-Identifier: GPL-3.0-or-later
//! The jobs of an accounting: what happened, and simulated as Slurm and as Phalanx place them.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use serde::Serialize;

use super::verdict::{Judged, by_help, judge};
use crate::commands::advise::search::{self, Loads, Setting};
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
use phalanx_sim::input;
use phalanx_sim::job::Workload;
use phalanx_sim::metrics::{Figures, Part, fill_cards};
use phalanx_sim::nodes::accounted::Accounting;
use phalanx_sim::nodes::load::{Site, figures, happened};
use phalanx_sim::nodes::{NodeLoad, Setup, engine};
use phalanx_sim::policy::{PHALANX, Policy, SLURM};
use phalanx_sim::report;
use phalanx_sim::schedule::Schedule;
use phalanx_sim::slurm::{Parameters, Rules};
use phalanx_sim::window::Window;

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

/// Most jobs that are simulated, the latest ones: enough for the figures, and done in a minute.
const JOBS_MAX: usize = 10_000;
/// Number of latest jobs on which the settings of the tuned Slurm are chosen.
const CHOSEN_ON: usize = 4_000;

/// Figures of a log: what happened, and simulated under Slurm as it is, under Slurm with better
/// settings, and with Phalanx.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Simulated {
    /// File of the accounting.
    pub log: String,
    pub nodes_from: String,
    pub nodes: usize,
    pub cpus: u64,
    /// The period that the text covers, and the part of it that is simulated, Unix seconds.
    pub covers: Window,
    pub period: Window,
    /// Number of jobs that held their nodes as the part began, so that they do not wait.
    pub began_before: usize,
    /// Number of jobs that still ran at the end of the part.
    pub still_ran: usize,
    /// Jobs of the log that cannot be run, and lines that cannot be read.
    pub skipped: u64,
    /// Reason, number and first job of the jobs that are left out.
    pub left_out: Vec<(&'static str, u64, String)>,
    /// Number of jobs by the part of their request that is not modelled, most jobs first.
    pub unmodelled: Vec<(String, u64)>,
    /// Figures of what happened, by the accounting.
    pub happened: Figures,
    pub slurm: Figures,
    /// Slurm with the lines of `tuned_by`; absent where no line makes waits shorter.
    pub tuned: Option<Figures>,
    /// Lines of slurm.conf.
    pub tuned_by: Vec<String>,
    pub phalanx: Figures,
    /// Verdict on the three simulations.
    pub judged: Judged,
}

impl Simulated {
    pub fn columns(&self) -> Vec<&Figures> {
        let first = [&self.happened, &self.slurm];
        first.into_iter().chain(&self.tuned).chain([&self.phalanx]).collect()
    }
}

/// Figures, and schedules for pictures.
#[derive(Debug)]
pub struct Simulation {
    pub summary: Simulated,
    pool: Workload,
    schedules: Vec<Schedule>,
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
        let rules = rules::rules(&config, conf.as_deref())?;
        let name = input::shown(sacct);
        let failed = |error| Failure::usage_line(InputError::new(&name, error));
        let accounting =
            Accounting::read(input::open(sacct)?, &TimeZone::system()).map_err(failed)?;
        let part = accounting.latest(&accounting.window, JOBS_MAX);
        let mut load = accounting.load(&site, &part).map_err(failed)?;
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
        rules::note_window(&rules, &[SLURM], load.jobs.iter().map(|job| job.limit_s));
        let tuned = Tuned::of(&accounting, &part, &load, &site, &rules)?;
        let source = Simulated {
            log: name,
            nodes_from,
            covers: accounting.window,
            period: part,
            ..Simulated::default()
        };
        Self::of(load, source, tuned, (&config, &rules))
    }

    /// Simulates a load.
    fn of(
        load: NodeLoad,
        source: Simulated,
        tuned: Vec<Tuned>,
        (config, rules): (&Config, &Rules),
    ) -> Result<Self, Failure> {
        let pool = load.workload();
        let gangs = GangSettings { bonus_scale: 0.0, ..config.gang_settings() };
        let setup = |policy: &Policy| Setup::of(policy, &config.tuning(), &gangs, rules);
        let mut as_was = [happened(&load, &pool, &setup(&SLURM))];
        fill_cards(&pool, &mut as_was, 0);
        let [(happened, as_was)] = as_was;
        let mut columns = vec![("Slurm simulated", SLURM, None), ("With Phalanx", PHALANX, None)];
        columns.extend(tuned.iter().map(|of| (TUNED, SLURM, Some(of))));
        let found = each(None, &columns, load.jobs.len(), |(name, policy, tuned), progress| {
            let mut setup = setup(policy);
            tuned.iter().for_each(|of| setup.rules.parameters = of.parameters.clone());
            let load = tuned.and_then(|of| of.load.as_ref()).unwrap_or(&load);
            let outcome = engine::run(load, &setup, None, progress)?;
            Ok(figures(name, &pool, &outcome))
        });
        let found: Result<Vec<_>, String> = found.into_iter().collect();
        let mut found = found.map_err(|error| Failure::usage_line(format!("balance: {error}")))?;
        fill_cards(&pool, &mut found, 0);
        let mut found = found.into_iter();
        let (Some((slurm, stock)), Some((phalanx, ours))) = (found.next(), found.next()) else {
            return Err(Failure::usage_line("the simulation broke off"));
        };
        let each = found.zip(&tuned);
        let best = each.min_by(|((a, _), _), ((b, _), _)| by_help(&pool, &slurm, a, b));
        let (better, tuned_by) = best.map(|(of, tuned)| (of, tuned.lines.clone())).unzip();
        let (better, best) = better.unzip();
        let mut unmodelled: Vec<(String, u64)> = load.unmodelled.into_iter().collect();
        unmodelled.sort_by_key(|(_, jobs)| std::cmp::Reverse(*jobs));
        let tuned_by = tuned_by.unwrap_or_default();
        let as_could_be = better.as_ref().map(|figures| (figures, tuned_by.as_slice()));
        let judged = judge(&pool, &happened, (&slurm, as_could_be), &phalanx);
        let summary = Simulated {
            nodes: load.cluster.nodes.len(),
            cpus: pool.cpus,
            began_before: pool.held,
            still_ran: pool.unfinished.len(),
            skipped: load.skipped,
            left_out: load.reasons.by_count(),
            unmodelled,
            happened,
            slurm,
            tuned: better,
            tuned_by,
            phalanx,
            judged,
            ..source
        };
        let schedules = [as_was, stock].into_iter().chain(best).chain([ours]).collect();
        Ok(Self { summary, pool, schedules })
    }

    /// Formats table and plots as HTML.
    pub fn html(&self) -> String {
        let columns = self.summary.columns();
        let parts: Vec<Part<'_>> = columns.iter().copied().zip(&self.schedules).collect();
        report::table(&columns, &SHOWN)
            + &report::classes(&columns)
            + &report::pictures(&self.pool, &parts)
    }
}

/// Name of the column of Slurm with a few better settings.
const TUNED: &str = "Slurm, tuned";

/// Slurm with a few better settings, which a site can write today.
struct Tuned {
    parameters: Parameters,
    /// The load, with a Weight by kind of node if the setting includes one.
    load: Option<NodeLoad>,
    lines: Vec<String>,
}

impl Tuned {
    /// The best of the settings that help at sites, on the latest jobs, if one helps without harm;
    /// and Weight by kind of node, which may help all jobs where these settings do not.
    fn of(
        accounting: &Accounting,
        part: &Window,
        load: &NodeLoad,
        site: &Site,
        rules: &Rules,
    ) -> Result<Vec<Self>, Failure> {
        let part = accounting.latest(part, CHOSEN_ON);
        let Ok(mut few) = accounting.load(site, &part) else { return Ok(Vec::new()) };
        if let Some(topology) = &load.topology {
            few.set_topology(topology.clone());
        }
        let all = [Loads::new(few)];
        let quick = search::quick(&all, &rules.parameters)?;
        let weights = Setting { weights: true, ..Setting::now(&rules.parameters) };
        let has_weights = quick.as_ref().is_some_and(|setting| setting.weights);
        let weights = Some(weights).filter(|_| !has_weights && search::weighted(load).is_some());
        Ok(quick.into_iter().chain(weights).map(|setting| Self::by(setting, load)).collect())
    }

    fn by(setting: Setting, load: &NodeLoad) -> Self {
        let words = setting.words();
        let mut lines = Vec::new();
        if !words.is_empty() {
            lines.push(format!("SchedulerParameters={}", words.join(",")));
        }
        let weighted = setting.weights.then(|| search::weighted(load)).flatten();
        if weighted.is_some() {
            lines.extend(search::weight_lines(load));
        }
        Self { parameters: setting.parameters, load: weighted, lines }
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
