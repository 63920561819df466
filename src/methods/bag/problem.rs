// SPDX-License-Identifier: GPL-3.0-or-later
//! The bag problem as users state it: machine types, rates, users in arrival order.

use serde::{Deserialize, Serialize};

use phalanx_core::limits::BAG_TASKS_MAX as TASKS_MAX;
use phalanx_core::number::as_f64;
use phalanx_core::problem::{InputError, distinct, length, present, refuse};

/// Bags of identical tasks that arrive one after the other, and the machine
/// types that can run them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// Money per joule.
    #[serde(default = "default_price")]
    pub energy_price: f64,
    /// The machine types; their order is that of the columns and loads below.
    pub machine_types: Vec<MachineType>,
    /// Seconds of one task: `etc_s[task type][machine type]`, all > 0.
    pub etc_s: Vec<Vec<f64>>,
    /// Watts while one task runs, shape of `etc_s`.
    pub apc_w: Vec<Vec<f64>>,
    /// Seconds of work already on each machine type; absent: none.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub initial_load_s: Option<Vec<f64>>,
    /// Watts of one idle machine of each type, at most its `apc_w`; absent: none.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub idle_w: Option<Vec<f64>>,
    /// Greatest mean power of all machines from the start to the makespan, watts;
    /// absent: no limit.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub power_cap_w: Option<f64>,
    /// Whether tasks that have not started may move at each arrival. Only mode `best` plans with
    /// it.
    #[serde(default)]
    pub revise: bool,
    /// The bags, in the order in which they arrive.
    pub users: Vec<User>,
}

/// A machine type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineType {
    /// A name that no other machine type has.
    pub name: String,
    /// Machines (slots) of the type; with more than one the type is a fluid:
    /// its makespan is load / count. With 0 it takes no tasks.
    #[serde(default = "default_count")]
    pub count: u64,
}

/// A bag of a user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Row of `etc_s` and `apc_w`.
    #[serde(rename = "type")]
    pub task_type: usize,
    /// Number of identical independent tasks.
    pub tasks: u64,
    /// Money for the whole bag; may be negative.
    pub revenue: f64,
}

fn default_price() -> f64 {
    1.0
}

fn default_count() -> u64 {
    1
}

fn amount(path: impl FnOnce() -> String, value: f64) -> Result<(), InputError> {
    if !value.is_finite() {
        return refuse(path(), format!("must be a finite number, got {value}"));
    }
    if value < 0.0 {
        return refuse(path(), format!("must be >= 0, got {value}"));
    }
    Ok(())
}

impl Problem {
    /// Checks every rule of the contract that the shape alone cannot express.
    ///
    /// # Errors
    /// The first field, in document order, that breaks a rule.
    pub fn validate(&self) -> Result<(), InputError> {
        amount(|| "energy_price".into(), self.energy_price)?;
        let names = self.machine_types.iter().map(|machine| machine.name.as_str());
        distinct(names, |j| format!("machine_types[{j}].name"))?;
        for (j, machine) in self.machine_types.iter().enumerate() {
            if machine.count > TASKS_MAX {
                let path = format!("machine_types[{j}].count");
                return refuse(path, format!("must be <= {TASKS_MAX}, got {}", machine.count));
            }
        }
        self.validate_matrices()?;
        self.validate_loads()?;
        self.validate_power()?;
        self.validate_users()
    }

    fn validate_matrices(&self) -> Result<(), InputError> {
        let machines = self.machine_types.len();
        length(|| "apc_w".into(), self.apc_w.len(), self.etc_s.len(), "etc_s")?;
        for (name, matrix) in [("etc_s", &self.etc_s), ("apc_w", &self.apc_w)] {
            for (k, row) in matrix.iter().enumerate() {
                length(|| format!("{name}[{k}]"), row.len(), machines, "machine_types")?;
                for (j, &value) in row.iter().enumerate() {
                    amount(|| format!("{name}[{k}][{j}]"), value)?;
                }
            }
        }
        for (k, (times, watts)) in self.etc_s.iter().zip(&self.apc_w).enumerate() {
            for (j, (&time, &power)) in times.iter().zip(watts).enumerate() {
                if time <= 0.0 || !(1.0 / time).is_finite() {
                    return refuse(format!("etc_s[{k}][{j}]"), format!("must be > 0, got {time}"));
                }
                if !(time * power).is_finite() {
                    let path = format!("apc_w[{k}][{j}]");
                    return refuse(path, format!("energy of one task overflows, got {power} W"));
                }
            }
        }
        Ok(())
    }

    fn validate_loads(&self) -> Result<(), InputError> {
        let Some(loads) = &self.initial_load_s else { return Ok(()) };
        let machines = self.machine_types.len();
        length(|| "initial_load_s".into(), loads.len(), machines, "machine_types")?;
        for (j, (&load, machine)) in loads.iter().zip(&self.machine_types).enumerate() {
            amount(|| format!("initial_load_s[{j}]"), load)?;
            if load > 0.0 && machine.count == 0 {
                let reason = "must be 0: the machine type has count 0";
                return refuse(format!("initial_load_s[{j}]"), format!("{reason}, got {load}"));
            }
        }
        Ok(())
    }

    fn validate_power(&self) -> Result<(), InputError> {
        if let Some(cap) = self.power_cap_w {
            amount(|| "power_cap_w".into(), cap)?;
        }
        let Some(idle) = &self.idle_w else { return Ok(()) };
        length(|| "idle_w".into(), idle.len(), self.machine_types.len(), "machine_types")?;
        let mut total = 0.0;
        for (j, (&watts, machine)) in idle.iter().zip(&self.machine_types).enumerate() {
            amount(|| format!("idle_w[{j}]"), watts)?;
            total += watts * as_f64(machine.count);
            if let Some(k) = self.apc_w.iter().position(|row| row[j] < watts) {
                let limit = self.apc_w[k][j];
                let what = format!("must be <= {limit}, apc_w[{k}][{j}], got {watts}");
                return refuse(format!("idle_w[{j}]"), what);
            }
        }
        if !(total * self.energy_price.max(1.0)).is_finite() {
            return refuse("idle_w", "the power of all machines overflows");
        }
        Ok(())
    }

    /// Watts of all machines while idle.
    pub(super) fn idle_total(&self) -> f64 {
        let idle = self.idle_w.iter().flatten().zip(&self.machine_types);
        idle.map(|(watts, machine)| watts * as_f64(machine.count)).sum()
    }

    fn validate_users(&self) -> Result<(), InputError> {
        let mut total = 0_u64;
        for (i, user) in self.users.iter().enumerate() {
            if user.task_type >= self.etc_s.len() {
                let path = format!("users[{i}].type");
                let limit = self.etc_s.len();
                let found = user.task_type;
                return refuse(path, format!("must be < {limit}, the rows of etc_s, got {found}"));
            }
            if !user.revenue.is_finite() {
                let path = format!("users[{i}].revenue");
                return refuse(path, format!("must be a finite number, got {}", user.revenue));
            }
            total = total.saturating_add(user.tasks);
            if total > TASKS_MAX {
                let path = format!("users[{i}].tasks");
                return refuse(path, format!("all users together may have {TASKS_MAX} tasks"));
            }
        }
        self.validate_sums(as_f64(total))
    }

    /// Refuses amounts whose sums are not finite, because later steps rely on finite sums.
    fn validate_sums(&self, tasks: f64) -> Result<(), InputError> {
        let mut largest = 0.0_f64;
        for (times, watts) in self.etc_s.iter().zip(&self.apc_w) {
            for (&time, &power) in times.iter().zip(watts) {
                largest = largest.max(time).max(time * power * self.energy_price.max(1.0));
            }
        }
        let load: f64 = self.initial_load_s.iter().flatten().sum();
        let revenue: f64 = self.users.iter().map(|user| user.revenue.abs()).sum();
        if !(largest * tasks.max(1.0) * 4.0 + load + revenue).is_finite() {
            return refuse("users", "the loads, energies or revenues of all users overflow");
        }
        Ok(())
    }
}
