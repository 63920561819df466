// SPDX-License-Identifier: GPL-3.0-or-later
//! The heap of this process.

/// Gives what was freed inside the heap back to the system, which takes some milliseconds for each
/// 100 MB. glibc by itself gives back only what lies at the end.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) is safe to call from any thread at any time and takes no pointer.
    unsafe {
        libc::malloc_trim(0);
    }
}
