// SPDX-License-Identifier: GPL-3.0-or-later
//! Quality of the bisection method: the course cases compared with the published results, and a
//! generated large problem with its lower bound; both with round robin and weighted.
//!
//!     phalanx-bench bisect-quality [--large] [FILE...]
//!
//! FILE is a case of the course data set (jobs, hosts, alpha, transfer; cores; blocks per job;
//! speeds; block sizes; hosts of blocks). Exit code 1 when a named case is too long.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Context, Result};
use phalanx_methods::data_jobs::bisect::{Mode, Options, Problem, solve};
use serde_json::{Value, json};

/// Cases and the longest makespans, in ms, that mode `best` may have.
const LIMITS: [(&str, f64); 2] = [("task1_case1", 87_300.0), ("task2_case1", 40_700.0)];

pub fn run(words: &[String]) -> Result<bool> {
    let mut good = true;
    for argument in words {
        if argument == "--large" {
            good &= report("large", &drawn(1, 1000, |_| 32, 200, 500), f64::INFINITY)?;
            continue;
        }
        let text = std::fs::read_to_string(argument).with_context(|| argument.clone())?;
        let problem = parse(&text).with_context(|| format!("{argument}: not a course case"))?;
        let known = LIMITS.iter().find(|(name, _)| argument.contains(name));
        good &= report(argument, &problem, known.map_or(f64::INFINITY, |(_, limit)| *limit))?;
    }
    Ok(good)
}

fn report(name: &str, problem: &Value, limit: f64) -> Result<bool> {
    let text = problem.to_string();
    let problem: Problem<'_> = serde_json::from_str(&text)?;
    let mut line = name.to_owned();
    let mut good = true;
    for (label, mode) in Mode::ALL.into_iter().filter(|(_, mode)| *mode != Mode::Exact) {
        let begun = Instant::now();
        let options = Options { mode, seed: 0, expired: &|| false, explain: true };
        let answer = solve(&problem, &options)?;
        let (end, lower) = (answer.makespan_ms.0, answer.lower_bound_ms.0);
        let by = answer.explain.as_ref().map_or("", |explain| explain.found_by);
        let seconds = begun.elapsed().as_secs_f64();
        write!(line, " | {label} {end:.3} ms, bound {lower:.3}, {seconds:.2} s, by {by}")?;
        good &= mode != Mode::Best || end <= limit;
    }
    println!("{line}");
    Ok(good)
}

/// A case of the course data set.
fn parse(text: &str) -> Option<Value> {
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let head = lines.next()?;
    let numbers = |line: Option<Vec<&str>>| -> Option<Vec<f64>> {
        line?.iter().map(|word| word.parse().ok()).collect()
    };
    let jobs: usize = head.first()?.parse().ok()?;
    let alpha: f64 = head.get(2)?.parse().ok()?;
    let transfer = head.get(3).and_then(|word| word.parse::<f64>().ok()).unwrap_or(125.0);
    let cores: Vec<usize> =
        lines.next()?.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    lines.next()?;
    let speeds = numbers(lines.next())?;
    let sizes: Option<Vec<_>> = (0..jobs).map(|_| numbers(lines.next())).collect();
    let places: Option<Vec<_>> = (0..jobs).map(|_| numbers(lines.next())).collect();
    let (sizes, places) = (sizes?, places?);
    let host = |(k, n): (usize, &usize)| json!({"name": format!("{k}"), "cores": n});
    let hosts: Vec<Value> = cores.iter().enumerate().map(host).collect();
    let job = |i: usize| {
        let pairs = sizes[i].iter().zip(&places[i]).enumerate();
        let block = |(b, (size, place)): (usize, (&f64, &f64))| {
            let replicas = [format!("{place}")];
            json!({"id": format!("{b}"), "size_mb": size, "replicas": replicas})
        };
        let blocks: Vec<Value> = pairs.map(block).collect();
        json!({"id": format!("{i}"), "speed_mb_per_s": speeds[i], "blocks": blocks})
    };
    let jobs: Vec<Value> = (0..jobs).map(job).collect();
    Some(json!({"alpha": alpha, "transfer_mb_per_s": transfer, "hosts": hosts, "jobs": jobs}))
}

/// Draws blocks of 64 to 128 MB with three replicas each, by a small congruential generator.
pub fn drawn(
    seed: u64,
    hosts: usize,
    cores: impl Fn(usize) -> usize,
    jobs: usize,
    blocks: usize,
) -> Value {
    let mut state = seed;
    let mut below = move |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % limit
    };
    let host = |k: usize| json!({"name": format!("h{k}"), "cores": cores(k)});
    let list: Vec<Value> = (0..hosts).map(host).collect();
    let mut job = |i: usize| {
        let mut block = |b: usize| {
            let first = below(hosts as u64);
            let replicas: Vec<String> =
                (0..3).map(|r| format!("h{}", (first + r * 7) % hosts as u64)).collect();
            json!({"id": format!("b{b}"), "size_mb": 64 + below(65), "replicas": replicas})
        };
        let blocks: Vec<Value> = (0..blocks).map(&mut block).collect();
        json!({"id": format!("j{i}"), "speed_mb_per_s": 30 + below(70), "blocks": blocks})
    };
    let jobs: Vec<Value> = (0..jobs).map(&mut job).collect();
    json!({"hosts": list, "jobs": jobs})
}
