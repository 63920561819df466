// SPDX-License-Identifier: GPL-3.0-or-later
//! How much of a node's free GPUs the queue's own mix of requests cannot use.
//!
//! Two figures are added up, both in thousandths of a GPU:
//! - *fragmentation* (Weng et al., "Beware of Fragmentation", ATC'23): the free
//!   GPU share that a request drawn from the mix cannot use, on average,
//!   because the node lacks CPUs or because the free pieces are too small;
//! - *residue*: what will be left of each piece in the end when requests keep
//!   coming from the mix. Fragmentation asks about one request; a piece of 0.53
//!   is of use to many single requests, but which ones come often enough to
//!   fill it decides what is lost. [`Mix::with_residue`] finds out by filling
//!   GPUs with the mix, again and again with what the last filling taught.
//!
//! The cost of a placement is by how much it raises the sum.

use std::collections::BTreeMap;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Thousandths of a GPU.
pub const WHOLE: u16 = 1000;
/// GPUs that are filled to learn the residues.
const FILLED: usize = 4_000;
/// Demand that they are filled with, in parts of them.
const DEMAND: f64 = 1.3;
/// Fillings; each uses the residues of the one before.
const FILLINGS: usize = 4;
/// Observations that what was believed before counts as.
const PRIOR: f64 = 2.0;
/// Thousandths of a GPU, and nothing.
const SIZES: usize = WHOLE as usize + 1;

/// A shape of request with how often it comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Want {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// GPUs; 0: not counted.
    pub gpus: u32,
    /// Thousandths of each of them.
    pub gpu_milli: u16,
    /// How often; any unit.
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
}

impl Mix {
    /// Fragmentation alone.
    pub fn new(wants: &[Want]) -> Self {
        Self::weighted(wants, &[0.0; SIZES])
    }

    /// Fragmentation plus `share` of the residues.
    pub fn with_residue(wants: &[Want], share: f64) -> Self {
        let residues = residues(wants).map(|residue| residue * share);
        Self::weighted(wants, &residues)
    }

    fn weighted(wants: &[Want], residues: &[f64; SIZES]) -> Self {
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
            for (size, (weight, residue)) in (0u16..).zip(usable.iter().zip(residues)) {
                below += weight;
                pieces.push(f64::from(size) * (single - below) / total + residue);
            }
        }
        let several = several(wants, &cpus, total);
        Self { cpus, pieces, several }
    }

    /// Cost of a node with so much free.
    pub fn cost(&self, cpu_milli: u64, gpus: &[u16]) -> f64 {
        let step = self.cpus.partition_point(|cpu| *cpu <= cpu_milli);
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

/// What will be left of a piece, by its size now.
fn residues(wants: &[Want]) -> [f64; SIZES] {
    let mut mix: BTreeMap<u16, f64> = BTreeMap::new();
    for want in wants.iter().filter(|w| w.gpus == 1 && (1..=WHOLE).contains(&w.gpu_milli)) {
        *mix.entry(want.gpu_milli).or_default() += want.weight;
    }
    let mut residues = [0.0; SIZES];
    for (size, residue) in (0u16..WHOLE).zip(&mut residues) {
        *residue = f64::from(size) / 2.0;
    }
    if mix.values().sum::<f64>() > 0.0 {
        for filling in 0..FILLINGS {
            residues = fill(&mix, &residues, filling as u64);
        }
    }
    residues
}

/// Fills GPUs with requests of the mix, each where its residue grows least, and
/// gives the mean of what was left, by the sizes that pieces had on the way.
fn fill(mix: &BTreeMap<u16, f64>, believed: &[f64; SIZES], seed: u64) -> [f64; SIZES] {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let total: f64 = mix.values().sum();
    let mut at: BTreeMap<u16, Vec<Vec<u16>>> = BTreeMap::new();
    at.insert(WHOLE, vec![vec![WHOLE]; FILLED]);
    let (mut demand, most) = (0.0, DEMAND * f64::from(WHOLE) * as_f64(FILLED));
    while demand < most {
        let size = draw(mix, total, &mut rng);
        demand += f64::from(size);
        let value = |size: u16| believed.get(usize::from(size)).copied().unwrap_or_default();
        let rise = |piece: u16| value(piece - size) - value(piece);
        let pieces = at.iter().filter(|(piece, gpus)| **piece >= size && !gpus.is_empty());
        let best = pieces.map(|(piece, _)| *piece).min_by(|a, b| rise(*a).total_cmp(&rise(*b)));
        let Some(piece) = best else { continue };
        if let Some(mut seen) = at.get_mut(&piece).and_then(Vec::pop) {
            seen.push(piece - size);
            at.entry(piece - size).or_default().push(seen);
        }
    }
    means(&at, believed)
}

/// One size of the mix, by its weight.
fn draw(mix: &BTreeMap<u16, f64>, total: f64, rng: &mut Xoshiro256PlusPlus) -> u16 {
    /// 2^-53: the high bits of a draw become a double in [0, 1).
    const UNIT: f64 = 1.0 / 9_007_199_254_740_992.0;
    #[allow(clippy::cast_precision_loss)] // 53 bits
    let mut left = (rng.next_u64() >> 11) as f64 * UNIT * total;
    for (size, weight) in mix {
        left -= weight;
        if left < 0.0 {
            return *size;
        }
    }
    mix.last_key_value().map_or(WHOLE, |(size, _)| *size)
}

fn means(at: &BTreeMap<u16, Vec<Vec<u16>>>, believed: &[f64; SIZES]) -> [f64; SIZES] {
    let mut sums = [(0.0, 0.0); SIZES];
    for (left, gpus) in at {
        for size in gpus.iter().flatten() {
            if let Some((sum, count)) = sums.get_mut(usize::from(*size)) {
                *sum += f64::from(*left);
                *count += 1.0;
            }
        }
    }
    let mut residues = [0.0; SIZES];
    // Believed and found for the last size that was seen.
    let (mut seen, mut before, mut found) = (0u16, 0.0, 0.0);
    let slots = residues.iter_mut().zip(sums).zip(believed);
    for (size, ((residue, (sum, count)), believed)) in (0u16..).zip(slots) {
        let more = f64::from(size - seen);
        *residue = if count > 0.0 {
            let prior = f64::from(size).min(before + more);
            (sum + PRIOR * prior) / (count + PRIOR)
        } else {
            found + more
        };
        *residue = residue.min(f64::from(size));
        if count > 0.0 {
            (seen, before, found) = (size, *believed, *residue);
        }
    }
    residues
}

#[allow(clippy::cast_precision_loss)] // a few thousand
fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(cpu_milli: u64, gpus: u32, gpu_milli: u16, weight: f64) -> Want {
        Want { cpu_milli, gpus, gpu_milli, weight }
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
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
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
    fn residues_know_which_pieces_will_be_filled() {
        // 470 comes in pairs; nothing ever fits beside 810.
        let wants = [want(1_000, 1, 470, 3.0), want(1_000, 1, 810, 1.0)];
        let found = residues(&wants);
        assert!(found[530] < 150.0, "{}", found[530]);
        assert!((found[190] - 190.0).abs() < 1.0 && (found[60] - 60.0).abs() < 1.0);
        assert_eq!(found, residues(&wants), "the same every time");
        assert_eq!(residues(&[])[0], 0.0);
    }
}
