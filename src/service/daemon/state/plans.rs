// SPDX-License-Identifier: GPL-3.0-or-later
//! The last plan of the queue, made by the plan thread.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use log::warn;

use phalanx_core::snapshot::Snapshot;
use phalanx_ffi::clock::{millis, now_ms};
use phalanx_ffi::locks::lock;
use phalanx_messages::rest::PlannerStatus;
use phalanx_planner::plan::Plan;
use phalanx_planner::preference::{MethodReport, Note, StartRank};

/// The last plan and the state of planning.
#[derive(Debug, Default)]
pub struct Plans(Mutex<PlanState>);

/// The last sound plan, even if the last round's was refused, and results of the last round.
#[derive(Debug, Default)]
pub struct PlanState {
    pub plan: Option<Arc<Plan>>,
    /// Snapshot whose nodes the plan's indexes name.
    pub snapshot: Option<Arc<Snapshot>>,
    pub time_ms: u64,
    pub took_ms: u64,
    pub plans: u64,
    pub of_round: OfRound,
    made: Option<Instant>,
    refused: u64,
    last_error: Option<String>,
}

/// Results of the last round other than the plan.
#[derive(Debug, Default)]
pub struct OfRound {
    /// Sequence in which the methods want jobs to start.
    pub start_order: Vec<StartRank>,
    pub methods: Vec<MethodReport>,
    /// Remarks of the methods on jobs for which they have no preference.
    pub notes: HashMap<u32, Note>,
}

impl Plans {
    pub fn lock(&self) -> MutexGuard<'_, PlanState> {
        lock(&self.0)
    }

    /// Takes the results of a round; a plan that was refused leaves the last sound one in place.
    pub fn publish(
        &self,
        of_round: OfRound,
        snapshot: &Arc<Snapshot>,
        made: Result<Plan, String>,
        took: Duration,
    ) {
        let mut state = self.lock();
        state.took_ms = millis(took);
        state.plans += 1;
        state.of_round = of_round;
        match made {
            Ok(plan) => {
                state.plan = Some(Arc::new(plan));
                state.snapshot = Some(Arc::clone(snapshot));
                state.made = Some(Instant::now());
                state.time_ms = now_ms();
                state.last_error = None;
            }
            Err(error) => {
                warn!("plan refused: {error}");
                state.refused += 1;
                state.last_error = Some(error);
            }
        }
    }

    pub fn status(&self) -> PlannerStatus {
        let state = self.lock();
        PlannerStatus {
            plans: state.plans,
            refused: state.refused,
            last_plan_ms: state.took_ms,
            plan_age_ms: state.made.map(|made| millis(made.elapsed())),
            last_error: state.last_error.clone(),
        }
    }
}
