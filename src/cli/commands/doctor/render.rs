// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx doctor`.

use super::report::{Level, Report};
use crate::text::units::many as plural;
use crate::text::{clean, width, wrap};

/// Returns the whole report: problems first, then a line for each check that is good.
pub fn text(report: &Report) -> String {
    let mut out = format!(
        "{} ({}), {}: {}, {}\n\n",
        clean(&report.host),
        report.role,
        report.slurm_conf.display(),
        plural(report.errors as u64, "error"),
        plural(report.warnings as u64, "warning"),
    );
    for finding in &report.findings {
        let level = format!("{:?}", finding.level).to_lowercase();
        let head = format!("{level:<8} {:<20} ", finding.check);
        out.push_str(&format!("{head}{}\n", many(&finding.what, head.len())));
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
                // What is to be done may be a line to copy: it stays whole.
                let whole =
                    || text.lines().map(clean).collect::<Vec<_>>().join(indent(INDENT).as_str());
                let text = if name == "do" { whole() } else { many(text, INDENT) };
                out.push_str(&format!("{:<8}   {name:<4} {text}\n", ""));
            }
        }
    }
    out
}

/// Columns before the text of a finding.
const INDENT: usize = 16;

fn indent(columns: usize) -> String {
    format!("\n{:columns$}", "")
}

/// Wraps a text to the terminal's width behind an indent of `columns`.
fn many(text: &str, columns: usize) -> String {
    let lines = text.lines().flat_map(|line| wrap(&clean(line), width() - columns));
    lines.collect::<Vec<_>>().join(indent(columns).as_str())
}
