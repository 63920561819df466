// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `lookups` finds out where the inputs of data-parallel jobs lie, and on which nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use log::{info, warn};

use crate::daemon::shared::Shared;
use crate::daemon::state::inputs::{Input, InputKey};
use crate::locations::{Datasets, Gate, Hdfs, INPUT_BYTES_MAX, Locations, Question};
use crate::sync::{Newest, TICK};
use phalanx_config::HdfsConfig;
use phalanx_core::blocks::Located;
use phalanx_core::hostlist;
use phalanx_core::hosts::{HostMap, HostNames};
use phalanx_core::limits::DATA_LOOKUP_THREADS;
use phalanx_core::snapshot::Snapshot;
use phalanx_methods::data_jobs::blockmap;
use phalanx_planner::preference::DataNote;

/// Most hosts without a node that are named in a message.
const UNMAPPED_MAX: usize = 20;

/// Looks inputs up until `stop`, on several threads; a new plan follows each.
pub fn run(all: &Shared, to_plan: &Newest<Arc<Snapshot>>, stop: &AtomicBool) {
    std::thread::scope(|scope| {
        for _ in 1..DATA_LOOKUP_THREADS {
            let work = || look_up(all, to_plan, stop);
            if let Err(error) = Builder::new().name("lookups".to_owned()).spawn_scoped(scope, work)
            {
                warn!("a thread that looks inputs up: {error}; one less does it");
            }
        }
        look_up(all, to_plan, stop);
    });
}

fn look_up(all: &Shared, to_plan: &Newest<Arc<Snapshot>>, stop: &AtomicBool) {
    let Shared { configuration, cluster, inputs, .. } = all;
    while !stop.load(Ordering::Relaxed) {
        let Some((key, job_id)) = inputs.next() else {
            std::thread::sleep(TICK);
            continue;
        };
        let started = Instant::now();
        let (config, snapshot) = (configuration.get(), cluster.snapshot());
        let patience = patience(all, snapshot.as_deref(), job_id, config.data_jobs.wait_ms);
        let asked = Asked { key: &key, job_id, datasets: inputs.datasets(), patience };
        let mut input = asked.input(&inputs.gate, &config.hdfs, snapshot.as_deref());
        let took = started.elapsed();
        let limit = config.hdfs.job_time();
        input.slow = input.note.error.is_some() && took >= limit / 10 * 9;
        log(job_id, &input, took);
        inputs.put(key, input, took);
        cluster.snapshot().into_iter().for_each(|snapshot| to_plan.send(snapshot));
    }
}

/// Longest time until a first answer: what is left of the job's hold, or all of it where the job is
/// not held yet or hardly any longer.
fn patience(all: &Shared, snapshot: Option<&Snapshot>, job_id: u32, wait_ms: u32) -> Duration {
    let wait = Duration::from_millis(wait_ms.into());
    if wait.is_zero() {
        return Duration::MAX;
    }
    let array = snapshot.and_then(|snapshot| snapshot.job(job_id)?.array_job_id);
    let left = all.responder.hold(job_id, array).map(|(_, left)| left);
    left.filter(|left| *left >= wait / 4).map_or(wait, |left| left.min(wait))
}

fn log(job_id: u32, input: &Input, took: Duration) {
    let (note, ms) = (&input.note, took.as_millis());
    match &note.error {
        Some(error) => {
            warn!("job {job_id}: input {}: {error}; placed as if it read nothing", note.input);
        }
        None => info!(
            "job {job_id}: input {}: {} files, {} blocks, {} bytes on {} hosts ({} unmapped) \
             in {ms} ms",
            note.input,
            note.files,
            note.blocks,
            note.bytes,
            input.nodes.len(),
            note.unmapped.len()
        ),
    }
}

/// A lookup, and the parts of the daemon that it needs.
struct Asked<'a> {
    key: &'a InputKey,
    job_id: u32,
    datasets: Arc<Datasets>,
    /// Longest time until a first answer.
    patience: Duration,
}

impl Asked<'_> {
    fn input(&self, gate: &Gate, config: &HdfsConfig, snapshot: Option<&Snapshot>) -> Input {
        let declaration = &self.key.declaration;
        let note = DataNote { input: declaration.names(), ..DataNote::default() };
        let known = declaration.datasets.iter().map(|name| self.datasets.dataset(name));
        let known = known.collect();
        let refused = |error: String| {
            let note = DataNote { error: Some(error), ..note.clone() };
            Input { note, known: Vec::clone(&known), ..Input::default() }
        };
        let located = match self.located(gate, config) {
            Ok(located) => located,
            Err(error) => return refused(error),
        };
        let Some(splits) = blockmap::cut(&located, declaration.split) else {
            return refused(format!("more than {} splits", phalanx_core::limits::SPLITS_MAX));
        };
        let nodes = match snapshot {
            Some(snapshot) => node_of(&located, snapshot),
            None => vec![None; located.datanodes.len()],
        };
        let unmapped = located.datanodes.iter().zip(&nodes).filter(|(_, node)| node.is_none());
        let mut unmapped: Vec<String> =
            unmapped.map(|(datanode, _)| datanode.host.clone()).collect();
        unmapped.truncate(UNMAPPED_MAX);
        let blocks = located.files.iter().flat_map(|file| &file.blocks);
        let mut holders: Vec<&str> = nodes.iter().flatten().map(|node| &**node).collect();
        holders.sort_unstable();
        holders.dedup();
        let note = DataNote {
            files: located.files.len() as u64,
            blocks: located.blocks() as u64,
            bytes: located.length(),
            splits: splits.len() as u64,
            unreadable: blocks.filter(|block| block.corrupt).count() as u64,
            unmapped,
            warnings: located.warnings.clone(),
            holders: hostlist::compress(&holders),
            ..note
        };
        Input { located, splits, nodes, note, known, ..Input::default() }
    }

    /// Returns the locations of all names of a declaration, together. A single one is not copied.
    fn located(&self, gate: &Gate, config: &HdfsConfig) -> Result<Arc<Located>, String> {
        let (mut all, named) = (Found::default(), &self.key.declaration);
        let (mut hdfs, mut datasets) = (Hdfs { gate, config }, Arc::clone(&self.datasets));
        find(&mut all, &mut hdfs, &named.uris, self, config.job_time())?;
        find(&mut all, &mut datasets, &named.datasets, self, Duration::MAX)?;
        Ok(all.joined())
    }
}

/// Parts of an input that were found, and the bytes of these parts.
#[derive(Default)]
struct Found {
    parts: Vec<Arc<Located>>,
    bytes: usize,
}

impl Found {
    fn joined(self) -> Arc<Located> {
        let joined = self.parts.into_iter().reduce(|mut joined, part| {
            Arc::make_mut(&mut joined).append(Arc::unwrap_or_clone(part));
            joined
        });
        joined.unwrap_or_default()
    }
}

/// Adds what a source knows of `inputs`, within a time and a size for all of them.
fn find(
    all: &mut Found,
    source: &mut dyn Locations,
    named: &[String],
    asked: &Asked<'_>,
    limit: Duration,
) -> Result<(), String> {
    let started = Instant::now();
    for input in named {
        let left = limit.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err("no answer in time (hdfs.job_ms)".to_owned());
        }
        let found = source.locate(&Question {
            input,
            recursive: asked.key.declaration.recursive,
            user: &asked.key.user,
            job_id: asked.job_id,
            limit: left,
            patience: asked.patience,
        })?;
        all.bytes += found.bytes();
        if all.bytes > INPUT_BYTES_MAX {
            return Err(format!("its blocks take more than {INPUT_BYTES_MAX} bytes in all"));
        }
        all.parts.push(found);
    }
    Ok(())
}

fn node_of(located: &Located, snapshot: &Snapshot) -> Vec<Option<Arc<str>>> {
    let names = |node: &phalanx_core::snapshot::Node| HostNames {
        name: node.name.to_string(),
        hostname: node.hostname.to_string(),
        address: node.address.to_string(),
    };
    let names: Vec<HostNames> = snapshot.named().map(|(_, node)| names(node)).collect();
    let map = HostMap::new(&names);
    let name = |at: u32| names.get(at as usize).map(|node| Arc::from(node.name.as_str()));
    located.datanodes.iter().map(|d| map.node(d).and_then(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locations::{List, Locations};
    use phalanx_methods::data_jobs::blockmap::of_job;

    /// Goal: the bytes of many names together are bounded before anything is copied.
    #[test]
    fn names_have_one_bound_together() {
        let part = r#"{"bytes": 1, "hosts": ["n1"]}"#;
        let parts = [part; 300].join(",");
        let list: Vec<String> = (0..9).map(|at| format!(r#""d{at}": [{parts}]"#)).collect();
        let list = List::parse(format!("{{{}}}", list.join(",")).as_bytes()).unwrap();
        let datasets = Arc::new(Datasets { list: Arc::new(list), ..Datasets::default() });
        let ask = |names: &str| {
            let declaration = of_job(&format!("data-input={names}"), "").unwrap().unwrap();
            let key = InputKey { user: "u".to_owned(), declaration };
            let asked = Asked {
                key: &key,
                job_id: 1,
                datasets: Arc::clone(&datasets),
                patience: Duration::MAX,
            };
            asked.located(&Gate::default(), &HdfsConfig::default())
        };
        assert_eq!(ask("d0").unwrap().blocks(), 300);
        assert_eq!(ask("d0,d1").unwrap().blocks(), 600);
        assert_eq!(ask(&["d0"; 500].join(",")).unwrap().blocks(), 300);
        let error = ask("d0,d1,d2,d3,d4,d5,d6,d7,d8").unwrap_err();
        assert_eq!(error, "its blocks take more than 65536 bytes in all");
    }

    /// Goal: the blocks of one name are not copied.
    #[test]
    fn one_name_is_shared() {
        struct One(Arc<Located>);
        impl Locations for One {
            fn locate(&mut self, _: &Question<'_>) -> Result<Arc<Located>, String> {
                Ok(Arc::clone(&self.0))
            }
        }
        let mut source = One(Arc::default());
        let declaration = of_job("data-input=d", "").unwrap().unwrap();
        let key = InputKey { user: "u".to_owned(), declaration };
        let asked =
            Asked { key: &key, job_id: 1, datasets: Arc::default(), patience: Duration::MAX };
        let mut all = Found::default();
        find(&mut all, &mut source, &["d".to_owned()], &asked, Duration::MAX).unwrap();
        assert!(Arc::ptr_eq(&all.joined(), &source.0));
    }
}
