// SPDX-License-Identifier: GPL-3.0-or-later
//! Command `phalanx history import`: reads runs from sacct's text.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Child;

use jiff::tz::TimeZone;
use serde::Serialize;

use crate::client::{Client, Method};
use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::many;
use crate::time::since_ms;
use phalanx_client::sacct as accounting;
use phalanx_core::comment;
use phalanx_core::limits::IMPORT_RUNS_MAX;
use phalanx_core::run::Run;
use phalanx_core::trace::sacct::{self, Row};
use phalanx_messages::rest::ImportReport;
use phalanx_sim::input;

/// Import runs from the output of sacct, or with --sacct from the accounting of this cluster
///
/// The text is that of `sacct --parsable2` or `--parsable` with its header, plain or compressed
/// (gzip, Zstandard). Required columns: JobID, State, Start, and End or Elapsed; useful ones:
/// JobName, User, Account, NodeList, ReqTRES. Times are in the time zone of this machine. A run
/// that is known already is not counted again. phalanxd takes the runs in: root, SlurmUser and the
/// users of [control] allowed_uids may do this.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Text of sacct; - for standard input
    #[arg(value_name = "FILE", required_unless_present = "sacct", conflicts_with = "sacct")]
    file: Option<PathBuf>,
    /// Run sacct, for all users
    #[arg(long)]
    sacct: bool,
    /// With --sacct: begin of the period
    #[arg(long, value_name = "TIME", default_value = "30d")]
    since: String,
}

/// Greatest number of unreadable lines that are shown.
const BAD_SHOWN: usize = 10;
/// Columns that sacct is asked for.
const FORMAT: &str = "JobID,JobIDRaw,Cluster,User,Account,JobName,Partition,QOS,Submit,Start,End,\
     ElapsedRaw,State,ExitCode,NodeList,NCPUS,ReqTRES,AllocTRES,TimelimitRaw,ConsumedEnergyRaw,\
     Comment,AdminComment";

/// Counts of what was read and imported.
#[derive(Debug, Default, Serialize)]
struct Summary {
    jobs: u64,
    /// Runs that were not known before.
    new: u64,
    /// Known runs to which energy or work was added.
    filled: u64,
    /// Runs that were known already.
    known: u64,
    /// Jobs left out, by reason.
    skipped: BTreeMap<&'static str, u64>,
    /// Lines of steps, which belong to jobs.
    steps: u64,
    bad_lines: u64,
    /// First lines that could not be read.
    bad: Vec<String>,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let since_ms = self.file.is_none().then(|| since_ms(&self.since)).transpose()?;
        let client = global.client()?;
        let mut summary = Summary::default();
        match (&self.file, since_ms) {
            (None, Some(since_ms)) => {
                let mut child = sacct(since_ms)?;
                let out = child.stdout.take();
                let out = out.ok_or_else(|| Failure::usage("sacct: no output"))?;
                let out = BufReader::new(out);
                let fed = feed(out, "sacct", &TimeZone::UTC, &client, &mut summary);
                ended(child)?;
                fed?;
            }
            (file, _) => {
                let path = file.as_deref().unwrap_or(Path::new("-"));
                let reader = input::open(path).map_err(Failure::usage)?;
                feed(reader, &input::shown(path), &TimeZone::system(), &client, &mut summary)?;
            }
        }
        global.show(&summary, text)
    }
}

/// Starts the site's sacct.
fn sacct(since_ms: i64) -> Result<Child, Failure> {
    accounting::command(FORMAT, since_ms, None)
        .spawn()
        .map_err(|error| Failure::usage(format!("cannot run sacct: {error}")))
}

fn ended(child: Child) -> Result<(), Failure> {
    let done =
        child.wait_with_output().map_err(|error| Failure::negative(format!("sacct: {error}")))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    Err(Failure::negative(format!("sacct failed ({}): {line}", done.status)))
}

/// Reads a text to its end and hands its runs on.
fn feed(
    reader: impl std::io::BufRead,
    name: &str,
    zone: &TimeZone,
    client: &Client,
    summary: &mut Summary,
) -> Result<(), Failure> {
    let mut waiting = Vec::new();
    let mut failed = None;
    let mut bad = Vec::new();
    let mut bad_lines = 0_u64;
    let read = sacct::read(
        reader,
        zone,
        |_, row| {
            summary.jobs += 1;
            if failed.is_some() {
                return;
            }
            match run_of(row) {
                Ok(run) => waiting.push(run),
                Err(why) => *summary.skipped.entry(why).or_insert(0) += 1,
            }
            if waiting.len() == IMPORT_RUNS_MAX {
                failed = hand_over(client, &mut waiting, summary).err();
            }
        },
        |line, what| {
            bad_lines += 1;
            if bad.len() < BAD_SHOWN {
                bad.push(format!("{name}: line {line}: {what}"));
            }
        },
    );
    summary.bad_lines += bad_lines;
    summary.bad.extend(bad);
    if let Some(failure) = failed {
        return Err(failure);
    }
    // Runs before the break of an input are imported; importing again counts them once.
    if !waiting.is_empty() {
        hand_over(client, &mut waiting, summary)?;
    }
    let steps = read.map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    summary.steps += steps;
    Ok(())
}

fn hand_over(client: &Client, runs: &mut Vec<Run>, summary: &mut Summary) -> Result<(), Failure> {
    let runs = std::mem::take(runs);
    let reply = client.ask(Method::POST, "/v1/history/import", Some(&runs))?;
    let done: ImportReport = client.parse(reply.expect_success()?)?;
    summary.new += done.new;
    summary.filled += done.filled;
    summary.known += done.known;
    Ok(())
}

/// Converts a job of the accounting to a run; the error says why it is none.
pub fn run_of(row: Row) -> Result<Run, &'static str> {
    if !row.is_ended() {
        return Err("not ended");
    }
    let (Some(start_s), Some(end_s)) = (row.start_s, row.end_s) else {
        return Err("never started");
    };
    if row.nodes.is_empty() {
        return Err("without nodes");
    }
    let of = |key| {
        let found = comment::token(&row.comment, key);
        found.or_else(|| comment::token(&row.admin_comment, key)).map(str::to_owned)
    };
    let work = comment::work_units(&row.admin_comment);
    Ok(Run {
        declared: of("class"),
        work: work.or_else(|| comment::work_units(&row.comment)),
        job: row.job,
        job_id: row.job_id,
        array_job_id: row.array.map(|(id, _)| id),
        array_task_id: row.array.map(|(_, task)| task),
        het_job_id: row.het_job_id,
        user: row.user,
        account: row.account,
        name: row.name,
        partition: row.partition,
        qos: row.qos,
        nodes: row.nodes,
        node_count: row.node_count,
        submit_s: row.submit_s.unwrap_or(0),
        eligible_s: row.eligible_s,
        start_s,
        end_s,
        elapsed_ms: row.elapsed_s.saturating_mul(1000),
        limit_min: row.limit_min,
        state: row.state,
        exit_code: row.exit.0,
        exit_signal: row.exit.1,
        cpus: row.cpus,
        tres_req: row.tres_req,
        tres_alloc: row.tres_alloc,
        joules: row.joules,
        source: "sacct".to_owned(),
        ..Run::default()
    })
}

fn text(summary: &Summary) -> String {
    let mut out = format!("{} read:\n", many(summary.jobs, "job"));
    let mut line = |count: u64, what: &str| out.push_str(&format!("  {count:>8}  {what}\n"));
    line(summary.new, "imported");
    line(summary.known, "known already");
    if summary.filled > 0 {
        line(summary.filled, "known already, energy or work added");
    }
    for (why, count) in &summary.skipped {
        line(*count, &format!("skipped: {why}"));
    }
    if summary.bad_lines > 0 {
        line(summary.bad_lines, "lines that cannot be read:");
        summary.bad.iter().for_each(|bad| out.push_str(&format!("            {bad}\n")));
        let more = summary.bad_lines.saturating_sub(summary.bad.len() as u64);
        if more > 0 {
            out.push_str(&format!("            and {more} more\n"));
        }
    }
    out
}
