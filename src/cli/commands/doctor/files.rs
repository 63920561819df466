// SPDX-License-Identifier: GPL-3.0-or-later
//! Files and directories that slurmctld needs on the controller.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::slurm_conf::SlurmConf;

/// A file or directory that slurmctld needs and does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unusable {
    pub(super) key: &'static str,
    pub(super) what: String,
    pub(super) fix: &'static str,
}

/// Looks, on the controller, for the files that slurmctld has to read and write.
pub(super) fn files(conf: &SlurmConf, user: Option<u32>, groups: &[u32]) -> Vec<Unusable> {
    let setting = |key| conf.get(key).map(|(value, _)| value).unwrap_or_default();
    let has = |key, name: &str| {
        setting(key).split(',').any(|one| one.trim().rsplit('/').next() == Some(name))
    };
    let mut out = Vec::new();
    let mut add = |key, what: Option<String>, fix| {
        out.extend(what.map(|what| Unusable { key, what, fix }));
    };
    let state = match setting("StateSaveLocation") {
        "" => "/var/spool",
        state => state,
    };
    let what = directory(Path::new(state), user, groups);
    add("StateSaveLocation", what, "install -d -o SLURMUSER -m 700 DIRECTORY");
    let exists = "its directory has to exist";
    let log = setting("SlurmSchedLogFile");
    add("SlurmSchedLogFile", parent(log), exists);
    if has("JobCompType", "filetxt") {
        add("JobCompLoc", parent(setting("JobCompLoc")), exists);
    }
    let beside = |name: &str| conf.path.with_file_name(name);
    let lacks = |path: PathBuf| {
        let error = std::fs::metadata(&path).err()?.kind();
        let is_away = [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error);
        is_away.then(|| format!("{} does not exist", path.display()))
    };
    if has("JobSubmitPlugins", "lua") {
        add("JobSubmitPlugins", lacks(beside("job_submit.lua")), "the script, beside slurm.conf");
    }
    if has("NodeFeaturesPlugins", "helpers") {
        add("NodeFeaturesPlugins", lacks(beside("helpers.conf")), "as helpers.conf(5) says");
    }
    if has("AuthAltTypes", "jwt") {
        let keys = ["jwt_key=", "jwks="];
        let given = setting("AuthAltParameters").split(',').rev();
        let mut given =
            given.filter_map(|one| keys.iter().find_map(|key| one.trim().strip_prefix(key)));
        let key =
            given.next().map_or_else(|| Path::new(state).join("jwt_hs256.key"), PathBuf::from);
        add("AuthAltTypes", lacks(key), "AuthAltParameters=jwt_key=FILE");
    }
    out
}

/// Whether the path of a file, if absolute, leads to a directory that exists.
fn parent(file: &str) -> Option<String> {
    let above = Path::new(file).parent().filter(|above| above.is_absolute())?;
    let there = std::fs::metadata(above).is_ok_and(|meta| meta.is_dir());
    (!there).then(|| format!("{file}: {} is no directory", above.display()))
}

/// Says why a user may not make a directory, or not work in it; nothing, if this cannot be known.
fn directory(path: &Path, user: Option<u32>, groups: &[u32]) -> Option<String> {
    let user = user.filter(|_| path.is_absolute())?;
    let may = |meta: &std::fs::Metadata, wanted: u32| {
        let shift = match () {
            () if meta.uid() == user => 6,
            () if groups.contains(&meta.gid()) => 3,
            () => 0,
        };
        user == 0 || (meta.mode() >> shift) & wanted == wanted
    };
    let (shown, search, work) = (path.display(), 1, 7);
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    for one in &above {
        match std::fs::metadata(one) {
            Ok(meta) if !meta.is_dir() => {
                return Some(format!("{shown}: {} is no directory", one.display()));
            }
            Ok(meta) if !may(&meta, search) => {
                return Some(format!("{shown}: SlurmUser may not enter {}", one.display()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let what = format!("{shown}: {} does not exist, and", one.display());
                return Some(format!("{what} slurmctld makes the last directory alone"));
            }
            Err(_) => return None,
        }
    }
    match std::fs::metadata(path) {
        Ok(meta) if !meta.is_dir() => Some(format!("{shown} is no directory")),
        Ok(meta) if !may(&meta, work) => Some(format!("{shown}: SlurmUser may not write there")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let meta = std::fs::metadata(above.last()?).ok()?;
            (!may(&meta, 3)).then(|| format!("{shown}: SlurmUser may not make it"))
        }
        _ => None,
    }
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

    /// Goal: a directory that SlurmUser can neither make nor write is found, one that slurmctld
    /// makes by itself is not.
    #[test]
    fn directories_and_files_of_slurmctld() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, mode) in [("open", 0o777), ("shut", 0o755), ("dark", 0o700)] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::set_permissions(at(name), PermissionsExt::from_mode(mode)).unwrap();
        }
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(at("file"), "").unwrap();
        let other = std::fs::metadata(folder.path()).unwrap().uid() + 1;
        let why = |name: &str| directory(&at(name), Some(other), &[]);
        for (name, word) in [
            ("open/a/b", "does not exist, and slurmctld makes the last directory alone"),
            ("file", "is no directory"),
            ("file/a", "is no directory"),
            ("shut", "may not write there"),
            ("shut/a", "may not make it"),
            ("dark/a", "may not enter"),
        ] {
            assert!(why(name).is_some_and(|what| what.contains(word)), "{name}: {:?}", why(name));
        }
        assert_eq!([why("open"), why("open/a")], [None, None]);
        assert_eq!(directory(&at("shut/a"), Some(0), &[]), None, "root may");
        let text = format!(
            "StateSaveLocation={0}/file\nSlurmSchedLogFile={0}/no/log\nJobCompLoc={0}/no/x\n\
             JobCompType=jobcomp/filetxt\nJobSubmitPlugins=lua\nAuthAltTypes=auth/jwt\n\
             NodeFeaturesPlugins=node_features/helpers\n",
            folder.path().display()
        );
        let keys = files(&conf(&text), Some(0), &[]).into_iter().map(|one| one.key);
        let all = [
            "StateSaveLocation",
            "SlurmSchedLogFile",
            "JobCompLoc",
            "JobSubmitPlugins",
            "NodeFeaturesPlugins",
            "AuthAltTypes",
        ];
        assert_eq!(keys.collect::<Vec<_>>(), all);
        let right = conf(&format!("StateSaveLocation={}", at("open/new").display()));
        assert_eq!(files(&right, Some(other), &[]), []);
    }
}
