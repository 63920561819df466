// SPDX-License-Identifier: GPL-3.0-or-later
//! The gang method in the daemon: settings, learned speeds, the last plan.

use std::time::{Duration, Instant};

use super::round::{PlacementMethod, Round, no_plan};
use crate::daemon::measured_values::GANG_SPEED;
use phalanx_config::GangMode;
use phalanx_planner::gang::{Inputs, Last, Learned, plan};
use phalanx_planner::preference::{Method, MethodPlan};

/// Longest search of one plan: a tenth of the time between two.
const SEARCH_DEADLINE: Duration = Duration::from_millis(100);

/// Plans gangs, each time from the plan before.
#[derive(Default)]
pub struct Gangs {
    last: Last,
}

impl PlacementMethod for Gangs {
    fn plan(&mut self, round: &Round<'_>) -> MethodPlan {
        let config = &round.config.gang;
        if config.mode == GangMode::Off {
            self.last.clear();
            return no_plan(Method::Gang);
        }
        let deadline = Instant::now() + SEARCH_DEADLINE;
        let settings = round.config.gang_settings();
        let (learn, measured) = (&round.config.learn, round.measured.get(GANG_SPEED));
        let (class_by, node_class_by) = (&learn.class_by, &learn.node_class_by);
        let learned = Learned::new(round.speeds, class_by, node_class_by, measured, round.now_s());
        let inputs = Inputs {
            snapshot: round.snapshot,
            usages: round.usages,
            now_ms: round.now_ms,
            beliefs: &learned,
            settings: &settings,
            remaining: &|| Some(deadline.saturating_duration_since(Instant::now())),
            last: &self.last,
        };
        let (mut method_plan, last) = plan(&inputs);
        self.last = last;
        if learned.nodes_measured() > 0 {
            let nodes = u32::try_from(learned.nodes_measured()).map_or(f64::MAX, f64::from);
            method_plan.report.terms.insert("nodes_measured".to_owned(), nodes);
        }
        method_plan
    }
}
