// SPDX-License-Identifier: GPL-3.0-or-later
//! Policies side by side, with their progress.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two updates of the bar.
const BAR_EVERY: Duration = Duration::from_millis(100);

/// Runs the policies side by side and returns their figures in the order asked for.
pub fn each<P: Sync, T: Send>(
    threads: Option<usize>,
    policies: &[P],
    steps: usize,
    simulate: impl Fn(&P, &dyn Fn(usize)) -> T + Sync,
) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.unwrap_or(cores).min(policies.len()).max(1);
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    let terminal = std::io::stderr().is_terminal();
    let done = Mutex::new((vec![0; policies.len()], Instant::now()));
    let shown = Shown { terminal, steps, done };
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(policy) = policies.get(at) else { break };
            let figures = simulate(policy, &|done| shown.show(at, done));
            found.lock().unwrap_or_else(PoisonError::into_inner).push((at, figures));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    if terminal {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, figures)| figures).collect()
}

/// Progress of all policies together, as a bar on a terminal.
struct Shown {
    terminal: bool,
    steps: usize,
    /// Steps done by each policy, and the time of the latest bar.
    done: Mutex<(Vec<usize>, Instant)>,
}

impl Shown {
    fn show(&self, at: usize, steps: usize) {
        let Ok(mut done) = self.done.lock() else { return };
        done.0.get_mut(at).into_iter().for_each(|own| *own = steps);
        if !self.terminal || done.1.elapsed() < BAR_EVERY {
            return;
        }
        done.1 = Instant::now();
        let percent = done.0.iter().sum::<usize>() * 100 / (self.steps * done.0.len()).max(1);
        let bar = "#".repeat(percent / 5);
        let _ = write!(std::io::stderr(), "\r\x1b[Ksimulating [{bar:<20}] {percent} %");
    }
}
