// SPDX-License-Identifier: GPL-3.0-or-later
//! Damaged bodies of requests to the data service: accepted ones are stored, and reports can be
//! made. The first byte of an input selects the request.
#![allow(clippy::unwrap_used)]

use phalanx_fuzz::{kind_of, run, size_of};
use serde::de::DeserializeOwned;

use super::{Collect, Now, Sender, Settings, Use};
use crate::failure::Failure;
use phalanx_messages::collect::{Batch, CONFIGURATION, Patch, Put, PutOne, SyncRequest, UseChange};

const NOW: Now = Now { wall_ms: 1_800_000_000_000, mono_ms: 10 };

fn service() -> Collect {
    let key = Use {
        key: "share.capability".into(),
        name: CONFIGURATION.into(),
        fallback: CONFIGURATION.into(),
        own: &[],
    };
    let settings = Settings {
        path: None,
        command_dirs: Vec::new(),
        owner: 0,
        stale_periods: 3,
        history_step_s: 0,
        retention_hours: 1,
        max_mb: 16,
        registrations: Vec::new(),
        uses: vec![key],
    };
    Collect::new(settings, NOW)
}

fn body<T: DeserializeOwned>(text: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(text).map_err(|error| Failure::BadRequest(error.to_string()))
}

/// Performs the request; returns its effect as a number.
fn ask(collect: &Collect, pick: u8, text: &[u8]) -> Result<usize, Failure> {
    Ok(match pick {
        b'a' => collect.add(body::<Patch>(text)?, NOW)?.name.len(),
        b'u' => collect.update("load", body::<Patch>(text)?, NOW)?.inputs.len(),
        b'b' => collect.store_batch(&body::<Batch>(text)?, NOW)?.refused.len(),
        b'c' => {
            collect.choose("share.capability", Some(body::<UseChange>(text)?))?;
            collect.uses(NOW).uses.len()
        }
        b'p' => {
            let PutOne { value, time_ms, age_ms } = body(text)?;
            let (name, node) = ("x".to_owned(), Some("n1".to_owned()));
            let put = Put { name, node, value, time_ms, age_ms };
            collect.store(&[put], Sender::Agent("n1"), NOW).refused.len()
        }
        _ => {
            let (turn, refused) = collect.begin_sync("n1", &body::<SyncRequest>(text)?, NOW)?;
            let reply = collect.end_sync("n1", turn, refused, NOW);
            serde_json::to_vec(&reply).unwrap().len()
        }
    })
}

#[test]
fn bodies() {
    let words = [
        "\"name\":",
        "\"cmd\":\"builtin:loadavg\"",
        "\"every_ms\":",
        "\"nodes\":\"n[1-9]\"",
        "null",
        "\"inputs\":[\"load\"]",
        "\"type\":\"integer\"",
        "\"output\":\"values\"",
        "1e400",
        "-1",
        "{",
        "}",
        "[",
        "]",
        ",",
        "@master",
        "\"replicas\":99",
        "18446744073709551615",
        "\"run_as\":\"root\"",
    ];
    let (mut collect, mut left) = (service(), 0);
    run("data_service", &words, |input| {
        if left == 0 {
            (collect, left) = (service(), 1000);
            ask(&collect, b'a', br#"{"name":"load","cmd":"builtin:loadavg","every_ms":1000}"#)
                .unwrap();
        }
        left -= 1;
        let Some((&pick, text)) = input.split_first() else { return 0 };
        let done = ask(&collect, pick, text);
        assert!(serde_json::to_vec(&collect.collectors(NOW)).is_ok());
        let held = collect.names(NOW).names.len();
        match done {
            Ok(size) => (1 << 40) + size_of(size) + 64 * size_of(held) + (u64::from(pick) << 20),
            Err(error) => kind_of(&error.to_string()) ^ u64::from(pick),
        }
    });
}
