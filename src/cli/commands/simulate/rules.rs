// SPDX-License-Identifier: GPL-3.0-or-later
//! Rules of the order of starts, from slurm.conf and phalanx.toml.

use std::path::Path;

use super::log::usage;
use crate::exit::Failure;
use crate::outcome::note;
use crate::slurm_conf::SlurmConf;
use phalanx_config::{Config, OrderBy as By, OrderConfig};
use phalanx_planner::order::max_delta;
use phalanx_sim::policy::Policy;
use phalanx_sim::slurm::{OrderBy, OrderRule, Parameters, Rules};

/// Returns the rules.
pub fn rules(config: &Config, slurm_conf: Option<&Path>) -> Result<Rules, Failure> {
    let parameters = match slurm_conf {
        None => Parameters::default(),
        Some(path) => {
            let conf =
                SlurmConf::read(path).map_err(|what| usage(format!("--slurm-conf {what}")))?;
            let name = path.display();
            let found = Parameters::of_conf(&|key| conf.get(key).map(|(value, _)| value))
                .map_err(|what| usage(format!("--slurm-conf {name}: {what}")))?;
            if !found.ignored.is_empty() {
                let keys = found.ignored.join(", ");
                note(format_args!("{name}: SchedulerParameters not simulated: {keys}"));
            }
            found
        }
    };
    let order = rule(&config.order, parameters.largest_weight);
    Ok(Rules { parameters, order })
}

/// Says where the window of Slurm's backfill is shorter than limits of jobs.
pub fn note_window(rules: &Rules, by: &[Policy], mut limits_s: impl Iterator<Item = u64>) {
    let (window_s, interval) = (rules.parameters.bf_window_s, rules.parameters.bf_interval_s);
    let plans = interval.is_some() && by.iter().any(|p| matches!(p.name, "slurm" | "phalanx"));
    if plans && limits_s.any(|limit| limit > window_s.unsigned_abs()) {
        note(format_args!(
            "bf_window ({} min) is below the limits of jobs: who waits for the end of such a one \
             gets no reservation",
            window_s / 60
        ));
    }
}

fn rule(order: &OrderConfig, largest_weight: u32) -> Option<OrderRule> {
    Some(OrderRule {
        by: match order.by {
            By::Off => return None,
            // A simulation has no hours of the day.
            By::Plan | By::Price => OrderBy::Plan,
            By::Learned => OrderBy::Learned,
        },
        short_s: order.short_s,
        fair_share_percent: order.fair_share_percent,
        max_delta: max_delta(order.max_delta_percent, largest_weight),
    })
}
