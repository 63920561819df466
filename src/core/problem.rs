// SPDX-License-Identifier: GPL-3.0-or-later
//! Names, numbers and errors that the problems of `phalanx solve` share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An input that cannot be used: a field of a problem, a file or an argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct InputError {
    /// Path of the field, for example `jobs[3].request[1]`, or name of the file or argument.
    pub path: String,
    /// Text that says what was expected and what was found.
    pub message: String,
}

impl InputError {
    /// An error at `path`.
    #[cold]
    pub fn new(path: impl fmt::Display, message: impl fmt::Display) -> Self {
        Self { path: path.to_string(), message: message.to_string() }
    }
}

/// Refuses an input: the error at `path`, as a result.
///
/// # Errors
/// Fails always.
#[cold]
pub fn refuse<T>(path: impl fmt::Display, message: impl fmt::Display) -> Result<T, InputError> {
    Err(InputError::new(path, message))
}

/// Reads optional fields that may be left out but not be `null`.
///
/// # Errors
/// Those of `T`.
pub fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// A name in the input; borrowed unless it has escapes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Name<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// Checks that names do not repeat; `path(i)` names the field of the i-th name.
///
/// # Errors
/// Bad input naming the second of two equal ones.
pub fn distinct<'a>(
    names: impl Iterator<Item = &'a str>,
    path: impl Fn(usize) -> String,
) -> Result<(), InputError> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, name) in names.enumerate() {
        if let Some(first) = seen.insert(name, at) {
            let what = format!("{name:?} is already the name of {}", path(first));
            return Err(InputError::new(path(at), what));
        }
    }
    Ok(())
}

/// Checks the length of an array with one entry for each of `expected` things.
///
/// # Errors
/// Bad input naming `path`.
pub fn length(
    path: impl FnOnce() -> String,
    got: usize,
    expected: usize,
    of: &str,
) -> Result<(), InputError> {
    if got == expected {
        return Ok(());
    }
    let what = format!("expected {expected} entries (one for each of `{of}`), got {got}");
    Err(InputError::new(path(), what))
}

/// A number of the answer: whole ones print without a fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number(pub f64);

impl Serialize for Number {
    #[allow(clippy::cast_possible_truncation)] // whole and below 2^53
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
        if self.0.fract() == 0.0 && self.0.abs() <= WHOLE_MAX {
            return serializer.serialize_i64(self.0 as i64);
        }
        serializer.serialize_f64(self.0)
    }
}
