// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx plan --config`: the live queue under another configuration.

mod render;

use std::path::PathBuf;

use jiff::tz::TimeZone;

use crate::client::Client;
use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::topology::TopologyFile;
use phalanx_config::{Config, GangMode, Mode};
use phalanx_messages::rest::{EnergyReport, RunsReport};
use phalanx_planner::state::State;
use phalanx_sim::arrivals::{self, Arrivals};
use phalanx_sim::nodes::{NodeLoad, Setup, live};
use phalanx_sim::policy::Order;
use phalanx_sim::slurm::Rules;
use phalanx_sim::whatif;

/// Length of the simulated period without `--hours`, in hours.
const HOURS: f64 = 24.0;
/// Number of jobs listed, those with the largest change first.
const LISTED: usize = 20;
/// Largest `--hours`.
const HOURS_MAX: f64 = 24.0 * 366.0;

/// Options of the simulation.
#[derive(clap::Args, Debug)]
#[group(skip)]
#[command(next_help_heading = "With --config FILE")]
pub struct Args {
    /// Length of the simulated period, from now on [default: 24]
    #[arg(long, value_name = "HOURS", requires = "config")]
    hours: Option<f64>,
    /// Topology to use, not Slurm's: topology.conf, .yaml, or what scontrol show topology says
    #[arg(long, value_name = "FILE", requires = "config")]
    topology: Option<PathBuf>,
    /// Simulate only the jobs that are there: no new ones arrive
    #[arg(long, requires = "config")]
    no_arrivals: bool,
}

/// Greatest number of runs from which rates of arrivals are estimated.
const HISTORY_RUNS: u32 = 20_000;
/// Largest age of the runs from which rates of arrivals are estimated, in milliseconds.
const HISTORY_MS: u64 = 56 * 86_400_000;

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let then = global.given_config().map_err(Failure::usage_line)?.unwrap_or_default();
        let hours = self.hours.unwrap_or(HOURS);
        if !(hours > 0.0 && hours <= HOURS_MAX) {
            let what = format!("--hours: expected above 0 and at most {HOURS_MAX}");
            return Err(Failure::usage(format!("{what}, got {hours}")));
        }
        let file = self.topology.as_deref().map(TopologyFile::open).transpose()?;
        // The file is the other configuration: it says nothing of the daemon that runs.
        let client = Global { config: None, ..global.clone() }.client()?;
        let state: State = client.get("/v1/state")?;
        let today: Config = client.parse(state.config.to_string().as_bytes())?;
        let mut load = live::load(&state);
        if let Some(file) = file {
            load.set_topology(file.over(&load.table())?);
        }
        let arrivals = self.arrivals(&client, hours, state.time_ms, &mut load);
        let no_energy = power(&client, &today, &mut load).err();
        let (today, then) = (setup(&today, &state), setup(&then, &state));
        let report = whatif::compare(&load, &today, &then, hours, LISTED)
            .map_err(|error| Failure::usage_line(format!("balance: {error}")))?;
        let report = whatif::WhatIf { arrivals, no_energy, ..report };
        global.show(&report, render::text)
    }

    /// Adds likely arrivals, estimated from the history.
    fn arrivals(&self, client: &Client, hours: f64, now_ms: u64, load: &mut NodeLoad) -> Arrivals {
        let none = |why: String| Arrivals { none: Some(why), ..Arrivals::default() };
        if self.no_arrivals {
            return none("--no-arrivals".to_owned());
        }
        let since = now_ms.saturating_sub(HISTORY_MS);
        let path = format!("/v1/history/runs?since={since}&limit={HISTORY_RUNS}");
        match client.get::<RunsReport>(&path) {
            Ok(report) => arrivals::add(load, &report.runs, hours, 0, &TimeZone::system()),
            Err(failure) => none(format!("no history: {}", failure.message)),
        }
    }
}

/// Sets the power of each node to the daemon's estimate.
fn power(client: &Client, config: &Config, load: &mut NodeLoad) -> Result<(), String> {
    let report = client.get::<EnergyReport>("/v1/history/energy");
    let classes = report.map_err(|failure| failure.message)?.nodes.into_iter();
    let known = classes
        .filter_map(|class| Some((class.class, [class.idle_w, class.busy_w?.max(class.idle_w)])));
    let known = known.collect();
    load.watts = live::watts(&load.cluster, &config.learn.node_class_by, &known)
        .map_err(|class| format!("no power is known of nodes of class {class} ([bag] watts)"))?;
    Ok(())
}

/// Settings of the simulation under a configuration.
fn setup(config: &Config, state: &State) -> Setup {
    let partitions = state.snapshot.partitions.iter().map(|partition| partition.name.to_string());
    let by_slurm = |name: &String| config.mode_for(name, "") != Mode::Enforce;
    Setup {
        order: Order::Easy,
        rules: Rules::default(),
        rule: None,
        tuning: config.tuning(),
        gangs: (config.gang.mode != GangMode::Off).then(|| config.gang_settings()),
        bags: None,
        data: None,
        hold_budget_ms: u64::from(config.data_jobs.hold_budget_s) * 1000,
        left_to_slurm: partitions.filter(by_slurm).collect(),
    }
}
