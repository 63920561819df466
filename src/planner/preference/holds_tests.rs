// SPDX-License-Identifier: GPL-3.0-or-later

use std::borrow::Cow;

use super::*;
use crate::place::GangHold;
use crate::preference::{JobKey, Note, Preference};
use phalanx_core::shape::Shape;

fn task() -> Question<'static> {
    Question { job_id: 7, array_job_id: Some(7), partition: "main".into(), ..Question::default() }
}

fn of_method(method: Method) -> PreferenceUse {
    let preference = Preference {
        key: JobKey::Array(7),
        method,
        sets: Vec::new(),
        worth: Vec::new(),
        required: true,
        made_ms: 0,
        note: Note::None,
    };
    PreferenceUse { preference: preference.into(), set: None, unused: None }
}

fn limits(tuning: &Tuning) -> HoldLimits<'_> {
    HoldLimits { tuning, input_ms: 10_000, require_ms: 0, budget_ms: 60_000 }
}

/// Goal: the tasks of an array wait ten seconds together, not each, and the end of each hold is
/// due once. Method: in the simulator each task asks under its own id, in Slurm the array's record.
#[test]
fn an_array_waits_ten_seconds_in_all() {
    let tuning = Tuning { brief_hold_ms: Some(10_000), ..Tuning::default() };
    for step in [0, 1] {
        let (used, limits, mut holds) = (of_method(Method::Bag), limits(&tuning), Holds::default());
        let ask = |holds: &mut Holds, s: u64, is_held: bool| {
            let task_at = u32::try_from(s).unwrap_or(u32::MAX);
            let question = Question { job_id: 7 + task_at * step, ..task() };
            let wait = is_held.then_some(Wait::Gain);
            holds.answered(&question, (wait, true), Some(&used), &limits, s * 1000);
        };
        let of = |holds: &Holds| holds.of(7, Some(7)).map(|hold| (hold.rule, hold.until_ms));
        ask(&mut holds, 0, true);
        assert_eq!(of(&holds), Some((HoldRule::Bag, 10_000)));
        ask(&mut holds, 4, true);
        // A task starts after six seconds; the next one has four left.
        ask(&mut holds, 6, false);
        holds.began(9, Some(7));
        assert_eq!(of(&holds), None);
        assert_eq!(holds.spent_ms(7, 100_000), 6_000);
        ask(&mut holds, 100, true);
        assert_eq!(of(&holds), Some((HoldRule::Bag, 104_000)));
        assert!(holds.allows(&task(), &limits, 103_999));
        assert!(holds.ended(103_999).is_empty());
        assert_eq!(holds.ended(104_000), [7]);
        assert!(holds.ended(105_000).is_empty(), "once");
        assert!(!holds.allows(&task(), &limits, 104_000));
        assert_eq!(holds.spent_ms(7, 200_000), 10_000);
        ask(&mut holds, 200, false);
        assert_eq!(holds.spent_ms(7, 300_000), 10_000);
        assert!(holds.remembered(0, 9).any(|id| id == 7));
        holds.forget(7);
        assert_eq!(holds.spent_ms(7, 300_000), 0);
    }
}

/// Goal: a job that waits for its input does so within `data_jobs.wait_ms` of its first hold.
#[test]
fn an_input_is_waited_for_by_one_clock() {
    let (tuning, mut holds) = (Tuning::default(), Holds::default());
    let question = Question { job_id: 8, input: true, ..Question::default() };
    for ms in [0, 7_000] {
        let wait = Some(Wait::FirstPlan);
        holds.answered(&question, (wait, true), None, &limits(&tuning), ms);
    }
    let hold = holds.of(8, None).map(|hold| (hold.rule, hold.until_ms));
    assert_eq!(hold, Some((HoldRule::Input, 10_000)));
    assert_eq!(holds.waits(&question, &limits(&tuning), 9_000).holding, Holding::After(9_000));
    assert_eq!(holds.ended(10_000), [8]);
}

/// Goal: a planning call, and an answer that is not in force, hold no job, but their clock runs.
#[test]
fn only_answers_in_force_hold() {
    let (tuning, mut holds) = (Tuning::default(), Holds::default());
    for (will_run, in_force) in [(true, true), (false, false)] {
        let question = Question { job_id: 8, will_run, ..Question::default() };
        let wait = Some(Wait::Gain);
        holds.answered(&question, (wait, in_force), None, &limits(&tuning), 1_000);
        assert_eq!(holds.of(8, None), None);
    }
    assert_eq!(holds.first().collect::<Vec<_>>(), [(8, 1_000)]);
}

/// Goal: array tasks wait within the budget of data jobs, gangs within their own, each also where
/// the other's is used up. Method: asked once a second, a twentieth of the time is forgotten.
#[test]
fn who_is_held_uses_up_a_budget() {
    let held_s = |tuning: &Tuning, method, nodes| {
        let mut holds = Holds::default();
        let shape = Shape { min_nodes: nodes, req_nodes: nodes, ..Shape::default() };
        let question = Question { shape: Cow::Owned(shape), ..task() };
        let used = of_method(method);
        (0..1000).find(|second| {
            let (at, limits) = (second * 1000, limits(tuning));
            holds.answered(&question, (Some(Wait::Gain), true), Some(&used), &limits, at);
            !holds.allows(&question, &limits, at)
        })
    };
    let mut tuning = Tuning { brief_hold_ms: Some(100_000), ..Tuning::default() };
    assert_eq!(held_s(&tuning, Method::Bag, 1), Some(64));
    tuning.gang_hold = Some(GangHold { gang_ms: 300_000, user_ms: 600_000 });
    assert_eq!(held_s(&tuning, Method::Bag, 1), Some(64));
    assert_eq!(held_s(&tuning, Method::Gang, 2), Some(632));
}
