// SPDX-License-Identifier: GPL-3.0-or-later
//! The user of a program.

use nix::unistd::{Gid, Uid, User};

/// A user and a group, already looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunAs {
    /// User id.
    pub uid: u32,
    /// Group id; the program has no further groups.
    pub gid: u32,
}

impl RunAs {
    /// Returns this process's own user and group.
    pub fn own() -> Self {
        Self { uid: Uid::effective().as_raw(), gid: Gid::effective().as_raw() }
    }

    /// Returns the user of a name; the error says why there is none.
    pub fn named(name: &str) -> Result<Self, String> {
        match User::from_name(name) {
            Ok(Some(user)) => Ok(Self { uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
            Ok(None) => Err(format!("there is no user {name:?}")),
            Err(error) => Err(format!("user {name:?}: {error}")),
        }
    }

    /// Whether this process must change its user to run as this one.
    pub fn differs(self) -> bool {
        self != Self::own()
    }
}
