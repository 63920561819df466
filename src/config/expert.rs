// SPDX-License-Identifier: GPL-3.0-or-later
//! `[expert]`: what tests and measurements set, and sites leave alone.

use super::section::section;

section! {
    /// `[expert]`: what tests and measurements set, and sites leave alone.
    ExpertConfig {
        /// The plugin's circuit breaker opens; else every limit is as wide as the plugin allows.
        breaker: bool = true,
        /// Time between two questions to Slurm's accounting for the energy of jobs that ended,
        /// seconds.
        accounting_s: u64 = 60,
        /// Proofs of which one is compared with Slurm's answer in full; 0: none is compared.
        verify_every: u32 = 256,
    }
}
