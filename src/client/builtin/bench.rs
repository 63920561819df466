// SPDX-License-Identifier: GPL-3.0-or-later
//! Benchmark speed: the present speed of one thread of the node, beside its other load.

use std::time::{Duration, Instant};

use super::context::Context;

/// Rows and columns of the matrices.
const N: usize = 64;
/// Least time that is measured.
const LEAST: Duration = Duration::from_millis(40);

/// Returns 1e9 multiplications and additions per second of wall-clock time, by a multiplication of
/// fixed matrices: relative between nodes, no FLOPS rating.
pub(super) fn speed(context: &Context<'_>) -> Result<f64, String> {
    let a: Vec<f64> = (0..N * N).map(|i| (i % 7) as f64).collect();
    let mut b: Vec<f64> = (0..N * N).map(|i| (i % 5) as f64 * 1e-3).collect();
    let started = Instant::now();
    let (mut rounds, mut elapsed) = (0_u32, Duration::ZERO);
    while elapsed < LEAST && Instant::now() < context.deadline {
        b = multiply(&a, &b);
        // This keeps the numbers finite, and the compiler from leaving work out.
        let largest = b.iter().copied().fold(1.0, f64::max);
        b.iter_mut().for_each(|x| *x /= std::hint::black_box(largest));
        rounds += 1;
        elapsed = started.elapsed();
    }
    let operations = 2.0 * (N * N * N) as f64 * f64::from(rounds);
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { Ok(operations / seconds / 1e9) } else { Err("no time".to_owned()) }
}

fn multiply(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut c = vec![0.0; N * N];
    for (row_a, row_c) in a.chunks_exact(N).zip(c.chunks_exact_mut(N)) {
        for (&x, row_b) in row_a.iter().zip(b.chunks_exact(N)) {
            for (c, &y) in row_c.iter_mut().zip(row_b) {
                *c += x * y;
            }
        }
    }
    c
}
