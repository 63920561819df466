// SPDX-License-Identifier: GPL-3.0-or-later
//! The token in a job's comment that names its input.

use phalanx_core::comment::token;
use phalanx_core::limits::{DATA_URIS_MAX, SPLITS_MAX};

/// Key of the token.
const KEY: &str = "hdfs-input";

/// Unit into which an input is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum SplitBy {
    /// One split for each block.
    #[default]
    Block,
    /// So many splits in all, but at least one for each file that has bytes.
    Count(u64),
    /// Splits of at most so many bytes.
    Bytes(u64),
}

/// Importance of local reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Locality {
    /// Near the blocks where that is possible now.
    #[default]
    Prefer,
    /// Wait for the nodes that hold the blocks, within the administrator's limit; a split is read
    /// on a node that holds it wherever the job has one.
    Require,
    /// Any nodes; the job still gets its block map.
    Off,
}

/// A job's declaration of its input.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Declaration {
    /// URIs or paths, as given, percent signs decoded.
    pub uris: Vec<String>,
    /// Unit of the cut.
    pub split: SplitBy,
    /// Directories within directories too.
    pub recursive: bool,
    /// Importance of local reads.
    pub locality: Locality,
}

/// An error of a declaration; the text is for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hdfs-input: {0}")]
pub struct DeclareError(String);

fn error<T>(text: impl Into<String>) -> Result<T, DeclareError> {
    Err(DeclareError(text.into()))
}

/// The declaration of a job: the administrator's comment counts before the user's, as a submit
/// plugin writes it.
///
/// # Errors
/// Fails with a [`DeclareError`] for a declaration that cannot be used.
pub fn of_job(comment: &str, admin_comment: &str) -> Result<Option<Declaration>, DeclareError> {
    match declared(admin_comment)? {
        Some(found) => Ok(Some(found)),
        None => declared(comment),
    }
}

/// The declaration in a comment; `None` without the token `hdfs-input=`.
///
/// `hdfs-input=URI[,URI...]`, and anywhere beside it, between semicolons,
/// `split=block|COUNT|SIZE{K,M,G}`, `recursive`, `locality=prefer|require|off`. Within a URI
/// `%2C`, `%3B`, `%20` and `%25` stand for comma, semicolon, space and percent sign.
///
/// # Errors
/// Fails with a [`DeclareError`] for a declaration that cannot be used.
pub fn declared(comment: &str) -> Result<Option<Declaration>, DeclareError> {
    let named = |part: &str| part.split_once('=').is_some_and(|(key, _)| key.trim() == KEY);
    if !comment.split(';').any(named) {
        return Ok(None);
    }
    let Some(value) = token(comment, KEY) else {
        return error("expected a path or URI after `hdfs-input=`");
    };
    let mut found = Declaration { uris: uris(value)?, ..Declaration::default() };
    for part in comment.split(';').map(str::trim) {
        match part.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some(("split", value)) => found.split = split(value)?,
            Some(("locality", value)) => found.locality = locality(value)?,
            None if part == "recursive" => found.recursive = true,
            // Other words are the user's own, but these are meant for us.
            Some((key, _)) if ["split", "local", "recurs"].iter().any(|p| key.starts_with(p)) => {
                return error(format!("`{part}`: expected split=, recursive or locality="));
            }
            _ => {}
        }
    }
    Ok(Some(found))
}

fn uris(value: &str) -> Result<Vec<String>, DeclareError> {
    let uris = value.split(',').map(uri).collect::<Result<Vec<_>, _>>()?;
    if uris.len() > DATA_URIS_MAX {
        return error(format!("{} URIs: at most {DATA_URIS_MAX} are taken", uris.len()));
    }
    Ok(uris)
}

fn uri(text: &str) -> Result<String, DeclareError> {
    let text = text.trim();
    if text.is_empty() {
        return error("an empty URI: expected PATH or URI, several with commas between");
    }
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
            return error(format!("`{text}`: expected two hexadecimal digits after %"));
        };
        bytes.push(byte);
        rest = after.get(2..).unwrap_or_default();
    }
    match String::from_utf8(bytes) {
        Ok(uri) if uri.starts_with('/') || uri.contains("://") => Ok(uri),
        Ok(uri) => error(format!("`{uri}`: expected an absolute path or hdfs://, webhdfs://")),
        Err(_) => error(format!("`{text}`: not UTF-8")),
    }
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
        let most = u64::try_from(SPLITS_MAX).unwrap_or(u64::MAX);
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
