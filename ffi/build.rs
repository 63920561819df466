// SPDX-License-Identifier: GPL-3.0-or-later
//! Compiles the C shim over libslurm and generates the Rust view of the two C
//! headers of this crate.
//!
//! Environment:
//! - `SLURM_INCLUDE_DIR`: directory that holds `slurm/slurm.h` (default
//!   `/usr/include`);
//! - `SLURM_LIB_DIR`: directory that holds `libslurm.so` (default: the
//!   linker's own search path).

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bindgen::callbacks::{DeriveInfo, ParseCallbacks};

const SHIM_SOURCES: [&str; 2] = ["shim/slurm_shim.c", "shim/slurm_synth.c"];
const SHIM_HEADER: &str = "shim/slurm_shim.h";
const WIRE_HEADER: &str = "include/phalanx_wire.h";

/// What every generated struct derives, so that bytes become typed references
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
    for path in SHIM_SOURCES {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-changed=shim/slurm_compat.h");
    println!("cargo::rerun-if-changed={SHIM_HEADER}");
    println!("cargo::rerun-if-changed={WIRE_HEADER}");
    println!("cargo::rerun-if-env-changed=SLURM_INCLUDE_DIR");
    println!("cargo::rerun-if-env-changed=SLURM_LIB_DIR");
    println!("cargo::rerun-if-env-changed=LIBCLANG_PATH");

    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run by cargo")?);
    let include = env::var_os("SLURM_INCLUDE_DIR")
        .map_or_else(|| PathBuf::from("/usr/include"), PathBuf::from);
    check_slurm_headers(&include)?;
    check_libclang()?;

    bind(WIRE_HEADER, "(phx|PHX)_.*", &out.join("wire.rs"))?;

    if let Some(dir) = env::var_os("SLURM_LIB_DIR") {
        println!(
            "cargo::rustc-link-search=native={}",
            Path::new(&dir).display()
        );
    }
    println!("cargo::rustc-link-lib=dylib=slurm");
    Ok(())
}

/// Fails early, with the package's name, when Slurm's public headers are
/// absent; a compiler's "file not found" would not say which package has them.
fn check_slurm_headers(include: &Path) -> Result<(), String> {
    for name in [
        "slurm/slurm.h",
        "slurm/slurm_version.h",
        "slurm/slurm_errno.h",
    ] {
        let path = include.join(name);
        if !path.is_file() {
            return Err(format!(
                "{} not found. Install libslurm-dev (Debian), or set SLURM_INCLUDE_DIR to the \
                 directory that holds slurm/slurm.h and SLURM_LIB_DIR to that of libslurm.so",
                path.display()
            ));
        }
    }
    Ok(())
}

/// bindgen loads libclang at run time and panics without it.
fn check_libclang() -> Result<(), String> {
    std::panic::catch_unwind(bindgen::clang_version)
        .map(|_| ())
        .map_err(|_| {
            "bindgen cannot load libclang. Install libclang-dev (Debian: libclang-14-dev), or set \
         LIBCLANG_PATH to the directory of libclang.so"
                .to_owned()
        })
}

/// Generates one binding file from `header`, of the items that match `items`.
/// bindgen adds const assertions of each struct's size, alignment and offsets.
fn bind(header: &str, items: &str, out: &Path) -> Result<(), String> {
    bindgen::Builder::default()
        .header(header)
        // The headers' own static assertions are checked by the C compiler;
        // here they guard against a libclang with another idea of the ABI.
        .clang_arg("-std=gnu11")
        .rust_edition(bindgen::RustEdition::Edition2024)
        .allowlist_item(items)
        .prepend_enum_name(false)
        .derive_default(false)
        .derive_debug(true)
        .parse_callbacks(Box::new(ZerocopyDerives))
        .generate()
        .map_err(|error| format!("bindgen on {header}: {error}"))?
        .write_to_file(out)
        .map_err(|error| format!("cannot write {}: {error}", out.display()))
}
