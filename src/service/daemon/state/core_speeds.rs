// SPDX-License-Identifier: GPL-3.0-or-later
//! Speeds of data-parallel jobs by their number of cores, learned from runs that report work.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use phalanx_core::limits::{DATA_INPUTS_MAX, DATA_NODE_CLASSES_MAX, DATA_SAMPLES_MAX};
use phalanx_core::number::as_f64;
use phalanx_core::run::Run;
use phalanx_ffi::locks::lock;
use phalanx_methods::data_jobs::attenuation::{Attenuation, CoreSpeed, fit};
use phalanx_methods::learn::{ClassKey, JobTraits, class_of};

/// Speed of one core of a class of jobs without runs, in MB/s: a plain scan of text.
const SPEED_MB_PER_S: f64 = 50.0;
/// Part of its speed that a core of a class without runs loses for each further core of the job.
const ALPHA: f64 = 0.05;
/// Most runs of a job class on one class of nodes that count.
const NEWEST: usize = 8;

/// The latest speeds of each job class.
#[derive(Debug, Default)]
pub struct CoreSpeeds(Mutex<HashMap<String, Samples>>);

/// Runs of one job class, the newest last.
#[derive(Debug, Default)]
struct Samples {
    all: VecDeque<CoreSpeed>,
    /// Runs whose nodes were of one class, by that class.
    by_node_class: BTreeMap<String, VecDeque<CoreSpeed>>,
}

impl CoreSpeeds {
    pub fn replace(&self, new: Self) {
        *lock(&self.0) = new.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    }

    /// Learns from a run that reports work; `node_class` is that of its nodes, if they are alike.
    pub fn learn(&self, run: &Run, class_by: &[ClassKey], node_class: Option<&str>) {
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
        push(&mut samples.all, CoreSpeed { cores, speed }, DATA_SAMPLES_MAX);
        let Some(node_class) = node_class else { return };
        let of_nodes = &mut samples.by_node_class;
        if of_nodes.len() < DATA_NODE_CLASSES_MAX || of_nodes.contains_key(node_class) {
            let newest = of_nodes.entry(node_class.to_owned()).or_default();
            push(newest, CoreSpeed { cores, speed }, NEWEST);
        }
    }

    /// Speed of a single core on each class of nodes on which the job class ran: the median of its
    /// newest runs.
    pub fn by_node_class(&self, class: &str, form: &Attenuation) -> BTreeMap<String, f64> {
        let classes = lock(&self.0);
        let of = classes.get(class).into_iter().flat_map(|samples| &samples.by_node_class);
        of.filter_map(|(name, runs)| Some((name.clone(), median(runs, form)?))).collect()
    }

    /// Speed of one core of a class, the class's attenuation, and the number of runs behind both.
    pub fn of(&self, class: &str) -> (f64, Attenuation, u64) {
        let samples: Vec<CoreSpeed> = {
            let classes = lock(&self.0);
            classes.get(class).into_iter().flat_map(|samples| &samples.all).copied().collect()
        };
        match fit(&samples, ALPHA) {
            None => (SPEED_MB_PER_S, Attenuation::Linear(ALPHA), 0),
            Some(found) => (found.speed, found.form, samples.len() as u64),
        }
    }
}

fn push(runs: &mut VecDeque<CoreSpeed>, run: CoreSpeed, most: usize) {
    runs.push_back(run);
    if runs.len() > most {
        runs.pop_front();
    }
}

fn median(runs: &VecDeque<CoreSpeed>, form: &Attenuation) -> Option<f64> {
    let alone = |run: &CoreSpeed| {
        let cores = run.cores as usize;
        run.speed / form.factor(cores).max(0.05)
    };
    let mut speeds: Vec<f64> = runs.iter().map(alone).collect();
    speeds.sort_unstable_by(f64::total_cmp);
    let middle = speeds.len() / 2;
    let upper = *speeds.get(middle)?;
    if speeds.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*speeds.get(middle.checked_sub(1)?)?, upper))
}

/// Class of jobs whose speeds with different numbers of cores are compared, made without the keys
/// that tell requests apart.
pub fn core_speed_class(job: &JobTraits<'_>, class_by: &[ClassKey]) -> String {
    let request = [ClassKey::Shape, ClassKey::Memory];
    let keys: Vec<ClassKey> =
        class_by.iter().copied().filter(|key| !request.contains(key)).collect();
    class_of(job, if keys.is_empty() { &[ClassKey::Name] } else { &keys })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_by_class_of_nodes_are_medians_of_a_core_alone() {
        let speeds = CoreSpeeds::default();
        let run = |work: f64, cpus: u64| Run {
            name: "sort".into(),
            work: Some(work),
            cpus,
            elapsed_ms: 10_000,
            ..Run::default()
        };
        // Two cores each do 0.9 of what one does.
        for (work, cpus, node_class) in [
            (100.0, 1, Some("fast")),
            (180.0, 2, Some("fast")),
            (900.0, 1, Some("fast")),
            (25.0, 1, Some("slow")),
            (20.0, 1, Some("slow")),
            (1.0, 1, None),
        ] {
            speeds.learn(&run(work, cpus), &[ClassKey::Name], node_class);
        }
        let class = core_speed_class(&JobTraits::of_run(&run(1.0, 1)), &[ClassKey::Name]);
        let by = speeds.by_node_class(&class, &Attenuation::Linear(0.1));
        let found: Vec<(&str, f64)> = by.iter().map(|(name, v)| (name.as_str(), *v)).collect();
        assert_eq!(found, [("fast", 10.0), ("slow", 2.25)]);
        assert!(speeds.by_node_class("other", &Attenuation::Linear(0.1)).is_empty());
    }
}
