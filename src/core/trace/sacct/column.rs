// SPDX-License-Identifier: GPL-3.0-or-later
//! The columns that are understood.

/// A column that is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    JobId,
    JobIdRaw,
    Cluster,
    User,
    Account,
    Name,
    Partition,
    Qos,
    Comment,
    AdminComment,
    Submit,
    Eligible,
    Priority,
    Reservation,
    Constraints,
    Start,
    End,
    Elapsed,
    ElapsedRaw,
    State,
    ExitCode,
    Nodes,
    NodeList,
    ReqNodes,
    Cpus,
    ReqCpus,
    ReqTres,
    AllocTres,
    Limit,
    LimitRaw,
    Energy,
    EnergyRaw,
    ReqMem,
    /// Text of users that is not used.
    OtherText,
}

impl Column {
    /// Whether the column may hold separators and line ends as text.
    pub(super) fn is_text(self) -> bool {
        use Column::{AdminComment, Comment, Constraints, Name, OtherText};
        matches!(self, Name | Comment | AdminComment | Constraints | OtherText)
    }

    /// Returns the column of sacct's name, in any case.
    pub(super) fn of(name: &str) -> Option<Column> {
        Some(match name.to_ascii_lowercase().as_str() {
            "jobid" => Column::JobId,
            "jobidraw" => Column::JobIdRaw,
            "cluster" => Column::Cluster,
            "user" => Column::User,
            "account" => Column::Account,
            "jobname" => Column::Name,
            "partition" => Column::Partition,
            "qos" => Column::Qos,
            "comment" => Column::Comment,
            "admincomment" => Column::AdminComment,
            "submit" => Column::Submit,
            "eligible" => Column::Eligible,
            "priority" => Column::Priority,
            "reservation" => Column::Reservation,
            "constraints" => Column::Constraints,
            "start" => Column::Start,
            "end" => Column::End,
            "elapsed" => Column::Elapsed,
            "elapsedraw" => Column::ElapsedRaw,
            "state" => Column::State,
            "exitcode" => Column::ExitCode,
            "nnodes" | "allocnodes" => Column::Nodes,
            "nodelist" => Column::NodeList,
            "reqnodes" => Column::ReqNodes,
            "ncpus" | "alloccpus" => Column::Cpus,
            "reqcpus" => Column::ReqCpus,
            "reqtres" => Column::ReqTres,
            "alloctres" => Column::AllocTres,
            "timelimit" => Column::Limit,
            "timelimitraw" => Column::LimitRaw,
            "consumedenergy" => Column::Energy,
            "consumedenergyraw" => Column::EnergyRaw,
            "reqmem" => Column::ReqMem,
            "submitline" | "workdir" | "systemcomment" | "extra" | "failednode" | "container"
            | "reason" | "wckey" | "licenses" | "stderr" | "stdin" | "stdout" => Column::OtherText,
            _ => return None,
        })
    }
}
