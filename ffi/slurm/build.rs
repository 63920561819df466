// SPDX-License-Identifier: GPL-3.0-or-later
//! Compiles the C shim over libslurm, generates the Rust view of its header, and links libslurm.
//!
//! Environment:
//! - `SLURM_INCLUDE_DIR`: directory that holds `slurm/slurm.h` (default
//!   `/usr/include`);
//! - `SLURM_LIB_DIR`: directory that holds `libslurm.so` (default: the
//!   linker's own search path).
//!
//! The feature `synth` adds invented messages for tests and measurements (`tests/synth`).

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bindgen::callbacks::{IntKind, ParseCallbacks};

const SHIM_SOURCES: [&str; 2] = ["shim/slurm_shim.c", "shim/slurm_flatten.c"];
const SHIM_HEADER: &str = "shim/slurm_shim.h";
const SYNTH_SOURCE: &str = "tests/synth/slurm_synth.c";
const SYNTH_HEADER: &str = "tests/synth/slurm_synth.h";

/// Makes macros unsigned: bindgen reads them as i64 and would make a 64-bit flag negative.
#[derive(Debug)]
struct UnsignedMacros;

impl ParseCallbacks for UnsignedMacros {
    fn int_macro(&self, name: &str, _value: i64) -> Option<IntKind> {
        let wide = name.ends_with("64") || name == "PLS_MEM_PER_CPU";
        wide.then_some(IntKind::U64)
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: phalanx-slurm: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-env-changed=SLURM_INCLUDE_DIR");
    println!("cargo::rerun-if-env-changed=SLURM_LIB_DIR");
    println!("cargo::rerun-if-env-changed=LIBCLANG_PATH");

    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run by cargo")?);
    let include = env::var_os("SLURM_INCLUDE_DIR")
        .map_or_else(|| PathBuf::from("/usr/include"), PathBuf::from);
    check_slurm_headers(&include)?;
    check_libclang()?;

    let synth = env::var_os("CARGO_FEATURE_SYNTH").is_some();
    if synth {
        println!("cargo::rerun-if-changed=tests/synth");
    }
    cc::Build::new()
        .files(SHIM_SOURCES)
        .files(synth.then_some(SYNTH_SOURCE))
        .include(&include)
        .include("shim")
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .opt_level(2)
        .try_compile("phalanx_slurm_shim")
        .map_err(|error| format!("cannot compile the libslurm shim: {error}"))?;

    let shim = if synth { SYNTH_HEADER } else { SHIM_HEADER };
    bind(shim_bindings(), shim, &out.join("shim.rs"))?;

    if let Some(dir) = env::var_os("SLURM_LIB_DIR") {
        println!("cargo::rustc-link-search=native={}", Path::new(&dir).display());
    }
    println!("cargo::rustc-link-lib=dylib=slurm");
    Ok(())
}

/// Fails early, with the package's name, when Slurm's public headers are
/// absent; a compiler's "file not found" would not say which package has them.
fn check_slurm_headers(include: &Path) -> Result<(), String> {
    for name in ["slurm/slurm.h", "slurm/slurm_version.h", "slurm/slurm_errno.h"] {
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

/// Checks for libclang, without which bindgen panics at run time.
fn check_libclang() -> Result<(), String> {
    std::panic::catch_unwind(bindgen::clang_version).map(|_| ()).map_err(|_| {
        "bindgen cannot load libclang. Install libclang-dev (Debian: libclang-14-dev), or set \
         LIBCLANG_PATH to the directory of libclang.so"
            .to_owned()
    })
}

/// Configures the shim: functions, and records that C allocates.
fn shim_bindings() -> bindgen::Builder {
    bindgen::Builder::default()
        .allowlist_item("(pls|PLS)_.*")
        .parse_callbacks(Box::new(UnsignedMacros))
}

/// Generates one binding file from `header`. bindgen adds const assertions of
/// each struct's size, alignment and offsets.
fn bind(builder: bindgen::Builder, header: &str, out: &Path) -> Result<(), String> {
    builder
        .header(header)
        // The headers' own static assertions are checked by the C compiler;
        // here they guard against a libclang with another idea of the ABI.
        .clang_args(["-std=gnu11", "-Ishim"])
        .rust_edition(bindgen::RustEdition::Edition2024)
        .prepend_enum_name(false)
        .derive_debug(true)
        .generate()
        .map_err(|error| format!("bindgen on {header}: {error}"))?
        .write_to_file(out)
        .map_err(|error| format!("cannot write {}: {error}", out.display()))
}
