// SPDX-License-Identifier: GPL-3.0-or-later
//! Shrinkage of the differences between node classes.
//!
//! Runs of one job class differ for many reasons, the nodes being one of them. With two runs of
//! 5 and 30 s on two classes of nodes nothing is known yet if runs differ that much on one class
//! too; it is nearly certain if they never do. So the logarithm of the speed is taken as
//!
//! ```text
//! ln speed(job class j, node class c) = mu_j + f_c + e_jc + noise
//! ```
//!
//! with f_c common to the job's family (the job classes that differ in their shape only, so that
//! a program is not a stranger in each size), e_jc of the job class itself, and noise as large as
//! runs on equal nodes were seen to differ: of this job class, and for a young one of all of
//! them. Each effect is shrunk by the part of its variance that is noise (empirical Bayes;
//! B. Efron, C. Morris, "Stein's estimation rule and its competitors", JASA 68, 1973).

use std::collections::BTreeMap;

use super::moments::Spread;

/// Variance of an effect of a node class before any run: a factor of 1.3 is usual.
pub(super) const EFFECT: f64 = 0.08;
/// Variance, before any run, of the part of a job class's effect that its family does not share.
pub(super) const OWN_EFFECT: f64 = 0.02;
/// Variance of the noise before any run (a quarter), and the number of runs that this weighs as.
const NOISE: f64 = 0.0625;
const NOISE_RUNS: f64 = 8.0;
/// Fewest standard errors between the effects of two node classes that count as different.
const SURE: f64 = 2.5;
/// Number of runs that the noise of all job classes weighs as, beside that of one class.
const COMMON_RUNS: f64 = 4.0;

/// Differences of runs on equal nodes, over all job classes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Noise {
    squares: f64,
    freedom: f64,
}

impl Noise {
    /// Replaces the contribution of a (job class, node class) pair, given before and after a run.
    pub(super) fn change(&mut self, before: Spread, after: Spread) {
        self.squares = (self.squares + after.squares - before.squares).max(0.0);
        self.freedom = (self.freedom + after.freedom() - before.freedom()).max(0.0);
    }

    /// Variance of a run, over all job classes.
    fn common(&self) -> f64 {
        (NOISE * NOISE_RUNS + self.squares) / (NOISE_RUNS + self.freedom)
    }

    /// Variance of a run of the job class, from its node classes.
    pub(super) fn of<'a>(&self, classes: impl Iterator<Item = &'a Spread>) -> f64 {
        let start = (self.common() * COMMON_RUNS, COMMON_RUNS);
        let (squares, runs) =
            classes.fold(start, |(s, n), class| (s + class.squares, n + class.freedom()));
        squares / runs
    }
}

/// A mean that is expected at `prior`, give or take `variance`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    pub(super) prior: f64,
    pub(super) variance: f64,
}

/// Effects by node class: observed ones shrunk towards expected ones. `noise` is the variance of
/// one run; the effects are relative to their common mean.
pub(super) fn effects(
    seen: &BTreeMap<u32, (Spread, Expected)>,
    noise: f64,
) -> BTreeMap<u32, Expected> {
    let precision = |s: &Spread, e: &Expected| 1.0 / (e.variance + noise / s.count);
    let known = || seen.values().filter(|(s, _)| s.count > 0.0);
    let weight: f64 = known().map(|(s, e)| precision(s, e)).sum();
    let sum: f64 = known().map(|(s, e)| precision(s, e) * (s.mean - e.prior)).sum();
    let mean = if weight > 0.0 { sum / weight } else { 0.0 };
    let shrunk = |(s, e): &(Spread, Expected)| {
        if s.count <= 0.0 {
            return *e;
        }
        let believed = e.variance * precision(s, e);
        Expected {
            prior: e.prior + believed * (s.mean - mean - e.prior),
            variance: e.variance * (1.0 - believed),
        }
    };
    seen.iter().map(|(class, pair)| (*class, shrunk(pair))).collect()
}

/// Gives classes whose effects differ by no more than their errors the mean of these, weighted by
/// runs (id: effect, runs), so that differences that are only noise are not preferred.
pub(super) fn pool(by_class: &mut BTreeMap<u32, (f64, f64)>, noise: f64) {
    let known = by_class.iter().filter(|(_, (_, runs))| *runs > 0.0);
    let mut ranked: Vec<(f64, f64, Vec<u32>)> =
        known.map(|(id, e)| (e.0, e.1, vec![*id])).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut groups: Vec<(f64, f64, Vec<u32>)> = Vec::new();
    for (mut mean, mut runs, mut ids) in ranked {
        let near = |of: &mut (f64, f64, Vec<u32>), mean: f64, runs: f64| {
            of.0 - mean <= SURE * (noise * (1.0 / of.1 + 1.0 / runs)).sqrt()
        };
        while let Some(faster) = groups.pop_if(|faster| near(faster, mean, runs)) {
            mean = (mean * runs + faster.0 * faster.1) / (runs + faster.1);
            runs += faster.1;
            ids.extend(faster.2);
        }
        groups.push((mean, runs, ids));
    }
    for (mean, _, ids) in groups {
        for id in ids {
            by_class.entry(id).and_modify(|effect| effect.0 = mean);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[f64]) -> Spread {
        let mut spread = Spread::default();
        values.iter().for_each(|v| spread.add(*v, 1.0));
        spread
    }

    fn two(a: &[f64], b: &[f64], noise: f64) -> f64 {
        let fresh = Expected { prior: 0.0, variance: EFFECT };
        let seen = BTreeMap::from([(0, (spread(a), fresh)), (1, (spread(b), fresh))]);
        let effects = effects(&seen, noise);
        effects[&0].prior - effects[&1].prior
    }

    #[test]
    fn a_difference_is_believed_as_far_as_it_exceeds_the_noise() {
        // One run each: EFFECT / (EFFECT + noise) of it.
        assert!((two(&[1.0], &[0.0], EFFECT) - 0.5).abs() < 1e-12);
        assert!((two(&[1.0], &[0.0], EFFECT / 100.0) - 1.0 / 1.01).abs() < 1e-12);
        assert!(two(&[1.0; 40], &[0.0; 40], 0.16) > 0.95);
        assert!((two(&[1.0, 0.0], &[0.0, 1.0], 0.2)).abs() < 1e-12);
    }

    #[test]
    fn noise_is_that_of_all_until_a_class_has_its_own() {
        let mut noise = Noise::default();
        assert!((noise.of([].iter()) - NOISE).abs() < 1e-12);
        // Many runs that never differ: nothing is noise.
        noise.change(Spread::default(), spread(&[2.0; 1000]));
        assert!(noise.of([].iter()) < 1e-3);
        // This one's own do differ.
        let own = [spread(&[0.0, 2.0, 0.0, 2.0, 0.0, 2.0])];
        assert!(noise.of(own.iter()) > 0.5);
        // What was taken can be taken back.
        noise.change(spread(&[2.0; 1000]), Spread::default());
        assert!((noise.of([].iter()) - NOISE).abs() < 1e-12);
    }

    #[test]
    fn classes_that_are_not_surely_apart_are_one() {
        let pooled = |classes: &[(f64, f64)], noise: f64| {
            let mut by_class = (0..).zip(classes.iter().copied()).collect();
            pool(&mut by_class, noise);
            by_class.values().map(|(effect, _)| *effect).collect::<Vec<_>>()
        };
        // Of the difference's errors it is 2.7, then 2.2.
        assert_eq!(pooled(&[(0.2, 10.0), (0.1, 30.0)], 0.01), [0.2, 0.1]);
        assert_eq!(pooled(&[(0.2, 10.0), (0.1, 30.0)], 0.015), [0.125, 0.125]);
        assert_eq!(pooled(&[(0.25, 5.0), (0.125, 15.0)], 0.01), [0.15625, 0.15625]);
        // A first run that was lucky takes nothing from what is known of the others.
        let lucky = pooled(&[(0.5, 1.0), (0.4, 19.0), (0.0, 20.0)], 0.01);
        assert!((lucky[0] - 0.405).abs() < 1e-12 && lucky[0] == lucky[1] && lucky[2] == 0.0);
        assert_eq!(pooled(&[(0.0, 0.0), (0.1, 9.0)], 1.0), [0.0, 0.1], "nothing is known of one");
        assert_eq!(pooled(&[(0.1, 1.0), (0.0, 1.0)], 0.0), [0.1, 0.0], "runs never differ");
    }
}
