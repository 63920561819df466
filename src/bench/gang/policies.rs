// SPDX-License-Identifier: GPL-3.0-or-later
//! The gang document's experiment: six policies on the same slots.
//!
//! `phalanx-bench gang-policies [SLOTS] [RUNS] [FILE.svg]`: five types of jobs with three tasks
//! each, four servers, two kinds of devices. Every slot one job of each type arrives and ends. A
//! task's value is the mean of its edge plus uniform noise in (-0.2, 0.2); policies that learn
//! know the values that they saw. Prints the social welfare (docs/methods.md, formula 6) and the
//! regret against the ideal, which knows the means: mean and standard deviation over the runs, each
//! on servers and values of its own; draws the regret into the file.

use phalanx_methods::gang::{Edge, Job, Mode, Options, Problem, Server, Task, solve};
use phalanx_methods::learn::{BONUS_SCALE_SHIPPED, Growth, Stat};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::plot::{self, Line, Panel, Spread};

type Fail = Box<dyn std::error::Error>;

const TYPES: usize = 5;
const TASKS: usize = 3;
const SERVERS: usize = 4;
const COST: [f64; 2] = [0.02, 0.1];
const NOISE: f64 = 0.2;
/// Slots at which the regret is printed.
const MARKS: [usize; 5] = [30, 100, 300, 1000, 3000];

/// Policies that place a slot's jobs.
#[derive(Clone, Copy, PartialEq)]
enum Policy {
    /// Gangs in any order, each task on any server with room.
    Random,
    /// Each task on the server with the least in use.
    LeastLoaded,
    /// The best plan by the observed means; 1 where nothing was observed.
    Greedy,
    /// The best plan by the optimistic index.
    Index,
    /// The index by the genetic algorithm of `mode = "ga"`.
    Ga,
    /// The index by the document's own genetic algorithm, `mode = "seed"`.
    SeedGa,
    /// The best plan by the true means.
    Ideal,
}

const POLICIES: [(Policy, &str, &str); 7] = [
    (Policy::Random, "random", "#b2182b"),
    (Policy::LeastLoaded, "least loaded", "#ef8a62"),
    (Policy::Greedy, "greedy", "#777777"),
    (Policy::SeedGa, "GA, mode seed", "#67a9cf"),
    (Policy::Ga, "GA", "#2166ac"),
    (Policy::Index, "index", "#053061"),
    (Policy::Ideal, "ideal", "#1b7837"),
];

/// Requests, servers and true means.
struct World {
    /// Requests by task of all types.
    requests: Vec<[f64; 2]>,
    /// Mean by task and server; `None`: no edge.
    means: Vec<[Option<f64>; SERVERS]>,
    capacity: [[f64; 2]; SERVERS],
}

fn uniform(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0
}

fn below(rng: &mut Xoshiro256PlusPlus, limit: usize) -> usize {
    // A limit of a few numbers fits anything.
    usize::try_from(rng.next_u64() % limit as u64).unwrap_or(0)
}

impl World {
    /// Draws types of tasks. The first task of a type is its parameter server and needs no GPU.
    fn new(rng: &mut Xoshiro256PlusPlus) -> Self {
        let mut requests = Vec::new();
        let mut means = Vec::new();
        for _ in 0..TYPES {
            let away = below(rng, SERVERS);
            for task in 0..TASKS {
                let gpus = if task == 0 { 0.0 } else { 1.0 };
                requests.push([1.0 + below(rng, 3) as f64, gpus]);
                let mut row = [None; SERVERS];
                for (server, mean) in row.iter_mut().enumerate().filter(|(s, _)| *s != away) {
                    // Servers differ, and each task's liking for them too.
                    let level = 0.3 + 0.5 * server as f64 / (SERVERS - 1) as f64;
                    *mean = Some((level + 0.4 * uniform(rng) - 0.2).clamp(0.05, 1.0));
                }
                means.push(row);
            }
        }
        Self { requests, means, capacity: [[8.0, 3.0], [8.0, 2.0], [6.0, 2.0], [6.0, 1.0]] }
    }

    fn problem(&self, slot: u64, g: Growth, edge: impl Fn(usize, usize) -> (f64, f64)) -> Problem {
        let task = |at: usize| Task {
            request: self.requests[at].to_vec(),
            edges: (0..SERVERS)
                .filter(|server| self.means[at][*server].is_some())
                .map(|server| {
                    let (mean, count) = edge(at, server);
                    Edge { server: server.to_string(), mean, count }
                })
                .collect(),
            ..Task::default()
        };
        let job = |l: usize| Job {
            id: l.to_string(),
            tasks: (l * TASKS..(l + 1) * TASKS).map(task).collect(),
            spread: false,
        };
        let server = |(at, capacity): (usize, &[f64; 2])| Server {
            name: at.to_string(),
            capacity: capacity.to_vec(),
            ..Server::default()
        };
        Problem {
            kinds: vec!["cpu".into(), "gpu".into()],
            cost: Some(COST.to_vec()),
            slot,
            g,
            bonus_scale: BONUS_SCALE_SHIPPED,
            m: Some((TYPES * TASKS) as u64),
            servers: self.capacity.iter().enumerate().map(server).collect(),
            jobs: (0..TYPES).map(job).collect(),
        }
    }

    fn solved(
        &self,
        problem: &Problem,
        mode: Mode,
        seed: u64,
    ) -> Result<Vec<(usize, usize)>, Fail> {
        // Servers evaluated by the genetic algorithm of mode "ga", a few milliseconds.
        let work_max = Some(50_000);
        let answer = solve(problem, &Options { mode, seed, work_max, ..Options::default() })?;
        let mut placed = Vec::new();
        for placement in &answer.assignment {
            let first = placement.job.parse::<usize>()? * TASKS;
            for (task, name) in placement.tasks.iter().enumerate() {
                placed.push((first + task, name.parse()?));
            }
        }
        Ok(placed)
    }

    /// Places gangs in random order, each task on the server with room that `choose` takes.
    fn one_by_one(
        &self,
        rng: &mut Xoshiro256PlusPlus,
        choose: impl Fn(&mut Xoshiro256PlusPlus, &[(usize, f64)]) -> usize,
    ) -> Vec<(usize, usize)> {
        let mut order: Vec<usize> = (0..TYPES).collect();
        (1..TYPES).rev().for_each(|at| order.swap(at, below(rng, at + 1)));
        let mut used = [[0.0; 2]; SERVERS];
        let mut placed = Vec::new();
        for l in order {
            let (mut own, before) = (Vec::new(), used);
            for at in l * TASKS..(l + 1) * TASKS {
                let fits = |s: &usize| {
                    let has = |k: usize| used[*s][k] + self.requests[at][k] <= self.capacity[*s][k];
                    self.means[at][*s].is_some() && has(0) && has(1)
                };
                let share =
                    |s: usize| (0..2).map(|k| used[s][k] / self.capacity[s][k]).fold(0.0, f64::max);
                let room: Vec<(usize, f64)> =
                    (0..SERVERS).filter(fits).map(|s| (s, share(s))).collect();
                if room.is_empty() {
                    break;
                }
                let server = choose(rng, &room);
                (0..2).for_each(|k| used[server][k] += self.requests[at][k]);
                own.push((at, server));
            }
            // A gang runs whole or not at all.
            if own.len() == TASKS { placed.extend(own) } else { used = before }
        }
        placed
    }

    fn gain(&self, placed: &[(usize, usize)]) -> f64 {
        let cost = |at: usize| COST[0] * self.requests[at][0] + COST[1] * self.requests[at][1];
        placed.iter().map(|&(at, s)| self.means[at][s].unwrap_or(0.0) - cost(at)).sum()
    }
}

/// Cumulative social welfare after each slot.
fn play(world: &World, policy: Policy, slots: usize, seed: u64) -> Result<Vec<f64>, Fail> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut known = vec![[Stat::default(); SERVERS]; TYPES * TASKS];
    let truth = world.problem(1, Growth::None, |at, s| (world.means[at][s].unwrap_or(0.0), 1.0));
    let ideal = world.solved(&truth, Mode::Exact, 1)?;
    let mut sum = 0.0;
    let mut curve = Vec::with_capacity(slots);
    for slot in 1..=slots as u64 {
        let seen = |at: usize, s: usize| {
            let stat = known[at][s];
            (stat.mean, stat.count)
        };
        let by_index = || world.problem(slot, Growth::Source, seen);
        let placed = match policy {
            Policy::Random => {
                world.one_by_one(&mut rng, |rng, room| room[below(rng, room.len())].0)
            }
            Policy::LeastLoaded => world.one_by_one(&mut rng, |_, room| {
                room.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |least| least.0)
            }),
            Policy::Greedy => {
                // Without a bonus it would try nothing: what it never saw is worth the most.
                let hoped = |at: usize, s: usize| match seen(at, s) {
                    (_, count) if count <= 0.0 => (1.0, 1.0),
                    known => known,
                };
                world.solved(&world.problem(slot, Growth::None, hoped), Mode::Exact, 1)?
            }
            Policy::Index => world.solved(&by_index(), Mode::Exact, 1)?,
            Policy::Ga => world.solved(&by_index(), Mode::Ga, slot)?,
            Policy::SeedGa => world.solved(&by_index(), Mode::Seed, slot)?,
            Policy::Ideal => ideal.clone(),
        };
        for &(at, s) in &placed {
            let mean = world.means[at][s].ok_or("a task where it has no edge")?;
            let value = mean + NOISE * (2.0 * uniform(&mut rng) - 1.0);
            known[at][s] = known[at][s].merge(Stat { count: 1.0, mean: value });
        }
        sum += world.gain(&placed);
        curve.push(sum);
    }
    Ok(curve)
}

/// Regret of each policy over the slots, a curve for each run.
type Regrets = Vec<Vec<Vec<f64>>>;

/// Draws the mean regret over the slots, with its deviation at the marks.
fn svg(regrets: &Regrets, marks: &[usize]) -> String {
    let line = |(at, regret): (usize, &Vec<Vec<f64>>)| {
        // Bars of neighbours lie beside each other, left of the names.
        let aside = 1.0 - 0.04 * at as f64;
        let slots = regret.first().map_or(0, Vec::len);
        let kept = (1..=slots).filter(|slot| *slot <= 30 || slot.is_multiple_of(30));
        Line {
            name: POLICIES[at].1.to_owned(),
            colour: POLICIES[at].2,
            points: kept.map(|slot| (slot as f64, Spread::after(regret, slot).mean)).collect(),
            bars: marks.iter().map(|m| (*m as f64 * aside, Spread::after(regret, *m))).collect(),
        }
    };
    // The ideal has no regret.
    let shown = regrets.iter().take(POLICIES.len() - 1).enumerate();
    let runs = regrets.first().map_or(0, Vec::len);
    let panel = Panel {
        at: (70.0, 40.0),
        size: (520.0, 380.0),
        title: &format!("regret against the ideal, mean and deviation of {runs} runs"),
        across: "slot",
        ticks: [1, 10].iter().chain(marks).map(|slot| *slot as f64).collect(),
        is_log: (true, true),
        least: 0.5,
        lines: shown.map(line).collect(),
    };
    plot::page((720.0, 480.0), &panel.draw())
}

pub fn run(words: &[String]) -> Result<(), Fail> {
    let mut args = words.iter();
    let slots: usize = args.next().map_or(Ok(3000), |s| s.parse())?;
    let runs: u64 = args.next().map_or(Ok(5), |s| s.parse())?;
    let marks: Vec<usize> = MARKS.into_iter().filter(|mark| *mark <= slots).collect();
    let mut regrets: Regrets = vec![Vec::new(); POLICIES.len()];
    let mut shares = vec![Vec::new(); POLICIES.len()];
    for seed in 1..=runs {
        let world = World::new(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        let ideal = play(&world, Policy::Ideal, slots, seed)?;
        for (at, (policy, ..)) in POLICIES.iter().enumerate() {
            let curve = play(&world, *policy, slots, seed)?;
            let last = |curve: &[f64]| curve.last().copied().unwrap_or(0.0);
            shares[at].push(100.0 * last(&curve) / last(&ideal));
            regrets[at].push(ideal.iter().zip(curve).map(|(best, own)| best - own).collect());
        }
    }
    println!("{runs} runs of {slots} slots; bonus scale {BONUS_SCALE_SHIPPED}");
    println!("policy         % of the ideal  regret after {marks:?} slots");
    for (((_, name, _), share), regret) in POLICIES.iter().zip(&shares).zip(&regrets) {
        let row: Vec<String> =
            marks.iter().map(|m| format!("{:.1}", Spread::after(regret, *m))).collect();
        println!("{name:<13} {:.2}  {}", Spread::of(share), row.join("  "));
    }
    if let Some(file) = args.next() {
        std::fs::write(file, svg(&regrets, &marks))?;
    }
    Ok(())
}
