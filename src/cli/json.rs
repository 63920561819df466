// SPDX-License-Identifier: GPL-3.0-or-later
//! Indenting JSON without touching its content.

/// Indents valid JSON by two spaces. Order of keys, unknown fields and the
/// text of numbers stay as they are.
pub(super) fn indent(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                out.push(c);
                copy_string(&mut chars, &mut out);
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                // Empty ones stay on one line.
                if let Some(close) = chars.next_if(|c| *c == '}' || *c == ']') {
                    out.push(close);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out.push('\n');
    out
}

/// Copies up to and with the closing quote.
fn copy_string(chars: &mut impl Iterator<Item = char>, out: &mut String) {
    while let Some(c) = chars.next() {
        out.push(c);
        match c {
            '\\' => out.extend(chars.next()),
            '"' => return,
            _ => {}
        }
    }
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::indent;

    #[test]
    fn content_stays_and_lines_are_indented() {
        let body = r#"{"b":1.50,"a":[],"s":"x, {\"y\": [\\]}","o":{ "k" : [1,{}] }}"#;
        let text = indent(body.as_bytes());
        let expected = "{\n  \"b\": 1.50,\n  \"a\": [],\n  \"s\": \"x, {\\\"y\\\": [\\\\]}\",\n  \
                        \"o\": {\n    \"k\": [\n      1,\n      {}\n    ]\n  }\n}\n";
        assert_eq!(text, expected);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value, serde_json::from_str::<serde_json::Value>(body).unwrap());
        // The same layout as serde_json's own.
        let sorted = r#"{"a":[1,[],{"b":null}],"c":"d"}"#;
        let value: serde_json::Value = serde_json::from_str(sorted).unwrap();
        let own = serde_json::to_string_pretty(&value).unwrap() + "\n";
        assert_eq!(indent(sorted.as_bytes()), own);
    }
}
