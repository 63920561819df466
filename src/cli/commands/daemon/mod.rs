// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx daemon`: changes of phalanxd and its plugin.

mod enable;
mod reload;
mod restore;

group! {
    /// Reload the configuration, enable an ejected plugin, restore what a lost plugin left
    Reload(reload::Args),
    Enable(enable::Args),
    Restore(restore::Args),
}
