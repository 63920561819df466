// SPDX-License-Identifier: GPL-3.0-or-later
//! Hadoop's file patterns, component by component: `*`, `?`, `[a-z]`, `[^a]`, `{a,b}`, `\x`.

use regex::Regex;

use super::error::HdfsError;

#[derive(Debug, Clone)]
pub(super) enum Component {
    /// The component has no pattern.
    Name(String),
    /// Every name that matches a pattern.
    Pattern(Regex),
}

impl Component {
    pub(super) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Pattern(pattern) => pattern.is_match(name),
        }
    }
}

/// Splits a path into components; braces may not reach over a `/`.
pub(super) fn parse(path: &str) -> Result<Vec<Component>, HdfsError> {
    path.split('/').filter(|part| !part.is_empty()).map(component).collect()
}

fn component(text: &str) -> Result<Component, HdfsError> {
    if !text.contains(['*', '?', '[', '{', '\\']) {
        return Ok(Component::Name(text.to_owned()));
    }
    let bad = |why: &str| HdfsError::BadUri(format!("pattern `{text}`: {why}"));
    let regex = translate(text).ok_or_else(|| bad("unbalanced braces, brackets or `\\`"))?;
    Regex::new(&regex).map(Component::Pattern).map_err(|_| bad("malformed or too large"))
}

/// The pattern as a regular expression; `None` if something in it is not closed.
fn translate(text: &str) -> Option<String> {
    let (mut regex, mut braces) = ("(?s)^".to_owned(), 0_u32);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '\\' => regex.push_str(&escaped(chars.next()?)),
            '[' => {
                regex.push('[');
                if chars.next_if(|c| matches!(c, '^' | '!')).is_some() {
                    regex.push('^');
                }
                class(&mut chars, &mut regex)?;
            }
            '{' => {
                braces += 1;
                regex.push_str("(?:");
            }
            ',' if braces > 0 => regex.push('|'),
            '}' if braces > 0 => {
                braces -= 1;
                regex.push(')');
            }
            other => regex.push_str(&escaped(other)),
        }
    }
    (braces == 0).then(|| regex + "$")
}

/// Parses a character class up to its `]`, which is an ordinary character at the beginning.
fn class(chars: &mut impl Iterator<Item = char>, regex: &mut String) -> Option<()> {
    let mut empty = true;
    loop {
        match chars.next()? {
            ']' if !empty => break,
            '-' => regex.push('-'),
            '\\' => regex.push_str(&escaped(chars.next()?)),
            other => regex.push_str(&escaped(other)),
        }
        empty = false;
    }
    regex.push(']');
    Some(())
}

fn escaped(c: char) -> String {
    regex::escape(c.encode_utf8(&mut [0; 4]))
}
