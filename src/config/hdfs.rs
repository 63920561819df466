// SPDX-License-Identifier: GPL-3.0-or-later
//! `[hdfs]`: the file systems whose block locations are read.

use std::path::PathBuf;

use super::section::section;

section! {
    /// `[hdfs]`: the file systems whose block locations are read.
    HdfsConfig {
        /// Directories of `core-site.xml` and `hdfs-site.xml`, later ones over earlier ones.
        conf_dirs: Vec<PathBuf> = vec!["/etc/hadoop/conf".into()],
        /// Further NameNodes that may be asked, `host:port`.
        namenodes: Vec<String> = Vec::new(),
        /// Rules `DATANODES NODES`: hostlists of equal length.
        host_map: Vec<String> = Vec::new(),
        /// Keytab with which the daemon asks where Hadoop wants Kerberos; empty: its tickets.
        keytab: String = String::new(),
        /// Certificates of the authorities of NameNodes, PEM; empty: the system's.
        ca_file: String = String::new(),
        /// Longest wait for a connection, milliseconds.
        connect_ms: u32 = 5000,
        /// Longest wait for one answer, milliseconds.
        call_ms: u32 = 15_000,
        /// Longest time for one input, milliseconds.
        job_ms: u32 = 20_000,
        /// Time for which an answer is used again, seconds.
        cache_s: u32 = 60,
    }
}
