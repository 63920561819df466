// SPDX-License-Identifier: GPL-3.0-or-later
//! Parses the tokens in a job's comment that name its input.

use std::collections::HashSet;

use phalanx_core::comment::token;
use phalanx_core::limits::{DATA_URIS_MAX, DATASET_NAME_BYTES_MAX, SPLITS_MAX};

/// Key of the token that names files of HDFS.
const FILES: &str = "hdfs-input";
/// Key of the token that names datasets.
const DATASETS: &str = "data-input";

/// Unit into which an input is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum SplitBy {
    /// A split for each block.
    #[default]
    Block,
    /// Number of splits in all, but at least one for each file that has bytes.
    Count(u64),
    /// Splits of at most this size, bytes.
    Bytes(u64),
}

/// Importance of local reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Locality {
    /// Splits are read near their blocks where that is possible at once.
    #[default]
    Prefer,
    /// The job waits for the nodes that hold the blocks, within the administrator's limit; a split
    /// is read on a node that holds it wherever the job has one.
    Require,
    /// The job may run on any nodes, and still gets its block map.
    Off,
}

/// A job's declaration of its input.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Declaration {
    /// URIs or paths, as given, percent signs decoded.
    pub uris: Vec<String>,
    /// Names of datasets, percent signs decoded.
    pub datasets: Vec<String>,
    /// Unit of the cut.
    pub split: SplitBy,
    /// Whether directories within directories are read too.
    pub recursive: bool,
    /// Importance of local reads.
    pub locality: Locality,
}

/// An error of a declaration; the text is for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeclareError(String);

impl Declaration {
    /// Returns all names of the declaration, with commas between.
    #[must_use]
    pub fn names(&self) -> String {
        let all: Vec<&str> = self.uris.iter().chain(&self.datasets).map(String::as_str).collect();
        all.join(",")
    }
}

fn error<T>(text: impl Into<String>) -> Result<T, DeclareError> {
    Err(DeclareError(text.into()))
}

/// The declaration of a job: the administrator's comment, into which a submit plugin writes, counts
/// before the user's.
///
/// # Errors
/// Fails with a [`DeclareError`] for a declaration that cannot be used.
pub fn of_job(comment: &str, admin_comment: &str) -> Result<Option<Declaration>, DeclareError> {
    match declared(admin_comment)? {
        Some(found) => Ok(Some(found)),
        None => declared(comment),
    }
}

/// The declaration in a comment; `None` without a token `hdfs-input=` or `data-input=`.
///
/// `hdfs-input=URI[,URI...]` names files, `data-input=NAME[,NAME...]` datasets that a list of the
/// site or its nodes name, each once; and anywhere beside them, between semicolons,
/// `split=block|COUNT|SIZE{K,M,G}`, `recursive`, `locality=prefer|require|off`. Within a URI or
/// name `%2C`, `%3B`, `%20` and `%25` stand for comma, semicolon, space and percent sign.
///
/// # Errors
/// Fails with a [`DeclareError`] for a declaration that cannot be used.
pub fn declared(comment: &str) -> Result<Option<Declaration>, DeclareError> {
    let named = |key: &str| {
        let is = |part: &str| part.split_once('=').is_some_and(|(name, _)| name.trim() == key);
        comment.split(';').any(is)
    };
    let mut found = Declaration::default();
    match token(comment, FILES) {
        Some(value) => found.uris = listed(FILES, value, uri)?,
        None if named(FILES) => {
            return error("hdfs-input: expected a path or URI after `hdfs-input=`");
        }
        None => {}
    }
    match token(comment, DATASETS) {
        Some(value) => found.datasets = listed(DATASETS, value, dataset)?,
        None if named(DATASETS) => {
            return error("data-input: expected the name of a dataset after `data-input=`");
        }
        None => {}
    }
    if found.uris.is_empty() && found.datasets.is_empty() {
        return Ok(None);
    }
    let key = if found.uris.is_empty() { DATASETS } else { FILES };
    let of_key = |DeclareError(text)| DeclareError(format!("{key}: {text}"));
    for part in comment.split(';').map(str::trim) {
        match part.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some(("split", value)) => found.split = split(value).map_err(of_key)?,
            Some(("locality", value)) => found.locality = locality(value).map_err(of_key)?,
            None if part == "recursive" => found.recursive = true,
            // Other words are the user's own, but these are meant for us.
            Some((key, _)) if ["split", "local", "recurs"].iter().any(|p| key.starts_with(p)) => {
                return error(format!("{key}: `{part}`: expected split=, recursive or locality="));
            }
            _ => {}
        }
    }
    Ok(Some(found))
}

/// Reads the texts between commas, each checked by `one`.
fn listed(
    key: &str,
    value: &str,
    one: fn(String) -> Result<String, String>,
) -> Result<Vec<String>, DeclareError> {
    let each = |text: &str| {
        let good = decoded(text.trim()).and_then(one);
        good.map_err(|why| DeclareError(format!("{key}: {why}")))
    };
    let mut all = value.split(',').map(each).collect::<Result<Vec<_>, _>>()?;
    let mut known = HashSet::new();
    all.retain(|name| known.insert(name.clone()));
    if all.len() > DATA_URIS_MAX {
        return error(format!("{key}: {} names: at most {DATA_URIS_MAX} are taken", all.len()));
    }
    Ok(all)
}

/// The text with what stands behind percent signs decoded.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = after.get(..2).and_then(|d| std::str::from_utf8(d).ok());
        let Some(byte) = digits.and_then(|d| u8::from_str_radix(d, 16).ok()) else {
            return Err(format!("`{text}`: expected two hexadecimal digits after %"));
        };
        bytes.push(byte);
        rest = after.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| format!("`{text}`: not UTF-8"))
}

fn uri(uri: String) -> Result<String, String> {
    if uri.is_empty() {
        return Err("an empty URI: expected PATH or URI, several with commas between".to_owned());
    }
    if uri.starts_with('/') || uri.contains("://") {
        return Ok(uri);
    }
    Err(format!("`{uri}`: expected an absolute path or hdfs://, webhdfs://"))
}

/// Checks the name of a dataset, which must fit into tables with tabs and line ends.
fn dataset(name: String) -> Result<String, String> {
    if is_dataset_name(&name) {
        return Ok(name);
    }
    let start: String =
        name.chars().take(32).map(|c| if c.is_control() { '?' } else { c }).collect();
    Err(format!(
        "`{start}`: expected a name of 1 to {DATASET_NAME_BYTES_MAX} bytes without control \
         characters"
    ))
}

/// Whether `name` can be the name of a dataset.
#[must_use]
pub fn is_dataset_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= DATASET_NAME_BYTES_MAX && !name.chars().any(char::is_control)
}

fn split(value: &str) -> Result<SplitBy, DeclareError> {
    if value == "block" {
        return Ok(SplitBy::Block);
    }
    let wrong = || {
        DeclareError(format!(
            "`split={value}`: expected block, a number of splits (1 to {SPLITS_MAX}) or a size \
             such as 64M"
        ))
    };
    let shift = match value.bytes().last().map(|b| b.to_ascii_uppercase()) {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        _ => 0,
    };
    let digits = if shift == 0 { value } else { value.get(..value.len() - 1).unwrap_or("") };
    let number = digits.parse::<u64>().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
    if shift == 0 {
        let most = SPLITS_MAX as u64;
        return if number <= most { Ok(SplitBy::Count(number)) } else { Err(wrong()) };
    }
    number.checked_mul(1 << shift).map(SplitBy::Bytes).ok_or_else(wrong)
}

fn locality(value: &str) -> Result<Locality, DeclareError> {
    match value {
        "prefer" => Ok(Locality::Prefer),
        "require" => Ok(Locality::Require),
        "off" => Ok(Locality::Off),
        _ => error(format!("`locality={value}`: expected prefer, require or off")),
    }
}
