// SPDX-License-Identifier: GPL-3.0-or-later
//! The gang method in the daemon: settings, learned speeds, the last plan.

use std::time::{Duration, Instant};

use crate::config::{Config, GangMode, LearnConfig};
use crate::daemon::steerers::{Round, Steerer};
use crate::gang::Mode;
use crate::learn::{JobTraits, Speeds, class_of, node_class_of};
use crate::planner::gangs::{Belief, Beliefs, Inputs, Last, Settings, plan};
use crate::planner::steer::{Method, MethodReport, Steering};
use crate::snapshot::{Job, Node};

/// Plans gangs, each time from the plan before.
#[derive(Default)]
pub(super) struct Gangs {
    last: Last,
}

impl Steerer for Gangs {
    fn plan(&mut self, round: &Round<'_>) -> Steering {
        let config = &round.config.gang;
        if !config.enabled {
            self.last.clear();
            return nothing();
        }
        let deadline = Instant::now() + Duration::from_millis(config.deadline_ms);
        let settings = settings(round.config);
        let learned =
            Learned { speeds: round.speeds, by: &round.config.learn, now_s: round.now_s() };
        let inputs = Inputs {
            snapshot: round.snapshot,
            rooms: round.rooms,
            now_ms: round.now_ms,
            beliefs: &learned,
            settings: &settings,
            remaining: &|| Some(deadline.saturating_duration_since(Instant::now())),
            last: &self.last,
        };
        let (steering, last) = plan(&inputs);
        self.last = last;
        steering
    }
}

fn nothing() -> Steering {
    let report =
        MethodReport { method: Method::Gang.as_str().to_owned(), ..MethodReport::default() };
    Steering { method: Method::Gang, steers: Vec::new(), wishes: Vec::new(), report }
}

fn settings(config: &Config) -> Settings {
    let gang = &config.gang;
    Settings {
        mode: match gang.mode {
            GangMode::Best => Mode::Best,
            GangMode::Seed => Mode::Seed,
        },
        seed: gang.seed,
        threads: gang.threads as usize,
        // Where nothing is learned, trying teaches nothing.
        bonus_scale: if config.learn.enabled { gang.bonus_scale } else { 0.0 },
        billing: gang.billing.clone(),
        priority_weight: gang.priority_weight,
        cost: gang.cost.clone(),
        jobs_max: config.planner.plan_jobs_max as usize,
    }
}

/// Learned speeds under the classes of the configuration.
struct Learned<'a> {
    speeds: &'a Speeds,
    by: &'a LearnConfig,
    now_s: i64,
}

impl Beliefs for Learned<'_> {
    fn job_type(&self, job: &Job) -> String {
        class_of(&JobTraits::of(job), &self.by.class_by)
    }

    fn node_class(&self, node: &Node) -> String {
        node_class_of(node, &self.by.node_class_by)
    }

    fn belief(&self, job_type: &str, node_class: &str) -> Belief {
        let found = self.speeds.estimate(job_type, "", node_class, self.now_s);
        Belief { speed: found.speed, count: found.count }
    }

    fn runs(&self) -> u64 {
        self.speeds.round().saturating_sub(1)
    }
}
