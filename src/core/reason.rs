// SPDX-License-Identifier: GPL-3.0-or-later
//! Slurm's reasons why a job waits: for whom or what, and what ends the wait.
//!
//! The words are those of `squeue -o %r`, of all releases up to 26.05. Those of limits are
//! read by their parts, `QOSMaxCpuPerUserLimit`, as Slurm composes them of a name for each
//! kind of resource.

use serde::{Deserialize, Serialize};

use crate::snapshot::{Job, Partition, Snapshot};

/// Kinds of what a waiting job waits for.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WaitsFor {
    /// Free nodes, or the job's turn in the queue.
    #[default]
    Nodes,
    /// A moment, the ends of other jobs, or work of Slurm that ends by itself.
    Time,
    /// Jobs under the same limit, or used time that decays.
    Limit,
    /// A command of a user or of an administrator.
    Person,
    /// Nothing that may come: as it was submitted, the job does not start.
    Never,
}

impl WaitsFor {
    /// All kinds, in the order of [`WaitsFor`].
    pub const ALL: [Self; 5] = [Self::Nodes, Self::Time, Self::Limit, Self::Person, Self::Never];

    /// Reads Slurm's word; an unknown word counts as a limit, as most new ones are.
    pub fn of(word: &str) -> Self {
        let row = REASONS.iter().find(|(known, ..)| *known == word);
        row.map_or_else(|| of_limit(word).map_or(Self::Limit, |known| known.0), |row| row.1)
    }

    /// Short text for a table, which names what the job waits for.
    pub fn text(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Time => "a time or other jobs",
            Self::Limit => "a limit",
            Self::Person => "somebody's command",
            Self::Never => "nothing: it never starts as submitted",
        }
    }

    /// The word of JSON and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Time => "time",
            Self::Limit => "limit",
            Self::Person => "person",
            Self::Never => "never",
        }
    }
}

/// Returns the kind of what a job waits for; never, if it asks for more than the cluster has.
pub fn waits_for(snapshot: &Snapshot, job: &Job) -> WaitsFor {
    match too_large(snapshot, job) {
        Some(_) => WaitsFor::Never,
        None => WaitsFor::of(&job.reason),
    }
}

/// Whether free nodes are all that a waiting job lacks.
pub fn is_for_nodes(job: &Job) -> bool {
    WaitsFor::of(&job.reason) == WaitsFor::Nodes
}

/// Says what keeps the job from running, beside nodes, and the command that ends it: `held by its
/// user: scontrol release 12`.
pub fn sentence(snapshot: &Snapshot, job: &Job) -> Option<String> {
    let id = job.id;
    let command = |text: &str| text.replace("ID", &id.to_string());
    if let Some(text) = too_large(snapshot, job) {
        return Some(format!("as submitted it never starts: {text}"));
    }
    let row = REASONS.iter().find(|(known, ..)| *known == &*job.reason);
    let (class, text) = match row {
        Some((_, class, text)) => (*class, command(text)),
        None => limited(job),
    };
    match class {
        _ if text.is_empty() => None,
        WaitsFor::Never => Some(format!("as submitted it never starts: {text}")),
        _ => Some(text),
    }
}

use WaitsFor::{Limit, Never, Nodes, Person, Time};

/// Word, class, and the text for the user, where `ID` stands for the job. An empty text: what the
/// nodes lack says more.
const REASONS: &[(&str, WaitsFor, &str)] = &[
    ("", Nodes, ""),
    ("None", Nodes, ""),
    ("Resources", Nodes, ""),
    ("Priority", Nodes, ""),
    ("Licenses", Nodes, ""),
    ("ReqNodeNotAvail", Nodes, "nodes that it needs are down, drained or reserved: sinfo -R"),
    ("NodeDown", Nodes, ""),
    ("BurstBufferResources", Nodes, "the burst buffer has no room"),
    ("MaxPoweredUpNodes", Nodes, "as many nodes are powered up as may be at once"),
    ("MpiPortsBusy", Nodes, "the ports of MPI are in use on its nodes"),
    ("NvidiaImexChannels", Nodes, "all NVIDIA IMEX channels are in use"),
    (
        "BeginTime",
        Time,
        "its begin time has not come; at once: scontrol update JobId=ID StartTime=now",
    ),
    ("Dependency", Time, "other jobs have to end first; scontrol show job ID names them"),
    ("Reservation", Time, "its reservation has not begun, or is full: scontrol show reservation"),
    ("BurstBufferStageIn", Time, "its files are copied to the burst buffer"),
    ("Cleaning", Time, "its last run is not cleaned up yet"),
    ("Prolog", Time, "the prolog runs"),
    ("SchedDefer", Time, "it is looked at with the next pass of the scheduler"),
    ("FedJobLock", Time, "another cluster of the federation looks at it"),
    (
        "JobArrayTaskLimit",
        Limit,
        "its array runs as many tasks as it may at once; \
         more: scontrol update JobId=ID ArrayTaskThrottle=N",
    ),
    ("QOSUsageThreshold", Limit, "its account has used more than its QOS permits for now"),
    ("AssociationJobLimit", Limit, "as many jobs of its account run as may"),
    ("AssociationResourceLimit", Limit, "its account uses as much as it may"),
    ("AssociationTimeLimit", Limit, "its account has used its time"),
    ("QOSJobLimit", Limit, "as many jobs of its QOS run as may"),
    ("QOSResourceLimit", Limit, "its QOS uses as much as it may"),
    ("QOSTimeLimit", Limit, "its QOS has used its time"),
    ("AccountingPolicy", Limit, "a limit of its account or QOS is reached"),
    ("JobHeldUser", Person, "its user holds it; scontrol release ID"),
    ("JobHeldAdmin", Person, "an administrator holds it and has to release it"),
    ("JobHoldMaxRequeue", Person, "it was requeued as often as may be; scontrol release ID"),
    ("JobLaunchFailure", Person, "it could not be launched; scontrol release ID"),
    ("PartitionDown", Person, "its partition is down; an administrator has to open it"),
    ("PartitionInactive", Person, "its partition is inactive; an administrator has to open it"),
    ("BurstBufferOperation", Person, "the burst buffer failed; scontrol show job ID says how"),
    ("SystemFailure", Person, "Slurm failed to start it; its administrator's log says why"),
    (
        "PartitionTimeLimit",
        Never,
        "its time limit is above MaxTime of its partition; scontrol update JobId=ID TimeLimit=T",
    ),
    (
        "PartitionNodeLimit",
        Never,
        "its number of nodes is not what its partition permits; \
         scontrol update JobId=ID NumNodes=N",
    ),
    ("PartitionConfig", Never, "its partition does not permit what it asks for"),
    (
        "DependencyNeverSatisfied",
        Never,
        "a job that it depends on did not end as it has to; \
         scontrol update JobId=ID Dependency= or scancel ID",
    ),
    (
        "BadConstraints",
        Never,
        "no nodes have what --constraint asks for; scontrol update JobId=ID Features=F",
    ),
    (
        "DeadLine",
        Never,
        "it can not end before its deadline; scontrol update JobId=ID Deadline=TIME",
    ),
    (
        "InvalidAccount",
        Never,
        "its account is none of its user's; scontrol update JobId=ID Account=A",
    ),
    ("AccountNotAllowed", Never, "its account may not use the partition"),
    ("InvalidQOS", Never, "its QOS is none of its account's; scontrol update JobId=ID QOS=Q"),
    ("QOSNotAllowed", Never, "its QOS may not be used in the partition"),
    (
        "MaxMemPerLimit",
        Never,
        "it asks for more memory than MaxMemPerCPU or MaxMemPerNode; \
         scontrol update JobId=ID MinMemoryNode=M",
    ),
    (
        "ReservationDeleted",
        Never,
        "its reservation is gone; scontrol update JobId=ID ReservationName=",
    ),
    (
        "ReservationInvalid",
        Never,
        "its reservation is not one that it may use; scontrol update JobId=ID ReservationName=",
    ),
];

/// Reads a limit of accounting by the parts of its word: class, owner of the limit, and what it
/// bounds.
fn of_limit(word: &str) -> Option<(WaitsFor, &'static str, &'static str)> {
    let (whose, rest) = match (word.strip_prefix("QOS"), word.strip_prefix("Assoc")) {
        (Some(rest), _) => ("QOS", rest),
        (_, Some(rest)) => ("account", rest),
        _ if word.contains("PerAccount") || word.contains("PerUser") => ("QOS", word),
        _ => return None,
    };
    if rest.starts_with("Min") {
        return Some((Never, whose, "asks for less than a job has to"));
    }
    let used = rest.contains("Minutes") || rest.contains("Mins") || rest.contains("Wall");
    if rest.contains("PerJob") || rest.contains("PerNode") || rest.starts_with("MaxWall") {
        return Some((Never, whose, "asks for more than one job may have"));
    }
    if !(rest.starts_with("Grp") || rest.starts_with("Max")) {
        return None;
    }
    let of_running = rest.contains("Run");
    let of_time = "has less time left than it asks for";
    Some((Limit, whose, if used && !of_running { of_time } else { "would have more than it may" }))
}

/// Makes the sentence of a limit of accounting, or of a reason that no release up to now has.
fn limited(job: &Job) -> (WaitsFor, String) {
    let word = &*job.reason;
    let Some((class, whose, what)) = of_limit(word) else {
        return (Limit, format!("Slurm holds it back ({word})"));
    };
    let who = match (class, whose) {
        (Never, _) => "it".to_owned(),
        (_, "QOS") => format!("its QOS {}", job.qos),
        (_, _) if word.contains("Max") => format!("its user with account {}", job.account),
        _ => format!("its account {} or one above", job.account),
    };
    let show = match whose {
        "QOS" => format!("sacctmgr show qos {}", job.qos),
        _ => format!("sacctmgr show assoc account={} user={}", job.account, job.user),
    };
    let never = match class {
        // The limit itself is not known here, so neither is whether the job fits it alone.
        Limit => ": if the job exceeds that alone, it never starts",
        _ => "",
    };
    (class, format!("{who} {what} ({word}){never}; the limits: {show}"))
}

/// Names both numbers where the job exceeds a bound of its partition, or all licences of a name.
fn too_large(snapshot: &Snapshot, job: &Job) -> Option<String> {
    let of_job = |part: &&Partition| job.partitions.split(',').any(|name| *name == *part.name);
    let parts = || snapshot.partitions.iter().filter(of_job);
    let name = || parts().map(|part| &*part.name).collect::<Vec<_>>().join(",");
    let id = job.id;
    match &*job.reason {
        "PartitionTimeLimit" => {
            let limit = job.time_limit_min?;
            let most = parts().filter_map(|part| part.max_time_min).max()?;
            (limit > most).then(|| {
                let (limit, most) = (slurm_time(limit), slurm_time(most));
                format!(
                    "its time limit is {limit}, MaxTime of {} {most}; \
                     scontrol update JobId={id} TimeLimit={most}",
                    name()
                )
            })
        }
        "PartitionNodeLimit" => {
            let (least, most) = (job.shape.min_nodes, job.shape.max_nodes.max(1));
            let (key, bound) = match parts().filter_map(|part| part.max_nodes).max() {
                Some(bound) if least > bound => ("MaxNodes", bound),
                _ => ("MinNodes", parts().map(|part| part.min_nodes).min().filter(|b| most < *b)?),
            };
            let asked = if key == "MaxNodes" { least } else { most };
            let nodes = if asked == 1 { "node" } else { "nodes" };
            Some(format!(
                "it asks for {asked} {nodes}, {key} of {} is {bound}; \
                 scontrol update JobId={id} NumNodes={bound}",
                name()
            ))
        }
        // 24.11 says that such a job waits for a reservation.
        "Licenses" | "Reservation" => job.licenses.iter().find_map(|(name, wanted)| {
            let pool = snapshot.licenses.iter().find(|pool| pool.name == *name)?;
            (*wanted > pool.total).then(|| {
                format!(
                    "it asks for {wanted} licences {name}, there are {}; \
                     scontrol update JobId={id} Licenses=L",
                    pool.total
                )
            })
        }),
        _ => None,
    }
}

/// A limit in minutes as Slurm writes it: `1-06:30:00`.
fn slurm_time(minutes: u32) -> String {
    let (days, hours, rest) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    match days {
        0 => format!("{hours:02}:{rest:02}:00"),
        _ => format!("{days}-{hours:02}:{rest:02}:00"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::License;

    /// Goal: every word of the newest release has a class that somebody decided on.
    #[test]
    fn each_reason_of_the_newest_release_has_a_class() {
        let words = include_str!("tests/data/reasons-26.05.txt").lines();
        for word in words.filter(|word| !word.starts_with('#')) {
            let row = REASONS.iter().any(|(known, ..)| *known == word);
            assert!(row || of_limit(word).is_some(), "{word}");
        }
        assert_eq!(of_limit("SomethingNew"), None);
    }

    #[test]
    fn limits_are_read_by_their_parts() {
        let class = WaitsFor::of;
        let never = ["QOSMaxCpuPerJobLimit", "AssocMaxWallDurationPerJobLimit", "QOSMinGRES"];
        assert!(never.iter().all(|word| class(word) == Never));
        let limits = ["QOSMaxJobsPerUserLimit", "AssocGrpCPUMinutesLimit", "MaxCpuPerAccount"];
        assert!(limits.iter().all(|word| class(word) == Limit));
        assert_eq!((class("SomethingNew"), class("Priority")), (Limit, Nodes));
        assert_eq!(
            of_limit("AssocGrpCPURunMinutesLimit").map(|l| l.2),
            of_limit("QOSGrpCpuLimit").map(|l| l.2)
        );
        assert!(of_limit("AssocGrpWallLimit").is_some_and(|known| known.2.contains("time")));
    }

    #[test]
    fn sentences_have_the_number_and_the_command() {
        let part = Partition {
            name: "cpu".into(),
            max_time_min: Some(1440),
            min_nodes: 2,
            max_nodes: Some(4),
            ..Partition::default()
        };
        let mut snapshot = Snapshot::default();
        snapshot.partitions = vec![part];
        snapshot.licenses = vec![License { name: "matlab".into(), total: 2, used: 0 }];
        let job = |reason: &str| Job {
            id: 202,
            reason: reason.into(),
            partitions: "cpu".into(),
            time_limit_min: Some(3 * 1440),
            qos: "short".into(),
            ..Job::default()
        };
        let said = |job: &Job| sentence(&snapshot, job).unwrap_or_default();
        let time = "as submitted it never starts: its time limit is 3-00:00:00, MaxTime of cpu \
                    1-00:00:00; scontrol update JobId=202 TimeLimit=1-00:00:00";
        assert_eq!(said(&job("PartitionTimeLimit")), time);
        let mut wide = job("PartitionNodeLimit");
        (wide.shape.min_nodes, wide.shape.max_nodes) = (8, 8);
        assert!(said(&wide).contains("8 nodes, MaxNodes of cpu is 4"), "{}", said(&wide));
        (wide.shape.min_nodes, wide.shape.max_nodes) = (1, 1);
        let narrow = "it asks for 1 node, MinNodes of cpu is 2; \
                      scontrol update JobId=202 NumNodes=2";
        assert!(said(&wide).ends_with(narrow), "{}", said(&wide));
        assert_eq!(said(&job("JobHeldUser")), "its user holds it; scontrol release 202");
        assert_eq!(
            said(&job("QOSMaxJobsPerUserLimit")),
            "its QOS short would have more than it may (QOSMaxJobsPerUserLimit): if the job \
             exceeds that alone, it never starts; the limits: sacctmgr show qos short"
        );
        let wants = |wanted| vec![("matlab".into(), wanted)];
        let licensed = |wanted| Job { licenses: wants(wanted), ..job("Licenses") };
        let many = "as submitted it never starts: it asks for 3 licences matlab, there are 2; \
                    scontrol update JobId=202 Licenses=L";
        assert_eq!(said(&licensed(3)), many);
        assert_eq!(sentence(&snapshot, &licensed(2)), None);
        let classes = [3, 2].map(|wanted| waits_for(&snapshot, &licensed(wanted)));
        assert_eq!(classes, [Never, Nodes]);
        assert_eq!(sentence(&snapshot, &job("Resources")), None);
        assert!(said(&job("ReqNodeNotAvail")).contains("down, drained or reserved"));
        assert_eq!(said(&job("SomethingNew")), "Slurm holds it back (SomethingNew)");
    }
}
