// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx solve balance`.

use std::io::Write;

use super::input;
use super::method::{Method, Options, SolveError, write};
use phalanx_methods::balance::Mode;
use phalanx_methods::balance::{Problem, solve};

/// Entry of the method in the table of methods.
pub const METHOD: Method = Method { name: "balance", modes: &["seed", "best"], run };

fn run(bytes: &[u8], options: Options, out: &mut dyn Write) -> Result<(), SolveError> {
    let problem: Problem<'_> = input::parse(bytes)?;
    let mode = if options.mode == "best" { Mode::Best } else { Mode::Seed };
    let answer = solve(&problem, mode, options.explain)?;
    write(out, &answer)
}
