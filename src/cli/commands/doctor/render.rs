// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx doctor`.

use super::report::{Level, Report};
use crate::text::clean;

/// The whole report: what is wrong first, what is good in one line each.
pub fn text(report: &Report) -> String {
    let count = |number: usize, word: &str| {
        format!("{number} {word}{}", if number == 1 { "" } else { "s" })
    };
    let mut out = format!(
        "{} ({}), {}: {}, {}\n\n",
        clean(&report.host),
        report.role,
        report.slurm_conf.display(),
        count(report.errors, "error"),
        count(report.warnings, "warning"),
    );
    for finding in &report.findings {
        let level = finding.level.as_str();
        out.push_str(&format!("{level:<8} {:<20} {}\n", finding.check, many(&finding.what)));
        if finding.level == Level::Ok {
            continue;
        }
        let place = finding.place.as_deref().map(clean);
        let lines = [
            ("why", Some(finding.why.as_str())),
            ("at", place.as_deref()),
            ("do", Some(finding.fix.as_str())),
        ];
        for (name, text) in lines {
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                out.push_str(&format!("{:<8}   {name:<4} {}\n", "", many(text)));
            }
        }
    }
    out
}

/// Text of several lines, the later ones indented.
fn many(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n               ")
}
