// SPDX-License-Identifier: GPL-3.0-or-later
//! The gang method in the daemon: settings, learned speeds, the last plan.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::round::{PlacementMethod, Round};
use crate::config::LearnConfig;
use crate::daemon::measured_values::GANG_SPEED;
use phalanx_core::snapshot::{Job, Node};
use phalanx_methods::learn::{JobTraits, Speeds, Trust, class_of, family_of, node_class_of};
use phalanx_planner::gang::{Belief, Beliefs, Inputs, Last, plan};
use phalanx_planner::measured::{Classes, Measured};
use phalanx_planner::preference::{JobClassRule, Method, MethodPlan, MethodReport};

/// Runs that a measurement counts as: nothing is left to explore.
const MEASURED: f64 = 1e9;

/// Plans gangs, each time from the plan before.
#[derive(Default)]
pub struct Gangs {
    last: Last,
}

impl PlacementMethod for Gangs {
    fn plan(&mut self, round: &Round<'_>) -> MethodPlan {
        let config = &round.config.gang;
        if !config.enabled {
            self.last.clear();
            return nothing();
        }
        let deadline = Instant::now() + Duration::from_millis(config.deadline_ms);
        let settings = round.config.gang_settings();
        let measured = round.measured.get(GANG_SPEED).map(Measured::classes);
        let learned = Learned {
            speeds: round.speeds,
            by: &round.config.learn,
            now_s: round.now_s(),
            measured: measured.unwrap_or_default(),
            trusts: RefCell::default(),
        };
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
        if !learned.measured.of.is_empty() {
            let nodes = u32::try_from(learned.measured.of.len()).map_or(f64::MAX, f64::from);
            method_plan.report.terms.insert("nodes_measured".to_owned(), nodes);
        }
        method_plan
    }
}

fn nothing() -> MethodPlan {
    let report =
        MethodReport { method: Method::Gang.as_str().to_owned(), ..MethodReport::default() };
    MethodPlan::new(Method::Gang, report)
}

/// Learned speeds under the classes of the configuration; on nodes that were
/// measured, that.
struct Learned<'a> {
    speeds: &'a Speeds,
    by: &'a LearnConfig,
    now_s: i64,
    measured: Classes,
    /// By job type, as asked for.
    trusts: RefCell<HashMap<String, Trust<'a>>>,
}

impl Beliefs for Learned<'_> {
    fn job_type(&self, job: &Job) -> String {
        class_of(&JobTraits::of(job), &self.by.class_by)
    }

    fn job_class_rule(&self) -> JobClassRule {
        JobClassRule::new(&self.by.class_by)
    }

    fn node_class(&self, node: &Node) -> String {
        match self.measured.of.get(&node.name) {
            Some(class) => class.to_string(),
            None => node_class_of(node, &self.by.node_class_by),
        }
    }

    fn belief(&self, job_type: &str, node_class: &str) -> Belief {
        if let Some(&speed) = self.measured.speed.get(node_class) {
            return Belief { speed, count: MEASURED };
        }
        let mut trusts = self.trusts.borrow_mut();
        let trust = trusts.entry(job_type.to_owned()).or_insert_with(|| {
            let family = family_of(job_type, &self.by.class_by);
            self.speeds.trust(job_type, family.as_deref(), self.now_s)
        });
        let found = trust.on(node_class);
        Belief { speed: found.mean, count: found.count }
    }

    fn runs(&self) -> u64 {
        self.speeds.round().saturating_sub(1)
    }

    fn asked_s(&self, gres: &str) -> Option<i64> {
        self.speeds.asked_s(gres)
    }
}
