// SPDX-License-Identifier: GPL-3.0-or-later
//! One section of the file as a struct: each key with its type and its default.

/// Declares the struct of a section; each key has its default beside it.
macro_rules! section {
    (
        $(#[$about:meta])*
        $name:ident {
            $($(#[$key_about:meta])* $key:ident: $type:ty = $default:expr,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$key_about])* pub $key: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }
    };
}

pub(super) use section;
