// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads one number that Prometheus, or an exporter, has.
//!
//! With a URL that ends in `/metrics` (or any other text exposition) QUERY is
//! a metric's name with labels that must match: `node_load1{cluster="a"}`.
//! With a URL that ends in `/api/v1/query` QUERY is PromQL and the answer must
//! be one number. Several matching samples are added up.

use std::time::Instant;

use super::context::Context;
use phalanx_core::limits::PROMETHEUS_BYTES_MAX;
use phalanx_core::text::percent_encode;

pub(super) fn read(context: &Context<'_>) -> Result<f64, String> {
    let [url, query] = context.args else {
        return Err(format!("args: expected URL QUERY, got {}", context.args.len()));
    };
    let url = url.replace("{node}", context.node);
    let query = query.replace("{node}", context.node);
    if url.ends_with("/api/v1/query") {
        let body = fetch(&format!("{url}?query={}", percent_encode(&query)), context.deadline)?;
        return api_answer(&body);
    }
    sample(&fetch(&url, context.deadline)?, &query)
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

/// Adds up the samples of a text exposition that match a selector; an error if none does.
pub(super) fn sample(exposition: &str, selector: &str) -> Result<f64, String> {
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

/// Parses `name{label="value",...}` or `name`.
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

/// Parses a value in quotes with `\\`, `\"` and `\n`; returns it and the text behind it.
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

/// Makes one GET request over plain HTTP. Encrypted or authenticated servers need a program of the
/// site's own.
fn fetch(url: &str, deadline: Instant) -> Result<String, String> {
    if !url.starts_with("http://") {
        return Err(format!("URL: expected http://HOST[:PORT]/PATH, got {url:?}"));
    }
    let failed = |error: ureq::Error| format!("{url}: {error}");
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(deadline.saturating_duration_since(Instant::now())))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .build()
        .into();
    let mut reply = agent.get(url).call().map_err(failed)?;
    if reply.status() != 200 {
        return Err(format!("{url}: status {}", reply.status().as_u16()));
    }
    reply.body_mut().with_config().limit(PROMETHEUS_BYTES_MAX).read_to_string().map_err(failed)
}
