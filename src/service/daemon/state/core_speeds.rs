// SPDX-License-Identifier: GPL-3.0-or-later
//! Speeds of data-parallel jobs by their number of cores, learned from runs that report work.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::config::Config;
use crate::locks::lock;
use phalanx_core::limits::{DATA_INPUTS_MAX, DATA_SAMPLES_MAX};
use phalanx_core::number::as_f64;
use phalanx_core::run::Run;
use phalanx_methods::data_jobs::attenuation::{Attenuation, CoreSpeed, fit};
use phalanx_methods::learn::{ClassKey, JobTraits, class_of};

/// The latest speeds of each job class.
#[derive(Debug, Default)]
pub struct CoreSpeeds(Mutex<HashMap<String, VecDeque<CoreSpeed>>>);

impl CoreSpeeds {
    /// Takes these in place of what there is.
    pub fn replace(&self, new: Self) {
        *lock(&self.0) = new.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    }

    /// Learns from a run that reports work.
    pub fn learn(&self, run: &Run, class_by: &[ClassKey]) {
        let (Some(work), Ok(cores)) = (run.work, u32::try_from(run.cpus)) else { return };
        if run.elapsed_ms == 0 || cores == 0 {
            return;
        }
        let speed = work / (as_f64(run.elapsed_ms) / 1000.0 * f64::from(cores));
        let class = core_speed_class(&JobTraits::of_run(run), class_by);
        let mut classes = lock(&self.0);
        if classes.len() >= DATA_INPUTS_MAX && !classes.contains_key(&class) {
            return;
        }
        let samples = classes.entry(class).or_default();
        samples.push_back(CoreSpeed { cores, speed });
        if samples.len() > DATA_SAMPLES_MAX {
            samples.pop_front();
        }
    }

    /// Speed of one core of a class, its attenuation, and the number of runs behind both.
    pub fn of(&self, class: &str, config: &Config) -> (f64, Attenuation, u64) {
        let data = &config.data_jobs;
        let samples: Vec<CoreSpeed> =
            lock(&self.0).get(class).into_iter().flatten().copied().collect();
        match fit(&samples, data.alpha) {
            None => (data.speed_mb_per_s, Attenuation::Linear(data.alpha), 0),
            Some(found) => (found.speed, found.form, samples.len() as u64),
        }
    }
}

/// Class of jobs whose speeds with different numbers of cores are compared: the keys that tell
/// requests apart are left out.
pub fn core_speed_class(job: &JobTraits<'_>, class_by: &[ClassKey]) -> String {
    let request = [ClassKey::Shape, ClassKey::Memory];
    let keys: Vec<ClassKey> =
        class_by.iter().copied().filter(|key| !request.contains(key)).collect();
    class_of(job, if keys.is_empty() { &[ClassKey::Name] } else { &keys })
}
