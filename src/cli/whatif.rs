// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx what-if`: the live queue under another configuration.

use clap::Args;
use jiff::tz::TimeZone;

use super::client::{Client, Method};
use super::exit::{Exit, Failure};
use super::resolve::masters;
use super::{Outcome, args::Global, render};
use phalanx_planner::state::State;
use phalanx_service::api::types::{EnergyReport, RunsReport};
use phalanx_service::config::{Config, Mode};
use phalanx_sim::arrivals::{self, Arrivals};
use phalanx_sim::nodes::{NodeLoad, Order, Setup, live};
use phalanx_sim::whatif;

/// Largest `--hours`.
const HOURS_MAX: f64 = 24.0 * 366.0;

/// Arguments of `phalanx what-if`.
#[derive(Args, Clone, Debug)]
pub struct WhatIfArgs {
    /// Length of the period from now on
    #[arg(long, value_name = "HOURS", default_value_t = 24.0)]
    pub hours: f64,
    /// Jobs that are listed, those with the largest change
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub list: usize,
    /// Seed of the jobs that are likely to be submitted within the period
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Only the jobs that are there: nobody new arrives
    #[arg(long)]
    pub no_arrivals: bool,
}

/// Runs that rates of arrivals come from at most, and their age.
const HISTORY_RUNS: u32 = 20_000;
/// See [`HISTORY_RUNS`].
const HISTORY_MS: u64 = 56 * 86_400_000;

/// Runs the command.
pub(super) fn run(global: &Global, args: &WhatIfArgs) -> Result<Outcome, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message.replace(['\n', '\r'], " "));
    let path = global.config.as_ref().ok_or_else(|| {
        usage("--config is missing: the configuration to be compared with the one in force".into())
    })?;
    if !(args.hours > 0.0 && args.hours <= HOURS_MAX) {
        let what = format!("--hours: expected above 0 and at most {HOURS_MAX}");
        return Err(usage(format!("{what}, got {}", args.hours)));
    }
    let then = Config::load(path).map_err(|error| usage(error.to_string()))?;
    // The file is the other configuration: it says nothing of the daemon that runs.
    let client = Client::new(&masters(&Global { config: None, ..global.clone() })?);
    let reply = client.request(Method::Get, "/v1/state")?;
    let state: State = client.parse(reply.expect_success()?)?;
    let today: Config = client.parse(state.config.to_string().as_bytes())?;
    let mut load = live::load(&state);
    let arrivals = arrivals(&client, args, state.time_ms, &mut load);
    let no_energy = power(&client, &today, &mut load).err();
    let report = whatif::compare(
        &load,
        &setup(&today, &state),
        &setup(&then, &state),
        args.hours,
        args.list,
    )
    .map_err(|error| usage(format!("balance: {error}")))?;
    let report = whatif::WhatIf { arrivals, no_energy, ..report };
    if global.json {
        let line = serde_json::to_string(&report).map_err(|error| usage(error.to_string()))?;
        return Ok(Outcome::ok(line + "\n"));
    }
    Ok(Outcome::ok(render::whatif::text(&report)))
}

/// Adds the jobs that the history makes likely.
fn arrivals(client: &Client, args: &WhatIfArgs, now_ms: u64, load: &mut NodeLoad) -> Arrivals {
    let none = |why: String| Arrivals { none: Some(why), ..Arrivals::default() };
    if args.no_arrivals {
        return none("--no-arrivals".to_owned());
    }
    let since = now_ms.saturating_sub(HISTORY_MS);
    let path = format!("/v1/history/runs?since={since}&limit={HISTORY_RUNS}");
    let reply = client.request(Method::Get, &path);
    let body = reply.and_then(|reply| reply.expect_success().map(<[u8]>::to_vec));
    match body.and_then(|body| client.parse::<RunsReport>(&body)) {
        Ok(report) => arrivals::add(load, &report.runs, args.hours, args.seed, &TimeZone::system()),
        Err(failure) => none(format!("no history: {}", failure.message)),
    }
}

/// Power of each node, as the daemon believes it.
///
/// # Errors
/// Why it is not known.
fn power(client: &Client, config: &Config, load: &mut NodeLoad) -> Result<(), String> {
    let reply = client.request(Method::Get, "/v1/history/energy");
    let body = reply.and_then(|reply| reply.expect_success().map(<[u8]>::to_vec));
    let report = body.and_then(|body| client.parse::<EnergyReport>(&body));
    let classes = report.map_err(|failure| failure.message)?.nodes.into_iter();
    let known = classes
        .filter_map(|class| Some((class.class, [class.idle_w, class.busy_w?.max(class.idle_w)])));
    let known = known.collect();
    load.watts = live::watts(&load.cluster, &config.learn.node_class_by, &known)
        .map_err(|class| format!("no power is known of nodes of class {class} ([bag] watts)"))?;
    Ok(())
}

/// What the daemon would do under this configuration.
fn setup(config: &Config, state: &State) -> Setup {
    let partitions = state.snapshot.partitions.iter().map(|partition| partition.name.to_string());
    let by_slurm = |name: &String| config.mode_for(name) != Mode::Enforce;
    Setup {
        order: Order::Arrival,
        rule: None,
        tuning: config.tuning(),
        gangs: config.gang.enabled.then(|| config.gang_settings()),
        left_to_slurm: partitions.filter(by_slurm).collect(),
    }
}
