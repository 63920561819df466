// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx simulate`: what policies would have made of a log.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use jiff::tz::TimeZone;

use super::args::Global;
use super::exit::{Exit, Failure};
use super::{Outcome, render};
use phalanx_core::problem::InputError;
use phalanx_core::trace::spec::{self, NodeSpec};
use phalanx_core::trace::{TraceError, openb};
use phalanx_planner::gang::Settings as GangSettings;
use phalanx_service::config::Config;
use phalanx_service::recordings;
use phalanx_sim::inflate::{self, Inflation};
use phalanx_sim::input;
use phalanx_sim::job::{self, Workload};
use phalanx_sim::metrics::{self, Figures};
use phalanx_sim::nodes::{self, NoBeliefs, NodeLoad, Setup};
use phalanx_sim::policy::Policy;
use phalanx_sim::pool::{self, Schedule};
use phalanx_sim::report::{self, Part};

/// Largest `--target`.
const TARGET_MAX: f64 = 100.0;
/// Largest `--window`.
const WINDOW_MAX: usize = 1_000_000;

/// Largest `--turnaround`, seconds.
const TURNAROUND_MAX: u64 = 86_400;

/// Arguments of `phalanx simulate`.
#[derive(Args, Clone, Debug)]
pub struct SimulateArgs {
    /// Log: SWF, openb pod list, sacct --parsable2 (all plain, .gz or .zst; - is standard input)
    /// or a recording of phalanxd; the files of one recording may be given one by one
    #[arg(long, value_name = "FILE", required = true, visible_alias = "trace")]
    pub jobs: Vec<PathBuf>,
    /// Nodes: an openb node list, or such as 128x(cpu=64,mem=256G,gpu=4), several joined
    /// by + [default: as large as an SWF log's header says, or as sacct shows in use at once; of
    /// a recording its own]
    #[arg(long, value_name = "FILE|SPEC")]
    pub nodes: Option<String>,
    /// Policy, may be repeated: fcfs, easy, easy++, stock, best-fit, dot-product, k8s-balanced,
    /// fgd, balance-seed, balance, gang-seed, gang, phalanx [default: easy and phalanx]
    #[arg(long, value_name = "P")]
    pub policy: Vec<String>,
    /// Format of the log: swf, openb, sacct or recording [default: by its name, else content]
    #[arg(long, value_name = "F")]
    pub format: Option<String>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// How jobs arrive: openb (the inflation protocol; jobs are an openb pod list)
    #[arg(long, value_name = "A")]
    pub arrivals: Option<String>,
    /// openb: GPU requests in parts of the GPUs
    #[arg(long, value_name = "X", default_value_t = 1.3)]
    pub target: f64,
    /// openb: pods that may be looked at ahead
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub window: usize,
    /// openb: how often a pod may be overtaken
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max_overtakes: u32,
    /// Write an HTML report and CSV files into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// sacct: seconds from a job's end until its nodes take the next one (epilog, next pass of
    /// the scheduler); about 1 for a cluster of short jobs
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub turnaround: u64,
    /// Policies that are simulated at once; never changes the results
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

/// Formats of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Swf,
    Openb,
    Sacct,
    Recording,
}

impl Format {
    /// As told, else by the name; `None` if only the content tells.
    fn told(args: &SimulateArgs) -> Result<Option<Self>, Failure> {
        let name = input::plain_name(args.log()?);
        let by_name = Path::new(&name).extension().map(|e| e.to_string_lossy().into_owned());
        match args.format.as_deref().or(by_name.as_deref()) {
            Some("swf") => Ok(Some(Self::Swf)),
            Some("openb") => Ok(Some(Self::Openb)),
            Some("sacct" | "psv") => Ok(Some(Self::Sacct)),
            Some("recording" | "phxrec") => Ok(Some(Self::Recording)),
            Some(other) if args.format.is_some() => {
                let what = "--format: expected swf, openb, sacct or recording";
                Err(usage(format!("{what}, got {other:?}")))
            }
            // Nothing else has arrivals.
            _ if args.arrivals.is_some() => Ok(Some(Self::Openb)),
            _ => Ok(None),
        }
    }

    /// By the first line that says something; `None` if it does not say.
    fn by_content(start: &[u8]) -> Option<Self> {
        if start.starts_with(recordings::MAGIC.get(..6).unwrap_or_default()) {
            return Some(Self::Recording);
        }
        let text = String::from_utf8_lossy(start).to_lowercase();
        let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        let line = lines.find(|line| !line.is_empty())?;
        let mut numbers = line.split_whitespace().map(str::parse::<f64>);
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        match line {
            line if line.contains("jobid") && line.contains("state") => Some(Self::Sacct),
            _ if fields.contains(&"cpu_milli") && fields.contains(&"num_gpu") => Some(Self::Openb),
            line if line.starts_with(';') => Some(Self::Swf),
            _ if numbers.clone().count() >= 18 && numbers.all(|n| n.is_ok()) => Some(Self::Swf),
            _ => None,
        }
    }
}

/// What is simulated: the first of `--jobs`, read from its beginning. It is opened once, for it may
/// be a pipe.
struct Log {
    /// For errors.
    name: String,
    format: Format,
    reader: input::Reader,
}

impl Log {
    fn open(args: &SimulateArgs) -> Result<Self, Failure> {
        let path = args.log()?;
        let (name, told) = (input::shown(path), Format::told(args)?);
        let reader = input::open(path)?;
        if let Some(format) = told {
            return Ok(Self { name, format, reader });
        }
        let peeked = input::peek(reader, SNIFFED);
        let (start, reader) = peeked.map_err(|error| InputError::new(&name, error))?;
        match Format::by_content(&start) {
            Some(format) => Ok(Self { name, format, reader }),
            None if start.trim_ascii().is_empty() => Err(usage(format!("{name}: is empty"))),
            None if input::plain_name(path).ends_with(".csv") => {
                Ok(Self { name, format: Format::Openb, reader })
            }
            None => Err(usage(format!(
                "{name}: neither name nor content tells the format (that of sacct is told by its header): \
                 give --format"
            ))),
        }
    }

    /// An error of this log.
    fn failed(name: String) -> impl Fn(TraceError) -> Failure {
        move |error| InputError::new(&name, error).into()
    }
}

/// Bytes of a log that tell its format.
const SNIFFED: u64 = 1 << 16;

impl SimulateArgs {
    /// The one log.
    fn log(&self) -> Result<&Path, Failure> {
        self.jobs.first().map(PathBuf::as_path).ok_or_else(|| usage("--jobs is missing"))
    }
}

fn usage(message: impl Into<String>) -> Failure {
    // One line, whatever the input contained.
    Failure::new(Exit::Usage, message.into().replace(['\n', '\r'], " "))
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        usage(error.to_string())
    }
}

/// Runs the command.
pub(super) fn run(global: &Global, args: &SimulateArgs) -> Result<Outcome, Failure> {
    let policies = policies(args)?;
    check(args)?;
    // Told before the simulation, whether the format needs it or not.
    let config = match &global.config {
        Some(path) => Config::load(path).map_err(|error| usage(error.to_string()))?,
        None => Config::default(),
    };
    let log = Log::open(args)?;
    let name = log.name.clone();
    if args.jobs.len() > 1 && log.format != Format::Recording {
        return Err(usage("--jobs: several files are for recordings only"));
    }
    if let Some(directory) = &args.out {
        report::prepare(directory)?;
    }
    let figures = match log.format {
        Format::Swf | Format::Sacct | Format::Recording if args.arrivals.is_some() => {
            return Err(usage("--arrivals: only for an openb pod list"));
        }
        Format::Sacct if args.nodes.is_some() => on_nodes(&config, args, log, &policies)?,
        Format::Recording => on_nodes(&config, args, log, &policies)?,
        Format::Swf | Format::Sacct => batch(args, log, &policies)?,
        Format::Openb => openb(args, log, &policies)?,
    };
    let exit = if figures.iter().all(|figures| figures.jobs == 0) {
        let skipped = figures.first().map_or(0, |figures| figures.skipped);
        let why = "without runtime or size, or larger than the nodes";
        // Nothing can be done where standard error is closed.
        let _ = writeln!(std::io::stderr(), "phalanx: {name}: all {skipped} jobs skipped: {why}");
        Exit::Negative
    } else {
        Exit::Ok
    };
    if global.json || !std::io::stdout().is_terminal() {
        let lines: Result<Vec<String>, _> = figures.iter().map(serde_json::to_string).collect();
        let lines = lines.map_err(|error| usage(error.to_string()))?;
        return Ok(Outcome { text: lines.join("\n") + "\n", exit });
    }
    Ok(Outcome { text: render::simulate::text(&figures), exit })
}

/// The numbers among the options, whether this log needs them or not.
fn check(args: &SimulateArgs) -> Result<(), Failure> {
    let wrong = |option: &str, wanted: String, got: String| {
        Err(usage(format!("{option}: expected {wanted}, got {got}")))
    };
    if args.threads == Some(0) {
        return wrong("--threads", "at least 1".to_owned(), "0".to_owned());
    }
    if !(args.target > 0.0 && args.target <= TARGET_MAX) {
        return wrong(
            "--target",
            format!("above 0 and at most {TARGET_MAX}"),
            args.target.to_string(),
        );
    }
    if args.window == 0 || args.window > WINDOW_MAX {
        return wrong("--window", format!("1 to {WINDOW_MAX}"), args.window.to_string());
    }
    if args.turnaround > TURNAROUND_MAX {
        return wrong(
            "--turnaround",
            format!("at most {TURNAROUND_MAX}"),
            args.turnaround.to_string(),
        );
    }
    match args.arrivals.as_deref() {
        None | Some("openb") => Ok(()),
        Some(other) => wrong("--arrivals", "openb".to_owned(), format!("{other:?}")),
    }
}

fn policies(args: &SimulateArgs) -> Result<Vec<Policy>, Failure> {
    if args.policy.is_empty() {
        return Ok(vec![Policy::Easy, Policy::Phalanx]);
    }
    let parse =
        |name: &String| Policy::parse(name).map_err(|what| usage(format!("--policy: {what}")));
    args.policy.iter().map(parse).collect()
}

fn batch(args: &SimulateArgs, log: Log, policies: &[Policy]) -> Result<Vec<Figures>, Failure> {
    let cpus = match args.nodes.as_deref() {
        None => None,
        Some(spec) => Some(cpus_of(spec)?),
    };
    let load = match log.format {
        Format::Sacct => job::read_sacct(log.reader, &TimeZone::system(), cpus, 1),
        _ => job::read_swf(log.reader, cpus),
    };
    let load = load.map_err(Log::failed(log.name))?;
    let found = each(args.threads, policies, load.jobs.len(), |policy, told| {
        let schedule = pool::run(&load, policy, told);
        (metrics::of_pool(policy, &load, &schedule), schedule)
    });
    write_report(args, &load, &found)?;
    Ok(found.into_iter().map(|(figures, _)| figures).collect())
}

/// Jobs with CPUs, memory and GRES on a cluster of nodes.
fn on_nodes(
    config: &Config,
    args: &SimulateArgs,
    log: Log,
    policies: &[Policy],
) -> Result<Vec<Figures>, Failure> {
    let mut load = match log.format {
        Format::Recording => recorded(args)?,
        _ => accounted(args, log)?,
    };
    load.turnaround_s = args.turnaround;
    // Nothing was learned of speeds: trying nodes teaches nothing.
    let gangs = GangSettings { seed: args.seed, bonus_scale: 0.0, ..config.gang_settings() };
    let pool = load.workload();
    let found = each(args.threads, policies, load.jobs.len(), |policy, told| {
        let setup = Setup::of(policy, &config.tuning(), &gangs);
        let outcome = nodes::engine::run(&load, &setup, &NoBeliefs, told)?;
        Ok(nodes::load::figures(policy, &pool, &outcome))
    });
    let found: Result<Vec<_>, String> = found.into_iter().collect();
    let found = found.map_err(|what| usage(format!("balance: {what}")))?;
    write_report(args, &pool, &found)?;
    Ok(found.into_iter().map(|(figures, _)| figures).collect())
}

fn accounted(args: &SimulateArgs, log: Log) -> Result<NodeLoad, Failure> {
    let specs = nodes_of(args.nodes.as_deref().unwrap_or_default())?;
    let load = nodes::load::read_sacct(log.reader, &TimeZone::system(), &specs);
    load.map_err(Log::failed(log.name))
}

/// The period of a recording, as far as it can be read.
fn recorded(args: &SimulateArgs) -> Result<NodeLoad, Failure> {
    let (period, broken) =
        super::recorded::period(&args.jobs).map_err(|error| usage(error.to_string()))?;
    if let Some(error) = broken {
        // Nothing can be done where standard error is closed.
        let _ = writeln!(std::io::stderr(), "phalanx: {error}; what comes before is used");
    }
    let other = match args.nodes.as_deref() {
        Some(text) => Some(nodes::load::idle(&nodes_of(text)?).map_err(usage)?),
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
    args: &SimulateArgs,
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

fn openb(args: &SimulateArgs, log: Log, policies: &[Policy]) -> Result<Vec<Figures>, Failure> {
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
fn title(args: &SimulateArgs) -> String {
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
            let told = |done: usize| progress(shown, policy, done, steps);
            let figures = simulate(policy, &told);
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

fn progress(shown: bool, policy: Policy, done: usize, steps: usize) {
    if shown {
        let percent = done * 100 / steps.max(1);
        let bar = "#".repeat(percent / 5);
        let _ = write!(std::io::stderr(), "\r\x1b[K{:<12} [{bar:<20}] {percent} %", policy.name());
    }
}
