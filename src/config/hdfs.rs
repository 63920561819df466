// SPDX-License-Identifier: GPL-3.0-or-later
//! `[hdfs]`: the file systems whose block locations are read.

use std::path::PathBuf;
use std::time::Duration;

use super::section::section;

impl HdfsConfig {
    /// Returns the longest time to look up one input.
    pub fn job_time(&self) -> Duration {
        Duration::from_millis(self.job_ms.into())
    }
}

section! {
    /// `[hdfs]`: the file systems whose block locations are read.
    HdfsConfig {
        /// Directories of `core-site.xml` and `hdfs-site.xml`; later ones override earlier ones.
        conf_dirs: Vec<PathBuf> = vec!["/etc/hadoop/conf".into()],
        /// Rules `DATANODES NODES`: hostlists of equal length.
        host_map: Vec<String> = Vec::new(),
        /// Keytab for clusters that want Kerberos; empty: the daemon's tickets.
        keytab: String = String::new(),
        /// PEM file of the authorities that certify NameNodes; empty: the system's.
        ca_file: String = String::new(),
        /// Longest time to look up one input, in milliseconds.
        job_ms: u32 = 20_000,
        /// Time for which an answer is reused, in seconds.
        cache_s: u32 = 60,
    }
}
