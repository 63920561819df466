// SPDX-License-Identifier: GPL-3.0-or-later
//! From text to a checked [`Config`].
//!
//! Three steps: the text becomes a tree that knows where each key and value
//! stands; each key is checked against the table of keys; the typed values are
//! checked against each other. Only a tree without problems is deserialised,
//! so serde's own errors are a second line that tests expect never to see.

use std::ops::Range;

use serde::Deserialize;
use strsim::osa_distance;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::config::Config;
use super::error::Issue;
use super::keys::{self, Kind, Place};
use phalanx_core::limits::TEXT_NAMES_MAX;
use phalanx_messages::collect::{CONFIGURATION, HISTORY, NONE, OFF, Patch, valid_name};
use phalanx_messages::target::Target;

/// Maximum number of problems reported for one file.
const ISSUES_MAX: usize = 50;

/// Reads the text, or returns every problem, in the order of the text.
pub(super) fn parse(text: &str) -> Result<Config, Vec<Issue>> {
    let tree = DeTable::parse(text).map_err(|error| vec![syntax(text, &error)])?;
    let mut checker = Checker { text, issues: Vec::new(), found: 0 };
    checker.table(tree.get_ref(), &mut Vec::new());
    if !checker.issues.is_empty() {
        return Err(checker.finish());
    }
    let config = Config::deserialize(toml::de::Deserializer::from(tree.clone()))
        .map_err(|error| vec![syntax(text, &error)])?;
    for (paths, message) in relations(&config) {
        // The error points at the first of the keys that the file sets.
        let (path, span) = paths
            .iter()
            .find_map(|path| Some((*path, find(tree.get_ref(), path)?)))
            .unwrap_or((paths[0], 0..0));
        checker.add(span, path, &message);
    }
    checker.collectors(&config, tree.get_ref());
    if checker.issues.is_empty() { Ok(config) } else { Err(checker.finish()) }
}

/// Returns the candidate nearest to a misspelled `word`, if near enough to be meant: at most one
/// edit for each three letters begun; ties go to the first candidate.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = (word.chars().count() / 3 + 1).min(3);
    let distance = |candidate: &&str| osa_distance(&word.to_lowercase(), candidate);
    let near = candidates.into_iter().filter(|candidate| distance(candidate) <= limit);
    near.min_by_key(distance)
}

/// Converts an error of the TOML parser; where it is about the value of a known key, with what that
/// key expects, as most such values are words without quotes.
fn syntax(text: &str, error: &toml::de::Error) -> Issue {
    let at = error.span().map_or(text.len(), |span| span.start);
    let said = error.message().trim_end();
    let Some((parts, value)) = assignment(text, at) else { return Issue::at(text, at, "", said) };
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let path = parts.iter().fold(String::new(), |path, part| keys::join(&path, part));
    match keys::lookup(&parts) {
        Place::Leaf(key) => {
            let message = format!("expected {}, got `{value}`: {said}", expected(key.kind));
            Issue::at(text, at, &path, &message)
        }
        _ => Issue::at(text, at, "", said),
    }
}

/// Path of the key whose value stands at a position of a text that is not TOML, and the value: from
/// the line there, below the last header of a table before it.
fn assignment(text: &str, at: usize) -> Option<(Vec<String>, &str)> {
    let at = text.floor_char_boundary(at);
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let (key, value) = text[start..].lines().next()?.split_once('=')?;
    if at <= start + key.len() {
        return None;
    }
    let names = |path: &str| -> Vec<String> {
        path.split('.').map(|name| name.trim().trim_matches(['"', '\'']).to_owned()).collect()
    };
    let header = text[..start].lines().rev().map(str::trim).find(|line| line.starts_with('['));
    let table = header.and_then(|line| line.strip_prefix('[')?.split(']').next());
    let mut parts = table.map(names).unwrap_or_default();
    parts.extend(names(key));
    Some((parts, value.split('#').next()?.trim()))
}

/// Returns the violated requirements between keys: the keys concerned and the message.
fn relations(config: &Config) -> Vec<(Vec<&'static str>, String)> {
    let mut out = Vec::new();
    if let Err(message) = config.energy.price.by_hour() {
        out.push((vec!["energy.price"], message));
    }
    let weights = &config.balance.initial_weights;
    if !weights.is_empty() && weights.values().all(|w| *w == 0.0) {
        out.push((
            vec!["balance.initial_weights"],
            "expected at least one weight above 0".to_owned(),
        ));
    }
    for master in &config.control.masters {
        if !matches!(master.parse::<Target>(), Ok(Target::Tcp(_))) {
            let message = format!("expected http://HOST[:PORT], got {master:?}");
            out.push((vec!["control.masters"], message));
        }
    }
    let paths = [
        ("control.socket", &config.control.socket),
        ("link.socket", &config.link.socket),
        ("history.path", &config.history.path),
    ];
    for (i, (a, path)) in paths.iter().enumerate() {
        for (b, _) in paths[i + 1..].iter().filter(|(_, other)| other == path) {
            out.push((vec![a, b], format!("same path as {b}: {}", path.display())));
        }
    }
    out
}

/// Returns the place of the value at a path (without quoted parts).
fn find(table: &DeTable<'_>, path: &str) -> Option<Range<usize>> {
    let mut table = table;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        let value = table.get(part)?;
        if parts.peek().is_none() {
            return Some(value.span());
        }
        table = value.get_ref().as_table()?;
    }
    None
}

struct Checker<'t> {
    text: &'t str,
    issues: Vec<Issue>,
    found: usize,
}

impl Checker<'_> {
    fn add(&mut self, span: Range<usize>, path: &str, message: &str) {
        self.found += 1;
        if self.found <= ISSUES_MAX {
            self.issues.push(Issue::at(self.text, span.start, path, message));
        }
    }

    fn finish(mut self) -> Vec<Issue> {
        self.issues.sort_by_key(|issue| (issue.line, issue.column));
        if let (more @ 1.., Some(last)) = (self.found - self.issues.len(), self.issues.last_mut()) {
            last.message.push_str(&format!(" (and {more} more problems)"));
        }
        self.issues
    }

    /// Checks the names and types of the fields of one `[collector.NAME]`.
    fn registration(&mut self, path: &str, value: &Spanned<DeValue<'_>>, table: &DeTable<'_>) {
        if let Some((name, _)) = table.get_key_value("name") {
            self.add(name.span(), &keys::join(path, "name"), "unknown key: the table has the name");
        }
        let read = Patch::deserialize(toml::de::ValueDeserializer::from(value.clone()));
        let Err(error) = read else { return };
        let span = error.span().unwrap_or_else(|| value.span());
        let at = table.iter().find(|(name, of)| name.span() == span || of.span() == span);
        let path = at.map_or_else(|| path.to_owned(), |(name, _)| keys::join(path, name.get_ref()));
        // serde names the unknown field first, then those that it expects.
        let mut words = error.message().split('`').skip(1).step_by(2);
        let unknown = words.next().filter(|_| error.message().starts_with("unknown field"));
        let message = match unknown.map(|unknown| nearest(unknown, words)) {
            Some(Some(meant)) => format!("unknown key; did you mean `{meant}`?"),
            _ => error.message().trim_end().to_owned(),
        };
        self.add(span, &path, &message);
    }

    /// Checks each `[collector.NAME]` as a whole.
    fn collectors(&mut self, config: &Config, tree: &DeTable<'_>) {
        let table = tree.get("collector").and_then(|table| table.get_ref().as_table());
        let mut room = TEXT_NAMES_MAX;
        for registration in config.registrations() {
            if let Err(message) = registration.check_within(&mut room) {
                let name = registration.name.as_str();
                let place = table.and_then(|table| table.get_key_value(name));
                let span = place.map_or(0..0, |(key, _)| key.span());
                self.add(span, &keys::join("collector", name), &message);
            }
        }
    }

    /// Checks every key of a table whose path is `parts`.
    fn table(&mut self, table: &DeTable<'_>, parts: &mut Vec<String>) {
        for (name, value) in table.iter() {
            parts.push(name.get_ref().to_string());
            let borrowed: Vec<&str> = parts.iter().map(String::as_str).collect();
            let path = borrowed.iter().fold(String::new(), |path, part| keys::join(&path, part));
            match keys::lookup(&borrowed) {
                Place::Leaf(key) => self.value(&path, key.kind, value),
                Place::Table => match value.get_ref() {
                    DeValue::Table(inner) => {
                        if borrowed.len() == 2 && borrowed[0] == "partition" {
                            self.name(name.span(), &path, borrowed[1]);
                        }
                        self.table(inner, parts);
                    }
                    other => {
                        let message = format!("expected a table [{path}], got {}", show(other));
                        self.add(value.span(), &path, &message);
                    }
                },
                Place::Unknown if self.found >= ISSUES_MAX => self.found += 1,
                Place::Unknown => self.add(name.span(), &path, &unknown(&borrowed)),
            }
            parts.pop();
        }
    }

    /// Checks a partition's name.
    fn name(&mut self, span: Range<usize>, path: &str, name: &str) {
        let bad = |c: char| c.is_whitespace() || c.is_control() || c == ',';
        if name.is_empty() || name.len() > keys::NAME_MAX || name.contains(bad) {
            let message = format!(
                "expected a partition's name of 1 to {} bytes without spaces or commas",
                keys::NAME_MAX
            );
            self.add(span, path, &message);
        }
    }

    fn value(&mut self, path: &str, kind: Kind, value: &Spanned<DeValue<'_>>) {
        match (kind, value.get_ref()) {
            (Kind::Uids | Kind::Choices(_) | Kind::Dirs | Kind::Texts, DeValue::Array(items)) => {
                self.list(path, kind, value.span(), items);
            }
            (Kind::Weights, DeValue::Table(entries)) => self.weights(path, entries, dimension),
            (Kind::Amounts, DeValue::Table(entries)) => self.weights(path, entries, class_name),
            (Kind::DayPrices, DeValue::Table(entries)) => self.weights(path, entries, hours),
            (Kind::DayPrices, DeValue::Array(items)) => {
                self.list(path, kind, value.span(), items);
            }
            (Kind::Registration, DeValue::Table(table)) => self.registration(path, value, table),
            (kind, found) => {
                if let Err(message) = scalar(kind, found) {
                    self.add(value.span(), path, &message);
                }
            }
        }
    }

    fn list(&mut self, path: &str, kind: Kind, span: Range<usize>, items: &toml::de::DeArray<'_>) {
        let (item_kind, least, most) = match kind {
            Kind::Choices(words) => (Kind::Choice(words), 1, words.len()),
            Kind::Dirs => (Kind::File, 0, keys::LIST_MAX),
            Kind::Texts => (Kind::Text, 0, keys::LIST_MAX),
            Kind::DayPrices => (Kind::Real { min: 0.0, max: keys::WEIGHT_MAX }, 0, 24),
            _ => (keys_uid(), 0, keys::UIDS_MAX),
        };
        if items.len() < least || items.len() > most {
            let message = format!("expected {least} to {most} entries, got {}", items.len());
            self.add(span, path, &message);
        }
        let mut seen: Vec<String> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            if let Err(message) = scalar(item_kind, item.get_ref()) {
                self.add(item.span(), &path, &message);
                continue;
            }
            let shown = show_value(item.get_ref());
            // Arguments of a command may repeat, and prices.
            if !matches!(kind, Kind::Texts | Kind::DayPrices) && seen.contains(&shown) {
                self.add(item.span(), &path, &format!("{shown} is listed twice"));
            }
            seen.push(shown);
        }
    }

    fn weights(
        &mut self,
        path: &str,
        entries: &DeTable<'_>,
        name_is: fn(&str) -> Result<(), String>,
    ) {
        let max = phalanx_core::limits::DIMENSIONS_MAX;
        for (index, (name, value)) in entries.iter().enumerate() {
            let path = keys::join(path, name.get_ref());
            if index == max {
                self.add(name.span(), &path, &format!("expected at most {max} entries"));
            }
            if let Err(message) = name_is(name.get_ref()) {
                self.add(name.span(), &path, &message);
            }
            let kind = Kind::Real { min: 0.0, max: keys::WEIGHT_MAX };
            if let Err(message) = scalar(kind, value.get_ref()) {
                self.add(value.span(), &path, &message);
            }
        }
    }
}

/// Returns the kind of a user id: all of `uid_t` but -1, which means "nobody in particular".
const fn keys_uid() -> Kind {
    Kind::Int { min: 0, max: 4_294_967_294, unit: "" }
}

/// Checks the name of a class of nodes.
fn class_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > keys::CLASS_NAME_MAX {
        return Err(format!("expected a name of 1 to {} bytes", keys::CLASS_NAME_MAX));
    }
    Ok(())
}

/// Checks a range of hours of the day.
fn hours(range: &str) -> Result<(), String> {
    super::energy::hours_of(range).map(|_| ())
}

/// Checks the name of a resource dimension.
fn dimension(name: &str) -> Result<(), String> {
    let rest = name.strip_prefix("gres/").or_else(|| name.strip_prefix("license/"));
    let valid = match rest {
        Some(rest) => {
            !rest.is_empty()
                && !rest.starts_with(':')
                && !rest.ends_with(':')
                && !rest.contains(|c: char| c.is_whitespace() || c.is_control() || c == ',')
        }
        None => name == "cpu" || name == "mem",
    };
    if valid && name.len() <= keys::NAME_MAX {
        return Ok(());
    }
    let mut message =
        "expected a dimension: cpu, mem, gres/NAME, gres/NAME:TYPE or license/NAME".to_owned();
    let meant = match name {
        "gpu" | "gpus" => Some("gres/gpu"),
        "memory" => Some("mem"),
        "cpus" | "core" | "cores" => Some("cpu"),
        _ => nearest(name, ["cpu", "mem", "gres/gpu"]),
    };
    if let Some(meant) = meant {
        message.push_str(&format!("; did you mean {meant:?}?"));
    }
    Err(message)
}

/// Checks one value without entries.
fn scalar(kind: Kind, found: &DeValue<'_>) -> Result<(), String> {
    let wrong = |expected: &str| Err(format!("expected {expected}, got {}", show(found)));
    match (kind, found) {
        (Kind::Bool, DeValue::Boolean(_)) => Ok(()),
        (Kind::Bool, _) => wrong("true or false"),
        (Kind::Choice(words), DeValue::String(word)) if words.contains(&word.as_ref()) => Ok(()),
        (Kind::Choice(words), _) => {
            let hint = found
                .as_str()
                .and_then(|word| nearest(word, words.iter().copied()))
                .map_or(String::new(), |meant| format!("; did you mean {meant:?}?"));
            Err(format!("expected {}, got {}{hint}", one_of(words), show(found)))
        }
        (Kind::Int { min, max, .. }, DeValue::Integer(number)) => {
            let value = u64::from_str_radix(number.as_str(), number.radix());
            match value {
                Ok(value) if (min..=max).contains(&value) => Ok(()),
                _ => wrong(&expected(kind)),
            }
        }
        (Kind::Real { min, max }, DeValue::Integer(_) | DeValue::Float(_)) => match real(found) {
            Some(value) if value >= min && value <= max => Ok(()),
            _ => wrong(&expected(kind)),
        },
        (Kind::File | Kind::Socket, DeValue::String(path)) => file(kind, path),
        (Kind::MaybeFile | Kind::Listen, DeValue::String(text)) if text.is_empty() => Ok(()),
        (Kind::MaybeFile, DeValue::String(path)) => file(kind, path),
        (Kind::Listen, DeValue::String(text))
            if text.parse::<std::net::SocketAddr>().is_ok_and(|address| address.port() > 0) =>
        {
            Ok(())
        }
        (Kind::Datum(words), DeValue::String(name))
            if words.contains(&&**name)
                || valid_name(name) && ![CONFIGURATION, HISTORY, NONE, OFF].contains(&&**name) =>
        {
            Ok(())
        }
        (Kind::Text, DeValue::String(_)) => Ok(()),
        _ => wrong(&expected(kind)),
    }
}

fn real(found: &DeValue<'_>) -> Option<f64> {
    match found {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    }
}

fn file(kind: Kind, path: &str) -> Result<(), String> {
    if !path.starts_with('/') || path.ends_with('/') || path.contains('\0') {
        return Err(format!("expected {}, got {path:?}", expected(kind)));
    }
    if kind == Kind::Socket && path.len() > keys::SOCKET_PATH_MAX {
        return Err(format!(
            "expected at most {} bytes (a Unix socket's address), got {}",
            keys::SOCKET_PATH_MAX,
            path.len()
        ));
    }
    Ok(())
}

/// Describes the values that a kind allows.
fn expected(kind: Kind) -> String {
    match kind {
        Kind::Choice(words) => one_of(words),
        Kind::Choices(words) => format!("a list of {}", one_of(words)),
        Kind::Int { min, max, unit } => {
            let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
            format!("an integer from {min} to {max}{unit}")
        }
        Kind::Real { min, max } => format!("a number from {min} to {max}"),
        Kind::Bool => "true or false".to_owned(),
        Kind::File => "the absolute path of a file".to_owned(),
        Kind::Socket => "the absolute path of a socket".to_owned(),
        Kind::Uids => "a list of user ids (integers)".to_owned(),
        Kind::Listen => {
            "\"\" or an address with a port such as \"127.0.0.1:6820\" or \"[::1]:6820\"".to_owned()
        }
        Kind::MaybeFile => "\"\" or an absolute path".to_owned(),
        Kind::Dirs => "a list of absolute paths".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Texts => "a list of texts".to_owned(),
        Kind::Registration => "a table of a registration".to_owned(),
        Kind::Amounts => "a table of amounts such as { gpu = 700.0 }".to_owned(),
        Kind::DayPrices => {
            "24 prices, or a table of them by hours such as { 6-22 = 0.3, 22-6 = 0.2 }".to_owned()
        }
        Kind::Datum(words) => format!("the name of a datum, or {}", one_of(words)),
        Kind::Weights => "a table of weights such as { cpu = 1.0, mem = 1.0 }".to_owned(),
    }
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.join(""),
    }
}

/// Returns the value with its type, shortened.
fn show(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
        other => format!("{} {}", other.type_str(), show_value(other)),
    }
}

fn show_value(value: &DeValue<'_>) -> String {
    const LONGEST: usize = 60;
    match value {
        DeValue::String(text) if text.chars().count() > LONGEST => {
            let head: String = text.chars().take(LONGEST).collect();
            format!("{head:?}...")
        }
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) | DeValue::Table(_) => String::new(),
    }
}

/// Returns the message for a path that is no known key.
fn unknown(parts: &[&str]) -> String {
    let Some((name, parents)) = parts.split_last() else {
        return "unknown key".to_owned();
    };
    let known = keys::names_below(parents);
    if let Some(meant) = nearest(name, known.iter().copied()) {
        return format!("unknown key; did you mean `{meant}`?");
    }
    // Perhaps the right word in the wrong table.
    let elsewhere = keys::keys()
        .filter(|key| !key.path.contains('*'))
        .filter_map(|key| Some((key.path, key.path.rsplit_once('.')?)))
        .filter(|(_, (_, leaf))| osa_distance(name, leaf) <= 1)
        .min_by_key(|(_, (_, leaf))| osa_distance(name, leaf));
    if let Some((_, (table, leaf))) = elsewhere {
        return format!("unknown key here; did you mean `{leaf}` of [{table}]?");
    }
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    format!("unknown key, expected one of {}", names.join(", "))
}
