// SPDX-License-Identifier: GPL-3.0-or-later
//! The planner's settings, made from a configuration.

use std::sync::Arc;

use super::{Admission, BagHold, BagMode, Config, GangMode, OrderBy, PLAN_JOBS_MAX};
use phalanx_core::number::as_f64;
use phalanx_methods::balance::Params;
use phalanx_methods::gang::Mode;
use phalanx_methods::learn::BONUS_SCALE_SHIPPED;
use phalanx_planner::bag;
use phalanx_planner::gang::Settings;
use phalanx_planner::place::{GangHold, Tuning};

/// Longest time for which `balance.no_improvement = "hold"` leaves a job pending, in seconds: long
/// enough that some jobs end.
const BALANCE_HOLD_MAX_S: u64 = 300;

/// Longest time for which `bag.hold` lets an array wait between two starts, in seconds: the
/// overlay's own limit of a hold.
const BAG_HOLD_MAX_S: u64 = 3600;
/// Longest time for which an array waits between two starts by default, in seconds.
pub const BAG_BRIEF_S: u64 = 10;
/// Joules of a kilowatt hour.
pub const KWH: f64 = 3.6e6;
/// Longest time for which `locality=require` waits for the nodes of the input, in seconds: more
/// than most remote reads cost.
const REQUIRE_WAIT_S: u64 = 600;
/// Longest time for which a gang waits that is worth less than its cost, in seconds: what users
/// accept of a queue.
const GANG_HOLD_MAX_S: u64 = 300;
/// Longest time for which one user's low-value gangs hold one partition, in seconds: two holds.
const GANG_HOLD_BUDGET_S: u64 = 600;

impl Config {
    /// Returns the milliseconds for which a method may hold a job that Slurm could start, where
    /// that is at most `longest_s` seconds.
    fn hold_ms(&self, longest_s: u64) -> u64 {
        longest_s.min(self.planner.hold_max_s).saturating_mul(1000)
    }

    /// Returns the balance method's parameters; weights stay by name, because the dimensions are
    /// the cluster's.
    pub fn tuning(&self) -> Tuning {
        let config = &self.balance;
        let params = Params {
            mode: config.mode,
            threshold: config.threshold,
            no_improvement: config.no_improvement,
            hold_max_ms: Some(self.hold_ms(BALANCE_HOLD_MAX_S)),
            ..Params::default()
        };
        let hold = if self.bag.mode == BagMode::Off { BagHold::Never } else { self.bag.hold };
        let whole = matches!(hold, BagHold::Plan | BagHold::Price);
        // Who says what nodes draw wants the plan; nobody else's jobs wait by default.
        let has_watts = !self.bag.watts.is_empty() || !self.energy.watts.is_empty();
        Tuning {
            params,
            initial_weights: config.initial_weights.clone(),
            weight_cost: Some(config.weight_cost).filter(|cost| *cost < 1.0),
            preference_hold_ms: whole.then(|| self.hold_ms(BAG_HOLD_MAX_S)),
            brief_hold_ms: (hold == BagHold::Brief && has_watts).then(|| self.hold_ms(BAG_BRIEF_S)),
            gang_hold: self.gang_hold(),
            levels: Arc::default(),
            topology: self.topology.policy,
            leaf_cost: Some(self.topology.leaf_cost).filter(|cost| *cost < 1.0),
        }
    }

    /// Returns the longest time for which a job with `locality=require` waits for the nodes of its
    /// input, in seconds.
    pub fn require_wait_s(&self) -> u64 {
        REQUIRE_WAIT_S.min(self.planner.hold_max_s)
    }

    /// Returns the settings of the bag method, at the price of energy of the first hour.
    pub fn bag_settings(&self) -> bag::Settings {
        let bag = &self.bag;
        bag::Settings {
            mode: if bag.mode == BagMode::Seed { bag::Mode::Seed } else { bag::Mode::Best },
            energy_price: self.energy_prices().at(0) / KWH,
            task_price: bag.task_price,
            required: bag.hold != BagHold::Never,
            wait_s: (bag.hold == BagHold::Brief).then_some(as_f64(BAG_BRIEF_S)),
            loss: if bag.hold == BagHold::Price { bag::Loss::Wait } else { bag::Loss::Run },
            wait_max_s: self.planner.hold_max_s.min(BAG_HOLD_MAX_S),
            ..bag::Settings::default()
        }
    }

    fn gang_hold(&self) -> Option<GangHold> {
        (self.gang.mode != GangMode::Off && self.gang.admission == Admission::Enforce).then(|| {
            GangHold { gang_ms: self.hold_ms(GANG_HOLD_MAX_S), user_ms: GANG_HOLD_BUDGET_S * 1000 }
        })
    }

    /// Returns the settings of the gang method.
    pub fn gang_settings(&self) -> Settings {
        let gang = &self.gang;
        let seed = gang.mode == GangMode::Seed;
        Settings {
            mode: if seed { Mode::Seed } else { Mode::Ga },
            // The published bonus is not scaled.
            bonus_scale: if seed { 1.0 } else { BONUS_SCALE_SHIPPED },
            billing: gang.billing.clone(),
            cost: gang.cost.clone(),
            enforce_admission: gang.admission == Admission::Enforce,
            orders: matches!(self.order.by, OrderBy::Plan | OrderBy::Price),
            jobs_max: PLAN_JOBS_MAX,
            ..Settings::default()
        }
    }
}
