// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx simulate`, and of every table of figures.

use crate::text::{heading, table_of};
use phalanx_sim::metrics::Figures;
use phalanx_sim::report::figures;

/// Formats a column for each policy, with the figures of these keys, or all; those that no policy
/// has are left out. Below it are waits by class.
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
    let card = |of: &Figures| of.card.clone().unwrap_or_default();
    let Some(first) = policies.iter().map(|of| card(of)).find(|card| !card.classes.is_empty())
    else {
        return;
    };
    let rows = first.classes.iter().map(Some).chain([None]).enumerate();
    let mut table = table_of(rows)
        .left("CPUs, runtime", |(_, class)| {
            class.map_or("longest wait of".to_owned(), |of| format!("{}, {}", of.size, of.run))
        })
        .right("Jobs", |(_, class)| class.map_or(String::new(), |of| of.jobs.to_string()));
    for own in policies {
        let card = card(own);
        table = table.right(&own.policy, move |(at, class)| match card.classes.get(*at) {
            Some(of) => format!("{} / {}", short(of.wait_p50_s), short(of.wait_p95_s)),
            None if class.is_none() => card.longest.clone().map_or(String::new(), |(user, _)| user),
            None => String::new(),
        });
    }
    heading(out, "Median wait / 95 % waited at most");
    table.add_to(out);
}

/// Formats seconds in the unit that reads best.
#[allow(clippy::cast_precision_loss)] // seconds stay below 2^53
fn short(seconds: i64) -> String {
    let value = seconds as f64;
    match seconds {
        ..100 => format!("{value:.0} s"),
        100..6_000 => format!("{:.0} min", value / 60.0),
        6_000..172_800 => format!("{:.1} h", value / 3600.0),
        _ => format!("{:.1} d", value / 86_400.0),
    }
}
