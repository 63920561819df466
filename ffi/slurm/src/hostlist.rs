// SPDX-License-Identifier: GPL-3.0-or-later
//! Host lists by libslurm's own code: the oracle for tests of other
//! implementations. Works without a [`super::Slurm`] handle: each call uses
//! its own list and none of libslurm's global state.
//!
//! libslurm refuses bad ranges (`n[2-1]`) but not unbalanced brackets: it
//! reads `n[1-` as the host `n]`. Another implementation may be stricter.

use std::ffi::{CStr, CString, c_char};

use crate::shim;

/// Returns the hosts of `list` in order; `None` if libslurm refuses the list.
///
/// libslurm writes its reasons to the standard error.
pub fn expand(list: &str) -> Option<Vec<String>> {
    let joined = call(list, shim::pls_hostlist_expand)?;
    Some(joined.split(',').filter(|host| !host.is_empty()).map(str::to_owned).collect())
}

/// Returns the bracketed form of `list`, e.g. `n1,n2` to `n[1-2]`; `None` if libslurm refuses the
/// list.
pub fn compress(list: &str) -> Option<String> {
    call(list, shim::pls_hostlist_compress)
}

fn call(
    list: &str,
    function: unsafe extern "C" fn(*const c_char) -> *mut c_char,
) -> Option<String> {
    let list = CString::new(list).ok()?;
    // SAFETY: `list` is a C string that outlives the call, and both functions
    // of the shim take one.
    let text = unsafe { function(list.as_ptr()) };
    if text.is_null() {
        return None;
    }
    // SAFETY: the shim returned a non-null C string that we now own.
    let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: it came from malloc() and is freed once, here.
    unsafe { libc::free(text.cast()) };
    Some(copy)
}
