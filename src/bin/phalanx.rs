// SPDX-License-Identifier: GPL-3.0-or-later
//! The command line; everything is in [`phalanx::cli`].

fn main() -> std::process::ExitCode {
    phalanx::cli::main(std::env::args_os())
}
