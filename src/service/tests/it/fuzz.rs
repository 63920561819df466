// SPDX-License-Identifier: GPL-3.0-or-later
//! Damaged configurations and recordings.
#![allow(clippy::unwrap_used, reason = "a failed expectation ends a test")]

use std::path::Path;

use crate::recordings::zipped;
use phalanx_config::Config;
use phalanx_fuzz::{kind_of, run, size_of};
use phalanx_mirror::{Reader, Settings, replay};

#[test]
fn configurations() {
    let words = [
        "[link]",
        "[[collector]]",
        "[partition.x]",
        "=",
        "\n",
        "\"",
        "'",
        "true",
        "0",
        "-1",
        "1e9",
        "inf",
        "nan",
        "nodes = \"n[1-131072]\"",
        "[",
        "]",
        "{",
        "}",
        "enabled",
        "mode",
        "deadline_ms",
        "9223372036854775807",
        "1979-05-27",
        "#",
        ".",
        "\"\"\"",
    ];
    run("toml", &words, |input| {
        let text = String::from_utf8_lossy(input);
        match Config::parse(&text, Path::new("p.toml")) {
            Ok(config) => {
                let warnings = config.warnings().len();
                let _ = (Settings::of(&config, 1), config.registrations().len());
                size_of(warnings) + 2
            }
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("p.toml"), "{error}");
                kind_of(error.lines().next().unwrap_or_default())
            }
        }
    });
}

/// Goal: the seeds are whole recordings, and their questions are played.
#[test]
fn seeds_of_recordings_are_good() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/seeds/recording/file");
    let report = replay(&[Path::new(file).to_owned()], None, 3, &|_| ()).unwrap();
    assert!(report.asks == 2 && report.broken.is_empty(), "{report:?}");
}

/// Goal: damaged recordings never panic the reader. Inputs are files as they are if they begin like
/// one, else the lines of a file of one right frame.
#[test]
fn recordings() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.phxrec");
    let words = [
        "\n",
        "{",
        "}",
        "[",
        "]",
        "null",
        "0",
        "-1",
        "18446744073709551615",
        "4294967295",
        "1e99",
        "\"nodes\":",
        "\"job_id\":",
        "\"t\":",
        "true",
        ",",
    ];
    run("recording", &words, |input| {
        let is_frame = input.starts_with(&[0x1f, 0x8b]);
        let bytes = if is_frame { input.to_vec() } else { zipped(input) };
        std::fs::write(&path, bytes).unwrap();
        let read = match Reader::open(&path) {
            Err(error) => return kind_of(&error.what),
            Ok(mut reader) => loop {
                match reader.next_record() {
                    Ok(Some(_)) => {}
                    Ok(None) => break size_of(usize::try_from(reader.records()).unwrap()),
                    Err(error) => {
                        let what = error.what.rsplit("byte").next().unwrap_or_default();
                        break kind_of(what) ^ reader.records();
                    }
                }
            },
        };
        let report = replay(std::slice::from_ref(&path), None, 3, &|_| ()).unwrap();
        read ^ (size_of(usize::try_from(report.asks).unwrap()) << 50)
    });
}
