// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx daemon enable`

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;

/// Say how an ejected plugin asks phalanxd again
///
/// The plugin in slurmctld stops asking for a while when phalanxd is too slow or wrong too often.
/// When that repeats, or a proof was wrong, the plugin is ejected: it does not ask again by itself,
/// and nothing that phalanxd sends changes that. Look at the cause first, in phalanx status and in
/// the file phalanx_breaker in StateSaveLocation.
#[derive(clap::Args, Debug)]
pub struct Args;

/// Steps that root or SlurmUser takes.
const STEPS: &str = "\
Only slurm.conf lets an ejected plugin ask again, as root or SlurmUser:
1. In SchedulerParameters put phalanx_enable=N, with another number than before.
2. Run: scontrol reconfigure
";

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        global.show(&serde_json::json!({ "steps": STEPS }), |_| STEPS.to_owned())
    }
}
