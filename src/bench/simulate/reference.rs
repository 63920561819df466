// SPDX-License-Identifier: GPL-3.0-or-later
//! Scores of a node for a pod under each policy; the least score wins, and of equal ones the first
//! node. The reference policies are written so that their published figures come out.

use super::fleet::{FleetNode, PodShape, WHOLE};
use super::packing::{Asked, Free, Packing};
use phalanx_methods::balance::fragment::Want;

/// Share of the pods that the typical shapes of FGD cover.
const TYPICAL: f64 = 0.95;
/// Difference in thousandths of a GPU below which costs are equal: the first node wins, which keeps
/// others empty.
const EQUAL: f64 = 10.0;

/// A scoring rule.
#[derive(Debug, Clone)]
pub enum Scorer {
    /// The first node that fits.
    First,
    /// Least CPUs and GPUs left, as shares of the largest node's.
    Tightest {
        /// Largest node: CPUs, memory, GPUs.
        largest: [f64; 3],
    },
    /// Least product of free and requested amounts.
    Product {
        /// Largest node: CPUs, memory, GPUs.
        largest: [f64; 3],
    },
    /// Least spread of the used shares of CPUs, memory and GPUs.
    Spread,
    /// Least rise of the cost under a mix of requests.
    Mix {
        /// The mix.
        mix: Box<Packing>,
        /// Rounding of FGD.
        fgd: bool,
    },
}

impl Scorer {
    /// The rule of a policy, given by name, for nodes and a mix of requests.
    pub fn of(policy: &str, nodes: &[FleetNode], wants: &[Want]) -> Self {
        match policy {
            "best-fit" => Self::Tightest { largest: largest(nodes) },
            "dot-product" => Self::Product { largest: largest(nodes) },
            "k8s-balanced" | "balance-seed" => Self::Spread,
            "fgd" => {
                Self::Mix { mix: Box::new(Packing::fragmentation(&typical(wants))), fgd: true }
            }
            "balance" | "phalanx" | "research" => {
                Self::Mix { mix: Box::new(Packing::new(wants)), fgd: false }
            }
            _ => Self::First,
        }
    }

    /// Whether the rule says of two pods which should go first.
    pub fn compares_pods(&self) -> bool {
        matches!(self, Self::Mix { .. })
    }

    /// Urgency of a pod among several; the pod with the least goes first, on its best place.
    pub fn urgency(&self, node: &FleetNode, pod: &PodShape) -> f64 {
        let Self::Mix { mix, .. } = self else { return 0.0 };
        mix.urgency(on(node), of(pod))
    }

    /// Score and GPU for a pod on a node where it fits.
    pub fn score(&self, node: &FleetNode, pod: &PodShape) -> (f64, Option<usize>) {
        let part = || pod.is_part().then(|| node.tightest(pod)).flatten();
        match self {
            Self::First => (0.0, part()),
            Self::Tightest { largest } => {
                let [cpu, _, gpu] = shares(left(node, pod), *largest);
                (cpu + gpu, part())
            }
            Self::Product { largest } => {
                let free = shares(free(node), *largest);
                let asked = shares(asked(pod), *largest);
                (free.iter().zip(asked).map(|(f, a)| f * a).sum(), part())
            }
            Self::Spread => (spread(node, pod), part()),
            Self::Mix { mix, fgd } => {
                let (rise, gpu) = mix.rise(on(node), of(pod));
                // The simulator of the paper keeps whole scores of 0 to 100.
                let whole = || -(100.0 / (1.0 + (rise / f64::from(WHOLE)).exp())).floor();
                (if *fgd { whole() } else { (rise / EQUAL).round() }, gpu)
            }
        }
    }
}

/// The most frequent shapes, which make up [`TYPICAL`] of all.
fn typical(wants: &[Want]) -> Vec<Want> {
    let total: f64 = wants.iter().map(|want| want.weight).sum();
    let mut sorted = wants.to_vec();
    sorted.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let mut sum = 0.0;
    sorted.retain(|want| {
        let keep = sum < TYPICAL * total;
        sum += want.weight;
        keep
    });
    sorted
}

fn vector(cpu: u64, memory: u64, gpu: u64) -> [f64; 3] {
    [cpu as f64, memory as f64, gpu as f64]
}

fn free(node: &FleetNode) -> [f64; 3] {
    vector(node.cpu_milli, node.memory_mb, node.gpu_free())
}

fn asked(pod: &PodShape) -> [f64; 3] {
    vector(pod.cpu_milli, pod.memory_mb, pod.gpu_total())
}

fn left(node: &FleetNode, pod: &PodShape) -> [f64; 3] {
    let (free, asked) = (free(node), asked(pod));
    std::array::from_fn(|i| free[i] - asked[i])
}

fn total(node: &FleetNode) -> [f64; 3] {
    vector(node.cpu_total, node.memory_total, node.gpus.len() as u64 * u64::from(WHOLE))
}

fn largest(nodes: &[FleetNode]) -> [f64; 3] {
    nodes.iter().map(total).fold([1.0; 3], |most, own| std::array::from_fn(|i| most[i].max(own[i])))
}

fn shares(amounts: [f64; 3], of: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|i| amounts[i] / of[i])
}

fn spread(node: &FleetNode, pod: &PodShape) -> f64 {
    let (left, total) = (left(node, pod), total(node));
    let used = (0..3).filter(|i| total[*i] > 0.0).map(|i| 1.0 - left[i] / total[i]);
    spread_of_used(&used.collect::<Vec<_>>())
}

/// Returns 100 minus NodeResourcesBalancedAllocation's score of the used shares, which is whole.
pub(super) fn spread_of_used(used: &[f64]) -> f64 {
    let count = f64::from(u32::try_from(used.len()).unwrap_or(1).max(1));
    let mean = used.iter().sum::<f64>() / count;
    let variance = used.iter().map(|u| (u - mean) * (u - mean)).sum::<f64>() / count;
    100.0 - ((1.0 - variance.sqrt()) * 100.0).floor()
}

/// Free resources of a node, in a mix's terms.
fn on(node: &FleetNode) -> Free<'_> {
    Free { cpu_milli: node.cpu_milli, gpus: &node.gpus }
}

/// Resources that a pod takes, in a mix's terms.
fn of(pod: &PodShape) -> Asked {
    Asked { cpu_milli: pod.cpu_milli, gpus: pod.gpus, gpu_milli: pod.gpu_milli }
}
