// SPDX-License-Identifier: GPL-3.0-or-later
//! Lines and files that slurmctld refuses as it starts although the parser of Slurm's commands
//! takes them, as seen on slurmctld 22.05.8.

use std::path::Path;

use super::facts::Facts;
use super::report::Finding;
use crate::slurm_conf::{Get, SlurmConf};
use phalanx_core::hostlist;
use phalanx_core::limits::TEXT_NAMES_MAX;
use phalanx_core::slurm_conf::{Form, lines};

/// States that a NodeName line may give, and states of which Slurm reads the beginning alone.
const STATES: [&str; 7] = ["UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "MIXED", "FUTURE", "EXTERNAL"];
const STATE_BEGINS: [&str; 3] = ["DRAIN", "FAIL", "CLOUD"];
/// Resources that Slurm counts without being asked, and beginnings of the names of other ones.
const TRES: [&str; 8] = ["cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages"];
const TRES_BEGINS: [&str; 5] = ["gres/", "license/", "fs/", "ic/", "bb/"];
/// Keys of cgroup.conf of all releases from 22.05 on, by the kind of their value.
const CGROUP_YES_NO: [&str; 10] = [
    "cgroupautomount",
    "constraincores",
    "constraindevices",
    "constrainkmemspace",
    "constrainramspace",
    "constrainswapspace",
    "enablecontrollers",
    "enableextracontrollers",
    "ignoresystemd",
    "ignoresystemdonfailure",
];
const CGROUP_NUMBERS: [&str; 9] = [
    "allowedkmemspace",
    "allowedramspace",
    "allowedswapspace",
    "maxkmempercent",
    "maxrampercent",
    "maxswappercent",
    "memoryswappiness",
    "minkmemspace",
    "minramspace",
];
const CGROUP_TEXTS: [&str; 6] = [
    "alloweddevicesfile",
    "cgroupmountpoint",
    "cgroupplugin",
    "cgroupslice",
    "signalchildrenprocesses",
    "systemdtimeout",
];
/// Keys that 22.05 does not have.
const CGROUP_LATER: [&str; 5] = [
    "cgroupslice",
    "enablecontrollers",
    "enableextracontrollers",
    "signalchildrenprocesses",
    "systemdtimeout",
];
const YES_NO: [&str; 8] = ["yes", "up", "true", "1", "no", "down", "false", "0"];

pub(super) fn all(facts: &Facts, conf: &SlurmConf) -> Vec<Finding> {
    let mut out = Vec::new();
    let early = facts.installed().is_some_and(|file| file.version.starts_with("22.05"));
    // Later releases start without, to have partitions by scontrol.
    if early && conf.partitions.is_empty() {
        out.push(refused("no PartitionName".into(), "PartitionName=main Nodes=ALL Default=YES"));
    }
    nodes(conf, &mut out);
    tres(conf, &mut out);
    out.extend(licenses(conf));
    let files = facts.files.iter();
    out.extend(files.map(|one| {
        refused(format!("{}: {}", one.key, one.what), one.fix).at(facts.place(one.key))
    }));
    if let Some((path, text)) = &facts.cgroup {
        out.extend(cgroup(path, text, early));
    }
    out
}

fn refused(what: String, fix: &str) -> Finding {
    Finding::error("slurm-conf", what).why("slurmctld does not start with it").fix(fix)
}

/// Finds states that slurmctld does not know, and lists of hosts, addresses and ports that are not
/// as long as the list of names.
fn nodes(conf: &SlurmConf, out: &mut Vec<Finding>) {
    let mut room = TEXT_NAMES_MAX;
    let mut count = |text: &str| hostlist::expand_within(text, &mut room).ok().map(|all| all.len());
    let all = conf.records("nodename", &mut |names, place, get| {
        let mut wrong = |what: String, fix: &str| {
            let what = format!("NodeName={names}: {what}");
            out.push(refused(what, fix).at(Some(place.to_owned())));
        };
        let state = get("state").unwrap_or("UNKNOWN");
        let upper = state.to_ascii_uppercase();
        let begins = || STATE_BEGINS.iter().any(|known| upper.starts_with(known));
        if !STATES.contains(&&*upper) && !begins() {
            let what = format!("State={state} is none that slurmctld knows");
            wrong(what, "UNKNOWN, CLOUD, DOWN, DRAIN, FAIL or FUTURE");
        }
        let Some(of_names) = count(names) else { return Ok(()) };
        for key in ["NodeHostname", "NodeAddr", "BcastAddr", "Port"] {
            let Some(text) = get(&key.to_ascii_lowercase()) else { continue };
            let text = if key == "Port" { ports(text) } else { text.to_owned() };
            match count(&text) {
                Some(own) if own > 1 && own != of_names => {
                    let what = format!("{key} has {own} values, the names are {of_names}");
                    wrong(what, "one for all, or one for each name");
                }
                _ => {}
            }
            if key == "Port" && text.bytes().any(|byte| byte.is_ascii_alphabetic()) {
                wrong(format!("Port={text} is no number"), "Port=NUMBER, or a range of them");
            }
        }
        Ok(())
    });
    // What cannot be read was refused when the file was.
    debug_assert!(all.is_ok());
}

/// Converts a list of ports to a list of names.
fn ports(text: &str) -> String {
    if text.contains('[') { text.to_owned() } else { format!("[{text}]") }
}

/// Finds licences whose number is none.
fn licenses(conf: &SlurmConf) -> Option<Finding> {
    let (all, place) = conf.get("Licenses")?;
    let is_wrong = |one: &&str| {
        let number = one.split_once([':', '=']).map_or("", |(_, number)| number);
        one.starts_with(' ') || number.bytes().any(|byte| !byte.is_ascii_digit())
    };
    let wrong = all.split([',', ';']).find(is_wrong)?;
    let what = match wrong.starts_with(' ') {
        true => format!("Licenses: a blank before{wrong}"),
        false => format!("Licenses: {wrong} has no number"),
    };
    Some(refused(what, "NAME:NUMBER, several with commas").at(Some(place.to_owned())))
}

/// Finds kinds of resources that Slurm does not count and so has no weights for.
fn tres(conf: &SlurmConf, out: &mut Vec<Finding>) {
    let setting = |key| conf.get(key).unwrap_or_default();
    let (counted, place) = setting("AccountingStorageTRES");
    let counted = counted.to_ascii_lowercase();
    let more = || counted.split(',').filter(|name| !name.is_empty() && !TRES.contains(name));
    let has_database = setting("AccountingStorageType").0.ends_with("slurmdbd");
    for name in more() {
        let is_kind =
            TRES_BEGINS.iter().any(|kind| name.len() > kind.len() && name.starts_with(kind));
        let what = match (is_kind, has_database) {
            (true, true) => continue,
            (true, false) => format!("AccountingStorageTRES: {name} is counted by slurmdbd alone"),
            (false, _) => format!("AccountingStorageTRES: {name} is no kind of resource"),
        };
        let fix =
            "AccountingStorageTRES=gres/gpu with AccountingStorageType=accounting_storage/slurmdbd";
        out.push(refused(what, fix).at(Some(place.to_owned())));
    }
    let base = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    let is_counted = |name: &str| {
        let name = name.to_ascii_lowercase();
        TRES.contains(&&*name) || more().any(|one| base(one) == base(&name))
    };
    let mut weights = |key: &str, text: &str, place: &str| {
        let wrong = |one: &&str| {
            let (name, value) = one.split_once('=').unwrap_or((one, ""));
            let value = value.trim_start_matches(['-', '+', '.']);
            let is_number = value.starts_with(|first: char| first.is_ascii_digit());
            !is_counted(name) || !is_number || value.contains([';', '='])
        };
        let Some(one) = text.split(',').filter(|one| !one.is_empty()).find(wrong) else { return };
        let name = one.split('=').next().unwrap_or_default();
        let (what, fix) = match is_counted(name) {
            true => (format!("{key}: {one:?} has no number"), "KEY=NUMBER"),
            false => {
                let what = format!("{key}: {name:?} is not counted");
                (what, "CPU, Mem or Node; others in AccountingStorageTRES too; no blanks")
            }
        };
        out.push(refused(what, fix).at(Some(place.to_owned())));
    };
    if setting("PriorityType").0.ends_with("multifactor") {
        let (text, place) = setting("PriorityWeightTRES");
        weights("PriorityWeightTRES", text, place);
    }
    let all = conf.records("partitionname", &mut |_, place, get: Get<'_, '_>| {
        weights("TRESBillingWeights", get("tresbillingweights").unwrap_or_default(), place);
        Ok(())
    });
    debug_assert!(all.is_ok());
}

/// Finds the first line of cgroup.conf that Slurm does not take.
fn cgroup(path: &Path, text: &str, early: bool) -> Option<Finding> {
    let wrong = |line: &phalanx_core::slurm_conf::Line| {
        let [pair] = &line.settings[..] else { return Some("expected one KEY=VALUE".to_owned()) };
        let (key, value) = (&*pair.key, pair.value.to_ascii_lowercase());
        let is_number = || value.parse::<f64>().is_ok();
        match () {
            () if !line.rest.is_empty() => Some("expected one KEY=VALUE".to_owned()),
            () if early && CGROUP_LATER.contains(&key) => Some(format!("22.05 has no {key}")),
            () if CGROUP_YES_NO.contains(&key) => {
                (!YES_NO.contains(&&*value)).then(|| format!("{key}: expected yes or no"))
            }
            () if CGROUP_NUMBERS.contains(&key) => {
                (!is_number()).then(|| format!("{key}: expected a number, got {value:?}"))
            }
            () if CGROUP_TEXTS.contains(&key) => None,
            () => Some(format!("{key} is no key of it")),
        }
    };
    let lines = lines(text, Form::File);
    let (line, what) = lines.iter().find_map(|line| Some((line, wrong(line)?)))?;
    let place = format!("{}:{}", path.display(), line.number);
    Some(refused(what, "as cgroup.conf(5) says").at(Some(place)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn conf(text: &str) -> SlurmConf {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        SlurmConf::read(file.path()).unwrap()
    }

    fn found(text: &str) -> Vec<String> {
        let (conf, mut out) = (conf(text), Vec::new());
        nodes(&conf, &mut out);
        tres(&conf, &mut out);
        out.extend(licenses(&conf));
        out.into_iter().map(|one| one.what).collect()
    }

    /// Goal: what slurmctld 22.05.8 was seen to refuse is found, what it took is not.
    #[test]
    fn lines_that_slurmctld_refuses() {
        let part = |weights: &str| format!("PartitionName=a TRESBillingWeights=\"{weights}\"");
        let of_priority = |weights: &str| {
            format!("PriorityType=priority/multifactor\nPriorityWeightTRES={weights}")
        };
        for (text, word) in [
            ("NodeName=n[1-4] State=UNKOWN".to_owned(), "State=UNKOWN"),
            ("NodeName=n[1-4] Port=[1-3]".to_owned(), "Port has 3 values, the names are 4"),
            ("NodeName=n[1-4] Port=1-3".to_owned(), "Port has 3 values"),
            ("NodeName=n[1-4] Port=one".to_owned(), "is no number"),
            ("NodeName=n[1-4] NodeAddr=h[1-3]".to_owned(), "NodeAddr has 3 values"),
            ("NodeName=n[1-4] BcastAddr=h[1-5]".to_owned(), "BcastAddr has 5 values"),
            ("Licenses=a:ten".to_owned(), "a:ten has no number"),
            ("Licenses=\"a:1, b:2\"".to_owned(), "a blank before b:2"),
            (part("CPU=1,GRES/gpu=2"), "\"GRES/gpu\" is not counted"),
            (part("CPU=1, Mem=2"), "\" Mem\" is not counted"),
            (part("Memory=1"), "is not counted"),
            (part("CPU:1"), "is not counted"),
            (part("CPU=1;Mem=2"), "has no number"),
            (part("Mem=x"), "has no number"),
            (of_priority("CPU=1,GRES/gpu=2"), "is not counted"),
            ("AccountingStorageTRES=gres/gpu".to_owned(), "counted by slurmdbd alone"),
            ("AccountingStorageTRES=gpu".to_owned(), "no kind of resource"),
            ("AccountingStorageTRES=gres".to_owned(), "no kind of resource"),
        ] {
            let all = found(&text);
            assert!(all.len() == 1 && all[0].contains(word), "{text}: {all:?}");
        }
        let counted = "AccountingStorageType=accounting_storage/slurmdbd\n\
                       AccountingStorageTRES=gres/gpu:a100\n";
        for text in [
            "NodeName=n[1-4] Port=[1-4] NodeAddr=h BcastAddr=b[1-4]".to_owned(),
            "NodeName=n[1-4] Port=1,2,3,4 NodeHostname=localhost State=CLOUD".to_owned(),
            "Licenses=a,b:2;c=3".to_owned(),
            part("CPU=1.0,Mem=0.25G,node=-1,fs/disk=1,"),
            counted.to_owned() + &part("GRES/gpu=1"),
            "PriorityWeightTRES=Memory=1".to_owned(),
            "AccountingStorageTRES=cpu,mem".to_owned(),
        ] {
            assert_eq!(found(&text), [""; 0], "{text}");
        }
    }

    #[test]
    fn lines_of_cgroup_conf() {
        let judged = |text: &str| cgroup(Path::new("/c"), text, true).map(|one| one.what);
        for wrong in [
            "ConstrainCore=yes",
            "ConstrainCores=maybe",
            "TaskAffinity=yes",
            "AllowedRAMSpace=90%",
            "EnableControllers=yes",
            "ConstrainCores",
            "ConstrainCores=yes ConstrainDevices=yes",
        ] {
            assert!(judged(wrong).is_some(), "{wrong}");
        }
        let right = "CgroupAutomount=yes\nConstrainCores = YES # c\nMaxRAMPercent=90\n\
                     CgroupPlugin=autodetect\n";
        assert_eq!(judged(right), None);
        assert_eq!(cgroup(Path::new("/c"), "EnableControllers=yes", false), None);
    }
}
