// SPDX-License-Identifier: GPL-3.0-or-later
//! One section of the file as a struct: each key with its type, its default and its rule.

/// Type and range of a key's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// One of a set of words.
    Choice(&'static [&'static str]),
    /// A list of different words of a set, at least one.
    Choices(&'static [&'static str]),
    /// An integer in a closed range, with its unit, which may be empty.
    Int {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
        /// Unit, for messages.
        unit: &'static str,
    },
    /// A finite number in a closed range.
    Real {
        /// Least value.
        min: f64,
        /// Greatest value.
        max: f64,
    },
    /// `true` or `false`.
    Bool,
    /// An absolute path of a file.
    File,
    /// An absolute path that fits a Unix socket's address.
    Socket,
    /// A list of different user ids.
    Uids,
    /// Empty, or an address with a port.
    Listen,
    /// Empty, or an absolute path.
    MaybeFile,
    /// A list of different absolute paths.
    Dirs,
    /// Text; its meaning is checked with the whole file.
    Text,
    /// A list of texts.
    Texts,
    /// The name of a datum, or one of a set of words.
    Datum(&'static [&'static str]),
    /// A table from dimension names to relative weights.
    Weights,
    /// A table from names to amounts.
    Amounts,
    /// A table with the fields of a registration of the data service, which checks them.
    Registration,
    /// A list of 24 prices, or a table from ranges of hours to prices.
    DayPrices,
}

/// One key of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Path with dots; `*` stands for any partition's, account's or collector's name.
    pub path: &'static str,
    /// Type and range of the key's value.
    pub kind: Kind,
    /// Whether a new value takes effect only after a restart of the daemon.
    pub needs_restart: bool,
}

/// How a key of the file is checked: its kind, and whether a change of it needs a restart.
pub(super) type Rule = (Kind, bool);

/// A key whose new value counts from the next reload on.
pub(super) const fn reload(kind: Kind) -> Rule {
    (kind, false)
}

/// A key whose new value counts from the next start of the daemon on.
pub(super) const fn restart(kind: Kind) -> Rule {
    (kind, true)
}

/// One of a set of words.
pub(super) const fn one_of(words: &'static [&'static str]) -> Kind {
    Kind::Choice(words)
}

/// An integer in a closed range.
pub(super) const fn int(min: u64, max: u64, unit: &'static str) -> Kind {
    Kind::Int { min, max, unit }
}

/// A number from 0 to 1.
pub(super) const SHARE: Kind = Kind::Real { min: 0.0, max: 1.0 };

impl Key {
    /// Returns the key of a path, with the rule for its values.
    pub(super) const fn new(path: &'static str, (kind, needs_restart): Rule) -> Self {
        Self { path, kind, needs_restart }
    }
}

/// Declares the struct of a section; each key has beside it its default and the rule by which it
/// is checked.
macro_rules! section {
    (
        $(#[$about:meta])*
        $name:ident in $section:literal {
            $($(#[$key_about:meta])* $key:ident: $type:ty = $default:expr => $rule:expr,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$key_about])* pub $key: $type,)*
        }

        impl $name {
            /// The keys of the section.
            pub(super) const KEYS: &[$crate::section::Key] = &[
                $($crate::section::Key::new(concat!($section, ".", stringify!($key)), $rule),)*
            ];
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }
    };
}

pub(super) use section;
