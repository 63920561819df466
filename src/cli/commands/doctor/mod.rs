// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx doctor`: is this host set up so that Slurm uses Phalanx, and if not, which line is to
//! be changed?
//!
//! [`facts`] gathers, the checks judge what was found (pure functions, one file
//! for each part), and the report lists their findings, worst first. Nothing
//! is changed and no plugin is loaded. The rules come from Slurm's loader
//! (`src/common/plugin.c`) and slurm.conf(5).

mod check_daemon;
mod check_data;
mod check_host;
mod check_overlay;
mod check_refused;
mod check_slurm;
mod facts;
mod files;
mod plugin;
mod render;
mod report;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use crate::exit::{DOCTOR_EXIT_CODES, Exit, Failure};
use crate::global::Global;
use crate::outcome::Outcome;
use crate::slurm_conf::SlurmConf;
use facts::Facts;
use phalanx_config::Config;
use report::{Level, Report};

/// Check this host: PluginDir, versions, sockets, munge, slurm.conf, clock
///
/// Each finding states the fact, its consequence and the line to change. Nothing is changed. Run it
/// as root to see also what slurmctld has loaded.
#[derive(clap::Args, Debug)]
#[command(after_help = DOCTOR_EXIT_CODES)]
pub struct Args {
    /// slurm.conf to judge by itself, whatever runs [default: what slurmctld works with, and
    /// $SLURM_CONF, else /etc/slurm/slurm.conf]
    #[arg(long, value_name = "FILE")]
    slurm_conf: Option<PathBuf>,
}

impl Args {
    /// Runs the checks; exit code 0 without errors and warnings, 1 with warnings, 2 with errors.
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let conf = find_conf(self.slurm_conf.clone());
        // A wrong configuration is something to report, not to stop at.
        let socket = global.control_socket().unwrap_or_else(|_| Config::default().control.socket);
        let config = global.config.as_deref();
        let facts = Facts::gather(&conf, config, &socket, self.slurm_conf.is_some());
        let report = judge(&facts, &conf);
        let exit = match (report.errors, report.warnings) {
            (0, 0) => Exit::Ok,
            (0, _) => Exit::Negative,
            _ => Exit::Usage,
        };
        Ok(global.show(&report, render::text)?.ends_with(exit))
    }
}

/// Returns the ledger of the order of starts, and the host's slurmctld with the overlay loaded.
///
/// # Errors
/// A sentence: slurmctld does not answer.
pub(super) fn ledger() -> Result<(PathBuf, Option<u32>), String> {
    let conf = SlurmConf::read(&find_conf(None))?;
    let slurmctld = facts::slurmctld(Some(&conf)).filter(facts::Slurmctld::has_overlay);
    let running = facts::running()?;
    let ledger = facts::ledger(&running).ok_or("slurmctld has no StateSaveLocation")?;
    Ok((ledger, slurmctld.map(|one| one.pid)))
}

fn judge(facts: &Facts, conf: &Path) -> Report {
    let mut findings = check_overlay::all(facts);
    findings.extend(check_slurm::all(facts));
    findings.extend(check_daemon::all(facts));
    findings.extend(check_host::all(facts));
    findings.extend(check_data::all(facts));
    findings.sort_by_key(|finding| finding.level);
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    Report {
        host: facts.host.clone(),
        role: if facts.is_controller() { "controller" } else { "other" },
        slurm_conf: conf.to_path_buf(),
        errors: count(Level::Error),
        warnings: count(Level::Warning),
        findings,
    }
}

/// Returns the place of slurm.conf: the given one, that of the environment, of Debian, or of a host
/// without one of its own.
fn find_conf(given: Option<PathBuf>) -> PathBuf {
    let variable = std::env::var_os("SLURM_CONF").filter(|path| !path.is_empty());
    if let Some(path) = given.or(variable.map(PathBuf::from)) {
        return path;
    }
    let usual = [
        "/etc/slurm/slurm.conf",
        "/run/slurm/conf/slurm.conf",
        "/etc/slurm-llnl/slurm.conf",
        "/usr/local/etc/slurm.conf",
    ];
    let found = usual.iter().map(Path::new).find(|path| path.is_file());
    found.unwrap_or(Path::new(usual[0])).to_path_buf()
}
