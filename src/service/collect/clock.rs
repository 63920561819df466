// SPDX-License-Identifier: GPL-3.0-or-later
//! The two clocks: the wall clock for times that people read, the monotonic one for
//! ages, so that setting the wall clock makes nothing fresh or stale.

use std::sync::OnceLock;
use std::time::Instant;

use jiff::civil::DateTime;
use phalanx_core::number::{nearest_i64, nearest_u64};

use crate::clock::zoned;
use phalanx_ffi::clock::now_ms;

/// One moment by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Unix milliseconds.
    pub wall_ms: u64,
    /// Milliseconds since some moment of this process; earlier ones are negative.
    pub mono_ms: i64,
}

impl Now {
    pub fn read() -> Now {
        static START: OnceLock<Instant> = OnceLock::new();
        let mono = START.get_or_init(Instant::now).elapsed();
        Now { wall_ms: now_ms(), mono_ms: i64::try_from(mono.as_millis()).unwrap_or(i64::MAX) }
    }

    pub fn local(self) -> DateTime {
        zoned(self.wall_ms).datetime()
    }

    /// Returns the milliseconds since an earlier monotonic moment, never below 0.
    pub fn since(self, mono_ms: i64) -> u64 {
        nearest_u64(self.mono_ms.saturating_sub(mono_ms))
    }

    /// Returns the monotonic moment `age_ms` ago.
    pub fn ago(self, age_ms: u64) -> i64 {
        self.mono_ms.saturating_sub(nearest_i64(age_ms))
    }
}
