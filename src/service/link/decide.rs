// SPDX-License-Identifier: GPL-3.0-or-later
//! The decision on one question, by the mirror and the settings alone.
//!
//! The plugin's questions and those of a recording go through the same
//! function: all that it depends on are its arguments.

use std::borrow::Cow;
use std::time::Instant;

use phalanx_ffi::wire::{self, Reason, WireName};
use serde::{Deserialize, Serialize};

use crate::link::convert::{self, GresIds};
use crate::link::settings::{Mode, Settings};
use crate::link::state::State;
use phalanx_core::limits;
use phalanx_core::shape::Shape;
use phalanx_planner::place::{NoPlacement, Placement};
use phalanx_planner::preference::{self, JobOrigin, PreferenceUse, Question};

/// A question, as far as its answer depends on it, but for the candidates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked<'a> {
    /// Job id.
    pub job_id: u32,
    /// Its array, if it is of one.
    pub array_job_id: Option<u32>,
    /// Array job and task, if it is a single task.
    pub array: Option<(u32, u32)>,
    /// What jobs like it are known by.
    #[serde(rename = "signs")]
    pub origin: JobOrigin,
    /// Partition; borrowed from the plugin's packet while nobody keeps the question.
    pub partition: Cow<'a, str>,
    /// WILL_RUN instead of RUN_NOW.
    pub will_run: bool,
    /// The job declares an input.
    pub input: bool,
    /// Nodes of the plugin's table.
    pub nodes: u32,
    /// Request.
    pub shape: Shape,
}

impl<'a> Asked<'a> {
    pub(super) fn of(ask: &wire::Ask<'a>, ids: &GresIds) -> Self {
        let head = ask.head;
        Self {
            job_id: head.job_id,
            array_job_id: (head.array_job_id != 0).then_some(head.array_job_id),
            array: convert::array_of(head),
            origin: JobOrigin {
                user_id: head.user_id,
                account_key: head.account_key,
                name_key: head.name_key,
            },
            partition: head.partition.name(),
            will_run: ask.mode() == Some(wire::Mode::WillRun),
            input: ask.has(wire::PHX_ASK_INPUT),
            nodes: head.node_bits,
            shape: convert::shape(ask, ids),
        }
    }

    /// The same, apart from the packet.
    pub(super) fn into_owned(self) -> Asked<'static> {
        let Self { job_id, array_job_id, array, origin, .. } = self;
        let Self { partition, will_run, input, nodes, shape, .. } = self;
        let partition = Cow::Owned(partition.into_owned());
        Asked { job_id, array_job_id, array, origin, partition, will_run, input, nodes, shape }
    }
}

/// See [`answer`].
#[derive(Debug)]
pub(super) struct Answered {
    /// Why Slurm is to decide; `None`: it is to take the placement.
    pub(super) reason: Option<Reason>,
    /// Detail of the reason, where it has one.
    pub(super) detail: Option<&'static str>,
    /// The decision, also in shadow mode.
    pub(super) placement: Option<Placement>,
    /// Node preference for the job, if there is one, and whether it decided.
    pub(super) preference_use: Option<PreferenceUse>,
}

/// Answers a question that came at `now`; `candidates` are the words of a
/// bitmap over the node table.
pub(super) fn answer(
    state: &mut State,
    settings: &Settings,
    asked: &Asked<'_>,
    candidates: &[u64],
    now: Instant,
) -> Answered {
    let mode = settings.mode_of(&asked.partition);
    let (decided, preference_use) = decide(state, settings, mode, asked, candidates, now);
    let by_method =
        preference_use.as_ref().is_some_and(|s| s.preference.required && s.set.is_none());
    let (reason, detail) = match &decided {
        // In shadow mode nothing may be held back.
        Err(Why::No(NoPlacement::Held | NoPlacement::Unplanned)) if mode == Mode::Shadow => {
            (Some(Reason::Shadow), Some("would wait"))
        }
        // Backfill still reserves nodes for a job that only waits for a better one, but not
        // for tasks that wait for their own nodes: others could not start meanwhile.
        Err(Why::No(NoPlacement::Held)) if asked.will_run && !by_method => {
            (Some(Reason::NoFit), Some("would wait"))
        }
        Err(why) => why.reason(),
        Ok(_) if mode == Mode::Shadow => (Some(Reason::Shadow), None),
        Ok(_) => (None, None),
    };
    Answered { reason, detail, placement: decided.ok(), preference_use }
}

enum Why {
    Off,
    NotSynced,
    NoChoice,
    No(NoPlacement),
}

impl Why {
    fn reason(&self) -> (Option<Reason>, Option<&'static str>) {
        let (reason, detail) = match self {
            Self::Off => (Reason::Off, None),
            Self::NotSynced | Self::No(NoPlacement::OtherTable) => (Reason::NotSynced, None),
            Self::No(NoPlacement::Left(option)) => (Reason::Unsupported, Some(option.option())),
            Self::No(NoPlacement::NoFit) => (Reason::NoFit, None),
            Self::NoChoice => (Reason::NoChoice, None),
            Self::No(NoPlacement::Held) => (Reason::Held, None),
            Self::No(NoPlacement::Unplanned) => (Reason::Held, Some("waits for its first plan")),
        };
        (Some(reason), detail)
    }
}

fn decide(
    state: &mut State,
    settings: &Settings,
    mode: Mode,
    asked: &Asked<'_>,
    candidates: &[u64],
    now: Instant,
) -> (Result<Placement, Why>, Option<PreferenceUse>) {
    if mode == Mode::Off {
        return (Err(Why::Off), None);
    }
    let Some(placer) = state.placer.as_mut().filter(|_| state.view.synced) else {
        return (Err(Why::NotSynced), None);
    };
    if asked.nodes as usize != placer.cluster().usages().len() {
        return (Err(Why::NotSynced), None);
    }
    let held_ms = match state.first_seen.get(&asked.job_id) {
        Some(first) => now.saturating_duration_since(*first).as_millis(),
        None => 0,
    };
    let question = Question {
        job_id: asked.job_id,
        array_job_id: asked.array_job_id,
        array_task_id: asked.array.map(|(_, task)| task),
        origin: asked.origin,
        shape: &asked.shape,
        candidates,
        held_ms: u64::try_from(held_ms).unwrap_or(u64::MAX),
        input_wait_ms: if asked.input { settings.input_wait_ms } else { 0 },
        require_wait_ms: settings.require_wait_ms,
    };
    if asked.input && state.inputs.len() < limits::HELD_JOBS_MAX {
        state.inputs.insert(asked.job_id);
    }
    let (decided, preference_use) = preference::decide(placer, &mut state.preferences, &question);
    let held = matches!(decided, Err(NoPlacement::Held | NoPlacement::Unplanned));
    if held && state.first_seen.len() < limits::HELD_JOBS_MAX {
        state.first_seen.entry(asked.job_id).or_insert(now);
    }
    let decided = match decided {
        // Stock would come to the same set: nothing to try first.
        Ok(placement) if placement.nodes.len() == placement.candidates => Err(Why::NoChoice),
        other => other.map_err(Why::No),
    };
    (decided, preference_use)
}
