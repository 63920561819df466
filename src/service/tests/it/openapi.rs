// SPDX-License-Identifier: GPL-3.0-or-later
//! `src/service/api/openapi.json` names every resource that is served, and no other.
//! That the answers are as it says is for `tests/cluster/data_service.py`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use phalanx_messages::collect::request_head;

const DOCUMENT: &str = include_str!("../../api/openapi.json");
const SOURCES: [&str; 2] =
    [include_str!("../../api/routes.rs"), include_str!("../../api/collect.rs")];
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// `METHOD path` of each `.route("path", method(...).method(...))` of a source.
fn served(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for piece in source.split(".route(").skip(1) {
        let mut depth = 1;
        let end = piece.char_indices().find(|(_, c)| {
            depth += match c {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            depth == 0
        });
        let call = &piece[..end.expect("the call ends").0];
        let path = call.split('"').nth(1).expect("a path in quotes");
        for method in METHODS {
            if [" ", ".", "\n"].iter().any(|before| call.contains(&format!("{before}{method}("))) {
                found.insert(format!("{} {path}", method.to_uppercase()));
            }
        }
    }
    found
}

#[test]
fn the_document_lists_what_is_served() {
    let document: serde_json::Value = serde_json::from_str(DOCUMENT).unwrap();
    let mut listed = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            listed.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    let served: BTreeSet<String> = SOURCES.iter().flat_map(|source| served(source)).collect();
    assert!(served.len() > 25, "{served:?}");
    let missing: Vec<&String> = served.difference(&listed).collect();
    assert!(missing.is_empty(), "describe in src/service/api/openapi.json: {missing:?}");
    let gone: Vec<&String> = listed.difference(&served).collect();
    assert!(gone.is_empty(), "src/service/api/openapi.json describes what is not served: {gone:?}");
}

/// Goal: a client written by the document is let in, and knows what an older one risks.
#[test]
fn the_document_has_the_payload_of_a_credential() {
    let document: serde_json::Value = serde_json::from_str(DOCUMENT).unwrap();
    let said = document["info"]["description"].as_str().unwrap();
    for realm in [Some("REALM"), None] {
        let head = request_head(realm, "METHOD", "PATH?QUERY").replace('\n', "\\n");
        assert!(said.contains(&format!("`{head}SHA256-OF-BODY\\n`")), "{head}");
    }
}

/// Every reference inside the document leads somewhere, every operation has a
/// name of its own, and every path variable is declared.
#[test]
fn the_document_is_consistent() {
    let document: serde_json::Value = serde_json::from_str(DOCUMENT).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let mut pieces = DOCUMENT.split("\"$ref\": \"#");
    pieces.next();
    for piece in pieces {
        let pointer = piece.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
    let mut names = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for operation in methods.as_object().unwrap().values() {
            assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()), "{path}");
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            for variable in path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()) {
                assert!(parameters.iter().any(|p| p["name"] == variable), "{path}: {variable}");
            }
        }
    }
}
