// SPDX-License-Identifier: GPL-3.0-or-later
//! Finds the files and blocks of a path or pattern, by any [`BlockSource`].

use std::collections::BTreeSet;

use super::error::{HdfsError, at_most};
use super::glob::{self, Component};
use super::source::{BlockSource, Entry, Kind, Sink};
use phalanx_core::blocks::Located;
use phalanx_core::limits::{HDFS_DIRECTORIES_MAX, HDFS_FILES_MAX};

/// Returns the files of a path or pattern with their blocks. Hidden files (`_x`, `.x`) of
/// directories are left out, as MapReduce does.
pub(super) fn locate(
    source: &mut impl BlockSource,
    path: &str,
    recursive: bool,
    base: &str,
) -> Result<Located, HdfsError> {
    let mut sink = Sink::default();
    let roots = expand(source, path)?;
    let mut alone = Vec::new();
    for root in roots {
        match root.kind {
            Kind::File => alone.push(root),
            Kind::Directory => directory(source, &root.path, recursive, &mut sink)?,
            Kind::Link => sink.warn(format!("{}: a symbolic link, left out", root.path)),
        }
    }
    for file in &alone {
        source.blocks(std::slice::from_ref(file), false, &mut sink)?;
    }
    Ok(sink.finish(base))
}

fn hidden(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with(['_', '.']))
}

fn directory(
    source: &mut impl BlockSource,
    root: &str,
    recursive: bool,
    sink: &mut Sink,
) -> Result<(), HdfsError> {
    // In order of paths, whatever the depth.
    let mut open = BTreeSet::from([root.to_owned()]);
    let mut seen = 0usize;
    while let Some(path) = open.pop_first() {
        seen += 1;
        at_most(HDFS_DIRECTORIES_MAX, seen, root, "directories")?;
        let mut files = Vec::new();
        let entries = source.list(&path, HDFS_FILES_MAX)?;
        let listed = entries.iter().all(Entry::is_small);
        for entry in entries {
            match entry.kind {
                _ if hidden(&entry.path) => {}
                Kind::File => files.push(entry),
                Kind::Directory if recursive => {
                    open.insert(entry.path);
                }
                Kind::Directory => {
                    sink.warn(format!(
                        "{}: a directory, left out; `recursive` takes it",
                        entry.path
                    ));
                }
                Kind::Link => sink.warn(format!("{}: a symbolic link, left out", entry.path)),
            }
        }
        source.blocks(&files, listed, sink)?;
    }
    Ok(())
}

/// The files and directories that a path or pattern means.
fn expand(source: &mut impl BlockSource, path: &str) -> Result<Vec<Entry>, HdfsError> {
    let components = glob::parse(path)?;
    let nothing = || HdfsError::NotFound(path.to_owned());
    if components.iter().all(|component| matches!(component, Component::Name(_))) {
        return Ok(vec![source.status(path)?.ok_or_else(nothing)?]);
    }
    let mut found = vec![String::new()];
    let mut entries = Vec::new();
    for (at, component) in components.iter().enumerate() {
        let last = at + 1 == components.len();
        let mut next = Vec::new();
        for directory in &found {
            step(source, directory, component, &mut next)?;
            at_most(HDFS_FILES_MAX, next.len(), path, "files match")?;
        }
        if last {
            entries = next;
        } else {
            let inner = next.into_iter().filter(|e| e.kind == Kind::Directory);
            found = inner.map(|e| e.path).collect();
            at_most(HDFS_DIRECTORIES_MAX, found.len(), path, "directories match")?;
        }
    }
    if entries.is_empty() { Err(nothing()) } else { Ok(entries) }
}

/// The entries of a directory (given without a final `/`) that match a component of a pattern.
fn step(
    source: &mut impl BlockSource,
    directory: &str,
    component: &Component,
    next: &mut Vec<Entry>,
) -> Result<(), HdfsError> {
    if let Component::Name(name) = component {
        next.extend(source.status(&format!("{directory}/{name}"))?);
        return Ok(());
    }
    let path = if directory.is_empty() { "/" } else { directory };
    let entries = source.list(path, HDFS_FILES_MAX)?;
    let name = |entry: &Entry| entry.path.rsplit('/').next().unwrap_or_default().to_owned();
    next.extend(entries.into_iter().filter(|e| !hidden(&e.path) && component.matches(&name(e))));
    Ok(())
}
