// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads paths out of Rust source text.

/// A path, a method call, or the word `unsafe`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Line, from 1.
    pub line: usize,
    /// Names of the path; `*` for a glob.
    pub names: Vec<String>,
    /// Called with a dot.
    pub method: bool,
}

impl Seen {
    /// As it is written.
    pub fn text(&self) -> String {
        let dot = if self.method { "." } else { "" };
        format!("{dot}{}", self.names.join("::"))
    }
}

/// What a file mentions outside tests, comments and literals.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// In the order of the text.
    pub found: Vec<Seen>,
}

/// An identifier, `::`, or one character of punctuation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    line: usize,
    text: String,
}

impl Token {
    fn is_name(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

impl Scan {
    /// Scans one file.
    pub fn of(text: &str) -> Self {
        let tokens = without_tests(&tokens(text));
        let mut found = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            let before = at.checked_sub(1).map_or("", |i| tokens[i].text.as_str());
            if tokens[at].is_name() && before != "::" {
                let method = before == ".";
                at = read_path(&tokens, at, &[], method, &mut found).max(at + 1);
            } else {
                at += 1;
            }
        }
        Self { found }
    }
}

/// Reads the path that begins at `at`, with its groups; returns where it ends.
fn read_path(
    tokens: &[Token],
    at: usize,
    prefix: &[String],
    method: bool,
    found: &mut Vec<Seen>,
) -> usize {
    let text = |i: usize| tokens.get(i).map_or("", |t| t.text.as_str());
    let mut names = prefix.to_vec();
    let mut end = at;
    loop {
        names.push(text(end).to_owned());
        end += 1;
        if text(end) != "::" {
            break;
        }
        end += 1;
        if text(end) == "{" {
            return read_group(tokens, end, &names, found);
        }
        let goes_on = tokens.get(end).is_some_and(|t| t.is_name() || t.text == "*");
        if !goes_on {
            break;
        }
    }
    found.push(Seen { line: tokens[at].line, names, method });
    end
}

/// Reads `{a, b::{c, d}, self}` from its brace.
fn read_group(tokens: &[Token], open: usize, prefix: &[String], found: &mut Vec<Seen>) -> usize {
    let mut at = open + 1;
    while at < tokens.len() && tokens[at].text != "}" {
        let name = &tokens[at];
        if name.text == "self" {
            found.push(Seen { line: name.line, names: prefix.to_vec(), method: false });
            at += 1;
        } else if name.text == "as" {
            at += 2;
        } else if name.is_name() || name.text == "*" {
            at = read_path(tokens, at, prefix, false, found).max(at + 1);
        } else {
            at += 1;
        }
    }
    at + 1
}

/// Names deep a file's module is: `src/a/mod.rs` 1, `src/a/b.rs` 2.
pub fn depth(path: &str) -> usize {
    let inside = path.strip_prefix("src/").unwrap_or(path);
    let names = inside.split('/').count();
    if inside.ends_with("/mod.rs") { names - 1 } else { names }
}

/// Modules that a file declares at its top level.
pub fn declared_modules(text: &str) -> Vec<String> {
    let mut depth = 0usize;
    let mut modules = Vec::new();
    let tokens = tokens(text);
    for pair in tokens.windows(2) {
        match pair[0].text.as_str() {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "mod" if depth == 0 && pair[1].is_name() => modules.push(pair[1].text.clone()),
            _ => {}
        }
    }
    modules
}

/// Files of the modules that a file declares under `#[cfg(test)]`.
pub fn test_files(path: &str, text: &str) -> Vec<String> {
    let directory = match path.strip_suffix("/mod.rs") {
        Some(directory) => directory.to_owned(),
        None => path.strip_suffix(".rs").unwrap_or(path).to_owned(),
    };
    let all = tokens(text);
    let mut files = Vec::new();
    for at in 0..all.len() {
        let Some(end) = test_item(&all, at) else {
            continue;
        };
        let item: Vec<&str> = all[at..end].iter().map(|t| t.text.as_str()).collect();
        if let [.., "mod", name, ";"] = item[..] {
            files.push(format!("{directory}/{name}.rs"));
            files.push(format!("{directory}/{name}/mod.rs"));
        }
    }
    files
}

fn without_tests(all: &[Token]) -> Vec<Token> {
    let mut kept = Vec::with_capacity(all.len());
    let mut at = 0;
    while at < all.len() {
        match test_item(all, at) {
            Some(end) => at = end,
            None => {
                kept.push(all[at].clone());
                at += 1;
            }
        }
    }
    kept
}

/// Where the item ends that `#[cfg(test)]` at `at` stands before.
fn test_item(all: &[Token], at: usize) -> Option<usize> {
    let attribute = ["#", "[", "cfg", "(", "test", ")", "]"];
    let same = |(token, text): (&Token, &&str)| token.text == **text;
    let here = all.get(at..at + attribute.len())?;
    if !here.iter().zip(&attribute).all(same) {
        return None;
    }
    let mut open = 0usize;
    let mut at = at + attribute.len();
    while let Some(token) = all.get(at) {
        at += 1;
        match token.text.as_str() {
            "{" | "(" | "[" => open += 1,
            "}" | ")" | "]" => {
                open = open.saturating_sub(1);
                if open == 0 && token.text == "}" && !use_group(all, at) {
                    return Some(at);
                }
            }
            ";" if open == 0 => return Some(at),
            _ => {}
        }
    }
    Some(all.len())
}

/// `use a::{b, c};`: the brace is not the end of the item.
fn use_group(all: &[Token], at: usize) -> bool {
    all.get(at).is_some_and(|token| token.text == ";")
}

fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < chars.len() {
        let end = skip(&chars, at);
        if end > at {
            line += chars[at..end.min(chars.len())].iter().filter(|c| **c == '\n').count();
            at = end;
            continue;
        }
        let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
        let len = match chars[at] {
            c if is_word(&c) => chars[at..].iter().take_while(|c| is_word(c)).count(),
            ':' if chars.get(at + 1) == Some(&':') => 2,
            _ => 1,
        };
        let token: String = chars[at..at + len].iter().collect();
        found.push(Token { line, text: token });
        at += len;
    }
    found
}

/// End of the blank, comment or literal that begins at `at`; `at` if none does.
fn skip(chars: &[char], at: usize) -> usize {
    let starts = |text: &str| text.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
    let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match chars[at] {
        c if c.is_whitespace() => at + 1,
        '/' if starts("//") => {
            at + chars[at..].iter().position(|c| *c == '\n').unwrap_or(chars.len() - at)
        }
        '/' if starts("/*") => end_of_comment(chars, at),
        '"' => end_of_string(chars, at + 1),
        '\'' => end_of_char(chars, at),
        'b' | 'r' | 'c' if !in_word => end_of_prefixed(chars, at),
        _ => at,
    }
}

fn end_of_comment(chars: &[char], at: usize) -> usize {
    let mut depth = 0usize;
    let mut at = at;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

fn end_of_string(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// A character literal; a lifetime is passed over by its quote alone.
fn end_of_char(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => {
            let close = chars.iter().skip(at + 3).position(|c| *c == '\'');
            close.map_or(chars.len(), |n| at + 3 + n + 1)
        }
        (Some(_), Some('\'')) => at + 3,
        _ => at + 1,
    }
}

/// `r"..."`, `r#"..."#`, `b"..."`, `br"..."`, `c"..."`, `b'x'`.
fn end_of_prefixed(chars: &[char], at: usize) -> usize {
    let letters = chars[at..].iter().take_while(|c| matches!(c, 'b' | 'r' | 'c')).count();
    let raw = chars[at..at + letters].contains(&'r');
    let hashes = chars[at + letters..].iter().take_while(|c| **c == '#').count();
    let quote = at + letters + hashes;
    match chars.get(quote) {
        Some('"') if raw => {
            let close =
                |end: usize| chars[end + 1..].iter().take(hashes).filter(|c| **c == '#').count();
            let mut end = quote + 1;
            while end < chars.len() && (chars[end] != '"' || close(end) < hashes) {
                end += 1;
            }
            end + 1 + hashes
        }
        Some('"') if hashes == 0 => end_of_string(chars, quote + 1),
        Some('\'') if hashes == 0 && letters == 1 && chars[at] == 'b' => end_of_char(chars, quote),
        _ => at,
    }
}
