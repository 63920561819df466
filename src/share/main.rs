// SPDX-License-Identifier: GPL-3.0-or-later
//! The program, whose code is in [`phalanx_share`].

fn main() -> std::process::ExitCode {
    phalanx_share::main()
}
