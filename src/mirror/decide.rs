// SPDX-License-Identifier: GPL-3.0-or-later
//! The decision on one question, by the mirror and the settings alone.
//!
//! The plugin's questions and those of a recording go through the same
//! function: all that it depends on are its arguments.

use std::time::Instant;

use phalanx_ffi::wire::Reason;

use crate::decision::Answer;
use crate::refusals;
use crate::settings::Settings;
use crate::state::State;
use phalanx_config::Mode;
use phalanx_core::limits;
use phalanx_planner::energy::{PowerAsk, PowerHold};
use phalanx_planner::place::{Candidates, NoPlacement, Placement};
use phalanx_planner::preference::{self, PreferenceUse, Question, Waits};

/// Answers a question that came at `now` by the decision with this id.
pub fn answer(
    state: &mut State,
    settings: &Settings,
    id: u64,
    question: &Question<'_>,
    candidates: Candidates<'_>,
    now: Instant,
) -> Answer {
    let mode = mode_of(settings, question);
    let options = refusals::options(&question.shape, !candidates.excluded().is_empty());
    let left = state.refusals.left(question.job_id, &options, state.ms(now));
    let (decided, preference_use) = match left {
        Some(option) if mode != Mode::Off => {
            let held = power_of_any(state, mode, question, candidates, now);
            (Err(if held.is_some() { Why::Power } else { Why::Refused(option) }), None)
        }
        _ => decide(state, settings, mode, question, candidates, now),
    };
    let by_method =
        preference_use.as_ref().is_some_and(|s| s.preference.required && s.set.is_none());
    let (reason, detail) = match &decided {
        // In shadow mode nothing may be held back.
        Err(
            Why::No(NoPlacement::Held | NoPlacement::Unplanned) | Why::Power | Why::PowerUnknown,
        ) if mode == Mode::Shadow => (Some(Reason::Shadow), Some("would wait")),
        // Backfill still reserves nodes for a job that only waits for a better one, but not
        // for tasks that wait for their own nodes: others could not start meanwhile.
        Err(Why::No(NoPlacement::Held)) if question.will_run && !by_method => {
            (Some(Reason::NoFit), Some("would wait"))
        }
        // A job that was held before is passed over by backfill; of others, such as those of
        // `sbatch --test-only`, Slurm says when they could start.
        Err(Why::Power | Why::PowerUnknown)
            if question.will_run && !power_held(state, question.job_id, now) =>
        {
            (Some(Reason::NoFit), Some("would wait"))
        }
        Err(Why::No(NoPlacement::NoFit)) if question.preemptable_all > 0 => {
            (Some(Reason::NoFit), Some("Slurm may preempt"))
        }
        Err(why) => why.reason(),
        Ok(_) if mode == Mode::Shadow => (Some(Reason::Shadow), None),
        Ok(_) => (None, None),
    };
    if reason.is_none() {
        state.refusals.answered(id, question.job_id, &options);
        let start = decided.as_ref().ok().and_then(|placement| placement.decision.next_poll());
        if let Some(start) = start.filter(|_| state.poll_moves && !question.will_run) {
            state.polled = Some((id, start));
        }
    }
    let limited = matches!(decided, Err(Why::Power | Why::PowerUnknown));
    Answer {
        reason,
        detail,
        limit: limited && reason == Some(Reason::Held),
        placement: decided.ok(),
        preference_use,
    }
}

enum Why {
    Off,
    NotSynced,
    NoChoice,
    /// Stock refused too many answers to requests with this option.
    Refused(&'static str),
    /// It would draw more than a limit allows.
    Power,
    /// There is a limit, but the nodes' power is not known yet.
    PowerUnknown,
    No(NoPlacement),
}

impl Why {
    fn reason(&self) -> (Option<Reason>, Option<&'static str>) {
        let (reason, detail) = match self {
            Self::Off => (Reason::Off, None),
            Self::NotSynced | Self::No(NoPlacement::OtherTable) => (Reason::NotSynced, None),
            Self::No(NoPlacement::Left(option)) => (Reason::Unsupported, Some(option.option())),
            Self::Refused(option) => (Reason::Unsupported, Some(*option)),
            Self::No(NoPlacement::NoFit) => (Reason::NoFit, None),
            Self::NoChoice => (Reason::NoChoice, None),
            Self::Power => (Reason::Held, Some("power cap")),
            Self::PowerUnknown => (Reason::Held, Some("the nodes' power is not known yet")),
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
    question: &Question<'_>,
    candidates: Candidates<'_>,
    now: Instant,
) -> (Result<Placement, Why>, Option<PreferenceUse>) {
    if mode == Mode::Off {
        return (Err(Why::Off), None);
    }
    let waits = waits(state, settings, question, now);
    let Some(placer) = state.placer.as_mut().filter(|_| state.view.synced) else {
        return (Err(Why::NotSynced), None);
    };
    if question.nodes as usize != placer.cluster().usages().len() {
        return (Err(Why::NotSynced), None);
    }
    // At the daemon's start, until the first plan.
    if settings.power_hold_s.is_some()
        && state.power.is_none()
        && waits.held_ms < limits::POWER_WAIT_MS
    {
        state.first_seen.entry(question.job_id).or_insert(now);
        return (Err(Why::PowerUnknown), None);
    }
    if question.input && state.inputs.len() < limits::HELD_JOBS_MAX {
        state.inputs.insert(question.job_id);
    }
    let preferences = &mut state.preferences;
    let (decided, mut preference_use) =
        preference::decide(placer, preferences, question, candidates, waits);
    let held = matches!(decided, Err(NoPlacement::Held | NoPlacement::Unplanned));
    if held {
        state.first_seen.entry(question.job_id).or_insert(now);
    }
    let required = preference_use.as_ref().is_some_and(|used| used.preference.required);
    let (decided, held) = match decided {
        Ok(placement) if state.power.is_some() => {
            let other = (!required).then_some(candidates);
            let planned = placement.nodes.clone();
            let (placement, held) = power_of(state, mode, question, placement, other, now);
            if let Some(used) = preference_use.as_mut().filter(|_| placement.nodes != planned) {
                used.set = None;
            }
            (Ok(placement), held)
        }
        Err(NoPlacement::Left(_)) => {
            (decided, power_of_any(state, mode, question, candidates, now))
        }
        _ => (decided, None),
    };
    if held.is_some() {
        return (Err(Why::Power), preference_use);
    }
    let decided = match decided {
        // Stock would come to the same set: nothing to try first.
        Ok(placement) if placement.nodes.len() == placement.candidates && !question.left_out => {
            Err(Why::NoChoice)
        }
        other => other.map_err(Why::No),
    };
    (decided, preference_use)
}

/// The limit of power that a job would cross on the nodes of a placement. Where it crosses one,
/// nodes that are not under it or draw less are tried, if there may be `others`.
fn power_of(
    state: &mut State,
    mode: Mode,
    question: &Question<'_>,
    mut placement: Placement,
    others: Option<Candidates<'_>>,
    now: Instant,
) -> (Placement, Option<PowerHold>) {
    let now_ms = state.ms(now);
    let (Some(power), Some(placer)) = (&mut state.power, &mut state.placer) else {
        return (placement, None);
    };
    let ask =
        |extra_mw| PowerAsk { job_id: question.job_id, array: question.array_job_id, extra_mw };
    let mut wish = ask(power.extra_of(placer.cluster().usages(), &placement));
    if let Some(hold) = power.judge(&wish, now_ms, false)
        && let Some(candidates) = others
    {
        let nodes = power.elsewhere(&hold, &placement.nodes, candidates.iter());
        let other = placer.decide(&question.shape, candidates.within(&nodes), u64::MAX);
        if let Ok(other) = other {
            let less = ask(power.extra_of(placer.cluster().usages(), &other));
            if power.judge(&less, now_ms, false).is_none() {
                (placement, wish) = (other, less);
            }
        }
    }
    // Only answers that Slurm starts a job by give power away.
    let counts = mode == Mode::Enforce && !question.will_run;
    let held = power.judge(&wish, now_ms, counts);
    (placement, held)
}

/// The limit of power that a job may cross where Slurm chooses its nodes.
fn power_of_any(
    state: &mut State,
    mode: Mode,
    question: &Question<'_>,
    candidates: Candidates<'_>,
    now: Instant,
) -> Option<PowerHold> {
    let (power, placer) = (state.power.as_ref()?, state.placer.as_ref()?);
    let usages = placer.cluster().usages();
    let extra_mw = power.extra_at_most(usages, &question.shape, candidates.iter());
    let now_ms = state.ms(now);
    let ask = PowerAsk { job_id: question.job_id, array: question.array_job_id, extra_mw };
    let counts = mode == Mode::Enforce && !question.will_run;
    state.power.as_mut()?.judge(&ask, now_ms, counts)
}

/// Whether a limit of power holds this job back already.
fn power_held(state: &State, job_id: u32, now: Instant) -> bool {
    let now_ms = state.ms(now);
    state.power.as_ref().is_some_and(|power| power.why(job_id, now_ms).is_some())
}

/// Mode for this question.
pub fn mode_of(settings: &Settings, question: &Question<'_>) -> Mode {
    match settings.mode_of(&question.partition) {
        Mode::Enforce if question.shadow_only => Mode::Shadow,
        mode => mode,
    }
}

/// How long the job has waited and may wait.
fn waits(state: &State, settings: &Settings, question: &Question<'_>, now: Instant) -> Waits {
    let held_ms = match state.first_seen.get(&question.job_id) {
        Some(first) => now.saturating_duration_since(*first).as_millis(),
        // Its wait could not be measured, and so would not end.
        None if state.first_seen.len() >= limits::HELD_JOBS_MAX => return Waits::OVER,
        None => 0,
    };
    let wait = |ms| if question.no_wait { 0 } else { ms };
    Waits {
        held_ms: u64::try_from(held_ms).unwrap_or(u64::MAX),
        input_ms: if question.input { wait(settings.input_wait_ms) } else { 0 },
        require_ms: wait(settings.require_wait_ms),
    }
}
