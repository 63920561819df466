// SPDX-License-Identifier: GPL-3.0-or-later
//! An instance of the experiments, as a problem and its profit.

use phalanx_methods::bag::{MachineType, Mode, Options, Problem, User, solve};

/// An instance: task type and tasks of each user in the order of arrival.
pub(super) type Instance = Vec<(usize, u64)>;

/// Seconds and watts of each task type on each machine type.
pub(super) struct Rates {
    pub(super) etc: Vec<Vec<f64>>,
    pub(super) apc: Vec<Vec<f64>>,
}

/// Money per task: gamma times the least energy.
fn price(rates: &Rates, gamma: f64, task_type: usize) -> f64 {
    let joules = rates.etc[task_type].iter().zip(&rates.apc[task_type]).map(|(t, p)| t * p);
    gamma * joules.fold(f64::INFINITY, f64::min)
}

pub(super) fn problem(rates: &Rates, gamma: f64, instance: &Instance) -> Problem {
    let machines = rates.etc.first().map_or(0, Vec::len);
    let user = |&(task_type, tasks): &(usize, u64)| {
        let revenue = tasks as f64 * price(rates, gamma, task_type);
        User { task_type, tasks, revenue }
    };
    Problem {
        energy_price: 1.0,
        machine_types: (0..machines)
            .map(|j| MachineType { name: format!("m{j}"), count: 1 })
            .collect(),
        etc_s: rates.etc.clone(),
        apc_w: rates.apc.clone(),
        initial_load_s: None,
        idle_w: None,
        power_cap_w: None,
        revise: false,
        users: instance.iter().map(user).collect(),
    }
}

pub(super) fn objective(problem: &Problem, mode: Mode) -> (f64, f64) {
    match solve(problem, &Options { mode, explain: false }) {
        Ok(answer) => {
            (answer.last.objective.unwrap_or(f64::NAN), answer.lp_bound.unwrap_or(f64::NAN))
        }
        Err(error) => {
            eprintln!("{error}");
            (f64::NAN, f64::NAN)
        }
    }
}
