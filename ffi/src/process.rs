// SPDX-License-Identifier: GPL-3.0-or-later
//! Preparation of a child process that runs a foreign program, and how its
//! end is waited for.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Limits of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildLimits {
    /// Processes and threads of the child's user, `RLIMIT_NPROC`; root is exempt.
    pub processes: u64,
    /// Open files, `RLIMIT_NOFILE`.
    pub files: u64,
    /// Bytes of one file that the child writes, `RLIMIT_FSIZE`.
    pub file_bytes: u64,
}

/// Makes the child of `command` start with `limits`, without core dumps, without ways to more
/// privileges, without the descriptors of this process beyond standard input, output and error, and
/// end with the thread that starts it.
pub fn restrict(command: &mut Command, limits: ChildLimits) {
    let parent = std::process::id();
    // Lowers a limit of this process; one that is lower already stays. A closure, because the type
    // of a limit's number is not the same in all C libraries.
    let lower = |which, most: u64| {
        let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `now` is a valid rlimit, which the first call fills and the second only reads.
        let done = unsafe {
            libc::getrlimit(which, &raw mut now) == 0 && {
                now.rlim_max = most.min(now.rlim_max);
                now.rlim_cur = now.rlim_max;
                libc::setrlimit(which, &raw const now) == 0
            }
        };
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    let prepare = move || {
        lower(libc::RLIMIT_NPROC, limits.processes)?;
        lower(libc::RLIMIT_NOFILE, limits.files)?;
        lower(libc::RLIMIT_FSIZE, limits.file_bytes)?;
        lower(libc::RLIMIT_CORE, 0)?;
        end_with_parent(parent)?;
        close_inherited();
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls only
    // (getrlimit, setrlimit, prctl, getppid, close_range): no allocation, no
    // lock, no memory of other threads.
    unsafe { command.pre_exec(prepare) };
}

/// Requests SIGKILL when the parent ends, and no new privileges through exec.
fn end_with_parent(parent: u32) -> io::Result<()> {
    // SAFETY: this option takes one integer and no pointer.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The parent may have ended before the request stood.
    // SAFETY: getppid takes no argument and cannot fail.
    let now = unsafe { libc::getppid() };
    if u32::try_from(now) != Ok(parent) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    // SAFETY: this option takes integers and no pointer.
    match unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Closes descriptors that libraries hold without close-on-exec. Kernels before 5.11 do not know
/// this call; then those stay as they are.
fn close_inherited() {
    let (first, last, cloexec): (u32, u32, u32) = (3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: no pointer is passed; with this flag nothing is closed before
    // exec, so that the standard library's own descriptors still work.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, cloexec) };
}

/// Returns a descriptor that becomes readable when the process ends.
///
/// # Errors
/// The kernel's; ENOSYS before Linux 5.3.
pub fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: no pointer is passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0_u32) };
    let fd = i32::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor (with close-on-exec) that
    // nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes processes whose parent has ended children of this process instead of init's.
///
/// # Errors
/// The kernel's.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: this option takes one integer and no pointer.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restricted_child_sees_its_limits() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "ulimit -c; ulimit -n; grep NoNewPrivs /proc/self/status"]);
        restrict(&mut command, ChildLimits { processes: 50, files: 33, file_bytes: 1 << 20 });
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "0\n33\nNoNewPrivs:\t1\n");
    }

    #[test]
    fn a_pidfd_names_a_live_process_only() {
        assert!(pidfd(std::process::id()).is_ok());
        assert!(pidfd(0).is_err());
    }
}
