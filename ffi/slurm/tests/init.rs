// SPDX-License-Identifier: GPL-3.0-or-later
//! Starting libslurm without a configuration is an error, not the end of the
//! process. Its own binary: `Slurm::init` looks at the environment.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use phalanx_slurm::{Slurm, SlurmError};

/// Goal: a missing slurm.conf is reported with its path. Method: run this
/// test's binary again with `SLURM_CONF` set, since a running process must
/// not change its environment.
#[test]
fn a_missing_configuration_is_an_error() {
    const MISSING: &str = "/nonexistent/slurm.conf";
    if std::env::var("SLURM_CONF").as_deref() != Ok(MISSING) {
        let status = Command::new(std::env::current_exe().unwrap())
            .arg("a_missing_configuration_is_an_error")
            .env("SLURM_CONF", MISSING)
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    // Twice: a failed start must not keep the handle's place.
    for _ in 0..2 {
        let error = Slurm::init().unwrap_err();
        assert!(matches!(error, SlurmError::NoConf { .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            "cannot read slurm.conf at /nonexistent/slurm.conf (from SLURM_CONF): \
             No such file or directory (os error 2)"
        );
    }
}

#[test]
fn the_release_is_known() {
    let (major, minor, _) = Slurm::built_for();
    assert!(major >= 22 && minor <= 12, "{major}.{minor}");
}
