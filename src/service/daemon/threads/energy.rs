// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `energy` asks Slurm's accounting for the energy of runs that ended.
//!
//! slurmctld does not report the energy of a batch script: that of its step goes to slurmdbd
//! alone, a little after the job's end. Where energy is accounted, `sacct` is therefore run now and
//! then for the time in which the runs ended that miss it; its answer goes to the learn thread.

use std::io::BufReader;
use std::process::{Child, ChildStdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};
use jiff::tz::TimeZone;
use log::{info, warn};

use crate::daemon::state::energy::{EnergyRequests, Joules};
use crate::sync::TICK;
use phalanx_client::sacct::command;
use phalanx_core::trace::sacct;
use phalanx_ffi::own_children::OwnChild;

/// Time between two runs of sacct: the plan of a minute later is early enough.
const EVERY: Duration = Duration::from_secs(60);
/// Longest run of sacct.
const SACCT_MAX: Duration = Duration::from_secs(60);
/// Seconds added to the time asked for at both ends, for clocks and rounding.
const MARGIN_S: i64 = 2;
/// Columns that sacct is asked for.
const FORMAT: &str = "JobID,JobIDRaw,State,Start,End,ElapsedRaw,NNodes,ConsumedEnergyRaw";

/// Looks at the accounting every [`EVERY`] until `stop`.
pub fn run(requests: &EnergyRequests, stop: &AtomicBool) {
    let mut looked = Instant::now();
    let mut failing = false;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(TICK);
        if looked.elapsed() < EVERY {
            continue;
        }
        looked = Instant::now();
        let Some((first_s, last_s)) = requests.span() else { continue };
        match look(first_s, last_s, stop) {
            Ok(found) => {
                if std::mem::take(&mut failing) {
                    info!("sacct works again");
                }
                requests.found(&found);
            }
            Err(error) => {
                if !failing {
                    warn!("energy of ended jobs: sacct: {error}");
                }
                failing = true;
                requests.found(&Joules::new());
            }
        }
    }
}

/// Runs sacct for the jobs that ran in this time.
fn look(first_s: i64, last_s: i64, stop: &AtomicBool) -> Result<Joules, String> {
    let ms = |seconds: i64| seconds.saturating_mul(1000);
    let mut command = command(FORMAT, ms(first_s - MARGIN_S), Some(ms(last_s + MARGIN_S)));
    let mut own = OwnChild::spawn(&mut command).map_err(|error| error.to_string())?;
    let child = own.child().ok_or("no process")?;
    let out = child.stdout.take().ok_or("no output")?;
    let found = within(child, out, stop);
    let done = own.wait_with_output().map_err(|error| error.to_string())?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{}: {}", done.status, said.lines().next().unwrap_or_default()));
    }
    found
}

/// Reads the output of sacct; kills it when it takes too long or is to stop.
fn within(child: &mut Child, out: ChildStdout, stop: &AtomicBool) -> Result<Joules, String> {
    let (sender, receiver) = bounded(1);
    let reading = move || {
        // The other end is only gone with the daemon.
        let _ = sender.send(read(out));
    };
    Builder::new().name("sacct".to_owned()).spawn(reading).map_err(|error| error.to_string())?;
    let until = Instant::now() + SACCT_MAX;
    loop {
        match receiver.recv_timeout(TICK) {
            Ok(found) => return found,
            Err(RecvTimeoutError::Disconnected) => return Err("reading ended".to_owned()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.load(Ordering::Relaxed) || Instant::now() >= until {
            child.kill().map_err(|error| error.to_string())?;
        }
    }
}

fn read(out: impl std::io::Read) -> Result<Joules, String> {
    let mut found = Joules::new();
    let job = |_, row: sacct::Row| {
        if let (true, Some(start_s)) = (row.is_ended(), row.start_s) {
            found.insert((row.job, start_s), row.joules);
        }
    };
    let bad = |line, what: String| warn!("sacct: line {line}: {what}");
    let steps = sacct::read(BufReader::new(out), &TimeZone::UTC, job, bad);
    steps.map_err(|error| error.to_string())?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of sacct of Slurm 22.05.8 wrote with `acct_gather_energy/pm_counters`:
    /// an array of two tasks without srun, a script with one srun.
    const RECORDED: &str = "\
JobID|JobIDRaw|State|Start|End|ElapsedRaw|NNodes|ConsumedEnergyRaw
1_1|2|COMPLETED|2026-11-21T20:00:43|2026-11-21T20:00:49|6|1|
1_1.batch|2.batch|COMPLETED|2026-11-21T20:00:43|2026-11-21T20:00:49|6|1|885
1_2|1|RUNNING|2026-11-21T20:00:43|Unknown|8|1|
4|4|COMPLETED|2026-11-21T20:00:55|2026-11-21T20:01:01|6|1|609
4.batch|4.batch|COMPLETED|2026-11-21T20:00:55|2026-11-21T20:01:01|6|1|913
4.0|4.0|COMPLETED|2026-11-21T20:00:55|2026-11-21T20:00:59|4|1|609
5|5|COMPLETED|2026-11-21T20:00:55|2026-11-21T20:01:01|6|2|1200
5.batch|5.batch|COMPLETED|2026-11-21T20:00:55|2026-11-21T20:01:01|6|1|900
";

    #[test]
    fn a_batch_step_tells_what_a_job_on_one_node_took() {
        let found = read(RECORDED.as_bytes()).unwrap_or_default();
        let of = |job: &str, start_s| found.get(&(job.to_owned(), start_s)).copied().flatten();
        assert_eq!(of("1_1", 1_795_291_243), Some(885.0));
        assert_eq!(of("4", 1_795_291_255), Some(913.0), "its srun was a part of it");
        assert_eq!(of("5", 1_795_291_255), Some(1200.0), "two nodes: as Slurm counts");
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
