// SPDX-License-Identifier: GPL-3.0-or-later
//! Who a program runs as.

use nix::unistd::{Gid, Uid, User};

/// A user and a group, already looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunAs {
    /// User id.
    pub uid: u32,
    /// Group id; there are no further groups.
    pub gid: u32,
}

/// Why a user cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// There is no such user.
    #[error("there is no user {0:?}")]
    Unknown(String),
    /// The user database cannot be read.
    #[error("user {0:?}: {1}")]
    Lookup(String, nix::Error),
}

impl RunAs {
    /// This process's own user and group.
    #[must_use]
    pub fn own() -> Self {
        Self { uid: Uid::effective().as_raw(), gid: Gid::effective().as_raw() }
    }

    /// The user of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(name: &str) -> Result<Self, UserError> {
        match User::from_name(name) {
            Ok(Some(user)) => Ok(Self { uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
            Ok(None) => Err(UserError::Unknown(name.to_owned())),
            Err(error) => Err(UserError::Lookup(name.to_owned(), error)),
        }
    }

    /// Whether this process must change its user for that.
    #[must_use]
    pub fn differs(self) -> bool {
        self != Self::own()
    }
}
