// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx record`: begins and ends recordings of the daemon.

use clap::Subcommand;

use super::client::{Client, Method};
use super::exit::{EXIT_CODES, Exit, Failure};
use super::resolve::masters;
use super::{Outcome, args::Global, json, render};
use phalanx_service::api::types::{RecordRequest, RecordingStatus, Status};

/// `phalanx record`
#[derive(Clone, Debug, Subcommand)]
pub enum RecordCommand {
    /// Begin a recording, in the directory of [record] dir
    ///
    /// Root, SlurmUser and the users of [control] allowed_uids may do this.
    #[command(after_help = EXIT_CODES)]
    Start {
        /// How long: 90s, 30min, 24h, 7d [default: until `phalanx record stop`]
        #[arg(long = "for", value_name = "DURATION")]
        length: Option<String>,
    },
    /// End the recording
    #[command(after_help = EXIT_CODES)]
    Stop,
    /// Show the recording that is under way, or the last one
    #[command(after_help = EXIT_CODES)]
    Status,
}

/// Runs the command.
pub(super) fn run(global: &Global, command: &RecordCommand) -> Result<Outcome, Failure> {
    let request = match command {
        RecordCommand::Start { length } => {
            let seconds = length.as_deref().map(seconds_of).transpose()?;
            Some(RecordRequest::Start { seconds })
        }
        RecordCommand::Stop => Some(RecordRequest::Stop),
        RecordCommand::Status => None,
    };
    let client = Client::new(&masters(global)?);
    let status: RecordingStatus = match request {
        Some(request) => {
            let body = serde_json::to_vec(&request)
                .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
            let reply = client.send(Method::Post, "/v1/record", Some(body))?;
            client.parse(reply.expect_success()?)?
        }
        None => {
            let reply = client.request(Method::Get, "/v1/status")?;
            client.parse::<Status>(reply.expect_success()?)?.recording
        }
    };
    if global.json {
        let text = serde_json::to_vec(&status).unwrap_or_default();
        return Ok(Outcome::ok(json::indent(&text)));
    }
    Ok(Outcome::ok(render::record::status(&status)))
}

fn seconds_of(text: &str) -> Result<u64, Failure> {
    let bad = || {
        let what = format!("--for: expected a duration such as 90s, 30min or 24h, got {text:?}");
        Failure::new(Exit::Usage, what)
    };
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits).ok_or_else(bad)?;
    let number: u64 = number.parse().map_err(|_| bad())?;
    let unit = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(bad()),
    };
    number.checked_mul(unit).filter(|seconds| (1..=366 * 86_400).contains(seconds)).ok_or_else(bad)
}
