// SPDX-License-Identifier: GPL-3.0-or-later
//! Node preferences: the nodes on which a method wants a job, for the moment when Slurm asks.
//!
//! A planner sees the queue as it was at the last poll; when Slurm asks, the
//! nodes may look different. A [`Preference`] therefore names sets of nodes, the
//! best first, and never decides by itself: [`decide`] tries set by set within
//! the candidates that Slurm offers, on the exact usage of that moment, and
//! leaves the job to the usual choice when none of them holds it. Inside a set
//! with more nodes than needed the balance engine chooses.
//!
//! Each method replaces its own [`PreferenceTable`] as a whole. A job that several
//! methods have a preference for follows the first of [`Method`]'s order.

mod decide;
mod hold_budget;
mod holds;
mod job_class;
mod model;
mod notes;
mod question;
mod table;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use hold_budget::HoldBudget;
pub use holds::{Hold, HoldLimits, HoldRule, Holds};
pub use job_class::{JobClassKey, JobClassRule, JobOrigin, Owner};
pub use model::{
    CandidateSet, JobKey, Method, MethodPlan, MethodReport, Preference, PreferenceUse, StartRank,
    Unused,
};
pub use notes::{BagNote, BagRow, BagShare, ClassSpeed, DataNote, GangNote, Note, TaskRow};
pub use question::{Question, Waits};
pub use table::{PreferenceTable, Preferences, Rows};
