// SPDX-License-Identifier: GPL-3.0-or-later
//! Dense indexes: positions in the tables of one snapshot or problem, never
//! Slurm's own ids.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! index_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[derive(Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u32);

        impl $name {
            /// The index at position `at`; positions beyond `u32::MAX - 1`
            /// do not occur ([`limits`](crate::limits)) and saturate.
            #[must_use]
            pub fn new(at: usize) -> Self {
                Self(u32::try_from(at).unwrap_or(u32::MAX))
            }

            /// The position as a `usize`, for indexing.
            #[must_use]
            pub fn at(self) -> usize {
                self.0 as usize
            }

            /// The position as an integer.
            #[must_use]
            pub fn raw(self) -> u32 {
                self.0
            }
        }

        impl From<u32> for $name {
            fn from(raw: u32) -> Self {
                Self(raw)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

index_type! {
    /// A node's position in the node table.
    NodeIdx
}
index_type! {
    /// A GRES kind's position (`gpu`) among the kinds of the node table.
    GresIdx
}
index_type! {
    /// A GRES type's position (`gpu:a100`) among the types of the node table.
    GresTypeIdx
}
