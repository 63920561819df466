// SPDX-License-Identifier: GPL-3.0-or-later
//! Hadoop's client configuration: the file systems and the addresses of their NameNodes.
//!
//! `core-site.xml` and `hdfs-site.xml` as Hadoop reads them: later files over earlier ones unless
//! a property is `final`, `${name}` replaced, `xi:include` followed.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::error::HdfsError;
use super::uri::{Location, NO_VIEWFS};
use phalanx_core::limits::HDFS_CONF_BYTES_MAX;

/// Port of a NameNode where none is given.
const RPC_PORT: u16 = 8020;
/// Value of `hadoop.security.authentication`.
const KERBEROS: &str = "kerberos";
/// Most replacements of `${}` in one value, and greatest depth of inclusions.
const DEPTH_MAX: usize = 20;
/// Most bytes of names and values that are looked at: four times what files may have. Lists of
/// names, `${}` and a service named often could make them any number.
const LOOKED_AT_MAX: usize = 32 << 20;

/// The NameNodes of one file system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NameNode {
    /// Name service, or `host:port`.
    pub name: String,
    /// RPC addresses (`host:port`) of the NameNodes.
    pub rpc: Vec<String>,
    /// HTTP addresses (`host:port`) of the NameNodes; empty where the configuration says none.
    pub http: Vec<String>,
    /// HTTPS addresses (`host:port`) of the NameNodes; empty where the configuration says none.
    pub https: Vec<String>,
}

impl NameNode {
    /// Returns `http://host:port` of each NameNode, or `https://host:port`.
    pub fn urls(&self, tls: bool) -> Vec<String> {
        let (scheme, addresses) = if tls { ("https", &self.https) } else { ("http", &self.http) };
        addresses.iter().map(|address| format!("{scheme}://{address}")).collect()
    }
}

/// The file systems of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Site {
    /// Authority of `fs.defaultFS`.
    pub default: Option<String>,
    /// NameNodes by name service or `host:port`.
    pub services: BTreeMap<String, NameNode>,
    /// Why a file system of the files cannot be asked, by its name service or authority.
    pub faults: BTreeMap<String, String>,
    /// Value of `hadoop.security.authentication`, `simple` if not set.
    pub authentication: String,
    /// Whether `dfs.http.policy` allows only TLS.
    pub tls_only: bool,
    /// Directories that were read, for messages.
    pub looked: String,
}

impl Site {
    /// Reads the files that exist; `namenodes` are further `host[:port]` that may be asked, the
    /// first of them the default file system if the files name none.
    pub fn read(dirs: &[PathBuf], namenodes: &[String]) -> Result<Self, HdfsError> {
        let mut values = Values::default();
        for path in dirs.iter().flat_map(|d| [d.join("core-site.xml"), d.join("hdfs-site.xml")]) {
            if path.exists() {
                values.read(&path, 0)?;
            }
        }
        let site = values.site(namenodes);
        let looked: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        let looked = looked.join(", ");
        if values.looked_at.get() > LOOKED_AT_MAX {
            let what = format!("{looked}: more than {LOOKED_AT_MAX} bytes of values to look at");
            return Err(HdfsError::Configuration(what));
        }
        Ok(Site { looked, ..site })
    }

    /// The NameNodes that a URI means. Other than configured ones are refused, so that users cannot
    /// make the daemon connect anywhere.
    pub fn service(&self, location: &Location) -> Result<NameNode, HdfsError> {
        let unset = |what: &str| Err(HdfsError::Configuration(what.to_owned()));
        if self.services.is_empty() && self.faults.is_empty() {
            return unset(&format!("hdfs.conf_dirs: no NameNode is configured in {}", self.looked));
        }
        if !["simple", KERBEROS].contains(&self.authentication.as_str()) {
            let found = &self.authentication;
            return unset(&format!(
                "hadoop.security.authentication: expected simple or kerberos, got {found}"
            ));
        }
        let Some(authority) = location.authority.as_ref().or(self.default.as_ref()) else {
            return unset("no fs.defaultFS: the input needs a host");
        };
        if let Some(fault) = self.faults.get(authority) {
            return unset(fault);
        }
        let refused = || HdfsError::NotConfigured(authority.clone());
        if let Some(service) = self.services.get(authority) {
            return Ok(service.clone());
        }
        let full = with_port(authority, RPC_PORT);
        let serves = |s: &&NameNode| {
            s.name == full
                || [&s.rpc, &s.http, &s.https]
                    .iter()
                    .any(|list| list.contains(&full) || list.contains(authority))
        };
        self.services.values().find(serves).cloned().ok_or_else(refused)
    }

    /// Whether the NameNodes want to know by Kerberos who asks.
    pub fn wants_kerberos(&self) -> bool {
        self.authentication == KERBEROS
    }
}

#[derive(Debug, Default)]
struct Values {
    values: BTreeMap<String, String>,
    fixed: BTreeSet<String>,
    bytes: u64,
    looked_at: Cell<usize>,
}

impl Values {
    fn read(&mut self, path: &Path, depth: usize) -> Result<(), HdfsError> {
        let bad = |what: String| HdfsError::Configuration(format!("{}: {what}", path.display()));
        if depth > DEPTH_MAX {
            return Err(bad("included too deeply".to_owned()));
        }
        let text = self.text(path).map_err(bad)?;
        let options = roxmltree::ParsingOptions { allow_dtd: false, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&text, options)
            .map_err(|error| bad(error.to_string()))?;
        let root = document.root_element();
        if root.tag_name().name() != "configuration" {
            let found = root.tag_name().name();
            return Err(bad(format!("expected <configuration>, found <{found}>")));
        }
        for node in root.children().filter(roxmltree::Node::is_element) {
            match node.tag_name().name() {
                "property" => self.property(&node),
                "include" => {
                    let href = node.attribute("href").unwrap_or_default();
                    let inner = path.parent().unwrap_or(Path::new("/")).join(href);
                    let optional = node.children().any(|c| c.tag_name().name() == "fallback");
                    if inner.exists() || !optional {
                        self.read(&inner, depth + 1)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn text(&mut self, path: &Path) -> Result<String, String> {
        let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
        let mut text = String::new();
        let left = HDFS_CONF_BYTES_MAX.saturating_sub(self.bytes);
        file.take(left + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
        let length = text.len() as u64;
        if length > left {
            return Err(format!("more than {HDFS_CONF_BYTES_MAX} bytes"));
        }
        self.bytes += length;
        Ok(text)
    }

    fn property(&mut self, node: &roxmltree::Node<'_, '_>) {
        let part = |name: &str| {
            let child = node.children().find(|c| c.tag_name().name() == name)?;
            let texts = child.children().filter(|piece| !piece.is_comment());
            let texts = texts.filter_map(|piece| piece.text());
            let text: String = texts.collect();
            Some(text.trim().to_owned())
        };
        let (Some(name), Some(value)) = (part("name"), part("value")) else { return };
        if self.fixed.contains(&name) {
            return;
        }
        if part("final").is_some_and(|f| f == "true") {
            self.fixed.insert(name.clone());
        }
        self.values.insert(name, value);
    }

    /// A value with `${...}` replaced; a name without a value stays as it is, as in Hadoop. `None`
    /// once too much was looked at.
    fn get(&self, name: &str) -> Option<String> {
        let looked_at = |bytes| {
            self.looked_at.set(self.looked_at.get().saturating_add(bytes));
            (self.looked_at.get() <= LOOKED_AT_MAX).then_some(())
        };
        let mut value = self.values.get(name)?.clone();
        looked_at(name.len() + value.len())?;
        for _ in 0..DEPTH_MAX {
            let Some(start) = value.find("${") else { break };
            let Some(length) = value.get(start..).and_then(|rest| rest.find('}')) else { break };
            let end = start + length;
            let start = value.get(..end).and_then(|before| before.rfind("${")).unwrap_or(start);
            let inner = value.get(start + 2..end).unwrap_or_default();
            let text = inner.strip_prefix("env.").and_then(environment);
            let Some(text) = text.or_else(|| self.values.get(inner).cloned()) else { break };
            looked_at(value.len() + text.len())?;
            value.replace_range(start..=end, &text);
        }
        Some(value).filter(|v| !v.is_empty())
    }

    fn site(&self, namenodes: &[String]) -> Site {
        let mut site = Site {
            authentication: self
                .get("hadoop.security.authentication")
                .unwrap_or_else(|| "simple".to_owned()),
            tls_only: self.get("dfs.http.policy").is_some_and(|policy| policy == "HTTPS_ONLY"),
            ..Site::default()
        };
        let names = list(self.get("dfs.nameservices"));
        for name in &names {
            match self.name_service(name, names.len() == 1) {
                Ok(service) => drop(site.services.insert(name.clone(), service)),
                Err(fault) => drop(site.faults.insert(name.clone(), fault)),
            }
        }
        let default = self.get("fs.defaultFS").or_else(|| self.get("fs.default.name"));
        let default = default.unwrap_or_default();
        if let Some(rest) = default.strip_prefix("hdfs://") {
            let authority = rest.split('/').next().unwrap_or_default().to_owned();
            site.default = Some(authority.clone());
            if !site.services.contains_key(&authority) && !site.faults.contains_key(&authority) {
                let service = self.single(&authority);
                site.services.insert(service.name.clone(), service);
            }
        } else if default.starts_with("viewfs:") {
            site.faults.insert(default.clone(), format!("fs.defaultFS is {default}: {NO_VIEWFS}"));
            site.default = Some(default);
        }
        for address in namenodes {
            let service = self.single(address);
            site.default.get_or_insert_with(|| service.name.clone());
            site.services.entry(service.name.clone()).or_insert(service);
        }
        site
    }

    fn single(&self, authority: &str) -> NameNode {
        let name = with_port(authority, RPC_PORT);
        let of = |key: &str| self.get(key).map(|http| on_host(&http, &name)).into_iter().collect();
        let (http, https) = (of("dfs.namenode.http-address"), of("dfs.namenode.https-address"));
        NameNode { rpc: vec![name.clone()], http, https, name }
    }

    /// The NameNodes of a service, or why the service cannot be asked. Where it is the `only`
    /// service and has one NameNode, keys without the NameNode's name apply to it too.
    fn name_service(&self, name: &str, only: bool) -> Result<NameNode, String> {
        let mut service = NameNode { name: name.to_owned(), ..NameNode::default() };
        let ids = list(self.get(&format!("dfs.ha.namenodes.{name}")));
        let mut suffixes: Vec<String> = ids.iter().map(|id| format!("{name}.{id}")).collect();
        if ids.is_empty() {
            suffixes.push(name.to_owned());
        }
        for suffix in suffixes {
            let of = |key: &str| {
                let named = self.get(&format!("{key}.{suffix}"));
                named.or_else(|| (only && ids.is_empty()).then(|| self.get(key)).flatten())
            };
            let key = "dfs.namenode.rpc-address";
            let unset = || format!("name service {name}: {key}.{suffix} is not set");
            let rpc = with_port(&of(key).ok_or_else(unset)?, RPC_PORT);
            for (scheme, list) in [("http", &mut service.http), ("https", &mut service.https)] {
                let address = of(&format!("dfs.namenode.{scheme}-address"));
                list.extend(address.map(|address| on_host(&address, &rpc)));
            }
            service.rpc.push(rpc);
        }
        Ok(service)
    }
}

/// Expands `${env.OF}`, where OF is `NAME`, `NAME-default` (default if NAME is not set) or
/// `NAME:-default` (default if NAME is not set or empty).
fn environment(of: &str) -> Option<String> {
    let Some((name, default)) = of.split_once('-') else { return std::env::var(of).ok() };
    let (name, or_empty) = name.strip_suffix(':').map_or((name, false), |name| (name, true));
    let value = std::env::var(name).ok().filter(|value| !(or_empty && value.is_empty()));
    value.or_else(|| Some(default.to_owned()))
}

fn list(value: Option<String>) -> Vec<String> {
    let value = value.unwrap_or_default();
    value.split(',').map(str::trim).filter(|v| !v.is_empty()).map(str::to_owned).collect()
}

fn with_port(authority: &str, port: u16) -> String {
    let has = authority.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok());
    if has { authority.to_owned() } else { format!("{authority}:{port}") }
}

/// Replaces the wildcard host of an HTTP address by the host that serves RPC.
fn on_host(http: &str, rpc: &str) -> String {
    match (http.strip_prefix("0.0.0.0:"), rpc.rsplit_once(':')) {
        (Some(port), Some((host, _))) => format!("{host}:{port}"),
        _ => http.to_owned(),
    }
}
