// SPDX-License-Identifier: GPL-3.0-or-later
//! Scheduling class of the calling thread. Nothing here needs a
//! privilege, and nothing depends on its success: each call says whether the
//! kernel agreed.

use std::io;
use std::mem::size_of;

/// `struct sched_attr`, first version (Linux 3.14; `sched_setattr(2)`).
#[repr(C)]
#[derive(Debug, Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const _: () = assert!(size_of::<SchedAttr>() == 48);

/// Gives this thread less of a busy CPU, for work that nobody waits for. `nice` is 1 to 19; on
/// Linux it is a property of the thread.
///
/// # Errors
/// The kernel's.
pub fn yield_to_others(nice: i32) -> io::Result<()> {
    // SAFETY: no pointer is passed; id 0 is the calling thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice.clamp(1, 19)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Asks for time slices of `slice_ns` (100 microseconds to 100 milliseconds) instead of the usual
/// few milliseconds, for short work that somebody waits for. From Linux 6.12 on such a thread
/// preempts one with longer slices when it wakes; its share of the CPU stays the same. Older
/// kernels ignore it.
///
/// # Errors
/// The kernel's.
pub fn short_turns(slice_ns: u64) -> io::Result<()> {
    let attr = SchedAttr {
        size: 48,
        // SCHED_OTHER
        policy: 0,
        runtime_ns: slice_ns,
        ..SchedAttr::default()
    };
    // SAFETY: `attr` is a valid struct of the size that it names and outlives
    // the call, which only reads it; pid 0 is the calling thread, flags are 0.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str) -> Option<String> {
        let text = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
        // After "pid (name) " come the fields from the third on; nice is 19.
        let rest = text.rsplit_once(") ")?.1;
        let at = if name == "nice" { 16 } else { 0 };
        rest.split(' ').nth(at).map(str::to_owned)
    }

    #[test]
    fn only_the_calling_thread_changes() {
        let before = field("nice");
        let inside = std::thread::spawn(|| {
            yield_to_others(7).unwrap();
            field("nice")
        });
        assert_eq!(inside.join().unwrap().as_deref(), Some("7"));
        assert_eq!(field("nice"), before);
    }

    #[test]
    fn short_turns_are_granted_without_privilege() {
        std::thread::spawn(|| short_turns(200_000)).join().unwrap().unwrap();
    }
}
