// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx simulate`, and of every table of figures.

use crate::text::table_of;
use phalanx_sim::metrics::Figures;
use phalanx_sim::report::figures;

/// Formats a column for each policy, with the figures of these keys, or all; those that no policy
/// has are left out.
pub fn text(policies: &[&Figures], keys: &[&str]) -> String {
    let rows = figures(policies, keys);
    let mut table = table_of(&rows).left("Figure", |figure| figure.name);
    for own in policies {
        table = table.right(&own.policy, |figure| figure.shown(own));
    }
    table.text()
}
