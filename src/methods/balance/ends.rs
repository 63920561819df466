// SPDX-License-Identifier: GPL-3.0-or-later
//! Mode best: for how much longer a node is busy because of a job.
//!
//! A node comes free as a whole at the last end of its jobs. A job that ends before that costs
//! nothing; one that ends later keeps the node from those that need all of it.

use super::decision::{Request, Span};
use super::index::{LANES, Lane};
use super::params::{Mode, Params};
use super::terms::BestParams;

/// A job's runtime, prepared for judging nodes by their last ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    now_s: f64,
    end_s: f64,
    /// The term's factor in parts of the job's own limit.
    per_s: f64,
}

impl Growth {
    /// Returns the growth to judge nodes by; `None`: ends do not count.
    pub(super) fn of(params: &Params, request: &Request<'_>) -> Option<Self> {
        let span = request.span.filter(|_| params.mode == Mode::Best)?;
        Self::new(&params.best, span)
    }

    fn new(best: &BestParams, Span { now_s, limit_s }: Span) -> Option<Self> {
        let (now_s, limit_s) = (now_s as f64, limit_s.max(1) as f64);
        let growth = Self { now_s, end_s: now_s + limit_s, per_s: best.ends / limit_s };
        (best.ends > 0.0).then_some(growth)
    }

    /// The term on a node whose last job ends at `last_s`: at most the factor, and less the later
    /// that is.
    #[inline(always)]
    pub(super) fn term(&self, last_s: f64) -> f64 {
        let from_s = if last_s > self.now_s { last_s } else { self.now_s };
        let more_s = self.end_s - from_s;
        if more_s > 0.0 { more_s * self.per_s } else { 0.0 }
    }

    /// Adds to `keys` the terms of nodes whose last ends are `last_s`.
    #[inline(always)]
    pub(super) fn add(&self, last_s: &Lane, keys: &mut Lane) {
        for lane in 0..LANES {
            keys[lane] += self.term(last_s[lane]);
        }
    }
}
