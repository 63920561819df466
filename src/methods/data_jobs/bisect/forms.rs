// SPDX-License-Identifier: GPL-3.0-or-later
//! Jobs whose numbers of hosts and cores are given, as one form or a few.

use crate::data_jobs::attenuation::Attenuation;

/// A block: its megabytes, and the hosts that hold it.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Megabytes.
    pub size_mb: f64,
    /// Host indexes, ascending.
    pub replicas: Vec<usize>,
}

/// Cores that a job may get: `hosts` hosts with `cores` cores on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Number of hosts, at least 1.
    pub hosts: usize,
    /// Cores on each host, at least 1.
    pub cores: usize,
}

/// A job that needs a fixed form.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// MB/s of one core alone, > 0.
    pub speed_mb_per_s: f64,
    /// f(n).
    pub attenuation: Attenuation,
    /// Part of `speed_mb_per_s` that a core has on each host; empty: all of it everywhere.
    pub speeds: Vec<f64>,
    /// The input.
    pub blocks: Vec<Block>,
    /// Forms among which to choose, the preferred one first.
    pub forms: Vec<Form>,
    /// Indexes of hosts that the job may use, ascending, each with the ms before which the job
    /// cannot start there for other reasons than cores.
    pub allowed: Vec<(usize, f64)>,
}

/// Hosts and jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Milliseconds until each core of each host is free.
    pub hosts: Vec<Vec<f64>>,
    /// MB/s from another host, > 0.
    pub transfer_mb_per_s: f64,
    /// Jobs in queue order.
    pub jobs: Vec<Job>,
}
