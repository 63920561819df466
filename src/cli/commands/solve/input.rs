// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading a JSON problem with errors that name the field.

use serde::Deserialize;

use super::method::SolveError;

/// Parses `bytes` as a `T`.
///
/// # Errors
/// Bad input that begins with the path of the offending field, for example
/// ``jobs[3].nodes: invalid value: integer `-1`, expected u64 (line 1, column 90)``.
pub fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, SolveError> {
    serde_json::from_slice(bytes).map_err(|error| {
        // Read once more: keeping the path takes time that a good problem does not need.
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let again = serde_path_to_error::deserialize::<_, T>(&mut reader);
        let path = again.err().map_or(String::new(), |error| error.path().to_string());
        // A dot stands for the whole, a question mark for where the text ends.
        located(path.trim_end_matches(['.', '?']), &error)
    })
}

/// Converts a serde error, which has line and column, to an error with a path.
fn located(path: &str, error: &serde_json::Error) -> SolveError {
    let (line, column) = (error.line(), error.column());
    let full = error.to_string();
    let text = full.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&full);
    let place = format!("(line {line}, column {column})");
    let named = |kind: &str| Some((text.strip_prefix(kind)?.split('`').next()?, path));
    let within = |(field, path): (&str, &str)| match path.rsplit('.').next() {
        Some(last) if last == field => path.to_owned(),
        _ if path.is_empty() => field.to_owned(),
        _ => format!("{path}.{field}"),
    };
    if let Some(field) = named("missing field `").map(within) {
        return SolveError::input(field, format!("missing {place}"));
    }
    if let Some(field) = named("unknown field `").map(within) {
        let expected = text.split_once(", ").map_or("no fields", |(_, expected)| expected);
        return SolveError::input(field, format!("unknown field, {expected} {place}"));
    }
    if let Some(field) = named("duplicate field `").map(within) {
        return SolveError::input(field, format!("given more than once {place}"));
    }
    let path = if path.is_empty() { "problem" } else { path };
    SolveError::input(path, format!("{text} {place}"))
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
            (r#"{"jobs":[{"id":"a","request":[1]"#, "jobs[0]: EOF while parsing an object"),
        ] {
            let error = parse::<Problem<'_>>(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}\n{error}\nis not\n{expected}");
        }
    }
}
