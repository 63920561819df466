// SPDX-License-Identifier: GPL-3.0-or-later
//! Slurm's tables through libslurm: jobs, nodes, partitions, reservations,
//! licences and the controller's configuration.
//!
//! [`Slurm::init`] gives the one handle of the process. Each `load_*` call
//! asks slurmctld for a table if it changed since the [`UpdateTime`] of the
//! last one, and returns a [`Table`] that owns records and strings; iterating
//! it borrows them, nothing is copied again. Slurm's sentinels become
//! `Option`, [`Limit`] and small enums in the accessors of the rows.
//!
//! ```no_run
//! use phalanx_slurm::{Load, Slurm, UpdateTime};
//!
//! let slurm = Slurm::init()?;
//! let mut since = UpdateTime::NEVER;
//! if let Load::New(jobs) = slurm.load_jobs(since)? {
//!     since = jobs.updated();
//!     for job in jobs.iter().filter(|job| job.state().holds_resources()) {
//!         println!("{} {:?} {:?}", job.id(), job.partition(), job.time_limit_min());
//!     }
//! }
//! assert!(matches!(slurm.load_jobs(since)?, Load::Unchanged));
//! # Ok::<(), phalanx_slurm::SlurmError>(())
//! ```
//!
//! # Blocking
//! Each load is a request to slurmctld and blocks: 4 s when nothing listens on
//! its port (measured on 22.05.8), up to `MessageTimeout` when it does not
//! answer. Load from a thread that nothing else waits for.
//!
//! # Threads
//! libslurm keeps global state behind no documented locking, so all calls
//! have to come from one thread at a time. There is one [`Slurm`] per process
//! (a second [`Slurm::init`] fails with [`SlurmError::Busy`]), it is not
//! `Sync`, and its methods are the only way into libslurm; it may be moved to
//! another thread. Tables are plain memory: `Send` and `Sync`, and they
//! outlive the handle.
//!
//! # Building
//! A C shim (`shim/`) flattens libslurm's structs into fixed records; all that depends on Slurm's
//! release is in `shim/slurm_compat.h`. Needs libslurm and libclang (Debian: `libslurm-dev`,
//! `libclang-14-dev`). `SLURM_INCLUDE_DIR` and `SLURM_LIB_DIR` name another place of Slurm's
//! headers and library.
#![deny(unsafe_op_in_unsafe_fn)]

mod conf;
mod error;
mod job;
mod names;
mod node;
mod partition;
pub mod shim;
#[cfg(feature = "synth")]
#[path = "../tests/synth/mod.rs"]
pub mod synth;
mod table;
mod values;

use std::cell::Cell;
use std::ffi::CStr;
use std::fs::File;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

pub use conf::{Conf, ConfRow};
pub use error::SlurmError;
pub use job::{JobRow, Jobs};
pub use names::{job_state_text, reason_text};
pub use node::{NodeRow, Nodes};
pub use partition::{LicenseRow, Licenses, PartitionRow, Partitions, ReservationRow, Reservations};
pub use table::{Load, Record, Row, Rows, Table, UpdateTime};
pub use values::{CoreSpec, JobBase, JobState, Limit, Memory, NodeBase, NodeState, Sharing};

/// The process's use of libslurm.
#[derive(Debug)]
pub struct Slurm {
    /// Makes the handle `!Sync`: see "Threads" above.
    not_sync: PhantomData<Cell<()>>,
}

/// Whether a handle exists.
static IN_USE: AtomicBool = AtomicBool::new(false);

/// Places where libslurm looks for `slurm.conf` if the environment names none.
const CONF_DEFAULTS: [&str; 2] = ["/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"];

impl Slurm {
    /// Reads `slurm.conf`: that of `SLURM_CONF`, else Debian's.
    ///
    /// Call it before starting threads: libslurm sets `SLURM_CONF` in the
    /// environment. A file that libslurm cannot parse ends the process with
    /// libslurm's message, as it does every Slurm command.
    ///
    /// # Errors
    /// - [`SlurmError::Busy`]: a handle exists already;
    /// - [`SlurmError::NoConf`]: there is no `slurm.conf` that can be read;
    /// - [`SlurmError::Release`]: the libslurm that was loaded is of another
    ///   release than the one this program was built for.
    pub fn init() -> Result<Self, SlurmError> {
        if IN_USE.swap(true, Ordering::AcqRel) {
            return Err(SlurmError::Busy);
        }
        let started = check_conf().and_then(|()| {
            let mut found = 0;
            // SAFETY: `found` outlives the call. No other thread is in
            // libslurm: IN_USE was false, so no handle exists, and only
            // handles and their drop call libslurm's stateful functions.
            match unsafe { shim::pls_init(&raw mut found) } {
                0 => Ok(()),
                _ => Err(SlurmError::release(found)),
            }
        });
        match started {
            Ok(()) => Ok(Self { not_sync: PhantomData }),
            Err(error) => {
                IN_USE.store(false, Ordering::Release);
                Err(error)
            }
        }
    }

    /// Returns the Slurm release that this program was built for, as (major, minor, micro).
    pub fn built_for() -> (u32, u32, u32) {
        // SAFETY: returns a constant.
        let number = unsafe { shim::pls_slurm_version() };
        (number >> 16, number >> 8 & 0xff, number & 0xff)
    }

    /// Loads all jobs that slurmctld knows, ended ones until `MinJobAge`.
    ///
    /// # Errors
    /// [`SlurmError::Call`] when slurmctld cannot be asked.
    pub fn load_jobs(&self, since: UpdateTime) -> Result<Load<Jobs>, SlurmError> {
        // SAFETY: `load` is valid; `&self` of a !Sync handle: no other thread
        // is in libslurm.
        Table::load("load jobs", |load| unsafe { shim::pls_load_jobs(since.0, load) })
    }

    /// Loads one job; of an array, perhaps further tasks.
    ///
    /// # Errors
    /// [`SlurmError::Call`] when slurmctld cannot be asked, or does not know the job.
    pub fn load_job(&self, job_id: u32) -> Result<Load<Jobs>, SlurmError> {
        // SAFETY: as in load_jobs().
        Table::load("load a job", |load| unsafe { shim::pls_load_job(job_id, load) })
    }

    /// Has slurmctld look whether a waiting job can start, by an update that changes its comment
    /// or nothing.
    ///
    /// # Errors
    /// [`SlurmError::Call`] when slurmctld cannot be asked, or does not know the job.
    pub fn update_job(&self, job_id: u32, comment: Option<&CStr>) -> Result<(), SlurmError> {
        let comment = comment.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: the text outlives the call, which reads it; `&self` of a !Sync handle: no other
        // thread is in libslurm.
        match unsafe { shim::pls_update_job(job_id, comment) } {
            0 => Ok(()),
            code => Err(SlurmError::call("update job", code)),
        }
    }

    /// Loads all nodes, in the order of slurmctld's table. `gres_used`: GRES in use too, which
    /// slurmctld gathers node by node under its locks: slow on large clusters.
    ///
    /// Expensive even when nothing changed: before slurmctld compares times it recomputes every
    /// node's allocation under its node write lock (12 ms for 10,000 nodes, measured on 22.05.8).
    /// Poll it less often than jobs.
    ///
    /// # Errors
    /// [`SlurmError::Call`] when slurmctld cannot be asked.
    pub fn load_nodes(
        &self,
        since: UpdateTime,
        gres_used: bool,
    ) -> Result<Load<Nodes>, SlurmError> {
        // SAFETY: as in load_jobs().
        Table::load("load nodes", |load| unsafe {
            shim::pls_load_nodes(since.0, gres_used.into(), load)
        })
    }

    /// Loads all partitions, hidden ones included.
    ///
    /// # Errors
    /// [`SlurmError::Call`] when slurmctld cannot be asked.
    pub fn load_partitions(&self, since: UpdateTime) -> Result<Load<Partitions>, SlurmError> {
        // SAFETY: as in load_jobs().
        Table::load("load partitions", |load| unsafe { shim::pls_load_partitions(since.0, load) })
    }

    /// Loads all reservations.
    ///
    /// # Errors
    /// [`SlurmError::Call`] when slurmctld cannot be asked.
    pub fn load_reservations(&self, since: UpdateTime) -> Result<Load<Reservations>, SlurmError> {
        // SAFETY: as in load_jobs().
        Table::load("load reservations", |load| unsafe {
            shim::pls_load_reservations(since.0, load)
        })
    }

    /// Loads all licences.
    ///
    /// # Errors
    /// [`SlurmError::Call`] when slurmctld cannot be asked.
    pub fn load_licenses(&self, since: UpdateTime) -> Result<Load<Licenses>, SlurmError> {
        // SAFETY: as in load_jobs().
        Table::load("load licences", |load| unsafe { shim::pls_load_licenses(since.0, load) })
    }

    /// Loads the controller's configuration as it is in force.
    ///
    /// # Errors
    /// [`SlurmError::Call`] when slurmctld cannot be asked.
    pub fn load_conf(&self, since: UpdateTime) -> Result<Load<Conf>, SlurmError> {
        // SAFETY: as in load_jobs().
        Table::load("load the configuration", |load| unsafe { shim::pls_load_conf(since.0, load) })
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // SAFETY: this is the only handle, so no other thread is in libslurm,
        // and nothing that a load returned refers to libslurm's memory.
        unsafe { shim::pls_fini() };
        IN_USE.store(false, Ordering::Release);
    }
}

/// Checks for a configuration: libslurm ends the process when it finds none.
fn check_conf() -> Result<(), SlurmError> {
    let readable = |path: &PathBuf| File::open(path).map(|_| ());
    if let Some(path) = std::env::var_os("SLURM_CONF").map(PathBuf::from) {
        return readable(&path).map_err(|error| SlurmError::NoConf {
            place: format!("{} (from SLURM_CONF)", path.display()),
            error: error.to_string(),
        });
    }
    // Without a file libslurm asks this server.
    if std::env::var_os("SLURM_CONF_SERVER").is_some() {
        return Ok(());
    }
    let mut result = Ok(());
    for path in CONF_DEFAULTS.map(PathBuf::from) {
        match readable(&path) {
            Ok(()) => return Ok(()),
            Err(error) if result.is_ok() => {
                result = Err(SlurmError::NoConf {
                    place: path.display().to_string(),
                    error: error.to_string(),
                });
            }
            Err(_) => {}
        }
    }
    result
}
