// SPDX-License-Identifier: GPL-3.0-or-later
//! PluginDir, the overlay's file, and whether slurmctld has it loaded.
//!
//! Slurm's loader takes the first file of the name in PluginDir that is of
//! exactly its own release and whose `init()` succeeds, and goes on to the
//! next directory otherwise; a directory that does not exist ends every
//! program that reads slurm.conf (22.05 `src/common/read_config.c`).

use std::path::Path;

use super::facts::{Directory, Facts};
use super::plugin::FILE;
use super::report::Finding;

pub(super) fn all(facts: &Facts) -> Vec<Finding> {
    let mut out = missing_directories(facts);
    if facts.conf.is_err() {
        return out;
    }
    let at = overlay_at(facts);
    match at {
        Some(at) => {
            out.push(order(facts, at));
            out.extend(version(facts, at));
            out.extend(rights(&facts.directories[at]));
            if !facts.is_controller() {
                out.push(on_another_host(&facts.directories[at].path));
            }
        }
        None => out.extend(not_found(facts)),
    }
    out.extend(unreadable(facts));
    out.extend(left(facts));
    if let (Some(at), Some(_)) = (at, &facts.slurmctld) {
        out.extend(loaded(facts, &facts.directories[at]));
    }
    out
}

fn overlay_at(facts: &Facts) -> Option<usize> {
    facts.directories.iter().position(|dir| dir.file().is_some_and(|file| file.overlay))
}

fn stock_at(facts: &Facts) -> Option<usize> {
    facts.directories.iter().position(|dir| dir.stock().is_some())
}

/// Returns the commands that install an overlay of a version.
fn how_to_get(facts: &Facts, version: &str) -> String {
    let installer = facts.installer;
    format!(
        "{installer} install phalanx-slurm-plugin-{version}    # or build it, from the source of \
         exactly this Slurm: phalanx-overlay build --source DIR; then restart slurmctld"
    )
}

/// Returns the right `PluginDir=` line, with the overlay's directory first.
fn line(facts: &Facts, overlay: &Path) -> String {
    let mut entries = vec![overlay.display().to_string()];
    let rest = facts.directories.iter().map(|dir| &dir.path).filter(|path| *path != overlay);
    entries.extend(rest.map(|path| path.display().to_string()));
    if stock_at(facts).is_none()
        && let Some(stock) = &facts.stock
    {
        entries.push(stock.path.display().to_string());
    }
    format!("PluginDir={}", entries.join(":"))
}

fn missing_directories(facts: &Facts) -> Vec<Finding> {
    let missing = facts.directories.iter().filter_map(|dir| Some((dir, dir.error.as_ref()?)));
    let finding = |(dir, error): (&Directory, &String)| {
        let path = dir.path.display();
        let fix = match stock_at(facts).is_some() {
            true => format!("{} install phalanx-common  # or: install -d {path}", facts.installer),
            false => "the directory of Slurm's own plugins there, or no such entry".to_owned(),
        };
        Finding::error("plugin-dir-exists", format!("{path}, an entry of PluginDir, {error} here"))
            .why("every program of Slurm on this host stops with an error: slurmd, sbatch, squeue")
            .fix(fix)
            .at(facts.place("PluginDir"))
    };
    missing.map(finding).collect()
}

fn order(facts: &Facts, at: usize) -> Finding {
    let path = &facts.directories[at].path;
    let finding = match stock_at(facts) {
        Some(stock) if stock < at => {
            let (late, early) = (path.display(), facts.directories[stock].path.display());
            let what = format!("{late} comes after {early} in PluginDir");
            Finding::error("plugin-dir-order", what)
                .why("slurmctld takes the first file that fits: Slurm's own, and never the overlay")
        }
        Some(_) => {
            let what = "PluginDir has the overlay before Slurm's own";
            return Finding::ok("plugin-dir-order", what);
        }
        None => {
            let what = format!("no {FILE} of Slurm after {} in PluginDir", path.display());
            Finding::error("plugin-dir-stock", what)
                .why("the overlay hands every call on to Slurm's own, and does not load without")
        }
    };
    finding.fix(line(facts, path)).at(facts.place("PluginDir"))
}

fn version(facts: &Facts, at: usize) -> Option<Finding> {
    let overlay = facts.directories[at].file()?;
    let stock = facts.installed()?;
    let path = facts.directories[at].path.join(FILE);
    if overlay.version == stock.version {
        let what = format!("overlay and Slurm are of {}", stock.version);
        return Some(Finding::ok("overlay-version", what));
    }
    let what = format!(
        "{} is built for Slurm {}, but this host has Slurm {}",
        path.display(),
        overlay.version,
        stock.version
    );
    Finding::error("overlay-version", what)
        .why("slurmctld skips it, and Slurm places jobs by itself; no job is lost")
        .fix(how_to_get(facts, &stock.version))
        .some()
}

fn rights(directory: &Directory) -> Option<Finding> {
    let file = directory.file()?;
    let path = directory.path.join(FILE);
    let open = file.mode & 0o022 != 0;
    if !open && file.uid == 0 {
        return None;
    }
    let what =
        format!("{} belongs to user id {} with mode {:04o}", path.display(), file.uid, file.mode);
    let why = "whoever may write it runs code inside slurmctld";
    let fix = format!("chown root:root {0} && chmod 644 {0}", path.display());
    let finding = if open {
        Finding::error("overlay-rights", what)
    } else {
        Finding::warning("overlay-rights", what)
    };
    Some(finding.why(why).fix(fix))
}

fn on_another_host(path: &Path) -> Finding {
    let what = format!("{} has the overlay, but slurmctld does not run here", path.display());
    Finding::note("overlay-elsewhere", what)
        .why("it does nothing here; until Slurm 24.11 slurmd and clients load it for nothing")
        .fix("leave the directory empty on this host")
}

/// Reports that no overlay is in PluginDir, but only on the controller.
fn not_found(facts: &Facts) -> Option<Finding> {
    if !facts.is_controller() {
        return None;
    }
    let home = &facts.home.path;
    let listed = facts.directories.iter().find(|dir| dir.path == *home);
    let running = || facts.running.as_ref().ok()?.get("SLURM_VERSION");
    let version = facts.installed().map(|file| file.version.as_str()).or_else(running);
    if facts.home.file().is_some_and(|file| file.overlay) {
        let what = format!("slurm.conf does not name {}, where the overlay is", home.display());
        return Finding::error("plugin-dir", what)
            .why("slurmctld loads Slurm's own plugin only")
            .fix(format!("{}    # then restart slurmctld", line(facts, home)))
            .at(facts.place("PluginDir"))
            .some();
    }
    if !facts.directories.is_empty() && stock_at(facts).is_none() {
        let stock = facts.stock.as_ref()?;
        return Finding::error("plugin-dir-stock", "PluginDir lacks Slurm's own plugins")
            .why("slurmctld does not start without them")
            .fix(line(facts, &stock.path))
            .at(facts.place("PluginDir"))
            .some();
    }
    let version = version.unwrap_or("VERSION");
    let what = match listed {
        Some(_) => format!("there is no overlay for Slurm {version} in {}", home.display()),
        None => {
            format!(
                "no directory of PluginDir has the overlay for Slurm {version}, and none is \
                     installed"
            )
        }
    };
    Finding::error("overlay", what)
        .why("Slurm places jobs by itself")
        .fix(how_to_get(facts, version))
        .some()
}

fn unreadable(facts: &Facts) -> Vec<Finding> {
    let bad = facts.directories.iter().filter_map(|dir| match &dir.plugin {
        Some(Err(error)) => Some((dir, error)),
        _ => None,
    });
    let finding = |(dir, error): (&Directory, &String)| {
        Finding::error("plugin-file", format!("{} {error}", dir.path.join(FILE).display()))
            .why("slurmctld goes on to the next directory")
            .fix("install the package that it belongs to again")
    };
    bad.map(finding).collect()
}

/// Finds a ledger of the order of starts that no overlay reads.
fn left(facts: &Facts) -> Option<Finding> {
    let (path, slurmctld) = (facts.ledger.as_ref()?, facts.slurmctld.as_ref()?);
    Finding::warning("order-ledger", format!("{} is there, the overlay is not", path.display()))
        .why("waiting jobs may keep what order.by added to their priority")
        .fix("phalanx daemon restore")
        .when(slurmctld.mapped.is_some() && !slurmctld.has_overlay())
}

/// Checks whether the running slurmctld has loaded an overlay, and the installed one.
fn loaded(facts: &Facts, overlay: &Directory) -> Option<Finding> {
    let slurmctld = facts.slurmctld.as_ref()?;
    let fits = overlay.file()?.version == facts.installed()?.version;
    let pid = slurmctld.pid;
    let Some(mapped) = &slurmctld.mapped else {
        let connected = matches!(&facts.status, Some(Ok(status)) if status.plugin.connected);
        let what = format!("what slurmctld (pid {pid}) has loaded is visible to root only");
        return (!connected)
            .then(|| Finding::note("overlay-loaded", what).fix("sudo phalanx doctor"));
    };
    let restart = "systemctl restart slurmctld    # jobs keep running";
    match mapped.first() {
        Some((_, false)) => {
            let what = format!("slurmctld (pid {pid}) has the overlay loaded");
            Some(Finding::ok("overlay-loaded", what))
        }
        Some((path, true)) => {
            let path = path.display();
            let what =
                format!("slurmctld (pid {pid}) runs a copy of {path} that was replaced since");
            let finding = Finding::warning("overlay-loaded", what);
            Some(finding.why("it keeps working with the old one").fix(restart))
        }
        // Another release: that is said elsewhere, and a restart does not help.
        None if !fits => None,
        None => {
            let what = format!("slurmctld (pid {pid}) has not loaded the overlay");
            let why = "PluginDir is read at its start only; else its log says why: grep phalanx in \
                       SlurmctldLogFile";
            Some(Finding::error("overlay-loaded", what).why(why).fix(restart))
        }
    }
}
