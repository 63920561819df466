// SPDX-License-Identifier: GPL-3.0-or-later
//! Amounts in use, unusable or stranded over time. Whole numbers only: the
//! same sums on every run.

use crate::metrics::{Figures, Utilization};
use phalanx_core::number::whole;
use phalanx_planner::usage::NodeUsage;

use super::choose::GpuMix;

/// CPUs, memory, GPUs.
type Three = [u64; 3];

/// State of a node at the current time.
#[derive(Debug, Clone, Copy, Default)]
struct Now {
    used: Three,
    stranded: Three,
    /// Thousandths of GPUs that the mix cannot use.
    unusable: u64,
}

/// Sums over nodes and time.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    nodes: Vec<Now>,
    total: Three,
    used: Three,
    stranded: Three,
    unusable: u64,
    last_s: i64,
    /// Amounts in use times seconds.
    used_s: [u128; 3],
    stranded_s: [u128; 3],
    unusable_s: u128,
    seconds: u128,
}

impl Usage {
    /// Begins the sums at `begin_s`.
    pub(super) fn new(rooms: &[NodeUsage], mix: &GpuMix, begin_s: i64) -> Self {
        let mut usage =
            Self { nodes: vec![Now::default(); rooms.len()], last_s: begin_s, ..Self::default() };
        for (node, room) in rooms.iter().enumerate() {
            let totals = [room.cpus.total, room.memory_mb.total, mix.level(room).total];
            usage.total.iter_mut().zip(totals).for_each(|(sum, own)| *sum += own);
            usage.touch(node, room, mix);
        }
        usage
    }

    /// Time passes.
    pub(super) fn advance(&mut self, now_s: i64) {
        let Ok(seconds) = u64::try_from(now_s.saturating_sub(self.last_s)) else { return };
        let times = |amount: u64| u128::from(amount) * u128::from(seconds);
        self.used_s.iter_mut().zip(self.used).for_each(|(sum, now)| *sum += times(now));
        self.stranded_s.iter_mut().zip(self.stranded).for_each(|(sum, now)| *sum += times(now));
        self.unusable_s += times(self.unusable);
        self.seconds += u128::from(seconds);
        self.last_s = self.last_s.max(now_s);
    }

    /// A node changed.
    pub(super) fn touch(&mut self, node: usize, room: &NodeUsage, mix: &GpuMix) {
        let gpus = mix.level(room);
        let free = [room.cpus.free(), room.memory_mb.free(), gpus.free()];
        let none = |at: usize, total: u64| total > 0 && free.get(at) == Some(&0);
        let (no_cpu, no_memory) = (none(0, room.cpus.total), none(1, room.memory_mb.total));
        let beside = |is: bool, amount: u64| if is { amount } else { 0 };
        let [cpus, memory, free_gpus] = free;
        let now = Now {
            used: [room.cpus.used, room.memory_mb.used, gpus.used],
            stranded: [
                beside(no_memory, cpus),
                beside(no_cpu, memory),
                beside(no_cpu || no_memory, free_gpus),
            ],
            unusable: whole(mix.cost(room, 0, 0).round()),
        };
        let Some(slot) = self.nodes.get_mut(node) else { return };
        let before = std::mem::replace(slot, now);
        let change = |sum: &mut u64, was: u64, is: u64| *sum = (*sum + is).saturating_sub(was);
        for at in 0..3 {
            let of = |three: &Three| three.get(at).copied().unwrap_or(0);
            if let (Some(used), Some(stranded)) = (self.used.get_mut(at), self.stranded.get_mut(at))
            {
                change(used, of(&before.used), of(&now.used));
                change(stranded, of(&before.stranded), of(&now.stranded));
            }
        }
        change(&mut self.unusable, before.unusable, now.unusable);
    }

    /// Adds shares of the whole time to a policy's figures, and the energy `joules` if the nodes'
    /// power is known.
    pub fn fill(&self, figures: &mut Figures, joules: Option<f64>) {
        let share = |sum: u128, total: u64| {
            let whole = u128::from(total) * self.seconds;
            (whole > 0).then(|| sum as f64 / whole as f64)
        };
        let ([cpu, mem, gpu], [cpus, memory, gpus]) = (self.used_s, self.total);
        figures.utilization =
            Utilization { cpu: share(cpu, cpus), mem: share(mem, memory), gpu: share(gpu, gpus) };
        let [cpu, mem, gpu] = self.stranded_s;
        for (name, sum, total) in [("cpu", cpu, cpus), ("mem", mem, memory), ("gpu", gpu, gpus)] {
            if let Some(share) = share(sum, total) {
                figures.stranded.insert(name.to_owned(), share * 100.0);
            }
        }
        figures.gpu_allocated_pct = figures.utilization.gpu.map(|used| used * 100.0);
        let unusable = share(self.unusable_s, gpus.saturating_mul(1000));
        figures.gpu_fragmented_pct = unusable.map(|share| share * 100.0);
        figures.energy_j = joules;
    }

    /// Seconds since the beginning.
    pub(super) fn seconds(&self) -> f64 {
        self.seconds as f64
    }
}
