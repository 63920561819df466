// SPDX-License-Identifier: GPL-3.0-or-later
//! Hadoop's file patterns, component by component: `*`, `?`, `[a-z]`, `[^a]`, `{a,b}`, `\x`.

use ::glob::{MatchOptions, Pattern};

use super::HdfsError;
use phalanx_core::limits::HDFS_DIRECTORIES_MAX;

/// One component of a path.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Component {
    /// This name.
    Name(String),
    /// Names that match one of these.
    Any(Vec<Pattern>),
}

impl Component {
    pub(super) fn matches(&self, name: &str) -> bool {
        // `*` does match a name that begins with a dot; such files are hidden elsewhere.
        let options = MatchOptions { case_sensitive: true, ..MatchOptions::default() };
        match self {
            Self::Name(own) => own == name,
            Self::Any(patterns) => patterns.iter().any(|p| p.matches_with(name, options)),
        }
    }
}

/// A path as components; braces may not reach over a `/`.
pub(super) fn parse(path: &str) -> Result<Vec<Component>, HdfsError> {
    path.split('/').filter(|part| !part.is_empty()).map(component).collect()
}

fn component(text: &str) -> Result<Component, HdfsError> {
    if !text.contains(['*', '?', '[', '{', '\\']) {
        return Ok(Component::Name(text.to_owned()));
    }
    let bad = |why: String| HdfsError::BadUri(format!("pattern `{text}`: {why}"));
    let mut patterns = Vec::new();
    for one in braces(text).ok_or_else(|| bad("unbalanced or too many braces".to_owned()))? {
        let one = translate(&one).ok_or_else(|| bad("a `\\` at the end".to_owned()))?;
        patterns.push(Pattern::new(&one).map_err(|error| bad(error.msg.to_owned()))?);
    }
    Ok(Component::Any(patterns))
}

/// `a{b,c}d` as `abd`, `acd`; nested ones too.
fn braces(text: &str) -> Option<Vec<String>> {
    let mut done = Vec::new();
    let mut open = vec![text.to_owned()];
    while let Some(text) = open.pop() {
        if done.len() + open.len() > HDFS_DIRECTORIES_MAX {
            return None;
        }
        let Some((start, end, parts)) = first_brace(&text)? else {
            done.push(text);
            continue;
        };
        let (head, tail) = (text.get(..start)?, text.get(end..)?);
        open.extend(parts.iter().map(|part| format!("{head}{part}{tail}")));
    }
    Some(done)
}

/// Begin and end of the first brace, and its alternatives; `None` outside: unbalanced.
#[allow(clippy::type_complexity)]
fn first_brace(text: &str) -> Option<Option<(usize, usize, Vec<String>)>> {
    let (mut depth, mut start, mut parts, mut part) = (0u32, 0, Vec::new(), String::new());
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                let (_, next) = chars.next()?;
                part.extend(['\\', next]);
            }
            '{' => {
                depth += 1;
                if depth == 1 {
                    (start, part) = (at, String::new());
                } else {
                    part.push(c);
                }
            }
            '}' if depth == 1 => {
                parts.push(part);
                return Some(Some((start, at + 1, parts)));
            }
            ',' if depth == 1 => parts.push(std::mem::take(&mut part)),
            _ => {
                depth -= u32::from(c == '}' && depth > 0);
                part.push(c);
            }
        }
    }
    (depth == 0).then_some(None)
}

/// `\x` and `[^a]` as the pattern crate writes them: `[x]`, `[!a]`.
fn translate(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                special @ ('*' | '?' | '[' | ']') => out.extend(['[', special, ']']),
                plain => out.push(plain),
            },
            '[' => {
                out.push('[');
                let mut rest = chars.clone();
                if rest.next() == Some('^') {
                    out.push('!');
                    chars = rest;
                }
            }
            _ => out.push(c),
        }
    }
    // Two stars mean nothing special in one component.
    while out.contains("**") {
        out = out.replace("**", "*");
    }
    Some(out)
}
