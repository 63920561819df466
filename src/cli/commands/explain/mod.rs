// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx explain JOB`

mod render;
#[cfg(test)]
mod tests;

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;

/// Show why a job runs where it runs, or why it waits
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Job: 123, 120_7 (array task) or 130+1 (component of a het job)
    #[arg(value_name = "JOB")]
    job: String,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        global.report(&format!("/v1/explain/{}", job_id(&self.job)?), render::text)
    }
}

/// Checks a job's form: digits, then `_` and digits, then `+` and digits.
fn job_id(text: &str) -> Result<&str, Failure> {
    let number = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u32>().is_ok()
    };
    let (rest, component) = match text.split_once('+') {
        Some((rest, component)) => (rest, Some(component)),
        None => (text, None),
    };
    let (id, task) = match rest.split_once('_') {
        Some((id, task)) => (id, Some(task)),
        None => (rest, None),
    };
    if number(id) && component.is_none_or(number) && task.is_none_or(number) {
        return Ok(text);
    }
    let message = format!("JOB: expected a job such as 123, 120_7 or 130+1, got {text:?}");
    Err(Failure::usage(message))
}
