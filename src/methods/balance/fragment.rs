// SPDX-License-Identifier: GPL-3.0-or-later
//! The share of a node's free GPUs that the queue's own mix of requests cannot use.
//!
//! *Fragmentation* (Weng et al., "Beware of Fragmentation", ATC'23), in
//! thousandths of a GPU: the free GPU share that a request drawn from the mix
//! cannot use, on average, because the node lacks CPUs or because the free
//! pieces are too small.

use serde::{Deserialize, Serialize};

/// Thousandths of a GPU.
pub const WHOLE: u16 = 1000;
/// GPUs of one node.
pub const GPUS_MAX: usize = 64;
/// Number of sizes of a GPU's free part: from nothing to all, in thousandths.
const SIZES: usize = WHOLE as usize + 1;

/// A shape of request with its frequency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Want {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// GPUs; 0: not counted.
    pub gpus: u32,
    /// Thousandths of each of the GPUs.
    pub gpu_milli: u16,
    /// Frequency, in any unit.
    pub weight: f64,
}

/// Requests for several GPUs at once, which a node's CPUs may not suffice for.
#[derive(Debug, Clone)]
struct Several {
    gpus: u32,
    weight: f64,
    /// Share of the requests whose CPUs are there, by CPU step.
    below: Vec<f64>,
}

/// A mix of requests, ready to judge nodes.
#[derive(Debug, Clone)]
pub struct Mix {
    /// Ascending CPU requests; step `i` is reached with at least the `i - 1`st.
    cpus: Vec<u64>,
    /// Cost of one free piece by CPU step and size.
    pieces: Vec<f64>,
    several: Vec<Several>,
}

impl Mix {
    /// Makes a mix of `wants`.
    pub fn new(wants: &[Want]) -> Self {
        let total: f64 = wants.iter().map(|want| want.weight).sum();
        let total = if total > 0.0 { total } else { 1.0 };
        let with_gpu = || wants.iter().filter(|want| want.gpus > 0);
        let mut cpus: Vec<u64> = with_gpu().map(|want| want.cpu_milli).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let mut pieces = Vec::with_capacity((cpus.len() + 1) * SIZES);
        let single: f64 = with_gpu().filter(|w| w.gpus == 1).map(|w| w.weight).sum();
        for step in 0..=cpus.len() {
            let reached = step.checked_sub(1).and_then(|i| cpus.get(i)).copied();
            let fits = |want: &&Want| reached.is_some_and(|cpu| want.cpu_milli <= cpu);
            let mut usable = [0.0; SIZES];
            for want in with_gpu().filter(fits).filter(|want| want.gpus == 1) {
                if let Some(slot) = usable.get_mut(usize::from(want.gpu_milli)) {
                    *slot += want.weight;
                }
            }
            let mut below = 0.0;
            for (size, weight) in (0u16..).zip(usable) {
                below += weight;
                pieces.push(f64::from(size) * (single - below) / total);
            }
        }
        let several = several(wants, &cpus, total);
        Self { cpus, pieces, several }
    }

    /// The step that `cpu_milli` reaches in the mix: costs of two amounts at the same step are
    /// equal.
    pub(super) fn step(&self, cpu_milli: u64) -> usize {
        self.cpus.partition_point(|cpu| *cpu <= cpu_milli)
    }

    /// The least CPUs of each step, thousandths.
    pub(super) fn thresholds(&self) -> impl Iterator<Item = u64> {
        [0].into_iter().chain(self.cpus.iter().copied())
    }

    /// Cost of a node with `cpu_milli` and `gpus` free.
    pub fn cost(&self, cpu_milli: u64, gpus: &[u16]) -> f64 {
        let step = self.step(cpu_milli);
        let row = self.pieces.get(step * SIZES..(step + 1) * SIZES).unwrap_or_default();
        let (mut cost, mut free, mut whole) = (0.0, 0.0, 0u32);
        for gpu in gpus {
            cost += row.get(usize::from(*gpu)).copied().unwrap_or_default();
            free += f64::from(*gpu);
            whole += u32::from(*gpu == WHOLE);
        }
        for several in &self.several {
            let below = several.below.get(step).copied().unwrap_or_default();
            let usable = if whole >= several.gpus { below * f64::from(whole) } else { 0.0 };
            cost += several.weight * free - usable * f64::from(WHOLE);
        }
        cost
    }
}

fn several(wants: &[Want], cpus: &[u64], total: f64) -> Vec<Several> {
    let mut counts: Vec<u32> = wants.iter().map(|w| w.gpus).filter(|gpus| *gpus > 1).collect();
    counts.sort_unstable();
    counts.dedup();
    let of = |gpus: u32| {
        let these = || wants.iter().filter(move |want| want.gpus == gpus);
        let sum = |limit: u64| -> f64 {
            these().filter(|want| want.cpu_milli <= limit).map(|want| want.weight).sum()
        };
        let mut below = vec![0.0];
        below.extend(cpus.iter().map(|cpu| sum(*cpu) / total));
        Several { gpus, weight: sum(u64::MAX) / total, below }
    };
    counts.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(cpu_milli: u64, gpus: u32, gpu_milli: u16, weight: f64) -> Want {
        Want { cpu_milli, gpus, gpu_milli, weight }
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    fn fragmentation_is_what_the_mix_cannot_use() {
        let wants = [
            want(4_000, 1, 500, 1.0),
            want(8_000, 1, 1000, 1.0),
            want(8_000, 2, 1000, 1.0),
            want(1_000, 0, 0, 1.0),
        ];
        let mix = Mix::new(&wants);
        // Half a GPU and a whole one, many CPUs: the first shape can use all,
        // the second 1000 of 1500, the third nothing.
        near(mix.cost(64_000, &[500, 1000]), (0.0 + 500.0 + 1500.0) / 4.0);
        // Two whole ones: everything is of use.
        near(mix.cost(64_000, &[1000, 1000]), 0.0);
        // 4 CPUs: only the first shape fits; 3: none.
        near(mix.cost(4_000, &[1000, 1000]), (0.0 + 2000.0 + 2000.0) / 4.0);
        near(mix.cost(3_000, &[1000]), 3000.0 / 4.0);
        near(mix.cost(64_000, &[]), 0.0);
    }
}
