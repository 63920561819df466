// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the program `phalanx-share`, run as users run it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod split;
mod stream;

use std::process::{Command, Output, Stdio};

fn phalanx_share(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx-share"));
    command.args(arguments).env_remove("PHALANX_SOCKET").stdin(Stdio::null());
    command.output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("not ended by a signal")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
