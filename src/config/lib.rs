// SPDX-License-Identifier: GPL-3.0-or-later
//! The daemon's configuration: typed, with defaults, checked as a whole.
//!
//! One TOML file (`/etc/phalanx/phalanx.toml`) holds everything. A file that
//! does not set a key leaves it at its default, so an empty file is valid and
//! equals [`Config::default`]. A key is declared once, with its default, its
//! range and whether a change needs a restart ([`sections`]); the annotated file
//! `config/examples/phalanx.toml` documents each, and a test holds it to them.
//! Errors name file, line, column, key and what was expected, all of them at
//! once rather than the first only.
#![forbid(unsafe_code)]

pub mod args;
mod change;
mod check;
mod compare;
mod config;
mod energy;
mod error;
pub mod keys;
pub mod logging;
mod planning;
mod section;
mod sections;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use compare::{CompareConfig, Draw};
pub use config::{Config, Mode, PartitionConfig};
pub use energy::{EnergyConfig, Prices, watts_of};
pub use error::{ConfigError, Issue};
pub use planning::KWH;
pub use sections::{
    Admission, BagConfig, BagHold, BagMode, BalanceConfig, BalanceMode, CollectConfig,
    ControlConfig, DataJobsConfig, DataMode, ExpertConfig, GangConfig, GangMode, HdfsConfig,
    HistoryConfig, LearnConfig, LinkConfig, LogConfig, LogLevel, NoImprovement, OrderBy,
    OrderConfig, PLAN_JOBS_MAX, PlannerConfig, Proofs, PublicRead, SourceConfig, TopologyConfig,
    TopologyPolicy,
};

use phalanx_core::limits::CONFIG_BYTES_MAX;
use phalanx_core::snapshot::Node;
use phalanx_messages::collect::{Origin, Patch, Registration};
use phalanx_methods::learn::node_class_of;
use phalanx_planner::energy::DayPrices;

/// The file that `phalanxd` reads when `--config` is not given.
pub const DEFAULT_PATH: &str = "/etc/phalanx/phalanx.toml";

impl Config {
    /// Returns the configuration as TOML; parsing it gives the same configuration.
    pub fn text(&self) -> String {
        // Every value is a plain one, so this does not fail.
        toml::to_string(self).unwrap_or_default()
    }

    /// Reads and checks the file at `path`, of at most [`CONFIG_BYTES_MAX`] bytes.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let read = |source| ConfigError::Read { path: path.to_path_buf(), source };
        let mut bytes = Vec::new();
        let mut file = File::open(path).map_err(read)?.take(CONFIG_BYTES_MAX + 1);
        file.read_to_end(&mut bytes).map_err(read)?;
        if u64::try_from(bytes.len()).is_ok_and(|n| n > CONFIG_BYTES_MAX) {
            let text = format!("larger than {CONFIG_BYTES_MAX} bytes");
            return Err(read(std::io::Error::new(std::io::ErrorKind::FileTooLarge, text)));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Config::parse(&text, path),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let head = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
                let issue = Issue::at(&head, head.len(), "", "expected UTF-8 text");
                Err(ConfigError::Invalid { path: path.to_path_buf(), issues: vec![issue] })
            }
        }
    }

    /// Checks the text of a file; `path` is used in errors only.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        check::parse(text)
            .map_err(|issues| ConfigError::Invalid { path: path.to_path_buf(), issues })
    }

    /// Returns the socket of munged, if it is not the machine's own.
    pub fn munge_socket(&self) -> Option<PathBuf> {
        Some(PathBuf::from(&self.control.munge_socket)).filter(|path| !path.as_os_str().is_empty())
    }

    /// Returns the registrations of `[collector.NAME]`.
    pub fn registrations(&self) -> Vec<Registration> {
        let of = |(name, patch): (&String, &Patch)| {
            let mut registration = Registration {
                name: name.clone(),
                origin: Origin::Config,
                ..Registration::default()
            };
            patch.clone().apply(&mut registration);
            registration
        };
        self.collector.iter().map(of).collect()
    }

    /// Returns the mode in force for jobs of a partition and an account.
    pub fn mode_for(&self, partition: &str, account: &str) -> Mode {
        let of_partition = || self.partition.get(partition).and_then(|p| p.mode);
        self.account.get(account).copied().or_else(of_partition).unwrap_or(self.mode)
    }

    /// Returns the partitions with a mode of their own.
    pub fn partition_modes(&self) -> impl Iterator<Item = (&String, Mode)> {
        self.partition.iter().filter_map(|(name, own)| Some((name, own.mode?)))
    }

    /// Returns the modes that any jobs have.
    fn modes(&self) -> impl Iterator<Item = Mode> {
        let own = self.partition_modes().map(|(_, mode)| mode);
        std::iter::once(self.mode).chain(own).chain(self.account.values().copied())
    }

    /// Returns the prices of energy by the hour.
    pub fn energy_prices(&self) -> DayPrices {
        // The file was checked. By default about what industry in Europe pays for a kWh.
        let prices = self.energy.price.by_hour().ok().flatten();
        prices.unwrap_or_else(|| DayPrices::flat(0.3))
    }

    /// Power of a node, idle and with all CPUs in use, watts; `None` where that in use is not
    /// configured.
    pub fn node_watts(&self, node: &Node) -> Option<[f64; 2]> {
        let class = node_class_of(node, &self.learn.node_class_by);
        let of = |table| watts_of(table, &class, node);
        let busy = of(&self.energy.watts).or_else(|| of(&self.bag.watts))?;
        let idle = of(&self.energy.idle_watts).unwrap_or(0.0);
        Some([idle, busy.max(idle)])
    }

    /// Returns whether any job can get a decision.
    pub fn any_active(&self) -> bool {
        self.modes().any(|mode| mode != Mode::Off)
    }

    /// Returns whether pending jobs get deltas.
    pub fn orders(&self) -> bool {
        self.order.by != OrderBy::Off
    }

    /// Returns whether decisions are in force for any jobs.
    pub fn any_enforced(&self) -> bool {
        self.modes().any(|mode| mode == Mode::Enforce)
    }

    /// Returns sentences about settings that are valid but probably not meant.
    pub fn warnings(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.order.by == OrderBy::Price && self.energy.price == Prices::default() {
            out.push("order.by = \"price\" has no effect: energy.price is empty".to_owned());
        }
        if self.order.by != OrderBy::Off && !self.any_enforced() {
            out.push("order.by has no effect: no jobs are in mode \"enforce\"".to_owned());
        }
        if self.compare.share < 1.0 && !self.any_enforced() {
            out.push("compare.share has no effect: no jobs are in mode \"enforce\"".to_owned());
        }
        if !self.any_active() {
            out.push("mode is \"off\" everywhere: Slurm places every job".to_owned());
        }
        out
    }
}
