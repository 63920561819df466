// SPDX-License-Identifier: GPL-3.0-or-later
//! Forms of text: percent encoding, and node sets and maps as serde reads and writes them.

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

/// Serialises a set of indexes, for `serde(with)`: its capacity and its members, ascending.
pub mod bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::limits::NODES_MAX;
    use crate::{NodeIdx, NodeSet};

    /// Writes a set of nodes as its length and the positions of its members.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(set: &NodeSet, to: S) -> Result<S::Ok, S::Error> {
        (set.len(), set.iter().collect::<Vec<_>>()).serialize(to)
    }

    /// Reads a set of nodes that `serialize` wrote.
    ///
    /// # Errors
    /// The deserializer's; an index out of range.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<NodeSet, D::Error> {
        let (len, members) = <(usize, Vec<NodeIdx>)>::deserialize(from)?;
        if len > NODES_MAX || members.iter().any(|node| node.at() >= len) {
            return Err(serde::de::Error::custom("index of a node set out of range"));
        }
        let mut set = NodeSet::new(len);
        set.extend(members);
        Ok(set)
    }
}

/// A map for `#[serde(with = "...")]`: pairs of a name and its value, by name.
pub mod pairs {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the pairs.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(
        map: &BTreeMap<Arc<str>, impl Serialize>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    /// Reads the pairs that `serialize` wrote.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
        from: D,
    ) -> Result<BTreeMap<Arc<str>, V>, D::Error> {
        Vec::deserialize(from).map(|pairs: Vec<(Arc<str>, V)>| pairs.into_iter().collect())
    }
}
