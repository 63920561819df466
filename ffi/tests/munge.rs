// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests credentials against the machine's munged; without one, the refusals.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use phalanx_ffi::munge::{MungeError, decode, encode};

/// Whether munged answers; `make test` runs these tests again where munged was started.
fn munged() -> bool {
    encode(b"", None, 0).is_ok()
}

#[test]
fn a_credential_counts_once_and_keeps_its_bytes() {
    if !munged() {
        assert!(std::env::var_os("PHALANX_NEED_MUNGED").is_none(), "munged does not answer");
        return;
    }
    let payload = b"GET\0 /v1/data\n\xff";
    let credential = encode(payload, None, 60).unwrap();
    let decoded = decode(&credential, None).unwrap();
    assert_eq!(decoded.payload, payload);
    // SAFETY: geteuid() has no preconditions.
    assert_eq!(decoded.uid, unsafe { libc::geteuid() });
    assert_eq!(decode(&credential, None), Err(MungeError::Replayed));
    let mut changed = encode(payload, None, 60).unwrap();
    let middle = changed.len() / 2;
    let other = if &changed[middle..=middle] == "A" { "B" } else { "A" };
    changed.replace_range(middle..=middle, other);
    assert!(matches!(decode(&changed, None), Err(MungeError::Invalid(_))));
    let short = encode(b"", None, 1).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2100));
    assert_eq!(decode(&short, None), Err(MungeError::Expired));
}

#[test]
fn what_is_no_credential_is_refused() {
    let nowhere = Path::new("/nonexistent/munge.socket");
    assert!(matches!(encode(b"x", Some(nowhere), 0), Err(MungeError::Unavailable(_))));
    assert!(matches!(decode("MUNGE:AAAA:", Some(nowhere)), Err(MungeError::Unavailable(_))));
    assert!(matches!(decode("a\0b", None), Err(MungeError::Invalid(_))));
    if munged() {
        for text in ["", "MUNGE:", "MUNGE:AAAA:", "Bearer x", &"A".repeat(1 << 16)] {
            assert!(matches!(decode(text, None), Err(MungeError::Invalid(_))), "{text}");
        }
    }
}
