// SPDX-License-Identifier: GPL-3.0-or-later
//! Regret of the learned index on the worked examples' model.
//!
//! `phalanx-bench gang-regret [SLOTS] [RUNS] [FILE.svg]`: every slot both jobs arrive, the exact
//! argmax of the index runs, each task's value is its mean plus uniform noise in (-0.2, 0.2).
//! Prints the regret against the best assignment by bonus scale, mean and worst over the runs, and
//! how well the curve of the shipped scale fits a line in ln t; draws the mean curves over ln t,
//! with the deviation of the runs, into the file.

use phalanx_methods::gang::{Edge, Job, Mode, Options, Problem, Server, Task, solve};
use phalanx_methods::learn::{BONUS_SCALE_SHIPPED, Growth, Stat};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::plot::{self, Line, Panel, Spread};

#[path = "../../methods/tests/it/exact/gang.rs"]
mod oracle;

type Fail = Box<dyn std::error::Error>;

const REQUESTS: [[f64; 2]; 5] = [[2.0, 0.0], [2.0, 1.0], [2.0, 1.0], [1.0, 0.0], [3.0, 1.0]];
const VALUES: [&[f64]; 5] =
    [&[0.50, 0.40], &[0.80, 0.55], &[0.70, 0.65], &[0.30, 0.45, 0.35], &[0.60, 0.75, 0.90]];
const SERVERS: [&str; 3] = ["s0", "s1", "s2"];
/// Slots at which the regret is printed and the line is fitted.
const MARKS: [usize; 5] = [30, 100, 300, 1000, 3000];

fn model(edge: impl Fn(usize, usize) -> (f64, f64), slot: u64, g: Growth, scale: f64) -> Problem {
    let capacity = [[6.0, 2.0], [4.0, 1.0], [4.0, 1.0]];
    let task = |at: usize| Task {
        request: REQUESTS[at].to_vec(),
        edges: (0..VALUES[at].len())
            .map(|s| {
                let (mean, count) = edge(at, s);
                Edge { server: SERVERS[s].into(), mean, count }
            })
            .collect(),
        ..Task::default()
    };
    Problem {
        kinds: vec!["cpu".into(), "gpu".into()],
        cost: Some(vec![0.02, 0.1]),
        slot,
        g,
        bonus_scale: scale,
        m: Some(5),
        servers: SERVERS
            .iter()
            .zip(capacity)
            .map(|(name, c)| Server {
                name: (*name).into(),
                capacity: c.to_vec(),
                ..Server::default()
            })
            .collect(),
        jobs: vec![
            Job { id: "j0".into(), tasks: (0..3).map(task).collect(), spread: false },
            Job { id: "j1".into(), tasks: (3..5).map(task).collect(), spread: false },
        ],
    }
}

fn cost(at: usize) -> f64 {
    0.02 * REQUESTS[at][0] + 0.1 * REQUESTS[at][1]
}

/// Cumulative regret after each slot.
fn play(scale: f64, slots: usize, seed: u64, best: f64) -> Result<Vec<f64>, Fail> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut known = [[Stat::default(); 3]; 5];
    let mut regret = Vec::with_capacity(slots);
    let mut sum = 0.0;
    for slot in 1..=slots as u64 {
        let edge = |at: usize, s: usize| {
            let stat = known[at][s];
            (stat.mean, stat.count)
        };
        let problem = model(edge, slot, Growth::Source, scale);
        let options = Options { mode: Mode::Exact, ..Options::default() };
        let answer = solve(&problem, &options)?;
        let mut gained = 0.0;
        for placement in &answer.assignment {
            let first = if placement.job == "j0" { 0 } else { 3 };
            for (q, name) in placement.tasks.iter().enumerate() {
                let (at, s) = (first + q, SERVERS.iter().position(|n| n == name).ok_or("name")?);
                let noise = (rng.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0;
                let mean = VALUES[at][s] + 0.4 * noise - 0.2;
                known[at][s] = known[at][s].merge(Stat { count: 1.0, mean });
                gained += VALUES[at][s] - cost(at);
            }
        }
        sum += best - gained;
        regret.push(sum);
    }
    Ok(regret)
}

/// Coefficient of determination of a straight line through (ln t, regret), t from 10.
fn fit(curve: &[f64]) -> f64 {
    let points: Vec<(f64, f64)> =
        curve.iter().enumerate().skip(9).map(|(i, r)| (((i + 1) as f64).ln(), *r)).collect();
    let n = points.len() as f64;
    let (mx, my) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in points {
        xy += (x - mx) * (y - my);
        xx += (x - mx) * (x - mx);
        yy += (y - my) * (y - my);
    }
    if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 }
}

/// Bonus scale, and the regret of each run.
type Scale = (f64, Vec<Vec<f64>>);

/// Draws the mean regret over ln t, with its deviation at the marks: a straight line grows with ln
/// t.
fn svg(scales: &[Scale], marks: &[usize]) -> String {
    const COLOURS: [&str; 5] = ["#b2182b", "#ef8a62", "#777777", "#2166ac", "#053061"];
    // Curves of the large scales would flatten all others.
    let shown = scales.iter().filter(|(scale, _)| *scale <= 0.1).zip(COLOURS).enumerate();
    let line = |(at, ((scale, runs), colour)): (usize, (&Scale, &'static str))| {
        let slots = runs.first().map_or(0, Vec::len);
        let kept = (1..=slots).filter(|slot| *slot <= 50 || slot.is_multiple_of(10));
        // Bars of neighbours lie beside each other, left of the names.
        let aside = 1.0 - 0.03 * at as f64;
        Line {
            name: format!("scale {scale}"),
            colour,
            points: kept.map(|slot| (slot as f64, Spread::after(runs, slot).mean)).collect(),
            bars: marks.iter().map(|m| (*m as f64 * aside, Spread::after(runs, *m))).collect(),
        }
    };
    let lines: Vec<Line> = shown.map(line).collect();
    let runs = scales.first().map_or(0, |(_, runs)| runs.len());
    let panel = Panel {
        at: (60.0, 40.0),
        size: (540.0, 330.0),
        title: &format!("regret against the best assignment, mean and deviation of {runs} runs"),
        across: "slot t (logarithmic)",
        ticks: [1, 10].iter().chain(marks).map(|slot| *slot as f64).collect(),
        is_log: (true, false),
        least: 0.0,
        lines,
    };
    plot::page((720.0, 430.0), &panel.draw())
}

pub fn run(words: &[String]) -> Result<(), Fail> {
    let mut args = words.iter();
    let slots: usize = args.next().map_or(Ok(3000), |s| s.parse())?;
    let runs: u64 = args.next().map_or(Ok(20), |s| s.parse())?;
    let truth = model(|at, s| (VALUES[at][s], 1.0), 1, Growth::None, 1.0);
    let best = oracle::best(&truth)?.ok_or("no assignment")?.welfare;
    println!("best welfare per slot {best:.2}; shipped bonus scale {BONUS_SCALE_SHIPPED}");
    let marks: Vec<usize> = MARKS.into_iter().filter(|m| *m <= slots).collect();
    println!("scale   worst  R2(ln t)  regret after {marks:?} slots");
    let mut scales = Vec::new();
    for scale in [1.0, 0.3, 0.1, 0.03, 0.02, BONUS_SCALE_SHIPPED, 0.003] {
        let curves: Result<Vec<Vec<f64>>, Fail> =
            (1..=runs).map(|seed| play(scale, slots, seed, best)).collect();
        let curves = curves?;
        let worst = curves.iter().filter_map(|curve| curve.last()).copied().fold(0.0, f64::max);
        let mean: Vec<f64> = (1..=slots).map(|slot| Spread::after(&curves, slot).mean).collect();
        let row: Vec<String> =
            marks.iter().map(|m| format!("{:.2}", Spread::after(&curves, *m))).collect();
        println!("{scale:<6} {worst:6.2}  {:.4}  {}", fit(&mean), row.join("  "));
        scales.push((scale, curves));
    }
    if let Some(file) = args.next() {
        std::fs::write(file, svg(&scales, &marks))?;
    }
    Ok(())
}
