// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx explain JOB`

mod render;
#[cfg(test)]
mod tests;

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use phalanx_core::text::percent_encode;

/// Show why a job runs where it runs, or why it waits
///
/// In three lines; --verbose has the request, what each filter leaves, the scores of the decision
/// and Slurm's latest questions.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Job as squeue prints it: 123, 120_7 (array task), 120_[1-6] (tasks that wait) or 130+1
    /// (component of a het job)
    #[arg(value_name = "JOB")]
    job: String,
    /// Show everything that is known
    #[arg(long, short)]
    verbose: bool,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let path = format!("/v1/explain/{}", percent_encode(job_id(&self.job)?));
        global.report(&path, if self.verbose { render::text } else { render::short })
    }
}

/// Checks a job's form: digits, then `_` and digits or tasks in brackets, then `+` and digits.
fn job_id(text: &str) -> Result<&str, Failure> {
    let number = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u32>().is_ok()
    };
    let tasks = |part: &str| {
        let list = part.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let known = |b: u8| b.is_ascii_digit() || b",-:%.".contains(&b);
        number(part) || list.is_some_and(|list| !list.is_empty() && list.bytes().all(known))
    };
    let (rest, component) = text.split_once('+').map_or((text, None), |(r, c)| (r, Some(c)));
    let (id, task) = rest.split_once('_').map_or((rest, None), |(id, task)| (id, Some(task)));
    if number(id) && component.is_none_or(number) && task.is_none_or(tasks) {
        return Ok(text);
    }
    let message =
        format!("JOB: expected a job such as 123, 120_7, 120_[1-6] or 130+1, got {text:?}");
    Err(Failure::usage(message))
}
