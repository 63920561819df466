// SPDX-License-Identifier: GPL-3.0-or-later
//! Parser of `hdfs://nn:8020/data/in`, `hdfs://nameservice/data`, `webhdfs://...`, `/data/in`.

use super::error::HdfsError;

/// Advice for users who mean a mount table of viewfs.
pub const NO_VIEWFS: &str = "mount tables (viewfs) are not supported; write \
                             hdfs://NAMENODE/PATH, with NAMENODE in hdfs.namenodes";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Hadoop RPC.
    Hdfs,
    /// WebHDFS over HTTP, or over TLS where the NameNodes have nothing else.
    Webhdfs,
    /// WebHDFS over TLS.
    Swebhdfs,
}

/// A parsed URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Protocol.
    pub scheme: Scheme,
    /// `host`, `host:port` or a name service; `None`: the default file system.
    pub authority: Option<String>,
    /// Absolute path, possibly a pattern.
    pub path: String,
}

/// Takes a URI apart; the error says what was expected.
pub fn parse(uri: &str) -> Result<Location, HdfsError> {
    let bad = |why: &str| HdfsError::BadUri(format!("`{uri}`: {why}"));
    if uri.len() > 8192 {
        return Err(HdfsError::BadUri("a URI longer than 8192 bytes".to_owned()));
    }
    let (scheme, rest) = match uri.split_once("://") {
        None if uri.starts_with('/') => (Scheme::Hdfs, None),
        Some(("hdfs", rest)) => (Scheme::Hdfs, Some(rest)),
        Some(("webhdfs", rest)) => (Scheme::Webhdfs, Some(rest)),
        Some(("swebhdfs", rest)) => (Scheme::Swebhdfs, Some(rest)),
        Some(("viewfs", _)) => return Err(bad(NO_VIEWFS)),
        _ => return Err(bad("expected hdfs://, webhdfs://, swebhdfs:// or an absolute path")),
    };
    let (authority, path) = match rest {
        None => (None, uri),
        Some(rest) => {
            let at = rest.find('/').ok_or_else(|| bad("expected a path after the host"))?;
            let (authority, path) = rest.split_at(at);
            if authority.contains('@') {
                return Err(bad("user names are not allowed in URIs; the job's user reads"));
            }
            (Some(authority).filter(|a| !a.is_empty()).map(str::to_owned), path)
        }
    };
    let path = normal(path).ok_or_else(|| bad("`.` and `..` are not allowed in paths"))?;
    Ok(Location { scheme, authority, path })
}

/// Normalises a path: one `/` between components, none at the end.
fn normal(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.iter().any(|part| matches!(*part, "." | "..")) {
        return None;
    }
    Some(format!("/{}", parts.join("/")))
}
