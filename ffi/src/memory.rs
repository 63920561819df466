// SPDX-License-Identifier: GPL-3.0-or-later
//! The heap of this process.

/// Size from which the system holds a block apart from the heap.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 1 << 20;

/// Lets every large block go back to the system when it is freed. glibc by itself raises the size
/// with each such block, up to 32 MiB, and then keeps them as holes in the heap.
pub fn free_large() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) takes no pointer, and an option that it knows.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}

/// Gives what was freed inside the heap back to the system, which takes some milliseconds for each
/// 100 MB. glibc by itself gives back only what lies at the end.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) is safe to call from any thread at any time and takes no pointer.
    unsafe {
        libc::malloc_trim(0);
    }
}
