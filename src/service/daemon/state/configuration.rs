// SPDX-License-Identifier: GPL-3.0-or-later
//! The configuration in force and the file from which it was read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use log::{info, warn};

use phalanx_config::{Config, Mode, keys};
use phalanx_ffi::locks::{read, write};
use phalanx_messages::rest::{ConfigStatus, ReloadReport};

/// The configuration in force; [`reload`](Self::reload) replaces it.
#[derive(Debug)]
pub struct Configuration {
    path: PathBuf,
    in_force: RwLock<InForce>,
}

#[derive(Debug)]
struct InForce {
    config: Arc<Config>,
    generation: u64,
    needs_restart: Vec<String>,
    last_error: Option<String>,
}

impl Configuration {
    /// Makes the first configuration, of generation 1.
    pub fn new(path: &Path, config: Arc<Config>) -> Self {
        let in_force =
            InForce { config, generation: 1, needs_restart: Vec::new(), last_error: None };
        Self { path: path.to_path_buf(), in_force: RwLock::new(in_force) }
    }

    pub fn get(&self) -> Arc<Config> {
        Arc::clone(&read(&self.in_force).config)
    }

    pub fn generation(&self) -> u64 {
        read(&self.in_force).generation
    }

    pub fn status(&self) -> ConfigStatus {
        let in_force = read(&self.in_force);
        let config = &in_force.config;
        let text = |(name, mode): (&String, Mode)| (name.clone(), mode.as_str().to_owned());
        ConfigStatus {
            path: self.path.display().to_string(),
            generation: in_force.generation,
            mode: config.mode.as_str().to_owned(),
            partition_modes: config.partition_modes().map(text).collect(),
            account_modes: config.account.iter().map(|(name, mode)| text((name, *mode))).collect(),
            compare: None,
            needs_restart: in_force.needs_restart.clone(),
            last_error: in_force.last_error.clone(),
        }
    }

    /// Reads the file again, checks it whole, lets `apply` hand it with its generation to parts
    /// that keep settings of their own, and only then puts it in force.
    pub fn reload(&self, apply: impl FnOnce(&Config, u64) -> Result<(), String>) -> ReloadReport {
        let loaded = Config::load(&self.path);
        let mut in_force = write(&self.in_force);
        let generation = in_force.generation + 1;
        let applied = loaded
            .map_err(|error| error.to_string())
            .and_then(|new| apply(&new, generation).map(|()| new));
        let new = match applied {
            Ok(new) => new,
            Err(error) => {
                warn!("configuration not reloaded: {error}");
                in_force.last_error = Some(error.clone());
                let generation = in_force.generation;
                return ReloadReport { generation, error: Some(error), ..ReloadReport::default() };
            }
        };
        for warning in new.warnings() {
            warn!("configuration: {warning}");
        }
        let changed = Config::diff(&in_force.config, &new);
        let needs_restart = |key: &&String| keys::needs_restart(key);
        let waiting: Vec<String> = changed.iter().filter(needs_restart).cloned().collect();
        in_force.config = Arc::new(new);
        in_force.generation = generation;
        in_force.last_error = None;
        for key in &waiting {
            if !in_force.needs_restart.contains(key) {
                in_force.needs_restart.push(key.clone());
            }
        }
        info!("configuration reloaded generation={generation} changed={}", changed.join(","));
        ReloadReport { ok: true, generation, changed, needs_restart: waiting, error: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_is_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("phalanx.toml");
        std::fs::write(&path, "mode = \"shadow\"\n").unwrap();
        let configuration = Configuration::new(&path, Arc::new(Config::load(&path).unwrap()));
        std::fs::write(&path, "mode = \"enforce\"\n").unwrap();
        let refused = configuration.reload(|_, _| Err("no".to_owned()));
        assert_eq!((refused.ok, refused.generation), (false, 1));
        std::fs::write(&path, "mode = \"x\"\n").unwrap();
        let wrong = configuration.reload(|_, _| unreachable!("a wrong file is not applied"));
        assert!(!wrong.ok && configuration.status().last_error == wrong.error);
        assert_eq!((configuration.get().mode, configuration.generation()), (Mode::Shadow, 1));
        std::fs::write(&path, "mode = \"enforce\"\n").unwrap();
        let done = configuration.reload(|new, generation| {
            assert_eq!((new.mode, generation), (Mode::Enforce, 2));
            Ok(())
        });
        assert!(done.ok && done.changed == ["mode"] && done.needs_restart.is_empty());
        assert_eq!((configuration.get().mode, configuration.generation()), (Mode::Enforce, 2));
        assert_eq!(configuration.status().last_error, None);
    }
}
