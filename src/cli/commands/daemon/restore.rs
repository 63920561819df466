// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx daemon restore`

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use phalanx_core::hash::fnv64;

use crate::command::output;
use crate::commands::doctor;
use crate::exit::{EXIT_CODES, Exit, Failure};
use crate::global::Global;
use crate::outcome::Outcome;

/// Take away what order.by added to waiting jobs, without plugin and phalanxd
///
/// A slurmctld that crashed, or since Slurm 25.05 stopped, saves jobs with their deltas; the plugin
/// removes them at its next start. Where it is gone, run this as root or SlurmUser: the ledger
/// phalanx_order in StateSaveLocation says what each site factor was. Values that others set since
/// stay. A later run that finds nothing removes the ledger.
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

/// Time within which slurmctld has saved the changed jobs.
const SAVED: Duration = Duration::from_secs(10);
const LEDGER_BYTES_MAX: u64 = 2 << 20;
/// Slurm's `NICE_OFFSET`, which stands for a site factor of 0.
const ZERO: i64 = 1 << 31;

/// Ledger by job: the site factor that others want, and the values that the overlay wrote.
type Ledger = BTreeMap<u32, (u32, Vec<u32>)>;

#[derive(Default, serde::Serialize)]
struct Report {
    restored: Vec<String>,
    /// Jobs that may keep a delta, each with the reason.
    left: Vec<String>,
    ledger_removed: bool,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let (path, overlay) = doctor::ledger().map_err(Failure::negative)?;
        if let Some(pid) = overlay {
            return Err(Failure::negative(format!(
                "slurmctld (pid {pid}) has the plugin loaded, which removes deltas itself: \
                 order.by = \"off\", then phalanx daemon reload"
            )));
        }
        let mut report = Report::default();
        if path.exists() {
            let failed = |why| Failure::negative(format!("{}: {why}", path.display()));
            report = self.restore(&read(&path).map_err(failed)?).map_err(Failure::negative)?;
            if !self.dry_run {
                let settled = settle(&path, &report);
                report.ledger_removed = settled.map_err(|error| failed(error.to_string()))?;
            }
        }
        let exit = if report.left.is_empty() { Exit::Ok } else { Exit::Negative };
        let shown = global.show(&report, |report| self.text(report, &path))?;
        Ok(shown.ends_with(exit))
    }

    fn restore(&self, ledger: &Ledger) -> Result<Report, String> {
        let sites = output("sprio", &["-h", "-o", "%i %S"], b"")?;
        let sites: BTreeMap<&str, i64> = sites.lines().filter_map(site).collect();
        let list = ["SLURM_BITSTR_LEN=0", "squeue", "-a", "-h", "-t", "PD", "-o", "%A %F %i"];
        let mut report = Report::default();
        for line in output("env", &list, b"")?.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [job, array, name] = words[..] else { continue };
            let entry = |id: &str| ledger.get(&id.parse().ok()?);
            let Some(entry) = entry(job).or_else(|| entry(array)) else { continue };
            let Some(site) = sites.get(job) else {
                report.left.push(format!("job {name} is held or not eligible: not seen"));
                continue;
            };
            let Some(base) = base_of(entry, *site) else { continue };
            // A limit of tasks at once is no part of a job's name.
            let name = match name.split_once('%') {
                Some((tasks, _)) => format!("{tasks}]"),
                None => name.to_owned(),
            };
            let (id, value) = (format!("JobId={name}"), format!("SiteFactor={base}"));
            match self.dry_run || output("scontrol", &["update", &id, &value], b"").is_ok() {
                true => report.restored.push(format!("job {name}: site factor {site}, now {base}")),
                false => report.left.push(format!("scontrol update {id} {value} fails")),
            }
        }
        Ok(report)
    }

    fn text(&self, report: &Report, path: &Path) -> String {
        let (exists, path) = (path.exists(), path.display());
        let lines = report.restored.iter().chain(&report.left);
        let lines: String = lines.map(|line| format!("{line}\n")).collect();
        let end = match report.ledger_removed {
            true => format!("No waiting job has a delta: {path} is removed."),
            false if !exists => format!("Nothing to do: there is no {path}."),
            false if self.dry_run => "Nothing was changed.".to_owned(),
            false => format!("Run this again in {} s: it removes {path}.", SAVED.as_secs()),
        };
        format!("{lines}{end}\n")
    }
}

/// Returns the site factor before the overlay wrote the present one.
fn base_of((base, values): &(u32, Vec<u32>), site: i64) -> Option<i64> {
    let ours = values.iter().any(|value| i64::from(*value) - ZERO == site);
    let base = i64::from(*base) - ZERO;
    (ours && site != base).then_some(base)
}

fn site(line: &str) -> Option<(&str, i64)> {
    let (job, site) = line.trim().split_once(char::is_whitespace)?;
    Some((job, site.trim().parse().ok()?))
}

/// Removes the ledger if nothing was left and all is saved; returns whether it did.
fn settle(path: &Path, report: &Report) -> std::io::Result<bool> {
    if !report.restored.is_empty() {
        File::options().write(true).open(path)?.set_modified(SystemTime::now())?;
    }
    // A file of the future, after the clock was set back, is as young as can be: it is kept.
    let age = fs::metadata(path)?.modified()?.elapsed().unwrap_or_default();
    let done = report.restored.is_empty() && report.left.is_empty() && age >= SAVED;
    if done {
        fs::remove_file(path)?;
    }
    Ok(done)
}

/// Reads the ledger of this host's overlay: a regular file that only root and slurmctld's user may
/// write.
fn read(path: &Path) -> Result<Ledger, String> {
    let meta = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    let home = path.parent().and_then(|dir| fs::metadata(dir).ok()).map_or(0, |dir| dir.uid());
    if !meta.is_file() || ![0, home].contains(&meta.uid()) || meta.mode() & 0o022 != 0 {
        return Err("expected a regular file that only SlurmUser may write".to_owned());
    }
    if meta.len() > LEDGER_BYTES_MAX {
        return Err(format!("larger than {LEDGER_BYTES_MAX} bytes"));
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    parse(&bytes).ok_or_else(|| "damaged, or of another version of the plugin".to_owned())
}

/// Parses the ledger that `plugin/ledger.c` writes, in host byte order.
fn parse(bytes: &[u8]) -> Option<Ledger> {
    let hash = u64::from_ne_bytes(bytes.get(8..16)?.try_into().ok()?);
    let (words, rest) = bytes.as_chunks();
    let words: Vec<u32> = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
    let (entries, more) = words.get(6..)?.as_chunks::<16>();
    let head = [u32::try_from(entries.len()).ok()?, 64];
    let good = bytes.starts_with(b"PHLXODR2")
        && (words.get(4..6)? == head && rest.is_empty() && more.is_empty())
        && hash == fnv64(bytes.get(24..)?.iter().copied());
    let entry = |[job, _, base, _, _, _, _, _, count, values @ ..]: &[u32; 16]| {
        Some((*job, (*base, values.get(..*count as usize)?.to_vec())))
    };
    entries.iter().map(entry).collect::<Option<Ledger>>().filter(|_| good)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const BASE: u32 = 1 << 31;

    fn file(entries: &[[u32; 16]]) -> Vec<u8> {
        let body: Vec<u8> = entries.as_flattened().iter().flat_map(|w| w.to_ne_bytes()).collect();
        let hash = fnv64(body.iter().copied()).to_ne_bytes();
        let count = u32::try_from(entries.len()).unwrap().to_ne_bytes();
        [&b"PHLXODR2"[..], &hash, &count, &64_u32.to_ne_bytes(), &body].concat()
    }

    #[test]
    fn ours_are_values_of_the_ledger() {
        let entry = [5, 0, BASE + 70, 0, 1, 0, 0, 0, 2, BASE + 90, BASE - 3, 8, 0, 0, 0, 0];
        let ledger = parse(&file(&[entry])).unwrap();
        let base = |site| base_of(&ledger[&5], site);
        assert_eq!([90, -3, 70, 8, 0].map(base), [Some(70), Some(70), None, None, None]);
    }

    #[test]
    fn damaged_ledgers_are_refused() {
        let entry = [5, 0, BASE, 0, 1, 0, 0, 0, 1, BASE + 9, 0, 0, 0, 0, 0, 0];
        let good = file(&[entry, entry]);
        assert!(parse(&good).is_some() && parse(&file(&[])).is_some());
        for at in 0..good.len() {
            let mut wrong = good.clone();
            wrong[at] ^= 1;
            assert!(parse(&wrong).is_none() && parse(&good[..at]).is_none(), "byte {at}");
        }
        assert!(parse(&[&good[..], b"more"].concat()).is_none());
        let mut many = entry;
        many[8] = 8;
        assert!(parse(&file(&[many])).is_none());
    }

    #[test]
    fn lines_of_sprio() {
        assert_eq!(site("  12   -3"), Some(("12", -3)));
        assert_eq!((site("12"), site("12 x")), (None, None));
    }
}
