// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `hdfs` looks up where the inputs of data-parallel jobs lie, and on which nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use log::{info, warn};

use crate::config::{Config, HdfsConfig};
use crate::daemon::state::cluster::Cluster;
use crate::daemon::state::configuration::Configuration;
use crate::daemon::state::inputs::{DataInputs, Input, InputKey};
use crate::hdfs::{Cache, Hdfs, HdfsError, HostMap, HostNames};
use crate::sync::{Newest, TICK};
use phalanx_core::blocks::Located;
use phalanx_core::limits::DATA_LOOKUP_THREADS;
use phalanx_core::snapshot::Snapshot;
use phalanx_methods::data_jobs::blockmap;
use phalanx_planner::preference::DataNote;

/// Hosts without a node that are named.
const UNMAPPED_MAX: usize = 20;

/// Looks inputs up until `stop`, on several threads; each is followed by a new plan.
pub fn run(
    configuration: &Configuration,
    cluster: &Cluster,
    inputs: &DataInputs,
    to_plan: &Newest<Arc<Snapshot>>,
    stop: &AtomicBool,
) {
    std::thread::scope(|scope| {
        for _ in 1..DATA_LOOKUP_THREADS {
            let work = || look_up(configuration, cluster, inputs, to_plan, stop);
            if let Err(error) = Builder::new().name("hdfs".to_owned()).spawn_scoped(scope, work) {
                warn!("a thread that looks inputs up: {error}; one less does it");
            }
        }
        look_up(configuration, cluster, inputs, to_plan, stop);
    });
}

fn look_up(
    configuration: &Configuration,
    cluster: &Cluster,
    inputs: &DataInputs,
    to_plan: &Newest<Arc<Snapshot>>,
    stop: &AtomicBool,
) {
    let mut client = Client::default();
    while !stop.load(Ordering::Relaxed) {
        let Some((key, job_id)) = inputs.next() else {
            std::thread::sleep(TICK);
            continue;
        };
        let started = Instant::now();
        let (config, snapshot) = (configuration.get(), cluster.snapshot());
        let mut input = client.input(&config, snapshot.as_deref(), &key, job_id);
        let took = started.elapsed();
        let limit = Duration::from_millis(config.hdfs.job_ms.into());
        input.slow = input.note.error.is_some() && took >= limit / 10 * 9;
        log(job_id, &input, took);
        inputs.put(key, input, took);
        cluster.snapshot().into_iter().for_each(|snapshot| to_plan.send(snapshot));
    }
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

/// The file systems under the configuration in force.
#[derive(Default)]
struct Client {
    config: HdfsConfig,
    hdfs: Option<Hdfs>,
    cache: Option<Cache>,
}

impl Client {
    fn input(
        &mut self,
        config: &Config,
        snapshot: Option<&Snapshot>,
        key: &InputKey,
        job_id: u32,
    ) -> Input {
        let declaration = &key.declaration;
        let note = DataNote { input: declaration.uris.join(","), ..DataNote::default() };
        let located = match self.located(&config.hdfs, key, job_id) {
            Ok(located) => located,
            Err(error) => {
                return Input { note: DataNote { error: Some(error), ..note }, ..Input::default() };
            }
        };
        let Some(splits) = blockmap::cut(&located, declaration.split) else {
            let error = Some(format!("more than {} splits", phalanx_core::limits::SPLITS_MAX));
            return Input { note: DataNote { error, ..note }, ..Input::default() };
        };
        let nodes = match snapshot.map(|snapshot| node_of(&located, &config.hdfs, snapshot)) {
            Some(Ok(nodes)) => nodes,
            Some(Err(error)) => {
                return Input { note: DataNote { error: Some(error), ..note }, ..Input::default() };
            }
            None => vec![None; located.datanodes.len()],
        };
        let unmapped = located.datanodes.iter().zip(&nodes).filter(|(_, node)| node.is_none());
        let mut unmapped: Vec<String> =
            unmapped.map(|(datanode, _)| datanode.host.clone()).collect();
        unmapped.truncate(UNMAPPED_MAX);
        let blocks = located.files.iter().flat_map(|file| &file.blocks);
        let note = DataNote {
            files: located.files.len() as u64,
            blocks: located.blocks() as u64,
            bytes: located.length(),
            splits: splits.len() as u64,
            unreadable: blocks.filter(|block| block.corrupt).count() as u64,
            unmapped,
            warnings: located.warnings.clone(),
            ..note
        };
        Input { located, splits, nodes, note, slow: false }
    }

    /// All URIs together; file paths become full URIs, because bases may differ.
    fn located(
        &mut self,
        config: &HdfsConfig,
        key: &InputKey,
        job_id: u32,
    ) -> Result<Located, String> {
        if self.hdfs.is_none() || self.config != *config {
            self.hdfs = Some(Hdfs::configured(config).map_err(|error| error.to_string())?);
            self.cache = Some(Cache::new(Duration::from_secs(config.cache_s.into())));
            self.config = config.clone();
        }
        let (Some(hdfs), Some(cache)) = (&mut self.hdfs, &mut self.cache) else {
            return Err("no file system".to_owned());
        };
        let started = Instant::now();
        let limit = Duration::from_millis(config.job_ms.into());
        let mut all = Located::default();
        for uri in &key.declaration.uris {
            if started.elapsed() >= limit {
                return Err(HdfsError::Late("hdfs.job_ms").to_string());
            }
            // What the URIs before this one have left.
            hdfs.limit_job(limit.saturating_sub(started.elapsed()));
            let (recursive, user) = (key.declaration.recursive, &key.user);
            let context = format!("phalanx job={job_id}");
            let found = cache
                .get(uri, recursive, user, Instant::now(), || {
                    hdfs.locate(uri, recursive, user, &context)
                })
                .map_err(|error| error.to_string())?;
            let mut found = Located::clone(&found);
            for file in &mut found.files {
                file.path = format!("{}{}", found.base, file.path);
            }
            all.append(found);
        }
        Ok(all)
    }
}

/// The node that each DataNode is.
fn node_of(
    located: &Located,
    config: &HdfsConfig,
    snapshot: &Snapshot,
) -> Result<Vec<Option<Arc<str>>>, String> {
    let names = |node: &phalanx_core::snapshot::Node| HostNames {
        name: node.name.to_string(),
        hostname: node.hostname.to_string(),
        address: node.address.to_string(),
    };
    let names: Vec<HostNames> = snapshot.named().map(|(_, node)| names(node)).collect();
    let map = HostMap::new(&config.host_map, &names).map_err(|error| error.to_string())?;
    let name = |at: u32| names.get(at as usize).map(|node| Arc::from(node.name.as_str()));
    Ok(located.datanodes.iter().map(|d| map.node(d).and_then(name)).collect())
}
