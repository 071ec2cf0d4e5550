//! What a landing refuses, because something of the user's would be lost by it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::writing::GITLINK;
use super::{Error, Site, nodes};
use crate::checkout::{Change, Node};
use crate::files::STATE_DIRECTORY;
use crate::{commit, limits};

impl Site {
    /// Is it where runs keep their journals and what people answered, here or in a project inside this one?
    pub(super) fn is_own_state(&self, path: &Path) -> bool {
        let is_named = |part: &OsStr| part.eq_ignore_ascii_case(STATE_DIRECTORY);
        // A worktree of ours lies in the state directory; the other way round it is a part that no work is about.
        let state =
            self.checkout.scratch().parent().and_then(|state| state.strip_prefix(self.checkout.top()).ok());
        path.iter().any(is_named) || state.is_some_and(|state| path.starts_with(state))
    }

    pub(crate) fn refuse_unready(&self) -> Result<(), Error> {
        commit::refuse_under_way(&self.checkout)?;
        let unmerged = self.checkout.unmerged()?;
        if !unmerged.is_empty() {
            return Err(Error::Unmerged { paths: unmerged });
        }
        match self.checkout.branch() {
            Some(_) => Ok(()),
            None => Err(Error::Detached { path: self.checkout.top().to_owned() }),
        }
    }

    /// Refuses changes to what the user has changed and not committed. Answers what that is.
    pub(crate) fn refuse_uncommitted(
        &self,
        head: &str,
        changes: &[Change],
    ) -> Result<BTreeMap<PathBuf, Option<Node>>, Error> {
        let in_files = nodes(self.checkout.changes(head, &self.checkout.snapshot()?.tree)?);
        let staged = nodes(self.staged(head)?);
        let carried =
            self.carried.as_ref().map(|carried| self.checkout.changes(head, carried)).transpose()?;
        let carried = nodes(carried.unwrap_or_default());
        // What is here already as the merge would have it is no work that could be lost.
        let differs = |here: &BTreeMap<PathBuf, Option<Node>>, change: &Change| {
            here.get(&change.path).is_some_and(|node| *node != change.after)
        };
        // Nor is what the run was given, and was built upon.
        let is_known = |path: &PathBuf| carried.contains_key(path) && carried.get(path) == in_files.get(path);
        let lost = changes.iter().filter(|change| {
            (differs(&in_files, change) && !is_known(&change.path)) || differs(&staged, change)
        });
        refuse(lost, |paths| Error::Uncommitted { paths })?;
        Ok(in_files)
    }
}

/// What lies on disk where a file is to be written, and is not one of the files that are to be replaced or removed.
pub(crate) fn in_the_way(top: &Path, changes: &[Change]) -> Vec<Change> {
    let tracked: BTreeMap<&Path, ()> = changes
        .iter()
        .filter(|change| change.before.is_some())
        .map(|change| (change.path.as_path(), ()))
        .collect();
    let is_ours = |path: &Path| tracked.contains_key(path);
    let blocked = |change: &&Change| {
        let is_written = change.after.as_ref().is_some_and(|node| node.mode != GITLINK);
        if !is_written {
            return false;
        }
        let parents = change.path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
        let bad_parent = parents.into_iter().any(|parent| {
            let is_no_directory = top.join(parent).symlink_metadata().is_ok_and(|facts| !facts.is_dir());
            is_no_directory && !is_ours(parent)
        });
        let stranger = match top.join(&change.path).symlink_metadata() {
            Ok(facts) if facts.is_dir() => holds_others(top, &change.path, &is_ours),
            Ok(_) => change.before.is_none(),
            Err(_) => false,
        };
        bad_parent || stranger
    };
    changes.iter().filter(blocked).cloned().collect()
}

/// Is there anything below this directory that is not ours to remove?
fn holds_others(top: &Path, directory: &Path, is_ours: &dyn Fn(&Path) -> bool) -> bool {
    let Ok(found) = fs::read_dir(top.join(directory)) else { return true };
    found.flatten().any(|entry| {
        let path = directory.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => holds_others(top, &path, is_ours),
            Ok(_) | Err(_) => !is_ours(&path),
        }
    })
}

pub(super) fn refuse<C: std::borrow::Borrow<Change>>(
    changes: impl Iterator<Item = C>,
    error: impl Fn(Vec<PathBuf>) -> Error,
) -> Result<(), Error> {
    let paths: Vec<PathBuf> = changes.map(|change| change.borrow().path.clone()).collect();
    if paths.is_empty() { Ok(()) } else { Err(error(paths)) }
}

/// Some of the paths, so that they fit into a sentence. A name may be anything, a line break included.
pub(crate) fn shown(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths
        .iter()
        .take(limits::PATHS_SHOWN_MAX)
        .map(|path| path.display().to_string().escape_debug().to_string())
        .collect();
    match paths.len().saturating_sub(names.len()) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
