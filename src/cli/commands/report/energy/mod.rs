// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx report energy`

mod power;

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::{many, time};
use crate::text::{heading, table_of};
use crate::time::since_ms;
use phalanx_messages::rest::{EnergyShare, EnergyUse};

/// Show energy and its cost by user and account
///
/// The energy of a run is the one that Slurm measured, else the power of its nodes under full
/// load times its duration; a run that shares a node counts by its share of the CPUs. Cost is in
/// the unit of energy.price, money or carbon.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Begin of the period: a duration back from now (90min, 24h, 7d) or a time
    /// (2026-11-20, 2026-11-20T08:00, 2026-11-20T08:00:00Z)
    #[arg(long, value_name = "TIME", default_value = "7d")]
    since: String,
    /// Show instead the power of each class of nodes and jobs that decisions use, and where it
    /// comes from
    #[arg(long, conflicts_with = "since")]
    power: bool,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        if self.power {
            return global.report("/v1/history/energy", power::text);
        }
        global.report(&format!("/v1/energy?since={}", since_ms(&self.since)?), text)
    }
}

fn text(report: &EnergyUse) -> String {
    let mut out = String::new();
    let (all, since) = (&report.total, time(report.since_ms));
    if all.runs == 0 {
        heading(&mut out, &format!("No job ran since {since}."));
        return out;
    }
    let counted = all.runs.saturating_sub(all.unknown);
    let used = match counted {
        0 => "the power of their nodes is not known (energy.watts)".to_owned(),
        _ => format!("{counted} of them used {:.2} kWh for {:.2}", all.kwh, all.cost),
    };
    heading(
        &mut out,
        &format!(
            "{} of {:.2} CPU hours since {since}; {used}. Costs are in the unit of energy.price.",
            many(all.runs, "run"),
            all.cpu_hours
        ),
    );
    out.push('\n');
    let named = |row: &EnergyShare, none: &str| match row.name.as_str() {
        "" => none.to_owned(),
        name => name.to_owned(),
    };
    let known = |row: &EnergyShare, amount: f64| match row.runs == row.unknown {
        true => String::new(),
        false => format!("{amount:.4}"),
    };
    for (what, rows) in [("User", &report.users), ("Account", &report.accounts)] {
        let total = [report.total.clone()];
        table_of(
            rows.iter()
                .map(|row| (named(row, "(none)"), row))
                .chain(total.iter().filter(|_| what == "User").map(|row| ("all".to_owned(), row))),
        )
        .left(what, |(name, _)| name.clone())
        .right("Runs", |(_, row)| row.runs)
        .right("Running", |(_, row)| row.running)
        .right("CPU hours", |(_, row)| format!("{:.2}", row.cpu_hours))
        .right("kWh", |(_, row)| known(row, row.kwh))
        .right("Cost", |(_, row)| known(row, row.cost))
        .right("Measured", |(_, row)| row.measured)
        .right("Unknown", |(_, row)| row.unknown)
        .add_to(&mut out);
        out.push('\n');
    }
    if all.unknown > 0 && counted > 0 {
        out.push_str("Unknown: runs on nodes whose power is not known; energy.watts says it.\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, kwh: f64) -> EnergyShare {
        EnergyShare {
            name: name.to_owned(),
            runs: 12,
            running: 1,
            measured: 4,
            unknown: 2,
            cpu_hours: 1234.567,
            kwh,
            cost: kwh * 0.25,
        }
    }

    #[test]
    fn a_table_for_users_and_one_for_accounts() {
        let long = "account-of-a-site";
        let report = EnergyUse {
            time_ms: 2,
            since_ms: 1,
            total: row("", 20.0),
            users: vec![row("ada", 12.0), row("", 8.0)],
            accounts: vec![row(long, 20.0)],
        };
        let text = text(&report);
        let has = |words: &[&str]| {
            text.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == words)
        };
        assert!(has(&["ada", "12", "1", "1234.57", "12.0000", "3.0000", "4", "2"]), "{text}");
        assert!(has(&["(none)", "12", "1", "1234.57", "8.0000", "2.0000", "4", "2"]), "{text}");
        assert!(has(&["all", "12", "1", "1234.57", "20.0000", "5.0000", "4", "2"]), "{text}");
        assert!(has(&[long, "12", "1", "1234.57", "20.0000", "5.0000", "4", "2"]), "{text}");
        assert!(text.contains("energy.watts") && text.lines().all(|line| line.len() <= 100));
        let none = super::text(&EnergyUse::default());
        assert!(none.contains("No job ran since"), "{none}");
        let first = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(first.starts_with("12 runs of 1234.57 CPU hours since"), "{text}");
    }
}
