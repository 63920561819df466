// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks programs: only those that an administrator installed may be registered and run.

use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Checks that `path`, with every symbolic link resolved, is an executable file below one of
/// `dirs`, and that nobody but root and `owner` (the user that checks) can change it, that
/// directory, or one between the two. Returns the resolved path, which is the one to run.
pub fn check(path: &Path, dirs: &[PathBuf], owner: u32) -> Result<PathBuf, String> {
    let refused = |why: String| format!("cmd {}: {why}", path.display());
    let missing = |error: std::io::Error| refused(error.to_string());
    let resolved = path.canonicalize().map_err(missing)?;
    // A directory that does not exist holds nothing.
    let mut roots = dirs.iter().filter_map(|dir| dir.canonicalize().ok());
    let Some(root) = roots.find(|root| resolved.starts_with(root)) else {
        let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        let (place, dirs) = (resolved.display(), dirs.join(", "));
        return Err(refused(format!("it is {place}, outside collect.command_dirs ({dirs})")));
    };
    let file = resolved.metadata().map_err(missing)?;
    if !file.is_file() || file.permissions().mode() & 0o111 == 0 {
        return Err(refused("expected an executable file".to_owned()));
    }
    for part in resolved.ancestors().take_while(|part| part.starts_with(&root)) {
        let metadata = part.metadata().map_err(missing)?;
        if !safe(&metadata, owner) {
            return Err(refused(format!(
                "{} may be changed by others than root and the daemon's user (owner {}, mode {:o})",
                part.display(),
                metadata.uid(),
                metadata.permissions().mode() & 0o7777
            )));
        }
    }
    Ok(resolved)
}

fn safe(metadata: &Metadata, owner: u32) -> bool {
    let ours = metadata.uid() == 0 || metadata.uid() == owner;
    ours && metadata.permissions().mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs::{self, Permissions};
    use std::os::unix::fs::symlink;

    use super::*;

    fn make(path: &Path, mode: u32) -> PathBuf {
        fs::write(path, "#!/bin/sh\necho 1\n").unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        path.to_path_buf()
    }

    /// Goal: only safe files below the directories pass, whatever path leads to them.
    #[test]
    fn only_files_that_others_cannot_change() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let (inside, outside) = (base.join("in"), base.join("out"));
        for dir in [&inside, &outside, &inside.join("sub")] {
            fs::create_dir(dir).unwrap();
            fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
        }
        let me = base.metadata().unwrap().uid();
        let dirs = [base.join("absent"), inside.clone()];
        let checked = |path: &Path| check(path, &dirs, me);
        let good = make(&inside.join("sub/good"), 0o755);
        assert_eq!(checked(&good), Ok(good.clone()));
        assert_eq!(checked(&inside.join("sub/../sub/good")), Ok(good.clone()));
        symlink(&good, outside.join("link")).unwrap();
        assert_eq!(checked(&outside.join("link")), Ok(good.clone()));

        let text = |path: &Path| checked(path).unwrap_err();
        let elsewhere = make(&outside.join("evil"), 0o755);
        assert!(text(&elsewhere).contains("outside collect.command_dirs"));
        symlink(&elsewhere, inside.join("escape")).unwrap();
        assert!(text(&inside.join("escape")).contains("outside collect.command_dirs"));
        assert!(text(&inside.join("../out/evil")).contains("outside"));
        // A directory whose name only begins alike.
        fs::create_dir(base.join("in2")).unwrap();
        assert!(text(&make(&base.join("in2/x"), 0o755)).contains("outside"));
        assert!(text(&inside.join("nothing")).contains("No such file"));
        assert!(text(&inside.join("sub")).contains("executable"));
        assert!(text(&make(&inside.join("plain"), 0o644)).contains("executable"));
        assert!(text(&make(&inside.join("open"), 0o757)).contains("mode 757"));
        assert!(text(&make(&inside.join("group"), 0o775)).contains("mode 775"));
        fs::set_permissions(inside.join("sub"), Permissions::from_mode(0o777)).unwrap();
        assert!(text(&good).contains("sub may be changed"));
        fs::set_permissions(inside.join("sub"), Permissions::from_mode(0o755)).unwrap();
        if me == 0 {
            std::os::unix::fs::chown(&good, Some(12345), None).unwrap();
            assert!(text(&good).contains("owner 12345"));
        }
    }
}
