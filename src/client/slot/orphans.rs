// SPDX-License-Identifier: GPL-3.0-or-later
//! Kills processes that left their process group (`setsid`) and outlived their parents: as this
//! process adopts orphans, they are its children.

use std::collections::BTreeSet;
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use phalanx_ffi::own_children;

/// Kills and reaps the children of this process that are neither the leader of a run nor in the
/// group of one that goes on (`alive`, `dying`: process ids of leaders). Those of [`own_children`]
/// are spared.
///
/// Orphans of a run that goes on are spared as long as they stay in its group;
/// those that left it are killed with the next run that ends.
pub(super) fn end(alive: &BTreeSet<u32>, dying: &BTreeSet<u32>) {
    // A killed one hands its own children to us: look again until there is none.
    for _ in 0..ROUNDS_MAX {
        let ended = own_children::with_ids(|own| end_others(alive, dying, own));
        if ended == 0 {
            return;
        }
    }
}

fn end_others(alive: &BTreeSet<u32>, dying: &BTreeSet<u32>, own: &BTreeSet<u32>) -> usize {
    let strays: Vec<u32> = children()
        .into_iter()
        .filter(|pid| !alive.contains(pid) && !dying.contains(pid) && !own.contains(pid))
        .filter(|pid| group_of(*pid).is_none_or(|group| !alive.contains(&group)))
        .collect();
    let count = strays.len();
    for pid in strays.into_iter().filter_map(|pid| i32::try_from(pid).ok()).map(Pid::from_raw) {
        // It may have ended in the meantime.
        let _ = kill(pid, Signal::SIGKILL);
        let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
    }
    count
}

/// Greatest number of rounds, one for each generation of daemons that start daemons.
const ROUNDS_MAX: usize = 8;

/// Returns the children of all threads of this process.
fn children() -> Vec<u32> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let lists =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split(' ').filter_map(|pid| pid.trim().parse().ok()).collect::<Vec<u32>>()
        })
        .collect()
}

/// Returns the process group of a process.
fn group_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // "pid (name) state parent group ..."; the name may have anything in it.
    stat.rsplit_once(") ")?.1.split(' ').nth(2)?.parse().ok()
}
