// SPDX-License-Identifier: GPL-3.0-or-later
//! Policies: the order in which jobs start, and the choice of their nodes.

use super::job::Workload;
use super::nodes::choose::Rule;
use super::nodes::line::Line;
use super::schedule::Scheduler;
use phalanx_methods::balance::Mode as BalanceMode;
use phalanx_methods::data_jobs::bisect::rigid;
use phalanx_methods::data_jobs::bisect::turns::Turn;
use phalanx_methods::{bag, gang};

/// Order in which jobs start.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    /// Jobs by arrival; the first job that does not fit blocks all others.
    Fcfs,
    /// EASY backfill with the users' limits.
    Easy,
    /// Slurm's main pass and backfill.
    Slurm {
        /// Whether the daemon orders the queue.
        by_daemon: bool,
    },
    /// An order that the program brings.
    Other {
        /// Makes the order on a pool of CPUs.
        pool: fn(&Workload) -> Box<dyn Scheduler + '_>,
        /// Makes the order on nodes, given the number of all their CPUs.
        line: fn(u64) -> Box<dyn Line>,
    },
}

/// A policy by its name.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Name.
    pub name: &'static str,
    /// Order in which jobs start.
    pub order: Order,
    /// Choice of nodes; `None`: the daemon's choice.
    pub rule: Option<Rule>,
    /// Mode of the daemon's choice of nodes.
    pub balance: BalanceMode,
    /// Mode in which the daemon plans gangs; `None` if it does not.
    pub gangs: Option<gang::Mode>,
    /// Mode in which the policy plans arrays, where watts are known.
    pub bags: Option<bag::Mode>,
    /// Rule by which the policy plans data jobs, where jobs have inputs.
    pub data: Option<rigid::Rule>,
}

/// EASY backfill, and Slurm's own choice of nodes.
pub const EASY: Policy = Policy {
    name: "easy",
    order: Order::Easy,
    rule: Some(Rule::Slurm),
    balance: BalanceMode::Best,
    gangs: None,
    bags: None,
    data: None,
};
/// Slurm's own scheduling: main pass, backfill with limits, its choice of nodes.
pub const SLURM: Policy =
    Policy { name: "slurm", order: Order::Slurm { by_daemon: false }, ..EASY };
/// The balance method.
pub const BALANCE: Policy = Policy { name: "balance", rule: None, ..EASY };
/// The balance method as published.
pub const BALANCE_SEED: Policy =
    Policy { name: "balance-seed", balance: BalanceMode::Seed, ..BALANCE };
/// The gang method.
pub const GANG: Policy = Policy { name: "gang", gangs: Some(gang::Mode::Ga), ..BALANCE };
/// Slurm with the daemon: its order of starts and its choice of nodes.
pub const PHALANX: Policy = Policy {
    name: "phalanx",
    order: Order::Slurm { by_daemon: true },
    bags: BAG.bags,
    data: DATA.data,
    ..GANG
};
/// Arrays by energy and time.
const BAG: Policy = Policy { name: "bag", bags: Some(bag::Mode::Best), ..BALANCE };
/// Data jobs near their blocks.
const DATA: Policy = Policy { name: "data", data: Some(rigid::Rule::Best), ..BALANCE };

/// Policies of the product.
pub const POLICIES: [Policy; 15] = [
    Policy { name: "fcfs", order: Order::Fcfs, ..EASY },
    EASY,
    Policy { name: "stock", ..EASY },
    BALANCE_SEED,
    BALANCE,
    Policy { name: "gang-seed", gangs: Some(gang::Mode::Seed), ..BALANCE_SEED },
    GANG,
    Policy { name: "bag-seed", bags: Some(bag::Mode::Seed), ..BAG },
    BAG,
    Policy { name: "data-seed", data: Some(rigid::Rule::Seed { moment: 2 }), ..DATA },
    DATA,
    Policy { name: "round-robin", rule: Some(Rule::InTurn(Turn::RoundRobin)), ..EASY },
    Policy { name: "weighted", rule: Some(Rule::InTurn(Turn::Weighted)), ..EASY },
    SLURM,
    PHALANX,
];

/// The policy of a name among `policies`.
///
/// # Errors
/// One line with the names there are.
pub fn find(policies: &[Policy], name: &str) -> Result<Policy, String> {
    policies.iter().find(|policy| policy.name == name).copied().ok_or_else(|| {
        let names: Vec<&str> = policies.iter().map(|policy| policy.name).collect();
        format!("expected one of {}, got {name:?}", names.join(", "))
    })
}
