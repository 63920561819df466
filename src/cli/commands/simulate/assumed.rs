// SPDX-License-Identifier: GPL-3.0-or-later
//! Policies under a configuration: what each assumes, and what it cannot plan by.

use std::fmt::Debug;

use crate::outcome::note;
use phalanx_config::{BagMode, Config, DataMode, GangMode, Mode};
use phalanx_methods::{bag, gang};
use phalanx_sim::nodes::{NodeLoad, Setup};
use phalanx_sim::policy::{EASY, Order, PHALANX, Policy};
use phalanx_sim::slurm::Rules;

/// The policies, of which `phalanx` has the modes of the configuration.
pub fn under(policies: &[Policy], config: &Config) -> Vec<Policy> {
    let of = |policy: &Policy| match policy.name == PHALANX.name {
        false => *policy,
        true => Policy {
            balance: config.balance.mode,
            gangs: match config.gang.mode {
                GangMode::Off => None,
                GangMode::Ga => Some(gang::Mode::Ga),
                GangMode::Seed => Some(gang::Mode::Seed),
            },
            bags: match config.bag.mode {
                BagMode::Off => None,
                BagMode::Best => Some(bag::Mode::Best),
                BagMode::Seed => Some(bag::Mode::Seed),
            },
            data: (config.data_jobs.mode != DataMode::Off).then(|| config.data_jobs.rule()),
            ..*policy
        },
    };
    policies.iter().map(of).collect()
}

/// Sets the power of each node where the input does not state it and the configuration has it for
/// all.
pub fn set_watts(config: &Config, load: &mut NodeLoad) {
    if load.watts.is_empty() {
        let nodes = load.cluster.nodes.iter();
        let watts: Option<_> = nodes.map(|node| config.node_watts(node)).collect();
        load.watts = watts.unwrap_or_default();
    }
}

/// Leaves to Slurm the partitions that the configuration leaves to it.
pub fn leave_to_slurm(policy: &Policy, config: &Config, setup: &mut Setup) {
    let left = config.partition_modes().filter(|(_, mode)| *mode != Mode::Enforce);
    if policy.name == PHALANX.name {
        setup.left_to_slurm = left.map(|(name, _)| name.clone()).collect();
    }
}

/// Tells what each policy assumes, and where it falls back to another. `load`: nodes and jobs,
/// where jobs run on nodes.
pub fn note_all(policies: &[Policy], config: &Config, rules: &Rules, load: Option<&NodeLoad>) {
    for policy in policies {
        let keys = keys(policy, config, load);
        if !keys.is_empty() {
            note(format_args!("policy {}: with {}", policy.name, keys.join(", ")));
        }
        lacks(policy, rules, load)
            .iter()
            .for_each(|what| note(format_args!("policy {}: {what}", policy.name)));
    }
}

/// Keys of the configuration by which a policy decides, with their values.
fn keys(policy: &Policy, config: &Config, load: Option<&NodeLoad>) -> Vec<String> {
    let is_phalanx = policy.name == PHALANX.name;
    let on_nodes = load.is_some() && policy.rule.is_none();
    // The file has the names of variants in small letters, with hyphens between words.
    let key = |name: &str, value: &dyn Debug| {
        let mut word = String::new();
        for letter in format!("{value:?}").chars() {
            if letter.is_uppercase() && !word.is_empty() {
                word.push('-');
            }
            word.extend(letter.to_lowercase());
        }
        format!("{name} = \"{word}\"")
    };
    let (bag, data) = (&config.bag, &config.data_jobs);
    let keys = [
        (is_phalanx, key("mode", &Mode::Enforce)),
        (is_phalanx, key("order.by", &config.order.by)),
        (on_nodes, key("balance.mode", &policy.balance)),
        (on_nodes && policy.gangs.is_some(), key("gang.mode", &policy.gangs.unwrap_or_default())),
        (on_nodes && policy.bags.is_some(), key("bag.mode", &policy.bags.unwrap_or_default())),
        (on_nodes && policy.bags.is_some(), key("bag.hold", &bag.hold)),
        (is_phalanx && on_nodes, key("data_jobs.mode", &data.mode)),
    ];
    keys.into_iter().filter(|(is_used, _)| *is_used).map(|(_, key)| key).collect()
}

/// Returns what a policy lacks for its plans, and which policy it equals without that.
fn lacks(policy: &Policy, rules: &Rules, load: Option<&NodeLoad>) -> Vec<String> {
    let is_phalanx = policy.name == PHALANX.name;
    let Some(load) = load else {
        let what = match (is_phalanx, policy.order) {
            (true, _) if rules.order.is_some() => "it orders starts alone",
            (true, _) => "it is policy slurm",
            (false, Order::Easy) if policy.name != EASY.name => "it is policy easy",
            (false, _) => return Vec::new(),
        };
        let why = "jobs take any CPUs, as no nodes with --topology, speed= or --blocks say more";
        return vec![format!("{why}: {what}")];
    };
    let watts = "idle= and busy= of all --nodes, or bag.watts of --config by class,";
    let missing = [
        (policy.bags.is_some() && load.watts.is_empty(), watts, "arrays"),
        (policy.data.is_some() && load.inputs.is_none(), "--blocks", "data jobs"),
    ];
    let missing = missing.iter().filter(|(is_missing, ..)| *is_missing);
    let text = |(_, what, jobs): &(bool, &str, &str)| match is_phalanx {
        true => format!("without {what} it plans no {jobs}"),
        false => format!("without {what} it is policy balance"),
    };
    missing.map(text).collect()
}
