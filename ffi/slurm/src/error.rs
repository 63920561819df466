// SPDX-License-Identifier: GPL-3.0-or-later
//! Errors of libslurm.

use std::ffi::CStr;

use crate::shim;

/// An error of [`super::Slurm`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlurmError {
    /// A second handle was asked for, while one exists.
    #[error("libslurm is already in use by this process")]
    Busy,
    /// No configuration was found to start from.
    #[error("cannot read slurm.conf at {place}: {error}")]
    NoConf {
        /// Path that was tried.
        place: String,
        /// The system's reason.
        error: String,
    },
    /// The dynamic loader found a libslurm of another release.
    #[error("libslurm.so.{found} is loaded, but this program was built for libslurm.so.{expected}")]
    Release {
        /// API number of the loaded library.
        found: u32,
        /// API number that this program was built for.
        expected: u32,
    },
    /// A request failed.
    #[error("cannot {attempt}: {text} (error {code})")]
    Call {
        /// The call that was attempted, e.g. "load jobs".
        attempt: &'static str,
        /// Number of `slurm_errno.h` or `errno.h`.
        code: i32,
        /// Slurm's text for the number.
        text: String,
    },
}

impl SlurmError {
    #[cold]
    pub(super) fn release(found: u32) -> Self {
        // SAFETY: returns a constant.
        let expected = unsafe { shim::pls_libslurm_api() };
        SlurmError::Release { found, expected }
    }

    #[cold]
    pub(super) fn call(attempt: &'static str, code: i32) -> Self {
        // SAFETY: pls_strerror() returns a string that is valid until its next
        // call; it is copied at once, under the caller's right to libslurm.
        let text = unsafe {
            let text = shim::pls_strerror(code);
            (!text.is_null()).then(|| CStr::from_ptr(text))
        };
        let text = text.map_or_else(|| "unknown error".into(), CStr::to_string_lossy).into_owned();
        SlurmError::Call { attempt, code, text }
    }
}
