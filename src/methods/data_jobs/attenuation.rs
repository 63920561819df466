// SPDX-License-Identifier: GPL-3.0-or-later
//! f(n), the part of its speed that a core of an n-core job keeps, and the fit of f to the runs of
//! one class (`docs/methods.md`, section Data jobs, formula 1: linear, table or Amdahl).

use std::collections::BTreeMap;

use phalanx_core::number::as_u32;
use serde::{Deserialize, Serialize};

/// A run's number of cores, and its work units per second and core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoreSpeed {
    /// Cores of the job.
    pub cores: u32,
    /// Work per second of one core, > 0.
    pub speed: f64,
}

/// A form of f(n), with f(1) = 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attenuation {
    /// 1 - alpha (n - 1), alpha in `[0, 1)`.
    Linear(f64),
    /// f(1), f(2), ...: in (0, 1], falling; the last one holds for all larger n.
    Table(Vec<f64>),
    /// 1 / (1 + beta (n - 1)), beta >= 0.
    Amdahl(f64),
}

impl Attenuation {
    /// f(n); not positive for an n that is too large.
    #[must_use]
    pub fn factor(&self, n: usize) -> f64 {
        let further = (n.max(1) - 1) as f64;
        match self {
            Self::Linear(alpha) => 1.0 - alpha * further,
            Self::Table(values) => {
                values.get(n.max(1) - 1).or(values.last()).copied().unwrap_or(1.0)
            }
            Self::Amdahl(beta) => 1.0 / (1.0 + beta * further),
        }
    }

    /// Largest n <= `limit` with f(n) > 0.
    pub(super) fn positive_up_to(&self, limit: usize) -> usize {
        // f falls: the positive values are the first ones.
        let (mut low, mut high) = (1, limit.max(1));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.factor(middle) > 1e-9 {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }
}

/// Means of the runs of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Work per second of one core alone.
    pub speed: f64,
    /// f(n).
    pub form: Attenuation,
}

/// Fewest numbers of cores with enough runs for a table of means to beat a formula.
const TABLE_SIZES: usize = 4;
/// Fewest runs of one number of cores for an entry of its own in the table.
const TABLE_RUNS: usize = 3;
/// Largest table.
const TABLE_CORES_MAX: u32 = 4096;

/// Fits f(n); `alpha` is assumed where all runs had the same number of cores. `None` without a run.
#[must_use]
pub fn fit(runs: &[CoreSpeed], alpha: f64) -> Option<Fit> {
    let usable = |r: &&CoreSpeed| r.cores > 0 && r.speed.is_finite() && r.speed > 0.0;
    let mut sizes: BTreeMap<u32, (f64, usize)> = BTreeMap::new();
    for run in runs.iter().filter(usable) {
        let entry = sizes.entry(run.cores).or_default();
        entry.0 += run.speed;
        entry.1 += 1;
    }
    let points: Vec<Point> = sizes
        .iter()
        .map(|(&cores, &(sum, runs))| Point {
            cores: cores as usize,
            n: f64::from(cores),
            mean: sum / count(runs),
            runs,
        })
        .collect();
    let first = points.first()?;
    if points.len() == 1 {
        let kept = (1.0 - alpha * (first.n - 1.0)).max(0.05);
        return Some(Fit { speed: first.mean / kept, form: Attenuation::Linear(alpha) });
    }
    let (linear, amdahl) = (linear(&points), amdahl(&points));
    let better = if error(&amdahl, &points) < error(&linear, &points) { amdahl } else { linear };
    let whole = points.iter().filter(|p| p.runs >= TABLE_RUNS).count() >= TABLE_SIZES;
    if whole && sizes.keys().all(|&n| n <= TABLE_CORES_MAX) {
        return Some(table(&points, &better));
    }
    Some(better)
}

struct Point {
    cores: usize,
    n: f64,
    mean: f64,
    runs: usize,
}

fn count(runs: usize) -> f64 {
    f64::from(as_u32(runs))
}

/// Intercept and slope of y over n - 1, each size weighted by the number of its runs.
fn line(points: &[Point], y: impl Fn(&Point) -> f64) -> (f64, f64) {
    let (mut w, mut x1, mut y1, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for point in points {
        let (weight, x, y) = (count(point.runs), point.n - 1.0, y(point));
        w += weight;
        x1 += weight * x;
        y1 += weight * y;
        xx += weight * x * x;
        xy += weight * x * y;
    }
    let spread = w * xx - x1 * x1;
    let slope = if spread > 0.0 { (w * xy - x1 * y1) / spread } else { 0.0 };
    ((y1 - slope * x1) / w, slope)
}

fn mean(points: &[Point]) -> f64 {
    let runs: f64 = points.iter().map(|p| count(p.runs)).sum();
    points.iter().map(|p| p.mean * count(p.runs)).sum::<f64>() / runs
}

fn linear(points: &[Point]) -> Fit {
    let (speed, slope) = line(points, |p| p.mean);
    let most = points.last().map_or(1.0, |p| p.n);
    if speed <= 0.0 || slope >= 0.0 {
        return Fit { speed: mean(points), form: Attenuation::Linear(0.0) };
    }
    // Not below a twentieth on what was seen.
    let alpha = (-slope / speed).min(0.95 / (most - 1.0).max(1.0));
    Fit { speed, form: Attenuation::Linear(alpha.min(0.99)) }
}

fn amdahl(points: &[Point]) -> Fit {
    let (inverse, slope) = line(points, |p| 1.0 / p.mean);
    if inverse <= 0.0 || slope <= 0.0 {
        return Fit { speed: mean(points), form: Attenuation::Amdahl(0.0) };
    }
    Fit { speed: 1.0 / inverse, form: Attenuation::Amdahl(slope / inverse) }
}

fn error(fit: &Fit, points: &[Point]) -> f64 {
    let off = |p: &Point| ((fit.speed * fit.form.factor(p.cores) - p.mean) / p.mean).powi(2);
    points.iter().map(|p| off(p) * count(p.runs)).sum()
}

/// The means, made falling, joined by straight lines; f(1) is the formula's where no run had one
/// core.
fn table(points: &[Point], formula: &Fit) -> Fit {
    let single = points.first().filter(|p| p.n <= 1.0).map(|p| p.mean);
    let speed = single.unwrap_or(formula.speed);
    let mut knots = vec![(1.0, 1.0)];
    let mut least = 1.0_f64;
    for point in points.iter().filter(|p| p.n > 1.0) {
        least = least.min(point.mean / speed).max(1e-3);
        knots.push((point.n, least));
    }
    let mut values = Vec::new();
    for pair in knots.windows(2) {
        if let [(n0, f0), (n1, f1)] = *pair {
            let mut n = n0;
            while n < n1 {
                values.push(f0 + (f1 - f0) * (n - n0) / (n1 - n0));
                n += 1.0;
            }
        }
    }
    values.push(least);
    Fit { speed, form: Attenuation::Table(values) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(sizes: &[u32], each: usize, f: impl Fn(f64) -> f64) -> Vec<CoreSpeed> {
        let one = |&cores: &u32| CoreSpeed { cores, speed: 50.0 * f(f64::from(cores)) };
        sizes.iter().map(one).flat_map(|r| std::iter::repeat_n(r, each)).collect()
    }

    #[test]
    fn each_form_is_found_again() {
        let fitted = fit(&runs(&[1, 4, 9], 2, |n| 1.0 - 0.05 * (n - 1.0)), 0.1).unwrap();
        let Attenuation::Linear(alpha) = fitted.form else { panic!("{fitted:?}") };
        assert!((alpha - 0.05).abs() < 1e-9 && (fitted.speed - 50.0).abs() < 1e-9);
        let fitted = fit(&runs(&[2, 8, 30], 1, |n| 1.0 / (1.0 + 0.2 * (n - 1.0))), 0.1).unwrap();
        let Attenuation::Amdahl(beta) = fitted.form else { panic!("{fitted:?}") };
        assert!((beta - 0.2).abs() < 1e-9 && (fitted.speed - 50.0).abs() < 1e-9);
        let steps = |n: f64| if n < 4.5 { 1.0 } else { 0.5 };
        let fitted = fit(&runs(&[1, 2, 4, 6], 3, steps), 0.1).unwrap();
        assert_eq!(fitted.form, Attenuation::Table(vec![1.0, 1.0, 1.0, 1.0, 0.75, 0.5]));
    }

    #[test]
    fn little_is_enough_and_nothing_breaks_it() {
        assert_eq!(fit(&[], 0.1), None);
        let one = fit(&[CoreSpeed { cores: 3, speed: 40.0 }], 0.1).unwrap();
        assert_eq!((one.form, one.speed), (Attenuation::Linear(0.1), 50.0));
        let rising = fit(&runs(&[1, 8], 1, |n| n), 0.1).unwrap();
        assert_eq!(rising.form, Attenuation::Linear(0.0));
        let odd = [CoreSpeed { cores: 0, speed: 1.0 }, CoreSpeed { cores: 1, speed: f64::NAN }];
        assert_eq!(fit(&odd, 0.1), None);
    }
}
