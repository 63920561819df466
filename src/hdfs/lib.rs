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
mod glob;
mod namenode;
mod proto;
mod resolve;
mod rpc;
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
use uri::Scheme;

use phalanx_config::HdfsConfig;
use phalanx_core::blocks::{DataNode, Located};
use phalanx_core::limits::HDFS_PAGE_BLOCKS;
use rpc::Timeouts;

/// A reason for which an input could not be located.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HdfsError {
    /// The text is no valid URI.
    #[error("{0}")]
    BadUri(String),
    /// A NameNode that the configuration does not name.
    #[error("{0} is not among the NameNodes of the configuration")]
    NotConfigured(String),
    /// The Hadoop configuration cannot be read.
    #[error("{0}")]
    Configuration(String),
    /// The NameNode could not be connected to.
    #[error("{address}: {error}")]
    Unreachable {
        /// Host and port.
        address: String,
        /// The system's error text.
        error: String,
    },
    /// The connection broke, or what came was not understood.
    #[error("connection lost: {0}")]
    Broken(String),
    /// The time for the call is over; names the limit of all calls.
    #[error("no answer in time")]
    OutOfTime(&'static str),
    /// The time limit of the whole input is over; names that limit.
    #[error("no answer in time ({0})")]
    Late(&'static str),
    /// Kerberos did not say who asks.
    #[error("Kerberos: {0}")]
    Kerberos(String),
    /// The NameNode's own refusal.
    #[error("{}: {message}", short(class))]
    Remote {
        /// Class of the exception.
        class: String,
        /// First line of the exception's text.
        message: String,
    },
    /// The file does not exist, or no file matches the pattern.
    #[error("{0}: no such file")]
    NotFound(String),
    /// The input is larger than the limits allow.
    #[error("{0}")]
    TooMuch(String),
}

/// Fails where there are more items than the limit.
fn at_most(most: usize, count: usize, path: &str, what: &str) -> Result<(), HdfsError> {
    let more = || HdfsError::TooMuch(format!("{path}: more than {most} {what}"));
    if count > most { Err(more()) } else { Ok(()) }
}

/// Returns the exception's name without its package.
fn short(class: &str) -> &str {
    class.rsplit('.').next().unwrap_or(class)
}

impl HdfsError {
    fn is_remote(&self, name: &str) -> bool {
        matches!(self, Self::Remote { class, .. } if short(class) == name)
    }

    /// Whether another NameNode of the same name service may do better.
    fn try_next(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Broken(_) | Self::OutOfTime(_))
            || self.is_remote("StandbyException")
            || self.is_remote("ObserverRetryOnActiveException")
    }

    /// Whether the same request may succeed a little later.
    fn try_later(&self) -> bool {
        self.is_remote("RetriableException")
            || self.is_remote("SafeModeException")
            || self.is_remote("RetryStartFileException")
    }
}

/// The error of a name service that has no address for WebHDFS.
fn no_address(service: &str) -> HdfsError {
    let keys = "dfs.namenode.http-address (or https-address, as the URI and dfs.http.policy say)";
    HdfsError::Configuration(format!("{service}: no {keys} in the configuration"))
}

/// A file, or an entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// Absolute path.
    path: String,
    kind: Kind,
    length: u64,
    modified_ms: u64,
    replication: u32,
    block_size: u64,
    /// Striping, if the file is erasure-coded.
    striping: Option<resolve::Striping>,
}

impl Entry {
    /// Whether the blocks fit into one page.
    fn is_small(&self) -> bool {
        let blocks = self.length.div_ceil(self.block_size.max(1));
        blocks.saturating_mul(u64::from(self.replication.max(1))) <= HDFS_PAGE_BLOCKS
    }
}

/// The path of an entry of a directory; the empty name is the directory itself.
fn path_of(directory: &str, name: &str) -> String {
    match (directory, name) {
        (path, "") => path.to_owned(),
        ("/", name) => format!("/{name}"),
        (path, name) => format!("{path}/{name}"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    File,
    Link,
}

/// The requests of the resolver to a NameNode, by either protocol.
trait BlockSource {
    /// Returns one file or directory; `None` if there is none.
    fn status(&mut self, path: &str) -> Result<Option<Entry>, HdfsError>;
    /// Returns all entries of a directory, read in pages; stops with an error beyond `most`.
    fn list(&mut self, path: &str, most: usize) -> Result<Vec<Entry>, HdfsError>;
    /// Returns the blocks of some files of one directory, in the order given. `listed`: one listing
    /// of that directory may bring the blocks of all its files, for each that [is small].
    ///
    /// [is small]: Entry::is_small
    fn blocks(
        &mut self,
        files: &[Entry],
        listed: bool,
        sink: &mut resolve::Sink,
    ) -> Result<(), HdfsError>;
}

/// A DataNode as a NameNode reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataNodeReport {
    /// Names of the DataNode.
    pub datanode: DataNode,
    /// `live`, `dead`, `decommissioning`, `decommissioned` or `maintenance`.
    pub state: &'static str,
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
