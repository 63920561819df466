// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading a JSON problem with errors that name the field.

use std::fmt::Write as _;

use serde::Deserialize;

use super::method::SolveError;

/// Parses `bytes` as a `T`.
///
/// # Errors
/// Bad input that begins with the path of the offending field, for example
/// ``jobs[3].nodes: invalid value: integer `-1`, expected u64 (line 1, column 90)``.
pub fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, SolveError> {
    serde_json::from_slice(bytes).map_err(|error| locate(bytes, &error))
}

/// Turns a serde error, which knows line and column, into one with a path.
fn locate(bytes: &[u8], error: &serde_json::Error) -> SolveError {
    let (line, column) = (error.line(), error.column());
    let full = error.to_string();
    let text = full.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&full);
    let mut path = path_at(bytes, offset_of(bytes, line, column));
    let place = format!("(line {line}, column {column})");
    if let Some(field) = quoted(text, "missing field `") {
        if !path.is_empty() {
            path.push('.');
        }
        return SolveError::input(format!("{path}{field}"), format!("missing {place}"));
    }
    let unknown = quoted(text, "unknown field `").map(|field| {
        let expected = text.split_once(", ").map_or("no fields", |(_, expected)| expected);
        (field, format!("unknown field, {expected} {place}"))
    });
    let duplicate = quoted(text, "duplicate field `")
        .map(|field| (field, format!("given more than once {place}")));
    if let Some((field, what)) = unknown.or(duplicate) {
        // The scan has usually just read this key.
        if path.rsplit('.').next() != Some(field) {
            let _ = write!(path, "{}{field}", if path.is_empty() { "" } else { "." });
        }
        return SolveError::input(path, what);
    }
    let path = if path.is_empty() { "problem".to_owned() } else { path };
    SolveError::input(path, format!("{text} {place}"))
}

fn quoted<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    text.strip_prefix(before)?.split('`').next()
}

/// Converts a 1-based line and a column counted in bytes to a byte offset.
fn offset_of(bytes: &[u8], line: usize, column: usize) -> usize {
    let mut start = 0;
    for _ in 1..line {
        match bytes[start..].iter().position(|&byte| byte == b'\n') {
            Some(at) => start += at + 1,
            None => return bytes.len(),
        }
    }
    (start + column).min(bytes.len())
}

enum Frame {
    Object { key: String, reads_key: bool },
    Array { index: usize },
}

/// Returns the path of the value that is being read at `offset` of a JSON text, such as
/// `jobs[3].request[1]`; empty at top level. Only for error messages.
fn path_at(bytes: &[u8], offset: usize) -> String {
    let mut frames: Vec<Frame> = Vec::new();
    let mut at = 0;
    while at < offset {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at + 1);
                if let Some(Frame::Object { key, reads_key: reads_key @ true }) = frames.last_mut()
                {
                    *key = String::from_utf8_lossy(&bytes[at + 1..end]).into_owned();
                    *reads_key = false;
                }
                at = end;
            }
            b'{' => frames.push(Frame::Object { key: String::new(), reads_key: true }),
            b'[' => frames.push(Frame::Array { index: 0 }),
            // The last byte before the error may close the very value that is
            // wrong (a field is missing in it): it stays in the path.
            b'}' | b']' if at + 1 < offset => {
                frames.pop();
            }
            b',' => match frames.last_mut() {
                Some(Frame::Object { reads_key, .. }) => *reads_key = true,
                Some(Frame::Array { index }) => *index += 1,
                None => {}
            },
            _ => {}
        }
        at += 1;
    }
    let closed = offset > 0 && matches!(bytes[offset - 1], b'}' | b']');
    render(&frames, closed)
}

fn render(frames: &[Frame], closed: bool) -> String {
    let mut path = String::new();
    for (depth, frame) in frames.iter().enumerate() {
        if closed && depth + 1 == frames.len() {
            break;
        }
        match frame {
            Frame::Object { key, reads_key } => {
                if !reads_key {
                    let dot = if path.is_empty() { "" } else { "." };
                    let _ = write!(path, "{dot}{key}");
                }
            }
            Frame::Array { index } => {
                let _ = write!(path, "[{index}]");
            }
        }
    }
    path
}

/// Returns the position of the quote that ends the string which begins at `from`.
fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::problem::Name;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Job<'a> {
        #[serde(borrow)]
        id: Name<'a>,
        request: Vec<f64>,
        #[serde(default)]
        nodes: u64,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Problem<'a> {
        #[serde(borrow)]
        jobs: Vec<Job<'a>>,
    }

    #[test]
    fn errors_name_the_field() {
        for (text, expected) in [
            ("{}", "jobs: missing (line 1, column 2)"),
            ("", "problem: EOF while parsing a value (line 1, column 0)"),
            ("7", "problem: invalid type: integer `7`, expected struct Problem"),
            (r#"{"jobs":[{"id":"a","request":[]},{"id":"b"}]}"#, "jobs[1].request: missing"),
            (r#"{"jobs":[{"id":"a","request":[1,"x"]}]}"#, "jobs[0].request[1]: invalid type"),
            (r#"{"jobs":[{"id":"a","request":[1,1e999]}]}"#, "jobs[0].request[1]: number out"),
            (r#"{"jobs":[{"id":"a","request":[1,NaN]}]}"#, "jobs[0].request[1]: expected value"),
            (r#"{"jobs":[{"id":"a","request":[1,null]}]}"#, "jobs[0].request[1]: invalid type"),
            (r#"{"jobs":[{"id":"a","request":[1],"nodes":-1}]}"#, "jobs[0].nodes: invalid value"),
            (r#"{"jobs":[{"id":"a","request":[1],"nodes":1.5}]}"#, "jobs[0].nodes: invalid type"),
            (
                r#"{"jobs":[{"id":"a","request":[1],"cores":1}]}"#,
                "jobs[0].cores: unknown field, expected one of `id`, `request`, `nodes`",
            ),
            (r#"{"jobs":[{"id":"a","id":"b"}]}"#, "jobs[0].id: given more than once"),
            (
                "{\"jobs\":[\n{\"id\":\"a\",\"request\":[true]}]}",
                "jobs[0].request[0]: invalid type: boolean `true`, expected f64 \
                 (line 2, column 25)",
            ),
            (r#"{"jobs":[{"id":"a\"]}","request":[{}]}]}"#, "jobs[0].request[0]: invalid"),
            (r#"{"jobs":[]} x"#, "problem: trailing characters"),
            (r#"{"jobs":[{"id":7,"request":[]}]}"#, "jobs[0].id: invalid type: integer `7`"),
            (r#"{"jobs":[],"more":1}"#, "more: unknown field, expected `jobs`"),
            (r#"{"jobs":{}}"#, "jobs: invalid type: map, expected a sequence"),
            (r#"{"jobs":[{"id":"a","request":[1]"#, "jobs[0].request: EOF while parsing"),
        ] {
            let error = parse::<Problem<'_>>(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}\n{error}\nis not\n{expected}");
        }
    }
}
