// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx generate --names`: names that shells offer while somebody types.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::client::{Client, Method};
use crate::global::Global;
use crate::outcome::Outcome;
use phalanx_messages::rest::heat::HeatReport;
use phalanx_messages::rest::{DecisionsReport, PlanReport};

/// Longest wait for a completion.
const PATIENCE: Duration = Duration::from_millis(500);
/// Number of latest decisions whose jobs are offered.
const DECISIONS: u32 = 500;

/// Kind of names.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum What {
    /// Jobs that wait, or of which Slurm asked lately
    Jobs,
    /// Nodes of the cluster
    Nodes,
}

impl What {
    /// Prints a name a line; none where phalanxd does not answer at once. Never fails: a shell
    /// would show the error in the middle of a line.
    pub fn list(self, global: &Global) -> Outcome {
        let names = global.client().map(|client| self.names(&client)).unwrap_or_default();
        Outcome::ok(names.iter().map(|name| format!("{name}\n")).collect::<String>())
    }

    fn names(self, client: &Client) -> BTreeSet<String> {
        match self {
            What::Nodes => {
                let nodes: Option<HeatReport> = ask(client, "/v1/heat");
                nodes.map(|nodes| nodes.names.into_iter().collect()).unwrap_or_default()
            }
            What::Jobs => {
                let plan: Option<PlanReport> = ask(client, "/v1/plan");
                let waiting = plan.into_iter().flat_map(|plan| plan.jobs);
                let mut names: BTreeSet<String> =
                    waiting.map(|job| job.job_id.to_string()).collect();
                let path = format!("/v1/decisions?limit={DECISIONS}");
                let latest: Option<DecisionsReport> = ask(client, &path);
                let made = latest.into_iter().flat_map(|latest| latest.decisions);
                names.extend(made.map(|made| made.job));
                names
            }
        }
    }
}

fn ask<T: DeserializeOwned>(client: &Client, path: &str) -> Option<T> {
    let reply = client.within(PATIENCE, Method::GET, path, None).ok()?;
    client.parse(reply.expect_success().ok()?).ok()
}
