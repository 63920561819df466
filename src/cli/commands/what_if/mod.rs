// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx what-if`: the live queue under another configuration.

mod render;

use std::path::PathBuf;

use jiff::tz::TimeZone;

use crate::client::Client;
use crate::exit::{EXIT_CODES, Failure};
use crate::global::Global;
use crate::outcome::Outcome;
use crate::topology::TopologyFile;
use phalanx_config::{Config, GangMode, Mode};
use phalanx_messages::rest::{EnergyReport, RunsReport};
use phalanx_planner::state::State;
use phalanx_sim::arrivals::{self, Arrivals};
use phalanx_sim::nodes::{NodeLoad, Order, Setup, live};
use phalanx_sim::whatif;

/// Largest `--hours`.
const HOURS_MAX: f64 = 24.0 * 366.0;

/// Simulate the live queue under another configuration (--config) and under the one in force
///
/// Nothing is changed: phalanxd is asked for nodes, jobs and learned runtimes, and the
/// simulation runs here. Jobs that wait for something else than resources are left out.
/// --config names the other configuration only: the control socket is that of --socket,
/// $PHALANX_SOCKET or /etc/phalanx/phalanx.toml.
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    /// Length of the period from now on
    #[arg(long, value_name = "HOURS", default_value_t = 24.0)]
    hours: f64,
    /// Jobs that are listed, those with the largest change
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    list: usize,
    /// Seed of the jobs that are likely to be submitted within the period
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Leaf switches or blocks of the nodes, instead of Slurm's: a topology.conf, or what
    /// scontrol show topology printed
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Only the jobs that are there: nobody new arrives
    #[arg(long)]
    no_arrivals: bool,
}

/// Most runs from which rates of arrivals are estimated.
const HISTORY_RUNS: u32 = 20_000;
/// Largest age of these runs.
const HISTORY_MS: u64 = 56 * 86_400_000;

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let then = global.given_config().map_err(Failure::usage_line)?.ok_or_else(|| {
            Failure::usage(
                "--config is missing: the configuration to be compared with the one in force",
            )
        })?;
        if !(self.hours > 0.0 && self.hours <= HOURS_MAX) {
            let what = format!("--hours: expected above 0 and at most {HOURS_MAX}");
            return Err(Failure::usage(format!("{what}, got {}", self.hours)));
        }
        let file = TopologyFile::given(self.topology.as_deref())?;
        // The file is the other configuration: it says nothing of the daemon that runs.
        let client = Global { config: None, ..global.clone() }.client()?;
        let state: State = client.get("/v1/state")?;
        let today: Config = client.parse(state.config.to_string().as_bytes())?;
        let mut load = live::load(&state);
        if let Some(file) = file {
            load.set_topology(file.over(&load.table())?);
        }
        let arrivals = arrivals(&client, self, state.time_ms, &mut load);
        let no_energy = power(&client, &today, &mut load).err();
        let (today, then) = (setup(&today, &state), setup(&then, &state));
        let report = whatif::compare(&load, &today, &then, self.hours, self.list)
            .map_err(|error| Failure::usage_line(format!("balance: {error}")))?;
        let report = whatif::WhatIf { arrivals, no_energy, ..report };
        if global.json {
            return Outcome::json_lines(&[report]);
        }
        Ok(Outcome::ok(render::text(&report)))
    }
}

/// Adds the jobs that the history makes likely.
fn arrivals(client: &Client, args: &Args, now_ms: u64, load: &mut NodeLoad) -> Arrivals {
    let none = |why: String| Arrivals { none: Some(why), ..Arrivals::default() };
    if args.no_arrivals {
        return none("--no-arrivals".to_owned());
    }
    let since = now_ms.saturating_sub(HISTORY_MS);
    let path = format!("/v1/history/runs?since={since}&limit={HISTORY_RUNS}");
    match client.get::<RunsReport>(&path) {
        Ok(report) => arrivals::add(load, &report.runs, args.hours, args.seed, &TimeZone::system()),
        Err(failure) => none(format!("no history: {}", failure.message)),
    }
}

/// Power of each node, as the daemon believes it.
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

/// Settings of the simulation that stand for this configuration.
fn setup(config: &Config, state: &State) -> Setup {
    let partitions = state.snapshot.partitions.iter().map(|partition| partition.name.to_string());
    let by_slurm = |name: &String| config.mode_for(name) != Mode::Enforce;
    Setup {
        order: Order::Arrival,
        rule: None,
        tuning: config.tuning(),
        gangs: (config.gang.mode != GangMode::Off).then(|| config.gang_settings()),
        left_to_slurm: partitions.filter(by_slurm).collect(),
    }
}
