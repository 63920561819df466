// SPDX-License-Identifier: GPL-3.0-or-later
//! The inflation protocol of the FGD paper's simulator: pods in random order, then random ones
//! again until the requests exceed the GPUs by a factor; nothing leaves; a pod that fits nowhere
//! when its turn comes is dropped.
//!
//! With a window, so many pods may be looked at ahead, and the one goes first
//! that costs least; no pod is overtaken more often than allowed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::fleet::{FleetNode, PodShape, Spot, WHOLE};
use super::lookahead::Window;
use super::openb::Pod;
use super::reference::Scorer;
use phalanx_core::random::Stream;
use phalanx_core::trace::spec::NodeSpec;
use phalanx_methods::balance::fragment::{GPUS_MAX, Mix, Want};
use phalanx_sim::metrics::{Figures, Utilization};

/// Parameters of the arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Inflation {
    /// Seed of order and repetition.
    pub seed: u64,
    /// GPU requests in parts of the GPUs.
    pub target: f64,
    /// Pods that may be looked at, at least 1.
    pub window: usize,
    /// Number of times that a pod may be overtaken.
    pub overtakes_max: u32,
}

/// Shapes, and the pods by shape in the order of arrival.
#[derive(Debug, Clone)]
struct Arrivals {
    shapes: Vec<PodShape>,
    counts: Vec<u32>,
    order: Vec<u32>,
}

impl Arrivals {
    fn of(pods: &[Pod], gpu_total: u64, how: &Inflation) -> Self {
        let mut numbers: BTreeMap<PodShape, u32> = BTreeMap::new();
        for pod in pods {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            numbers.entry(PodShape::of(pod)).or_insert(next);
        }
        let number = |pod: &Pod| numbers.get(&PodShape::of(pod)).copied().unwrap_or_default();
        let listed: Vec<u32> = pods.iter().map(number).collect();
        let mut shapes = vec![PodShape::default(); numbers.len()];
        for (shape, at) in numbers {
            if let Some(slot) = shapes.get_mut(at as usize) {
                *slot = shape;
            }
        }
        let mut counts = vec![0; shapes.len()];
        for shape in &listed {
            if let Some(count) = counts.get_mut(*shape as usize) {
                *count += 1;
            }
        }
        let mut arrivals = Self { shapes, counts, order: listed.clone() };
        arrivals.inflate(&listed, gpu_total, how);
        arrivals
    }

    fn inflate(&mut self, listed: &[u32], gpu_total: u64, how: &Inflation) {
        let mut random = Stream::new(how.seed);
        random.shuffle(&mut self.order);
        let size = |shape: &u32| self.shapes.get(*shape as usize).map_or(0, PodShape::gpu_total);
        let mut requested: u64 = self.order.iter().map(size).sum();
        let target = how.target * gpu_total as f64;
        // A list without GPU requests would never get there.
        while (requested as f64) < target && listed.iter().any(|shape| size(shape) > 0) {
            let Some(shape) = listed.get(random.below(listed.len())) else { return };
            requested += size(shape);
            self.order.push(*shape);
        }
    }

    fn wants(&self) -> Vec<Want> {
        let pairs = self.shapes.iter().zip(&self.counts);
        let want = |(shape, count): (&PodShape, &u32)| Want {
            cpu_milli: shape.cpu_milli,
            gpus: shape.gpus,
            gpu_milli: shape.gpu_milli,
            weight: f64::from(*count),
        };
        // Shapes that differ in memory alone are one to the mix.
        let mut merged: Vec<Want> = Vec::new();
        for own in pairs.map(want) {
            let same = |w: &&mut Want| {
                (w.cpu_milli, w.gpus, w.gpu_milli) == (own.cpu_milli, own.gpus, own.gpu_milli)
            };
            match merged.iter_mut().find(same) {
                Some(other) => other.weight += own.weight,
                None => merged.push(own),
            }
        }
        merged
    }
}

/// Best places by shape, kept up to date node by node.
struct Filler<'a> {
    nodes: Vec<FleetNode>,
    shapes: &'a [PodShape],
    scorer: Scorer,
    /// Score by shape and node; infinite where the shape does not fit.
    scores: Vec<f64>,
    best: Vec<Option<usize>>,
    /// Urgency by shape; the shape with the least goes first.
    urgency: Vec<f64>,
}

impl<'a> Filler<'a> {
    fn new(nodes: Vec<FleetNode>, shapes: &'a [PodShape], scorer: Scorer) -> Self {
        let mut filler = Self {
            scores: Vec::new(),
            best: Vec::new(),
            urgency: vec![0.0; shapes.len()],
            nodes,
            shapes,
            scorer,
        };
        for shape in shapes {
            let scores = filler.nodes.iter().map(|node| filler.score(node, shape));
            let scores: Vec<f64> = scores.collect();
            filler.best.push(least(&scores));
            filler.scores.extend(scores);
        }
        for shape in 0..shapes.len() {
            filler.note_urgency(shape);
        }
        filler
    }

    fn score(&self, node: &FleetNode, shape: &PodShape) -> f64 {
        if node.fits(shape) { self.scorer.score(node, shape).0 } else { f64::INFINITY }
    }

    /// Thousandths of GPUs of a shape.
    fn size(&self, shape: u32) -> u64 {
        self.shapes.get(shape as usize).map_or(0, PodShape::gpu_total)
    }

    /// Node of the present best place of a shape.
    fn best(&self, shape: u32) -> Option<usize> {
        *self.best.get(shape as usize)?
    }

    /// Urgency of a shape; the least goes first.
    fn urgency(&self, shape: u32) -> f64 {
        self.urgency.get(shape as usize).copied().unwrap_or_default()
    }

    fn note_urgency(&mut self, shape: usize) {
        let node = self.best.get(shape).copied().flatten().and_then(|at| self.nodes.get(at));
        let (Some(node), Some(pod)) = (node, self.shapes.get(shape)) else { return };
        let urgency = self.scorer.urgency(node, pod);
        if let Some(slot) = self.urgency.get_mut(shape) {
            *slot = urgency;
        }
    }

    /// Puts a pod of a shape on its best place.
    fn place(&mut self, shape: u32) -> Option<Spot> {
        let at = self.best(shape)?;
        let pod = self.shapes.get(shape as usize)?;
        let node = self.nodes.get_mut(at)?;
        let gpu = self.scorer.score(node, pod).1;
        node.take(pod, gpu);
        self.refresh(at);
        Some(Spot { node: at, gpu })
    }

    /// Scores every shape on a node that has changed, and finds its best node where that follows.
    fn refresh(&mut self, at: usize) {
        let len = self.nodes.len();
        for (number, shape) in self.shapes.iter().enumerate() {
            let Some(node) = self.nodes.get(at) else { return };
            let row = number * len..(number + 1) * len;
            let score = self.score(node, shape);
            let (Some(scores), Some(best)) = (self.scores.get_mut(row), self.best.get_mut(number))
            else {
                continue;
            };
            let Some(slot) = scores.get_mut(at) else { continue };
            let was = std::mem::replace(slot, score);
            let before = *best;
            if *best == Some(at) && score > was {
                *best = least(scores);
            } else if score < f64::INFINITY {
                let key = |node: usize| (scores.get(node).copied().unwrap_or(f64::INFINITY), node);
                let better = best.is_none_or(|b| key(at) < key(b));
                *best = if better { Some(at) } else { *best };
            }
            if before == Some(at) || *best != before {
                self.note_urgency(number);
            }
        }
    }
}

/// First position of the least finite score.
fn least(scores: &[f64]) -> Option<usize> {
    let mut best: Option<(f64, usize)> = None;
    for (at, &score) in scores.iter().enumerate() {
        if score < best.map_or(f64::INFINITY, |(least, _)| least) {
            best = Some((score, at));
        }
    }
    best.map(|(_, at)| at)
}

/// Result of a filling.
#[derive(Debug, Clone, Default)]
pub struct Filled {
    /// Nodes at the end of the filling.
    pub nodes: Vec<FleetNode>,
    /// Pods placed.
    pub placed: usize,
    /// Pods that fitted nowhere.
    pub dropped: usize,
    /// Most often that one pod was overtaken.
    pub overtaken_max: u32,
    /// GPUs allocated over GPUs requested so far, percent of all; about every 1 %.
    pub curve: Vec<(f64, f64)>,
    took_us: Vec<f32>,
    wall: Duration,
}

/// Fills the nodes with the pods.
///
/// # Errors
/// One line, for a node with more GPUs than can be judged, and for nodes without any.
pub fn run(
    pods: &[Pod],
    nodes: &[NodeSpec],
    policy: &str,
    how: &Inflation,
) -> Result<(Filled, Figures), String> {
    if let Some(node) = nodes.iter().find(|node| node.gpus as usize > GPUS_MAX) {
        return Err(format!("node {}: more than {GPUS_MAX} GPUs", node.name));
    }
    let fleet: Vec<FleetNode> = nodes.iter().map(FleetNode::of).collect();
    let gpu_total: u64 = fleet.iter().map(FleetNode::gpu_free).sum();
    if gpu_total == 0 {
        return Err(
            "expected nodes with GPUs: pods arrive until they ask for --target of them".into()
        );
    }
    let arrivals = Arrivals::of(pods, gpu_total, how);
    let wants = arrivals.wants();
    let scorer = Scorer::of(policy, &fleet, &wants);
    let filled = fill(fleet, &arrivals, scorer, how);
    let mut figures = figures(&filled, gpu_total, policy, &Mix::new(&wants));
    figures.time(filled.wall, filled.took_us.clone());
    Ok((filled, figures))
}

fn fill(fleet: Vec<FleetNode>, arrivals: &Arrivals, scorer: Scorer, how: &Inflation) -> Filled {
    let began = Instant::now();
    let window = if scorer.compares_pods() { how.window.max(1) } else { 1 };
    let mut filler = Filler::new(fleet, &arrivals.shapes, scorer);
    let mut filled = Filled::default();
    let mut curve = Curve::of(&filler.nodes);
    let mut next = arrivals.order.iter().copied();
    let mut waiting = Window::new(how.overtakes_max);
    loop {
        // Nothing leaves: what fits nowhere now never will.
        filled.dropped += waiting.retain(|shape| filler.best(shape).is_some());
        while waiting.len() < window {
            let Some(shape) = next.next() else { break };
            curve.requested += filler.size(shape);
            if filler.best(shape).is_some() {
                waiting.push(shape);
            } else {
                filled.dropped += 1;
            }
        }
        let decided = Instant::now();
        let Some(shape) = waiting.take(|shape| filler.urgency(shape)) else { break };
        if filler.place(shape).is_some() {
            filled.placed += 1;
            curve.allocated += filler.size(shape);
        }
        curve.note();
        filled.took_us.push(decided.elapsed().as_secs_f32() * 1e6);
    }
    curve.end();
    filled.overtaken_max = waiting.overtaken_max();
    filled.curve = curve.points;
    filled.nodes = filler.nodes;
    filled.wall = began.elapsed();
    filled
}

/// Allocated over requested GPUs as pods arrive.
struct Curve {
    total: u64,
    requested: u64,
    allocated: u64,
    points: Vec<(f64, f64)>,
}

impl Curve {
    fn of(nodes: &[FleetNode]) -> Self {
        let total = nodes.iter().map(FleetNode::gpu_free).sum();
        Self { total, requested: 0, allocated: 0, points: Vec::new() }
    }

    /// Adds a point of the curve for each percent.
    fn note(&mut self) {
        let percent = self.requested * 100 / self.total.max(1);
        if percent >= self.points.len() as u64 {
            self.end();
        }
    }

    fn end(&mut self) {
        let percent = |part: u64| 100.0 * part as f64 / self.total.max(1) as f64;
        self.points.push((percent(self.requested), percent(self.allocated)));
    }
}

fn figures(filled: &Filled, gpu_total: u64, policy: &str, mix: &Mix) -> Figures {
    let percent = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
    let sum = |of: &dyn Fn(&FleetNode) -> u64| filled.nodes.iter().map(of).sum::<u64>() as f64;
    let gpu_free = sum(&FleetNode::gpu_free);
    let (cpu, memory) = (sum(&|n| n.cpu_total), sum(&|n| n.memory_total));
    let unusable: f64 = filled.nodes.iter().map(|n| mix.cost(n.cpu_milli, &n.gpus)).sum();
    let full = |n: &FleetNode| !n.gpus.is_empty() && n.gpu_free() == 0;
    let mut figures = Figures {
        policy: policy.to_owned(),
        jobs: filled.placed + filled.dropped,
        utilization: Utilization {
            cpu: (cpu > 0.0).then(|| 1.0 - sum(&|n| n.cpu_milli) / cpu),
            mem: (memory > 0.0).then(|| 1.0 - sum(&|n| n.memory_mb) / memory),
            gpu: (gpu_total > 0).then(|| 1.0 - gpu_free / gpu_total as f64),
        },
        gpu_allocated_pct: Some(100.0 - percent(gpu_free, gpu_total as f64)),
        gpu_fragmented_pct: Some(percent(unusable, gpu_total as f64)),
        decisions: filled.placed + filled.dropped,
        ..Figures::default()
    };
    let beside = |of: fn(&FleetNode) -> u64| sum(&|n| if full(n) { of(n) } else { 0 });
    figures.stranded.insert("cpu".to_owned(), percent(beside(|n| n.cpu_milli), cpu));
    figures.stranded.insert("mem".to_owned(), percent(beside(|n| n.memory_mb), memory));
    let partly = |n: &FleetNode| n.gpus.iter().filter(|g| **g < WHOLE).map(|g| u64::from(*g)).sum();
    figures.stranded.insert("gpu".to_owned(), percent(sum(&partly), gpu_total as f64));
    figures
}
