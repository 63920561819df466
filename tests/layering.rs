// SPDX-License-Identifier: GPL-3.0-or-later
//! Holds `src/` to the layers that `src/lib.rs` lists.
//!
//! Goal: a module uses modules of lower layers only; modules of one layer do
//! not know each other; layers 0 to 3 get time, seed and deadline as arguments
//! and do no input or output; `unsafe` stays in `ffi/`; the asynchronous
//! runtime stays behind the control socket.
//!
//! Method: every source file is cut into tokens (without comments, literals and
//! what stands under `#[cfg(test)]`), all paths in it are read, groups in
//! braces and `super` included, and each path is held against the tables below.
//! This is no compiler: a name smuggled through a macro is not seen.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "layering/scan.rs"]
mod scan;

use scan::{Scan, Seen};

/// Modules by layer, and by rank within it: a module may use those of lower
/// layers, and those of its own layer with a lower rank. Modules that are
/// still to come have their place already.
const TABLE: &[(&str, u8, u8)] = &[
    ("limits", 0, 0),
    ("model", 0, 1),
    ("snapshot", 1, 0),
    ("trace", 1, 0),
    // What the methods share; they must not know the methods.
    ("verify", 2, 0),
    ("learn", 2, 0),
    // The methods.
    ("balance", 2, 1),
    ("gang", 2, 1),
    ("bisect", 2, 1),
    ("bag", 2, 1),
    ("share", 2, 1),
    ("blockmap", 2, 1),
    // Oracles read the problems of the methods they judge; no method uses them.
    ("exact", 2, 2),
    ("planner", 3, 0),
    ("remote", 4, 0),
    ("api", 4, 0),
    ("config", 4, 0),
    ("sqlite", 4, 0),
    // Keepers of a database use what databases have in common.
    ("history", 4, 1),
    ("link", 4, 0),
    ("source", 4, 0),
    // Reads its section of the configuration.
    ("hdfs", 4, 1),
    ("collect", 4, 1),
    // Plays to the link what it recorded, under configurations.
    ("record", 4, 1),
    ("sim", 4, 0),
    ("daemon", 5, 0),
    ("cli", 5, 0),
    // The programs use what is in layer 5, the root names the modules.
    ("bin", 6, 0),
    ("lib", 6, 0),
];

/// Names of the table that are no directories or files of `src/`.
const NOT_MODULES: [&str; 2] = ["bin", "lib"];

/// The highest layer that must do without the world outside.
const PURE_LAYER_MAX: u8 = 3;

/// Beginnings of paths that layers 0 to 3 must not have, and what to do.
const IMPURE: [(&[&str], &str); 18] = [
    (&["std", "fs"], "files belong to layer 4"),
    (&["std", "net"], "sockets belong to layer 4"),
    (&["std", "os"], "the system belongs to layer 4"),
    (&["std", "env"], "take it as an argument"),
    (&["std", "process"], "processes belong to layer 5"),
    (&["std", "thread", "sleep"], "take the deadline as an argument"),
    (&["std", "time", "SystemTime"], "take the time as an argument"),
    (&["SystemTime"], "take the time as an argument"),
    (&["phalanx_ffi"], "libslurm and the wire belong to layer 4"),
    (&["nix"], "the system belongs to layer 4"),
    (&["libc"], "the system belongs to layer 4"),
    (&["rusqlite"], "the history belongs to layer 4"),
    (&["rand", "rng"], "take the seed as an argument"),
    (&["rand", "random"], "take the seed as an argument"),
    (&["rand", "rngs", "SysRng"], "take the seed as an argument"),
    (&["rand", "rngs", "OsRng"], "take the seed as an argument"),
    (&["rand", "rngs", "ThreadRng"], "take the seed as an argument"),
    (&["getrandom"], "take the seed as an argument"),
];

/// Last names of paths and methods that layers 0 to 3 must not have: whatever
/// a type was renamed to, these read the clock or make a seed.
const IMPURE_CALLS: [(&str, &str); 6] = [
    ("now", "take the time as an argument"),
    ("elapsed", "take the time as an argument"),
    ("thread_rng", "take the seed as an argument"),
    ("from_entropy", "take the seed as an argument"),
    ("from_os_rng", "take the seed as an argument"),
    ("try_from_os_rng", "take the seed as an argument"),
];

/// Crates of the asynchronous runtime, and where they may be used.
const RUNTIME: [&str; 5] = ["axum", "tokio", "hyper", "hyper_util", "http_body_util"];
const RUNTIME_AT: [&str; 3] = ["src/api/", "src/daemon/", "src/remote.rs"];

fn place(name: &str) -> Option<(u8, u8)> {
    TABLE.iter().find(|(module, ..)| *module == name).map(|&(_, layer, rank)| (layer, rank))
}

fn is_module(name: &str) -> bool {
    place(name).is_some() && !NOT_MODULES.contains(&name)
}

/// `src/balance/engine.rs` is of `balance`, `src/limits.rs` of `limits`.
fn module_of(path: &str) -> &str {
    let inside = path.strip_prefix("src/").unwrap_or(path);
    let first = inside.split('/').next().unwrap_or(inside);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Every offence of one file, each with line and reason.
fn offences(path: &str, text: &str) -> Vec<String> {
    let module = module_of(path);
    let scan = Scan::of(text);
    let mut found = Vec::new();
    for seen in &scan.found {
        if let Some(what) = offence(path, module, seen) {
            found.push(format!("{path}:{}: {what}", seen.line));
        }
    }
    found
}

fn offence(path: &str, module: &str, seen: &Seen) -> Option<String> {
    let names: Vec<&str> = seen.names.iter().map(String::as_str).collect();
    if names == ["unsafe"] {
        return Some("`unsafe`: only ffi/ may have it".to_owned());
    }
    let Some((layer, _)) = place(module) else {
        return Some(format!(
            "module `{module}` has no layer: add it to TABLE in tests/layering.rs and to \
             src/lib.rs"
        ));
    };
    if RUNTIME.contains(&names[0]) && !RUNTIME_AT.iter().any(|at| path.starts_with(at)) {
        return Some(format!("`{}`: only in {}", names[0], RUNTIME_AT.join(", ")));
    }
    if layer <= PURE_LAYER_MAX
        && let Some(why) = impure(&names, seen.method)
    {
        return Some(format!("layer {layer} has `{}`: {why}", seen.text()));
    }
    used_module(path, &names).and_then(|used| wrong_direction(module, used))
}

fn impure(names: &[&str], method: bool) -> Option<&'static str> {
    let begins = |(start, _): &&(&[&str], &str)| names.starts_with(start);
    if !method && let Some((_, why)) = IMPURE.iter().find(begins) {
        return Some(why);
    }
    let last = names.last()?;
    let (call, why) = IMPURE_CALLS.iter().find(|(call, _)| call == last)?;
    // `now` alone is a fine name for an argument; `X::now` asks a clock.
    let asks = if method { *call == "elapsed" } else { names.len() > 1 };
    (asks || *call == "thread_rng").then_some(why)
}

/// The module of this crate that a path leads into.
fn used_module<'a>(path: &str, names: &[&'a str]) -> Option<&'a str> {
    match names[0] {
        "crate" | "phalanx" => names.get(1).copied(),
        "super" => {
            let ups = names.iter().take_while(|name| **name == "super").count();
            (ups >= scan::depth(path)).then(|| names.get(ups).copied()).flatten()
        }
        _ => None,
    }
}

fn wrong_direction(module: &str, used: &str) -> Option<String> {
    if used == module {
        return None;
    }
    if !is_module(used) {
        return Some(format!(
            "uses `{used}`, which has no layer: add it to TABLE in tests/layering.rs"
        ));
    }
    let (from, to) = (place(module)?, place(used)?);
    if to < from {
        return None;
    }
    let why = if to.0 == from.0 {
        "modules of one layer do not know each other"
    } else {
        "dependencies go down only"
    };
    Some(format!("`{module}` (layer {}) uses `{used}` (layer {}): {why}", from.0, to.0))
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Source files below a directory, relative to the repository, in order.
fn sources(directory: &Path, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let relative = path.strip_prefix(root()).unwrap().to_str().unwrap();
            into.insert(relative.to_owned());
        }
    }
}

/// The product's sources: files that are modules under `#[cfg(test)]` are not.
fn product_sources() -> Vec<(String, String)> {
    let mut paths = BTreeSet::new();
    sources(&root().join("src"), &mut paths);
    let texts: Vec<(String, String)> = paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(root().join(&path)).unwrap();
            (path, text)
        })
        .collect();
    let of_tests: BTreeSet<String> =
        texts.iter().flat_map(|(path, text)| scan::test_files(path, text)).collect();
    texts.into_iter().filter(|(path, _)| !of_tests.contains(path)).collect()
}

#[test]
fn sources_keep_to_the_layers() {
    let files = product_sources();
    assert!(files.len() > 20, "only {} files found: is this the right directory?", files.len());
    let found: Vec<String> = files.iter().flat_map(|(path, text)| offences(path, text)).collect();
    assert!(found.is_empty(), "{} offences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn every_module_of_the_library_has_a_layer() {
    let text = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let declared = scan::declared_modules(&text);
    assert!(declared.contains(&"balance".to_owned()), "src/lib.rs declares {declared:?}");
    for module in &declared {
        assert!(
            is_module(module),
            "src/lib.rs declares `{module}`, which has no layer: add it to TABLE in \
             tests/layering.rs, where its dependencies say"
        );
    }
    // From here on in order: the list is to be read as the layers.
    let layers: Vec<u8> =
        declared.iter().filter_map(|m| place(m)).map(|(layer, _)| layer).collect();
    assert!(
        layers.is_sorted(),
        "src/lib.rs lists {declared:?} in layers {layers:?}: not ascending"
    );
    for (path, _) in product_sources() {
        let module = module_of(&path).to_owned();
        assert!(
            declared.contains(&module) || ["lib", "bin"].contains(&module.as_str()),
            "{path} is of `{module}`, which src/lib.rs does not declare: a dead file"
        );
    }
}

#[test]
fn unsafe_stays_in_the_ffi_crate() {
    for directory in ["tests", "benches", "examples"] {
        let mut paths = BTreeSet::new();
        if root().join(directory).is_dir() {
            sources(&root().join(directory), &mut paths);
        }
        for path in paths {
            let text = fs::read_to_string(root().join(&path)).unwrap();
            let found = Scan::of(&text).found.into_iter().find(|seen| seen.names == ["unsafe"]);
            assert!(found.is_none(), "{path}:{}: `unsafe` outside ffi/", found.unwrap().line);
        }
    }
}

/// The offences of a snippet, without the place.
fn of(path: &str, text: &str) -> Vec<String> {
    let start = format!("{path}:");
    offences(path, text).iter().map(|o| o.strip_prefix(&start).unwrap().to_owned()).collect()
}

#[test]
fn upward_and_sideways_uses_are_found_in_every_form() {
    let up = |line| {
        vec![format!(
            "{line}: `balance` (layer 2) uses `planner` (layer 3): dependencies go down only"
        )]
    };
    assert_eq!(of("src/balance/a.rs", "use crate::planner::Plan;"), up(1));
    assert_eq!(of("src/balance/a.rs", "\nuse crate::{model::Id, planner};"), up(2));
    assert_eq!(of("src/balance/a.rs", "use crate::{model::{A, B}, planner::{self, P}};").len(), 2);
    assert_eq!(of("src/balance/mod.rs", "fn f() { crate :: planner :: go(); }"), up(1));
    assert_eq!(of("src/balance/mod.rs", "use super::planner::X;"), up(1));
    assert_eq!(of("src/balance/a.rs", "use super::super::planner::X;"), up(1));
    assert_eq!(of("src/balance/a/b.rs", "fn f(_: super::super::super::planner::X) {}"), up(1));
    assert_eq!(of("src/balance/a.rs", "use super::planner::X; use self::planner::Y;").len(), 0);
    let aside = "modules of one layer do not know each other";
    for (path, text) in [
        ("src/link/server.rs", "use crate::config::Config;"),
        ("src/bag/mod.rs", "use crate::gang::X;"),
        ("src/verify/mod.rs", "use crate::learn::X;"),
        ("src/cli/mod.rs", "use crate::daemon::run;"),
    ] {
        assert!(of(path, text)[0].ends_with(aside), "{path}: {:?}", of(path, text));
    }
    assert!(of("src/verify/mod.rs", "use crate::balance::X;")[0].contains("`verify` (layer 2)"));
}

#[test]
fn what_is_allowed_passes() {
    for (path, text) in [
        ("src/balance/a.rs", "use crate::{balance::b, limits, model::{A, B as C}, verify};"),
        ("src/gang/a.rs", "use crate::learn::Speeds;"),
        ("src/model/a.rs", "use crate::limits::X; pub(crate) fn f() {}"),
        ("src/cli/a.rs", "use crate::{api::types::Status, config::Config};"),
        ("src/bin/x.rs", "fn main() { phalanx::cli::main(std::env::args_os()); }"),
        ("src/balance/a.rs", "// crate::planner, Instant::now()\n/* crate::link /* x */ */"),
        (
            "src/balance/a.rs",
            r##"const A: &str = "crate::planner"; const B: &str = r#""unsafe"#;"##,
        ),
        ("src/balance/a.rs", "fn f<'a>(x: &'a str, now: u64) -> u64 { let c = '\"'; now }"),
        (
            "src/balance/a.rs",
            "#[cfg(test)]\nmod tests { use crate::planner::X; fn f() { unsafe {} } }",
        ),
        ("src/balance/a.rs", "#[cfg(test)]\n#[allow(x)]\nuse crate::planner::X;\nfn f() {}"),
        ("src/link/a.rs", "use std::time::Instant; fn f() { Instant::now().elapsed(); }"),
        ("src/api/server.rs", "use axum::Router; use tokio::net::UnixListener;"),
        ("src/planner/a.rs", "use std::time::{Duration, Instant}; fn f(deadline: Instant) {}"),
        ("src/gang/a.rs", "use rand::SeedableRng; fn f() { X::seed_from_u64(1); }"),
    ] {
        assert_eq!(of(path, text), Vec::<String>::new(), "{path}: {text}");
    }
}

#[test]
fn the_world_outside_is_found_below_layer_four() {
    for text in [
        "use std::fs;",
        "use std::{collections::BTreeMap, fs::File};",
        "fn f() { std::net::TcpStream::connect(a); }",
        "use std::os::unix::net::UnixStream;",
        "use std::time::SystemTime;",
        "use std::time::{Duration, SystemTime as Clock};",
        "use std::time::Instant; fn f() { Instant::now(); }",
        "use std::time::Instant as T; fn f() { let x = T::now(); }",
        "fn f() { clock.get_or_init(std::time::Instant::now) }",
        "fn f(start: Instant) -> Duration { start.elapsed() }",
        "fn f() { std::env::var(\"X\"); }",
        "use phalanx_ffi::wire;",
        "fn f() { rand::rng(); }",
        "fn f() { thread_rng(); }",
        "fn f() { Xoshiro256PlusPlus::from_os_rng(); }",
    ] {
        for path in ["src/model/a.rs", "src/snapshot/a.rs", "src/gang/a.rs", "src/planner/a.rs"] {
            let found = of(path, text);
            assert_eq!(found.len(), 1, "{path}: {text}: {found:?}");
            assert!(found[0].starts_with("1: layer "), "{found:?}");
        }
        let above: Vec<String> = of("src/link/a.rs", text);
        assert_eq!(above, Vec::<String>::new(), "{text}");
    }
}

#[test]
fn unsafe_runtime_and_unknown_modules_are_found() {
    assert_eq!(
        of("src/link/a.rs", "fn f() {\n unsafe { g() } }"),
        ["2: `unsafe`: only ffi/ may have it"]
    );
    assert!(of("src/link/a.rs", "use tokio::net::UnixListener;")[0].contains("only in src/api/"));
    assert!(of("src/cli/mod.rs", "use hyper::Request;")[0].contains("`hyper`"));
    assert!(of("src/cli/client.rs", "use hyper::Request;")[0].contains("`hyper`"));
    assert_eq!(of("src/remote.rs", "use hyper::Request;"), Vec::<String>::new());
    let unknown = of("src/magic/mod.rs", "fn f() {}\nuse std::fmt;");
    assert!(unknown[0].contains("module `magic` has no layer: add it to TABLE"), "{unknown:?}");
    let used = of("src/link/a.rs", "use crate::magic::X;");
    assert_eq!(used, ["1: uses `magic`, which has no layer: add it to TABLE in tests/layering.rs"]);
    assert!(of("src/link/a.rs", "use crate::*;")[0].contains("`*`"));
    assert_eq!(scan::declared_modules("pub mod a;\n// pub mod b;\nmod c { mod d; }"), ["a", "c"]);
    let tests = scan::test_files("src/config/mod.rs", "#[cfg(test)]\nmod tests;\nmod keys;");
    assert!(tests.contains(&"src/config/tests.rs".to_owned()), "{tests:?}");
    assert!(!tests.contains(&"src/config/keys.rs".to_owned()), "{tests:?}");
}
