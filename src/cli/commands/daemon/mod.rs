// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx daemon`: changes of phalanxd and its plugin.

mod check;
mod enable;
mod reload;
mod restore;

group! {
    /// Check and reload the configuration, enable an ejected plugin, restore what a lost one left
    Check(check::Args),
    Reload(reload::Args),
    Enable(enable::Args),
    Restore(restore::Args),
}
