// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx solve share`.

use std::io::Write;

use serde::Serialize;

use super::input;
use super::method::{Method, Options, SolveError, write};
use phalanx_methods::share::{self, Answer, Problem};

/// Entry of the method in the table of methods.
pub const METHOD: Method = Method { name: "share", modes: &["seed"], run };

/// Answer with the field that `--explain` adds.
#[derive(Serialize)]
struct Explained {
    #[serde(flatten)]
    answer: Answer,
    explain: Explanation,
}

#[derive(Serialize)]
struct Explanation {
    /// Units of work that move.
    moved: u64,
}

fn run(bytes: &[u8], options: Options, out: &mut dyn Write) -> Result<(), SolveError> {
    let problem: Problem = input::parse(bytes)?;
    let answer = share::solve(&problem)?;
    if !options.explain {
        return write(out, &answer);
    }
    let moved = answer.transfers.iter().map(|transfer| transfer.count).sum();
    write(out, &Explained { answer, explain: Explanation { moved } })
}
