// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes with shared GPUs, filled pod by pod.

use super::openb::Pod;
use phalanx_core::trace::spec::NodeSpec;

/// Thousandths of a GPU.
pub const WHOLE: u16 = phalanx_methods::balance::fragment::WHOLE;

/// The part of a pod's request that decides where it fits.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodShape {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Memory, MiB.
    pub memory_mb: u64,
    /// GPUs.
    pub gpus: u32,
    /// Thousandths of each.
    pub gpu_milli: u16,
    /// GPU models that the pod accepts; empty: any.
    pub models: Vec<String>,
}

impl PodShape {
    /// The shape of a pod of a list.
    pub fn of(pod: &Pod) -> Self {
        Self {
            cpu_milli: pod.cpu_milli,
            memory_mb: pod.memory_mb,
            gpus: pod.gpus,
            gpu_milli: u16::try_from(pod.gpu_milli).unwrap_or(WHOLE),
            models: pod.models.clone(),
        }
    }

    /// Thousandths of GPUs altogether.
    pub fn gpu_total(&self) -> u64 {
        u64::from(self.gpus) * u64::from(self.gpu_milli)
    }

    /// Whether the pod takes a part of one GPU.
    pub fn is_part(&self) -> bool {
        self.gpus == 1 && self.gpu_milli < WHOLE
    }
}

/// Place of a pod: a node, and the GPU if it takes a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// Node.
    pub node: usize,
    /// GPU of the node.
    pub gpu: Option<usize>,
}

/// A node and its free resources.
#[derive(Debug, Clone)]
pub struct FleetNode {
    /// CPUs when idle, thousandths.
    pub cpu_total: u64,
    /// Memory when idle, MiB.
    pub memory_total: u64,
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Memory, MiB.
    pub memory_mb: u64,
    /// Thousandths of each GPU.
    pub gpus: Vec<u16>,
    /// GPU model.
    pub model: String,
}

impl FleetNode {
    /// An idle node.
    pub fn of(spec: &NodeSpec) -> Self {
        Self {
            cpu_total: spec.cpu_milli,
            memory_total: spec.memory_mb,
            cpu_milli: spec.cpu_milli,
            memory_mb: spec.memory_mb,
            gpus: vec![WHOLE; spec.gpus as usize],
            model: spec.model.clone(),
        }
    }

    /// Whether the pod fits now.
    pub fn fits(&self, pod: &PodShape) -> bool {
        if pod.cpu_milli > self.cpu_milli || pod.memory_mb > self.memory_mb {
            return false;
        }
        if pod.gpus == 0 {
            return true;
        }
        let enough = self.gpus.iter().filter(|free| **free >= pod.gpu_milli).count();
        enough >= pod.gpus as usize && (pod.models.is_empty() || pod.models.contains(&self.model))
    }

    /// The fullest GPU that still holds the pod's part.
    pub fn tightest(&self, pod: &PodShape) -> Option<usize> {
        let fitting = self.gpus.iter().enumerate().filter(|(_, free)| **free >= pod.gpu_milli);
        fitting.min_by_key(|(_, free)| **free).map(|(at, _)| at)
    }

    /// Takes the pod's resources; whole GPUs from the first idle ones on.
    pub fn take(&mut self, pod: &PodShape, gpu: Option<usize>) {
        self.cpu_milli = self.cpu_milli.saturating_sub(pod.cpu_milli);
        self.memory_mb = self.memory_mb.saturating_sub(pod.memory_mb);
        if pod.is_part() {
            let at = gpu.or_else(|| self.tightest(pod));
            if let Some(free) = at.and_then(|at| self.gpus.get_mut(at)) {
                *free = free.saturating_sub(pod.gpu_milli);
            }
            return;
        }
        let idle = self.gpus.iter_mut().filter(|free| **free == WHOLE);
        idle.take(pod.gpus as usize).for_each(|free| *free = 0);
    }

    /// Thousandths of free GPUs.
    pub fn gpu_free(&self) -> u64 {
        self.gpus.iter().map(|free| u64::from(*free)).sum()
    }
}
