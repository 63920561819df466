// SPDX-License-Identifier: GPL-3.0-or-later
//! Slurm's accounting, asked by the agent of phalanxd's host for what phalanxd wants to know.
//!
//! slurmctld does not report the energy of a batch script: that of its step goes to slurmdbd
//! alone, a little after the job's end. `sacct` is therefore run now and then for the time in which
//! the runs ended that miss it.

use std::io::BufReader;
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::Duration;

use jiff::tz::TimeZone;
use log::{debug, info, warn};

use crate::remote::{Connection, Method};
use crate::sacct::command;
use phalanx_core::trace::sacct;
use phalanx_ffi::own_children::OwnChild;
use phalanx_messages::rest::RunJoules;

/// Time between two runs of sacct: the plan of a minute later is early enough.
const EVERY: Duration = Duration::from_secs(60);
/// Longest run of sacct.
const SACCT_MAX: Duration = Duration::from_secs(60);
/// Longest time for phalanxd's answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Seconds added to the time asked for at both ends, for clocks and rounding.
const MARGIN_S: i64 = 2;
/// Columns that sacct is asked for.
const FORMAT: &str = "JobID,JobIDRaw,State,Start,End,ElapsedRaw,NNodes,ConsumedEnergyRaw";

/// First and last end of runs whose energy is missing, unix seconds.
type Ends = Option<(i64, i64)>;

/// Asks phalanxd every [`EVERY`] which runs miss their energy, and the accounting for it.
pub fn run(mut phalanxd: Connection) -> ! {
    let mut failing = false;
    loop {
        if let Err(error) = tell(&mut phalanxd, &mut failing) {
            debug!("energy of ended jobs: {error}");
        }
        std::thread::sleep(EVERY);
    }
}

fn tell(phalanxd: &mut Connection, failing: &mut bool) -> Result<(), String> {
    let Some(ends_s) = post(phalanxd, None)? else { return Ok(()) };
    let found = look(ends_s);
    match &found {
        Ok(_) if *failing => info!("sacct works again"),
        Err(error) if !*failing => warn!("energy of ended jobs: sacct: {error}"),
        _ => {}
    }
    *failing = found.is_err();
    post(phalanxd, Some(&found.unwrap_or_default())).map(|_| ())
}

/// Hands over what a look at the accounting found, if there was one.
fn post(phalanxd: &mut Connection, found: Option<&[RunJoules]>) -> Result<Ends, String> {
    let body = serde_json::to_vec(&found).map_err(|error| error.to_string())?;
    let answer = phalanxd.ask(&Method::POST, "/v1/history/energy", Some(body), PATIENCE)?;
    if answer.status != 200 {
        return Err(format!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)));
    }
    serde_json::from_slice(&answer.body).map_err(|error| error.to_string())
}

/// Runs sacct for the jobs that ran in a period; kills it when it takes too long.
fn look((first_s, last_s): (i64, i64)) -> Result<Vec<RunJoules>, String> {
    let ms = |seconds: i64| seconds.saturating_mul(1000);
    let mut command = command(FORMAT, ms(first_s - MARGIN_S), Some(ms(last_s + MARGIN_S)));
    let mut own = OwnChild::spawn(&mut command).map_err(|error| error.to_string())?;
    let child = own.child().ok_or("no process")?;
    let out = child.stdout.take().ok_or("no output")?;
    let (sender, receiver) = sync_channel(1);
    // Whoever does not wait for it any longer has said so.
    let reading = move || sender.send(read(out)).unwrap_or_default();
    Builder::new().name("sacct".to_owned()).spawn(reading).map_err(|error| error.to_string())?;
    let found = receiver.recv_timeout(SACCT_MAX);
    if found.is_err() {
        child.kill().map_err(|error| error.to_string())?;
    }
    let done = own.wait_with_output().map_err(|error| error.to_string())?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{}: {}", done.status, said.lines().next().unwrap_or_default()));
    }
    found.map_err(|error| error.to_string())?
}

fn read(out: impl std::io::Read) -> Result<Vec<RunJoules>, String> {
    let mut found = Vec::new();
    let job = |_, row: sacct::Row| {
        if let (true, Some(start_s), Some(joules)) = (row.is_ended(), row.start_s, row.joules) {
            found.push(RunJoules { job: row.job, start_s, joules });
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

    /// Output that sacct of Slurm 22.05.8 wrote with `acct_gather_energy/pm_counters`: an array of
    /// two tasks without srun, a script with one srun.
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
        let is = |run: &&RunJoules, job: &str, start_s| run.job == job && run.start_s == start_s;
        let of = |job: &str, start_s| {
            found.iter().find(|run| is(run, job, start_s)).map(|run| run.joules)
        };
        assert_eq!(of("1_1", 1_795_291_243), Some(885.0));
        assert_eq!(of("4", 1_795_291_255), Some(913.0), "its srun was a part of it");
        assert_eq!(of("5", 1_795_291_255), Some(1200.0), "two nodes: as Slurm counts");
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
