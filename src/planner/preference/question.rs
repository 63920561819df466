// SPDX-License-Identifier: GPL-3.0-or-later
//! The question which nodes a job gets, as Slurm asks it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::job_class::JobOrigin;
use crate::place::{Holding, Span};
use phalanx_core::number::as_u32;
use phalanx_core::shape::Shape;
use phalanx_core::snapshot::Job;

/// The question which nodes a job gets, without the candidates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Question<'a> {
    /// Job id.
    pub job_id: u32,
    /// Id of the job's array, if the job is an array task or the array's record.
    pub array_job_id: Option<u32>,
    /// Ids of array job and task, if the job is a single task.
    pub array: Option<(u32, u32)>,
    /// Origin of the job, by which its class is known.
    pub origin: JobOrigin,
    /// Partition; borrowed from the plugin's packet while the question is not kept.
    pub partition: Cow<'a, str>,
    /// Whether the call is WILL_RUN rather than RUN_NOW.
    pub will_run: bool,
    /// Whether the plugin takes a proof for an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provable: bool,
    /// Whether the job declares an input.
    pub input: bool,
    /// Whether the job may not wait for its input, or for being worth its cost, because its user's
    /// jobs have held the queue long enough.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_wait: bool,
    /// Whether the asker's Slurm is untested, so that Slurm places, whatever the mode.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shadow_only: bool,
    /// Whether Slurm alone treats the job, whatever the mode: its arm of a live comparison.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slurm_only: bool,
    /// Number of nodes in the asker's table.
    pub nodes: u32,
    /// Whether candidates that are completing or about to reboot were left out, so that stock would
    /// look at more than all candidates.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
    /// Some of the jobs that Slurm may preempt for the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preemptable: Vec<u32>,
    /// Number of all jobs that Slurm may preempt for the job.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub preemptable_all: u32,
    /// Slurm's priority.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: u32,
    /// Time limit of the job, seconds; `None`: the job has none, or none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<u64>,
    /// Unix second at which Slurm asks.
    #[serde(default)]
    pub asked_s: u64,
    /// Request.
    pub shape: Cow<'a, Shape>,
}

impl<'a> Question<'a> {
    /// Makes the question for a job of the queue, as Slurm would ask it.
    pub fn of(job: &'a Job, nodes: usize) -> Self {
        Self {
            job_id: job.id,
            array_job_id: job.array_job_id,
            array: job.array_job_id.zip(job.array_task_id),
            origin: JobOrigin::of(job),
            partition: Cow::Borrowed(&job.partitions),
            nodes: as_u32(nodes),
            shape: Cow::Borrowed(&job.shape),
            ..Self::default()
        }
    }

    /// Time for which the job would run: as with Slurm a year without a limit. `None`: the time of
    /// asking is not known.
    pub fn span(&self) -> Option<Span> {
        const YEAR_S: u64 = 365 * 86_400;
        let limit_s = self.limit_s.unwrap_or(YEAR_S);
        (self.asked_s > 0).then_some(Span { now_s: self.asked_s, limit_s })
    }

    /// Returns the question with copies of what it borrowed.
    pub fn into_owned(self) -> Question<'static> {
        Question {
            partition: Cow::Owned(self.partition.into_owned()),
            shape: Cow::Owned(self.shape.into_owned()),
            job_id: self.job_id,
            array_job_id: self.array_job_id,
            array: self.array,
            origin: self.origin,
            will_run: self.will_run,
            provable: self.provable,
            input: self.input,
            no_wait: self.no_wait,
            shadow_only: self.shadow_only,
            slurm_only: self.slurm_only,
            nodes: self.nodes,
            left_out: self.left_out,
            preemptable: self.preemptable,
            preemptable_all: self.preemptable_all,
            priority: self.priority,
            limit_s: self.limit_s,
            asked_s: self.asked_s,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde gives references
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Time that a job was held back already, and the longest time for which it may be.
#[derive(Debug, Clone, Copy, Default)]
pub struct Waits {
    /// Time that the job was held back, if it may be held back at all.
    pub holding: Holding,
    /// Longest time until the job's input is known, ms; 0 for a job that declares none.
    pub input_ms: u64,
    /// Longest wait for nodes of the job's input, where it insists on them, ms.
    pub require_ms: u64,
}

impl Waits {
    /// Waits of a job that may no longer be held back.
    pub const OVER: Self = Self { holding: Holding::Never, input_ms: 0, require_ms: 0 };
}
