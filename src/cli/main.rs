// SPDX-License-Identifier: GPL-3.0-or-later
//! The command line, whose code is in [`phalanx_cli`].

fn main() -> std::process::ExitCode {
    phalanx_cli::main(std::env::args_os())
}
