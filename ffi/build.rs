// SPDX-License-Identifier: GPL-3.0-or-later
//! Generates the Rust view of the two C headers of this crate: the wire format, and the types and
//! constants of libmunge. Nothing is linked.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bindgen::callbacks::{DeriveInfo, ParseCallbacks};

const WIRE_HEADER: &str = "include/phalanx_wire.h";
const MUNGE_HEADER: &str = "include/munge_header.h";

/// Derives of every generated struct, so that bytes become typed references
/// without unsafe code.
#[derive(Debug)]
struct ZerocopyDerives;

impl ParseCallbacks for ZerocopyDerives {
    fn add_derives(&self, _info: &DeriveInfo<'_>) -> Vec<String> {
        ["FromBytes", "IntoBytes", "KnownLayout", "Immutable"]
            .iter()
            .map(|name| format!("::zerocopy::{name}"))
            .collect()
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: phalanx-ffi: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    println!("cargo::rerun-if-changed=include");
    println!("cargo::rerun-if-env-changed=LIBCLANG_PATH");

    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run by cargo")?);
    check_munge_header()?;
    check_libclang()?;
    bind(wire_bindings(), WIRE_HEADER, &out.join("wire.rs"))?;
    bind(munge_bindings(), MUNGE_HEADER, &out.join("munge.rs"))
}

/// Fails early, with the package's name, when libmunge's header is absent.
fn check_munge_header() -> Result<(), String> {
    if Path::new("/usr/include/munge.h").is_file() {
        return Ok(());
    }
    Err("/usr/include/munge.h not found. Install libmunge-dev (Debian)".to_owned())
}

/// Checks for libclang, without which bindgen panics at run time.
fn check_libclang() -> Result<(), String> {
    std::panic::catch_unwind(bindgen::clang_version).map(|_| ()).map_err(|_| {
        "bindgen cannot load libclang. Install libclang-dev (Debian: libclang-14-dev), or set \
         LIBCLANG_PATH to the directory of libclang.so"
            .to_owned()
    })
}

/// Configures the messages: data that arrives as bytes.
fn wire_bindings() -> bindgen::Builder {
    bindgen::Builder::default()
        .allowlist_item("(phx|PHX)_.*")
        .parse_callbacks(Box::new(ZerocopyDerives))
}

/// Configures types and constants of libmunge, whose functions are looked up at run time.
fn munge_bindings() -> bindgen::Builder {
    bindgen::Builder::default().allowlist_type("munge_.*").allowlist_var("(MUNGE|EMUNGE)_.*")
}

/// Generates one binding file from `header`. bindgen adds const assertions of
/// each struct's size, alignment and offsets.
fn bind(builder: bindgen::Builder, header: &str, out: &Path) -> Result<(), String> {
    builder
        .header(header)
        // The headers' own static assertions are checked by the C compiler;
        // here they guard against a libclang with another idea of the ABI.
        .clang_arg("-std=gnu11")
        .rust_edition(bindgen::RustEdition::Edition2024)
        .prepend_enum_name(false)
        .derive_debug(true)
        .generate()
        .map_err(|error| format!("bindgen on {header}: {error}"))?
        .write_to_file(out)
        .map_err(|error| format!("cannot write {}: {error}", out.display()))
}
