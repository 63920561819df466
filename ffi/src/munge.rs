// SPDX-License-Identifier: GPL-3.0-or-later
//! MUNGE credentials: who sent a request, sealed by the machine's `munged`.
//!
//! `munged` vouches for the user id of whoever asked for the credential, gives
//! it a time to live, and refuses to decode one twice. Both calls talk to
//! `munged` over its local socket and block for it.

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use crate::sys::munge as sys;

/// Why there is no credential, or why one does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MungeError {
    /// It was decoded before.
    #[error("credential was used before")]
    Replayed,
    /// Its time to live is over.
    #[error("credential has expired")]
    Expired,
    /// It is from the future: clocks disagree.
    #[error("credential is from the future: do the clocks agree?")]
    Rewound,
    /// It is no credential, was changed, or is not for this user.
    #[error("credential is invalid: {0}")]
    Invalid(String),
    /// `munged` cannot be asked.
    #[error("munged: {0}")]
    Unavailable(String),
}

/// Content of a valid credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// User who made it.
    pub uid: u32,
    /// That user's group.
    pub gid: u32,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// One of libmunge's contexts, freed at the end.
struct Context(sys::munge_ctx_t);

impl Context {
    fn new(socket: Option<&Path>) -> Result<Self, MungeError> {
        // SAFETY: takes no arguments and returns an own context or null.
        let context = unsafe { sys::munge_ctx_create() };
        if context.is_null() {
            return Err(MungeError::Unavailable("out of memory".to_owned()));
        }
        let context = Self(context);
        if let Some(path) = socket {
            let path = CString::new(path.as_os_str().as_bytes())
                .map_err(|_| MungeError::Unavailable("NUL byte in the socket's path".to_owned()))?;
            // SAFETY: the context is valid; this option takes a C string, which
            // libmunge copies.
            let rc = unsafe {
                sys::munge_ctx_set(context.0, option(sys::MUNGE_OPT_SOCKET), path.as_ptr())
            };
            context.check(rc)?;
        }
        Ok(context)
    }

    fn set_ttl(&self, ttl_s: c_int) -> Result<(), MungeError> {
        // SAFETY: the context is valid; this option takes an int.
        let rc = unsafe { sys::munge_ctx_set(self.0, option(sys::MUNGE_OPT_TTL), ttl_s) };
        self.check(rc)
    }

    fn check(&self, rc: sys::munge_err_t) -> Result<(), MungeError> {
        if rc == sys::EMUNGE_SUCCESS {
            return Ok(());
        }
        // SAFETY: the context is valid; the text is null or lives as long as it.
        let own = unsafe { sys::munge_ctx_strerror(self.0) };
        // SAFETY: takes any code; the text is static.
        let text = if own.is_null() { unsafe { sys::munge_strerror(rc) } } else { own };
        let text = if text.is_null() {
            format!("error {rc}")
        } else {
            // SAFETY: a C string that lives at least as long as the context.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        Err(match rc {
            sys::EMUNGE_CRED_REPLAYED => MungeError::Replayed,
            sys::EMUNGE_CRED_EXPIRED => MungeError::Expired,
            sys::EMUNGE_CRED_REWOUND => MungeError::Rewound,
            sys::EMUNGE_SOCKET | sys::EMUNGE_TIMEOUT | sys::EMUNGE_NO_MEMORY => {
                MungeError::Unavailable(text)
            }
            _ => MungeError::Invalid(text),
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: created by munge_ctx_create() and destroyed once, here.
        unsafe { sys::munge_ctx_destroy(self.0) };
    }
}

fn option(option: sys::munge_opt_t) -> c_int {
    // A small number of libmunge's list.
    c_int::try_from(option).unwrap_or(-1)
}

/// A credential of this process's user that carries `payload` and is good for
/// `ttl_s` seconds (0: munged's default). `socket` names another munged than the
/// machine's own.
///
/// # Errors
/// [`MungeError::Unavailable`] without munged; [`MungeError::Invalid`] when it
/// refuses, for example a payload that is too large.
pub fn encode(payload: &[u8], socket: Option<&Path>, ttl_s: u16) -> Result<String, MungeError> {
    let context = Context::new(socket)?;
    context.set_ttl(c_int::from(ttl_s))?;
    let length = c_int::try_from(payload.len())
        .map_err(|_| MungeError::Invalid("the payload is too large".to_owned()))?;
    let mut credential = ptr::null_mut();
    // SAFETY: the context is valid, `payload` has `length` readable bytes, and
    // `credential` takes a C string that is ours to free.
    let rc = unsafe {
        sys::munge_encode(&mut credential, context.0, payload.as_ptr().cast::<c_void>(), length)
    };
    let text = if credential.is_null() {
        None
    } else {
        // SAFETY: a C string from libmunge, not freed before the copy.
        let text = unsafe { CStr::from_ptr(credential) }.to_string_lossy().into_owned();
        // SAFETY: libmunge's documentation has the caller free() it.
        unsafe { libc::free(credential.cast()) };
        Some(text)
    };
    context.check(rc)?;
    text.ok_or_else(|| MungeError::Invalid("no credential".to_owned()))
}

/// Returns the credential's maker and payload. It can be decoded once.
///
/// # Errors
/// See [`MungeError`].
pub fn decode(credential: &str, socket: Option<&Path>) -> Result<Decoded, MungeError> {
    let text = CString::new(credential)
        .map_err(|_| MungeError::Invalid("NUL byte in the credential".to_owned()))?;
    let context = Context::new(socket)?;
    let mut payload: *mut c_void = ptr::null_mut();
    let mut length: c_int = 0;
    let (mut uid, mut gid) = (u32::MAX, u32::MAX);
    // SAFETY: the context is valid, `text` is a C string, and the four pointers
    // are to own variables of the types that libmunge writes.
    let rc = unsafe {
        sys::munge_decode(text.as_ptr(), context.0, &mut payload, &mut length, &mut uid, &mut gid)
    };
    let bytes = if payload.is_null() {
        Vec::new()
    } else {
        let length = usize::try_from(length).unwrap_or(0);
        // SAFETY: libmunge allocated `length` bytes at `payload`.
        let bytes = unsafe { std::slice::from_raw_parts(payload.cast::<u8>(), length) }.to_vec();
        // SAFETY: libmunge's documentation has the caller free() it.
        unsafe { libc::free(payload) };
        bytes
    };
    // Some errors (replayed, expired) come with a payload: it must not count.
    context.check(rc)?;
    Ok(Decoded { uid, gid, payload: bytes })
}
