// SPDX-License-Identifier: GPL-3.0-or-later
//! The answer to a problem of data jobs: every job's cores, blocks and times.

use serde::Serialize;

use super::budget::Stopped;
use super::instance::Instance;
use super::problem::{Problem, Start};
use super::schedule::{Placed, Schedule};
use super::seed::Probed;
use phalanx_core::problem::Number;

/// A whole schedule. Times are milliseconds from now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer<'a> {
    /// The largest end.
    pub makespan_ms: Number,
    /// Lower bound of the makespan of any schedule, ms.
    pub lower_bound_ms: Number,
    /// Answers by job, in the order given.
    pub jobs: Vec<JobAnswer<'a>>,
    /// Every makespan that was tried, in order.
    pub probes: Vec<ProbeAnswer>,
    /// Megabytes read from other hosts.
    pub transferred_mb: Number,
    /// Present when the deadline or a limit of work ended the search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// Reasons of the answer, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<Explanation>,
}

/// Schedule of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobAnswer<'a> {
    /// The job's id.
    pub id: &'a str,
    /// Start of the job's first core.
    pub start_ms: Number,
    /// Time at which all cores of the job are released.
    pub end_ms: Number,
    /// Cores of the job in the order of choice; n of f(n) is their number.
    pub cores: Vec<CoreAnswer<'a>>,
}

/// A core of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CoreAnswer<'a> {
    /// The host's name.
    pub host: &'a str,
    /// Number of the core on the host.
    pub core: usize,
    /// Start of the core, ms; only with start `async`, where each core begins by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<Number>,
    /// Blocks that the core reads.
    pub blocks: Vec<BlockAnswer<'a>>,
}

/// A block of a core.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockAnswer<'a> {
    /// The block's id.
    pub id: &'a str,
    /// Host that the block is read from; `None` when it is on the core's host.
    pub from: Option<&'a str>,
}

/// A probe of the bisection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbeAnswer {
    /// Whole milliseconds.
    pub makespan_ms: Number,
    /// Whether every job could end by the makespan.
    pub feasible: bool,
}

/// Reasons of an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The step that found the schedule.
    pub found_by: &'static str,
    /// (makespan - lower bound) / lower bound; 0 when both are 0.
    pub gap: f64,
    /// Whether no better schedule exists.
    pub proven_optimal: bool,
}

/// Builds the answer, with names in place of indexes.
pub(super) fn build<'a>(
    problem: &'a Problem<'_>,
    instance: &Instance,
    schedule: &Schedule,
    lower: f64,
    probes: &[Probed],
) -> Answer<'a> {
    let idle = |job: &'a super::problem::Job<'_>| JobAnswer {
        id: job.id.0.as_ref(),
        start_ms: Number(0.0),
        end_ms: Number(0.0),
        cores: Vec::new(),
    };
    let mut jobs: Vec<JobAnswer<'a>> = problem.jobs.iter().map(idle).collect();
    let mut transferred = 0.0;
    for placed in &schedule.placed {
        let answer = &mut jobs[placed.job];
        answer.start_ms = Number(placed.start);
        answer.end_ms = Number(placed.end);
        answer.cores = cores(problem, instance, placed, &mut transferred);
    }
    let probe = |probe: &Probed| ProbeAnswer {
        makespan_ms: Number(probe.makespan),
        feasible: probe.feasible,
    };
    Answer {
        makespan_ms: Number(schedule.end),
        // The last digits of sums may put it above a schedule that it bounds.
        lower_bound_ms: Number(lower.min(schedule.end)),
        jobs,
        probes: probes.iter().map(probe).collect(),
        transferred_mb: Number(transferred),
        stopped: None,
        explain: None,
    }
}

fn cores<'a>(
    problem: &'a Problem<'_>,
    instance: &Instance,
    placed: &Placed,
    transferred: &mut f64,
) -> Vec<CoreAnswer<'a>> {
    let job = &instance.jobs[placed.job];
    let mut answers = Vec::with_capacity(placed.cores.len());
    for (c, &core) in placed.cores.iter().enumerate() {
        let host = instance.host_of[core];
        let mut blocks = Vec::with_capacity(placed.assignment.blocks[c].len());
        for &b in &placed.assignment.blocks[c] {
            let remote = !job.blocks[b].is_on(host);
            if remote {
                *transferred += job.blocks[b].size;
            }
            // Any holder serves equally fast; the first is as good as another.
            let holder = job.blocks[b].replicas.first().filter(|_| remote);
            blocks.push(BlockAnswer {
                id: problem.jobs[placed.job].blocks[b].id.0.as_ref(),
                from: holder.map(|&holder| problem.hosts[holder].name.0.as_ref()),
            });
        }
        let own = instance.start == Start::Async;
        answers.push(CoreAnswer {
            host: problem.hosts[host].name.0.as_ref(),
            core: core - instance.hosts[host].first,
            start_ms: own.then_some(Number(placed.starts[c])),
            blocks,
        });
    }
    answers
}
