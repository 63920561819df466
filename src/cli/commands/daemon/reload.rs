// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx daemon reload`

use crate::client::Method;
use crate::exit::{Exit, Failure};
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::clean;
use phalanx_messages::rest::ReloadReport;

/// Make phalanxd read its configuration again
///
/// A wrong file is refused and the configuration in force stays. Allowed to root, SlurmUser and the
/// users of [control] allowed_uids.
#[derive(clap::Args, Debug)]
pub struct Args;

impl Args {
    /// Asks phalanxd to reload. A refused configuration is an answer, whatever its HTTP status.
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let client = global.client()?;
        let reply = client.ask(Method::POST, "/v1/reload", None::<&()>)?;
        let report: ReloadReport = match reply.try_parse() {
            Some(report) => report,
            None => client.parse(reply.expect_success()?)?,
        };
        let exit = if report.ok { Exit::Ok } else { Exit::Negative };
        if global.json {
            return Ok(Outcome::json(&report)?.ends_with(exit));
        }
        if report.ok {
            return Ok(Outcome::ok(text(&report)));
        }
        let why = report.error.as_deref().unwrap_or("no reason given");
        let message = format!(
            "the new configuration was refused; generation {} stays in force\n{why}",
            report.generation
        );
        Err(Failure::negative(message))
    }
}

/// Formats the changes of an accepted reload.
fn text(report: &ReloadReport) -> String {
    if report.changed.is_empty() {
        return format!("Generation {} is in force. Nothing changed.\n", report.generation);
    }
    let mut out = format!("Generation {} is in force. Changed:\n", report.generation);
    for key in &report.changed {
        let restart = report.needs_restart.contains(key);
        let note = if restart { "  (needs a restart of phalanxd)" } else { "" };
        out.push_str(&format!("  {}{note}\n", clean(key)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reload_texts() {
        let mut report = ReloadReport { ok: true, generation: 4, ..ReloadReport::default() };
        assert_eq!(text(&report), "Generation 4 is in force. Nothing changed.\n");
        report.changed = vec!["balance.threshold".into(), "link.socket".into()];
        report.needs_restart = vec!["link.socket".into()];
        let expected = "Generation 4 is in force. Changed:\n  balance.threshold\n  \
                        link.socket  (needs a restart of phalanxd)\n";
        assert_eq!(text(&report), expected);
    }
}
