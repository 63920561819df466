// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads one number that Prometheus, or an exporter, has.
//!
//! With a URL that ends in `/metrics` (or any other text exposition) QUERY is
//! a metric's name with labels that must match: `node_load1{cluster="a"}`.
//! With a URL that ends in `/api/v1/query` QUERY is PromQL and the answer must
//! be one number. Several matching samples are added up.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::Context;
use phalanx_core::limits::PROMETHEUS_BYTES_MAX;

/// Why there is no number.
pub type PrometheusError = String;

pub(super) fn read(context: &Context<'_>) -> Result<f64, String> {
    let [url, query] = context.args else {
        return Err(format!("args: expected URL QUERY, got {}", context.args.len()));
    };
    let url = url.replace("{node}", context.node);
    let query = query.replace("{node}", context.node);
    if url.ends_with("/api/v1/query") {
        let body = fetch(&format!("{url}?query={}", escape(&query)), context.deadline)?;
        return api_answer(&body);
    }
    sample(&fetch(&url, context.deadline)?, &query)
}

/// Everything but unreserved characters as `%XX` (RFC 3986 section 2.3).
fn escape(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    let byte = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    text.bytes().map(byte).collect()
}

fn api_answer(body: &str) -> Result<f64, String> {
    let answer: serde_json::Value =
        serde_json::from_str(body).map_err(|error| format!("answer: {error}"))?;
    if answer["status"] != "success" {
        return Err(format!("answer: {}", answer["error"].as_str().unwrap_or("no success")));
    }
    let result = &answer["data"]["result"];
    let samples: Vec<&serde_json::Value> = match answer["data"]["resultType"].as_str() {
        Some("scalar") => vec![&result[1]],
        Some("vector") => result.as_array().into_iter().flatten().map(|s| &s["value"][1]).collect(),
        other => return Err(format!("answer: expected a scalar or vector, got {other:?}")),
    };
    if samples.is_empty() {
        return Err("answer: no sample".to_owned());
    }
    samples.iter().map(|s| s.as_str().unwrap_or_default()).map(number).sum()
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("expected a number, got {text:?}"))
}

/// Sum of the samples of a text exposition that match a selector.
///
/// # Errors
/// When the selector is none, or nothing matches.
pub fn sample(exposition: &str, selector: &str) -> Result<f64, PrometheusError> {
    let (name, labels) = series(selector).ok_or_else(|| {
        format!("QUERY: expected NAME or NAME{{LABEL=\"VALUE\",...}}, got {selector:?}")
    })?;
    let mut sum = None;
    for line in exposition.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let end = line.rfind('}').map_or_else(|| line.find(char::is_whitespace), |at| Some(at + 1));
        let Some((head, rest)) = end.and_then(|end| line.split_at_checked(end)) else { continue };
        let Some((sample_name, sample_labels)) = series(head) else { continue };
        if sample_name == name && labels.iter().all(|label| sample_labels.contains(label)) {
            let value = number(rest.split_ascii_whitespace().next().unwrap_or_default())?;
            *sum.get_or_insert(0.0) += value;
        }
    }
    sum.ok_or_else(|| format!("no sample of {selector}"))
}

type Labels = Vec<(String, String)>;

/// `name{label="value",...}` or `name`.
fn series(text: &str) -> Option<(String, Labels)> {
    let text = text.trim();
    let (name, mut rest) = match text.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}')?.trim()),
        None => (text, ""),
    };
    let mut labels = Labels::new();
    while !rest.is_empty() {
        let (label, after) = rest.split_once('=')?;
        let (value, after) = quoted(after.trim_start())?;
        labels.push((label.trim().to_owned(), value));
        rest = after.trim_start();
        rest = rest.strip_prefix(',').map_or(rest, str::trim_start);
    }
    (!name.is_empty()).then(|| (name.trim().to_owned(), labels))
}

/// A value in quotes with `\\`, `\"` and `\n` in it, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.strip_prefix('"')?.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(at + 2..)?)),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

/// One GET over plain HTTP. Encrypted or authenticated servers need a program
/// of the site's own.
fn fetch(url: &str, deadline: Instant) -> Result<String, String> {
    let rest = url
        .strip_prefix("http://")
        .ok_or_else(|| format!("URL: expected http://HOST[:PORT]/PATH, got {url:?}"))?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.is_empty() { "/" } else { path };
    if host.is_empty() || url.bytes().any(|b| b <= b' ' || b == 127) {
        return Err(format!("URL: expected http://HOST[:PORT]/PATH, got {url:?}"));
    }
    let with_port = |text: &str| match text.rsplit_once(':') {
        Some((_, port)) if port.bytes().all(|b| b.is_ascii_digit()) => text.to_owned(),
        _ => format!("{text}:80"),
    };
    let place = |error: std::io::Error| format!("{host}: {error}");
    let address = with_port(host).to_socket_addrs().map_err(place)?.next();
    let address = address.ok_or_else(|| format!("{host}: no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, left(deadline)?).map_err(place)?;
    stream.set_write_timeout(Some(left(deadline)?)).map_err(place)?;
    // HTTP/1.0: the answer ends with the connection, and is in one piece.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: */*\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(place)?;
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        stream.set_read_timeout(Some(left(deadline)?)).map_err(place)?;
        match stream.read(&mut chunk).map_err(place)? {
            0 => break,
            read => bytes.extend_from_slice(chunk.get(..read).unwrap_or_default()),
        }
        if bytes.len() > PROMETHEUS_BYTES_MAX {
            return Err(format!("{host}: more than {PROMETHEUS_BYTES_MAX} bytes"));
        }
    }
    body(&bytes).map_err(|what| format!("{host}: {what}"))
}

fn left(deadline: Instant) -> Result<Duration, String> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err("no answer in time".to_owned()) } else { Ok(left) }
}

fn body(bytes: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "the answer is not UTF-8".to_owned())?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("the answer is not HTTP")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status == "200" { Ok(body.to_owned()) } else { Err(format!("status {status}")) }
}
