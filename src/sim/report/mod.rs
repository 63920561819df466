// SPDX-License-Identifier: GPL-3.0-or-later
//! The report of a simulation: one HTML page with SVG pictures that needs no
//! network, and CSV files. Nothing in it depends on the real clock: the same
//! input gives the same bytes.

mod charts;
mod csv;
pub mod svg;

use std::fmt::Write as _;
use std::path::Path;

use super::card::{Card, ClassWaits};
use super::job::Workload;
use super::metrics::{FIGURES, Figure, Figures, Part};
use phalanx_core::problem::InputError;

/// Heading of the section with waits by class.
pub const WAITS: &str = "Median wait / 95 % waited at most";

/// Writes `report.html`, `summary.csv` and `jobs.csv` into a directory, which
/// is made if missing.
///
/// # Errors
/// Fails with the system's error and the name of the file.
pub fn of_pool(
    directory: &Path,
    title: &str,
    load: &Workload,
    parts: &[Part<'_>],
) -> Result<(), InputError> {
    let body = pictures(load, parts);
    let skipped = match load.skipped {
        0 => String::new(),
        skipped => format!(" ({skipped} more of the log cannot be run)"),
    };
    let about = format!("{} jobs on {} CPUs{skipped}", load.jobs.len(), load.cpus);
    let figures: Vec<&Figures> = parts.iter().map(|(figures, _)| *figures).collect();
    summary(directory, title, &about, &figures, &body)?;
    write(directory, "jobs.csv", &csv::jobs(load, parts))
}

/// Writes `report.html`, a page with the figures of the policies and `body`, and `summary.csv`.
///
/// # Errors
/// Fails as [`of_pool`] does.
pub fn summary(
    directory: &Path,
    title: &str,
    about: &str,
    figures: &[&Figures],
    body: &str,
) -> Result<(), InputError> {
    write(directory, "report.html", &page(title, about, figures, body))?;
    write(directory, "summary.csv", &csv::summary(figures))
}

/// The sections of a report: resources over time, waits, slowdowns, who runs when.
pub fn pictures(load: &Workload, parts: &[Part<'_>]) -> String {
    let mut body = String::new();
    for of in [&load.cpus_in_use()].into_iter().chain(&load.others) {
        section(&mut body, of.name, &charts::utilization(load, parts, of));
    }
    section(&mut body, "How long jobs wait", &charts::waits(load, parts));
    body
}

/// Makes the directory and a file in it, so that an error comes before a long simulation.
///
/// # Errors
/// Names the directory that cannot be made or written to.
pub fn prepare(directory: &Path) -> Result<(), InputError> {
    let failed = |error: std::io::Error| InputError::new(directory.to_string_lossy(), error);
    std::fs::create_dir_all(directory).map_err(failed)?;
    let trial = directory.join(".report.part");
    std::fs::write(&trial, "").and_then(|()| std::fs::remove_file(&trial)).map_err(failed)
}

/// Writes `text` to a file as a whole, or leaves the former file.
///
/// # Errors
/// Fails with the system's error and the name of the file.
pub fn write_file(path: &Path, text: &str) -> Result<(), InputError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    write(directory.unwrap_or(Path::new(".")), &name, text)
}

fn write(directory: &Path, name: &str, text: &str) -> Result<(), InputError> {
    let path = directory.join(name);
    let failed = |error: std::io::Error| InputError::new(path.to_string_lossy(), error);
    std::fs::create_dir_all(directory).map_err(failed)?;
    // Whoever ends the program meanwhile, or fills the disk, leaves no half file of this name.
    let part = directory.join(format!(".{name}.part"));
    let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &path));
    written.map_err(|error| {
        // What cannot be removed either is told by the first error.
        let _ = std::fs::remove_file(&part);
        failed(error)
    })
}

/// Adds a picture or table under a heading.
pub fn section(body: &mut String, heading: &str, picture: &str) {
    let _ = writeln!(body, "<section><h2>{heading}</h2>\n{picture}</section>");
}

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;color:#222;max-width:1000px;\
margin:2em auto;padding:0 1em}h1{font-size:1.5em;margin-bottom:0}h2{font-size:1.15em;\
margin:2em 0 .3em}p{color:#555;margin:.2em 0 1em}table{border-collapse:collapse;margin:1.5em 0}\
th,td{padding:.3em .9em;text-align:right;border-bottom:1px solid #ddd}th:first-child,\
td:first-child{text-align:left;white-space:nowrap}th{font-weight:600;color:#555}\
td.best{font-weight:700}\
i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.5em}\
svg{width:100%;min-width:620px;height:auto}\
section,.wide{overflow-x:auto}svg text{font:12px system-ui,sans-serif;fill:#444}";

fn page(title: &str, about: &str, figures: &[&Figures], body: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let about = format!("{about}, simulated by phalanx {version}");
    document(title, &about, &(table(figures, &[]) + &classes(figures) + body))
}

/// The waits by size and runtime as an HTML table, if cards are known.
pub fn classes(policies: &[&Figures]) -> String {
    let mut body = String::new();
    let cell = |cell: String| format!("<td>{}</td>", svg::escape(&cell));
    let row = |row: Vec<String>| row.into_iter().map(cell).collect();
    let rows: Vec<String> = waits(policies).into_iter().map(row).collect();
    if !rows.is_empty() {
        section(&mut body, WAITS, &rows_of(policies, "<th></th><th>Jobs</th>", &rows));
    }
    body
}

/// Rows of a class of size and runtime: its name, its jobs, the median and 95th percentile of their
/// waits under each policy; the last one has the user of the longest wait. None without cards.
pub fn waits(policies: &[&Figures]) -> Vec<Vec<String>> {
    let cards: Vec<Card> = policies.iter().map(|of| of.card.clone().unwrap_or_default()).collect();
    let Some(first) = cards.iter().find(|card| !card.classes.is_empty()) else { return vec![] };
    let both = |of: &ClassWaits| format!("{} / {}", short(of.wait_p50_s), short(of.wait_p95_s));
    let row = |(at, class): (usize, &ClassWaits)| {
        let cells = cards.iter().map(|card| card.classes.get(at).map(both).unwrap_or_default());
        let own = [format!("{}, {}", class.size, class.run), class.jobs.to_string()];
        own.into_iter().chain(cells).collect()
    };
    let longest = cards.iter().map(|card| card.longest.clone().unwrap_or_default().0);
    let last = ["longest wait of".to_owned(), String::new()].into_iter().chain(longest).collect();
    first.classes.iter().enumerate().map(row).chain([last]).collect()
}

/// Seconds in the unit that reads best.
fn short(seconds: i64) -> String {
    let value = seconds as f64;
    match seconds {
        ..100 => format!("{value:.0} s"),
        100..6_000 => format!("{:.0} min", value / 60.0),
        6_000..172_800 => format!("{:.1} h", value / 3600.0),
        _ => format!("{:.1} d", value / 86_400.0),
    }
}

/// An HTML page without references to other files; `title` and `about` are texts, `body` is HTML.
pub fn document(title: &str, about: &str, body: &str) -> String {
    let (title, about) = (svg::escape(title), svg::escape(about));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n<p>{about}</p>\n\
         {body}</body></html>\n",
    )
}

/// The policies' figures as an HTML table, of `keys` or of all; the best value is bold.
pub fn table(policies: &[&Figures], keys: &[&str]) -> String {
    let row = |figure: Figure| {
        let all = policies.iter().filter_map(|own| (figure.of)(own));
        let best = if figure.less { all.reduce(f64::min) } else { all.reduce(f64::max) };
        let cell = |own: &&Figures| {
            let is_best = keys.is_empty() && (figure.of)(own) == best;
            let class = if is_best { " class=\"best\"" } else { "" };
            format!("<td{class}>{}</td>", figure.shown(own))
        };
        format!("<td>{}</td>", figure.name) + &policies.iter().map(cell).collect::<String>()
    };
    let rows: Vec<String> = figures(policies, keys).into_iter().map(row).collect();
    rows_of(policies, "<th></th>", &rows)
}

/// A table with a column for each policy after those of `first`.
fn rows_of(policies: &[&Figures], first: &str, rows: &[String]) -> String {
    let mut out = format!("<div class=\"wide\"><table><tr>{first}");
    for (at, own) in policies.iter().enumerate() {
        let (colour, name) = (svg::colour(at), svg::escape(&own.policy));
        let _ = write!(out, "<th><i style=\"background:{colour}\"></i>{name}</th>");
    }
    out + "</tr>\n<tr>" + &rows.join("</tr>\n<tr>") + "</tr>\n</table></div>\n"
}

/// The figures of a table that any policy has: those of `keys`, or all.
pub fn figures(policies: &[&Figures], keys: &[&str]) -> Vec<Figure> {
    let is_there = |figure: &Figure| policies.iter().any(|own| (figure.of)(own).is_some());
    let is_asked = |figure: &Figure| keys.is_empty() || keys.contains(&figure.key);
    FIGURES.into_iter().filter(|figure| is_asked(figure) && is_there(figure)).collect()
}
