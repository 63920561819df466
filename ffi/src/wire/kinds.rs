// SPDX-License-Identifier: GPL-3.0-or-later
//! The header's enumerations as Rust enums.

use super::sys;

/// Defines an enum over constants of the header, with `from_raw`, `raw` and a name for logs.
macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident: $raw:ty {
        $($(#[$vdoc:meta])* $variant:ident = $constant:ident, $text:literal;)+
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)+
        }

        impl $name {
            /// Every value, in the header's order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// Returns the value of a number on the wire; `None` if it has no meaning.
            pub fn from_raw(raw: $raw) -> Option<Self> {
                match u32::from(raw) {
                    $(sys::$constant => Some($name::$variant),)+
                    _ => None,
                }
            }

            /// Returns the number on the wire.
            pub const fn raw(self) -> $raw {
                match self {
                    $($name::$variant => {
                        const { assert!(sys::$constant <= <$raw>::MAX as u32) };
                        #[allow(clippy::cast_possible_truncation, reason = "asserted above")]
                        { sys::$constant as $raw }
                    })+
                }
            }

            /// Returns a stable name for logs and counters.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

wire_enum! {
    /// Message types; below 64 plugin to daemon, from 64 daemon to plugin.
    Type: u16 {
        /// The message [`super::Hello`].
        Hello = PHX_HELLO, "HELLO";
        /// The message [`super::SyncBegin`].
        SyncBegin = PHX_SYNC_BEGIN, "SYNC_BEGIN";
        /// The message [`super::GresNames`].
        GresNames = PHX_GRES_NAMES, "GRES_NAMES";
        /// The message [`super::Nodes`].
        Nodes = PHX_NODES, "NODES";
        /// The message [`super::Job`].
        Job = PHX_JOB, "JOB";
        /// The message [`super::JobEnd`].
        JobEnd = PHX_JOB_END, "JOB_END";
        /// The message [`super::SyncEnd`].
        SyncEnd = PHX_SYNC_END, "SYNC_END";
        /// The message [`super::Ask`].
        Ask = PHX_ASK, "ASK";
        /// The message [`super::Outcome`].
        Outcome = PHX_OUTCOME, "OUTCOME";
        /// The message [`super::Stats`].
        Stats = PHX_STATS, "STATS";
        /// The message [`super::Queue`].
        Queue = PHX_QUEUE, "QUEUE";
        /// The message [`super::Topology`].
        Topology = PHX_TOPOLOGY, "TOPOLOGY";
        /// The message [`super::Ends`].
        Ends = PHX_ENDS, "ENDS";
        /// The message [`super::Welcome`].
        Welcome = PHX_WELCOME, "WELCOME";
        /// The message [`super::Welcome`].
        Config = PHX_CONFIG, "CONFIG";
        /// The message [`super::Answer`].
        Answer = PHX_ANSWER, "ANSWER";
        /// The message [`super::Resync`].
        Resync = PHX_RESYNC, "RESYNC";
        /// The message [`super::Order`].
        Order = PHX_ORDER, "ORDER";
    }
}

wire_enum! {
    /// Whether the plugin writes deltas, or the reason why it does not.
    OrderState: u32 {
        /// The daemon did not ask for deltas.
        Off = PHX_O_OFF, "off";
        /// Deltas are written.
        Active = PHX_O_ACTIVE, "active";
        /// PriorityType is not priority/multifactor.
        Priority = PHX_O_PRIORITY, "PriorityType is not priority/multifactor";
        /// PriorityFlags=INCR_ONLY: no delta could be undone.
        IncrOnly = PHX_O_INCR_ONLY, "PriorityFlags=INCR_ONLY";
        /// A site_factor plugin owns the field site_factor.
        SitePlugin = PHX_O_SITE_PLUGIN, "PrioritySiteFactorPlugin is in use";
        /// slurmctld lacks a function that the writing of deltas needs.
        Symbol = PHX_O_SYMBOL, "slurmctld lacks a function";
        /// The ledger cannot be read or written.
        Ledger = PHX_O_LEDGER, "the ledger in StateSaveLocation cannot be kept";
        /// Deltas of an earlier slurmctld are being removed.
        Residue = PHX_O_RESIDUE, "removing deltas of an earlier slurmctld";
        /// slurm.conf allows no delta.
        Site = PHX_O_SITE, "SchedulerParameters lacks phalanx_order=MAX";
    }
}

wire_enum! {
    /// Mode of a call of `job_test()`.
    Mode: u16 {
        /// The job starts now if nodes are free.
        RunNow = PHX_RUN_NOW, "run_now";
        /// Asks whether the job could ever run.
        TestOnly = PHX_TEST_ONLY, "test_only";
        /// Asks for the earliest start.
        WillRun = PHX_WILL_RUN, "will_run";
    }
}

wire_enum! {
    /// Kind of proof that comes with an answer.
    Proof: u32 {
        /// Proves nothing.
        None = PHX_P_NONE, "none";
        /// A success on some candidates is a success on all.
        TestOnly = PHX_P_TEST_ONLY, "test_only";
        /// No start on all candidates is earlier than stock's start on the chosen ones.
        WillRun = PHX_P_WILL_RUN, "will_run";
        /// Too few candidates have room.
        NoFit = PHX_P_NO_FIT, "no_fit";
    }
}

wire_enum! {
    /// Result of a proof.
    ProofResult: u16 {
        /// The answer had no proof.
        None = PHX_PR_NONE, "none";
        /// Stock's result on the chosen nodes was taken.
        Accepted = PHX_PR_ACCEPTED, "accepted";
        /// The proof was not accepted, so that stock was asked on all candidates.
        Rejected = PHX_PR_REJECTED, "rejected";
        /// The proof was accepted, and stock, asked on all candidates, found nothing better.
        Verified = PHX_PR_VERIFIED, "verified";
        /// The proof was accepted, but stock, asked on all candidates, found something better.
        Refuted = PHX_PR_REFUTED, "refuted";
    }
}

wire_enum! {
    /// Verdict of an answer.
    Verdict: u16 {
        /// Slurm decides alone.
        NoOpinion = PHX_NO_OPINION, "no_opinion";
        /// Slurm is to try the answered nodes first.
        Narrow = PHX_NARROW, "narrow";
    }
}

wire_enum! {
    /// Why the plugin sent a job's allocation.
    Cause: u32 {
        /// The job started.
        Begin = PHX_CAUSE_BEGIN, "begin";
        /// Part of a full state.
        Sync = PHX_CAUSE_SYNC, "sync";
        /// The job gave nodes back.
        Resize = PHX_CAUSE_RESIZE, "resize";
        /// The job was suspended.
        Suspend = PHX_CAUSE_SUSPEND, "suspend";
        /// The job was resumed.
        Resume = PHX_CAUSE_RESUME, "resume";
        /// The job got another job's nodes.
        Expand = PHX_CAUSE_EXPAND, "expand";
    }
}

wire_enum! {
    /// Why there is no opinion, or why a narrowed call was not made or not kept. Numbers below 16
    /// are the daemon's reasons, from 16 on the plugin's.
    Reason: u16 {
        /// The job was placed on the narrowed set.
        None = PHX_R_NONE, "none";
        /// The mode is off for the job's partition.
        Off = PHX_R_OFF, "off";
        /// The daemon decided, but mode shadow leaves the job to Slurm.
        Shadow = PHX_R_SHADOW, "shadow";
        /// No candidate has room now.
        NoFit = PHX_R_NO_FIT, "no_fit";
        /// Request of a kind that is left to Slurm.
        Unsupported = PHX_R_UNSUPPORTED, "unsupported";
        /// State incomplete.
        NotSynced = PHX_R_NOT_SYNCED, "not_synced";
        /// Every candidate would be chosen.
        NoChoice = PHX_R_NO_CHOICE, "no_choice";
        /// Balance holds the job: no node improves, waiting is better.
        Held = PHX_R_HELD, "held";
        /// The daemon saw the ask's deadline pass.
        Late = PHX_R_LATE, "late";
        /// The plugin is not connected.
        Down = PHX_R_DOWN, "down";
        /// Circuit breaker open.
        Breaker = PHX_R_BREAKER, "breaker";
        /// No answer came within the deadline.
        Timeout = PHX_R_TIMEOUT, "timeout";
        /// The answer was refused: nodes that are no candidates, too many, or too few.
        Invalid = PHX_R_INVALID, "invalid";
        /// The socket was full.
        Send = PHX_R_SEND, "send";
        /// The job names nodes, by `--nodelist` and the like.
        ReqNodes = PHX_R_REQ_NODES, "req_nodes";
        /// The call may not be narrowed.
        Skipped = PHX_R_SKIPPED, "skipped";
        /// Stock refused the narrowed set.
        NarrowFailed = PHX_R_NARROW_FAILED, "narrow_failed";
        /// Planning: the narrowed set is free only later.
        NarrowLater = PHX_R_NARROW_LATER, "narrow_later";
        /// The plugin is connected, but has not sent its whole state yet.
        Syncing = PHX_R_SYNCING, "syncing";
        /// The candidates are of too many classes.
        Classes = PHX_R_CLASSES, "classes";
        /// slurmctld's structures are not those that the overlay was built for, so it is inert.
        Layout = PHX_R_LAYOUT, "layout";
        /// The time for asks is spent.
        Spent = PHX_R_SPENT, "spent";
    }
}
