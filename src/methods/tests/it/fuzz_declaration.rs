// SPDX-License-Identifier: GPL-3.0-or-later
//! Damaged declarations of inputs in comments.

use phalanx_fuzz::{kind_of, run, size_of};
use phalanx_methods::data_jobs::blockmap;

#[test]
fn declarations() {
    let words = [
        "hdfs-input=",
        "data-input=",
        "imagenet",
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
                let named = || found.uris.iter().chain(&found.datasets);
                assert!(named().count() > 0 && named().all(|name| !name.is_empty()));
                let is_name = |name: &String| blockmap::is_dataset_name(name);
                assert!(found.datasets.iter().all(is_name));
                1 + size_of(named().count()) + 64 * u64::from(found.recursive)
            }
            Err(error) => kind_of(&error.to_string()),
        }
    });
}
