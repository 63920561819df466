// SPDX-License-Identifier: GPL-3.0-or-later
//! The source's table and figures, as numbers and as one picture.

use std::time::Instant;

use phalanx_methods::bag::Mode;

use super::generate::Case;
use super::instance::{Instance, Rates, objective, problem};

const GAMMAS: [f64; 10] = [1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.4, 1.45, 1.5];
const SIZES: [usize; 5] = [30, 100, 500, 1000, 2000];
const FEW_GAMMAS: [f64; 3] = [1.2, 1.3, 1.5];

/// Methods that are compared: the source's three, and those of Phalanx.
pub const SHOWN: [(&str, Mode); 4] = [
    ("online", Mode::Seed),
    ("greedy", Mode::Greedy),
    ("average", Mode::Average),
    ("best", Mode::Best),
];
const COLOURS: [&str; 4] = ["#2166ac", "#d6604d", "#999999", "#1b7837"];

/// A point: its place on the axis, and the four values.
type Point = (f64, [f64; 4]);

/// Numbers of the figures.
pub struct Figures {
    /// Profit per second over gamma.
    table: Vec<Point>,
    /// Profit per second over the number of users, for each gamma.
    users: Vec<(f64, Vec<Point>)>,
    /// Milliseconds of one instance over the number of users.
    times: Vec<Point>,
    /// Profit per second of each order of bags, for each gamma.
    orders: Vec<(&'static str, f64, [f64; 4])>,
}

/// Mean objective of each method, and milliseconds of one call.
fn measure(rates: &Rates, gamma: f64, instances: &[Instance]) -> ([f64; 4], [f64; 4]) {
    let (mut value, mut ms) = ([0.0; 4], [0.0; 4]);
    for instance in instances {
        let problem = problem(rates, gamma, instance);
        for (at, (_, mode)) in SHOWN.iter().enumerate() {
            let begun = Instant::now();
            value[at] += objective(&problem, *mode).0;
            ms[at] += begun.elapsed().as_secs_f64() * 1e3;
        }
    }
    let mean = |sum: f64| sum / instances.len().max(1) as f64;
    (value.map(mean), ms.map(mean))
}

impl Figures {
    /// Works out all figures; `instances` gives the instances of a case.
    pub fn new(rates: &Rates, instances: impl Fn(Case) -> Vec<Instance>) -> Self {
        let once = instances(Case::EachTypeOnce);
        let table = GAMMAS.iter().map(|gamma| (*gamma, measure(rates, *gamma, &once).0)).collect();
        let mut times = Vec::new();
        let mut users: Vec<(f64, Vec<Point>)> =
            FEW_GAMMAS.iter().map(|gamma| (*gamma, Vec::new())).collect();
        for size in SIZES {
            let drawn = instances(Case::Users(size));
            for (gamma, points) in &mut users {
                let (value, ms) = measure(rates, *gamma, &drawn);
                points.push((size as f64, value));
                if *gamma == FEW_GAMMAS[0] {
                    times.push((size as f64, ms));
                }
            }
        }
        let orders = Case::ORDERS.iter().flat_map(|(name, case)| {
            let drawn = instances(*case);
            FEW_GAMMAS.map(|gamma| (*name, gamma, measure(rates, gamma, &drawn).0))
        });
        Self { table, users, times, orders: orders.collect() }
    }

    /// Prints the numbers, each figure as a table.
    pub fn print(&self) {
        let head = |title: &str, first: &str| {
            let names: String = SHOWN.iter().map(|(name, _)| format!(" {name:>9}")).collect();
            println!("\n{title}\n{first:>12}{names}");
        };
        let row = |first: String, values: &[f64; 4], digits: usize| {
            let cells: String = values.iter().map(|cell| format!(" {cell:>9.digits$}")).collect();
            println!("{first:>12}{cells}");
        };
        head("Table 1: profit per second over gamma, 30 users", "gamma");
        self.table.iter().for_each(|(gamma, values)| row(format!("{gamma:.2}"), values, 2));
        for (gamma, points) in &self.users {
            head(&format!("Figure 1: profit per second over users, gamma {gamma}"), "users");
            points.iter().for_each(|(users, values)| row(format!("{users}"), values, 2));
        }
        head("Figure 2: milliseconds for all users of an instance", "users");
        self.times.iter().for_each(|(users, values)| row(format!("{users}"), values, 3));
        head("Figure 3: profit per second by the order of bags", "order, gamma");
        self.orders
            .iter()
            .for_each(|(name, gamma, values)| row(format!("{name} {gamma}"), values, 2));
    }

    /// Violations of what must hold whatever the seed: `best` is never below the others. The
    /// source's method is above its rivals on most seeds, but not on all.
    pub fn faults(&self) -> Vec<String> {
        let table = self.table.iter().map(|(gamma, v)| (format!("gamma {gamma}"), v));
        let users = self.users.iter().flat_map(|(gamma, points)| {
            points.iter().map(move |(n, v)| (format!("{n} users, gamma {gamma}"), v))
        });
        let orders = self.orders.iter().map(|(name, gamma, v)| (format!("{name} {gamma}"), v));
        let below = |(name, values): (String, &[f64; 4])| {
            let [online, greedy, average, best] = *values;
            let other = online.max(greedy).max(average);
            (best < other).then(|| format!("{name}: best {best} is below {other}"))
        };
        table.chain(users).chain(orders).filter_map(below).collect()
    }

    /// Draws the figures as SVG, in four panels.
    pub fn svg(&self, of: &str) -> String {
        let mut out = format!(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 960 720' \
             font-family='sans-serif' font-size='12'>\n<rect width='960' height='720' \
             fill='white'/>\n<text x='20' y='22' font-size='14'>Bags: {of}</text>\n"
        );
        for (at, ((name, _), colour)) in SHOWN.iter().zip(COLOURS).enumerate() {
            let x = 480 + 110 * at;
            out += &format!(
                "<rect x='{x}' y='12' width='12' height='12' fill='{colour}'/>\
                 <text x='{}' y='22'>{name}</text>\n",
                x + 17
            );
        }
        let lines = |points: &[Point]| -> Vec<Vec<(f64, f64)>> {
            let of = |at: usize| points.iter().map(|(x, values)| (*x, values[at])).collect();
            (0..SHOWN.len()).map(of).collect()
        };
        let whole = |ticks: &[usize]| ticks.iter().map(|tick| *tick as f64).collect();
        let table = Panel {
            at: (0.0, 40.0),
            title: "Table 1: profit per second over gamma",
            ticks: vec![1.1, 1.2, 1.3, 1.4, 1.5],
            is_log: (false, false),
        };
        out += &table.lines(&[lines(&self.table)]);
        let users = Panel {
            at: (480.0, 40.0),
            title: "Figure 1: profit per second over users (gamma 1.2, 1.3, 1.5)",
            ticks: whole(&SIZES),
            is_log: (true, false),
        };
        out += &users.lines(&self.users.iter().map(|(_, p)| lines(p)).collect::<Vec<_>>());
        let times = Panel {
            at: (0.0, 380.0),
            title: "Figure 2: milliseconds for all users of an instance",
            ticks: whole(&SIZES),
            is_log: (true, true),
        };
        out += &times.lines(&[lines(&self.times)]);
        out += &self.bars((480.0, 380.0));
        out + "</svg>\n"
    }

    /// Draws figure 3, gamma 1.2.
    fn bars(&self, (left, top): (f64, f64)) -> String {
        let shown: Vec<_> = self.orders.iter().filter(|(_, g, _)| *g == FEW_GAMMAS[0]).collect();
        let most = shown.iter().flat_map(|(_, _, values)| *values).fold(1.0, f64::max);
        let mut out = format!(
            "<text x='{}' y='{}'>Figure 3: profit per second by the order of bags, gamma 1.2\
             </text>\n",
            left + 60.0,
            top + 16.0
        );
        let y = |value: f64| top + 290.0 - 250.0 * value.max(0.0) / most;
        out += &grid(left, y, most);
        for (at, (name, _, values)) in shown.iter().enumerate() {
            let from = left + 75.0 + 95.0 * at as f64;
            for (bar, (value, colour)) in values.iter().zip(COLOURS).enumerate() {
                let (x, y) = (from + 18.0 * bar as f64, y(*value));
                let height = top + 290.0 - y;
                out += &format!(
                    "<rect x='{x:.1}' y='{y:.1}' width='15' height='{height:.1}' \
                     fill='{colour}'><title>{value:.2}</title></rect>\n"
                );
            }
            out += &format!("<text x='{:.1}' y='{:.1}'>{name}</text>\n", from + 20.0, top + 308.0);
        }
        out
    }
}

/// Lines of the height axis.
fn grid(left: f64, y: impl Fn(f64) -> f64, most: f64) -> String {
    let step = 10_f64.powf((most / 2.0).log10().floor());
    let step = if most / step > 8.0 { step * 2.0 } else { step };
    let mut out = String::new();
    let mut value = 0.0;
    while value <= most {
        let at = y(value);
        out += &format!(
            "<path d='M{:.0} {at:.1}H{:.0}' stroke='#dddddd'/>\
             <text x='{:.0}' y='{:.1}' text-anchor='end'>{value:.0}</text>\n",
            left + 60.0,
            left + 450.0,
            left + 54.0,
            at + 4.0
        );
        value += step;
    }
    out
}

/// A panel of lines; values below 0 are not drawn.
struct Panel {
    at: (f64, f64),
    title: &'static str,
    ticks: Vec<f64>,
    /// Whether the axes of the panel are logarithmic.
    is_log: (bool, bool),
}

impl Panel {
    fn lines(&self, groups: &[Vec<Vec<(f64, f64)>>]) -> String {
        let (left, top) = self.at;
        let all = || groups.iter().flatten().flatten();
        let (across, up) = self.is_log;
        let scale = |is_log: bool, value: f64| if is_log { value.ln() } else { value };
        let least = all().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
        let most = all().map(|(x, _)| *x).fold(f64::NEG_INFINITY, f64::max);
        let (from, to) = (scale(across, least), scale(across, most));
        let x = |value: f64| left + 60.0 + 390.0 * (scale(across, value) - from) / (to - from);
        let highest = all().map(|(_, y)| *y).fold(0.0, f64::max);
        let lowest = all().map(|(_, y)| *y).filter(|y| *y > 0.0).fold(highest, f64::min);
        let base = if up { lowest.ln() } else { 0.0 };
        let y = |value: f64| {
            top + 290.0 - 250.0 * (scale(up, value) - base) / (scale(up, highest) - base)
        };
        let mut out =
            format!("<text x='{}' y='{}'>{}</text>\n", left + 60.0, top + 16.0, self.title);
        if up {
            for power in -4..4 {
                let value = 10_f64.powi(power);
                if value >= lowest && value <= highest {
                    let (y, at) = (y(value), left + 54.0);
                    out += &format!(
                        "<path d='M{:.0} {y:.1}H{:.0}' stroke='#dddddd'/>\
                         <text x='{at:.0}' y='{:.1}' text-anchor='end'>{value}</text>\n",
                        left + 60.0,
                        left + 450.0,
                        y + 4.0
                    );
                }
            }
        } else {
            out += &grid(left, y, highest);
        }
        for tick in &self.ticks {
            let (x, y) = (x(*tick), top + 308.0);
            out += &format!("<text x='{x:.1}' y='{y:.1}' text-anchor='middle'>{tick}</text>\n");
        }
        for (line, colour) in groups.iter().flat_map(|group| group.iter().zip(COLOURS)) {
            let seen = line.iter().filter(|(_, value)| *value > 0.0);
            let points: Vec<String> =
                seen.map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
            if points.len() > 1 {
                let points = points.join(" ");
                out += &format!(
                    "<polyline fill='none' stroke='{colour}' stroke-width='2' points='{points}'/>\n"
                );
            }
        }
        out
    }
}
