// SPDX-License-Identifier: GPL-3.0-or-later
//! Slurmctld and phalanxd together: Slurm's main pass and backfill, which go by limits, and the
//! daemon's order of starts with its guard, which is the planner's own code.
//!
//! Written from what Slurm 22.05.8 does (`job_scheduler.c`, `backfill.c`, `job_test.c`): a job is
//! tried as it comes if none of higher priority waits; the main pass goes through the queue until
//! one job does not fit; backfill plans every job at its earliest start by the limits of those
//! that run and of those planned before it, and reserves whole nodes for it.

mod clock;
mod cpus;
mod parameters;
pub mod pool;
mod queue;
mod slots;
mod window;

use super::policy::Order;

pub use parameters::{Parameters, Priority, WEIGHTS, duration_s};
pub use queue::{OrderBy, OrderRule};

pub(crate) use clock::{Clock, Due};
pub(crate) use queue::{Place, Queue};
pub(crate) use slots::{Planned, Search, Slots};
pub(crate) use window::Windows;

/// Slurm's settings and the daemon's order; `None`: there is no daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// slurm.conf.
    pub parameters: Parameters,
    /// Rule of `[order]`, where it is enabled.
    pub order: Option<OrderRule>,
}

impl Rules {
    /// Rules under an order: without the daemon's where the daemon does not order.
    pub fn of(&self, order: Order) -> Self {
        match order {
            Order::Slurm { by_daemon: true } => self.clone(),
            _ => Self { order: None, ..self.clone() },
        }
    }
}

#[cfg(test)]
mod tests;
