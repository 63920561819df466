// SPDX-License-Identifier: GPL-3.0-or-later
//! A recording as the simulator's input.

use std::path::PathBuf;
use std::sync::Arc;

use phalanx_core::number::{nearest_i64, seconds_of};
use phalanx_core::snapshot::{Job, JobState};
use phalanx_mirror::recording::{Op, TableOp};
use phalanx_mirror::{FileError, Reader};
use phalanx_planner::cluster::{Held, RunningJob};
use phalanx_sim::nodes::recorded::Period;

/// Reads the files of one recording, in their order. The second value says where one breaks off:
/// what was read before is used.
pub fn period(files: &[PathBuf]) -> Result<(Period, Option<FileError>), FileError> {
    let mut found = Period::default();
    let mut broken = None;
    for path in files {
        let mut reader = Reader::open(path)?;
        let zero_ms = reader.head().zero_ms;
        let mut table: Option<TableOp> = None;
        loop {
            match reader.next_record() {
                Ok(Some(record)) => {
                    let at_ms = zero_ms.saturating_add(record.t / 1_000_000);
                    found.end_s = found.end_s.max(seconds_of(at_ms));
                    take(&mut found, record.op, &mut table, at_ms);
                }
                Ok(None) => break,
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            }
        }
    }
    if found.first.nodes.is_empty() {
        let path = files.first().cloned().unwrap_or_default();
        let what = "has no picture of the nodes: phalanxd saw none while it recorded".to_owned();
        return Err(FileError { path, what });
    }
    for job in found.jobs.values().filter(|job| job.state == JobState::Ended) {
        found.ends_s.entry(job.id).or_insert(job.end_s);
    }
    Ok((found, broken))
}

fn take(found: &mut Period, op: Op, table: &mut Option<TableOp>, at_ms: u64) {
    match op {
        Op::Picture(mut picture) => {
            picture.reindex();
            let jobs = Arc::unwrap_or_clone(std::mem::take(&mut picture.jobs));
            see(found, jobs.into_iter().map(Arc::unwrap_or_clone));
            if found.first.nodes.is_empty() {
                found.begin_s = seconds_of(at_ms);
                found.first = *picture;
            }
        }
        Op::Change(change) => see(found, change.jobs),
        Op::Table(new) => {
            found.memory_tracked = new.memory_tracked;
            *table = Some(*new);
        }
        Op::Jobs(jobs) => {
            for job in jobs {
                if let Some(job) = renumbered(found, table.as_ref(), job) {
                    found.running.entry(job.id).or_insert(job);
                }
            }
        }
        Op::Ended(job_id, _, end_s) => {
            let end_s = nearest_i64(end_s);
            found.ends_s.insert(job_id, if end_s > 0 { end_s } else { seconds_of(at_ms) });
        }
        _ => {}
    }
}

fn see(found: &mut Period, jobs: impl IntoIterator<Item = Job>) {
    for mut job in jobs {
        if let Some(known) = found.jobs.get(&job.id) {
            // Slurm forgets some of it at the end.
            if job.nodes.is_empty() && known.start_s == job.start_s {
                job.nodes = std::sync::Arc::clone(&known.nodes);
            }
        }
        found.jobs.insert(job.id, job);
    }
}

/// Returns a job whose nodes are indexes of the first table.
fn renumbered(found: &Period, table: Option<&TableOp>, job: RunningJob) -> Option<RunningJob> {
    let table = &table?.table;
    let held: Option<Vec<Held>> = job
        .held
        .iter()
        .map(|held| {
            let name = &table.nodes.get(held.node.at())?.name;
            Some(Held { node: found.first.node(name)?, ..held.clone() })
        })
        .collect();
    let same = table.kinds == found.first.gres_kinds && table.types == found.first.gres_types;
    held.filter(|_| same).map(|held| RunningJob { held, ..job })
}
