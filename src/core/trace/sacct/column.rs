// SPDX-License-Identifier: GPL-3.0-or-later
//! The columns that are understood.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error;

/// A column that is understood, by sacct's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Column {
    JobId,
    JobIdRaw,
    Cluster,
    User,
    Account,
    JobName,
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
    #[serde(alias = "allocnodes")]
    NNodes,
    NodeList,
    ReqNodes,
    #[serde(alias = "alloccpus")]
    NCpus,
    ReqCpus,
    ReqTres,
    AllocTres,
    TimeLimit,
    TimeLimitRaw,
    ConsumedEnergy,
    ConsumedEnergyRaw,
    ReqMem,
    /// Text of users that Phalanx does not use; columns of several names.
    #[serde(skip)]
    OtherText,
}

impl Column {
    /// Whether the column may hold separators and line ends as text.
    pub(super) fn is_text(self) -> bool {
        use Column::{AdminComment, Comment, Constraints, JobName, OtherText};
        matches!(self, JobName | Comment | AdminComment | Constraints | OtherText)
    }

    /// Returns the column of sacct's name, in any case.
    pub(super) fn of(name: &str) -> Option<Column> {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "submitline" | "workdir" | "systemcomment" | "extra" | "failednode" | "container"
            | "reason" | "wckey" | "licenses" | "stderr" | "stdin" | "stdout" => {
                Some(Column::OtherText)
            }
            name => {
                let known: Result<_, Error> = Column::deserialize(name.into_deserializer());
                known.ok()
            }
        }
    }
}
