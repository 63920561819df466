// SPDX-License-Identifier: GPL-3.0-or-later
//! GRES strings as Slurm prints them.
//!
//! On nodes: `gpu:a100:4(S:0-1),nic:2`; in requests (22.05):
//! `gres:gpu:a100:2` or `gpu:2`, counts with the suffixes k, m, g, t, p.
//! Source: `src/common/gres.c` `_get_gres_cnt`, `_validate_gres_conf`.

/// An entry: kind, type if any, count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `gpu`
    pub kind: String,
    /// `a100`
    pub gres_type: Option<String>,
    /// Count.
    pub count: u64,
}

/// Parses a comma-separated list; parts that are not GRES (`cpu:2`,
/// `license:x`) are passed over.
///
/// # Errors
/// The entry and what was expected in it.
pub fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    for part in split_outside_parentheses(text) {
        let part = part.trim();
        if part.is_empty() || part == "(null)" || part == "N/A" {
            continue;
        }
        let body = part.split('(').next().unwrap_or(part);
        let (prefixed, body) = match body.strip_prefix("gres:").or(body.strip_prefix("gres/")) {
            Some(rest) => (true, rest),
            None => (false, body),
        };
        let fields: Vec<&str> = body.split([':', '=']).filter(|f| *f != "no_consume").collect();
        if !prefixed && matches!(fields.first(), Some(&"cpu" | &"mem" | &"license" | &"bb")) {
            continue;
        }
        entries.push(entry(part, &fields)?);
    }
    Ok(entries)
}

fn entry(part: &str, fields: &[&str]) -> Result<Entry, String> {
    let kind = fields.first().copied().unwrap_or_default();
    if kind.is_empty() {
        return Err(format!("gres `{part}`: expected name[:type][:count]"));
    }
    let (gres_type, count) = match fields {
        [_] => (None, 1),
        [_, last] => match count(last) {
            Some(n) => (None, n),
            None => (Some((*last).to_owned()), 1),
        },
        [_, kind_type, last] => {
            let n = count(last).ok_or_else(|| format!("gres `{part}`: bad count `{last}`"))?;
            (Some((*kind_type).to_owned()), n)
        }
        _ => return Err(format!("gres `{part}`: expected name[:type][:count]")),
    };
    Ok(Entry { kind: kind.to_owned(), gres_type, count })
}

fn count(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match text.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "" => 1u64,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        "p" => 1 << 50,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

fn split_outside_parentheses(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(String, Option<String>, u64)> {
        parse(text).unwrap().into_iter().map(|e| (e.kind, e.gres_type, e.count)).collect()
    }

    #[test]
    fn node_and_request_forms() {
        let gpu = |t: Option<&str>, n| ("gpu".to_owned(), t.map(str::to_owned), n);
        assert_eq!(
            of("gpu:a100:4(S:0-1),gpu:v100:2"),
            [gpu(Some("a100"), 4), gpu(Some("v100"), 2)]
        );
        assert_eq!(of("gpu:4"), [gpu(None, 4)]);
        assert_eq!(of("gpu"), [gpu(None, 1)]);
        assert_eq!(of("gpu:a100"), [gpu(Some("a100"), 1)]);
        assert_eq!(of("gres:gpu:2"), [gpu(None, 2)]);
        assert_eq!(of("gres/gpu=2"), [gpu(None, 2)]);
        assert_eq!(
            of("gpu:a100:2(IDX:0,2),mps:1k"),
            [gpu(Some("a100"), 2), ("mps".to_owned(), None, 1024)]
        );
        assert_eq!(of("cpu:4,(null)"), []);
        assert_eq!(of(""), []);
    }

    #[test]
    fn errors_name_the_entry() {
        for bad in ["gpu:a:b", ":4", "gpu:a:1:2", "gpu:a100:9999999999999999999p"] {
            let error = parse(bad).unwrap_err();
            assert!(error.contains(&format!("`{bad}`")), "{error}");
        }
    }
}
