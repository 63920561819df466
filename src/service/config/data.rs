// SPDX-License-Identifier: GPL-3.0-or-later
//! `[hdfs]` and `[data]`: jobs that declare an input, and where it lies.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[hdfs]`: the file systems whose block locations are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HdfsConfig {
    /// Directories of `core-site.xml` and `hdfs-site.xml`, later ones over earlier ones.
    pub conf_dirs: Vec<PathBuf>,
    /// Further NameNodes that may be asked, `host:port`.
    pub namenodes: Vec<String>,
    /// Rules `DATANODES NODES`: hostlists of equal length.
    pub host_map: Vec<String>,
    /// Longest wait for a connection, milliseconds.
    pub connect_ms: u32,
    /// Longest wait for one answer, milliseconds.
    pub call_ms: u32,
    /// Longest time for one input, milliseconds.
    pub job_ms: u32,
    /// How long an answer is used again, seconds.
    pub cache_s: u32,
}

impl Default for HdfsConfig {
    fn default() -> Self {
        HdfsConfig {
            conf_dirs: vec!["/etc/hadoop/conf".into()],
            namenodes: Vec::new(),
            host_map: Vec::new(),
            connect_ms: 5000,
            call_ms: 15_000,
            job_ms: 20_000,
            cache_s: 60,
        }
    }
}

/// `[data]`: jobs that declare an input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Whether inputs are looked up at all.
    pub enabled: bool,
    /// Longest time that a job is held back until its input was looked up, milliseconds.
    pub wait_ms: u32,
    /// Longest time that `locality=require` waits for the nodes of the input, seconds.
    pub require_wait_s: u32,
    /// Part of the bytes that could be local which may be read remotely for balance.
    pub remote_share: f64,
    /// MB/s from another node.
    pub transfer_mb_per_s: f64,
    /// MB/s of one core, where nothing is learned.
    pub speed_mb_per_s: f64,
    /// Speed lost per further core, where nothing is learned.
    pub alpha: f64,
    /// Longest time of one plan of these jobs, milliseconds.
    pub deadline_ms: u32,
}

impl Default for DataConfig {
    fn default() -> Self {
        DataConfig {
            enabled: true,
            wait_ms: 10_000,
            require_wait_s: 600,
            remote_share: 0.03,
            transfer_mb_per_s: 125.0,
            speed_mb_per_s: 50.0,
            alpha: 0.05,
            deadline_ms: 300,
        }
    }
}
