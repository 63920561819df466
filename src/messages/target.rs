// SPDX-License-Identifier: GPL-3.0-or-later
//! Addresses at which the daemon listens.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Port of `control.listen` where none is given.
pub const DEFAULT_PORT: u16 = 6820;

/// A Unix socket or a TCP address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The daemon's control socket on this host.
    Unix(PathBuf),
    /// `HOST:PORT` of the daemon's TCP listener.
    Tcp(String),
}

/// An error of a text that is no address of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected http://HOST[:PORT] or unix:/PATH, got {0:?}")]
pub struct TargetError(String);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let wrong = || TargetError(text.to_owned());
        let path = text.strip_prefix("unix:").unwrap_or(text);
        if path.starts_with('/') {
            return Ok(Target::Unix(path.trim_start_matches("//").into()));
        }
        let rest = text.strip_prefix("http://").ok_or_else(wrong)?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let odd = |c: char| c.is_whitespace() || c.is_control() || "/?#@".contains(c);
        if authority.is_empty() || authority.contains(odd) {
            return Err(wrong());
        }
        // An IPv6 address has colons inside its brackets.
        let after_host = authority.rfind(']').map_or(authority, |at| &authority[at..]);
        match after_host.rsplit_once(':') {
            None => Ok(Target::Tcp(format!("{authority}:{DEFAULT_PORT}"))),
            Some((_, port)) if port.parse::<u16>().is_ok() => Ok(Target::Tcp(authority.to_owned())),
            Some(_) => Err(wrong()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Unix(path) => write!(f, "unix:{}", path.display()),
            Target::Tcp(authority) => write!(f, "http://{authority}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn targets() {
        for (text, shown) in [
            ("/run/x.sock", "unix:/run/x.sock"),
            ("unix:/run/x.sock", "unix:/run/x.sock"),
            ("http://head", "http://head:6820"),
            ("http://head:99/", "http://head:99"),
            ("http://[::1]", "http://[::1]:6820"),
            ("http://[::1]:7", "http://[::1]:7"),
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), shown);
        }
        for bad in ["", "head", "https://head", "http://", "http://a:b", "http://a/b", "http://a b"]
        {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}
