// SPDX-License-Identifier: GPL-3.0-or-later
//! The share of a node's free GPUs that the queue's own mix of requests cannot use.
//!
//! *Fragmentation* (Weng et al., "Beware of Fragmentation", ATC'23), in
//! thousandths of a GPU: the free GPU share that a request drawn from the mix
//! cannot use, on average, because the node lacks CPUs or because the free
//! pieces are too small. Judging phalanx's own placements adds two figures:
//! - *loss*: what of each piece will be left in the end. Fragmentation asks about
//!   one request; a piece of 0.53 is of use to many single requests, but which
//!   ones come often enough to fill it decides what is lost (see [`price`]);
//! - *starvation*: free GPU share beyond what the node's free CPUs can feed, at
//!   the CPUs that the mix asks for with each GPU.
//!
//! The cost of a placement is by how much it raises the sum.

mod place;
mod price;

pub use place::{Asked, Free, GPUS_MAX};

use serde::{Deserialize, Serialize};

use std::collections::BTreeMap;

/// Thousandths of a GPU.
pub const WHOLE: u16 = 1000;
/// Weight of the loss beside fragmentation.
const LOSS: f64 = 8.0;
/// Thousandths of a GPU, and nothing.
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

/// Requests for several GPUs at once.
#[derive(Debug, Clone)]
struct Several {
    gpus: u32,
    weight: f64,
    /// Share whose CPUs are there, by CPU step.
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
    /// Loss of one free piece, by size; empty: not counted.
    losses: Vec<f64>,
    /// Thousandths of a CPU for each thousandth of a GPU, at which a GPU counts
    /// as starved; 0: never.
    feed: [f64; 3],
}

/// CPUs for each GPU, in parts of the mix's mean, below which GPUs starve: one
/// after the other, so that the cost rises before it is too late.
const FEED: [f64; 3] = [0.3, 0.6, 0.9];

/// CPUs that the mix asks for with each GPU, times [`FEED`].
fn feed(wants: &[Want]) -> [f64; 3] {
    let with_gpu = || wants.iter().filter(|want| want.gpus > 0);
    let cpus: f64 = with_gpu().map(|want| want.cpu_milli as f64 * want.weight).sum();
    let size = |want: &Want| f64::from(want.gpus) * f64::from(want.gpu_milli) * want.weight;
    let gpus: f64 = with_gpu().map(size).sum();
    FEED.map(|part| if gpus > 0.0 { part * cpus / gpus } else { 0.0 })
}

impl Mix {
    /// Fragmentation alone.
    pub fn new(wants: &[Want]) -> Self {
        Self::weighted(wants, &[0.0; SIZES])
    }

    /// Fragmentation plus loss plus starvation.
    pub fn for_packing(wants: &[Want]) -> Self {
        let losses = losses(wants);
        let weighted = Self::weighted(wants, &losses.map(|loss| loss * LOSS));
        Self { feed: feed(wants), losses: losses.to_vec(), ..weighted }
    }

    fn weighted(wants: &[Want], losses: &[f64; SIZES]) -> Self {
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
            for (size, (weight, loss)) in (0u16..).zip(usable.iter().zip(losses)) {
                below += weight;
                pieces.push(f64::from(size) * (single - below) / total + loss);
            }
        }
        let several = several(wants, &cpus, total);
        Self { cpus, pieces, several, losses: Vec::new(), feed: [0.0; 3] }
    }

    /// The step that this amount of CPUs reaches in the mix: costs of two amounts at the
    /// same step are equal where nothing starves ([`Mix::new`]).
    pub(super) fn step(&self, cpu_milli: u64) -> usize {
        self.cpus.partition_point(|cpu| *cpu <= cpu_milli)
    }

    /// The least CPUs of each step, thousandths.
    pub(super) fn thresholds(&self) -> impl Iterator<Item = u64> {
        [0].into_iter().chain(self.cpus.iter().copied())
    }

    /// Cost of a node with so much free.
    pub fn cost(&self, cpu_milli: u64, gpus: &[u16]) -> f64 {
        let step = self.step(cpu_milli);
        let row = self.pieces.get(step * SIZES..(step + 1) * SIZES).unwrap_or_default();
        let (mut cost, mut free, mut whole) = (0.0, 0.0, 0u32);
        for gpu in gpus {
            cost += row.get(usize::from(*gpu)).copied().unwrap_or_default();
            free += f64::from(*gpu);
            whole += u32::from(*gpu == WHOLE);
        }
        for feed in self.feed.iter().filter(|feed| **feed > 0.0) {
            cost += (free - cpu_milli as f64 / feed).max(0.0);
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

/// Loss of a piece by its size, thousandths: its size less what it
/// is [worth](price). Below 0 where it is worth more than its size.
fn losses(wants: &[Want]) -> [f64; SIZES] {
    let mut parts: BTreeMap<u16, f64> = BTreeMap::new();
    for want in wants.iter().filter(|w| w.gpus == 1 && (1..WHOLE).contains(&w.gpu_milli)) {
        *parts.entry(want.gpu_milli).or_default() += want.weight;
    }
    let mut losses = [0.0; SIZES];
    let worths = price::worths(&parts.into_iter().collect::<Vec<_>>());
    for (loss, (size, worth)) in losses.iter_mut().zip((0u16..).zip(worths)) {
        *loss = f64::from(size) - f64::from(WHOLE) * worth;
    }
    losses
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

    /// 470 comes in pairs; nothing ever fits beside 810.
    fn pieces() -> Vec<Want> {
        vec![want(1_000, 1, 470, 3.0), want(1_000, 1, 810, 1.0)]
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

    #[test]
    fn losses_know_which_pieces_will_be_filled() {
        let wants = pieces();
        let found = losses(&wants);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-3, "{a} {b}");
        near(found[530], 30.0);
        near(found[190], 190.0);
        near(found[60], 60.0);
        near(found[1000], 0.0);
        assert_eq!(found, losses(&wants), "the same every time");
    }

    #[test]
    fn who_wastes_most_of_a_gpu_goes_last() {
        let mut wants = pieces();
        wants.extend([want(1_000, 1, 1000, 3.0), want(1_000, 0, 0, 3.0)]);
        let mix = Mix::for_packing(&wants);
        let idle = Free { cpu_milli: 64_000, gpus: &[1000, 1000] };
        let urgency =
            |gpus, gpu_milli| mix.urgency(idle, Asked { cpu_milli: 1_000, gpus, gpu_milli });
        assert!(urgency(1, 1000) < urgency(1, 470) && urgency(1, 470) < urgency(1, 810));
        assert!(urgency(1, 1000) < urgency(0, 0) && urgency(0, 0) < urgency(1, 810));
    }
}
