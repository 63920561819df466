// SPDX-License-Identifier: GPL-3.0-or-later
//! The cost of a placement of parts of GPUs under a mix, and the order of several pending
//! requests.
//!
//! Judging how well pods pack adds two figures to fragmentation:
//! - *loss*: what of each piece will be left in the end. Fragmentation asks about
//!   one request; a piece of 0.53 is of use to many single requests, but which
//!   ones come often enough to fill it decides what is lost (see `price`);
//! - *starvation*: free GPU share beyond what the node's free CPUs can feed, at
//!   the CPUs that the mix asks for with each GPU.
//!
//! The cost of a placement is by how much it raises the sum.

use std::collections::BTreeMap;

use super::price;
use phalanx_methods::balance::fragment::{GPUS_MAX, Mix, WHOLE, Want};

/// Weight of the loss beside fragmentation.
const LOSS: f64 = 8.0;
/// Number of sizes of a GPU's free part: from nothing to all, in thousandths.
const SIZES: usize = WHOLE as usize + 1;
/// Weight of the rise of the whole cost beside the loss when pending requests are compared: it
/// decides between requests that lose alike.
const RISE: f64 = 0.02;
/// Urgency of a request without GPUs, which loses none: it goes after requests that lose nothing
/// and before those that lose more than this for each GPU.
const WITHOUT_GPU: f64 = 0.02;

/// Free resources of a node.
#[derive(Debug, Clone, Copy)]
pub struct Free<'a> {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Free thousandths of each GPU; at most [`GPUS_MAX`] GPUs.
    pub gpus: &'a [u16],
}

/// Resources that a request takes of a node.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// GPUs.
    pub gpus: u32,
    /// Thousandths of each of the GPUs: of one GPU, or all of several.
    pub gpu_milli: u16,
}

impl Asked {
    fn is_part(&self) -> bool {
        self.gpus == 1 && self.gpu_milli < WHOLE
    }
}

/// A mix of requests that judges placements.
#[derive(Debug, Clone)]
pub struct Packing {
    mix: Mix,
    /// Loss of one free piece, by size; empty: not counted.
    losses: Vec<f64>,
    /// Thousandths of a CPU for each thousandth of a GPU, below which a GPU counts as starved; 0:
    /// never.
    feed: [f64; 3],
}

/// CPUs for each GPU, in parts of the mix's mean, below which GPUs starve: several steps, so that
/// the cost rises before it is too late.
const FEED: [f64; 3] = [0.3, 0.6, 0.9];

/// CPUs that the mix asks for with each GPU, times [`FEED`].
fn feed(wants: &[Want]) -> [f64; 3] {
    let with_gpu = || wants.iter().filter(|want| want.gpus > 0);
    let cpus: f64 = with_gpu().map(|want| want.cpu_milli as f64 * want.weight).sum();
    let size = |want: &Want| f64::from(want.gpus) * f64::from(want.gpu_milli) * want.weight;
    let gpus: f64 = with_gpu().map(size).sum();
    FEED.map(|part| if gpus > 0.0 { part * cpus / gpus } else { 0.0 })
}

impl Packing {
    /// Fragmentation alone.
    pub fn fragmentation(wants: &[Want]) -> Self {
        Self { mix: Mix::new(wants), losses: Vec::new(), feed: [0.0; 3] }
    }

    /// Makes the cost: fragmentation plus loss plus starvation.
    pub fn new(wants: &[Want]) -> Self {
        Self { mix: Mix::new(wants), losses: losses(wants).to_vec(), feed: feed(wants) }
    }

    fn loss(&self, size: u16) -> f64 {
        self.losses.get(usize::from(size)).copied().unwrap_or_default()
    }

    fn cost(&self, cpu_milli: u64, gpus: &[u16]) -> f64 {
        let free: f64 = gpus.iter().map(|gpu| f64::from(*gpu)).sum();
        let lost: f64 = gpus.iter().map(|gpu| LOSS * self.loss(*gpu)).sum();
        let feeds = self.feed.iter().filter(|feed| **feed > 0.0);
        let starved: f64 = feeds.map(|feed| (free - cpu_milli as f64 / feed).max(0.0)).sum();
        self.mix.cost(cpu_milli, gpus) + lost + starved
    }

    /// Returns by how much the node's cost rises, and which GPU to take a part from; infinite when
    /// the request does not fit or the node has too many GPUs.
    pub fn rise(&self, free: Free<'_>, asked: Asked) -> (f64, Option<usize>) {
        let mut gpus = [0u16; GPUS_MAX];
        let Some(gpus) = gpus.get_mut(..free.gpus.len()) else { return (f64::INFINITY, None) };
        gpus.copy_from_slice(free.gpus);
        let cpu = free.cpu_milli.saturating_sub(asked.cpu_milli);
        let (after, gpu) = if asked.is_part() {
            self.least_part(cpu, gpus, asked.gpu_milli)
        } else {
            let idle = gpus.iter_mut().filter(|free| **free == WHOLE);
            idle.take(asked.gpus as usize).for_each(|free| *free = 0);
            (self.cost(cpu, gpus), None)
        };
        (after - self.cost(free.cpu_milli, free.gpus), gpu)
    }

    fn least_part(&self, cpu: u64, gpus: &mut [u16], part: u16) -> (f64, Option<usize>) {
        let (mut least, mut chosen) = (f64::INFINITY, None);
        for at in 0..gpus.len() {
            let Some(&free) = gpus.get(at) else { continue };
            // Of equal pieces, the first.
            if free < part || gpus.iter().take(at).any(|other| *other == free) {
                continue;
            }
            if let Some(slot) = gpus.get_mut(at) {
                *slot = free - part;
            }
            let cost = self.cost(cpu, gpus);
            if cost < least {
                (least, chosen) = (cost, Some(at));
            }
            if let Some(slot) = gpus.get_mut(at) {
                *slot = free;
            }
        }
        (least, chosen)
    }

    /// The urgency of a pending request on its best node; the least goes first. It is the loss for
    /// each GPU that the request takes. Requests that waste most go last: while they are passed,
    /// others fill the GPUs.
    pub fn urgency(&self, free: Free<'_>, asked: Asked) -> f64 {
        let size = f64::from(asked.gpus) * f64::from(asked.gpu_milli);
        if size <= 0.0 {
            return WITHOUT_GPU;
        }
        let (rise, gpu) = self.rise(free, asked);
        let piece = gpu.and_then(|gpu| free.gpus.get(gpu)).copied();
        let lost = piece.map_or(0.0, |piece| {
            self.loss(piece.saturating_sub(asked.gpu_milli)) - self.loss(piece)
        });
        (lost + RISE * rise) / size
    }
}

/// Loss of a piece by its size, thousandths: its size less what it is [worth](price). Below 0 where
/// it is worth more than its size.
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

    /// Goal: parts of 470 come in pairs, and nothing ever fits beside one of 810.
    fn pieces() -> Vec<Want> {
        vec![want(1_000, 1, 470, 3.0), want(1_000, 1, 810, 1.0)]
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
        let mix = Packing::new(&wants);
        let idle = Free { cpu_milli: 64_000, gpus: &[1000, 1000] };
        let urgency =
            |gpus, gpu_milli| mix.urgency(idle, Asked { cpu_milli: 1_000, gpus, gpu_milli });
        assert!(urgency(1, 1000) < urgency(1, 470) && urgency(1, 470) < urgency(1, 810));
        assert!(urgency(1, 1000) < urgency(0, 0) && urgency(0, 0) < urgency(1, 810));
    }
}
