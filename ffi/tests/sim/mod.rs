// SPDX-License-Identifier: GPL-3.0-or-later
//! slurmctld's side of the campaign sim-link: the library of `make -C plugin sim`; see `sim.h`.

#![allow(missing_docs, reason = "the fields are those of sim.h")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;

/// Greatest number of jobs in [`Truth`].
pub const JOBS_MAX: usize = 64;
/// Greatest number of nodes in [`Truth`].
pub const NODES_MAX: usize = 16;

/// Parameters of an episode.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Params {
    pub seed: u64,
    pub nodes: u32,
    pub jobs: u32,
    pub processors: u32,
    pub pause_us: u32,
    pub socket_bytes: u32,
    pub disk_us: u32,
    pub disk_fail: u32,
    pub inputs: u32,
    pub old: u32,
    pub clock_jumps: u32,
    pub sabotage: u32,
    pub log: u32,
}

/// A running job as the simulated slurmctld has it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Job {
    pub job_id: u32,
    pub suspended: u32,
    pub nodes: u64,
}

/// State of slurmctld.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    pub node_count: u32,
    pub job_count: u32,
    pub memory_mb: [u64; NODES_MAX],
    pub jobs: [Job; JOBS_MAX],
}

/// Counters of an episode.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub actions: u64,
    pub events: u64,
    pub asks: u64,
    pub answers: u64,
    pub narrowed: u64,
    pub held: u64,
    pub syncs: u64,
    pub connects: u64,
    pub opens: u64,
    pub ejections: u64,
    pub deltas: u64,
    pub crashes: u64,
    pub restarts: u64,
    pub checks: u64,
    pub late: u64,
}

macro_rules! library {
    ($($name:ident: fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        #[derive(Debug, Clone, Copy)]
        struct Functions {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }

        impl Functions {
            /// # Safety
            /// `handle` is of the library of this version, which stays open.
            unsafe fn find(handle: *mut c_void) -> Result<Self, String> {
                Ok(Self {
                    $($name: {
                        let name = concat!("sim_", stringify!($name), "\0");
                        // SAFETY: an open handle and a text that ends with NUL.
                        let at = unsafe { libc::dlsym(handle, name.as_ptr().cast()) };
                        if at.is_null() {
                            return Err(format!("no symbol {name}"));
                        }
                        // SAFETY: sim.h declares it with this type.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($arg),*) $(-> $ret)?,
                            >(at)
                        }
                    },)*
                })
            }
        }
    };
}

library! {
    begin: fn(*const Params);
    now: fn() -> u64;
    wall: fn() -> i64;
    next: fn() -> u64;
    run: fn(u64);
    listen: fn(bool);
    connection: fn() -> u32;
    take: fn(u32, *mut c_void, u32) -> c_int;
    give: fn(u32, *const c_void, u32);
    cut: fn(u32);
    crash: fn(bool);
    tell: fn(bool);
    truth: fn(*mut Truth);
    count: fn(*mut Counts);
    failure: fn() -> *const c_char;
    signals: fn() -> u64;
    ready: fn() -> bool;
    settled: fn() -> bool;
    clean: fn() -> bool;
    dump: fn();
    breaker: fn() -> u32;
    pending: fn(*mut u32) -> u32;
}

/// The simulator's library, which holds one world per process and thread, so it is not `Send`.
#[derive(Debug)]
pub struct Sim {
    functions: Functions,
    one_thread: std::marker::PhantomData<*mut c_void>,
}

impl Sim {
    /// Loads the library.
    ///
    /// # Errors
    /// The file is not there, or not of this version.
    pub fn load(path: &Path) -> Result<Self, String> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: a text that ends with NUL; the library's constructors do nothing.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: after a failed dlopen() it is a text, until the next call.
            let why = unsafe { CStr::from_ptr(libc::dlerror()) };
            return Err(why.to_string_lossy().into_owned());
        }
        // SAFETY: the handle is never closed.
        let functions = unsafe { Functions::find(handle) }?;
        Ok(Self { functions, one_thread: std::marker::PhantomData })
    }

    /// Begins an episode: everything before is forgotten.
    pub fn begin(&self, params: &Params) {
        // SAFETY: the structure is that of sim.h; this holds for all calls below, none of which
        // keeps a pointer beyond the call.
        unsafe { (self.functions.begin)(params) }
    }

    pub fn now(&self) -> u64 {
        // SAFETY: see `begin`.
        unsafe { (self.functions.now)() }
    }

    pub fn wall(&self) -> i64 {
        // SAFETY: see `begin`.
        unsafe { (self.functions.wall)() }
    }

    pub fn next(&self) -> u64 {
        // SAFETY: see `begin`.
        unsafe { (self.functions.next)() }
    }

    pub fn run(&self, until: u64) {
        // SAFETY: see `begin`.
        unsafe { (self.functions.run)(until) }
    }

    pub fn listen(&self, on: bool) {
        // SAFETY: see `begin`.
        unsafe { (self.functions.listen)(on) }
    }

    pub fn connection(&self) -> u32 {
        // SAFETY: see `begin`.
        unsafe { (self.functions.connection)() }
    }

    /// Takes the next packet of the plugin; returns its bytes, 0: none now; `None`: none will come.
    pub fn take(&self, connection: u32, packet: &mut [u8]) -> Option<usize> {
        let room = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        // SAFETY: see `begin`; `room` bytes are there.
        let len = unsafe { (self.functions.take)(connection, packet.as_mut_ptr().cast(), room) };
        usize::try_from(len).ok()
    }

    pub fn give(&self, connection: u32, packet: &[u8]) {
        let len = u32::try_from(packet.len()).unwrap_or(0);
        // SAFETY: see `begin`; `len` bytes are there.
        unsafe { (self.functions.give)(connection, packet.as_ptr().cast(), len) }
    }

    pub fn cut(&self, connection: u32) {
        // SAFETY: see `begin`.
        unsafe { (self.functions.cut)(connection) }
    }

    pub fn crash(&self, power: bool) {
        // SAFETY: see `begin`.
        unsafe { (self.functions.crash)(power) }
    }

    pub fn tell(&self, quiet: bool) {
        // SAFETY: see `begin`.
        unsafe { (self.functions.tell)(quiet) }
    }

    pub fn truth(&self) -> Truth {
        let mut truth = Truth {
            node_count: 0,
            job_count: 0,
            memory_mb: [0; NODES_MAX],
            jobs: [Job::default(); JOBS_MAX],
        };
        // SAFETY: see `begin`.
        unsafe { (self.functions.truth)(&raw mut truth) };
        truth
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        // SAFETY: see `begin`.
        unsafe { (self.functions.count)(&raw mut counts) };
        counts
    }

    pub fn failure(&self) -> Option<String> {
        // SAFETY: see `begin`.
        let text = unsafe { (self.functions.failure)() };
        // SAFETY: NULL or a text in the library, which does not change meanwhile.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    pub fn ready(&self) -> bool {
        // SAFETY: see `begin`.
        unsafe { (self.functions.ready)() }
    }

    pub fn signals(&self) -> u64 {
        // SAFETY: see `begin`.
        unsafe { (self.functions.signals)() }
    }

    pub fn settled(&self) -> bool {
        // SAFETY: see `begin`.
        unsafe { (self.functions.settled)() }
    }

    /// Writes what differs from the expected state to the log.
    pub fn dump(&self) {
        // SAFETY: see `begin`.
        unsafe { (self.functions.dump)() }
    }

    pub fn clean(&self) -> bool {
        // SAFETY: see `begin`.
        unsafe { (self.functions.clean)() }
    }

    pub fn breaker(&self) -> u32 {
        // SAFETY: see `begin`.
        unsafe { (self.functions.breaker)() }
    }

    /// Returns the ids of the jobs that wait.
    pub fn pending(&self) -> Vec<u32> {
        let mut ids = [0; JOBS_MAX];
        // SAFETY: see `begin`; so many fit.
        let count = unsafe { (self.functions.pending)(ids.as_mut_ptr()) };
        ids.iter().take(count as usize).copied().collect()
    }
}
