// SPDX-License-Identifier: GPL-3.0-or-later
//! The differences between two configurations.

use std::collections::{BTreeMap, BTreeSet};

use super::{Config, keys};

impl Config {
    /// Returns the paths of the keys whose values differ, such as `balance.threshold`, in order.
    pub fn diff(old: &Config, new: &Config) -> Vec<String> {
        let (old, new) = (old.flatten(), new.flatten());
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        keys.into_iter().filter(|key| old.get(*key) != new.get(*key)).cloned().collect()
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
