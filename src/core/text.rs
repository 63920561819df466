// SPDX-License-Identifier: GPL-3.0-or-later
//! Forms of text: shared text and node sets as serde reads and writes them (plain text and
//! ascending indexes, for `#[serde(with = "...")]`), and percent encoding.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Percent-encodes all but the unreserved characters, for a query's value or a path's component.
///
/// # Source
/// RFC 3986, sections 2.1 and 2.3.
///
/// ```
/// assert_eq!(phalanx_core::text::percent_encode("a b/~ü"), "a%20b%2F~%C3%BC");
/// ```
#[must_use]
pub fn percent_encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

/// Writes an `Arc<str>`.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

/// Reads an `Arc<str>`.
///
/// # Errors
/// The deserializer's.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
    String::deserialize(from).map(Arc::from)
}

/// `Option<Arc<str>>`.
pub mod option {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(text: &Option<Arc<str>>, to: S) -> Result<S::Ok, S::Error> {
        text.as_deref().serialize(to)
    }

    /// Reads it.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<str>>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Arc::from))
    }
}

/// `Vec<Arc<str>>`.
pub mod list {
    use super::{Arc, Deserialize, Deserializer, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(texts: &[Arc<str>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(texts.iter().map(|text| &**text))
    }

    /// Reads it.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Arc<str>>, D::Error> {
        Ok(Vec::<String>::deserialize(from)?.into_iter().map(Arc::from).collect())
    }
}

/// `Vec<(Arc<str>, u64)>`.
pub mod counts {
    use super::{Arc, Deserialize, Deserializer, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(counts: &[(Arc<str>, u64)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(counts.iter().map(|(name, count)| (&**name, count)))
    }

    /// Reads it.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(Arc<str>, u64)>, D::Error> {
        let counts = Vec::<(String, u64)>::deserialize(from)?;
        Ok(counts.into_iter().map(|(name, count)| (Arc::from(name), count)).collect())
    }
}

/// A set of indexes: how many there could be, and which are in it.
pub mod bits {
    use fixedbitset::FixedBitSet;

    use super::{Deserialize, Deserializer, Serialize, Serializer};
    use crate::limits::NODES_MAX;

    /// Writes it.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(set: &FixedBitSet, to: S) -> Result<S::Ok, S::Error> {
        (set.len(), set.ones().collect::<Vec<_>>()).serialize(to)
    }

    /// Reads it.
    ///
    /// # Errors
    /// The deserializer's; an index out of range.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<FixedBitSet, D::Error> {
        let (len, ones) = <(usize, Vec<usize>)>::deserialize(from)?;
        if len > NODES_MAX || ones.iter().any(|index| *index >= len) {
            return Err(serde::de::Error::custom("index of a node set out of range"));
        }
        let mut set = FixedBitSet::with_capacity(len);
        ones.into_iter().for_each(|index| set.insert(index));
        Ok(set)
    }
}
