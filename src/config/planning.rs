// SPDX-License-Identifier: GPL-3.0-or-later
//! The planner's settings, made from a configuration.

use std::sync::Arc;

use super::{Admission, Config, GangMode, WeightSource};
use phalanx_methods::balance::{Params, Sources};
use phalanx_methods::gang::Mode;
use phalanx_planner::gang::Settings;
use phalanx_planner::place::{GangHold, Tuning};

impl Config {
    /// The balance method's parameters; weights stay by name, because the
    /// dimensions are the cluster's.
    pub fn tuning(&self) -> Tuning {
        let config = &self.balance;
        let has = |source| config.weights_from.contains(&source);
        let params = Params {
            mode: config.mode,
            initial_weights: Vec::new(),
            sources: Sources {
                initial: has(WeightSource::Initial),
                pending: has(WeightSource::Pending),
                usage: has(WeightSource::Usage),
            },
            threshold: config.threshold,
            no_improvement: config.no_improvement,
            hold_max_ms: Some(config.hold_max_s.saturating_mul(1000)),
            best: config.best,
        };
        let hold = self.bag.enabled && self.bag.hold;
        Tuning {
            params,
            initial_weights: config.initial_weights.clone(),
            ignore_node_weight: !config.respect_node_weight,
            preference_hold_ms: hold.then(|| self.bag.hold_max_s.saturating_mul(1000)),
            gang_hold: self.gang_hold(),
            levels: Arc::default(),
            topology: self.topology.policy,
            leaf_cost: Some(self.topology.leaf_cost).filter(|cost| *cost < 1.0),
        }
    }

    fn gang_hold(&self) -> Option<GangHold> {
        let gang = &self.gang;
        let ms = |seconds: u64| seconds.saturating_mul(1000);
        (gang.enabled && gang.admission == Admission::Enforce)
            .then(|| GangHold { gang_ms: ms(gang.hold_max_s), user_ms: ms(gang.hold_budget_s) })
    }

    /// Settings of the gang method.
    pub fn gang_settings(&self) -> Settings {
        let gang = &self.gang;
        Settings {
            mode: match gang.mode {
                GangMode::Ga => Mode::Ga,
                GangMode::Seed => Mode::Seed,
            },
            ga: gang.ga,
            seed: gang.seed,
            threads: gang.threads as usize,
            g: gang.g,
            // Without learning, exploration has no use.
            bonus_scale: if self.learn.enabled { gang.bonus_scale } else { 0.0 },
            billing: gang.billing.clone(),
            priority_weight: gang.priority_weight,
            cost: gang.cost.clone(),
            qos: gang.qos.clone(),
            enforce_admission: gang.admission == Admission::Enforce,
            jobs_max: self.planner.plan_jobs_max as usize,
        }
    }
}
