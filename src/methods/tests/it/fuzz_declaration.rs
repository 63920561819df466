// SPDX-License-Identifier: GPL-3.0-or-later
//! Damaged declarations of inputs in comments.

use phalanx_fuzz::{kind_of, run, size_of};
use phalanx_methods::data_jobs::blockmap;

#[test]
fn declarations() {
    let words = [
        "hdfs-input=",
        ";",
        ",",
        "split=",
        "block",
        "64M",
        "recursive",
        "locality=",
        "require",
        "%2C",
        "%",
        "hdfs://",
        "=",
        "18446744073709551615G",
    ];
    run("declaration", &words, |input| {
        let text = String::from_utf8_lossy(input);
        match blockmap::of_job(&text, "") {
            Ok(None) => 0,
            Ok(Some(found)) => {
                assert!(!found.uris.is_empty() && found.uris.iter().all(|uri| !uri.is_empty()));
                1 + size_of(found.uris.len()) + 64 * u64::from(found.recursive)
            }
            Err(error) => kind_of(&error.to_string()),
        }
    });
}
