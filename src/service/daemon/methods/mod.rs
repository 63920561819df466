// SPDX-License-Identifier: GPL-3.0-or-later
//! The methods of placement in the daemon: each plans in its own way, in the plan thread, with
//! the solver and the model of the planner's folder of its name.
//!
//! A plan goes to the link, where [`preference::decide`](phalanx_planner::preference::decide)
//! follows it. A method with a section of its own in the configuration takes nine files: the
//! section in `sections.rs`, `keys.rs` and `lib.rs` of `src/config` and in
//! `config/examples/phalanx.toml`; its name in `src/planner/preference/model.rs`; its planning, a
//! module of `src/planner` with its line in `lib.rs`; an entry in [`all`] here; and whether it is
//! on, for replays, in `src/mirror/replica.rs`. `phalanx explain` shows the name and the set; terms
//! of its own are a variant of `Note` (`src/planner/preference/notes.rs`) and its words in
//! `src/cli/text/preference.rs`.

pub mod bags;
mod data_jobs;
pub mod gangs;
mod round;

use std::sync::{Arc, Mutex};

use self::bags::Bags;
use self::data_jobs::DataJobs;
use self::gangs::{Breeding, Gangs};
use crate::daemon::state::power::Power;
use phalanx_config::PLAN_JOBS_MAX;
use phalanx_planner::backfill_window;
use phalanx_planner::preference::{JobKey, Method, MethodPlan};

pub use self::round::{PLAN_DEADLINE, PLAN_SHARE, PlacementMethod, Round};

/// Returns every method, in the order of their planning.
pub fn all(power: &Arc<Mutex<Power>>, gangs: &Arc<Breeding>) -> Vec<Box<dyn PlacementMethod>> {
    let bags = Box::new(Bags::new(Arc::clone(power)));
    let gangs = Box::new(Gangs { breeding: Arc::clone(gangs) });
    vec![Box::new(DataJobs::default()), bags, gangs, Box::new(BackfillWindow)]
}

/// Takes requeued jobs out of the plans that may want nodes which failed them; the last method
/// makes them prefer all other nodes. Data jobs keep their plan, as their input does not move.
pub fn avoid(round: &Round<'_>, plan: &mut MethodPlan) {
    let failed = |key: &JobKey| matches!(key, JobKey::Job(id) if round.failed_on.contains_key(id));
    if plan.method != Method::DataJobs {
        plan.preferences.retain(|one| !failed(&one.key) || one.method == Method::BackfillWindow);
    }
}

/// Leaves the nodes of a waiting gang to jobs that end before it starts, and keeps requeued jobs
/// off nodes that failed them.
struct BackfillWindow;

impl PlacementMethod for BackfillWindow {
    fn plan(&mut self, round: &Round<'_>) -> MethodPlan {
        backfill_window::plan(&backfill_window::Inputs {
            snapshot: round.snapshot,
            usages: round.usages,
            outlook: round.outlook,
            now_ms: round.now_ms,
            jobs_max: PLAN_JOBS_MAX,
            done: round.done,
            failed_on: round.failed_on,
        })
    }
}
