// SPDX-License-Identifier: GPL-3.0-or-later
//! The cost of a placement to a node under a mix, and the order of several pending
//! requests.

use super::{Mix, WHOLE};

/// GPUs of one node.
pub const GPUS_MAX: usize = 64;
/// Weight of the rise of the whole cost beside the loss when pending requests
/// are compared: it decides between those that lose alike.
const RISE: f64 = 0.02;
/// Loss for each GPU that requests without GPUs count as when they are compared:
/// they go behind those that lose nothing, and hold none up that would.
const WITHOUT_GPU: f64 = 0.02;

/// Free resources of a node.
#[derive(Debug, Clone, Copy)]
pub struct Free<'a> {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Thousandths of each GPU; at most [`GPUS_MAX`] of them.
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

impl Mix {
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

    /// The urgency of a pending request on its best node; the least goes first. It is
    /// the loss for each GPU that the request takes.
    /// Those that waste most go last: while they are passed, others fill the GPUs.
    pub fn urgency(&self, free: Free<'_>, asked: Asked) -> f64 {
        let size = f64::from(asked.gpus) * f64::from(asked.gpu_milli);
        if size <= 0.0 {
            return WITHOUT_GPU;
        }
        let (rise, gpu) = self.rise(free, asked);
        let piece = gpu.and_then(|gpu| free.gpus.get(gpu)).copied();
        let loss = |size: u16| self.losses.get(usize::from(size)).copied().unwrap_or_default();
        let lost =
            piece.map_or(0.0, |piece| loss(piece.saturating_sub(asked.gpu_milli)) - loss(piece));
        (lost + RISE * rise) / size
    }
}
