// SPDX-License-Identifier: GPL-3.0-or-later
//! Time and memory of the walk over an invented message of jobs.
//!
//! `measure [JOBS]` (default 100000). One line of JSON:
//! `flatten_ms` is the walk alone, `read_ms` one pass over all rows through
//! the accessors, `peak_bytes` the process's, the message included.

use std::time::Instant;

use phalanx_slurm::{SlurmError, synth};

/// Passes of each measurement; the fastest counts, as the machine is shared.
const PASSES: u32 = 5;

fn main() {
    if let Err(error) = run() {
        eprintln!("measure: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), SlurmError> {
    let count = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(100_000);
    let mut flatten_ns = u64::MAX;
    let mut read_ns = u128::MAX;
    let mut sizes = (0, 0);
    let mut checksum = 0;
    for _ in 0..PASSES {
        let (jobs, cost) = synth::busy_jobs(count)?;
        flatten_ns = flatten_ns.min(cost.flatten_ns);
        sizes = (cost.message_bytes, jobs.memory_bytes());
        let start = Instant::now();
        for job in &jobs {
            let texts = [job.account(), job.partition(), job.tres_req(), job.work_dir()];
            checksum += texts.iter().flatten().map(|text| text.len()).sum::<usize>();
            checksum += job.cpus_min() as usize;
        }
        read_ns = read_ns.min(start.elapsed().as_nanos());
    }
    println!(
        "{{\"jobs\":{count},\"flatten_ms\":{:.1},\"read_ms\":{:.1},\"message_bytes\":{},\
         \"table_bytes\":{},\"peak_bytes\":{},\"checksum\":{checksum}}}",
        flatten_ns as f64 / 1e6,
        read_ns as f64 / 1e6,
        sizes.0,
        sizes.1,
        peak_bytes()
    );
    Ok(())
}

/// The process's peak of resident memory, 0 if the kernel does not say.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
