// SPDX-License-Identifier: GPL-3.0-or-later
//! Names of the modes of a method.

/// Gives an enum of modes `ALL`, `from_name` and `name`, from its names and variants.
macro_rules! named_modes {
    ($mode:ident: $($name:literal => $variant:ident),+ $(,)?) => {
        impl $mode {
            /// Modes with their names.
            pub const ALL: [(&'static str, Self); [$($name),+].len()] =
                [$(($name, Self::$variant)),+];

            /// Returns the mode with a name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().find(|(known, _)| *known == name).map(|&(_, mode)| mode)
            }

            /// The name of the mode.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }
    };
}
