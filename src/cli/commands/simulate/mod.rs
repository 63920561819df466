// SPDX-License-Identifier: GPL-3.0-or-later
//! Command `phalanx simulate`: runs a log under several policies.

mod assumed;
mod each;
mod log;
mod recorded;
mod render;
pub(super) mod rules;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::global::Global;
use crate::outcome::{Outcome, note, note_left_out};
use crate::site;
use crate::text::units::many;
use crate::topology::TopologyFile;
pub use each::each;
pub use log::{Format, Log, peek, usage};
use phalanx_config::Config;
use phalanx_core::problem::InputError;
use phalanx_core::trace::spec::{self, NodeSpec};
use phalanx_planner::gang::Settings as GangSettings;
use phalanx_sim::input;
use phalanx_sim::job::{self, Workload};
use phalanx_sim::metrics::{self, Figures, Part};
use phalanx_sim::nodes::load::Site;
use phalanx_sim::nodes::{self, Inputs, NodeLoad, Setup};
use phalanx_sim::policy::{self, POLICIES, Policy};
use phalanx_sim::pool;
use phalanx_sim::report;
use phalanx_sim::schedule::Schedule;
use phalanx_sim::slurm::Rules;
pub use render::text as figures_text;

/// Largest `--turnaround`, seconds.
const TURNAROUND_MAX: u64 = 86_400;

/// Largest `--blocks`.
const BLOCKS_MAX: usize = 10_000;

/// Simulate a log under one or several policies, without the daemon
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Log: SWF, sacct --parsable2 (both plain, .gz or .zst; - is standard input) or a recording
    /// of phalanxd; the files of one recording may be given one by one
    #[arg(long, value_name = "FILE", required = true, visible_alias = "trace")]
    pub jobs: Vec<PathBuf>,
    /// Nodes, such as 128x(cpu=64,mem=256G,gpu=4), several joined by + [default: as large as an
    /// SWF log's header says; of sacct those of --slurm-conf, else as many CPUs as were in use at
    /// once; of a recording its own]
    #[arg(long, value_name = "SPEC")]
    pub nodes: Option<String>,
    /// Leaf switches or blocks of the nodes: topology.conf, topology.yaml, or what scontrol show
    /// topology printed; the nodes of a specification get its names, in its order, and an SWF log
    /// runs on whole nodes
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// Policies, joined by commas or one by one: fcfs, easy, stock, balance-seed, balance,
    /// gang-seed, gang, bag-seed, bag, data-seed, data, round-robin, weighted, slurm, phalanx
    /// [default: slurm and phalanx]
    #[arg(long, value_name = "P,P,...", value_delimiter = ',')]
    policy: Vec<String>,
    /// slurm and phalanx: the slurm.conf whose scheduling and priorities count [default: Slurm's
    /// defaults, with priorities by age]
    #[arg(long, value_name = "FILE")]
    slurm_conf: Option<PathBuf>,
    /// Format of the log: swf, sacct or recording [default: by its name, else content]
    #[arg(long, value_name = "F")]
    pub format: Option<String>,
    /// On nodes: blocks of 128 MB, on three nodes each, that a job reads; of the jobs whose
    /// comments name an input (data-input=NAME, hdfs-input=PATH), where any does
    #[arg(long, value_name = "N")]
    blocks: Option<usize>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Write an HTML report and CSV files into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// sacct and swf: seconds that a node stays idle between two jobs (epilog, pass of the
    /// scheduler), under slurm and phalanx and where jobs run on nodes; about 1 with short jobs
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    turnaround: u64,
    /// Policies that are simulated at once; never changes the results
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

/// Policies and readers that a program simulates with.
#[derive(Debug)]
pub struct Program<'a> {
    /// Policies by name.
    pub policies: &'a [Policy],
    /// Reader of a list of nodes.
    pub read_nodes: fn(&Path) -> Result<Vec<NodeSpec>, Failure>,
}

/// Policies and node lists that only benchmarks need.
const ELSEWHERE: [&str; 6] =
    ["easy++", "best-fit", "dot-product", "k8s-balanced", "fgd", "research"];

impl Args {
    /// Simulates the log under the product's policies.
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        if let Some(name) = self.policy.iter().find(|name| ELSEWHERE.contains(&name.as_str())) {
            return Err(usage(format!("--policy: {name} is a policy of phalanx-bench simulate")));
        }
        let read_nodes = |path: &Path| {
            let name = path.display();
            Err(usage(format!("--nodes {name}: node lists are for phalanx-bench simulate")))
        };
        let program = Program { policies: &POLICIES, read_nodes };
        let policies = self.policies(&program)?;
        self.check()?;
        self.simulate(global, &program, &policies, input::open(self.log()?)?)
    }

    /// Simulates a log under policies of a program.
    ///
    /// # Errors
    /// Fails with one line for wrong options and for a log that cannot be read.
    pub fn simulate(
        &self,
        global: &Global,
        program: &Program<'_>,
        policies: &[Policy],
        reader: input::Reader,
    ) -> Result<Outcome, Failure> {
        // A wrong file is an error, whether the format needs it or not.
        let given = global.given_config().map_err(usage)?;
        let config = given.unwrap_or_default();
        let rules = rules::rules(&config, self.slurm_conf.as_deref())?;
        let policies = &assumed::under(policies, &config);
        let log = Log::new(self.log()?, self.format.as_deref(), reader)?;
        let name = log.name.clone();
        if self.jobs.len() > 1 && log.format != Format::Recording {
            return Err(usage("--jobs: several files are for recordings only"));
        }
        if let Some(directory) = &self.out {
            report::prepare(directory)?;
        }
        let whole_nodes = match log.format {
            Format::Swf => self.topology.is_some() || self.nodes_differ(),
            Format::Sacct => self.nodes.is_some() || self.slurm_conf.is_some(),
            Format::Recording => true,
        };
        let figures = if whole_nodes {
            on_nodes(&config, &rules, self, program, log, policies)?
        } else if self.topology.is_some() {
            return Err(usage(NO_NODES));
        } else {
            batch(&config, &rules, self, program, log, policies)?
        };
        self.shown(global, &name, &figures, &figures)
    }

    /// Formats the figures as text or JSON, each with its line of JSON. `name`: the log's name.
    ///
    /// # Errors
    /// Fails when a line cannot be written as JSON.
    pub fn shown(
        &self,
        global: &Global,
        name: &str,
        figures: &[Figures],
        lines: &[impl Serialize],
    ) -> Result<Outcome, Failure> {
        let exit = if figures.iter().all(|figures| figures.jobs == 0) {
            let skipped = figures.first().map_or(0, |figures| figures.skipped);
            let why = "without runtime or size, or larger than the nodes";
            note(format_args!("{name}: every job skipped, {skipped} in all: {why}"));
            Exit::Negative
        } else {
            Exit::Ok
        };
        let outcome = if global.json || !std::io::stdout().is_terminal() {
            Outcome::json_lines(lines)?
        } else {
            Outcome::ok(render::text(&figures.iter().collect::<Vec<_>>(), &[]))
        };
        Ok(outcome.ends_with(exit))
    }

    /// Returns the path of the log.
    ///
    /// # Errors
    /// Fails where there is none.
    pub fn log(&self) -> Result<&Path, Failure> {
        self.jobs.first().map(PathBuf::as_path).ok_or_else(|| usage("--jobs is missing"))
    }

    /// Checks the numbers among the options, whether the log needs them or not.
    ///
    /// # Errors
    /// Fails with the option and what was expected.
    pub fn check(&self) -> Result<(), Failure> {
        if self.threads == Some(0) {
            return Err(usage("--threads: expected at least 1, got 0"));
        }
        if self.blocks.is_some_and(|blocks| !(1..=BLOCKS_MAX).contains(&blocks)) {
            return Err(usage(format!("--blocks: expected 1 to {BLOCKS_MAX}")));
        }
        if self.turnaround > TURNAROUND_MAX {
            let (wanted, got) = (format!("at most {TURNAROUND_MAX}"), self.turnaround);
            return Err(usage(format!("--turnaround: expected {wanted}, got {got}")));
        }
        Ok(())
    }

    /// Returns the policies that the user asks for, among those of a program.
    ///
    /// # Errors
    /// Fails with the names there are.
    pub fn policies(&self, program: &Program<'_>) -> Result<Vec<Policy>, Failure> {
        if self.policy.is_empty() {
            return Ok(vec![policy::SLURM, policy::PHALANX]);
        }
        let find = |name: &String| {
            policy::find(program.policies, name).map_err(|what| usage(format!("--policy: {what}")))
        };
        self.policy.iter().map(find).collect()
    }

    /// Whether nodes are more than CPUs that are all alike.
    fn nodes_differ(&self) -> bool {
        let nodes = self.nodes.as_deref().unwrap_or_default();
        self.blocks.is_some() || nodes.contains("speed=")
    }

    /// Returns the title of the report: the log's name.
    pub fn title(&self) -> String {
        let first = self.jobs.first().and_then(|path| path.file_name());
        input::shown(Path::new(first.unwrap_or_default()))
    }
}

/// Reason why a topology needs `--nodes`.
const NO_NODES: &str = "--topology needs --nodes, for its nodes have CPUs";

fn batch(
    config: &Config,
    rules: &Rules,
    args: &Args,
    program: &Program<'_>,
    log: Log,
    policies: &[Policy],
) -> Result<Vec<Figures>, Failure> {
    let nodes = args.nodes.as_deref().map(|text| program.nodes(text)).transpose()?;
    let cpus = nodes.as_deref().map(cpus_of);
    let load = match log.format {
        Format::Sacct => job::read_sacct(log.reader, &TimeZone::system(), cpus, 1),
        _ => job::read_swf(log.reader, cpus),
    };
    let mut load = load.map_err(Log::failed(&log.name))?;
    note_left_out(&log.name, &load.left_out);
    load.turnaround_s = args.turnaround;
    rules::note_window(rules, policies, load.jobs.iter().map(|job| job.limit_s));
    assumed::note_all(policies, config, rules, None);
    let mut found = each(args.threads, policies, load.jobs.len(), |policy, progress| {
        let schedule = pool::run(&load, policy, rules, progress);
        (metrics::of_pool(policy.name, &load, &schedule), schedule)
    });
    metrics::fill_cards(&load, &mut found, base(policies));
    write_report(args, &load, &found)?;
    Ok(found.into_iter().map(|(figures, _)| figures).collect())
}

/// The policy that others are compared with: Slurm, else the first.
fn base(policies: &[Policy]) -> usize {
    policies.iter().position(|policy| policy.name == policy::SLURM.name).unwrap_or(0)
}

/// Simulates jobs with CPUs, memory and GRES on a cluster of nodes.
fn on_nodes(
    config: &Config,
    rules: &Rules,
    args: &Args,
    program: &Program<'_>,
    log: Log,
    policies: &[Policy],
) -> Result<Vec<Figures>, Failure> {
    let topology = args.topology.as_deref().map(TopologyFile::open).transpose()?;
    let mut load = match log.format {
        Format::Recording => recorded(args, program, topology.as_ref())?,
        Format::Swf => of_swf(args, program, log, topology.as_ref())?,
        _ => accounted(args, program, log, topology.as_ref())?,
    };
    if let Some(file) = topology {
        load.set_topology(file.over(&load.table())?);
    }
    load.turnaround_s = args.turnaround;
    if let Some(blocks) = args.blocks {
        let transfer_mb_per_s = config.data_jobs.transfer_mb_per_s;
        load.set_inputs(Inputs { blocks, seed: args.seed, transfer_mb_per_s });
    }
    // Nothing was learned of speeds: trying nodes teaches nothing.
    let gangs = GangSettings { seed: args.seed, bonus_scale: 0.0, ..config.gang_settings() };
    let pool = load.workload();
    rules::note_window(rules, policies, pool.jobs.iter().map(|job| job.limit_s));
    assumed::set_watts(config, &mut load);
    assumed::note_all(policies, config, rules, Some(&load));
    let found = each(args.threads, policies, load.jobs.len(), |policy, progress| {
        let mut setup = Setup::of(policy, &config.tuning(), &gangs, rules);
        setup.plan_bags(&config.bag_settings(), config.data_jobs.hold_budget_s, &load);
        assumed::leave_to_slurm(policy, config, &mut setup);
        let outcome = nodes::engine::run(&load, &setup, None, progress)?;
        Ok(nodes::load::figures(policy.name, &pool, &outcome))
    });
    let found: Result<Vec<_>, String> = found.into_iter().collect();
    let mut found = found.map_err(|what| usage(format!("balance: {what}")))?;
    metrics::fill_cards(&pool, &mut found, base(policies));
    write_report(args, &pool, &found)?;
    Ok(found.into_iter().map(|(figures, _)| figures).collect())
}

/// Simulates jobs of an SWF log on whole nodes.
fn of_swf(
    args: &Args,
    program: &Program<'_>,
    log: Log,
    names: Option<&TopologyFile>,
) -> Result<NodeLoad, Failure> {
    let text = args.nodes.as_deref();
    let specs = program.named(text.ok_or_else(|| usage(NO_NODES))?, names)?;
    let pool = job::read_swf(log.reader, Some(cpus_of(&specs))).map_err(Log::failed(&log.name))?;
    nodes::load::of_pool(&pool, &specs).map_err(|what| usage(format!("--nodes: {what}")))
}

fn accounted(
    args: &Args,
    program: &Program<'_>,
    log: Log,
    names: Option<&TopologyFile>,
) -> Result<NodeLoad, Failure> {
    let site = match (args.nodes.as_deref(), args.slurm_conf.as_deref()) {
        (None, Some(conf)) => site::of_conf(conf)?,
        (text, _) => Site::of(&program.named(text.unwrap_or_default(), names)?),
    };
    let load = nodes::accounted::read_sacct(log.reader, &TimeZone::system(), &site);
    let load = load.map_err(Log::failed(&log.name))?;
    note_left_out(&log.name, &load.left_out);
    for (what, jobs) in load.unmodelled.iter().filter(|(what, _)| !what.starts_with("without")) {
        note(format_args!("{}: not modelled: {} {what}", log.name, many(*jobs, "job")));
    }
    Ok(load)
}

/// Returns the period of a recording, as far as the recording can be read.
fn recorded(
    args: &Args,
    program: &Program<'_>,
    names: Option<&TopologyFile>,
) -> Result<NodeLoad, Failure> {
    let (period, broken) = recorded::period(&args.jobs).map_err(usage)?;
    if let Some(error) = broken {
        note(format_args!("{error}; what comes before is used"));
    }
    let other = match args.nodes.as_deref() {
        Some(text) => {
            let site = Site::of(&program.named(text, names)?);
            Some(nodes::load::idle(&site).map_err(usage)?)
        }
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
        let parts: Vec<Part<'_>> = found.iter().map(|(f, s)| (f, s)).collect();
        report::of_pool(directory, &args.title(), load, &parts)?;
    }
    Ok(())
}

impl Program<'_> {
    /// Returns the nodes of a list if a file has this name, else of a specification.
    ///
    /// # Errors
    /// Fails for a list that cannot be read, and for a wrong specification.
    pub fn nodes(&self, text: &str) -> Result<Vec<NodeSpec>, Failure> {
        if Path::new(text).exists() {
            return (self.read_nodes)(Path::new(text));
        }
        if text.contains('(') {
            return spec::parse(text).map_err(|what| usage(format!("--nodes {what}")));
        }
        let what = "no such file, and not nodes as in 128x(cpu=64,mem=256G,gpu=4)";
        Err(usage(format!("--nodes {text:?}: {what}")))
    }

    /// Returns the nodes; those of a specification get the names of the topology's nodes, in its
    /// order.
    fn named(&self, text: &str, topology: Option<&TopologyFile>) -> Result<Vec<NodeSpec>, Failure> {
        let mut nodes = self.nodes(text)?;
        let Some(topology) = topology.filter(|_| !Path::new(text).exists()) else {
            return Ok(nodes);
        };
        let names = topology.node_names()?;
        if names.len() != nodes.len() {
            let (own, there) = (nodes.len(), names.len());
            let what =
                format!("expected {} as in the topology, got {own}", many(there as u64, "node"));
            return Err(usage(format!("--nodes {text:?}: {what}")));
        }
        for (node, name) in nodes.iter_mut().zip(names) {
            node.name = name;
        }
        Ok(nodes)
    }
}

fn cpus_of(nodes: &[NodeSpec]) -> u64 {
    nodes.iter().map(|node| node.cpu_milli / 1000).sum()
}
