// SPDX-License-Identifier: GPL-3.0-or-later
//! The gang method in the daemon: settings, learned speeds, and a population that is improved
//! between the rounds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::round::{PLAN_SHARE, PlacementMethod, Round, no_plan};
use crate::daemon::measured_values::GANG_SPEED;
use crate::sync::{TICK, sleep_until};
use phalanx_config::GangMode;
use phalanx_core::number::as_u32;
use phalanx_ffi::locks::lock;
use phalanx_planner::gang::{Bred, Inputs, Learned, Open, Planned, plan};
use phalanx_planner::preference::{Method, MethodPlan};

/// Longest search of a round: a tenth of the time between two rounds.
const SEARCH_DEADLINE: Duration = Duration::from_millis(100);
/// Longest search between rounds, per node: a second at 1,000 nodes, and never more than two.
const SEARCH_BY_NODE: Duration = Duration::from_millis(1);
const SEARCH_MAX: Duration = Duration::from_secs(2);

/// The last round's problem and the population, which the threads `plan` and `gangs` share.
#[derive(Debug, Default)]
pub struct Breeding {
    open: Mutex<Option<Open>>,
    bred: Mutex<Arc<Bred>>,
}

impl Breeding {
    /// Searches on from the last population with 1/[`PLAN_SHARE`] of a CPU, until `stop`.
    pub fn run(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            if let Some(open) = lock(&self.open).take() {
                self.search(&open, stop);
            }
            let share = begun.elapsed().saturating_mul(PLAN_SHARE);
            sleep_until(begun + share.max(TICK), stop);
        }
    }

    fn search(&self, open: &Open, stop: &AtomicBool) {
        let nodes = as_u32(open.nodes());
        let time = SEARCH_BY_NODE.saturating_mul(nodes).clamp(SEARCH_DEADLINE, SEARCH_MAX);
        let due = Instant::now() + time;
        let left = || due.saturating_duration_since(Instant::now());
        let remaining = || Some(if stop.load(Ordering::Relaxed) { Duration::ZERO } else { left() });
        let before = self.bred();
        if let Some(bred) = open.search(&before, &remaining) {
            self.keep(bred, &before);
        }
    }

    fn bred(&self) -> Arc<Bred> {
        Arc::clone(&lock(&self.bred))
    }

    /// Keeps a population, and what the other thread has found since `before`.
    fn keep(&self, mut bred: Bred, before: &Arc<Bred>) {
        let mut kept = lock(&self.bred);
        if !Arc::ptr_eq(&kept, before) {
            bred.plans.extend(kept.plans.iter().cloned());
        }
        *kept = Arc::new(bred);
    }
}

/// Plans gangs, each time from the kept population.
pub struct Gangs {
    pub breeding: Arc<Breeding>,
}

impl PlacementMethod for Gangs {
    fn plan(&mut self, round: &Round<'_>) -> MethodPlan {
        let config = &round.config.gang;
        if config.mode == GangMode::Off {
            *lock(&self.breeding.open) = None;
            *lock(&self.breeding.bred) = Arc::default();
            return no_plan(Method::Gang);
        }
        let deadline = Instant::now() + SEARCH_DEADLINE;
        let settings = round.config.gang_settings();
        let (learn, measured) = (&round.config.learn, round.measured.get(GANG_SPEED));
        let (class_by, node_class_by) = (&learn.class_by, &learn.node_class_by);
        let learned = Learned::new(round.speeds, class_by, node_class_by, measured, round.now_s());
        let before = self.breeding.bred();
        let inputs = Inputs {
            snapshot: round.snapshot,
            usages: round.usages,
            now_ms: round.now_ms,
            beliefs: &learned,
            settings: &settings,
            remaining: &|| Some(deadline.saturating_duration_since(Instant::now())),
            bred: &before,
        };
        let Planned { plan: mut method_plan, bred, open } = plan(&inputs);
        self.breeding.keep(bred, &before);
        *lock(&self.breeding.open) = open;
        if learned.nodes_measured() > 0 {
            let nodes = u32::try_from(learned.nodes_measured()).map_or(f64::MAX, f64::from);
            method_plan.report.terms.insert("nodes_measured".to_owned(), nodes);
        }
        method_plan
    }
}

#[cfg(test)]
mod tests {
    use super::{Bred, Breeding};
    use phalanx_methods::gang::Placement;

    /// Goal: a search that began before another ended does not undo what the other found.
    #[test]
    fn no_thread_drops_what_the_other_bred_meanwhile() {
        let breeding = Breeding::default();
        let bred = |job: &str| {
            let mut bred = Bred::default();
            bred.plans.push(vec![Placement { job: job.to_owned(), tasks: Vec::new() }]);
            bred
        };
        let jobs = || {
            let bred = breeding.bred();
            bred.plans.iter().map(|plan| plan[0].job.clone()).collect::<Vec<_>>()
        };
        let before = breeding.bred();
        breeding.keep(bred("long"), &before);
        breeding.keep(bred("round"), &before);
        assert_eq!(jobs(), ["round", "long"]);
        breeding.keep(bred("next"), &breeding.bred());
        assert_eq!(jobs(), ["next"]);
    }
}
