// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx daemon enable`

use crate::client::Method;
use crate::exit::{EXIT_CODES, Failure};
use crate::global::Global;
use crate::json;
use crate::outcome::Outcome;
use crate::text::clean;
use phalanx_messages::rest::EnableReport;

/// Let an ejected plugin ask phalanxd again
///
/// The plugin in slurmctld stops asking for a while when phalanxd is too slow or wrong too often.
/// When that repeats, the plugin is ejected: it does not ask again by itself. This command closes
/// its breaker and clears the counts that opened it. Look at the cause first, in phalanx status
/// and in the file phalanx_breaker in StateSaveLocation. Allowed to root, SlurmUser and the users
/// of [control] allowed_uids.
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Args;

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let client = global.client()?;
        let reply = client.ask(Method::Post, "/v1/plugin/enable", None::<&()>)?;
        let body = reply.expect_success()?;
        let report: EnableReport = client.parse(body)?;
        if global.json {
            return Ok(Outcome::ok(json::indent(body)));
        }
        Ok(Outcome::ok(text(&report)))
    }
}

fn text(report: &EnableReport) -> String {
    let cause = match report.cause.as_str() {
        "" => String::new(),
        cause => format!(", last opened by: {}", clean(cause)),
    };
    format!("The plugin is told to ask again. Breaker before: {}{cause}.\n", clean(&report.before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enable_texts() {
        let mut report = EnableReport { before: "closed".into(), cause: String::new() };
        assert_eq!(text(&report), "The plugin is told to ask again. Breaker before: closed.\n");
        report = EnableReport { before: "ejected".into(), cause: "late".into() };
        let expected = "The plugin is told to ask again. Breaker before: ejected, last opened by: \
                        late.\n";
        assert_eq!(text(&report), expected);
    }
}
