// SPDX-License-Identifier: GPL-3.0-or-later
//! Reports of a method's preference and of its use.

use crate::api::types::PreferenceReport;
use phalanx_core::snapshot::Snapshot;
use phalanx_planner::preference::{PreferenceUse, Unused};

/// A node preference and whether it decided, with nodes by name.
pub(super) fn preference_report(
    preference_use: &PreferenceUse,
    name: impl Fn(usize) -> String,
) -> PreferenceReport {
    let preference = &preference_use.preference;
    let set = preference_use.set.and_then(|at| preference.sets.get(at));
    let set = set.map(|set| set.name.to_string());
    PreferenceReport {
        method: preference.method.as_str().to_owned(),
        made_ms: preference.made_ms,
        candidate_set: set.clone(),
        tier: set,
        unused: preference_use.unused.map(|why| match why {
            Unused::NotOffered(node) => format!("stale: {} not offered", name(node as usize)),
            Unused::Busy(node) => format!("stale: {} busy", name(node as usize)),
            Unused::Quota => "its share of tasks has started".to_owned(),
            Unused::OtherTable => "stale: the nodes changed".to_owned(),
        }),
        note: preference.note.clone(),
    }
}

/// The same with nodes by the indexes of a snapshot.
pub(super) fn preference_of(
    snapshot: &Snapshot,
    preference_use: &PreferenceUse,
) -> PreferenceReport {
    let name = |node: usize| {
        snapshot.nodes.get(node).map_or_else(|| format!("#{node}"), |n| n.name.to_string())
    };
    preference_report(preference_use, name)
}
