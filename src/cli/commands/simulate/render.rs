// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx simulate`, and of every table of figures.

use crate::text::{heading, table_of};
use phalanx_sim::metrics::Figures;
use phalanx_sim::report::{WAITS, figures, waits};

/// Formats a column for each policy, with the figures of `keys`, or all; figures that no policy has
/// are left out. Below it are waits by class.
pub fn text(policies: &[&Figures], keys: &[&str]) -> String {
    let rows = figures(policies, keys);
    let mut table = table_of(&rows).left("Figure", |figure| figure.name);
    for own in policies {
        table = table.right(&own.policy, |figure| figure.shown(own));
    }
    let mut out = table.text();
    classes(&mut out, policies);
    out
}

/// Adds median and 95th percentile of the waits by size and runtime.
fn classes(out: &mut String, policies: &[&Figures]) {
    let rows = waits(policies);
    if rows.is_empty() {
        return;
    }
    let cell = |at: usize| move |row: &Vec<String>| row.get(at).cloned().unwrap_or_default();
    let mut table = table_of(rows).left("CPUs, runtime", cell(0)).right("Jobs", cell(1));
    for (at, own) in policies.iter().enumerate() {
        table = table.right(&own.policy, cell(at + 2));
    }
    heading(out, WAITS);
    table.add_to(out);
}
