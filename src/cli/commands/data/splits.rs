// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx data splits`: a job's block map, from the file that the prolog wrote on the node, or
//! from the daemon, on this host or another; called by prolog, task prolog and epilog too.

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::client::{Client, Method};
use crate::commands::collector::servers;
use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use phalanx_core::hostlist;
use phalanx_core::limits::HOSTLIST_NAMES_MAX;
use phalanx_core::number::nearest_u32;
use phalanx_methods::data_jobs::blockmap::{BlockMap, Elements, MapNode, Range, Step};

/// Directory that the prolog writes to.
const DIR: &str = "/run/phalanx/jobs";
/// Longest time that the prolog waits for a map that is being made.
const WAIT: Duration = Duration::from_secs(5);
/// Longest time that the prolog takes, whatever hangs.
const INSTALL: Duration = Duration::from_secs(8);
/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(200);
/// File with the table of the map.
const TABLE: &str = "plan.tsv";
/// File with the whole map, replicas included.
const WHOLE: &str = "plan.json";

/// Show which task of a job reads which blocks of its input, or run a command for each
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Job id [default: $SLURM_JOB_ID]
    #[arg(long, value_name = "ID")]
    job: Option<u32>,
    /// Show only the splits of this task of the step; outside a step, of the job
    #[arg(long, value_name = "N", conflicts_with_all = ["env", "run", "install", "remove"])]
    task: Option<u64>,
    /// Show only the splits of the calling task
    #[arg(long, conflicts_with_all = ["task", "env", "run", "install", "remove"])]
    mine: bool,
    /// For a task prolog: print the environment of the calling task
    #[arg(long, conflicts_with_all = ["run", "install", "remove"])]
    env: bool,
    /// For a prolog: fetch the job's map and write it for its user; never fails
    #[arg(long, conflicts_with_all = ["run", "remove"])]
    install: bool,
    /// For an epilog: delete what --install wrote
    #[arg(long, conflicts_with = "run")]
    remove: bool,
    /// Accept maps over TCP only from root and this user, as which phalanxd runs
    #[arg(long, value_name = "USER", default_value = "slurm")]
    server_user: String,
    /// Directory of the maps on this node
    #[arg(long, value_name = "DIR", default_value = DIR)]
    dir: PathBuf,
    /// Command to run once for each split of the calling task, with its environment
    #[arg(last = true, value_name = "COMMAND", id = "run")]
    run: Vec<String>,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let job_id =
            match self.job {
                Some(id) => id,
                None => number("SLURM_JOB_ID").and_then(|id| u32::try_from(id).ok()).ok_or_else(
                    || Failure::usage("splits: no job: give --job, or call it within one"),
                )?,
            };
        let dir = self.dir.join(job_id.to_string());
        if self.install {
            return Ok(install(global, job_id, &dir, &self.server_user));
        }
        if self.remove {
            let _ = fs::remove_dir_all(&dir);
            return Ok(Outcome::ok(""));
        }
        let text = fs::read(dir.join(WHOLE)).ok();
        let map = match text.and_then(|text| serde_json::from_slice(&text).ok()) {
            // A task prolog must not keep a task waiting for what the prolog did not get.
            None if self.env => return Ok(Outcome::ok("")),
            None => fetch(global, job_id, &self.server_user)?,
            Some(map) => map,
        };
        if self.env {
            return Ok(Outcome::ok(environment(&map, &dir)));
        }
        if !self.run.is_empty() {
            return each(&map, &dir, &self.run);
        }
        let rows = match (self.task, self.mine) {
            (Some(task), _) => rows_of(&map, task)?,
            (None, true) => mine(&map)?,
            (None, false) => (0..map.ranges.len()).map(|row| (row, None)).collect(),
        };
        let mut text = String::new();
        if global.json {
            let ranges: Vec<&Range> =
                rows.iter().filter_map(|(row, _)| map.ranges.get(*row)).collect();
            return Outcome::json(&serde_json::json!({
                "job_id": map.job_id, "nodes": map.nodes, "holders": map.holders,
                "files": map.files, "ranges": ranges, "warnings": map.warnings,
            }));
        }
        for (row, reader) in rows {
            let Some(range) = map.ranges.get(row) else { continue };
            match reader {
                Some((task, node)) => map.write_line(&mut text, task, &node, range),
                None => map.write_line(&mut text, map.task(range), map.node_of(range), range),
            }
        }
        Ok(Outcome::ok(text))
    }
}

/// Position of a split, and its reader where it differs from the planned one.
type Row = (usize, Option<(u64, String)>);

fn text(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> Option<u64> {
    text(name)?.parse().ok()
}

/// Returns a number that Slurm sets for each task; a guess would have two tasks read one split.
fn set_by_slurm(name: &str) -> Result<u64, Failure> {
    number(name).ok_or_else(|| {
        Failure::negative(format!("splits: {name} is not set to a number, as Slurm sets it"))
    })
}

/// Asks for as long as the daemon says "not now", at most [`WAIT`] in all.
fn fetch(global: &Global, job_id: u32, server_user: &str) -> Result<BlockMap, Failure> {
    let client = Client { answered_by: Some(servers(server_user)), ..global.client()? };
    let path = format!("/v1/jobs/{job_id}/blocks");
    let until = Instant::now() + WAIT;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let reply = client.within(left, Method::GET, &path, None)?;
        if !reply.is_unavailable() || left <= 2 * PAUSE {
            return client.parse(reply.expect_success()?);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Fetches the map for the prolog. A prolog that fails takes the node out of service, and one that
/// hangs keeps the job waiting: errors are printed, and the job starts.
fn install(global: &Global, job_id: u32, dir: &Path, server_user: &str) -> Outcome {
    let (sender, done) = std::sync::mpsc::sync_channel(1);
    let (global, into, user) = (global.clone(), dir.to_owned(), server_user.to_owned());
    // munged and the disk know no deadline: a thread that waits for them ends with the process.
    std::thread::spawn(move || {
        let written =
            fetch(&global, job_id, &user).map_err(|failure| failure.message).and_then(|map| {
                if map.job_id != job_id {
                    return Err(format!("the map is of job {}", map.job_id));
                }
                write_files(&map, &into).map_err(|error| format!("{}: {error}", into.display()))
            });
        let _ = sender.send(written);
    });
    let written = done
        .recv_timeout(INSTALL)
        .unwrap_or_else(|_| Err(format!("not written within {} s", INSTALL.as_secs())));
    if let Err(message) = written {
        let _ = writeln!(std::io::stderr(), "phalanx: splits: {message}");
    }
    Outcome::ok("")
}

/// Writes the files for the job's user only: others must not see its paths.
fn write_files(map: &BlockMap, dir: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(dir)?;
    // Only root, or whoever calls, may have made what is written to: no link of anybody's.
    let made = fs::symlink_metadata(dir)?;
    let own = nix::unistd::geteuid().as_raw();
    if !made.is_dir() || (made.uid() != own && made.uid() != 0) || made.mode() & 0o022 != 0 {
        let text = "expected a directory of root's that others may not write to";
        return Err(std::io::Error::other(text));
    }
    let whole = serde_json::to_vec(map)?;
    for (name, content) in [(WHOLE, whole), (TABLE, map.to_tsv().into_bytes())] {
        let part = dir.join(format!(".{name}.{}", std::process::id()));
        // What is left of a prolog that was killed.
        let _ = fs::remove_file(&part);
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o400).open(&part)?;
        file.write_all(&content)?;
        if nix::unistd::geteuid().is_root() {
            fchown(&file, Some(map.user_id), None)?;
        }
        fs::rename(&part, dir.join(name))?;
    }
    Ok(())
}

/// The step whose task the caller is; `None` in a batch script or outside a job.
///
/// # Errors
/// The nodes of the step and their numbers of tasks do not fit.
fn step() -> Result<Option<Step>, Failure> {
    let Some(list) = text("SLURM_STEP_NODELIST") else { return Ok(None) };
    let names = hostlist::expand(&list, HOSTLIST_NAMES_MAX).ok();
    let counts = text("SLURM_STEP_TASKS_PER_NODE").and_then(|text| counts(&text));
    let fitting = names.zip(counts).filter(|(names, counts)| names.len() == counts.len());
    let (names, counts) = fitting.ok_or_else(|| {
        let text = "splits: SLURM_STEP_TASKS_PER_NODE does not give the tasks of each node of \
                    SLURM_STEP_NODELIST";
        Failure::negative(text)
    })?;
    let nodes = names.into_iter().zip(counts).map(|(name, tasks)| map_node(name, tasks));
    Ok(Some(Step { nodes: nodes.collect() }))
}

/// Returns a node of a step, whose speed comes from the map.
fn map_node(name: String, tasks: u32) -> MapNode {
    MapNode { name, tasks, speed_permille: None }
}

/// Parses counts such as `2(x3),1`.
fn counts(text: &str) -> Option<Vec<u32>> {
    let mut counts = Vec::new();
    for part in text.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse::<usize>().ok()?),
            None => (part, 1),
        };
        if counts.len().checked_add(times)? > HOSTLIST_NAMES_MAX {
            return None;
        }
        counts.extend(std::iter::repeat_n(count.parse::<u32>().ok()?, times));
    }
    Some(counts)
}

/// The position of the calling job in its array; `None` where it is no task of an array.
fn elements() -> Result<Option<Elements>, Failure> {
    if text("SLURM_ARRAY_TASK_ID").is_none() {
        return Ok(None);
    }
    let [id, min, max, count] =
        ["ID", "MIN", "MAX", "COUNT"].map(|name| set_by_slurm(&format!("SLURM_ARRAY_TASK_{name}")));
    let found = Elements::of(id?, min?, max?, count?).ok_or_else(|| {
        let text =
            "splits: the array's indexes are not evenly spaced: expected such as 0-9 or 1-9:2";
        Failure::negative(text)
    })?;
    Ok(Some(found))
}

/// Splits of the calling task.
fn mine(map: &BlockMap) -> Result<Vec<Row>, Failure> {
    let elements = elements()?;
    let node = text("SLURMD_NODENAME");
    let (step, node, slot, task) = match step()? {
        Some(step) => {
            let node = node.ok_or_else(|| {
                Failure::negative("splits: SLURMD_NODENAME is not set, as Slurm sets it")
            })?;
            (step, node, set_by_slurm("SLURM_LOCALID")?, set_by_slurm("SLURM_PROCID")?)
        }
        None if map.nodes.iter().map(|node| node.tasks).sum::<u32>() == 1 => {
            // The shell of salloc runs on none of the job's nodes: no split is near to it.
            let node = node.unwrap_or_default();
            (Step { nodes: vec![map_node(node.clone(), 1)] }, node, 0, 0)
        }
        None => {
            let text = "splits: not a task of a step: call it under srun, or give --task";
            return Err(Failure::usage(text));
        }
    };
    let rows = map.of_task(&step, elements, &node, nearest_u32(slot));
    Ok(rows.into_iter().map(|row| (row, Some((task, node.clone())))).collect())
}

/// Splits of a task of the step, or of the job as it was planned.
fn rows_of(map: &BlockMap, task: u64) -> Result<Vec<Row>, Failure> {
    let step = step()?;
    if step.is_some() && number("SLURM_PROCID") == Some(task) {
        return mine(map);
    }
    let planned = || Step { nodes: map.nodes.clone() };
    let step = step.unwrap_or_else(planned);
    let (node, slot) = place(&step, task, cyclic()).ok_or_else(|| {
        let all: u64 = step.nodes.iter().map(|node| u64::from(node.tasks)).sum();
        Failure::usage(format!("splits: no task {task}: there are {all}"))
    })?;
    let rows = map.of_task(&step, elements()?, &node, slot);
    Ok(rows.into_iter().map(|row| (row, Some((task, node.clone())))).collect())
}

fn cyclic() -> bool {
    text("SLURM_DISTRIBUTION").is_some_and(|how| how.starts_with("cyclic"))
}

/// Returns the node of a task, and the task's position on the node.
fn place<'s>(step: &'s Step, task: u64, cyclic: bool) -> Option<(String, u32)> {
    let at = usize::try_from(task).ok()?;
    let named = |(node, slot): (&MapNode, u32)| (node.name.clone(), slot);
    let nodes = || step.nodes.iter();
    if !cyclic {
        let slots = |node: &'s MapNode| (0..node.tasks).map(move |slot| (node, slot));
        return nodes().flat_map(slots).nth(at).map(named);
    }
    let turn = |slot| nodes().filter(move |n| n.tasks > slot).map(move |node| (node, slot));
    (0..nodes().map(|node| node.tasks).max()?).flat_map(turn).nth(at).map(named)
}

/// Variables of a split, by the names of Hadoop Streaming.
const VARIABLES: [&str; 3] =
    ["mapreduce_map_input_file", "mapreduce_map_input_start", "mapreduce_map_input_length"];

/// Values of [`VARIABLES`].
fn values(map: &BlockMap, range: &Range) -> [String; 3] {
    [map.uri(range).to_owned(), range.offset.to_string(), range.length.to_string()]
}

/// Returns lines for slurmstepd. Variables of the batch script must not reach its tasks.
fn environment(map: &BlockMap, dir: &Path) -> String {
    let rows = mine(map).ok();
    let first = rows.as_ref().and_then(|rows| map.ranges.get(rows.first()?.0));
    let count = rows.as_ref().map(|rows| rows.len().to_string());
    let known = first.map_or([None, None, None], |range| values(map, range).map(Some));
    let mut out = format!("export PHALANX_BLOCK_MAP={}\n", dir.join(TABLE).display());
    let names = ["PHALANX_SPLIT_COUNT"].into_iter().chain(VARIABLES);
    for (name, value) in names.zip([count].into_iter().chain(known)) {
        // A line is a variable: a name with a line break would add another.
        let line = match value.filter(|value| !value.contains(char::is_control)) {
            Some(value) => format!("export {name}={value}\n"),
            None => format!("unset {name}\n"),
        };
        out.push_str(&line);
    }
    out
}

/// Runs a command for each split of the calling task, one after the other.
fn each(map: &BlockMap, dir: &Path, command: &[String]) -> Result<Outcome, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Ok(Outcome::ok(""));
    };
    let rows = mine(map)?;
    for (row, reader) in &rows {
        let Some(range) = map.ranges.get(*row) else { continue };
        let node = reader.as_ref().map_or("", |(_, node)| node);
        let done = Command::new(program)
            .args(arguments)
            .envs(VARIABLES.into_iter().zip(values(map, range)))
            .env("PHALANX_BLOCK_MAP", dir.join(TABLE))
            .env("PHALANX_SPLIT_COUNT", rows.len().to_string())
            .env("PHALANX_SPLIT_LOCAL", u8::from(map.is_local(range, node)).to_string())
            .status()
            .map_err(|error| Failure::usage(format!("{program}: {error}")))?;
        if !done.success() {
            let text = format!("{program}: {done} on {} from {}", map.uri(range), range.offset);
            return Err(Failure::negative(text));
        }
    }
    Ok(Outcome::ok(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_counts_of_slurm() {
        assert_eq!(counts("2(x3),1"), Some(vec![2, 2, 2, 1]));
        assert_eq!(counts("4"), Some(vec![4]));
        assert_eq!(counts("2(x9999999999999)"), None);
        assert_eq!(counts("x"), None);
    }

    #[test]
    fn tasks_are_numbered_by_block_or_in_turn() {
        let node = |name: &str, tasks| map_node(name.into(), tasks);
        let step = Step { nodes: vec![node("a", 2), node("b", 1), node("c", 2)] };
        let all = |cyclic| -> Vec<String> {
            let place = |task| place(&step, task, cyclic);
            (0..6).map_while(place).map(|(name, slot)| format!("{name}{slot}")).collect()
        };
        assert_eq!(all(false), ["a0", "a1", "b0", "c0", "c1"]);
        assert_eq!(all(true), ["a0", "b0", "c0", "a1", "c1"]);
    }
}
