// SPDX-License-Identifier: GPL-3.0-or-later
//! The HTTP client of WebHDFS: the program `curl`, with and without TLS and Kerberos.
//!
//! TLS and SPNEGO are the system's business: `curl` of every distribution has both, linked to the
//! libraries that the system updates, so that neither is built into the daemon. What it is to ask
//! goes over its standard input, since everybody may read the arguments of processes.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::error::HdfsError;
use super::rpc::Timeouts;
use phalanx_core::limits::HDFS_FRAME_BYTES_MAX;
use phalanx_ffi::own_children;

/// Name of the program, which is looked up in [`PATH`].
const PROGRAM: &str = "curl";
/// Directories in which the program is looked up.
const PATH: &str = "/usr/bin:/bin";
/// Exit status by which curl says that the time was over.
const OUT_OF_TIME: i32 = 28;
/// First words of the Kerberos library about a ticket that it could not get (RFC 2744).
const NO_TICKET: &str = "No credentials were supplied, or the credentials were unavailable or \
                         inaccessible.";
/// Longest reason in a message, in bytes.
const REASON_MAX: usize = 300;

/// The principal that asks, and the certificate authorities that are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// Keytab of the daemon's principal; empty: the tickets of this process.
    pub(super) keytab: String,
    /// Certificates of the authorities, PEM; empty: the system's.
    pub(super) ca_file: String,
    /// Whether requests are for other users (`doas`), not for the principal itself.
    pub(super) proxy: bool,
    /// Whether the NameNodes want Kerberos.
    pub(super) kerberos: bool,
}

/// The way to the NameNodes by curl.
#[derive(Debug, Default)]
pub(super) struct Curl {
    pub(super) identity: Identity,
    /// Directory for the tickets of the keytab's principal.
    tickets: Option<PathBuf>,
}

impl Drop for Curl {
    fn drop(&mut self) {
        if let Some(dir) = &self.tickets {
            // It holds nothing that anybody needs; what stays is the system's to remove.
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

impl Curl {
    /// Makes a directory for tickets where there is a keytab.
    pub(super) fn new(identity: Identity) -> Result<Self, HdfsError> {
        let tickets = match identity.keytab.as_str() {
            "" => None,
            _ => Some(own_directory().map_err(|error| {
                HdfsError::Configuration(format!("no directory for Kerberos tickets: {error}"))
            })?),
        };
        Ok(Self { identity, tickets })
    }

    /// Makes one GET request; returns the HTTP status and the body.
    pub(super) fn get(
        &self,
        base: &str,
        url: &str,
        timeouts: &Timeouts,
    ) -> Result<(u16, Vec<u8>), HdfsError> {
        let limit = timeouts.left(timeouts.call)?;
        if self.tickets.is_some()
            && let Err(error) = std::fs::File::open(&self.identity.keytab)
        {
            let keytab = &self.identity.keytab;
            return Err(HdfsError::Kerberos(format!("hdfs.keytab: {keytab}: {error}")));
        }
        let unreachable =
            |error: String| HdfsError::Unreachable { address: base.to_owned(), error };
        let mut command = Command::new(PROGRAM);
        // Without the caller's .curlrc and variables.
        command.args(["--disable", "--config", "-"]).env_clear().env("PATH", PATH);
        command.envs(self.environment()).env("LC_ALL", "C");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let text = self.options(url, timeouts.connect.min(limit), limit);
        let done = own_children::output_within(&mut command, text.as_bytes(), BYTES_MAX)
            .map_err(|error| unreachable(format!("{PROGRAM}: {error}")))?;
        let told = String::from_utf8_lossy(&done.stderr);
        if done.stdout.len() > BYTES_MAX {
            return Err(HdfsError::TooMuch(format!("{base}: more than {BYTES_MAX} bytes")));
        }
        let (body, status) = answer(&done.stdout);
        match done.status.code() {
            Some(0) => {}
            Some(OUT_OF_TIME) => return Err(HdfsError::OutOfTime(timeouts.key)),
            _ => return Err(unreachable(complaint(&told))),
        }
        if status == 401 {
            return Err(HdfsError::Kerberos(refusal(base, &told)));
        }
        Ok((status, body.to_vec()))
    }

    /// The user's name in a query, needed only for other users: Kerberos tells who asks.
    pub(super) fn who(&self) -> Option<&'static str> {
        match self.identity {
            Identity { kerberos: false, .. } => Some("user.name"),
            Identity { proxy: true, .. } => Some("doas"),
            Identity { .. } => None,
        }
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut list = Vec::new();
        let mut keep = |name| list.extend(std::env::var_os(name).map(|value| (name, value)));
        keep("KRB5_CONFIG");
        match &self.tickets {
            Some(dir) => {
                let keytab = format!("FILE:{}", self.identity.keytab);
                let tickets = format!("FILE:{}/tickets", dir.display());
                list.push(("KRB5_CLIENT_KTNAME", keytab.into()));
                list.push(("KRB5CCNAME", tickets.into()));
            }
            None => keep("KRB5CCNAME"),
        }
        list
    }

    /// curl's options, as a file of its configuration.
    fn options(&self, url: &str, connect: Duration, limit: Duration) -> String {
        let mut text = format!(
            "silent\nshow-error\nverbose\ngloboff\npath-as-is\nnoproxy = \"*\"\n\
             proto = \"=http,https\"\nconnect-timeout = {:.3}\nmax-time = {:.3}\n\
             write-out = \"\\n%{{http_code}}\"\nurl = {}\n",
            connect.as_secs_f64(),
            limit.as_secs_f64(),
            quoted(url)
        );
        if self.identity.kerberos {
            text.push_str("negotiate\nuser = \":\"\n");
        }
        if !self.identity.ca_file.is_empty() {
            text.push_str(&format!("cacert = {}\n", quoted(&self.identity.ca_file)));
        }
        text
    }
}

/// Longest answer together with the status that follows it, in bytes.
const BYTES_MAX: usize = HDFS_FRAME_BYTES_MAX + 16;

/// Quotes a value of curl's configuration.
fn quoted(value: &str) -> String {
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

/// Splits the output into the body and the status behind it; 0 if there is none.
fn answer(output: &[u8]) -> (&[u8], u16) {
    let end = output.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    let (body, status) = output.split_at(end);
    let status = std::str::from_utf8(status).ok().and_then(|text| text.trim().parse().ok());
    (body, status.unwrap_or(0))
}

/// Returns curl's last words, `curl: (60) SSL certificate problem: ...`, on why no answer came.
fn complaint(told: &str) -> String {
    let mut words = told.lines().rev().filter_map(|line| line.strip_prefix("curl: "));
    reason(words.next().unwrap_or("curl ended without a word"))
}

/// Returns why the NameNode refused the caller: the Kerberos library's text, if there is one.
fn refusal(base: &str, told: &str) -> String {
    let by_library = told.lines().rev().find_map(|line| line.split_once("() failed: "));
    match by_library {
        // What follows its first words says more.
        Some((_, text)) => match text.strip_prefix(NO_TICKET).map(str::trim) {
            Some(more) if !more.is_empty() => reason(more),
            _ => reason(text),
        },
        None => format!("{base} does not accept the ticket (HTTP 401)"),
    }
}

/// Cuts a text to one line of bounded length.
fn reason(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim();
    line.chars().filter(|c| !c.is_control()).take(REASON_MAX).collect()
}

/// A new directory for this user alone.
fn own_directory() -> std::io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut last = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
    for _ in 0..100 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("phalanx-hdfs-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_curl_tells_is_understood() {
        assert_eq!(answer(b"{\"a\":\n1}\n200"), (&b"{\"a\":\n1}"[..], 200));
        assert_eq!(answer(b"\n000"), (&b""[..], 0));
        assert_eq!(answer(b""), (&b""[..], 0));
        let told = "* Trying 127.0.0.1:9871...\n* gss_init_sec_context() failed: No credentials \
                    were supplied. Ticket expired.\n< HTTP/1.1 401\ncurl: (60) SSL certificate \
                    problem: self-signed\n";
        assert_eq!(refusal("b", told), "No credentials were supplied. Ticket expired.");
        let without = |more: &str| refusal("b", &format!("* gss() failed: {NO_TICKET}{more}\n"));
        assert_eq!(without(" Client 'x' not found"), "Client 'x' not found");
        assert_eq!(without(" "), NO_TICKET);
        assert_eq!(complaint(told), "(60) SSL certificate problem: self-signed");
        assert!(refusal("https://nn", "").contains("https://nn does not accept"));
        assert!(complaint("").contains("without a word"));
        assert_eq!(reason(&"x".repeat(1000)).len(), REASON_MAX);
    }

    /// Goal: no path of a user becomes an option of curl.
    #[test]
    fn urls_are_quoted() {
        let curl = Curl::default();
        let text = curl.options("https://a/\"\noutput = \"/x", Duration::ZERO, Duration::MAX);
        assert!(text.contains("url = \"https://a/\\\"\\noutput = \\\"/x\"\n"), "{text}");
        assert!(!text.contains("negotiate") && !text.contains("cacert"));
    }

    /// Goal: a NameNode is trusted by a certificate of the configured authority alone.
    #[test]
    fn certificates_are_checked() {
        let mut curl = Curl::default();
        for (file, cacert) in [("", ""), ("/ca.pem", "cacert = \"/ca.pem\"\n")] {
            file.clone_into(&mut curl.identity.ca_file);
            let text = curl.options("https://a/", Duration::ZERO, Duration::MAX);
            assert!(text.ends_with(cacert) && !text.contains("insecure"), "{text}");
        }
    }
}
