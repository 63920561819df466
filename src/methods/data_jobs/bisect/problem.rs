// SPDX-License-Identifier: GPL-3.0-or-later
//! The problem of data jobs as users state it: hosts with cores, jobs with blocks and replicas.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::data_jobs::attenuation::Attenuation;
use phalanx_core::limits::BISECT_CORES_MAX;
use phalanx_core::problem::{InputError, Name, distinct, length, present, refuse};

/// Data-parallel jobs and the hosts that may run them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem<'a> {
    /// Speed lost per further core: f(n) = 1 - alpha (n - 1), in `[0, 1)`.
    #[serde(default = "default_alpha")]
    pub alpha: f64,
    /// MB/s at which a block is read from another host, > 0.
    #[serde(default = "default_transfer")]
    pub transfer_mb_per_s: f64,
    /// Rule by which the cores of a job begin.
    #[serde(default)]
    pub start: Start,
    /// Point at which blocks migrate: 1 = for each job before its feasibility test, 2 = after all
    /// jobs of a probe are placed, 3 = once, on the final schedule.
    #[serde(default = "default_moment")]
    pub moment: u8,
    /// The hosts.
    #[serde(borrow)]
    pub hosts: Vec<Host<'a>>,
    /// The jobs.
    #[serde(borrow)]
    pub jobs: Vec<Job<'a>>,
}

/// Rule by which the cores of one job start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// Cores start together, as soon as the last of them is free.
    #[default]
    Gang,
    /// Each core starts as soon as it is free; all are still released together.
    Async,
}

/// A host of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host<'a> {
    /// A name that no other host has.
    #[serde(borrow)]
    pub name: Name<'a>,
    /// Number of cores.
    pub cores: usize,
    /// Milliseconds until each core is free; absent: free now.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub available_ms: Option<Vec<f64>>,
}

/// A job with its input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job<'a> {
    /// A name that no other job has.
    #[serde(borrow)]
    pub id: Name<'a>,
    /// MB/s that a single core works through, > 0.
    pub speed_mb_per_s: f64,
    /// f(n) of the job; absent: linear with the problem's alpha.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub attenuation: Option<Attenuation>,
    /// The input; a job without any needs no core and no time.
    #[serde(borrow)]
    pub blocks: Vec<Block<'a>>,
}

impl Attenuation {
    fn validate(&self, path: impl Fn(&str) -> String) -> Result<(), InputError> {
        match self {
            Self::Linear(alpha) if !(0.0..1.0).contains(alpha) => {
                refuse(path("linear"), format!("must be in [0, 1), got {alpha}"))
            }
            Self::Amdahl(beta) => amount(|| path("amdahl"), *beta),
            Self::Table(values) if values.is_empty() => {
                refuse(path("table"), "must have at least f(1)")
            }
            Self::Table(values) => {
                let mut most = 1.0;
                for (n, &value) in values.iter().enumerate() {
                    if !(value > 0.0 && value <= most) {
                        let what = format!("must be in (0, {most}], got {value}");
                        return refuse(path(&format!("table[{n}]")), what);
                    }
                    most = value;
                }
                Ok(())
            }
            Self::Linear(_) => Ok(()),
        }
    }
}

/// A block of an input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block<'a> {
    /// A name that no other block of the job has.
    #[serde(borrow)]
    pub id: Name<'a>,
    /// Megabytes (2^20 bytes).
    pub size_mb: f64,
    /// Names of the hosts that hold the block, at least one.
    #[serde(borrow)]
    pub replicas: Vec<Name<'a>>,
}

fn default_alpha() -> f64 {
    0.05
}

fn default_transfer() -> f64 {
    125.0
}

fn default_moment() -> u8 {
    2
}

fn amount(path: impl FnOnce() -> String, value: f64) -> Result<(), InputError> {
    if !value.is_finite() || value < 0.0 {
        return refuse(path(), format!("must be a finite number >= 0, got {value}"));
    }
    Ok(())
}

fn rate(path: impl FnOnce() -> String, value: f64) -> Result<(), InputError> {
    if !value.is_finite() || value <= 0.0 || !(1.0 / value).is_finite() {
        return refuse(path(), format!("must be a finite number > 0, got {value}"));
    }
    Ok(())
}

impl Problem<'_> {
    /// Checks every rule of the contract that the shape alone cannot express.
    ///
    /// # Errors
    /// The first field, in document order, that breaks a rule.
    pub fn validate(&self) -> Result<(), InputError> {
        if !(0.0..1.0).contains(&self.alpha) {
            return refuse("alpha", format!("must be in [0, 1), got {}", self.alpha));
        }
        rate(|| "transfer_mb_per_s".into(), self.transfer_mb_per_s)?;
        if !(1..=3).contains(&self.moment) {
            return refuse("moment", format!("must be 1, 2 or 3, got {}", self.moment));
        }
        self.validate_hosts()?;
        let names = self.hosts.iter().map(|host| host.name.0.as_ref());
        let known: HashMap<&str, usize> = names.enumerate().map(|(k, name)| (name, k)).collect();
        distinct(self.jobs.iter().map(|job| job.id.0.as_ref()), |i| format!("jobs[{i}].id"))?;
        let mut total_ms = 0.0;
        for (i, job) in self.jobs.iter().enumerate() {
            total_ms += job.validate(i, &known, self.transfer_mb_per_s)?;
        }
        let waits = self.hosts.iter().flat_map(|host| host.available_ms.iter().flatten());
        // Twice: formulas take the mean of two times; f(n) may stretch a time, but no
        // schedule that is kept is longer than all jobs one after the other.
        if !(2.0 * (total_ms + waits.copied().fold(0.0, f64::max))).is_finite() {
            return refuse("jobs", "the times of all jobs together overflow");
        }
        Ok(())
    }

    fn validate_hosts(&self) -> Result<(), InputError> {
        distinct(self.hosts.iter().map(|host| host.name.0.as_ref()), |k| {
            format!("hosts[{k}].name")
        })?;
        let mut cores = 0_usize;
        for (k, host) in self.hosts.iter().enumerate() {
            cores = cores.saturating_add(host.cores);
            if cores > BISECT_CORES_MAX {
                let path = format!("hosts[{k}].cores");
                return refuse(path, format!("all hosts may have {BISECT_CORES_MAX} cores"));
            }
            let Some(available) = &host.available_ms else { continue };
            let path = || format!("hosts[{k}].available_ms");
            length(path, available.len(), host.cores, "cores")?;
            for (c, &wait) in available.iter().enumerate() {
                amount(|| format!("hosts[{k}].available_ms[{c}]"), wait)?;
            }
        }
        Ok(())
    }
}

impl Job<'_> {
    /// Returns the milliseconds of the job on one core if every block is remote.
    fn validate(
        &self,
        i: usize,
        known: &HashMap<&str, usize>,
        transfer: f64,
    ) -> Result<f64, InputError> {
        rate(|| format!("jobs[{i}].speed_mb_per_s"), self.speed_mb_per_s)?;
        if let Some(attenuation) = &self.attenuation {
            attenuation.validate(|field| format!("jobs[{i}].attenuation.{field}"))?;
        }
        let ids = self.blocks.iter().map(|block| block.id.0.as_ref());
        distinct(ids, |b| format!("jobs[{i}].blocks[{b}].id"))?;
        let mut size = 0.0;
        for (b, block) in self.blocks.iter().enumerate() {
            amount(|| format!("jobs[{i}].blocks[{b}].size_mb"), block.size_mb)?;
            size += block.size_mb;
            let path = |r: usize| format!("jobs[{i}].blocks[{b}].replicas[{r}]");
            if block.replicas.is_empty() {
                let path = format!("jobs[{i}].blocks[{b}].replicas");
                return refuse(path, "must name at least one host, got none");
            }
            for (r, name) in block.replicas.iter().enumerate() {
                if !known.contains_key(name.0.as_ref()) {
                    return refuse(path(r), format!("no host has the name {:?}", name.0));
                }
                if block.replicas[..r].contains(name) {
                    return refuse(path(r), format!("{:?} is given more than once", name.0));
                }
            }
        }
        Ok(1000.0 * (size / self.speed_mb_per_s + size / transfer))
    }
}
