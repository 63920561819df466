// SPDX-License-Identifier: GPL-3.0-or-later
//! Energy of runs that ended, from Slurm's accounting.
//!
//! slurmctld tells nobody what a batch script took: the energy of its step goes
//! to slurmdbd alone, a little after the job's end. So where energy is accounted
//! `sacct` is run now and then for the time in which the runs ended that miss
//! it; what it says goes back to the learner.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::process::{Child, ChildStdout};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};
use jiff::tz::TimeZone;
use log::{info, warn};

use crate::daemon::state::{Shared, lock};
use crate::source::sacct::command;
use phalanx_core::limits::ENERGY_RUNS_MAX;
use phalanx_core::trace::sacct;

/// Longest sleep before the thread looks whether it should stop.
const TICK: Duration = Duration::from_millis(100);
/// Longest run of sacct.
const SACCT_MAX: Duration = Duration::from_secs(60);
/// Looks after which a run without energy is given up.
const LOOKS_MAX: u8 = 3;
/// Clocks and rounding: added to the time asked for at both ends.
const MARGIN_S: i64 = 2;
/// What is asked for.
const FORMAT: &str = "JobID,JobIDRaw,State,Start,End,ElapsedRaw,NNodes,ConsumedEnergyRaw";

/// A run: job as users write it, and start in unix seconds.
pub(super) type RunKey = (String, i64);

/// Joules by run, `None` where the accounting has none.
type Found = BTreeMap<RunKey, Option<f64>>;

#[derive(Debug, Clone, Copy)]
struct Waiting {
    end_s: i64,
    looks: u8,
}

/// What is asked, and what was answered.
#[derive(Debug, Default)]
pub(super) struct Accounting {
    waiting: Mutex<BTreeMap<RunKey, Waiting>>,
    told: Mutex<Vec<(RunKey, Option<f64>)>>,
}

impl Accounting {
    /// Asks for the energy of a run; false if too many are asked for already.
    pub(super) fn ask(&self, key: RunKey, end_s: i64) -> bool {
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= ENERGY_RUNS_MAX {
            return false;
        }
        waiting.insert(key, Waiting { end_s, looks: 0 });
        true
    }

    /// What was found since; `None` for runs that are given up.
    pub(super) fn take(&self) -> Vec<(RunKey, Option<f64>)> {
        std::mem::take(&mut lock(&self.told))
    }

    /// First and last end of the runs that are asked for, unix seconds.
    fn span(&self) -> Option<(i64, i64)> {
        let waiting = lock(&self.waiting);
        let ends = || waiting.values().map(|run| run.end_s);
        ends().min().zip(ends().max())
    }

    /// Takes what one look found.
    fn found(&self, found: &Found) {
        let (mut waiting, mut told) = (lock(&self.waiting), lock(&self.told));
        waiting.retain(|key, run| {
            run.looks += 1;
            let joules = found.get(key).copied().flatten();
            let over = joules.is_some() || run.looks >= LOOKS_MAX;
            if over {
                told.push((key.clone(), joules));
            }
            !over
        });
    }
}

/// The thread `energy`: looks every `learn.accounting_s` until `stop`.
pub(super) fn energy(shared: &Shared, stop: &AtomicBool) {
    let mut looked = Instant::now();
    let mut failing = false;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(TICK);
        let every = Duration::from_secs(shared.config().learn.accounting_s);
        if every.is_zero() || looked.elapsed() < every {
            continue;
        }
        looked = Instant::now();
        let accounting = &shared.learn.accounting;
        let Some((first_s, last_s)) = accounting.span() else { continue };
        match look(first_s, last_s, stop) {
            Ok(found) => {
                if std::mem::take(&mut failing) {
                    info!("sacct works again");
                }
                accounting.found(&found);
            }
            Err(error) => {
                if !failing {
                    warn!("energy of ended jobs: sacct: {error}");
                }
                failing = true;
                accounting.found(&Found::new());
            }
        }
    }
}

/// Runs sacct for the jobs that ran in this time.
fn look(first_s: i64, last_s: i64, stop: &AtomicBool) -> Result<Found, String> {
    let ms = |seconds: i64| seconds.saturating_mul(1000);
    let mut command = command(FORMAT, ms(first_s - MARGIN_S), Some(ms(last_s + MARGIN_S)));
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let out = child.stdout.take().ok_or("no output")?;
    let found = within(&mut child, out, stop);
    let done = child.wait_with_output().map_err(|error| error.to_string())?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{}: {}", done.status, said.lines().next().unwrap_or_default()));
    }
    found
}

/// Reads what it says; kills it when it takes too long or is to stop.
fn within(child: &mut Child, out: ChildStdout, stop: &AtomicBool) -> Result<Found, String> {
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

fn read(out: impl std::io::Read) -> Result<Found, String> {
    let mut found = Found::new();
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

    /// What sacct of Slurm 22.05.8 wrote with `acct_gather_energy/pm_counters`:
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

    #[test]
    fn runs_are_asked_for_until_found_or_given_up() {
        let accounting = Accounting::default();
        assert_eq!(accounting.span(), None);
        let key = |job: &str| (job.to_owned(), 50);
        assert!(accounting.ask(key("1"), 100) && accounting.ask(key("2"), 160));
        assert_eq!(accounting.span(), Some((100, 160)));
        accounting.found(&[(key("1"), Some(9.0)), (key("2"), None)].into());
        assert_eq!(accounting.take(), [(key("1"), Some(9.0))]);
        assert_eq!(accounting.span(), Some((160, 160)));
        accounting.found(&Found::new());
        assert_eq!(accounting.take(), []);
        accounting.found(&Found::new());
        assert_eq!((accounting.take(), accounting.span()), (vec![(key("2"), None)], None));
    }
}
