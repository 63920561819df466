// SPDX-License-Identifier: GPL-3.0-or-later
//! The differences between two configurations.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Config, keys};

/// One key whose value differs between two configurations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Path of the key, such as `balance.threshold`.
    pub key: String,
    /// Value before as TOML, or `(none)`.
    pub old: String,
    /// Value after as TOML, or `(none)`.
    pub new: String,
    /// Whether the change takes effect only after a restart of the daemon.
    pub needs_restart: bool,
}

impl Config {
    /// Returns the keys whose values differ, in the order of their paths.
    pub fn diff(old: &Config, new: &Config) -> Vec<Change> {
        let (old, new) = (old.flatten(), new.flatten());
        let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
        keys.sort();
        keys.dedup();
        keys.into_iter()
            .filter(|key| old.get(*key) != new.get(*key))
            .map(|key| {
                let show = |map: &BTreeMap<String, String>| {
                    map.get(key).cloned().unwrap_or_else(|| "(none)".to_owned())
                };
                Change {
                    key: key.clone(),
                    old: show(&old),
                    new: show(&new),
                    needs_restart: keys::needs_restart(key),
                }
            })
            .collect()
    }

    /// Returns every key with its value as TOML, by path.
    pub fn flatten(&self) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        // Every field serialises: maps with text keys, numbers, text, lists.
        if let Ok(toml::Value::Table(table)) = toml::Value::try_from(self) {
            flatten_into(&table, "", &mut out);
        }
        out
    }
}

fn flatten_into(table: &toml::Table, prefix: &str, out: &mut BTreeMap<String, String>) {
    for (name, value) in table {
        let path = keys::join(prefix, name);
        match value {
            toml::Value::Table(inner) => flatten_into(inner, &path, out),
            other => {
                out.insert(path, other.to_string());
            }
        }
    }
}
