// SPDX-License-Identifier: GPL-3.0-or-later
//! MUNGE credentials: who sent a request, sealed by the machine's `munged`.
//!
//! libmunge is loaded by the first call, so that programs start on hosts without it; such a host
//! has no `munged` either, and every call says what to install. A static program loads nothing: it
//! has its credentials made by the program `munge`, and decodes none.
//!
//! `munged` vouches for the user id of whoever asked for the credential, gives
//! it a time to live, and refuses to decode one twice. Both calls talk to
//! `munged` over its local socket and block for it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::{Error, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::ptr;
use std::sync::OnceLock;

use crate::sys::munge as sys;

/// Why there is no credential, or why one does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MungeError {
    /// The credential was decoded before.
    #[error("credential was used before")]
    Replayed,
    /// The credential's time to live is over.
    #[error("credential has expired")]
    Expired,
    /// The credential is from the future: clocks disagree.
    #[error("credential is from the future: do the clocks agree?")]
    Rewound,
    /// The text is no credential, was changed, or is not for this user.
    #[error("credential is invalid: {0}")]
    Invalid(String),
    /// `munged` cannot be asked.
    #[error("munged: {0}")]
    Unavailable(String),
}

/// Content of a valid credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// User who made the credential.
    pub uid: u32,
    /// Group of the user who made the credential.
    pub gid: u32,
    /// Payload of the credential.
    pub payload: Vec<u8>,
}

/// File name of libmunge; its number stands for the interface of `munge.h`.
const LIBRARY: &CStr = c"libmunge.so.2";

/// The functions of libmunge that are used, with the types of `munge.h`.
struct Library {
    ctx_create: unsafe extern "C" fn() -> sys::munge_ctx_t,
    ctx_destroy: unsafe extern "C" fn(sys::munge_ctx_t),
    ctx_set: unsafe extern "C" fn(sys::munge_ctx_t, c_int, ...) -> sys::munge_err_t,
    ctx_strerror: unsafe extern "C" fn(sys::munge_ctx_t) -> *const c_char,
    strerror: unsafe extern "C" fn(sys::munge_err_t) -> *const c_char,
    encode: unsafe extern "C" fn(
        *mut *mut c_char,
        sys::munge_ctx_t,
        *const c_void,
        c_int,
    ) -> sys::munge_err_t,
    decode: unsafe extern "C" fn(
        *const c_char,
        sys::munge_ctx_t,
        *mut *mut c_void,
        *mut c_int,
        *mut libc::uid_t,
        *mut libc::gid_t,
    ) -> sys::munge_err_t,
}

impl Library {
    /// Returns libmunge, loaded by the first call and kept; the error names what is missing.
    fn get() -> Result<&'static Self, MungeError> {
        static LOADED: OnceLock<Option<Library>> = OnceLock::new();
        let missing = || format!("{LIBRARY:?} does not load: install MUNGE (Debian: libmunge2)");
        LOADED.get_or_init(Self::load).as_ref().ok_or_else(|| MungeError::Unavailable(missing()))
    }

    fn load() -> Option<Self> {
        // SAFETY: the name is a C string; libmunge's constructors have no preconditions.
        let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: the handle is libmunge's and is never closed, and each type is that of the
        // function in munge.h, whose version the library's name fixes.
        unsafe {
            Some(Self {
                ctx_create: symbol(handle, c"munge_ctx_create")?,
                ctx_destroy: symbol(handle, c"munge_ctx_destroy")?,
                ctx_set: symbol(handle, c"munge_ctx_set")?,
                ctx_strerror: symbol(handle, c"munge_ctx_strerror")?,
                strerror: symbol(handle, c"munge_strerror")?,
                encode: symbol(handle, c"munge_encode")?,
                decode: symbol(handle, c"munge_decode")?,
            })
        }
    }
}

/// Returns a function of a library.
///
/// # Safety
/// `F` is the type of a pointer to this function, and the library stays loaded.
unsafe fn symbol<F: Copy>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the handle is that of a loaded library, the name a C string.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    ptr::NonNull::new(address)?;
    // SAFETY: as large as a pointer, and a pointer to a function of this type by the caller's
    // promise.
    Some(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
}

/// A context of libmunge, freed on drop.
struct Context {
    context: sys::munge_ctx_t,
    library: &'static Library,
}

impl Context {
    fn new(socket: Option<&Path>) -> Result<Self, MungeError> {
        let library = Library::get()?;
        // SAFETY: takes no arguments and returns an own context or null.
        let context = unsafe { (library.ctx_create)() };
        if context.is_null() {
            return Err(MungeError::Unavailable("out of memory".to_owned()));
        }
        let context = Self { context, library };
        if let Some(path) = socket {
            let path = CString::new(path.as_os_str().as_bytes())
                .map_err(|_| MungeError::Unavailable("NUL byte in the socket's path".to_owned()))?;
            // SAFETY: the context is valid; this option takes a C string, which
            // libmunge copies.
            let rc = unsafe {
                (library.ctx_set)(context.context, option(sys::MUNGE_OPT_SOCKET), path.as_ptr())
            };
            context.check(rc)?;
        }
        Ok(context)
    }

    fn set_ttl(&self, ttl_s: c_int) -> Result<(), MungeError> {
        // SAFETY: the context is valid; this option takes an int.
        let rc = unsafe { (self.library.ctx_set)(self.context, option(sys::MUNGE_OPT_TTL), ttl_s) };
        self.check(rc)
    }

    fn check(&self, rc: sys::munge_err_t) -> Result<(), MungeError> {
        if rc == sys::EMUNGE_SUCCESS {
            return Ok(());
        }
        // SAFETY: the context is valid; the text is null or lives as long as it.
        let own = unsafe { (self.library.ctx_strerror)(self.context) };
        // SAFETY: takes any code; the text is static.
        let text = if own.is_null() { unsafe { (self.library.strerror)(rc) } } else { own };
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
        unsafe { (self.library.ctx_destroy)(self.context) };
    }
}

fn option(option: sys::munge_opt_t) -> c_int {
    // A small number of libmunge's list.
    c_int::try_from(option).unwrap_or(-1)
}

/// Returns a credential of this process's user that carries `payload` and is good for `ttl_s`
/// seconds (0: munged's default). `socket` names another munged than the machine's own.
///
/// # Errors
/// [`MungeError::Unavailable`] without munged; [`MungeError::Invalid`] when it refuses, for example
/// a payload that is too large.
pub fn encode(payload: &[u8], socket: Option<&Path>, ttl_s: u16) -> Result<String, MungeError> {
    if cfg!(target_env = "musl") && socket.is_none() && ttl_s == 0 {
        return by_program(payload)
            .map_err(|error| MungeError::Unavailable(format!("the program munge: {error}")));
    }
    let context = Context::new(socket)?;
    context.set_ttl(c_int::from(ttl_s))?;
    let length = c_int::try_from(payload.len())
        .map_err(|_| MungeError::Invalid("the payload is too large".to_owned()))?;
    let mut credential = ptr::null_mut();
    // SAFETY: the context is valid, `payload` has `length` readable bytes, and
    // `credential` takes a C string that is ours to free.
    let rc = unsafe {
        let payload = payload.as_ptr().cast::<c_void>();
        (context.library.encode)(&raw mut credential, context.context, payload, length)
    };
    context.check(rc)?;
    if credential.is_null() {
        return Err(MungeError::Invalid("no credential".to_owned()));
    }
    // SAFETY: a C string from libmunge, not freed before the copy.
    let text = unsafe { CStr::from_ptr(credential) }.to_string_lossy().into_owned();
    // SAFETY: libmunge's documentation has the caller free() it.
    unsafe { libc::free(credential.cast()) };
    Ok(text)
}

fn by_program(payload: &[u8]) -> Result<String, Error> {
    let mut child = Command::new("munge").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().map_or(Ok(()), |mut pipe| pipe.write_all(payload))?;
    let done = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    if done.status.success() { Ok(text) } else { Err(Error::other(done.status.to_string())) }
}

/// Returns the credential's maker and payload. A credential can be decoded only once.
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
        (context.library.decode)(
            text.as_ptr(),
            context.context,
            &raw mut payload,
            &raw mut length,
            &raw mut uid,
            &raw mut gid,
        )
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Goal: the program `munge`, which static programs start, makes the same credential.
    #[test]
    fn the_program_makes_the_same_credential() {
        if encode(b"", None, 0).is_err() {
            assert!(std::env::var_os("PHALANX_NEED_MUNGED").is_none(), "munged does not answer");
            return;
        }
        let credential = by_program(b"GET\0 /v1\n\xff").unwrap();
        assert!(!credential.ends_with('\n'));
        assert_eq!(decode(&credential, None).unwrap().payload, b"GET\0 /v1\n\xff");
    }
}
