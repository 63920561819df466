// SPDX-License-Identifier: GPL-3.0-or-later
//! Block locations of a job's input: a client of HDFS that only reads.
//!
//! [`Hdfs`] knows the site's NameNodes from Hadoop's own configuration files and contacts no
//! others, whatever a user writes. [`Hdfs::locate`] lists an input's files and their blocks within
//! a time limit, by Hadoop RPC, or by WebHDFS where the input says `webhdfs://` or `swebhdfs://`,
//! where the file system wants Kerberos, or where RPC fails and the configuration names an HTTP
//! address. Every request is paged.
//! Limits: [`phalanx_core::limits`].
#![forbid(unsafe_code)]

mod cache;
mod conf;
mod curl;
mod error;
mod glob;
mod namenode;
mod proto;
mod resolve;
mod rpc;
mod source;
#[cfg(test)]
mod tests;
mod uri;
mod webhdfs;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use cache::Cache;
use conf::{NameNode, Site};
use curl::{Curl, Identity};
pub use error::HdfsError;
pub use namenode::DataNodeReport;
use uri::Scheme;

use phalanx_config::HdfsConfig;
use phalanx_core::blocks::Located;
use rpc::Timeouts;

/// The error of a name service that has no address for WebHDFS.
fn no_address(service: &str) -> HdfsError {
    let keys = "dfs.namenode.http-address (or https-address, as the URI and dfs.http.policy say)";
    HdfsError::Configuration(format!("{service}: no {keys} in the configuration"))
}

/// The site's file systems.
#[derive(Debug)]
pub struct Hdfs {
    site: Site,
    /// Longest time for one input, and the part of it that is left for the next request.
    job: Duration,
    left: Duration,
    /// Longest time until a first answer.
    patience: Duration,
    /// Index of the NameNode of each service that was active last.
    active: BTreeMap<String, usize>,
    /// The client for WebHDFS.
    curl: Curl,
}

impl Hdfs {
    /// Reads `core-site.xml` and `hdfs-site.xml` of these directories, later ones over earlier
    /// ones; a directory without them says nothing. `namenodes` (`host:port`) are allowed besides.
    /// `job` is the longest time for one input.
    pub fn new(dirs: &[PathBuf], namenodes: &[String], job: Duration) -> Result<Self, HdfsError> {
        let site = Site::read(dirs, namenodes)?;
        let identity = Identity { kerberos: site.wants_kerberos(), ..Identity::default() };
        let curl = Curl::new(identity)?;
        Ok(Self { site, job, left: job, patience: job, active: BTreeMap::new(), curl })
    }

    /// Opens the file systems of `[hdfs]` for the daemon, which asks on behalf of jobs' users.
    pub fn configured(config: &HdfsConfig) -> Result<Self, HdfsError> {
        let mut hdfs = Self::of_caller(config)?;
        let identity = hdfs.curl.identity.clone();
        let keytab = if identity.kerberos { config.keytab.clone() } else { String::new() };
        hdfs.curl = Curl::new(Identity { keytab, proxy: true, ..identity })?;
        Ok(hdfs)
    }

    /// Opens the file systems of `[hdfs]` for a user, who asks with the user's own tickets.
    pub fn of_caller(config: &HdfsConfig) -> Result<Self, HdfsError> {
        let mut hdfs = Self::new(&config.conf_dirs, &[], config.job_time())?;
        hdfs.curl.identity.ca_file.clone_from(&config.ca_file);
        Ok(hdfs)
    }

    /// Sets the time that a job with several inputs has left for the next ones, and the time
    /// within which a NameNode must have answered at all.
    pub fn limit_job(&mut self, left: Duration, patience: Duration) {
        (self.left, self.patience) = (left, patience);
    }

    /// Locates the blocks of a file, directory or pattern that `user` may read. `context` stands in
    /// the NameNode's audit log.
    pub fn locate(
        &mut self,
        uri: &str,
        recursive: bool,
        user: &str,
        context: &str,
    ) -> Result<Located, HdfsError> {
        self.find(uri, recursive, user, context).map_err(|error| match error {
            HdfsError::OutOfTime(key) => HdfsError::Late(key),
            other => other,
        })
    }

    fn find(
        &mut self,
        uri: &str,
        recursive: bool,
        user: &str,
        context: &str,
    ) -> Result<Located, HdfsError> {
        let timeouts = self.timeouts();
        let location = uri::parse(uri)?;
        let service = self.site.service(&location)?;
        let base = format!("hdfs://{}", service.name);
        let by_http = |this: &Self| {
            let urls = this.urls(&service, location.scheme);
            this.by_http(&urls, &service.name, user, timeouts, |source| {
                resolve::locate(source, &location.path, recursive, &base)
            })
        };
        if location.scheme != Scheme::Hdfs || self.site.wants_kerberos() {
            return by_http(self);
        }
        let by_rpc = self.by_rpc(&service, user, context, timeouts, |source| {
            resolve::locate(source, &location.path, recursive, &base)
        });
        let error = match by_rpc {
            Err(error) if error.try_next() && !self.urls(&service, location.scheme).is_empty() => {
                error
            }
            other => return other,
        };
        // If both fail, the first error is the one to report.
        let mut located = by_http(self).map_err(|_| error.clone())?;
        located.warnings.insert(0, format!("read by WebHDFS, because by RPC: {error}"));
        Ok(located)
    }

    /// Returns every DataNode of a name service, by RPC. HDFS tells its superuser alone.
    pub fn datanodes(&mut self, uri: &str, user: &str) -> Result<Vec<DataNodeReport>, HdfsError> {
        let timeouts = self.timeouts();
        let location = uri::parse(uri)?;
        let service = self.site.service(&location)?;
        if self.site.wants_kerberos() {
            return Err(HdfsError::Kerberos("WebHDFS has no list of DataNodes".to_owned()));
        }
        self.by_rpc(&service, user, "phalanx check", timeouts, |source| source.datanodes())
    }

    /// Returns the addresses for WebHDFS: over TLS where the URI says so, where there is nothing
    /// else, and where Kerberos is wanted and both exist.
    fn urls(&self, service: &NameNode, scheme: Scheme) -> Vec<String> {
        let secure = self.site.wants_kerberos() && !service.https.is_empty();
        let tls = match scheme {
            Scheme::Swebhdfs => true,
            Scheme::Webhdfs => self.site.tls_only,
            Scheme::Hdfs => self.site.tls_only || secure,
        };
        service.urls(tls)
    }

    /// Splits the time: a quarter to connect, so that a second NameNode can be tried, three for an
    /// answer.
    fn timeouts(&self) -> Timeouts {
        let (now, first) = (Instant::now(), self.job.min(self.patience));
        let is_first = self.patience < self.left;
        Timeouts {
            connect: first / 4,
            call: first * 3 / 4,
            end: now + self.left.min(self.patience),
            key: if is_first { "data_jobs.wait_ms" } else { "hdfs.job_ms" },
            later: (self.job * 3 / 4, now + self.left),
        }
    }

    /// Asks the NameNodes of the service one after the other, the last active one first.
    fn by_rpc<T>(
        &mut self,
        service: &NameNode,
        user: &str,
        context: &str,
        timeouts: Timeouts,
        mut ask: impl FnMut(&mut namenode::Client) -> Result<T, HdfsError>,
    ) -> Result<T, HdfsError> {
        let first = self.active.get(&service.name).copied().unwrap_or(0);
        let count = service.rpc.len();
        let mut pause = Duration::from_millis(200);
        loop {
            let mut last = HdfsError::NotConfigured(service.name.clone());
            for turn in 0..count {
                let at = (first + turn) % count;
                let Some(address) = service.rpc.get(at) else { continue };
                let answer = namenode::Client::open(address, user, context, timeouts)
                    .and_then(|mut client| ask(&mut client));
                match answer {
                    Err(error) if error.try_next() || error.try_later() => last = error,
                    other => {
                        if other.is_ok() {
                            self.active.insert(service.name.clone(), at);
                        }
                        return other;
                    }
                }
            }
            // A service in fail-over has no active NameNode for some seconds.
            let again = last.try_later() || (count > 1 && last.is_remote("StandbyException"));
            if !again || timeouts.end.saturating_duration_since(Instant::now()) < pause * 2 {
                return Err(last);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }

    fn by_http<T>(
        &self,
        urls: &[String],
        service: &str,
        user: &str,
        timeouts: Timeouts,
        mut ask: impl FnMut(&mut webhdfs::Client<'_>) -> Result<T, HdfsError>,
    ) -> Result<T, HdfsError> {
        let mut last = no_address(service);
        for url in urls {
            match ask(&mut webhdfs::Client::new(url, user, timeouts, &self.curl)) {
                Err(error) if error.try_next() => last = error,
                other => return other,
            }
        }
        Err(last)
    }
}
