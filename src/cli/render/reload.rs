// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx reload`, when it was accepted

use super::clean;
use phalanx_service::api::types::ReloadReport;

/// The whole report.
pub fn text(report: &ReloadReport) -> String {
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
