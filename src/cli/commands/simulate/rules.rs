// SPDX-License-Identifier: GPL-3.0-or-later
//! Rules of the order of starts, from slurm.conf and phalanx.toml.

use std::path::Path;

use super::log::usage;
use crate::exit::Failure;
use crate::slurm_conf::SlurmConf;
use phalanx_config::{Config, OrderBy as By, OrderConfig};
use phalanx_planner::order::{Bounds, MAX_DELTA};
use phalanx_sim::slurm::{OrderBy, OrderRule, Parameters, Rules};

/// Returns the rules; without a configuration, order by learned runtimes within the default bounds.
pub fn rules(config: Option<&Config>, slurm_conf: Option<&Path>) -> Result<Rules, Failure> {
    let parameters = match slurm_conf {
        None => Parameters::default(),
        Some(path) => {
            let conf =
                SlurmConf::read(path).map_err(|what| usage(format!("--slurm-conf {what}")))?;
            Parameters::of_conf(&|key| conf.get(key).map(|(value, _)| value))
                .map_err(|what| usage(format!("--slurm-conf {}: {what}", path.display())))?
        }
    };
    let learned = || OrderConfig { by: By::Learned, ..OrderConfig::default() };
    let order = config.map_or_else(learned, |config| config.order.clone());
    Ok(Rules { parameters, order: rule(&order) })
}

fn rule(order: &OrderConfig) -> Option<OrderRule> {
    Some(OrderRule {
        by: match order.by {
            By::Off => return None,
            // A simulation has no hours of the day.
            By::Plan | By::Price => OrderBy::Plan,
            By::Shortest => OrderBy::Shortest,
            By::Learned => OrderBy::Learned,
        },
        bounds: Bounds {
            max_delta: MAX_DELTA,
            max_overtakes: order.max_overtakes,
            max_delay_s: order.max_delay_s,
        },
    })
}
