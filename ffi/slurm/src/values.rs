// SPDX-License-Identifier: GPL-3.0-or-later
//! Slurm's sentinels and small enumerations as types.

use crate::shim;

/// A number that Slurm may leave unset or unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit<T> {
    /// No value was set (`NO_VAL`).
    Unset,
    /// The value is without limit (`INFINITE`).
    Infinite,
    /// A number.
    Value(T),
}

impl<T> Limit<T> {
    /// Returns the number, if there is one.
    pub fn value(self) -> Option<T> {
        match self {
            Limit::Value(value) => Some(value),
            Limit::Unset | Limit::Infinite => None,
        }
    }
}

pub(super) fn limit16(raw: u16) -> Limit<u16> {
    match u32::from(raw) {
        shim::PLS_NO_VAL16 => Limit::Unset,
        shim::PLS_INFINITE16 => Limit::Infinite,
        _ => Limit::Value(raw),
    }
}

pub(super) fn limit32(raw: u32) -> Limit<u32> {
    match raw {
        shim::PLS_NO_VAL => Limit::Unset,
        shim::PLS_INFINITE => Limit::Infinite,
        _ => Limit::Value(raw),
    }
}

pub(super) fn limit64(raw: u64) -> Limit<u64> {
    match raw {
        shim::PLS_NO_VAL64 => Limit::Unset,
        shim::PLS_INFINITE64 => Limit::Infinite,
        _ => Limit::Value(raw),
    }
}

/// Memory that a job asks for, or a limit of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Memory {
    /// No memory was asked for, or 0: for a request all of the node, for a limit no limit.
    Unset,
    /// MiB on each node.
    PerNodeMib(u64),
    /// MiB for each CPU.
    PerCpuMib(u64),
}

pub(super) fn memory(raw: u64) -> Memory {
    let mib = raw & !shim::PLS_MEM_PER_CPU;
    match limit64(raw) {
        Limit::Unset | Limit::Infinite => Memory::Unset,
        Limit::Value(_) if mib == 0 => Memory::Unset,
        Limit::Value(_) if raw != mib => Memory::PerCpuMib(mib),
        Limit::Value(_) => Memory::PerNodeMib(mib),
    }
}

/// Cores or threads that a job leaves to the system on each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CoreSpec {
    /// Whole cores.
    Cores(u16),
    /// Hardware threads.
    Threads(u16),
}

pub(super) fn core_spec(raw: u16) -> Option<CoreSpec> {
    let raw = limit16(raw).value()?;
    // The flag and the counts below it are all of 16 bits.
    let threads = u32::from(raw) & shim::PLS_CORE_SPEC_THREAD != 0;
    let count = raw & 0x7fff;
    Some(if threads { CoreSpec::Threads(count) } else { CoreSpec::Cores(count) })
}

/// Whether a job shares its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// The partition decides.
    Default,
    /// The job wants whole nodes, `--exclusive`.
    Exclusive,
    /// The job shares, `--oversubscribe`.
    OverSubscribe,
    /// The job shares with the user's own jobs only, `--exclusive=user`.
    User,
    /// The job shares nodes with jobs of its MCS label only, `--exclusive=mcs`.
    Mcs,
}

pub(super) fn sharing(raw: u16) -> Sharing {
    match u32::from(raw) {
        shim::PLS_SHARED_NONE => Sharing::Exclusive,
        shim::PLS_SHARED_OK => Sharing::OverSubscribe,
        shim::PLS_SHARED_USER => Sharing::User,
        shim::PLS_SHARED_MCS => Sharing::Mcs,
        _ => Sharing::Default,
    }
}

/// Defines an enum over consecutive constants of the shim's header.
macro_rules! base_state {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$vdoc:meta])* $variant:ident = $constant:ident, $text:literal;)+
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)+
            /// A number that this release does not have.
            Other(u8),
        }

        impl $name {
            fn from_raw(base: u8) -> Self {
                match u32::from(base) {
                    $(shim::$constant => $name::$variant,)+
                    _ => $name::Other(base),
                }
            }

            /// Returns Slurm's name of the state.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                    $name::Other(_) => "?",
                }
            }
        }
    };
}

base_state! {
    /// State of a job without its flags.
    JobBase {
        /// The job is queued.
        Pending = PLS_JOB_PENDING, "PENDING";
        /// The job has its resources.
        Running = PLS_JOB_RUNNING, "RUNNING";
        /// The job has its resources, but is stopped.
        Suspended = PLS_JOB_SUSPENDED, "SUSPENDED";
        /// The job ended with exit code 0.
        Complete = PLS_JOB_COMPLETE, "COMPLETED";
        /// The job was cancelled by a user.
        Cancelled = PLS_JOB_CANCELLED, "CANCELLED";
        /// The job ended with an exit code other than 0.
        Failed = PLS_JOB_FAILED, "FAILED";
        /// The job reached its time limit.
        Timeout = PLS_JOB_TIMEOUT, "TIMEOUT";
        /// A node failed.
        NodeFail = PLS_JOB_NODE_FAIL, "NODE_FAIL";
        /// Preempted.
        Preempted = PLS_JOB_PREEMPTED, "PREEMPTED";
        /// The job's nodes did not boot.
        BootFail = PLS_JOB_BOOT_FAIL, "BOOT_FAIL";
        /// The job reached its deadline.
        Deadline = PLS_JOB_DEADLINE, "DEADLINE";
        /// Out of memory.
        OutOfMemory = PLS_JOB_OOM, "OUT_OF_MEMORY";
    }
}

base_state! {
    /// State of a node without its flags.
    NodeBase {
        /// The node has not yet registered.
        Unknown = PLS_NODE_UNKNOWN, "UNKNOWN";
        /// The node cannot be used.
        Down = PLS_NODE_DOWN, "DOWN";
        /// The node has no jobs.
        Idle = PLS_NODE_IDLE, "IDLE";
        /// The node is fully allocated.
        Allocated = PLS_NODE_ALLOCATED, "ALLOCATED";
        /// State that Slurm no longer uses.
        Error = PLS_NODE_ERROR, "ERROR";
        /// The node is partly allocated.
        Mixed = PLS_NODE_MIXED, "MIXED";
        /// The slot is kept for a node to come.
        Future = PLS_NODE_FUTURE, "FUTURE";
    }
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobState(pub(super) u32);

impl JobState {
    /// Returns the state without its flags.
    pub fn base(self) -> JobBase {
        JobBase::from_raw(low_byte(self.0 & shim::PLS_JOB_STATE_BASE))
    }

    /// Whether the job holds resources: running or suspended, or pending with its nodes booting.
    pub fn holds_resources(self) -> bool {
        matches!(self.base(), JobBase::Running | JobBase::Suspended)
    }

    /// Whether the job has ended, though the epilog may still run.
    pub fn is_finished(self) -> bool {
        !matches!(self.base(), JobBase::Pending | JobBase::Running | JobBase::Suspended)
    }

    /// Whether the epilog runs on some node.
    pub fn is_completing(self) -> bool {
        self.0 & shim::PLS_JOB_COMPLETING != 0
    }

    /// Whether the job's nodes are booting.
    pub fn is_configuring(self) -> bool {
        self.0 & shim::PLS_JOB_CONFIGURING != 0
    }
}

/// State of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeState(pub(super) u32);

impl NodeState {
    /// Returns the state without its flags.
    pub fn base(self) -> NodeBase {
        NodeBase::from_raw(low_byte(self.0 & shim::PLS_NODE_STATE_BASE))
    }

    /// Whether a flag is set; one of [`crate::shim`]'s `PLS_NODE_*` bits.
    pub fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    /// Whether new jobs may start on the node, as far as its state goes: up, not draining, failing,
    /// rebooting, in maintenance or powering down. A powered-down node of a cloud counts: slurmctld
    /// boots it for a job.
    pub fn is_available(self) -> bool {
        let up = matches!(self.base(), NodeBase::Idle | NodeBase::Allocated | NodeBase::Mixed);
        up && !self.has(
            shim::PLS_NODE_DRAIN
                | shim::PLS_NODE_FAIL
                | shim::PLS_NODE_NO_RESPOND
                | shim::PLS_NODE_MAINT
                | shim::PLS_NODE_POWERING_DOWN
                | shim::PLS_NODE_POWER_DOWN
                | shim::PLS_NODE_REBOOT_ISSUED
                | shim::PLS_NODE_REBOOT_REQUESTED
                | shim::PLS_NODE_INVALID_REG,
        )
    }
}

/// Returns the lowest byte of a state that was masked to it.
fn low_byte(masked: u32) -> u8 {
    masked.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_become_variants() {
        assert_eq!(limit32(0xffff_fffe), Limit::Unset);
        assert_eq!(limit32(0xffff_ffff), Limit::Infinite);
        assert_eq!(limit32(0xffff_fffd), Limit::Value(0xffff_fffd));
        assert_eq!(limit16(0xfffe), Limit::Unset);
        assert_eq!(limit16(0xffff), Limit::Infinite);
        assert_eq!(limit64(u64::MAX - 1), Limit::Unset);
        assert_eq!(limit64(5).value(), Some(5));
    }

    #[test]
    fn memory_is_per_node_or_per_cpu() {
        assert_eq!(memory(4096), Memory::PerNodeMib(4096));
        assert_eq!(memory(1 << 63 | 512), Memory::PerCpuMib(512));
        assert_eq!(memory(0), Memory::Unset);
        assert_eq!(memory(u64::MAX - 1), Memory::Unset);
    }

    #[test]
    fn core_specs_count_cores_or_threads() {
        assert_eq!(core_spec(2), Some(CoreSpec::Cores(2)));
        assert_eq!(core_spec(0x8003), Some(CoreSpec::Threads(3)));
        assert_eq!(core_spec(0xfffe), None);
    }

    #[test]
    fn sharing_is_a_jobs_wish() {
        assert_eq!(sharing(0), Sharing::Exclusive);
        assert_eq!(sharing(2), Sharing::User);
        assert_eq!(sharing(0xfffe), Sharing::Default);
    }

    #[test]
    fn states_split_into_base_and_flags() {
        let completing = JobState(shim::PLS_JOB_COMPLETING | shim::PLS_JOB_FAILED);
        assert_eq!(completing.base(), JobBase::Failed);
        assert!(completing.is_completing() && completing.is_finished());
        assert_eq!(JobState(99).base(), JobBase::Other(99));
        let drained = NodeState(shim::PLS_NODE_IDLE | shim::PLS_NODE_DRAIN);
        assert_eq!(drained.base(), NodeBase::Idle);
        assert!(!drained.is_available());
        let cloud = shim::PLS_NODE_IDLE | shim::PLS_NODE_CLOUD | shim::PLS_NODE_POWERED_DOWN;
        assert!(NodeState(cloud).is_available());
        assert!(!NodeState(shim::PLS_NODE_DOWN).is_available());
    }
}
