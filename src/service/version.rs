// SPDX-License-Identifier: GPL-3.0-or-later
//! Version of the program, and of the Slurm that it was built for.

use std::sync::LazyLock;

use phalanx_slurm::Slurm;

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let (major, minor, micro) = Slurm::built_for();
    let own = env!("CARGO_PKG_VERSION");
    format!("{own}, built for Slurm {major}.{minor:02} (headers of {major}.{minor:02}.{micro})")
});

/// Returns the version of the daemon and the release of Slurm that it was built for, in one line.
pub fn version() -> &'static str {
    VERSION.as_str()
}
