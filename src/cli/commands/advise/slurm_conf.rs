// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx advise slurm.conf`: settings of Slurm that would have shortened waits.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use serde::Serialize;

use super::search::{self, Loads, Ratios, Run, Setting};
use crate::commands::report::doubt;
use crate::commands::simulate::{figures_text, rules};
use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::{Outcome, note_left_out};
use crate::site;
use crate::slurm_conf::SlurmConf as Conf;
use crate::text::units::{many, seconds};
use crate::text::{heading, table_of, wrapped};
use phalanx_config::Config;
use phalanx_core::problem::InputError;
use phalanx_sim::input;
use phalanx_sim::metrics::{Figures, span};
use phalanx_sim::nodes::NodeLoad;
use phalanx_sim::nodes::accounted::Accounting;
use phalanx_sim::nodes::load::happened;

/// Share of the jobs, the oldest, on which settings are chosen, percent.
const CHOSEN_ON: usize = 60;
/// Most jobs that are simulated of each part, the one on which settings are chosen and the rest:
/// those nearest to the cut between the parts.
const JOBS_MAX: usize = 10_000;
/// Changes of the times between arrivals, closer together and farther apart, percent.
const SHIFTS: [i64; 5] = [94, 97, 100, 103, 106];
/// Number of settings that are run with all arrivals.
const FINALISTS: usize = 6;
/// Score below which a setting is worth a change.
const GAIN: f64 = 0.97;
/// The largest ratio of waits of a class, by node-hours, or of the longest, that each line allows.
const MIDDLE: f64 = 1.10;
const LINES: [(&str, f64); 3] = [("safest", 1.02), ("middle", MIDDLE), ("shortest", f64::INFINITY)];
/// Ratio by which waits may be longer still on the jobs on which a setting was not chosen.
const SLACK: f64 = 0.05;

/// Show the lines of slurm.conf that would have shortened waits on this cluster
///
/// Jobs of the accounting are simulated under Slurm's own rules: with pairs of how many jobs of a
/// partition get reservations and from which age on, then with other intervals of backfill and with
/// a Weight by kind of node. Three lines are chosen on the first 60 % of the jobs, and judged on
/// the rest, whose arrivals are also drawn together and apart by up to 6 %. Nothing is changed, and
/// no daemon is needed. A month takes minutes.
#[derive(clap::Args, Debug)]
pub struct SlurmConf {
    /// Accounting: the output of sacct --parsable2 (plain, .gz or .zst; - is standard input)
    #[arg(long, value_name = "FILE")]
    sacct: PathBuf,
    /// Nodes, partitions and scheduling
    #[arg(long, value_name = "FILE", default_value = "/etc/slurm/slurm.conf")]
    slurm_conf: PathBuf,
}

/// Output of `--json`.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// The line for slurm.conf; absent where nothing is better.
    line: Option<String>,
    /// The lines that give nodes a Weight, if the setting includes one.
    weights: Vec<String>,
    /// The safest, the middle and the shortest line, without duplicates.
    lines: Vec<Line>,
    /// Settings with ratios of their waits to those of today's, on the first jobs, best first.
    tried: Vec<Ratios>,
    /// The chosen setting, and today's, on the rest of the jobs.
    then: Option<Figures>,
    now: Figures,
    /// Least and largest ratio of the mean waits over the shifts of the rest.
    spread: Option<[f64; 2]>,
    /// Reason why simulated Slurm may differ from this cluster's, if it may.
    doubt: Option<String>,
    /// Jobs on which the setting was chosen, and jobs on which it was judged.
    jobs: [usize; 2],
    /// Verdict in a sentence.
    sentence: String,
}

/// One of the lines that are judged: the safest, the middle or the shortest.
#[derive(Debug, Clone, Serialize)]
struct Line {
    name: String,
    /// The line of SchedulerParameters.
    line: String,
    weights: Vec<String>,
    /// Ratios on the jobs on which the setting was not chosen, to today's setting.
    rest: Ratios,
    /// Whether the jobs on which the setting was not chosen are better off as well.
    holds: bool,
    /// Sentences on the jobs that are worse off.
    costs: Vec<String>,
}

impl SlurmConf {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let site = site::of_conf(&self.slurm_conf)?;
        let now = rules::rules(&Config::default(), Some(&self.slurm_conf))?.parameters;
        let name = input::shown(&self.sacct);
        let failed = |error| Failure::usage_line(InputError::new(&name, error));
        let accounting =
            Accounting::read(input::open(&self.sacct)?, &TimeZone::system()).map_err(failed)?;
        let (first, rest) = accounting.split(CHOSEN_ON);
        let first = accounting.latest(&first, JOBS_MAX);
        let rest = accounting.earliest(&rest, JOBS_MAX);
        let first = accounting.load(&site, &first).map_err(failed)?;
        let rest = accounting.load(&site, &rest).map_err(failed)?;
        note_left_out(&name, &first.left_out);
        let report = self.report(&first, &rest, &now)?;
        global.show(&report, text)
    }

    fn report(
        &self,
        first: &NodeLoad,
        rest: &NodeLoad,
        now: &phalanx_sim::slurm::Parameters,
    ) -> Result<Report, Failure> {
        let all = [Loads::new(first.clone())];
        let (mut tried, today) = search::search(&all, now)?;
        tried.sort_by(|a, b| a.1.score.total_cmp(&b.1.score));
        let mut report = Report {
            jobs: [first.jobs.len(), rest.jobs.len()],
            doubt: today.first().and_then(|of| self.doubt(&all, of)),
            ..Report::default()
        };
        let finalists: Vec<Setting> = std::iter::once(Setting::now(now))
            .chain(finalists(&tried).into_iter().cloned())
            .collect();
        let runs = under(first, &finalists)?;
        let judged = judged(&finalists, &runs);
        let chosen = lines(&judged);
        let chosen: Vec<(&str, Setting)> =
            chosen.into_iter().map(|(name, of)| (name, of.clone())).collect();
        let mut settings = vec![Setting::now(now)];
        settings.extend(chosen.iter().map(|(_, setting)| setting.clone()));
        let runs = under(rest, &settings)?;
        let as_is = runs.first().cloned().unwrap_or_default();
        for ((name, setting), own) in chosen.iter().zip(runs.iter().skip(1)) {
            report.lines.push(self.line(name, setting, rest, &as_is, own)?);
        }
        let middle = SHIFTS.len() / 2;
        report.now = as_is.get(middle).map(|of| of.figures.clone()).unwrap_or_default();
        report.tried = tried.into_iter().map(|(_, ratios)| ratios).collect();
        report.choose(&chosen, &runs, middle);
        Ok(report)
    }

    /// Reason why the simulated Slurm may differ from this cluster's.
    fn doubt(&self, all: &[Loads], today: &Run) -> Option<String> {
        let Loads { load, pool, .. } = all.first()?;
        let config = phalanx_config::Config::default();
        let setup = phalanx_sim::nodes::Setup::of(
            &phalanx_sim::policy::SLURM,
            &config.tuning(),
            &config.gang_settings(),
            &phalanx_sim::slurm::Rules::default(),
        );
        let mut was = [happened(load, pool, &setup)];
        phalanx_sim::metrics::fill_cards(pool, &mut was, 0);
        let [(was, _)] = was;
        doubt(pool, &was, &today.figures)
    }

    fn line(
        &self,
        name: &str,
        setting: &Setting,
        rest: &NodeLoad,
        now: &[Run],
        then: &[Run],
    ) -> Result<Line, Failure> {
        let ratios = Ratios::new(&setting.name(), now, then);
        let holds = ratios.score < 1.0 && ratios.wait_mean < 1.0 && ratios.worst <= most(name);
        Ok(Line {
            name: name.to_owned(),
            line: line(&self.slurm_conf, &setting.words())?,
            weights: if setting.weights { search::weight_lines(rest) } else { Vec::new() },
            costs: costs(setting, &ratios),
            rest: ratios,
            holds,
        })
    }
}

impl Report {
    /// Chooses the middle line if it holds on the rest, else the safest line that does.
    fn choose(&mut self, chosen: &[(&str, Setting)], runs: &[Vec<Run>], middle: usize) {
        let is = |line: &&Line, name: &str| line.holds && line.name.contains(name);
        let found = ["middle", "safest"]
            .iter()
            .find_map(|name| self.lines.iter().position(|line| is(&line, name)));
        let (now, then) = (runs.first(), found.and_then(|at| runs.get(at + 1)));
        let (Some(at), Some(now), Some(then)) = (found, now, then) else {
            let why = match (self.lines.is_empty(), chosen.is_empty()) {
                (false, false) => "what the first jobs gain, the rest do not without harm",
                _ => "no setting shortens waits on the first jobs without making others longer",
            };
            self.sentence = format!("Leave slurm.conf as it is: {why}.");
            return;
        };
        let wait = |of: &Run| of.figures.wait_mean_s.unwrap_or(0.0) + 1.0;
        let ratios = now.iter().zip(then).map(|(now, then)| wait(then) / wait(now));
        let [low, high] = ratios.fold([f64::INFINITY, 0.0], |[low, high]: [f64; 2], ratio| {
            [low.min(ratio), high.max(ratio)]
        });
        self.spread = Some([low, high]);
        self.then = then.get(middle).map(|of| of.figures.clone());
        if let Some(line) = self.lines.get(at) {
            (self.line, self.weights) = (Some(line.line.clone()), line.weights.clone());
            let mean = |of: &Figures| span(of.wait_mean_s.unwrap_or(0.0));
            self.sentence = format!(
                "Set it: mean wait {} with {}, {} without; {low:.2} to {high:.2} times with \
                 arrivals shifted; nobody waits longer by more than {:.0} %.",
                self.then.as_ref().map(mean).unwrap_or_default(),
                line.rest.setting,
                mean(&self.now),
                (line.rest.worst - 1.0).max(0.0) * 100.0,
            );
        }
    }
}

/// The settings that may become a line: the best ones within each bound.
fn finalists(tried: &[(Setting, Ratios)]) -> Vec<&Setting> {
    let mut found: Vec<&Setting> = Vec::new();
    for (_, most) in LINES {
        let own = tried.iter().filter(|(_, of)| of.score < GAIN && of.worst <= most);
        for (setting, _) in own.take(FINALISTS / LINES.len()) {
            if !found.contains(&setting) {
                found.push(setting);
            }
        }
    }
    found
}

/// Settings with their ratios over all shifts.
fn judged<'a>(settings: &'a [Setting], runs: &[Vec<Run>]) -> Vec<(&'a Setting, Ratios)> {
    let now = runs.first().map_or(&[][..], Vec::as_slice);
    let each = settings.iter().zip(runs).skip(1);
    each.map(|(setting, runs)| (setting, Ratios::new(&setting.name(), now, runs))).collect()
}

/// The best setting within each bound, named once.
fn lines<'a>(judged: &[(&'a Setting, Ratios)]) -> Vec<(&'static str, &'a Setting)> {
    let mut found: Vec<(&'static str, &'a Setting)> = Vec::new();
    for (name, most) in LINES {
        let own = judged.iter().filter(|(_, of)| of.score < GAIN && of.worst <= most);
        let Some((setting, _)) = own.min_by(|a, b| a.1.score.total_cmp(&b.1.score)) else {
            continue;
        };
        match found.iter_mut().find(|(_, own)| own == setting) {
            Some((own, _)) if *own == "safest" && name == "middle" => *own = "safest and middle",
            Some((own, _)) if *own == "safest and middle" => *own = "safest, middle and shortest",
            Some((own, _)) => *own = "middle and shortest",
            None => found.push((name, *setting)),
        }
    }
    found
}

/// The greatest ratio of a class's waits, on jobs on which a line was not chosen, with which the
/// line still holds: the loosest bound of its names with [`SLACK`], at most [`MIDDLE`]. `shortest`
/// has no bound, and counts only where it is the only name.
fn most(name: &str) -> f64 {
    let named = LINES.iter().filter(|(own, most)| name.contains(own) && most.is_finite());
    named.map(|(_, most)| (most + SLACK).min(MIDDLE)).reduce(f64::max).unwrap_or(f64::INFINITY)
}

/// Returns a sentence for each cost of a setting.
fn costs(setting: &Setting, ratios: &Ratios) -> Vec<String> {
    let mut found = Vec::new();
    if ratios.worst > 1.02 {
        found.push(format!("{} is {:.2} times as long", ratios.worst_of, ratios.worst));
    }
    let value = |key: &str| setting.words.iter().find(|(own, _)| *own == key).map(|(_, of)| *of);
    if let Some(age_s) = value("bf_min_age_reserve").filter(|age_s| *age_s > 0) {
        found.push(format!(
            "a wide job younger than {} has no planned start in squeue --start; phalanx explain \
             has one",
            seconds(age_s.unsigned_abs())
        ));
    }
    if let Some(count) = value("bf_job_part_count_reserve").filter(|count| *count > 0) {
        found.push(format!("only {count} of a partition's jobs have nodes reserved at a time"));
    }
    if value("bf_window").is_some() {
        found.push("a longer window makes each pass of backfill look at more".to_owned());
    }
    found
}

/// Copies a load with the times between arrivals scaled to `percent`.
fn shifted(load: &NodeLoad, percent: i64) -> NodeLoad {
    let mut load = load.clone();
    for job in load.jobs.iter_mut().filter(|job| job.held.is_none()) {
        let since_s = job.job.submit_s.saturating_sub(load.begin_s);
        job.job.submit_s = load.begin_s.saturating_add(since_s.saturating_mul(percent) / 100);
    }
    load
}

/// Runs with all shifts of the arrivals.
fn under(load: &NodeLoad, settings: &[Setting]) -> Result<Vec<Vec<Run>>, Failure> {
    let loads: Vec<Loads> =
        SHIFTS.iter().map(|percent| Loads::new(shifted(load, *percent))).collect();
    search::under(&loads, settings)
}

/// The line of slurm.conf with `settings` in place of its own.
fn line(conf: &Path, settings: &[String]) -> Result<String, Failure> {
    let conf = Conf::read(conf).map_err(Failure::usage_line)?;
    let now = conf.get("SchedulerParameters").map_or("", |(value, _)| value);
    let key = |word: &str| word.split('=').next().unwrap_or_default().trim().to_lowercase();
    let is_new = |word: &str| settings.iter().any(|of| key(of) == key(word));
    let kept = now.split(',').filter(|word| !word.is_empty() && !is_new(word));
    let words: Vec<&str> = kept.chain(settings.iter().map(String::as_str)).collect();
    Ok(format!("SchedulerParameters={}", words.join(",")))
}

fn text(report: &Report) -> String {
    let mut out = wrapped(&report.sentence, "");
    if let Some(doubt) = &report.doubt {
        out.push_str(&wrapped(&format!("Take it with care: {doubt}"), ""));
    }
    let lines = report.line.iter().chain(&report.weights);
    lines.for_each(|line| out.push_str(&format!("\n{line}\n")));
    let [first, rest] = report.jobs;
    heading(
        &mut out,
        &format!("Chosen on {}, as ratios on the later {rest}", many(first as u64, "job")),
    );
    let ratio = |value: f64| format!("{value:.2}");
    table_of(&report.lines)
        .left("Line", |of| of.name.clone())
        .left("Setting", |of| of.rest.setting.clone())
        .right("Mean wait", move |of| ratio(of.rest.wait_mean))
        .right("By node-hours", move |of| ratio(of.rest.wait_by_work))
        .right("Ten longest", move |of| ratio(of.rest.wait_longest))
        .right("Worst", move |of| ratio(of.rest.worst))
        .add_to(&mut out);
    for line in report.lines.iter().filter(|line| !line.costs.is_empty()) {
        let costs = format!("The {} line costs: {}.", line.name, line.costs.join("; "));
        out.push_str(&wrapped(&costs, ""));
    }
    heading(&mut out, "These later jobs");
    let columns: Vec<&Figures> = [&report.now].into_iter().chain(&report.then).collect();
    out.push_str(&figures_text(&columns, &[]));
    heading(&mut out, "Tried on the first jobs: ratios to the settings as they are");
    table_of(&report.tried)
        .left("Setting", |of| of.setting.clone())
        .right("Score", move |of| ratio(of.score))
        .right("Mean wait", move |of| ratio(of.wait_mean))
        .right("By node-hours", move |of| ratio(of.wait_by_work))
        .right("95 %", move |of| ratio(of.wait_p95))
        .right("Ten longest", move |of| ratio(of.wait_longest))
        .right("Worst", move |of| ratio(of.worst))
        .add_to(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_sim::slurm::Parameters;

    fn setting(age_s: i64) -> Setting {
        let words = vec![("bf_min_age_reserve", age_s)];
        Setting { words, ..Setting::now(&Parameters::default()) }
    }

    #[test]
    fn three_lines_are_named_once() {
        let of = |score, worst| Ratios { score, worst, ..Ratios::default() };
        let settings = [setting(1), setting(2), setting(3)];
        let judged = |each: [(f64, f64); 3]| -> Vec<(&Setting, Ratios)> {
            settings.iter().zip(each).map(|(own, (score, worst))| (own, of(score, worst))).collect()
        };
        let names = |each| -> Vec<&str> {
            lines(&judged(each)).into_iter().map(|(name, _)| name).collect()
        };
        let differ = [(0.9, 1.0), (0.8, 1.08), (0.5, 1.4)];
        assert_eq!(names(differ), ["safest", "middle", "shortest"]);
        assert_eq!(names([(0.9, 1.0), (0.95, 1.0), (0.5, 1.4)]), ["safest and middle", "shortest"]);
        assert_eq!(names([(0.9, 1.0), (1.1, 1.0), (1.5, 1.4)]), ["safest, middle and shortest"]);
        assert_eq!(names([(0.99, 1.0), (0.98, 1.0), (1.5, 1.4)]), [""; 0], "too little");
    }

    /// Goal: a line that is both the safest and the middle one holds as the middle one does.
    #[test]
    fn lines_hold_by_what_they_are_named_for() {
        assert_eq!(most("safest"), 1.02 + SLACK);
        for name in ["middle", "safest and middle", "middle and shortest"] {
            assert_eq!(most(name), MIDDLE, "{name}");
        }
        assert_eq!(most("shortest"), f64::INFINITY);
    }

    #[test]
    fn a_cost_is_said() {
        let said = costs(&setting(14_400), &Ratios { worst: 1.0, ..Ratios::default() });
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("04:00:00 has no planned start in squeue --start"), "{said:?}");
    }
}
