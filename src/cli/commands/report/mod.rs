// SPDX-License-Identifier: GPL-3.0-or-later
//! Command `phalanx report`: the effect of Phalanx on this cluster, past and simulated.

mod audit;
mod compare;
mod energy;
mod facts;
mod page;
mod render;
mod shadow;
mod simulated;
#[cfg(test)]
mod tests;
mod verdict;

pub use verdict::doubt;

use std::path::PathBuf;

use crate::client::{Client, Method};
use crate::exit::{Exit, Failure};
use crate::global::Global;
use crate::outcome::Outcome;
use crate::time::since_ms;
use audit::PATIENCE;
use phalanx_messages::rest::{ActivityReport, NodesReport};
use phalanx_sim::report::write_file;
use render::Report;
use simulated::Simulation;

/// Begin of the period without `--since`.
const SINCE: &str = "30d";

/// Show what Phalanx did on this cluster, and what it would have done
///
/// The first part comes from the history of phalanxd. With --sacct, the jobs of the accounting are
/// simulated on the nodes of slurm.conf as well, under Slurm's own rules and with Phalanx, beside
/// what happened; this needs no daemon.
///
/// Unknown figures are named as unknown and never counted as zero.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Begin of the period: a duration back from now (24h, 30d) or a time (2026-11-20)
    /// [default: 30d]
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Write the report as one HTML page with plots, which opens without network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Accounting to simulate: the output of sacct --parsable2 (plain, .gz or .zst; - is standard
    /// input)
    #[arg(long, value_name = "FILE")]
    sacct: Option<PathBuf>,
    /// With --sacct: slurm.conf with nodes, partitions and scheduling [default:
    /// /etc/slurm/slurm.conf, else the nodes that phalanxd knows, else those of the accounting]
    #[arg(long, value_name = "FILE", requires = "sacct")]
    slurm_conf: Option<PathBuf>,
    /// With --sacct: leaf switches or blocks: topology.conf, topology.yaml, or what scontrol show
    /// topology printed [default: the file beside slurm.conf]
    #[arg(long, value_name = "FILE", requires = "sacct")]
    topology: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

commands! {
    Audit(audit::Args),
    Shadow(shadow::Args),
    Compare(compare::Args),
    Energy(energy::Args),
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        if let Some(command) = &self.command {
            if self.since.is_some() || self.html.is_some() || self.sacct.is_some() {
                let text = "report: give options after its command; --html, --sacct and \
                            --slurm-conf belong to the whole report";
                return Err(Failure::usage(text));
            }
            return command.run(global);
        }
        let since = since_ms(self.since.as_deref().unwrap_or(SINCE))?;
        let client = global.client()?;
        let activity = activity(&client, since);
        let (activity, no_activity) = match activity {
            Ok(activity) => (Some(activity), None),
            // Half of the report is better than none.
            Err(failure) if self.sacct.is_some() => (None, Some(failure.message)),
            Err(failure) => return Err(failure),
        };
        let simulation = match &self.sacct {
            Some(file) => {
                let known = || client.get::<NodesReport>("/v1/nodes").ok();
                let files = (self.slurm_conf.as_deref(), self.topology.as_deref());
                let config = global.given_config()?;
                Some(Simulation::run(file, files, known, config.as_ref())?)
            }
            None => None,
        };
        let simulated = simulation.as_ref().map(|simulation| simulation.summary.clone());
        let report = Report { activity, no_activity, simulated };
        if let Some(file) = &self.html {
            write_file(file, &page::text(&report, simulation.as_ref()))?;
        }
        global.show(&report, render::text)
    }
}

fn activity(client: &Client, since: i64) -> Result<ActivityReport, Failure> {
    let reply = client.within(PATIENCE, Method::GET, &format!("/v1/report?since={since}"), None)?;
    match reply.expect_success() {
        Ok(body) => client.parse(body),
        Err(failure) if failure.message.contains("no such resource") => Err(Failure::new(
            Exit::Negative,
            "phalanxd is older than this program and makes no reports: restart phalanxd",
        )),
        Err(failure) => Err(failure),
    }
}
