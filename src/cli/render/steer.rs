// SPDX-License-Identifier: GPL-3.0-or-later
//! A method's wish for a job, in words.

use super::clean;
use super::units::{amount, fraction, time};
use crate::api::types::SteerReport;
use crate::planner::steer::{GangNote, Note};

/// Lines of a list of facts.
pub(super) fn facts_of(steer: &SteerReport) -> Vec<(&'static str, String)> {
    let made = format!("{} at {}", clean(&steer.method), time(steer.made_ms));
    let mut list = vec![("Steered by", made)];
    list.push(("", became(steer)));
    if let Note::Gang(gang) = &steer.note {
        list.push(("Job type", clean(&gang.job_type)));
        list.push(("Speeds known", speeds(gang)));
        list.push(("Worth", worth(gang)));
    }
    list
}

/// In a few words, for a table.
pub(super) fn short(steer: &SteerReport) -> String {
    match &steer.note {
        Note::Gang(gang) => format!("{}; {}", became(steer), speeds(gang)),
        Note::None => became(steer),
    }
}

pub(super) fn became(steer: &SteerReport) -> String {
    match (&steer.tier, &steer.unused) {
        (Some(tier), None) => format!("to {}", clean(tier)),
        (Some(tier), Some(why)) => format!("to {} ({})", clean(tier), clean(why)),
        (None, Some(why)) => format!("not followed ({})", clean(why)),
        (None, None) => "not followed".to_owned(),
    }
}

fn speeds(gang: &GangNote) -> String {
    let one = |s: &crate::planner::steer::ClassSpeed| match s.speed {
        Some(speed) => format!("{} {} ({} runs)", clean(&s.nodes), fraction(speed), amount(s.runs)),
        None => format!("{} never tried", clean(&s.nodes)),
    };
    gang.speeds.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn worth(gang: &GangNote) -> String {
    match (gang.value, gang.cost, gang.bonus) {
        (Some(value), Some(cost), Some(bonus)) => format!(
            "value {} - cost {}, bonus {}, {} tasks never tried there",
            fraction(value),
            fraction(cost),
            fraction(bonus),
            gang.untried
        ),
        _ => "not planned to start now".to_owned(),
    }
}
