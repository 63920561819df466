// SPDX-License-Identifier: GPL-3.0-or-later
//! The source paper's experiments: its table and figures as numbers and as a picture, on
//! instances from seeds of our own ([`generate`] says how), or on the authors'.
//!
//!     phalanx-bench bag-experiments [--seed N] [--instances N] [--data DIR] [--svg FILE]
//!
//! With DIR (`ETC.csv`, `APC.csv`, `MPT.csv`, `TPT.csv`, `tarplee/` and the `case*.tar.gz`
//! archives of the authors' repository) also beside the published numbers, with the solver's own
//! improvements and times. Exit code 1 when a number that must hold does not.

mod figures;
mod generate;
mod instance;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use figures::Figures;
use generate::Case;
use instance::{Instance, Rates, objective, problem};
use phalanx_methods::bag::Mode;

/// Allowed distance of the seed's rule from the authors' raw results. Their code
/// truncates energies to integers while it sorts, adds rounded tasks to the load
/// of the wrong machine and reports the fractional value of the last user;
/// emulating that gives their numbers to all digits. In experiment 1, where both
/// are known, a clean implementation differs by up to 0.29 % (gamma 1.4).
const RAW_OFF_MAX: f64 = 0.003;

/// Instances of each point, as in the source.
const INSTANCES: usize = 100;

/// Columns of the tables.
const COLUMNS: [&str; 9] =
    ["seed", "greedy", "average", "exact", "integer", "template", "best", "revise", "LP bound"];

/// Authors' raw results (Online, Greedy, Average) and the clean implementation
/// of the seed's rule, experiment 1.
const EXPERIMENT_1: [(f64, [f64; 4]); 10] = [
    (1.05, [22.2331, 22.63056, -382.801, 22.236]),
    (1.10, [43.44407, 45.26112, -347.7672, 43.452]),
    (1.15, [70.4718, 67.89168, -312.7334, 70.487]),
    (1.20, [99.4998, 90.52223, -277.6996, 99.521]),
    (1.25, [130.6921, 113.1528, -242.6658, 130.718]),
    (1.30, [162.6537, 135.7834, -207.6321, 162.774]),
    (1.35, [190.9432, 158.4139, -172.5983, 191.220]),
    (1.40, [224.3987, 181.0445, -137.5645, 225.045]),
    (1.45, [255.7246, 203.675, -102.5307, 255.920]),
    (1.50, [297.6675, 226.3056, -67.49697, 297.428]),
];

pub fn run(words: &[String]) -> Result<bool> {
    let (mut data, mut svg): (Option<PathBuf>, Option<PathBuf>) = (None, None);
    let (mut limit, mut seed) = (INSTANCES, 1_u64);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--data" => data = Some(value()?.into()),
            "--svg" => svg = Some(value()?.into()),
            "--instances" => limit = value()?.parse().context("--instances")?,
            "--seed" => seed = value()?.parse().context("--seed")?,
            _ => bail!("unknown argument {word}; known: --data, --instances, --seed, --svg"),
        }
    }
    let mut report = Report::default();
    let rates = match &data {
        Some(data) => Rates { etc: csv(&data.join("ETC.csv"))?, apc: csv(&data.join("APC.csv"))? },
        None => generate::rates(seed),
    };
    let figures = Figures::new(&rates, |case| {
        let known = data.as_ref().zip(archive(case));
        let loaded = known.and_then(|(data, name)| load(data, &name, limit).ok());
        loaded.unwrap_or_else(|| case.instances(seed, limit))
    });
    figures.print();
    report.check(figures.faults().is_empty(), format!("figures: faults: {:?}", figures.faults()));
    if let Some(path) = svg {
        let of = match &data {
            Some(_) => "the authors' instances".to_owned(),
            None => format!("{limit} instances of seed {seed}"),
        };
        std::fs::write(&path, figures.svg(&of)).with_context(|| path.display().to_string())?;
    }
    if let Some(data) = &data {
        published(data, &rates, limit, &mut report)?;
    }
    println!();
    report.checks.iter().for_each(|line| println!("{line}"));
    Ok(!report.failed)
}

/// The authors' archive of a case, where there may be one; other cases are drawn.
fn archive(case: Case) -> Option<String> {
    let order = Case::ORDERS.iter().find(|(_, other)| *other == case);
    match (case, order) {
        (Case::EachTypeOnce, _) => Some("case1_gamma_n30".to_owned()),
        (Case::Users(users), _) => Some(format!("case2_n{users}")),
        (_, order) => order.map(|(name, _)| format!("case3_{name}")),
    }
}

/// Prints results beside the published numbers.
fn published(data: &Path, rates: &Rates, limit: usize, report: &mut Report) -> Result<()> {
    println!(
        "\nseed, greedy, average, exact, integer: every bag alone, final on arrival\n\
         template, best: final on arrival, the totals of each task type are known before\n\
         revise: best, tasks may move at each arrival"
    );
    experiment_1(rates, &load(data, "case1_gamma_n30", limit)?, report);
    for (case, paper) in [
        ("case2_n30", [92.683, 85.144]),
        ("case2_n500", [91.137, 91.102]),
        ("case3_BaS", [95.774, 85.891]),
        ("case3_Rand", [95.159, 86.209]),
    ] {
        experiment_2_3(rates, case, &load(data, case, limit)?, paper, report);
    }
    price_sweep(data, rates, report)?;
    first_instance(data, rates, report)?;
    speed(rates, &load(data, "case2_n500", 4)?, report);
    Ok(())
}

/// The numbers that must hold, and whether they do.
#[derive(Default)]
struct Report {
    checks: Vec<String>,
    failed: bool,
}

impl Report {
    fn check(&mut self, holds: bool, what: String) {
        self.failed |= !holds;
        self.checks.push(format!("{} {what}", if holds { "ok  " } else { "FAIL" }));
    }
}

fn csv(path: &Path) -> Result<Vec<Vec<f64>>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let row = |line: &str| line.split(',').map(|word| Ok(word.trim().parse()?)).collect();
    text.lines().map(row).collect()
}

/// The instances in an archive, in the archive's order.
fn load(data: &Path, case: &str, limit: usize) -> Result<Vec<Instance>> {
    unpack(data, case, None).map(|mut all| {
        all.truncate(limit);
        all
    })
}

fn unpack(data: &Path, case: &str, member: Option<&str>) -> Result<Vec<Instance>> {
    let path = data.join(format!("{case}.tar.gz"));
    let output = Command::new("tar").arg("-xzOf").arg(&path).args(member).output()?;
    if !output.status.success() {
        bail!("tar {}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    let mut words = text.split_whitespace();
    let mut instances = Vec::new();
    while let Some(users) = words.next() {
        let mut instance = Instance::new();
        for _ in 0..users.parse()? {
            let mut word = || words.next().with_context(|| format!("{case}: cut short"));
            instance.push((word()?.parse()?, word()?.parse()?));
        }
        instances.push(instance);
    }
    Ok(instances)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn whole(x: f64) -> u64 {
    x.round() as u64
}

/// Returns all columns for one instance, in the order of [`COLUMNS`].
fn columns(rates: &Rates, gamma: f64, instance: &Instance) -> [f64; 9] {
    let mut problem = problem(rates, gamma, instance);
    let modes = [
        Mode::Seed,
        Mode::Greedy,
        Mode::Average,
        Mode::Exact,
        Mode::Integer,
        Mode::Template,
        Mode::Best,
    ];
    let mut row = [0.0; 9];
    for (cell, mode) in row.iter_mut().zip(modes) {
        *cell = objective(&problem, mode).0;
    }
    problem.revise = true;
    (row[7], row[8]) = objective(&problem, Mode::Best);
    row
}

/// Means over the instances, and the instances in which `best` or `revise` is
/// below another mode.
fn means(rates: &Rates, gamma: f64, instances: &[Instance]) -> ([f64; 9], usize) {
    let mut sum = [0.0; 9];
    let mut below = 0;
    for instance in instances {
        let row = columns(rates, gamma, instance);
        let other = row[..6].iter().copied().fold(f64::NEG_INFINITY, f64::max);
        below += usize::from(row[6] < other - 1e-9 || row[7] < row[6] - 1e-9);
        sum.iter_mut().zip(row).for_each(|(sum, cell)| *sum += cell);
    }
    (sum.map(|cell| cell / instances.len() as f64), below)
}

fn print_row(gamma: f64, row: &[f64]) {
    print!("{gamma:>6.2}");
    row.iter().for_each(|cell| print!(" {cell:>9.3}"));
    println!();
}

fn print_head(title: &str, extra: &[&str]) {
    println!("\n{title} (profit per second, mean)");
    let names = COLUMNS.iter().chain(extra);
    println!(" gamma{}", names.map(|name| format!(" {name:>9}")).collect::<String>());
}

fn experiment_1(rates: &Rates, instances: &[Instance], report: &mut Report) {
    let title = format!("Experiment 1: {} instances, 30 users", instances.len());
    print_head(&title, &["p.online", "p.greedy", "p.average", "clean"]);
    let (mut worst, mut below) = ([0.0_f64; 3], 0);
    let (mut gain, mut committed, mut revised) = (0.0, 0.0, 0.0);
    for (gamma, [online, greedy, average, clean]) in EXPERIMENT_1 {
        let (row, bad) = means(rates, gamma, instances);
        below += bad;
        let all: Vec<f64> = row.into_iter().chain([online, greedy, average, clean]).collect();
        print_row(gamma, &all);
        for (worst, (found, wanted)) in
            worst.iter_mut().zip([(row[0], clean), (row[1], greedy), (row[2], average)])
        {
            *worst = worst.max((found / wanted - 1.0).abs());
        }
        if [1.2, 1.3, 1.5].contains(&gamma) {
            gain += (row[6] / row[0] - 1.0) / 3.0;
            committed += row[6] / row[8] / 3.0;
            revised += row[7] / row[8] / 3.0;
        }
    }
    for (name, worst) in ["seed", "greedy", "average"].iter().zip(worst) {
        let text = format!("exp. 1: {name} deviates by at most {:.4} %", worst * 100.0);
        report.check(worst <= 0.001, text);
    }
    let percent = |x: f64| format!("{:.1} %", x * 100.0);
    report.check(gain >= 0.3, format!("exp. 1: best is {} above seed", percent(gain)));
    report.check(
        committed >= 0.78,
        format!("exp. 1: best reaches {} of the bound", percent(committed)),
    );
    report
        .check(revised >= 0.9, format!("exp. 1: revise reaches {} of the bound", percent(revised)));
    report.check(below == 0, format!("exp. 1: best below another mode in {below} cases"));
}

fn experiment_2_3(
    rates: &Rates,
    case: &str,
    instances: &[Instance],
    paper: [f64; 2],
    report: &mut Report,
) {
    let users = instances.first().map_or(0, Vec::len);
    let title = format!("{case}: {} instances, {users} users", instances.len());
    print_head(&title, &["p.online", "p.greedy"]);
    for gamma in [1.2, 1.3, 1.5] {
        let (row, below) = means(rates, gamma, instances);
        let known = if gamma == 1.2 { paper } else { [f64::NAN; 2] };
        print_row(gamma, &row.into_iter().chain(known).collect::<Vec<_>>());
        report.check(below == 0, format!("{case} {gamma}: best below another mode in {below}"));
        if gamma == 1.2 {
            for (name, found, wanted) in [("seed", row[0], paper[0]), ("greedy", row[1], paper[1])]
            {
                let off = (found / wanted - 1.0).abs();
                let allowed = if name == "seed" { RAW_OFF_MAX } else { 0.001 };
                let text = format!(
                    "{case} {gamma}: {name} deviates by {:.4} % from the raw results",
                    off * 100.0
                );
                report.check(off <= allowed, text);
            }
        }
    }
}

/// Tarplee's offline price sweep without idle power.
fn price_sweep(data: &Path, rates: &Rates, report: &mut Report) -> Result<()> {
    let counts = csv(&data.join("MPT.csv"))?;
    let tasks = csv(&data.join("TPT.csv"))?;
    let path = data.join("tarplee/priceSweep.no_idle.csv");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    println!("\nOffline price sweep (Tarplee): gamma, bound, published, deviation");
    let mut worst = 0.0_f64;
    for line in text.lines().skip(1) {
        let row: Vec<f64> = line.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let [gamma, published, ..] = row.as_slice() else { bail!("{}: short", path.display()) };
        let bags = tasks.iter().flatten().enumerate();
        let instance = bags.map(|(k, &tasks)| (k, whole(tasks))).collect();
        let mut problem = problem(rates, *gamma, &instance);
        for (machine, &count) in problem.machine_types.iter_mut().zip(counts.iter().flatten()) {
            machine.count = whole(count);
        }
        let (found, bound) = objective(&problem, Mode::Best);
        let off = (bound / published - 1.0).abs();
        worst = worst.max(off);
        println!("{gamma:>6.2} {bound:>12.4} {published:>12.4} {off:>9.1e} best {found:>12.4}");
    }
    report.check(worst <= 1e-6, format!("price sweep: deviates by at most {worst:.1e}"));
    Ok(())
}

/// The authors' first instance at gamma 1.3.
fn first_instance(data: &Path, rates: &Rates, report: &mut Report) -> Result<()> {
    let instances = unpack(data, "case1_gamma_n30", Some("case1_gamma_n30/ist0.txt"))?;
    let [instance] = instances.as_slice() else { bail!("ist0.txt: one instance expected") };
    let problem = problem(rates, 1.3, instance);
    for (mode, wanted) in [
        (Mode::Seed, 142.186_848),
        (Mode::Exact, 133.046_257),
        (Mode::Greedy, 117.509_656),
        (Mode::Average, -204.956_417),
    ] {
        let found = objective(&problem, mode).0;
        let text = format!("ist0, gamma 1.3, {mode:?}: {found:.6}, wanted {wanted:.6}");
        report.check((found - wanted).abs() <= 1e-6 * wanted.abs(), text);
    }
    Ok(())
}

/// Times of one call of `solve`, the fastest of five.
fn speed(rates: &Rates, instances: &[Instance], report: &mut Report) {
    let many: Instance = instances.iter().flatten().copied().collect();
    println!("\nSolver time in ms, fastest of 5: 2,000 users; one bag of a million tasks");
    for (name, mode) in Mode::ALL {
        let mut row = Vec::new();
        for instance in [&many, &vec![(7, 1_000_000)]] {
            let problem = problem(rates, 1.3, instance);
            let time = |_| {
                let start = Instant::now();
                std::hint::black_box(objective(&problem, mode));
                start.elapsed().as_secs_f64() * 1e3
            };
            row.push((0..5).map(time).fold(f64::INFINITY, f64::min));
        }
        println!("{name:>9} {:>9.3} {:>9.3}", row[0], row[1]);
        let text = format!(
            "{name}: {} users in {:.2} ms, 10^6 tasks in {:.2} ms",
            many.len(),
            row[0],
            row[1]
        );
        report.check(row.iter().all(|&ms| ms <= 10.0), text);
    }
}
