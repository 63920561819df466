// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx solve bag`.

use std::io::Write;

use super::input;
use super::method::{Method, Options, SolveError, write};
use phalanx_methods::bag::{self, Mode, Problem};

/// Entry of the method in the table of methods.
pub const METHOD: Method = Method {
    name: "bag",
    modes: &["best", "seed", "exact", "integer", "template", "greedy", "average"],
    run,
};

fn run(bytes: &[u8], options: Options, out: &mut dyn Write) -> Result<(), SolveError> {
    let problem: Problem = input::parse(bytes)?;
    let mode = Mode::from_name(options.mode).unwrap_or_default();
    let options = bag::Options { mode, explain: options.explain };
    let answer = bag::solve(&problem, &options).map_err(|error| match error {
        bag::SolveError::Input(field) => SolveError::Field(field),
        bag::SolveError::Infeasible(field) => SolveError::Infeasible(field.to_string()),
    })?;
    write(out, &answer)
}
