// SPDX-License-Identifier: GPL-3.0-or-later
//! `[data_jobs]`: jobs that declare an input.

use super::section::section;

section! {
    /// `[data_jobs]`: jobs that declare an input.
    DataJobsConfig {
        /// Inputs are looked up.
        enabled: bool = true,
        /// Longest time that a job is held back until its input was looked up, milliseconds.
        wait_ms: u32 = 10_000,
        /// Longest time that `locality=require` waits for the nodes of the input, seconds.
        require_wait_s: u32 = 600,
        /// Longest time that the jobs of one user hold one partition's queue for their inputs,
        /// seconds; it is had again within twenty times as long.
        hold_budget_s: u32 = 60,
        /// Part of the bytes that could be local which may be read remotely for balance.
        remote_share: f64 = 0.03,
        /// MB/s from another node.
        transfer_mb_per_s: f64 = 125.0,
        /// MB/s of one core, where nothing is learned.
        speed_mb_per_s: f64 = 50.0,
        /// Speed lost per further core, where nothing is learned.
        alpha: f64 = 0.05,
        /// Longest time of one plan of these jobs, milliseconds.
        deadline_ms: u32 = 300,
    }
}
