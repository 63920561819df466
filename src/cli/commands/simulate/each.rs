// SPDX-License-Identifier: GPL-3.0-or-later
//! Policies side by side, with their progress.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx_sim::policy::Policy;

/// Runs the policies side by side and gives their figures in the order asked for.
pub fn each<T: Send>(
    threads: Option<usize>,
    policies: &[Policy],
    steps: usize,
    simulate: impl Fn(&Policy, &dyn Fn(usize)) -> T + Sync,
) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.unwrap_or(cores).min(policies.len()).max(1);
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    let shown = std::io::stderr().is_terminal();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(policy) = policies.get(at) else { break };
            let progress = |done: usize| show_progress(shown, policy, done, steps);
            let figures = simulate(policy, &progress);
            if let Ok(mut found) = found.lock() {
                found.push((at, figures));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    if shown {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, figures)| figures).collect()
}

fn show_progress(shown: bool, policy: &Policy, done: usize, steps: usize) {
    if shown {
        let percent = done * 100 / steps.max(1);
        let bar = "#".repeat(percent / 5);
        let _ = write!(std::io::stderr(), "\r\x1b[K{:<12} [{bar:<20}] {percent} %", policy.name);
    }
}
