// SPDX-License-Identifier: GPL-3.0-or-later
//! The balance document's worked example: a node of 100 CPUs, 1,000 GB and 10 GPUs, six jobs.
//!
//! `phalanx-bench balance-example [FILE.svg]`: first come, first served (a job that does not fit
//! waits, the next one is tried) beside the method, in the three readings of what job 5 asks for.
//! Prints what is placed and what is left of the node; draws it into the file.

use anyhow::Result;
use phalanx_methods::balance::{Mode, Problem, solve};
use serde_json::json;

use crate::plot::{self, grid, text};

const TOTAL: [u64; 3] = [100, 1000, 10];
const NAMES: [&str; 3] = ["CPU", "GB", "GPU"];
/// Jobs in their order: id, CPUs, GB and GPUs; those of job 5 as its list says.
const JOBS: [(&str, [u64; 3]); 6] = [
    ("5", [20, 500, 4]),
    ("2", [30, 400, 2]),
    ("1", [40, 200, 2]),
    ("4", [40, 300, 4]),
    ("3", [30, 300, 1]),
    ("6", [30, 200, 1]),
];
const COLOURS: [&str; 6] = ["#2166ac", "#b2182b", "#67a9cf", "#1b7837", "#ef8a62", "#999999"];

/// Places in [`JOBS`] of the jobs that run, and the jobs in one reading.
type Placed = (Vec<usize>, [(&'static str, [u64; 3]); 6]);

fn first_come() -> Placed {
    let mut left = TOTAL;
    let mut fits = |(_, (_, request)): &(usize, &(&str, [u64; 3]))| {
        let fits = request.iter().zip(&left).all(|(ask, free)| ask <= free);
        left.iter_mut().zip(request).filter(|_| fits).for_each(|(free, ask)| *free -= ask);
        fits
    };
    let placed = JOBS.iter().enumerate().filter(|job| fits(job)).map(|(at, _)| at);
    (placed.collect(), JOBS)
}

fn by_method(gpus: u64) -> Result<Placed> {
    let mut jobs = JOBS;
    jobs[0].1[2] = gpus;
    let list: Vec<_> =
        jobs.iter().map(|(id, request)| json!({"id": id, "request": request})).collect();
    // As in the document: usage alone gives weights, always below the threshold; who worsens waits.
    let problem = json!({"dimensions": NAMES, "weights_from": ["usage"], "threshold": 2.0,
        "no_improvement": "hold", "jobs": list,
        "nodes": [{"name": "a", "total": TOTAL, "used": [0, 0, 0]}]})
    .to_string();
    let problem: Problem<'_> = serde_json::from_str(&problem)?;
    let answer = solve(&problem, Mode::Seed, false)?;
    let is_placed = |at: &usize| answer.placements.iter().any(|p| p.id == jobs[*at].0);
    Ok(((0..jobs.len()).filter(is_placed).collect(), jobs))
}

fn left(placed: &Placed) -> [u64; 3] {
    let used = |at: usize| placed.0.iter().map(|job| placed.1[*job].1[at]).sum::<u64>();
    [0, 1, 2].map(|at| TOTAL[at] - used(at))
}

/// Stacked bars: the share of each resource that each job takes.
fn svg(cases: &[(String, Placed)]) -> String {
    let y = |percent: f64| 320.0 - 2.7 * percent;
    let mut out = text((60.0, 28.0), "start", "black", "percent of the node in use, by job");
    out += &grid((60.0, 780.0), y, &[0.0, 25.0, 50.0, 75.0, 100.0]);
    for (case, (name, placed)) in cases.iter().enumerate() {
        let from = 80.0 + 195.0 * case as f64;
        for (at, total) in TOTAL.iter().enumerate() {
            let (x, mut below) = (from + 52.0 * at as f64, 0.0);
            for job in &placed.0 {
                let (id, request) = placed.1[*job];
                let percent = 100.0 * request[at] as f64 / *total as f64;
                let (top, height) = (y(below + percent), 2.7 * percent);
                out += &format!(
                    "<rect x='{x:.0}' y='{top:.1}' width='42' height='{height:.1}' \
                     fill='{}' stroke='white'/>\n",
                    COLOURS[*job]
                );
                let middle = (x + 21.0, top + height / 2.0 + 4.0);
                out += &text(middle, "middle", "white", &format!("job {id}"));
                below += percent;
            }
            out += &text((x + 21.0, 338.0), "middle", "black", NAMES[at]);
        }
        out += &text((from + 73.0, 360.0), "middle", "black", name);
        let [cpus, memory, gpus] = left(placed);
        let rest = format!("left: {cpus} CPUs, {memory} GB, {gpus} GPUs");
        out += &text((from + 73.0, 378.0), "middle", "black", &rest);
    }
    plot::page((860.0, 395.0), &out)
}

pub fn run(words: &[String]) -> Result<()> {
    let mut cases = vec![("first come, first served".to_owned(), first_come())];
    for gpus in [4, 3, 1] {
        cases.push((format!("balance; job 5 asks for {gpus} GPU"), by_method(gpus)?));
    }
    for (name, placed) in &cases {
        let ids: Vec<&str> = placed.0.iter().map(|at| placed.1[*at].0).collect();
        println!("{name:<31} places {:<8} leaves {:?}", ids.join(", "), left(placed));
    }
    if let Some(file) = words.first() {
        std::fs::write(file, svg(&cases))?;
    }
    Ok(())
}
