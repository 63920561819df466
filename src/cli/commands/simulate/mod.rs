// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx simulate`: what policies would have made of a log.

mod log;
mod recorded;
mod render;
pub(super) mod rules;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::tz::TimeZone;

use crate::exit::{EXIT_CODES, Exit, Failure};
use crate::global::Global;
use crate::outcome::Outcome;
use crate::topology::TopologyFile;
use log::{Format, Log, usage};
use phalanx_config::Config;
use phalanx_core::problem::InputError;
use phalanx_core::trace::openb;
use phalanx_core::trace::spec::{self, NodeSpec};
use phalanx_planner::gang::Settings as GangSettings;
use phalanx_sim::inflate::{self, Inflation};
use phalanx_sim::input;
use phalanx_sim::job::{self, Workload};
use phalanx_sim::metrics::{self, Figures};
use phalanx_sim::nodes::{self, NoBeliefs, NodeLoad, Setup};
use phalanx_sim::policy::Policy;
use phalanx_sim::pool::{self, Schedule};
use phalanx_sim::report::{self, Part};
use phalanx_sim::slurm::{self, Rules};

/// Largest `--target`.
const TARGET_MAX: f64 = 100.0;
/// Largest `--window`.
const WINDOW_MAX: usize = 1_000_000;

/// Largest `--turnaround`, seconds.
const TURNAROUND_MAX: u64 = 86_400;

/// Simulate a log under one or several policies, without the daemon
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    /// Log: SWF, openb pod list, sacct --parsable2 (all plain, .gz or .zst; - is standard input)
    /// or a recording of phalanxd; the files of one recording may be given one by one
    #[arg(long, value_name = "FILE", required = true, visible_alias = "trace")]
    jobs: Vec<PathBuf>,
    /// Nodes: an openb node list, or such as 128x(cpu=64,mem=256G,gpu=4), several joined
    /// by + [default: as large as an SWF log's header says, or as sacct shows in use at once; of
    /// a recording its own]
    #[arg(long, value_name = "FILE|SPEC")]
    nodes: Option<String>,
    /// Leaf switches or blocks of the nodes: a topology.conf, or what scontrol show topology
    /// printed; the nodes of a specification get its names, in its order, and an SWF log runs
    /// on whole nodes
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Policy, may be repeated: fcfs, easy, easy++, stock, best-fit, dot-product, k8s-balanced,
    /// fgd, balance-seed, balance, gang-seed, gang, slurm, phalanx, research
    /// [default: slurm and phalanx]
    #[arg(long, value_name = "P")]
    policy: Vec<String>,
    /// slurm and phalanx: the slurm.conf whose scheduling and priorities count [default: Slurm's
    /// defaults, with priorities by age]
    #[arg(long, value_name = "FILE")]
    slurm_conf: Option<PathBuf>,
    /// Format of the log: swf, openb, sacct or recording [default: by its name, else content]
    #[arg(long, value_name = "F")]
    format: Option<String>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How jobs arrive: openb (the inflation protocol; jobs are an openb pod list)
    #[arg(long, value_name = "A")]
    arrivals: Option<String>,
    /// openb: GPU requests in parts of the GPUs
    #[arg(long, value_name = "X", default_value_t = 1.3)]
    target: f64,
    /// openb: pods that may be looked at ahead
    #[arg(long, value_name = "N", default_value_t = 1)]
    window: usize,
    /// openb: how often a pod may be overtaken
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_overtakes: u32,
    /// Write an HTML report and CSV files into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// sacct and swf: seconds from a job's end until its nodes take the next one (epilog, next pass
    /// of the scheduler), with the policies that stand for Slurm and on nodes; about 1 for a
    /// cluster of short jobs
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    turnaround: u64,
    /// Policies that are simulated at once; never changes the results
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let policies = policies(self)?;
        check(self)?;
        // A wrong file is an error, whether the format needs it or not.
        let given = global.given_config().map_err(usage)?;
        let rules = rules::rules(given.as_ref(), self.slurm_conf.as_deref())?;
        let config = given.unwrap_or_default();
        let log = Log::open(self.log()?, self.format.as_deref(), self.arrivals.is_some())?;
        let name = log.name.clone();
        if self.jobs.len() > 1 && log.format != Format::Recording {
            return Err(usage("--jobs: several files are for recordings only"));
        }
        if let Some(directory) = &self.out {
            report::prepare(directory)?;
        }
        let figures = match log.format {
            Format::Swf | Format::Sacct | Format::Recording if self.arrivals.is_some() => {
                return Err(usage("--arrivals: only for an openb pod list"));
            }
            Format::Sacct if self.nodes.is_some() => {
                on_nodes(&config, &rules, self, log, &policies)?
            }
            Format::Swf if self.topology.is_some() => {
                on_nodes(&config, &rules, self, log, &policies)?
            }
            Format::Recording => on_nodes(&config, &rules, self, log, &policies)?,
            Format::Sacct | Format::Openb if self.topology.is_some() => {
                return Err(usage(self.no_topology(log.format)));
            }
            Format::Swf | Format::Sacct => batch(&rules, self, log, &policies)?,
            Format::Openb => openb(self, log, &policies)?,
        };
        let exit = if figures.iter().all(|figures| figures.jobs == 0) {
            let skipped = figures.first().map_or(0, |figures| figures.skipped);
            let why = "without runtime or size, or larger than the nodes";
            // Nothing can be done where standard error is closed.
            let _ =
                writeln!(std::io::stderr(), "phalanx: {name}: all {skipped} jobs skipped: {why}");
            Exit::Negative
        } else {
            Exit::Ok
        };
        let outcome = if global.json || !std::io::stdout().is_terminal() {
            Outcome::json_lines(&figures)?
        } else {
            Outcome::ok(render::text(&figures))
        };
        Ok(outcome.ends_with(exit))
    }

    fn no_topology(&self, format: Format) -> &'static str {
        match format {
            Format::Openb => "--topology: an openb pod list has no jobs of several nodes",
            _ => "--topology needs --nodes, for its nodes have CPUs",
        }
    }

    /// The one log.
    fn log(&self) -> Result<&Path, Failure> {
        self.jobs.first().map(PathBuf::as_path).ok_or_else(|| usage("--jobs is missing"))
    }
}

/// The numbers among the options, whether this log needs them or not.
fn check(args: &Args) -> Result<(), Failure> {
    let Args { threads, target, window, turnaround, arrivals, .. } = args;
    if *threads == Some(0) {
        return Err(usage("--threads: expected at least 1, got 0"));
    }
    if !(*target > 0.0 && *target <= TARGET_MAX) {
        let wanted = format!("above 0 and at most {TARGET_MAX}");
        return Err(usage(format!("--target: expected {wanted}, got {target}")));
    }
    if !(1..=WINDOW_MAX).contains(window) {
        return Err(usage(format!("--window: expected 1 to {WINDOW_MAX}, got {window}")));
    }
    if *turnaround > TURNAROUND_MAX {
        let wanted = format!("at most {TURNAROUND_MAX}");
        return Err(usage(format!("--turnaround: expected {wanted}, got {turnaround}")));
    }
    match arrivals.as_deref() {
        None | Some("openb") => Ok(()),
        Some(other) => Err(usage(format!("--arrivals: expected openb, got {other:?}"))),
    }
}

fn policies(args: &Args) -> Result<Vec<Policy>, Failure> {
    if args.policy.is_empty() {
        return Ok(vec![Policy::Slurm, Policy::Phalanx]);
    }
    let parse =
        |name: &String| Policy::parse(name).map_err(|what| usage(format!("--policy: {what}")));
    args.policy.iter().map(parse).collect()
}

fn batch(
    rules: &Rules,
    args: &Args,
    log: Log,
    policies: &[Policy],
) -> Result<Vec<Figures>, Failure> {
    let cpus = args.nodes.as_deref().map(cpus_of).transpose()?;
    let load = match log.format {
        Format::Sacct => job::read_sacct(log.reader, &TimeZone::system(), cpus, 1),
        _ => job::read_swf(log.reader, cpus),
    };
    let mut load = load.map_err(Log::failed(log.name))?;
    load.turnaround_s = args.turnaround;
    let found = each(args.threads, policies, load.jobs.len(), |policy, progress| {
        let schedule = match rules.of(policy) {
            Some(rules) => slurm::pool::run(&load, &rules, progress),
            None => pool::run(&load, policy, progress),
        };
        (metrics::of_pool(policy, &load, &schedule), schedule)
    });
    write_report(args, &load, &found)?;
    Ok(found.into_iter().map(|(figures, _)| figures).collect())
}

/// Jobs with CPUs, memory and GRES on a cluster of nodes.
fn on_nodes(
    config: &Config,
    rules: &Rules,
    args: &Args,
    log: Log,
    policies: &[Policy],
) -> Result<Vec<Figures>, Failure> {
    let topology = TopologyFile::given(args.topology.as_deref())?;
    let mut load = match log.format {
        Format::Recording => recorded(args, topology.as_ref())?,
        Format::Swf => of_swf(args, log, topology.as_ref())?,
        _ => accounted(args, log, topology.as_ref())?,
    };
    if let Some(file) = topology {
        load.set_topology(file.over(&load.table())?);
    }
    load.turnaround_s = args.turnaround;
    // Nothing was learned of speeds: trying nodes teaches nothing.
    let gangs = GangSettings { seed: args.seed, bonus_scale: 0.0, ..config.gang_settings() };
    let pool = load.workload();
    let found = each(args.threads, policies, load.jobs.len(), |policy, progress| {
        let setup = Setup::of(policy, &config.tuning(), &gangs, rules);
        let outcome = nodes::engine::run(&load, &setup, &NoBeliefs, progress)?;
        Ok(nodes::load::figures(policy, &pool, &outcome))
    });
    let found: Result<Vec<_>, String> = found.into_iter().collect();
    let found = found.map_err(|what| usage(format!("balance: {what}")))?;
    write_report(args, &pool, &found)?;
    Ok(found.into_iter().map(|(figures, _)| figures).collect())
}

/// Jobs of an SWF log on whole nodes.
fn of_swf(args: &Args, log: Log, names: Option<&TopologyFile>) -> Result<NodeLoad, Failure> {
    let text = args.nodes.as_deref();
    let specs = named(text.ok_or_else(|| usage(args.no_topology(log.format)))?, names)?;
    let cpus = specs.iter().map(|node| node.cpu_milli / 1000).sum();
    let pool = job::read_swf(log.reader, Some(cpus)).map_err(Log::failed(log.name))?;
    nodes::load::of_pool(&pool, &specs).map_err(|what| usage(format!("--nodes: {what}")))
}

fn accounted(args: &Args, log: Log, names: Option<&TopologyFile>) -> Result<NodeLoad, Failure> {
    let specs = named(args.nodes.as_deref().unwrap_or_default(), names)?;
    let load = nodes::load::read_sacct(log.reader, &TimeZone::system(), &specs);
    load.map_err(Log::failed(log.name))
}

/// The period of a recording, as far as it can be read.
fn recorded(args: &Args, names: Option<&TopologyFile>) -> Result<NodeLoad, Failure> {
    let (period, broken) = recorded::period(&args.jobs).map_err(usage)?;
    if let Some(error) = broken {
        // Nothing can be done where standard error is closed.
        let _ = writeln!(std::io::stderr(), "phalanx: {error}; what comes before is used");
    }
    let other = match args.nodes.as_deref() {
        Some(text) => Some(nodes::load::idle(&named(text, names)?).map_err(usage)?),
        None => None,
    };
    let load = nodes::recorded::load(&period, other);
    if load.jobs.is_empty() {
        let path = args.log()?;
        return Err(InputError::new(path.to_string_lossy(), "no job in it that ran").into());
    }
    Ok(load)
}

fn write_report(
    args: &Args,
    load: &Workload,
    found: &[(Figures, Schedule)],
) -> Result<(), Failure> {
    if let Some(directory) = &args.out {
        let part = |(figures, schedule)| Part { figures, schedule };
        let parts: Vec<Part<'_>> = found.iter().map(|(f, s)| part((f, s))).collect();
        report::of_pool(directory, &title(args), load, &parts)?;
    }
    Ok(())
}

fn openb(args: &Args, log: Log, policies: &[Policy]) -> Result<Vec<Figures>, Failure> {
    if args.arrivals.is_none() {
        return Err(usage("a pod list needs --arrivals openb"));
    }
    let pods = openb::pods(log.reader).map_err(Log::failed(log.name))?;
    let nodes = nodes_of(args.nodes.as_deref().ok_or_else(|| usage("--nodes is missing"))?)?;
    let how = Inflation {
        seed: args.seed,
        target: args.target,
        window: args.window,
        overtakes_max: args.max_overtakes,
    };
    let found = each(args.threads, policies, 1, |policy, _| {
        inflate::run(&pods, &nodes, policy, &how).map(|(filled, figures)| (figures, filled.curve))
    });
    let found: Result<Vec<_>, String> = found.into_iter().collect();
    let found = found.map_err(|what| usage(format!("--nodes: {what}")))?;
    if let Some(directory) = &args.out {
        report::of_fill(directory, &title(args), &found)?;
    }
    Ok(found.into_iter().map(|(figures, _)| figures).collect())
}

/// Of the report: the log's name.
fn title(args: &Args) -> String {
    let first = args.jobs.first().and_then(|path| path.file_name());
    input::shown(Path::new(first.unwrap_or_default()))
}

/// A node list if there is a file of this name, else a specification.
fn nodes_of(text: &str) -> Result<Vec<NodeSpec>, Failure> {
    if !Path::new(text).exists() {
        if text.contains('(') {
            return spec::parse(text).map_err(|what| usage(format!("--nodes {what}")));
        }
        let what = "no such file, and not nodes as in 128x(cpu=64,mem=256G,gpu=4)";
        return Err(usage(format!("--nodes {text:?}: {what}")));
    }
    let nodes = openb::nodes(input::open(Path::new(text))?);
    Ok(nodes.map_err(|error| InputError::new(text, error))?)
}

/// The same; of a specification they get the names of the topology's nodes, in its order.
fn named(text: &str, topology: Option<&TopologyFile>) -> Result<Vec<NodeSpec>, Failure> {
    let mut nodes = nodes_of(text)?;
    let Some(topology) = topology.filter(|_| !Path::new(text).exists()) else { return Ok(nodes) };
    let names = topology.node_names()?;
    if names.len() != nodes.len() {
        let (own, there) = (nodes.len(), names.len());
        let what = format!("expected the {there} nodes of the topology, got {own}");
        return Err(usage(format!("--nodes {text:?}: {what}")));
    }
    for (node, name) in nodes.iter_mut().zip(names) {
        node.name = name;
    }
    Ok(nodes)
}

/// CPUs of a specification or node list.
fn cpus_of(text: &str) -> Result<u64, Failure> {
    let nodes = nodes_of(text)?;
    Ok(nodes.iter().map(|node| node.cpu_milli / 1000).sum())
}

/// Runs the policies side by side and gives their figures in the order asked for.
fn each<T: Send>(
    threads: Option<usize>,
    policies: &[Policy],
    steps: usize,
    simulate: impl Fn(Policy, &dyn Fn(usize)) -> T + Sync,
) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.unwrap_or(cores).min(policies.len()).max(1);
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    let shown = std::io::stderr().is_terminal();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&policy) = policies.get(at) else { break };
            let progress = |done: usize| show_progress(shown, policy, done, steps);
            let figures = simulate(policy, &progress);
            if let Ok(mut found) = found.lock() {
                found.push((at, figures));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    if shown {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, figures)| figures).collect()
}

fn show_progress(shown: bool, policy: Policy, done: usize, steps: usize) {
    if shown {
        let percent = done * 100 / steps.max(1);
        let bar = "#".repeat(percent / 5);
        let _ = write!(std::io::stderr(), "\r\x1b[K{:<12} [{bar:<20}] {percent} %", policy.name());
    }
}
