// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx enable`

use crate::client::Method;
use crate::exit::{EXIT_CODES, Failure};
use crate::global::Global;
use crate::json;
use crate::outcome::Outcome;
use crate::text::clean;
use phalanx_messages::rest::EnableReport;

/// Let the plugin ask again after it was ejected
///
/// The plugin in slurmctld stops asking for a while when the daemon costs too
/// much or is wrong too often, and for good, ejected, when that happens again
/// and again. This closes its breaker and forgets what opened it. Look at the
/// cause first, in phalanx status and in the file phalanx_breaker in
/// StateSaveLocation. Root and SlurmUser may do this, and the users of
/// [control] allowed_uids.
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
