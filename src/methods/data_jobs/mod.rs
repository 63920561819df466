// SPDX-License-Identifier: GPL-3.0-or-later
//! Data jobs: tasks that read blocks of files, run near these blocks.
//!
//! [`blockmap`] cuts a job's input into splits and assigns them to its tasks; [`bisect`] assigns
//! blocks to hosts under a bound on the makespan; [`attenuation`] is what cores of one job cost
//! each other.
//!
//! # Source
//! `docs/methods.md`, section Data jobs.

pub mod attenuation;
pub mod bisect;
pub mod blockmap;

/// Merges neighbours with equal keys: their values are added.
fn merge_equal<K: PartialEq, V: Copy>(pairs: &mut Vec<(K, V)>, add: fn(V, V) -> V) {
    pairs.dedup_by(|next, sum| {
        let same = next.0 == sum.0;
        if same {
            sum.1 = add(sum.1, next.1);
        }
        same
    });
}
