// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx-bench simulate`: what `phalanx simulate` does, under more policies, and the filling of
//! a GPU cluster by pods.

mod backfill;
mod fleet;
mod inflate;
mod line;
mod lookahead;
mod openb;
mod orders;
mod packing;
mod policies;
mod price;
mod reference;

use std::path::Path;

use phalanx_cli::simulate::{Format, Log, Program, each, peek, usage};
use phalanx_cli::{Failure, Global, Outcome, simulate};
use phalanx_core::problem::InputError;
use phalanx_core::trace::spec::NodeSpec;
use phalanx_sim::input::{self, Reader};
use phalanx_sim::metrics::Figures;
use phalanx_sim::policy::Policy;
use phalanx_sim::report;
use phalanx_sim::report::svg::{Axis, Line, chart};
use serde::Serialize;

use inflate::Inflation;

/// Largest `--target`.
const TARGET_MAX: f64 = 100.0;
/// Largest `--window`.
const WINDOW_MAX: usize = 1_000_000;

/// Names of all policies, for the help.
const POLICIES: &str = "Policy, may be repeated: fcfs, easy, easy++, stock, best-fit, dot-product, \
    k8s-balanced, fgd, balance-seed, balance, gang-seed, gang, slurm, phalanx, research [default: \
    slurm and phalanx]";

/// Simulate a log, or the filling of a GPU cluster, under any policy
#[derive(clap::Args, Debug)]
#[group(skip)]
#[command(mut_arg("policy", |arg| arg.help(POLICIES)))]
pub struct Args {
    #[command(flatten)]
    log: simulate::Args,
    /// How jobs arrive: openb (the inflation protocol; jobs are an openb pod list, nodes an openb
    /// node list)
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
}

/// Figures of a policy that places pods.
#[derive(Debug, Serialize)]
struct PodFigures<'a> {
    #[serde(flatten)]
    figures: &'a Figures,
    /// Pods that fitted nowhere.
    dropped: usize,
    /// Most often that one pod was overtaken.
    overtaken_max: u32,
}

impl Args {
    /// Simulates the log.
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let all = policies::all();
        let program = Program { policies: &all, read_nodes };
        let policies = self.log.policies(&program)?;
        self.check()?;
        let (pods, reader) = self.open()?;
        if !pods && self.arrivals.is_some() {
            return Err(usage("--arrivals: only for an openb pod list"));
        }
        if pods {
            self.fill(global, &program, &policies, reader)
        } else {
            self.log.simulate(global, &program, &policies, reader)
        }
    }

    fn check(&self) -> Result<(), Failure> {
        self.log.check()?;
        if !(self.target > 0.0 && self.target <= TARGET_MAX) {
            let (wanted, got) = (format!("above 0 and at most {TARGET_MAX}"), self.target);
            return Err(usage(format!("--target: expected {wanted}, got {got}")));
        }
        if !(1..=WINDOW_MAX).contains(&self.window) {
            let got = self.window;
            return Err(usage(format!("--window: expected 1 to {WINDOW_MAX}, got {got}")));
        }
        match self.arrivals.as_deref() {
            None | Some("openb") => Ok(()),
            Some(other) => Err(usage(format!("--arrivals: expected openb, got {other:?}"))),
        }
    }

    /// The log, and whether it is a pod list: by `--format`, name or content.
    fn open(&self) -> Result<(bool, Reader), Failure> {
        let (path, given) = (self.log.log()?, self.log.format.as_deref());
        let plain = input::plain_name(path);
        let extension = Path::new(&plain).extension().and_then(|extension| extension.to_str());
        if given.or(extension) == Some("openb") {
            return Ok((true, input::open(path)?));
        }
        let known = Format::by_name(path, given)?.is_some();
        let reader = input::open(path)?;
        if known || self.arrivals.is_some() {
            return Ok((!known, reader));
        }
        let (start, reader) = peek(&input::shown(path), reader)?;
        let text = String::from_utf8_lossy(&start);
        let head = text.trim_start_matches('\u{feff}').lines().find(|line| !line.trim().is_empty());
        // A CSV file that is no known log is read as pods, which names what its head lacks.
        let is_csv = plain.ends_with(".csv") && Format::by_content(&start).is_none();
        Ok((head.is_some_and(|head| openb::is_pod_header(head) || is_csv), reader))
    }

    /// Fills nodes with the pods of a list.
    fn fill(
        &self,
        global: &Global,
        program: &Program<'_>,
        policies: &[Policy],
        reader: Reader,
    ) -> Result<Outcome, Failure> {
        // A wrong file is an error, though pods do not need it.
        global.given_config().map_err(usage)?;
        if self.log.topology.is_some() {
            return Err(usage("--topology: an openb pod list has no jobs of several nodes"));
        }
        if self.arrivals.is_none() {
            return Err(usage("a pod list needs --arrivals openb"));
        }
        if self.log.jobs.len() > 1 {
            return Err(usage("--jobs: several files are for recordings only"));
        }
        if let Some(directory) = &self.log.out {
            report::prepare(directory)?;
        }
        let name = input::shown(self.log.log()?);
        let pods = openb::pods(reader).map_err(Log::failed(&name))?;
        let text = self.log.nodes.as_deref().ok_or_else(|| usage("--nodes is missing"))?;
        let nodes = program.nodes(text)?;
        let how = Inflation {
            seed: self.log.seed,
            target: self.target,
            window: self.window,
            overtakes_max: self.max_overtakes,
        };
        let found = each(self.log.threads, policies, 1, |policy, _| {
            inflate::run(&pods, &nodes, policy.name, &how)
        });
        let found: Result<Vec<_>, String> = found.into_iter().collect();
        let found = found.map_err(|what| usage(format!("--nodes: {what}")))?;
        let figures: Vec<Figures> = found.iter().map(|(_, figures)| figures.clone()).collect();
        if let Some(directory) = &self.log.out {
            let curves: Vec<_> =
                found.iter().map(|(filled, figures)| (figures, &*filled.curve)).collect();
            write_report(directory, &self.log.title(), &curves)?;
        }
        let lines = found.iter().map(|(filled, figures)| PodFigures {
            figures,
            dropped: filled.dropped,
            overtaken_max: filled.overtaken_max,
        });
        self.log.shown(global, &name, &figures, &lines.collect::<Vec<_>>())
    }
}

/// The nodes of an openb list.
fn read_nodes(path: &Path) -> Result<Vec<NodeSpec>, Failure> {
    let nodes = openb::nodes(input::open(path)?);
    Ok(nodes.map_err(|error| InputError::new(path.to_string_lossy(), error))?)
}

/// Figures of a policy, and GPUs allocated over GPUs requested, percent of all.
type Curve<'a> = (&'a Figures, &'a [(f64, f64)]);

/// Writes the report of a filled GPU cluster: table, and GPUs in use over arrivals.
fn write_report(directory: &Path, title: &str, parts: &[Curve<'_>]) -> Result<(), InputError> {
    let figures: Vec<&Figures> = parts.iter().map(|(figures, _)| *figures).collect();
    let mut body = String::new();
    report::section(&mut body, "GPUs allocated as pods arrive", &picture(parts));
    let pods = figures.first().map_or(0, |figures| figures.jobs);
    report::summary(directory, title, &format!("{pods} pods"), &figures, &body)?;
    let mut text = String::from("policy,requested_pct,allocated_pct\n");
    for (figures, curve) in parts {
        for (requested, allocated) in *curve {
            text += &format!("{},{requested:.3},{allocated:.4}\n", figures.policy);
        }
    }
    report::write_file(&directory.join("filling.csv"), &text)
}

/// GPUs requested, in percent of the fleet's, from which on the picture shows allocated GPUs.
const FILLING_FROM: f64 = 80.0;
/// Height of the picture, pixels.
const HEIGHT: f64 = 300.0;

/// GPUs allocated over GPUs requested.
fn picture(parts: &[Curve<'_>]) -> String {
    let points = parts.iter().flat_map(|(_, curve)| *curve);
    let arrived = points.map(|(x, _)| *x).fold(100.0, f64::max);
    // The end is what tells policies apart.
    let lines: Vec<Line<'_>> = parts
        .iter()
        .map(|(figures, curve)| {
            let points = curve.iter().filter(|(x, _)| *x >= FILLING_FROM).copied().collect();
            Line { name: &figures.policy, points }
        })
        .collect();
    let x = Axis::linear("GPUs requested by the pods so far", FILLING_FROM, arrived, " %");
    chart(&x, &Axis::linear("GPUs allocated", FILLING_FROM, 100.0, " %"), &lines, HEIGHT)
}
