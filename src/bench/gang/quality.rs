// SPDX-License-Identifier: GPL-3.0-or-later
//! Quality and speed of the gang method on seeded instances.
//!
//! The first word behind `phalanx-bench gang-quality` says what is measured:
//!
//! - `gaps [DEADLINE_MS] [LONG_MS]`: families of 8 to 64 servers and 24 to 192 gangs; prints the
//!   gap of a short run to the best of all runs, and the certified gap
//! - `large`: 1,000 servers and 5,000 tasks, 10,000 servers and 10,000 gangs
//! - `table [MS] [LONG_MS]`: greedy, `seed`, and `ga` with and without its parts, each in the same
//!   time, as mean percent below the best value known, by family
//!
//! GANG_CPU_CLOCK=1 measures deadlines in processor time (busy machines); GANG_WORK=N replaces them
//! by a repeatable budget.

use nix::time::{ClockId, clock_gettime};
use phalanx_methods::gang::{
    Answer, AnyEdge, Edge, GaParams, Job, Mode, Options, Problem, Server, SolveError, Task, solve,
};
use phalanx_methods::learn::Growth;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::time::{Duration, Instant};

type Fail = Box<dyn std::error::Error>;

/// Kinds of instances, by how edges and values are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Family {
    /// One server kind, value by gang, edges to all servers.
    Uniform,
    /// Three server kinds, value by gang and server kind.
    Classes,
    /// A mean of its own on every server, a third of the servers reachable.
    Sparse,
    /// Instances like those of `Classes`, with counts and the exploration bonus.
    Learned,
    /// Few large devices per server: packing matters.
    Chunky,
}

const FAMILIES: [Family; 5] =
    [Family::Uniform, Family::Classes, Family::Sparse, Family::Learned, Family::Chunky];

struct Draw(Xoshiro256PlusPlus);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n.max(1)
    }
    fn range(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.below(hi - lo + 1)
    }
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0
    }
}

fn server_kind(family: Family, draw: &mut Draw) -> (usize, Vec<f64>) {
    let shapes: [[f64; 4]; 3] =
        [[64.0, 256.0, 0.0, 100.0], [64.0, 512.0, 8.0, 200.0], [128.0, 1024.0, 4.0, 100.0]];
    match family {
        Family::Uniform => (0, vec![64.0, 512.0, 8.0, 100.0]),
        Family::Chunky => (0, vec![32.0, 128.0, 4.0, 10.0]),
        _ => {
            let at = usize::try_from(draw.below(3)).unwrap_or(0);
            (at, shapes[at].to_vec())
        }
    }
}

fn request(family: Family, draw: &mut Draw) -> Vec<f64> {
    if family == Family::Chunky {
        let (cpu, memory) = (draw.range(5, 20), draw.range(10, 80));
        let (gpu, link) = (draw.range(0, 3), draw.range(1, 6));
        return [cpu, memory, gpu, link].map(|x| x as f64).to_vec();
    }
    let gpu = if draw.below(3) == 0 { draw.range(1, 4) } else { 0 };
    let (cpu, memory, link) = (draw.range(1, 24), draw.range(4, 200), draw.range(0, 30));
    [cpu, memory, gpu, link].map(|x| x as f64).to_vec()
}

fn instance(family: Family, servers: usize, gangs: usize, seed: u64, width: u64) -> Problem {
    let mut draw = Draw(Xoshiro256PlusPlus::seed_from_u64(seed));
    let kinds: Vec<(usize, Vec<f64>)> =
        (0..servers).map(|_| server_kind(family, &mut draw)).collect();
    let list = kinds.iter().enumerate().map(|(i, (_, capacity))| Server {
        name: format!("n{i}"),
        capacity: capacity.clone(),
        ..Server::default()
    });
    let list: Vec<Server> = list.collect();
    let mut jobs = Vec::new();
    for j in 0..gangs {
        let count = 1 + draw.below(width);
        let mut shapes = vec![request(family, &mut draw), request(family, &mut draw)];
        if draw.below(2) == 0 {
            shapes.truncate(1);
        }
        let worth = 0.5 + draw.unit();
        let mut tasks = Vec::new();
        for shape in &shapes {
            let size: f64 = shape.iter().zip([64.0, 512.0, 8.0, 100.0]).map(|(a, c)| a / c).sum();
            let base = worth * (0.1 + size);
            let (edges, any) = edges(family, &mut draw, base, &kinds);
            tasks.push(Task {
                request: shape.clone(),
                edges: edges.into(),
                any,
                ..Task::default()
            });
        }
        let shaped = (0..count).map(|q| match (q, tasks.len()) {
            (0, _) | (_, 1) => tasks[0].clone(),
            _ => tasks[1].clone(),
        });
        jobs.push(Job { id: format!("j{j}"), tasks: shaped.collect(), spread: false });
    }
    let learned = family == Family::Learned;
    Problem {
        kinds: ["cpu", "mem", "gpu", "link"].map(str::to_owned).to_vec(),
        cost: Some(vec![0.0001, 0.0, 0.001, 0.0]),
        slot: if learned { 500 } else { 1 },
        g: if learned { Growth::Source } else { Growth::None },
        bonus_scale: if learned { 0.02 } else { 1.0 },
        m: None,
        servers: list,
        jobs,
    }
}

fn edges(
    family: Family,
    draw: &mut Draw,
    base: f64,
    kinds: &[(usize, Vec<f64>)],
) -> (Vec<Edge>, Option<AnyEdge>) {
    match family {
        Family::Uniform | Family::Chunky => (vec![], Some(AnyEdge { mean: base, count: 3.0 })),
        Family::Sparse => {
            let list = (0..kinds.len()).filter(|_| draw.below(3) == 0).collect::<Vec<_>>();
            let edge = |s: usize| Edge {
                server: format!("n{s}"),
                mean: base * (0.7 + 0.6 * draw.unit()),
                count: 3.0,
            };
            (list.into_iter().map(edge).collect(), None)
        }
        Family::Classes | Family::Learned => {
            let by_kind = [0, 1, 2].map(|_| (0.7 + 0.6 * draw.unit(), draw.range(1, 60)));
            let edge = |(s, (kind, _)): (usize, &(usize, Vec<f64>))| Edge {
                server: format!("n{s}"),
                mean: base * by_kind[*kind].0,
                count: by_kind[*kind].1 as f64,
            };
            (kinds.iter().enumerate().map(edge).collect(), None)
        }
    }
}

/// A deadline from the present, measured as the environment says.
pub fn deadline(ms: u64, threads: usize) -> impl Fn() -> Option<Duration> + Sync {
    let begin = Instant::now();
    let limit = Duration::from_millis(ms);
    let cpu = std::env::var_os("GANG_CPU_CLOCK").is_some();
    let used = || {
        let now = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID);
        now.map_or(Duration::ZERO, Duration::from)
    };
    let cpu_begin = used();
    let divide = u32::try_from(threads).unwrap_or(1);
    move || {
        let spent = if cpu { (used() - cpu_begin) / divide } else { begin.elapsed() };
        Some(limit.saturating_sub(spent))
    }
}

fn timed(
    problem: &Problem,
    mode: Mode,
    ms: u64,
    threads: usize,
    seed: u64,
) -> Result<(Answer, f64), SolveError> {
    timed_by(problem, mode, GaParams::default(), (ms, threads, seed))
}

fn timed_by(
    problem: &Problem,
    mode: Mode,
    ga: GaParams,
    (ms, threads, seed): (u64, usize, u64),
) -> Result<(Answer, f64), SolveError> {
    let begin = Instant::now();
    let remaining = deadline(ms, threads);
    let work = std::env::var("GANG_WORK").ok().and_then(|w| w.parse().ok());
    let options = Options {
        mode,
        ga,
        seed,
        threads,
        work_max: work,
        remaining: if work.is_some() { &|| None } else { &remaining },
        ..Options::default()
    };
    let answer = solve(problem, &options)?;
    Ok((answer, begin.elapsed().as_secs_f64() * 1e3))
}

fn gaps(deadline_ms: u64, long_ms: u64) -> Result<(), Fail> {
    let (mut sum, mut worst, mut count) = (0.0, 0.0_f64, 0.0);
    println!("family   servers gangs seed |  short   long     gap%  certified% long% ms gens");
    for (servers, gangs) in [(8, 24), (16, 48), (32, 96), (64, 192)] {
        for family in FAMILIES {
            for seed in 1..=2 {
                let problem = instance(family, servers, gangs, seed * 1000 + 7, 16);
                let (short, ms) = timed(&problem, Mode::Ga, deadline_ms, 2, 1)?;
                let (long, _) = timed(&problem, Mode::Ga, long_ms, 2, 2)?;
                let best = short.index.max(long.index);
                let gap = 100.0 * (best - short.index) / best;
                sum += gap;
                worst = worst.max(gap);
                count += 1.0;
                println!(
                    "{family:?} {servers} {gangs} {seed} \
                     | {:.4} {:.4} {gap:.3} {:.3} {:.3} {ms:.0} {} {}",
                    short.index,
                    long.index,
                    100.0 * short.gap.unwrap_or(f64::NAN),
                    100.0 * long.gap.unwrap_or(f64::NAN),
                    short.generations,
                    short.proven_optimal,
                );
            }
        }
    }
    println!("instances {count}, mean gap {:.3} %, worst {worst:.3} %", sum / count);
    Ok(())
}

/// A column of the table.
struct Column {
    name: &'static str,
    mode: Mode,
    /// Whether the time counts; greedy orders stop at what they have when it is up.
    timed: bool,
    ga: GaParams,
}

fn columns() -> [Column; 5] {
    let column = |name, mode, ga| Column { name, mode, timed: name != "greedy", ga };
    let ga = GaParams::default();
    [
        column("greedy", Mode::Ga, ga),
        column("seed", Mode::Seed, ga),
        column("ga, no crossover", Mode::Ga, GaParams { crossover: 0.0, ..ga }),
        column("ga, population 1", Mode::Ga, GaParams { population: 1, ..ga }),
        column("ga", Mode::Ga, ga),
    ]
}

/// Returns by how much each column is below the best value known of an instance, percent, and how
/// many of two long runs were proven optimal.
fn gaps_of(
    problem: &Problem,
    columns: &[Column; 5],
    (ms, long_ms): (u64, u64),
) -> Result<([f64; 5], usize), Fail> {
    let long = [11, 12].map(|seed| timed(problem, Mode::Ga, long_ms, 2, seed));
    let mut values = [0.0; 5];
    for (value, column) in values.iter_mut().zip(columns) {
        let ms = if column.timed { ms } else { 0 };
        *value = timed_by(problem, column.mode, column.ga, (ms, 2, 1))?.0.index;
    }
    let mut best = values.iter().copied().fold(f64::MIN, f64::max);
    let mut proven = 0;
    for answer in long {
        let (answer, _) = answer?;
        best = best.max(answer.index);
        proven += usize::from(answer.proven_optimal);
    }
    Ok((values.map(|value| 100.0 * (best - value) / best.abs()), proven))
}

/// Prints what each part of the method earns, by family.
fn table(ms: u64, long_ms: u64) -> Result<(), Fail> {
    let columns = columns();
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    println!("| family | {} | proven optimal |\n|---|{}---|", names.join(" | "), "---|".repeat(5));
    for family in FAMILIES {
        let (mut sums, mut worst) = ([0.0; 5], [0.0_f64; 5]);
        let (mut count, mut proven) = (0.0, 0);
        for (servers, gangs) in [(8, 24), (16, 48), (32, 96), (64, 192)] {
            for number in [6007, 7007] {
                let problem = instance(family, servers, gangs, number, 16);
                let (gaps, proven_here) = gaps_of(&problem, &columns, (ms, long_ms))?;
                count += 1.0;
                proven += proven_here;
                for ((sum, worst), gap) in sums.iter_mut().zip(&mut worst).zip(gaps) {
                    *sum += gap;
                    *worst = worst.max(gap);
                }
            }
        }
        let cells = sums.iter().zip(worst).map(|(s, w)| format!("{:.2} ({w:.1})", s / count));
        let cells: Vec<String> = cells.collect();
        println!("| {family:?} | {} | {} of {count} |", cells.join(" | "), proven / 2);
    }
    Ok(())
}

fn large() -> Result<(), Fail> {
    for family in FAMILIES {
        let gangs = if family == Family::Sparse { 600 } else { 625 };
        let problem = instance(family, 1000, gangs, 11, 15);
        let tasks: usize = problem.jobs.iter().map(|j| j.tasks.len()).sum();
        let (answer, ms) = timed(&problem, Mode::Ga, 1000, 2, 1)?;
        println!(
            "{family:?} 1000 servers {tasks} tasks: \
             index {:.4} gap {:.3} % in {ms:.0} ms, {} of {} gangs",
            answer.index,
            100.0 * answer.gap.unwrap_or(f64::NAN),
            answer.assignment.len(),
            problem.jobs.len(),
        );
    }
    for family in [Family::Uniform, Family::Chunky] {
        let problem = instance(family, 10_000, 10_000, 12, 16);
        let tasks: usize = problem.jobs.iter().map(|j| j.tasks.len()).sum();
        let (answer, ms) = timed(&problem, Mode::Ga, 2000, 2, 1)?;
        println!(
            "{family:?} 10000 servers {tasks} tasks: \
             index {:.4} gap {:.3} % in {ms:.0} ms, {} of {} gangs",
            answer.index,
            100.0 * answer.gap.unwrap_or(f64::NAN),
            answer.assignment.len(),
            problem.jobs.len(),
        );
    }
    Ok(())
}

pub fn run(args: &[String]) -> Result<(), Fail> {
    let number = |i: usize, default: u64| -> Result<u64, Fail> {
        args.get(i).map_or(Ok(default), |s| s.parse::<u64>().map_err(Fail::from))
    };
    match args.first().map(String::as_str) {
        Some("gaps") => gaps(number(1, 100)?, number(2, 3000)?),
        Some("large") => large(),
        Some("table") => table(number(1, 100)?, number(2, 1500)?),
        _ => Err("usage: gang-quality gaps|large|table ...".into()),
    }
}
