// SPDX-License-Identifier: GPL-3.0-or-later
//! Multi-dimensional balance: which node(s) one job gets.
//!
//! A job goes where the usages of a node's dimensions (cpu, memory, GPUs, ...)
//! stay close to each other, so that no dimension is used up while the others
//! are stranded. How much a dimension counts follows from three sources:
//! configured weights, how many pending jobs lack it, how much of it is in use.
//!
//! [`Engine`] holds the nodes and decides one job at a time; [`solve`] places a
//! list of jobs by it, as `phalanx solve balance` does. Decisions are a pure
//! function of the calls before them: no clock, no random numbers, no I/O.
//!
//! The files build on each other in this order: `nodes`, `index` (nodes in
//! blocks with bounds), `terms` (the score's weights and separable terms: a new
//! one goes in there), `score`, `scorer`, `search`, `engine`; `plain` is the
//! definition that `decide` must agree with.
//!
//! # Source
//! `docs/methods.md`, section Balance: formulas and modes.
//!
//! # Ties
//! Two dispersions within [`TIE`] of each other are equal: rounding errors of
//! doubles (about 1e-16) must not decide between nodes that are equal on
//! paper. The lowest node index wins. "Falls" means by more than `TIE`.

mod answer;
mod chart;
mod decide;
mod decision;
mod ends;
mod engine;
pub mod fragment;
mod index;
mod nodes;
mod params;
pub mod pending;
mod plain;
pub mod problem;
mod report;
mod score;
mod scorer;
mod search;
mod solve;
mod terms;
mod unusable;

pub use answer::{Answer, JobExplain, NodeUse, Placement, Second};
pub use chart::chart;
pub use decision::{Branch, Choice, Decision, Holding, Others, Outcome, Request, RunnerUp, Span};
pub use engine::{Engine, EngineError};
pub use params::{Mode, NoImprovement, Params, Sources};
pub use problem::Problem;
pub use report::WeightsBySource;
pub use solve::solve;
pub use terms::{BestParams, SHARPNESS_MAX};

/// Dispersions closer than this are equal (see the module documentation).
pub const TIE: f64 = 1e-12;
