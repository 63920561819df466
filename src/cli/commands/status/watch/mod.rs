// SPDX-License-Identifier: GPL-3.0-or-later
//! Command `phalanx status --watch`: shows the present state at intervals.

mod render;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::global::Global;
use crate::outcome::Outcome;
use phalanx_messages::rest::{DecisionsReport, PlanReport, Status};

/// Escape sequence that clears the screen and moves to its upper left corner.
const CLEAR: &str = "\x1b[H\x1b[2J";
/// Number of waiting jobs, and of decisions, shown.
const LIST: usize = 8;
/// Height of a terminal that does not report it, in lines.
const LINES: usize = 24;

/// Options of `--watch`.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct Args {
    /// With --watch: seconds between two updates
    #[arg(long, short = 'd', value_name = "SECONDS", default_value_t = 2, requires = "watch")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

/// Reports of the daemon at one time.
#[derive(Debug, Default, Serialize)]
struct Look {
    /// Time of the reports, in unix milliseconds.
    time_ms: u64,
    status: Status,
    /// Plan; absent until there is one.
    plan: Option<PlanReport>,
    /// Decisions; absent where nothing is recorded.
    decisions: Option<DecisionsReport>,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let client = global.client()?;
        if global.json || !std::io::stdout().is_terminal() {
            let look = self.look(&client)?;
            return global.show(&look, |look| render::text(look, None, LIST));
        }
        self.watch(&client)
    }

    fn look(&self, client: &Client) -> Result<Look, Failure> {
        Ok(Look {
            status: client.get("/v1/status")?,
            // "No plan yet" and "history off" are no reason to show nothing.
            plan: client.get("/v1/plan").ok(),
            decisions: client.get(&format!("/v1/decisions?limit={}", 8 * LIST)).ok(),
            time_ms: u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default(),
        })
    }

    /// Updates the page until the terminal is gone, or Ctrl-C.
    fn watch(&self, client: &Client) -> Result<Outcome, Failure> {
        let mut before: Option<Look> = None;
        loop {
            let text = match self.look(client) {
                Ok(look) => {
                    let text = render::text(&look, before.as_ref(), LIST);
                    before = Some(look);
                    text
                }
                // It may come back.
                Err(failure) if failure.exit == Exit::Unreachable => {
                    before = None;
                    crate::text::wrapped(&failure.message, "")
                }
                Err(failure) => return Err(failure),
            };
            let lines = terminal_size::terminal_size().map_or(LINES, |(_, height)| height.0.into());
            let shown: Vec<&str> = text.lines().take(lines.saturating_sub(1)).collect();
            let mut out = std::io::stdout().lock();
            let written = writeln!(out, "{CLEAR}{}", shown.join("\n")).and_then(|()| out.flush());
            if written.is_err() {
                return Ok(Outcome::ok(""));
            }
            std::thread::sleep(Duration::from_secs(self.interval));
        }
    }
}
