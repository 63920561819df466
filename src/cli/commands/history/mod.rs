// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx history`

mod import;
mod runs;
mod speeds;

pub use import::run_of;

group! {
    /// Show ended runs and the speeds learned from them, or import runs from sacct
    Speeds(speeds::Args),
    Runs(runs::Args),
    Import(import::Args),
}
