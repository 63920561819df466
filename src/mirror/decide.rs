// SPDX-License-Identifier: GPL-3.0-or-later
//! The decision on one question, by the mirror and the settings alone.
//!
//! The plugin's questions and those of a recording use the same function, which depends on nothing
//! except its arguments.

use std::time::Instant;

use crate::decision::Answer;
use crate::refusals;
use crate::settings::Settings;
use crate::state::State;
use phalanx_config::Mode;
use phalanx_core::limits;
use phalanx_planner::place::{Candidates, Placement, Wait, Why};
use phalanx_planner::preference::{self, PreferenceUse, Question};

/// Answers a question of the plugin as [`answer`] does, within the budgets of holds.
pub fn ask(
    state: &mut State,
    settings: &Settings,
    id: u64,
    question: &mut Question<'_>,
    candidates: Candidates<'_>,
    now: Instant,
) -> (Answer, Option<PreferenceUse>) {
    let now_ms = state.ms(now);
    question.no_wait = !state.holds.allows(question, &settings.holds(), now_ms);
    answer(state, settings, id, question, candidates, now)
}

/// Answers a question that came at `now`, with a decision id; returns the preference that applied
/// as well. A hold is counted.
pub fn answer(
    state: &mut State,
    settings: &Settings,
    id: u64,
    question: &Question<'_>,
    candidates: Candidates<'_>,
    now: Instant,
) -> (Answer, Option<PreferenceUse>) {
    let mode = mode_of(settings, question);
    let options = refusals::options(&question.shape, !candidates.excluded().is_empty());
    let who = refusals::who(question);
    let left = state.refusals.left(question.job_id, &who, &options, state.ms(now));
    let (decided, preference_use) = match left {
        Some(option) if mode != Mode::Off => (Err(Why::Refused(option)), None),
        _ => decide(state, settings, mode, question, candidates, now),
    };
    let wait = if let Err(Why::Wait(wait)) = decided { Some(wait) } else { None };
    let (used, now_ms) = (preference_use.as_ref(), state.ms(now));
    let noted = (wait, mode == Mode::Enforce);
    state.holds.answered(question, noted, used, &settings.holds(), now_ms);
    let by_method =
        preference_use.as_ref().is_some_and(|used| used.preference.required && used.set.is_none());
    let answer = match decided {
        Ok(placement) if mode == Mode::Shadow => Answer::Shadow(Ok(placement)),
        Ok(placement) => Answer::Take(placement),
        Err(Why::Wait(wait)) => wait_answer(mode, question, wait, by_method),
        Err(Why::NoFit) if question.preemptable_all > 0 => Answer::Leave(Why::MayPreempt),
        Err(why) => Answer::Leave(why),
    };
    if let Answer::Take(placement) = &answer {
        state.refusals.answered(id, question.job_id, who, &options);
        let start = placement.decision.next_poll();
        if let Some(start) = start.filter(|_| !question.will_run) {
            state.polled = Some((id, start));
        }
    }
    (answer, preference_use)
}

/// Returns the answer for a job that would wait; `by_method`: for nodes that its method requires.
fn wait_answer(mode: Mode, question: &Question<'_>, wait: Wait, by_method: bool) -> Answer {
    let backfills = question.will_run
        && match wait {
            // Backfill still reserves nodes for a job that only waits for a better one, but not
            // for tasks that wait for their own nodes: others could not start meanwhile.
            Wait::Gain => !by_method,
            Wait::FirstPlan => false,
        };
    match mode {
        // In shadow mode nothing may be held back.
        Mode::Shadow => Answer::Shadow(Err(wait)),
        _ if backfills => Answer::Leave(Why::Wait(wait)),
        _ => Answer::Hold(wait),
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
    let waits = state.holds.waits(question, &settings.holds(), state.ms(now));
    let Some(placer) = state.placer.as_mut().filter(|_| state.view.synced) else {
        return (Err(Why::NotSynced), None);
    };
    if question.nodes as usize != placer.cluster().usages().len() {
        return (Err(Why::OtherTable), None);
    }
    if question.input && state.inputs.len() < limits::HELD_JOBS_MAX {
        state.inputs.insert(question.job_id);
    }
    // Where the prover knows at once that nothing fits, a choice would be sought in vain, for most
    // questions of backfill. What it keeps by request pays only where it gives a proof too.
    let is_full = question.will_run
        && question.provable
        && mode == Mode::Enforce
        && settings.proving.will_run
        && state.proofs.cannot_fit(placer.cluster(), &question.shape, candidates);
    let candidates = if is_full { candidates.known_full() } else { candidates };
    let (decided, preference_use) =
        preference::decide(placer, &mut state.preferences, question, candidates, waits);
    let decided = match decided {
        // Stock would come to the same set: nothing to try first.
        Ok(placement) if placement.nodes.len() == placement.candidates && !question.left_out => {
            Err(Why::NoChoice)
        }
        other => other,
    };
    (decided, preference_use)
}

/// Returns the mode for this question.
pub fn mode_of(settings: &Settings, question: &Question<'_>) -> Mode {
    match settings.mode_of(&question.partition, question.origin.account_key) {
        _ if question.slurm_only => Mode::Off,
        Mode::Enforce if question.shadow_only => Mode::Shadow,
        mode => mode,
    }
}
