// SPDX-License-Identifier: GPL-3.0-or-later
//! A program from its start to its end.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, Uid};
use phalanx_ffi::process::{ChildLimits, pidfd, restrict};

use super::pipes::{Input, Output, Tail, unblock};
use super::run::{BASE_ENVIRONMENT, Run, RunError};
use phalanx_core::limits::{
    SLOT_FILE_BYTES_MAX, SLOT_FILES_MAX, SLOT_OUTPUT_BYTES_MAX, SLOT_PROCESSES_MAX,
};

#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    group: Pid,
    exit: Option<OwnedFd>,
    input: Input,
    output: Output,
    stderr: Tail,
    started: Instant,
    timeout: Duration,
    killed: Option<RunError>,
    status: Option<ExitStatus>,
}

impl Child {
    /// Starts the program; the error says what the system refused.
    pub(super) fn start(run: Run, now: Instant) -> Result<Self, String> {
        let mut process = command(&run)?.spawn().map_err(|error| {
            let path = run.program.display();
            format!("{path}: {error}")
        })?;
        let pid = process.id();
        let group = Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX));
        let (stdin, stdout, stderr) =
            (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let mut child = Self {
            process,
            group,
            exit: pidfd(pid).ok(),
            input: Input::new(stdin, run.input),
            output: Output::new(stdout),
            stderr: Tail::new(stderr),
            started: now,
            timeout: run.timeout,
            killed: None,
            status: None,
        };
        if let Err(error) = child.unblock() {
            child.give_up(RunError::Stopped);
            return Err(format!("pipes: {error}"));
        }
        child.input.turn();
        Ok(child)
    }

    fn unblock(&self) -> nix::Result<()> {
        self.input.pipe.as_ref().map_or(Ok(()), unblock)?;
        self.output.pipe.as_ref().map_or(Ok(()), unblock)?;
        self.stderr.pipe.as_ref().map_or(Ok(()), unblock)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    pub(super) fn deadline(&self) -> Instant {
        self.started + self.timeout
    }

    pub(super) fn exit_fd(&self) -> Option<&OwnedFd> {
        self.exit.as_ref()
    }

    pub(super) fn add_to<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        fds.extend(self.exit.as_ref().map(|fd| readable(fd.as_fd())));
        fds.extend(self.output.pipe.as_ref().map(|fd| readable(fd.as_fd())));
        fds.extend(self.stderr.pipe.as_ref().map(|fd| readable(fd.as_fd())));
        let writable = |fd| PollFd::new(fd, PollFlags::POLLOUT);
        fds.extend(self.input.pipe.as_ref().map(|fd| writable(fd.as_fd())));
    }

    /// Moves bytes of the pipes; returns whether the run is over, by itself or killed.
    pub(super) fn turn(&mut self, now: Instant) -> bool {
        self.input.turn();
        let over = self.exited();
        // After the exit the pipe holds all of its output.
        let flood = self.output.turn();
        self.stderr.turn();
        if flood {
            self.give_up(RunError::TooLong(SLOT_OUTPUT_BYTES_MAX));
            return true;
        }
        if over {
            return true;
        }
        if now >= self.deadline() {
            self.give_up(RunError::Timeout(self.timeout.as_millis()));
            return true;
        }
        false
    }

    /// Whether the program has ended; it stays a zombie, so that its id names its group until that
    /// has been killed.
    fn exited(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        !matches!(
            waitid(Id::Pid(self.group), flags),
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR)
        )
    }

    /// Kills the program with all of its process group and remembers the reason.
    pub(super) fn give_up(&mut self, why: RunError) {
        self.killed.get_or_insert(why);
        self.kill_group();
    }

    fn kill_group(&self) {
        if self.status.is_none() {
            // No such group: everything in it has ended.
            let _ = killpg(self.group, Signal::SIGKILL);
        }
    }

    /// Kills the rest of the group and takes the exit status; false while the kernel still holds
    /// the process.
    pub(super) fn reap(&mut self) -> bool {
        if self.status.is_none() {
            self.kill_group();
            match self.process.try_wait() {
                Ok(None) => return false,
                Ok(status) => self.status = status,
                // Somebody else waited for it; it is gone.
                Err(_) => self.status = Some(ExitStatus::from_raw(0)),
            }
        }
        true
    }

    /// Returns the result of the run, and the end of its standard error.
    pub(super) fn result(&mut self) -> (Result<String, RunError>, String) {
        let stderr = self.stderr.text();
        if let Some(why) = self.killed.clone() {
            return (Err(why), stderr);
        }
        self.reap();
        let status = self.status.unwrap_or_default();
        if let Some(signal) = status.signal() {
            return (Err(RunError::Signal(signal)), stderr);
        }
        if !status.success() {
            return (Err(RunError::Exit(status.code().unwrap_or(-1))), stderr);
        }
        let text = match std::str::from_utf8(&self.output.bytes) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(error) => Err(RunError::NotUtf8(error.valid_up_to())),
        };
        (text, stderr)
    }
}

fn command(run: &Run) -> Result<Command, String> {
    let mut command = Command::new(&run.program);
    command
        .args(&run.args)
        .env_clear()
        .envs(BASE_ENVIRONMENT)
        .envs(run.env.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .process_group(0)
        .stdin(if run.input.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if run.run_as.differs() {
        if !Uid::effective().is_root() {
            let uid = run.run_as.uid;
            return Err(format!("it should run as user {uid}, and only root can change the user"));
        }
        // The standard library also drops all further groups.
        command.gid(run.run_as.gid).uid(run.run_as.uid);
    }
    let limits = ChildLimits {
        processes: SLOT_PROCESSES_MAX,
        files: SLOT_FILES_MAX,
        file_bytes: SLOT_FILE_BYTES_MAX,
    };
    restrict(&mut command, limits);
    Ok(command)
}
