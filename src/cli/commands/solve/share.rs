// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx solve share`.

use std::io::{self, Write};

use serde::Serialize;

use super::{Method, Options, SolveError, input};
use phalanx_methods::share::{self, Answer, Problem};

/// This method's line of the table.
pub const METHOD: Method = Method { name: "share", modes: &["seed"], run };

/// What `--explain` adds.
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
    let written = if options.explain {
        let moved = answer.transfers.iter().map(|transfer| transfer.count).sum();
        serde_json::to_writer(&mut *out, &Explained { answer, explain: Explanation { moved } })
    } else {
        serde_json::to_writer(&mut *out, &answer)
    };
    written.map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(())
}
