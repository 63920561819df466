// SPDX-License-Identifier: GPL-3.0-or-later
//! The decision on one question within the limits of power.

use super::cap::{PowerAsk, PowerLedger};
use super::memory::PowerHold;
use crate::place::{Candidates, Holding, Placement, Placer, Wait, Why};
use crate::preference::{self, PreferenceUse, Preferences, Question, Waits};

/// Moment of a question, for what the limits of power remember.
#[derive(Debug, Clone, Copy)]
pub struct PowerMoment {
    /// Time of the question, in milliseconds of any monotonic clock.
    pub now_ms: u64,
    /// Unix second of the question.
    pub now_s: u64,
    /// Whether the answer starts the job: only such answers give power away.
    pub counts: bool,
}

/// Decides as [`preference::decide`] does, within the limits of `power`.
///
/// # Errors
/// The reasons of [`preference::decide`], and [`Wait::PowerCap`].
pub fn decide(
    placer: &mut Placer,
    preferences: &mut Preferences,
    power: Option<&mut PowerLedger>,
    question: &Question<'_>,
    candidates: Candidates<'_>,
    waits: Waits,
    at: PowerMoment,
) -> (Result<Placement, Why>, Option<PreferenceUse>) {
    let (decided, mut used) = preference::decide(placer, preferences, question, candidates, waits);
    let Some(power) = power else { return (decided, used) };
    let decided = match decided {
        Ok(placement) => {
            let required = used.as_ref().is_some_and(|used| used.preference.required);
            let others = (!required).then_some(candidates);
            match power.judge_placement(placer, question, &placement, others, at) {
                Ok(None) => Ok(placement),
                Ok(Some(other)) => {
                    if let Some(used) = used.as_mut().filter(|_| other.nodes != placement.nodes) {
                        used.set = None;
                    }
                    Ok(other)
                }
                Err(_) => Err(Why::Wait(Wait::PowerCap)),
            }
        }
        Err(why @ Why::Left(_)) => {
            let held = power.judge_any(placer, question, candidates, at);
            Err(held.map_or(why, |_| Why::Wait(Wait::PowerCap)))
        }
        other => other,
    };
    (decided, used)
}

impl PowerLedger {
    /// Judges a job on the nodes of a placement. Where it crosses a limit, nodes that are not
    /// under it or draw less are tried, if there may be `others`; returns their placement.
    ///
    /// # Errors
    /// The limit that the job would cross.
    fn judge_placement(
        &mut self,
        placer: &mut Placer,
        question: &Question<'_>,
        placement: &Placement,
        others: Option<Candidates<'_>>,
        at: PowerMoment,
    ) -> Result<Option<Placement>, PowerHold> {
        let mut moved = None;
        let mut ask = self.ask(question, self.extra_of(placer.cluster().usages(), placement));
        let only = PowerMoment { counts: false, ..at };
        if let (Some(hold), Some(candidates)) = (self.judge(&ask, only), others)
            && let Some((other, less)) =
                self.elsewhere_within(placer, question, placement, &hold, candidates, only)
        {
            (moved, ask) = (Some(other), less);
        }
        match self.judge(&ask, at) {
            Some(hold) => Err(hold),
            None => Ok(moved),
        }
    }

    /// Returns a placement that crosses no limit, and what it adds, on nodes that are not under
    /// the limit of `hold` or draw less than those of `placement`.
    fn elsewhere_within(
        &mut self,
        placer: &mut Placer,
        question: &Question<'_>,
        placement: &Placement,
        hold: &PowerHold,
        candidates: Candidates<'_>,
        at: PowerMoment,
    ) -> Option<(Placement, PowerAsk)> {
        let nodes = self.elsewhere(hold, &placement.nodes, candidates.iter());
        let candidates = candidates.within(&nodes);
        let other = placer.decide(&question.shape, candidates, Holding::Never).ok()?;
        let less = self.ask(question, self.extra_of(placer.cluster().usages(), &other));
        self.judge(&less, at).is_none().then_some((other, less))
    }

    /// Judges a job whose nodes Slurm chooses; returns the limit that it may cross.
    pub fn judge_any(
        &mut self,
        placer: &Placer,
        question: &Question<'_>,
        candidates: Candidates<'_>,
        at: PowerMoment,
    ) -> Option<PowerHold> {
        let usages = placer.cluster().usages();
        let extra_mw = self.extra_at_most(usages, &question.shape, candidates.iter());
        self.judge(&self.ask(question, extra_mw), at)
    }

    fn ask(&self, question: &Question<'_>, extra_mw: Vec<u64>) -> PowerAsk {
        PowerAsk {
            job_id: question.job_id,
            array: question.array_job_id,
            user_id: question.origin.user_id,
            order: (self.source().tier(&question.partition), question.priority),
            limit_s: question.limit_s.unwrap_or(u64::MAX),
            extra_mw,
        }
    }
}
